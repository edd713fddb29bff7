"""Names and option strings become formats; what is not known is refused with the nearest name."""

from __future__ import annotations

from pathlib import Path

import pytest

from wardround.corpora.brat import Brat
from wardround.corpora.conll import Conll
from wardround.corpora.formats import ENDINGS, FORMATS, open_format, writable
from wardround.corpora.jsonl import Jsonl
from wardround.corpora.smm4h import Smm4h
from wardround.errors import UsageError


def test_the_table_names_every_format() -> None:
    assert list(FORMATS) == [
        "ade", "bioc", "brat", "cadec", "conll", "i2b2-2010", "i2b2-2014", "jsonl", "pairs", "pubtator", "smm4h",
        "text",
    ]  # fmt: skip
    assert set(ENDINGS) <= set(FORMATS)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_opens_without_options_and_reads(name: str) -> None:
    form = open_format(name)
    assert isinstance(form, FORMATS[name])
    assert hasattr(form, "read")


def test_options_are_converted_to_the_types_of_the_fields() -> None:
    options = {"word_column": "1", "tag_column": "-2", "delimiter": "space", "scheme": "BIOES"}
    assert open_format("conll", options) == Conll(1, -2, "space", "BIOES")
    assert open_format("jsonl", {"shape": "prodigy"}) == Jsonl("prodigy")
    assert open_format("smm4h", {"texts": "a/b.tsv"}) == Smm4h(Path("a/b.tsv"))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("conl", {}, "'conl' is not a format – did you mean 'conll'?"),
        ("???", {}, "'???' is not a format; there are ade, bioc"),
        ("conll", {"word_colum": "1"}, "'word_colum' is not an option of conll – did you mean 'word_column'?; it has"),
        ("brat", {"x": "1"}, "'x' is not an option of brat; it has none"),
        ("conll", {"word_column": "first"}, "option 'word_column' of conll: 'first' is not a whole number"),
        ("conll", {"scheme": "BIOE"}, "option 'scheme' of conll: 'BIOE' is none of BIO, BIOES, IOB1 – did you mean"),
    ],
)
def test_what_is_not_known_is_refused(name: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_format(name, options)
    assert str(caught.value).startswith(message)


def test_which_formats_can_be_written() -> None:
    assert writable(Brat()) == Brat()
    assert writable(open_format("ade")) is None
    assert writable(Jsonl("presidio")) is None
    assert {name for name in FORMATS if writable(open_format(name))} >= {*ENDINGS, "brat"}
