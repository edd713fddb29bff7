"""For any file, a reader yields documents or raises a `WardroundError` that does not quote the note."""

from __future__ import annotations

import gzip
import itertools
import random
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpora.strategies import BRIEF
from wardround.corpora import corpus_files
from wardround.corpora.ade import Ade
from wardround.corpora.bioc import Bioc
from wardround.corpora.cadec import Cadec
from wardround.corpora.corpus_format import CorpusFormat, Problem, Severity
from wardround.corpora.ddi import Ddi
from wardround.corpora.i2b2_2010 import I2b2Concepts
from wardround.corpora.i2b2_2014 import I2b2Deid
from wardround.corpora.label_studio import LabelStudio
from wardround.corpora.pair_tsv import PairTsv
from wardround.corpora.pubtator import Pubtator
from wardround.corpora.smm4h import Smm4h
from wardround.corpora.uima_cas import UimaCas
from wardround.corpora.webanno_tsv import WebannoTsv
from wardround.errors import WardroundError
from wardround.text.document import Document

SECRET = "quillfeather"  # occurs in every note and must occur in no message


@dataclass(frozen=True)
class Seed:
    """A small correct corpus; `victim` is the file that is damaged."""

    format: CorpusFormat
    files: tuple[tuple[str, str], ...]
    victim: str

    def lay(self, folder: Path, damaged: bytes | None = None, *, packed: bool = False) -> None:
        for name, text in self.files:
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            content = text.encode() if damaged is None or name != self.victim else damaged
            if packed and name == self.victim:
                file.unlink(missing_ok=True)
                file = file.with_name(file.name + ".gz")
            file.write_bytes(content)

    @property
    def content(self) -> bytes:
        return dict(self.files)[self.victim].encode()


