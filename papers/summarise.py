"""Write the tables and plots of a paper's page from measured runs.

    python -m papers.summarise fedner runs/fedner/work/results.json
    python -m papers.summarise tagsets --check

The first command writes `expected.json`, a summary of all runs, then each table between its markers on the page and the
plots beside it. Several results files are joined. Without results, the tables are made from the committed
`expected.json`. `--check` writes nothing: it prints the targets and exits with status 1 if one was missed or not
measured.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from papers.common.cells import Bar, fill
from papers.common.paper import Paper, named_paper, read_json
from papers.common.runs import joined

__all__ = ["check", "filled", "main", "write_page", "write_summary"]


def filled(paper: Paper, page: str, expected: Mapping[str, Any]) -> str:
    """Return the page with all tables made from a summary."""
    measured = paper.measured(expected)
    for name, make in paper.tables.items():
        page = fill(page, name, make(measured))
    return page


def write_summary(path: Path, expected: Mapping[str, Any]) -> None:
    """Write a summary in one line."""
    path.write_text(json.dumps(expected, separators=(",", ":")) + "\n", encoding="utf-8")


def write_page(paper: Paper, readme: Path, expected: Mapping[str, Any]) -> None:
    """Write the page, and its plots beside it."""
    readme.write_text(filled(paper, readme.read_text(encoding="utf-8"), expected), encoding="utf-8")
    for name, plot in paper.plots(paper.measured(expected)).items():
        (readme.parent / f"{name}.svg").write_text(plot.to_svg() + "\n", encoding="utf-8")


def check(bars: Sequence[Bar], *, met: bool) -> int:
    """Print each target; return the exit status."""
    print("\n".join(map(str, bars)))
    return 0 if met else 1


def main() -> None:
    """Summarise results if there are any, then write the page; or check the targets."""
    paper, parser = named_paper(__doc__)
    parser.add_argument("results", type=Path, nargs="*", help="files that papers.measure wrote")
    parser.add_argument("--check", action="store_true", help="print the targets, write nothing")
    parser.add_argument("--expected", type=Path, default=paper.folder / "expected.json")
    parser.add_argument("--readme", type=Path, default=paper.folder / "README.md")
    parser.add_argument("--chosen", type=Path, default=paper.chosen, help="the choices that the runs were made with")
    for name, text in paper.files.items():
        parser.add_argument(f"--{name}", type=Path, nargs="+", default=[], help=text)
    options = parser.parse_args()
    expected = read_json(options.expected)
    if options.check:
        measured = paper.measured(expected)
        bars = paper.bars(measured) if paper.bars else []
        met = paper.all_met(measured) if paper.all_met else all(bar.met for bar in bars)
        sys.exit(check(bars, met=met))
    files = {name: getattr(options, name) for name in paper.files}
    if options.results:
        head, runs = joined(options.results)
        expected = paper.measured.gathered(expected, head, runs, read_json(options.chosen))
    if paper.gather is not None:
        paper.gather(expected, files)
    if options.results or any(files.values()):
        write_summary(options.expected, expected)
    write_page(paper, options.readme, expected)


if __name__ == "__main__":
    main()
