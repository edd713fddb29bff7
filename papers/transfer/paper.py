"""Tables, plots and targets of the transfer paper's page, and its lines in the overview."""

from __future__ import annotations

from collections.abc import Mapping

from papers.common.cells import (
    NOTHING,
    Bar,
    Spread,
    bars_table,
    claims_table,
    listed,
    percent,
    pictures,
    points,
    table,
    with_interval,
)
from papers.common.paper import Found, Paper, read_published
from papers.transfer.measured import SIZES, Measured, needed_without, share_saved
from papers.transfer.studies import LAYERS, NONE, RECALL_FIRST, VARIATIONS, Transfer, point

from wardround.evaluation.counts import SpanCounts
from wardround.reports.plots import Labels, Plot, learning_curves

__all__ = ["PAPER", "bars", "claims", "plots"]

PUBLISHED = read_published("transfer")
CORPORA = {"meddocan": "MEDDOCAN", "synthetic": "synthetic hospitals", "presidio": "presidio"}
LAYER_TITLES = {
    NONE: "none",
    "token-embeddings": "token embeddings",
    "character-embeddings": "character embeddings",
    "character-lstm": "character LSTM",
    "token-lstm": "token LSTM",
    "fully-connected": "fully connected",
    "all": "sequence optimisation: all",
}
BETWEEN = [layer for layer in LAYERS if layer != "all"]
LAYERED = {  # the sizes of Experiment 2
    corpus: sorted({v.size for v in VARIATIONS.values() if f"experiment2-{corpus}" in v.tables})
    for corpus in ("meddocan", "synthetic")
}

# Targets.
_FEWEST_SEEDS = 5
_FEW = (5, 10)  # percent, where transfer must win
_LOSS = -0.005  # at most, with all notes
_F1, _RECALL = 0.93, 0.97  # on all of MEDDOCAN
_SHARED_TASK = 0.96  # strict F1 of the best systems of the shared task
_NEAR_THE_PAPERS = 20  # percent of the training part; 16% of the paper's data set are 27% of its training part


# Experiments 1 and 2.


def experiment1_table(measured: Measured) -> str:
    """Return F1 with and without transfer by size of the target, a table per corpus."""
    parts = []
    for corpus, title in CORPORA.items():
        rows = []
        for size in SIZES:
            fresh, full = point(corpus, size, NONE), point(corpus, size, "all")
            if measured.has(fresh):
                study, gain = measured.studies[fresh], measured.transfer_gain(corpus, size)
                ranges = [sorted({min(study[what]), max(study[what])}) for what in ("notes", "mentions")]
                sizes = [" – ".join(map(str, ends)) for ends in ranges]
                scores = [with_interval(measured.spread(n) if measured.has(n) else None) for n in (fresh, full)]
                seeds = NOTHING if gain is None else str(gain.seeds)
                rows.append([f"{size}%", *sizes, *scores, points(gain), seeds])
        head = ["size", "notes", "mentions", "without transfer", "with transfer", "gain", "seeds"]
        if rows:
            parts.append(f"{title}:\n\n{table(head, rows)}")
    return "\n\n".join(parts)


def saved_table(measured: Measured) -> str:
    """Return how many labels transfer saves at the same F1."""
    rows = [
        [title, f"{s.size}%", percent(s.f1), needed_without(s, SIZES[0]), share_saved(s)]
        for corpus, title in CORPORA.items()
        for s in measured.saved(corpus)
    ]
    head = ["corpus", "size with transfer", "F1", "size without transfer for the same F1", "labels saved"]
    return table(head, rows)


def experiment2_table(measured: Measured) -> str:
    """Return F1 by topmost transferred layer and size, a table per corpus."""
    parts = []
    for corpus, sizes in LAYERED.items():
        curves = {layer: measured.curve(corpus, layer, sizes) for layer in LAYER_TITLES}
        # Sizes at which only none and all were measured are in the table of Experiment 1.
        known = sorted({size for layer in BETWEEN for size in curves[layer]})
        rows = [
            [LAYER_TITLES[layer], *(with_interval(curve.get(size)) for size in known)]
            for layer, curve in curves.items()
            if curve
        ]
        if known:
            head = ["transferred up to", *(f"{size}%" for size in known)]
            parts.append(f"{CORPORA[corpus]}:\n\n{table(head, rows)}")
    return "\n\n".join(parts)


