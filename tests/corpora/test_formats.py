"""Names and options select formats; unknown ones are refused with the most similar name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest

from wardround.cli.data import convert
from wardround.corpora.brat import Brat
from wardround.corpora.conll import Conll
from wardround.corpora.corpus_files import read_lines, write_file
from wardround.corpora.corpus_format import EVERYTHING, Content, CorpusFormat, ProblemSink, fail_on_error
from wardround.corpora.formats import BUILT_IN_FORMATS, FORMATS, lossless_format, open_format, writable_format
from wardround.corpora.jsonl import Jsonl
from wardround.corpora.smm4h import Smm4h
from wardround.errors import UsageError
from wardround.text.document import Document, Entity, Range


def test_names_of_the_formats() -> None:
    assert list(FORMATS) == [
        "ade", "bioc", "brat", "cadec", "cas", "conll", "datasets", "ddi", "docbin", "fhir", "i2b2-2010", "i2b2-2014",
        "jsonl", "labelstudio", "omop", "pairs", "pubannotation", "pubtator", "smm4h", "text", "webanno",
    ]  # fmt: skip


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
def test_unknown_names_and_options_are_refused(name: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_format(name, options)
    assert str(caught.value).startswith(message)


def test_formats_that_can_be_written() -> None:
    assert writable_format(Brat()) == Brat()
    assert not open_format("ade").can_write
    assert not Jsonl("presidio").can_write
    with pytest.raises(UsageError, match=r"^the format ade can only be read; choose one of bioc, brat, cas, conll, "):
        writable_format(open_format("ade"))
    writable = {name for name in FORMATS if open_format(name).can_write}
    assert writable >= {"brat", *(name for name, cls in FORMATS.items() if cls.ending)}
    assert {name: cls.ending for name, cls in FORMATS.items() if cls.ending} == {
        "bioc": ".xml",
        "conll": ".tsv",
        "datasets": ".parquet",
        "docbin": ".spacy",
        "fhir": ".json",
        "jsonl": ".jsonl",
        "labelstudio": ".json",
        "omop": ".csv",
        "pairs": ".tsv",
        "pubannotation": ".json",
        "pubtator": ".PubTator",
        "smm4h": ".tsv",
    }


def test_only_our_own_json_shape_is_lossless() -> None:
    assert lossless_format() == Jsonl()
    assert [name for name in FORMATS if open_format(name).holds == EVERYTHING] == ["jsonl"]
    assert Jsonl("spacy").holds == {"entities"}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_declares_itself(name: str) -> None:
    cls = FORMATS[name]
    assert cls.name == name
    assert cls.description
    # The docstring of the module shows five lines of the format, indented.
    shown = re.findall(r"^    .*\S$", import_module(cls.__module__).__doc__ or "", re.MULTILINE)
    assert len(shown) >= 5
    assert open_format(name).holds <= EVERYTHING


@dataclass(frozen=True)
class Exclamations(CorpusFormat):
    """A format for the test below: one note on each line, a Drug before each exclamation mark."""

    name = "exclamations"
    description = "one note on each line, with `!` after each drug"
    ending = ".drugs"
    holds = frozenset[Content]({"entities"})

    mark: str = "!"

    def read(self, path: Path, *, problems: ProblemSink = fail_on_error) -> Iterator[Document]:
        for number, line in read_lines(path):
            word, mark, rest = line.partition(self.mark)
            drug = (Entity("T1", "Drug", (Range(0, len(word)),)),) if mark else ()
            yield Document(f"{path.stem}:{number}", word + rest, drug)

    def write(self, documents: Iterable[Document], path: Path) -> None:
        def line(document: Document) -> str:
            end = document.entities[0].end if document.entities else None
            return document.text if end is None else document.text[:end] + self.mark + document.text[end:]

        write_file(documents, path, lambda document: [line(document)])


def test_a_new_format_needs_one_class_and_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BUILT_IN_FORMATS, Exclamations.name, Exclamations)
    (tmp_path / "in.drugs").write_text("Aspirin! helped\nno drug\n")
    convert(tmp_path / "in.drugs", tmp_path / "out.jsonl", "exclamations", "jsonl")
    notes = list(Jsonl().read(tmp_path / "out.jsonl"))
    assert [(note.text, [entity.text_in(note.text) for entity in note.entities]) for note in notes] == [
        ("Aspirin helped", ["Aspirin"]),
        ("no drug", []),
    ]
    convert(tmp_path / "out.jsonl", tmp_path / "back.drugs", "jsonl", "exclamations", None, ["mark=?"])
    assert (tmp_path / "back.drugs").read_text() == "Aspirin? helped\nno drug\n"
    with pytest.raises(UsageError, match="'marks' is not an option of exclamations – did you mean 'mark'"):
        open_format("exclamations", {"marks": "?"})
