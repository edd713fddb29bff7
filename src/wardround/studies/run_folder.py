"""The folder of one run: `events.jsonl` (what happened), `scores.json` and `model/` (the results), `report.html`."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from wardround.parsing import parse_json

__all__ = ["RunFolder", "versions"]

# Packages whose versions can change the numbers of a run.
_PACKAGES = ("wardround", "torch", "transformers", "numpy", "safetensors", "tenseal", "cryptography", "nvflare", "peft")


@dataclass(frozen=True)
class RunFolder:
    """The paths in a run folder, and the two ways to write to it: append an event, replace a file."""

    path: Path

    def __post_init__(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)

    @property
    def record(self) -> Path:
        """Return the file to which events are appended."""
        return self.path / "events.jsonl"

    @property
    def checkpoint(self) -> Path:
        """Return the file from which a training resumes."""
        return self.path / "checkpoint.safetensors"

    @property
    def model(self) -> Path:
        """Return the folder of the finished model."""
        return self.path / "model"

    @property
    def report(self) -> Path:
        """Return the HTML report."""
        return self.path / "report.html"

    def site(self, name: str) -> Path:
        """Return the folder of one site, in a study on one machine; in a networked study only the site has it."""
        return self.path / "sites" / name

    def log(self, event: str, figures: Mapping[str, Any]) -> None:
        """Append one event; it must hold figures only, never text of notes."""
        line = json.dumps({"time": round(time.time(), 3), "event": event, **figures}).encode()
        with self.record.open("ab+") as stream:
            stream.seek(max(stream.tell() - 1, 0))
            torn = stream.read() not in (b"\n", b"")  # after a crash the last line may be incomplete; start a new one
            stream.write(b"\n" * torn + line + b"\n")

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield the events, oldest first; skip a line that a crash left incomplete."""
        if not self.record.is_file():
            return
        with self.record.open("rb") as stream:
            for line in stream:
                try:
                    event: dict[str, Any] = parse_json(line, finite=False)
                except ValueError:
                    continue
                if event:
                    yield event

    def write_json(self, name: str, value: Any) -> None:
        """Replace a JSON file atomically."""
        partial = self.path / (name + ".partial")
        with partial.open("w", encoding="utf-8") as stream:
            json.dump(value, stream, indent=2)
            stream.write("\n")
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(self.path / name)


def versions() -> dict[str, str]:
    """Return the versions of Python, Wardround and the libraries that are installed here."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
