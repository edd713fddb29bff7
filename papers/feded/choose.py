"""Choose what later runs need, from earlier ones, and write it to `chosen.json`.

    python -m papers.feded.choose rates runs/feded/work/results.json
    python -m papers.feded.choose target runs/feded/work/results.json

The rate of a method is the one with the highest F1 on the held-out tenth, in the mean of its last three rounds. The
target is three quarters of the way from the F1 of calling every pair related to FedAvg's median F1 on the test part: a
share of that median alone would lie where a model that has learned nothing is.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean, median
from typing import Any

from papers.common.runs import joined
from papers.feded.measure import CHOSEN, Chosen
from papers.feded.variations import CANDIDATES, RACED_ON, TUNED

from wardround.evaluation.counts import SpanCounts

_LAST = 3  # rounds
_WAY = 0.75


def rates(runs: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The best rate of each method; a candidate that was not tried is missed."""
    chosen = {}
    for method in TUNED:
        tried = {rate: _held_out_f1(runs, f"tune-{method}-{rate}") for rate in CANDIDATES}
        chosen[method] = float(max(tried, key=lambda rate: tried[rate]))
        print(f"{method}: {', '.join(f'{rate} gives {f1:.4f}' for rate, f1 in tried.items())}")
    return chosen


def _held_out_f1(runs: Sequence[Mapping[str, Any]], study: str) -> float:
    return mean(float(line["f1"]) for run in _of(runs, study) for line in run["curve"][-_LAST:])


def target(runs: Sequence[Mapping[str, Any]]) -> float:
    """F1 that a race ends at."""
    found = _of(runs, f"{RACED_ON}-fedavg")
    floor, reached = median(map(all_related, found)), median(float(run["f1"]) for run in found)
    chosen = round(floor + _WAY * (reached - floor), 3)
    print(f"every pair related gives {floor:.4f}, FedAvg {reached:.4f}: the target is {chosen}")
    return chosen


def all_related(run: Mapping[str, Any]) -> float:
    """The F1 of calling every pair of a binary test part related."""
    (counts,) = run["curve"][-1]["types"].values()
    related = counts[0] + counts[2]
    return SpanCounts(related, run["tested"] - related, 0).f1


def _of(runs: Sequence[Mapping[str, Any]], study: str) -> list[Mapping[str, Any]]:
    found = [run for run in runs if run["variation"] == study and not run.get("cut_off")]
    if not found:
        sys.exit(f"{study} is not among the finished runs: measure it first")
    return found


def main() -> None:
    """Choose and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("rates", "target"))
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--chosen", type=Path, default=CHOSEN)
    asked = parser.parse_args()
    runs, known = joined(asked.results)[1], Chosen.read(asked.chosen)
    chosen = replace(known, rates=rates(runs)) if asked.what == "rates" else replace(known, target=target(runs))
    chosen.write(asked.chosen)


if __name__ == "__main__":
    main()
