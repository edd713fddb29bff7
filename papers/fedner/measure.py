"""Run the studies of the FedNER paper side by side and gather one `results.json`.

    python -m papers.fedner.measure --sites runs/fedner/sites --out runs/fedner/work --only table2,figure4 \
        --seeds 0,1,2 --processes 14 --device cuda --set encoder=carry/minilm

`--tune shared_learning_rate=1e-3,2e-3` runs each study with each value; such runs are told apart in the results and are
in no table.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from papers.common.runs import Run, command_line, measure
from papers.common.sites import Sites
from papers.fedner.variations import TABLES, VARIATIONS, Settings, estimate, study_of

from wardround.settings import parse_settings, with_settings

TINY = {"rounds": "3", "encoder": "", "scorings": "1"}


def runs_of(
    wanted: Sequence[str], seeds: Sequence[int], settings: Settings, *, tune: Mapping[str, str], sites: Sites
) -> list[Run]:
    """Every study that a table needs, once, with every seed and every value to be tried."""
    found = [v for v in VARIATIONS.values() if v.name in wanted or not set(v.tables).isdisjoint(wanted)]
    values = [[(name, value) for value in text.split(",")] for name, text in tune.items()]
    runs = []
    for chosen in itertools.product(*values):
        changed = with_settings(settings, dict(chosen), "the measurement")
        tuned = ",".join(f"{name}={value}" for name, value in chosen)
        for variation, seed in itertools.product(found, seeds):
            study = study_of(variation, seed, changed, sites)
            runs.append(Run(variation.name, seed, study, estimate(variation, changed, sites), tuned))
    return runs


def head_of(settings: Settings, sites: Sites) -> dict[str, Any]:
    """What all runs of a file of results have in common."""
    return {"settings": asdict(replace(settings, encoder=Path(settings.encoder).name)), "sites": sites.described}


def main() -> None:
    """Measure, or say what would be measured."""
    asked = arguments()
    changes = (TINY if asked.tiny else {}) | parse_settings(asked.set)
    settings = with_settings(Settings(), changes, "the measurement")
    if "/" in settings.encoder:
        settings = replace(settings, encoder=str(Path(settings.encoder).resolve()))
    sites = Sites.read(asked.sites)
    runs = runs_of(asked.only, asked.seeds, settings, tune=parse_settings(asked.tune), sites=sites)
    sys.exit(measure(runs, head_of(settings, sites), asked))


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = command_line(
        __doc__, TABLES, VARIATIONS, only=TABLES, seeds=range(3), tiny="three rounds without an encoder"
    )
    parser.add_argument("--tune", action="append", metavar="NAME=V1,V2", help="a setting to be tried with each value")
    return parser.parse_args()


if __name__ == "__main__":
    main()
