"""Tables of scores, gains and bytes, and the plots of Figure 3."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from papers.common.page import NOTHING, table
from papers.common.spread import Spread, percent, points, with_interval
from papers.tagsets import published
from papers.tagsets.make_sites import GENRES
from papers.tagsets.measured import Measure, Measured
from papers.tagsets.variations import (
    ADVERSARIAL,
    BY_EPOCHS,
    BY_SIZE,
    CORPORA,
    FAMILIES,
    PROTECTED,
    TUNED_METHODS,
    TUNED_SIZE,
    WIDER,
    methods_of,
    weighing,
)

from wardround.evaluation.significance import Interval
from wardround.reports.plain_text import size_text
from wardround.reports.plots import Curve, Labels, Plot, bar_chart, learning_curves

TITLES = {
    **{"gum": "GUM", "bio": "biomedical", "synthetic": "synthetic hospitals"},
    **{"bilstm-crf": "BiLSTM-CRF", "lora": "LoRA", "prompt": "prompt", "light-ner": "LightNER"},
    **{"full": "Pseudo-complete, weighted", "raw-weight": "the same, Eq. 12 as it stands"},
    **{"early": "the same, taught from round 2 on", "no-weight": "Pseudo-complete", "posterior": "Posteriors"},
    **{"neither": "Labels as they are, sites alike", "partial": "Unknown left open"},
    **{"partial-outside": "Unknown left open, a little as nothing"},
    **{"posterior-outside": "Posteriors, the rest a little as nothing"},
    **{"fedavg": "FedAvg, labels as they are", "ganin": "Ganin 2016", "peng": "Peng 2019", "hong": "Hong 2021"},
    **{"single": "A site alone", "pooled": "One place, complete annotation"},
    **{"posterior-tuned": "Posteriors, tuned on hospitals", "pooled-tuned": "One place, tuned on hospitals"},
}
SITES = {"biored": "BioRED", "bionlp13cg": "BioNLP13CG", "bionlp13pc": "BioNLP13PC"}
ABLATIONS = (("full", "fedavg"), ("no-weight", "neither"), ("full", "no-weight"), ("posterior", "no-weight"))
FLOAT = 4  # bytes of a number
_PLOTTED = ("fedavg", "partial", "posterior", "no-weight", "full", "pooled")


def study_name(corpus: str, family: str, method: str) -> str:
    """Of a row of a table."""
    return f"{corpus}-{family}-{method}"


def families_of(measured: Measured, corpus: str, *methods: str) -> list[str]:
    """Those of which all of these methods were measured."""
    return [family for family in FAMILIES if measured.has(*(study_name(corpus, family, m) for m in methods))]


# Tables 1 and 2.


def corpus_tables(measured: Measured, corpus: str) -> str:
    """A table for each family that was measured, and a picture of all of them."""
    tables = [
        f"{TITLES[family]}:\n\n{found}" for family in FAMILIES if (found := score_table(measured, corpus, family))
    ]
    drawn = [pictures(name) for name in method_plots(measured) if name == f"methods-{corpus}"]
    return "\n\n".join([*tables, *drawn])


def score_table(measured: Measured, corpus: str, family: str) -> str:
    """Every method of a family: micro-F1 by site and in the mean, then macro-F1, in percent."""
    rows = [
        _row(measured, corpus, study, method)
        for method in (*methods_of(family), *TUNED_METHODS)
        if measured.has(study := study_name(corpus, family, method))
    ]
    sites = [_site_title(site) for site in measured.sites.get(corpus, {}).get("sites", {})]
    macro = ["macro", "annotated here", "not annotated here", "samplings"]
    theirs = ["published, mean"] if corpus in published.SCORES else []
    return table(["method", *sites, "mean", *macro, *theirs], rows) if rows else ""


def _site_title(site: str) -> str:
    return f"{site} ({GENRES[site]})" if site in GENRES else SITES.get(site, site)


def _row(measured: Measured, corpus: str, study: str, method: str) -> list[str]:
    by_site = measured.by_site(study)
    sites = [percent(by_site[site]) for site in measured.sites[corpus]["sites"]]
    spreads = [measured.spread(study, over) for over in ("micro", "all", "annotated")]
    missing = measured.spread(study, "missing")
    theirs = published.SCORES.get(corpus, {})
    told = [f"{theirs[method][-1]:.2f}" if method in theirs else NOTHING] if theirs else []
    cells = [*sites, *(percent(spread.mean) for spread in spreads), with_interval(missing), str(missing.seeds)]
    return [TITLES[method], *cells, *told]


def published_table(corpus: str) -> str:
    """What the paper has."""
    title, domains = published.DOMAINS[corpus]
    rows = [[TITLES[method], *(f"{f1:.2f}" for f1 in scores)] for method, scores in published.SCORES[corpus].items()]
    return f"Published, F1 on {title}:\n\n" + table(["method", *domains, "mean"], rows)


def type_tables(measured: Measured) -> str:
    """F1 by type where it is annotated and where it is not, with the paper's method and FedAvg."""
    parts = []
    for corpus in CORPORA:
        for family in families_of(measured, corpus, "full", "fedavg"):
            ours, theirs = (measured.by_type(study_name(corpus, family, method)) for method in ("full", "fedavg"))
            rows = [[kind, *map(percent, ours[kind]), *map(percent, theirs.get(kind, (None, None)))] for kind in ours]
            head = ["type", "annotated here", "not annotated here", "FedAvg, annotated", "FedAvg, not annotated"]
            parts.append(f"{TITLES[corpus]}, {TITLES[family]}:\n\n{table(head, rows)}")
    return "\n\n".join(parts)


