"""Run the studies of the FedHE paper side by side and gather one `results.json`.

    python -m papers.fedhe.measure --sites runs/fedhe/sites --out runs/fedhe/work --only tune --seeds 0 --processes 16
    python -m papers.fedhe.choose_rates runs/fedhe/work/results.json
    python -m papers.fedhe.measure --sites runs/fedhe/sites --out runs/fedhe/work --seeds 0,1 --processes 16

The second run needs the rates that the first one's development scores chose (`rates.json` beside this file).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path

from papers.common.runs import Run, command_line, measure
from papers.common.sites import Sites
from papers.fedhe.variations import TABLES, VARIATIONS, Settings, estimate, rate_of, study_of

from wardround.settings import parse_settings, with_settings

RATES = Path(__file__).resolve().parent / "rates.json"
TINY = {"rounds": "2", "local_epochs": "1"}


def runs_of(
    wanted: Sequence[str], seeds: Sequence[int], settings: Settings, *, chosen: Mapping[str, float], sites: Sites
) -> list[Run]:
    """Every study that a table needs, once, with every seed."""
    found = [v for v in VARIATIONS.values() if v.name in wanted or not set(v.tables).isdisjoint(wanted)]
    missing = {v.encoder for v in found if v.rate == "chosen"} - chosen.keys()
    if missing:
        sys.exit(f"no rate was chosen for {', '.join(sorted(missing))}: run --only tune, then choose_rates")
    return [
        Run(
            variation.name,
            seed,
            study_of(variation, seed, settings, chosen=chosen, sites=sites),
            estimate(variation, settings, sites),
            facts={"learning_rate": rate_of(variation, settings, chosen)},
            workers=variation.workers,
            score_training=True,
        )
        for variation, seed in product(found, seeds)
    ]


def main() -> None:
    """Measure, or say what would be measured."""
    asked = arguments()
    settings = with_settings(Settings(), (TINY if asked.tiny else {}) | parse_settings(asked.set), "the measurement")
    sites = Sites.read(asked.sites)
    chosen = json.loads(asked.rates.read_text(encoding="utf-8")) if asked.rates.is_file() else {}
    runs = runs_of(asked.only, asked.seeds, settings, chosen=chosen, sites=sites)
    sys.exit(measure(runs, {"settings": asdict(settings), "sites": sites.described}, asked))


def arguments() -> argparse.Namespace:
    """The command line."""
    without_tuning = [table for table in TABLES if table != "tune"]
    parser = command_line(
        __doc__, TABLES, VARIATIONS, only=without_tuning, seeds=range(3), tiny="two rounds of one epoch"
    )
    parser.add_argument("--rates", type=Path, default=RATES, help="the chosen rates")
    return parser.parse_args()


if __name__ == "__main__":
    main()
