"""Counts of documents can be added."""

from __future__ import annotations

from collections import Counter

from wardround.corpora.stats import Counts, Tally, count
from wardround.text.document import Document, Entity, Range, Relation

FIRST = Document(
    "a",
    "0123456789",
    (
        Entity("T1", "Drug", (Range(0, 1), Range(2, 3)), ("c1", "c2"), (("x", "y"),), "hm"),
        Entity("T2", "ADE", (Range(4, 5),)),
    ),
    (Relation("R1", "causes", "T1", "T2", attributes=(("x", "y"),)),),
    words=(Range(0, 1), Range(2, 3)),
    sentences=(Range(0, 10),),
    attributes=(("ward", "3"),),
)
SECOND = Document("b", "01234", (Entity("T1", "Drug", (Range(0, 1),)),))
EXPECTED = Counts(
    documents=2,
    characters=15,
    sentences=1,
    words=2,
    with_sentences=1,
    with_words=1,
    entities=Counter(Drug=2, ADE=1),
    discontinuous=Counter(Drug=1),
    relations=Counter(causes=1),
    concepts=2,
    attributes=3,
    notes=1,
)


def test_counts_of_two_documents() -> None:
    assert count([FIRST, SECOND]) == EXPECTED
    assert EXPECTED.mean_length == 7.5
    assert count([]) == Counts()
    assert Counts().mean_length == 0


def test_documents_are_counted_while_they_are_iterated() -> None:
    tally = Tally()
    assert list(tally.watch([FIRST, SECOND])) == [FIRST, SECOND]
    assert tally.counts == EXPECTED