NOTE = f"Dr. {SECRET} gave lunarol, é rash came."  # lunarol 22-29, rash 33-37
PUBTATOR = (
    f"1|t|{NOTE}\n1|a|More.\n1\t22\t29\tlunarol\tDrug\tD1\n1\t33\t37\trash\tADE\tD2\n1\tCauses\tD1\tD2\tNovel\n\n"
)
BIOC = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE collection SYSTEM "BioC.dtd">\n<collection>\n'
    f'<document><id>1</id><infon key="a">b</infon>\n<passage><offset>0</offset><text>{NOTE}</text>\n'
    '<annotation id="T1"><infon key="type">Drug</infon><infon key="identifier">D1</infon>'
    '<location offset="22" length="7"/><text>lunarol</text></annotation>\n'
    '<annotation id="T2"><infon key="type">ADE</infon><location offset="33" length="4"/></annotation>\n'
    '<relation id="R1"><infon key="type">c</infon><node refid="T1" role="head"/><node refid="T2" role="tail"/>'
    "</relation></passage>\n<passage><offset>50</offset><text>More.</text></passage></document>\n</collection>\n"
)
DEID = (
    f'<?xml version="1.0" encoding="UTF-8" ?>\n<deIdi2b2>\n<TEXT><![CDATA[{NOTE}]]></TEXT>\n<TAGS>\n'
    f'<NAME id="P0" start="4" end="16" text="{SECRET}" TYPE="DOCTOR" comment="" />\n</TAGS>\n</deIdi2b2>\n'
)
CONCEPTS = 'c="lunarol," 1:3 1:3||t="treatment"\nc="rash" 1:5 1:5||t="problem"\n'
I2B2 = (
    ("txt/n.txt", NOTE),
    ("concept/n.con", CONCEPTS),
    ("rel/n.rel", 'c="lunarol," 1:3 1:3||r="TrCP"||c="rash" 1:5 1:5\n'),
    ("ast/n.ast", 'c="rash" 1:5 1:5||t="problem"||a="present"\n'),
)
TWEETS = (
    "tweet_id\tbegin\tend\ttype\textraction\tdrug\ttweet\tmeddra_code\tmeddra_term\n"
    f"1\t33\t37\tADR\trash\tlunarol\t{NOTE}\t10037844\tRash\n2\t-\t-\t-\t-\t-\t{SECRET} slept\t-\t-\n"
)
CADEC = (
    ("text/X.1.txt", NOTE),
    ("original/X.1.ann", "T1\tADR 33 37\trash\n#1\tAnnotatorNotes T1\tsure\nT2\tDrug 22 25;26 29\tlun rol\n"),
    ("meddra/X.1.ann", "TT1\t10037844 33 37\trash\n"),
    ("sct/X.1.ann", "TT1\t271807003 | Rash | 33 37\trash\n"),
)
PAIR = f"{SECRET} links é @GENE$ to @DISEASE$.\t1\n"
SENTENCE = 'id="D.s0" text="Dr. quillfeather gave lunarol, é rash came."'
DDI = (
    f'<?xml version="1.0" encoding="UTF-8"?>\n<document id="D"><sentence {SENTENCE}>\n'
    '<entity id="e0" charOffset="22-28" type="drug" text="lunarol"/>\n'
    '<entity id="e1" charOffset="33-34;35-36" type="ADE" text="ra sh"/>\n'
    '<pair id="p0" e1="e0" e2="e1" ddi="true" type="effect"/></sentence></document>\n'
)
CAS_STRUCTURES = (
    f'{{"%ID": 1, "%TYPE": "uima.cas.Sofa", "sofaID": "_InitialView", "sofaString": "{NOTE}"}},\n'
    '{"%ID": 2, "%TYPE": "webanno.custom.E", "@sofa": 1, "begin": 22, "end": 29, "kind": "Drug"},\n'
    '{"%ID": 3, "%TYPE": "webanno.custom.E", "@sofa": 1, "begin": 33, "end": 37, "kind": "ADE"},\n'
    '{"%ID": 4, "%TYPE": "webanno.custom.R", "@sofa": 1, "begin": 33, "end": 37, "@Governor": 2, "@Dependent": 3}'
)
CAS_JSON = f'{{"%TYPES": {{}}, "%FEATURE_STRUCTURES": [\n{CAS_STRUCTURES}]}}\n'
CAS_XMI = (
    '<?xml version="1.1" encoding="UTF-8"?>\n<xmi:XMI xmlns:xmi="http://www.omg.org/XMI" '
    'xmlns:cas="http:///uima/cas.ecore" xmlns:custom="http:///webanno/custom.ecore">\n'
    f'<cas:Sofa xmi:id="1" sofaID="_InitialView" sofaString="{NOTE}"/>\n'
    '<custom:E xmi:id="2" sofa="1" begin="22" end="29" kind="Drug"/>\n'
    '<custom:E xmi:id="3" sofa="1" begin="33" end="37" kind="ADE"/>\n'
    '<custom:R xmi:id="4" sofa="1" begin="33" end="37" Governor="2" Dependent="3"/></xmi:XMI>\n'
)
SPAN = '"type": "labels", "value": {"start": '
LABEL_STUDIO = (
    f'[{{"id": 1, "data": {{"text": "{NOTE}"}}, "annotations": [{{"result": [\n'
    f'{{"id": "a", {SPAN}22, "end": 29, "text": "lunarol", "labels": ["Drug"]}}}},\n'
    f'{{"id": "b", {SPAN}33, "end": 37, "text": "rash", "labels": ["ADE"]}}}},\n'
    '{"type": "relation", "from_id": "a", "to_id": "b", "labels": ["causes"]}]}]}]\n'
)
WEBANNO = (
    "#FORMAT=WebAnno TSV 3.3\n#T_SP=webanno.custom.E|kind\n#T_RL=webanno.custom.R|role|BT_webanno.custom.E\n\n\n"
    f"#Text={SECRET} took lunarol\n1-1\t0-12\t{SECRET}\t_\t_\t_\t\n1-2\t13-17\ttook\t_\t_\t_\t\n"
    "1-3\t18-25\tlunarol\tDrug\t_\t_\t\n\n#Text=skin rash é\n2-1\t26-30\tskin\tADE[1]\tcauses\t1-3[0_1]\t\n"
    "2-2\t31-35\trash\tADE[1]\t_\t_\t\n2-3\t36-37\té\t_\t_\t_\t\n"
)
SEEDS = {
    "pubtator": Seed(Pubtator(), (("a.PubTator", PUBTATOR * 2),), "a.PubTator"),
    "bioc": Seed(Bioc(), (("a.xml", BIOC),), "a.xml"),
    "ade": Seed(Ade(), (("DRUG-AE.rel", f"1|{NOTE}|rash|133|137|lunarol|122|129\n"),), "DRUG-AE.rel"),
    "ade-negative": Seed(Ade(), (("ADE-NEG.txt", f"1 NEG {NOTE}\n2 NEG {NOTE}\n"),), "ADE-NEG.txt"),
    "i2b2-2014": Seed(I2b2Deid(), (("n.xml", DEID),), "n.xml"),
    **{f"i2b2-2010-{name[-3:]}": Seed(I2b2Concepts(), I2B2, name) for name, _ in I2B2},
    "pair-tsv": Seed(PairTsv(), (("train.tsv", PAIR * 2),), "train.tsv"),
    "pair-tsv-header": Seed(PairTsv(), (("test.tsv", f"index\tsentence\tlabel\n0\t{PAIR}"),), "test.tsv"),
    "ddi": Seed(Ddi(), (("a.xml", DDI),), "a.xml"),
    "cas-json": Seed(UimaCas(), (("a.json", CAS_JSON),), "a.json"),
    "cas-xmi": Seed(UimaCas(), (("a.xmi", CAS_XMI),), "a.xmi"),
    "labelstudio": Seed(LabelStudio(), (("a.json", LABEL_STUDIO),), "a.json"),
    "webanno": Seed(WebannoTsv(), (("a.tsv", WEBANNO),), "a.tsv"),
    "smm4h": Seed(Smm4h(), (("a.tsv", TWEETS),), "a.tsv"),
    **{f"cadec-{name.partition('/')[0]}": Seed(Cadec(), CADEC, name) for name, _ in CADEC},
}
every_seed = pytest.mark.parametrize("seed", SEEDS.values(), ids=SEEDS.keys())


