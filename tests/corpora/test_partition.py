"""Partitions: every document is at exactly one site, as the sizes and the seed determine."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpora.strategies import BRIEF, corpora, documents
from wardround.corpora.partition import Sites, by_size, by_source, dirichlet
from wardround.errors import CorpusError, SplitError
from wardround.text.document import Document, Entity, Range


def note(number: int, *kinds: str, **attributes: str) -> Document:
    entities = tuple(Entity(f"T{n}", kind, (Range(n, n + 1),)) for n, kind in enumerate(kinds))
    return Document(f"n{number}", "x" * 10, entities, attributes=tuple(attributes.items()))


def ids(sites: Sites) -> list[str]:
    return sorted(document.id for found in sites.values() for document in found)


MIXED = [note(number, "Drug" if number % 2 else "ADE") for number in range(200)]


def test_by_source() -> None:
    corpus = [note(1, ward="b"), note(2, ward="a"), note(3, ward="b")]
    assert by_source(corpus, "ward") == {"b": [corpus[0], corpus[2]], "a": [corpus[1]]}
    with pytest.raises(CorpusError, match="document 'n4' has no attribute 'ward'"):
        by_source([note(4)], "ward")


def test_by_size() -> None:
    sites = by_size(MIXED, {"a": 0.5, "b": 0.3, "c": 0.2}, seed=1)
    assert {site: len(found) for site, found in sites.items()} == {"a": 100, "b": 60, "c": 40}
    assert sites == by_size(MIXED, {"a": 0.5, "b": 0.3, "c": 0.2}, seed=1)
    assert sites != by_size(MIXED, {"a": 0.5, "b": 0.3, "c": 0.2}, seed=2)
    with pytest.raises(SplitError):
        by_size(MIXED, {"a": 0.5}, seed=1)


def test_sites_differ_for_a_small_alpha_and_are_similar_for_a_large_one() -> None:
    def drugs(alpha: float) -> list[float]:
        sites = dirichlet(MIXED, ["a", "b"], alpha=alpha, seed=3)
        counts = [Counter(d.entities[0].type for d in found) for found in sites.values()]
        return [found["Drug"] / found.total() for found in counts]

    assert all(abs(share - 0.5) < 0.05 for share in drugs(10_000))
    assert max(abs(share - 0.5) for share in drugs(0.05)) > 0.2


def test_the_dominant_type_is_the_alphabetically_first_of_equals() -> None:
    # With such a small alpha, one site gets nearly all of a group: the two ADE documents stay together.
    corpus = [note(1, "Drug", "ADE"), note(2, "ADE", "Drug", "ADE"), note(3, "Drug", "Drug", "ADE"), note(4)]
    for seed in range(5):
        sites = dirichlet(corpus, ["a", "b"], alpha=0.001, seed=seed, minimum=0)
        assert any({"n1", "n2"} <= {d.id for d in found} for found in sites.values())


def test_a_site_left_empty_takes_from_the_largest() -> None:
    sites = dirichlet(MIXED[:6], ["a", "b", "c"], alpha=0.001, seed=0, minimum=2)
    assert [len(found) for found in sites.values()] == [2, 2, 2]
    with pytest.raises(CorpusError, match="2 documents are too few for 3 sites with at least 1 each"):
        dirichlet(MIXED[:2], ["a", "b", "c"], alpha=1, seed=0)
    with pytest.raises(CorpusError, match="alpha must be above 0"):
        dirichlet(MIXED, ["a"], alpha=0, seed=0)


SOME = corpora(documents(relations=True), maximum=12)


@BRIEF
@given(SOME, st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(0, 99))
def test_by_size_uses_every_document_once(found: list[Document], weights: list[int], seed: int) -> None:
    fractions = {f"s{n}": weight / sum(weights) for n, weight in enumerate(weights)}
    sites = by_size(found, fractions, seed)
    assert ids(sites) == sorted(d.id for d in found)
    assert all(abs(len(sites[site]) - len(found) * part) <= 1 for site, part in fractions.items())


@BRIEF
@given(SOME, st.integers(1, 4), st.floats(0.01, 100), st.integers(0, 99))
def test_dirichlet_uses_every_document_once(found: list[Document], count: int, alpha: float, seed: int) -> None:
    names = [f"s{n}" for n in range(count)]
    minimum = min(1, len(found) // count)
    sites = dirichlet(found, names, alpha=alpha, seed=seed, minimum=minimum)
    assert list(sites) == names
    assert ids(sites) == sorted(d.id for d in found)
    assert min(map(len, sites.values())) >= minimum
    assert sites == dirichlet(found, names, alpha=alpha, seed=seed, minimum=minimum)
