"""JSON and TOML from users and other parties: parsed within limits; errors never quote the content.

Python's own parsers raise errors of several classes for deep nesting and for numbers of many digits. Here all of them
are a `MalformedDataError`, whose message continues a sentence that begins with the name of the file.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeGuard

__all__ = [
    "MAXIMUM_BYTES",
    "MAXIMUM_DEPTH",
    "MalformedDataError",
    "is_integer",
    "parse_json",
    "parse_toml",
    "read_json",
    "read_limited",
    "read_toml",
]

MAXIMUM_BYTES = 64_000_000  # of a file that is parsed at once
MAXIMUM_DEPTH = 64  # nested lists and tables
_MOST_DIGITS = 100  # of an integer; larger ones do not fit into a float
_LARGEST_INTEGER = 10**_MOST_DIGITS
# `a.b.c` with more parts than levels are allowed: `tomllib` needs time and memory quadratic in their number.
_PART_OF_NAME = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+"""
_LONG_NAME = re.compile(rf"(?:^|(?<=[\s\[{{,]))(?:{_PART_OF_NAME}){{{MAXIMUM_DEPTH}}}")


class MalformedDataError(ValueError):
    """A text is not JSON or TOML, or exceeds the limits; the message never quotes it."""


def parse_json(
    data: str | bytes | bytearray,
    *,
    depth: int = MAXIMUM_DEPTH,
    finite: bool = True,
    object_pairs_hook: Callable[[list[tuple[str, Any]]], Any] | None = None,
) -> Any:
    """Return the value in a JSON text.

    Args:
        data: the text; bytes are UTF-8.
        depth: how deep lists and objects may be nested.
        finite: whether NaN and infinite numbers are refused; our own records may hold them.
        object_pairs_hook: as in `json.loads`.
    """
    try:
        text = data if isinstance(data, str) else str(data, "utf-8")
        value = json.loads(
            text,
            parse_int=_parse_integer,
            parse_float=_parse_float if finite else None,
            parse_constant=_refuse_constant if finite else None,
            object_pairs_hook=object_pairs_hook,
        )
        # A text with fewer brackets than levels cannot be too deep, so most texts are not checked.
        if text.count("[") + text.count("{") > depth:
            _check(value, depth, finite=finite)
        return value
    except MalformedDataError:
        raise
    except UnicodeDecodeError:
        raise MalformedDataError("is no JSON: it is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise MalformedDataError(f"is no JSON: line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise MalformedDataError(_too_deep(depth)) from None
    except ValueError as error:
        raise MalformedDataError(f"is no JSON: {error}") from None


def parse_toml(data: str | bytes, *, depth: int = MAXIMUM_DEPTH, finite: bool = True) -> dict[str, Any]:
    """Return the table in a TOML text; NaN and infinite numbers are refused, unless the caller names their setting."""
    try:
        text = data if isinstance(data, str) else str(data, "utf-8")
        if _LONG_NAME.search(text):
            raise MalformedDataError(_too_deep(depth))
        value = tomllib.loads(text)
        _check(value, depth, finite=finite)
        return value
    except MalformedDataError:
        raise
    except UnicodeDecodeError:
        raise MalformedDataError("is no TOML: it is not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise MalformedDataError(f"is no TOML: {error}") from None
    except RecursionError:
        raise MalformedDataError(_too_deep(depth)) from None
    except (ValueError, OverflowError):  # a number with too many digits, or an impossible date
        raise MalformedDataError("is no TOML: it holds a number or date that cannot be read") from None


def read_json(path: Path, *, maximum_bytes: int = MAXIMUM_BYTES, finite: bool = True) -> Any:
    """Return the value in a JSON file of at most `maximum_bytes` bytes."""
    return parse_json(read_limited(path, maximum_bytes), finite=finite)


def read_toml(path: Path, *, finite: bool = True) -> dict[str, Any]:
    """Return the table in a TOML file of at most `MAXIMUM_BYTES` bytes."""
    return parse_toml(read_limited(path), finite=finite)


def read_limited(path: Path, maximum_bytes: int = MAXIMUM_BYTES) -> bytes:
    """Return the content of a file of at most `maximum_bytes` bytes; an `OSError` is passed on."""
    with path.open("rb") as stream:
        data = stream.read(maximum_bytes + 1)
    if len(data) > maximum_bytes:
        raise MalformedDataError(f"is larger than {maximum_bytes:,} bytes")
    return data


def is_integer(value: object) -> TypeGuard[int]:
    """Return whether a value is an integer; a boolean is not."""
    return isinstance(value, int) and not isinstance(value, bool)


def _check(value: Any, depth: int, *, finite: bool) -> None:
    """Raise for deep nesting and infinite numbers; works level by level, since recursion itself has a limit."""
    level = [value]
    for _ in range(depth + 1):
        for part in level:
            if isinstance(part, int) and not -_LARGEST_INTEGER < part < _LARGEST_INTEGER:
                raise MalformedDataError(f"holds a number of too many digits, over {_MOST_DIGITS}")
            if finite and isinstance(part, float) and not math.isfinite(part):
                raise MalformedDataError("holds NaN or an infinite number")
        nested = [part for part in level if isinstance(part, dict | list)]
        level = [part for outer in nested for part in (outer.values() if isinstance(outer, dict) else outer)]
        if not level:
            return
    raise MalformedDataError(_too_deep(depth))


def _parse_integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise MalformedDataError(f"holds a number of too many digits, over {_MOST_DIGITS}")
    return int(digits)


def _parse_float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise MalformedDataError("holds NaN or an infinite number")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise MalformedDataError("holds NaN or an infinite number")


def _too_deep(depth: int) -> str:
    return f"is nested too deeply: more than {depth} lists and tables in one another"
