"""Tables and plots of the FedED paper's page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

from papers.common.cells import NOTHING, percent, pictures, table
from papers.common.paper import read_published
from papers.common.sweep import tables_of
from papers.feded.make_sites import SITES, TUNE, Draws
from papers.feded.measured import BASE, RACED_ON, Measured, Ratio, Rounds, Scores, interval_of, number
from papers.feded.studies import FEDED, FEDERATED, VARIATIONS

from wardround.corpora.jsonl import Jsonl
from wardround.evaluation.counts import SpanCounts
from wardround.reports.plots import Curve, Labels, Plot, learning_curves
from wardround.text.plain_text import size_text

__all__ = [
    "CORPORA",
    "DISTILLED",
    "MORE_SITES",
    "MORE_WORK",
    "PRECISIONS",
    "PUBLISHED",
    "RACERS",
    "TITLES",
    "Races",
    "all_related",
    "by_participation",
    "curve_plots",
    "figure2",
    "missing_text",
    "plots",
    "published6",
    "race_plot",
    "races_of",
    "rates_table",
    "related_text",
    "rounds_table",
    "score_table",
    "setup_table",
    "table6",
    "table7",
    "table8",
    "teacher_tables",
    "tried_table",
]

PUBLISHED = read_published("feded")
CORPORA = {"gad": "GAD", "euadr": "EU-ADR", "biored": "BioRED"}
TITLES = {
    **CORPORA,
    **{"fedavg": "FedAvg", "fedatt": "FedAtt", "public": "Public set alone"},
    **{"feded": "FedED", "feded-3": "FedED-3", "feded-5": "FedED-5"},
    **{"central": "Central", "single": "A site alone"},
}
RACERS = ("fedavg", "fedatt", "feded-3")  # methods of Figure 2 and Table 8
DISTILLED = RACERS[-1]
MORE_SITES = {f"C = {c:g}": f"c{c}" for c in (0.3, 0.5, 1.0)}
MORE_WORK = {f"B = {b}, E = {e}": f"b{b}-e{e}" for e in (1, 3) for b in (2, 8, 16)}
PRECISIONS = ("float32", "float16", "top-k")  # of predictions that are not protected
WAYS = {  # rows of Table 7, with the published one
    "FedAvg": ("fedavg-plain", "fedavg"),
    "FedAvg, masked": ("fedavg-masked", ""),
    "FedAvg, sealed": ("fedavg-sealed", ""),
    "FedAtt": ("fedatt-plain", "fedatt"),
    "FedED, float32": ("feded-float32", "feded"),
    "FedED, float16": ("feded-float16", ""),
    "FedED, top-1": ("feded-top-k", ""),
    "FedED, masked": ("feded-masked", ""),
    "FedED, sealed": ("feded-sealed", ""),
    "FedED, sealed+masked": ("feded-sealed-masked", ""),
}
_KNOWLEDGE = {  # figures of the algorithm, with their titles in the table and in the plot
    "teacher_accuracy": ("teacher, accuracy", "teacher"),
    "student_before": ("student before, accuracy", "student before"),
    "student_accuracy": ("student after, accuracy", "student after"),
    "agreement": ("teacher and student agree", "both agree"),
    "teacher_f1": ("teacher, F1", ""),
    "student_f1": ("student after, F1", ""),
}
_SHOWN_ROUNDS = (1, 2, 3, 5, 8, 12, 16, 20, 30, 40)


# Tables 3 to 6.


def score_table(measured: Measured, corpus: str, theirs: Mapping[str, Sequence[float]]) -> str:
    """Return every method on one corpus: medians over seeds in percent, beside the published figures."""
    rows = []
    for method in ("central", "single", "public", *FEDERATED):
        study = f"{corpus}-{method}"
        scores = measured.alone(corpus) if method == "single" else []
        if measured.has(study):
            scores = measured.scores(study)
        if scores:
            published = [f"{figure:.2f}" for figure in theirs[method]] if method in theirs else [NOTHING] * 3
            rows.append([TITLES[method], *_cells(scores), *published])
    head = ["P", "R", "F1", "min – max", "95% of the median", "seeds", "published, P", "R", "F1"]
    return table(["method", *head], rows)


def _cells(scores: Sequence[Scores]) -> list[str]:
    f1 = [own.f1 for own in scores]
    known = [[figure for figure in figures if figure is not None] for figures in zip(*scores, strict=True)]
    medians = [percent(median(figures) if figures else None) for figures in known]
    return [*medians, _span((min(f1), max(f1)) if len(f1) > 1 else None), _span(interval_of(f1)), str(len(scores))]


def _span(ends: tuple[float, float] | None) -> str:
    return NOTHING if ends is None else f"{100 * ends[0]:.1f} – {100 * ends[1]:.1f}"


def related_text(measured: Measured) -> str:
    """Return what can be had without learning, over all draws of a corpus with one relation."""
    found = measured.expected.get("all_related", {})
    texts = [f"{TITLES[corpus]} {100 * median(f1):.1f} ({_span((min(f1), max(f1)))})" for corpus, f1 in found.items()]
    return f"Calling every pair related gives an F1 of: {'; '.join(texts)}." if texts else ""


def all_related(sites: Path) -> dict[str, list[float]]:
    """Return by corpus with one relation the F1 of calling every pair of a draw's test part related."""
    draws, found = Draws.read(sites), dict[str, list[float]]()
    for corpus, own in draws.described.items():
        if len(own["task"]["relations"]) == 1:
            found[corpus] = []
            for name in [name for name in own["draws"] if name != TUNE]:
                related = [bool(document.relations) for document in Jsonl().read(draws.test(corpus, name))]
                found[corpus].append(round(SpanCounts(sum(related), len(related) - sum(related), 0).f1, 4))
    return found


