"""The results of a study: each site's scores, parsed from its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wardround.errors import MessageError
from wardround.evaluation.counts import SpanCounts, TagSetScores, TypedCounts
from wardround.evaluation.leakage import LeakageScore
from wardround.evaluation.significance import Interval
from wardround.federation.federation import SiteId, Traffic
from wardround.federation.message import Array, Message
from wardround.studies.single_site import figures_by_type
from wardround.studies.study_file import SiteSection

__all__ = ["SiteOutcome", "StudyOutcome", "check_counts", "check_outcome", "counts_in", "interval_in", "outcome_in"]


@dataclass(frozen=True)
class SiteOutcome:
    """The counts of a site's model on its test notes, as the site sent them; without any, on development notes."""

    counts: Mapping[str, TypedCounts]  # by matching mode of the task, the main one first
    documents: int
    interval: Interval  # of the micro-F1 under the main matching mode
    annotated: tuple[str, ...] = ()  # entity types in its training notes, if the study names them
    scored: tuple[str, ...] = ()  # entity types in its test notes
    type_intervals: Mapping[str, Interval] = field(
        default_factory=dict
    )  # of the F1 by type under the main matching mode
    leakage: LeakageScore | None = None  # for deidentify: what would stay readable
    scored_on: str = "test"  # or "dev", if the site has no test notes

    @property
    def main(self) -> TypedCounts:
        """Return the counts that decide which round is best."""
        return next(iter(self.counts.values()))

    @property
    def tag_set(self) -> TagSetScores | None:
        """Return the main counts, divided into types that the site annotates and others; None if it names none."""
        return TagSetScores(self.main, self.annotated, self.scored) if self.annotated else None

    def of(self, section: SiteSection) -> SiteOutcome:
        """Return a copy with the site's types from the study file."""
        return replace(self, annotated=section.types, scored=section.scored_types)

    def as_json(self) -> dict[str, Any]:
        """Return plain values for `scores.json`."""
        figures: dict[str, Any] = {name: typed.micro.figures() for name, typed in self.counts.items()}
        figures[next(iter(figures))]["interval"] = [self.interval.low, self.interval.high]
        macro = {"macro": self.tag_set.macro()} if self.tag_set else {}
        leakage = {} if self.leakage is None else {"leakage": self.leakage.figures()}
        by_type = figures_by_type(self.counts, {next(iter(figures)): self.type_intervals})
        of_dev = {} if self.scored_on == "test" else {"scored_on": self.scored_on}
        return {"documents": self.documents, **of_dev, **figures, **macro, "types": by_type, **leakage}


@dataclass(frozen=True)
class StudyOutcome:
    """The result of a study."""

    sites: Mapping[SiteId, SiteOutcome]
    rounds: int
    best_round: int
    traffic: Traffic
    shared: Mapping[str, Array] = field(repr=False)


def counts_in(message: Message, name: str) -> TypedCounts:
    """Parse counts as `score_message` of a site writes them."""
    found = message.value(name, dict)
    try:
        return TypedCounts({str(kind): _span_counts(row) for kind, row in found.items()})
    except (TypeError, ValueError):
        raise MessageError("value", "counts must be three whole numbers per type") from None


def check_counts(matching_modes: Sequence[str], message: Message) -> None:
    """Raise a MessageError if a message is not an answer to `score`."""
    for name in matching_modes:
        counts_in(message, name)
    interval_in(message)


def interval_in(message: Message) -> tuple[float, float]:
    """Return the interval of the micro-F1 under the main matching mode."""
    return _ends(message.value("interval", list))


def outcome_in(matching_modes: Sequence[str], message: Message) -> SiteOutcome:
    """Parse the answer to `finish`."""
    counts = {name: counts_in(message, name) for name in matching_modes}
    main = counts[matching_modes[0]]
    by_type = {kind: _ends(ends) for kind, ends in message.value("type_intervals", dict).items()}
    if not by_type.keys() <= main.keys():
        raise MessageError("value", "an interval must belong to a type that was counted")
    found = SiteOutcome(
        counts,
        message.value("documents", int),
        Interval(main.micro.f1, *interval_in(message)),
        type_intervals={kind: Interval(main[kind].f1, *ends) for kind, ends in by_type.items()},
    )
    if "scored_on" in message.values:
        if message.value("scored_on", str) not in ("test", "dev"):
            raise MessageError("value", "scored_on must be test or dev")
        found = replace(found, scored_on=message.value("scored_on", str))
    return replace(found, leakage=_leakage_in(message)) if "leakage" in message.values else found


def check_outcome(matching_modes: Sequence[str], message: Message) -> None:
    """Raise a MessageError if a message is not an answer to `finish`."""
    outcome_in(matching_modes, message)


def _leakage_in(message: Message) -> LeakageScore:
    try:
        return LeakageScore.from_values(message.value("leakage", dict))
    except ValueError:
        raise MessageError("value", "leakage must be counts of notes, words, characters and mentions by type") from None


def _ends(interval: Any) -> tuple[float, float]:
    shares = isinstance(interval, list) and all(isinstance(end, float) and 0 <= end <= 1 for end in interval)
    if not shares or len(interval) != 2:
        raise MessageError("value", "an interval must be two numbers from 0 to 1")
    return interval[0], interval[1]


def _span_counts(row: Any) -> SpanCounts:
    tp, fp, fn = map(_count, row)
    return SpanCounts(tp, fp, fn)


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError
    return value
