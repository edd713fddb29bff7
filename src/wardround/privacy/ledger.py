"""The egress ledger: every message that leaves a site, in one append-only, hash-chained JSONL file.

Each line holds the digest of the line before it, and a `head` file beside it the digest of the last: a line that was
altered, removed or cut off breaks the chain. A line is written, and forced to disk, before its message is sent.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from wardround.errors import LedgerError
from wardround.federation.message import Message, encode

__all__ = ["Ledger", "Verdict"]

_FIRST = "0" * 64


@dataclass(frozen=True)
class Verdict:
    """What a verified ledger holds."""

    entries: int
    bytes_out: int
    head: str


class Ledger:
    """One file a site; open it once, record, and it is never rewritten."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._drop_torn_line()
        self._head = self.verify().head

    @property
    def head(self) -> str:
        """Digest of the last line."""
        return self._head

    def record(self, message: Message, *, study: str, step: str, round_number: int, mechanism: str) -> bytes:
        """Write the line for an outgoing message, then give back the bytes to send."""
        data = encode(message)
        weight = message.values.get("weight")
        entry = {
            "time": round(time.time(), 3),
            "study": study,
            "round": round_number,
            "step": step,
            "arrays": [[name, list(array.shape)] for name, array in message.arrays.items()],
            "values": sorted(message.values),
            "blobs": {name: len(blob) for name, blob in message.blobs.items()},
            "bytes": len(data),
            "digest": sha256(data).hexdigest(),
            "mechanism": mechanism,
            "weight": weight,
            "previous": self._head,
        }
        self._append(json.dumps(entry, separators=(",", ":")))
        return data

    def entries(self) -> Iterator[dict[str, Any]]:
        """Every entry, oldest first; a broken chain is a `LedgerError` that names the line."""
        previous = _FIRST
        for number, line in enumerate(self._lines(), start=1):
            try:
                entry = json.loads(line)
                chained = entry["previous"] == previous
            except (ValueError, KeyError, TypeError):
                raise LedgerError(f"{self.path.name}:{number}: is no entry") from None
            if not chained:
                raise LedgerError(f"{self.path.name}:{number}: does not follow the line before it")
            previous = sha256(line.encode()).hexdigest()
            yield entry

    def verify(self) -> Verdict:
        """Walk the chain to the head."""
        count = size = 0
        for entry in self.entries():
            count, size = count + 1, size + int(entry["bytes"])
        digests = deque([_FIRST, *(sha256(line.encode()).hexdigest() for line in self._lines())], maxlen=2)
        # A power cut between the line and the head leaves the head one line behind: that is no forgery.
        if self._known_head() not in digests:
            raise LedgerError(f"{self.path.name}: its end is missing, or was added to from outside")
        return Verdict(count, size, digests[-1])

    @property
    def _head_file(self) -> Path:
        return self.path.with_suffix(".head")

    def _known_head(self) -> str:
        return self._head_file.read_text(encoding="utf-8").strip() if self._head_file.exists() else _FIRST

    def _drop_torn_line(self) -> None:
        """A last line without its end was being written when the power went; its message was never sent."""
        if not self.path.exists():
            return
        content = self.path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        last = sha256(whole[:-1].rpartition(b"\n")[2]).hexdigest() if whole else _FIRST
        if len(whole) < len(content) and last == self._known_head():
            with self.path.open("r+b") as stream:
                stream.truncate(len(whole))

    def _lines(self) -> Iterator[str]:
        if not self.path.exists():
            return
        with self.path.open(encoding="utf-8", newline="\n") as stream:
            for number, line in enumerate(stream, start=1):
                if not line.endswith("\n"):
                    raise LedgerError(f"{self.path.name}:{number}: is cut short")
                yield line[:-1]

    def _append(self, line: str) -> None:
        with self.path.open("a", encoding="utf-8", newline="\n") as stream:
            stream.write(line + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        self._head = sha256(line.encode()).hexdigest()
        partial = self._head_file.with_suffix(".head.partial")
        partial.write_text(self._head + "\n", encoding="utf-8")
        partial.replace(self._head_file)
