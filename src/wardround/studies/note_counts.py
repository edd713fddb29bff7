"""Counts for each test note, kept at the site that owns the notes; two models are compared in pairs by them.

`note-counts.json` lists, by matching mode, one entry for each note in the order of the corpus, with the numbers of
right, wrong and missed entities by type: `{"strict": [{"Drug": [3, 0, 1]}, …]}`. It names no note, and no message
contains it.
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

_NOTE_COUNTS = "note-counts.json"


def write_note_counts(folder: RunFolder, score: TaskScore) -> None:
    """Write the counts of each test note into a site's own folder."""
    counted = {
        mode: [{kind: [c.tp, c.fp, c.fn] for kind, c in note.items()} for note in notes]
        for mode, notes in score.by_document.items()
    }
    (folder.path / _NOTE_COUNTS).write_text(json.dumps(counted, separators=(",", ":")) + "\n", encoding="utf-8")


def read_note_counts(folder: Path) -> Mapping[str, tuple[TypedCounts, ...]]:
    """Return the counts of each test note by matching mode; empty if the folder has none."""
    path = folder / _NOTE_COUNTS
    if not path.is_file():
        return {}
    try:
        return {
            str(mode): tuple(
                TypedCounts({kind: SpanCounts(*map(int, row)) for kind, row in note.items()}) for note in notes
            )
            for mode, notes in read_json(path).items()
        }
    except (OSError, ValueError, TypeError, AttributeError):
        raise UsageError(
            f"{_NOTE_COUNTS} of {folder.name} is damaged; score the model again, or remove the file"
        ) from None
