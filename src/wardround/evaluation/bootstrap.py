"""Percentile bootstrap over documents: how far a score would move with other notes of the same kind.

Documents are drawn with replacement, their counts are added and only then divided. For two systems every draw is
the same for both (paired), because a hard note is hard for both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wardround.errors import UsageError
from wardround.evaluation.counts import TypedCounts

__all__ = ["Average", "Difference", "Interval", "Measure", "ScoreName", "intervals", "paired_difference"]

ScoreName: TypeAlias = Literal["precision", "recall", "f1"]
_Floats: TypeAlias = NDArray[np.float64]

_CHUNK = 4_000_000  # drawn weights held at once: 32 MB


class Average(Enum):
    """How the types become one number."""

    MICRO = "micro"
    MACRO = "macro"


@dataclass(frozen=True, slots=True)
class Measure:
    """One number read off typed counts: a score over an average, or over the type named by a string."""

    score: ScoreName = "f1"
    over: Average | str = Average.MICRO


@dataclass(frozen=True, slots=True)
class Interval:
    """A score on all documents, and where `level` of the resampled scores lie."""

    estimate: float
    low: float
    high: float
    level: float = 0.95


@dataclass(frozen=True, slots=True)
class Difference:
    """How much the first system is above the second; `p_value` is two-sided, for "there is no difference"."""

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
    """An interval for each measure, all from the same resamples of the counts of each document."""
    _check(len(documents), resamples, level)
    types = _types_of(documents)
    counts = _matrix(documents, types)
    sums = _resampled(counts, resamples, seed)
    found = []
    for measure in measures:
        estimate = float(_read(counts.sum(axis=0, keepdims=True), measure, types)[0])
        low, high = _percentiles(_read(sums, measure, types), level)
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
    """The first system's score less the second's, on the same documents in the same order.

    The p-value is twice the smaller part of resamples on either side of zero, one added above and below so that
    it is never zero.
    """
    _check(len(first), resamples, level)
    _check_paired(first, second)
    types = _types_of([*first, *second])
    counts = np.stack([_matrix(first, types), _matrix(second, types)], axis=1)  # [documents, systems, types, 3]
    whole, drawn = counts.sum(axis=0, keepdims=True), _resampled(counts, resamples, seed)
    estimate = _read(whole[:, 0], measure, types) - _read(whole[:, 1], measure, types)
    differences = _read(drawn[:, 0], measure, types) - _read(drawn[:, 1], measure, types)
    low, high = _percentiles(differences, level)
    return Difference(float(estimate[0]), low, high, _two_sided(differences), level)


def _two_sided(differences: _Floats) -> float:
    tail = min(int((differences <= 0).sum()), int((differences >= 0).sum()))
    return min(1.0, 2 * (tail + 1) / (len(differences) + 1))


def _types_of(documents: Sequence[TypedCounts]) -> list[str]:
    return sorted({type_ for counts in documents for type_ in counts})


def _matrix(documents: Sequence[TypedCounts], types: Sequence[str]) -> _Floats:
    """Counts as [documents, types, 3] in the order tp, fp, fn."""
    column = {type_: position for position, type_ in enumerate(types)}
    matrix = np.zeros((len(documents), len(types), 3))
    for row, typed in enumerate(documents):
        for type_, counts in typed.items():
            matrix[row, column[type_]] = counts.tp, counts.fp, counts.fn
    return matrix


def _resampled(counts: _Floats, resamples: int, seed: int) -> _Floats:
    """Sums over drawn documents, [resamples, ...], for counts of [documents, ...]."""
    flat = counts.reshape(len(counts), -1)
    sums = np.concatenate([weights @ flat for weights in _weights(len(counts), resamples, seed)])
    return sums.reshape(resamples, *counts.shape[1:])


def _weights(documents: int, resamples: int, seed: int) -> Iterator[_Floats]:
    """How often each document is drawn: multinomial rows [some resamples, documents], in chunks."""
    generator = np.random.default_rng(seed)
    rows = max(1, _CHUNK // documents)
    for done in range(0, resamples, rows):
        size = min(rows, resamples - done)
        drawn = generator.integers(0, documents, size=(size, documents))
        # One count over all rows at once: the documents of row r are numbered from r × documents.
        drawn += documents * np.arange(size)[:, None]
        weights = np.bincount(drawn.ravel(), minlength=size * documents)
        yield weights.reshape(size, documents).astype(np.float64)


def _read(sums: _Floats, measure: Measure, types: Sequence[str]) -> _Floats:
    """The measure of each row of [rows, types, 3]."""
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


def _check(documents: int, resamples: int, level: float) -> None:
    if documents == 0:
        raise UsageError("a bootstrap needs at least one document; nothing was scored")
    if resamples < 1:
        raise UsageError(f"resamples={resamples}: a bootstrap needs at least one")
    if not 0 < level < 1:
        raise UsageError(f"level={level}: the level of an interval lies between 0 and 1, for example 0.95")


def _check_paired(first: Sequence[TypedCounts], second: Sequence[TypedCounts]) -> None:
    if len(first) != len(second):
        raise UsageError(f"a paired bootstrap needs the same documents; here are {len(first)} and {len(second)}")
    for number, (left, right) in enumerate(zip(first, second, strict=True), start=1):
        golds = [{type_: counts.gold for type_, counts in side.items() if counts.gold} for side in (left, right)]
        if golds[0] != golds[1]:
            raise UsageError(f"document {number} has other gold mentions for one system than for the other")
