"""What `papers/README.md` says of the FedHE paper, from `expected.json`."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean
from typing import Any

from papers.common.overview import Found, Item, Paper, Way, listed
from papers.fedhe import published
from papers.fedhe.measured import Measured
from papers.fedhe.summarise import TITLES
from papers.fedhe.variations import CORPORA, METHODS, NETWORKS, RANDOM_NETWORKS

_OVERHEADS = Way("overheads", file="overheads.json", option="--overheads")
_RANDOM = "random numbers of the networks' sizes"
_ONE_CORE = "one core; BFV, packed, in place of CKKS, which is measured beside it"
_SHOWN = ("bert-tiny", "bert-mini")
_CLIENTS = 22


def _networks(expected: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = expected.get("overheads", {}).get("networks", {})
    return {name: found[name] for name in _SHOWN if name in found}


def _table2(expected: Mapping[str, Any]) -> Found:
    told, ratios = [], dict[str, float]()
    for network, found in _networks(expected).items():
        plain = 4 * found["parameters"]
        sizes = {way.upper(): own["bytes"] for way, own in found["ways"].items() if "-" not in way}
        ratios |= {way: size / plain for way, size in sizes.items()}
        sealed = ", ".join(f"{way} {size / 1e6:.1f} MB" for way, size in sizes.items())
        told.append(f"{TITLES[network]} {plain / 1e6:.1f} MB, sealed {sealed}")
    times = ", ".join(f"with {way} {ratio:.2f} times" for way, ratio in ratios.items())
    return Found("; ".join(told), shows=f"A sealed update is {times} as large as a plain one.") if told else Found()


def _table3(expected: Mapping[str, Any]) -> Found:
    told, faster = [], []
    for network, found in _networks(expected).items():
        ways = {way: own for way, own in found["ways"].items() if "-" not in way}
        seconds = {way: [mean(own[act]) for act in ("seal", "open")] for way, own in ways.items()}
        told += [
            f"{TITLES[network]}, {way.upper()}: {seal:.2f} s and {open_:.2f} s"
            for way, (seal, open_) in seconds.items()
        ]
        faster += [published.TIMES[network]["seal"][0] / seconds["bfv"][0]]
    if not told:
        return Found()
    times = " and ".join(f"{ratio:.0f}" for ratio in faster)
    return Found(f"sealing and opening: {'; '.join(told)}", shows=f"Sealing takes {times} times less than published.")


def _figure1(expected: Mapping[str, Any]) -> Found:
    told, grown = [], list[float]()
    for network, found in _networks(expected).items():
        for way, points in found["aggregation"].items():
            by_clients = {point["clients"]: point for point in points}
            if "-" not in way and _CLIENTS in by_clients:
                at, most = by_clients[_CLIENTS], by_clients[max(by_clients)]
                told.append(f"{TITLES[network]}, {way.upper()}: {at['seconds']:.1f} s, {at['peak_mb']:,} MB")
                grown.append(most["peak_mb"] / at["peak_mb"])
    if not told:
        return Found()
    shows = f"With more clients still, memory is at most {max(grown):.2f} times as large: the sum is kept running."
    return Found(f"{_CLIENTS} clients: {'; '.join(told)}", shows=shows)


def _table4(expected: Mapping[str, Any]) -> Found:
    measured = Measured(expected.get("studies", {}))
    told, seeds, apart = [], list[int](), list[float]()
    for network in NETWORKS:
        rate = "-chosen" if network in RANDOM_NETWORKS else ""
        names = {TITLES[method]: f"bc2gm-{network}-{method}{rate}" for method in METHODS}
        known = {title: name for title, name in names.items() if measured.has(name)}
        if known:
            scores = {title: mean(measured.f1(name, "test")) for title, name in known.items()}
            told.append(f"{TITLES[network]}: {listed(scores, digits=3)}")
            seeds += [len(measured.studies[name]["seed"]) for name in known.values()]
    for corpus in CORPORA:
        for network in NETWORKS:
            plain, sealed = (f"{corpus}-{network}-{method}" for method in ("federated", "fedhe"))
            if seeds_of_both := measured.seeds(plain, sealed):
                one, other = (mean(measured.f1(study, "test", seeds=seeds_of_both)) for study in (plain, sealed))
                apart += [abs(one - other)]
    if not told:
        return Found()
    shows = f"With the paper's rate sealed and plain differ by {max(apart):.4f} at most." if apart else ""
    return Found(f"F1 on BC2GM's test part: {'; '.join(told)}", seeds, shows)


def _published4() -> str:
    told = [
        f"{TITLES[network]}: {listed({TITLES[method]: scores[1][0] for method, scores in found.items()}, digits=3)}"
        for network, found in published.F1.items()
    ]
    return "; ".join(told)


def _published2() -> str:
    shown = {network: published.SIZES[network] for network in _SHOWN}
    return "; ".join(f"{TITLES[network]} {plain}, sealed {sealed}" for network, (_, plain, sealed) in shown.items())


def _published3() -> str:
    shown = {network: [published.TIMES[network][act][0] for act in ("seal", "open")] for network in _SHOWN}
    return "; ".join(f"{TITLES[network]} {seal:.2f} s and {open_:.2f} s" for network, (seal, open_) in shown.items())


def _published1() -> str:
    told = [
        f"{TITLES[network]}, {clients} clients: {what}"
        for network, points in published.AGGREGATION.items()
        for clients, what in points
    ]
    return "; ".join(told)


PAPER = Paper(
    "fedhe",
    "FedHE (Pontes)",
    (
        Item(
            "table1",
            "Table 1: corpora",
            "BC2GM, BC5CDR, their official parts",
            "CoNLL-2003, BC2GM, BC4CHEMD: 14,987, 26,006 and 94,170 training sentences",
            "nothing is measured in it; BC5CDR stands for the two that are not at hand",
            "departures",
        ),
        Item(
            "table2",
            "Table 2: sizes",
            _RANDOM,
            _published2(),
            _ONE_CORE,
            "table-2-sizes",
            ("table2",),
            _OVERHEADS,
            _table2,
        ),
        Item(
            "table3",
            "Table 3: times",
            _RANDOM,
            _published3(),
            _ONE_CORE,
            "table-3-times",
            ("table3",),
            _OVERHEADS,
            _table3,
        ),
        Item(
            "figure1",
            "Figure 1: aggregation",
            _RANDOM,
            _published1(),
            _ONE_CORE,
            "figure-1-aggregation",
            ("figure1",),
            _OVERHEADS,
            _figure1,
        ),
        Item(
            "table4",
            "Table 4: F1",
            "BC2GM and BC5CDR between two clients",
            f"BC2GM, {_published4()}",
            "the compact BERTs have no pretrained weights here and a rate of their own; fewer local epochs",
            "table-4-f1",
            ("table4", "table4-chosen", "sealed"),
            Way(only=("table4", "table4-chosen")),
            _table4,
        ),
    ),
)
