from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import Run
from wardround.corpora.brat import Brat
from wardround.corpora.conll import Conll
from wardround.corpora.conversion import ConvertedPart, convert_corpus, split_corpus
from wardround.corpora.jsonl import Jsonl
from wardround.corpora.pubtator import Pubtator
from wardround.corpora.splits import MANIFEST, find_splits
from wardround.errors import CorpusError, UsageError
from wardround.text.document import Document, Entity, Range, Relation

NOTES = [Document(f"n{n}", f"Note {n}.") for n in range(10)]


def test_the_losses_of_a_conversion_are_counted(tmp_path: Path) -> None:
    words = (Range(0, 4), Range(5, 6), Range(6, 7))
    Jsonl().write([Document("a", "Note 1.", words=words)], tmp_path / "in.jsonl")
    (part,) = convert_corpus(tmp_path / "in.jsonl", tmp_path / "out", reader=Jsonl(), writer=Brat())
    assert part == ConvertedPart(tmp_path / "out", 1, {"words": 3})


def test_a_corpus_is_split_once(tmp_path: Path) -> None:
    Jsonl().write(NOTES, tmp_path / "in.jsonl")
    parts = split_corpus(tmp_path / "in.jsonl", tmp_path / "out", Jsonl(), dev=0.2)
    assert {name: len(part) for name, part in parts.items()} == {"train": 7, "dev": 2, "test": 1}
    assert (tmp_path / "out" / MANIFEST).is_file() and set(find_splits(tmp_path / "out")) == set(parts)
    with pytest.raises(UsageError, match=r"^out is split already; name one of its parts to split that$"):
        split_corpus(tmp_path / "out", tmp_path / "again", Jsonl())


def test_misfits_are_dropped_and_counted(tmp_path: Path) -> None:
    """CoNLL holds neither a part of a word, nor overlapping or discontinuous mentions, nor a word with a tab."""
    entities = (
        Entity("T1", "Drug", (Range(0, 4),)),
        Entity("T2", "Part", (Range(0, 2),)),
        Entity("T3", "Same", (Range(0, 4),)),
        Entity("T4", "Gap", (Range(0, 4), Range(5, 6))),
        Entity("T5", "Number", (Range(5, 6),)),
    )
    relation = (Relation("R1", "is", "T1", "T5"),)
    words = (Range(0, 3),)
    notes = [
        Document("a", "Note 1.", entities, relation),
        Document("b", "x\ty", words=words),
        Document("c", "", attributes=(("k", "v"),)),
    ]
    Jsonl().write(notes, tmp_path / "in.jsonl")
    with pytest.raises(CorpusError):
        list(convert_corpus(tmp_path / "in.jsonl", tmp_path / "no.tsv", reader=Jsonl(), writer=Conll()))
    (part,) = convert_corpus(tmp_path / "in.jsonl", tmp_path / "out.tsv", reader=Jsonl(), writer=Conll(), drop=True)
    assert part.dropped["entities"] == 3
    kept = [e.type for note in Conll().read(tmp_path / "out.tsv") for e in note.entities]
    assert kept == ["Drug", "Number"]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_document_that_does_not_fit_is_dropped(tmp_path: Path) -> None:
    notes = [Document("a", "Three\nlines\nof text."), Document("b", "Title.\nAbstract.")]
    Jsonl().write(notes, tmp_path / "in.jsonl")
    target = tmp_path / "out.PubTator"
    (part,) = convert_corpus(tmp_path / "in.jsonl", target, reader=Jsonl(), writer=Pubtator(), drop=True)
    assert (part.documents, part.dropped) == (1, {"documents": 1})


def test_a_relation_goes_with_its_entity(tmp_path: Path) -> None:
    entities = (Entity("T1", "two words", (Range(0, 4),)), Entity("T2", "Number", (Range(5, 6),)))
    relations = (Relation("R1", "is", "T1", "T2"), Relation("R2", "is", "T2", "T2"))
    Jsonl().write([Document("a", "Note 1.", entities, relations)], tmp_path / "in.jsonl")
    (part,) = convert_corpus(tmp_path / "in.jsonl", tmp_path / "out", reader=Jsonl(), writer=Brat(), drop=True)
    assert part.dropped == {"entities": 1, "relations": 1}


def test_the_command_counts_what_it_dropped(run: Run, tmp_path: Path) -> None:
    Jsonl().write([Document("a", "Three\nlines\nof text.")], tmp_path / "in.jsonl")
    convert = (
        "data",
        "convert",
        tmp_path / "in.jsonl",
        tmp_path / "out.PubTator",
        "--from",
        "jsonl",
        "--to",
        "pubtator",
    )
    assert run(*convert).code == 2
    ran = run(*convert, "--misfits", "drop")
    assert ran.code == 0
    assert "out.PubTator: dropped 1 documents that do not fit the format pubtator" in ran.out
