"""The grid of a sweep: axes of named choices, the cells of their product, and the study of each cell and seed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

from wardround.errors import SweepError, WardroundError
from wardround.settings import did_you_mean
from wardround.studies.study_file import Study, study_from

__all__ = [
    "SEED",
    "SITES",
    "Axis",
    "Cell",
    "Choice",
    "apply_choices",
    "cell_study",
    "grid_cells",
    "parse_axis",
    "run_key",
]

SEED = "study.seed"  # results are averaged over it
SITES = "sites"  # takes a list of names: the sites of the base that take part
_UNSET = "unset"  # key of a choice: settings of the base that it removes
_KEY_DIGITS = 16


@dataclass(frozen=True)
class Choice:
    """One value of an axis, with the name that tables show."""

    name: str
    changes: Mapping[str, Any]  # settings of the study, by dotted name
    unset: tuple[str, ...] = ()
    value: Any = field(default=None, compare=False)  # for a plain setting, the value in the file


@dataclass(frozen=True)
class Axis:
    """One setting, or one group of settings, that is varied."""

    name: str
    choices: tuple[Choice, ...]

    def find(self, value: Any) -> Choice | None:
        """Return the choice with this name or value, or None."""
        for choice in self.choices:
            own = choice.value
            if choice.name == value or (own is not None and type(own) is type(value) and own == value):
                return choice
        return None

    @property
    def numbers(self) -> tuple[float, ...] | None:
        """Return the values if all of them are numbers, otherwise None."""
        values = [choice.value for choice in self.choices]
        are_numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
        return tuple(map(float, values)) if are_numbers else None


@dataclass(frozen=True)
class Cell:
    """One combination of choices: one row of the table, run with every seed."""

    choices: Mapping[str, Choice]  # by axis

    @property
    def name(self) -> str:
        """Return the choices, comma-separated; a bare number is preceded by the name of its setting."""
        parts = []
        for axis, choice in self.choices.items():
            bare = choice.value is not None and not isinstance(choice.value, str | list)
            parts.append(f"{axis.rpartition('.')[2]} {choice.name}" if bare else choice.name)
        return ", ".join(parts) or "the study"

    def matches(self, where: Mapping[str, str]) -> bool:
        """Return whether the cell has the named choices."""
        return all(self.choices[axis].name == name for axis, name in where.items())


def parse_axis(name: str, values: Any, base: Mapping[str, Any]) -> Axis:
    """Return an axis of the section [grid]: a setting with a list of values, or a table of named choices."""
    if isinstance(values, dict):
        choices = [_parse_choice(name, choice, changes) for choice, changes in values.items()]
    elif isinstance(values, list):
        if name != SITES and "." not in name:
            raise SweepError(
                f"[grid] {name!r} is not a setting of a study such as model.preset; put choices in [grid.{name}]"
            )
        choices = []
        for value in values:
            shown = " + ".join(map(str, value)) if isinstance(value, list) else str(value)
            choices.append(Choice(shown.lower() if isinstance(value, bool) else shown, {name: value}, value=value))
    else:
        raise SweepError(f"[grid] {name} must be a list of values or a section of named choices")
    if not choices or len({choice.name for choice in choices}) < len(choices):
        raise SweepError(f"[grid] {name} must have at least one choice, and no choice twice")
    for choice in choices:
        if SITES in choice.changes:
            _check_sites(name, choice.changes[SITES], base.get(SITES, {}))
    return Axis(name, tuple(choices))


def _parse_choice(axis: str, name: str, changes: Any) -> Choice:
    if not isinstance(changes, dict):
        raise SweepError(f'[grid.{axis}] {name} must be a table of settings, e.g. {{ "algorithm.name" = "fedner" }}')
    settings = dict(changes)
    unset = settings.pop(_UNSET, [])
    if not isinstance(unset, list) or not all(isinstance(setting, str) for setting in unset):
        raise SweepError(f"[grid.{axis}] {name}: {_UNSET} must be a list of settings")
    return Choice(name, dict(_flatten(settings)), tuple(unset))


def _flatten(table: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted names: TOML reads `algorithm.name = 1` without quotes as nested tables."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _check_sites(axis: str, names: Any, known: Mapping[str, Any]) -> None:
    if not isinstance(names, list):
        raise SweepError(f"[grid] {axis}: {SITES} takes lists of names of sites that the base has")
    for name in names:
        if name not in known:
            raise SweepError(f"[grid] {axis}: the base has no site {name!r}{did_you_mean(str(name), known)}")


def grid_cells(axes: Sequence[Axis], excluded: Sequence[Mapping[str, str]]) -> list[Cell]:
    """Return the product of the axes without the excluded cells; the first axis varies slowest."""
    names = [axis.name for axis in axes]
    cells = [Cell(dict(zip(names, row, strict=True))) for row in product(*(axis.choices for axis in axes))]
    for where in excluded:
        if not any(cell.matches(where) for cell in cells):
            combination = ", ".join(f"{axis} = {name}" for axis, name in where.items())
            raise SweepError(f"[[exclude]] {combination} is not a combination of the grid")
    remaining = [cell for cell in cells if not any(cell.matches(where) for where in excluded)]
    if not remaining:
        raise SweepError("[[exclude]] excludes the whole grid")
    return remaining


def cell_study(base: Mapping[str, Any], cell: Cell, seed: int, *, folder: Path) -> Study:
    """Return the study of a cell and seed; raise `SweepError` with the cell's name if it is invalid."""
    try:
        return study_from(apply_choices(base, cell, seed), folder=folder)
    except WardroundError as error:
        raise SweepError(f"{cell.name}: {error}") from None


def apply_choices(base: Mapping[str, Any], cell: Cell, seed: int) -> dict[str, Any]:
    """Return the tables of the base study with the cell's choices and the seed."""
    table = deepcopy(dict(base))
    for choice in cell.choices.values():
        for name in choice.unset:
            _remove(table, name)
        for name, value in choice.changes.items():
            _set(table, name, value)
    _set(table, SEED, seed)
    return table


def _set(table: dict[str, Any], name: str, value: Any) -> None:
    if name == SITES:
        table[SITES] = {site: section for site, section in table[SITES].items() if site in value}
        return
    *above, last = name.split(".")
    for part in above:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise SweepError(f"[grid] {name}: {part!r} is a value, not a section")
    table[last] = deepcopy(value)


def _remove(table: dict[str, Any], name: str) -> None:
    *above, last = name.split(".")
    for part in above:
        table = table.get(part, {})
    if last not in table:
        raise SweepError(f"[grid] unset: the base has no {name}")
    del table[last]


def run_key(table: Mapping[str, Any]) -> str:
    """Return the name of a run's folder: a hash of its settings as written."""
    return sha256(json.dumps(table, sort_keys=True, default=str).encode()).hexdigest()[:_KEY_DIGITS]
