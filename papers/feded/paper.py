"""The FedED paper: choices, its lines in the overview, and what its page is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

from papers.choose import finished, highest
from papers.common.cells import bars_table, listed, pictures
from papers.common.paper import Found, Paper
from papers.common.runs import joined
from papers.feded import joint, tables
from papers.feded.measured import RACED_ON, Measured
from papers.feded.studies import FEDERATED, VARIATIONS, FedEd
from papers.feded.tables import CORPORA, DISTILLED, MORE_WORK, PRECISIONS, PUBLISHED, TITLES, Races, races_of
from papers.feded.targets import all_met, bars, claims, types_claim

from wardround.evaluation.counts import SpanCounts
from wardround.text.plain_text import size_text

__all__ = ["PAPER", "all_related_f1", "choose_rates", "choose_target"]

_LAST = 3  # rounds whose mean decides on a rate
_TARGET = 0.75  # of the way from calling every pair related to FedAvg's median F1


# Choosing.


def choose_rates(runs: Sequence[Mapping[str, Any]], head: Any, known: Mapping[str, Any]) -> dict[str, Any]:
    """Choose the rate with the highest F1 on the held-out tenth, in the mean of the last three rounds."""
    rates = {}
    for method in dict.fromkeys(v.method for v in VARIATIONS.values() if "tune" in v.tables):
        studies = {v.rate: v.name for v in VARIATIONS.values() if "tune" in v.tables and v.method == method}
        tried = {
            rate: mean(float(line["f1"]) for run in finished(runs, name) for line in run["curve"][-_LAST:])
            for rate, name in studies.items()
        }
        rates[method] = float(highest(method, tried))
    return {"rates": rates, "target": known.get("target", 0.0)}


def choose_target(runs: Sequence[Mapping[str, Any]], head: Any, known: Mapping[str, Any]) -> dict[str, Any]:
    """Choose the F1 that a race ends at: three quarters of the way from calling every pair related to FedAvg.

    A share of FedAvg's median alone would be reached by a model that has learned nothing.
    """
    found = finished(runs, f"{RACED_ON}-fedavg")
    floor, reached = median(map(all_related_f1, found)), median(float(run["f1"]) for run in found)
    target = round(floor + _TARGET * (reached - floor), 3)
    print(f"every pair related gives {floor:.4f}, FedAvg {reached:.4f}: the target is {target}")
    return {"rates": known.get("rates", {}), "target": target}


def all_related_f1(run: Mapping[str, Any]) -> float:
    """Return the F1 of calling every pair of a run's binary test part related."""
    (counts,) = run["curve"][-1]["types"].values()
    related = counts[0] + counts[2]
    return SpanCounts(related, run["tested"] - related, 0).f1


# The overview.


def _found_table1(measured: Measured) -> Found:
    texts = []
    for corpus, title in CORPORA.items():
        if draw := measured.expected.get("sites", {}).get(corpus, {}).get("seed-0"):
            texts.append(f"{title} {draw['train']['pairs']:,} / {draw['test']['pairs']:,}")
    return Found(f"pairs for training / for testing: {', '.join(texts)}") if texts else Found()


def _found_scores(measured: Measured, corpus: str) -> Found:
    methods = ("central", "public", *FEDERATED)
    if not (known := measured.known({TITLES[method]: f"{corpus}-{method}" for method in methods})):
        return Found()
    scores = {title: 100 * median(measured.f1(name)) for title, name in known.items()}
    ours = {title: f1 for title, f1 in scores.items() if title.startswith("FedED")}
    shows = ""
    if ours and "FedAvg" in scores:
        best = max(ours, key=lambda title: ours[title])
        shows = f"The best FedED, {best}, is {ours[best] - scores['FedAvg']:+.1f} points from FedAvg."
    return Found(f"median F1: {listed(scores)}", measured.seed_counts(known), shows)


def _found_table6(measured: Measured) -> Found:
    studies = {name: name for name in measured.studies if name.startswith("biored-")}
    text = types_claim(measured)
    return Found(text, measured.seed_counts(studies)) if text else Found()


