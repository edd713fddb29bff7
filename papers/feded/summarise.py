"""The tables of `README.md` from measured runs.

    python -m papers.feded.summarise runs/feded/work/results.json --weighed runs/feded/weighed/results.json \
        --sites runs/feded/sites
    python -m papers.feded.summarise --check

The first writes `expected.json`, every run in brief, and from it each table between its markers on the page, and the
plots beside it. Several files of results are joined; `--weighed` is one with the runs of Table 7, which may have other
settings. Without any, the tables are made from the `expected.json` that is there. With `--check` nothing is written:
what was to be reached is told, and the exit status is 1 where it was not, or was not measured.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from papers.common.page import NOTHING, fill, table
from papers.common.runs import joined
from papers.common.summary import arguments_of, read_summary, tell, write_page, write_summary
from papers.feded import published
from papers.feded.bars import all_met, bars, bars_table, claims_table, type_f1, upload
from papers.feded.figures import (
    TITLES,
    curve_plots,
    figure2,
    pictures,
    plots,
    race_plot,
    rounds_table,
    table8,
    teacher_tables,
)
from papers.feded.make_sites import TUNE, Draws
from papers.feded.measure import CHOSEN
from papers.feded.measured import Measured, Scores, condensed, interval_of, left_out
from papers.feded.variations import CORPORA, FEDED, FEDERATED, PRECISIONS, PROTECTED, VARIATIONS
from papers.feded.variations import TABLES as TABLE_NAMES

from wardround.corpora.jsonl import Jsonl
from wardround.evaluation.counts import SpanCounts
from wardround.reports.plain_text import size_text

HERE = Path(__file__).resolve().parent
TRIED = HERE / "tried.json"
_ROWS = ("central", "single", "public", *FEDERATED)
_TYPED = ("public", *FEDERATED)
_SCORED = ["P", "R", "F1", "min – max", "95% of the median", "seeds"]
_WAYS = {
    "FedAvg": "fedavg-plain",
    "FedAvg, masked": "fedavg-masked",
    "FedAvg, sealed": "fedavg-sealed",
    "FedAtt": "fedatt-plain",
    **{f"FedED, {precision.replace('top-k', 'top-1')}": f"feded-{precision}" for precision in PRECISIONS},
    **{f"FedED, {way}": f"feded-{way.replace('+', '-')}" for way in PROTECTED},
}


# Tables 3 to 5.


def score_table(measured: Measured, corpus: str, theirs: Mapping[str, Sequence[float]]) -> str:
    """Every method on one corpus: medians over seeds, in percent, beside what the paper has."""
    rows = []
    for method in _ROWS:
        scores = _scores(measured, corpus, method)
        if scores:
            told = [f"{figure:.2f}" for figure in theirs[method]] if method in theirs else [NOTHING] * 3
            rows.append([TITLES[method], *_cells(scores), *told])
    return table(["method", *_SCORED, "published, P", "R", "F1"], rows) if rows else ""


def _scores(measured: Measured, corpus: str, method: str) -> list[Scores]:
    if method == "single":
        return measured.alone(corpus)
    return measured.scores(study) if measured.has(study := f"{corpus}-{method}") else []


def _cells(scores: Sequence[Scores]) -> list[str]:
    f1 = [own.f1 for own in scores]
    return [
        *(_median(figures) for figures in zip(*scores, strict=True)),
        _span((min(f1), max(f1)) if len(f1) > 1 else None),
        _span(interval_of(f1)),
        str(len(scores)),
    ]


def _median(figures: Sequence[float | None]) -> str:
    known = [figure for figure in figures if figure is not None]
    return f"{100 * median(known):.1f}" if known else NOTHING


def _span(ends: tuple[float, float] | None) -> str:
    return NOTHING if ends is None else f"{100 * ends[0]:.1f} – {100 * ends[1]:.1f}"


def related_text(expected: Mapping[str, Any]) -> str:
    """What can be had without learning, on every draw of a corpus with one relation."""
    found = expected.get("all_related", {})
    said = [f"{TITLES[corpus]} {100 * median(f1):.1f} ({_span((min(f1), max(f1)))})" for corpus, f1 in found.items()]
    return f"Calling every pair related gives an F1 of: {'; '.join(said)}." if said else ""


def all_related(sites: Path) -> dict[str, list[float]]:
    """By corpus with one relation, the F1 of calling every pair of a draw's test part related."""
    draws, found = Draws.read(sites), dict[str, list[float]]()
    for corpus, own in draws.described.items():
        if len(own["task"]["relations"]) == 1:
            tests = [Jsonl().read(draws.test(corpus, name)) for name in own["draws"] if name != TUNE]
            found[corpus] = [_f1_of_all([bool(document.relations) for document in test]) for test in tests]
    return found


