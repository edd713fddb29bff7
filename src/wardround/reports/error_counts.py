"""Where a tagger errs: which type it takes for which and how mentions are missed, as counts in a file and as a section.

`error-counts.json` lists each pair of types with its count, null where one side has nothing, and the five MUC
categories by type and reading: `{"confusion": [["Drug", null, 2], …], "muc": {"all": {"strict": [3, 0, 0, 2, 1], …},
"types": {"Drug": {…}}}}`. It holds names of types and numbers, and no word of a note.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from wardround.errors import UsageError
from wardround.evaluation.entity_scores import Confusion, CorpusScore
from wardround.evaluation.muc import MATCHING_MODES, MucCounts, MucModes, MucScore
from wardround.parsing import read_json
from wardround.reports.page import Drawing, Section
from wardround.reports.plots import confusion_map
from wardround.reports.score_tables import confusion_table, muc_table

__all__ = ["ERROR_COUNTS", "ErrorCounts", "errors_section", "read_error_counts"]

ERROR_COUNTS = "error-counts.json"  # in the folder of a training


@dataclass(frozen=True)
class ErrorCounts:
    """Of the entities of all notes that were scored."""

    confusion: Confusion
    muc: MucScore

    @classmethod
    def of(cls, score: CorpusScore) -> ErrorCounts:
        """What of a score tells where it errs."""
        return cls(score.confusion, score.muc)

    def as_json(self) -> dict[str, Any]:
        """Plain values for the file."""
        confusion = [[gold, predicted, count] for (gold, predicted), count in self.confusion.counts.items()]
        types = {kind: _plain(readings) for kind, readings in self.muc.by_type.items()}
        return {"confusion": confusion, "muc": {"all": _plain(self.muc.overall), "types": types}}

    @classmethod
    def from_json(cls, values: Any) -> ErrorCounts:
        """What `as_json` gave; anything else is a `ValueError`."""
        try:
            cells = {(_type(gold), _type(predicted)): int(count) for gold, predicted, count in values["confusion"]}
            by_type = {str(kind): _readings(rows) for kind, rows in values["muc"]["types"].items()}
            return cls(Confusion(cells), MucScore(_readings(values["muc"]["all"]), by_type))
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError("no counts of errors") from error


def read_error_counts(folder: Path) -> ErrorCounts | None:
    """Those of the training in a folder; None where it has none."""
    path = folder / ERROR_COUNTS
    if not path.is_file():
        return None
    try:
        return ErrorCounts.from_json(read_json(path))
    except (OSError, ValueError):
        raise UsageError(f"{ERROR_COUNTS} of {folder.name} is damaged; train again, or remove the file") from None


def errors_section(errors: ErrorCounts) -> Section:
    """The part of a page that looks closer at what went wrong."""
    drawing = Drawing.of(confusion_map(errors.confusion), "confusion", "Gold types down, predicted types across.")
    return Section(
        "Where it errs", tables=(confusion_table(errors.confusion), muc_table(errors.muc)), drawings=(drawing,)
    )


def _plain(readings: MucModes) -> dict[str, list[int]]:
    return {name: list(astuple(getattr(readings, name))) for name in MATCHING_MODES}


def _readings(rows: Mapping[str, list[int]]) -> MucModes:
    return MucModes(**{name: MucCounts(*map(int, rows[name])) for name in MATCHING_MODES})


def _type(name: Any) -> str | None:
    return None if name is None else str(name)