def table6(measured: Measured) -> str:
    """Return F1 by type, the most frequent one first."""
    studies = measured.known({TITLES[method]: f"biored-{method}" for method in ("public", *FEDERATED)})
    if not studies:
        return ""
    scores = {title: measured.type_f1(study) for title, study in studies.items()}
    counts = measured.by_type(next(iter(studies.values())))
    tested = {name: own[0].gold for name, own in counts.items() if own[0].gold}
    rows = [
        [name, str(count), *(f"{100 * own.get(name, 0.0):.1f}" for own in scores.values())]
        for name, count in sorted(tested.items(), key=lambda item: -item[1])
    ]
    return table(["relation", "in the test part", *studies], rows)


def published6(measured: Measured) -> str:
    """Return the paper's Table 6, which is about another corpus."""
    rows = [[name, str(own["count"]), *(f"{f1:.2f}" for f1 in own["f1"])] for name, own in PUBLISHED["classes"].items()]
    return table(["relation of i2b2", "in both parts", "Public set alone", "FedAvg", "FedAtt", "FedED"], rows)


# Table 7.


def table7(measured: Measured) -> str:
    """Return the bytes from a site in a round, by method and protection."""
    rows = []
    for title, (way, theirs) in WAYS.items():
        sizes = [measured.upload(corpus, way) for corpus in CORPORA]
        if any(size is not None for size in sizes):
            cells = [NOTHING if size is None else size_text(round(size)) for size in sizes]
            published = PUBLISHED["uploads"].get(theirs, {})
            rows.append([title, *cells, *(published.get(corpus, NOTHING) for corpus in ("gad", "euadr", "i2b2"))])
    columns = [*CORPORA.values(), *(f"published, {name}" for name in ("GAD", "EU-ADR", "i2b2"))]
    return table(["", *columns], rows)


# Rounds to the target.


def rounds_table(measured: Measured) -> str:
    """Return the rounds by seed, and their median."""
    rows = []
    for method in (*FEDERATED, "public"):
        found = measured.base_rounds(method)
        if measured.target and found.values:
            ratio = measured.base_ratio(method) if method in FEDED else None
            by_seed = ", ".join(f"{seed}: {number(rounds)}" for seed, rounds in sorted(found.by_seed.items()))
            rows.append([TITLES[method], str(found), by_seed, str(ratio or NOTHING)])
    head = ["method", "rounds, median [min, max]", "by seed", "over FedAvg's, on the same draws"]
    return f"{table(head, rows)}\n\nThe target is an F1 of {100 * measured.target:.1f}." if rows else ""


