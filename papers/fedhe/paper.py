"""Tables and plots of the FedHE paper's page, and its lines in the overview."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
from papers.choose import finished, highest
from papers.common.cells import NOTHING, Studies, listed, pictures, table
from papers.common.paper import Found, Paper, read_json, read_published
from papers.fedhe.studies import VARIATIONS, FedHe, Study

from wardround.evaluation.counts import SpanCounts
from wardround.evaluation.significance import Interval
from wardround.reports.plots import Labels, Plot, bar_chart, learning_curves

__all__ = ["PAPER", "PUBLISHED", "Measured", "choose_rates"]

PUBLISHED = read_published("fedhe")
CORPORA = {"bc2gm": "BC2GM", "bc5cdr": "BC5CDR"}
RANDOM_NETWORKS = {"bert-tiny": "BERT-tiny", "bert-mini": "BERT-mini", "bert-small": "BERT-small"}  # not pretrained
NETWORKS = {**RANDOM_NETWORKS, "minilm": "MiniLM"}
METHODS = {"single": "Single", "central": "Central", "federated": "Federated", "fedhe": "FedHE"}
TITLES = {**NETWORKS, "bert-base": "BERT-base", **CORPORA, **METHODS}
CIPHERS = {"bfv": "BFV", "bfv-compact": "BFV, compact", "ckks": "CKKS"}
_PARTS = {"training": "train", "test": "eval"}
_FIGURES = ("seed", "dev_f1", "rounds", "best_round", "seconds", "bytes_down", "bytes_up", "learning_rate")
_SHOWN = ("bert-tiny", "bert-mini")  # networks of the overview
_CLIENTS = 22  # of the overview


class Measured(Studies):
    """The summary: the counts of every run, and the overheads."""

    variations = VARIATIONS

    @property
    def networks(self) -> Mapping[str, Any]:
        """Return the overheads by network."""
        found: Mapping[str, Any] = self.expected.get("overheads", {}).get("networks", {})
        return found

    def f1(self, study: str, part: str, *, seeds: Sequence[int] | None = None) -> list[float]:
        """Return strict F1 on the `test` or `training` part by model and seed; a client alone has its own model."""
        places = [self.studies[study]["seed"].index(seed) for seed in seeds or self.studies[study]["seed"]]
        return [SpanCounts(*own[place]).f1 for own in self.studies[study][part].values() for place in places]

    @classmethod
    def gathered(cls, known: Mapping[str, Any], head: Mapping[str, Any], runs: Any, chosen: Any) -> dict[str, Any]:
        """Return the summary; of sites only how many there are, and the overheads that were known."""
        sites = {group: len(own) for group, own in head["sites"].items()}
        return {**known, **head, "sites": sites, "studies": cls.condense(runs, head)}

    @classmethod
    def summary_of(cls, variation: Study, runs: Sequence[Mapping[str, Any]], head: Mapping[str, Any]) -> dict[str, Any]:
        """Return counts by model: each client's own, or the sum over all clients, which share one model."""
        if "tune" in variation.tables:
            return {}
        clients = list(runs[0]["sites"])

        def counts(run: Mapping[str, Any], client: str, part: str) -> list[int]:
            site = run["sites"][client]
            found = site["training"] if part == "training" else [site["strict"][name] for name in ("tp", "fp", "fn")]
            return [int(count) for count in found]

        found: dict[str, Any] = {figure: [run[figure] for run in runs] for figure in _FIGURES}
        found["clients"] = len(clients)
        for part in ("test", "training"):
            if variation.algorithm == "single":
                found[part] = {client: [counts(run, client, part) for run in runs] for client in clients}
            else:
                by_run = [[counts(run, client, part) for client in clients] for run in runs]
                found[part] = {"all": [[sum(column) for column in zip(*rows, strict=True)] for rows in by_run]}
        ends = [run["sites"][clients[0]]["strict"]["interval"] for run in runs]
        # With two clients at most, the first one is scored on all test sentences.
        found["interval"] = [[round(end, 4) for end in own] for own in ends] if len(clients) <= 2 else []
        return found


def choose_rates(runs: Sequence[Mapping[str, Any]], head: Any = None, known: Any = None) -> dict[str, float]:
    """Return the rate with the highest development F1 for each network without pretrained weights."""
    chosen = {}
    for network in RANDOM_NETWORKS:
        studies = {v.rate: v.name for v in VARIATIONS.values() if "tune" in v.tables and v.encoder == network}
        tried = {rate: mean(float(run["dev_f1"]) for run in finished(runs, name)) for rate, name in studies.items()}
        chosen[network] = float(highest(network, tried))
    return chosen


