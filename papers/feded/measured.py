"""Measured runs in brief, and the figures of each study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from statistics import mean, median
from typing import Any, NamedTuple

from papers.common.page import resampled
from papers.common.spread import Studies
from papers.feded.variations import SINGLE, VARIATIONS, Variation

from wardround.evaluation.counts import SpanCounts

_DIGITS = 4


class Scores(NamedTuple):
    """Of one model on the test part; of a run whose curve is lost, F1 alone."""

    precision: float | None
    recall: float | None
    f1: float


@dataclass(frozen=True)
class Ratio:
    """FedED's rounds to the target over FedAvg's."""

    value: float  # infinite where FedED did not reach it
    at_most: bool = False  # FedAvg did not reach it: it would take a round more than it had, or many more

    def __str__(self) -> str:
        if self.value == inf:
            return "FedED not there"
        return f"{'≤ ' if self.at_most else ''}{self.value:.2f}"


def ratio_of(feded: Sequence[float], fedavg: Sequence[float], *, limit: int) -> Ratio:
    """Of the medians over seeds; a run that did not reach the target in `limit` rounds counts as infinite."""
    ours, theirs = median(feded), median(fedavg)
    if ours == inf or theirs < inf:
        return Ratio(inf if ours == inf else ours / theirs)
    return Ratio(ours / (limit + 1), at_most=True)


def interval_of(values: Sequence[float]) -> tuple[float, float] | None:
    """A 95% interval of the median over seeds, where there are several."""
    if len(values) < 2:
        return None
    return resampled(lambda picks: median(values[pick] for pick in picks), len(values))


class Measured(Studies):
    """What `condensed` left, by study; the F1 that a race is to, and the most rounds that it may take."""

    def __init__(self, studies: Mapping[str, Any], *, target: float = 0.0, limit: int = 0) -> None:
        super().__init__(studies)
        self.target, self.limit = target, limit

    def scores(self, study: str, *, seeds: Sequence[int] | None = None) -> list[Scores]:
        """After the last round, over all types: a figure a seed."""
        return [self._score(study, place) for place in self._at(study, seeds)]

    def _score(self, study: str, place: int) -> Scores:
        found = self.studies[study]
        counts = [SpanCounts(*own[place]) for own in found["types"].values() if own[place] is not None]
        if not counts:
            return Scores(None, None, float(found["last"][place]))
        added = sum(counts, SpanCounts())
        return Scores(added.precision, added.recall, added.f1)

    def f1(self, study: str, *, seeds: Sequence[int] | None = None) -> list[float]:
        """After the last round."""
        return [scores.f1 for scores in self.scores(study, seeds=seeds)]

    def alone(self, corpus: str) -> list[Scores]:
        """Of sites that train alone: for each seed the mean over them."""
        studies = [name for single in SINGLE if self.has(name := f"{corpus}-{single}")]
        seeds = self.seeds(*studies) if studies else []
        by_site = [self.scores(name, seeds=seeds) for name in studies]
        return [_mean_of(sites) for sites in zip(*by_site, strict=True)]

    def by_type(self, study: str) -> dict[str, list[SpanCounts]]:
        """After the last round: counts of each seed that has them."""
        types = self.studies[study]["types"].items()
        return {name: [SpanCounts(*own) for own in counts if own is not None] for name, counts in types}

    def curve(self, study: str) -> list[tuple[int, float]]:
        """F1 by round, the median over the seeds that have it."""
        rounds: dict[int, list[float]] = {}
        for number, f1 in self._points(study):
            rounds.setdefault(number, []).append(f1)
        return [(number, median(scores)) for number, scores in sorted(rounds.items())]

    def figure_names(self, study: str) -> list[str]:
        """Which of them there are; none of a study whose curves are lost."""
        return list(self.studies.get(study, {}).get("figures", {}))

    def figure(self, study: str, name: str) -> list[tuple[int, float]]:
        """What the algorithm told of itself by round, the median over the seeds that have it."""
        found = [rounds for rounds in self.studies[study].get("figures", {}).get(name, []) if rounds]
        return [(number, median(values)) for number, values in enumerate(zip(*found, strict=True), start=1)]

    def rounds_to_target(self, study: str) -> dict[int, float]:
        """By seed that has a curve, its first round at the target; infinite where none is."""
        found = self.studies.get(study, {"seed": [], "f1": []})
        curves = [(seed, curve) for seed, curve in zip(found["seed"], found["f1"], strict=True) if curve]
        return {seed: next((n for n, f1 in curve if f1 >= self.target), inf) for seed, curve in curves}

    def race(self, study: str) -> dict[int, float]:
        """The same of a study that ends at the target; runs that were cut off before are no answer."""
        if study not in self.studies:
            return {}
        found = self.studies[study]
        ended = zip(found["seed"], found["reached"], found["cut_off"], strict=True)
        return {seed: inf if reached is None else reached for seed, reached, cut_off in ended if not cut_off}

    def cut_off(self, study: str) -> int | None:
        """After how many rounds a race was cut off that has no other answer."""
        if study not in self.studies or self.race(study):
            return None
        return max(map(int, self.studies[study]["rounds"]))

    def upload(self, study: str) -> float:
        """Bytes from a site in the last round."""
        return float(median(size for size in self.studies[study]["up"] if size is not None))

    def _points(self, study: str) -> Iterator[tuple[int, float]]:
        for curve in self.studies[study]["f1"]:
            for number, f1 in curve:
                yield int(number), float(f1)

    def _at(self, study: str, seeds: Sequence[int] | None) -> list[int]:
        known = self.studies[study]["seed"]
        return [known.index(seed) for seed in (known if seeds is None else seeds)]


def _mean_of(scores: Sequence[Scores]) -> Scores:
    parts = [[own.precision for own in scores], [own.recall for own in scores]]
    precision, recall = (None if None in part else mean(own or 0.0 for own in part) for part in parts)
    return Scores(precision, recall, mean(own.f1 for own in scores))


# Results in brief.


def condensed(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Runs as lists by study, a seed each; one that was cut off counts only in a race."""
    studies = {}
    for name, variation in VARIATIONS.items():
        mine = sorted((run for run in runs if run["variation"] == name), key=lambda run: int(run["seed"]))
        kept = [run for run in mine if _counts(run, variation)]
        if kept:
            assert len({run["learning_rate"] for run in kept}) == 1, f"{name} was run with several rates"
            studies[name] = _study(kept, variation)
    return studies


