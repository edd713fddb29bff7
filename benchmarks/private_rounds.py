"""What differential privacy costs: a round of a study with adapters, with and without it, and memory by batch.

Four built-in hospitals train LoRA adapters on an encoder, sealed and masked. The same study runs without differential
privacy, with it, and with it over a batch four times as large, each in a process of its own. With it, the gradient of
every sentence is clipped; memory must not grow with the batch, because gradients are computed in parts.
"""

from __future__ import annotations

import sys
from typing import Any

from common import Bar, arguments, finish

from wardround.models.encoders import MINILM
from wardround.reports.tables import Table

SIZES: dict[str, dict[str, Any]] = {
    "smallest": {"encoder": "bert-tiny", "rounds": 3, "sentences": 12, "small": True},
    "quick": {"encoder": MINILM, "rounds": 5, "sentences": 128},
    "full": {"encoder": MINILM, "rounds": 9, "sentences": 256},
}
MOST_TIMES = 2.0  # seconds of a round with differential privacy over those without
MOST_GROWTH = 1.1  # of peak memory, four times the batch
NOTE = "sentences: of all sites in a round, on average; × is the ratio to the same round without differential privacy"


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__)
    size = SIZES[options.size]
    cases = {
        "without": {**size, "private": False},
        "with": {**size, "private": True},
        "with, 4 × the batch": {**size, "private": True, "sentences": 4 * size["sentences"]},
    }
    found = {name: options.run("private_study", case) for name, case in cases.items()}
    plain, private, large = found.values()
    ratio = private["seconds_a_round"] / plain["seconds_a_round"]
    rows = tuple(
        (
            name,
            cases[name]["sentences"],
            one["seconds_a_round"],
            f"{one['seconds_a_round'] / plain['seconds_a_round']:.2f}",
            round(one["peak_mb"]),
        )
        for name, one in found.items()
    )
    columns = ("differential privacy", "sentences", "s per round", "×", "peak MB")
    table = Table(f"A round of LoRA on {size['encoder']}, sealed and masked", columns, rows, note=NOTE)
    bars = [
        Bar("seconds of a round, with over without", ratio, most=MOST_TIMES),
        Bar("peak memory, 4 × the batch over 1 ×", large["peak_mb"] / private["peak_mb"], most=MOST_GROWTH),
    ]
    listed = [{"study": name, **cases[name], **one} for name, one in found.items()]
    return finish("private_rounds", table, listed, bars, check=options.check)


if __name__ == "__main__":
    sys.exit(main())
