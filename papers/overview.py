"""One table over all tables and figures of the five papers, from the committed summaries.

    python -m papers.overview

writes it between its markers into `papers/README.md`; `wardround paper overview` does the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from papers.common.cells import NOTHING, fill, table
from papers.common.paper import NAMES, NOT_MEASURED, ROOT, Found, Item, Paper, expected_of, load

__all__ = ["PAGE", "PAPERS", "main", "overview", "state"]

PAPERS = {name: load(name) for name in NAMES}
PAGE = ROOT / "papers" / "README.md"
_HEAD = ["paper", "table or figure", "command", "data here", "measured", "published", "what differs, and what it shows"]


def overview() -> str:
    """Return the table."""
    return table(_HEAD, [_row(paper, item) for paper in PAPERS.values() for item in paper.items])


def _row(paper: Paper, item: Item) -> list[str]:
    found = paper.result(item, expected_of(paper))
    place = f"{paper.name}/README.md" + (f"#{item.anchor}" if item.anchor else "")
    command = f"`wardround paper {paper.name} {item.name}`" if item.markers else NOTHING
    differs = f"{item.differs[:1].upper()}{item.differs[1:]}." if item.differs else ""
    shows = " ".join(filter(None, (differs, found.shows))) or NOTHING
    texts = [item.data or NOTHING, _measured(item, found), item.published or NOTHING, shows]
    return [paper.title, f"[{item.title}]({place})", command, *texts]


def _measured(item: Item, found: Found) -> str:
    if not found.measured:
        return NOT_MEASURED if item.data else NOTHING
    return f"{found.measured} ({_seeds(found.seeds)})" if found.seeds else found.measured


def _seeds(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low} to {high} seeds" if low < high else f"{high} seed{'s' * (high > 1)}"


def state(paper: Paper, item: Item) -> str:
    """Return whether it was measured, and with how many seeds."""
    found = paper.result(item, expected_of(paper))
    if not item.data:
        return NOTHING
    return f"measured{f', {_seeds(found.seeds)}' if found.seeds else ''}" if found.measured else NOT_MEASURED


def main() -> None:
    """Write the table into the page."""
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), "overview", overview()), encoding="utf-8")


if __name__ == "__main__":
    main()