Races = Mapping[str, Mapping[str, Rounds]]  # by setting and method


def races_of(measured: Measured, settings: Mapping[str, str]) -> Races:
    """Return the rounds of races; empty if none was measured."""
    names = {title: {method: f"race-{method}-{at}" for method in RACERS} for title, at in settings.items()}
    if not any(measured.has(name) for own in names.values() for name in own.values()):
        return {}
    return {title: {method: measured.race(name) for method, name in own.items()} for title, own in names.items()}


def _base(measured: Measured) -> dict[str, Rounds]:
    return {method: measured.raced_base_rounds(method) for method in RACERS}


def by_participation(measured: Measured) -> Races:
    """Return the rounds to the target by C; empty if no C but the paper's was raced."""
    races = races_of(measured, MORE_SITES)
    return {f"C = {BASE:g}": _base(measured), **races} if races else {}


def _race_cells(measured: Measured, cells: Mapping[str, Rounds]) -> list[str]:
    ratio: Ratio | None = measured.ratio(cells[DISTILLED], cells["fedavg"])
    return [*(str(cells[method]) for method in RACERS), str(ratio or NOTHING)]


def figure2(measured: Measured) -> str:
    """Return rounds against C."""
    races = by_participation(measured)
    rows = [[title.removeprefix("C = "), *_race_cells(measured, cells)] for title, cells in races.items()]
    return table(["C", *(TITLES[method] for method in RACERS), "FedED / FedAvg"], rows)


def table8(measured: Measured) -> str:
    """Return rounds against B and E, beside the paper's on i2b2."""
    races = races_of(measured, MORE_WORK)
    if not races:
        return ""
    rows = []
    for title, at in MORE_WORK.items():
        theirs = PUBLISHED["rounds"][at]
        ratio = theirs["feded"] / theirs["fedavg"]
        published = [*(number(rounds) for rounds in theirs.values()), f"{ratio:.2f}" if ratio else NOTHING]
        size, epochs = (part[4:] for part in title.split(", "))
        rows.append([size, epochs, *_race_cells(measured, races[title]), *published])
    rows.append(["4", "2", *_race_cells(measured, _base(measured)), *[NOTHING] * 4])
    published = [f"published, {name}" for name in ("FedAvg", "FedAtt", "FedED", "FedED / FedAvg")]
    return table(["B", "E", *(TITLES[method] for method in RACERS), "FedED / FedAvg", *published], rows)


# What the teacher knew.


def teacher_tables(measured: Measured) -> str:
    """Return the figures of some rounds for every FedED, with its plot."""
    parts = []
    for method in FEDED:
        if measured.figure_names(f"{RACED_ON}-{method}"):
            parts += [f"{TITLES[method]}:", teacher_table(measured, method), pictures(f"teacher-{method}")]
    return "\n\n".join(parts)


def teacher_table(measured: Measured, method: str) -> str:
    """Return what teacher and student knew in some rounds, and the F1 on the test part after them."""
    study = f"{RACED_ON}-{method}"
    by_figure = {name: dict(measured.figure(study, name)) for name in _KNOWLEDGE}
    tested = dict(measured.curve(study))
    last = max(tested)
    rounds = [at for at in (*(n for n in _SHOWN_ROUNDS if n < last), last) if at in tested]
    rows = [[str(at), *(percent(own.get(at)) for own in by_figure.values()), percent(tested[at])] for at in rounds]
    return table(["round", *(title for title, _ in _KNOWLEDGE.values()), "test part, F1"], rows)


# Plots.


def plots(measured: Measured) -> dict[str, Plot]:
    """Return all plots for which there are runs."""
    return {**curve_plots(measured), **teacher_plots(measured), **race_plot(measured)}


