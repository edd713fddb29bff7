"""Run the studies of the paper on tag sets side by side and gather one `results.json`.

    python -m papers.tagsets.measure --sites runs/tagsets/sites --out runs/tagsets/work --only tune --processes 16
    python -m papers.tagsets.choose runs/tagsets/work/results.json
    python -m papers.tagsets.measure --sites runs/tagsets/sites --out runs/tagsets/work --only gum-prompt,bio-prompt \
        --processes 16 --device cuda

The second step writes `chosen.json` beside this file, which the third needs: for each family a rate, and how many
rounds pass before the global model is asked. A seed is a sampling of tag sets.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from papers.common.runs import Run, command_line, measure
from papers.tagsets.make_sites import SAMPLINGS, TagSites
from papers.tagsets.variations import (
    TABLES,
    VARIATIONS,
    Chosen,
    Settings,
    Variation,
    estimate,
    rate_of,
    sampling_of,
    study_of,
    written_down,
)

from wardround.settings import parse_settings, with_settings

HERE = Path(__file__).resolve().parent
CHOSEN = HERE / "chosen.json"
_SCRIPT = HERE / "one_run.py"
_SEEDS = {"figure3a": range(3), "figure3b": range(3), "tune-hospitals": range(2), "tune": range(1), "bytes": range(1)}
TINY = {
    **{"encoder": "bert-tiny", "gum_rounds": "2", "bio_rounds": "2", "synthetic_rounds": "2"},
    **{"pooled_epochs": "1", "single_epochs": "1", "batch_size": "64", "pooled_batch": "256"},
}


def read_chosen(path: Path) -> dict[str, Chosen]:
    """What was chosen, by family; nothing, where there is no file."""
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return {family: Chosen(**own) for family, own in found.items()}


def runs_of(
    wanted: Sequence[str],
    seeds: Sequence[int] | None,
    settings: Settings,
    *,
    chosen: Mapping[str, Chosen],
    sites: TagSites,
) -> list[Run]:
    """Every study that a table needs, with every seed, or those of its tables."""
    found = [v for v in VARIATIONS.values() if v.name in wanted or not set(v.tables).isdisjoint(wanted)]
    _check(found, chosen, settings)
    return [
        run_of(variation, seed, settings, chosen=chosen, sites=sites)
        for variation in found
        for seed in (_seeds_of(variation) if seeds is None else seeds)
    ]


def _seeds_of(variation: Variation) -> Sequence[int]:
    fewer = [_SEEDS[table] for table in reversed(variation.tables) if table in _SEEDS]
    return fewer[0] if fewer else range(SAMPLINGS)


def run_of(
    variation: Variation, seed: int, settings: Settings, *, chosen: Mapping[str, Chosen], sites: TagSites
) -> Run:
    """One study with one sampling."""
    return Run(
        variation.name,
        seed,
        study_of(variation, seed, settings, chosen=chosen, sites=sites),
        estimate(variation, settings, chosen, sites=sites),
        facts={
            "learning_rate": rate_of(variation, chosen),
            "annotated": sites.tag_sets(variation.corpus, sampling_of(variation, seed)),
        },
        script=_SCRIPT,
    )


def _check(variations: Sequence[Variation], chosen: Mapping[str, Chosen], settings: Settings) -> None:
    needed = {v.choice for v in variations if not v.rate and not v.mechanism}
    if missing := needed - chosen.keys():
        sys.exit(f"no rate was chosen for {', '.join(sorted(missing))}: run --only tune, then choose")
    if not settings.bart and any(v.family == "light-ner" for v in variations):
        sys.exit("light-ner needs a BART: small_bart trains one, --set bart=FOLDER names it; or leave it out of --only")


def settings_from(changes: Mapping[str, str]) -> Settings:
    """With folders that are found from anywhere."""
    settings = with_settings(Settings(), changes, "the measurement")
    encoder, bart = (
        str(Path(folder).resolve()) if "/" in folder else folder for folder in (settings.encoder, settings.bart)
    )
    return replace(settings, encoder=encoder, bart=bart)


def main() -> None:
    """Measure, or say what would be measured."""
    asked = arguments()
    settings = settings_from((TINY if asked.tiny else {}) | parse_settings(asked.set))
    sites = TagSites.read(asked.sites)
    runs = runs_of(asked.only, asked.seeds, settings, chosen=read_chosen(asked.chosen), sites=sites)
    sys.exit(measure(runs, head_of(settings, sites), asked))


def head_of(settings: Settings, sites: TagSites) -> dict[str, Any]:
    """What all runs of a file of results have in common."""
    return {"settings": written_down(settings), "sites": sites.described}


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = command_line(__doc__, TABLES, VARIATIONS, tiny="two rounds of a small network")
    parser.add_argument("--chosen", type=Path, default=CHOSEN, help="what was chosen for each family")
    return parser.parse_args()


if __name__ == "__main__":
    main()
