"""Loss and backward pass of our CRF, compared with pytorch-crf on the same scores in the same run."""

from __future__ import annotations

import sys
import time
from statistics import median
from typing import Any

import torch
from common import Bar, arguments, finish, installed

from wardround.models.crf import LinearChainCrf
from wardround.reports.tables import Table

SHAPES = [(64, 40, 11), (64, 40, 45), (16, 200, 11)]  # batch, words, tags
REPEATS = {"full": 50, "quick": 15, "smallest": 1}
WARM_UP = 3
BAR = 3.0  # times faster than pytorch-crf at 64 x 40 x 11


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__)
    torch.manual_seed(0)
    has_peer = installed("torchcrf", "pip install 'wardround[dev]'")
    shapes = [(4, 8, 5)] if options.size == "smallest" else SHAPES
    figures = [measure(shape, REPEATS[options.size], has_peer=has_peer) for shape in shapes]
    names = [f"{f['batch']} x {f['words']} x {f['tags']}" for f in figures]
    rows = tuple((name, f["ours_ms"], f["pytorch_crf_ms"], f["ratio"]) for name, f in zip(names, figures, strict=True))
    title = f"CRF loss + backward, {torch.get_num_threads()} threads"
    table = Table(title, ("batch x words x tags", "Wardround ms", "pytorch-crf ms", "times faster"), rows)
    bars = [Bar(f"times faster than pytorch-crf at {names[0]}", figures[0]["ratio"], least=BAR)] if has_peer else []
    return finish("crf", table, figures, bars, check=options.check)


def measure(shape: tuple[int, int, int], repeats: int, *, has_peer: bool) -> dict[str, Any]:
    """Return the median milliseconds of one loss and backward pass; ours and the peer's alternate."""
    batch, words, tags = shape
    emissions = torch.randn(batch, words, tags, requires_grad=True)
    lengths = torch.randint(words // 2, words + 1, (batch,))
    lengths[0] = words
    mask = torch.arange(words)[None] < lengths[:, None]
    gold = torch.randint(0, tags, (batch, words))
    ours = LinearChainCrf([str(i) for i in range(tags)])
    losses = {"ours_ms": lambda: -ours.log_likelihood(emissions, mask, gold).sum()}
    if has_peer:
        from torchcrf import CRF

        peer = CRF(tags, batch_first=True)
        losses["pytorch_crf_ms"] = lambda: -peer(emissions, gold, mask=mask)
    milliseconds: dict[str, list[float]] = {name: [] for name in losses}
    for _ in range(WARM_UP + repeats):
        for name, loss in losses.items():
            started = time.perf_counter()
            loss().backward()  # type: ignore[no-untyped-call]
            milliseconds[name].append(1e3 * (time.perf_counter() - started))
    medians = {name: median(values[WARM_UP:]) for name, values in milliseconds.items()}
    figures = {"batch": batch, "words": words, "tags": tags, "pytorch_crf_ms": None, "ratio": None} | medians
    return figures | ({"ratio": medians["pytorch_crf_ms"] / medians["ours_ms"]} if has_peer else {})


if __name__ == "__main__":
    sys.exit(main())
