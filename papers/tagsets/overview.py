"""What `papers/README.md` says of the paper on heterogeneous tag sets, from `expected.json`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from papers.common.overview import DRAWING, Found, Item, Paper, Way, listed
from papers.tagsets import published
from papers.tagsets.bars import best_of
from papers.tagsets.figures import TITLES, study_name
from papers.tagsets.measured import Measured
from papers.tagsets.summarise import measured_of
from papers.tagsets.variations import BY_EPOCHS, BY_SIZE

_METHODS = {"full": "the paper's method", "no-weight": "without weights", "neither": "labels as they are"}
_METHODS |= {"fedavg": "FedAvg", "ganin": "Ganin", "peng": "Peng", "hong": "Hong", "pooled": "all notes in one place"}
_NETWORKS = "prompts over MiniLM, LoRA, a BiLSTM-CRF or a small BART in place of LightNER on bart-base"


def _table(corpus: str) -> Callable[[Mapping[str, Any]], Found]:
    def found(expected: Mapping[str, Any]) -> Found:
        measured = measured_of(expected)
        best = best_of(measured, [corpus])
        if best is None:
            return Found()
        names = {title: study_name(*best, method) for method, title in _METHODS.items()}
        known = {title: name for title, name in names.items() if measured.has(name)}
        scores = {title: 100 * measured.spread(name, "micro").mean for title, name in known.items()}
        seeds = [len(measured.studies[name]["seed"]) for name in known.values()]
        return Found(f"mean F1, {TITLES[best[1]]}: {listed(scores)}", seeds, _shows(measured, best))

    return found


def _shows(measured: Measured, best: tuple[str, str]) -> str:
    gain = measured.gain(study_name(*best, "full"), study_name(*best, "fedavg"))
    if gain is None:
        return ""
    return f"In macro-F1 over types not annotated at a site the paper's method is {100 * gain.mean:+.1f} from FedAvg."


def _figure3(expected: Mapping[str, Any]) -> Found:
    measured, told, seeds = measured_of(expected), [], list[int]()
    best = []
    for title, studies in {"h": BY_SIZE, "local epochs": BY_EPOCHS}.items():
        known = {x: name for name, x in studies.items() if measured.has(name)}
        if known:
            scores = {f"{x}:": 100 * measured.spread(name, "micro").mean for x, name in known.items()}
            told.append(f"by {title} {listed(scores)}")
            best.append(f"{title} {max(scores, key=lambda x: scores[x])[:-1]}")
            seeds += [len(measured.studies[name]["seed"]) for name in known.values()]
    return Found(f"mean F1 {'; '.join(told)}", seeds, f"Best with {' and '.join(best)}.") if told else Found()


def _published(corpus: str) -> str:
    theirs = {_METHODS[method]: scores[-1] for method, scores in published.SCORES[corpus].items()}
    return f"{published.DOMAINS[corpus][0]}, mean F1: {listed(theirs, digits=2)}"


def _sizes(expected: Mapping[str, Any]) -> Found:
    sites = expected.get("sites", {}).get("bio", {}).get("sites", {})
    told = [f"{name} {site['train']['sentences']:,} / {site['test']['sentences']:,}" for name, site in sites.items()]
    return Found(f"sentences for training / for testing: {', '.join(told)}") if told else Found()


PAPER = Paper(
    "tagsets",
    "Heterogeneous tag sets (Wang 2023)",
    (
        Item("figures1-2", "Figures 1 and 2: framework and annotation", differs=DRAWING),
        Item(
            "table1",
            "Table 1: six domains",
            "six genres of GUM",
            _published("gum"),
            f"OntoNotes cannot be redistributed; {_NETWORKS}",
            "table-1-six-genres",
            ("table1", "published1"),
            Way(only=("gum",)),
            _table("gum"),
        ),
        Item(
            "table2",
            "Table 2: clinic data",
            "BioRED, BioNLP13CG, BioNLP13PC",
            _published("bio"),
            f"the authors' annotation of ADE, CADEC and SMM4H is not at hand; {_NETWORKS}",
            "table-2-three-corpora",
            ("table2", "published2"),
            Way(only=("bio",)),
            _table("bio"),
        ),
        Item(
            "table3",
            "Table 3: corpora",
            "BioRED, BioNLP13CG, BioNLP13PC",
            "ADE, CADEC and SMM4H",
            "other corpora",
            "sites",
            ("sites",),
            found=_sizes,
        ),
        Item(
            "figure3",
            "Figure 3: numbers that train, local epochs",
            "six genres of GUM, a prompt over MiniLM",
            "a figure without numbers",
            "OntoNotes cannot be redistributed; h of a prompt in place of LightNER's",
            "figure-3",
            ("figure3a", "figure3b", "figure3"),
            Way(only=("figure3a", "figure3b")),
            _figure3,
        ),
    ),
)
