from __future__ import annotations

from pathlib import Path

import pytest

from wardround.corpora.brat import Brat
from wardround.corpora.conversion import ConvertedPart, convert_corpus, split_corpus
from wardround.corpora.jsonl import Jsonl
from wardround.corpora.splits import MANIFEST, find_splits
from wardround.errors import UsageError
from wardround.text.document import Document, Range

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
