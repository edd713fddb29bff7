"""Check a corpus for errors and suspicious annotations. Messages never quote a note."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from wardround.corpora.corpus_format import CorpusFormat, Problem, Severity
from wardround.corpora.splits import MANIFEST, Manifest, find_splits
from wardround.corpora.stats import Counts, Tally
from wardround.errors import CorpusError, TextError
from wardround.text.document import Document, Entity, Range

__all__ = ["LEAK_LENGTH", "WHOLE", "CheckReport", "check"]

_Fault = tuple[Severity, str]

WHOLE = "all"  # used as the name of the split if a corpus is not split

# Characters. Different people write the same shorter texts, such as "Case report .", again and again: such a text in
# two splits is no sign of a leak and hardly changes a score.
LEAK_LENGTH = 40


@dataclass(frozen=True)
class CheckReport:
    """The problems of a corpus in order of appearance, and the counts of each split."""

    problems: tuple[Problem, ...]
    counts: Mapping[str, Counts]

    @property
    def errors(self) -> int:
        """Number of errors."""
        return sum(problem.severity is Severity.ERROR for problem in self.problems)

    @property
    def warnings(self) -> int:
        """Number of warnings."""
        return len(self.problems) - self.errors


def check(path: Path, format: CorpusFormat, *, types: Collection[str] | None = None) -> CheckReport:
    """Read the whole corpus, split by split, and report all problems.

    Reported are the problems of the reader, overlapping mentions, white space at their borders, types that are not in
    `types`, empty notes, the same text twice in one split (a warning) or in two splits (an error, because a test on
    such a text proves nothing, but a warning below `LEAK_LENGTH`), and texts that changed since `split.json` was
    written.
    """
    if not path.exists():
        raise CorpusError("does not exist", path=path)
    manifest, problems = Manifest({}), list[Problem]()
    try:
        if (path / MANIFEST).is_file():
            manifest = Manifest.read(path / MANIFEST)
    except CorpusError as error:
        problems.append(Problem(error.reason, path / MANIFEST))
    inspection = _Inspection(format, types, manifest, problems)
    for name, place in (find_splits(path) or {WHOLE: path}).items():
        inspection.inspect(name, place)
    if manifest.checksums:
        changes = manifest.changes(inspection.checksums)
        inspection.problems += [Problem(change, path / MANIFEST) for change in changes]
    return CheckReport(tuple(inspection.problems), inspection.counts)


@dataclass
class _Inspection:
    """The findings so far."""

    format: CorpusFormat
    types: Collection[str] | None
    manifest: Manifest
    problems: list[Problem]
    counts: dict[str, Counts] = field(default_factory=dict)
    checksums: dict[str, Counter[str]] = field(default_factory=dict)
    first_seen: dict[str, tuple[str, str]] = field(default_factory=dict)  # checksum → first split and document

    def inspect(self, split: str, place: Path) -> None:
        tally = Tally()
        self.checksums[split] = Counter()
        try:
            for document in tally.watch(self.format.read(place, problems=self.problems.append)):
                for severity, message in (*self._duplicates(document, split), *_mention_warnings(document)):
                    self.problems.append(Problem(f"document {document.id!r}: {message}", place, severity=severity))
        except CorpusError as error:
            self.problems.append(Problem(error.reason, error.path or place, error.line))
        except TextError as error:
            self.problems.append(Problem(str(error), place))
        self.counts[split] = tally.counts
        for kind, number in sorted(tally.counts.entities.items()):
            if self.types is not None and kind not in self.types:
                message = f"{number} entities have the type {kind!r}, which is not expected"
                self.problems.append(Problem(message, place))

    def _duplicates(self, document: Document, split: str) -> Iterator[_Fault]:
        """Yield a warning for an empty note, or a fault if the text was seen before."""
        checksum = self.manifest.checksum(document.text)
        self.checksums[split][checksum] += 1
        if not document.text.strip():
            yield Severity.WARNING, "the note is empty"
            return
        first_split, first_id = self.first_seen.setdefault(checksum, (split, document.id))
        if first_split != split:
            is_leak = len(document.text.strip()) >= LEAK_LENGTH
            severity, opening = (Severity.ERROR, "leak:") if is_leak else (Severity.WARNING, "is short, and")
            yield severity, f"{opening} {first_split} has the same text, in document {first_id!r}"
        elif self.checksums[split][checksum] > 1:
            yield Severity.WARNING, f"has the same text as document {first_id!r}"


def _mention_warnings(document: Document) -> Iterator[_Fault]:
    """Yield the mentions with white space at a border, then those that overlap an earlier or longer one."""
    for entity in document.entities:
        edges = (document.text[edge] for start, end in entity.ranges for edge in (start, end - 1))
        if any(edge.isspace() for edge in edges):
            yield Severity.WARNING, f"{entity.id} begins or ends with white space"
    parts = sorted(
        ((part, entity) for entity in document.entities for part in entity.ranges),
        key=lambda pair: (pair[0].start, -pair[0].end),
    )
    furthest: tuple[Range, Entity] | None = None
    reported: set[str] = set()
    for part, entity in parts:
        if furthest and part.start < furthest[0].end and entity.id not in reported:
            reported.add(entity.id)
            outer = furthest[1]
            if entity.ranges == outer.ranges:
                verb = "marks the same characters as"
            else:
                verb = "is inside" if outer.start <= entity.start and entity.end <= outer.end else "overlaps"
            yield Severity.WARNING, f"{entity.id} {verb} {outer.id}"
        if furthest is None or part.end > furthest[0].end:
            furthest = part, entity