def beside_table(measured: Measured) -> str:
    """Return the paper's numbers for i2b2 2014, and ours at the same share of the training part."""
    rows = []
    for size, (fresh, full) in PUBLISHED["i2b2_2014"].items():
        share = f"{100 * int(size) / PUBLISHED['full']:.0f}%"
        cells = [f"{fresh:.2f}", f"{full:.2f}", f"{full - fresh:+.2f}"]
        rows.append([f"Lee 2017, MIMIC to i2b2 2014, {size}% of the data set", share, *cells])
    for corpus, title in CORPORA.items():
        for number in (10, 100):
            if gain := measured.transfer_gain(corpus, number):
                ends = [percent(measured.spread(point(corpus, number, layer)).mean) for layer in (NONE, "all")]
                rows.append([f"here, {title}", f"{number}%", *ends, points(gain)])
    return table(["", "of the training part", "without transfer", "with transfer", "gain"], rows)


def sources_table(measured: Measured) -> str:
    """Return the scores of the models that targets start from."""
    rows = []
    for title, name in measured.known({title: f"source-{corpus}" for corpus, title in CORPORA.items()}).items():
        study = measured.studies[name]
        scores = [percent(study["dev_f1"][0]), percent(measured.f1(name)[0])]
        rows.append([title, str(study["notes"][0]), *scores, str(study["rounds"][0])])
    return table(["source", "notes for training", "F1 on its development notes", "on its test notes", "epochs"], rows)


# All of MEDDOCAN.


def official_table(measured: Measured) -> str:
    """Return the scores of the paper's network on the shared task's test notes."""
    rows = []
    for title, study in measured.official.items():
        strict, relaxed = (SpanCounts(*study[mode]) for mode in ("strict", "relaxed"))
        f1 = "{:.4f} ({:.4f} – {:.4f})".format(strict.f1, *study["interval"])
        figures = [f"{value:.4f}" for value in (strict.precision, strict.recall, relaxed.f1)]
        rows.append([title, f1, *figures, f"{study['rounds']}, {study['best_round']}"])
    return table(["recipe", "strict F1", "precision", "recall", "relaxed F1", "epochs, best"], rows)


def hidden_table(measured: Measured) -> str:
    """Return what would stay readable in these notes, with mentions alone and with a threshold."""
    rows = []
    for title, study in measured.official.items():
        for way, key in (("mentions alone", "leakage"), (f"threshold {RECALL_FIRST}", "recall_first")):
            words, characters = (SpanCounts(*study[key][unit]) for unit in ("words", "characters"))
            figures = [f"{value:.4f}" for value in (words.recall, words.precision, characters.recall)]
            rows.append([title, way, *figures, f"{study[key]['leaking_notes']} of {study[key]['notes']}"])
    head = ["recipe", "hidden", "recall of words", "precision of words", "recall of characters"]
    return table([*head, "notes with a word missed"], rows)


def types_table(measured: Measured) -> str:
    """Return scores by type of the recipe with the highest F1."""
    if not measured.official:
        return ""
    best = max(measured.official.values(), key=lambda study: SpanCounts(*study["strict"]).f1)
    types = {kind: SpanCounts(*counts) for kind, counts in best["types"].items()}
    rows = [
        [kind, str(counts.gold), f"{counts.precision:.3f}", f"{counts.recall:.3f}", f"{counts.f1:.3f}"]
        for kind, counts in sorted(types.items(), key=lambda item: -item[1].gold)
    ]
    return table(["type", "mentions", "precision", "recall", "F1"], rows)


# How it was measured.


