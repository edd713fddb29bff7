from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.text.document import Document, Range
from wardround.text.segmentation import find_sentences, find_words, sentences_of, words_of


def cut(text: str) -> list[str]:
    return [text[start:end] for start, end in find_sentences(text)]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", []),
        ("  \n ", []),
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("He said so.) Then left.", ["He said so.)", "Then left."]),
        ("Pain... None now.", ["Pain...", "None now."]),
        # A decimal number, and a full stop at the end.
        ("Gave 2.5 mg. Slept.", ["Gave 2.5 mg.", "Slept."]),
        # Abbreviations and initials.
        ("Seen by Dr. Smith. Home.", ["Seen by Dr. Smith.", "Home."]),
        ("Fever, e.g. Malaria. Home.", ["Fever, e.g. Malaria.", "Home."]),
        ("J. R. Smith came. Home.", ["J. R. Smith came.", "Home."]),
        # Spanish addresses; "km" may end a sentence.
        ("Vive en Avda. Real 3. Acude.", ["Vive en Avda. Real 3.", "Acude."]),
        ("Vive en C/. Mayor 3. Acude.", ["Vive en C/. Mayor 3.", "Acude."]),
        ("Taken and/or. Mac/. Walked 5 km. Home.", ["Taken and/or.", "Mac/.", "Walked 5 km.", "Home."]),
        # A lower-case letter continues the sentence.
        ("Temp. up since. then fell", ["Temp. up since. then fell"]),
        ("At 5 p.m. Rested.", ["At 5 p.m. Rested."]),
        # A blank line always ends a sentence.
        ("chest\n\npain", ["chest", "pain"]),
        ("chest \r\n \r\npain", ["chest", "pain"]),
        # A line break ends a sentence unless the line was wrapped.
        ("Aspirin\nMetformin", ["Aspirin", "Metformin"]),
        ("chest\npain", ["chest\npain"]),
        ("pain in the chest,\nwhich (\nas said) went", ["pain in the chest,\nwhich (\nas said) went"]),
        ("Allergies:\nnone", ["Allergies:", "none"]),
        ("Fever.\nnone", ["Fever.", "none"]),
        ("Dose 5\nmg daily", ["Dose 5\nmg daily"]),
        ("One\r\nTwo\rThree", ["One", "Two", "Three"]),
        ("a wrapped\nline. Another", ["a wrapped\nline.", "Another"]),
        (" lead\n", ["lead"]),
        ("\nlead", ["lead"]),
    ],
)
def test_sentences_by_hand(text: str, sentences: list[str]) -> None:
    assert cut(text) == sentences


def test_offsets_are_exact() -> None:
    assert find_sentences(" One.  Two \n\nThree") == [Range(1, 5), Range(7, 10), Range(13, 18)]


NOTE_LIKE = st.text(st.one_of(st.sampled_from("aB1.!?)\"' \t\n\r\n.,-(\u2028\u00a0"), st.characters()), max_size=80)


@given(NOTE_LIKE)
def test_every_visible_character_is_in_exactly_one_sentence(text: str) -> None:
    held = [position for start, end in find_sentences(text) for position in range(start, end)]
    assert held == sorted(set(held))
    visible = {position for position, character in enumerate(text) if not character.isspace()}
    assert visible <= set(held)


@given(NOTE_LIKE)
def test_a_sentence_has_no_white_space_around_it(text: str) -> None:
    for sentence in cut(text):
        assert sentence == sentence.strip()
        assert sentence


@pytest.mark.parametrize(
    ("text", "sentences"),
    [("." * 100_000, 1), ("a" + " " * 100_000 + "b", 1), ("a." + " " * 100_000, 1), ("a.\n" * 30_000, 30_000)],
    ids=["dots", "blanks", "blanks at the end", "lines"],
)
def test_a_page_of_dots_or_blanks_takes_linear_time(text: str, sentences: int) -> None:
    # Backtracking at every position would take minutes; benchmarks/traps.py measures it.
    assert len(list(find_sentences(text))) == sentences


def test_sentences_of_the_corpus_are_used() -> None:
    assert sentences_of(Document("n1", "One. Two")) == (Range(0, 4), Range(5, 8))
    assert sentences_of(Document("n1", "One. Two", sentences=(Range(0, 8),))) == (Range(0, 8),)


def cut_words(text: str) -> list[str]:
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
        ("\u0301x", ["\u0301", "x"]),  # an accent without a letter is a word
        ("m²", ["m²"]),  # a superscript is not a decimal digit
        ("中文ß", ["中文ß"]),
        ("a😀b", ["a", "😀", "b"]),
    ],
)
def test_words_by_hand(text: str, words: list[str]) -> None:
    assert cut_words(text) == words


def test_word_offsets_are_exact() -> None:
    assert find_words(" ab 10mg") == [Range(1, 3), Range(4, 6), Range(6, 8)]


def test_words_within_a_range_have_offsets_in_the_whole_text() -> None:
    assert find_words("one two three", Range(4, 10)) == [Range(4, 7), Range(8, 10)]


@given(st.text(st.one_of(st.sampled_from("aB1 9_.\n\u0301é²\u200b"), st.characters())))
def test_every_visible_character_is_in_exactly_one_word(text: str) -> None:
    held = [position for start, end in find_words(text) for position in range(start, end)]
    assert held == [position for position, character in enumerate(text) if not character.isspace()]


def test_words_of_the_corpus_are_used() -> None:
    assert words_of(Document("n1", "10mg")) == (Range(0, 2), Range(2, 4))
    assert words_of(Document("n1", "10mg", words=(Range(0, 4),))) == (Range(0, 4),)
    assert words_of(Document("n1", "10mg", words=())) == ()


def test_a_byte_order_mark_is_no_word() -> None:
    assert find_words("\ufeffAspirin \ufeff 5") == [Range(1, 8), Range(11, 12)]
    assert find_sentences("\ufeff") == []
    assert find_sentences("\ufeffAspirin.") == [Range(1, 9)]
