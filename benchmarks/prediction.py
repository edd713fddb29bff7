"""Memory and speed of streamed prediction: ten times as many sentences must take the same memory."""

from __future__ import annotations

import sys

from common import Bar, arguments, finish

from wardround.reports.tables import Table

SIZES = {"full": (2_000, 10_000, 20_000), "quick": (500, 5_000), "smallest": (5, 50)}  # sentences
BAR = 1.1  # peak memory of the most sentences over the fewest


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__)
    sizes = SIZES[options.size]
    figures = [options.run("predict_memory", {"sentences": size}) for size in sizes]
    rows = tuple((f["sentences"], round(f["peak_mb"]), round(f["sentences"] / f["seconds"])) for f in figures)
    table = Table("Streamed prediction", ("sentences", "peak MB", "sentences per second"), rows)
    growth = figures[-1]["peak_mb"] / figures[0]["peak_mb"]
    bars = [Bar(f"peak memory, {sizes[-1]:,} sentences over {sizes[0]:,}", growth, most=BAR)]
    return finish("prediction", table, figures, bars, check=options.check)


if __name__ == "__main__":
    sys.exit(main())
