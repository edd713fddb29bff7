"""Tables and plots of the page on heterogeneous tag sets, and its lines in the overview."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import product
from typing import Any

from papers.common.cells import NOTHING, Spread, bars_table, listed, percent, pictures, points, table, with_interval
from papers.common.paper import Found, Paper, read_published
from papers.common.sweep import tables_of
from papers.tagsets.make_sites import GENRES
from papers.tagsets.measured import CORPORA, FAMILIES, METHODS, Measure, Measured, study_name
from papers.tagsets.studies import VARIATIONS, Chosen, Settings, TagSetSweep, tries_of
from papers.tagsets.targets import BY_EPOCHS, BY_SIZE, PROTECTED, bars, claims, recovered_table, weighing

from wardround.evaluation.significance import Interval
from wardround.reports.plots import Curve, Labels, Plot, bar_chart, learning_curves
from wardround.text.plain_text import size_text

__all__ = ["PAPER", "PUBLISHED", "choose", "plots"]

PUBLISHED = read_published("tagsets")
SITES = {"biored": "BioRED", "bionlp13cg": "BioNLP13CG", "bionlp13pc": "BioNLP13PC"}
ABLATIONS = (("full", "fedavg"), ("no-weight", "neither"), ("full", "no-weight"), ("posterior", "no-weight"))
HOSPITALS = {"hospitals-posterior": "posterior", "hospitals-pooled": "pooled"}  # choices tuned on hospitals
_SLOWER = [name for name in BY_SIZE if name.endswith("-slower")]
_TUNED_SIZE = f"hidden-{Settings().prompt_hidden}"
_PLOTTED = ("fedavg", "partial", "posterior", "no-weight", "full", "pooled")
_SHORT = {"full": "the paper's method", "no-weight": "without weights", "neither": "labels as they are"}
_SHORT |= {"fedavg": "FedAvg", "ganin": "Ganin", "peng": "Peng", "hong": "Hong", "pooled": "all notes in one place"}


# Choosing.


def choose(
    runs: Sequence[Mapping[str, Any]], head: Mapping[str, Any], known: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Choose by macro-F1 on the tuning sampling; a choice whose candidates were not all tried stays.

    The rate of a family is the best over types that are not annotated at a site, on GUM (LightNER: on hospitals), with
    the paper's method; every method of the family takes it. The other time to ask the model is taken if it was better
    with the middle rate. For the hospitals, two methods of one family are tuned again by macro-F1 over all types.
    """
    measured, found = Measured({**head, "studies": Measured.condense(runs, head)}), dict(known)
    for choice in (*FAMILIES, *HOSPITALS):
        tries = tries_of(choice)
        if missing := [name for name, own in tries.items() if not measured.has(own.name)]:
            print(f"{choice}: {', '.join(missing)} not tried; it keeps {known.get(choice, 'nothing')}")
            continue
        measure: Measure = "all" if choice in HOSPITALS else "missing"
        f1 = {name: measured.spread(own.name, measure).mean for name, own in tries.items()}
        print(f"{choice}: {', '.join(f'{name} gives {100 * score:.1f}' for name, score in f1.items())}")
        best = tries[max(f1, key=lambda name: f1[name])].tried
        if choice in FAMILIES:
            _, middle, _, other_time = tries
            later = tries[other_time].trusted_after if f1[other_time] > f1[middle] else 0
            best = Chosen(best.rate, later)
        found[choice] = asdict(best)
    return found


# Tables 1 and 2.


def corpus_tables(measured: Measured, corpus: str) -> str:
    """Return a table for each family that was measured, and a plot of all of them."""
    tables = {title: score_table(measured, corpus, family) for family, title in FAMILIES.items()}
    drawn = [pictures(name) for name in method_plots(measured) if name == f"methods-{corpus}"]
    return "\n\n".join([*(f"{title}:\n\n{found}" for title, found in tables.items() if found), *drawn])


def score_table(measured: Measured, corpus: str, family: str) -> str:
    """Return every method of a family: micro-F1 by site and in the mean, then macro-F1, in percent."""
    sites = list(measured.sites.get(corpus, {}).get("sites", {}))
    theirs = PUBLISHED["scores"].get(corpus, {})
    rows = []
    for method, title in METHODS.items():
        if not measured.has(study := study_name(corpus, family, method)):
            continue
        by_site = measured.by_site(study)
        micro, macro, annotated = (measured.spread(study, over).mean for over in ("micro", "all", "annotated"))
        missing = measured.spread(study, "missing")
        published = [f"{theirs[method][-1]:.2f}" if method in theirs else NOTHING] if theirs else []
        cells = [percent(f1) for f1 in (*(by_site[site] for site in sites), micro, macro, annotated)]
        rows.append([title, *cells, with_interval(missing), str(missing.seeds), *published])
    titles = [f"{site} ({GENRES[site]})" if site in GENRES else SITES.get(site, site) for site in sites]
    head = ["mean", "macro", "annotated here", "not annotated here", "samplings"]
    return table(["method", *titles, *head, *(["published, mean"] if theirs else [])], rows)


