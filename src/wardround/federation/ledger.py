"""The egress ledger: every message that leaves a site, and every refusal, in one append-only, hash-chained JSONL file.

Each line holds the digest of the line before it, and the file `<name>.head` holds the digest of the last line: a line
that was altered, removed, inserted or cut off breaks the chain. A line is written, and forced to disk, before its
message is sent; so a line may describe a message that a power cut prevented, but no message leaves without a line.

A line records what left and how much, never the content. The chain reveals changes to one of the two files; a person
who can write both can forge both, and a single valid line added while the site is off looks like a power cut. For more
protection, keep the head elsewhere: `wardround ledger verify` prints it, and `--head` checks it against the file.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import IO, Any, NamedTuple

from wardround.errors import LedgerError
from wardround.federation.message import Message, encode
from wardround.parsing import parse_json

__all__ = ["Entry", "Ledger", "Verdict", "read_entries", "verify"]

_FIRST = "0" * 64  # the predecessor of the first line
_LONGEST_LINE = 4_000_000  # bytes; the names in a message take at most one million
_PRIVATE = 0o600
_LONGEST_STEP = 100


@dataclass(frozen=True)
class Entry:
    """One outgoing message: names, shapes and sizes. The only value on record is a numeric weight."""

    time: float  # seconds since 1970
    study: str
    round: int
    step: str
    arrays: list[Any]  # of [name, shape]
    values: list[Any]  # of names
    blobs: dict[str, Any]  # name: length
    bytes: int  # of the encoded message
    digest: str  # SHA-256 of those bytes
    mechanism: str
    weight: float | None
    previous: str  # SHA-256 of the line before, without its newline
    refusal: str = ""  # the code with which the site refused to answer; nothing else left
    epsilon: float | None = None  # ε that the site has spent so far; not on record without differential privacy


_KINDS: dict[str, type | tuple[type, ...]] = {
    "time": float,
    "study": str,
    "round": int,
    "step": str,
    "arrays": list,
    "values": list,
    "blobs": dict,
    "bytes": int,
    "digest": str,
    "mechanism": str,
    "weight": (float, type(None)),
    "previous": str,
    "refusal": str,
    "epsilon": (float, type(None)),
}


class _Link(NamedTuple):
    entry: Entry
    digest: str  # of its line
    end: int  # offset of its end in the file


@dataclass(frozen=True)
class Verdict:
    """The facts of a verified ledger."""

    entries: int
    bytes_out: int
    head: str  # digest of the last line
    size: int  # bytes of the file up to the last line's end
    torn: int = 0  # bytes after it: an incomplete line of a power cut; its message was never sent


class Ledger:
    """The ledger file of one site, which is only appended to.

    Opening verifies the file and drops an incomplete last line. Only one process can write: a process that finds the
    file longer than it left it raises a `LedgerError`. Without `durable`, for rehearsals in which nothing leaves the
    machine, lines are not forced to disk, which takes milliseconds each.
    """

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        self.path = path
        self._durable = durable
        self._create()
        verdict = verify(path)
        self._head, self._size = verdict.head, verdict.size + verdict.torn
        with _as_ledger_error(path), self._locked() as stream:
            os.ftruncate(stream.fileno(), verdict.size)
            self._size = verdict.size
            # After a power cut between a line and its head, write the head again: it must never be two lines behind.
            self._write_head(verdict.head)

    @property
    def head(self) -> str:
        """Return the digest of the last line."""
        return self._head

    def record(
        self,
        message: Message,
        *,
        study: str,
        step: str,
        round_number: int,
        mechanism: str,
        epsilon: float | None = None,
    ) -> bytes:
        """Write the line of an outgoing message and return the bytes to send; on an error, do not send."""
        data = encode(message)
        weight = message.values.get("weight")
        entry = Entry(
            time=round(time.time(), 3),
            study=study,
            round=round_number,
            step=step,
            arrays=[[name, list(array.shape)] for name, array in message.arrays.items()],
            values=sorted(message.values),
            blobs={name: len(blob) for name, blob in message.blobs.items()},
            bytes=len(data),
            digest=sha256(data).hexdigest(),
            mechanism=mechanism,
            weight=weight if isinstance(weight, float) else None,
            previous=self._head,
            epsilon=epsilon,
        )
        self._append(_line_of(entry))
        return data

    def record_refusal(self, code: str, *, study: str, step: str, round_number: int, mechanism: str) -> None:
        """Write the line of a refusal, of which only its code leaves."""
        entry = Entry(
            time=round(time.time(), 3),
            study=study,
            round=round_number,
            step=step[:_LONGEST_STEP],  # it comes from the request
            arrays=[],
            values=[],
            blobs={},
            bytes=len(code.encode()),
            digest=sha256(code.encode()).hexdigest(),
            mechanism=mechanism,
            weight=None,
            previous=self._head,
            refusal=code,
        )
        self._append(_line_of(entry))

    def _force(self, descriptor: int) -> None:
        if self._durable:
            os.fsync(descriptor)

    def _create(self) -> None:
        with _as_ledger_error(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            for path in (self.path, _head_file(self.path)):
                os.close(os.open(path, os.O_RDWR | os.O_CREAT, _PRIVATE))
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                self._force(folder)
            finally:
                os.close(folder)

    @contextmanager
    def _locked(self) -> Iterator[IO[bytes]]:
        """Open the file to append under a lock; raise if another process wrote to it."""
        with self.path.open("ab", buffering=0) as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            if os.fstat(stream.fileno()).st_size != self._size:
                raise LedgerError(
                    f"{self.path.name}: another process wrote to it; only one process can write, so open it again"
                )
            yield stream

    def _append(self, line: bytes) -> None:
        head = sha256(line).hexdigest()
        with _as_ledger_error(self.path), self._locked() as stream:
            try:
                if stream.write(line + b"\n") <= len(line):
                    raise OSError("the disk is full")
                self._force(stream.fileno())
                self._write_head(head)
            except OSError:  # the message will not be sent
                os.ftruncate(stream.fileno(), self._size)
                self._write_head(self._head)
                raise
        self._head, self._size = head, self._size + len(line) + 1

    def _write_head(self, head: str) -> None:
        """Write the head in place: it fits into one disk sector, which holds either the old digest or the new one."""
        with _head_file(self.path).open("r+b", buffering=0) as stream:
            stream.write(head.encode() + b"\n")
            self._force(stream.fileno())


def read_entries(path: Path) -> Iterator[Entry]:
    """Yield every entry, oldest first; raise a `LedgerError` that names the line if the chain is broken."""
    for link in _walk(path, _snapshot(path)[1]):
        yield link.entry


def verify(path: Path, *, recorded_head: str = "") -> Verdict:
    """Verify the chain up to the head; this changes nothing and may run while the site writes.

    `recorded_head` is a head that was kept elsewhere: it must be the digest of a line.
    """
    known, size = _snapshot(path)
    entries = bytes_out = end = 0
    found = recorded_head in ("", _FIRST)
    digests = deque([_FIRST], maxlen=2)
    for link in _walk(path, size):
        entries, bytes_out, end = entries + 1, bytes_out + link.entry.bytes, link.end
        digests.append(link.digest)
        found = found or link.digest == recorded_head
    # A power cut between a line and its head leaves the head one line behind, which is not a forgery.
    if known != digests[-1] and (known != digests[0] or end < size):
        raise LedgerError(f"{path.name}: its end is missing or altered, or lines were added from outside")
    if not found:
        raise LedgerError(f"{path.name}: no line has the noted head; the file was rewritten")
    return Verdict(entries, bytes_out, digests[-1], size=end, torn=size - end)


def _snapshot(path: Path) -> tuple[str, int]:
    """Return the head and the length of the file at one moment, between two lines of a writer."""
    with _as_ledger_error(path), path.open("rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_SH)
        head = _head_file(path)
        known = head.read_bytes()[:80].strip().decode("ascii", "replace") if head.exists() else ""
        return known or _FIRST, os.fstat(stream.fileno()).st_size


def _walk(path: Path, size: int) -> Iterator[_Link]:
    """Yield the lines in the first `size` bytes, up to an incomplete one."""
    previous, end = _FIRST, 0
    with _as_ledger_error(path), path.open("rb") as stream:
        for number in count(1):
            line = stream.readline(min(size - end, _LONGEST_LINE))
            if not line.endswith(b"\n"):
                return
            entry = _parsed(line)
            if entry is None:
                raise LedgerError(f"{path.name}:{number}: is not an entry of a ledger")
            if entry.previous != previous:
                raise LedgerError(f"{path.name}:{number}: does not follow the line before it")
            previous, end = sha256(line[:-1]).hexdigest(), end + len(line)
            yield _Link(entry, previous, end)


def _line_of(entry: Entry) -> bytes:
    """Return the line of an entry; a study without differential privacy has no ε in it."""
    found = asdict(entry)
    if entry.epsilon is None:
        del found["epsilon"]
    return json.dumps(found, separators=(",", ":")).encode()


def _parsed(line: bytes) -> Entry | None:
    try:
        entry = Entry(**parse_json(line))
    except (ValueError, TypeError):
        return None
    found = ((getattr(entry, name), kind) for name, kind in _KINDS.items())
    return entry if all(isinstance(value, kind) and not isinstance(value, bool) for value, kind in found) else None


def _head_file(path: Path) -> Path:
    return path.with_name(path.name + ".head")


@contextmanager
def _as_ledger_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LedgerError(f"{path.name}: cannot be used ({error.strerror or error})") from None
