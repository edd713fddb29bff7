"""The tables of `README.md` from measured runs.

    python -m papers.fedhe.summarise runs/fedhe/work/results.json --overheads runs/fedhe/overheads.json

writes `expected.json`, the counts of every run and the overheads in brief, and from it each table between its markers
on the page, and the plots beside it. Several files of results are joined. Without any, the tables are made from the
`expected.json` that is there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from papers.common.page import fill, table
from papers.common.runs import joined
from papers.fedhe import published
from papers.fedhe.figures import overhead_tables, pictures, plots
from papers.fedhe.make_sites import FEW_CLIENTS, MANY, MANY_CLIENTS, SKEWED_CLIENTS
from papers.fedhe.measured import Measured, condensed
from papers.fedhe.variations import (
    CORPORA,
    MANY_NETWORK,
    MECHANISM_NETWORK,
    MECHANISMS,
    METHODS,
    NETWORKS,
    RANDOM_NETWORKS,
)

from wardround.evaluation.significance import Interval
from wardround.reports.plots import Labels, Plot, bar_chart

HERE = Path(__file__).resolve().parent
TITLES = {
    **{"bert-tiny": "BERT-tiny", "bert-mini": "BERT-mini", "bert-small": "BERT-small", "minilm": "MiniLM"},
    **{"bert-base": "BERT-base", "bc2gm": "BC2GM", "bc5cdr": "BC5CDR"},
    **{"single": "Single", "central": "Central", "federated": "Federated", "fedhe": "FedHE"},
}
_PARTS = {"training": "train", "test": "eval"}


# Cells.


def with_deviation(values: Sequence[float]) -> str:
    """The mean and the standard deviation, as the paper has them."""
    return f"{mean(values):.3f} ± {stdev(values):.3f}" if len(values) > 1 else f"{values[0]:.3f}"


def _scores(measured: Measured, study: str) -> list[str]:
    if not measured.has(study):
        return ["–", "–"]
    return [with_deviation(measured.f1(study, part)) for part in _PARTS]


def _published(network: str, method: str) -> list[str]:
    found = published.F1.get(network)
    return [f"{score:.3f} ± {deviation:.3f}" for score, deviation in found[method]] if found else ["–", "–"]


# Tables, in the order of the page.


def table4(measured: Measured) -> str:
    """Each network and method with the paper's rate, beside what the paper has."""
    columns = [f"{TITLES[corpus]}, {part}" for corpus in CORPORA for part in _PARTS.values()]
    rows = [
        [TITLES[network], TITLES[method], *cells, *_published(network, method)]
        for network in NETWORKS
        for method in METHODS
        if (cells := _cells(measured, network, method, rate="")) is not None
    ]
    head = ["network", "method", *columns, "published, BC2GM, train", "published, BC2GM, eval"]
    return table(head, rows) if rows else ""


def table4_chosen(measured: Measured) -> str:
    """The networks without pretrained weights with a rate that suits them."""
    columns = [f"{TITLES[corpus]}, {part}" for corpus in CORPORA for part in _PARTS.values()]
    rows = []
    for network in RANDOM_NETWORKS:
        for method in METHODS:
            cells = _cells(measured, network, method, rate="chosen")
            if cells is not None:
                rows.append([TITLES[network], _rate(measured, network), TITLES[method], *cells])
    return table(["network", "rate", "method", *columns], rows) if rows else ""


def _cells(measured: Measured, network: str, method: str, *, rate: str) -> list[str] | None:
    """Train and eval of both corpora, or nothing where neither was measured."""
    studies = ["-".join(filter(None, (corpus, network, method, rate))) for corpus in CORPORA]
    if not any(measured.has(study) for study in studies):
        return None
    return [cell for study in studies for cell in _scores(measured, study)]


def _rate(measured: Measured, network: str) -> str:
    names = (f"{corpus}-{network}-{method}-chosen" for corpus in CORPORA for method in METHODS)
    return next(f"{measured.rate(name):g}" for name in names if measured.has(name))


def sealed_beside_plain(measured: Measured) -> str:
    """What sealing changes, over the seeds that both have, beside what the choice of test sentences does."""
    rows = []
    for corpus in CORPORA:
        for network, rate in [*((n, "") for n in NETWORKS), *((n, "-chosen") for n in RANDOM_NETWORKS)]:
            plain, sealed = (f"{corpus}-{network}-{method}{rate}" for method in ("federated", "fedhe"))
            if measured.has(plain, sealed):
                title = f"{TITLES[network]}{', chosen rate' if rate else ''}"
                rows.append([TITLES[corpus], title, *_beside(measured, plain, sealed)])
    head = ["corpus", "network", "Federated", "FedHE", "difference", "Federated, 95% over test sentences"]
    return table(head, rows) if rows else ""


