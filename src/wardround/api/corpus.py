"""Corpora for Python users: read, write, check and split annotated notes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import overload

from wardround.corpora.check import WHOLE, CheckReport
from wardround.corpora.check import check as check_corpus
from wardround.corpora.corpus_files import refuse_existing
from wardround.corpora.corpus_format import CorpusFormat, Problem
from wardround.corpora.formats import open_format, writable_format
from wardround.corpora.recognition import AUTO, format_at
from wardround.corpora.skipped_faults import SkippedFaults, sink_of
from wardround.corpora.splits import MANIFEST, Manifest, find_splits, split_documents, verify
from wardround.corpora.stats import Counts, count
from wardround.corpora.synthetic import clinical_hospitals, phi_hospitals
from wardround.errors import CorpusError, SplitError, UsageError
from wardround.reports.corpus_tables import corpus_tables
from wardround.reports.tables import Table
from wardround.settings import as_text
from wardround.text.document import Document
from wardround.text.marked_html import document_html
from wardround.text.plain_text import html_text

__all__ = [
    "CheckResult",
    "Corpus",
    "CorpusSource",
    "FormatOptions",
    "check",
    "corpus_of",
    "existing_path",
    "format_of",
    "hospitals",
    "read",
    "split",
    "write",
]

FormatOption = str | int | float | bool
FormatOptions = Mapping[str, FormatOption]
_SHOWN = 3  # notes of a corpus that a notebook shows


@dataclass(frozen=True, repr=False)
class Corpus(Sequence[Document]):
    """Notes in memory: a sequence of documents, in parts for training, development and test if it is split.

    >>> from wardround import Corpus, Document
    >>> corpus = Corpus({"all": [Document("1", "Aspirin."), Document("2", "No fever.")]})
    >>> len(corpus), corpus[0].text, corpus.is_split
    (2, 'Aspirin.', False)
    """

    parts: Mapping[str, Sequence[Document]] = field(repr=False)  # by "train", "dev" and "test", or all under "all"
    skipped: tuple[Problem, ...] = field(default=(), compare=False)  # faulty parts that were left out when it was read

    def __post_init__(self) -> None:
        unknown = sorted(self.parts.keys() - {"train", "dev", "test", WHOLE})
        if unknown:
            raise UsageError(f"{unknown[0]!r} is not a part of a corpus; there are train, dev, test, or {WHOLE} alone")
        if WHOLE in self.parts and len(self.parts) > 1:
            raise UsageError(f"a corpus has either parts called train, dev and test, or all its notes under {WHOLE!r}")
        parts = {name: _documents(found) for name, found in self.parts.items()}
        object.__setattr__(self, "parts", parts)

    @property
    def is_split(self) -> bool:
        """Return whether the corpus has parts."""
        return WHOLE not in self.parts

    @property
    def train(self) -> tuple[Document, ...]:
        """Return the training part; all notes of a corpus that is not split."""
        return tuple(self.parts.get("train", self.parts.get(WHOLE, ())))

    @property
    def dev(self) -> tuple[Document, ...]:
        """Return the development part; empty if there is none."""
        return tuple(self.parts.get("dev", ()))

    @property
    def test(self) -> tuple[Document, ...]:
        """Return the test part; empty if there is none."""
        return tuple(self.parts.get("test", ()))

    @property
    def types(self) -> tuple[str, ...]:
        """Return the types of the entities, sorted."""
        return tuple(sorted({entity.type for document in self for entity in document.entities}))

    @property
    def counts(self) -> dict[str, Counts]:
        """Return the counts of each part."""
        return {name: count(documents) for name, documents in self.parts.items()}

    def first(self, count: int) -> Corpus:
        """Return the first `count` notes of each part: a small corpus for a first try.

        >>> from wardround import Corpus, Document
        >>> Corpus({"train": [Document("1", "Aspirin."), Document("2", "No fever.")]}).first(1)
        Corpus(train 1)
        """
        return Corpus({name: documents[: max(0, count)] for name, documents in self.parts.items()})

    @cached_property
    def _all(self) -> tuple[Document, ...]:
        return tuple(chain.from_iterable(self.parts.values()))

    def __len__(self) -> int:
        return sum(map(len, self.parts.values()))

    def __iter__(self) -> Iterator[Document]:
        return iter(self._all)

    @overload
    def __getitem__(self, place: int) -> Document: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Document, ...]: ...
    def __getitem__(self, place: int | slice) -> Document | tuple[Document, ...]:
        return self._all[place]

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {len(documents):,}" for name, documents in self.parts.items())
        return f"Corpus({sizes})"

    def tables(self) -> tuple[Table, ...]:
        """Return the counts as tables: of each part, and by type."""
        return corpus_tables(self.counts)

    def _repr_html_(self) -> str:
        shown = "".join(document_html(document) for document in self[:_SHOWN])
        return self.tables()[0].to_html() + shown


@dataclass(frozen=True, repr=False)
class CheckResult(CheckReport):
    """The problems of a corpus in order of appearance, and the counts of each part.

    >>> import wardround
    >>> wardround.check("notes", "brat")
    CheckResult(0 errors, 0 warnings in 82 notes)
    """

    def tables(self) -> tuple[Table, ...]:
        """Return the problems, if there are any, and the counts."""
        rows = tuple(
            (
                problem.severity.value,
                "" if problem.path is None else problem.path.name,
                problem.line,
                problem.message,
            )
            for problem in self.problems
        )
        problems = Table("Problems", ("severity", "file", "line", "problem"), rows)
        return (*([problems] if rows else []), *corpus_tables(self.counts))

    def __repr__(self) -> str:
        notes = sum(counts.documents for counts in self.counts.values())
        return f"CheckResult({self.errors:,} errors, {self.warnings:,} warnings in {notes:,} notes)"

    def _repr_html_(self) -> str:
        return f"<p>{html_text(repr(self))}</p>{self.tables()[0].to_html()}"


CorpusSource = str | Path | Corpus | Iterable[Document]


def read(
    path: str | Path, format: str = AUTO, *, part: str = "", skip_faulty: bool = False, **options: FormatOption
) -> Corpus:
    """Read annotated notes.

    A folder that holds train, dev and test becomes a corpus with these parts; a `split.json` beside them must match.

    Args:
        path: a file or folder.
        format: its format, as in `wardround data check --help`: brat, jsonl, conll, bioc, pubtator and others. By
            default the format is recognised by the files, and an error is raised if that is not clear.
        part: read this part of a split corpus only.
        skip_faulty: leave out faulty mentions, lines and files; the corpus lists them under `skipped`.
        options: options of the format.

    >>> import wardround
    >>> note = wardround.Document("1", "Aspirin for pain.", (wardround.Entity("T1", "Drug", ((0, 7),)),))
    >>> path = wardround.write([note], "drugs.jsonl", format="jsonl")
    >>> wardround.read(path, "jsonl")
    Corpus(all 1)
    """
    place = existing_path(path, format)
    form, faults = format_of(format, options, place), SkippedFaults() if skip_faulty else None
    places = find_splits(place)
    if places and part:
        if part not in places:
            raise UsageError(f"{place.name} has parts called {', '.join(places)} but none called {part}")
        found = tuple(form.read(places[part], problems=sink_of(faults)))
        return Corpus({WHOLE: found}, skipped=() if faults is None else tuple(faults.problems))
    parts = {
        name: tuple(form.read(found, problems=sink_of(faults))) for name, found in (places or {WHOLE: place}).items()
    }
    if places and (place / MANIFEST).is_file():
        verify(Manifest.read(place / MANIFEST), parts)
    return Corpus(parts, skipped=() if faults is None else tuple(faults.problems))


def write(documents: Iterable[Document], path: str | Path, format: str = "jsonl", **options: FormatOption) -> Path:
    """Write notes to a new file or folder and return its path; the parts of a split corpus become files in a folder.

    >>> import wardround
    >>> wardround.write([wardround.Document("1", "No fever.")], "notes.jsonl").name
    'notes.jsonl'
    """
    place, writer = Path(path), writable_format(format_of(format, options))
    refuse_existing(place)
    if isinstance(documents, str | Document):
        raise UsageError("notes are a sequence of documents: put a single one in a list")
    if isinstance(documents, Corpus) and documents.is_split:
        for name, part in documents.parts.items():
            writer.write(part, place / (name + writer.ending))
    else:
        writer.write(documents, place)
    return place


def check(
    path: str | Path, format: str = AUTO, *, types: Collection[str] | None = None, **options: FormatOption
) -> CheckResult:
    """Report every problem in a corpus: what cannot be read, overlaps, leaks between parts, types not in `types`.

    >>> import wardround
    >>> path = wardround.write([wardround.Document("1", "Fever."), wardround.Document("2", "Fever.")], "twice.jsonl")
    >>> report = wardround.check(path, "jsonl")
    >>> report.errors, report.warnings, report.problems[0].message
    (0, 1, "document '2': has the same text as document '1'")
    """
    found = check_corpus(Path(path), format_of(format, options, Path(path)), types=types)
    return CheckResult(found.problems, found.counts)


def split(documents: Corpus | Iterable[Document], *, dev: float = 0.1, test: float = 0.1, seed: int = 0) -> Corpus:
    """Split notes into parts for training, development and test; equal texts stay in one part.

    Args:
        documents: the notes; a corpus that is split already is refused.
        dev: the fraction for development.
        test: the fraction for the test.
        seed: the same seed splits the same texts in the same way.

    >>> import wardround
    >>> notes = [wardround.Document(str(number), f"Note {number}.") for number in range(10)]
    >>> wardround.split(notes)
    Corpus(train 8, dev 1, test 1)
    """
    if isinstance(documents, Corpus) and documents.is_split:
        raise SplitError("the corpus is split already; split one of its parts")
    if dev + test >= 1:
        raise UsageError(f"dev {dev} and test {test} leave nothing for training")
    fractions = {"train": 1 - dev - test, "dev": dev, "test": test}
    return Corpus(split_documents(documents, {name: part for name, part in fractions.items() if part}, seed))


def hospitals(*, seed: int = 0, identifying: bool = False) -> dict[str, Corpus]:
    """Return the built-in hospitals by name: synthetic notes about people who do not exist, split into parts.

    Each hospital writes in its own style, and each annotates its own types. A study uses them by name:
    `sites={"harbour": {"built_in": "harbour", "types": ["Drug"]}}`.

    Args:
        seed: the same seed gives the same notes; a study uses the notes of its own seed.
        identifying: return instead two hospitals whose notes are annotated with what identifies people.

    >>> import wardround
    >>> {name: corpus.types for name, corpus in wardround.hospitals().items()}["harbour"]
    ('Disease', 'Dosage', 'Drug')
    """
    found = phi_hospitals(seed) if identifying else clinical_hospitals(seed)
    return {site.name: Corpus({"train": site.train, "dev": site.dev, "test": site.test}) for site in found}


def corpus_of(source: Corpus | Iterable[Document]) -> Corpus:
    """Return a corpus from documents in memory."""
    return source if isinstance(source, Corpus) else Corpus({WHOLE: _documents(source)})


def existing_path(source: str | Path, format: str) -> Path:
    """Return the path of notes; raise an error if it does not exist or has no format."""
    path = Path(source)
    if not format:
        raise UsageError(f'{path.name} needs a format: for example format="brat"')
    if not path.exists():
        raise CorpusError("does not exist", path=path)
    return path


def format_of(name: str, options: FormatOptions, path: Path | None = None) -> CorpusFormat:
    """Return the format of this name with options of any plain type; with a path, `auto` recognises its format."""
    settings = {key: as_text(value) for key, value in options.items()}
    return open_format(name, settings) if path is None else format_at(path, name, settings)


def _documents(notes: Iterable[Document]) -> tuple[Document, ...]:
    if isinstance(notes, str | Document) or not isinstance(notes, Iterable):
        raise UsageError("notes are a sequence of documents: put a single one in a list")
    found = tuple(notes)
    for note in found:
        if not isinstance(note, Document):
            raise UsageError(f"notes are documents, not {type(note).__name__}: wardround.Document(id, text, entities)")
    return found
