"""Confidence intervals over documents, compared with SciPy's bootstrap on the same counts in the same run."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from common import Bar, arguments, fastest, finish, installed

from wardround.evaluation.counts import SpanCounts, TypedCounts
from wardround.evaluation.significance import Average, Measure, intervals
from wardround.reports.tables import Table

SIZES = {"full": (1000, 5000, 20_000), "quick": (1000, 5000), "smallest": (20, 50)}  # documents
RESAMPLES = 1000
FASTER = 3.0  # times as fast as SciPy over all measures
LONGEST = 1.0  # seconds for all measures of 5,000 documents
TYPES = ("ADE", "Drug")
MEASURES = [Measure(score, over) for score in ("precision", "recall", "f1") for over in (Average.MICRO, *TYPES)]


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__)
    resamples = 100 if options.size == "smallest" else RESAMPLES
    has_scipy = installed("scipy", "pip install 'wardround[dev]'")
    figures = [measure(documents, resamples, has_scipy=has_scipy) for documents in SIZES[options.size]]
    rows = tuple((f["documents"], f["ours_s"], f["scipy_s"], f["ratio"]) for f in figures)
    title = f"{len(MEASURES)} measures, {resamples:,} resamples"
    table = Table(title, ("documents", "Wardround s", "SciPy s", "times faster"), rows)
    at = f"{figures[1]['documents']:,} documents"
    bars = [Bar(f"seconds at {at}", figures[1]["ours_s"], most=LONGEST)]
    if has_scipy:
        bars.insert(0, Bar(f"times faster than SciPy at {at}", figures[1]["ratio"], least=FASTER))
    return finish("bootstrap", table, figures, bars, check=options.check)


def measure(count: int, resamples: int, *, has_scipy: bool) -> dict[str, Any]:
    """Return the seconds for all measures, ours and SciPy's."""
    drawn = np.random.default_rng(0).integers(0, 5, size=(count, len(TYPES), 3))
    documents = [
        TypedCounts({kind: SpanCounts(*own) for kind, own in zip(TYPES, one, strict=True)}) for one in drawn.tolist()
    ]
    found, ours = fastest(lambda: intervals(documents, MEASURES, resamples=resamples))
    if not has_scipy:
        return {"documents": count, "ours_s": ours, "scipy_s": None, "ratio": None}
    expected, theirs = fastest(lambda: [scipy_interval(drawn, measure, resamples) for measure in MEASURES])
    for own, other in zip(found, expected, strict=True):
        distance = abs(own.low - other.low) + abs(own.high - other.high)
        assert distance < (own.high - own.low) / 2, "both resample documents and take the same percentiles"
    return {"documents": count, "ours_s": ours, "scipy_s": theirs, "ratio": theirs / ours}


def scipy_interval(drawn: Any, measure: Measure, resamples: int) -> Any:
    """Return SciPy's interval of one measure; `drawn` is [documents, types, (right, wrong, missed)]."""
    from scipy.stats import bootstrap

    counts = drawn.sum(1) if measure.over is Average.MICRO else drawn[:, TYPES.index(str(measure.over))]
    found = bootstrap(
        tuple(counts.T),
        SCORES[measure.score],
        n_resamples=resamples,
        batch=10,  # at 5,000 documents faster than 100, 1,000 or all at once
        paired=True,
        vectorized=True,
        method="percentile",
        rng=np.random.default_rng(0),
    )
    return found.confidence_interval


def precision(right: Any, wrong: Any, missed: Any, axis: int = -1) -> Any:
    """TP / (TP + FP)."""
    return right.sum(axis) / (right.sum(axis) + wrong.sum(axis))


def recall(right: Any, wrong: Any, missed: Any, axis: int = -1) -> Any:
    """TP / (TP + FN)."""
    return precision(right, missed, wrong, axis)


def f1(right: Any, wrong: Any, missed: Any, axis: int = -1) -> Any:
    """2 TP / (2 TP + FP + FN)."""
    twice = 2 * right.sum(axis)
    return twice / (twice + wrong.sum(axis) + missed.sum(axis))


SCORES = {"precision": precision, "recall": recall, "f1": f1}


if __name__ == "__main__":
    sys.exit(main())