def _beside(measured: Measured, plain: str, sealed: str) -> list[str]:
    seeds = measured.seeds(plain, sealed)
    one, other = (measured.f1(study, "test", seeds=seeds) for study in (plain, sealed))
    interval = measured.interval(plain)
    return [
        *(f"{mean(scores):.3f}" for scores in (one, other)),
        f"{mean(other) - mean(one):+.4f}",
        f"{interval[0]:.3f} – {interval[1]:.3f}" if interval else "–",
    ]


def clients(measured: Measured) -> str:
    """More clients, and clients that differ."""
    groups = {f"{MANY}-{MANY_NETWORK}-{{}}-chosen": "2"}
    groups |= {f"{MANY}-{number}-{MANY_NETWORK}-{{}}": str(number) for number in MANY_CLIENTS}
    groups[f"{MANY}-{SKEWED_CLIENTS}-skewed-{MANY_NETWORK}-{{}}"] = f"{SKEWED_CLIENTS}, non-IID"
    rows = []
    for name, title in groups.items():
        studies = [name.format(method) for method in ("federated", "fedhe")]
        if any(measured.has(study) for study in studies):
            rows.append([title, *(cell for study in studies for cell in (_scores(measured, study)))])
    head = ["clients", *(f"{TITLES[m]}, {part}" for m in ("federated", "fedhe") for part in _PARTS.values())]
    return table(head, rows) if rows else ""


def mechanisms(measured: Measured) -> str:
    """The same study under each mechanism, and what a client sends."""
    rows = []
    for name in MECHANISMS:
        study = f"{MANY}-{FEW_CLIENTS}-{MECHANISM_NETWORK}-{name}"
        if measured.has(study):
            sent = f"{measured.bytes_up(study) / 1e6:.1f}"
            rows.append([name.replace("sealed-masked", "sealed+masked"), *_scores(measured, study), sent])
    return table(["mechanism", "train", "eval", "MB a client sends in a round"], rows) if rows else ""


def bars(measured: Measured) -> dict[str, Plot]:
    """Table 4 as a picture a corpus, each network with the rate that suits it; of several runs their range."""
    found = {}
    for corpus in CORPORA:
        names = {network: "-chosen" if network in RANDOM_NETWORKS else "" for network in NETWORKS}
        scores = {
            TITLES[method]: {
                TITLES[network]: _range(measured.f1(study, "test"))
                for network, rate in names.items()
                if measured.has(study := f"{corpus}-{network}-{method}{rate}")
            }
            for method in METHODS
        }
        if any(scores.values()):
            found[f"table4-{corpus}"] = bar_chart(scores, Labels(f"{TITLES[corpus]}, test part", "", "strict F1"))
    return found


TABLES: Mapping[str, Callable[[Measured], str]] = {
    "table4": table4,
    "table4-chosen": table4_chosen,
    "bars": lambda measured: pictures(*bars(measured)),
    "sealed": sealed_beside_plain,
    "clients": clients,
    "mechanisms": mechanisms,
}


def filled(page: str, expected: Mapping[str, Any]) -> str:
    """The page with every table made from what was measured."""
    measured = Measured(expected.get("studies", {}))
    for name, make in TABLES.items():
        page = fill(page, name, make(measured))
    for name, content in overhead_tables(expected.get("overheads", {}), TITLES).items():
        page = fill(page, name, content)
    return page


def gathered(results: Sequence[Path], overheads: Path | None, known: Mapping[str, Any]) -> dict[str, Any]:
    """What is given now in place of what was known."""
    found = dict(known)
    if results:
        head, runs = joined(results)
        head["sites"] = {group: len(sites) for group, sites in head["sites"].items()}
        found |= {**head, "studies": condensed(runs)}
    if overheads is not None:
        found["overheads"] = json.loads(overheads.read_text(encoding="utf-8"))
    return found


def _range(f1: Sequence[float]) -> float | Interval:
    return Interval(mean(f1), min(f1), max(f1)) if len(f1) > 1 else f1[0]


def main() -> None:
    """Condense where results are given, then fill the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="*")
    parser.add_argument("--overheads", type=Path, help="what overheads.py wrote")
    parser.add_argument("--expected", type=Path, default=HERE / "expected.json")
    parser.add_argument("--readme", type=Path, default=HERE / "README.md")
    asked = parser.parse_args()
    known = json.loads(asked.expected.read_text(encoding="utf-8")) if asked.expected.is_file() else {}
    expected = gathered(asked.results, asked.overheads, known)
    if asked.results or asked.overheads:
        asked.expected.write_text(json.dumps(expected, separators=(",", ":")) + "\n", encoding="utf-8")
    page = asked.readme.read_text(encoding="utf-8")
    asked.readme.write_text(filled(page, expected), encoding="utf-8")
    drawn = plots(expected.get("overheads", {}), TITLES) | bars(Measured(expected.get("studies", {})))
    for name, plot in drawn.items():
        (asked.readme.parent / f"{name}.svg").write_text(plot.to_svg() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
