"""Tables of the FedNER paper's page, and its lines in the overview."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from papers.common.cells import NOTHING, Studies, bootstrap_interval, listed, table, with_range
from papers.common.paper import Found, Paper, read_published
from papers.fedner.studies import VARIATIONS, FedNer, Study

from wardround.evaluation.counts import SpanCounts, ratio

__all__ = ["FIVE", "PAPER", "PUBLISHED", "Measured", "closed", "gap", "one_corpus"]

FIVE = ("ade", "bc5cdr", "bionlp13cg", "biored", "anatem")
PUBLISHED: Mapping[str, Sequence[float]] = read_published("fedner")["table2"]
NETWORKS = {title: title.lower() for title in PUBLISHED if title != "FedNER"}  # by title, the preset
_FIGURES = ("seed", "dev_f1", "rounds", "best_round", "seconds", "bytes_down", "bytes_up")
Pairs = Mapping[str, tuple[str, str]]  # by title, a study of single sites and one of FedNER

SHARED = {
    "nothing": "share-nothing",
    "embeddings": "share-embeddings",
    "+ word CNN (FedNER)": "fedner",
    "+ BiLSTM": "share-lstm",
    "everything": "share-everything",
}
ALGORITHMS = {name: name.lower() for name in ("FedNER", "FedAvg", "FedProx", "FedAtt")}
_ELMONER = ("single-elmoner", "fedner")
BY_SIZE: Pairs = {
    **{f"{100 * r:.0f}%": (f"single-ratio-{r:.2f}", f"fedner-ratio-{r:.2f}") for r in (0.25, 0.5, 0.75)},
    "100%": _ELMONER,
}
BY_MASKED: Pairs = {
    "0%": ("single-cnn-lstm-crf", "fedner-cnn-lstm-crf"),
    **{f"{100 * r:.0f}%": (f"single-mask-{r:.2f}", f"fedner-mask-{r:.2f}") for r in (0.25, 0.5, 0.75, 1.0)},
}
BY_NETWORK: Pairs = {
    title: (f"single-{preset}", f"fedner-{preset}") if preset != "elmoner" else _ELMONER
    for title, preset in NETWORKS.items()
}


class Measured(Studies):
    """The summary: the counts of every run."""

    variations = VARIATIONS

    def f1(self, study: str, *, site: str = "", mode: str = "strict") -> list[float]:
        """Return F1 in percent by seed: of a site, or the mean over all sites."""
        sites = self.studies[study]["sites"]
        chosen = [sites[site]] if site else list(sites.values())
        by_seed = zip(*([100 * SpanCounts(*counts).f1 for counts in found[mode]] for found in chosen), strict=True)
        return [mean(scores) for scores in by_seed]

    def together(self, *names: str, site: str = "") -> list[list[float]]:
        """Return strict F1 of several studies over the seeds that all of them have."""
        common = self.seeds(*names)
        scores = [dict(zip(self.studies[name]["seed"], self.f1(name, site=site), strict=True)) for name in names]
        return [[found[seed] for seed in common] for found in scores]

    @classmethod
    def summary_of(cls, variation: Study, runs: Sequence[Mapping[str, Any]], head: Mapping[str, Any]) -> dict[str, Any]:
        """Return counts and intervals by site."""
        sites = {}
        for site in runs[0]["sites"]:
            found = [run["sites"][site] for run in runs]
            counts = {
                mode: [[int(scores[mode][count]) for count in ("tp", "fp", "fn")] for scores in found]
                for mode in ("strict", "relaxed")
            }
            interval = [[round(end, 4) for end in scores["strict"]["interval"]] for scores in found]
            sites[site] = {**counts, "interval": interval}
        return {**{figure: [run[figure] for run in runs] for figure in _FIGURES}, "sites": sites}


# Cells.


def _gain(lower: Sequence[float], higher: Sequence[float]) -> str:
    steps = [b - a for a, b in zip(lower, higher, strict=True)]
    low, high = bootstrap_interval(lambda drawn: mean(steps[seed] for seed in drawn), len(steps))
    return f"{mean(steps):+.1f} [{low:+.1f}, {high:+.1f}]"


def closed(single: Sequence[float], federated: Sequence[float], pooled: Sequence[float]) -> str:
    """Return (federated − single) / (pooled − single) with its interval; nothing if pooling gains nothing."""

    def share(drawn: Sequence[int]) -> float:
        low, middle, high = (mean(row[seed] for seed in drawn) for row in (single, federated, pooled))
        return 100 * ratio(middle - low, high - low)

    if mean(pooled) <= mean(single):
        return NOTHING
    low, high = bootstrap_interval(share, len(single))
    return f"{share(range(len(single))):.0f}% [{low:.0f}, {high:.0f}]"


def _both_modes(measured: Measured, study: str) -> list[str]:
    return [with_range(measured.f1(study, mode=mode)) for mode in ("strict", "relaxed")]


def _by_site(measured: Measured, study: str) -> list[str]:
    return [with_range(measured.f1(study, site=site)) for site in FIVE]


# Tables.


def table2(measured: Measured) -> str:
    """Return each network at each site, then the published table."""
    names = {title: f"single-{preset}" for title, preset in NETWORKS.items()}
    names |= {"FedNER": "fedner", "all notes pooled": "pooled"}
    rows = [
        [title, *_both_modes(measured, study), *_by_site(measured, study)]
        for title, study in measured.known(names).items()
    ]
    ours = table(["network", "mean, strict", "mean, relaxed", *FIVE], rows)
    corpora = [f"{corpus}, {mode}" for corpus in ("CADEC", "ADE Corpus", "SMM4H") for mode in ("strict", "relaxed")]
    published = [[title, *(f"{figure:.2f}" for figure in figures)] for title, figures in PUBLISHED.items()]
    return f"{ours}\n\nPublished:\n\n{table(['network', *corpora], published)}"


def gap(measured: Measured) -> str:
    """Return what pooling gains at each site, and how much of that FedNER gains."""
    names = ("single-elmoner", "fedner", "pooled")
    rows = []
    for site in ("", *FIVE) if measured.has(*names) else ():
        single, federated, pooled = measured.together(*names, site=site)
        cells = [with_range(single), with_range(federated), with_range(pooled), _gain(single, federated)]
        interval = NOTHING
        if site:
            low, high = zip(*measured.studies["fedner"]["sites"][site]["interval"], strict=True)
            interval = f"{100 * mean(low):.1f} – {100 * mean(high):.1f}"
        rows.append([site or "mean", *cells, closed(single, federated, pooled), interval])
    head = ["site", "single", "FedNER", "pooled", "gain", "of the gap closed", "FedNER, 95% over test sentences"]
    return table(head, rows)


def _pairs(measured: Measured, head: str, pairs: Pairs) -> str:
    """Return single beside FedNER: the mean over sites, and ADE, the corpus that the paper's figures show."""
    rows = []
    for title, pair in pairs.items():
        if measured.has(*pair):
            cells = []
            for site in ("", "ade"):
                single, federated = measured.together(*pair, site=site)
                cells += [with_range(single), with_range(federated), _gain(single, federated)]
            rows.append([title, *cells])
    columns = [f"{name}, {site}" for site in ("mean", "ade") for name in ("single", "FedNER", "gain")]
    return table([head, *columns], rows)


