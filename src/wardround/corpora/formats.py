"""The one table of corpus formats: a name and options, as a study file or a command gives them, become a format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from wardround.corpora.ade import Ade
from wardround.corpora.bioc import Bioc
from wardround.corpora.brat import Brat
from wardround.corpora.cadec import Cadec
from wardround.corpora.conll import Conll
from wardround.corpora.i2b2_2010 import I2b2Concepts
from wardround.corpora.i2b2_2014 import I2b2Deid
from wardround.corpora.jsonl import Jsonl
from wardround.corpora.pair_tsv import PairTsv
from wardround.corpora.plain import PlainText
from wardround.corpora.pubtator import Pubtator
from wardround.corpora.smm4h import Smm4h
from wardround.corpora.source import CorpusFormat, WritableFormat
from wardround.errors import UsageError
from wardround.settings import converted, did_you_mean

__all__ = ["ENDINGS", "FORMATS", "open_format", "writable"]

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
    "text": PlainText,
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


def open_format(name: str, options: Mapping[str, str] | None = None) -> CorpusFormat:
    """The format of that name with those options; what neither knows is refused."""
    if name not in FORMATS:
        raise UsageError(f"{name!r} is not a format{did_you_mean(name, FORMATS)}; there are {', '.join(FORMATS)}")
    cls = FORMATS[name]
    return cast(CorpusFormat, cls(**converted(cls, options or {}, name)))


def writable(form: CorpusFormat) -> WritableFormat | None:
    """The format as one that can be written, or None where it is only read."""
    only_read = isinstance(form, Jsonl) and form.shape == "presidio"
    return form if isinstance(form, WritableFormat) and not only_read else None
