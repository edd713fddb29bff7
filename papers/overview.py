"""One table over all tables and figures of the five papers, from the committed summaries.

    python -m papers.overview

writes it between its markers into `papers/README.md`; `wardround paper overview` is the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from papers.common.overview import NOT_MEASURED, ROOT, Found, Item, Paper, expected_of
from papers.common.page import NOTHING, fill, table
from papers.feded.overview import PAPER as FEDED
from papers.fedhe.overview import PAPER as FEDHE
from papers.fedner.overview import PAPER as FEDNER
from papers.tagsets.overview import PAPER as TAGSETS
from papers.transfer.overview import PAPER as TRANSFER

__all__ = ["PAGE", "PAPERS", "main", "overview", "state"]

PAPERS = {paper.name: paper for paper in (FEDNER, TAGSETS, FEDHE, FEDED, TRANSFER)}
PAGE = ROOT / "papers" / "README.md"
_HEAD = ["paper", "table or figure", "command", "data here", "measured", "published", "what differs, and what it shows"]


def overview() -> str:
    """The table."""
    rows = [_row(paper, item) for paper in PAPERS.values() for item in paper.items]
    return table(_HEAD, rows)


def _row(paper: Paper, item: Item) -> list[str]:
    found = item.found(expected_of(paper))
    place = f"{paper.name}/README.md" + (f"#{item.anchor}" if item.anchor else "")
    command = f"`wardround paper {paper.name} {item.name}`" if item.markers else NOTHING
    told = [item.data or NOTHING, _measured(item, found), item.published or NOTHING, _said(item, found)]
    return [paper.title, f"[{item.title}]({place})", command, *told]


def _measured(item: Item, found: Found) -> str:
    if not found.measured:
        return NOT_MEASURED if item.data else NOTHING
    return f"{found.measured} ({_seeds(found.seeds)})" if found.seeds else found.measured


def _seeds(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low} to {high} seeds" if low < high else f"{high} seed{'s' * (high > 1)}"


def _said(item: Item, found: Found) -> str:
    differs = item.differs[:1].upper() + item.differs[1:]
    return " ".join(filter(None, (f"{differs}." if differs else "", found.shows))) or NOTHING


def state(paper: Paper, item: Item) -> str:
    """Whether it was measured, in a word or two."""
    found = item.found(expected_of(paper))
    if not item.data:
        return NOTHING
    return f"measured{f', {_seeds(found.seeds)}' if found.seeds else ''}" if found.measured else NOT_MEASURED


def main() -> None:
    """Fill the page."""
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(fill(page, "overview", overview()), encoding="utf-8")


if __name__ == "__main__":
    main()
