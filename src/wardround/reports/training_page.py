"""The page of one finished training: scores, curves, what was confused, what it was made with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from wardround.evaluation.spans import CorpusScore
from wardround.reports.page import Drawing, Section, write_page
from wardround.reports.plots import Labels, confusion_map, learning_curves
from wardround.reports.progress import EpochFigures
from wardround.reports.score_tables import confusion_table, muc_table
from wardround.reports.tables import Table

__all__ = ["write_training_page"]


def write_training_page(
    path: Path,
    title: str,
    *,
    scores: Sequence[Table],
    entities: CorpusScore | None,
    reading: str,
    epochs: Sequence[EpochFigures],
    settings: Mapping[str, object],
) -> None:
    """Write one self-contained page; `reading` is that of the development F1, `entities` are looked into closer."""
    errors = [] if entities is None else [_errors(entities)]
    sections = [
        Section("Scores", tables=tuple(scores)),
        Section("Training", drawings=_curves(epochs, reading)),
        *errors,
        Section("Made with", tables=(_settings_table(settings),)),
    ]
    write_page(path, title, sections)


def _errors(score: CorpusScore) -> Section:
    return Section(
        "Where it errs",
        tables=(confusion_table(score.confusion), muc_table(score.muc)),
        drawings=(Drawing(confusion_map(score.confusion).to_svg(), "Gold types down, predicted types across."),),
    )


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
