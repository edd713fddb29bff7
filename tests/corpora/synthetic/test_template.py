from __future__ import annotations

import pytest

from wardround.corpora.synthetic.template import Choice, Mention, Reference, parse
from wardround.errors import TextError


def test_plain_text_is_one_part() -> None:
    assert parse("no holes here.") == ("no holes here.",)


def test_choices_nest_and_may_be_empty() -> None:
    assert parse("a[b[c|d]|]e") == ("a", Choice((("b", Choice((("c",), ("d",)))), ())), "e")


def test_names_and_numbers_are_references() -> None:
    assert parse("{span} of {#2-9}") == (Reference("span"), " of ", Reference("#2-9"))


def test_every_part_of_a_mention_is_read() -> None:
    (mention,) = parse("{+degree Drug/brand~gadget.short:a<b,culprit?}")
    assert mention == Mention(
        type="Drug",
        source="brand",
        lookalike="gadget",
        form="short",
        key="a",
        heads=("b", "culprit"),
        mark="?",
        article=True,
        before="degree",
    )


def test_a_mention_draws_from_the_list_of_its_type_unless_told() -> None:
    assert parse("{ADE<a}") == (Mention("ADE", "ADE", heads=("a",)),)
    assert parse("{Finding=ST depression!}") == (Mention("Finding", "Finding", words="ST depression", mark="!"),)


@pytest.mark.parametrize("template", ["a]b", "a|b", "a[b", "{Drug:}", "{two words}", "{}"])
def test_nonsense_is_refused(template: str) -> None:
    with pytest.raises(TextError):
        parse(template)
