"""Make a table or figure of a paper again: its page from the committed summary, or the summary from new runs.

The work is done by `papers.measure`, `papers.summarise` and the paper's `make_sites`, each in its own process.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from papers.common.merging import merged
from papers.common.paper import ROOT, Item, Paper, expected_of, read_json

from wardround.errors import UsageError

__all__ = ["Request", "add", "between", "measure_again", "rebuild", "shown"]

_EXPECTED, _PAGE = "expected.json", "README.md"


@dataclass(frozen=True)
class Request:
    """How to measure."""

    sites: Path  # the folder that make_sites writes
    out: Path  # of the runs
    data: Path | None = None  # the corpora, needed if there are no sites yet
    processes: int = 1
    device: str = "auto"
    minutes: float = 0.0
    seeds: str = ""  # comma-separated; empty: those of each study
    dry_run: bool = False


def rebuild(paper: Paper) -> None:
    """Write all tables of the paper's page from its summary, and the overview from all summaries."""
    _python("papers.summarise", paper.name)
    _python("papers.overview")


def shown(paper: Paper, item: Item) -> str:
    """Return a table or figure of the page."""
    page = (paper.folder / _PAGE).read_text(encoding="utf-8")
    return "\n\n".join(filter(None, (between(page, name) for name in item.markers)))


def between(page: str, name: str) -> str:
    """Return what a page has between the markers of that name."""
    return page.partition(f"<!-- {name} -->")[2].partition(f"<!-- /{name} -->")[0].strip()


def measure_again(paper: Paper, item: Item, request: Request) -> None:
    """Run what is missing, then add it to summary, page and overview."""
    way = item.way
    if way is None:
        raise UsageError(f"nothing is measured for {item.name} of {paper.name}")
    results = request.out / way.file
    if way.module:
        if not request.dry_run:
            request.out.mkdir(parents=True, exist_ok=True)
            _python(f"papers.{paper.name}.{way.module}", "--out", str(results))
    else:
        if not request.sites.is_dir():
            if request.data is None:
                raise UsageError(
                    f"there are no sites in {request.sites.name}: name the folder of the corpora with --data"
                )
            _python(f"papers.{paper.name}.make_sites", "--data", str(request.data), "--out", str(request.sites))
        machine = ["--processes", str(request.processes), "--device", request.device, "--minutes", str(request.minutes)]
        folders = ["--sites", str(request.sites), "--out", str(request.out), "--results", str(results)]
        # The settings of the committed summary, so that the new runs can be merged with it.
        known = expected_of(paper).get("settings", {})
        settings = [word for name, value in known.items() for word in ("--set", f"{name}={value}")]
        more = [*(["--seeds", request.seeds] if request.seeds else []), *(["--dry-run"] if request.dry_run else [])]
        _python("papers.measure", paper.name, *folders, "--only", ",".join(way.only), *machine, *settings, *more)
    if not request.dry_run:
        _merge(paper, [*([way.option] if way.option else []), str(results)], request.out)


def add(paper: Paper, results: Sequence[Path]) -> None:
    """Add runs that were measured elsewhere, for example on another machine, to summary, page and overview."""
    if missing := [file.name for file in results if not file.is_file()]:
        raise UsageError(f"there is no file {', '.join(missing)}: results are the files that papers.measure writes")
    _merge(paper, [str(file.resolve()) for file in results], results[0].resolve().parent / "added")


def _merge(paper: Paper, results: Sequence[str], out: Path) -> None:
    """Summarise results beside a copy of the page, merge the summary with the committed one, and write the pages."""
    out.mkdir(parents=True, exist_ok=True)
    (out / _EXPECTED).unlink(missing_ok=True)
    shutil.copy(paper.folder / _PAGE, out / _PAGE)
    places = ["--expected", str(out / _EXPECTED), "--readme", str(out / _PAGE)]
    _python("papers.summarise", paper.name, *results, *places)
    committed = {name: own for name, own in expected_of(paper).items() if name not in paper.beside}
    known = merged(committed, read_json(out / _EXPECTED), place=out.name)
    text = json.dumps(known, separators=(",", ":")) + "\n"
    (paper.folder / _EXPECTED).write_text(text, encoding="utf-8")
    rebuild(paper)


def _python(module: str, *words: str) -> None:
    status = subprocess.run([sys.executable, "-m", module, *words], cwd=ROOT, check=False).returncode
    if status:
        raise UsageError(f"{module} ended with status {status}; its messages are above")
