"""Memory and speed of streamed prediction: ten times the sentences, the same memory."""

from __future__ import annotations

import sys
from pathlib import Path

from common import Bar, arguments, finish, run_json

from wardround.reports.tables import Table

BAR = 1.1  # peak memory with ten times the sentences


def main() -> int:
    """Measure and report."""
    asked = arguments(__doc__)
    script = Path(__file__).parent / "peers" / "predict_memory.py"
    sizes = (500, 5_000) if asked.quick else (2_000, 10_000, 20_000)
    figures = [run_json(sys.executable, script, {"sentences": size}) for size in sizes]
    rows = tuple((f["sentences"], round(f["peak_mb"]), round(f["sentences"] / f["seconds"])) for f in figures)
    table = Table("Prediction in a stream", ("sentences", "peak MB", "sentences a second"), rows)
    growth = figures[-1]["peak_mb"] / figures[0]["peak_mb"]
    bars = [Bar(f"peak memory, {sizes[-1]:,} sentences over {sizes[0]:,}", growth, most=BAR)]
    return finish("prediction", table, figures, bars, check=asked.check)


if __name__ == "__main__":
    sys.exit(main())
