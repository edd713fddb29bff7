"""Loss and backward pass of our CRF against pytorch-crf, same scores, same machine, one run."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from statistics import median

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torchcrf import CRF

from wardround.models.crf import LinearChainCrf

BAR = 3.0  # times faster than pytorch-crf at 64 x 40 x 11


def main() -> int:
    """Print the table and the JSON line; with --check, fail below the bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    shapes = [(64, 40, 11), (64, 40, 45), (16, 200, 11)]
    figures = [measure(shape, arguments.repeats) for shape in shapes]
    show(figures)
    print(json.dumps({"benchmark": "crf", "bar": BAR, "figures": figures}))
    return int(arguments.check and figures[0]["ratio"] < BAR)


def measure(shape: tuple[int, int, int], repeats: int) -> dict[str, float]:
    """Milliseconds of one loss + backward in both, and their ratio."""
    batch, words, tags = shape
    emissions = torch.randn(batch, words, tags, requires_grad=True)
    lengths = torch.randint(words // 2, words + 1, (batch,))
    lengths[0] = words
    mask = torch.arange(words)[None] < lengths[:, None]
    gold = torch.randint(0, tags, (batch, words))
    ours, peer = LinearChainCrf([str(i) for i in range(tags)]), CRF(tags, batch_first=True)
    times = interleave(
        lambda: backward(-ours.log_likelihood(emissions, mask, gold).sum()),
        lambda: backward(-peer(emissions, gold, mask=mask)),
        repeats,
    )
    figures = {"batch": batch, "words": words, "tags": tags, "ours_ms": times[0], "pytorch_crf_ms": times[1]}
    return figures | {"ratio": times[1] / times[0]}


def backward(loss: Tensor) -> None:
    """Run the backward pass."""
    loss.backward()  # type: ignore[no-untyped-call]


def interleave(first: Callable[[], None], second: Callable[[], None], repeats: int) -> tuple[float, float]:
    """Median milliseconds of each, taken in turns so that both see the same machine."""
    times: tuple[list[float], list[float]] = ([], [])
    for repeat in range(repeats + 3):
        for call, kept in zip((first, second), times, strict=True):
            started = time.perf_counter()
            call()
            if repeat >= 3:
                kept.append(1e3 * (time.perf_counter() - started))
    return median(times[0]), median(times[1])


def show(figures: list[dict[str, float]]) -> None:
    """The table."""
    table = Table(title=f"CRF loss + backward, {torch.get_num_threads()} threads")
    for column in ("batch x words x tags", "Wardround ms", "pytorch-crf ms", "times faster"):
        table.add_column(column, justify="right")
    for row in figures:
        shape = f"{row['batch']} x {row['words']} x {row['tags']}"
        table.add_row(shape, f"{row['ours_ms']:.2f}", f"{row['pytorch_crf_ms']:.2f}", f"{row['ratio']:.1f}")
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
