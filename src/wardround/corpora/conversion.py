"""Write a corpus in another format, or in training, development and test parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import count as count_from
from pathlib import Path
from tempfile import TemporaryDirectory

from wardround.corpora.check import WHOLE
from wardround.corpora.corpus_format import CorpusFormat, ProblemSink, fail_on_error
from wardround.corpora.formats import lossless_format
from wardround.corpora.splits import MANIFEST, Manifest, find_splits, split_documents, verify
from wardround.corpora.stats import Counts, Tally, count
from wardround.errors import CorpusError, TextError, UsageError
from wardround.text.document import Document

__all__ = ["ConvertedPart", "Misfits", "convert_corpus", "split_corpus"]


class Misfits(Enum):
    """What happens to parts of a document that a format refuses."""

    REFUSE = "refuse"  # the conversion stops
    DROP = "drop"  # they are left out and counted


@dataclass(frozen=True)
class ConvertedPart:
    """One written file or folder, and what its format could not hold."""

    path: Path
    documents: int
    losses: dict[str, int]  # counts before minus counts after, if positive
    dropped: dict[str, int] = field(
        default_factory=dict
    )  # what the format refused: entities, relations, whole documents


def convert_corpus(
    source: Path,
    target: Path,
    *,
    reader: CorpusFormat,
    writer: CorpusFormat,
    drop: bool = False,
    problems: ProblemSink = fail_on_error,
) -> Iterator[ConvertedPart]:
    """Write each split of `source` to `target`, read it again, and yield what was written.

    With `drop`, what the writer refuses is left out and counted instead of stopping the conversion.
    """
    for name, path in (find_splits(source) or {WHOLE: source}).items():
        destination = target if name == WHOLE else target / (name + writer.ending)
        tally, dropped = Tally(), Counter[str]()
        documents: Iterable[Document] = reader.read(path, problems=problems)
        if drop:
            documents = _fitting(documents, writer, target.parent, dropped)
        writer.write(tally.watch(documents), destination)
        before = tally.counts
        after = count(writer.read(destination)) if before.documents else Counts()
        kinds = ("entities", "discontinuous", "relations", "concepts", "attributes", "notes", "sentences", "words")
        lost = {kind: before.total(kind) - after.total(kind) for kind in kinds}
        yield ConvertedPart(
            destination,
            before.documents,
            {kind: number for kind, number in lost.items() if number > 0},
            {kind: number for kind, number in dropped.items() if number},
        )


def _fitting(
    documents: Iterable[Document], writer: CorpusFormat, near: Path, dropped: Counter[str]
) -> Iterator[Document]:
    """Yield the documents without the parts that the writer refuses; count these in `dropped`.

    Only the writer knows what fits, so a document that it refuses is written again and again to a temporary folder:
    first without any entity, then with one more entity or relation each time.
    """
    near.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=near, prefix=".convert-") as scratch:
        numbers = count_from(1)

        def fits(document: Document) -> bool:
            try:
                writer.write([document], Path(scratch) / f"{next(numbers)}{writer.ending}")
            except (CorpusError, TextError):
                return False
            return True

        for document in documents:
            if fits(document):
                yield document
                continue
            kept = document.with_entities(())
            if not fits(kept):
                kept = replace(kept, words=None, sentences=None, attributes=())
            if not fits(kept):
                dropped["documents"] += 1
                continue
            for entity in document.entities:
                larger = replace(kept, entities=(*kept.entities, entity))
                kept = larger if fits(larger) else kept
            for relation in document.relations:
                try:
                    larger = replace(kept, relations=(*kept.relations, relation))
                except TextError:  # one of its ends was dropped
                    continue
                kept = larger if fits(larger) else kept
            dropped["entities"] += len(document.entities) - len(kept.entities)
            dropped["relations"] += len(document.relations) - len(kept.relations)
            yield kept


def split_corpus(
    path: Path,
    out: Path,
    reader: CorpusFormat,
    *,
    dev: float = 0.1,
    test: float = 0.1,
    seed: int = 0,
    problems: ProblemSink = fail_on_error,
) -> dict[str, list[Document]]:
    """Split a corpus into train, dev and test, write and verify the parts and `split.json`, and return the parts.

    The parts have the format of `reader`, or JSON Lines if that format can only be read.
    """
    if dev + test >= 1:
        raise UsageError(f"--dev {dev} and --test {test} leave nothing for training")
    if find_splits(path):
        raise UsageError(f"{path.name} is split already; name one of its parts to split that")
    fractions = {"train": 1 - dev - test, "dev": dev, "test": test}
    parts = split_documents(
        reader.read(path, problems=problems), {name: part for name, part in fractions.items() if part}, seed
    )
    manifest = Manifest.of(parts)
    writer = reader if reader.can_write else lossless_format()
    for name, documents in parts.items():
        writer.write(documents, out / (name + writer.ending))
    manifest.write(out / MANIFEST)
    verify(manifest, {name: writer.read(written) for name, written in find_splits(out).items()})
    return parts
