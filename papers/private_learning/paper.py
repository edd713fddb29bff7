"""Tables and plots of the page of private learning, and its line in the overview."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from papers.common.cells import NOTHING, Bar, Studies, table, with_range
from papers.common.paper import Found, Paper
from papers.private_learning.studies import VARIATIONS, PrivateLearning, Study

from wardround.evaluation.counts import SpanCounts
from wardround.reports.plots import Labels, Plot, learning_curves

__all__ = ["PAPER", "TARGETS", "Measured"]

CORPORA = {"bc5cdr": "BC5CDR", "bc2gm": "BC2GM"}
UNITS = ("sentence", "note")
EPSILONS = (1.0, 2.0, 4.0, 8.0)
TARGETS = {8.0: 0.72, 4.0: 0.68, 1.0: 0.57}  # strict test F1 on BC5CDR, unit sentence
_SEEDS = 3  # that a target needs


class Measured(Studies):
    """The summary: strict counts of every run, of all sites together."""

    variations = VARIATIONS

    def f1(self, study: str) -> list[float]:
        """Return strict F1 on the test notes of all sites, by seed."""
        return [SpanCounts(*counts).f1 for counts in self.studies[study]["strict"]]

    @classmethod
    def gathered(cls, known: Mapping[str, Any], head: Mapping[str, Any], runs: Any, chosen: Any) -> dict[str, Any]:
        """Return the summary; of sites only how many there are."""
        sites = {group: len(own) for group, own in head["sites"].items()}
        return {**known, **head, "sites": sites, "studies": cls.condense(runs, head)}

    @classmethod
    def summary_of(cls, variation: Study, runs: Sequence[Mapping[str, Any]], head: Mapping[str, Any]) -> dict[str, Any]:
        """Return the counts of all sites together, and the seconds."""
        if "tune" in variation.tables:
            return {}

        def counts(run: Mapping[str, Any]) -> list[int]:
            return [sum(int(site["strict"][name]) for site in run["sites"].values()) for name in ("tp", "fp", "fn")]

        kept: dict[str, Any] = {name: [run[name] for run in runs] for name in ("seed", "rounds", "seconds", "bytes_up")}
        return {**kept, "strict": [counts(run) for run in runs]}


def curve(measured: Measured) -> str:
    """Return F1 by ε for each corpus and unit."""
    rows = []
    for corpus, title in CORPORA.items():
        for unit in UNITS:
            names = [*(f"{corpus}-{unit}-{epsilon}" for epsilon in EPSILONS), f"{corpus}-without"]
            if any(map(measured.has, names)):
                cells = [with_range(measured.f1(name), digits=3) if measured.has(name) else NOTHING for name in names]
                rows.append([title, unit, *cells])
    return table(["corpus", "unit", *(f"ε = {epsilon:g}" for epsilon in EPSILONS), "without noise"], rows)


def plots(measured: Measured) -> dict[str, Plot]:
    """Return the curves of both corpora and units."""
    lines = {}
    for corpus, title in CORPORA.items():
        for unit in UNITS:
            names = {epsilon: f"{corpus}-{unit}-{epsilon}" for epsilon in EPSILONS}
            points = [(epsilon, mean(measured.f1(name))) for epsilon, name in names.items() if measured.has(name)]
            if points:
                lines[f"{title}, {unit}"] = points
    return {"curve": learning_curves(lines, Labels("Private learning", "ε", "strict F1"))} if lines else {}


def bars(measured: Measured) -> list[Bar]:
    """Return the targets on BC5CDR."""
    found = []
    for epsilon, target in TARGETS.items():
        name = f"bc5cdr-sentence-{epsilon}"
        scores = measured.f1(name) if measured.has(name) else []
        met = mean(scores) >= target if len(scores) >= _SEEDS else None
        shown = f"{mean(scores):.3f} over {len(scores)} seeds" if scores else NOTHING
        found.append(Bar(f"BC5CDR, strict F1 at ε = {epsilon:g} is {target} or more", shown, met))
    return found


def _found_curve(measured: Measured) -> Found:
    names = {f"ε = {epsilon:g}": f"bc5cdr-sentence-{epsilon}" for epsilon in EPSILONS}
    known = measured.known(names)
    texts = [f"{title}: {mean(measured.f1(name)):.3f}" for title, name in known.items()]
    return Found(f"BC5CDR, unit sentence, {', '.join(texts)}", measured.seed_counts(known)) if texts else Found()


PAPER = Paper(
    "private_learning",
    sweep=PrivateLearning,
    measured=Measured,
    tables={"curve": curve},
    found={"curve": _found_curve},
    plots=plots,
    bars=bars,
)