def collected(seed: Seed, folder: Path) -> tuple[list[Document], list[Problem]]:
    """Read with a sink that only collects problems, so that the reader continues, and with one that stops."""
    problems: list[Problem] = []
    found: list[Document] = []
    messages = []
    try:
        found = list(seed.format.read(folder, problems=problems.append))
    except WardroundError as error:
        messages.append(str(error))
    try:
        strict = list(seed.format.read(folder))
        assert not any(problem.severity is Severity.ERROR for problem in problems)
        assert strict == found
    except WardroundError as error:
        messages.append(str(error))
        assert problems or len(messages) == 2  # a problem that stops one reader is collected by the other
    for text in (*messages, *(problem.message for problem in problems)):
        assert SECRET not in text
        assert str(folder) not in text
    return found, problems


def check_all(seed: Seed, damaged: Iterable[bytes], folder: Path) -> None:
    for content in damaged:
        seed.lay(folder, content)
        collected(seed, folder)


@every_seed
def test_the_undamaged_corpus_has_no_problem(seed: Seed, tmp_path: Path) -> None:
    seed.lay(tmp_path)
    found, problems = collected(seed, tmp_path)
    assert not problems
    assert found


@every_seed
def test_truncated(seed: Seed, tmp_path: Path) -> None:
    check_all(seed, (seed.content[:length] for length in range(0, len(seed.content), 3)), tmp_path)


@every_seed
def test_other_encodings(seed: Seed, tmp_path: Path) -> None:
    text = seed.content.decode() + "é"
    check_all(seed, (text.encode(name) for name in ("latin-1", "utf-16", "utf-32", "utf-8-sig")), tmp_path)