def _scores(measured: Measured, head: str, names: Mapping[str, str], more: Mapping[str, Any] | None = None) -> str:
    rows = [
        [
            title,
            with_range(measured.f1(study)),
            *_by_site(measured, study),
            *(make(study) for make in (more or {}).values()),
        ]
        for title, study in measured.known(names).items()
    ]
    return table([head, "mean", *FIVE, *(more or {})], rows)


def algorithms(measured: Measured) -> str:
    """Return other algorithms, and how much they send."""
    sent = {"MB sent by all sites": lambda study: f"{mean(measured.studies[study]['bytes_up']) / 1e6:.0f}"}
    return _scores(measured, "algorithm", {"single": "single-elmoner", **ALGORITHMS}, sent)


def one_corpus(measured: Measured, corpus: str) -> str:
    """Return ten sites of one corpus: the mean over sites, all scored on the official test part."""
    names = {"FedNER, the paper's split": "fedner", "FedNER, everything": "everything", "pooled": "pooled"}
    single, pooled = f"{corpus}-single", f"{corpus}-pooled"
    if not measured.has(single, pooled):
        return ""
    rows = [["single", *_both_modes(measured, single), NOTHING, NOTHING]]
    for title, name in names.items():
        if measured.has(single, study := f"{corpus}-{name}", pooled):
            alone, mine, best = measured.together(single, study, pooled)
            share = NOTHING if name == "pooled" else closed(alone, mine, best)
            rows.append([title, *_both_modes(measured, study), _gain(alone, mine), share])
    return table(["ten sites", "strict", "relaxed", "gain", "of the gap closed"], rows)


