"""The CADEC layout: a fixture with codes, faults, and an unreadable file of codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from wardround.corpora.cadec import Cadec
from wardround.corpora.corpus_format import Problem, Severity
from wardround.errors import CorpusError
from wardround.text.document import Document, Entity, Range

POST = "A bit drowsy.\nArms and legs ached on lunarol.\n"
MENTIONS = (
    "T1\tADR 2 12\tbit drowsy\n"
    "#1\tAnnotatorNotes T1\tsince the second week\n"
    "T2\tADR 14 18;28 33\tArms ached\n"
    "T3\tDrug 37 44\tlunarol\n"
)


def lay(folder: Path, **files: str | bytes) -> None:
    names = {"text": "X.1.txt", "original": "X.1.ann", "meddra": "X.1.ann", "sct": "X.1.ann"}
    for key, content in {"text": POST, "original": MENTIONS, **files}.items():
        (folder / key).mkdir(exist_ok=True)
        (folder / key / names[key]).write_bytes(content if isinstance(content, bytes) else content.encode())


def read(folder: Path) -> tuple[list[Document], list[Problem]]:
    problems: list[Problem] = []
    return list(Cadec().read(folder, problems=problems.append)), problems


def expected(*concepts: tuple[str, ...]) -> Document:
    first, second, third = concepts or ((), (), ())
    return Document(
        "X.1",
        POST,
        (
            Entity("T1", "ADR", (Range(2, 12),), first, note="since the second week"),
            Entity("T2", "ADR", (Range(14, 18), Range(28, 33)), second),
            Entity("T3", "Drug", (Range(37, 44),), third),
        ),
    )


def test_a_post(tmp_path: Path) -> None:
    lay(tmp_path)
    assert read(tmp_path) == ([expected()], [])


def test_codes(tmp_path: Path) -> None:
    lay(
        tmp_path,
        meddra="TT1\t10013649 2 12\tbit drowsy\nTT2\t10000001/10000002 14 18;28 33\tArms ached\n",
        sct="TT1\t271782001 | Drowsy 100 mg | 2 12\tbit drowsy\n"
        "TT2\t100000001 | One | or 100000002|Two|\t14 18;28 33\tArms ached\n"
        "TT3\tCONCEPT_LESS 37 44\tlunarol\n",
    )
    found, problems = read(tmp_path)
    assert not problems
    assert found == [
        expected(
            ("MedDRA:10013649", "SNOMEDCT:271782001"),
            ("MedDRA:10000001", "MedDRA:10000002", "SNOMEDCT:100000001", "SNOMEDCT:100000002"),
            (),
        )
    ]


def test_the_post_is_kept_if_its_codes_cannot_be_decoded(tmp_path: Path) -> None:
    lay(tmp_path, sct=b"TT1\t271782001 | Drowsy\x92 | 2 12\tbit drowsy\n")
    found, problems = read(tmp_path)
    assert found == [expected()]
    assert [problem.path for problem in problems] == [tmp_path / "sct" / "X.1.ann"]


def test_a_code_without_a_mention_gives_a_warning(tmp_path: Path) -> None:
    lay(tmp_path, meddra="TT1\t10013649 2 11\tbit drows\nnonsense\n")
    found, problems = read(tmp_path)
    assert found == [expected()]
    assert [(problem.line, problem.severity) for problem in problems] == [(1, Severity.WARNING), (2, Severity.ERROR)]


def test_ranges_are_sorted(tmp_path: Path) -> None:
    lay(tmp_path, original="T2\tADR 28 33;14 18\tached Arms\n", meddra="TT2\t10000001 28 33;14 18\tached Arms\n")
    found, problems = read(tmp_path)
    assert not problems
    assert found[0].entities == (Entity("T2", "ADR", (Range(14, 18), Range(28, 33)), ("MedDRA:10000001",)),)


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("T9\tADR 2 120\tbit drowsy", "T9 ends at 120, the text has 46 characters"),
        ("T9\tADR 2 12\tvery drowsy", "differs from the text of the note"),
        ("T9\tADR 2 12;11 13\tbit drowsy y.", "starts before 12"),
        ("T9 ADR 2 12 bit drowsy", "neither a mention nor a remark"),
        ("#9\tAnnotatorNotes T99\twhat", "T99, which is not a mention"),
    ],
)
def test_a_faulty_line_is_reported_and_left_out(tmp_path: Path, line: str, part: str) -> None:
    lay(tmp_path, original=f"{line}\n\n{MENTIONS}")
    found, problems = read(tmp_path)
    assert found == [expected()]
    assert [(problem.path, problem.line) for problem in problems] == [(tmp_path / "original" / "X.1.ann", 1)]
    assert part in problems[0].message


def test_a_post_without_annotations_gives_a_warning(tmp_path: Path) -> None:
    lay(tmp_path)
    (tmp_path / "original" / "X.1.ann").unlink()
    found, problems = read(tmp_path)
    assert found == [Document("X.1", POST)]
    assert [problem.severity for problem in problems] == [Severity.WARNING]


def test_the_folder_must_contain_texts(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no folder 'text'"):
        list(Cadec().read(tmp_path))


def test_the_format_can_only_be_read() -> None:
    assert not Cadec().can_write
