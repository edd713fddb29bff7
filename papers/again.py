"""A table or figure of a paper made again: its page from the committed summary, or the summary from new runs.

Everything is done by the paper's own modules: `make_sites`, `measure`, `summarise`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from papers.common.merging import merged
from papers.common.overview import ROOT, Item, Paper, Way, expected_of

from wardround.errors import UsageError

__all__ = ["Asked", "add", "between", "measure_again", "rebuild", "shown"]

_EXPECTED, _PAGE = "expected.json", "README.md"


@dataclass(frozen=True)
class Asked:
    """How it is to be measured."""

    sites: Path  # the folder make_sites writes
    out: Path  # of the runs
    data: Path | None = None  # the corpora, where sites are still to be made
    processes: int = 1
    device: str = "auto"
    minutes: float = 0.0
    seeds: str = ""  # parted by commas; empty is the measurement's own
    dry_run: bool = False


def rebuild(paper: Paper) -> None:
    """Make every table of the paper's page from its summary, and the overview from all summaries."""
    _python(f"papers.{paper.name}.summarise")
    _python("papers.overview")


def shown(paper: Paper, item: Item) -> str:
    """What stands on the page between the markers of a table or figure."""
    page = (paper.folder / _PAGE).read_text(encoding="utf-8")
    return "\n\n".join(filter(None, (between(page, name) for name in item.markers)))


def between(page: str, name: str) -> str:
    """What a page has between two markers."""
    return page.partition(f"<!-- {name} -->")[2].partition(f"<!-- /{name} -->")[0].strip()


def measure_again(paper: Paper, item: Item, asked: Asked) -> None:
    """Run what is missing, then put it into summary, page and overview."""
    if item.way is None:
        raise UsageError(f"nothing is measured for {item.name} of {paper.name}")
    _measure(paper, item.way, asked)
    if not asked.dry_run:
        results = [item.way.option] if item.way.option else []
        _put_beside(paper, [*results, str(asked.out / item.way.file)], asked.out)


def add(paper: Paper, results: Sequence[Path]) -> None:
    """Put runs that were measured elsewhere, on another machine say, into summary, page and overview."""
    if missing := [file.name for file in results if not file.is_file()]:
        raise UsageError(f"there is no file {', '.join(missing)}: results are what the paper's measure wrote")
    _put_beside(paper, [str(file.resolve()) for file in results], results[0].resolve().parent / "added")


def _put_beside(paper: Paper, results: Sequence[str], out: Path) -> None:
    """Merge into the committed summary what `summarise` makes of some results, and make the pages anew."""
    found = _summarised(paper, results, out)
    committed = {name: own for name, own in expected_of(paper).items() if name not in paper.beside}
    known = merged(committed, found, place=out.name)
    text = json.dumps(known, separators=(",", ":")) + "\n"
    (paper.folder / _EXPECTED).write_text(text, encoding="utf-8")
    rebuild(paper)


def _measure(paper: Paper, way: Way, asked: Asked) -> None:
    if way.module != "measure":
        if not asked.dry_run:
            asked.out.mkdir(parents=True, exist_ok=True)
            _python(f"papers.{paper.name}.{way.module}", "--out", str(asked.out / way.file))
        return
    _make_sites(paper, asked)
    machine = ["--processes", str(asked.processes), "--device", asked.device, "--minutes", str(asked.minutes)]
    places = ["--sites", str(asked.sites), "--out", str(asked.out), "--results", str(asked.out / way.file)]
    more = [*(["--seeds", asked.seeds] if asked.seeds else []), *(["--dry-run"] if asked.dry_run else [])]
    _python(f"papers.{paper.name}.measure", *places, "--only", ",".join(way.only), *machine, *_settings(paper), *more)


def _settings(paper: Paper) -> list[str]:
    """Those of the committed summary, so that what is measured can stand beside it."""
    known = expected_of(paper).get("settings", {})
    return [word for name, value in known.items() for word in ("--set", f"{name}={value}")]


def _make_sites(paper: Paper, asked: Asked) -> None:
    if asked.sites.is_dir():
        return
    if asked.data is None:
        raise UsageError(f"there are no sites in {asked.sites.name}: name the folder of the corpora with --data")
    _python(f"papers.{paper.name}.make_sites", "--data", str(asked.data), "--out", str(asked.sites))


def _summarised(paper: Paper, results: Sequence[str], out: Path) -> dict[str, Any]:
    """What was measured now in brief, beside a page of its own."""
    out.mkdir(parents=True, exist_ok=True)
    (out / _EXPECTED).unlink(missing_ok=True)
    shutil.copy(paper.folder / _PAGE, out / _PAGE)
    places = ["--expected", str(out / _EXPECTED), "--readme", str(out / _PAGE)]
    _python(f"papers.{paper.name}.summarise", *results, *places)
    found: dict[str, Any] = json.loads((out / _EXPECTED).read_text(encoding="utf-8"))
    return found


def _python(module: str, *words: str) -> None:
    """Run a module of the papers; what it says is seen."""
    command: Sequence[str] = [sys.executable, "-m", module, *words]
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    if status:
        raise UsageError(f"{module} ended with status {status}; what it said stands above")
