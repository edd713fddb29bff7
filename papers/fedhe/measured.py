"""Measured runs in brief, and the scores of each study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from papers.common.spread import Studies
from papers.fedhe.variations import VARIATIONS

from wardround.evaluation.counts import SpanCounts

_FIGURES = ("seed", "dev_f1", "rounds", "best_round", "seconds", "bytes_down", "bytes_up", "learning_rate")
_COUNTS = ("tp", "fp", "fn")
TOGETHER = "all"


class Measured(Studies):
    """The counts of every run, by study."""

    def f1(self, study: str, part: str, *, seeds: Sequence[int] | None = None) -> list[float]:
        """Strict F1 on the `test` or `training` part: a figure a seed, and of clients on their own one each."""
        places = [self.studies[study]["seed"].index(seed) for seed in seeds or self.studies[study]["seed"]]
        models = self.studies[study][part].values()
        return [SpanCounts(*counts[place]).f1 for counts in models for place in places]

    def interval(self, study: str) -> tuple[float, float] | None:
        """Of the test F1 over sentences, from the first seed, where one client scored all of them."""
        found = self.studies[study]["interval"]
        return (found[0][0], found[0][1]) if found else None

    def rate(self, study: str) -> float:
        """With which it was trained."""
        return float(self.studies[study]["learning_rate"][0])

    def bytes_up(self, study: str) -> float:
        """What a client sent in a round, scores included."""
        found = self.studies[study]
        return float(found["bytes_up"][0] / found["rounds"][0] / found["clients"])


def condensed(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Runs as lists by study, a seed each; tuning is left out."""
    studies = {}
    for name, variation in VARIATIONS.items():
        mine = sorted((run for run in runs if run["variation"] == name), key=lambda run: int(run["seed"]))
        if mine and "tune" not in variation.tables:
            assert len({run["learning_rate"] for run in mine}) == 1, f"{name} was run with several rates"
            studies[name] = _study(mine, alone=variation.algorithm == "single")
    return studies


def _study(runs: Sequence[Mapping[str, Any]], *, alone: bool) -> dict[str, Any]:
    clients = list(runs[0]["sites"])
    figures: dict[str, Any] = {figure: [run[figure] for run in runs] for figure in _FIGURES}
    first = [run["sites"][clients[0]]["strict"]["interval"] for run in runs]
    return {
        **figures,
        "clients": len(clients),
        "test": _models(runs, clients, alone=alone, counts=_tested),
        "training": _models(runs, clients, alone=alone, counts=_trained),
        "interval": [[round(end, 4) for end in ends] for ends in first] if len(clients) <= 2 else [],
    }


def _models(
    runs: Sequence[Mapping[str, Any]], clients: Sequence[str], *, alone: bool, counts: Any
) -> dict[str, list[list[int]]]:
    """Counts by model: each client's own, or those of all clients added where they have one model."""
    if alone:
        return {client: [counts(run["sites"][client]) for run in runs] for client in clients}
    added = [[counts(site) for site in run["sites"].values()] for run in runs]
    return {TOGETHER: [[sum(column) for column in zip(*rows, strict=True)] for rows in added]}


def _tested(site: Mapping[str, Any]) -> list[int]:
    return [int(site["strict"][count]) for count in _COUNTS]


def _trained(site: Mapping[str, Any]) -> list[int]:
    return [int(count) for count in site["training"]]
