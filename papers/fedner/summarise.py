"""The tables of `README.md` from measured runs.

    python -m papers.fedner.summarise runs/fedner/work/results.json

writes `expected.json`, the counts of every run in brief, and from it each table between its markers on the page.
Several files of results are joined. Without any, the tables are made from the `expected.json` that is there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from papers.common.page import fill, resampled, spread, table
from papers.common.runs import joined
from papers.fedner.variations import MASKED_NETWORK, NETWORKS, VARIATIONS

from wardround.evaluation.counts import SpanCounts, ratio

HERE = Path(__file__).resolve().parent
FIVE = ("ade", "bc5cdr", "bionlp13cg", "biored", "anatem")

# Table 2 of the paper: strict and relaxed F1 at CADEC, ADE Corpus, SMM4H.
PUBLISHED = {
    "CNN-CRF": (56.46, 78.80, 61.46, 71.60, 31.23, 56.39),
    "LSTM-CRF": (56.77, 79.79, 62.27, 74.59, 30.96, 58.85),
    "GRAM-CNN": (55.92, 80.66, 72.36, 81.86, 26.11, 60.94),
    "CNN-LSTM-CRF": (59.30, 81.46, 73.04, 83.50, 27.65, 61.99),
    "S-LSTM-CRF": (60.59, 81.59, 76.42, 84.48, 32.12, 62.79),
    "CNN-CLSTM-CRF": (60.14, 81.94, 78.83, 84.36, 30.95, 63.69),
    "ELMoNER": (63.86, 83.66, 81.62, 87.44, 31.51, 65.45),
    "FedNER": (65.16, 84.55, 82.57, 88.90, 32.69, 67.81),
}
_ROWS = dict(zip(PUBLISHED, (*(f"single-{network}" for network in NETWORKS), "fedner"), strict=True))


class Measured:
    """The counts of every run, by study."""

    def __init__(self, studies: Mapping[str, Any]) -> None:
        self.studies = studies

    def has(self, *names: str) -> bool:
        """Whether all of these were measured, with one seed in common at least."""
        return bool(self._seeds(names))

    def together(self, *names: str, site: str = "") -> list[list[float]]:
        """Strict F1 of several studies, over the seeds that all of them have."""
        common = self._seeds(names)
        scores = [dict(zip(self.studies[name]["seed"], self.f1(name, site=site), strict=True)) for name in names]
        return [[found[seed] for seed in common] for found in scores]

    def _seeds(self, names: Sequence[str]) -> list[int]:
        found = [set(self.studies[name]["seed"]) if name in self.studies else set() for name in names]
        return sorted(set.intersection(*found))

    def f1(self, study: str, *, site: str = "", reading: str = "strict") -> list[float]:
        """In percent, a seed each: of a site, or the mean over all sites."""
        sites = self.studies[study]["sites"]
        chosen = [sites[site]] if site else list(sites.values())
        by_seed = zip(*([100 * SpanCounts(*counts).f1 for counts in found[reading]] for found in chosen), strict=True)
        return [mean(scores) for scores in by_seed]


def condensed(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Runs as lists by study, a seed each; tuning is left out."""
    studies: dict[str, Any] = {}
    for name in VARIATIONS:
        mine = sorted((r for r in runs if r["variation"] == name and not r["tuned"]), key=lambda r: int(r["seed"]))
        if mine:
            figures = ("seed", "dev_f1", "rounds", "best_round", "seconds", "bytes_down", "bytes_up")
            studies[name] = {figure: [run[figure] for run in mine] for figure in figures}
            studies[name]["sites"] = {site: _site([run["sites"][site] for run in mine]) for site in mine[0]["sites"]}
    return studies


