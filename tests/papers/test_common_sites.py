from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from wardround.corpora.jsonl import Jsonl
from wardround.text.document import Document, Entity, Range

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def sites() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT))
    yield import_module("papers.common.sites")
    sys.path.remove(str(ROOT))


def test_sentences_become_documents_and_mentions_move_along(sites: ModuleType) -> None:
    document = Document(
        "d", "He took aspirin. It burned.", (Entity("a", "Drug", (Range(8, 15),)), Entity("b", "ADE", (Range(20, 26),)))
    )
    first, second = sites.sentences(document)
    assert (first.id, first.text, second.text) == ("d.1", "He took aspirin.", "It burned.")
    assert [(e.type, e.text_in(second.text)) for e in second.entities] == [("ADE", "burned")]
    assert second.sentences == (Range(0, 10),)


def test_sentences_that_a_mention_runs_across_stay_together(sites: ModuleType) -> None:
    document = Document("d", "Grade A. Rash seen. Gone.", (Entity("a", "ADE", (Range(0, 13),)),))
    assert [s.text for s in sites.sentences(document)] == ["Grade A. Rash seen.", "Gone."]


def test_words_are_written_only_where_others_would_be_found(sites: ModuleType) -> None:
    def kept(text: str, *words: tuple[int, int]) -> object:
        given = tuple(Range(*word) for word in words)
        (sentence,) = sites.sentences(Document("d", text, words=given, sentences=(Range(0, len(text)),)))
        return sentence.words

    assert kept("no rash", (0, 2), (3, 7)) is None
    assert kept("IL2 up", (0, 3), (4, 6)) == (Range(0, 3), Range(4, 6))


def test_what_is_written_is_read_again(sites: ModuleType, tmp_path: Path) -> None:
    note = Document("1", "Aspirin burns", (Entity("T1", "Drug", (Range(0, 7),)),), sentences=(Range(0, 13),))
    site = sites.Site(("Drug", "ADE"), [note, note], [note], [])
    sites.write_groups({"two": {"one": site, "other": site}}, tmp_path)
    assert tuple(Jsonl().read(tmp_path / "two" / "one" / "train.jsonl.gz")) == (note, note)
    said = json.loads((tmp_path / "sites.json").read_text())["two"]["one"]
    assert said["types"] == ["Drug", "ADE"] and said["train"] == {"sentences": 2, "mentions": 2}
    found = sites.Sites.read(tmp_path)
    assert (found.sentences("two", "train"), found.sentences("two", "dev")) == (4, 2)
    assert found.sections("two")["other"] == {
        "data": str(tmp_path.resolve() / "two" / "other"),
        "format": "jsonl",
        "types": ["Drug", "ADE"],
        "scheme": "BIO",
    }