# Table 4, and beyond it.


def _scores(measured: Measured, *studies: str) -> list[str]:
    """Return mean and standard deviation on both parts of each study, as the paper has them."""
    cells = []
    for study, part in product(studies, _PARTS):
        values = measured.f1(study, part) if measured.has(study) else []
        deviation = f" ± {stdev(values):.3f}" if len(values) > 1 else ""
        cells.append(f"{mean(values):.3f}{deviation}" if values else NOTHING)
    return cells


def table4(measured: Measured) -> str:
    """Return each network and method with the paper's rate, beside the published figures."""
    rows = []
    for network, method in product(NETWORKS, METHODS):
        studies = [f"{corpus}-{network}-{method}" for corpus in CORPORA]
        if any(map(measured.has, studies)):
            theirs = [f"{f1:.3f} ± {sd:.3f}" for f1, sd in PUBLISHED["f1"].get(network, {}).get(method, ())]
            cells = [*_scores(measured, *studies), *(theirs or [NOTHING, NOTHING])]
            rows.append([TITLES[network], TITLES[method], *cells])
    published = ["published, BC2GM, train", "published, BC2GM, eval"]
    return table(["network", "method", *_columns(CORPORA), *published], rows)


def table4_chosen(measured: Measured) -> str:
    """Return the networks without pretrained weights with the rate chosen for each."""
    rows = []
    for network, method in product(RANDOM_NETWORKS, METHODS):
        studies = [f"{corpus}-{network}-{method}-chosen" for corpus in CORPORA]
        if known := list(filter(measured.has, studies)):
            rate = f"{float(measured.studies[known[0]]['learning_rate'][0]):g}"
            rows.append([TITLES[network], rate, TITLES[method], *_scores(measured, *studies)])
    return table(["network", "rate", "method", *_columns(CORPORA)], rows)


def _columns(names: Sequence[str] | Mapping[str, str]) -> list[str]:
    return [f"{TITLES[name]}, {part}" for name in names for part in _PARTS.values()]


def _sealed_pairs(measured: Measured, corpus: str, networks: Mapping[str, str], rate: str = "") -> dict[str, list[Any]]:
    """Return by network the studies of plain and of sealed sums, and their F1 over the seeds that both have."""
    found = {}
    for network in networks:
        names = [f"{corpus}-{network}-{method}{rate}" for method in ("federated", "fedhe")]
        if seeds := measured.seeds(*names):
            found[network] = [names[0], *(mean(measured.f1(name, "test", seeds=seeds)) for name in names)]
    return found


def sealed_beside_plain(measured: Measured) -> str:
    """Return what encryption changes, beside the interval over test sentences."""
    rows = []
    for corpus in CORPORA:
        for networks, rate, suffix in ((NETWORKS, "", ""), (RANDOM_NETWORKS, "-chosen", ", chosen rate")):
            for network, (study, plain, sealed) in _sealed_pairs(measured, corpus, networks, rate).items():
                interval = measured.studies[study]["interval"]
                ends = f"{interval[0][0]:.3f} – {interval[0][1]:.3f}" if interval else NOTHING
                scores = [f"{plain:.3f}", f"{sealed:.3f}", f"{sealed - plain:+.4f}"]
                rows.append([TITLES[corpus], f"{TITLES[network]}{suffix}", *scores, ends])
    head = ["corpus", "network", "Federated", "FedHE", "difference", "Federated, 95% over test sentences"]
    return table(head, rows)


def clients(measured: Measured) -> str:
    """Return more clients, and clients that differ."""
    groups = {"2": "bc5cdr-bert-mini-{}-chosen", "22": "bc5cdr-22-bert-mini-{}", "64": "bc5cdr-64-bert-mini-{}"}
    groups["22, non-IID"] = "bc5cdr-22-skewed-bert-mini-{}"
    rows = []
    for title, name in groups.items():
        studies = [name.format(method) for method in ("federated", "fedhe")]
        if any(map(measured.has, studies)):
            rows.append([title, *_scores(measured, *studies)])
    return table(["clients", *_columns(("federated", "fedhe"))], rows)


