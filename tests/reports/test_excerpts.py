from __future__ import annotations

from wardround.reports.excerpts import Excerpt
from wardround.text.document import Document, Entity, Level, Range, Relation

TEXT = "aspirin for <pain> and rash"
DRUG, PAIN, RASH = Range(0, 7), Range(12, 18), Range(23, 27)


def note(*entities: tuple[str, Range], relations: tuple[Relation, ...] = ()) -> Document:
    found = tuple(Entity(f"T{number}", kind, (place,)) for number, (kind, place) in enumerate(entities, 1))
    return Document("n", TEXT, found, relations)


GOLD = note(("Drug", DRUG), ("Symptom", PAIN))
FOUND = note(("Drug", DRUG), ("ADE", RASH))


def test_found_missed_and_not_annotated() -> None:
    shown = Excerpt("A note of nobody", GOLD, FOUND).to_html()
    assert '<mark class="right">aspirin</mark><small> Drug</small>' in shown
    assert '<mark class="missed">&lt;pain&gt;</mark><small> Symptom, missed</small>' in shown
    assert '<mark class="spurious">rash</mark><small> ADE, not annotated</small>' in shown
    assert shown.startswith('<div class="excerpt"><small>A note of nobody</small>')


def test_two_types_on_the_same_words() -> None:
    shown = Excerpt("w", note(("Drug", DRUG)), note(("ADE", DRUG))).to_html()
    assert '<mark class="spurious">aspirin</mark><small> Drug, missed; ADE, not annotated</small>' in shown


def test_mentions_that_overlap_are_cut_where_they_meet() -> None:
    shown = Excerpt("w", note(("Drug", Range(0, 11))), note(("Drug", DRUG))).to_html()
    assert '<mark class="spurious">aspirin</mark><small> Drug, not annotated</small>' in shown
    assert '<mark class="missed"> for</mark><small> Drug, missed</small>' in shown


def test_relations_in_words() -> None:
    gold = note(("Drug", DRUG), ("ADE", RASH), relations=(Relation("R1", "causes", "T1", "T2"),))
    assert Excerpt("w", gold, gold).relations() == ["causes: aspirin (Drug) → rash (ADE)"]
    assert Excerpt("w", gold, FOUND).relations() == ["causes: aspirin (Drug) → rash (ADE), missed"]
    assert Excerpt("w", FOUND, gold).relations() == ["causes: aspirin (Drug) → rash (ADE), not annotated"]
    named = (Entity("T1", "Drug", (DRUG,), ("C1",)), Entity("T2", "ADE", (RASH,), ("C2",)))
    concepts = Document("n", TEXT, named, (Relation("R1", "with", "C1", "C2", Level.CONCEPT),))
    assert Excerpt("w", concepts, FOUND).relations() == ["with: C1 → C2, missed"]


def test_as_markdown() -> None:
    lines = Excerpt("A note of nobody", GOLD, FOUND).to_markdown().splitlines()
    assert lines[0] == "> A note of nobody:"
    assert lines[2] == "> aspirin ‹Drug› for <pain> ‹Symptom, missed› and rash ‹ADE, not annotated›"
