"""Files of named tensors that are replaced atomically: a reader finds the old file or the new one, never a mix."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from wardround.errors import TrainingError

__all__ = ["copy_into", "fsync_path", "load_tensors", "save_tensors", "tensors_under"]


def save_tensors(path: Path, tensors: Mapping[str, Tensor], *, metadata: dict[str, str] | None = None) -> None:
    """Replace a file atomically; `metadata` is text that is stored with the tensors."""
    partial = path.with_name(path.name + ".partial")
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        save_file(plain, partial, metadata=metadata)
        fsync_path(partial)
        partial.replace(path)
        fsync_path(path.parent)  # otherwise a power failure may restore the old name
    except (OSError, SafetensorError) as error:
        partial.unlink(missing_ok=True)
        full = "No space left" in str(error)
        reason = "the disk is full" if full else f"{type(error).__name__}"
        kept = "; the file of the last checkpoint is kept" if path.exists() else ""
        raise TrainingError(
            f"{path.name} in the folder {path.parent.name} cannot be written: {reason}{kept}; "
            "make room and run the same command again"
        ) from error


def fsync_path(path: Path) -> None:
    """Write a file or folder to disk before returning."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a file."""
    try:
        return dict(load_file(path))
    except (OSError, SafetensorError) as error:
        raise TrainingError(f"{path.name} is missing or damaged; remove it to start afresh") from error


def tensors_under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors called `prefix/…`, without the prefix."""
    start = prefix + "/"
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}


def copy_into(parameters: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    """Copy tensors into all parameters; raise `TrainingError` and copy none if names or shapes differ."""
    if {n: t.shape for n, t in tensors.items()} != {n: p.shape for n, p in parameters.items()}:
        raise TrainingError("the state belongs to another model; start afresh in a new folder")
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[name])
