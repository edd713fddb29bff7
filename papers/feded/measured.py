"""The summary of the FedED paper's runs: scores, curves, rounds to the target, and bytes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from statistics import mean, median
from typing import Any, NamedTuple

from papers.common.cells import NOTHING, Studies, bootstrap_interval
from papers.feded.studies import SINGLE, VARIATIONS, Study

from wardround.evaluation.counts import SpanCounts

__all__ = ["BASE", "RACED_ON", "Measured", "Ratio", "Rounds", "Scores", "interval_of", "left_out", "number", "ratio_of"]

RACED_ON = "gad"  # the corpus on which rounds to the target are counted
BASE = 0.1  # C, where it is not varied
_DIGITS = 4


class Scores(NamedTuple):
    """Scores of one model on the test part; only F1 if the run's curve is lost."""

    precision: float | None
    recall: float | None
    f1: float


@dataclass(frozen=True)
class Rounds:
    """Rounds to the target of one cell; empty if it was not measured."""

    by_seed: Mapping[int, float]  # infinite if the target was not reached
    cut_off: int | None = None  # stopped after so many rounds, without an answer

    @property
    def values(self) -> list[float]:
        """Return the rounds in the order of the seeds."""
        return [rounds for _, rounds in sorted(self.by_seed.items())]

    def of(self, seeds: Collection[int]) -> Rounds:
        """Return the rounds of these seeds only."""
        return Rounds({seed: rounds for seed, rounds in self.by_seed.items() if seed in seeds}, self.cut_off)

    def __str__(self) -> str:
        if not self.values:
            return NOTHING if self.cut_off is None else f"cut off after {self.cut_off}"
        ends = f" [{number(min(self.values))}, {number(max(self.values))}]" if len(self.values) > 1 else ""
        return f"{number(median(self.values))}{ends}"


def number(rounds: float) -> str:
    """Return a number of rounds as text."""
    return "not reached" if rounds == inf else f"{rounds:g}"


@dataclass(frozen=True)
class Ratio:
    """FedED's rounds to the target over FedAvg's."""

    value: float  # infinite if FedED did not reach it
    at_most: bool = False  # FedAvg did not reach it: it would take at least one round more than it had

    def __str__(self) -> str:
        if self.value == inf:
            return "FedED not there"
        return f"{'≤ ' if self.at_most else ''}{self.value:.2f}"


def ratio_of(feded: Sequence[float], fedavg: Sequence[float], *, limit: int) -> Ratio:
    """Divide the medians over seeds; a run that did not reach the target in `limit` rounds counts as infinite."""
    ours, theirs = median(feded), median(fedavg)
    if ours == inf or theirs < inf:
        return Ratio(inf if ours == inf else ours / theirs)
    return Ratio(ours / (limit + 1), at_most=True)


def interval_of(values: Sequence[float]) -> tuple[float, float] | None:
    """Return a 95% interval of the median over seeds; None with one seed."""
    if len(values) < 2:
        return None
    return bootstrap_interval(lambda picks: median(values[pick] for pick in picks), len(values))


