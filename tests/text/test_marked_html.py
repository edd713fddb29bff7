from __future__ import annotations

import re

from wardround.text.document import Document, Entity, Range, Relation
from wardround.text.marked_html import document_html
from wardround.text.palette import type_colour


def marks(html: str) -> list[tuple[str, str]]:
    """The colour and the text of every marked piece."""
    return re.findall(r'<mark style="background: (#[0-9a-f]{6});[^"]*">([^<]*)</mark>', html)


def labels(html: str) -> list[str]:
    return [label.strip() for label in re.findall(r"<sub>([^<]*)</sub>", html)]


def test_a_mention_has_the_colour_of_its_type_and_is_followed_by_its_type_and_score() -> None:
    html = document_html(Document("n1", "Took aspirin.", (Entity("T1", "Drug", (Range(5, 12),), score=0.914),)))
    assert marks(html) == [(type_colour("Drug"), "aspirin")]
    assert labels(html) == ["Drug 0.91"]
    assert html.index("aspirin") < html.index("Drug 0.91") < html.index(".</div>")


def test_an_annotated_mention_has_no_score() -> None:
    assert labels(document_html(Document("n1", "Rash.", (Entity("T1", "ADE", (Range(0, 4),)),)))) == ["ADE"]


def test_markup_in_note_id_and_type_is_escaped() -> None:
    text = "<script>alert(1)</script> & \x1b[31mred"
    entity = Entity("T1", "<b>Drug", (Range(0, 8),))
    relation = Relation("R1", "<i>causes", "T1", "T1")
    html = document_html(Document("<img src=x>", text, (entity,), (relation,)))
    assert not re.findall(r"<(script|b|img|i)\b", html)
    assert "&lt;script&gt;" in html
    assert "&lt;img src=x&gt;" in html
    assert "&lt;i&gt;causes" in html
    assert "\x1b" not in html


def test_the_shorter_of_two_overlapping_mentions_colours_the_piece() -> None:
    entities = (Entity("T1", "Disease", (Range(0, 13),)), Entity("T2", "Organ", (Range(0, 5),)))
    html = document_html(Document("n", "liver failure", entities))
    assert marks(html) == [(type_colour("Organ"), "liver"), (type_colour("Disease"), " failure")]
    assert labels(html) == ["Organ", "Disease"]


def test_a_discontinuous_mention_is_marked_at_each_of_its_ranges() -> None:
    # "joint ... pain" with "and muscle" between.
    html = document_html(Document("n", "joint and muscle pain", (Entity("T1", "ADE", (Range(0, 5), Range(17, 21))),)))
    assert [text for _, text in marks(html)] == ["joint", "pain"]
    assert labels(html) == ["ADE", "ADE"]


def test_the_text_is_shown_completely_and_once() -> None:
    entities = (Entity("T1", "A", (Range(2, 6),)), Entity("T2", "B", (Range(4, 9),)), Entity("T3", "C", (Range(4, 6),)))
    html = document_html(Document("n", "0123456789", entities))
    shown = html.split("white-space: pre-wrap")[1]
    assert "".join(re.findall(r"\d", re.sub(r"<sub>.*?</sub>|<[^>]*>|^[^>]*>", "", shown))) == "0123456789"


def test_relations_are_listed_with_the_texts_of_their_ends() -> None:
    entities = (Entity("T1", "Drug", (Range(0, 7),)), Entity("T2", "ADE", (Range(15, 19),)))
    note = Document("n", "Aspirin caused rash.", entities, (Relation("R1", "causes", "T1", "T2", score=0.5),))
    assert "<li>causes: Aspirin (Drug) → rash (ADE) 0.50</li>" in document_html(note)
    assert "<ul>" not in document_html(Document("n", "Aspirin caused rash.", entities))


def test_a_document_renders_itself_in_a_notebook() -> None:
    note = Document("n", "Rash.", (Entity("T1", "ADE", (Range(0, 4),)),))
    assert note._repr_html_() == document_html(note)
    assert document_html(Document("n", "")).count("<mark") == 0
