"""Reproducible randomness: dropout that depends only on a name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256

import torch

from wardround.models.parameter_split import LayeredModel

__all__ = ["seeded_from"]


@contextmanager
def seeded_from(name: str, model: LayeredModel) -> Iterator[None]:
    """Seed the generators that the model uses from `name`; restore them on exit."""
    devices = [model.device.index or 0] if model.device.type == "cuda" else []
    seed = int.from_bytes(sha256(name.encode()).digest()[:8], "big") >> 1
    with torch.random.fork_rng(devices=devices):
        # Not `torch.manual_seed`: without a GPU it records every call, with its stack, for a GPU to come.
        torch.default_generator.manual_seed(seed)
        for device in devices:
            torch.cuda.default_generators[device].manual_seed(seed)
        yield
