"""Redact a stream of notes in constant memory; the run can be interrupted at any point and resumed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from wardround.errors import CorpusError
from wardround.redaction.finders import NOTES_AHEAD, Finder
from wardround.redaction.findings import merge_findings
from wardround.redaction.journal import Journal, Progress, Settings, extend_chain
from wardround.redaction.outputs import Output
from wardround.redaction.private_files import GrowingFile, private_folder
from wardround.redaction.replacing import Redacted, Replacer
from wardround.redaction.review import MOST_NOTES, fragment, write_review
from wardround.text.document import Document, Entity

__all__ = ["AUDIT", "Naming", "RedactedNote", "Redaction", "redact_into"]

AUDIT = "audit.jsonl"
_REVIEW = "review"
_DIFFERENT_NOTES = "the notes differ from those of the interrupted run; redact them into a new folder"


@dataclass(frozen=True)
class Naming:
    """Functions that give the name of a note in the output, and its patient."""

    name_of: Callable[[Document], str]
    patient_of: Callable[[Document], str]


@dataclass(frozen=True)
class RedactedNote:
    """A redacted note: its marks are entities; all other annotation is dropped."""

    document: Document
    redacted: Redacted

    def audit_line(self) -> str:
        """Return the line of the audit file: types and places of the replacements, in offsets of the output."""
        marks = [
            {"start": mark.range.start, "end": mark.range.end, "type": mark.type, "found": list(mark.sources)}
            for mark in self.redacted.marks
        ]
        return json.dumps({"note": self.document.id, "marks": marks}, ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class Redaction:
    """How identifying text is found and replaced, and how notes are named."""

    find: Finder
    replacer: Replacer
    naming: Naming

    def notes(self, documents: Iterable[Document]) -> Iterator[RedactedNote]:
        """Yield every document redacted, in order."""
        for document, findings in self.find(documents):
            patient = self.naming.patient_of(document)
            new = self.replacer.note(document.text, merge_findings(findings), patient=patient)
            marks = (Entity(f"T{n}", mark.type, (mark.range,)) for n, mark in enumerate(new.marks, start=1))
            yield RedactedNote(Document(self.naming.name_of(document), new.text, tuple(marks)), new)


def redact_into(
    folder: Path,
    documents: Iterable[Document],
    redaction: Redaction,
    *,
    output: Callable[[int], Output],
    settings: Settings,
    resume: bool = False,
    review: Path | None = None,
) -> Iterator[RedactedNote]:
    """Redact the documents into the folder; yield each note when it is on disk and in the journal.

    `output` opens the output and keeps the given number of bytes of it. The run is complete when the iterator is
    exhausted.
    """
    private_folder(folder)
    journal = Journal(folder, settings, resume=resume)
    if not journal.is_finished:
        files = _Files.opened(folder, journal.progress, output, shown=MOST_NOTES if review else 0)
        yield from _redact_remaining(documents, redaction, journal=journal, files=files)
        files.finish(review)
        journal.finish()
    (folder / f"{_REVIEW}.partial").unlink(missing_ok=True)  # only a resumed run needs it


@dataclass(frozen=True)
class _Files:
    """The files that grow with every note."""

    output: Output
    audit: GrowingFile
    review: GrowingFile
    shown: int  # number of notes on the review page

    @classmethod
    def opened(cls, folder: Path, progress: Progress, output: Callable[[int], Output], *, shown: int) -> _Files:
        sizes = progress.sizes
        audit = GrowingFile(folder / AUDIT, keep=sizes.get("audit", 0))
        review = GrowingFile(folder / _REVIEW, keep=sizes.get("review", 0))
        return cls(output(sizes.get("output", 0)), audit, review, shown)

    def write(self, note: RedactedNote, number: int) -> None:
        self.output.write(note.document)
        self.audit.append(note.audit_line())
        if number <= self.shown:
            self.review.append(fragment(note.document.id, note.redacted))

    def sizes(self) -> dict[str, int]:
        return {"output": self.output.size, "audit": self.audit.size, "review": self.review.size}

    def finish(self, review: Path | None) -> None:
        if review is not None:
            write_review(review, audit=self.audit.partial, fragments=self.review.partial)
        # The journal still says that the run is incomplete; if it is interrupted here, the next run finishes it.
        self.output.finish()
        self.audit.finish()


def _redact_remaining(
    documents: Iterable[Document], redaction: Redaction, *, journal: Journal, files: _Files
) -> Iterator[RedactedNote]:
    """Redact the notes that are not in the journal yet.

    A resumed run starts at the beginning of the batch of notes in which the last run ended. It redacts the finished
    notes of that batch again and drops them: so the model sees the same batches and gives the same result bit for bit.
    """
    before = journal.progress
    source = _with_unique_names(documents, redaction.naming)
    batch_start = before.done // NOTES_AHEAD * NOTES_AHEAD
    chain = ""
    for document in islice(source, batch_start):
        chain = extend_chain(chain, redaction.naming.name_of(document))
    if batch_start == before.done and chain != before.chain:
        raise CorpusError(_DIFFERENT_NOTES)
    number = batch_start
    for note in redaction.notes(source):
        number, chain = number + 1, extend_chain(chain, note.document.id)
        if number == before.done and chain != before.chain:
            raise CorpusError(_DIFFERENT_NOTES)
        if number > before.done:
            files.write(note, number)
            journal.record(Progress(number, chain, files.sizes()))
            yield note
    if number < before.done:
        raise CorpusError(_DIFFERENT_NOTES)


def _with_unique_names(documents: Iterable[Document], naming: Naming) -> Iterator[Document]:
    """Yield the documents; raise `CorpusError` if two of them get the same name."""
    seen: set[int] = set()
    for document in documents:
        digest = int(extend_chain("", naming.name_of(document))[:16], 16)  # of fixed size, whatever the name is
        if digest in seen:
            raise CorpusError(f"two notes have the id {naming.name_of(document)!r}; rename one")
        seen.add(digest)
        yield document
