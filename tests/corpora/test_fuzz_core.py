"""Broken files: only `WardroundError` is raised, the sink receives every error, and no note is quoted."""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpora.strategies import BRIEF
from wardround.corpora import corpus_files
from wardround.corpora.brat import Brat
from wardround.corpora.conll import Conll
from wardround.corpora.corpus_format import CorpusFormat, Problem, Severity
from wardround.corpora.jsonl import Jsonl
from wardround.corpora.text_notes import PlainText
from wardround.errors import WardroundError

TEXT = "Zyxwvut gave é😀 him\r\nskin burns.\nAnd more."
SECRET = "Zyxwvut"
SPANS = [{"start": 0, "end": 7, "label": "Drug", "id": "T1"}, {"start": 21, "end": 25, "label": "ADE", "id": "T2"}]
OBJECTS = [{"id": 1, "label": "Drug", "start_offset": 0, "end_offset": 7}]
ENTITY = {"id": "T1", "type": "Drug", "ranges": [[0, 7], [8, 12]], "concepts": ["c"], "attributes": [["a", "b"]]}
PRESIDIO_SPAN = {"entity_type": "Drug", "entity_value": "x", "start_position": 0, "end_position": 7}
VALUES: dict[str, object] = {
    "wardround": {
        "id": "n1",
        "text": TEXT,
        "entities": [ENTITY],
        "relations": [{"id": "R1", "type": "x", "head": "T1", "tail": "T1", "level": "mention"}],
        "words": [[0, 7]],
        "sentences": [[0, 20]],
        "attributes": [["ward", "3"]],
    },
    "prodigy": {
        "text": TEXT,
        "spans": SPANS,
        "relations": [{"head_span": SPANS[0], "child_span": SPANS[1], "label": "causes"}],
        "tokens": [{"start": 0, "end": 7}],
        "meta": {"id": "n1"},
    },
    "spacy": [TEXT, {"entities": [[0, 7, "Drug"]]}],
    "doccano": {"text": TEXT, "entities": OBJECTS, "relations": [{"id": 1, "from_id": 1, "to_id": 1, "type": "x"}]},
    "presidio": [{"full_text": TEXT, "spans": [PRESIDIO_SPAN], "template_id": 3}],
}
COLUMNS = f"-DOCSTART-\tO\n\n{SECRET}\tB-Drug\ngave\tO\n\nskin\tB-ADE\nburns\tI-ADE\n"
ANNOTATIONS = (
    f"T1\tDrug 0 7\t{SECRET}\nT2\tADE 21 25;26 31\tskin burns\nR1\tCauses Arg1:T1 Arg2:T2\n"
    "A1\tNegation T2\nN1\tReference T1 RxNorm:1\tx\n#1\tAnnotatorNotes T2\tnot sure\nE1\tx:T1\n*\tEquiv T1 T2\n"
)
CASES: dict[str, tuple[CorpusFormat, dict[str, bytes]]] = {
    "conll": (Conll(), {"x.tsv": COLUMNS.encode()}),
    "conll-whitespace": (Conll(delimiter="whitespace", scheme="BIOES"), {"x.tsv": COLUMNS.encode()}),
    "conll-packed": (Conll(), {"x.tsv.gz": gzip.compress(COLUMNS.encode(), mtime=0)}),
    "text": (PlainText(), {"x.txt": TEXT.encode()}),
    "brat": (Brat(), {"x.ann": ANNOTATIONS.encode(), "x.txt": TEXT.encode()}),
    **{
        f"jsonl-{shape}": (
            Jsonl(shape),  # type: ignore[arg-type]
            {
                "x.json" if shape == "presidio" else "x.jsonl": "\n".join(
                    [json.dumps(value, ensure_ascii=False)] * (1 if shape == "presidio" else 2)
                ).encode()
            },
        )
        for shape, value in VALUES.items()
    },
}
PIECES = [
    *(b"\t", b"\n", b"\r", b" ", b"\0", b"-1", b"9" * 5_000, b"-DOCSTART-"),
    *(b'"', b"[", b"]", b"{", b"null", b"true", b"\\ud800"),
]
KEYS = (
    "id text entities relations type ranges words sentences attributes concepts note head tail level spans start end "
    "label labels tokens meta answer head_span child_span full_text entity_type start_position end_position "
    "start_offset end_offset from_id to_id template_id"
).split()
every_case = pytest.mark.parametrize("case", CASES)