def _counts(run: Mapping[str, Any], variation: Variation) -> bool:
    """A run of which its curve is lost is marked `only_f1`."""
    if run.get("cut_off"):
        return variation.races and bool(run["curve"])
    return bool(run["curve"]) or bool(run.get("only_f1"))


def left_out(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Runs that were cut off, and whose scores are nowhere."""
    cut = [run for run in runs if run.get("cut_off") and not VARIATIONS[run["variation"]].races]
    return [f"{run['variation']}, seed {run['seed']}: {len(run['curve'])} rounds" for run in cut]


def _study(runs: Sequence[Mapping[str, Any]], variation: Variation) -> dict[str, Any]:
    head = {name: [run[name] for run in runs] for name in ("seed", "rounds", "seconds")}
    head |= {"learning_rate": runs[0]["learning_rate"], "up": [_upload(run) for run in runs]}
    if variation.counts_bytes:
        return head
    head |= {"f1": [_curve(run) for run in runs], "last": [round(run["f1"], _DIGITS) for run in runs]}
    if variation.races:
        return head | {
            "target": runs[0]["target"],
            "reached": [run["reached"] for run in runs],
            "cut_off": [bool(run.get("cut_off")) for run in runs],
        }
    return {**head, "types": _types(runs), **_told(runs)}


def _types(runs: Sequence[Mapping[str, Any]]) -> dict[str, list[list[int] | None]]:
    last = [run["curve"][-1]["types"] if run["curve"] else None for run in runs]
    names = sorted({name for own in last if own is not None for name in own})
    return {name: [None if own is None else own.get(name, [0, 0, 0]) for own in last] for name in names}


def _curve(run: Mapping[str, Any]) -> list[list[float]]:
    return [[line["round"], round(line["f1"], _DIGITS)] for line in run["curve"] if "f1" in line]


def _upload(run: Mapping[str, Any]) -> float | None:
    if not run["curve"]:
        return None
    line = run["curve"][-1]
    return round(float(line["up"]) / max(1, int(line["answered"])), 1)


def _told(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """By figure, its rounds of each seed."""
    names = next((list(run["curve"][0].get("figures", {})) for run in runs if run["curve"]), [])
    told = {name: [[round(line["figures"][name], _DIGITS) for line in run["curve"]] for run in runs] for name in names}
    return {"figures": told} if told else {}