class Measured(Studies):
    """The summary; races are to the F1 `target`, in at most `limit` rounds."""

    variations = VARIATIONS

    def __init__(self, expected: Mapping[str, Any]) -> None:
        super().__init__(expected)
        self.target = float(expected.get("chosen", {}).get("target", 0.0))
        self.limit = int(expected.get("settings", {}).get("gad_rounds", 0))

    # Scores after the last round.

    def scores(self, study: str, *, seeds: Sequence[int] | None = None) -> list[Scores]:
        """Return the scores over all types by seed."""
        found = self.studies[study]
        scores = []
        for place in [found["seed"].index(seed) for seed in (found["seed"] if seeds is None else seeds)]:
            counts = [SpanCounts(*own[place]) for own in found["types"].values() if own[place] is not None]
            added = sum(counts, SpanCounts())
            only_f1 = Scores(None, None, float(found["last"][place]))
            scores.append(Scores(added.precision, added.recall, added.f1) if counts else only_f1)
        return scores

    def f1(self, study: str, *, seeds: Sequence[int] | None = None) -> list[float]:
        """Return F1 by seed."""
        return [scores.f1 for scores in self.scores(study, seeds=seeds)]

    def alone(self, corpus: str) -> list[Scores]:
        """Return the mean over sites that train alone, by seed."""
        studies = [name for single in SINGLE if self.has(name := f"{corpus}-{single}")]
        seeds = self.seeds(*studies) if studies else []
        found = []
        for sites in zip(*(self.scores(name, seeds=seeds) for name in studies), strict=True):
            parts = [[own.precision for own in sites], [own.recall for own in sites]]
            precision, recall = (None if None in part else mean(own or 0.0 for own in part) for part in parts)
            found.append(Scores(precision, recall, mean(own.f1 for own in sites)))
        return found

    def by_type(self, study: str) -> dict[str, list[SpanCounts]]:
        """Return the counts of each type, of the seeds that have them."""
        types = self.studies[study]["types"].items()
        return {name: [SpanCounts(*own) for own in counts if own is not None] for name, counts in types}

    def type_f1(self, study: str) -> dict[str, float]:
        """Return F1 of each type, the median over seeds."""
        return {name: median(own.f1 for own in counts) for name, counts in self.by_type(study).items() if counts}

    # By round: medians over the seeds that have them.

    def curve(self, study: str) -> list[tuple[int, float]]:
        """Return F1 by round."""
        rounds: dict[int, list[float]] = {}
        for curve in self.studies[study]["f1"]:
            for at, f1 in curve:
                rounds.setdefault(int(at), []).append(float(f1))
        return [(at, median(scores)) for at, scores in sorted(rounds.items())]

    def figure_names(self, study: str) -> list[str]:
        """Return the names of the algorithm's figures; none if the curves are lost."""
        return list(self.studies.get(study, {}).get("figures", {}))

    def figure(self, study: str, name: str) -> list[tuple[int, float]]:
        """Return a figure that the algorithm reported by round."""
        found = [rounds for rounds in self.studies[study].get("figures", {}).get(name, []) if rounds]
        return [(at, median(values)) for at, values in enumerate(zip(*found, strict=True), start=1)]

    # Rounds to the target.

    def rounds_to_target(self, study: str) -> dict[int, float]:
        """Return the first round at the target of each seed that has a curve; infinite if it is never reached."""
        found = self.studies.get(study, {"seed": [], "f1": []})
        curves = [(seed, curve) for seed, curve in zip(found["seed"], found["f1"], strict=True) if curve]
        return {seed: next((at for at, f1 in curve if f1 >= self.target), inf) for seed, curve in curves}

    def race(self, study: str) -> Rounds:
        """Return the rounds of a study that ends at the target; runs that were cut off before are left out."""
        if study not in self.studies:
            return Rounds({})
        found = self.studies[study]
        ended = zip(found["seed"], found["reached"], found["cut_off"], strict=True)
        by_seed = {seed: inf if reached is None else reached for seed, reached, cut_off in ended if not cut_off}
        return Rounds(by_seed, None if by_seed else max(map(int, found["rounds"])))

    def base_rounds(self, method: str) -> Rounds:
        """Return the rounds with the paper's C, B and E: from the curves of Table 3, other seeds from a race."""
        raced = self.race(f"race-{method}-c{BASE}")
        return Rounds({**raced.by_seed, **self.rounds_to_target(f"{RACED_ON}-{method}")}, raced.cut_off)

    def raced_base_rounds(self, method: str) -> Rounds:
        """Return the same for the seeds with which other settings were raced too."""
        races = [own for name, own in self.studies.items() if name.startswith("race-") and f"-c{BASE}" not in name]
        return self.base_rounds(method).of({seed for own in races for seed in own["seed"]})

    def base_pair(self, method: str) -> tuple[Rounds, Rounds]:
        """Return a method's rounds and FedAvg's on the same draws, with the paper's C, B and E."""
        ours, theirs = (self.base_rounds(name) for name in (method, "fedavg"))
        both = ours.by_seed.keys() & theirs.by_seed.keys() if self.target else set()
        return ours.of(both), theirs.of(both)

    def ratio(self, ours: Rounds, theirs: Rounds) -> Ratio | None:
        """Divide rounds; None if one of them was not measured."""
        known = ours.values and theirs.values
        return ratio_of(ours.values, theirs.values, limit=self.limit) if known else None

    def base_ratio(self, method: str) -> Ratio | None:
        """Divide a method's rounds by FedAvg's on the same draws."""
        return self.ratio(*self.base_pair(method))

    # Bytes.

    def upload(self, corpus: str, way: str) -> float | None:
        """Return the bytes from a site in the last round; None if they were not counted."""
        if not self.has(study := f"weigh-{corpus}-{way}"):
            return None
        return float(median(size for size in self.studies[study]["up"] if size is not None))

    # From runs to the summary.

    @classmethod
    def gathered(
        cls, known: Mapping[str, Any], head: Mapping[str, Any], runs: Sequence[Mapping[str, Any]], chosen: Any
    ) -> dict[str, Any]:
        """Return the summary; counted bytes that are known stay, as they may have other settings."""
        weighed = {name: own for name, own in known.get("studies", {}).items() if VARIATIONS[name].mechanism}
        more = {"chosen": chosen, "left_out": left_out(runs), "studies": {**weighed, **cls.condense(runs, head)}}
        return {**known, **head, **more}

    @classmethod
    def counts(cls, run: Mapping[str, Any], variation: Study) -> bool:
        """Leave out a run that was cut off, except in a race; a run whose curve is lost is marked `only_f1`."""
        if run.get("cut_off"):
            return variation.races and bool(run["curve"])
        return bool(run["curve"]) or bool(run.get("only_f1"))

    @classmethod
    def summary_of(cls, variation: Study, runs: Sequence[Mapping[str, Any]], head: Mapping[str, Any]) -> dict[str, Any]:
        """Return bytes, and curves unless only bytes were counted, and counts by type or the end of the race."""
        last = [run["curve"][-1] if run["curve"] else None for run in runs]
        up = [None if line is None else round(float(line["up"]) / max(1, int(line["answered"])), 1) for line in last]
        found = {name: [run[name] for run in runs] for name in ("seed", "rounds", "seconds")}
        found |= {"learning_rate": runs[0]["learning_rate"], "up": up}
        if variation.mechanism:
            return found
        found["f1"] = [
            [[line["round"], round(line["f1"], _DIGITS)] for line in run["curve"] if "f1" in line] for run in runs
        ]
        found["last"] = [round(run["f1"], _DIGITS) for run in runs]
        if variation.races:
            found |= {"target": runs[0]["target"], "reached": [run["reached"] for run in runs]}
            return {**found, "cut_off": [bool(run.get("cut_off")) for run in runs]}
        types = [None if line is None else line["types"] for line in last]
        names = sorted({name for own in types if own is not None for name in own})
        found["types"] = {n: [None if own is None else own.get(n, [0, 0, 0]) for own in types] for n in names}
        names = next((list(run["curve"][0].get("figures", {})) for run in runs if run["curve"]), [])
        figures = {n: [[round(line["figures"][n], _DIGITS) for line in run["curve"]] for run in runs] for n in names}
        return {**found, **({"figures": figures} if figures else {})}


def left_out(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the runs that were cut off and are in no table."""
    cut = [run for run in runs if run.get("cut_off") and not VARIATIONS[run["variation"]].races]
    return [f"{run['variation']}, seed {run['seed']}: {len(run['curve'])} rounds" for run in cut]
