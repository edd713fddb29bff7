"""Progress in a terminal or a notebook: a bar for training at one site, a table of sites for a study."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import TracebackType
from typing import Any, Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from wardround.text.plain_text import size_text

__all__ = ["AbsentSite", "EpochFigures", "RoundFigures", "StudyProgress", "TrainingProgress"]

_MOST_SITES = 12  # rows; with more sites those with the lowest scores are shown
_REFRESH_PER_SECOND = 4
_NOTEBOOK_WIDTH = 100  # characters
_PRE = '<pre style="white-space: pre; overflow-x: auto; line-height: 1.3; font-family: monospace">{code}</pre>'


class _NotebookView:
    """Shows progress in the output of a notebook's cell, in place; needs no widgets."""

    def __init__(self, render: Callable[[], RenderableType]) -> None:
        self._render = render
        self._handle: Any = None
        self._shown_at = 0.0

    @property
    def is_started(self) -> bool:
        """Return whether it is shown."""
        return self._handle is not None

    def start(self) -> None:
        """Show the present state."""
        notebook = import_module("IPython.display")
        self._handle = notebook.display(notebook.HTML(self._html()), display_id=True)
        self._shown_at = time.monotonic()

    def refresh(self, *, now: bool = False) -> None:
        """Show the present state, but not more often than a reader can follow."""
        if self._handle is None or not (now or time.monotonic() - self._shown_at >= 1 / _REFRESH_PER_SECOND):
            return
        self._handle.update(import_module("IPython.display").HTML(self._html()))
        self._shown_at = time.monotonic()

    def stop(self) -> None:
        """Show the last state."""
        self.refresh(now=True)
        self._handle = None

    def _html(self) -> str:
        page = Console(file=io.StringIO(), record=True, width=_NOTEBOOK_WIDTH, force_jupyter=False)
        page.print(self._render())
        return page.export_html(inline_styles=True, code_format=_PRE)


class EpochFigures(Protocol):
    """The figures of one epoch."""

    @property
    def epoch(self) -> int:
        """Return the number of the epoch, from 1."""

    @property
    def loss(self) -> float:
        """Return the mean loss of the training examples."""

    @property
    def dev_f1(self) -> float:
        """Return the F1 on the development notes."""

    @property
    def best(self) -> bool:
        """Return whether no earlier epoch scored higher."""


class TrainingProgress:
    """A progress bar with loss, F1 and time left, on standard error so that results can be piped."""

    def __init__(self, name: str, epochs: int, *, console: Console | None = None) -> None:
        console = console or Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
        )
        self._view = _NotebookView(self._bar.get_renderable) if console.is_jupyter else None
        self._task = self._bar.add_task(name, total=None, figures="")
        self._epochs, self._scores = epochs, dict[str, float]()

    def __enter__(self) -> Self:
        (self._view or self._bar).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        (self._view or self._bar).stop()

    def on_step(self, epoch: int, *, step: int, steps: int, loss: float) -> None:
        """Advance the bar."""
        done = (epoch - 1) * steps + step
        self._bar.update(self._task, completed=done, total=self._epochs * steps, figures=self._figures(loss))
        if self._view:
            self._view.refresh()

    def on_epoch(self, record: EpochFigures) -> None:
        """Show the figures of the epoch."""
        self._scores["F1"] = record.dev_f1
        if record.best:  # after a resumption the best epoch may be earlier than this bar
            self._scores["best"] = record.dev_f1
        self._bar.update(self._task, figures=self._figures(record.loss))
        if self._view:
            self._view.refresh()

    def _figures(self, loss: float) -> str:
        return "  ".join(f"{name} {value:.3f}" for name, value in {"loss": loss, **self._scores}.items())


class Bytes(Protocol):
    """The bytes of a round."""

    @property
    def up(self) -> int:
        """Return the bytes from the sites."""

    @property
    def down(self) -> int:
        """Return the bytes to the sites."""


class AbsentSite(Protocol):
    """A site that did not contribute to a round."""

    @property
    def site(self) -> str:
        """Return the name of the site."""

    @property
    def code(self) -> str:
        """Return the reason as a code."""


