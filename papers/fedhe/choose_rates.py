"""Choose a learning rate for each network without pretrained weights: the one with the highest development F1.

    python -m papers.fedhe.choose_rates runs/fedhe/work/results.json

reads the runs of the table `tune` and writes `rates.json`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from papers.common.runs import joined
from papers.fedhe.measure import RATES
from papers.fedhe.variations import CANDIDATES, RANDOM_NETWORKS


def choose(runs: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The best rate of each network; a candidate that was not tried is missed."""
    chosen = {}
    for network in RANDOM_NETWORKS:
        tried = {rate: _dev_f1(runs, f"tune-{network}-{rate}") for rate in CANDIDATES}
        chosen[network] = float(max(tried, key=lambda rate: tried[rate]))
        print(f"{network}: {', '.join(f'{rate} gives {f1:.4f}' for rate, f1 in tried.items())}")
    return chosen


def _dev_f1(runs: Sequence[Mapping[str, Any]], study: str) -> float:
    found = [float(run["dev_f1"]) for run in runs if run["variation"] == study]
    if not found:
        sys.exit(f"{study} is not among the runs: measure --only tune first")
    return mean(found)


def main() -> None:
    """Choose and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--rates", type=Path, default=RATES)
    asked = parser.parse_args()
    chosen = choose(joined(asked.results)[1])
    asked.rates.write_text(json.dumps(chosen, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
