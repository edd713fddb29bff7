"""The one table of corpus formats: a name and options, as a study file or a command gives them, become a format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

from wardround.corpora.ade import Ade
from wardround.corpora.bioc import Bioc
from wardround.corpora.brat import Brat
from wardround.corpora.cadec import Cadec
from wardround.corpora.conll import Conll
from wardround.corpora.i2b2_2010 import I2b2Concepts
from wardround.corpora.i2b2_2014 import I2b2Deid
from wardround.corpora.jsonl import Jsonl
from wardround.corpora.pair_tsv import PairTsv
from wardround.corpora.pubtator import Pubtator
from wardround.corpora.smm4h import Smm4h
from wardround.corpora.source import CorpusFormat, WritableFormat
from wardround.errors import UsageError

__all__ = ["ENDINGS", "FORMATS", "did_you_mean", "open_format", "writable"]

FORMATS: dict[str, type] = {
    "ade": Ade,
    "bioc": Bioc,
    "brat": Brat,
    "cadec": Cadec,
    "conll": Conll,
    "i2b2-2010": I2b2Concepts,
    "i2b2-2014": I2b2Deid,
    "jsonl": Jsonl,
    "pairs": PairTsv,
    "pubtator": Pubtator,
    "smm4h": Smm4h,
}

# What the file of a split is called after its name; the formats that write a folder have no ending.
ENDINGS: dict[str, str] = {
    "bioc": ".xml",
    "conll": ".tsv",
    "jsonl": ".jsonl",
    "pairs": ".tsv",
    "pubtator": ".PubTator",
    "smm4h": ".tsv",
}

_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_KINDS: dict[Any, str] = {int: "a whole number", float: "a number", bool: "true or false"}


def open_format(name: str, options: Mapping[str, str] | None = None) -> CorpusFormat:
    """The format of that name with those options; what neither knows is refused."""
    if name not in FORMATS:
        raise UsageError(f"{name!r} is not a format{did_you_mean(name, FORMATS)}; there are {', '.join(FORMATS)}")
    cls = FORMATS[name]
    kinds = get_type_hints(cls)
    known = [field.name for field in fields(cls) if field.init]
    for option in options or {}:
        if option not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise UsageError(f"{option!r} is not an option of {name}{did_you_mean(option, known)}; {has}")
    values = {key: _converted(value, kinds[key], f"option {key!r} of {name}") for key, value in (options or {}).items()}
    return cast(CorpusFormat, cls(**values))


def writable(form: CorpusFormat) -> WritableFormat | None:
    """The format as one that can be written, or None where it is only read."""
    only_read = isinstance(form, Jsonl) and form.shape == "presidio"
    return form if isinstance(form, WritableFormat) and not only_read else None


def did_you_mean(name: str, known: Mapping[str, object] | list[str]) -> str:
    """` – did you mean 'x'?`, or nothing where no known name is near."""
    near = get_close_matches(name, list(known), n=1)
    return f" – did you mean {near[0]!r}?" if near else ""


def _converted(value: str, kind: Any, what: str) -> object:
    if isinstance(kind, UnionType):
        kind = next(part for part in get_args(kind) if part is not type(None))
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            near = did_you_mean(value, list(get_args(kind)))
            raise UsageError(f"{what}: {value!r} is none of {', '.join(get_args(kind))}{near}")
        return value
    if get_origin(kind) is tuple:
        return tuple(filter(None, (part.strip() for part in value.split(","))))
    try:
        return _TRUTH[value.lower()] if kind is bool else (kind(value) if kind in {int, float, Path} else value)
    except (KeyError, ValueError):
        raise UsageError(f"{what}: {value!r} is not {_KINDS[kind]}") from None
