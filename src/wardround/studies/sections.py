"""Parsing of a TOML table into a frozen dataclass: values are checked, unknown settings are refused."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from wardround.errors import StudyError, WardroundError
from wardround.settings import OldNameWarning, did_you_mean

__all__ = ["parsed", "parsed_over", "table_in", "with_present_names"]

Section = TypeVar("Section")
_KINDS: dict[Any, str] = {int: "a whole number", float: "a number", bool: "true or false", str: "text", Path: "a path"}


def table_in(table: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a table within another; empty if it is missing."""
    found = table.get(name, {})
    if not isinstance(found, dict):
        raise StudyError(f"[{name}] must be a section")
    return found


def with_present_names(
    table: Mapping[str, Any], renamed: Mapping[str, str], place: str, *, warn: bool
) -> dict[str, Any]:
    """Return a section with the present names of its settings; `renamed` has those of version 0.1 as keys.

    With `warn`, warn about each old name, because a later version may no longer read it.
    """
    present = dict[str, Any]()
    for name, value in table.items():
        new = renamed.get(name, name)
        if new in present or (new != name and new in table):
            raise StudyError(f"[{place}] {name} and {new} are the same setting; keep {new}")
        if warn and new != name:
            warnings.warn(f"[{place}] {name} is now called {new}; rename it", OldNameWarning, stacklevel=2)
        present[new] = value
    return present


def parsed(
    cls: type[Section], table: Mapping[str, Any], place: str, *, more: Mapping[str, Any] | None = None
) -> Section:
    """Return the table as a `cls`; `place` names it in errors, `more` are values that are parsed already."""
    settings = {**_values(cls, table, place), **(more or {})}
    for setting in fields(cls):  # type: ignore[arg-type]
        needed = setting.default is MISSING and setting.default_factory is MISSING
        if needed and setting.name not in settings:
            raise StudyError(f"[{place}] needs a {setting.name}")
    return _built(lambda: cls(**settings), place)


def parsed_over(config: Section, table: Mapping[str, Any], place: str) -> Section:
    """Return `config` with the settings of the table replaced."""
    settings = _values(type(config), table, place)
    return _built(lambda: replace(config, **settings), place)  # type: ignore[type-var]


def _built(build: Callable[[], Section], place: str) -> Section:
    try:
        built = build()
    except WardroundError as error:
        raise StudyError(f"[{place}] {error}") from None
    for setting in fields(built):  # type: ignore[arg-type]
        value = getattr(built, setting.name)
        if isinstance(value, float) and not math.isfinite(value):
            raise StudyError(f"[{place}] {setting.name} is {value}; it must be a finite number")
    return built


def _values(cls: type, table: Mapping[str, Any], place: str) -> dict[str, Any]:
    kinds = get_type_hints(cls)
    known = [setting.name for setting in fields(cls)]
    for key in table:
        if key not in known:
            has = ", ".join(known)
            raise StudyError(f"[{place}] {key!r} is not a setting{did_you_mean(key, known)}; it has {has}")
    return {key: _value(value, kinds[key], f"[{place}] {key}") for key, value in table.items()}


def _value(value: Any, kind: Any, place: str) -> Any:
    if type(None) in get_args(kind):
        kind = next(part for part in get_args(kind) if part is not type(None))
    if get_origin(kind) is Literal:
        return _choice(value, get_args(kind), place)
    if get_origin(kind) is tuple:
        if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
            raise StudyError(f"{place} must be a list of names")
        return tuple(value)
    if get_origin(kind) is Mapping:
        if not isinstance(value, dict):
            raise StudyError(f"{place} must be a table of numbers by name")
        return {name: _value(number, float, f"{place}.{name}") for name, number in value.items()}
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, str if kind is Path else kind) or (isinstance(value, bool) and kind is not bool):
        raise StudyError(f"{place} is {value!r}; it must be {_KINDS[kind]}")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise StudyError(f"{place} is {value}; it must be a whole number of at most 64 bits")
    return Path(value) if kind is Path else value


def _choice(value: Any, choices: tuple[Any, ...], place: str) -> Any:
    if value not in choices:
        allowed = ", ".join(filter(None, map(str, choices)))
        raise StudyError(f"{place} is {value!r}{did_you_mean(str(value), choices)}; it can be {allowed}")
    return value
