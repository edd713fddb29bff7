"""What every reader and writer shares: opening files, reporting problems, and the shape of a format."""

from __future__ import annotations

import glob
import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from itertools import count
from pathlib import Path
from typing import IO, NoReturn, Protocol, get_args, runtime_checkable

from wardround.errors import CorpusError, TextError, UsageError
from wardround.text.document import Document

__all__ = [
    "BYTE_ORDER_MARK",
    "MAXIMUM_LINE",
    "CorpusFormat",
    "Problem",
    "ProblemSink",
    "Severity",
    "WritableFormat",
    "check_choice",
    "fail_on_error",
    "files_below",
    "open_for_reading",
    "open_for_writing",
    "read_chunks",
    "read_each",
    "read_lines",
    "read_text",
    "refuse_links_out",
]

MAXIMUM_LINE = 10_000_000  # characters; a longer line is a binary file or a mistake
MAXIMUM_FILE = 1_000_000_000  # characters of a file that must be held whole, such as a note
BYTE_ORDER_MARK = "\ufeff"  # some editors begin a file with it; it is no part of the content
_UNREADABLE = (UnicodeDecodeError, EOFError, OSError, zlib.error)


class Severity(Enum):
    """How much a problem matters."""

    ERROR = "error"  # the annotation cannot be used as it stands
    WARNING = "warning"  # it can be used, and somebody should look


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong in a corpus file: where, what, how bad. Never quotes the note."""

    message: str
    path: Path | None = None
    line: int | None = None
    severity: Severity = Severity.ERROR


ProblemSink = Callable[[Problem], None]


def fail_on_error(problem: Problem) -> None:
    """The default sink: the first error stops the reading, a warning passes."""
    if problem.severity is Severity.ERROR:
        raise CorpusError(problem.message, path=problem.path, line=problem.line)


class CorpusFormat(Protocol):
    """A way annotated notes lie on disk. Implementations are frozen dataclasses whose fields are the options."""

    def read(self, path: Path, *, problems: ProblemSink = fail_on_error) -> Iterator[Document]:
        """Yield documents one at a time; hand each problem to `problems` and go on without the faulty part."""


@runtime_checkable
class WritableFormat(Protocol):
    """A format that can also be written."""

    def write(self, documents: Iterable[Document], path: Path) -> None:
        """Write the documents to the file or folder `path`."""


def check_choice(option: str, value: str, choices: object) -> None:
    """Refuse a value that is none of `choices`, the `Literal` an option of a format is typed with."""
    known = get_args(choices)
    if value not in known:
        raise UsageError(f"{value!r} is not a {option}: expected {', '.join(known[:-1])} or {known[-1]}")


def open_for_reading(path: Path) -> IO[str]:
    """UTF-8 text, unpacked where the name ends in `.gz`; line ends are kept so that offsets stay true."""
    try:
        raw = gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")
    except OSError as error:
        raise CorpusError(f"cannot be opened ({error.strerror or type(error).__name__})", path=path) from None
    return io.TextIOWrapper(raw, encoding="utf-8", newline="")


@contextmanager
def open_for_writing(path: Path) -> Iterator[IO[str]]:
    """UTF-8 text, packed where the name ends in `.gz`; appears under its name only once it is complete."""
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        raw = gzip.GzipFile(partial, "wb", mtime=0) if path.suffix == ".gz" else partial.open("wb")
    except OSError as error:
        raise CorpusError(f"cannot be written ({error.strerror or type(error).__name__})", path=path) from None
    try:
        with raw, io.TextIOWrapper(raw, encoding="utf-8", newline="") as stream:
            yield stream
        partial.replace(path)
    except UnicodeEncodeError:
        raise CorpusError(
            "cannot be written: a text holds half a surrogate pair, which is no character", path=path
        ) from None
    except OSError as error:
        raise CorpusError(f"cannot be written ({error.strerror or type(error).__name__})", path=path) from None
    finally:
        partial.unlink(missing_ok=True)


def read_each(
    files: Iterable[Path], read_one: Callable[[Path], Iterator[Document]], problems: ProblemSink
) -> Iterator[Document]:
    """Read file after file; one that cannot be opened, decoded or followed is a problem, and the next is read."""
    for file in files:
        try:
            yield from read_one(file)
        except CorpusError as error:
            problems(Problem(error.reason, error.path or file, error.line))
        except TextError as error:
            problems(Problem(str(error), file))


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines without their ends, the first without a byte order mark.

    Undecodable or endless input is a `CorpusError`.
    """
    with open_for_reading(path) as stream:
        for number in count(1):
            line = _next_line(stream, path, number)
            if not line:
                return
            yield number, (line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line).rstrip("\r\n")


