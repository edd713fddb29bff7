"""The page of one finished training: scores, curves, what was confused, what it was made with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from wardround.evaluation.bootstrap import Interval
from wardround.evaluation.spans import CorpusScore
from wardround.reports.page import Drawing, Section, write_page
from wardround.reports.plots import Labels, confusion_map, learning_curves
from wardround.reports.progress import EpochFigures
from wardround.reports.score_tables import confusion_table, muc_table, score_table
from wardround.reports.tables import Table

__all__ = ["write_training_page"]


def write_training_page(
    path: Path,
    title: str,
    *,
    score: CorpusScore,
    strict_f1: Interval,
    epochs: Sequence[EpochFigures],
    settings: Mapping[str, object],
) -> None:
    """Write one self-contained page."""
    sections = [
        Section("Scores", tables=(score_table(score, micro_f1=strict_f1),)),
        Section("Training", drawings=_curves(epochs)),
        Section(
            "Where it errs",
            tables=(confusion_table(score.confusion), muc_table(score.muc)),
            drawings=(Drawing(confusion_map(score.confusion).to_svg(), "Gold types down, predicted types across."),),
        ),
        Section("Made with", tables=(_settings_table(settings),)),
    ]
    write_page(path, title, sections)


def _curves(epochs: Sequence[EpochFigures]) -> tuple[Drawing, ...]:
    loss = [(record.epoch, record.loss) for record in epochs]
    f1 = [(record.epoch, record.dev_f1) for record in epochs]
    curve = learning_curves({"F1": f1}, Labels("Development F1", "epoch", "strict micro-F1"))
    descent = learning_curves({"loss": loss}, Labels("Training loss", "epoch", "mean a sentence"))
    return (
        Drawing(curve.to_svg(), "Strict micro-F1 on the development notes after each epoch."),
        Drawing(descent.to_svg(), "Mean loss of a training sentence in each epoch."),
    )


def _settings_table(settings: Mapping[str, object]) -> Table:
    return Table("Settings", ("setting", "value"), tuple((name, str(value)) for name, value in settings.items()))
