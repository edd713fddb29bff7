"""Parsing of settings from text into the typed fields of a frozen dataclass; unknown settings are refused."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from wardround.errors import UsageError

__all__ = ["OldNameWarning", "as_text", "convert_settings", "did_you_mean", "parse_settings", "with_settings"]

Config = TypeVar("Config")
_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_LONGEST_QUOTED = 100  # characters of a value that an error quotes
_KINDS: dict[Any, str] = {int: "a whole number", float: "a number", bool: "true or false"}


class OldNameWarning(FutureWarning):
    """Warns that a file uses the name of a setting from an earlier version; the message has the present name."""


def parse_settings(pairs: Iterable[str] | None) -> dict[str, str]:
    """Return `["name=value"]` as a mapping; dashes in a name become underscores."""
    parsed = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"{pair!r} is not a setting: expected NAME=VALUE")
        parsed[name.strip().replace("-", "_")] = value
    return parsed


def with_settings(config: Config, settings: Mapping[str, str], what: str) -> Config:
    """Return `config`, a frozen dataclass, with the named fields replaced; `what` names it in errors."""
    return replace(config, **convert_settings(type(config), settings, what))  # type: ignore[type-var]


def convert_settings(cls: type, settings: Mapping[str, str], what: str) -> dict[str, Any]:
    """Return the settings converted to the types of the fields of the dataclass `cls`."""
    kinds = get_type_hints(cls)
    known = [field.name for field in fields(cls) if field.init]
    for name in settings:
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise UsageError(f"{name!r} is not an option of {what}{did_you_mean(name, known)}; {has}")
    return {name: _convert(text, kinds[name], f"option {name!r} of {what}") for name, text in settings.items()}


def as_text(value: Any) -> str:
    """Return an option as the text that a format or network parses."""
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ` – did you mean 'x'?`, or an empty string if no known name is similar."""
    near = get_close_matches(name, list(known), n=1)
    return f" – did you mean {near[0]!r}?" if near else ""


def _convert(text: str, kind: Any, what: str) -> object:
    if isinstance(kind, UnionType):
        kind = next(part for part in get_args(kind) if part is not type(None))
    if get_origin(kind) is Literal:
        if text not in get_args(kind):
            hint = did_you_mean(text, get_args(kind))
            raise UsageError(f"{what}: {text!r} is none of {', '.join(get_args(kind))}{hint}")
        return text
    if get_origin(kind) is tuple:
        return tuple(filter(None, (part.strip() for part in text.split(","))))
    try:
        value: Any = _BOOLEANS[text.lower()] if kind is bool else (kind(text) if kind in {int, float, Path} else text)
        if (kind is float and not math.isfinite(value)) or (kind is int and not -(2**63) <= value < 2**63):
            raise ValueError
    except (KeyError, ValueError):
        shown = text if len(text) <= _LONGEST_QUOTED else text[:_LONGEST_QUOTED] + "…"
        raise UsageError(f"{what}: {shown!r} is not {_KINDS[kind]}") from None
    return value
