"""The strategies respect their flags."""

from __future__ import annotations

from hypothesis import given

from tests.corpora.strategies import BRIEF, corpora, documents
from wardround.text.document import Document


@BRIEF
@given(documents())
def test_entities_are_single_ranges_that_do_not_overlap(document: Document) -> None:
    entities = document.entities
    assert not any(entity.is_discontinuous for entity in entities)
    assert not any(a.overlaps(b) for i, a in enumerate(entities) for b in entities[:i])
    assert not document.relations


@BRIEF
@given(corpora(documents(discontinuous=True, overlapping=True, relations=True, extras=True)))
def test_ids_are_unique(found: list[Document]) -> None:
    assert [document.id for document in found] == [f"n{number}" for number in range(1, len(found) + 1)]
