"""Loss and backward pass of our CRF against pytorch-crf, same scores, same machine, one run."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from statistics import median

import torch
from common import Bar, arguments, finish
from torch import Tensor
from torchcrf import CRF

from wardround.models.crf import LinearChainCrf
from wardround.reports.tables import Table

BAR = 3.0  # times faster than pytorch-crf at 64 x 40 x 11


def main() -> int:
    """Measure and report."""
    asked = arguments(__doc__)
    torch.manual_seed(0)
    shapes = [(64, 40, 11), (64, 40, 45), (16, 200, 11)]
    figures = [measure(shape, 15 if asked.quick else 50) for shape in shapes]
    rows = tuple(
        (f"{f['batch']} x {f['words']} x {f['tags']}", f["ours_ms"], f["pytorch_crf_ms"], f["ratio"]) for f in figures
    )
    title = f"CRF loss + backward, {torch.get_num_threads()} threads"
    table = Table(title, ("batch x words x tags", "Wardround ms", "pytorch-crf ms", "times faster"), rows)
    bars = [Bar("times faster than pytorch-crf at 64 x 40 x 11", figures[0]["ratio"], least=BAR)]
    return finish("crf", table, figures, bars, check=asked.check)


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


if __name__ == "__main__":
    sys.exit(main())
