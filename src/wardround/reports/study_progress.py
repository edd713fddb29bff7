"""A study to watch in the terminal: round, loss, F1 by site, bytes up and down, time left."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from wardround.reports.plain_text import size_text

__all__ = ["AbsentSite", "RoundFigures", "StudyProgress"]

_MOST_SITES = 12  # rows; of more sites the worst ones are shown
_REFRESH = 4  # times a second


class Bytes(Protocol):
    """What passed the door."""

    @property
    def up(self) -> int:
        """From the sites."""

    @property
    def down(self) -> int:
        """To the sites."""


class AbsentSite(Protocol):
    """A site that gave nothing, and why."""

    @property
    def site(self) -> str:
        """Its name."""

    @property
    def code(self) -> str:
        """Why."""


class RoundFigures(Protocol):
    """What is shown of a round."""

    @property
    def number(self) -> int:
        """From 1."""

    @property
    def loss(self) -> float:
        """Mean over the sites."""

    @property
    def absent(self) -> Sequence[AbsentSite]:
        """Who gave nothing."""

    @property
    def traffic(self) -> Bytes:
        """What it cost."""


class StudyProgress:
    """A table that is drawn anew; where nobody looks on a terminal, a line at every scoring. Use it as a context."""

    def __init__(self, name: str, sites: Sequence[str], rounds: int, *, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._name, self._rounds = name, rounds
        self._scores: dict[str, list[float]] = {site: [] for site in sites}
        self._absent: dict[str, str] = {}
        self._first, self._number, self._loss = 0, 0, float("nan")
        self._up = self._down = 0
        self._started = time.monotonic()
        self._live = Live(console=self._console, refresh_per_second=_REFRESH, get_renderable=self._drawn)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live.is_started:
            self._live.stop()

    def on_start(self, number: int) -> None:
        """Rounds up to `number` were done before."""
        self._first = self._number = number
        self._started = time.monotonic()
        if number:
            self.on_event(f"{self._name} goes on after round {number}")

    def on_round(self, record: RoundFigures) -> None:
        """Show the round."""
        self._number, self._loss = record.number, record.loss
        self._up, self._down = self._up + record.traffic.up, self._down + record.traffic.down
        self._absent = {gone.site: gone.code for gone in record.absent}

    def on_scores(self, number: int, f1: Mapping[str, float]) -> None:
        """Show the scores."""
        for site, score in f1.items():
            self._scores.setdefault(site, []).append(score)
        if not self._console.is_terminal:
            self._console.print(self._line(f1), highlight=False, markup=False, soft_wrap=True)

    def on_event(self, text: str) -> None:
        """Say something above the table."""
        self._console.print(text, highlight=False, markup=False)

    def _line(self, f1: Mapping[str, float]) -> str:
        scores = "  ".join(f"{site} {score:.3f}" for site, score in list(f1.items())[:_MOST_SITES])
        return f"{self._name}  {self._head()}  F1 {scores}"

    def _head(self) -> str:
        loss = f"loss {self._loss:.3f}"
        passed = f"up {size_text(self._up)}  down {size_text(self._down)}"
        return f"round {self._number}/{self._rounds}  {loss}  {passed}  left {self._left()}"

    def _left(self) -> str:
        done = self._number - self._first
        if not done:
            return "–"
        seconds = (time.monotonic() - self._started) / done * (self._rounds - self._number)
        return f"{int(seconds // 60)}:{int(seconds % 60):02d}"

    def _drawn(self) -> Group:
        table = Table(box=None, padding=(0, 2, 0, 0))
        for column, side in (("site", "left"), ("F1", "right"), ("best", "right"), ("", "left")):
            table.add_column(column, justify="left" if side == "left" else "right")
        shown = sorted(self._scores, key=lambda site: self._scores[site][-1:] or [0.0])
        names = list(self._scores) if len(shown) <= _MOST_SITES else shown[:_MOST_SITES]
        for site in names:
            scores = self._scores[site]
            figures = (f"{scores[-1]:.3f}", f"{max(scores):.3f}") if scores else ("–", "–")
            table.add_row(site, *figures, self._absent.get(site, ""))
        return Group(Text(f"{self._name}  {self._head()}", style="bold"), table)
