"""Counts of each test note, at the site that owns it and nowhere else: by them two models are compared in pairs.

`note-counts.json` lists, by reading, the notes in the order of the corpus, each with its right, wrong and missed by
type: `{"strict": [{"Drug": [3, 0, 1]}, …]}`. It names no note, and no message holds it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from wardround.errors import UsageError
from wardround.evaluation.counts import SpanCounts, TypedCounts
from wardround.parsing import read_json
from wardround.studies.run_folder import RunFolder
from wardround.tasks.task import TaskScore

__all__ = ["read_note_counts", "write_note_counts"]

_FILE = "note-counts.json"


def write_note_counts(folder: RunFolder, score: TaskScore) -> None:
    """Into the site's own folder."""
    counted = {
        reading: [{kind: [c.tp, c.fp, c.fn] for kind, c in note.items()} for note in notes]
        for reading, notes in score.by_document.items()
    }
    (folder.path / _FILE).write_text(json.dumps(counted, separators=(",", ":")) + "\n", encoding="utf-8")


def read_note_counts(folder: Path) -> Mapping[str, tuple[TypedCounts, ...]]:
    """By reading; nothing where the folder has none."""
    path = folder / _FILE
    if not path.is_file():
        return {}
    try:
        found = read_json(path)
        return {str(reading): tuple(map(_counts, notes)) for reading, notes in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        raise UsageError(f"{_FILE} of {folder.name} is damaged; score the model again, or remove the file") from None


def _counts(note: Mapping[str, list[int]]) -> TypedCounts:
    return TypedCounts({kind: SpanCounts(*map(int, row)) for kind, row in note.items()})
