"""What the writers share: documents into one file or into files of their own, and refusals that name the document."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from wardround.corpora.file_names import file_of
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
    documents: Iterable[Document], root: Path, contents_of: Callable[[Document, Path], Mapping[Path, str]]
) -> None:
    """Write the files of each document below the folder `root`.

    `contents_of` gets the path that the document's id says, without an ending, and gives what goes into which file;
    nothing of a document is written where it refuses.
    """
    written: set[str] = set()
    for document in documents:
        base = file_of(document.id, root, "", written)
        with _named(document, root):
            contents = contents_of(document, base)
        for file, content in contents.items():
            with open_for_writing(file) as stream:
                stream.write(content)


@contextmanager
def _named(document: Document, path: Path) -> Iterator[None]:
    """A refusal inside names the document and the file or folder being written."""
    try:
        yield
    except CorpusError as error:
        raise CorpusError(f"document {document.id!r}: {error.reason}", path=path) from None