class RoundFigures(Protocol):
    """The figures of one round."""

    @property
    def number(self) -> int:
        """Return the number of the round, from 1."""

    @property
    def loss(self) -> float:
        """Return the mean loss over the sites."""

    @property
    def figures(self) -> Mapping[str, float]:
        """Return further figures of the round by name, such as the ε that was spent."""

    @property
    def absent(self) -> Sequence[AbsentSite]:
        """Return the sites that did not contribute."""

    @property
    def traffic(self) -> Bytes:
        """Return the bytes of the round."""


class StudyProgress:
    """A live table of the sites' scores; without a terminal, one line after every scoring."""

    def __init__(self, name: str, sites: Sequence[str], rounds: int, *, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._name, self._rounds = name, rounds
        self._scores: dict[str, list[float]] = {site: [] for site in sites}
        self._absent: dict[str, str] = {}
        self._first, self._number, self._loss, self._epsilon = 0, 0, float("nan"), 0.0
        self._up = self._down = 0
        self._started = time.monotonic()
        self._live: Live | _NotebookView
        if self._console.is_jupyter:
            self._live = _NotebookView(self._render)
        else:
            self._live = Live(
                console=self._console, refresh_per_second=_REFRESH_PER_SECOND, get_renderable=self._render
            )

    def __enter__(self) -> Self:
        if self._console.is_terminal or self._console.is_jupyter:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live.is_started:
            self._live.stop()

    def on_start(self, number: int) -> None:
        """Start after round `number`, which is 0 for a new run."""
        self._first = self._number = number
        self._started = time.monotonic()
        if number:
            where = f"at round {number + 1}" if number < self._rounds else f"after round {number}, its last one"
            self.on_event(f"{self._name} resumes {where}")

    def on_round(self, record: RoundFigures) -> None:
        """Show the figures of the round."""
        self._number, self._loss = record.number, record.loss
        self._epsilon = record.figures.get("epsilon", 0.0)
        self._up, self._down = self._up + record.traffic.up, self._down + record.traffic.down
        self._absent = {absent.site: absent.code for absent in record.absent}
        if isinstance(self._live, _NotebookView):
            self._live.refresh()

    def on_scores(self, number: int, f1: Mapping[str, float]) -> None:
        """Show the scores of the sites."""
        for site, score in f1.items():
            self._scores.setdefault(site, []).append(score)
        if isinstance(self._live, _NotebookView):
            self._live.refresh()
        elif not self._console.is_terminal:
            scores = "  ".join(f"{site} {score:.3f}" for site, score in list(f1.items())[:_MOST_SITES])
            line = f"{self._name}  {self._figures()}  F1 {scores}"
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def on_event(self, text: str) -> None:
        """Print a message above the table."""
        self._console.print(text, highlight=False, markup=False)

    def _figures(self) -> str:
        done, left = self._number - self._first, "–"
        if done:
            seconds = (time.monotonic() - self._started) / done * (self._rounds - self._number)
            left = f"{int(seconds // 60)}:{int(seconds % 60):02d}"
        sizes = f"up {size_text(self._up)}  down {size_text(self._down)}"
        # Under differential privacy sites send no loss, and what they spend counts.
        first = f"ε {self._epsilon:.2f}" if self._epsilon else f"loss {self._loss:.3f}"
        return f"round {self._number}/{self._rounds}  {first}  {sizes}  left {left}"

    def _render(self) -> Group:
        table = Table(box=None, padding=(0, 2, 0, 0))
        table.add_column("site")
        table.add_column("F1", justify="right")
        table.add_column("best", justify="right")
        table.add_column("")
        lowest = sorted(self._scores, key=lambda site: self._scores[site][-1:] or [0.0])
        for site in self._scores if len(lowest) <= _MOST_SITES else lowest[:_MOST_SITES]:
            scores = self._scores[site]
            figures = (f"{scores[-1]:.3f}", f"{max(scores):.3f}") if scores else ("–", "–")
            table.add_row(site, *figures, self._absent.get(site, ""))
        return Group(Text(f"{self._name}  {self._figures()}", style="bold"), table)
