"""Where redacted notes are written: one file per note, or one file with one note per line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from wardround.corpora.corpus_files import open_for_writing, path_of
from wardround.corpora.corpus_format import CorpusFormat
from wardround.errors import UsageError
from wardround.redaction.private_files import GrowingFile, private_folder, private_umask
from wardround.text.document import Document

__all__ = ["FilePerNote", "OneFile", "Output", "check_output", "output_for"]

_NOTES = "notes"


class Output(Protocol):
    """Receives redacted notes one by one."""

    @property
    def size(self) -> int:
        """Return the bytes of the common file; 0 if each note has its own."""

    def write(self, document: Document) -> None:
        """Write a note; it is complete under its name, or absent."""

    def finish(self) -> None:
        """Finish after the last note."""


class FilePerNote:
    """Files for each note, named by its id, below the folder."""

    size = 0

    def __init__(self, write: Callable[[Document, Path], None], folder: Path) -> None:
        self._write, self._folder = write, folder
        private_folder(folder)

    def write(self, document: Document) -> None:
        """Write under a temporary name, then rename."""
        path_of(document.id, self._folder, set())  # refuses an id that points outside of the folder
        with private_umask():
            self._write(document, self._folder)

    def finish(self) -> None:
        """Do nothing."""


class OneFile:
    """One file with one note per line; it gets its name when it is complete."""

    def __init__(self, encode: Callable[[Document], str], path: Path, *, keep: int) -> None:
        self._encode = encode
        self._file = GrowingFile(path, keep=keep)

    @property
    def size(self) -> int:
        """Return the bytes written so far."""
        return self._file.size

    def write(self, document: Document) -> None:
        """Append the line of the note."""
        self._file.append(self._encode(document) + "\n")

    def finish(self) -> None:
        """Give the file its name."""
        self._file.finish()


def check_output(name: str, form: CorpusFormat) -> None:
    """Raise `UsageError` if the format cannot be written."""
    if form.holds and not form.can_write:
        raise UsageError(f"{name} can only be read; convert the notes to another format first: wardround data convert")


def output_for(name: str, form: CorpusFormat, folder: Path, *, keep: int = 0) -> Output:
    """Return the output for redacted notes in their original format, which is called `name`."""
    check_output(name, form)
    if form.holds and form.line_codec is not None:
        return OneFile(form.line_codec.encode, folder / f"{_NOTES}{form.ending}", keep=keep)
    ending = form.ending

    def write(document: Document, place: Path) -> None:
        if not form.holds:  # the format has no annotations: only the text is written
            with open_for_writing(place / f"{document.id}.txt") as stream:
                stream.write(document.text)
            return
        # Formats of one file also write one file per note, so that no note waits for the others.
        form.write([document], place / (document.id + ending) if ending else place)

    return FilePerNote(write, folder / _NOTES)
