"""Choose the rate of each family from the runs of the tuning table, and write it to `chosen.json`.

    python -m papers.tagsets.choose runs/tagsets/work/results.json

The rate is the one with the highest macro-F1 over types that are not annotated at a site, on the development notes of
GUM and a sampling of tag sets that is in no other table, with the paper's method. Every method of the family takes it.
Families of which a candidate was not tried keep what they had.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

from papers.common.runs import joined
from papers.tagsets.measure import CHOSEN, read_rates
from papers.tagsets.measured import Measured, condensed
from papers.tagsets.variations import CANDIDATES


def chosen_rates(measured: Measured, known: Mapping[str, float]) -> dict[str, float]:
    """The best rate of each family whose candidates were all tried."""
    found = dict(known)
    for family, candidates in CANDIDATES.items():
        tried = {rate: f"tune-{family}-{rate}" for rate in candidates}
        if missing := [rate for rate, study in tried.items() if not measured.has(study)]:
            print(f"{family}: {', '.join(missing)} not tried; it keeps {known.get(family, 'nothing')}")
            continue
        f1 = {rate: measured.scores(study, "missing")[0] for rate, study in tried.items()}
        found[family] = float(max(f1, key=lambda rate: f1[rate]))
        print(f"{family}: {', '.join(f'{rate} gives {100 * score:.1f}' for rate, score in f1.items())}")
    return found


def main() -> None:
    """Choose and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--chosen", type=Path, default=CHOSEN)
    asked = parser.parse_args()
    head, runs = joined(asked.results)
    rates = chosen_rates(Measured(condensed(runs, head["sites"]), head["sites"]), read_rates(asked.chosen))
    asked.chosen.write_text(json.dumps(rates, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
