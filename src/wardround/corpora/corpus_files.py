"""Files of a corpus: opening, reading and writing them within limits, and the names of documents and files."""

from __future__ import annotations

import glob
import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path, PurePosixPath
from typing import IO, NoReturn

from wardround.corpora.corpus_format import Problem, ProblemSink
from wardround.errors import CorpusError, TextError, UsageError
from wardround.text.document import Document

__all__ = [
    "BYTE_ORDER_MARK",
    "MAXIMUM_LINE",
    "existing",
    "files_below",
    "id_of",
    "open_for_reading",
    "open_for_writing",
    "path_of",
    "read_chunks",
    "read_each",
    "read_lines",
    "read_text",
    "refuse_existing",
    "refuse_links_out",
    "sibling",
    "unpacked_name",
    "write_file",
    "write_folder",
]

MAXIMUM_LINE = 10_000_000  # characters; a longer line is a binary file or a mistake
MAXIMUM_FILE = 1_000_000_000  # characters of a file that is read into memory, such as a note
BYTE_ORDER_MARK = "\ufeff"  # some editors add it at the start of a file; it is not part of the content
_UNREADABLE = (UnicodeDecodeError, EOFError, OSError, zlib.error)
_LONGEST_NAME = 200  # bytes; file systems allow 255, and an ending must fit


def open_for_reading(path: Path) -> IO[str]:
    """Open UTF-8 text, decompressed if the name ends in `.gz`; line ends are kept, so that offsets stay correct."""
    try:
        raw = gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")
    except OSError as error:
        raise CorpusError(f"cannot be opened ({error.strerror or type(error).__name__})", path=path) from None
    return io.TextIOWrapper(raw, encoding="utf-8", newline="")


@contextmanager
def open_for_writing(path: Path) -> Iterator[IO[str]]:
    """Write UTF-8 text, compressed if the name ends in `.gz`; the file appears only when it is complete."""
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
            "cannot be written: a text contains half a surrogate pair, which is not a character", path=path
        ) from None
    except OSError as error:
        raise CorpusError(f"cannot be written ({error.strerror or type(error).__name__})", path=path) from None
    finally:
        partial.unlink(missing_ok=True)


def read_each(
    files: Iterable[Path], read_one: Callable[[Path], Iterator[Document]], problems: ProblemSink
) -> Iterator[Document]:
    """Read one file after another; a file that cannot be read is reported as a problem and skipped."""
    for file in files:
        try:
            yield from read_one(file)
        except CorpusError as error:
            problems(Problem(error.reason, error.path or file, error.line))
        except TextError as error:
            problems(Problem(str(error), file))


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield numbered lines without line ends and without a byte order mark.

    Raise `CorpusError` if a line cannot be decoded or is too long.
    """
    with open_for_reading(path) as stream:
        for number in count(1):
            try:
                line = stream.readline(MAXIMUM_LINE + 1)
            except _UNREADABLE as error:
                _raise_unreadable(path, number, error)
            if len(line) > MAXIMUM_LINE:
                raise CorpusError(f"is longer than {MAXIMUM_LINE:,} characters", path=path, line=number)
            if not line:
                return
            yield number, (line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line).rstrip("\r\n")


def read_text(path: Path) -> str:
    """Return a whole file, for formats that cannot be streamed."""
    with open_for_reading(path) as stream:
        try:
            text = stream.read(MAXIMUM_FILE + 1)
        except _UNREADABLE as error:
            _raise_unreadable(path, None, error)
    if len(text) > MAXIMUM_FILE:
        raise CorpusError(f"is longer than {MAXIMUM_FILE:,} characters", path=path)
    return text


def read_chunks(path: Path, size: int) -> Iterator[str]:
    """Yield a file in chunks of at most `size` characters, for parsers that keep their own state."""
    with open_for_reading(path) as stream:
        while True:
            try:
                chunk = stream.read(size)
            except _UNREADABLE as error:
                _raise_unreadable(path, None, error)
            if not chunk:
                return
            yield chunk


def files_below(path: Path, *endings: str) -> list[Path]:
    """Return `path` itself, or all files below it with one of the endings, also followed by `.gz`, in sorted order.

    Links out of the folder are refused. For a single file this covers files next to it with the same stem.
    """
    if path.is_file():
        same_stem = path.parent.glob(f"{glob.escape(path.name.partition('.')[0])}.*")
        refuse_links_out(path.parent, same_stem, path)
        return [path]
    if not path.exists():
        raise CorpusError("does not exist", path=path)
    entries = list(path.rglob("*"))
    refuse_links_out(path, entries)
    allowed = tuple(endings) + tuple(ending + ".gz" for ending in endings)
    found = sorted(f for f in entries if f.name.endswith(allowed) and f.is_file())
    if not found:
        raise CorpusError(f"contains no file ending in {', '.join(endings)}", path=path)
    return found


def refuse_links_out(folder: Path, entries: Iterable[Path], named: Path | None = None) -> None:
    """Raise `CorpusError` if an entry is a link out of the folder, because the folder may be from another party.

    The folder itself and the entry `named` by the user are the user's own choice and may be links.
    """
    base = os.path.realpath(folder)
    for entry in entries:
        if entry.is_symlink() and entry != named and not Path(os.path.realpath(entry)).is_relative_to(base):
            name = entry.relative_to(folder).as_posix()
            raise CorpusError(
                f"{name} is a link out of the folder; put the file itself there, or name the target of the link",
                path=folder,
            )


def _raise_unreadable(path: Path, line: int | None, error: Exception) -> NoReturn:
    if isinstance(error, UnicodeDecodeError):
        reason = "is not UTF-8; convert it first, for example with iconv"
    else:
        reason = f"cannot be read completely ({type(error).__name__})"
    raise CorpusError(reason, path=path, line=line) from None


# Names of files and documents.


def unpacked_name(file: Path) -> str:
    """Return the file's name without `.gz`."""
    return file.name.removesuffix(".gz")


