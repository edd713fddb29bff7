"""A sweep to watch in the terminal: a line a run, and a bar below them."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from wardround.sweeps.index import Index
from wardround.sweeps.plan import Planned

__all__ = ["SweepProgress"]


class SweepProgress:
    """On standard error, so that the table can be piped; use it as a context."""

    def __init__(self, index: Index, *, console: Console | None = None) -> None:
        self._index, self._running = index, list[str]()
        self._console = console or Console(stderr=True)
        self._bar = Progress(
            TextColumn("runs"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("", total=len(index.runs), completed=self._done())

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def on_start(self, run: Planned) -> None:
        """Name it beside the bar."""
        self._running.append(run.name)
        self._update()

    def on_end(self, run: Planned) -> None:
        """A line with its first figure."""
        first = self._index.figures[0]
        value = self._index.figure(run, first)
        self._finished(run, f"{first.title} {'–' if value is None else f'{value:.4g}'}")

    def on_failure(self, run: Planned, reason: str) -> None:
        """A line with the reason."""
        self._finished(run, f"failed: {reason}")

    def on_cut_off(self, run: Planned) -> None:
        """A line that says so."""
        self._finished(run, "stopped; the same command goes on with it")

    def on_event(self, text: str) -> None:
        """A line."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _finished(self, run: Planned, said: str) -> None:
        self._running.remove(run.name)
        self.on_event(f"{self._done()}/{len(self._index.runs)}  {run.name}: {said}")
        self._update()

    def _done(self) -> int:
        return sum(self._index.has(run) for run in self._index.runs)

    def _update(self) -> None:
        self._bar.update(self._task, completed=self._done(), description="; ".join(self._running))
