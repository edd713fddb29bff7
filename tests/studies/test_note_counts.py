from __future__ import annotations

import json
from pathlib import Path

import pytest

from wardround.errors import UsageError
from wardround.evaluation.counts import SpanCounts, TypedCounts
from wardround.studies.note_counts import read_note_counts, write_note_counts
from wardround.studies.run_folder import RunFolder
from wardround.tasks.task import TaskScore

NOTES = (TypedCounts({"Drug": SpanCounts(3, 0, 1)}), TypedCounts())


def test_written_and_read_again(tmp_path: Path) -> None:
    write_note_counts(RunFolder(tmp_path), TaskScore({"strict": NOTES, "relaxed": NOTES[:1]}))
    assert json.loads((tmp_path / "note-counts.json").read_text()) == {
        "strict": [{"Drug": [3, 0, 1]}, {}],
        "relaxed": [{"Drug": [3, 0, 1]}],
    }
    found = read_note_counts(tmp_path)
    assert [dict(note) for note in found["strict"]] == [dict(note) for note in NOTES]


def test_a_folder_without_them(tmp_path: Path) -> None:
    assert read_note_counts(tmp_path) == {}


@pytest.mark.parametrize("text", ["", "[]", '{"strict": [3]}', '{"strict": [{"Drug": ["x", 1, 2]}]}'])
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "note-counts.json").write_text(text)
    with pytest.raises(UsageError, match=r"note-counts.json of .* is damaged"):
        read_note_counts(tmp_path)