def existing(file: Path) -> Path | None:
    """Return the file, or the compressed one with `.gz` added, or None if neither exists."""
    candidates = (file, file.with_name(file.name + ".gz"))
    return next((found for found in candidates if found.is_file()), None)


def sibling(file: Path, ending: str, *, folder: Path | None = None) -> Path | None:
    """Return the file with the same stem and another ending, in its folder or in `folder`; None if there is none."""
    return existing((folder or file.parent) / (_stem(file) + ending))


def id_of(file: Path, root: Path) -> str:
    """Return the path below `root` without ending; `root` may be the file itself."""
    relative = file.relative_to(root) if root.is_dir() else Path(file.name)
    return relative.with_name(_stem(file)).as_posix()


def path_of(document_id: str, root: Path, written: set[str]) -> Path:
    """Return the path of a document below `root`, without ending, and add its id to `written`.

    Raise `CorpusError` if the id leads out of `root`, cannot be a file name, or was written before.
    """
    if document_id in written:
        raise CorpusError(f"two documents have the id {document_id!r}; rename one", path=root)
    name = PurePosixPath(document_id)
    fits = all(
        part not in {".", ".."} and part.isprintable() and "\\" not in part and len(part.encode()) <= _LONGEST_NAME
        for part in name.parts
    )
    if str(name) != document_id or name.is_absolute() or not name.parts or not fits:
        raise CorpusError("the id of a document cannot be a file name; rename the document", path=root)
    written.add(document_id)
    return root / document_id


def _stem(file: Path) -> str:
    return Path(unpacked_name(file)).stem


# Writing.


def write_file(
    documents: Iterable[Document],
    path: Path,
    lines_of: Callable[[Document], Iterable[str]],
    *,
    opening: str = "",
    closing: str = "",
) -> None:
    """Write the lines of all documents into one file, which appears only when it is complete."""
    with open_for_writing(path) as stream:
        stream.write(opening)
        for document in documents:
            with _document_in_errors(document, path):
                stream.writelines(f"{line}\n" for line in lines_of(document))
        stream.write(closing)


def write_folder(
    documents: Iterable[Document],
    root: Path,
    contents_of: Callable[[Document], Mapping[str, str]],
    *,
    folders: Mapping[str, str] | None = None,
) -> None:
    """Write the files of each document below the folder `root`, named by its id.

    `contents_of` returns the content of the file for each ending; if it raises, nothing of the document is written.
    `folders` names a separate folder for each ending.
    """
    written: set[str] = set()
    for document in documents:
        path = path_of(document.id, root, written)
        with _document_in_errors(document, root):
            contents = contents_of(document)
        for ending, content in contents.items():
            folder = path.parent / folders[ending] if folders else path.parent
            with open_for_writing(folder / (path.name + ending)) as stream:
                stream.write(content)


@contextmanager
def _document_in_errors(document: Document, path: Path) -> Iterator[None]:
    """Add the document and the file or folder to a `CorpusError` raised inside."""
    try:
        yield
    except CorpusError as error:
        raise CorpusError(f"document {document.id!r}: {error.reason}", path=path) from None


def refuse_existing(path: Path) -> None:
    """Raise a UsageError if a path exists: nothing is overwritten, least of all the notes that are read."""
    if path.is_file() or (path.is_dir() and any(path.iterdir())):
        raise UsageError(f"{path.name} exists already; name a new file or folder")
