"""One figure of a run: a path into its `scores.json`, and its mean and spread over several seeds.

A path such as `sites.*.strict.f1` is checked before the first run against the scores that the study will write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random
from statistics import mean
from typing import Any, Literal, NamedTuple

from wardround.errors import SweepError
from wardround.evaluation.counts import SpanCounts, TypedCounts
from wardround.evaluation.leakage import LeakageScore, TypeLeakage
from wardround.evaluation.significance import Interval
from wardround.federation.federation import Traffic
from wardround.settings import did_you_mean
from wardround.studies.assemble import matching_modes_of
from wardround.studies.outcomes import SiteOutcome
from wardround.studies.study_file import Study
from wardround.sweeps.folders import read_table

__all__ = ["SeedSummary", "Spread", "bootstrap_interval", "check_path", "figure_at", "read_scores", "summarise_seeds"]

Spread = Literal["range", "interval"]
_RESAMPLES = 2000
_LEVEL = 0.95
_EVERY = "*"
_REQUIRED = frozenset({"rounds", "best_round"})  # present in the scores of every study


def read_scores(folder: Path) -> dict[str, Any] | None:
    """Return the scores of the study in a folder, or None if they are missing or damaged."""
    found = read_table(folder / "scores.json")
    return found if found is not None and found.keys() >= _REQUIRED else None


def figure_at(scores: Mapping[str, Any], path: str) -> float | None:
    """Return the figure at a path, or None if the run does not have it; `*` takes the mean over all that do."""
    return _look_up(scores, tuple(path.split(".")))


def _look_up(found: Any, parts: tuple[str, ...]) -> float | None:
    if not parts:
        return float(found) if isinstance(found, int | float) else None
    first, rest = parts[0], parts[1:]
    if not isinstance(found, Mapping):
        return None
    if first != _EVERY:
        return _look_up(found.get(first), rest)
    known = [figure for value in found.values() if (figure := _look_up(value, rest)) is not None]
    return mean(known) if known else None


def check_path(study: Study, path: str) -> None:
    """Raise `SweepError` if no run of the study has a figure at this path."""
    # Every type that can occur, as far as the types are known before the run.
    counts = TypedCounts({kind: SpanCounts(1, 0, 0) for kind in study.types})
    leakage = LeakageScore(by_type={kind: TypeLeakage() for kind in study.types})
    sites = {}
    for name, section in study.sites.items():
        outcome = SiteOutcome(
            counts=dict.fromkeys(matching_modes_of(study), counts),
            documents=0,
            interval=Interval(0.0, 0.0, 0.0),
            annotated=section.types,
            scored=section.scored_types,
            leakage=leakage if study.task.reports_leakage else None,
        )
        sites[name] = outcome.as_json()
    expected = {"rounds": 0, "best_round": 0, "traffic": asdict(Traffic()), "sites": sites}
    _check(expected, path.split("."), path)


def _check(expected: Any, parts: list[str], path: str) -> None:
    if not parts:
        if isinstance(expected, Mapping | list):
            below = f": {', '.join(expected)}" if isinstance(expected, Mapping) else ""
            raise SweepError(f"[report] {path} is not a single figure; add the name of one below it{below}")
        return
    if not isinstance(expected, Mapping):
        raise SweepError(f"[report] {path} continues below a figure; remove {'.'.join(parts)}")
    first, rest = parts[0], parts[1:]
    if first == _EVERY:
        for value in list(expected.values())[:1]:
            _check(value, rest, path)
    elif first in expected:
        _check(expected[first], rest, path)
    elif expected:  # if it is empty, the names are known only after a run
        raise SweepError(
            f"[report] {path}: there is no {first!r}{did_you_mean(first, expected)}; there are {', '.join(expected)}"
        )


class SeedSummary(NamedTuple):
    """A mean over seeds with the ends of its spread; for one seed the three are equal."""

    mean: float
    low: float
    high: float
    seeds: int


def summarise_seeds(values: Sequence[float], spread: Spread = "range") -> SeedSummary:
    """Return the mean with the lowest and highest seed, or with a 95% interval of the mean."""
    if spread == "range" or len(values) == 1:
        return SeedSummary(mean(values), min(values), max(values), len(values))
    low, high = bootstrap_interval(lambda drawn: mean(values[seed] for seed in drawn), len(values))
    return SeedSummary(mean(values), low, high, len(values))


def bootstrap_interval(statistic: Callable[[Sequence[int]], float], seeds: int) -> tuple[float, float]:
    """Return a 95% interval of a statistic over seeds, by resampling the seeds' indices with replacement."""
    random = Random(0)  # noqa: S311 – a draw, not a secret
    found = sorted(statistic(random.choices(range(seeds), k=seeds)) for _ in range(_RESAMPLES))
    tail = (1 - _LEVEL) / 2
    return found[int(tail * _RESAMPLES)], found[int((1 - tail) * _RESAMPLES) - 1]