def published_table(corpus: str) -> str:
    """Return the paper's table."""
    domain, scores = PUBLISHED["domains"][corpus], PUBLISHED["scores"][corpus]
    rows = [[METHODS[method], *(f"{f1:.2f}" for f1 in own)] for method, own in scores.items()]
    return f"Published, F1 on {domain['title']}:\n\n" + table(["method", *domain["sites"], "mean"], rows)


def type_tables(measured: Measured) -> str:
    """Return F1 by type where it is annotated and where not, with the paper's method and FedAvg."""
    parts = []
    for corpus, title in CORPORA.items():
        for family in measured.families(corpus, "full", "fedavg"):
            ours, theirs = (measured.by_type(study_name(corpus, family, method)) for method in ("full", "fedavg"))
            rows = [[kind, *map(percent, ours[kind]), *map(percent, theirs.get(kind, (None, None)))] for kind in ours]
            head = ["type", "annotated here", "not annotated here", "FedAvg, annotated", "FedAvg, not annotated"]
            parts.append(f"{title}, {FAMILIES[family]}:\n\n{table(head, rows)}")
    return "\n\n".join(parts)


def ablation_table(measured: Measured) -> str:
    """Return gains of macro-F1 over types not annotated at a site, on the same samplings, in points."""
    rows = []
    for corpus, family in product(CORPORA, FAMILIES):
        gains = [measured.gain(*(study_name(corpus, family, method) for method in pair)) for pair in ABLATIONS]
        if any(gain is not None for gain in gains):
            rows.append([CORPORA[corpus], FAMILIES[family], *map(points, gains)])
    head = ["corpus", "family", "paper's over FedAvg", "distillation", "weighting", "soft over hard teaching"]
    return table(head, rows)


# Bytes.


def bytes_table(measured: Measured) -> str:
    """Return what a site sends in a round, by corpus and family, and what weighting adds to it."""
    rows = []
    for corpus, title in CORPORA.items():
        for family in measured.families(corpus, "full", "no-weight"):
            full, plain = (study_name(corpus, family, method) for method in ("full", "no-weight"))
            discriminators = measured.discriminator_bytes(corpus, family)
            cells = [
                f"{measured.studies[full]['network']['parameters']:,}",
                f"{100 * measured.trained_share(full):.2f}%",
                size_text(round(measured.upload(plain))),
                f"{100 * measured.upload_share(plain):.2f}%",
                size_text(round(measured.weighting_bytes(corpus, family))),
                f"{measured.weighting_numbers(full):,}",
                NOTHING if discriminators is None else size_text(round(discriminators)),
            ]
            rows.append([title, FAMILIES[family], *cells])
    head = ["corpus", "family", "numbers", "trained", "a round without weighting", "of the network"]
    return table([*head, "weighting adds", "numbers of it", "discriminators add"], rows)


def protected_table(measured: Measured) -> str:
    """Return what a site sends in a round under each mechanism."""
    rows = []
    for family, title in FAMILIES.items():
        protected = [weighing(family, way) for way in PROTECTED]
        if any(map(measured.has, protected)):
            names = [study_name("synthetic", family, "full"), *protected]
            rows.append([title, *(size_text(round(measured.upload(n))) if measured.has(n) else NOTHING for n in names)])
    return table(["family", "plain", *PROTECTED], rows)


# Figure 3.


def analysis_table(measured: Measured, studies: Mapping[str, str], title: str) -> str:
    """Return F1 by how much is trained, or by local epochs."""
    rows = []
    for study, value in studies.items():
        if measured.has(study):
            micro, macro, missing = (measured.spread(study, over) for over in ("micro", "all", "missing"))
            cells = [with_interval(micro), percent(macro.mean), with_interval(missing), str(missing.seeds)]
            rows.append([value, f"{100 * measured.trained_share(study):.2f}%", *cells])
    return table([title, "trained", "micro", "macro", "not annotated here", "samplings"], rows)


