from __future__ import annotations

from dataclasses import dataclass

import pytest

from wardround.corpora.synthetic.lexicon import Term
from wardround.corpora.synthetic.stream import Stream
from wardround.corpora.synthetic.templates import (
    Choice,
    Grammar,
    Mention,
    NoteBuilder,
    Piece,
    Reference,
    SentenceWriter,
    parse,
    with_articles,
)
from wardround.errors import TextError
from wardround.text.document import Document, Range

WORDS = {"Drug": Term("aspirin"), "Disease": Term("ulcer", countable=True), "care": Term("a(n) old sling")}


@dataclass(frozen=True)
class OneWordEach:
    lookalike_rate: float = 0.0

    def draw(self, source: str, stream: Stream) -> Term:
        return WORDS[source] if source in WORDS else Term(f"{source}{stream.below(10**6)}")

    def say(self, term: Term, form: str, stream: Stream) -> str:
        return term.form(form)


def written(rules: dict[str, str], *wanted: str, lookalike_rate: float = 0.0) -> Document:
    stream = Stream("test")
    writer = SentenceWriter(
        Grammar.parse(rules), OneWordEach(lookalike_rate), facts={"he": "she", "age": "81"}, stream=stream
    )
    builder = NoteBuilder({"Disease": "treats", "Dosage": "has_dosage"})
    for number, rule in enumerate(wanted):
        builder.add_text("\n" if number else "")
        builder.sentence(writer.sentence(rule))
    return builder.document("d", ())


def test_offsets_relations_and_articles() -> None:
    rules = {"s": "{he} took {Drug:a} {Dosage<a} for {+Disease<a?}.", "Dosage": "{#5-5} mg"}
    document = written(rules, "s", "s")
    assert document.text == "she took aspirin 5 mg for an ulcer.\nshe took aspirin 5 mg for an ulcer."
    found = [(entity.type, entity.start, entity.end) for entity in document.entities]
    assert found[:3] == [("Drug", 9, 16), ("Dosage", 17, 21), ("Disease", 29, 34)]
    assert found[3:] == [("Drug", 45, 52), ("Dosage", 53, 57), ("Disease", 65, 70)]
    assert document.sentences == (Range(0, 35), Range(36, 71))
    assert [(r.type, r.head, r.tail) for r in document.relations] == [
        ("has_dosage", "T1", "T2"),
        ("treats", "T1", "T3"),
        ("has_dosage", "T4", "T5"),
        ("treats", "T4", "T6"),
    ]
    assert document.entities[2].attributes == (("speculated", "true"),)


def test_a_tail_may_come_before_its_head() -> None:
    document = written({"s": "no {Disease<a!} on {Drug:a}"}, "s")
    assert [(r.head, r.tail) for r in document.relations] == [("T2", "T1")]
    assert document.entities[0].attributes == (("negated", "true"),)


def test_a_lookalike_removes_mention_and_relation() -> None:
    document = written({"s": "{Drug~care:a} for {Disease<a}"}, "s", lookalike_rate=1.0)
    assert document.text == "an old sling for ulcer"
    assert [entity.type for entity in document.entities] == ["Disease"]
    assert document.relations == ()


def test_a_long_key_lasts_for_the_note_and_a_short_one_for_the_sentence() -> None:
    document = written({"s": "{Other:main} {Other:a} {Other:a}"}, "s", "s")
    first, second = (line.split() for line in document.text.split("\n"))
    assert first[0] == second[0]
    assert first[1] == first[2] != second[1]


def test_a_fact_may_be_a_mention() -> None:
    document = written({"s": "a(n) {AGE/age}-year-old"}, "s")
    assert document.text == "an 81-year-old"
    assert document.entities[0].text_in(document.text) == "81"


def test_a_pattern_repeats_only_after_all_were_used() -> None:
    lines = written({"s": "one / two / three"}, *["s"] * 6).text.split("\n")
    assert sorted(lines[:3]) == sorted(lines[3:]) == ["one", "three", "two"]


@pytest.mark.parametrize(
    ("word", "article"),
    [
        ("ulcer", "an"),
        ("uterine cyst", "a"),
        ("rash", "a"),
        ("18", "an"),
        ("45", "a"),
        ("MRI", "an"),
        ("unusual", "an"),
    ],
)
def test_articles_follow_the_sound(word: str, article: str) -> None:
    pieces = with_articles([Piece("a(n) "), Piece(""), Piece(word)])
    assert "".join(piece.text for piece in pieces) == f"{article} {word}"


def test_narrowing_keeps_a_share_and_at_least_two() -> None:
    grammar = Grammar.parse({"ten": " / ".join("abcdefghij"), "two": "x / y"})
    narrow = grammar.narrowed(0.4, "site")
    assert len(narrow.patterns["ten"]) == len(narrow.templates["ten"]) == 4
    assert set(narrow.patterns["ten"]) < set(grammar.patterns["ten"])
    assert narrow.patterns["two"] == grammar.patterns["two"]
    assert narrow.patterns["ten"] != grammar.narrowed(0.4, "another site").patterns["ten"]


def test_a_term_that_ends_with_white_space_is_refused() -> None:
    with pytest.raises(TextError, match="a Drug term begins or ends with white space"):
        NoteBuilder({}).sentence([Piece("aspirin ", Mention("Drug", "Drug"))])


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


def test_a_mention_uses_the_list_of_its_type_by_default() -> None:
    assert parse("{ADE<a}") == (Mention("ADE", "ADE", heads=("a",)),)
    assert parse("{Finding=ST depression!}") == (Mention("Finding", "Finding", words="ST depression", mark="!"),)


@pytest.mark.parametrize("template", ["a]b", "a|b", "a[b", "{Drug:}", "{two words}", "{}"])
def test_malformed_templates_are_refused(template: str) -> None:
    with pytest.raises(TextError):
        parse(template)
