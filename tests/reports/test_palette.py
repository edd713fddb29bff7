from __future__ import annotations

from wardround.reports.palette import colour_of_type, ink_on

TYPES = ("ADE", "Dose", "Drug", "Form", "Route", "Strength", "Reason")


def test_types_of_a_tag_set_have_distinct_colours() -> None:
    assert len({colour_of_type(type_, TYPES) for type_ in TYPES}) == 7


def test_without_a_tag_set_the_name_decides() -> None:
    # crc32(b"Drug") is 3822703872, and 3822703872 mod 7 is 1: the second colour.
    assert colour_of_type("Drug") == colour_of_type("Drug", ("ADE",)) == "#56b4e9"


def test_ink_is_readable() -> None:
    assert ink_on("#000000") == "#ffffff"
    assert ink_on("#f0e442") == "#000000"
    assert ink_on("#0072b2") == "#ffffff"
    assert ink_on("#ffffff") == "#000000"
