"""Tables of scores and gains, and Figures 2 and 3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from papers.common.page import NOTHING, table
from papers.common.spread import Spread, percent, points, with_interval
from papers.transfer import published
from papers.transfer.cells import TITLES, needed_without, share_saved
from papers.transfer.make_sites import CORPORA
from papers.transfer.measured import Measured
from papers.transfer.variations import LAYERED, LAYERS, NONE, RECALL_FIRST, RECIPES, SIZES, point

from wardround.evaluation.counts import SpanCounts
from wardround.reports.plots import Labels, Plot, learning_curves

_SIZE = "percent of the target's training notes"


# Experiment 1.


def experiment1_table(measured: Measured) -> str:
    """F1 with and without transfer by size of the target, a table a corpus."""
    parts = []
    for corpus in CORPORA:
        rows = [_size_row(measured, corpus, size) for size in SIZES if measured.has(point(corpus, size, NONE))]
        head = ["size", "notes", "mentions", "without transfer", "with transfer", "gain", "seeds"]
        if rows:
            parts.append(f"{TITLES[corpus]}:\n\n{table(head, rows)}")
    return "\n\n".join(parts)


def _size_row(measured: Measured, corpus: str, size: int) -> list[str]:
    fresh, full = point(corpus, size, NONE), point(corpus, size, "all")
    study, gain = measured.studies[fresh], measured.transfer_gain(corpus, size)
    held = [_range(study["notes"]), _range(study["mentions"])]
    scores = [with_interval(measured.spread(name) if measured.has(name) else None) for name in (fresh, full)]
    return [f"{size}%", *held, *scores, points(gain), NOTHING if gain is None else str(gain.seeds)]


def _range(values: list[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low} – {high}"


def saved_table(measured: Measured) -> str:
    """How many labels transfer saves at the same F1."""
    rows = []
    for corpus in CORPORA:
        for saved in measured.saved(corpus):
            cells = [f"{saved.size}%", percent(saved.f1), needed_without(saved, SIZES[0]), share_saved(saved)]
            rows.append([TITLES[corpus], *cells])
    head = ["corpus", "size with transfer", "F1", "size without transfer for the same F1", "labels saved"]
    return table(head, rows) if rows else ""


# Experiment 2.


def between() -> list[str]:
    """The layers above nothing and below all."""
    return [layer for layer in LAYERS if layer != "all"]


def experiment2_table(measured: Measured) -> str:
    """F1 by topmost layer that is transferred and by size, a table a corpus."""
    parts = []
    for corpus, sizes in LAYERED.items():
        curves = {layer: measured.curve(corpus, layer, sizes) for layer in (NONE, *LAYERS)}
        # Where only none and all were measured, the table of Experiment 1 has them.
        known = sorted({size for layer in between() for size in curves[layer]})
        rows = [
            [TITLES[layer], *(with_interval(curve.get(size)) for size in known)]
            for layer, curve in curves.items()
            if curve
        ]
        if known:
            head = ["transferred up to", *(f"{size}%" for size in known)]
            parts.append(f"{TITLES[corpus]}:\n\n{table(head, rows)}")
    return "\n\n".join(parts)


# All of MEDDOCAN.


def official_table(measured: Measured) -> str:
    """What the paper's network reaches on the shared task's test notes."""
    rows = [_official_row(measured, recipe) for recipe in RECIPES if measured.has(f"official-{recipe}")]
    head = ["recipe", "strict F1", "precision", "recall", "relaxed F1", "epochs, best"]
    return table(head, rows) if rows else ""


def _official_row(measured: Measured, recipe: str) -> list[str]:
    study = _only(measured, recipe)
    strict, relaxed = (SpanCounts(*study[reading]) for reading in ("strict", "relaxed"))
    low, high = study["interval"]
    figures = [f"{value:.4f}" for value in (strict.precision, strict.recall, relaxed.f1)]
    f1 = f"{strict.f1:.4f} ({low:.4f} – {high:.4f})"
    return [TITLES[recipe], f1, *figures, f"{study['rounds']}, {study['best_round']}"]


def hidden_table(measured: Measured) -> str:
    """What of these notes would stay readable, as the network finds mentions and with a threshold."""
    rows = []
    for recipe in [recipe for recipe in RECIPES if measured.has(f"official-{recipe}")]:
        study = _only(measured, recipe)
        for way, found in (("mentions alone", "leakage"), (f"threshold {RECALL_FIRST}", "recall_first")):
            words, characters = (SpanCounts(*study[found][unit]) for unit in ("words", "characters"))
            figures = [f"{value:.4f}" for value in (words.recall, words.precision, characters.recall)]
            leaking = f"{study[found]['leaking_notes']} of {study[found]['notes']}"
            rows.append([TITLES[recipe], way, *figures, leaking])
    head = ["recipe", "hidden", "recall of words", "precision of words", "recall of characters"]
    return table([*head, "notes with a word missed"], rows) if rows else ""


def _only(measured: Measured, recipe: str) -> dict[str, Any]:
    """The one seed of a recipe."""
    return {key: values[0] for key, values in measured.studies[f"official-{recipe}"].items() if key != "layers"}


def types_table(measured: Measured) -> str:
    """By type, of the recipe with the highest F1."""
    known = [name for recipe in RECIPES if measured.has(name := f"official-{recipe}")]
    if not known:
        return ""
    best = max(known, key=lambda name: measured.f1(name)[0])
    types = {kind: SpanCounts(*counts) for kind, counts in measured.studies[best]["types"][0].items()}
    rows = [
        [kind, str(counts.gold), f"{counts.precision:.3f}", f"{counts.recall:.3f}", f"{counts.f1:.3f}"]
        for kind, counts in sorted(types.items(), key=lambda item: -item[1].gold)
    ]
    return table(["type", "mentions", "precision", "recall", "F1"], rows)


def sources_table(measured: Measured) -> str:
    """How good the models are that targets begin from."""
    rows = []
    for corpus in CORPORA:
        if measured.has(name := f"source-{corpus}"):
            study = measured.studies[name]
            f1, dev = measured.f1(name)[0], study["dev_f1"][0]
            rows.append([TITLES[corpus], str(study["notes"][0]), percent(dev), percent(f1), str(study["rounds"][0])])
    head = ["source", "notes for training", "F1 on its development notes", "on its test notes", "epochs"]
    return table(head, rows) if rows else ""


# Beside what was published.


def beside_table(measured: Measured) -> str:
    """The paper's numbers for i2b2 2014, and ours at the same share of the training part."""
    rows = []
    for size, (fresh, full) in published.I2B2_2014.items():
        of_training = 100 * size / published.FULL
        cells = [f"{fresh:.2f}", f"{full:.2f}", f"{full - fresh:+.2f}"]
        rows.append([f"Lee 2017, MIMIC to i2b2 2014, {size}% of the data set", f"{of_training:.0f}%", *cells])
    for corpus in CORPORA:
        for size in (10, 100):
            if gain := measured.transfer_gain(corpus, size):
                ends = [percent(measured.spread(point(corpus, size, layer)).mean) for layer in (NONE, "all")]
                rows.append([f"here, {TITLES[corpus]}", f"{size}%", *ends, points(gain)])
    return table(["", "of the training part", "without transfer", "with transfer", "gain"], rows)


