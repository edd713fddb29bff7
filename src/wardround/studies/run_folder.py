"""The folder of one run: what happened (`events.jsonl`), what came out (`scores.json`, `model/`), how it looks."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wardround.parsing import parse_json

__all__ = ["RunFolder"]


@dataclass(frozen=True)
class RunFolder:
    """Paths below one folder, and the two ways to write to it: append an event, replace a file."""

    path: Path

    def __post_init__(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)

    @property
    def record(self) -> Path:
        """Where events are appended."""
        return self.path / "events.jsonl"

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

    def site(self, name: str) -> Path:
        """What belongs to one site of a study on one machine; among hospitals it is at the site alone."""
        return self.path / "sites" / name

    def log(self, event: str, figures: Mapping[str, Any]) -> None:
        """Append one event; figures only, never content."""
        line = json.dumps({"time": round(time.time(), 3), "event": event, **figures}).encode()
        with self.record.open("ab+") as stream:
            stream.seek(max(stream.tell() - 1, 0))
            torn = stream.read() not in (b"\n", b"")  # by a crash: what is written now begins a line of its own
            stream.write(b"\n" * torn + line + b"\n")

    def events(self) -> Iterator[dict[str, Any]]:
        """Every whole line of the log, oldest first; one that a crash tore is passed over."""
        if self.record.is_file():
            with self.record.open("rb") as stream:
                yield from filter(None, map(_event, stream))

    def write_json(self, name: str, value: Any) -> None:
        """Replace a JSON file whole."""
        partial = self.path / (name + ".partial")
        with partial.open("w", encoding="utf-8") as stream:
            json.dump(value, stream, indent=2)
            stream.write("\n")
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(self.path / name)


def _event(line: bytes) -> dict[str, Any] | None:
    try:
        event: dict[str, Any] = parse_json(line, finite=False)
    except ValueError:
        return None
    return event
