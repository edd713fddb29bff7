"""One figure of a run: a path into its `scores.json`, looked up there, and beforehand in what a study will write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from statistics import mean
from typing import Any

from wardround.errors import SweepError
from wardround.evaluation.counts import SpanCounts, TypedCounts
from wardround.evaluation.leakage import LeakageScore, TypeLeakage
from wardround.evaluation.significance import Interval
from wardround.federation.federation import Traffic
from wardround.settings import did_you_mean
from wardround.studies.assemble import readings_of
from wardround.studies.outcomes import SiteOutcome
from wardround.studies.study_file import Study
from wardround.sweeps.folders import table_in

__all__ = ["check_path", "figure_in", "scores_in"]

SCORES = "scores.json"
_EVERY = "*"
_HEAD = frozenset({"rounds", "best_round"})  # what the scores of every study have


def scores_in(folder: Path) -> dict[str, Any] | None:
    """What the study in a folder gave; None where it gave nothing yet, or its scores are damaged."""
    found = table_in(folder / SCORES)
    return found if found is not None and found.keys() >= _HEAD else None


def figure_in(scores: Mapping[str, Any], path: str) -> float | None:
    """The figure at a path; where it says `*`, the mean over all that have it. None where a run has none."""
    return _looked_up(scores, tuple(path.split(".")))


def _looked_up(found: Any, parts: tuple[str, ...]) -> float | None:
    if not parts:
        return float(found) if isinstance(found, int | float) else None
    first, rest = parts[0], parts[1:]
    if not isinstance(found, Mapping):
        return None
    if first != _EVERY:
        return _looked_up(found.get(first), rest)
    known = [figure for value in found.values() if (figure := _looked_up(value, rest)) is not None]
    return mean(known) if known else None


def check_path(study: Study, path: str) -> None:
    """Refuse a path that no run of the study has."""
    _check(_expected(study), path.split("."), path)


def _check(expected: Any, parts: list[str], path: str) -> None:
    if not parts:
        if isinstance(expected, Mapping | list):
            has = f": {', '.join(expected)}" if isinstance(expected, Mapping) else ""
            raise SweepError(f"[report] {path} is no single figure; go on with one of those below it{has}")
        return
    if not isinstance(expected, Mapping):
        raise SweepError(f"[report] {path} goes on below a figure; leave out {'.'.join(parts)}")
    first, rest = parts[0], parts[1:]
    if first == _EVERY:
        for value in list(expected.values())[:1]:
            _check(value, rest, path)
    elif first in expected:
        _check(expected[first], rest, path)
    elif expected:  # where it is empty, only a run will tell
        raise SweepError(
            f"[report] {path}: there is no {first!r}{did_you_mean(first, expected)}; there are {', '.join(expected)}"
        )


def _expected(study: Study) -> dict[str, Any]:
    """The shape of what the study will write."""
    sites = {name: _site(study, name).as_json() for name in study.sites}
    return {"rounds": 0, "best_round": 0, "traffic": asdict(Traffic()), "sites": sites}


def _site(study: Study, name: str) -> SiteOutcome:
    """With every type that can occur, where they are known before."""
    kinds = TypedCounts({kind: SpanCounts(1, 0, 0) for kind in study.types})
    counts = dict.fromkeys(readings_of(study), kinds)
    section = study.sites[name]
    leakage = LeakageScore(by_type={kind: TypeLeakage() for kind in study.types})
    return SiteOutcome(
        counts=counts,
        documents=0,
        interval=Interval(0.0, 0.0, 0.0),
        annotated=section.types,
        scored=section.scored_types,
        leakage=leakage if study.task.kind == "deidentify" else None,
    )