# What each part of the method adds.


def ablation_table(measured: Measured) -> str:
    """Gains of macro-F1 over types that are not annotated at a site, on the same samplings, in points."""
    rows = []
    for corpus in CORPORA:
        for family in FAMILIES:
            gains = [_gain(measured, corpus, family, pair) for pair in ABLATIONS]
            if any(gain is not None for gain in gains):
                rows.append([TITLES[corpus], TITLES[family], *map(points, gains)])
    head = ["corpus", "family", "paper's over FedAvg", "distillation", "weighting", "soft over hard teaching"]
    return table(head, rows) if rows else ""


def _gain(measured: Measured, corpus: str, family: str, pair: tuple[str, str]) -> Spread | None:
    one, other = (study_name(corpus, family, method) for method in pair)
    return measured.gain(one, other)


# Bytes.


def bytes_table(measured: Measured) -> str:
    """What a site sends in a round, by family and corpus, and what weighting adds to it."""
    rows = []
    for corpus in CORPORA:
        for family in families_of(measured, corpus, "full", "no-weight"):
            rows.append([TITLES[corpus], TITLES[family], *_sizes(measured, corpus, family)])
    head = ["corpus", "family", "numbers", "trained", "a round without weighting", "of the network"]
    more = ["weighting adds", "numbers of it", "discriminators add"]
    return table([*head, *more], rows) if rows else ""


def _sizes(measured: Measured, corpus: str, family: str) -> list[str]:
    full, plain = (study_name(corpus, family, method) for method in ("full", "no-weight"))
    network = measured.network(full)
    added, discriminators = weighting_bytes(measured, corpus, family), discriminator_bytes(measured, corpus, family)
    return [
        f"{network['parameters']:,}",
        f"{100 * measured.share(full):.2f}%",
        size_text(round(measured.upload(plain))),
        f"{100 * upload_share(measured, plain):.2f}%",
        size_text(round(added)),
        f"{weighting_numbers(measured, full):,}",
        NOTHING if discriminators is None else size_text(round(discriminators)),
    ]


def discriminator_bytes(measured: Measured, corpus: str, family: str) -> float | None:
    """More than the same network sends without one, in the mean over the adversarial methods that were measured."""
    plain = study_name(corpus, family, "no-weight")
    names = [name for method in ADVERSARIAL if measured.has(name := study_name(corpus, family, method))]
    return sum(measured.upload(name) for name in names) / len(names) - measured.upload(plain) if names else None


def upload_share(measured: Measured, study: str) -> float:
    """Bytes from a site in a round over those of the whole network in float32."""
    return measured.upload(study) / (FLOAT * float(measured.network(study)["parameters"]))


def weighting_bytes(measured: Measured, corpus: str, family: str) -> float:
    """What a site sends in a round more than without weighting."""
    full, plain = (measured.upload(study_name(corpus, family, method)) for method in ("full", "no-weight"))
    return full - plain


