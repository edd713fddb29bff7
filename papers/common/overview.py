"""The tables and figures of a paper: what each is called, how it is measured again, what a summary says of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

__all__ = ["DRAWING", "NOT_MEASURED", "ROOT", "Found", "Item", "Paper", "Way", "expected_of", "listed", "means"]

ROOT = Path(__file__).resolve().parents[2]
NOT_MEASURED = "not measured"
DRAWING = "a drawing; nothing to measure"
Summary = Mapping[str, Any]  # an expected.json


@dataclass(frozen=True)
class Found:
    """What a summary says of a table or figure, in short."""

    measured: str = ""  # empty is not measured
    seeds: Sequence[int] = ()  # how many each study in it has; none where nothing is drawn
    shows: str = ""  # in a sentence


@dataclass(frozen=True)
class Way:
    """How a table or figure is measured again."""

    module: str = "measure"  # of the paper
    only: tuple[str, ...] = ()  # what it is told to measure
    file: str = "results.json"  # that it writes
    option: str = ""  # of `summarise`, which takes the file; empty is none


@dataclass(frozen=True)
class Item:
    """One table or figure."""

    name: str  # as `wardround paper` takes it
    title: str
    data: str = ""  # that it is measured on here
    published: str = ""
    differs: str = ""
    anchor: str = ""  # on the paper's page
    markers: tuple[str, ...] = ()  # between which it stands there
    way: Way | None = None  # None where nothing is to be measured
    found: Callable[[Summary], Found] = lambda expected: Found()


@dataclass(frozen=True)
class Paper:
    """A folder of `papers/`."""

    name: str
    title: str
    items: Sequence[Item]
    beside: Sequence[str] = ()  # more summaries: `joint` is joint.json, under that name

    @property
    def folder(self) -> Path:
        """Where its page lies."""
        return ROOT / "papers" / self.name

    def item(self, name: str) -> Item | None:
        """By its name."""
        return next((item for item in self.items if item.name == name), None)


def expected_of(paper: Paper) -> dict[str, Any]:
    """The committed summaries; empty where there are none."""
    beside = {name: found for name in paper.beside if (found := _json(paper.folder / f"{name}.json"))}
    return _json(paper.folder / "expected.json") | beside


def _json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found


def listed(figures: Mapping[str, float], *, digits: int = 1, sign: bool = False) -> str:
    """`FedNER 79.3, pooled 78.0`."""
    return ", ".join(f"{name} {figure:{'+' if sign else ''}.{digits}f}" for name, figure in figures.items())


def means(figures: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Each over its seeds."""
    return {name: mean(values) for name, values in figures.items()}
