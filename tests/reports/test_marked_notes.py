from __future__ import annotations

import io

from rich.console import Console
from rich.style import Style
from rich.text import Text

from wardround.reports.marked_notes import Excerpt, highlight
from wardround.text.document import Document, Entity, Level, Range, Relation
from wardround.text.palette import type_colour


def style_at(text: Text, needle: str) -> Style:
    console = Console(file=io.StringIO())
    return text.get_style_at_offset(console, text.plain.index(needle))


def background(text: Text, needle: str) -> str | None:
    colour = style_at(text, needle).bgcolor
    return None if colour is None else colour.name


def test_mentions_carry_their_type_and_colour() -> None:
    note = Document("n", "Aspirin gave her nausea.", (Entity("T1", "Drug", (Range(0, 7),)),))
    shown = highlight(note)
    assert shown.plain == "Aspirin‹Drug› gave her nausea."
    assert background(shown, "Aspirin") == background(shown, "‹Drug›") == type_colour("Drug")
    assert background(shown, "gave") is None


def test_a_tag_set_fixes_the_colours() -> None:
    note = Document("n", "Aspirin", (Entity("T1", "Drug", (Range(0, 7),)),))
    types = ("ADE", "Dose", "Drug")
    assert background(highlight(note, types=types), "Aspirin") == type_colour("Drug", types)


def test_nested_mentions() -> None:
    text = "take aspirin 100 mg now"
    entities = (Entity("T1", "Medication", (Range(5, 19),)), Entity("T2", "Drug", (Range(5, 12),)))
    shown = highlight(Document("n", text, entities))
    assert shown.plain == "take aspirin‹Drug› 100 mg‹Medication› now"
    assert background(shown, "aspirin") == type_colour("Drug")
    assert background(shown, "100 mg") == type_colour("Medication")
    assert style_at(shown, "aspirin").underline and not style_at(shown, "100 mg").underline


def test_crossing_and_equal_mentions() -> None:
    entities = (
        Entity("T1", "A", (Range(0, 4),)),
        Entity("T2", "B", (Range(2, 6),)),
        Entity("T3", "C", (Range(2, 6),)),
    )
    assert highlight(Document("n", "abcdefgh", entities)).plain == "abcd‹A›ef‹B›‹C›gh"


def test_discontinuous_mentions_number_their_parts() -> None:
    entity = Entity("T3", "ADE", (Range(0, 4), Range(13, 16)))
    shown = highlight(Document("n", "pain in left arm", (entity,)))
    assert shown.plain == "pain‹ADE T3 1/2› in left arm‹ADE T3 2/2›"


def test_relations_are_listed_below() -> None:
    entities = (
        Entity("T1", "Drug", (Range(0, 7),), concepts=("D1",)),
        Entity("T2", "ADE", (Range(13, 19),), concepts=("D2",)),
    )
    relations = (Relation("R1", "Causes", "T1", "T2"), Relation("R2", "CID", "D1", "D2", Level.CONCEPT))
    shown = highlight(Document("n", "Aspirin gave\nnausea", entities, relations))
    assert shown.plain.endswith("\n\nR1 Causes: Aspirin (Drug) → nausea (ADE)\nR2 CID: D1 → D2")


def test_control_characters_of_a_note_are_neutralised() -> None:
    evil = "\x1b]0;owned\x07\x9b2Jx\r"
    entities = (Entity("T1", f"T{evil}", (Range(0, 3),)), Entity("T2", "B", (Range(4, 6), Range(8, 9))))
    relation = Relation(f"R{evil}", f"K{evil}", "T1", "T2")
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, color_system=None, width=200)
    console.print(highlight(Document("n", evil + "\u202e", entities, (relation,))))
    written = stream.getvalue()
    # Without colours the only escape codes left are rich's own bold, italic and underline.
    assert "\x1b]" not in written
    assert not set(written) & {"\x07", "\x9b", "\r", "\u202e"}


def test_an_empty_note() -> None:
    assert highlight(Document("n", "")).plain == ""


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


def test_overlapping_mentions_are_divided_at_their_edges() -> None:
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
