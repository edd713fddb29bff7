"""The log of a key service: who requested what and when, and the outcome; append-only JSONL without secrets."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from wardround.errors import KeyMaterialError
from wardround.parsing import parse_json

__all__ = ["KeyLog", "LogLine", "read_log"]


@dataclass(frozen=True)
class LogLine:
    """One request, or one action on the machine itself, for which `who` is empty."""

    time: float  # seconds since 1970
    who: str  # the name in the certificate
    certificate: str  # its fingerprint
    address: str  # where the request came from
    asked: str
    epoch: int
    outcome: str


class KeyLog:
    """An append-only file, which several processes may write."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(
        self,
        asked: str,
        outcome: str,
        *,
        who: str = "",
        certificate: str = "",
        address: str = "",
        epoch: int = 0,
    ) -> None:
        """Add a line and force it to disk; if that fails, no key may be sent."""
        line = LogLine(round(time.time(), 3), who, certificate, address, asked, epoch, outcome)
        data = json.dumps(asdict(line), separators=(",", ":")).encode() + b"\n"
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                size = os.fstat(descriptor).st_size
                # A power cut may have left the last line incomplete; it is ended first.
                end = b"\n" if size and os.pread(descriptor, 1, size - 1) != b"\n" else b""
                if os.write(descriptor, end + data) < len(data):
                    raise OSError("the disk is full")
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise KeyMaterialError(
                f"{self.path.name} cannot be written ({error.strerror or error}); no key is issued without it"
            ) from None


def read_log(path: Path) -> Iterator[LogLine]:
    """Yield every line, oldest first; skip a line that a power cut left incomplete."""
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            for text in stream:
                try:
                    yield LogLine(**parse_json(text))
                except (ValueError, TypeError):
                    continue
    except FileNotFoundError:
        return
    except OSError as error:
        raise KeyMaterialError(f"{path.name} cannot be read ({error.strerror})") from None
