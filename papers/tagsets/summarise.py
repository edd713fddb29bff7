"""The tables of `README.md` from measured runs.

    python -m papers.tagsets.summarise runs/tagsets/work/results.json
    python -m papers.tagsets.summarise --check

The first writes `expected.json`, every run in brief, and from it each table between its markers on the page, and the
plots beside it. Several files of results are joined. Without any, the tables are made from the `expected.json` that is
there. With `--check` nothing is written: what was to be reached is told, and the exit status is 1 where it was not, or
was not measured.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from papers.common.page import NOTHING, fill, table
from papers.common.runs import joined
from papers.common.spread import percent
from papers.common.summary import arguments_of, read_summary, tell, write_page, write_summary
from papers.tagsets.bars import all_met, bars, bars_table, claims_table, recovered_table
from papers.tagsets.figures import (
    TITLES,
    ablation_table,
    bytes_table,
    corpus_tables,
    epochs_table,
    figure3,
    hidden_table,
    pictures,
    plots,
    protected_table,
    published_table,
    study_name,
    type_tables,
)
from papers.tagsets.measure import CHOSEN
from papers.tagsets.measured import Measured, condensed
from papers.tagsets.variations import (
    CORPORA,
    FAMILIES,
    HOSPITAL_TRIES,
    VARIATIONS,
    Chosen,
    Settings,
    hospital_try,
    trusted_after,
    tuning_tries,
)
from papers.tagsets.variations import TABLES as TABLE_NAMES

HERE = Path(__file__).resolve().parent

TABLES: Mapping[str, Callable[[Measured], str]] = {
    "bars": bars_table,
    "claims": claims_table,
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
    "figure3a": hidden_table,
    "figure3b": epochs_table,
    "figure3": lambda measured: pictures(*figure3(measured)),
}


def sites_table(expected: Mapping[str, Any]) -> str:
    """Sentences of every site, and the mentions of each type that its notes have for training and for testing."""
    parts = []
    for corpus, described in expected.get("sites", {}).items():
        types = described["types"]
        rows = [
            [
                name,
                str(site["train"]["sentences"]),
                str(site["test"]["sentences"]),
                *(_mentions(site, t) for t in types),
            ]
            for name, site in described["sites"].items()
        ]
        head = ["site", "sentences for training", "for testing", *types]
        parts.append(f"{TITLES[corpus]}, mentions for training / for testing:\n\n{table(head, rows)}")
    return "\n\n".join(parts)


def _mentions(site: Mapping[str, Any], kind: str) -> str:
    if kind not in site["scored"]:
        return NOTHING
    return " / ".join(str(site[part]["mentions"].get(kind, 0)) for part in ("train", "test"))


def samplings_table(expected: Mapping[str, Any]) -> str:
    """Who annotates what in each sampling."""
    parts = []
    for corpus, described in expected.get("sites", {}).items():
        sites = list(described["sites"])
        rows = [[name, *(", ".join(own[site]) for site in sites)] for name, own in described["samplings"].items()]
        parts.append(f"{TITLES[corpus]}:\n\n{table(['sampling', *sites], rows)}")
    return "\n\n".join(parts)


def rates_table(expected: Mapping[str, Any]) -> str:
    """What was tried on the development notes, and with what each family was measured."""
    chosen, measured = expected.get("chosen", {}), measured_of(expected)
    rows = []
    for family in [family for family in FAMILIES if family in chosen]:
        tried = tuning_tries(family).items()
        told = [f"{name}: {_tuned(measured, study)}" for name, study in tried if measured.has(study)]
        own = [f"{chosen[family]['rate']:g}", _asked_after(family, expected)]
        rows.append([TITLES[family], *own, "; ".join(told) or NOTHING])
    head = ["family", "rate", "rounds before the model is asked", "tried, macro-F1 over types not annotated here"]
    return table(head, rows) if rows else ""


def _asked_after(family: str, expected: Mapping[str, Any]) -> str:
    """By corpus, for it is never more than half of the rounds."""
    settings, chosen = Settings(**expected["settings"]), {family: Chosen(**expected["chosen"][family])}
    rounds = {c: trusted_after(VARIATIONS[study_name(c, family, "full")], settings, chosen) for c in CORPORA}
    return ", ".join(f"{TITLES[corpus]} {number}" for corpus, number in rounds.items())


def hospital_rates_table(expected: Mapping[str, Any]) -> str:
    """What was tried on hospitals that are in no table, the best first."""
    measured, rows = measured_of(expected), []
    for method, tries in HOSPITAL_TRIES.items():
        known = [own for own in tries if measured.has(hospital_try(method, own))]
        f1 = {own: measured.spread(hospital_try(method, own), "all").mean for own in known}
        for own in sorted(known, key=lambda own: -f1[own]):
            settings = [str(number or NOTHING) for number in (own.trusted_after, own.local_epochs, own.pooled_epochs)]
            rows.append([TITLES[method], f"{own.rate:g}", *settings, percent(f1[own])])
    head = ["method", "rate", "rounds before the model is asked", "local epochs", "epochs in one place"]
    head.append("macro-F1 over all types")
    return table(head, rows) if rows else ""


def _tuned(measured: Measured, study: str) -> str:
    return percent(measured.spread(study, "missing").mean)


def setup_text(expected: Mapping[str, Any]) -> str:
    """Rounds and devices."""
    settings = expected.get("settings", {})
    if not settings:
        return ""
    rounds = ", ".join(f"{TITLES[corpus]} {settings[f'{corpus}_rounds']}" for corpus in CORPORA)
    devices = ", ".join(expected.get("devices", [])) or NOTHING
    return f"Rounds: {rounds}. Batches of {settings['batch_size']}. Measured on: {devices}."


def missing_text(expected: Mapping[str, Any]) -> str:
    """Which studies of the tables have no finished run, and which have fewer samplings than others."""
    known = expected.get("studies", {})
    if not known:
        return ""
    told = [text for name in TABLE_NAMES if name not in (*CORPORA, "tune") and (text := _missing(name, known))]
    return f"Not measured: {'; '.join(told)}." if told else "Every study of the tables was measured."


def _missing(name: str, known: Mapping[str, Any]) -> str:
    studies = [study for study, variation in VARIATIONS.items() if name in variation.tables]
    missing = [study for study in studies if study not in known]
    return f"all of {name}" if missing == studies else f"of {name} {', '.join(missing)}" if missing else ""


OTHERS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "setup": setup_text,
    "sites": sites_table,
    "samplings": samplings_table,
    "rates": rates_table,
    "rates-hospitals": hospital_rates_table,
    "missing": missing_text,
}


def measured_of(expected: Mapping[str, Any]) -> Measured:
    """What `expected.json` holds."""
    return Measured(expected.get("studies", {}), expected.get("sites", {}))


def filled(page: str, expected: Mapping[str, Any]) -> str:
    """The page with every table made from what was measured."""
    measured = measured_of(expected)
    for name, make in TABLES.items():
        page = fill(page, name, make(measured))
    for name, told in OTHERS.items():
        page = fill(page, name, told(expected))
    return page


def main() -> None:
    """Condense where results are given, then fill the page; or tell what was reached."""
    asked = arguments()
    expected = read_summary(asked.expected)
    if asked.check:
        measured = measured_of(expected)
        sys.exit(tell(bars(measured), met=all_met(measured)))
    if asked.results:
        head, runs = joined(asked.results)
        chosen = json.loads(asked.chosen.read_text(encoding="utf-8"))
        expected = {**head, "chosen": chosen, "studies": condensed(runs, head["sites"])}
        write_summary(asked.expected, expected)
    page = asked.readme.read_text(encoding="utf-8")
    write_page(asked.readme, filled(page, expected), plots(measured_of(expected)))


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = arguments_of(__doc__, HERE)
    parser.add_argument("--chosen", type=Path, default=CHOSEN, help="what was chosen for the runs")
    return parser.parse_args()


if __name__ == "__main__":
    main()
