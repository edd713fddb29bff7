"""Files that only their owner can read: redacted notes may still contain identifying text that was not found.

A `GrowingFile` grows note by note, can be cut back to a known size, and gets its name when it is complete.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Literal

from wardround.errors import CorpusError

__all__ = ["GrowingFile", "open_private", "private_folder", "private_umask"]


class GrowingFile:
    """A text file that is called `NAME.partial` until `finish`; `size` is its length in bytes."""

    def __init__(self, path: Path, *, keep: int = 0) -> None:
        """Open the file and keep its first `keep` bytes, which must exist."""
        self.path, self.size = path, keep
        self.partial = path.with_name(path.name + ".partial")
        with _as_corpus_errors(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if keep and path.exists() and not self.partial.exists():
                path.replace(self.partial)  # the run was interrupted between the final renames
            with open_private(self.partial, "r+b" if keep else "wb") as stream:
                length = stream.seek(0, 2)
                stream.truncate(min(keep, length))
        if length < keep:
            raise CorpusError("is shorter than the journal says; redact into a new folder", path=path)

    def append(self, content: str) -> None:
        """Write without buffering, so that the journal can rely on it."""
        with _as_corpus_errors(self.path):
            data = content.encode()
            with open_private(self.partial, "ab") as stream:
                stream.write(data)
        self.size += len(data)

    def finish(self) -> None:
        """Give the file its final name."""
        with _as_corpus_errors(self.path):
            self.partial.replace(self.path)


def open_private(path: Path, mode: Literal["wb", "ab", "r+b"]) -> IO[bytes]:
    """Open a file that only its owner can read, regardless of the umask and of earlier permissions."""
    stream = open(path, mode, opener=lambda name, flags: os.open(name, flags, 0o600))
    os.fchmod(stream.fileno(), 0o600)
    return stream


def private_folder(folder: Path) -> None:
    """Create a folder that only its owner can enter; restrict an existing one if we own it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(PermissionError):  # another user's folder; the files in it are private nevertheless
        folder.chmod(0o700)


@contextmanager
def private_umask() -> Iterator[None]:
    """Make files and folders that are created in the context accessible to their owner only."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def _as_corpus_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeEncodeError:
        raise CorpusError("a text contains half a surrogate pair, which is not a character", path=path) from None
    except OSError as error:
        raise CorpusError(f"cannot be written ({error.strerror or type(error).__name__})", path=path) from None