def mechanisms(measured: Measured) -> str:
    """Return the same study under each mechanism, and what a client sends, scores included."""
    rows = []
    for name in [name for name, variation in VARIATIONS.items() if "mechanisms" in variation.tables]:
        if measured.has(name):
            found = measured.studies[name]
            sent = found["bytes_up"][0] / found["rounds"][0] / found["clients"] / 1e6
            title = name.removeprefix("bc5cdr-4-bert-tiny-").replace("sealed-masked", "sealed+masked")
            rows.append([title, *_scores(measured, name), f"{sent:.1f}"])
    return table(["mechanism", "train", "eval", "MB a client sends in a round"], rows)


def bars(measured: Measured) -> dict[str, Plot]:
    """Return Table 4 as a plot per corpus, each network with the rate that suits it, with the range over runs."""
    found = {}
    for corpus in CORPORA:
        scores: dict[str, dict[str, float | Interval]] = {}
        for method, network in product(METHODS, NETWORKS):
            study = f"{corpus}-{network}-{method}{'-chosen' if network in RANDOM_NETWORKS else ''}"
            if measured.has(study):
                f1 = measured.f1(study, "test")
                own = Interval(mean(f1), min(f1), max(f1)) if len(f1) > 1 else f1[0]
                scores.setdefault(TITLES[method], {})[TITLES[network]] = own
        if scores:
            found[f"table4-{corpus}"] = bar_chart(scores, Labels(f"{TITLES[corpus]}, test part", "", "strict F1"))
    return found


# Overheads: Tables 2 and 3, Figure 1.


def sizes(measured: Measured) -> str:
    """Return the bytes of a plain update and of one encrypted in each way."""
    rows = []
    for network, found in measured.networks.items():
        plain = 4 * found["parameters"]
        cells = [f"{found['parameters']:,}", f"{plain / 1e6:,.1f} MB"]
        for way in CIPHERS:
            size = found["ways"].get(way, {}).get("bytes")
            cells.append(NOTHING if size is None else f"{size / 1e6:,.1f} MB ({size / plain:.2f}×)")
        rows.append([TITLES[network], *cells, *PUBLISHED["sizes"].get(network, [NOTHING, NOTHING])])
    columns = ["parameters", "plain, float32", *CIPHERS.values(), "published, plain", "published, FedHE"]
    return table(["network", *columns], rows)


def times(measured: Measured) -> str:
    """Return mean, standard deviation and 99th percentile, as the paper has them."""
    rows = []
    for network, found in measured.networks.items():
        for way, cost in found["ways"].items():
            cells = []
            for seconds in (cost["seal"], cost["open"]):
                deviation = f"{stdev(seconds):.3f}" if len(seconds) > 1 else NOTHING
                cells += [f"{mean(seconds):.3f}", deviation, f"{float(np.percentile(seconds, 99)):.3f}"]
            rows.append([TITLES[network], CIPHERS[way], str(len(cost["seal"])), *cells])
        if theirs := PUBLISHED["times"].get(network):
            figures = [f"{figure:.3f}" for act in ("seal", "open") for figure in theirs[act]]
            rows.append([TITLES[network], "published", NOTHING, *figures])
    figures = [f"{act}, {figure}" for act in ("encrypt", "decrypt") for figure in ("mean", "sd", "99th")]
    return table(["network", "way", "times", *figures], rows)


def aggregation(measured: Measured) -> str:
    """Return seconds and peak memory of the coordinator by number of clients."""
    rows = []
    for network, found in measured.networks.items():
        by_way = {way: {p["clients"]: p for p in points} for way, points in found["aggregation"].items()}
        published = PUBLISHED["aggregation"].get(network, {})
        for number in sorted({number for points in by_way.values() for number in points}):
            points = [by_way.get(way, {}).get(number) for way in CIPHERS]
            cells = [NOTHING if p is None else f"{p['seconds']:.1f} s, {p['peak_mb']:,} MB" for p in points]
            rows.append([TITLES[network], str(number), *cells, published.get(str(number), NOTHING)])
    shown = table(["network", "clients", *CIPHERS.values(), "published"], rows)
    return f"{shown}\n\n{pictures('figure1-seconds', 'figure1-memory')}" if rows else ""


def aggregation_plots(measured: Measured) -> dict[str, Plot]:
    """Return both panels of Figure 1."""
    seconds, memory = (
        {
            f"{TITLES[network]}, {CIPHERS[way]}": [(point["clients"], point[figure]) for point in points]
            for network, found in measured.networks.items()
            for way, points in found["aggregation"].items()
        }
        for figure in ("seconds", "peak_mb")
    )
    if not seconds:
        return {}
    return {
        "figure1-seconds": learning_curves(seconds, Labels("Adding sealed updates", "clients", "seconds")),
        "figure1-memory": learning_curves(memory, Labels("Memory of the coordinator", "clients", "peak, MB")),
    }


