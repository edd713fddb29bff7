"""What `papers/README.md` says of the paper on transfer learning, from `expected.json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from papers.common.overview import DRAWING, Found, Item, Paper, Way, listed
from papers.transfer import published
from papers.transfer.cells import TITLES
from papers.transfer.make_sites import CORPORA
from papers.transfer.measured import Measured
from papers.transfer.summarise import measured_of
from papers.transfer.variations import LAYERED, LAYERS, NONE, SIZES

_CORPORA = "MIMIC and i2b2 cannot be redistributed: other notes that are de-identified, and the built-in hospitals"
_DATA = "pairs of sites: MEDDOCAN, the synthetic hospitals, presidio's sentences"


def _figure2(expected: Mapping[str, Any]) -> Found:
    measured, told, seeds, won = measured_of(expected), [], list[int](), list[bool]()
    for corpus in CORPORA:
        gains = {size: gain for size in SIZES if (gain := measured.transfer_gain(corpus, size))}
        if gains:
            points = {f"{size}%:": 100 * gain.mean for size, gain in gains.items()}
            told.append(f"{TITLES[corpus]} {listed(points, sign=True)}")
            seeds += [gain.seeds for gain in gains.values()]
            won += [round(gain, 1) > 0 for gain in points.values()]
    if not told:
        return Found()
    shows = f"Transfer has more F1 at {sum(won)} of {len(won)} sizes."
    return Found(f"gain of transfer, points, by training notes: {'; '.join(told)}", seeds, shows)


def _figure3(expected: Mapping[str, Any]) -> Found:
    measured, told, seeds, best = measured_of(expected), [], list[int](), []
    for corpus, sizes in LAYERED.items():
        smallest = _smallest(measured, corpus, sizes)
        if smallest is not None:
            curve = {
                layer: found[smallest]
                for layer in (NONE, *LAYERS)
                if smallest in (found := measured.curve(corpus, layer, sizes))
            }
            scores = {TITLES[layer]: 100 * spread.mean for layer, spread in curve.items()}
            told.append(f"{TITLES[corpus]}, {smallest}%: {listed(scores)}")
            seeds += [spread.seeds for spread in curve.values()]
            best.append(f"{TITLES[corpus]}: {max(scores, key=lambda layer: scores[layer])}")
    if not told:
        return Found()
    return Found(f"F1 up to each layer, {'; '.join(told)}", seeds, f"Best, {'; '.join(best)}.")


def _smallest(measured: Measured, corpus: str, sizes: tuple[int, ...]) -> int | None:
    """The size at which something between nothing and all was measured."""
    between = [layer for layer in LAYERS if layer != "all"]
    return min((size for layer in between for size in measured.curve(corpus, layer, sizes)), default=None)


def _sizes(expected: Mapping[str, Any]) -> Found:
    told = []
    for corpus, sites in expected.get("sites", {}).items():
        own = [f"{name} {site['train']['notes']:,}" for name, site in sites.items() if "train" in site]
        told.append(f"{TITLES[corpus]}: {', '.join(own)}")
    return Found(f"notes for training: {'; '.join(told)}") if told else Found()


def _published2() -> str:
    told = [
        f"{size}% of the data set {fresh:.2f} without, {full:.2f} with transfer"
        for size, (fresh, full) in published.I2B2_2014.items()
    ]
    return f"i2b2 2014, F1: {'; '.join(told)}"


def _published1() -> str:
    return ", ".join(f"{name} {sizes['notes']:,} notes" for name, sizes in published.CORPORA.items())


PAPER = Paper(
    "transfer",
    "Transfer learning for NER (Lee 2017)",
    (
        Item("table1", "Table 1: corpora", _DATA, _published1(), _CORPORA, "sites", ("sites",), found=_sizes),
        Item("figure1", "Figure 1: network", differs=DRAWING),
        Item(
            "figure2",
            "Figure 2: transfer by size of the target",
            _DATA,
            _published2(),
            _CORPORA,
            "experiment-1",
            ("experiment1", "figure2", "saved"),
            Way(only=("sources", "experiment1")),
            _figure2,
        ),
        Item(
            "figure3",
            "Figure 3: transfer up to each layer",
            "MEDDOCAN, the synthetic hospitals",
            "a figure without numbers",
            _CORPORA,
            "experiment-2",
            ("experiment2", "figure3"),
            Way(only=("sources", "experiment2")),
            _figure3,
        ),
    ),
)
