"""The summary of the runs on heterogeneous tag sets: scores, gains and bytes.

The main measure is macro-F1 over the types that are not annotated at a site: the mean over these types, then over
sites. A type counts at a site if its test notes have at least five mentions of it; with fewer, its F1 is chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from statistics import mean
from typing import Any, Literal

from papers.common.cells import Spread, Studies
from papers.tagsets.studies import ADVERSARIAL, VARIATIONS, Study

from wardround.evaluation.counts import SpanCounts

__all__ = ["CORPORA", "FAMILIES", "FLOAT", "METHODS", "Measure", "Measured", "study_name"]

CORPORA = {"gum": "GUM", "bio": "biomedical", "synthetic": "synthetic hospitals"}
FAMILIES = {"bilstm-crf": "BiLSTM-CRF", "lora": "LoRA", "prompt": "prompt", "light-ner": "LightNER"}
METHODS = {
    "full": "Pseudo-complete, weighted",
    "raw-weight": "the same, Eq. 12 as it stands",
    "early": "the same, taught from round 2 on",
    "no-weight": "Pseudo-complete",
    "neither": "Labels as they are, equal site weights",
    "partial": "Unknown left open",
    "posterior": "Posteriors",
    "partial-outside": "Unknown left open, weakly as no mention",
    "posterior-outside": "Posteriors, the rest weakly as no mention",
    "ganin": "Ganin 2016",
    "peng": "Peng 2019",
    "hong": "Hong 2021",
    "fedavg": "FedAvg, labels as they are",
    "single": "A site alone",
    "pooled": "One place, complete annotation",
    "posterior-tuned": "Posteriors, tuned on hospitals",
    "pooled-tuned": "One place, tuned on hospitals",
}
# Over all mentions; over all types, over those annotated at a site, over those not annotated there.
Measure = Literal["micro", "all", "annotated", "missing"]
FLOAT = 4  # bytes of a number
_FEWEST_TESTED = 5  # mentions in a site's test notes


def study_name(corpus: str, family: str, method: str) -> str:
    """Return the name of the study in a row of a table."""
    return f"{corpus}-{family}-{method}"


class Measured(Studies):
    """The summary."""

    variations = VARIATIONS
    keeps_choices = True

    def __init__(self, expected: Mapping[str, Any]) -> None:
        super().__init__(expected)
        self.sites: Mapping[str, Any] = expected.get("sites", {})

    # Scores.

    def scores(self, study: str, measure: Measure, *, seeds: Sequence[int] | None = None) -> list[float]:
        """Return the mean over sites by sampling."""
        known = self.studies[study]["seed"] if seeds is None else seeds
        return [mean(self._at_sites(study, seed, measure).values()) for seed in known]

    def spread(self, study: str, measure: Measure, *, seeds: Sequence[int] | None = None) -> Spread:
        """Return mean and interval over samplings."""
        return Spread.of(self.scores(study, measure, seeds=seeds))

    def gain(self, study: str, other: str, measure: Measure = "missing") -> Spread | None:
        """Return the difference of two studies over the samplings that both have."""
        if not (seeds := self.seeds(study, other)):
            return None
        pairs = zip(*(self.scores(name, measure, seeds=seeds) for name in (study, other)), strict=True)
        return Spread.of([one - two for one, two in pairs])

    def by_site(self, study: str, measure: Measure = "micro") -> dict[str, float]:
        """Return the mean over samplings at each site."""
        found: dict[str, list[float]] = {}
        for seed in self.studies[study]["seed"]:
            for site, f1 in self._at_sites(study, seed, measure).items():
                found.setdefault(site, []).append(f1)
        return {site: mean(f1) for site, f1 in found.items()}

    def by_type(self, study: str) -> dict[str, tuple[float | None, float | None]]:
        """Return F1 of each type where it is annotated and where not, over all sites and samplings."""
        added: dict[tuple[str, bool], SpanCounts] = {}
        for place, seed in enumerate(self.studies[study]["seed"]):
            annotated = self.studies[study]["annotated"][place]
            for site, kinds in self._counts(study, seed).items():
                for kind, counts in kinds.items():
                    key = kind, kind in annotated[site]
                    added[key] = added.get(key, SpanCounts()) + counts
        f1 = {key: counts.f1 for key, counts in added.items()}
        return {kind: (f1.get((kind, True)), f1.get((kind, False))) for kind in dict.fromkeys(k for k, _ in added)}

    def _at_sites(self, study: str, seed: int, measure: Measure) -> dict[str, float]:
        """Return F1 by site; sites without a type to measure are left out."""
        annotated = self.studies[study]["annotated"][self.studies[study]["seed"].index(seed)]
        found = {}
        for site, kinds in self._counts(study, seed).items():
            if measure == "micro":
                found[site] = sum(kinds.values(), SpanCounts()).f1
                continue
            chosen = [kind for kind in kinds if measure == "all" or (kind in annotated[site]) == (measure != "missing")]
            if f1 := [kinds[kind].f1 for kind in chosen if kinds[kind].gold >= _FEWEST_TESTED]:
                found[site] = mean(f1)
        return found

    def _counts(self, study: str, seed: int) -> dict[str, dict[str, SpanCounts]]:
        """Return the counts by site and by type of its test notes."""
        place, corpus = self.studies[study]["seed"].index(seed), VARIATIONS[study].corpus
        return {
            site: {kind: SpanCounts(*counts[kind][place]) for kind in self.sites[corpus]["sites"][site]["scored"]}
            for site, counts in self.studies[study]["counts"].items()
        }

    # Which families have studies.

    def families(self, corpus: str, *methods: str) -> list[str]:
        """Return the families with which all of these methods were measured."""
        return [family for family in FAMILIES if self.has(*(study_name(corpus, family, m) for m in methods))]

    def first_corpora(self, *methods: str) -> dict[str, str]:
        """Return by family the first corpus on which all of these methods were measured."""
        found = {family: [c for c in CORPORA if family in self.families(c, *methods)] for family in FAMILIES}
        return {family: corpora[0] for family, corpora in found.items() if corpora}

    def best(self, corpora: Sequence[str], *methods: str) -> tuple[str, str] | None:
        """Return corpus and family with the highest F1 of the paper's method, of those that have all these methods."""
        found = [(corpus, family) for corpus in corpora for family in self.families(corpus, "full", *methods)]
        return max(found, key=lambda at: self.spread(study_name(*at, "full"), "missing").mean, default=None)

    # Bytes and sizes.

    def upload(self, study: str) -> float:
        """Return the bytes from a site in the last round."""
        return float(mean(self.studies[study]["up"]))

    def upload_share(self, study: str) -> float:
        """Return these bytes over those of the whole network in float32."""
        return self.upload(study) / (FLOAT * float(self.studies[study]["network"]["parameters"]))

    def trained_share(self, study: str) -> float:
        """Return the share of the network's numbers that are trained."""
        network = self.studies[study]["network"]
        return float(network["trainable"]) / float(network["parameters"])

    def weighting_numbers(self, study: str) -> int:
        """Return the numbers of the gradient that sites compare."""
        return int(prod(self.studies[study]["network"]["probe"]))

    def weighting_bytes(self, corpus: str, family: str) -> float:
        """Return what weighting adds to the bytes from a site in a round."""
        full, plain = (self.upload(study_name(corpus, family, method)) for method in ("full", "no-weight"))
        return full - plain

    def discriminator_bytes(self, corpus: str, family: str) -> float | None:
        """Return what discriminators add, in the mean over the adversarial methods that were measured."""
        names = [name for method in ADVERSARIAL if self.has(name := study_name(corpus, family, method))]
        plain = study_name(corpus, family, "no-weight")
        return sum(self.upload(name) for name in names) / len(names) - self.upload(plain) if names else None

    # From runs to the summary.

    @classmethod
    def summary_of(cls, variation: Study, runs: Sequence[Mapping[str, Any]], head: Mapping[str, Any]) -> dict[str, Any]:
        """Return strict counts by site and type; a type that is neither annotated nor found has none."""
        sites, none = head["sites"][variation.corpus]["sites"], {"strict": [0, 0, 0]}
        return {
            **{name: [run[name] for run in runs] for name in ("seed", "rounds", "seconds", "annotated")},
            "learning_rate": runs[0]["learning_rate"],
            "network": runs[0]["network"],
            "up": [round(run["a_round"]["up"], 1) for run in runs],
            "down": [round(run["a_round"]["down"], 1) for run in runs],
            "counts": {
                site: {
                    kind: [r["sites"][site]["types"].get(kind, none)["strict"] for r in runs] for kind in own["scored"]
                }
                for site, own in sites.items()
            },
        }
