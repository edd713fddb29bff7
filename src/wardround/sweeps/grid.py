"""What is varied: axes of named choices, the cells of their product, and the study of each cell and seed."""

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

__all__ = ["SEED", "SITES", "Axis", "Cell", "Choice", "axis_of", "cells_of", "key_of", "study_of", "varied"]

SEED = "study.seed"  # what is averaged over
SITES = "sites"  # of which a list of names picks some
_UNSET = "unset"  # settings of the base that a choice leaves out
_DIGITS = 16  # of a run's name


@dataclass(frozen=True)
class Choice:
    """One value of an axis, under the name that tables show."""

    name: str
    changes: Mapping[str, Any]  # settings of the study, by their dotted names
    unset: tuple[str, ...] = ()
    value: Any = field(default=None, compare=False)  # of a plain setting, as the file has it


@dataclass(frozen=True)
class Axis:
    """One thing that is varied."""

    name: str
    choices: tuple[Choice, ...]

    def find(self, value: Any) -> Choice | None:
        """The choice of that name or value."""
        same = [choice for choice in self.choices if choice.name == value or (_is_same(choice.value, value))]
        return same[0] if same else None

    @property
    def numbers(self) -> tuple[float, ...] | None:
        """Its values, where all of them are numbers."""
        values = [choice.value for choice in self.choices]
        are_numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
        return tuple(map(float, values)) if are_numbers else None


@dataclass(frozen=True)
class Cell:
    """One combination of choices: a row of the table, run with every seed."""

    choices: Mapping[str, Choice]  # by axis

    @property
    def name(self) -> str:
        """By which a person knows it."""
        return ", ".join(_said(axis, choice) for axis, choice in self.choices.items()) or "the study"

    def matches(self, where: Mapping[str, str]) -> bool:
        """Whether it has the named choices."""
        return all(self.choices[axis].name == name for axis, name in where.items())


def axis_of(name: str, values: Any, base: Mapping[str, Any]) -> Axis:
    """An axis of the section [grid]: a setting with a list of values, or a table of named choices."""
    if isinstance(values, dict):
        choices = [_choice(name, choice, changes) for choice, changes in values.items()]
    elif isinstance(values, list):
        if name != SITES and "." not in name:
            raise SweepError(
                f"[grid] {name!r} is no setting of a study, as model.preset is; choices go in [grid.{name}]"
            )
        choices = [Choice(_text(value), {name: value}, value=value) for value in values]
    else:
        raise SweepError(f"[grid] {name} must be a list of values, or a section of choices by name")
    if not choices or len({choice.name for choice in choices}) < len(choices):
        raise SweepError(f"[grid] {name} must have choices, each once")
    for choice in choices:
        _check_sites(name, choice, base)
    return Axis(name, tuple(choices))


def cells_of(axes: Sequence[Axis], excluded: Sequence[Mapping[str, str]]) -> list[Cell]:
    """The product of the axes, the first one slowest, without what is excluded."""
    names = [axis.name for axis in axes]
    found = [Cell(dict(zip(names, row, strict=True))) for row in product(*(axis.choices for axis in axes))]
    for where in excluded:
        if not any(cell.matches(where) for cell in found):
            raise SweepError(f"[[exclude]] {_told(where)} is no combination of the grid")
    left = [cell for cell in found if not any(cell.matches(where) for where in excluded)]
    if not left:
        raise SweepError("[[exclude]] leaves nothing of the grid")
    return left


def varied(base: Mapping[str, Any], cell: Cell, seed: int) -> dict[str, Any]:
    """The study of a cell and a seed as tables."""
    table = deepcopy(dict(base))
    for choice in cell.choices.values():
        for name in choice.unset:
            _remove(table, name)
        for name, value in choice.changes.items():
            _set(table, name, value)
    _set(table, SEED, seed)
    return table


def study_of(base: Mapping[str, Any], cell: Cell, seed: int, *, folder: Path) -> Study:
    """The same as a study; refused with the cell's name where it makes no sense."""
    try:
        return study_from(varied(base, cell, seed), folder=folder)
    except WardroundError as error:
        raise SweepError(f"{cell.name}: {error}") from None


def key_of(table: Mapping[str, Any]) -> str:
    """The name of a run: of its settings as they are written."""
    return sha256(json.dumps(table, sort_keys=True, default=str).encode()).hexdigest()[:_DIGITS]


# Choices.


def _choice(axis: str, name: str, changes: Any) -> Choice:
    if not isinstance(changes, dict):
        raise SweepError(f'[grid.{axis}] {name} must be a table of settings, as {{ "algorithm.name" = "fedner" }}')
    own = dict(changes)
    unset = own.pop(_UNSET, [])
    if not isinstance(unset, list) or not all(isinstance(setting, str) for setting in unset):
        raise SweepError(f"[grid.{axis}] {name}: {_UNSET} must be a list of settings")
    return Choice(name, dict(_flat(own)), tuple(unset))


def _flat(table: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """TOML reads `algorithm.name = 1` without quotes as tables in one another; both mean the same setting."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _text(value: Any) -> str:
    """As a table shows it."""
    if isinstance(value, list):
        return " + ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _said(axis: str, choice: Choice) -> str:
    """A number alone says nothing."""
    bare = choice.value is not None and not isinstance(choice.value, str | list)
    return f"{axis.rpartition('.')[2]} {choice.name}" if bare else choice.name


def _is_same(one: Any, other: Any) -> bool:
    return one is not None and type(one) is type(other) and bool(one == other)


def _told(where: Mapping[str, str]) -> str:
    return ", ".join(f"{axis} = {name}" for axis, name in where.items())


def _check_sites(axis: str, choice: Choice, base: Mapping[str, Any]) -> None:
    """Sites that are picked must be there."""
    if SITES not in choice.changes:
        return
    picked, known = choice.changes[SITES], base.get(SITES, {})
    if not isinstance(picked, list):
        raise SweepError(f"[grid] {axis}: {SITES} takes lists of names, of sites that the base has")
    for name in picked:
        if name not in known:
            raise SweepError(f"[grid] {axis}: the base has no site {name!r}{did_you_mean(str(name), known)}")


# Tables in one another, by dotted names.


def _set(table: dict[str, Any], name: str, value: Any) -> None:
    if name == SITES:
        table[SITES] = {site: section for site, section in table[SITES].items() if site in value}
        return
    *above, last = name.split(".")
    for part in above:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise SweepError(f"[grid] {name}: {part!r} is a value, no section")
    table[last] = deepcopy(value)


def _remove(table: dict[str, Any], name: str) -> None:
    *above, last = name.split(".")
    for part in above:
        table = table.get(part, {})
    if last not in table:
        raise SweepError(f"[grid] unset: the base has no {name}")
    del table[last]
