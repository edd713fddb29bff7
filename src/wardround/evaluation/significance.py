"""Confidence intervals and significance tests for scores.

The percentile bootstrap shows how far a score would move with other notes of the same kind. It draws documents with
replacement, adds their counts and only then divides. Two systems are compared on the same draws (paired), because a
hard note is hard for both. The sign-flip test compares paired numbers such as the scores of several sites.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wardround.errors import UsageError
from wardround.evaluation.counts import TypedCounts

__all__ = [
    "Average",
    "Difference",
    "Interval",
    "Measure",
    "ScoreName",
    "intervals",
    "paired_difference",
    "sign_flip_p_value",
]

ScoreName: TypeAlias = Literal["precision", "recall", "f1"]
_Floats: TypeAlias = NDArray[np.float64]

_CHUNK = 4_000_000  # weights in memory at once: 32 MB

_MOST_EXACT_PAIRS = 16  # above this number of pairs, signs are sampled
_SIGN_DRAWS = 20_000
_ROUNDING = 1e-12  # two sums of the same numbers may differ by this much


class Average(Enum):
    """How the scores of all types become one number."""

    MICRO = "micro"
    MACRO = "macro"


@dataclass(frozen=True, slots=True)
class Measure:
    """A score, and the average or the single type (a string) that it is computed over."""

    score: ScoreName = "f1"
    over: Average | str = Average.MICRO


@dataclass(frozen=True, slots=True)
class Interval:
    """A score on all documents and the bounds that contain a share `level` of the resampled scores."""

    estimate: float
    low: float
    high: float
    level: float = 0.95


@dataclass(frozen=True, slots=True)
class Difference:
    """Score of the first system minus that of the second, with a two-sided p-value for "no difference"."""

    estimate: float
    low: float
    high: float
    p_value: float
    level: float = 0.95


def intervals(
    documents: Sequence[TypedCounts],
    measures: Sequence[Measure],
    *,
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> tuple[Interval, ...]:
    """Return a bootstrap interval for each measure; all measures use the same resamples of the documents."""
    _check_bootstrap(len(documents), resamples, level)
    types = sorted({type_ for counts in documents for type_ in counts})
    counts = _matrix(documents, types)
    sums = _resampled(counts, resamples, seed)
    found = []
    for measure in measures:
        estimate = float(_measured(counts.sum(axis=0, keepdims=True), measure, types)[0])
        low, high = _percentiles(_measured(sums, measure, types), level)
        found.append(Interval(estimate, low, high, level))
    return tuple(found)


def paired_difference(
    first: Sequence[TypedCounts],
    second: Sequence[TypedCounts],
    measure: Measure,
    *,
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> Difference:
    """Return the first system's score minus the second's, for the same documents in the same order.

    The p-value is twice the smaller share of resamples on either side of zero. One is added to numerator and
    denominator, so that it is never zero.
    """
    _check_bootstrap(len(first), resamples, level)
    if len(first) != len(second):
        raise UsageError(f"a paired bootstrap needs the same documents, but there are {len(first)} and {len(second)}")
    for number, (left, right) in enumerate(zip(first, second, strict=True), start=1):
        golds = [{type_: counts.gold for type_, counts in side.items() if counts.gold} for side in (left, right)]
        if golds[0] != golds[1]:
            raise UsageError(f"the two systems were scored on different gold mentions in document {number}")
    types = sorted({type_ for counts in (*first, *second) for type_ in counts})
    counts = np.stack([_matrix(first, types), _matrix(second, types)], axis=1)  # [documents, systems, types, 3]
    whole, drawn = counts.sum(axis=0, keepdims=True), _resampled(counts, resamples, seed)
    estimate = _measured(whole[:, 0], measure, types) - _measured(whole[:, 1], measure, types)
    differences = _measured(drawn[:, 0], measure, types) - _measured(drawn[:, 1], measure, types)
    low, high = _percentiles(differences, level)
    tail = min(int((differences <= 0).sum()), int((differences >= 0).sum()))
    p_value = min(1.0, 2 * (tail + 1) / (len(differences) + 1))
    return Difference(float(estimate[0]), low, high, p_value, level)


def sign_flip_p_value(differences: Sequence[float], *, seed: int = 0) -> float:
    """Return the two-sided p-value of a paired permutation test of the mean.

    The null hypothesis is that each difference could have the opposite sign. Up to 16 pairs, every choice of signs is
    tried; above, signs are sampled. With n pairs the p-value is at least 2 / 2^n.
    """
    if not differences:
        raise UsageError("a permutation test needs at least one pair")
    values = np.asarray(differences, dtype=np.float64)
    if len(values) <= _MOST_EXACT_PAIRS:
        numbers = np.arange(2 ** len(values))[:, None]
        signs = 1.0 - 2.0 * ((numbers >> np.arange(len(values))) & 1)
        return float(np.mean(np.abs(signs @ values) >= abs(values.sum()) - _ROUNDING))
    drawn = np.random.default_rng(seed).choice((-1.0, 1.0), size=(_SIGN_DRAWS, len(values)))
    extreme = int((np.abs(drawn @ values) >= abs(values.sum()) - _ROUNDING).sum())
    return (extreme + 1) / (_SIGN_DRAWS + 1)


def _matrix(documents: Sequence[TypedCounts], types: Sequence[str]) -> _Floats:
    """Return the counts as an array [documents, types, 3] in the order tp, fp, fn."""
    column = {type_: position for position, type_ in enumerate(types)}
    matrix = np.zeros((len(documents), len(types), 3))
    for row, typed in enumerate(documents):
        for type_, counts in typed.items():
            matrix[row, column[type_]] = counts.tp, counts.fp, counts.fn
    return matrix


def _resampled(counts: _Floats, resamples: int, seed: int) -> _Floats:
    """Return sums over resampled documents, [resamples, ...], for counts of shape [documents, ...]."""
    documents = len(counts)
    flat = counts.reshape(documents, -1)
    generator = np.random.default_rng(seed)
    rows = max(1, _CHUNK // documents)
    sums = []
    for done in range(0, resamples, rows):
        size = min(rows, resamples - done)
        drawn = generator.integers(0, documents, size=(size, documents))
        # One bincount for all rows: the documents of row r are numbered from r × documents.
        drawn += documents * np.arange(size)[:, None]
        weights = np.bincount(drawn.ravel(), minlength=size * documents)
        sums.append(weights.reshape(size, documents).astype(np.float64) @ flat)
    return np.concatenate(sums).reshape(resamples, *counts.shape[1:])


def _measured(sums: _Floats, measure: Measure, types: Sequence[str]) -> _Floats:
    """Return the measure of each row of [rows, types, 3]."""
    if measure.over is Average.MICRO:
        return _score(sums.sum(axis=1), measure.score)
    if measure.over is Average.MACRO:
        occurring = (sums.sum(axis=2) > 0).sum(axis=1)
        return _divide(_score(sums, measure.score).sum(axis=1), occurring.astype(np.float64))
    if measure.over not in types:
        raise UsageError(f"no mention of type {measure.over!r} was scored; types are {', '.join(types) or 'none'}")
    return _score(sums[:, types.index(measure.over)], measure.score)


def _score(counts: _Floats, score: ScoreName) -> _Floats:
    tp, fp, fn = counts[..., 0], counts[..., 1], counts[..., 2]
    if score == "precision":
        return _divide(tp, tp + fp)
    if score == "recall":
        return _divide(tp, tp + fn)
    return _divide(2 * tp, 2 * tp + fp + fn)


def _divide(numerator: _Floats, denominator: _Floats) -> _Floats:
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)


def _percentiles(values: _Floats, level: float) -> tuple[float, float]:
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _check_bootstrap(documents: int, resamples: int, level: float) -> None:
    if documents == 0:
        raise UsageError("a bootstrap needs at least one document; nothing was scored")
    if resamples < 1:
        raise UsageError(f"resamples={resamples}: a bootstrap needs at least one resample")
    if not 0 < level < 1:
        raise UsageError(f"level={level}: the level of an interval lies between 0 and 1, for example 0.95")
