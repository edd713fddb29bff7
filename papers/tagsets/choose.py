"""Choose rates, and when the global model is asked, from the runs of the tuning table, and write `chosen.json`.

    python -m papers.tagsets.choose runs/tagsets/work/results.json

The rate of a family is the one with the highest macro-F1 over types that are not annotated at a site, on the
development notes of GUM and a sampling of tag sets that is in no other table, with the paper's method. Every method of
the family takes it. The model is asked late where that was better with the middle rate. Families of which a candidate
was not tried keep what they had.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from papers.common.runs import joined
from papers.tagsets.measure import CHOSEN, read_chosen
from papers.tagsets.measured import Measured, condensed
from papers.tagsets.variations import CANDIDATES, LATE, Chosen

_LATE = "late"


def choose(measured: Measured, known: Mapping[str, Chosen]) -> dict[str, Chosen]:
    """The best of each family whose candidates were all tried."""
    found = dict(known)
    for family, candidates in CANDIDATES.items():
        tried = {name: f"tune-{family}-{name}" for name in (*candidates, _LATE)}
        if missing := [name for name, study in tried.items() if not measured.has(study)]:
            print(f"{family}: {', '.join(missing)} not tried; it keeps {known.get(family, 'nothing')}")
            continue
        f1 = {name: measured.scores(study, "missing")[0] for name, study in tried.items()}
        late = f1[_LATE] > f1[candidates[1]]
        found[family] = Chosen(float(max(candidates, key=lambda rate: f1[rate])), LATE if late else 0)
        print(f"{family}: {', '.join(f'{name} gives {100 * score:.1f}' for name, score in f1.items())}")
    return found


def main() -> None:
    """Choose and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--chosen", type=Path, default=CHOSEN)
    asked = parser.parse_args()
    head, runs = joined(asked.results)
    chosen = choose(Measured(condensed(runs, head["sites"]), head["sites"]), read_chosen(asked.chosen))
    told = {family: asdict(own) for family, own in chosen.items()}
    asked.chosen.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
