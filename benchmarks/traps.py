"""Texts made to be slow – pages of dots, blanks, digits – against built-in notes of the same length, one run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from common import Bar, arguments, fastest, finish

from wardround.corpora.synthetic.phi import phi_hospitals
from wardround.redaction.patterns import Patterns
from wardround.reports.tables import Table
from wardround.text.normalised import as_typed
from wardround.text.sentences import find_sentences

MOST = 30.0  # times as long as notes take; what grows with the square of a text takes thousands
UNITS = (".", " ", "\n", "a. ", "a.\n", "1", "a", "1 ", "1-", "(1", "a@", "1.1.", "www.a", "+1 ", "march ")
# Odd characters, and breaks that may cut an identifier: read again in their plain form.
ODD_UNITS = ("\u200b", "1\u200b", "１", "а", "é", "e\u0301\u0323", "О", "12\n", "1-\n", "1.\n", "a@\n", "a-\n")


def main() -> int:
    """Measure and report."""
    asked = arguments(__doc__)
    length = 40_000 if asked.quick else 400_000
    notes = "\n\n".join(document.text for document in phi_hospitals()[0].train)
    ordinary = notes * (length // len(notes) + 1)
    figures = [
        measure(name, find, ordinary[:length])
        for name, find in (("sentences", find_sentences), ("patterns", Patterns("en").find), ("typed", as_typed))
    ]
    rows = tuple((f["reading"], f["notes_ms"], f["slowest_ms"], f["slowest"], f["ratio"]) for f in figures)
    columns = ("reading", "notes: ms", "slowest text: ms", "made of", "times as long")
    bars = [Bar(f"{f['reading']}: the slowest text over notes", f["ratio"], most=MOST) for f in figures]
    return finish("traps", Table(f"{length:,} characters", columns, rows), figures, bars, check=asked.check)


def measure(name: str, find: Callable[[str], object], notes: str) -> dict[str, Any]:
    """Milliseconds of notes, and of the slowest among texts of one unit, `a` before and after it."""
    texts = {unit: f"a{unit * (len(notes) // len(unit))}a" for unit in UNITS + ODD_UNITS}
    found = {unit: milliseconds(find, text) for unit, text in texts.items()}
    slowest = max(found, key=lambda unit: found[unit])
    ordinary = milliseconds(find, notes)
    told = {"notes_ms": ordinary, "slowest_ms": found[slowest], "slowest": repr(slowest)}
    return {"reading": name, **told, "ratio": found[slowest] / ordinary}


def milliseconds(find: Callable[[str], object], text: str) -> float:
    """The fastest of three."""
    return 1e3 * fastest(lambda: find(text))[1]


if __name__ == "__main__":
    sys.exit(main())