def read_text(path: Path) -> str:
    """A whole file, for formats that cannot be streamed."""
    with open_for_reading(path) as stream:
        try:
            text = stream.read(MAXIMUM_FILE + 1)
        except _UNREADABLE as error:
            _undecodable(path, None, error)
    if len(text) > MAXIMUM_FILE:
        raise CorpusError(f"is longer than {MAXIMUM_FILE:,} characters", path=path)
    return text


def read_chunks(path: Path, size: int) -> Iterator[str]:
    """A file in pieces of at most `size` characters, for parsers that keep their own place."""
    with open_for_reading(path) as stream:
        while True:
            try:
                chunk = stream.read(size)
            except _UNREADABLE as error:
                _undecodable(path, None, error)
            if not chunk:
                return
            yield chunk


def files_below(path: Path, *endings: str) -> list[Path]:
    """`path` itself, or every file below it whose name ends so (`.gz` allowed after), in sorted order.

    A link that leads out of the folder is refused, also one that is called after a single note and lies beside it.
    """
    if path.is_file():
        called_alike = path.parent.glob(f"{glob.escape(path.name.partition('.')[0])}.*")
        refuse_links_out(path.parent, called_alike, path)
        return [path]
    if not path.exists():
        raise CorpusError("does not exist", path=path)
    entries = list(path.rglob("*"))
    refuse_links_out(path, entries)
    wanted = tuple(endings) + tuple(ending + ".gz" for ending in endings)
    found = sorted(f for f in entries if f.name.endswith(wanted) and f.is_file())
    if not found:
        raise CorpusError(f"holds no file ending in {', '.join(endings)}", path=path)
    return found


def refuse_links_out(folder: Path, entries: Iterable[Path], named: Path | None = None) -> None:
    """Refuse a link among the entries of a folder that leads out of it: a folder may come from somebody else.

    The folder, and the entry that was `named`, are the user's own choice, and may be links.
    """
    base = os.path.realpath(folder)
    for entry in entries:
        if entry.is_symlink() and entry != named and not _is_below(os.path.realpath(entry), base):
            name = entry.relative_to(folder).as_posix()
            raise CorpusError(
                f"{name} is a link out of the folder; put the file itself there, or name the place that it leads to",
                path=folder,
            )


def _is_below(place: str, base: str) -> bool:
    return Path(place).is_relative_to(base)


def _next_line(stream: IO[str], path: Path, number: int) -> str:
    try:
        line = stream.readline(MAXIMUM_LINE + 1)
    except _UNREADABLE as error:
        _undecodable(path, number, error)
    if len(line) > MAXIMUM_LINE:
        raise CorpusError(f"is longer than {MAXIMUM_LINE:,} characters", path=path, line=number)
    return line


def _undecodable(path: Path, line: int | None, error: Exception) -> NoReturn:
    if isinstance(error, UnicodeDecodeError):
        reason = "is not UTF-8; convert it first, for example with iconv"
    else:
        reason = f"cannot be read to its end ({type(error).__name__})"
    raise CorpusError(reason, path=path, line=line) from None