def figure3(measured: Measured) -> dict[str, Plot]:
    """Return F1 against the share that is trained, and against local epochs."""
    sizes = _curves(measured, [name for name in BY_SIZE if name not in _SLOWER])
    if any(map(measured.has, _SLOWER)):
        slower = _curves(measured, [_TUNED_SIZE, *_SLOWER])
        sizes |= {f"{title}, rate falls as h grows": curve for title, curve in slower.items()}
    epochs = _curves(measured, BY_EPOCHS)
    found = {"figure3a": (sizes, "percent of the network trained"), "figure3b": (epochs, "local epochs in a round")}
    return {
        name: learning_curves(curves, Labels("GUM, prompt, the paper's method", x, "F1"))
        for name, (curves, x) in found.items()
        if curves
    }


def _curves(measured: Measured, studies: Iterable[str]) -> dict[str, Curve]:
    percents = {name: round(100 * measured.trained_share(name), 2) for name in studies if measured.has(name)}
    known = [(float(BY_EPOCHS.get(name, share)), name) for name, share in percents.items()]
    measures: Mapping[str, Measure] = {"micro": "micro", "macro, types not annotated here": "missing"}
    return {
        title: [(x, measured.spread(name, over).mean) for x, name in known] for title, over in measures.items() if known
    }


def method_plots(measured: Measured) -> dict[str, Plot]:
    """Return macro-F1 over types not annotated at a site by family and method, a plot per corpus."""
    found = {}
    for corpus, title in CORPORA.items():
        scores: dict[str, dict[str, float | Interval]] = {}
        for method in _PLOTTED:
            for family in measured.families(corpus, method):
                spread: Spread = measured.spread(study_name(corpus, family, method), "missing")
                own = spread.mean if spread.interval is None else Interval(spread.mean, *spread.interval)
                scores.setdefault(METHODS[method], {})[FAMILIES[family]] = own
        if scores:
            labels = Labels(f"{title}: types not annotated at a site", "", "macro-F1")
            found[f"methods-{corpus}"] = bar_chart(scores, labels)
    return found


def plots(measured: Measured) -> dict[str, Plot]:
    """Return all plots for which there are runs."""
    return {**figure3(measured), **method_plots(measured)}


# How it was measured.


def sites_table(measured: Measured) -> str:
    """Return the sentences of every site, and its mentions of each type for training and for testing."""
    parts = []
    for corpus, described in measured.sites.items():
        rows = []
        for name, site in described["sites"].items():
            cells = [str(site[part]["sentences"]) for part in ("train", "test")]
            for kind in described["types"]:
                mentions = " / ".join(str(site[part]["mentions"].get(kind, 0)) for part in ("train", "test"))
                cells.append(mentions if kind in site["scored"] else NOTHING)
            rows.append([name, *cells])
        head = ["site", "sentences for training", "for testing", *described["types"]]
        parts.append(f"{CORPORA[corpus]}, mentions for training / for testing:\n\n{table(head, rows)}")
    return "\n\n".join(parts)


def samplings_table(measured: Measured) -> str:
    """Return who annotates what in each sampling."""
    parts = []
    for corpus, described in measured.sites.items():
        sites = list(described["sites"])
        rows = [[name, *(", ".join(own[site]) for site in sites)] for name, own in described["samplings"].items()]
        parts.append(f"{CORPORA[corpus]}:\n\n{table(['sampling', *sites], rows)}")
    return "\n\n".join(parts)


def rates_table(measured: Measured) -> str:
    """Return what was tried on the development notes, and the choice of each family."""
    chosen, rows = measured.expected.get("chosen", {}), []
    for family in [family for family in FAMILIES if family in chosen]:
        sweep = TagSetSweep(Settings(**measured.expected["settings"]), None, {family: chosen[family]})
        full = {title: VARIATIONS[study_name(corpus, family, "full")] for corpus, title in CORPORA.items()}
        asked = ", ".join(f"{title} {sweep.setting(own, 'trusted_after')}" for title, own in full.items())
        tried = {name: own.name for name, own in tries_of(family).items() if measured.has(own.name)}
        texts = [f"{name}: {percent(measured.spread(study, 'missing').mean)}" for name, study in tried.items()]
        rows.append([FAMILIES[family], f"{chosen[family]['rate']:g}", asked, "; ".join(texts) or NOTHING])
    head = ["family", "rate", "rounds before the model is asked", "tried, macro-F1 over types not annotated here"]
    return table(head, rows)


