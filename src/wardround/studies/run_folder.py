"""The folder of one run: what happened (`events.jsonl`), what came out (`scores.json`, `model/`), how it looks."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["RunFolder"]


@dataclass(frozen=True)
class RunFolder:
    """Paths below one folder, and the two ways to write to it: append an event, replace a file."""

    path: Path

    def __post_init__(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)

    @property
    def checkpoint(self) -> Path:
        """Where a training goes on from."""
        return self.path / "checkpoint.safetensors"

    @property
    def model(self) -> Path:
        """The finished model."""
        return self.path / "model"

    @property
    def report(self) -> Path:
        """The page for a person."""
        return self.path / "report.html"

    def log(self, event: str, figures: Mapping[str, Any]) -> None:
        """Append one event; figures only, never content."""
        line = json.dumps({"time": round(time.time(), 3), "event": event, **figures})
        with (self.path / "events.jsonl").open("a", encoding="utf-8") as stream:
            stream.write(line + "\n")

    def events(self) -> Iterator[dict[str, Any]]:
        """Every whole line of the log, oldest first."""
        path = self.path / "events.jsonl"
        if path.is_file():
            with path.open(encoding="utf-8") as stream:
                yield from (json.loads(line) for line in stream if line.endswith("\n"))

    def write_json(self, name: str, value: Any) -> None:
        """Replace a JSON file whole."""
        partial = self.path / (name + ".partial")
        with partial.open("w", encoding="utf-8") as stream:
            json.dump(value, stream, indent=2)
            stream.write("\n")
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(self.path / name)
