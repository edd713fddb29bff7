from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.corpora.strategies import documents

from wardround.text.alignment import Alignment, AlignmentCounts, Sentence, align, entities_from_spans
from wardround.text.document import Document, Entity, Range
from wardround.text.tag_schemes import WordSpan

#       0         1         2         3
#       0123456789012345678901234567890123456789
TEXT = "Took 10mg aspirin. Knee and hip pain."


def note(*mentions: tuple[object, ...], text: str = TEXT, **own: Any) -> Document:
    """`note(("Drug", 0, 5), ("ADE", 3, 6, 9, 12))`: the second is discontinuous."""
    entities = []
    for number, (kind, *edges) in enumerate(mentions, start=1):
        ranges = tuple(Range(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True))  # type: ignore[arg-type]
        entities.append(Entity(f"T{number}", str(kind), ranges))
    return Document("n1", text, tuple(entities), **own)


def laid(aligned: Alignment) -> list[tuple[WordSpan, ...]]:
    return [sentence.spans for sentence in aligned.sentences]


def test_words_in_sentences() -> None:
    aligned = align(note())
    assert [aligned.texts(sentence) for sentence in aligned.sentences] == [
        ["Took", "10", "mg", "aspirin", "."],
        ["Knee", "and", "hip", "pain", "."],
    ]
    assert aligned.counts == AlignmentCounts()


def test_exact_mentions() -> None:
    aligned = align(note(("Drug", 10, 17), ("Dose", 5, 9), ("ADE", 28, 36)))
    assert laid(aligned) == [(WordSpan(1, 3, "Dose"), WordSpan(3, 4, "Drug")), (WordSpan(2, 4, "ADE"),)]
    assert aligned.counts == AlignmentCounts(exact=3)


def test_a_mention_that_cuts_a_word_is_widened() -> None:
    aligned = align(note(("Drug", 12, 15)))
    assert laid(aligned) == [(WordSpan(3, 4, "Drug"),), ()]
    assert aligned.counts == AlignmentCounts(widened=1)
    assert entities_from_spans(aligned.sentences[0], aligned.sentences[0].spans) == [("Drug", Range(10, 17))]


def test_outer_of_two_overlapping_mentions_is_kept() -> None:
    inner, outer, crossing = ("Drug", 10, 17), ("Treatment", 5, 17), ("Taking", 0, 7)
    for order in ((inner, outer, crossing), (outer, crossing, inner)):
        aligned = align(note(*order))
        assert laid(aligned)[0] == (WordSpan(1, 4, "Treatment"),)
        assert aligned.counts == AlignmentCounts(exact=1, overlapped=2)
        assert aligned.counts.losses == 2


def test_first_type_is_kept_for_two_mentions_of_the_same_words() -> None:
    assert laid(align(note(("Drug", 10, 17), ("Chemical", 10, 17))))[0] == (WordSpan(3, 4, "Chemical"),)


def test_discontinuous_mention_uses_its_longest_range() -> None:
    aligned = align(note(("ADE", 19, 23, 32, 36)))  # knee ... pain: two equally long ranges, the first is used
    assert laid(aligned)[1] == (WordSpan(0, 1, "ADE"),)
    assert aligned.counts == AlignmentCounts(longest_part=1)
    assert laid(align(note(("ADE", 19, 23, 28, 36))))[1] == (WordSpan(2, 4, "ADE"),)


def test_mentions_are_ordered_by_their_longest_range() -> None:
    # The envelope of "Knee ... pain" is longer, but its longest range has only four characters.
    aligned = align(note(("ADE", 19, 23, 32, 36), ("Site", 19, 31)))
    assert laid(aligned)[1] == (WordSpan(0, 3, "Site"),)
    assert aligned.counts == AlignmentCounts(exact=1, overlapped=1)


def test_a_mention_across_sentences_is_counted() -> None:
    aligned = align(note(("Drug", 10, 23)))
    assert laid(aligned) == [(), ()]
    assert aligned.counts == AlignmentCounts(across_sentences=1)


