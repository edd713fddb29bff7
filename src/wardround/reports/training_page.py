"""The page of one finished training: scores, curves, what was confused, what it was made with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from wardround.reports.error_counts import ErrorCounts, errors_section
from wardround.reports.page import Drawing, Section, write_page
from wardround.reports.plots import Labels, learning_curves
from wardround.reports.progress import EpochFigures
from wardround.reports.tables import Table

__all__ = ["write_training_page"]


def write_training_page(
    path: Path,
    title: str,
    *,
    scores: Sequence[Table],
    errors: ErrorCounts | None,
    reading: str,
    epochs: Sequence[EpochFigures],
    settings: Mapping[str, object],
) -> None:
    """Write one self-contained page; `reading` is that of the development F1, `errors` are those in entities."""
    sections = [
        Section("Scores", tables=tuple(scores)),
        Section("Training", drawings=_curves(epochs, reading)),
        *([] if errors is None else [errors_section(errors)]),
        Section("Made with", tables=(_settings_table(settings),)),
    ]
    write_page(path, title, sections)


def _curves(epochs: Sequence[EpochFigures], reading: str) -> tuple[Drawing, ...]:
    loss = [(record.epoch, record.loss) for record in epochs]
    f1 = [(record.epoch, record.dev_f1) for record in epochs]
    curve = learning_curves({"F1": f1}, Labels("Development F1", "epoch", f"{reading} micro-F1"))
    descent = learning_curves({"loss": loss}, Labels("Training loss", "epoch", "mean an example"))
    return (
        Drawing(curve.to_svg(), f"{reading.capitalize()} micro-F1 on the development notes after each epoch."),
        Drawing(descent.to_svg(), "Mean loss of a training example in each epoch."),
    )


def _settings_table(settings: Mapping[str, object]) -> Table:
    return Table("Settings", ("setting", "value"), tuple((name, str(value)) for name, value in settings.items()))