def _binary() -> Iterator[bytes]:
    numbers = random.Random(7)
    yield from (numbers.randbytes(size) for size in (1, 10, 1_000, 100_000))
    yield from (b"\x00" * 1_000, b"\xff" * 1_000, b"\n" * 1_000, b"\t" * 1_000, b"|" * 1_000, b"<" * 1_000)
    yield b"<a>" * 20_000 + b"</a>" * 20_000


@every_seed
def test_binary_and_monotonous_files(seed: Seed, tmp_path: Path) -> None:
    check_all(seed, _binary(), tmp_path)


@every_seed
def test_offsets_beyond_the_text(seed: Seed, tmp_path: Path) -> None:
    content = seed.content
    places = [match.span() for match in re.finditer(rb"[0-9]+", content)]
    numbers = (b"0", b"-1", b"99999", b"9" * 11, b"9" * 5_000, "٣".encode(), b"1e3", b"")
    damaged = (content[:start] + number + content[end:] for (start, end), number in itertools.product(places, numbers))
    check_all(seed, damaged, tmp_path)


@every_seed
def test_repeated_or_missing_parts(seed: Seed, tmp_path: Path) -> None:
    pieces = re.split(rb"(?<=[\t\n|>;])", seed.content)
    doubled = (b"".join([*pieces[: n + 1], *pieces[n:]]) for n in range(len(pieces)))
    missing = (b"".join([*pieces[:n], *pieces[n + 1 :]]) for n in range(len(pieces)))
    check_all(seed, itertools.chain(doubled, missing), tmp_path)


@every_seed
def test_very_long_lines(seed: Seed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_files, "MAXIMUM_LINE", 200)
    monkeypatch.setattr(corpus_files, "MAXIMUM_FILE", 5_000)
    long = b"x" * 10_000
    check_all(seed, (long, seed.content + long, long + seed.content, seed.content.replace(b" ", b" " + long)), tmp_path)


@every_seed
def test_damaged_archives(seed: Seed, tmp_path: Path) -> None:
    packed = gzip.compress(seed.content, mtime=0)
    seed.lay(tmp_path, packed, packed=True)
    assert collected(seed, tmp_path)[0]
    for position in range(0, len(packed), 5):
        seed.lay(tmp_path, packed[:position], packed=True)
        collected(seed, tmp_path)
        seed.lay(tmp_path, packed[:position] + b"\xa5" + packed[position + 1 :], packed=True)
        collected(seed, tmp_path)
    seed.lay(tmp_path, seed.content, packed=True)
    collected(seed, tmp_path)


EDITS = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.integers(0, 3),
        st.one_of(
            st.binary(min_size=1, max_size=3), st.sampled_from([b"\t", b"\n", b"|", b"\r", b'"', b"<", b"&", b";"])
        ),
    ),
    min_size=1,
    max_size=6,
)


@every_seed
@BRIEF
@given(EDITS)
def test_random_edits(seed: Seed, edits: list[tuple[float, int, bytes]]) -> None:
    content = seed.content
    for place, removed, inserted in edits:
        position = int(place * (len(content) + 1))
        content = content[:position] + inserted + content[position + removed :]
    with tempfile.TemporaryDirectory() as folder:
        check_all(seed, [content], Path(folder))


@pytest.mark.parametrize("name", ["bioc", "i2b2-2014", "ddi", "cas-xmi"])
def test_expanding_entities_are_refused(name: str, tmp_path: Path) -> None:
    grows = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    content = f'<!DOCTYPE d [<!ENTITY e0 "ha">{grows}]>\n<d><TEXT>&e9;</TEXT></d>'
    SEEDS[name].lay(tmp_path, content.encode())
    found, problems = collected(SEEDS[name], tmp_path)
    assert not found
    assert ["declares entities" in problem.message for problem in problems] == [True]


@every_seed
def test_missing_files(seed: Seed, tmp_path: Path) -> None:
    for place in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(WardroundError):
            list(seed.format.read(place))
