from __future__ import annotations

import unicodedata

from wardround.text.look_alikes import BLANKS, DIGIT_LOOK_ALIKES, FOREIGN_LOOK_ALIKES, LOOK_ALIKES, SIGNS


def test_every_look_alike_stands_for_one_plain_character() -> None:
    for table in (FOREIGN_LOOK_ALIKES, LOOK_ALIKES, DIGIT_LOOK_ALIKES, SIGNS):
        assert all(len(odd) == 1 and not odd.isascii() for odd in table)
        assert all(len(plain) == 1 and plain.isascii() for plain in table.values())
    assert all(plain.isalpha() for plain in LOOK_ALIKES.values())
    assert all(plain.isdigit() for plain in DIGIT_LOOK_ALIKES.values())
    assert not any(plain.isalnum() for plain in SIGNS.values())


def test_letters_of_other_scripts_are_told_from_latin_ones() -> None:
    assert not [odd for odd in FOREIGN_LOOK_ALIKES if unicodedata.name(odd).startswith("LATIN")]


def test_an_upper_case_letter_looks_like_one() -> None:
    wrong = {odd for odd, plain in FOREIGN_LOOK_ALIKES.items() if odd.isupper() and plain.islower()}
    # These have the shape of a small letter; Cherokee has no other.
    assert wrong == {*"ЬЪ", *(odd for odd in wrong if unicodedata.name(odd).startswith("CHEROKEE"))}


def test_none_is_in_two_places() -> None:
    assert not LOOK_ALIKES.keys() & SIGNS.keys()
    assert not BLANKS & (LOOK_ALIKES.keys() | SIGNS.keys())
