"""Run the experiments of the transfer paper side by side and gather one `results.json`.

    measure="python -m papers.transfer.measure --sites runs/transfer/sites --out runs/transfer/work"
    $measure --only sources
    $measure --only experiment1,experiment2 --processes 16 --device cpu

The first step trains the models that targets begin from; they stay in their run folders, and the second needs them.
A seed draws the notes of the target, the fresh layers, the order of sentences and dropout; notes of a smaller size lie
within those of a larger one of the same seed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from papers.common.runs import Run, command_line, measure
from papers.transfer.make_sites import TransferSites
from papers.transfer.variations import (
    NONE,
    TABLES,
    VARIATIONS,
    Settings,
    Variation,
    estimate,
    source_of,
    study_of,
)

from wardround.settings import parse_settings, with_settings

_SCRIPT = Path(__file__).resolve().parent / "one_run.py"
TINY = {"epochs": "2", "source_epochs": "1", "official_epochs": "1", "least": "16"}


def wanted_variations(wanted: Sequence[str]) -> list[Variation]:
    """By the names of tables or of variations."""
    return [v for v in VARIATIONS.values() if v.name in wanted or not set(v.tables).isdisjoint(wanted)]


def runs_of(
    wanted: Sequence[str], seeds: Sequence[int] | None, settings: Settings, *, sites: TransferSites, sources: Path
) -> list[Run]:
    """Every training that a table needs, with every seed of it, or with those of `seeds` that it has."""
    return [
        run_of(variation, seed, settings, sites=sites, sources=sources)
        for variation in wanted_variations(wanted)
        for seed in variation.seeds
        if seeds is None or seed in seeds
    ]


def run_of(variation: Variation, seed: int, settings: Settings, *, sites: TransferSites, sources: Path) -> Run:
    """One training."""
    return Run(
        variation.name,
        seed,
        study_of(variation, seed, settings, sites=sites, sources=sources),
        estimate(variation, settings, sites),
        script=_SCRIPT,
    )


def check_sources(variations: Sequence[Variation], sources: Path) -> None:
    """Stop where a model is missing that a training begins from."""
    needed = dict.fromkeys(source_of(variation, sources) for variation in variations if variation.layer != NONE)
    if missing := [folder.parent.name.removesuffix("-seed-0") for folder in needed if not folder.is_dir()]:
        sys.exit(f"there is no model of {', '.join(missing)}: run --only sources, or name its folder with --sources")


def main() -> None:
    """Measure, or say what would be measured."""
    asked = arguments()
    settings = with_settings(Settings(), (TINY if asked.tiny else {}) | parse_settings(asked.set), "the measurement")
    sites = TransferSites.read(asked.sites)
    sources = (asked.sources or asked.out).resolve()
    if not asked.dry_run:
        check_sources(wanted_variations(asked.only), sources)
    runs = runs_of(asked.only, asked.seeds, settings, sites=sites, sources=sources)
    sys.exit(measure(runs, head_of(settings, sites), asked))


def head_of(settings: Settings, sites: TransferSites) -> dict[str, Any]:
    """What all runs of a file of results have in common."""
    return {"settings": asdict(settings), "sites": sites.described}


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = command_line(__doc__, TABLES, VARIATIONS, tiny="two epochs each")
    parser.add_argument("--sources", type=Path, help="where the runs of --only sources are; default: --out")
    return parser.parse_args()


if __name__ == "__main__":
    main()