def survive(form: CorpusFormat, files: dict[str, bytes]) -> list[Problem]:
    """Read with both sinks; the first collected error must be the one that is raised."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        problems: list[Problem] = []
        list(form.read(Path(folder), problems=problems.append))
        errors = [problem for problem in problems if problem.severity is Severity.ERROR]
        try:
            list(form.read(Path(folder)))
        except WardroundError as error:
            assert errors and errors[0].message in str(error)
            assert SECRET not in str(error)
        else:
            assert not errors
    assert not any(SECRET in problem.message for problem in problems)
    return problems


@every_case
def test_the_undamaged_files_have_no_problem(case: str) -> None:
    form, files = CASES[case]
    assert not [problem for problem in survive(form, files) if problem.severity is Severity.ERROR]


@every_case
@BRIEF
@given(data=st.data())
def test_truncated(case: str, data: st.DataObject) -> None:
    form, files = CASES[case]
    name = data.draw(st.sampled_from(sorted(files)))
    survive(form, {**files, name: files[name][: data.draw(st.integers(0, len(files[name])))]})


@every_case
@BRIEF
@given(data=st.data())
def test_mutated(case: str, data: st.DataObject) -> None:
    form, files = CASES[case]
    name = data.draw(st.sampled_from(sorted(files)))
    content = bytearray(files[name])
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, len(content)))
        removed = data.draw(st.integers(0, 3))
        content[place : place + removed] = data.draw(st.one_of(st.binary(max_size=3), st.sampled_from(PIECES)))
    survive(form, {**files, name: bytes(content)})


@every_case
@BRIEF
@given(content=st.binary(max_size=200))
def test_binary(case: str, content: bytes) -> None:
    form, files = CASES[case]
    for name in files:
        survive(form, {**files, name: content})


@every_case
@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-8-sig", "cp500"])
def test_other_encodings(case: str, encoding: str) -> None:
    form, files = CASES[case]
    for name, content in files.items():
        if not name.endswith(".gz"):
            survive(form, {**files, name: content.decode().encode(encoding, "replace")})


@every_case
def test_very_long_lines(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    form, files = CASES[case]
    monkeypatch.setattr(corpus_files, "MAXIMUM_LINE", 10)
    monkeypatch.setattr(corpus_files, "MAXIMUM_FILE", 10)
    problems = survive(form, files)
    assert any("longer than 10 characters" in problem.message for problem in problems)


@BRIEF
@given(offsets=st.lists(st.integers(-99, 10**30), min_size=2, max_size=4))
def test_offsets_past_the_end(offsets: list[int]) -> None:
    start, end = offsets[:2]
    lines = f"T1\tDrug {start} {end}\tx\n" + (f"T2\tDrug 0 7;{' '.join(map(str, offsets))}\tx\n")
    assert survive(Brat(), {"x.txt": TEXT.encode(), "x.ann": lines.encode()})
    value = {"text": "abc", "entities": [{"id": "T1", "type": "X", "ranges": [offsets]}]}
    problems = survive(Jsonl(), {"x.jsonl": json.dumps(value).encode()})
    assert bool(problems) == (not (len(offsets) == 2 and 0 <= start < end <= 3))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=6,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("shape", VALUES)
@BRIEF
@given(value=JSON)
def test_json_of_any_shape(shape: str, value: object) -> None:
    form = Jsonl(shape)  # type: ignore[arg-type]
    survive(form, {"x.json" if shape == "presidio" else "x.jsonl": json.dumps(value).encode()})


@pytest.mark.parametrize("shape", VALUES)
@BRIEF
@given(data=st.data())
def test_json_with_one_value_replaced(shape: str, data: st.DataObject) -> None:
    value = json.loads(json.dumps(VALUES[shape]))
    place = value
    while True:
        keys = sorted(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        inner = place[key]
        if isinstance(inner, dict | list) and inner and data.draw(st.booleans()):
            place = inner
            continue
        place[key] = data.draw(JSON)
        break
    form = Jsonl(shape)  # type: ignore[arg-type]
    survive(form, {"x.json" if shape == "presidio" else "x.jsonl": json.dumps(value).encode()})
