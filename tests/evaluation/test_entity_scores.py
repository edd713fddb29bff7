from __future__ import annotations

import numpy as np
import pytest

from wardround.errors import TextError
from wardround.evaluation.counts import SpanCounts, TypedCounts
from wardround.evaluation.entity_scores import Confusion, CorpusScore, score_corpus, score_document
from wardround.text.document import Document, Entity, Range

TEXT = "x" * 60


def note(*entities: tuple[object, ...], text: str = TEXT) -> Document:
    """`note(("Drug", 0, 5), ("ADE", 3, 6, 9, 12))`: the second is discontinuous."""
    made = []
    for number, (type_, *edges) in enumerate(entities):
        ranges = tuple(Range(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True))  # type: ignore[arg-type]
        made.append(Entity(f"T{number}", str(type_), ranges))
    return Document("note", text, tuple(made))


def test_worked_example() -> None:
    gold = note(("Drug", 0, 5), ("Drug", 10, 15), ("ADE", 20, 30), ("ADE", 40, 44))
    predicted = note(("Drug", 0, 5), ("Drug", 12, 15), ("Drug", 22, 30), ("ADE", 50, 55))
    score = score_document(gold, predicted)
    # Strict: only Drug 0-5. Relaxed: Drug 12-15 too; Drug 22-30 lies on an ADE and is no Drug.
    assert score.strict == TypedCounts({"ADE": SpanCounts(0, 1, 2), "Drug": SpanCounts(1, 2, 1)})
    assert score.relaxed == TypedCounts({"ADE": SpanCounts(0, 1, 2), "Drug": SpanCounts(2, 1, 0)})
    assert score.strict.micro.f1 == pytest.approx(2 / 8)
    assert score.relaxed.micro.f1 == pytest.approx(4 / 8)


def test_one_long_prediction_counts_once() -> None:
    gold = note(("Drug", 0, 5), ("Drug", 6, 9), ("Drug", 10, 15))
    assert score_document(gold, note(("Drug", 0, 15))).relaxed["Drug"] == SpanCounts(1, 0, 2)


def test_short_predictions_inside_one_gold_mention_count_once() -> None:
    crumbs = note(("Drug", 0, 2), ("Drug", 3, 5), ("Drug", 6, 8))
    assert score_document(note(("Drug", 0, 8)), crumbs).relaxed["Drug"] == SpanCounts(1, 2, 0)


def test_relaxed_pairs_are_as_many_as_possible() -> None:
    # 4-12 could take either gold mention; only if it takes the second is there one left for 0-3.
    gold = note(("Drug", 0, 6), ("Drug", 8, 12))
    assert score_document(gold, note(("Drug", 0, 3), ("Drug", 4, 12))).relaxed["Drug"] == SpanCounts(2, 0, 0)


def test_a_nested_mention_does_not_cost_a_pair() -> None:
    # 0-10 equals a gold mention, but both predictions find a partner only if it takes the inner one.
    gold = note(("Drug", 0, 10), ("Drug", 0, 3))
    predicted = note(("Drug", 0, 10), ("Drug", 5, 15))
    score = score_document(gold, predicted)
    assert score.strict["Drug"] == SpanCounts(1, 1, 1)
    assert score.relaxed["Drug"] == SpanCounts(2, 0, 0)


def test_adjacent_is_not_overlapping() -> None:
    assert score_document(note(("Drug", 0, 5)), note(("Drug", 5, 9))).relaxed["Drug"] == SpanCounts(0, 1, 1)


def test_discontinuous_mentions() -> None:
    gold = note(("ADE", 0, 4, 10, 14))
    assert score_document(gold, gold).strict["ADE"] == SpanCounts(1, 0, 0)
    envelope = score_document(gold, note(("ADE", 0, 14)))
    assert envelope.strict["ADE"] == SpanCounts(0, 1, 1)
    assert envelope.relaxed["ADE"] == SpanCounts(1, 0, 0)
    in_the_gap = score_document(gold, note(("ADE", 5, 9)))
    assert in_the_gap.relaxed["ADE"] == SpanCounts(0, 1, 1)


def test_duplicates_count_once() -> None:
    twice = note(("Drug", 0, 5), ("Drug", 0, 5))
    once = note(("Drug", 0, 5))
    for gold, predicted in [(twice, once), (once, twice), (twice, twice)]:
        score = score_document(gold, predicted)
        assert score.strict["Drug"] == score.relaxed["Drug"] == SpanCounts(1, 0, 0)


def test_same_place_with_two_types() -> None:
    gold = note(("Drug", 0, 5), ("ADE", 0, 5))
    score = score_document(gold, note(("ADE", 0, 5)))
    assert score.strict == TypedCounts({"ADE": SpanCounts(1, 0, 0), "Drug": SpanCounts(0, 0, 1)})


