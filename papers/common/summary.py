"""A paper's summary, `expected.json`, and the page and plots made of it: reading, writing, the command line."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from papers.common.page import Bar

from wardround.reports.plots import Plot

__all__ = ["arguments_of", "read_summary", "tell", "write_page", "write_summary"]


def arguments_of(doc: str | None, folder: Path) -> argparse.ArgumentParser:
    """What every `summarise` takes; its summary and its page lie in `folder`."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="*")
    parser.add_argument("--check", action="store_true", help="tell what was reached, write nothing")
    parser.add_argument("--expected", type=Path, default=folder / "expected.json")
    parser.add_argument("--readme", type=Path, default=folder / "README.md")
    return parser


def read_summary(path: Path) -> dict[str, Any]:
    """Empty, where nothing was measured yet."""
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def write_summary(path: Path, expected: Mapping[str, Any]) -> None:
    """In one line: it is committed, not read."""
    path.write_text(json.dumps(expected, separators=(",", ":")) + "\n", encoding="utf-8")


def write_page(readme: Path, page: str, plots: Mapping[str, Plot]) -> None:
    """The page, and its plots beside it."""
    readme.write_text(page, encoding="utf-8")
    for name, plot in plots.items():
        (readme.parent / f"{name}.svg").write_text(plot.to_svg() + "\n", encoding="utf-8")


def tell(bars: Sequence[Bar], *, met: bool) -> int:
    """Print each bar; the exit status."""
    print("\n".join(map(str, bars)))
    return 0 if met else 1
