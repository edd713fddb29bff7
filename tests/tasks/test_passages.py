from __future__ import annotations

from random import Random

import pytest

from wardround.models.joint_extractor import SpanPair
from wardround.tasks.passages import CutDocument, Passage, Place, cut_passages
from wardround.tasks.relation_instances import PairRules, instances_of
from wardround.text.alignment import AlignmentCounts
from wardround.text.document import Document, Entity, Range
from wardround.text.relation_sets import RelationSet, RelationType
from wardround.text.tag_schemes import WordSpan

#       0         1         2         3         4
#       0123456789012345678901234567890123456789012345678
TEXT = "Took aspirin. Rash came. It hurt. She left. Bye."
ASPIRIN = Entity("T1", "Drug", (Range(5, 12),))
RASH = Entity("T2", "ADE", (Range(14, 18),))
HURT = Entity("T3", "ADE", (Range(28, 32),))
NOTE = Document("n", TEXT, (ASPIRIN, RASH, HURT))
ANY = RelationSet((RelationType("linked"),))


def words(cut: CutDocument) -> list[tuple[str, str]]:
    """The words that each passage owns, and those that it reads after them."""
    texts = [(cut.texts(passage), passage.owned) for passage in cut.passages]
    return [(" ".join(text[:owned]), " ".join(text[owned:])) for text, owned in texts]


def test_passages_are_sentences_for_a_window_of_one() -> None:
    cut = cut_passages(NOTE, 1)
    sentences = ["Took aspirin .", "Rash came .", "It hurt .", "She left .", "Bye ."]
    assert words(cut) == [(sentence, "") for sentence in sentences]
    assert [passage.spans for passage in cut.passages[:2]] == [(WordSpan(1, 2, "Drug"),), (WordSpan(0, 1, "ADE"),)]
    assert cut.counts == AlignmentCounts(exact=3)


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (2, [("Took aspirin . Rash came .", "It hurt ."), ("It hurt . She left .", "Bye ."), ("Bye .", "")]),
        (3, [("Took aspirin . Rash came . It hurt .", "She left . Bye ."), ("She left . Bye .", "")]),
        (5, [("Took aspirin . Rash came . It hurt . She left . Bye .", "")]),
        (99, [("Took aspirin . Rash came . It hurt . She left . Bye .", "")]),
    ],
)
def test_a_passage_owns_its_window_and_reads_the_following_sentences(
    window: int, expected: list[tuple[str, str]]
) -> None:
    assert words(cut_passages(NOTE, window)) == expected


def test_mentions_outside_the_owned_words_are_not_tagged() -> None:
    first, second, _ = cut_passages(NOTE, 2).passages
    assert first.spans == (WordSpan(1, 2, "Drug"), WordSpan(3, 4, "ADE"))
    assert second.spans == (WordSpan(1, 2, "ADE"),)
    assert first.find(HURT) == WordSpan(7, 8, "ADE")


def test_a_pair_lies_in_the_passage_that_owns_its_first_word() -> None:
    cut = cut_passages(NOTE, 2)
    rash, hurt = WordSpan(3, 4, "ADE"), WordSpan(7, 8, "ADE")
    assert cut.place(RASH, HURT) == Place(0, SpanPair(rash, hurt))
    assert cut.place(HURT, RASH) == Place(0, SpanPair(hurt, rash))
    assert cut_passages(NOTE, 1).place(RASH, HURT) is None


def test_mentions_that_cut_words_or_are_in_parts() -> None:
    document = Document("n", "Painful joint and muscle aches.")
    pain, parts = Entity("T1", "ADE", (Range(0, 4),)), Entity("T2", "ADE", (Range(8, 13), Range(25, 30)))
    blank = Entity("T3", "ADE", (Range(13, 14),))
    (passage,) = cut_passages(document, 1).passages
    assert passage.find(pain) == WordSpan(0, 1, "ADE")  # the whole word
    assert passage.find(parts) == WordSpan(1, 2, "ADE")  # the first of two parts as long as each other
    assert passage.find(blank) is None
    assert Passage(passage.words[:2], 2).find(Entity("T4", "ADE", (Range(8, 20),))) is None


def test_documents_without_words() -> None:
    for document in (Document("e", ""), Document("b", " \n "), Document("s", "Rash.", sentences=())):
        cut = cut_passages(document, 2)
        assert cut.passages == ()
    assert cut.place(Entity("T1", "ADE", (Range(0, 4),)), Entity("T2", "ADE", (Range(0, 2),))) is None


def test_a_sentence_without_words_does_not_shift_passages() -> None:
    """The words of the corpus leave a sentence empty: it still counts in a window."""
    ranges = tuple(Range(start, start + 1) for start in (0, 2, 4, 6))
    document = Document("n", "a b c d", words=(*ranges[:1], *ranges[2:]), sentences=ranges)
    assert words(cut_passages(document, 1)) == [("a", ""), ("c", ""), ("d", "")]
    assert words(cut_passages(document, 2)) == [("a", "c"), ("c d", "")]


def test_a_mention_over_a_break_between_sentences_is_kept_within_a_window() -> None:
    across = Document("n", "Took one. Two now.", (Entity("T1", "Drug", (Range(5, 13),)),))
    assert cut_passages(across, 1).counts == AlignmentCounts(across_sentences=1)
    assert cut_passages(across, 2).counts == AlignmentCounts(exact=1)


@pytest.mark.parametrize("window", [1, 2, 3, 7])
@pytest.mark.parametrize("directed", [True, False])
def test_candidates_are_the_pairs_of_relation_instances(window: int, directed: bool) -> None:
    kinds = (RelationType("causes", (("Drug", "ADE"),)), RelationType("same", (("ADE", "ADE"),)))
    rules = PairRules(RelationSet(kinds, directed=directed), window=window)
    for seed in range(20):
        document = _scattered(Random(f"{window}/{seed}"))
        cut = cut_passages(document, window)
        found = list(cut.candidates(document, rules))
        expected = [(pair.head, pair.tail) for pair in instances_of(document, rules)]
        assert [(pair.head.id, pair.tail.id) for pair in found] == expected
        for head, tail, place in found:
            assert place == cut.place(head, tail)
            assert place is not None, "within the window, so within the passage"
            texts = cut.texts(cut.passages[place.passage])
            assert place.spans.head.start < cut.passages[place.passage].owned or (
                place.spans.tail.start < cut.passages[place.passage].owned
            )
            for entity, span in ((head, place.spans.head), (tail, place.spans.tail)):
                assert " ".join(texts[span.start : span.end]) == entity.text_in(document.text)


def _scattered(chance: Random) -> Document:
    """Up to nine sentences of three words and a full stop, and mentions of one or two words."""
    text = " ".join("Aa bb cc." for _ in range(chance.randint(1, 9)))
    starts = [at for at in range(len(text)) if text[at] in "abc" and text[at - 1] == " "] + [0]
    entities = []
    for number in range(chance.randint(0, 12)):
        start = chance.choice(starts)
        end = start + 5 if chance.random() < 0.3 and text[start + 2 : start + 3] == " " else start + 2
        if text[start:end].isascii() and "." not in text[start:end] and end <= len(text):
            entities.append(Entity(f"T{number}", chance.choice(["Drug", "ADE", "Dose"]), (Range(start, end),)))
    return Document("n", text, tuple(entities))
