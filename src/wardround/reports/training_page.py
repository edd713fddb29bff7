"""The page of training at one site, and the counts of a tagger's errors.

`error-counts.json` lists each pair of gold and predicted type with its count, null if one side has no mention, and the
five MUC categories by type and matching mode: `{"confusion": [["Drug", null, 2], …], "muc": {"all": {"strict":
[3, 0, 0, 2, 1], …}, "types": {"Drug": {…}}}}`. It contains names of types and numbers, and no word of a note.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from wardround.errors import UsageError
from wardround.evaluation.entity_scores import Confusion, CorpusScore
from wardround.evaluation.muc import MATCHING_MODES, MucCounts, MucModes, MucScore
from wardround.parsing import read_json
from wardround.reports.page import Chart, Section, write_page
from wardround.reports.plots import Labels, confusion_map, learning_curves
from wardround.reports.progress import EpochFigures
from wardround.reports.score_tables import confusion_table, muc_table
from wardround.reports.tables import Table

__all__ = ["ERROR_COUNTS", "ErrorCounts", "errors_section", "read_error_counts", "write_training_page"]

ERROR_COUNTS = "error-counts.json"  # in the folder of a training


@dataclass(frozen=True)
class ErrorCounts:
    """Confused types and MUC categories over all scored notes."""

    confusion: Confusion
    muc: MucScore

    @classmethod
    def of(cls, score: CorpusScore) -> ErrorCounts:
        """Take the counts of errors from a score."""
        return cls(score.confusion, score.muc)

    def as_json(self) -> dict[str, Any]:
        """Return plain values for the file."""
        confusion = [[gold, predicted, count] for (gold, predicted), count in self.confusion.counts.items()]
        types = {kind: _muc_as_json(modes) for kind, modes in self.muc.by_type.items()}
        return {"confusion": confusion, "muc": {"all": _muc_as_json(self.muc.overall), "types": types}}

    @classmethod
    def from_json(cls, values: Any) -> ErrorCounts:
        """Read the values that `as_json` returned; raise `ValueError` for any other."""

        def type_name(name: Any) -> str | None:
            return None if name is None else str(name)

        try:
            cells = {
                (type_name(gold), type_name(predicted)): int(count) for gold, predicted, count in values["confusion"]
            }
            by_type = {str(kind): _muc_from_json(rows) for kind, rows in values["muc"]["types"].items()}
            return cls(Confusion(cells), MucScore(_muc_from_json(values["muc"]["all"]), by_type))
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError("not counts of errors") from error


def _muc_as_json(modes: MucModes) -> dict[str, list[int]]:
    return {name: list(astuple(getattr(modes, name))) for name in MATCHING_MODES}


def _muc_from_json(rows: Mapping[str, list[int]]) -> MucModes:
    return MucModes(**{name: MucCounts(*map(int, rows[name])) for name in MATCHING_MODES})


def read_error_counts(folder: Path) -> ErrorCounts | None:
    """Return the counts of the training in a folder, or None if it has none."""
    path = folder / ERROR_COUNTS
    if not path.is_file():
        return None
    try:
        return ErrorCounts.from_json(read_json(path))
    except (OSError, ValueError):
        raise UsageError(f"{ERROR_COUNTS} of {folder.name} is damaged; train again, or remove the file") from None


def errors_section(errors: ErrorCounts) -> Section:
    """Return the section about errors."""
    chart = Chart.from_plot(confusion_map(errors.confusion), "confusion", "Rows: gold types; columns: predicted types.")
    return Section("Errors", tables=(confusion_table(errors.confusion), muc_table(errors.muc)), charts=(chart,))


def write_training_page(
    path: Path,
    title: str,
    *,
    scores: Sequence[Table],
    errors: ErrorCounts | None,
    mode: str,
    epochs: Sequence[EpochFigures],
    settings: Mapping[str, object],
) -> None:
    """Write one self-contained page; `mode` is the matching mode of the development F1."""
    f1 = learning_curves(
        {"F1": [(record.epoch, record.dev_f1) for record in epochs]},
        Labels("Development F1", "epoch", f"{mode} micro-F1"),
    )
    loss = learning_curves(
        {"loss": [(record.epoch, record.loss) for record in epochs]},
        Labels("Training loss", "epoch", "mean per example"),
    )
    charts = (
        Chart(f1.to_svg(), f"{mode.capitalize()} micro-F1 on the development notes after each epoch."),
        Chart(loss.to_svg(), "Mean loss per training example in each epoch."),
    )
    rows = tuple((name, str(value)) for name, value in settings.items())
    sections = [
        Section("Scores", tables=tuple(scores)),
        Section("Training", charts=charts),
        *([] if errors is None else [errors_section(errors)]),
        Section("Made with", tables=(Table("Settings", ("setting", "value"), rows),)),
    ]
    write_page(path, title, sections)
