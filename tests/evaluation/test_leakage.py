from __future__ import annotations

from typing import Any

import pytest

from wardround.errors import TextError
from wardround.evaluation.counts import SpanCounts
from wardround.evaluation.leakage import LeakageScore, TypeLeakage, score_leakage
from wardround.text.document import Document, Entity, Range

TEXT = "Mr John Smith of Leeds, 12/03"


def note(*mentions: tuple[str, int, int], text: str = TEXT) -> Document:
    return Document("n", text, tuple(Entity(f"T{i}", t, (Range(a, b),)) for i, (t, a, b) in enumerate(mentions)))


GOLD = note(("NAME", 3, 13), ("CITY", 17, 22), ("DATE", 24, 29))


def test_worked_example() -> None:
    # Hidden: "John", "Leeds" as a name, "12" and "03" without the stroke between them, and the word "of" in vain.
    found = note(("NAME", 3, 7), ("NAME", 17, 22), ("DATE", 24, 26), ("DATE", 27, 29), ("NAME", 14, 16))
    score = score_leakage([(GOLD, found)])
    assert score.by_type == {
        "CITY": TypeLeakage(1, 1, 0, 0),
        "DATE": TypeLeakage(1, 1, 0, 0),  # a stroke tells nothing
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


def test_other_texts_are_refused() -> None:
    with pytest.raises(TextError, match="different texts"):
        score_leakage([(GOLD, note(text="other"))])


def test_counts_go_as_plain_values_and_come_back() -> None:
    score = score_leakage([(GOLD, note(("NAME", 3, 7))), (GOLD, GOLD)])
    values = score.as_values()
    # Words: John, Smith, Leeds, 12, /, 03, twice; of the first note John alone is hidden.
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
def test_values_that_are_no_counts(change: dict[str, Any]) -> None:
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
