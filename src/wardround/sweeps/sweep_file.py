"""The sweep file: one study, what is varied in it, what is reported of each run, and what others published.

[sweep]        name, and the study that is varied: a file
[base.…]       or its sections here, [base.study], [base.algorithm] and so on
[report]       by title, which figure of `scores.json`: "F1" = "sites.*.strict.f1"
[grid]         what is varied: a setting of the study with its values, "model.lstm" = [50, 100]
[grid.NAME]    or choices by name, each a table of settings: FedNER = { "algorithm.name" = "fedner" }
[[exclude]]    combinations that are left out, by what is varied
[[published]]  figures of others, by what is varied and by title
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
from wardround.sweeps.grid import SEED, Axis, Choice, axis_of
from wardround.sweeps.seeds import Spread

__all__ = ["Figure", "Published", "Sweep", "parse_sweep", "read_sweep"]

_SECTIONS = ("sweep", "base", "report", "grid", "exclude", "published")


@dataclass(frozen=True)
class Figure:
    """One column of the table."""

    title: str
    path: str  # into scores.json: names parted by dots; * is the mean over all there
    times: float = 1.0  # by which it is shown: 100 for percent, 1e-6 for megabytes
    digits: int = 3


@dataclass(frozen=True)
class Published:
    """What somebody found for a cell, by title; text where it is no number."""

    where: Mapping[str, str]  # by axis, the name of its choice
    figures: Mapping[str, float | str]


@dataclass(frozen=True)
class _Head:
    """The section [sweep]."""

    name: str
    description: str = ""
    study: Path | None = None  # begins where the sweep file lies
    spread: Spread = "range"  # over seeds, beside the mean: the lowest and the highest, or a 95% interval
    keep_models: bool = False  # at the end of each run


@dataclass(frozen=True)
class Sweep:
    """A whole sweep file."""

    name: str
    base: Mapping[str, Any] = field(repr=False)  # the study as tables
    folder: Path  # where paths of the study begin
    axes: tuple[Axis, ...]
    seeds: tuple[int, ...]
    figures: tuple[Figure, ...]  # the first is drawn
    excluded: tuple[Mapping[str, str], ...] = ()
    published: tuple[Published, ...] = ()
    description: str = ""
    spread: Spread = "range"
    keep_models: bool = False

    @property
    def title(self) -> str:
        """Above its table."""
        return self.description or self.name


def read_sweep(path: Path) -> Sweep:
    """The sweep in a file; paths in it begin where the file lies."""
    return parse_sweep(_text_of(path), folder=path.parent)


def parse_sweep(text: str, *, folder: Path = Path()) -> Sweep:
    """The sweep in a text."""
    table = _toml(text, "the sweep file")
    for name in table:
        if name not in _SECTIONS:
            near = did_you_mean(name, _SECTIONS)
            raise SweepError(f"[{name}] is no section of a sweep{near}; there are {', '.join(_SECTIONS)}")
    head = parsed(_Head, _table(table, "sweep"), "sweep")
    base, place = _base(head, _table(table, "base"), folder)
    grid = dict(_varied(_table(table, "grid")))
    axes = [axis_of(name, values, base) for name, values in grid.items() if name != SEED]
    figures = tuple(_figure(title, value) for title, value in _table(table, "report").items())
    if not figures:
        raise SweepError('[report] names no figure; for example "F1" = "sites.*.strict.f1"')
    return Sweep(
        head.name,
        base,
        place,
        tuple(axes),
        _seeds(grid, base),
        figures,
        excluded=tuple(_where(entry, axes, "exclude") for entry in _entries(table, "exclude")),
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


def _base(head: _Head, own: dict[str, Any], folder: Path) -> tuple[dict[str, Any], Path]:
    """The study as tables, and where its paths begin."""
    if (head.study is None) == (not own):
        raise SweepError("a sweep has one base: [sweep] study = a file, or the study's sections below [base]")
    if head.study is None:
        return own, folder
    path = folder / head.study
    return _toml(_text_of(path), path.name), path.parent


def _table(table: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = table.get(name, {})
    if not isinstance(found, dict):
        raise SweepError(f"[{name}] must be a section")
    return found


def _entries(table: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    found = table.get(name, [])
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise SweepError(f"[{name}] must be written [[{name}]], once for each")
    return found


def _varied(grid: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """TOML reads `model.lstm = [50]` without quotes as a table in another; both mean the same setting."""
    for name, values in grid.items():
        if isinstance(values, dict) and values and all(isinstance(value, list) for value in values.values()):
            yield from ((f"{name}.{setting}", value) for setting, value in values.items())
        else:
            yield name, values


def _seeds(grid: Mapping[str, Any], base: Mapping[str, Any]) -> tuple[int, ...]:
    section = base.get("study", {})
    own = section.get("seed", 0) if isinstance(section, dict) else 0
    found = grid.get(SEED, [own])
    whole = isinstance(found, list) and all(isinstance(seed, int) and not isinstance(seed, bool) for seed in found)
    if not whole or not found or len(set(found)) < len(found):
        raise SweepError(f"[grid] {SEED} must be a list of whole numbers, each once")
    return tuple(found)


def _figure(title: str, value: Any) -> Figure:
    if isinstance(value, str):
        return Figure(title, value)
    if not isinstance(value, dict):
        raise SweepError(
            f'[report] {title!r} must be a path into scores.json, or a table {{ path = "…", times = 100 }}'
        )
    return parsed(Figure, {"title": title, **value}, f"report.{title}")


def _where(entry: Mapping[str, Any], axes: Sequence[Axis], place: str) -> dict[str, str]:
    """A combination by the names of choices; a plain setting may be named by its value."""
    if not entry:
        raise SweepError(f"[[{place}]] is empty; it names what is varied, and which choice of it")
    by_name = {axis.name: axis for axis in axes}
    for name in entry:
        if name not in by_name:
            near = did_you_mean(name, by_name)
            raise SweepError(f"[[{place}]] {name!r} is not varied{near}; there are {', '.join(by_name) or 'none'}")
    return {name: _named(by_name[name], value, place).name for name, value in entry.items()}


def _named(axis: Axis, value: Any, place: str) -> Choice:
    found = axis.find(value)
    if found is None:
        names = ", ".join(choice.name for choice in axis.choices)
        raise SweepError(f"[[{place}]] {axis.name} has no choice {value!r}; there are {names}")
    return found


def _published(entry: Mapping[str, Any], axes: Sequence[Axis], figures: Sequence[Figure]) -> Published:
    titles = {figure.title for figure in figures}
    told = {title: value for title, value in entry.items() if title in titles}
    if not told:
        raise SweepError(f"[[published]] gives no figure of [report]; there are {', '.join(titles)}")
    for title, value in told.items():
        if not isinstance(value, int | float | str) or isinstance(value, bool):
            raise SweepError(f"[[published]] {title!r} must be a number or text")
    where = {name: value for name, value in entry.items() if name not in titles}
    named = _where(where, axes, "published") if where else {}
    return Published(named, {title: v if isinstance(v, str) else float(v) for title, v in told.items()})
