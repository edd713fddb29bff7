"""Recognise the format of a corpus by its files, for `--format auto`; the clues are declared by the formats."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from glob import escape
from itertools import islice
from pathlib import Path

from wardround.corpora.corpus_files import BYTE_ORDER_MARK, open_for_reading, refuse_links_out, unpacked_name
from wardround.corpora.corpus_format import Clue, CorpusFormat
from wardround.corpora.formats import FORMATS, open_format
from wardround.corpora.splits import find_splits
from wardround.errors import CorpusError, UsageError

__all__ = ["AUTO", "Recognised", "format_at", "recognise"]

AUTO = "auto"
_CHARACTERS = 65_536  # of a file, in which clues are searched
_SAMPLES = 3  # files of each ending
_MOST_ENTRIES = 100_000  # of a folder


@dataclass(frozen=True)
class Recognised:
    """A format with its options, and why it was chosen."""

    name: str
    why: str
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        options = "".join(f", {name}={value}" for name, value in self.options.items())
        return f"the format is {self.name}{options}: {self.why}"


def format_at(path: Path, name: str, options: Mapping[str, str] | None = None) -> CorpusFormat:
    """Return the format with this name, or the recognised one if the name is `auto`."""
    if name != AUTO:
        return open_format(name, options)
    found = recognise(path)
    return open_format(found.name, {**found.options, **(options or {})})


def recognise(path: Path) -> Recognised:
    """Return the format of a corpus; raise `UsageError` if no clue or several equally strong ones hold."""
    if not path.exists():
        raise CorpusError("does not exist", path=path)
    sample = _Sample.of(next(iter(find_splits(path).values()), path))
    found: dict[str, tuple[Clue, Path]] = {}
    for name, cls in FORMATS.items():
        for clue in sorted(cls.clues, key=lambda clue: -clue.strength):
            if file := sample.shows(clue):
                found[name] = clue, file
                break
    strongest = max((clue.strength for clue, _ in found.values()), default=0)
    best = {name: clue for name, (clue, _) in found.items() if clue.strength == strongest}
    if not best:
        raise UsageError(
            f"the format of {path.name} was not recognised; name it with --format: there are {', '.join(FORMATS)}"
        )
    if len(best) > 1:
        raise UsageError(f"{path.name} looks like {' and like '.join(best)}; name the format with --format")
    ((name, clue),) = best.items()
    return Recognised(name, f"{found[name][1].name} {clue.why}", clue.options)


@dataclass(frozen=True)
class _Sample:
    """Some files of a corpus, those beside them, and the names of its folders."""

    files: Sequence[Path]
    beside: Sequence[Path]
    folders: frozenset[str]
    beginnings: dict[Path, str] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Path) -> _Sample:
        if path.is_file():
            stem = unpacked_name(path).partition(".")[0]
            return cls((path,), sorted(path.parent.glob(f"{escape(stem)}.*")), frozenset())
        entries = sorted(islice(path.rglob("*"), _MOST_ENTRIES))
        refuse_links_out(path, entries)
        files = tuple(entry for entry in entries if entry.is_file() and not _is_hidden(entry.relative_to(path)))
        return cls(files, files, frozenset(entry.name for entry in entries if entry.is_dir()))

    def shows(self, clue: Clue) -> Path | None:
        """Return a file for which the clue holds, or None."""
        if not self.folders.issuperset(clue.folders) or not any(_ending_in(self.beside, (clue.beside,))):
            return None
        for file in islice(_ending_in(self.files, clue.endings), _SAMPLES):
            if not clue.content or re.search(clue.content, self.beginning(file)):
                return file
        return None

    def beginning(self, file: Path) -> str:
        """Return the first characters of a file; none if it is not text."""
        if file not in self.beginnings:
            try:
                with open_for_reading(file) as stream:
                    self.beginnings[file] = stream.read(_CHARACTERS).removeprefix(BYTE_ORDER_MARK)
            except (CorpusError, OSError, EOFError, ValueError, zlib.error):
                self.beginnings[file] = ""
        return self.beginnings[file]


def _ending_in(files: Sequence[Path], endings: tuple[str, ...]) -> Iterator[Path]:
    both = endings + tuple(ending + ".gz" for ending in endings)
    return (file for file in files if file.name.endswith(both))


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
