"""The history of a run, read from its events: rounds, scores, epochs, and the cost of every exchange.

The events may come from another version or machine: a value that is missing or null in a line is missing here, unknown
values are ignored, and neither makes a report fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wardround.evaluation.counts import SpanCounts, TypedCounts

__all__ = ["Absence", "Cost", "Costs", "Epoch", "History", "RoundRecord", "Scoring", "add_costs"]

Costs = Mapping[str, Mapping[str, "Cost"]]  # by step and site


@dataclass(frozen=True)
class Cost:
    """The cost of exchanges with one site."""

    down: int = 0  # bytes to the site
    up: int = 0  # bytes from it
    seconds: float = 0.0  # from request to answer
    worked: float = 0.0  # of these, the seconds in which the site worked

    def __add__(self, other: Cost) -> Cost:
        seconds, worked = self.seconds + other.seconds, self.worked + other.worked
        return Cost(self.down + other.down, self.up + other.up, seconds, worked)


@dataclass(frozen=True)
class Absence:
    """A site that did not contribute to an exchange."""

    site: str
    kind: str  # late, failed or refused
    code: str


@dataclass(frozen=True)
class RoundRecord:
    """One finished round."""

    number: int
    loss: float
    answered: int
    absent: tuple[Absence, ...]
    down: int
    up: int
    seconds: float
    costs: Costs = field(default_factory=dict)
    coordinator: Mapping[str, float] = field(default_factory=dict)  # seconds of the coordinator by phase
    clipped: int | None = None  # clipped numbers in updates; None if the run clips nothing
    figures: Mapping[str, float] = field(default_factory=dict)  # what the algorithm reports in addition to the loss
    used: Mapping[str, float] = field(default_factory=dict)  # share of each site's update that a robust rule used
    votes: Mapping[str, float] = field(default_factory=dict)  # `harmful` and `cast`, if the sites voted on the step
    rejected: bool = False  # the step was not taken, because most sites found it harmful
    notice: str = ""  # what followed from that

    @property
    def asked(self) -> frozenset[str]:
        """Return the sites that were asked in the round; empty if the run did not record costs."""
        return frozenset(site for step, sites in self.costs.items() if step != "describe" for site in sites)


@dataclass(frozen=True)
class Scoring:
    """Scores on the development notes after a round."""

    round: int
    f1: Mapping[str, float]
    mean: float
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    counts: Mapping[str, TypedCounts] = field(default_factory=dict)

    @property
    def pooled(self) -> TypedCounts:
        """Return the counts of all sites added."""
        return sum(self.counts.values(), TypedCounts())


@dataclass(frozen=True)
class Epoch:
    """One epoch of training at one site."""

    epoch: int
    loss: float
    dev_f1: float
    seconds: float
    best: bool


@dataclass(frozen=True)
class History:
    """A run from its first to its last event."""

    rounds: tuple[RoundRecord, ...] = ()
    scorings: tuple[Scoring, ...] = ()
    epochs: tuple[Epoch, ...] = ()
    other_costs: Costs = field(default_factory=dict)  # of requests outside of rounds and in failed rounds
    started: float | None = None  # seconds since 1970
    ended: float | None = None
    finished: bool = False
    resumed: int = 0  # number of resumptions
    failed: tuple[tuple[int, str], ...] = ()  # rounds without a quorum, with the reason
    versions: Mapping[str, str] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)  # settings of training at one site

    @classmethod
    def of(cls, events: Iterable[Mapping[str, Any]]) -> History:
        """Build the history from events; of a round that was repeated after a crash, the last one counts."""
        return _Reader().read(list(events))

    @property
    def costs(self) -> Costs:
        """Return all costs by step and site."""
        return add_costs(*(record.costs for record in self.rounds), self.other_costs)

    @property
    def sites(self) -> tuple[str, ...]:
        """Return every site that an event names, in the order of the events."""
        named = [site for sites in self.costs.values() for site in sites]
        named += [absence.site for record in self.rounds for absence in record.absent]
        return tuple(dict.fromkeys([*named, *(site for scoring in self.scorings for site in scoring.f1)]))


def add_costs(*many: Costs) -> dict[str, dict[str, Cost]]:
    """Return the sum of costs, by step and site."""
    total: dict[str, dict[str, Cost]] = {}
    for costs in many:
        for step, sites in costs.items():
            for site, cost in sites.items():
                found = total.setdefault(step, {})
                found[site] = found.get(site, Cost()) + cost
    return total


class _Reader:
    """Collects the events in one pass."""

    def __init__(self) -> None:
        self._rounds: dict[int, RoundRecord] = {}
        self._scorings: dict[int, Scoring] = {}
        self._epochs: dict[int, Epoch] = {}
        self._other_costs: list[tuple[int, Costs]] = []
        self._failed: list[tuple[int, str]] = []
        self._resumed = 0
        self._recorded: dict[str, Mapping[str, Any]] = {}

    def read(self, events: Sequence[Mapping[str, Any]]) -> History:
        for event in events:
            self._add(event)
        times = [float(event["time"]) for event in events if isinstance(event.get("time"), int | float)]
        return History(
            tuple(self._rounds.values()),
            tuple(self._scorings.values()),
            tuple(self._epochs.values()),
            add_costs(*(costs for _, costs in self._other_costs)),
            times[0] if times else None,
            times[-1] if times else None,
            any(event.get("event") == "finished" for event in events),
            self._resumed,
            tuple(self._failed),
            self._recorded.get("versions", {}),
            self._recorded.get("training", {}),
        )

    def _add(self, event: Mapping[str, Any]) -> None:
        number = int(_value(event, "round", 0))
        match event.get("event"):
            case "started" | "resumed":
                self._start(event, number)
            case "round" if event.get("round") is not None:
                self._rounds[number] = _round(event)
            case "scored" if event.get("round") is not None:
                self._scorings[number] = _scoring(event)
            case "asked":
                self._other_costs.append((number, _costs(event)))
            case "round_failed":
                self._failed.append((number, str(_value(event, "reason", ""))))
                self._other_costs.append((number - 1, _costs(event)))
            case "epoch" if event.get("epoch") is not None:
                self._epochs[int(event["epoch"])] = _epoch(event)

    def _start(self, event: Mapping[str, Any], number: int) -> None:
        self._recorded |= {name: event[name] for name in ("versions", "training") if isinstance(event.get(name), dict)}
        if event["event"] == "resumed":
            self._resumed += 1
        # Everything after the checkpoint is repeated.
        self._rounds = {known: found for known, found in self._rounds.items() if known <= number}
        self._scorings = {known: found for known, found in self._scorings.items() if known <= number}
        self._other_costs = [(known, costs) for known, costs in self._other_costs if known <= number]


def _value(found: Mapping[str, Any], name: str, default: Any) -> Any:
    """Return the value, or the default if it is missing or null."""
    value = found.get(name)
    return default if value is None else value


def _numbers(event: Mapping[str, Any], name: str) -> dict[str, float]:
    """Return the known numbers of a mapping."""
    return {str(key): float(value) for key, value in _value(event, name, {}).items() if value is not None}


def _round(event: Mapping[str, Any]) -> RoundRecord:
    clipped = event.get("clipped")
    return RoundRecord(
        int(event["round"]),
        float(_value(event, "loss", float("nan"))),
        int(_value(event, "answered", 0)),
        tuple(Absence(*(*map(str, row), "", "", "")[:3]) for row in _value(event, "absent", ())),
        int(_value(event, "down", 0)),
        int(_value(event, "up", 0)),
        float(_value(event, "seconds", 0.0)),
        _costs(event),
        _numbers(event, "coordinator"),
        None if clipped is None else int(clipped),
        _numbers(event, "figures"),
        _numbers(event, "used"),
        _numbers(event, "votes"),
        event.get("rejected") is True,
        str(_value(event, "notice", "")),
    )


def _scoring(event: Mapping[str, Any]) -> Scoring:
    f1, counts = _numbers(event, "f1"), _value(event, "counts", {})
    intervals: dict[str, tuple[float, float]] = {}
    for site, found in _value(event, "interval", {}).items():
        ends: Sequence[Any] = found or ()
        low, high, *_ = (*ends, None, None)
        if low is not None and high is not None:
            intervals[str(site)] = float(low), float(high)
    return Scoring(
        int(event["round"]),
        f1,
        float(_value(event, "mean_f1", sum(f1.values()) / max(1, len(f1)))),
        intervals,
        {
            str(site): TypedCounts(
                {str(kind): SpanCounts(*map(int, row[:3])) for kind, row in found.items() if row is not None}
            )
            for site, found in counts.items()
            if found is not None
        },
    )


def _epoch(event: Mapping[str, Any]) -> Epoch:
    f1, seconds = float(_value(event, "dev_f1", 0.0)), float(_value(event, "seconds", 0.0))
    loss = float(_value(event, "loss", float("nan")))
    return Epoch(int(event["epoch"]), loss, f1, seconds, bool(event.get("best")))


def _costs(event: Mapping[str, Any]) -> dict[str, dict[str, Cost]]:
    """Return the costs by step and site: the first four columns of each row; a later version may add more."""
    costs: dict[str, dict[str, Cost]] = {}
    for step, sites in _value(event, "exchanges", {}).items():
        if sites is None:
            continue
        costs[str(step)] = {}
        for site, row in sites.items():
            if row is not None:
                down, up, seconds, worked, *_ = (*(0 if value is None else value for value in row), 0, 0, 0, 0)
                costs[str(step)][str(site)] = Cost(int(down), int(up), float(seconds), float(worked))
    return costs
