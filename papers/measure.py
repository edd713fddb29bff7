"""Run the studies of a paper in parallel and collect one `results.json`.

    python -m papers.measure fedner --sites runs/fedner/sites --out runs/fedner/work --only table2,figure4 \
        --seeds 0,1,2 --processes 14 --device cuda

`papers/PAPER/sweep.toml` lists the studies and the tables that show them. `--set` changes a setting of all studies.
`--tune shared_learning_rate=1e-3,2e-3` runs each study once per value; these runs are marked in the results and are in
no table. Studies whose settings were chosen on development data read them from `papers/PAPER/chosen.json`
(`python -m papers.choose`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection
from itertools import product
from pathlib import Path

from papers.common.paper import Paper, named_paper, read_json
from papers.common.runs import add_arguments, integers, measure
from papers.common.sweep import tables_of

from wardround.settings import parse_settings, with_settings

__all__ = ["main"]


def _add_options(parser: argparse.ArgumentParser, paper: Paper) -> None:
    add_arguments(parser)
    sweep = paper.sweep
    tables = tables_of(sweep.variations)
    default = None if sweep.must_name_tables else [name for name in tables if name not in sweep.skipped_by_default]
    parser.add_argument(
        "--only",
        type=_names(tables, sweep.variations),
        default=default,
        required=default is None,
        help=f"tables ({', '.join(tables)}) or studies, comma-separated",
    )
    parser.add_argument("--seeds", type=integers, help="comma-separated; default: those of each study")
    parser.add_argument("--set", action="append", metavar="NAME=VALUE", help="a setting of all studies")
    parser.add_argument("--tune", action="append", metavar="NAME=V1,V2", help="a setting to try with each value")
    parser.add_argument("--tiny", action="store_true", help="very short runs, to see that everything works")
    parser.add_argument("--chosen", type=Path, default=paper.chosen, help="the file that papers.choose wrote")
    for name, text in sweep.places.items():
        parser.add_argument(f"--{name}", type=Path, help=text)


def _names(tables: Collection[str], studies: Collection[str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        names = text.split(",")
        for name in names:
            if name not in tables and name not in studies:
                raise argparse.ArgumentTypeError(f"{name} is no table and no study; tables are {', '.join(tables)}")
        return names

    return parse


def main() -> None:
    """Measure, or list what would be measured."""
    paper, parser = named_paper(__doc__)
    _add_options(parser, paper)
    options = parser.parse_args()
    kind = paper.sweep
    changes = (dict(kind.tiny) if options.tiny else {}) | parse_settings(options.set)
    settings = with_settings(kind.defaults, changes, "the measurement")
    sites, chosen = kind.read_sites(options.sites), read_json(options.chosen)
    places = {name: (getattr(options, name) or options.out).resolve() for name in kind.places}
    tried = [[(name, value) for value in text.split(",")] for name, text in parse_settings(options.tune).items()]
    runs = []
    for values in product(*tried):
        changed = kind.prepared(with_settings(settings, dict(values), "the measurement"))
        tuned = ",".join(f"{name}={value}" for name, value in values)
        sweep = kind(changed, sites, chosen, **places)
        if not options.dry_run:
            sweep.check_files(sweep.picked(options.only))
        runs += sweep.runs(options.only, options.seeds, tuned=tuned)
    head = kind(kind.prepared(settings), sites, chosen, **places).head()
    sys.exit(measure(runs, head, options))


if __name__ == "__main__":
    main()
