"""Plain notes, one `.txt` file each, with no annotation.

    Ward 4, morning round.
    Slept well. Off oxygen since yesterday.
    Continue ramipril 5 mg, review on Friday.

The text is taken as it lies in the file, line ends and blanks included.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from wardround.corpora.file_names import id_of
from wardround.corpora.source import ProblemSink, fail_on_error, files_below, read_each, read_text
from wardround.text.document import Document

__all__ = ["PlainText"]


@dataclass(frozen=True)
class PlainText:
    """Reader of notes, one a file; a note's id is its path below the folder, without the ending."""

    def read(self, path: Path, *, problems: ProblemSink = fail_on_error) -> Iterator[Document]:
        """Yield the notes of a file, or of every `.txt` file below a folder, in the order of their paths."""
        return read_each(files_below(path, ".txt"), lambda file: _read_note(file, path), problems)


def _read_note(file: Path, root: Path) -> Iterator[Document]:
    yield Document(id_of(file, root), read_text(file))
