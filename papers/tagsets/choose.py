"""Choose rates, and when the global model is asked, from the runs of the tuning table, and write `chosen.json`.

    python -m papers.tagsets.choose runs/tagsets/work/results.json

The rate of a family is the one with the highest macro-F1 over types that are not annotated at a site, on the
development notes of GUM (LightNER: of hospitals) and a sampling of tag sets that is in no other table, with the paper's
method. Every method of the family takes it. The model is asked late (LightNER: early) where that was better with the
middle rate, which is taken too where that was best of all. For the hospitals one family and two methods are chosen for
a second time, each by its own macro-F1 over all types on hospitals that are in no other table. Where a candidate was
not tried, what was chosen before stays.
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
from papers.tagsets.variations import (
    CANDIDATES,
    HOSPITAL_TRIES,
    OTHER_TIME,
    Chosen,
    hospital_try,
    tuning_tries,
)


def choose(measured: Measured, known: Mapping[str, Chosen]) -> dict[str, Chosen]:
    """The best of each family whose candidates were all tried."""
    found = dict(known)
    for family, candidates in CANDIDATES.items():
        tried = tuning_tries(family)
        if not _all_tried(measured, tried, family, known):
            continue
        f1 = {name: measured.scores(study, "missing")[0] for name, study in tried.items()}
        (other_time, rounds), middle = OTHER_TIME[family], candidates[1]
        best = max(f1, key=lambda name: f1[name])
        rate = middle if best == other_time else best
        found[family] = Chosen(float(rate), rounds if f1[other_time] > f1[middle] else 0)
        print(f"{family}: {', '.join(f'{name} gives {100 * score:.1f}' for name, score in f1.items())}")
    return found


def choose_for_hospitals(measured: Measured, known: Mapping[str, Chosen]) -> dict[str, Chosen]:
    """The best of each method whose candidates were all tried."""
    found = dict(known)
    for method, candidates in HOSPITAL_TRIES.items():
        name = f"hospitals-{method}"
        tried = {hospital_try(method, own): own for own in candidates}
        if not _all_tried(measured, dict(zip(tried, tried, strict=True)), name, known):
            continue
        f1 = {study: measured.spread(study, "all").mean for study in tried}
        found[name] = tried[max(f1, key=lambda study: f1[study])]
        print(f"{name}: {', '.join(f'{study} gives {100 * score:.1f}' for study, score in f1.items())}")
    return found


def _all_tried(measured: Measured, tried: Mapping[str, str], choice: str, known: Mapping[str, Chosen]) -> bool:
    """Whether every candidate has its study; it is said where one has none."""
    missing = [name for name, study in tried.items() if not measured.has(study)]
    if missing:
        print(f"{choice}: {', '.join(missing)} not tried; it keeps {known.get(choice, 'nothing')}")
    return not missing


def main() -> None:
    """Choose and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--chosen", type=Path, default=CHOSEN)
    asked = parser.parse_args()
    head, runs = joined(asked.results)
    measured = Measured(condensed(runs, head["sites"]), head["sites"])
    chosen = choose_for_hospitals(measured, choose(measured, read_chosen(asked.chosen)))
    told = {family: asdict(own) for family, own in chosen.items()}
    asked.chosen.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
