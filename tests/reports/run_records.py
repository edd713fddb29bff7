"""Runs as reports see them, small enough to be worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wardround.evaluation.counts import SpanCounts, TagSetScores, TypedCounts
from wardround.evaluation.leakage import LeakageScore
from wardround.evaluation.significance import Interval
from wardround.privacy.mechanism_table import MECHANISMS
from wardround.reports.history import History
from wardround.reports.run_record import PrivacyFacts, RunRecord

__all__ = ["EVENTS", "SITES", "Scored", "a_round", "a_run", "a_scoring", "annotating", "scored"]


@dataclass(frozen=True)
class Scored:
    counts: Mapping[str, TypedCounts]
    documents: int
    interval: Interval
    type_intervals: Mapping[str, Interval] = field(default_factory=dict)
    tag_set: TagSetScores | None = None
    leakage: LeakageScore | None = None
    scored_on: str = "test"


def scored(tp: int, fp: int, fn: int, *, documents: int = 5) -> Scored:
    strict = TypedCounts({"Drug": SpanCounts(tp, fp, fn)})
    relaxed = TypedCounts({"Drug": SpanCounts(tp + fp, 0, fn)})
    f1 = Interval(strict.micro.f1, 0.25, 0.75)
    return Scored({"strict": strict, "relaxed": relaxed}, documents, f1, {"Drug": f1})


def annotating(annotated: str, scored_on: str, **counts: SpanCounts) -> Scored:
    found = TypedCounts(counts)
    tag_set = TagSetScores(found, (*annotated.split(),), (*scored_on.split(),))
    interval = Interval(found.micro.f1, 0.25, 0.75)
    return Scored({"strict": found, "relaxed": found}, 5, interval, tag_set=tag_set)


# Precision 3/4, recall 3/4; and 1/1, 1/3.
SITES = {"harbour": scored(3, 1, 1), "hillside": scored(1, 0, 2, documents=1000)}


def a_round(
    number: int, *absent: tuple[str, str, str], up: int = 2_000_000, asked: Sequence[str] = ("harbour", "hillside")
) -> dict[str, Any]:
    """Sites that answer share `up`; each took two seconds, of which it worked one and a half."""
    gone = {site for site, _, _ in absent}
    answered = [site for site in asked if site not in gone]
    each = up // max(1, len(answered))
    costs = {site: [250_000, 0, 1.0, 0.0] if site in gone else [250_000, each, 2.0, 1.5] for site in asked}
    return {
        "time": 1_700_000_000.0 + number,
        "event": "round",
        "round": number,
        "loss": 1 / number,
        "answered": len(answered),
        "absent": [list(who) for who in absent],
        "up": up,
        "down": 250_000 * len(asked),
        "seconds": 4.0,
        "exchanges": {"train": costs},
        "coordinator": {"combine": 0.25, "open": 0.125, "step": 0.5},
    }


def a_scoring(number: int, **f1: float) -> dict[str, Any]:
    mean = sum(f1.values()) / max(1, len(f1))
    return {"event": "scored", "round": number, "f1": f1, "mean_f1": mean}


EVENTS: list[dict[str, Any]] = [
    {"time": 1_700_000_000.0, "event": "started", "round": 0, "sites": 2, "versions": {"python": "3.11.7"}},
    a_round(1, ("hillside", "failed", "ValueError")),
    a_round(2, ("hillside", "late", "deadline"), ("harbour", "failed", "OSError"), up=9_000_000),
    a_scoring(2, harbour=0.25, hillside=0.5),
    {"event": "absent", "step": "score", "round": 2, "site": "hillside"},
    {"event": "resumed", "round": 1, "sites": 2},
    a_round(2, ("hillside", "failed", "ValueError")),
    a_scoring(2, harbour=0.25, hillside=0.75),
    a_round(3),
    {"event": "asked", "round": 3, "exchanges": {"finish": {"harbour": [10, 20, 0.5, 0.5]}}},
    {"time": 1_700_000_060.0, "event": "finished", "rounds": 3},
]


def a_run(
    name: str = "tiny",
    *,
    sites: Mapping[str, Any] = SITES,
    events: Sequence[Mapping[str, Any]] = EVENTS,
    privacy: PrivacyFacts | None = None,
    study: str = '[study]\nname = "<tiny>"\nseed = 7\n',
    **more: Any,
) -> RunRecord:
    facts = (("study", "tiny"), ("algorithm", "fedavg: averages"), ("privacy", "plain"))
    protected = privacy or PrivacyFacts(MECHANISMS["plain"], "updates")
    history = History.of(events)
    return RunRecord(name, "Study tiny", facts, history, protected, sites, study=study, seed=7, best=2, **more)
