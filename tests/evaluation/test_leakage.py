from __future__ import annotations

from typing import Any

import pytest

from wardround.errors import TextError
from wardround.evaluation.counts import SpanCounts
from wardround.evaluation.leakage import (
    HidingScore,
    LeakageScore,
    TypeLeakage,
    score_hiding,
    score_leakage,
    score_words,
)
from wardround.text.document import Document, Entity, Range

TEXT = "Mr John Smith of Leeds, 12/03"


def note(*mentions: tuple[str, int, int], text: str = TEXT) -> Document:
    return Document("n", text, tuple(Entity(f"T{i}", t, (Range(a, b),)) for i, (t, a, b) in enumerate(mentions)))


GOLD = note(("NAME", 3, 13), ("CITY", 17, 22), ("DATE", 24, 29))


def test_worked_example() -> None:
    # Hidden: "John", "Leeds" as a name, "12" and "03" without the slash between them, and the word "of" (no PHI).
    found = note(("NAME", 3, 7), ("NAME", 17, 22), ("DATE", 24, 26), ("DATE", 27, 29), ("NAME", 14, 16))
    score = score_leakage([(GOLD, found)])
    assert score.by_type == {
        "CITY": TypeLeakage(1, 1, 0, 0),
        "DATE": TypeLeakage(1, 1, 0, 0),  # a slash reveals nothing
        "NAME": TypeLeakage(1, 0, 1, 1),
    }
    # Words to hide: John, Smith, Leeds, 12, /, 03.
    assert score.hiding.words == SpanCounts(tp=4, fp=1, fn=2)
    assert score.mentions == TypeLeakage(3, 2, 1, 1)
    assert score.mentions.recall == pytest.approx(2 / 3)


def test_a_note_that_misses_two_types_leaks_once() -> None:
    score = score_leakage([(GOLD, note()), (GOLD, GOLD)])
    assert {type_: found.leaking_notes for type_, found in score.by_type.items()} == {"CITY": 1, "DATE": 1, "NAME": 1}
    assert (score.exposed_notes, score.mentions.leaking_notes) == (1, 1)
    assert score.hiding.leakage == pytest.approx(0.5)


def test_corpora_add() -> None:
    one, other = score_leakage([(GOLD, note())]), score_leakage([(GOLD, GOLD)])
    assert one + other == score_leakage([(GOLD, note()), (GOLD, GOLD)])
    assert LeakageScore().mentions.recall == 0.0


def test_a_mention_of_punctuation_alone_must_be_covered() -> None:
    gold = note(("ID", 2, 5), text="a --- b")
    assert score_leakage([(gold, note(text="a --- b"))]).by_type["ID"] == TypeLeakage(1, 0, 0, 1)


def test_different_texts_cannot_be_scored() -> None:
    with pytest.raises(TextError, match="different texts"):
        score_leakage([(GOLD, note(text="other"))])


def test_counts_survive_a_round_trip_through_plain_values() -> None:
    score = score_leakage([(GOLD, note(("NAME", 3, 7))), (GOLD, GOLD)])
    values = score.as_values()
    # Words: John, Smith, Leeds, 12, /, 03, twice; in the first note only John is hidden.
    assert values == {
        "notes": [2, 1, 1],
        "words": [7, 0, 5],
        "characters": [23, 0, 15],
        "types": {"CITY": [2, 1, 0, 1], "DATE": [2, 1, 0, 1], "NAME": [2, 1, 1, 1]},
    }
    assert LeakageScore.from_values(values) == score
    assert LeakageScore.from_values(values) + LeakageScore() == score


@pytest.mark.parametrize(
    "change",
    [
        {"notes": [2, 1]},
        {"words": [1, 2, -3]},
        {"words": [1, 2, True]},
        {"words": [1, 2, 3.0]},
        {"characters": None},
        {"types": []},
        {"types": {"CITY": [1, 2, 3]}},
        {"types": {"CITY": [1, 2, 3, 4, 5]}},
    ],
)
def test_invalid_values_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        LeakageScore.from_values({**LeakageScore().as_values(), **change})