def weighting_numbers(measured: Measured, study: str) -> int:
    """Of the gradient that sites compare by."""
    product = 1
    for length in measured.network(study)["probe"]:
        product *= int(length)
    return product


def protected_table(measured: Measured) -> str:
    """What a site sends in a round under each mechanism."""
    rows = []
    for family in FAMILIES:
        plain = study_name("synthetic", family, "full")
        names = [plain, *(weighing(family, way) for way in PROTECTED)]
        if any(measured.has(name) for name in names[1:]):
            sizes = [size_text(round(measured.upload(name))) if measured.has(name) else NOTHING for name in names]
            rows.append([TITLES[family], *sizes])
    return table(["family", "plain", *PROTECTED], rows) if rows else ""


# Figure 3.


def hidden_table(measured: Measured) -> str:
    """Figure 3 (a): how much is trained."""
    return _analysis(measured, BY_SIZE, "h")


def epochs_table(measured: Measured) -> str:
    """Figure 3 (b): how long a site trains in a round."""
    return _analysis(measured, BY_EPOCHS, "local epochs")


def _analysis(measured: Measured, studies: Mapping[str, str], title: str) -> str:
    rows = []
    for study, value in studies.items():
        if measured.has(study):
            micro, macro, missing = (measured.spread(study, over) for over in ("micro", "all", "missing"))
            cells = [with_interval(micro), percent(macro.mean), with_interval(missing), str(missing.seeds)]
            rows.append([value, f"{100 * measured.share(study):.2f}%", *cells])
    return table([title, "trained", "micro", "macro", "not annotated here", "samplings"], rows) if rows else ""


# Plots.


def pictures(*names: str) -> str:
    """Markdown of plots beside the page."""
    return "\n".join(f"![{name}]({name}.svg)" for name in names)


def plots(measured: Measured) -> dict[str, Plot]:
    """Those for which there are runs."""
    return {**figure3(measured), **method_plots(measured)}


def figure3(measured: Measured) -> dict[str, Plot]:
    """F1 against the share that is trained, and against local epochs."""
    sizes = _curves(measured, [name for name in BY_SIZE if name not in WIDER])
    if any(map(measured.has, WIDER)):
        slower = _curves(measured, [f"hidden-{TUNED_SIZE}", *WIDER])
        sizes |= {f"{title}, rate falls as h grows": curve for title, curve in slower.items()}
    epochs = _curves(measured, BY_EPOCHS)
    found = {"figure3a": (sizes, "percent of the network trained"), "figure3b": (epochs, "local epochs in a round")}
    return {
        name: learning_curves(curves, Labels("GUM, prompt, the paper's method", x, "F1"))
        for name, (curves, x) in found.items()
        if curves
    }


def _curves(measured: Measured, studies: Iterable[str]) -> dict[str, Curve]:
    """By the share that is trained, or by local epochs."""
    percents = {name: round(100 * measured.share(name), 2) for name in studies if measured.has(name)}
    known = [(float(BY_EPOCHS.get(name, share)), name) for name, share in percents.items()]
    measures: Mapping[str, Measure] = {"micro": "micro", "macro, types not annotated here": "missing"}
    return {
        title: [(x, measured.spread(name, over).mean) for x, name in known] for title, over in measures.items() if known
    }


def method_plots(measured: Measured) -> dict[str, Plot]:
    """Macro-F1 over types not annotated at a site, by family and method, a picture a corpus."""
    found = {}
    for corpus in CORPORA:
        bars: dict[str, dict[str, float | Interval]] = {}
        for method in _PLOTTED:
            for family in families_of(measured, corpus, method):
                spread = measured.spread(study_name(corpus, family, method), "missing")
                bars.setdefault(TITLES[method], {})[TITLES[family]] = _as_interval(spread)
        if bars:
            labels = Labels(f"{TITLES[corpus]}: types not annotated at a site", "", "macro-F1")
            found[f"methods-{corpus}"] = bar_chart(bars, labels)
    return found


def _as_interval(spread: Spread) -> float | Interval:
    return spread.mean if spread.interval is None else Interval(spread.mean, *spread.interval)


# Cells.
