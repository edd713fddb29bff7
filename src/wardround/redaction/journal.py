"""The journal of a redaction: which notes are done, and the sizes of the growing files; it contains no text.

    {"version": 1, "settings": {"how": "mask", ...}}
    {"done": 1, "chain": "5f0c...", "sizes": {"audit": 214, "output": 0, "review": 0}}

`chain` is a digest of the ids of all notes so far; a resumed run uses it to check that the notes are the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from wardround.errors import CorpusError, UsageError
from wardround.parsing import parse_json
from wardround.redaction.private_files import GrowingFile

__all__ = ["Journal", "Progress", "Settings", "extend_chain"]

_VERSION = 1
_JOURNAL = "journal.jsonl"
Settings = Mapping[str, str | float | bool | None]


@dataclass(frozen=True)
class Progress:
    """The progress of a redaction."""

    done: int = 0
    chain: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)


def extend_chain(chain: str, id_: str) -> str:
    """Return the digest of the ids in `chain` and one more id."""
    return sha256(f"{chain}\n{id_}".encode("utf-8", "surrogatepass")).hexdigest()


class Journal:
    """The journal of a run; `progress` is what earlier runs have done."""

    def __init__(self, folder: Path, settings: Settings, *, resume: bool) -> None:
        path = folder / _JOURNAL
        self.is_finished = resume and path.exists()
        self.progress = Progress()
        whole = 0
        if resume and not self.is_finished and path.with_name(path.name + ".partial").exists():
            self.progress, whole = _read(path.with_name(path.name + ".partial"), settings)
        if self.is_finished:
            _read(path, settings)
            return
        self._file = GrowingFile(path, keep=whole)
        if not whole:
            self._file.append(json.dumps({"version": _VERSION, "settings": dict(settings)}) + "\n")

    def record(self, progress: Progress) -> None:
        """Record that everything up to here is on disk."""
        self.progress = progress
        line = {"done": progress.done, "chain": progress.chain, "sizes": dict(progress.sizes)}
        self._file.append(json.dumps(line) + "\n")

    def finish(self) -> None:
        """Mark the run as complete."""
        self._file.finish()


def _read(path: Path, settings: Settings) -> tuple[Progress, int]:
    """Return the last complete line and the position of its end; raise `UsageError` if the settings differ."""
    progress, whole, is_first = Progress(), 0, True
    with path.open("rb") as stream:
        for line in stream:
            if not line.endswith(b"\n"):
                break  # the run was interrupted within this line: the note is not done
            try:
                value: dict[str, Any] = parse_json(line)
                if not {"version", "settings"} <= value.keys() and not {"done", "chain", "sizes"} <= value.keys():
                    raise ValueError
            except (ValueError, AttributeError):
                raise CorpusError("is not a journal of a redaction; redact into a new folder", path=path) from None
            if is_first:
                _check_settings(value, settings)
            else:
                progress = Progress(value["done"], value["chain"], value["sizes"])
            is_first, whole = False, whole + len(line)
    return progress, whole


def _check_settings(value: dict[str, Any], settings: Settings) -> None:
    if value.get("version") != _VERSION:
        raise UsageError("the run to resume is from another version of Wardround; redact into a new folder")
    before = value["settings"]
    other = sorted(name for name in settings.keys() | before.keys() if settings.get(name) != before.get(name))
    if other:
        raise UsageError(f"the run to resume had a different {', '.join(other)}; use the same options, or a new folder")