def curve_plots(measured: Measured) -> dict[str, Plot]:
    """Return F1 on the test part by round, a plot per corpus."""
    found = {}
    for corpus, title in CORPORA.items():
        series: dict[str, Curve] = {
            TITLES[method]: curve
            for method in (*FEDED, "fedavg", "fedatt", "public")
            if measured.has(study := f"{corpus}-{method}") and (curve := measured.curve(study))
        }
        if series and corpus == RACED_ON and measured.target:
            series["target"] = [(at, measured.target) for at, _ in max(series.values(), key=len)]
        if series:
            found[f"curves-{corpus}"] = learning_curves(series, Labels(f"{title}, test part", "round", "F1"))
    return found


def teacher_plots(measured: Measured) -> dict[str, Plot]:
    """Return what the ensemble and the central model knew of the public set, by round."""
    found = {}
    for method in FEDED:
        if measured.figure_names(study := f"{RACED_ON}-{method}"):
            curves = {title: measured.figure(study, name) for name, (_, title) in _KNOWLEDGE.items() if title}
            series: dict[str, Curve] = {title: curve for title, curve in curves.items() if curve}
            labels = Labels(f"{TITLES[method]}: the public set of {TITLES[RACED_ON]}", "round", "right, or alike")
            found[f"teacher-{method}"] = learning_curves(series, labels)
    return found


def race_plot(measured: Measured) -> dict[str, Plot]:
    """Return Figure 2; points that were not reached or not measured are left out."""
    races = by_participation(measured)
    if not races:
        return {}
    series: dict[str, Curve] = {}
    for method in RACERS:
        known = [(float(title[4:]), own[method].values) for title, own in races.items() if own[method].values]
        curve = [(round(c * SITES[RACED_ON]), median(values)) for c, values in known if median(values) < inf]
        series |= {TITLES[method]: curve} if curve else {}
    target = f"Rounds to an F1 of {100 * measured.target:.1f} on {TITLES[RACED_ON]}"
    return {"figure2": learning_curves(series, Labels(target, "sites asked in a round", "rounds"))}


# How it was measured.


def rates_table(measured: Measured) -> str:
    """Return the settings of each method."""
    rates = measured.expected.get("chosen", {}).get("rates", {})
    rows = [[TITLES[method], _settings(FEDED.get(method, {})), f"{rate:g}"] for method, rate in rates.items()]
    return table(["method", "settings", "rate"], rows)


def tried_table(measured: Measured) -> str:
    """Return what was tried before, with F1 on the held-out tenth in the mean of the last three rounds."""
    rows = []
    for run in json.loads(Path(__file__).with_name("tried.json").read_text(encoding="utf-8")):
        cells = [_settings(run["settings"]), run["rate"], run["schedule"], str(run["rounds"]), percent(run["f1"])]
        rows.append([TITLES[run["method"]], *cells])
    return table(["method", "settings", "rate", "schedule", "rounds", "F1"], rows)


def _settings(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"`{name} = {json.dumps(value)}`" for name, value in settings.items()) or NOTHING


def setup_table(measured: Measured) -> str:
    """Return the sizes of each corpus, and the rounds."""
    rows = []
    for corpus, draws in measured.expected.get("sites", {}).items():
        cells = []
        for part in ("train", "public", "test"):
            sizes = [draw[part]["pairs"] for name, draw in draws.items() if name.startswith("seed-")]
            cells.append(" – ".join(f"{size:,}" for size in sorted({min(sizes), max(sizes)})))
        rows.append([TITLES[corpus], *cells, str(measured.expected["settings"][f"{corpus}_rounds"])])
    return table(["corpus", "pairs for training", "of them public", "pairs for testing", "rounds"], rows)


def missing_text(measured: Measured) -> str:
    """Return which studies have no finished run, and which runs were cut off."""
    if not measured.studies:
        return ""
    missing = measured.missing([name for name in tables_of(VARIATIONS) if name != "tune"])
    cut = measured.expected.get("left_out", [])
    found = [f"Not measured: {'; '.join(missing)}." if missing else "Every study of the tables was measured."]
    lost = [name for name, own in measured.studies.items() if not all(own.get("f1", [True]))]
    found += [f"Cut off, and left out: {'; '.join(cut)}."] if cut else []
    found += [f"Of some runs only the F1 after the last round was kept: {', '.join(lost)}."] if lost else []
    return " ".join(found)
