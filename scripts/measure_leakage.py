#!/usr/bin/env python3
"""Measure what updates reveal, and write the tables of docs/leakage.md: `python scripts/measure_leakage.py`.

The figures are in docs/leakage-figures.json. `--only NAME` measures one study again, `--page` only writes the tables
from the figures. The encoder is the MiniLM of the extra `minilm`; notes are those of the built-in hospitals.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

import torch

import wardround
from wardround.privacy.audit.crafted import CRAFTED
from wardround.studies.leakage_audit import audit_leakage
from wardround.studies.leakage_findings import BOTH, COORDINATOR, OTHER_SITE, Finding
from wardround.studies.run_folder import versions

DOCS = Path(__file__).resolve().parents[1] / "docs"
FIGURES, PAGE = DOCS / "leakage-figures.json", DOCS / "leakage.md"
MECHANISMS = ("plain", "masked", "sealed", "sealed+masked")
READERS = {COORDINATOR: "coordinator", OTHER_SITE: "another site", BOTH: "both together"}
SITES = {
    "harbour": {"built_in": "harbour", "types": ["Drug", "Disease", "Dosage"]},
    "hillside": {"built_in": "hillside", "types": ["Drug", "ADE", "Finding"]},
    "riverside": {"built_in": "riverside", "types": ["Drug", "ADE", "Symptom"]},
    "lakeside": {"built_in": "lakeside", "types": ["Disease", "Symptom", "Finding", "Dosage"]},
}
SAME_TYPES = {name: {**site, "types": ["Drug"]} for name, site in SITES.items()}
WORDS = {"word_buckets": 8192, "word_dimension": 50, "word_cnn": 100, "lstm": 100}
DROPOUT = {"input_dropout": 0.5, "dropout": 0.5}
NO_DROPOUT = {"input_dropout": 0.0, "dropout": 0.0}
LAYERS = [f"layer_{number}" for number in range(6)]
LORA = {"encoder": "minilm", "adapter": "lora"}
NOISE = {"epsilon": 8.0, "delta": 0.0005, "sampling_rate": 0.15, "clip": 0.5}


def study(model: Mapping[str, Any], mechanism: str, *, sentences: int = 16, **sections: Any) -> wardround.Study:
    """Return a study of the four hospitals in which an update has so many sentences and a sum three sites."""
    settings: dict[str, Any] = {
        "sites": SITES,
        "algorithm": {"name": "fedner", "rounds": 100},
        "training": {"batch_size": sentences * len(SITES), "learning_rate": 0.0005},
        "privacy": {"mechanism": mechanism, "minimum_sites": 3, "smallest_batch": sentences},
        **sections,
    }
    return wardround.Study("leakage", model=model, seed=7, **settings)


def studies() -> Iterator[tuple[str, str, wardround.Study]]:
    """Yield the group, the name and the study of each measurement."""
    words = {**WORDS, **DROPOUT}
    for mechanism in MECHANISMS:
        yield "words", mechanism, study({**words, "shared": ["words", "characters", "word_cnn"]}, mechanism)
    for mechanism in MECHANISMS:
        yield "word-cnn", mechanism, study({**words, "shared": ["characters", "word_cnn"]}, mechanism)
    yield (
        "word-cnn-no-dropout",
        "masked",
        study({**WORDS, **NO_DROPOUT, "shared": ["characters", "word_cnn"]}, "masked"),
    )
    for mechanism in MECHANISMS:
        yield "encoder", mechanism, study({"encoder": "minilm"}, mechanism)
    for mechanism in MECHANISMS:
        yield "layers-1", mechanism, study({"encoder": "minilm", "shared": LAYERS}, mechanism, sentences=1)
    yield "layers-16", "masked", study({"encoder": "minilm", "shared": LAYERS}, "masked")
    yield "layers-40", "masked", study({"encoder": "minilm", "shared": LAYERS}, "masked", sentences=40)
    yield (
        "epoch",
        "masked",
        study(
            {"encoder": "minilm"},
            "masked",
            algorithm={"name": "fedavg", "rounds": 10},
            training={"batch_size": 16, "learning_rate": 0.00005},
        ),
    )
    yield "lora-1", "masked", study({**LORA, "shared": ["lora"]}, "masked", sentences=1)
    yield "lora-16", "masked", study({**LORA, "shared": ["lora"]}, "masked")
    yield (
        "lora-dp",
        "masked",
        study(
            {**LORA, "shared": ["all"]},
            "masked",
            sites=SAME_TYPES,
            training={"learning_rate": 0.005},
            privacy={"mechanism": "masked", "minimum_sites": 3, "differential_privacy": NOISE},
        ),
    )


GROUPS = {
    "words": "word network, table of words shared, 16 sentences a site",
    "word-cnn": "word network as `study new` writes it (no table, dropout 0.5), 16 sentences a site",
    "word-cnn-no-dropout": "the same without dropout",
    "encoder": "MiniLM, every layer below the output, 16 sentences a site",
    "layers-1": "MiniLM, layers without embeddings, 1 sentence a site",
    "layers-16": "the same, 16 sentences a site",
    "layers-40": "the same, 40 sentences a site",
    "epoch": "MiniLM, every layer, FedAvg, one epoch",
    "lora-1": "LoRA on MiniLM, 1 sentence a site",
    "lora-16": "LoRA on MiniLM, 16 sentences a site",
    "lora-dp": "LoRA on MiniLM, differential privacy with ε = 8",
}


def measured(only: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the figures of each study."""
    for group, mechanism, each in studies():
        name = f"{group} {mechanism}"
        if only and only not in (group, name):
            continue
        started = time.perf_counter()
        found = audit_leakage(each.settings).as_json()
        seconds = time.perf_counter() - started
        print(f"{name}: {seconds:.0f} s, {found['sentence']}", flush=True)
        yield name, {"group": group, "seconds": round(seconds), **found}


