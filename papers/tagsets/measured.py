"""Measured runs in brief, and the figures of each study.

The main measure is macro-F1 over the types that are not annotated at a site: the mean over these types, then over
sites. A type counts at a site whose test notes mention it five times at least; below that, its F1 is chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any, Literal

from papers.common.spread import Spread, Studies
from papers.tagsets.variations import VARIATIONS

from wardround.evaluation.counts import SpanCounts

# Over all mentions; over all types, over those that are annotated at a site, over those that are not.
Measure = Literal["micro", "all", "annotated", "missing"]
FEWEST_TESTED = 5  # mentions in a site's test notes


class Measured(Studies):
    """What `condensed` left, by study; `sites` are the corpora as `sites.json` describes them."""

    def __init__(self, studies: Mapping[str, Any], sites: Mapping[str, Any]) -> None:
        super().__init__(studies)
        self.sites = sites

    def scores(self, study: str, measure: Measure, *, seeds: Sequence[int] | None = None) -> list[float]:
        """The mean over sites, a figure a sampling."""
        known = self.studies[study]["seed"] if seeds is None else seeds
        return [mean(self._at_sites(study, seed, measure).values()) for seed in known]

    def spread(self, study: str, measure: Measure, *, seeds: Sequence[int] | None = None) -> Spread:
        """Over samplings."""
        return Spread.of(self.scores(study, measure, seeds=seeds))

    def gain(self, study: str, other: str, measure: Measure = "missing") -> Spread | None:
        """How much more a study has than another on the same samplings, where there are any."""
        seeds = self.seeds(study, other)
        if not seeds:
            return None
        pairs = zip(*(self.scores(name, measure, seeds=seeds) for name in (study, other)), strict=True)
        return Spread.of([one - two for one, two in pairs])

    def by_site(self, study: str, measure: Measure = "micro") -> dict[str, float]:
        """The mean over samplings at each site."""
        found: dict[str, list[float]] = {}
        for seed in self.studies[study]["seed"]:
            for site, f1 in self._at_sites(study, seed, measure).items():
                found.setdefault(site, []).append(f1)
        return {site: mean(f1) for site, f1 in found.items()}

    def by_type(self, study: str) -> dict[str, tuple[float | None, float | None]]:
        """F1 of each type where it is annotated and where it is not; counts of all sites and samplings are added."""
        added: dict[tuple[str, bool], SpanCounts] = {}
        for place, seed in enumerate(self.studies[study]["seed"]):
            annotated = self.studies[study]["annotated"][place]
            for site, kinds in self._counts(study, seed).items():
                for kind, counts in kinds.items():
                    key = kind, kind in annotated[site]
                    added[key] = added.get(key, SpanCounts()) + counts
        f1 = {key: counts.f1 for key, counts in added.items()}
        return {kind: (f1.get((kind, True)), f1.get((kind, False))) for kind in dict.fromkeys(k for k, _ in added)}

    def upload(self, study: str) -> float:
        """Bytes from a site in the last round."""
        return float(mean(self.studies[study]["up"]))

    def network(self, study: str) -> Mapping[str, Any]:
        """Its numbers: `parameters`, `trainable`, and the shape `probe`."""
        found: Mapping[str, Any] = self.studies[study]["network"]
        return found

    def share(self, study: str) -> float:
        """Of the network's numbers, those that train."""
        network = self.network(study)
        return float(network["trainable"]) / float(network["parameters"])

    def _at_sites(self, study: str, seed: int, measure: Measure) -> dict[str, float]:
        """Sites with no type to be measured on are left out."""
        annotated = self.studies[study]["annotated"][self.studies[study]["seed"].index(seed)]
        found = {}
        for site, kinds in self._counts(study, seed).items():
            if measure == "micro":
                found[site] = sum(kinds.values(), SpanCounts()).f1
                continue
            wanted = [kind for kind in kinds if measure == "all" or (kind in annotated[site]) == (measure != "missing")]
            if f1 := [kinds[kind].f1 for kind in wanted if kinds[kind].gold >= FEWEST_TESTED]:
                found[site] = mean(f1)
        return found

    def _counts(self, study: str, seed: int) -> dict[str, dict[str, SpanCounts]]:
        """By site and type that its test notes are annotated with."""
        place, corpus = self.studies[study]["seed"].index(seed), VARIATIONS[study].corpus
        return {
            site: {kind: SpanCounts(*counts[kind][place]) for kind in self.sites[corpus]["sites"][site]["scored"]}
            for site, counts in self.studies[study]["counts"].items()
        }


# Results in brief.


def condensed(runs: Sequence[Mapping[str, Any]], sites: Mapping[str, Any]) -> dict[str, Any]:
    """Runs as lists by study, a sampling each."""
    studies = {}
    for name in VARIATIONS:
        mine = sorted((run for run in runs if run["variation"] == name), key=lambda run: int(run["seed"]))
        if mine:
            assert len({run["learning_rate"] for run in mine}) == 1, f"{name} was run with several rates"
            studies[name] = _study(mine, sites[VARIATIONS[name].corpus]["sites"])
    return studies


def _study(runs: Sequence[Mapping[str, Any]], sites: Mapping[str, Any]) -> dict[str, Any]:
    lists = {name: [run[name] for run in runs] for name in ("seed", "rounds", "seconds", "annotated")}
    return {
        **lists,
        "learning_rate": runs[0]["learning_rate"],
        "network": runs[0]["network"],
        "up": [round(run["a_round"]["up"], 1) for run in runs],
        "down": [round(run["a_round"]["down"], 1) for run in runs],
        "counts": {
            site: {kind: [_strict(run["sites"][site], kind) for run in runs] for kind in found["scored"]}
            for site, found in sites.items()
        },
    }


def _strict(site: Mapping[str, Any], kind: str) -> list[int]:
    """Right, wrong and missed; a type that is neither annotated nor found has no counts."""
    counts: list[int] = site["types"].get(kind, {"strict": [0, 0, 0]})["strict"]
    return counts
