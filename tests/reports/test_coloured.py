from __future__ import annotations

import io

from rich.console import Console
from rich.style import Style
from rich.text import Text

from wardround.reports.coloured import coloured
from wardround.reports.palette import type_colour
from wardround.text.document import Document, Entity, Level, Range, Relation


def style_at(text: Text, needle: str) -> Style:
    console = Console(file=io.StringIO())
    return text.get_style_at_offset(console, text.plain.index(needle))


def background(text: Text, needle: str) -> str | None:
    colour = style_at(text, needle).bgcolor
    return None if colour is None else colour.name


def test_mentions_carry_their_type_and_colour() -> None:
    note = Document("n", "Aspirin gave her nausea.", (Entity("T1", "Drug", (Range(0, 7),)),))
    shown = coloured(note)
    assert shown.plain == "Aspirin‹Drug› gave her nausea."
    assert background(shown, "Aspirin") == background(shown, "‹Drug›") == type_colour("Drug")
    assert background(shown, "gave") is None


def test_a_tag_set_fixes_the_colours() -> None:
    note = Document("n", "Aspirin", (Entity("T1", "Drug", (Range(0, 7),)),))
    types = ("ADE", "Dose", "Drug")
    assert background(coloured(note, types=types), "Aspirin") == type_colour("Drug", types)


def test_nested_mentions() -> None:
    text = "take aspirin 100 mg now"
    entities = (Entity("T1", "Medication", (Range(5, 19),)), Entity("T2", "Drug", (Range(5, 12),)))
    shown = coloured(Document("n", text, entities))
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
    assert coloured(Document("n", "abcdefgh", entities)).plain == "abcd‹A›ef‹B›‹C›gh"


def test_discontinuous_mentions_number_their_parts() -> None:
    entity = Entity("T3", "ADE", (Range(0, 4), Range(13, 16)))
    shown = coloured(Document("n", "pain in left arm", (entity,)))
    assert shown.plain == "pain‹ADE T3 1/2› in left arm‹ADE T3 2/2›"


def test_relations_are_listed_below() -> None:
    entities = (
        Entity("T1", "Drug", (Range(0, 7),), concepts=("D1",)),
        Entity("T2", "ADE", (Range(13, 19),), concepts=("D2",)),
    )
    relations = (Relation("R1", "Causes", "T1", "T2"), Relation("R2", "CID", "D1", "D2", Level.CONCEPT))
    shown = coloured(Document("n", "Aspirin gave\nnausea", entities, relations))
    assert shown.plain.endswith("\n\nR1 Causes: Aspirin (Drug) → nausea (ADE)\nR2 CID: D1 → D2")


def test_a_note_cannot_speak_to_the_terminal() -> None:
    evil = "\x1b]0;owned\x07\x9b2Jx\r"
    entities = (Entity("T1", f"T{evil}", (Range(0, 3),)), Entity("T2", "B", (Range(4, 6), Range(8, 9))))
    relation = Relation(f"R{evil}", f"K{evil}", "T1", "T2")
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, color_system=None, width=200)
    console.print(coloured(Document("n", evil + "\u202e", entities, (relation,))))
    written = stream.getvalue()
    # Without colours the only escape codes left are rich's own bold, italic and underline.
    assert "\x1b]" not in written
    assert not set(written) & {"\x07", "\x9b", "\r", "\u202e"}


def test_an_empty_note() -> None:
    assert coloured(Document("n", "")).plain == ""
