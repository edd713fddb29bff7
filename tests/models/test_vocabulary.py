from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wardround.models.vocabulary import CHARACTERS, PADDING, UNKNOWN, HashedWords, ListedWords, spelling

GOLDEN = {"aspirin": 14541, "fièvre": 14646, "0": 8055}


def test_hashes_never_change() -> None:
    """Every site and every saved model depends on these numbers."""
    rows = HashedWords()
    assert {word: rows(word) for word in ("aspirin", "fièvre", "0")} == GOLDEN
    assert rows.size == 16_386


def test_case_and_digits_do_not_change_the_bucket() -> None:
    rows = HashedWords(1000)
    assert rows("Aspirin") == rows("ASPIRIN") == rows("aspirin")
    assert rows("2019") == rows("1987") != rows("187")
    assert rows("aspirin") != rows("heparin")


@given(st.text(st.characters(codec=None), min_size=1), st.integers(1, 50))
def test_every_word_has_a_row_of_its_own_kind(word: str, buckets: int) -> None:
    rows = HashedWords(buckets)
    assert UNKNOWN < rows(word) < rows.size


def test_listed_words_are_looked_up_exactly_then_in_lower_case() -> None:
    rows = ListedWords(["US", "us", "aspirin"])
    assert rows.size == 5
    assert [rows(word) for word in ("US", "us", "Us", "Aspirin")] == [2, 3, 3, 4]
    assert rows("heparin") == rows("HEPARIN") == UNKNOWN


def test_spelling_by_hand() -> None:
    assert spelling("ab") == (2, 3)
    assert spelling("A0") == (2 + 26, 2 + 52)
    assert spelling("!") == (2 + 62,)
    assert spelling("") == ()


def test_a_long_word_keeps_its_beginning_and_its_end() -> None:
    word = "a" * 20 + "b" * 20
    assert spelling(word) == spelling("a" * 16 + "b" * 16)
    assert len(spelling(word)) == 32
    assert spelling("abcdefg", 5) == spelling("abefg")


def test_a_character_outside_the_table_is_hashed() -> None:
    first_bucket = CHARACTERS - 32
    assert spelling("中") == (first_bucket + ord("中") % 32,)
    assert spelling("é")[0] < first_bucket


@given(st.text(st.characters(codec=None)))
def test_no_character_has_the_row_of_padding(word: str) -> None:
    assert all(PADDING < row < CHARACTERS and row != UNKNOWN for row in spelling(word))
