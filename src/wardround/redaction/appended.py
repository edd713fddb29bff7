"""A file that grows note by note, can be cut back to what is known to be whole, and takes its name when complete.

It is its owner's alone, as everything that a redaction writes: what nobody found is still in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Literal

from wardround.errors import CorpusError

__all__ = ["Appended", "open_private", "private_folder", "private_umask"]


class Appended:
    """Text under `NAME.partial` until `finish`; `size` is what was written, in bytes."""

    def __init__(self, path: Path, *, keep: int = 0) -> None:
        """Take it with only its first `keep` bytes, which must be there."""
        self.path, self.size = path, keep
        self.partial = path.with_name(path.name + ".partial")
        with _refusals(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if keep and path.exists() and not self.partial.exists():
                path.replace(self.partial)  # a run that ended between the last names it gave goes on
            with open_private(self.partial, "r+b" if keep else "wb") as stream:
                held = stream.seek(0, 2)
                stream.truncate(min(keep, held))
        if held < keep:
            raise CorpusError("is shorter than the journal says; redact into a new folder", path=path)

    def append(self, content: str) -> None:
        """Write, and leave nothing in a buffer: what the journal says afterwards is true."""
        with _refusals(self.path):
            data = content.encode()
            with open_private(self.partial, "ab") as stream:
                stream.write(data)
        self.size += len(data)

    def finish(self) -> None:
        """Give it its name."""
        with _refusals(self.path):
            self.partial.replace(self.path)


def open_private(path: Path, mode: Literal["wb", "ab", "r+b"]) -> IO[bytes]:
    """Open a file that only its owner reads, whatever the umask is and whoever made it before."""
    stream = open(path, mode, opener=lambda name, flags: os.open(name, flags, 0o600))
    os.fchmod(stream.fileno(), 0o600)
    return stream


def private_folder(folder: Path) -> None:
    """Make a folder that only its owner enters; one that is there is closed, where it is ours to close."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(PermissionError):  # of somebody else's folder, the files are private all the same
        folder.chmod(0o700)


@contextmanager
def private_umask() -> Iterator[None]:
    """While writers of formats make files and folders, these are their owner's alone."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def _refusals(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeEncodeError:
        raise CorpusError("a text holds half a surrogate pair, which is no character", path=path) from None
    except OSError as error:
        raise CorpusError(f"cannot be written ({error.strerror or type(error).__name__})", path=path) from None
