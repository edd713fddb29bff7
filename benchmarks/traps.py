"""Texts built to be slow (pages of dots, blanks, digits), compared with built-in notes of the same length."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from common import Bar, arguments, fastest, finish

from wardround.corpora.synthetic.phi_notes import phi_hospitals
from wardround.redaction.patterns import Patterns
from wardround.reports.tables import Table
from wardround.text.normalisation import normalise
from wardround.text.segmentation import find_sentences

LENGTHS = {"full": 400_000, "quick": 40_000, "smallest": 1_000}  # characters
MOST = 30.0  # times as long as notes take; an algorithm with quadratic time takes thousands
UNITS = (".", " ", "\n", "a. ", "a.\n", "1", "a", "1 ", "1-", "(1", "a@", "1.1.", "www.a", "+1 ", "march ")
# Unusual characters, and line breaks that may cut an identifier: both are searched a second time in their plain form.
UNUSUAL_UNITS = ("\u200b", "1\u200b", "１", "а", "é", "e\u0301\u0323", "О", "12\n", "1-\n", "1.\n", "a@\n", "a-\n")


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__)
    length = LENGTHS[options.size]
    notes = "\n\n".join(document.text for document in phi_hospitals()[0].train)
    ordinary = (notes * (length // len(notes) + 1))[:length]
    searches = {"sentences": find_sentences, "patterns": Patterns("en").find, "typed": normalise}
    figures = [measure(name, search, ordinary) for name, search in searches.items()]
    rows = tuple((f["search"], f["notes_ms"], f["slowest_ms"], f["slowest"], f["ratio"]) for f in figures)
    columns = ("search", "notes: ms", "slowest text: ms", "made of", "times as long")
    bars = [Bar(f"{f['search']}: the slowest text over notes", f["ratio"], most=MOST) for f in figures]
    return finish("traps", Table(f"{length:,} characters", columns, rows), figures, bars, check=options.check)


def measure(name: str, search: Callable[[str], object], notes: str) -> dict[str, Any]:
    """Return the milliseconds for notes and for the slowest text; a text repeats one unit between two letters `a`."""
    texts = {unit: f"a{unit * (len(notes) // len(unit))}a" for unit in UNITS + UNUSUAL_UNITS}
    found = {unit: milliseconds(search, text) for unit, text in texts.items()}
    slowest = max(found, key=lambda unit: found[unit])
    ordinary = milliseconds(search, notes)
    return {
        "search": name,
        "notes_ms": ordinary,
        "slowest_ms": found[slowest],
        "slowest": repr(slowest),
        "ratio": found[slowest] / ordinary,
    }


def milliseconds(search: Callable[[str], object], text: str) -> float:
    """Return the milliseconds of the fastest of three searches."""
    return 1e3 * fastest(lambda: search(text))[1]


if __name__ == "__main__":
    sys.exit(main())
