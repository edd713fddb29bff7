from __future__ import annotations

from wardround.text.palette import ink_on, type_colour

TYPES = ("ADE", "Dose", "Drug", "Form", "Route", "Strength", "Reason")


def test_types_of_a_tag_set_have_distinct_colours() -> None:
    assert len({type_colour(type_, TYPES) for type_ in TYPES}) == 7


def test_without_a_tag_set_the_name_decides() -> None:
    # crc32(b"Drug") is 3822703872, and 3822703872 mod 7 is 1: the second colour.
    assert type_colour("Drug") == type_colour("Drug", ("ADE",)) == "#56b4e9"


def test_ink_is_readable() -> None:
    assert ink_on("#000000") == "#ffffff"
    assert ink_on("#f0e442") == "#000000"
    assert ink_on("#0072b2") == "#ffffff"
    assert ink_on("#ffffff") == "#000000"
