from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.text.document import Document, Range
from wardround.text.words import find_words, words_of


def cut(text: str) -> list[str]:
    return [text[start:end] for start, end in find_words(text)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" \n\t ", []),
        ("aspirin 10mg/day", ["aspirin", "10", "mg", "/", "day"]),
        ("82años", ["82", "años"]),
        ("B12-Mangel", ["B", "12", "-", "Mangel"]),
        ("T_max", ["T", "_", "max"]),
        ("3.5 %", ["3", ".", "5", "%"]),
        ("...", [".", ".", "."]),
        ("naïve", ["naïve"]),
        ("nai\u0308ve", ["nai\u0308ve"]),  # the same, decomposed
        ("cafe\u0301 au", ["cafe\u0301", "au"]),
        ("\u0301x", ["\u0301", "x"]),  # an accent without its letter stands alone
        ("m²", ["m²"]),  # a superscript is no decimal digit
        ("中文ß", ["中文ß"]),
        ("a😀b", ["a", "😀", "b"]),
    ],
)
def test_words_by_hand(text: str, words: list[str]) -> None:
    assert cut(text) == words


def test_offsets_are_exact() -> None:
    assert find_words(" ab 10mg") == [Range(1, 3), Range(4, 6), Range(6, 8)]


def test_a_part_of_the_text_has_offsets_in_the_whole() -> None:
    assert find_words("one two three", Range(4, 10)) == [Range(4, 7), Range(8, 10)]


@given(st.text(st.one_of(st.sampled_from("aB1 9_.\n\u0301é²\u200b"), st.characters())))
def test_every_visible_character_is_in_exactly_one_word(text: str) -> None:
    held = [position for start, end in find_words(text) for position in range(start, end)]
    assert held == [position for position, character in enumerate(text) if not character.isspace()]


def test_the_words_of_the_corpus_come_first() -> None:
    assert words_of(Document("n1", "10mg")) == (Range(0, 2), Range(2, 4))
    assert words_of(Document("n1", "10mg", words=(Range(0, 4),))) == (Range(0, 4),)
    assert words_of(Document("n1", "10mg", words=())) == ()
