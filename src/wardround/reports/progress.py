"""A training to watch in the terminal: a bar with live loss, F1 and time left."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

__all__ = ["EpochFigures", "TrainingProgress"]


class EpochFigures(Protocol):
    """What is shown of an epoch."""

    @property
    def epoch(self) -> int:
        """From 1."""

    @property
    def loss(self) -> float:
        """Mean over the sentences."""

    @property
    def dev_f1(self) -> float:
        """On the development set."""

    @property
    def best(self) -> bool:
        """No epoch before scored higher."""


class TrainingProgress:
    """One bar a training, on standard error so that results can be piped; use it as a context."""

    def __init__(self, name: str, epochs: int, *, console: Console | None = None) -> None:
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console or Console(stderr=True),
        )
        self._task = self._bar.add_task(name, total=None, figures="")
        self._epochs, self._scores = epochs, dict[str, float]()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def on_step(self, epoch: int, *, step: int, steps: int, loss: float) -> None:
        """Move the bar."""
        done = (epoch - 1) * steps + step
        self._bar.update(self._task, completed=done, total=self._epochs * steps, figures=self._figures(loss))

    def on_epoch(self, record: EpochFigures) -> None:
        """Show the epoch's figures."""
        self._scores["F1"] = record.dev_f1
        if record.best:  # in a training that was resumed, the best epoch may lie before this bar
            self._scores["best"] = record.dev_f1
        self._bar.update(self._task, figures=self._figures(record.loss))

    def _figures(self, loss: float) -> str:
        return "  ".join(f"{name} {value:.3f}" for name, value in {"loss": loss, **self._scores}.items())