# The overview.


def _found_table1(measured: Measured) -> Found:
    sites = measured.expected.get("sites", {}).get("five", {})
    sentences, mentions = (
        sum(site[part][what] for site in sites.values() for part in ("train", "dev", "test"))
        for what in ("sentences", "mentions")
    )
    return Found(f"{len(sites)} sites, {sentences:,} sentences, {mentions:,} entities") if sites else Found()


def _found_table2(measured: Measured) -> Found:
    names = {"ELMoNER alone": "single-elmoner", "FedNER": "fedner", "all notes pooled": "pooled"}
    if not (known := measured.known(names)):
        return Found()
    scores = {title: mean(measured.f1(name)) for title, name in known.items()}
    alone = [mean(measured.f1(name)) for preset in NETWORKS.values() if measured.has(name := f"single-{preset}")]
    above = "above" if measured.has("fedner") and scores["FedNER"] > max(alone) else "not above"
    shows = f"FedNER is {above} each of the {len(alone)} networks that a site trains alone."
    return Found(f"strict F1: {listed(scores)}", measured.seed_counts(known), shows)


def _found_figure4(measured: Measured) -> Found:
    if not (known := measured.known({title.removesuffix(" (FedNER)"): name for title, name in SHARED.items()})):
        return Found()
    scores = {title: mean(measured.f1(name)) for title, name in known.items()}
    best = max(scores, key=lambda title: scores[title])
    shows = f"Best is to share {best.replace('+', 'embeddings and')}; the paper's is embeddings and word CNN."
    return Found(f"strict F1: {listed(scores)}", measured.seed_counts(known), shows)


def _found_gains(measured: Measured, pairs: Pairs, shows: str) -> Found:
    """Return the gains of FedNER over a single site; `shows` may name {word}, {held} and {all}."""
    found = {title: measured.together(*pair) for title, pair in pairs.items() if measured.has(*pair)}
    if not found:
        return Found()
    gains = {title: mean(other) - mean(one) for title, (one, other) in found.items()}
    first, last = next(iter(gains.values())), list(gains.values())[-1]
    word, held = "grows" if last > first else "shrinks", sum(round(gain, 1) > 0 for gain in gains.values())
    text = f"FedNER over a site alone, points: {listed(gains, sign=True)}"
    return Found(text, [len(one) for one, _ in found.values()], shows.format(word=word, held=held, all=len(gains)))


_SIZE = "The gain {word} with the sentences; the paper says that it shrinks."
_MASKED = "With all masked the gain {word}; it is above zero in {held} of {all}."

PAPER = Paper(
    "fedner",
    sweep=FedNer,
    measured=Measured,
    tables={
        "table2": table2,
        "gap": gap,
        "figure3": lambda measured: _pairs(measured, "training sentences", BY_SIZE),
        "figure4": lambda measured: _scores(measured, "shared", SHARED),
        "figure5": lambda measured: _pairs(measured, "overlapped entities masked", BY_MASKED),
        "figure6": lambda measured: _pairs(measured, "network", BY_NETWORK),
        "algorithms": algorithms,
        "bc2gm": lambda measured: one_corpus(measured, "bc2gm"),
        "bc5cdr-ten": lambda measured: one_corpus(measured, "bc5cdr"),
    },
    found={
        "table1": _found_table1,
        "table2": _found_table2,
        "figure3": lambda measured: _found_gains(measured, BY_SIZE, _SIZE),
        "figure4": _found_figure4,
        "figure5": lambda measured: _found_gains(measured, BY_MASKED, _MASKED),
        "figure6": lambda measured: _found_gains(measured, BY_NETWORK, "{held} of {all} networks gain."),
    },
)