def sites_table(measured: Measured) -> str:
    """Return the size of each site, beside the paper's Table 1."""
    rows = []
    for corpus, sites in measured.expected.get("sites", {}).items():
        for name, site in sites.items():
            notes = " / ".join(str(site[part]["notes"]) for part in ("train", "dev", "test"))
            figures = [f"{site['train'][what]:,}" for what in ("sentences", "words", "mentions")]
            rows.append([f"{CORPORA[corpus]}, {name}", notes, *figures, str(len(site["types"]))])
    for name, sizes in PUBLISHED["corpora"].items():
        notes, words, mentions = (f"{sizes[what]:,}" for what in ("notes", "words", "mentions"))
        rows.append([f"Lee 2017, {name}, all parts", notes, NOTHING, words, mentions, NOTHING])
    head = ["site", "notes: training / development / test", "sentences for training", "words", "mentions", "types"]
    return table(head, rows)


def setup_text(measured: Measured) -> str:
    """Return the recipe and the devices."""
    settings = measured.expected.get("settings", {})
    if not settings:
        return ""
    devices = ", ".join(measured.expected.get("devices", [])) or NOTHING
    return (
        f"SGD at {settings['learning_rate']:g}, {settings['batch_size']} sentences per mini-batch, stopped after "
        f"{settings['patience']} epochs without a better development F1, at the latest after {settings['epochs']}. An "
        f"epoch has at least {settings['least']} sentences. Measured on: {devices}."
    )


def stopped_text(measured: Measured) -> str:
    """Return how many trainings were ended by patience and not by the last epoch."""
    texts = []
    for title, layer in (("without transfer", "none"), ("with transfer", "all")):
        flags = [flag for name, s in measured.studies.items() if name.endswith(f"-{layer}") for flag in s["stopped"]]
        if flags:
            texts.append(f"{title} {sum(flags)} of {len(flags)}")
    return f"Trainings of targets that ended by patience, not by the last epoch: {', '.join(texts)}." if texts else ""


def missing_text(measured: Measured) -> str:
    """Return which trainings were not measured with all their seeds."""
    texts = []
    for name in ("sources", "official", "experiment1", "experiment2"):
        all_runs = [(v.name, seed) for v in VARIATIONS.values() if name in v.tables for seed in range(v.seeds)]
        missing = [study for study, seed in all_runs if seed not in measured.studies.get(study, {"seed": []})["seed"]]
        if missing:
            texts.append(f"{len(missing)} of {len(all_runs)} runs of {name} ({', '.join(dict.fromkeys(missing))})")
    if not measured.studies:
        return ""
    return f"Not measured: {'; '.join(texts)}." if texts else "Every training of the tables was measured."


# Plots.


def figure2(measured: Measured) -> dict[str, Plot]:
    """Return F1 against the size of the target, with and without transfer."""
    found = {}
    for corpus, title in CORPORA.items():
        ends = {"transfer of all layers": "all", "no transfer": NONE}
        curves = {name: curve for name, layer in ends.items() if (curve := measured.curve(corpus, layer))}
        if curves:
            labels = Labels(title, "percent of the target's training notes", "F1")
            found[f"figure2-{corpus}"] = _plot(curves, labels, {size: str(size) for size in SIZES})
    return found


def figure3(measured: Measured) -> dict[str, Plot]:
    """Return F1 against the topmost transferred layer, a curve per size."""
    found = {}
    for corpus, sizes in LAYERED.items():
        curves: dict[str, dict[int, Spread]] = {}
        for size in sizes:
            known = [(x, point(corpus, size, layer)) for x, layer in enumerate(LAYER_TITLES)]
            curve = {x: measured.spread(name) for x, name in known if measured.has(name)}
            if len(curve) > 2:  # more than none and all, which Figure 2 has
                curves[f"{size}%"] = curve
        if curves:
            names = [title.partition(":")[0].replace(" ", "\n") for title in LAYER_TITLES.values()]
            labels = Labels(CORPORA[corpus], "transferred up to", "F1")
            found[f"figure3-{corpus}"] = _plot(curves, labels, dict(enumerate(names)))
    return found


