"""Dropout that depends on a name alone, whatever was drawn before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256

import torch

from wardround.models.parameter_split import LayeredModel

__all__ = ["seeded_from"]


@contextmanager
def seeded_from(name: str, model: LayeredModel) -> Iterator[None]:
    """What the model draws at random comes from `name`; whoever draws afterwards draws as if nothing had been."""
    devices = [model.device.index or 0] if model.device.type == "cuda" else []
    seed = int.from_bytes(sha256(name.encode()).digest()[:8], "big") >> 1
    with torch.random.fork_rng(devices=devices):
        # Not `torch.manual_seed`: without a GPU it notes every call, with its stack, for a GPU to come.
        torch.default_generator.manual_seed(seed)
        for device in devices:
            torch.cuda.default_generators[device].manual_seed(seed)
        yield