def test_different_texts_are_refused_without_quoting_them() -> None:
    with pytest.raises(TextError, match=r"document 'note'.*6 and 7 characters") as caught:
        score_document(note(text="secret"), note(text="private"))
    assert "secret" not in str(caught.value) and "private" not in str(caught.value)


def test_corpus_sums_documents_and_keeps_their_counts() -> None:
    hit = (note(("Drug", 0, 5)), note(("Drug", 0, 5)))
    miss = (note(("ADE", 0, 5)), note(("Drug", 7, 9)))
    score = score_corpus(pair for pair in [hit, miss])
    assert score.documents == 2
    assert score.strict == TypedCounts({"ADE": SpanCounts(0, 0, 1), "Drug": SpanCounts(1, 1, 0)})
    assert score.strict_by_document[0] == TypedCounts({"Drug": SpanCounts(1, 0, 0)})
    assert score.confusion["Drug", "Drug"] == 1
    assert score.muc.overall.strict.spurious == 1


def test_scores_of_sites_add() -> None:
    pairs = [_random_pair(np.random.default_rng(seed)) for seed in range(6)]
    assert score_corpus(pairs[:2]) + score_corpus(pairs[2:]) == score_corpus(pairs)
    assert score_corpus([]) == CorpusScore()


def test_properties_on_random_documents() -> None:
    generator = np.random.default_rng(11)
    for _ in range(300):
        gold, predicted = _random_pair(generator)
        score, swapped = score_document(gold, predicted), score_document(predicted, gold)
        for type_, relaxed in score.relaxed.items():
            assert score.strict[type_].tp <= relaxed.tp
            assert score.strict[type_].gold == relaxed.gold == sum(score.confusion[type_, p] for p in (*"ABC", None))
            assert relaxed.predicted == sum(score.confusion[g, type_] for g in (*"ABC", None))
            assert score.confusion[type_, type_] == relaxed.tp
            other_way = swapped.relaxed[type_]
            assert (other_way.tp, other_way.fp, other_way.fn) == (relaxed.tp, relaxed.fn, relaxed.fp)


def _random_pair(generator: np.random.Generator) -> tuple[Document, Document]:
    def annotated() -> Document:
        entities = []
        for _ in range(int(generator.integers(0, 9))):
            cuts = sorted(generator.choice(60, size=2 * int(generator.integers(1, 3)), replace=False).tolist())
            entities.append((str(generator.choice(list("ABC"))), *cuts))
        return note(*entities)

    return annotated(), annotated()


def confusion_of(gold: list[tuple[str, int, int]], predicted: list[tuple[str, int, int]]) -> Confusion:
    def note(mentions: list[tuple[str, int, int]]) -> Document:
        return Document("n", "x" * 50, tuple(Entity(str(i), t, (Range(a, b),)) for i, (t, a, b) in enumerate(mentions)))

    return score_document(note(gold), note(predicted)).confusion


def test_confusion_worked_example() -> None:
    confusion = confusion_of(
        [("Drug", 0, 5), ("ADE", 10, 15), ("ADE", 20, 25)],
        [("Drug", 0, 5), ("Drug", 12, 18), ("Dose", 30, 35)],
    )
    assert confusion.counts == {("Drug", "Drug"): 1, ("ADE", "Drug"): 1, ("ADE", None): 1, (None, "Dose"): 1}
    assert confusion.types == ("ADE", "Dose", "Drug")
    # Columns ADE, Dose, Drug, missed; the last row is spurious.
    assert confusion.rows() == [[0, 0, 1, 1], [0, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0]]
    assert confusion.rows(["Drug"]) == [[1, 0], [0, 0]]


def test_a_mention_of_the_same_type_goes_before_a_longer_overlap() -> None:
    confusion = confusion_of([("Drug", 0, 10)], [("ADE", 0, 9), ("Drug", 9, 12)])
    assert confusion.counts == {("Drug", "Drug"): 1, (None, "ADE"): 1}


def test_leftovers_go_to_the_longest_overlap() -> None:
    confusion = confusion_of([("Drug", 0, 10)], [("ADE", 0, 3), ("Dose", 3, 10)])
    assert confusion.counts == {("Drug", "Dose"): 1, (None, "ADE"): 1}


def test_confusions_add() -> None:
    total = Confusion({("A", "B"): 1, ("A", None): 2}) + Confusion({("A", "B"): 3, (None, "C"): 1})
    assert total == Confusion({("A", "B"): 4, ("A", None): 2, (None, "C"): 1})
    assert total["C", "A"] == 0