def test_figures() -> None:
    figures = score_leakage([(GOLD, note(("NAME", 3, 7))), (GOLD, GOLD)]).figures()
    assert (figures["notes"], figures["exposed_notes"], figures["leaking_notes"]) == (2, 1, 1)
    assert figures["words"]["recall"] == pytest.approx(7 / 12)
    assert figures["types"]["NAME"] == {
        "recall": 0.5,
        "mentions": 2,
        "hidden": 1,
        "hidden_in_part": 1,
        "leaking_notes": 1,
    }
    assert figures["mentions"]["recall"] == 0.5


WORDS_TEXT = "Mr John Smith of Leeds"
WORDS = [Range(0, 2), Range(3, 7), Range(8, 13), Range(14, 16), Range(17, 22)]


def name_note(*ranges: tuple[int, int]) -> Document:
    return Document("n", WORDS_TEXT, tuple(Entity(str(i), "NAME", (Range(*r),)) for i, r in enumerate(ranges)))


def test_hiding_worked_example() -> None:
    # To hide: John Smith, Leeds. Hidden: Mr John, and "Smi".
    score = score_hiding(name_note((3, 13), (17, 22)), name_note((0, 7), (8, 11)), WORDS)
    assert score.words == SpanCounts(tp=2, fp=1, fn=1)
    assert score.characters == SpanCounts(tp=4 + 3, fp=2, fn=2 + 5)  # the blank in the name does not count
    assert (score.notes, score.leaking_notes) == (1, 1)


def test_the_type_does_not_matter() -> None:
    other = Document("n", WORDS_TEXT, (Entity("1", "CITY", (Range(3, 7),)),))
    assert score_hiding(name_note((3, 7)), other, WORDS).words == SpanCounts(1, 0, 0)


def test_a_note_with_nothing_missed_does_not_leak() -> None:
    assert score_hiding(name_note((3, 7)), name_note((0, 22)), WORDS).leaking_notes == 0
    assert score_hiding(name_note(), name_note(), WORDS) == HidingScore(notes=1)


def test_notes_add() -> None:
    tight = score_hiding(name_note((3, 7)), name_note((3, 7)), WORDS)
    leaking = score_hiding(name_note((3, 7), (8, 13)), name_note(), WORDS)
    total = tight + tight + tight + leaking
    assert total.words == SpanCounts(3, 0, 2)
    assert total.words.recall == pytest.approx(0.6)
    assert total.leakage == pytest.approx(0.25)
    assert HidingScore().leakage == 0.0


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(TextError, match="different texts"):
        score_hiding(name_note(), Document("n", "other"), WORDS)
    with pytest.raises(TextError, match="in order"):
        score_hiding(name_note(), name_note(), WORDS[::-1])


def test_words_by_type() -> None:
    gold = Document("n", WORDS_TEXT, (Entity("1", "NAME", (Range(3, 13),)), Entity("2", "CITY", (Range(17, 22),))))
    # "Mr John" as a name, "Smith" as a city, half of "Leeds" as a city and as a name.
    marks = (("NAME", 0, 7), ("CITY", 8, 13), ("CITY", 17, 19), ("NAME", 17, 22))
    found = Document(
        "n", WORDS_TEXT, tuple(Entity(f"{n}", kind, (Range(a, b),)) for n, (kind, a, b) in enumerate(marks))
    )
    assert dict(score_words(gold, found, WORDS)) == {"CITY": SpanCounts(1, 1, 0), "NAME": SpanCounts(1, 2, 1)}


def test_a_word_in_two_mentions_of_one_type_counts_once() -> None:
    assert dict(score_words(name_note((3, 7)), name_note((3, 5), (5, 7)), WORDS)) == {"NAME": SpanCounts(1, 0, 0)}
    with pytest.raises(TextError, match="in order"):
        score_words(name_note(), name_note(), WORDS[::-1])
