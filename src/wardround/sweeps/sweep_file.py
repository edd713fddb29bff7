"""The sweep file: a study, the settings to vary, the figures to report, and published figures to compare with.

[sweep]        the name, and the file of the study to vary
[base.…]       or the sections of that study: [base.study], [base.algorithm] and so on
[report]       columns by title, each a path into `scores.json`: "F1" = "sites.*.strict.f1"
[grid]         a setting of the study with its values: "model.lstm" = [50, 100]
[grid.NAME]    or named choices, each a table of settings: FedNER = { "algorithm.name" = "fedner" }
[[exclude]]    combinations to leave out
[[published]]  published figures, by combination and title
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wardround.errors import SweepError
from wardround.parsing import MalformedDataError, parse_toml, read_limited
from wardround.settings import did_you_mean
from wardround.studies.sections import parsed
from wardround.studies.study_file import LARGEST_STUDY
from wardround.sweeps.figures import Spread
from wardround.sweeps.grid import SEED, Axis, parse_axis

__all__ = ["Figure", "Published", "Sweep", "SweepSection", "parse_sweep", "read_sweep"]

_SECTIONS = ("sweep", "base", "report", "grid", "exclude", "published")


@dataclass(frozen=True)
class Figure:
    """One column of the table."""

    title: str
    path: str  # into scores.json, names separated by dots; * is the mean over all entries
    times: float = 1.0  # the factor for display: 100 for percent, 1e-6 for megabytes
    digits: int = 3


@dataclass(frozen=True)
class Published:
    """Published figures of one cell, by title; text if there is no number."""

    where: Mapping[str, str]  # the name of the choice, by axis
    figures: Mapping[str, float | str]


@dataclass(frozen=True)
class SweepSection:
    """The section [sweep]."""

    name: str
    description: str = ""
    study: Path | None = None  # relative to the folder of the sweep file
    spread: Spread = "range"  # shown with the mean over seeds: lowest and highest seed, or a 95% interval
    keep_models: bool = False  # after each run


@dataclass(frozen=True)
class Sweep:
    """The content of a sweep file."""

    name: str
    base: Mapping[str, Any] = field(repr=False)  # the study as tables
    folder: Path  # paths of the study are relative to it
    axes: tuple[Axis, ...]
    seeds: tuple[int, ...]
    figures: tuple[Figure, ...]  # the first is plotted
    excluded: tuple[Mapping[str, str], ...] = ()
    published: tuple[Published, ...] = ()
    description: str = ""
    spread: Spread = "range"
    keep_models: bool = False

    @property
    def title(self) -> str:
        """Return the title of the table."""
        return self.description or self.name


def read_sweep(path: Path) -> Sweep:
    """Read a sweep file; its paths are relative to its folder."""
    return parse_sweep(_text_of(path), folder=path.parent)


def parse_sweep(text: str, *, folder: Path = Path()) -> Sweep:
    """Parse the text of a sweep file."""
    table = _toml(text, "the sweep file")
    for name in table:
        if name not in _SECTIONS:
            near = did_you_mean(name, _SECTIONS)
            raise SweepError(f"[{name}] is not a section of a sweep{near}; there are {', '.join(_SECTIONS)}")
    head = parsed(SweepSection, _section(table, "sweep"), "sweep")
    base, base_folder = _base(head, _section(table, "base"), folder)
    grid = dict(_settings(_section(table, "grid")))
    axes = [parse_axis(name, values, base) for name, values in grid.items() if name != SEED]
    figures = tuple(_figure(title, value) for title, value in _section(table, "report").items())
    if not figures:
        raise SweepError('[report] has no figure; for example "F1" = "sites.*.strict.f1"')
    return Sweep(
        head.name,
        base,
        base_folder,
        tuple(axes),
        _seeds(grid, base),
        figures,
        excluded=tuple(_combination(entry, axes, "exclude") for entry in _entries(table, "exclude")),
        published=tuple(_published(entry, axes, figures) for entry in _entries(table, "published")),
        description=head.description,
        spread=head.spread,
        keep_models=head.keep_models,
    )


def _text_of(path: Path) -> str:
    try:
        return str(read_limited(path, LARGEST_STUDY), "utf-8")
    except MalformedDataError as error:
        raise SweepError(f"{path.name} {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SweepError(f"{path.name} cannot be read as text: {type(error).__name__}") from None


def _toml(text: str, what: str) -> dict[str, Any]:
    try:
        return parse_toml(text)
    except MalformedDataError as error:
        raise SweepError(f"{what} {error}") from None


def _base(head: SweepSection, own: dict[str, Any], folder: Path) -> tuple[dict[str, Any], Path]:
    """Return the study as tables, and the folder of its paths."""
    if (head.study is None) == (not own):
        raise SweepError("a sweep needs one base: either [sweep] study = a file, or the study's sections below [base]")
    if head.study is None:
        return own, folder
    path = folder / head.study
    return _toml(_text_of(path), path.name), path.parent


def _section(table: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = table.get(name, {})
    if not isinstance(found, dict):
        raise SweepError(f"[{name}] must be a section")
    return found


def _entries(table: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    found = table.get(name, [])
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise SweepError(f"[{name}] must be written as [[{name}]], once per entry")
    return found


def _settings(grid: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield dotted names: TOML reads `model.lstm = [50]` without quotes as nested tables."""
    for name, values in grid.items():
        if isinstance(values, dict) and values and all(isinstance(value, list) for value in values.values()):
            yield from ((f"{name}.{setting}", value) for setting, value in values.items())
        else:
            yield name, values


