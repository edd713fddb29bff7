"""Documents and the files they lie in: an id from a path, a path from an id, and the files beside a note."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from wardround.errors import CorpusError

__all__ = ["beside", "existing", "id_of", "path_of", "unpacked_name"]

_LONGEST_NAME = 200  # bytes; file systems stop at 255, and an ending must fit


def unpacked_name(file: Path) -> str:
    """The file's name without `.gz`."""
    return file.name.removesuffix(".gz")


def existing(file: Path) -> Path | None:
    """The file, or the packed one of that name with `.gz` after it, or None where there is neither."""
    candidates = (file, file.with_name(file.name + ".gz"))
    return next((found for found in candidates if found.is_file()), None)


def beside(file: Path, ending: str, *, folder: Path | None = None) -> Path | None:
    """The file of the same name with another ending in the same folder, or in `folder`; None where there is none."""
    return existing((folder or file.parent) / (_stem(file) + ending))


def id_of(file: Path, root: Path) -> str:
    """The file's name without endings, led by its folders below `root`, which may be the file itself."""
    relative = file.relative_to(root) if root.is_dir() else Path(file.name)
    return relative.with_name(_stem(file)).as_posix()


def path_of(document_id: str, root: Path, written: set[str]) -> Path:
    """The path below `root`, without ending, for a document, whose id goes to `written`.

    An id that would lead out of `root`, cannot be a file name, or was written before is refused.
    """
    if document_id in written:
        raise CorpusError(f"two documents have the id {document_id!r}; rename one", path=root)
    name = PurePosixPath(document_id)
    if str(name) != document_id or name.is_absolute() or not name.parts or not all(map(_is_plain, name.parts)):
        raise CorpusError("the id of a document cannot be a file name; rename the document", path=root)
    written.add(document_id)
    return root / document_id


def _stem(file: Path) -> str:
    return Path(unpacked_name(file)).stem


def _is_plain(part: str) -> bool:
    return part not in {".", ".."} and part.isprintable() and "\\" not in part and len(part.encode()) <= _LONGEST_NAME
