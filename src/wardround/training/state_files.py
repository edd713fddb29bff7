"""What must outlast a process, as named tensors in one safetensors file: the old one or the new one, never half."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from wardround.errors import TrainingError

__all__ = ["copy_into", "force", "load_tensors", "save_tensors", "under"]


def save_tensors(path: Path, tensors: Mapping[str, Tensor], *, metadata: dict[str, str] | None = None) -> None:
    """Replace the file whole; `metadata` is text that goes with the tensors."""
    partial = path.with_name(path.name + ".partial")
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    save_file(plain, partial, metadata=metadata)
    force(partial)
    partial.replace(path)
    force(path.parent)  # else a power cut may take the new name back


def force(path: Path) -> None:
    """To disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def load_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file."""
    try:
        return dict(load_file(path))
    except (OSError, SafetensorError) as error:
        raise TrainingError(f"{path.name} is missing or damaged; remove it to start afresh") from error


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors called `prefix/…`, without the prefix."""
    start = prefix + "/"
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}


def copy_into(parameters: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    """Fill all parameters, or, where names or shapes differ, none."""
    if {n: t.shape for n, t in tensors.items()} != {n: p.shape for n, p in parameters.items()}:
        raise TrainingError("the state belongs to another model; start afresh in a new folder")
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[name])