# The overview.


def _shown(measured: Measured) -> dict[str, Any]:
    return {name: measured.networks[name] for name in _SHOWN if name in measured.networks}


def _found_table2(measured: Measured) -> Found:
    texts, ratios = [], dict[str, float]()
    for network, found in _shown(measured).items():
        plain = 4 * found["parameters"]
        sizes = {way.upper(): own["bytes"] for way, own in found["ways"].items() if "-" not in way}
        ratios |= {way: size / plain for way, size in sizes.items()}
        sealed = ", ".join(f"{way} {size / 1e6:.1f} MB" for way, size in sizes.items())
        texts.append(f"{TITLES[network]} {plain / 1e6:.1f} MB, sealed {sealed}")
    times = ", ".join(f"with {way} {ratio:.2f} times" for way, ratio in ratios.items())
    return Found("; ".join(texts), shows=f"A sealed update is {times} as large as a plain one.") if texts else Found()


def _found_table3(measured: Measured) -> Found:
    texts, faster = [], []
    for network, found in _shown(measured).items():
        for way in [way for way in found["ways"] if "-" not in way]:
            seal, open_ = (mean(found["ways"][way][act]) for act in ("seal", "open"))
            texts.append(f"{TITLES[network]}, {way.upper()}: {seal:.2f} s and {open_:.2f} s")
        faster.append(PUBLISHED["times"][network]["seal"][0] / mean(found["ways"]["bfv"]["seal"]))
    if not texts:
        return Found()
    ratios = " and ".join(f"{ratio:.0f}" for ratio in faster)
    return Found(f"sealing and opening: {'; '.join(texts)}", shows=f"Sealing takes {ratios} times less than published.")


def _found_figure1(measured: Measured) -> Found:
    texts, grown = [], list[float]()
    for network, found in _shown(measured).items():
        for way, points in found["aggregation"].items():
            by_clients = {point["clients"]: point for point in points}
            if "-" not in way and _CLIENTS in by_clients:
                at, most = by_clients[_CLIENTS], by_clients[max(by_clients)]
                texts.append(f"{TITLES[network]}, {way.upper()}: {at['seconds']:.1f} s, {at['peak_mb']:,} MB")
                grown.append(most["peak_mb"] / at["peak_mb"])
    if not texts:
        return Found()
    shows = f"With more clients still, memory is at most {max(grown):.2f} times as large: the sum is kept running."
    return Found(f"{_CLIENTS} clients: {'; '.join(texts)}", shows=shows)


def _found_table4(measured: Measured) -> Found:
    texts, seeds = [], list[int]()
    for network in NETWORKS:
        rate = "-chosen" if network in RANDOM_NETWORKS else ""
        names = {TITLES[method]: f"bc2gm-{network}-{method}{rate}" for method in METHODS}
        if known := measured.known(names):
            scores = {title: mean(measured.f1(name, "test")) for title, name in known.items()}
            texts.append(f"{TITLES[network]}: {listed(scores, digits=3)}")
            seeds += measured.seed_counts(known)
    if not texts:
        return Found()
    pairs = [own for corpus in CORPORA for own in _sealed_pairs(measured, corpus, NETWORKS).values()]
    apart = [abs(plain - sealed) for _, plain, sealed in pairs]
    shows = f"With the paper's rate sealed and plain differ by {max(apart):.4f} at most." if apart else ""
    return Found(f"F1 on BC2GM's test part: {'; '.join(texts)}", seeds, shows)


def _gather(expected: dict[str, Any], files: Mapping[str, list[Path]]) -> None:
    for path in files["overheads"]:
        expected["overheads"] = read_json(path)


PAPER = Paper(
    "fedhe",
    sweep=FedHe,
    measured=Measured,
    tables={
        "table4": table4,
        "table4-chosen": table4_chosen,
        "bars": lambda measured: pictures(*bars(measured)),
        "sealed": sealed_beside_plain,
        "clients": clients,
        "mechanisms": mechanisms,
        "table2": sizes,
        "table3": times,
        "figure1": aggregation,
    },
    found={"table2": _found_table2, "table3": _found_table3, "figure1": _found_figure1, "table4": _found_table4},
    plots=lambda measured: aggregation_plots(measured) | bars(measured),
    choices={"rates": choose_rates},
    files={"overheads": "the file that papers.fedhe.overheads wrote"},
    gather=_gather,
)