# Plots.


def pictures(*names: str) -> str:
    """Markdown of plots beside the page."""
    return "\n".join(f"![{name}]({name}.svg)" for name in names)


def plots(measured: Measured) -> dict[str, Plot]:
    """Those for which there are runs."""
    return {**figure2(measured), **figure3(measured)}


def figure2(measured: Measured) -> dict[str, Plot]:
    """F1 against the size of the target, with and without transfer."""
    found = {}
    for corpus in CORPORA:
        ends = {"transfer of all layers": "all", "no transfer": NONE}
        curves = {title: curve for title, layer in ends.items() if (curve := measured.curve(corpus, layer))}
        if curves:
            plot = curves_with_bands(curves, Labels(TITLES[corpus], _SIZE, "F1"))
            found[f"figure2-{corpus}"] = _named(plot, {size: str(size) for size in SIZES})
    return found


def figure3(measured: Measured) -> dict[str, Plot]:
    """F1 against the topmost layer that is transferred, a curve a size."""
    found = {}
    for corpus, sizes in LAYERED.items():
        layers = [NONE, *LAYERS]
        curves: dict[str, dict[int, Spread]] = {}
        for size in sizes:
            known = [(x, point(corpus, size, layer)) for x, layer in enumerate(layers)]
            curve = {x: measured.spread(name) for x, name in known if measured.has(name)}
            if len(curve) > 2:  # more than none and all, which Figure 2 has
                curves[f"{size}%"] = curve
        if curves:
            plot = curves_with_bands(curves, Labels(TITLES[corpus], "transferred up to", "F1"))
            names = [TITLES[layer].partition(":")[0].replace(" ", "\n") for layer in layers]
            found[f"figure3-{corpus}"] = _named(plot, dict(enumerate(names)))
    return found


def curves_with_bands(curves: Mapping[str, Mapping[int, Spread]], labels: Labels) -> Plot:
    """A line a curve through its means, and a band where its intervals lie."""
    lines = {name: [(x, spread.mean) for x, spread in curve.items()] for name, curve in curves.items()}
    bands = {
        name: [(x, *(spread.interval or (spread.mean, spread.mean))) for x, spread in curve.items()]
        for name, curve in curves.items()
    }
    return learning_curves(lines, labels, bands=bands)


def _named(plot: Plot, ticks: Mapping[int, str]) -> Plot:
    """The same with these words below the horizontal axis, and room for them."""
    plot.figure.axes[0].set_xticks(list(ticks), list(ticks.values()), fontsize=8)
    plot.figure.set_layout_engine("constrained")
    plot.figure.draw_without_rendering()
    plot.figure.set_layout_engine("none")
    return plot
