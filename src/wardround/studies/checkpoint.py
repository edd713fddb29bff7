"""A training's state in one safetensors file, replaced whole: the old one or the new one, never half of either."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from safetensors import SafetensorError, safe_open

from wardround.errors import TrainingError
from wardround.parsing import parse_json
from wardround.training.loop import EpochRecord, TrainingState
from wardround.training.state_files import save_tensors

__all__ = ["load_checkpoint", "save_checkpoint"]


def save_checkpoint(path: Path, state: TrainingState, *, settings: str) -> None:
    """Write `state`; `settings` is a digest of what the training is, checked when it goes on."""
    records = json.dumps([asdict(record) for record in state.records])
    save_tensors(path, state.tensors, metadata={"settings": settings, "records": records})


def load_checkpoint(path: Path, *, settings: str) -> TrainingState:
    """Read a state back; refuse one of another training."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}
        records = tuple(EpochRecord(**record) for record in parse_json(metadata["records"], finite=False))
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise TrainingError(f"{path.name} is no checkpoint, or damaged; remove it to start afresh") from error
    if metadata.get("settings") != settings:
        raise TrainingError(
            "the run folder holds a training with other settings or data; name another folder, or remove this one"
        )
    return TrainingState(tensors, records)
