from __future__ import annotations

from itertools import product

import pytest

from wardround.text.completion import completed
from wardround.text.tag_schemes import BIO, BIOES, IOB1, TagScheme, WordSpan
from wardround.text.tag_sets import TagSet

DRUG, ADE, BOTH = TagSet(("Drug",)), TagSet(("ADE",)), TagSet(("Drug", "ADE"))


def span(start: int, end: int, kind: str) -> WordSpan:
    return WordSpan(start, end, kind)


def test_what_is_found_of_other_types_is_added_behind_the_local_mentions() -> None:
    # Figure 2: "Clozapine induced akathisia in children with schizophrenia" at a site that annotates drugs.
    local = [span(0, 1, "Drug")]
    found = [span(0, 1, "Drug"), span(2, 3, "ADE"), span(6, 7, "Disease")]
    assert completed(local, found, DRUG) == [span(0, 1, "Drug"), span(2, 3, "ADE"), span(6, 7, "Disease")]


def test_what_is_found_of_types_annotated_here_is_dropped() -> None:
    # The annotators looked for drugs and saw none but the first.
    assert completed([span(0, 1, "Drug")], [span(2, 3, "Drug"), span(4, 5, "Drug")], DRUG) == [span(0, 1, "Drug")]
    assert completed([], [span(2, 3, "Drug"), span(3, 4, "ADE")], BOTH) == []
    assert completed([], [span(2, 3, "Drug"), span(3, 4, "ADE")], TagSet(())) == [span(2, 3, "Drug"), span(3, 4, "ADE")]


@pytest.mark.parametrize(
    "words",
    [(2, 5), (1, 3), (4, 6), (3, 4), (1, 6), (2, 3)],
    ids=["same", "into it", "out of it", "within", "around", "its first"],
)
def test_a_local_mention_wins_every_word_of_it(words: tuple[int, int]) -> None:
    local = [span(2, 5, "Drug")]
    assert completed(local, [span(*words, "ADE")], DRUG) == local


@pytest.mark.parametrize("words", [(0, 2), (5, 6)], ids=["before", "behind"])
def test_to_touch_is_not_to_overlap(words: tuple[int, int]) -> None:
    local = [span(2, 5, "Drug")]
    assert completed(local, [span(*words, "ADE")], DRUG) == [*local, span(*words, "ADE")]


def test_of_two_found_on_a_word_the_first() -> None:
    found = [span(0, 2, "ADE"), span(1, 3, "Disease"), span(2, 4, "Finding")]
    assert completed([], found, DRUG) == [span(0, 2, "ADE"), span(2, 4, "Finding")]
    assert completed([], found[1:], DRUG) == [span(1, 3, "Disease")]


def test_what_is_dropped_takes_no_words_from_others() -> None:
    # The first loses to the local drug, the second is a drug that nobody annotated: both leave word 2 free.
    found = [span(0, 3, "ADE"), span(2, 4, "Drug"), span(2, 3, "Disease")]
    assert completed([span(0, 1, "Drug")], found, DRUG) == [span(0, 1, "Drug"), span(2, 3, "Disease")]


def test_local_mentions_stand_whatever_their_type() -> None:
    local = [span(0, 1, "Disease"), span(1, 2, "Drug")]  # one of them of a type that was not looked for
    assert completed(local, [span(0, 1, "ADE"), span(0, 1, "Disease")], DRUG) == local


@pytest.mark.parametrize("scheme", [BIO, BIOES, IOB1], ids=lambda scheme: scheme.name)
def test_every_completion_is_a_legal_annotation_that_keeps_the_local_tags(scheme: TagScheme) -> None:
    tags = scheme.tags(("Drug", "ADE"))
    legal = [path for path in product(tags, repeat=3) if scheme.is_legal(path)]
    for annotated in (path for path in legal if not any("ADE" in tag for tag in path)):
        for decoded in legal:
            spans = completed(scheme.spans(annotated), scheme.spans(decoded), DRUG)
            whole = scheme.encode(spans, 3)
            assert scheme.is_legal(whole)
            assert all(own in ("O", tag) for own, tag in zip(annotated, whole, strict=True))
            assert all(tag in ("O", own) for own, tag in zip(annotated, whole, strict=True) if "Drug" in tag)