@pytest.mark.parametrize(("start", "end"), [(18, 23), (18, 26)])
def test_a_mention_may_begin_in_the_blank_before_its_sentence(start: int, end: int) -> None:
    aligned = align(note(("Site", start, end)))
    assert laid(aligned)[0] == ()
    assert laid(aligned)[1][0].start == 0
    assert aligned.counts == AlignmentCounts(widened=1)


def test_a_mention_may_end_in_the_blank_after_its_sentence() -> None:
    assert laid(align(note(("Drug", 10, 19)))) == [(WordSpan(3, 5, "Drug"),), ()]


@pytest.mark.parametrize("place", [(18, 19), (4, 5), (9, 10)])
def test_a_mention_without_words_is_counted(place: tuple[int, int]) -> None:
    assert align(note(("Drug", *place))).counts == AlignmentCounts(without_words=1)


def test_a_document_without_words() -> None:
    assert align(note(("Drug", 0, 1), text="  ")).counts == AlignmentCounts(without_words=1)
    assert align(Document("n1", "")).sentences == ()


def test_a_mention_after_the_last_word() -> None:
    assert align(note(("Drug", 3, 4), text="end  ")).counts == AlignmentCounts(without_words=1)


def test_words_and_sentences_of_the_corpus_are_used() -> None:
    own = note(("Dose", 5, 9), ("ADE", 19, 23), words=(Range(0, 4), Range(5, 9)), sentences=(Range(0, 37),))
    aligned = align(own)
    assert aligned.sentences == (Sentence((Range(0, 4), Range(5, 9)), (WordSpan(1, 2, "Dose"),)),)
    assert aligned.counts == AlignmentCounts(exact=1, without_words=1)


def test_words_outside_every_sentence_are_left_out() -> None:
    aligned = align(note(("Drug", 10, 17), sentences=(Range(19, 37),)))
    assert [len(sentence.words) for sentence in aligned.sentences] == [5]
    assert aligned.counts == AlignmentCounts(without_words=1)


def test_counts_add() -> None:
    left, right = AlignmentCounts(1, 2, 3, 4, 5, 6), AlignmentCounts(10, 20, 30, 40, 50, 60)
    assert left + right == AlignmentCounts(11, 22, 33, 44, 55, 66)
    assert left.losses == 4 + 5 + 6


def test_repr_contains_no_text() -> None:
    assert "aspirin" not in repr(align(note(("Drug", 10, 17))))


CLINICAL = st.text(st.sampled_from("ab1. \n\nCD"), max_size=60)


@given(documents(texts=CLINICAL, discontinuous=True, overlapping=True))
def test_every_entity_is_counted_once_and_spans_do_not_overlap(document: Document) -> None:
    aligned = align(document)
    assert sum(asdict(aligned.counts).values()) == len(document.entities)
    for sentence in aligned.sentences:
        edges = [edge for span in sentence.spans for edge in (span.start, span.end)]
        assert edges == sorted(edges)
        assert not edges or edges[-1] <= len(sentence.words)
    laid_down = sum(len(sentence.spans) for sentence in aligned.sentences)
    assert laid_down == len(document.entities) - aligned.counts.losses


@given(documents(texts=CLINICAL, discontinuous=True, overlapping=True))
def test_a_mention_is_lost_only_for_a_reason(document: Document) -> None:
    aligned = align(document)
    words = [word for sentence in aligned.sentences for word in sentence.words]

    def touches_a_word(entity: Entity) -> bool:
        longest = max(entity.ranges, key=lambda r: r.end - r.start)
        return any(longest.overlaps(word) for word in words)

    assert aligned.counts.without_words == sum(not touches_a_word(entity) for entity in document.entities)


@given(documents(texts=CLINICAL))
def test_exact_mention_survives_a_round_trip(document: Document) -> None:
    aligned = align(document)
    given_ = {(entity.type, entity.envelope) for entity in document.entities}
    back = [found for sentence in aligned.sentences for found in entities_from_spans(sentence, sentence.spans)]
    # Only one of several mentions of a word is aligned, so no character range occurs twice.
    assert len({range_ for _, range_ in back}) == len(back)
    assert sum(found in given_ for found in back) >= aligned.counts.exact
