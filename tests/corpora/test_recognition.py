"""`--format auto` names the format, its options and the reason, and refuses what is not clear."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import wardround
from tests.cli.running import Run
from wardround.corpora.formats import FORMATS, open_format
from wardround.corpora.recognition import format_at, recognise
from wardround.errors import CorpusError, UsageError
from wardround.text.document import Document, Entity, Range, Relation

TEXT = "Aspirin burns badly today."
NOTE = Document("1", TEXT, (Entity("T1", "Drug", (Range(0, 7),)), Entity("T2", "Ade", (Range(8, 13),))))
PAIR = Document(
    "1", "@GENE$ links @DISEASE$", (Entity("T1", "Gene", (Range(0, 6),)), Entity("T2", "Disease", (Range(13, 22),))),
    (Relation("R1", "association", "T1", "T2"),),
)  # fmt: skip
PUBTATOR = Document("1", "A title.\nAn abstract.")
OPTIONS = [
    ("conll", {"delimiter": "tab", "scheme": "BIO"}),
    ("conll", {"delimiter": "space", "scheme": "BIOES"}),
    ("jsonl", {}),
    ("jsonl", {"shape": "prodigy"}),
    ("jsonl", {"shape": "spacy"}),
    ("jsonl", {"shape": "doccano"}),
    *((name, {}) for name in FORMATS if name not in ("conll", "jsonl", "omop") and open_format(name).can_write),
]


@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_what_a_format_writes_is_recognised(tmp_path: Path, name: str, options: dict[str, str]) -> None:
    for library in {"docbin": ["spacy"], "datasets": ["pyarrow"]}.get(name, []):
        pytest.importorskip(library, reason=f"the extra {name} is not installed")
    form = open_format(name, options)
    note = {"pairs": PAIR, "pubtator": PUBTATOR}.get(name, NOTE)
    place = tmp_path / f"corpus{form.ending}"
    form.write([note], place)
    found = recognise(place)
    assert (found.name, found.options) == (name, options)
    assert format_at(place, "auto") == form
    assert str(found).startswith(f"the format is {name}")


READ_ONLY = {
    "text": ("a.txt", TEXT),
    "ddi": ("a.xml", '<document id="1"><sentence text="x"><entity charOffset="0-0"/></sentence></document>'),
    "webanno": ("a.tsv", "#FORMAT=WebAnno TSV 3.3\n"),
    "ade": ("DRUG-AE.rel", "1|Rash after x.|Rash|0|4|x|11|12\n"),
    "cas": ("a.xmi", '<?xml version="1.0"?><xmi:XMI xmlns:xmi="http://www.omg.org/XMI"></xmi:XMI>'),
}


@pytest.mark.parametrize("name", READ_ONLY)
def test_what_can_only_be_read_is_recognised(tmp_path: Path, name: str) -> None:
    file, content = READ_ONLY[name]
    (tmp_path / file).write_text(content)
    assert recognise(tmp_path).name == name
    assert recognise(tmp_path / file).name == name


def test_presidio_cadec_and_iob1(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps([{"full_text": "x", "spans": []}]))
    assert recognise(tmp_path).options == {"shape": "presidio"}
    for folder, ending in (("text", ".txt"), ("original", ".ann")):
        (tmp_path / "cadec" / folder).mkdir(parents=True)
        (tmp_path / "cadec" / folder / f"a{ending}").write_text("")
    assert recognise(tmp_path / "cadec").name == "cadec"
    (tmp_path / "a.iob").write_text("Took\tO\nlunar\tI-Drug\noil\tI-Drug\n")
    assert recognise(tmp_path / "a.iob").options == {"delimiter": "tab", "scheme": "IOB1"}


def test_what_is_not_clear_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="nowhere: does not exist"):
        recognise(tmp_path / "nowhere")
    (tmp_path / "a.pdf").write_bytes(b"%PDF")
    with pytest.raises(UsageError, match=r"was not recognised; name it with --format: there are ade, bioc"):
        recognise(tmp_path)
    (tmp_path / "b.xml").write_text('<collection><passage/></collection><entity charOffset="0-1"/>')
    with pytest.raises(UsageError, match=r"looks like bioc and like ddi; name the format with --format"):
        recognise(tmp_path)


def test_a_text_with_single_letters_is_no_table_of_tags(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The blood group is O\nand the other is B\nor again O\n")
    assert recognise(tmp_path).name == "text"


def test_the_command_says_what_it_found(run: Run, tmp_path: Path) -> None:
    wardround.write([NOTE], tmp_path / "notes.jsonl", shape="prodigy")
    ran = run("data", "stats", tmp_path / "notes.jsonl", "--format", "auto")
    assert ran.code == 0
    assert "wardround: the format is jsonl, shape=prodigy: notes.jsonl has `spans`" in ran.err


def test_the_python_api_recognises_by_default(tmp_path: Path) -> None:
    wardround.write([NOTE], tmp_path / "notes", "brat")
    assert wardround.read(tmp_path / "notes")[0].entities == NOTE.entities
    assert wardround.check(tmp_path / "notes").errors == 0


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("meddocan/corpus", "brat"),
        ("mtl_bioinformatics_2016/AnatEM-IOB", "conll"),
        ("presidio_synth", "jsonl"),
        ("ade_corpus_v2", "ade"),
        ("biobert_re/euadr/3", "pairs"),
        ("biored", "pubtator"),
    ],
)
def test_real_corpora(shared_data: Path, place: str, name: str) -> None:
    assert recognise(shared_data / place).name == name
