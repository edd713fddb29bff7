"""Where redacted notes go: files of their own, whole or not at all, or lines of one file that appears when complete."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from wardround.corpora.corpus_files import open_for_writing, path_of
from wardround.corpora.corpus_format import CorpusFormat
from wardround.errors import UsageError
from wardround.redaction.appended import Appended, private_folder, private_umask
from wardround.text.document import Document

__all__ = ["FileEach", "OneFile", "Output", "check_output", "output_for"]

_NOTES = "notes"


class Output(Protocol):
    """Takes one redacted note after the other."""

    @property
    def size(self) -> int:
        """Bytes of the one file they go to, 0 where each has its own."""

    def write(self, document: Document) -> None:
        """A note; whole under its name, or not there."""

    def finish(self) -> None:
        """All notes are there."""


class FileEach:
    """Files of its own for every note, named by its id, below the folder."""

    size = 0

    def __init__(self, write: Callable[[Document, Path], None], folder: Path) -> None:
        self._write, self._folder = write, folder
        private_folder(folder)

    def write(self, document: Document) -> None:
        """Written under another name, then renamed."""
        path_of(document.id, self._folder, set())  # refuses an id that leads elsewhere
        with private_umask():
            self._write(document, self._folder)

    def finish(self) -> None:
        """Nothing is left to do."""


class OneFile:
    """One file with one note on each line."""

    def __init__(self, encode: Callable[[Document], str], path: Path, *, keep: int) -> None:
        self._encode = encode
        self._file = Appended(path, keep=keep)

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._file.size

    def write(self, document: Document) -> None:
        """Append its line."""
        self._file.append(self._encode(document) + "\n")

    def finish(self) -> None:
        """Give the file its name."""
        self._file.finish()


def check_output(name: str, form: CorpusFormat) -> None:
    """Refuse a format that is only read, before a note is."""
    if form.holds and not form.can_write:
        raise UsageError(f"{name} can only be read; convert the notes to another format first: wardround data convert")


def output_for(name: str, form: CorpusFormat, folder: Path, *, keep: int = 0) -> Output:
    """Redacted notes in the format that they came in, called `name`; one that is only read is refused."""
    check_output(name, form)
    if not form.holds:  # notes without annotations: the text is all there is to write
        return FileEach(_write_text, folder / _NOTES)
    if form.line_codec is not None:
        return OneFile(form.line_codec.encode, folder / f"{_NOTES}{form.ending}", keep=keep)
    return FileEach(_writer(form), folder / _NOTES)


def _write_text(document: Document, folder: Path) -> None:
    with open_for_writing(folder / f"{document.id}.txt") as stream:
        stream.write(document.text)


def _writer(form: CorpusFormat) -> Callable[[Document, Path], None]:
    """Formats of one file write a file for each note too, so that none waits for the others."""
    ending = form.ending
    return lambda document, folder: form.write([document], folder / (document.id + ending) if ending else folder)