def _plot(curves: Mapping[str, Mapping[int, Spread]], labels: Labels, ticks: Mapping[int, str]) -> Plot:
    """Return a line per curve through its means, a band for its intervals, and these labels on the x axis."""
    lines = {name: [(x, spread.mean) for x, spread in curve.items()] for name, curve in curves.items()}
    bands = {
        name: [(x, *(spread.interval or (spread.mean, spread.mean))) for x, spread in curve.items()]
        for name, curve in curves.items()
    }
    plot = learning_curves(lines, labels, bands=bands)
    plot.figure.axes[0].set_xticks(list(ticks), list(ticks.values()), fontsize=8)
    plot.figure.set_layout_engine("constrained")  # makes room for labels of several lines
    plot.figure.draw_without_rendering()
    plot.figure.set_layout_engine("none")
    return plot


def plots(measured: Measured) -> dict[str, Plot]:
    """Return all plots for which there are runs."""
    return {**figure2(measured), **figure3(measured)}


# Targets and claims.


def bars(measured: Measured) -> list[Bar]:
    """Return all targets; with too few seeds, a target is neither met nor missed."""
    found = []
    judged = ("synthetic", "meddocan")
    for corpus, size in [*((c, s) for c in judged for s in _FEW), *((c, 100) for c in judged)]:
        gain = measured.transfer_gain(corpus, size)
        if size == 100:
            target = f"{CORPORA[corpus]}, all labels: transfer loses at most {-100 * _LOSS:.1f} points"
            met = gain is not None and gain.mean >= _LOSS
        else:
            won = "transfer has more F1, and the interval of the gain excludes 0"
            target = f"{CORPORA[corpus]}, {size}% of the labels: {won}"
            met = gain is not None and gain.interval is not None and gain.interval[0] > 0
        measured_text = NOTHING if gain is None else f"{points(gain)} points, {gain.seeds} seeds"
        found.append(Bar(target, measured_text, met if gain is not None and gain.seeds >= _FEWEST_SEEDS else None))
    return [*found, *_official_bars(measured)]


def _official_bars(measured: Measured) -> list[Bar]:
    f1 = {title: SpanCounts(*study["strict"]).f1 for title, study in measured.official.items()}
    scores = "; ".join(f"{title}: {own:.4f}" for title, own in f1.items()) or NOTHING
    if f1:
        below = 100 * (_SHARED_TASK - max(f1.values()))
        scores += f"; the best is {below:.1f} points below the shared task's systems"
    recall = {
        title: [SpanCounts(*study[way]["words"]).recall for way in ("leakage", "recall_first")]
        for title, study in measured.official.items()
    }
    recalls = "; ".join(
        f"{title}: {own:.4f}, with a threshold of {RECALL_FIRST} {first:.4f}" for title, (own, first) in recall.items()
    )
    # The recall counts that the network reaches by itself, without a threshold.
    return [
        Bar(
            f"MEDDOCAN's official test: strict F1 of the paper's network is at least {_F1}",
            scores,
            any(own >= _F1 for own in f1.values()) if f1 else None,
        ),
        Bar(
            f"the same: recall of words that identify, whatever their type, is at least {_RECALL}",
            recalls or NOTHING,
            any(own >= _RECALL for own, _ in recall.values()) if recall else None,
        ),
    ]


