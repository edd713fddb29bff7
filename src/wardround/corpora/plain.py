"""Plain notes, one `.txt` file each, with no annotation.

    Ward 4, morning round.
    Slept well. Off oxygen since yesterday.
    Continue ramipril 5 mg, review on Friday.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from wardround.corpora.source import ProblemSink, fail_on_error, files_below, read_text
from wardround.text.document import Document

__all__ = ["PlainText"]


@dataclass(frozen=True)
class PlainText:
    """A note a file; below a folder, a note's id is its path there without the ending."""

    def read(self, path: Path, *, problems: ProblemSink = fail_on_error) -> Iterator[Document]:
        """Yield the notes in the order of their paths."""
        for file in files_below(path, ".txt"):
            place = file.relative_to(path) if path.is_dir() else Path(file.name)
            name = place.as_posix().removesuffix(".gz").removesuffix(".txt")
            yield Document(name, read_text(file))
