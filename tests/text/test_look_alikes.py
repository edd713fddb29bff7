from __future__ import annotations

import unicodedata

from wardround.text.look_alikes import BLANKS, DIGIT_LOOK_ALIKES, FOREIGN_LOOK_ALIKES, LOOK_ALIKES, SIGNS


def test_every_look_alike_maps_to_one_plain_character() -> None:
    for table in (FOREIGN_LOOK_ALIKES, LOOK_ALIKES, DIGIT_LOOK_ALIKES, SIGNS):
        assert all(len(odd) == 1 and not odd.isascii() for odd in table)
        assert all(len(plain) == 1 and plain.isascii() for plain in table.values())
    assert all(plain.isalpha() for plain in LOOK_ALIKES.values())
    assert all(plain.isdigit() for plain in DIGIT_LOOK_ALIKES.values())
    assert not any(plain.isalnum() for plain in SIGNS.values())


def test_foreign_look_alikes_are_not_latin() -> None:
    assert not [odd for odd in FOREIGN_LOOK_ALIKES if unicodedata.name(odd).startswith("LATIN")]


def test_upper_case_letters_map_to_upper_case() -> None:
    wrong = {odd for odd, plain in FOREIGN_LOOK_ALIKES.items() if odd.isupper() and plain.islower()}
    # These have the shape of a small letter; Cherokee has no small letters.
    assert wrong == {*"ЬЪ", *(odd for odd in wrong if unicodedata.name(odd).startswith("CHEROKEE"))}


def test_no_character_is_in_two_tables() -> None:
    assert not LOOK_ALIKES.keys() & SIGNS.keys()
    assert not BLANKS & (LOOK_ALIKES.keys() | SIGNS.keys())