def claims(measured: Measured) -> str:
    """Return what the paper says beside what was measured."""
    gains, halved, lower, topmost = [], [], [], []
    smallest = SIZES[0]
    for corpus, title in CORPORA.items():
        few, full = (measured.transfer_gain(corpus, size) for size in (smallest, SIZES[-1]))
        if few is not None and full is not None:
            gains.append(f"{title} {points(few)} with {smallest}% of the labels, {points(full)} with all")
        for saved in measured.saved(corpus):
            if saved.size == _NEAR_THE_PAPERS:
                halved.append(f"{title}: {saved.size}% do what {needed_without(saved, smallest)} do without")
    parts = {"up to the character LSTM": "character-lstm", "up to the token LSTM": "token-lstm", "all": "all"}
    for corpus, sizes in LAYERED.items():
        by_part = {part: measured.transfer_gain(corpus, smallest, layer) for part, layer in parts.items()}
        if all(gain is not None for gain in by_part.values()):
            text = ", ".join(f"{part} {points(gain)}" for part, gain in by_part.items())
            lower.append(f"{CORPORA[corpus]}, {smallest}%: {text}")
        for size in sizes:
            if gain := measured.gain(point(corpus, size, "all"), point(corpus, size, "token-lstm")):
                topmost.append(f"{CORPORA[corpus]}, {size}%: {points(gain)}")
    first, second = "[Experiment 1](#experiment-1)", "[Experiment 2](#experiment-2)"
    more = "transfer improves F1, and the more the fewer labels there are: 3.1 points with 5%, 0.17 with all"
    return claims_table(
        [
            (more, first, "; ".join(gains)),
            ("with transfer 16% of the data set do what 34% do without", first, "; ".join(halved)),
            ("a few lower layers are almost as good as all of them", second, "; ".join(lower)),
            ("the topmost layers do not hurt", second, "; ".join(topmost)),
        ]
    )


# The overview.


def _found_table1(measured: Measured) -> Found:
    texts = []
    for corpus, sites in measured.expected.get("sites", {}).items():
        own = [f"{name} {site['train']['notes']:,}" for name, site in sites.items() if "train" in site]
        texts.append(f"{CORPORA[corpus]}: {', '.join(own)}")
    return Found(f"notes for training: {'; '.join(texts)}") if texts else Found()


def _found_figure2(measured: Measured) -> Found:
    texts, seeds, won = [], list[int](), list[bool]()
    for corpus, title in CORPORA.items():
        gains = {size: gain for size in SIZES if (gain := measured.transfer_gain(corpus, size))}
        if gains:
            by_size = {f"{size}%:": 100 * gain.mean for size, gain in gains.items()}
            texts.append(f"{title} {listed(by_size, sign=True)}")
            seeds += [gain.seeds for gain in gains.values()]
            won += [round(gain, 1) > 0 for gain in by_size.values()]
    if not texts:
        return Found()
    shows = f"Transfer has more F1 at {sum(won)} of {len(won)} sizes."
    return Found(f"gain of transfer, points, by training notes: {'; '.join(texts)}", seeds, shows)


def _found_figure3(measured: Measured) -> Found:
    texts, seeds, best = [], list[int](), []
    for corpus, sizes in LAYERED.items():
        curves = {layer: measured.curve(corpus, layer, sizes) for layer in LAYER_TITLES}
        size = min((size for layer in BETWEEN for size in curves[layer]), default=None)
        if size is not None:
            found = {LAYER_TITLES[layer]: curve[size] for layer, curve in curves.items() if size in curve}
            scores = {title: 100 * spread.mean for title, spread in found.items()}
            texts.append(f"{CORPORA[corpus]}, {size}%: {listed(scores)}")
            seeds += [spread.seeds for spread in found.values()]
            best.append(f"{CORPORA[corpus]}: {max(scores, key=lambda title: scores[title])}")
    if not texts:
        return Found()
    return Found(f"F1 up to each layer, {'; '.join(texts)}", seeds, f"Best, {'; '.join(best)}.")


PAPER = Paper(
    "transfer",
    sweep=Transfer,
    measured=Measured,
    tables={
        "bars": lambda measured: bars_table(bars(measured)),
        "claims": claims,
        "beside": beside_table,
        "experiment1": experiment1_table,
        "figure2": lambda measured: pictures(*figure2(measured)),
        "saved": saved_table,
        "experiment2": experiment2_table,
        "figure3": lambda measured: pictures(*figure3(measured)),
        "sources": sources_table,
        "official": official_table,
        "hidden": hidden_table,
        "types": types_table,
        "sites": sites_table,
        "setup": setup_text,
        "stopped": stopped_text,
        "missing": missing_text,
    },
    found={"table1": _found_table1, "figure2": _found_figure2, "figure3": _found_figure3},
    plots=plots,
    bars=bars,
)
