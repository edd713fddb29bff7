from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from nervaluate import Evaluator

from wardround.evaluation.muc import MATCHING_MODES, MucCounts, MucModes, MucScore, score_muc
from wardround.evaluation.overlaps import Mention, Overlaps, find_overlaps
from wardround.text.document import Range


def mention(type_: str, *edges: int) -> Mention:
    return Mention(tuple(Range(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True)), type_)


def overlaps(gold: list[Mention], predicted: list[Mention]) -> Overlaps:
    return find_overlaps(sorted(gold), sorted(predicted))


def test_each_category_once() -> None:
    gold = [mention("Drug", 0, 5), mention("Drug", 10, 15), mention("ADE", 20, 25), mention("ADE", 30, 35)]
    predicted = [mention("Drug", 0, 5), mention("ADE", 10, 15), mention("ADE", 18, 23), mention("Drug", 40, 45)]
    # One equal; one with the wrong type; one shifted; one missed; one spurious.
    score = score_muc(overlaps(gold, predicted)).overall
    assert score.strict == MucCounts(correct=1, incorrect=2, missed=1, spurious=1)
    assert score.exact == MucCounts(correct=2, incorrect=1, missed=1, spurious=1)
    assert score.partial == MucCounts(correct=2, partial=1, missed=1, spurious=1)
    assert score.ent_type == MucCounts(correct=2, incorrect=1, missed=1, spurious=1)


def test_a_partial_mention_counts_half() -> None:
    counts = MucCounts(correct=2, partial=1, missed=1, spurious=2)
    assert (counts.possible, counts.actual) == (4, 5)
    assert counts.recall == pytest.approx(2.5 / 4)
    assert counts.precision == pytest.approx(2.5 / 5)
    assert counts.f1 == pytest.approx(2 * 0.625 * 0.5 / 1.125)


def test_undefined_scores_are_zero() -> None:
    assert (MucCounts().precision, MucCounts().recall, MucCounts().f1) == (0.0, 0.0, 0.0)


def test_scores_by_type_use_only_that_type() -> None:
    score = score_muc(overlaps([mention("Drug", 0, 5)], [mention("ADE", 0, 5)]))
    assert score.overall.strict == MucCounts(incorrect=1)
    assert score.by_type["Drug"].strict == MucCounts(missed=1)
    assert score.by_type["ADE"].strict == MucCounts(spurious=1)


def test_ent_type_takes_the_nearest_of_its_type() -> None:
    # 3-20 overlaps both gold mentions and is nearer to 8-20 (distance 5) than to 0-5 (distance 18); 4-5 takes that.
    gold = [mention("Drug", 0, 5), mention("Drug", 8, 20)]
    predicted = [mention("Drug", 3, 20), mention("Drug", 4, 5)]
    assert score_muc(overlaps(gold, predicted)).overall.ent_type == MucCounts(correct=2)


def test_an_equal_mention_is_matched_before_a_nested_neighbour() -> None:
    gold = [mention("Drug", 4, 8)]
    predicted = [mention("Drug", 0, 8), mention("Drug", 4, 8)]
    assert score_muc(overlaps(gold, predicted)).overall.strict == MucCounts(correct=1, spurious=1)


def test_discontinuous_mentions_with_the_same_envelope_differ() -> None:
    score = score_muc(overlaps([mention("ADE", 0, 4, 8, 12)], [mention("ADE", 0, 12)])).overall
    assert score.exact == MucCounts(incorrect=1)
    assert score.partial == MucCounts(partial=1)
    assert score.ent_type == MucCounts(correct=1)


def test_scores_add() -> None:
    one = MucModes(MucCounts(1), MucCounts(0, 1), MucCounts(0, 0, 1), MucCounts(0, 0, 0, 1, 1))
    total = MucScore(one, {"A": one}) + MucScore(one, {"B": one})
    assert total.overall == MucModes(MucCounts(2), MucCounts(0, 2), MucCounts(0, 0, 2), MucCounts(0, 0, 0, 2, 2))
    assert total.by_type == {"A": one, "B": one}


def test_agrees_with_nervaluate_on_mentions_that_do_not_overlap() -> None:
    generator = np.random.default_rng(17)
    documents = [(_disjoint(generator), _disjoint(generator)) for _ in range(400)]
    ours = sum((score_muc(find_overlaps(gold, predicted)) for gold, predicted in documents), MucScore())
    theirs = Evaluator(
        [_as_dicts(gold) for gold, _ in documents],
        [_as_dicts(predicted) for _, predicted in documents],
        tags=list("ABC"),
        loader="dict",
    ).evaluate()
    assert ours.overall.ent_type.incorrect > 50 and ours.overall.partial.partial > 50
    for reading in MATCHING_MODES:
        _assert_equal(getattr(ours.overall, reading), theirs["overall"][reading])
        for type_ in "ABC":
            _assert_equal(getattr(ours.by_type[type_], reading), theirs["entities"][type_][reading])


def _assert_equal(ours: MucCounts, theirs: object) -> None:
    for name, count in asdict(ours).items():
        assert count == getattr(theirs, name), name
    for name in ("possible", "actual", "precision", "recall", "f1"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name)), name


def _disjoint(generator: np.random.Generator) -> list[Mention]:
    cuts = sorted(generator.choice(40, size=2 * int(generator.integers(0, 7)), replace=False).tolist())
    return [mention(str(generator.choice(list("ABC"))), a, b) for a, b in zip(cuts[::2], cuts[1::2], strict=True)]


def _as_dicts(mentions: list[Mention]) -> list[dict[str, object]]:
    # nervaluate's ends are inclusive.
    return [{"label": m.type, "start": m.ranges[0].start, "end": m.ranges[0].end - 1} for m in mentions]
