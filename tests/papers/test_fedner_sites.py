from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from wardround.text.document import Document, Entity, Range

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def sites() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT))
    yield import_module("papers.fedner.make_sites")
    sys.path.remove(str(ROOT))


def note(name: str, text: str, *mentions: tuple[str, str]) -> Document:
    """A sentence with the first occurrence of each (words, type) annotated."""
    found = [(text.index(words), words, kind) for words, kind in mentions]
    entities = [Entity(f"T{n}", kind, (Range(at, at + len(words)),)) for n, (at, words, kind) in enumerate(found, 1)]
    return Document(name, text, tuple(entities), sentences=(Range(0, len(text)),))


def group(sites: ModuleType) -> dict[str, Any]:
    one = [note("1", "Aspirin gave a skin rash", ("Aspirin", "Drug"), ("skin rash", "ADE")), note("2", "no fever")]
    two = [note("3", "a skin rash and fever", ("skin rash", "Disease"), ("fever", "Disease"))]
    return {"one": sites.Site(("Drug", "ADE"), one, [], []), "two": sites.Site(("Disease",), two, [], [])}


def test_overlapped_are_the_entities_that_two_sites_train_on(sites: ModuleType) -> None:
    assert sites.overlapped(group(sites)) == {"skin rash"}


def test_a_masked_entity_loses_its_words_and_keeps_its_annotation(sites: ModuleType) -> None:
    hidden = sites.masked(group(sites), 1.0, seed=0)
    first, second = hidden["one"].train
    assert first.text == "Aspirin gave a masked masked"
    assert [(e.type, e.text_in(first.text)) for e in first.entities] == [("Drug", "Aspirin"), ("ADE", "masked masked")]
    assert second.text == "no fever"
    assert hidden["two"].train[0].text == "a masked masked and fever"
    assert sites.masked(group(sites), 0.0, seed=0)["two"].train[0].text == "a skin rash and fever"


def test_smaller_parts_lie_in_larger_ones(sites: ModuleType) -> None:
    site = sites.Site(("Drug",), [note(str(n), f"word {n}") for n in range(8)], [], [])
    parts = [{d.id for d in sites.thinned({"a": site}, ratio, seed=0)["a"].train} for ratio in (0.25, 0.5, 0.75)]
    assert [len(part) for part in parts] == [2, 4, 6]
    assert parts[0] < parts[1] < parts[2]


def test_ten_sites_have_parts_of_their_own_and_the_same_test(sites: ModuleType) -> None:
    notes = [note(str(n), f"word {n}") for n in range(40)]
    made = sites.ten_sites("x", sites.Site(("Gene",), notes, notes[:20], notes[5:8]), sites.Sizes(one_corpus_train=20))
    ten, together = made["x"], made["x-all"]["all"]
    assert next(iter(ten)) == "site-01" and len(ten) == 10
    assert [d.id for d in ten["site-02"].train] == ["4", "5"]
    assert all(len(site.train) == 2 and site.test == notes[5:8] for site in ten.values())
    assert [d.id for d in together.train] == [d.id for site in ten.values() for d in site.train]


def test_vectors_are_those_of_words_that_occur(sites: ModuleType, tmp_path: Path) -> None:
    words = np.array(["rash", "masked", "never", "no"])
    np.savez(tmp_path / "all.npz", words=words, vectors=np.arange(8, dtype=np.float32).reshape(4, 2))
    made = {"a": sites.Site(("ADE",), [note("1", "Rash")], [], [note("2", "no")])}
    sites.write_vectors(tmp_path / "all.npz", tmp_path / "some.npz", sites.vocabulary([made]))
    with np.load(tmp_path / "some.npz") as found:
        assert found["words"].tolist() == ["rash", "masked", "no"]
        assert found["vectors"].tolist() == [[0, 1], [2, 3], [6, 7]]


@pytest.mark.corpus
def test_abstracts_of_ade_are_not_split(sites: ModuleType, shared_data: Path) -> None:
    sizes = sites.Sizes(dev=50, test=100)
    site = sites.read_ade(shared_data / "ade_corpus_v2" / "DRUG-AE.rel", sizes, seed=0)
    abstracts = [{document.id.partition(".")[0] for document in part} for part in site.parts.values()]
    assert not abstracts[0] & abstracts[1] and not abstracts[1] & abstracts[2] and not abstracts[0] & abstracts[2]
    assert sum(len(part) for part in site.parts.values()) >= 4272
    assert 100 <= len(site.test) < 120 and 50 <= len(site.dev) < 70
