"""What happened in a run, read from its events: rounds, scorings, epochs, and what every exchange cost.

Events are a file that somebody else may have written: what is missing or null in a line is missing here, and no line
makes a report fail that lacks what another version writes, or has more than this one knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wardround.evaluation.counts import SpanCounts, TypedCounts

__all__ = ["Absence", "Cost", "Epoch", "History", "RoundRecord", "Scoring", "added"]

Costs = Mapping[str, Mapping[str, "Cost"]]  # by step and site


@dataclass(frozen=True)
class Cost:
    """What exchanges with one site cost."""

    down: int = 0  # bytes to the site
    up: int = 0  # bytes from it
    seconds: float = 0.0  # from asking to answer
    worked: float = 0.0  # of them, those in which the site worked

    def __add__(self, other: Cost) -> Cost:
        seconds, worked = self.seconds + other.seconds, self.worked + other.worked
        return Cost(self.down + other.down, self.up + other.up, seconds, worked)


@dataclass(frozen=True)
class Absence:
    """A site that gave nothing to an exchange."""

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
    coordinator: Mapping[str, float] = field(default_factory=dict)  # its own seconds by phase
    clipped: int | None = None  # numbers of updates; None where nothing is clipped
    figures: Mapping[str, float] = field(default_factory=dict)  # what the algorithm tells beside the loss

    @property
    def asked(self) -> frozenset[str]:
        """The sites that some step of the round was asked of; of a run without such figures nobody is known."""
        return frozenset(site for step, sites in self.costs.items() if step != "describe" for site in sites)


@dataclass(frozen=True)
class Scoring:
    """The development notes scored after a round."""

    round: int
    f1: Mapping[str, float]
    mean: float
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    counts: Mapping[str, TypedCounts] = field(default_factory=dict)

    @property
    def pooled(self) -> TypedCounts:
        """Of all sites together."""
        return sum(self.counts.values(), TypedCounts())


@dataclass(frozen=True)
class Epoch:
    """One epoch of a training at one site."""

    epoch: int
    loss: float
    dev_f1: float
    seconds: float
    best: bool


@dataclass(frozen=True)
class History:
    """A run from its first event to its last."""

    rounds: tuple[RoundRecord, ...] = ()
    scorings: tuple[Scoring, ...] = ()
    epochs: tuple[Epoch, ...] = ()
    beside: Costs = field(default_factory=dict)  # of what was asked beside the rounds, and in rounds that failed
    started: float | None = None  # seconds since 1970
    ended: float | None = None
    finished: bool = False
    resumed: int = 0  # times
    failed: tuple[tuple[int, str], ...] = ()  # rounds that too few sites answered, and why
    versions: Mapping[str, str] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)  # settings of a training at one site

    @classmethod
    def of(cls, events: Iterable[Mapping[str, Any]]) -> History:
        """Of a round that was done again after a crash, the last counts."""
        return _Reader().read(list(events))

    @property
    def costs(self) -> Costs:
        """Of everything, by step and site."""
        return added(*(record.costs for record in self.rounds), self.beside)

    @property
    def sites(self) -> tuple[str, ...]:
        """Everybody an event names, in the order of the events."""
        named = [site for sites in self.costs.values() for site in sites]
        named += [gone.site for record in self.rounds for gone in record.absent]
        return tuple(dict.fromkeys([*named, *(site for scoring in self.scorings for site in scoring.f1)]))


def added(*many: Costs) -> dict[str, dict[str, Cost]]:
    """By step and site, the costs of all."""
    total: dict[str, dict[str, Cost]] = {}
    for costs in many:
        for step, sites in costs.items():
            for site, cost in sites.items():
                found = total.setdefault(step, {})
                found[site] = found.get(site, Cost()) + cost
    return total


class _Reader:
    """Goes through the events once."""

    def __init__(self) -> None:
        self._rounds: dict[int, RoundRecord] = {}
        self._scorings: dict[int, Scoring] = {}
        self._epochs: dict[int, Epoch] = {}
        self._beside: list[tuple[int, Costs]] = []
        self._failed: list[tuple[int, str]] = []
        self._resumed = 0
        self._made: dict[str, Mapping[str, Any]] = {}

    def read(self, events: Sequence[Mapping[str, Any]]) -> History:
        for event in events:
            self._take(event)
        times = [float(event["time"]) for event in events if isinstance(event.get("time"), int | float)]
        return History(
            tuple(self._rounds.values()),
            tuple(self._scorings.values()),
            tuple(self._epochs.values()),
            added(*(costs for _, costs in self._beside)),
            times[0] if times else None,
            times[-1] if times else None,
            any(event.get("event") == "finished" for event in events),
            self._resumed,
            tuple(self._failed),
            self._made.get("versions", {}),
            self._made.get("training", {}),
        )

    def _take(self, event: Mapping[str, Any]) -> None:
        number = int(_given(event, "round", 0))
        match event.get("event"):
            case "started" | "resumed":
                self._begin(event, number)
            case "round" if event.get("round") is not None:
                self._rounds[number] = _round(event)
            case "scored" if event.get("round") is not None:
                self._scorings[number] = _scoring(event)
            case "asked":
                self._beside.append((number, _costs(event)))
            case "round_failed":
                self._failed.append((number, str(_given(event, "reason", ""))))
                self._beside.append((number - 1, _costs(event)))
            case "epoch" if event.get("epoch") is not None:
                self._epochs[int(event["epoch"])] = _epoch(event)

    def _begin(self, event: Mapping[str, Any], number: int) -> None:
        self._made |= {name: event[name] for name in ("versions", "training") if isinstance(event.get(name), dict)}
        if event["event"] == "resumed":
            self._resumed += 1
        # What came after the checkpoint is done again.
        self._rounds = {known: found for known, found in self._rounds.items() if known <= number}
        self._scorings = {known: found for known, found in self._scorings.items() if known <= number}
        self._beside = [(known, costs) for known, costs in self._beside if known <= number]


def _given(found: Mapping[str, Any], name: str, otherwise: Any) -> Any:
    """The value, or the other one where there is none or null."""
    value = found.get(name)
    return otherwise if value is None else value


def _numbers(event: Mapping[str, Any], name: str) -> dict[str, float]:
    """Those that are known of a mapping to numbers."""
    return {str(key): float(value) for key, value in _given(event, name, {}).items() if value is not None}


def _round(event: Mapping[str, Any]) -> RoundRecord:
    clipped = event.get("clipped")
    return RoundRecord(
        int(event["round"]),
        float(_given(event, "loss", float("nan"))),
        int(_given(event, "answered", 0)),
        tuple(_absence(gone) for gone in _given(event, "absent", ())),
        int(_given(event, "down", 0)),
        int(_given(event, "up", 0)),
        float(_given(event, "seconds", 0.0)),
        _costs(event),
        _numbers(event, "coordinator"),
        None if clipped is None else int(clipped),
        _numbers(event, "figures"),
    )


def _absence(gone: Sequence[Any]) -> Absence:
    site, kind, code, *_ = (*map(str, gone), "", "", "")
    return Absence(site, kind, code)


def _scoring(event: Mapping[str, Any]) -> Scoring:
    f1, intervals, counts = _numbers(event, "f1"), _given(event, "interval", {}), _given(event, "counts", {})
    return Scoring(
        int(event["round"]),
        f1,
        float(_given(event, "mean_f1", sum(f1.values()) / max(1, len(f1)))),
        {str(site): ends for site, found in intervals.items() if (ends := _ends(found)) is not None},
        {str(site): _typed(found) for site, found in counts.items() if found is not None},
    )


def _ends(found: Sequence[Any] | None) -> tuple[float, float] | None:
    low, high, *_ = (*(found or ()), None, None)
    return None if low is None or high is None else (float(low), float(high))


def _typed(found: Mapping[str, Any]) -> TypedCounts:
    return TypedCounts({str(kind): SpanCounts(*map(int, row[:3])) for kind, row in found.items() if row is not None})


def _epoch(event: Mapping[str, Any]) -> Epoch:
    f1, seconds = float(_given(event, "dev_f1", 0.0)), float(_given(event, "seconds", 0.0))
    loss = float(_given(event, "loss", float("nan")))
    return Epoch(int(event["epoch"]), loss, f1, seconds, bool(event.get("best")))


def _costs(event: Mapping[str, Any]) -> dict[str, dict[str, Cost]]:
    return {
        str(step): {str(site): _cost(row) for site, row in sites.items() if row is not None}
        for step, sites in _given(event, "exchanges", {}).items()
        if sites is not None
    }


def _cost(row: Sequence[Any]) -> Cost:
    """Of the first four columns, whatever else a later version adds."""
    down, up, seconds, worked, *_ = (*(0 if value is None else value for value in row), 0, 0, 0, 0)
    return Cost(int(down), int(up), float(seconds), float(worked))
