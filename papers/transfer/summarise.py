"""The tables of `README.md` from measured runs.

    python -m papers.transfer.summarise runs/transfer/work/results.json
    python -m papers.transfer.summarise --check

The first writes `expected.json`, every run in brief, and from it each table between its markers on the page, and the
plots beside it. Several files of results are joined. Without any, the tables are made from the `expected.json` that is
there. With `--check` nothing is written: what was to be reached is told, and the exit status is 1 where it was not, or
was not measured.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from papers.common.page import NOTHING, fill, table
from papers.common.runs import joined
from papers.common.summary import arguments_of, read_summary, tell, write_page, write_summary
from papers.transfer import published
from papers.transfer.bars import all_met, bars, bars_table, claims_table
from papers.transfer.cells import TITLES
from papers.transfer.figures import (
    beside_table,
    experiment1_table,
    experiment2_table,
    figure2,
    figure3,
    hidden_table,
    official_table,
    pictures,
    plots,
    saved_table,
    sources_table,
    types_table,
)
from papers.transfer.measured import Measured, condensed
from papers.transfer.variations import TABLES as TABLE_NAMES
from papers.transfer.variations import VARIATIONS

HERE = Path(__file__).resolve().parent

TABLES: Mapping[str, Callable[[Measured], str]] = {
    "bars": bars_table,
    "claims": claims_table,
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
}


def sites_table(expected: Mapping[str, Any]) -> str:
    """How much there is at each site, beside the paper's Table 1."""
    rows = []
    for corpus, sites in expected.get("sites", {}).items():
        for name, site in sites.items():
            notes = " / ".join(str(site[part]["notes"]) for part in ("train", "dev", "test"))
            figures = [f"{site['train'][what]:,}" for what in ("sentences", "words", "mentions")]
            rows.append([f"{TITLES[corpus]}, {name}", notes, *figures, str(len(site["types"]))])
    for name, sizes in published.CORPORA.items():
        notes, words, mentions = (f"{sizes[what]:,}" for what in ("notes", "words", "mentions"))
        rows.append([f"Lee 2017, {name}, all parts", notes, NOTHING, words, mentions, NOTHING])
    head = ["site", "notes: training / development / test", "sentences for training", "words", "mentions", "types"]
    return table(head, rows)


def setup_text(expected: Mapping[str, Any]) -> str:
    """The recipe and the devices."""
    settings = expected.get("settings", {})
    if not settings:
        return ""
    devices = ", ".join(expected.get("devices", [])) or NOTHING
    return (
        f"SGD at {settings['learning_rate']:g}, {settings['batch_size']} sentences a mini-batch, stopped after "
        f"{settings['patience']} epochs without a better development F1, at the latest after {settings['epochs']}. An "
        f"epoch has {settings['least']} sentences at least. Measured on: {devices}."
    )


def stopped_text(expected: Mapping[str, Any]) -> str:
    """How many trainings were ended by patience, and not by the last epoch."""
    told = []
    for title, ends in (("without transfer", "none"), ("with transfer", "all")):
        mine = [s for name, s in expected.get("studies", {}).items() if name.endswith(f"-{ends}")]
        if mine:
            stopped = [flag for study in mine for flag in study["stopped"]]
            told.append(f"{title} {sum(stopped)} of {len(stopped)}")
    return f"Trainings of targets that patience ended, and not the last epoch: {', '.join(told)}." if told else ""


def missing_text(expected: Mapping[str, Any]) -> str:
    """Which trainings of the tables have no finished run, or not with all their seeds."""
    known = expected.get("studies", {})
    if not known:
        return ""
    told = [text for name in ("sources", "official", "experiment1", "experiment2") if (text := _missing(name, known))]
    return f"Not measured: {'; '.join(told)}." if told else "Every training of the tables was measured."


def _missing(name: str, known: Mapping[str, Any]) -> str:
    assert name in TABLE_NAMES, "a table of the measurement"
    wanted = [(v.name, seed) for v in VARIATIONS.values() if name in v.tables for seed in v.seeds]
    missing = [study for study, seed in wanted if seed not in known.get(study, {"seed": []})["seed"]]
    if not missing:
        return ""
    return f"{len(missing)} of {len(wanted)} runs of {name} ({', '.join(dict.fromkeys(missing))})"


OTHERS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "sites": sites_table,
    "setup": setup_text,
    "stopped": stopped_text,
    "missing": missing_text,
}


def measured_of(expected: Mapping[str, Any]) -> Measured:
    """What `expected.json` holds."""
    return Measured(expected.get("studies", {}))


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
    asked = arguments_of(__doc__, HERE).parse_args()
    expected = read_summary(asked.expected)
    if asked.check:
        measured = measured_of(expected)
        sys.exit(tell(bars(measured), met=all_met(measured)))
    if asked.results:
        head, runs = joined(asked.results)
        expected = {**head, "studies": condensed(runs)}
        write_summary(asked.expected, expected)
    page = asked.readme.read_text(encoding="utf-8")
    write_page(asked.readme, filled(page, expected), plots(measured_of(expected)))


if __name__ == "__main__":
    main()