def _f1_of_all(related: Sequence[bool]) -> float:
    return round(SpanCounts(sum(related), len(related) - sum(related), 0).f1, 4)


def table6(measured: Measured) -> str:
    """F1 by type, the most frequent one first."""
    studies = {method: name for method in _TYPED if measured.has(name := f"biored-{method}")}
    if not studies:
        return ""
    scores = {method: type_f1(measured, study) for method, study in studies.items()}
    tested = _tested(measured, next(iter(studies.values())))
    rows = [
        [name, str(count), *(f"{100 * own.get(name, 0.0):.1f}" for own in scores.values())]
        for name, count in sorted(tested.items(), key=lambda item: -item[1])
    ]
    return table(["relation", "in the test part", *(TITLES[method] for method in studies)], rows)


def _tested(measured: Measured, study: str) -> dict[str, int]:
    return {name: counts[0].gold for name, counts in measured.by_type(study).items() if counts[0].gold}


def published6(measured: Measured) -> str:
    """The paper's, of another corpus."""
    rows = [[name, str(count), *(f"{f1:.2f}" for f1 in scores)] for name, (count, scores) in published.CLASSES.items()]
    return table(["relation of i2b2", "in both parts", "Public set alone", "FedAvg", "FedAtt", "FedED"], rows)


# Table 7.


def table7(measured: Measured) -> str:
    """Bytes from a site in a round, by method and protection."""
    rows = []
    for title, way in _WAYS.items():
        sizes = [upload(measured, corpus, way) for corpus in CORPORA]
        if any(size is not None for size in sizes):
            cells = [NOTHING if size is None else size_text(round(size)) for size in sizes]
            rows.append([title, *cells, *_published_uploads(way)])
    columns = [*(TITLES[corpus] for corpus in CORPORA), *(f"published, {name}" for name in ("GAD", "EU-ADR", "i2b2"))]
    return table(["", *columns], rows) if rows else ""


def _published_uploads(way: str) -> list[str]:
    theirs = {"fedavg-plain": "fedavg", "fedatt-plain": "fedatt", "feded-float32": "feded"}
    found = published.UPLOADS[theirs[way]] if way in theirs else {}
    return [found.get(corpus, NOTHING) for corpus in ("gad", "euadr", "i2b2")]


# How it was measured.


def rates_table(expected: Mapping[str, Any]) -> str:
    """With what each method was measured."""
    rates = expected.get("chosen", {}).get("rates", {})
    rows = [[TITLES[method], _settings(FEDED.get(method, {})), f"{rate:g}"] for method, rate in rates.items()]
    return table(["method", "settings", "rate"], rows) if rows else ""


def tried_table(tried: Sequence[Mapping[str, Any]]) -> str:
    """What was tried before, with F1 on the held-out tenth in the mean of the last three rounds."""
    rows = [
        [TITLES[run["method"]], _settings(run["settings"]), run["rate"], run["schedule"], str(run["rounds"]), _f1(run)]
        for run in tried
    ]
    return table(["method", "settings", "rate", "schedule", "rounds", "F1"], rows)


def _settings(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"`{name} = {json.dumps(value)}`" for name, value in settings.items()) or NOTHING


def _f1(run: Mapping[str, Any]) -> str:
    return f"{100 * run['f1']:.1f}"


def setup_table(expected: Mapping[str, Any]) -> str:
    """Sizes of each corpus, and for how long was trained."""
    settings, rows = expected.get("settings", {}), []
    for corpus, draws in expected.get("sites", {}).items():
        sizes = [_sizes(draws, part) for part in ("train", "public", "test")]
        rows.append([TITLES[corpus], *sizes, str(settings[f"{corpus}_rounds"])])
    return (
        table(["corpus", "pairs for training", "of them public", "pairs for testing", "rounds"], rows) if rows else ""
    )


def _sizes(draws: Mapping[str, Any], part: str) -> str:
    found = [draw[part]["pairs"] for name, draw in draws.items() if name.startswith("seed-")]
    low, high = min(found), max(found)
    return f"{low:,}" if low == high else f"{low:,} – {high:,}"


