"""Choose settings on development data from the tuning runs of a paper, and write `papers/PAPER/chosen.json`.

    python -m papers.choose fedhe runs/fedhe/work/results.json
    python -m papers.choose feded target runs/feded/work/results.json

Each paper's page says which figure decides. A choice whose candidates were not all tried stops with an error or keeps
the earlier choice, as the page says.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from papers.common.paper import named_paper, read_json
from papers.common.runs import joined

__all__ = ["finished", "highest", "main"]


def finished(runs: Sequence[Mapping[str, Any]], study: str) -> list[Mapping[str, Any]]:
    """Return the finished runs of a study; exit if there is none."""
    found = [run for run in runs if run["variation"] == study and not run.get("cut_off")]
    if not found:
        sys.exit(f"{study} is not among the finished runs: measure it first")
    return found


def highest(name: str, tried: Mapping[str, float]) -> str:
    """Print the scores of all candidates and return the best one."""
    print(f"{name}: {', '.join(f'{candidate} gives {score:.4f}' for candidate, score in tried.items())}")
    return max(tried, key=lambda candidate: tried[candidate])


def main() -> None:
    """Choose and write."""
    paper, parser = named_paper(__doc__)
    if not paper.choices:
        sys.exit(f"nothing is chosen for {paper.name}")
    if len(paper.choices) > 1:
        parser.add_argument("what", choices=list(paper.choices))
    parser.add_argument("results", type=Path, nargs="+", help="files that papers.measure wrote")
    parser.add_argument("--chosen", type=Path, default=paper.chosen)
    options = parser.parse_args()
    head, runs = joined(options.results)
    choose = paper.choices[getattr(options, "what", next(iter(paper.choices)))]
    chosen = choose(runs, head, read_json(options.chosen))
    options.chosen.write_text(json.dumps(chosen, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
