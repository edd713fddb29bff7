"""What `papers/README.md` says of the FedNER paper, from `expected.json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import mean
from typing import Any

from papers.common.overview import DRAWING, Found, Item, Paper, Way, listed, means
from papers.fedner.summarise import FIVE, PUBLISHED, Measured
from papers.fedner.variations import MASKED_NETWORK, NETWORKS

_DATA = "ADE, BC5CDR, BioNLP13CG, BioRED, AnatEM: five sites"
_CORPORA = "CADEC and SMM4H cannot be redistributed: four other corpora; MiniLM for ELMo; sites of 1,000 sentences"
_NO_NUMBERS = "a figure without numbers"


def _measured(expected: Mapping[str, Any]) -> Measured:
    return Measured(expected.get("studies", {}))


def _seeds(measured: Measured, names: Iterable[str]) -> list[int]:
    return [len(measured.studies[name]["seed"]) for name in names]


def _sizes(expected: Mapping[str, Any]) -> Found:
    sites = expected.get("sites", {}).get("five", {})
    if not sites:
        return Found()
    sentences, mentions = (
        sum(site[part][what] for site in sites.values() for part in ("train", "dev", "test"))
        for what in ("sentences", "mentions")
    )
    return Found(f"{len(sites)} sites, {sentences:,} sentences, {mentions:,} entities")


def _table2(expected: Mapping[str, Any]) -> Found:
    measured = _measured(expected)
    names = {"ELMoNER alone": "single-elmoner", "FedNER": "fedner", "all notes pooled": "pooled"}
    known = {title: name for title, name in names.items() if measured.has(name)}
    if not known:
        return Found()
    scores = means({title: measured.f1(name) for title, name in known.items()})
    alone = [mean(measured.f1(name)) for network in NETWORKS if measured.has(name := f"single-{network}")]
    above = "above" if measured.has("fedner") and scores["FedNER"] > max(alone) else "not above"
    shows = f"FedNER is {above} each of the {len(alone)} networks that a site trains alone."
    return Found(f"strict F1: {listed(scores)}", _seeds(measured, known.values()), shows)


def _gains(measured: Measured, pairs: Mapping[str, tuple[str, str]]) -> tuple[dict[str, float], list[int]]:
    """FedNER over a single site, mean over sites, and how many seeds each has."""
    known = {title: pair for title, pair in pairs.items() if measured.has(*pair)}
    found = {title: measured.together(*pair) for title, pair in known.items()}
    gains = {title: mean(other) - mean(one) for title, (one, other) in found.items()}
    return gains, [len(one) for one, _ in found.values()]


def _gain_found(expected: Mapping[str, Any], pairs: Mapping[str, tuple[str, str]], shows: str) -> Found:
    gains, seeds = _gains(_measured(expected), pairs)
    if not gains:
        return Found()
    first, *_, last = gains.values() if len(gains) > 1 else [*gains.values()] * 2
    word = "grows" if last > first else "shrinks"
    held = sum(round(gain, 1) > 0 for gain in gains.values())
    told = shows.format(word=word, held=held, all=len(gains))
    return Found(f"FedNER over a site alone, points: {listed(gains, sign=True)}", seeds, told)


def _figure3(expected: Mapping[str, Any]) -> Found:
    pairs = {f"{100 * r:.0f}%": (f"single-ratio-{r:.2f}", f"fedner-ratio-{r:.2f}") for r in (0.25, 0.5, 0.75)}
    pairs["100%"] = ("single-elmoner", "fedner")
    return _gain_found(expected, pairs, "The gain {word} with the sentences; the paper says that it shrinks.")


def _figure4(expected: Mapping[str, Any]) -> Found:
    measured = _measured(expected)
    names = {"nothing": "share-nothing", "embeddings": "share-embeddings", "+ word CNN": "fedner"}
    names |= {"+ BiLSTM": "share-lstm", "everything": "share-everything"}
    known = {title: name for title, name in names.items() if measured.has(name)}
    if not known:
        return Found()
    scores = means({title: measured.f1(name) for title, name in known.items()})
    best = max(scores, key=lambda title: scores[title])
    shows = f"Best is to share {best.replace('+', 'embeddings and')}; the paper's is embeddings and word CNN."
    return Found(f"strict F1: {listed(scores)}", _seeds(measured, known.values()), shows)


def _figure5(expected: Mapping[str, Any]) -> Found:
    pairs = {"0%": (f"single-{MASKED_NETWORK}", f"fedner-{MASKED_NETWORK}")}
    pairs |= {f"{100 * r:.0f}%": (f"single-mask-{r:.2f}", f"fedner-mask-{r:.2f}") for r in (0.25, 0.5, 0.75, 1.0)}
    return _gain_found(expected, pairs, "With all masked the gain {word}; it is above zero in {held} of {all}.")


def _figure6(expected: Mapping[str, Any]) -> Found:
    named = zip(PUBLISHED, NETWORKS, strict=False)
    pairs = {title: (f"single-{network}", f"fedner-{network}") for title, network in named}
    pairs["ELMoNER"] = ("single-elmoner", "fedner")
    return _gain_found(expected, pairs, "{held} of {all} networks gain.")


def _published2() -> str:
    return f"ADE Corpus, strict F1: ELMoNER {PUBLISHED['ELMoNER'][2]}, FedNER {PUBLISHED['FedNER'][2]}"


def _figure(number: int, title: str, data: str, differs: str, found: Any) -> Item:
    name = f"figure{number}"
    anchor = f"figure-{number}-{title.replace(' ', '-')}"
    only = Way(only=(name,))
    return Item(name, f"Figure {number}: {title}", data, _NO_NUMBERS, differs, anchor, (name,), only, found)


PAPER = Paper(
    "fedner",
    "FedNER (Ge 2020)",
    (
        Item(
            "table1",
            "Table 1: corpora",
            _DATA,
            "CADEC 7,597 sentences, ADE Corpus 4,484, SMM4H 2,213",
            _CORPORA,
            "sites",
            found=_sizes,
        ),
        Item("figures1-2", "Figures 1 and 2: framework and network", differs=DRAWING),
        Item(
            "table2",
            "Table 2: networks",
            f"{_DATA}, mean over sites",
            _published2(),
            _CORPORA,
            "table-2",
            ("table2", "gap"),
            Way(only=("table2", "gap")),
            _table2,
        ),
        _figure(3, "training size", _DATA, _CORPORA, _figure3),
        _figure(4, "decomposition", _DATA, _CORPORA, _figure4),
        _figure(5, "overlapped entities", _DATA, "CNN-LSTM-CRF; masking is not defined in the paper", _figure5),
        _figure(6, "other networks", _DATA, "each network shares what it has of the paper's split", _figure6),
    ),
)
assert len(FIVE) == 5, "as the texts above say"
