"""A redaction from the first note to the last: a stream of constant memory that can be interrupted anywhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from wardround.errors import CorpusError
from wardround.redaction.appended import Appended, private_folder
from wardround.redaction.finding import NOTES_AHEAD, Finder, Found
from wardround.redaction.findings import united
from wardround.redaction.journal import Journal, Progress, Settings, chained
from wardround.redaction.outputs import Output
from wardround.redaction.replacing import Redacted, Replacing
from wardround.redaction.review import MOST_NOTES, fragment, write_review
from wardround.text.document import Document, Entity

__all__ = ["AUDIT", "Naming", "RedactedNote", "Redaction", "redact_into"]

AUDIT = "audit.jsonl"
_REVIEW = "review"


@dataclass(frozen=True)
class Naming:
    """What a note is called in the output, and whose it is."""

    name_of: Callable[[Document], str]
    patient_of: Callable[[Document], str]


@dataclass(frozen=True)
class RedactedNote:
    """A note as it may leave: its marks as entities, and nothing else of what was known of it."""

    document: Document
    redacted: Redacted

    def audit_line(self) -> str:
        """Where what was replaced, in offsets of the output."""
        marks = [
            {"start": mark.range.start, "end": mark.range.end, "type": mark.type, "found": list(mark.sources)}
            for mark in self.redacted.marks
        ]
        return json.dumps({"note": self.document.id, "marks": marks}, ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class Redaction:
    """What to hide, what to put there, and how notes are named."""

    find: Finder
    replacing: Replacing
    naming: Naming

    def notes(self, documents: Iterable[Document]) -> Iterator[RedactedNote]:
        """Every document redacted, in order."""
        return map(self._redacted, self.find(documents))

    def _redacted(self, found: Found) -> RedactedNote:
        document, findings = found
        new = self.replacing.note(document.text, united(findings), patient=self.naming.patient_of(document))
        marks = (Entity(f"T{n}", mark.type, (mark.range,)) for n, mark in enumerate(new.marks, start=1))
        return RedactedNote(Document(self.naming.name_of(document), new.text, tuple(marks)), new)


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
    """Redact the documents into the folder; yields each note once it is on disk and in the journal.

    `output` opens where notes go, with so many bytes of it kept. The run is complete when the iterator is exhausted.
    """
    private_folder(folder)
    journal = Journal(folder, settings, resume=resume)
    if journal.is_finished:
        _tidy(folder)
        return
    files = _Files.opened(folder, journal.progress, output, shown=MOST_NOTES if review else 0)
    yield from _go_on(documents, redaction, journal=journal, files=files)
    files.finish(review)
    journal.finish()
    _tidy(folder)


@dataclass(frozen=True)
class _Files:
    """What grows with every note."""

    output: Output
    audit: Appended
    review: Appended
    shown: int  # notes that the review page is given

    @classmethod
    def opened(cls, folder: Path, progress: Progress, output: Callable[[int], Output], *, shown: int) -> _Files:
        sizes = progress.sizes
        audit = Appended(folder / AUDIT, keep=sizes.get("audit", 0))
        review = Appended(folder / _REVIEW, keep=sizes.get("review", 0))
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
        # The journal still says that the run is not complete; a run that ends here is finished by the next.
        self.output.finish()
        self.audit.finish()


def _go_on(
    documents: Iterable[Document], redaction: Redaction, *, journal: Journal, files: _Files
) -> Iterator[RedactedNote]:
    """The notes that the journal does not know yet.

    Reading begins at the start of the group of notes in which the last run ended, and what is done of it is redacted
    again and left: the model then sees the same sentences side by side, and says the same to the last bit.
    """
    before = journal.progress
    source = _named_once(documents, redaction.naming)
    grouped = before.done // NOTES_AHEAD * NOTES_AHEAD
    chain = ""
    for document in islice(source, grouped):
        chain = chained(chain, redaction.naming.name_of(document))
    if grouped == before.done and chain != before.chain:
        raise _other_notes()
    number = grouped
    for note in redaction.notes(source):
        number, chain = number + 1, chained(chain, note.document.id)
        if number == before.done and chain != before.chain:
            raise _other_notes()
        if number > before.done:
            files.write(note, number)
            journal.record(Progress(number, chain, files.sizes()))
            yield note
    if number < before.done:
        raise _other_notes()


def _named_once(documents: Iterable[Document], naming: Naming) -> Iterator[Document]:
    seen: set[int] = set()
    for document in documents:
        digest = int(chained("", naming.name_of(document))[:16], 16)  # small, whatever the name is
        if digest in seen:
            raise CorpusError(f"two notes have the id {naming.name_of(document)!r}; rename one")
        seen.add(digest)
        yield document


def _tidy(folder: Path) -> None:
    """What only a resumed run would have needed goes last."""
    (folder / f"{_REVIEW}.partial").unlink(missing_ok=True)


def _other_notes() -> CorpusError:
    return CorpusError("the notes are not those of the run to resume; redact them into a new folder")
