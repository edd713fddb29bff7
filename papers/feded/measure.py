"""Run the studies of the FedED paper side by side and gather one `results.json`.

    python -m papers.feded.measure --sites runs/feded/sites --out runs/feded/work --only tune --processes 16
    python -m papers.feded.choose rates runs/feded/work/results.json
    python -m papers.feded.measure --sites runs/feded/sites --out runs/feded/work --only table3 --processes 16
    python -m papers.feded.choose target runs/feded/work/results.json
    python -m papers.feded.measure --sites runs/feded/sites --out runs/feded/work --processes 16

Each step needs what was chosen before it (`chosen.json` beside this file).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from papers.common.runs import Run, command_line, measure
from papers.feded.make_sites import SEEDS, Draws
from papers.feded.variations import (
    MAIN_TABLES,
    SINGLE,
    TABLES,
    VARIATIONS,
    Settings,
    Variation,
    draw_of,
    estimate,
    rate_of,
    study_of,
)

from wardround.settings import parse_settings, with_settings

HERE = Path(__file__).resolve().parent
CHOSEN = HERE / "chosen.json"
_SCRIPT = HERE / "one_run.py"
_SEEDS = {**{MAIN_TABLES[corpus]: range(seeds) for corpus, seeds in SEEDS.items()}, "figure2": range(1)}
_EVERY = {"biored": 2}  # rounds between two scorings, where the test part is large
TINY = {
    **{"encoder": "bert-tiny", "gad_rounds": "2", "euadr_rounds": "2", "biored_rounds": "2", "tune_rounds": "2"},
    **{"central_epochs": "1", "single_rounds": "1"},
}


@dataclass(frozen=True)
class Chosen:
    """What earlier runs decided."""

    rates: dict[str, float] = field(default_factory=dict)  # by method
    target: float = 0.0  # F1

    @classmethod
    def read(cls, path: Path) -> Chosen:
        """From a file; nothing, where there is none."""
        return cls(**json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else cls()

    def write(self, path: Path) -> None:
        """For the next step."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def runs_of(
    wanted: Sequence[str], seeds: Sequence[int] | None, settings: Settings, *, chosen: Chosen, draws: Draws
) -> list[Run]:
    """Every study that a table needs, with every seed, or those of the table."""
    found = [v for v in VARIATIONS.values() if v.name in wanted or v.table in wanted]
    _check_chosen(found, chosen)
    return [
        run_of(variation, seed, settings, chosen=chosen, draws=draws)
        for variation in found
        for seed in (_SEEDS.get(variation.table, range(1)) if seeds is None else seeds)
    ]


def run_of(variation: Variation, seed: int, settings: Settings, *, chosen: Chosen, draws: Draws) -> Run:
    """One study with one seed."""
    return Run(
        variation.name,
        seed,
        study_of(variation, seed, settings, chosen=chosen.rates, draws=draws),
        estimate(variation, seed, settings, draws),
        facts={
            "learning_rate": rate_of(variation, chosen.rates),
            "tested": draws.pairs(variation.corpus, draw_of(variation, seed), "test"),
        },
        script=_SCRIPT,
        own_options=_options(variation, seed, chosen=chosen, draws=draws),
    )


def _options(variation: Variation, seed: int, *, chosen: Chosen, draws: Draws) -> list[str]:
    """What `one_run.py` scores, and when it stops."""
    if variation.counts_bytes:
        return []
    options = ["--test", str(draws.test(variation.corpus, draw_of(variation, seed)))]
    options += ["--every", str(_EVERY.get(variation.corpus, 1))]
    return [*options, *(["--target", str(chosen.target)] if variation.races else [])]


def _check_chosen(variations: Sequence[Variation], chosen: Chosen) -> None:
    needed = {"central" if v.method in SINGLE else v.method for v in variations if not v.rate and not v.counts_bytes}
    if missing := needed - chosen.rates.keys():
        sys.exit(f"no rate was chosen for {', '.join(sorted(missing))}: run --only tune, then choose rates")
    if not chosen.target and any(v.races for v in variations):
        sys.exit("no target F1 was chosen: run --only table3, then choose target")


def main() -> None:
    """Measure, or say what would be measured."""
    asked = arguments()
    settings = with_settings(Settings(), (TINY if asked.tiny else {}) | parse_settings(asked.set), "the measurement")
    draws = Draws.read(asked.sites)
    runs = runs_of(asked.only, asked.seeds, settings, chosen=Chosen.read(asked.chosen), draws=draws)
    sys.exit(measure(runs, {"settings": asdict(settings), "sites": _sizes(draws)}, asked))


def _sizes(draws: Draws) -> dict[str, Any]:
    return {corpus: found["draws"] for corpus, found in draws.described.items()}


def arguments() -> argparse.Namespace:
    """The command line."""
    without_tuning = [table for table in TABLES if table != "tune"]
    parser = command_line(__doc__, TABLES, VARIATIONS, only=without_tuning, tiny="two rounds of a small network")
    parser.add_argument("--chosen", type=Path, default=CHOSEN, help="the chosen rates and target")
    return parser.parse_args()


if __name__ == "__main__":
    main()