def hospital_rates_table(measured: Measured) -> str:
    """Return what was tried on hospitals that are in no table, the best first."""
    rows = []
    for choice, method in HOSPITALS.items():
        known = [own for own in tries_of(choice).values() if measured.has(own.name)]
        f1 = {own.name: measured.spread(own.name, "all").mean for own in known}
        for own in sorted(known, key=lambda own: -f1[own.name]):
            settings = [str(value or NOTHING) for value in (own.trusted_after, own.local_epochs, own.pooled_epochs)]
            rows.append([METHODS[method], own.rate, *settings, percent(f1[own.name])])
    head = ["method", "rate", "rounds before the model is asked", "local epochs", "epochs in one place"]
    return table([*head, "macro-F1 over all types"], rows)


def setup_text(measured: Measured) -> str:
    """Return rounds and devices."""
    settings = measured.expected.get("settings", {})
    if not settings:
        return ""
    rounds = ", ".join(f"{title} {settings[f'{corpus}_rounds']}" for corpus, title in CORPORA.items())
    devices = ", ".join(measured.expected.get("devices", [])) or NOTHING
    return f"Rounds: {rounds}. Batches of {settings['batch_size']}. Measured on: {devices}."


def missing_text(measured: Measured) -> str:
    """Return which studies of the tables have no finished run."""
    if not measured.studies:
        return ""
    missing = measured.missing([name for name in tables_of(VARIATIONS) if name not in (*CORPORA, "tune")])
    return f"Not measured: {'; '.join(missing)}." if missing else "Every study of the tables was measured."


# The overview.


def _found_table(measured: Measured, corpus: str) -> Found:
    if (best := measured.best([corpus])) is None:
        return Found()
    known = measured.known({title: study_name(*best, method) for method, title in _SHORT.items()})
    scores = {title: 100 * measured.spread(name, "micro").mean for title, name in known.items()}
    gain, shows = measured.gain(study_name(*best, "full"), study_name(*best, "fedavg")), ""
    if gain is not None:
        difference = f"{100 * gain.mean:+.1f} from FedAvg"
        shows = f"In macro-F1 over types not annotated at a site the paper's method is {difference}."
    return Found(f"mean F1, {FAMILIES[best[1]]}: {listed(scores)}", measured.seed_counts(known), shows)


def _found_table3(measured: Measured) -> Found:
    sites = measured.sites.get("bio", {}).get("sites", {})
    texts = [f"{name} {site['train']['sentences']:,} / {site['test']['sentences']:,}" for name, site in sites.items()]
    return Found(f"sentences for training / for testing: {', '.join(texts)}") if texts else Found()


def _found_figure3(measured: Measured) -> Found:
    texts, seeds, best = [], list[int](), []
    for title, studies in {"h": BY_SIZE, "local epochs": BY_EPOCHS}.items():
        if known := measured.known({x: name for name, x in studies.items()}):
            scores = {f"{x}:": 100 * measured.spread(name, "micro").mean for x, name in known.items()}
            texts.append(f"by {title} {listed(scores)}")
            best.append(f"{title} {max(scores, key=lambda x: scores[x])[:-1]}")
            seeds += measured.seed_counts(known)
    return Found(f"mean F1 {'; '.join(texts)}", seeds, f"Best with {' and '.join(best)}.") if texts else Found()


PAPER = Paper(
    "tagsets",
    sweep=TagSetSweep,
    measured=Measured,
    tables={
        "bars": lambda measured: bars_table(bars(measured)),
        "claims": claims,
        "table1": lambda measured: corpus_tables(measured, "gum"),
        "published1": lambda measured: published_table("gum"),
        "table2": lambda measured: corpus_tables(measured, "bio"),
        "published2": lambda measured: published_table("bio"),
        "synthetic": lambda measured: corpus_tables(measured, "synthetic"),
        "types": type_tables,
        "recovered": recovered_table,
        "ablations": ablation_table,
        "bytes": bytes_table,
        "protected": protected_table,
        "figure3a": lambda measured: analysis_table(measured, BY_SIZE, "h"),
        "figure3b": lambda measured: analysis_table(measured, BY_EPOCHS, "local epochs"),
        "figure3": lambda measured: pictures(*figure3(measured)),
        "setup": setup_text,
        "sites": sites_table,
        "samplings": samplings_table,
        "rates": rates_table,
        "rates-hospitals": hospital_rates_table,
        "missing": missing_text,
    },
    found={
        "table1": lambda measured: _found_table(measured, "gum"),
        "table2": lambda measured: _found_table(measured, "bio"),
        "table3": _found_table3,
        "figure3": _found_figure3,
    },
    plots=plots,
    bars=bars,
    choices={"rates": choose},
)
