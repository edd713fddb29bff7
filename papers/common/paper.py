"""What a folder of `papers/` declares: its studies, the tables and figures of its page, and its line in the overview.

`paper.toml` has the title and, for each table or figure of the paper, what it is measured on here, what the authors
published, and what differs. `paper.py` has the rest as `PAPER`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from papers.common.cells import Bar, Studies
from papers.common.sweep import Sweep

from wardround.reports.plots import Plot

__all__ = [
    "NAMES",
    "NOT_MEASURED",
    "ROOT",
    "Found",
    "Item",
    "Paper",
    "Way",
    "expected_of",
    "load",
    "named_paper",
    "read_json",
    "read_published",
]

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("fedner", "tagsets", "fedhe", "feded", "transfer", "private_learning")
NOT_MEASURED = "not measured"
Runs = Sequence[Mapping[str, Any]]
Choose = Callable[[Runs, Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any]]  # runs, head, chosen before


@dataclass(frozen=True)
class Found:
    """The result of a table or figure in short."""

    measured: str = ""  # empty: not measured
    seeds: Sequence[int] = ()  # the number of seeds of each study in it; empty if nothing is drawn at random
    shows: str = ""  # one sentence


@dataclass(frozen=True)
class Way:
    """How a table or figure is measured."""

    only: tuple[str, ...] = ()  # the tables or studies that `papers.measure` runs
    module: str = ""  # a module of the paper that measures instead
    file: str = "results.json"  # that is written
    option: str = ""  # of `papers.summarise` for that file; empty: a plain argument


@dataclass(frozen=True)
class Item:
    """One table or figure of a paper."""

    name: str  # argument of `wardround paper`
    title: str
    data: str = ""  # what it is measured on here
    published: str = ""
    differs: str = ""
    anchor: str = ""  # on the paper's page
    markers: tuple[str, ...] = ()  # around it on the page
    way: Way | None = None  # None: nothing is measured


@dataclass(frozen=True)
class Paper:
    """A folder of `papers/`."""

    name: str
    sweep: type[Sweep] = Sweep
    measured: type[Studies] = Studies  # reads a summary
    tables: Mapping[str, Callable[[Any], str]] = field(default_factory=dict)  # by marker, from `measured`
    found: Mapping[str, Callable[[Any], Found]] = field(default_factory=dict)  # by item, from `measured`
    plots: Callable[[Any], dict[str, Plot]] = lambda measured: {}
    bars: Callable[[Any], list[Bar]] | None = None  # targets, checked by `papers.summarise --check`
    all_met: Callable[[Any], bool] | None = None  # None: all bars must be met
    choices: Mapping[str, Choose] = field(default_factory=dict)  # of papers.choose
    files: Mapping[str, str] = field(default_factory=dict)  # further options of `papers.summarise`, with their help
    gather: Callable[[dict[str, Any], Mapping[str, list[Path]]], None] | None = None  # reads those files
    beside: Sequence[str] = ()  # further summaries of the folder: `joint` is joint.json, under that name
    declared: Mapping[str, Any] | None = None  # in place of paper.toml

    @property
    def folder(self) -> Path:
        """Return the folder of its page."""
        return ROOT / "papers" / self.name

    @property
    def chosen(self) -> Path:
        """Return the file with the settings that were chosen on development data."""
        return self.folder / "chosen.json"

    @cached_property
    def _declared(self) -> Mapping[str, Any]:
        if self.declared is not None:
            return self.declared
        return tomllib.loads((self.folder / "paper.toml").read_text(encoding="utf-8"))

    @property
    def title(self) -> str:
        """Return its title in the overview."""
        return str(self._declared["title"])

    @cached_property
    def items(self) -> Sequence[Item]:
        """Return its tables and figures."""
        texts = self._declared.get("texts", {})
        return [_item(entry, texts) for entry in self._declared["items"]]

    def item(self, name: str) -> Item | None:
        """Return the table or figure with that name."""
        return next((item for item in self.items if item.name == name), None)

    def result(self, item: Item, expected: Mapping[str, Any]) -> Found:
        """Return what a summary says of a table or figure."""
        return self.found[item.name](self.measured(expected)) if item.name in self.found else Found()


def _item(entry: Mapping[str, Any], texts: Mapping[str, str]) -> Item:
    own = {name: value.format(**texts) if isinstance(value, str) else value for name, value in entry.items()}
    own["markers"] = tuple(own.get("markers", ()))
    if "way" in own:
        own["way"] = Way(**{**own["way"], "only": tuple(own["way"].get("only", ()))})
    return Item(**own)


def load(name: str) -> Paper:
    """Return the paper with that name."""
    found: Paper = import_module(f"papers.{name}.paper").PAPER
    return found


def named_paper(about: str | None) -> tuple[Paper, argparse.ArgumentParser]:
    """Return the paper that the command line names first, and a parser of the words after it."""
    program = f"python -m papers.{Path(sys.argv[0]).stem}"
    if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
        sys.exit(f"usage: {program} PAPER [options]; papers are {', '.join(NAMES)}")
    name = sys.argv.pop(1)
    form = argparse.RawDescriptionHelpFormatter
    return load(name), argparse.ArgumentParser(f"{program} {name}", description=about, formatter_class=form)


def read_json(path: Path) -> dict[str, Any]:
    """Return the content of a JSON file; empty if there is none."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found


def read_published(name: str) -> dict[str, Any]:
    """Return the figures that the authors of a paper published."""
    return tomllib.loads((ROOT / "papers" / name / "published.toml").read_text(encoding="utf-8"))


def expected_of(paper: Paper) -> dict[str, Any]:
    """Return the committed summaries of a paper."""
    beside = {name: found for name in paper.beside if (found := read_json(paper.folder / f"{name}.json"))}
    return read_json(paper.folder / "expected.json") | beside
