"""A file that grows note by note, can be cut back to what is known to be whole, and takes its name when complete."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wardround.errors import CorpusError

__all__ = ["Appended"]


class Appended:
    """Text under `NAME.partial` until `finish`; `size` is what was written, in bytes."""

    def __init__(self, path: Path, *, keep: int = 0) -> None:
        """Take it with only its first `keep` bytes, which must be there."""
        self.path, self.size = path, keep
        self.partial = path.with_name(path.name + ".partial")
        with _refusals(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            if keep and path.exists() and not self.partial.exists():
                path.replace(self.partial)  # a run that ended between the last names it gave goes on
            with self.partial.open("r+b" if keep else "wb") as stream:
                held = stream.seek(0, 2)
                stream.truncate(min(keep, held))
        if held < keep:
            raise CorpusError("is shorter than the journal says; redact into a new folder", path=path)

    def append(self, content: str) -> None:
        """Write, and leave nothing in a buffer: what the journal says afterwards is true."""
        with _refusals(self.path):
            data = content.encode()
            with self.partial.open("ab") as stream:
                stream.write(data)
        self.size += len(data)

    def finish(self) -> None:
        """Give it its name."""
        with _refusals(self.path):
            self.partial.replace(self.path)


@contextmanager
def _refusals(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeEncodeError:
        raise CorpusError("a text holds half a surrogate pair, which is no character", path=path) from None
    except OSError as error:
        raise CorpusError(f"cannot be written ({error.strerror or type(error).__name__})", path=path) from None