def missing_text(expected: Mapping[str, Any]) -> str:
    """Which studies of the tables have no finished run, and which runs were cut off."""
    known = expected.get("studies", {})
    if not known:
        return ""
    said = [text for name in TABLE_NAMES if name != "tune" and (text := _missing(name, known))]
    cut = expected.get("left_out", [])
    found = [f"Not measured: {'; '.join(said)}."] if said else ["Every study of the tables was measured."]
    lost = [name for name, own in known.items() if not all(own.get("f1", [True]))]
    found += [f"Cut off, and left out: {'; '.join(cut)}."] if cut else []
    found += [f"Of some runs the F1 after the last round alone was kept: {', '.join(lost)}."] if lost else []
    return " ".join(found)


def _missing(name: str, known: Mapping[str, Any]) -> str:
    studies = [study for study, variation in VARIATIONS.items() if variation.table == name]
    missing = [study for study in studies if study not in known]
    return f"all of {name}" if missing == studies else f"of {name} {', '.join(missing)}" if missing else ""


TABLES: Mapping[str, Callable[[Measured], str]] = {
    "bars": bars_table,
    "claims": claims_table,
    "table3": lambda measured: score_table(measured, "gad", published.SCORES["gad"]),
    "curves-gad": lambda measured: pictures(*(name for name in curve_plots(measured) if name == "curves-gad")),
    "table4": lambda measured: score_table(measured, "euadr", published.SCORES["euadr"]),
    "table5": lambda measured: score_table(measured, "biored", published.SCORES["i2b2"]),
    "curves": lambda measured: pictures(*(name for name in curve_plots(measured) if name != "curves-gad")),
    "table6": table6,
    "published6": published6,
    "table7": table7,
    "rounds": rounds_table,
    "figure2": lambda measured: "\n\n".join(filter(None, (figure2(measured), pictures(*race_plot(measured))))),
    "table8": table8,
    "teacher": teacher_tables,
}


def measured_of(expected: Mapping[str, Any]) -> Measured:
    """What `expected.json` holds."""
    target = float(expected.get("chosen", {}).get("target", 0.0))
    limit = int(expected.get("settings", {}).get("gad_rounds", 0))
    return Measured(expected.get("studies", {}), target=target, limit=limit)


def filled(page: str, expected: Mapping[str, Any]) -> str:
    """The page with every table made from what was measured."""
    measured = measured_of(expected)
    for name, make in TABLES.items():
        page = fill(page, name, make(measured))
    page = fill(page, "setup", setup_table(expected))
    page = fill(page, "related", related_text(expected))
    page = fill(page, "rates", rates_table(expected))
    page = fill(page, "tried", tried_table(json.loads(TRIED.read_text(encoding="utf-8"))))
    return fill(page, "missing", missing_text(expected))


def gathered(asked: argparse.Namespace, known: Mapping[str, Any]) -> dict[str, Any]:
    """What is given now in place of what was known."""
    found, studies = dict(known), dict(known.get("studies", {}))
    if asked.results:
        head, runs = joined(asked.results)
        weighings = {name: own for name, own in studies.items() if VARIATIONS[name].counts_bytes}
        studies = {**weighings, **condensed(runs)}
        found |= {**head, "chosen": json.loads(asked.chosen.read_text(encoding="utf-8")), "left_out": left_out(runs)}
    if asked.weighed:
        studies |= condensed(joined(asked.weighed)[1])
    if asked.sites:
        found["all_related"] = all_related(asked.sites)
    return found | {"studies": studies}


def main() -> None:
    """Condense where results are given, then fill the page; or tell what was reached."""
    asked = arguments()
    known = read_summary(asked.expected)
    if asked.check:
        measured = measured_of(known)
        sys.exit(tell(bars(measured), met=all_met(measured)))
    expected = gathered(asked, known)
    if asked.results or asked.weighed or asked.sites:
        write_summary(asked.expected, expected)
    page = asked.readme.read_text(encoding="utf-8")
    write_page(asked.readme, filled(page, expected), plots(measured_of(expected)))


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = arguments_of(__doc__, HERE)
    parser.add_argument("--weighed", type=Path, nargs="+", default=[], help="results of the runs of Table 7")
    parser.add_argument("--sites", type=Path, help="the folder make_sites wrote, to see what needs no learning")
    parser.add_argument("--chosen", type=Path, default=CHOSEN, help="the rates and the target of the runs")
    return parser.parse_args()


if __name__ == "__main__":
    main()
