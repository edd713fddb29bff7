from __future__ import annotations

import pytest

from wardround.errors import TextError
from wardround.evaluation.counts import SpanCounts
from wardround.evaluation.tokens import HidingScore, score_hiding, score_words
from wardround.text.document import Document, Entity, Range

TEXT = "Mr John Smith of Leeds"
WORDS = [Range(0, 2), Range(3, 7), Range(8, 13), Range(14, 16), Range(17, 22)]


def note(*ranges: tuple[int, int]) -> Document:
    return Document("n", TEXT, tuple(Entity(str(i), "NAME", (Range(*r),)) for i, r in enumerate(ranges)))


def test_worked_example() -> None:
    # To hide: John Smith, Leeds. Hidden: Mr John, and "Smi".
    score = score_hiding(note((3, 13), (17, 22)), note((0, 7), (8, 11)), WORDS)
    assert score.words == SpanCounts(tp=2, fp=1, fn=1)
    assert score.characters == SpanCounts(tp=4 + 3, fp=2, fn=2 + 5)  # the blank in the name does not count
    assert (score.notes, score.leaking_notes) == (1, 1)


def test_the_type_does_not_matter() -> None:
    other = Document("n", TEXT, (Entity("1", "CITY", (Range(3, 7),)),))
    assert score_hiding(note((3, 7)), other, WORDS).words == SpanCounts(1, 0, 0)


def test_a_note_with_nothing_missed_does_not_leak() -> None:
    assert score_hiding(note((3, 7)), note((0, 22)), WORDS).leaking_notes == 0
    assert score_hiding(note(), note(), WORDS) == HidingScore(notes=1)


def test_notes_add() -> None:
    tight = score_hiding(note((3, 7)), note((3, 7)), WORDS)
    leaking = score_hiding(note((3, 7), (8, 13)), note(), WORDS)
    total = tight + tight + tight + leaking
    assert total.words == SpanCounts(3, 0, 2)
    assert total.words.recall == pytest.approx(0.6)
    assert total.leakage == pytest.approx(0.25)
    assert HidingScore().leakage == 0.0


def test_refusals() -> None:
    with pytest.raises(TextError, match="different texts"):
        score_hiding(note(), Document("n", "other"), WORDS)
    with pytest.raises(TextError, match="in order"):
        score_hiding(note(), note(), WORDS[::-1])


def test_words_by_type() -> None:
    gold = Document("n", TEXT, (Entity("1", "NAME", (Range(3, 13),)), Entity("2", "CITY", (Range(17, 22),))))
    # "Mr John" as a name, "Smith" as a city, half of "Leeds" as a city and as a name.
    marks = (("NAME", 0, 7), ("CITY", 8, 13), ("CITY", 17, 19), ("NAME", 17, 22))
    found = Document("n", TEXT, tuple(Entity(f"{n}", kind, (Range(a, b),)) for n, (kind, a, b) in enumerate(marks)))
    assert dict(score_words(gold, found, WORDS)) == {"CITY": SpanCounts(1, 1, 0), "NAME": SpanCounts(1, 2, 1)}


def test_a_word_that_two_mentions_of_a_type_touch_counts_once() -> None:
    assert dict(score_words(note((3, 7)), note((3, 5), (5, 7)), WORDS)) == {"NAME": SpanCounts(1, 0, 0)}
    with pytest.raises(TextError, match="in order"):
        score_words(note(), note(), WORDS[::-1])
