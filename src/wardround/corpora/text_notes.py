"""Plain notes without annotations, one `.txt` file for each note.

    Ward 4, morning round.
    Slept well. Off oxygen since yesterday.
    Blood pressure 120/80, pulse 64.

    Continue ramipril 5 mg, review on Friday.
    Discharge planned for Monday.

The text is kept exactly as in the file, including line ends and spaces.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from wardround.corpora.corpus_files import files_below, id_of, read_each, read_text
from wardround.corpora.corpus_format import Clue, Content, CorpusFormat, ProblemSink, fail_on_error
from wardround.text.document import Document

__all__ = ["PlainText"]


@dataclass(frozen=True)
class PlainText(CorpusFormat):
    """Reader of plain notes; a note's id is its path below the folder, without the ending."""

    name = "text"
    description = "notes without annotations, `.txt`"
    holds = frozenset[Content]()
    clues = (Clue((".txt",), "is text without annotations"),)

    def read(self, path: Path, *, problems: ProblemSink = fail_on_error) -> Iterator[Document]:
        """Yield the note of a file, or of each `.txt` file below a folder, ordered by path."""

        def read_note(file: Path) -> Iterator[Document]:
            yield Document(id_of(file, path), read_text(file))

        return read_each(files_below(path, ".txt"), read_note, problems)