def _seeds(grid: Mapping[str, Any], base: Mapping[str, Any]) -> tuple[int, ...]:
    section = base.get("study", {})
    own = section.get("seed", 0) if isinstance(section, dict) else 0
    found = grid.get(SEED, [own])
    integers = isinstance(found, list) and all(isinstance(seed, int) and not isinstance(seed, bool) for seed in found)
    if not integers or not found or len(set(found)) < len(found):
        raise SweepError(f"[grid] {SEED} must be a list of distinct whole numbers")
    return tuple(found)


def _figure(title: str, value: Any) -> Figure:
    if isinstance(value, str):
        return Figure(title, value)
    if not isinstance(value, dict):
        raise SweepError(
            f'[report] {title!r} must be a path into scores.json, or a table {{ path = "…", times = 100 }}'
        )
    return parsed(Figure, {"title": title, **value}, f"report.{title}")


def _combination(entry: Mapping[str, Any], axes: Sequence[Axis], place: str) -> dict[str, str]:
    """Return the names of the choices by axis; the file may name a plain setting's choice by its value."""
    if not entry:
        raise SweepError(f"[[{place}]] is empty; name the axes and the choice of each")
    by_name = {axis.name: axis for axis in axes}
    found = {}
    for name, value in entry.items():
        if name not in by_name:
            near = did_you_mean(name, by_name)
            raise SweepError(f"[[{place}]] {name!r} is not varied{near}; there are {', '.join(by_name) or 'none'}")
        choice = by_name[name].find(value)
        if choice is None:
            names = ", ".join(choice.name for choice in by_name[name].choices)
            raise SweepError(f"[[{place}]] {name} has no choice {value!r}; there are {names}")
        found[name] = choice.name
    return found


def _published(entry: Mapping[str, Any], axes: Sequence[Axis], figures: Sequence[Figure]) -> Published:
    titles = {figure.title for figure in figures}
    values = {title: value for title, value in entry.items() if title in titles}
    if not values:
        raise SweepError(f"[[published]] has no figure of [report]; there are {', '.join(titles)}")
    for title, value in values.items():
        if not isinstance(value, int | float | str) or isinstance(value, bool):
            raise SweepError(f"[[published]] {title!r} must be a number or text")
    where = {name: value for name, value in entry.items() if name not in titles}
    cell = _combination(where, axes, "published") if where else {}
    return Published(cell, {title: v if isinstance(v, str) else float(v) for title, v in values.items()})