def _found_table7(measured: Measured) -> Found:
    ways = {"FedAvg": "fedavg-plain", **{f"FedED, {precision}": f"feded-{precision}" for precision in PRECISIONS}}
    sizes = {title: size for title, way in ways.items() if (size := measured.upload("gad", way)) is not None}
    if not sizes:
        return Found()
    texts = "; ".join(f"{title} {size_text(round(size))}" for title, size in sizes.items())
    ours = [size for title, size in sizes.items() if title != "FedAvg"]
    both = ours and "FedAvg" in sizes
    less = f"At best a site sends {sizes['FedAvg'] / min(ours):,.0f} times less than with FedAvg." if both else ""
    return Found(f"GAD, a site in a round: {texts}", shows=less)


def _found_races(races: Races) -> Found:
    texts, seeds, fewer = [], list[int](), list[bool]()
    for title, own in races.items():
        known = {method: rounds for method, rounds in own.items() if rounds.values}
        if known:
            texts.append(f"{title}: {', '.join(f'{TITLES[method]} {rounds}' for method, rounds in known.items())}")
            seeds += [len(rounds.values) for rounds in known.values()]
        if known.keys() >= {"fedavg", DISTILLED}:
            fewer.append(median(known[DISTILLED].values) < median(known["fedavg"].values))
    shows = f"{TITLES[DISTILLED]} needs fewer rounds than FedAvg in {sum(fewer)} of {len(fewer)} settings."
    return Found(f"rounds to the target, median: {'; '.join(texts)}", seeds, shows) if texts else Found()


def _found_joint(measured: Measured) -> Found:
    texts, seeds = [], list[int]()
    for corpus, methods in measured.expected.get("joint", {}).items():
        runs = {method: found["relations"] for method, found in methods.items() if found["relations"]}
        scores = {
            joint.METHODS[method]: 100 * mean(SpanCounts(*counts).f1 for counts in by_seed.values())
            for method, by_seed in runs.items()
        }
        texts += [f"{joint.CORPORA[corpus]}: {listed(scores)}"] if scores else []
        seeds += [len(by_seed) for by_seed in runs.values()]
    return Found(f"strict F1 of relations, {'; '.join(texts)}", seeds) if texts else Found()


def _gather(expected: dict[str, Any], files: Mapping[str, list[Path]]) -> None:
    if files["weighed"]:
        head, runs = joined(files["weighed"])
        expected["studies"] = {**expected.get("studies", {}), **Measured.condense(runs, head)}
    for sites in files["sites"]:
        expected["all_related"] = tables.all_related(sites)


PAPER = Paper(
    "feded",
    sweep=FedEd,
    measured=Measured,
    tables={
        "bars": lambda measured: bars_table(bars(measured)),
        "claims": claims,
        "table3": lambda measured: tables.score_table(measured, "gad", PUBLISHED["scores"]["gad"]),
        "curves-gad": lambda measured: pictures(
            *(name for name in tables.curve_plots(measured) if name == "curves-gad")
        ),
        "table4": lambda measured: tables.score_table(measured, "euadr", PUBLISHED["scores"]["euadr"]),
        "table5": lambda measured: tables.score_table(measured, "biored", PUBLISHED["scores"]["i2b2"]),
        "curves": lambda measured: pictures(*(name for name in tables.curve_plots(measured) if name != "curves-gad")),
        "table6": tables.table6,
        "published6": tables.published6,
        "table7": tables.table7,
        "rounds": tables.rounds_table,
        "figure2": lambda measured: "\n\n".join(
            filter(None, (tables.figure2(measured), pictures(*tables.race_plot(measured))))
        ),
        "table8": tables.table8,
        "teacher": tables.teacher_tables,
        "setup": tables.setup_table,
        "related": tables.related_text,
        "rates": tables.rates_table,
        "tried": tables.tried_table,
        "missing": tables.missing_text,
    },
    found={
        "table1": _found_table1,
        "table3": lambda measured: _found_scores(measured, "gad"),
        "table4": lambda measured: _found_scores(measured, "euadr"),
        "table5": lambda measured: _found_scores(measured, "biored"),
        "table6": _found_table6,
        "table7": _found_table7,
        "figure2": lambda measured: _found_races(tables.by_participation(measured)),
        "table8": lambda measured: _found_races(races_of(measured, MORE_WORK)),
        "joint": _found_joint,
    },
    plots=tables.plots,
    bars=bars,
    all_met=all_met,
    choices={"rates": choose_rates, "target": choose_target},
    files={
        "weighed": "results of the runs of Table 7, which may have other settings",
        "sites": "the folder that make_sites wrote, to score calling every pair related",
    },
    gather=_gather,
    beside=("joint",),
)