def _site(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    counted = {
        reading: [[int(scores[reading][count]) for count in ("tp", "fp", "fn")] for scores in found]
        for reading in ("strict", "relaxed")
    }
    return {**counted, "interval": [[round(end, 4) for end in scores["strict"]["interval"]] for scores in found]}


# Cells.


def gain(lower: Sequence[float], higher: Sequence[float]) -> str:
    """How much more, with an interval over seeds."""
    steps = [b - a for a, b in zip(lower, higher, strict=True)]
    low, high = resampled(lambda drawn: mean(steps[seed] for seed in drawn), len(steps))
    return f"{mean(steps):+.1f} [{low:+.1f}, {high:+.1f}]"


def closed(single: Sequence[float], federated: Sequence[float], pooled: Sequence[float]) -> str:
    """(federated − single) / (pooled − single), with an interval over seeds; nothing where pooling gains nothing."""

    def share(drawn: Sequence[int]) -> float:
        low, middle, high = (mean(row[seed] for seed in drawn) for row in (single, federated, pooled))
        return 100 * ratio(middle - low, high - low)

    every = range(len(single))
    if mean(pooled) <= mean(single):
        return "–"
    low, high = resampled(share, len(single))
    return f"{share(every):.0f}% [{low:.0f}, {high:.0f}]"


# Tables, in the order of the page.


def table2(measured: Measured) -> str:
    """Each row at each site, then what the paper has."""
    head = ["network", "mean, strict", "mean, relaxed", *FIVE]
    names = {**_ROWS, "all notes pooled": "pooled"}
    rows = [
        [
            row,
            *_readings(measured, study),
            *(spread(measured.f1(study, site=site)) for site in FIVE),
        ]
        for row, study in names.items()
        if measured.has(study)
    ]
    published = [[row, *(f"{figure:.2f}" for figure in figures)] for row, figures in PUBLISHED.items()]
    corpora = [f"{c}, {reading}" for c in ("CADEC", "ADE Corpus", "SMM4H") for reading in ("strict", "relaxed")]
    return f"{table(head, rows)}\n\nPublished:\n\n{table(['network', *corpora], published)}"


def gap(measured: Measured) -> str:
    """What pooling would gain, and how much of it FedNER does."""
    names = ("single-elmoner", "fedner", "pooled")
    if not measured.has(*names):
        return ""
    rows = []
    for site in ("", *FIVE):
        single, federated, pooled = measured.together(*names, site=site)
        cells = [spread(single), spread(federated), spread(pooled), gain(single, federated)]
        rows.append([site or "mean", *cells, closed(single, federated, pooled), sentences_interval(measured, site)])
    head = ["site", "single", "FedNER", "pooled", "gain", "of the gap closed", "FedNER, 95% over test sentences"]
    return table(head, rows)


def sentences_interval(measured: Measured, site: str) -> str:
    """What the site gave, mean over seeds."""
    if not site:
        return "–"
    low, high = zip(*measured.studies["fedner"]["sites"][site]["interval"], strict=True)
    return f"{100 * mean(low):.1f} – {100 * mean(high):.1f}"


def _pairs(measured: Measured, head: str, rows: Mapping[str, tuple[str, str]]) -> str:
    """Single beside FedNER: over all sites and at ADE, the corpus that the paper's figures show."""
    found = []
    for row, (one, other) in rows.items():
        if measured.has(one, other):
            cells = []
            for site in ("", "ade"):
                single, federated = measured.together(one, other, site=site)
                cells += [spread(single), spread(federated), gain(single, federated)]
            found.append([row, *cells])
    columns = [f"{name}, {site}" for site in ("mean", "ade") for name in ("single", "FedNER", "gain")]
    return table([head, *columns], found) if found else ""


def figure3(measured: Measured) -> str:
    """Training size."""
    rows = {f"{100 * r:.0f}%": (f"single-ratio-{r:.2f}", f"fedner-ratio-{r:.2f}") for r in (0.25, 0.5, 0.75)}
    return _pairs(measured, "training sentences", {**rows, "100%": ("single-elmoner", "fedner")})


def figure4(measured: Measured) -> str:
    """Decomposition."""
    rows = {
        "nothing": "share-nothing",
        "embeddings": "share-embeddings",
        "+ word CNN (FedNER)": "fedner",
        "+ BiLSTM": "share-lstm",
        "everything": "share-everything",
    }
    return _plain(measured, "shared", rows, FIVE)


def figure5(measured: Measured) -> str:
    """Overlapped entities."""
    rows = {f"{100 * r:.0f}%": (f"single-mask-{r:.2f}", f"fedner-mask-{r:.2f}") for r in (0.25, 0.5, 0.75, 1.0)}
    return _pairs(
        measured, "overlapped entities masked", {"0%": (f"single-{MASKED_NETWORK}", f"fedner-{MASKED_NETWORK}"), **rows}
    )


def figure6(measured: Measured) -> str:
    """Other networks."""
    rows = {row: (f"single-{network}", f"fedner-{network}") for row, network in zip(PUBLISHED, NETWORKS, strict=False)}
    return _pairs(measured, "network", {**rows, "ELMoNER": ("single-elmoner", "fedner")})


def algorithms(measured: Measured) -> str:
    """Other ways to aggregate, and what they send."""
    names = {
        "single": "single-elmoner",
        "FedNER": "fedner",
        "FedAvg": "fedavg",
        "FedProx": "fedprox",
        "FedAtt": "fedatt",
    }
    found = {row: study for row, study in names.items() if measured.has(study)}
    sent = [[row, f"{_megabytes(measured.studies[study]):.0f}"] for row, study in found.items()]
    plain = _plain(measured, "algorithm", names, FIVE).split("\n")
    extra = ["MB sent by all sites", "---", *(megabytes for _, megabytes in sent)]
    return "\n".join(f"{line} {cell} |" for line, cell in zip(plain, extra, strict=True)) if found else ""


def _megabytes(study: Mapping[str, Any]) -> float:
    return float(mean(study["bytes_up"])) / 1e6


def _plain(measured: Measured, head: str, rows: Mapping[str, str], sites: Sequence[str]) -> str:
    found = [
        [row, spread(measured.f1(study)), *(spread(measured.f1(study, site=site)) for site in sites)]
        for row, study in rows.items()
        if measured.has(study)
    ]
    return table([head, "mean", *sites], found) if found else ""


def one_corpus(measured: Measured, corpus: str) -> str:
    """Ten sites of one corpus; the mean over sites, all scored on the official test part."""
    names = {"FedNER, the paper's split": "fedner", "FedNER, everything": "everything", "pooled": "pooled"}
    single, pooled = f"{corpus}-single", f"{corpus}-pooled"
    if not measured.has(single, pooled):
        return ""
    rows = [["single", *_readings(measured, single), "–", "–"]]
    for row, name in names.items():
        if measured.has(single, study := f"{corpus}-{name}", pooled):
            alone, mine, best = measured.together(single, study, pooled)
            of_gap = "–" if name == "pooled" else closed(alone, mine, best)
            rows.append([row, *_readings(measured, study), gain(alone, mine), of_gap])
    return table(["ten sites", "strict", "relaxed", "gain", "of the gap closed"], rows)


def _readings(measured: Measured, study: str) -> list[str]:
    return [spread(measured.f1(study, reading=reading)) for reading in ("strict", "relaxed")]


TABLES: Mapping[str, Callable[[Measured], str]] = {
    "table2": table2,
    "gap": gap,
    "figure3": figure3,
    "figure4": figure4,
    "figure5": figure5,
    "figure6": figure6,
    "algorithms": algorithms,
    "bc2gm": lambda measured: one_corpus(measured, "bc2gm"),
    "bc5cdr-ten": lambda measured: one_corpus(measured, "bc5cdr"),
}


def condensed_files(files: Sequence[Path]) -> dict[str, Any]:
    """The results of several commands in brief."""
    head, runs = joined(files)
    return {**head, "studies": condensed(runs)}


def main() -> None:
    """Condense where results are given, then fill the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="*")
    parser.add_argument("--expected", type=Path, default=HERE / "expected.json")
    parser.add_argument("--readme", type=Path, default=HERE / "README.md")
    asked = parser.parse_args()
    if asked.results:
        brief = json.dumps(condensed_files(asked.results), separators=(",", ":"))
        asked.expected.write_text(brief + "\n", encoding="utf-8")
    measured = Measured(json.loads(asked.expected.read_text(encoding="utf-8"))["studies"])
    page = asked.readme.read_text(encoding="utf-8")
    for name, make in TABLES.items():
        page = fill(page, name, make(measured))
    asked.readme.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