# What it costs to keep the table of words at each site.


def f1_of(sites: Mapping[str, Any], shared: Sequence[str], seed: int) -> float:
    """Return the mean strict F1 over the sites after the rounds of the template."""
    settings = wardround.Study(
        "cost",
        sites=sites,
        model={**WORDS, **DROPOUT, "shared": list(shared)},
        algorithm={"name": "fedner", "rounds": 200},
        training={"batch_size": 16 * len(sites), "learning_rate": 0.003},
        evaluation={"every": 20},
        seed=seed,
    )
    with TemporaryDirectory() as folder:
        scores = wardround.run(settings, out=Path(folder) / "run", progress=False).scores
    return mean(site["strict"]["f1"] for site in scores.values())


def costs() -> dict[str, Any]:
    """Return F1 with and without a shared table of words, by number of sites and seed."""
    four = {name: {"built_in": name} for name in SITES}
    small = [f"{name}-{number:04}" for number, name in zip(range(10), cycle(SITES), strict=False)]
    ten = {name: {"built_in": name} for name in small}
    found: dict[str, Any] = {}
    for name, sites in (("4 sites", four), ("10 small sites", ten)):
        for label, shared in (
            ("words shared", ("words", "characters", "word_cnn")),
            ("words at each site", ("characters", "word_cnn")),
        ):
            found.setdefault(name, {})[label] = [f1_of(sites, shared, seed) for seed in range(3)]
            print(name, label, found[name][label], flush=True)
    return found


# The page.


def best_by_reader(values: Mapping[str, Any], *, crafted: bool = False) -> dict[str, Finding]:
    """Return the best finding of each reader who only reads or, `crafted`, who built a layer."""
    best: dict[str, Finding] = {}
    for found in (Finding(**each) for each in values["findings"]):
        if (found.attack == CRAFTED) != crafted:
            continue
        if found.reader not in best or found.recall > best[found.reader].recall:
            best[found.reader] = found
    return best


def cell(found: Finding | None, *, unseeing: bool) -> str:
    """Return what a reader recovered at best: recall, and whole sentences if any."""
    if found is None:
        return "ciphertexts" if unseeing else "–"
    whole = f", {found.whole} of {found.sentences} whole" if found.whole else ""
    return f"{found.recall:.2f} ({found.attack}{whole})"


def tables(figures: Mapping[str, Any]) -> dict[str, str]:
    """Return the tables of the page by the name of their marker."""
    columns = ("study", "mechanism", *READERS.values(), "coordinator that builds a layer", "chance")
    lines = [f"| {' | '.join(columns)} |", "| --- " * len(columns) + "|"]
    for values in figures["studies"].values():
        best = best_by_reader(values)
        cells = [cell(best.get(reader), unseeing=reader in values["unseeing"]) for reader in READERS]
        sealed = COORDINATOR in values["unseeing"]
        built = best_by_reader(values, crafted=True).get(COORDINATOR)
        cells.append("nobody sends it" if sealed else "–" if built is None else f"{built.recall:.2f}")
        chance = max((found.chance for found in best.values()), default=0.0)
        mechanism = values["mechanism"].partition(",")[0]
        lines.append(f"| {GROUPS[values['group']]} | `{mechanism}` | {' | '.join(cells)} | {chance:.2f} |")
    cost = ["| study | words shared | words at each site |", "| --- | --- | --- |"]
    for name, by in figures["f1"].items():
        shown = [f"{mean(by[label]):.3f} ({', '.join(f'{f1:.3f}' for f1 in by[label])})" for label in by]
        cost.append(f"| {name} | {' | '.join(shown)} |")
    return {"recall": "\n".join(lines), "f1": "\n".join(cost)}


def with_tables(page: str, figures: Mapping[str, Any]) -> str:
    """Return the page with its tables replaced."""
    for name, table in tables(figures).items():
        begin, end = f"<!-- {name}: scripts/measure_leakage.py -->\n", f"<!-- end of {name} -->"
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        page = f"{before}{begin}{table}\n{end}{after}"
    return page


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a group, or a group and a mechanism, or f1")
    parser.add_argument("--page", action="store_true", help="write the tables from the figures only")
    options = parser.parse_args()
    figures: dict[str, Any] = {"studies": {}, "f1": {}}
    if FIGURES.is_file():
        figures = json.loads(FIGURES.read_text(encoding="utf-8"))
    if not options.page:
        torch.set_num_threads(1)
        for name, values in measured(options.only) if options.only != "f1" else ():
            figures["studies"][name] = values
            _write(figures)
        if options.only in ("", "f1"):
            figures["f1"] = costs()
        figures["made"] = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "device": "cpu", "versions": versions()}
        order = [f"{group} {mechanism}" for group, mechanism, _ in studies()]
        figures["studies"] = {name: figures["studies"][name] for name in order if name in figures["studies"]}
        _write(figures)
    if PAGE.is_file():
        PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), figures), encoding="utf-8")


def _write(figures: Mapping[str, Any]) -> None:
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
