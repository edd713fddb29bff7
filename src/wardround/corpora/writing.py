"""What the writers share: documents into one file or into files of their own, and refusals that name the document."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from wardround.corpora.file_names import path_of
from wardround.corpora.source import open_for_writing
from wardround.errors import CorpusError
from wardround.text.document import Document

__all__ = ["write_file", "write_folder"]


def write_file(
    documents: Iterable[Document],
    path: Path,
    lines_of: Callable[[Document], Iterable[str]],
    *,
    opening: str = "",
    closing: str = "",
) -> None:
    """Write the lines of all documents into one file, which appears only once it is complete."""
    with open_for_writing(path) as stream:
        stream.write(opening)
        for document in documents:
            with _named(document, path):
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

    `contents_of` gives what goes into the file of each ending; nothing of a document is written where it refuses.
    With `folders`, the files of an ending lie in a folder of their own.
    """
    written: set[str] = set()
    for document in documents:
        path = path_of(document.id, root, written)
        with _named(document, root):
            contents = contents_of(document)
        for ending, content in contents.items():
            folder = path.parent / folders[ending] if folders else path.parent
            with open_for_writing(folder / (path.name + ending)) as stream:
                stream.write(content)


@contextmanager
def _named(document: Document, path: Path) -> Iterator[None]:
    """A refusal inside names the document and the file or folder being written."""
    try:
        yield
    except CorpusError as error:
        raise CorpusError(f"document {document.id!r}: {error.reason}", path=path) from None
