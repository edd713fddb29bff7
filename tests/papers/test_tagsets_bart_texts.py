from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from wardround.corpora.jsonl import Jsonl
from wardround.text.document import Document

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def texts() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT))
    yield import_module("papers.tagsets.bart_texts")
    sys.path.remove(str(ROOT))


def test_a_line_has_eight_sentences(texts: ModuleType) -> None:
    notes = [Document(str(number), f"word\n {number} .") for number in range(10)]
    assert list(texts.lines_of(notes)) == [
        "word 0 . word 1 . word 2 . word 3 . word 4 . word 5 . word 6 . word 7 .",
        "word 8 . word 9 .",
    ]


def test_test_sentences_are_held_out(texts: ModuleType, tmp_path: Path) -> None:
    tested = Document("t", "one two three four five six seven eight")
    for corpus in ("gum", "bio"):
        for part in ("dev", "test"):
            Jsonl().write([tested], tmp_path / corpus / "x" / f"{part}.jsonl.gz")
    sites = texts.TagSites(tmp_path, {corpus: {"sites": {"x": {}}} for corpus in ("gum", "bio")})
    seen = texts.runs_of(texts.held_out(sites))
    leak, other = Document("a", f"zero {tested.text} nine"), Document("b", "two three four")
    assert texts.unseen([leak, other], seen) == [other]


def test_case_reports_are_read_without_their_numbers(texts: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "neg.txt").write_text("123 NEG No rash was seen.\n\n124 NEG  NEG is a word.\n")
    assert [note.text for note in texts._case_reports(tmp_path / "neg.txt")] == ["No rash was seen.", "NEG is a word."]
