"""What takes a run's events, and how it is told where it left off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

__all__ = ["TrackedRun", "Tracker"]


@dataclass(frozen=True)
class TrackedRun:
    """A run as a tracker is told of it: figures and settings, never a path of notes."""

    study: str
    name: str  # of its folder
    folder: Path  # for what a tracker writes on this machine
    settings: Mapping[str, str] = field(default_factory=dict)


class Tracker(Protocol):
    """Takes events in their order."""

    @property
    def memory(self) -> str:
        """What it must be told when it goes on after a restart."""

    def take(self, event: Mapping[str, Any]) -> None:
        """One event; it may be held back until `flush`."""

    def flush(self) -> None:
        """All that was taken is safe afterwards."""

    def close(self) -> None:
        """Nothing more will come from this process."""
