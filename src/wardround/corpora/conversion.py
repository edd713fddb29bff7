"""Write a corpus in another format, or in training, development and test parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from wardround.corpora.check import WHOLE
from wardround.corpora.corpus_format import CorpusFormat
from wardround.corpora.formats import lossless_format
from wardround.corpora.splits import MANIFEST, Manifest, find_splits, split_documents, verify
from wardround.corpora.stats import Counts, Tally, count
from wardround.errors import UsageError
from wardround.text.document import Document

__all__ = ["ConvertedPart", "convert_corpus", "split_corpus"]


@dataclass(frozen=True)
class ConvertedPart:
    """One written file or folder, and what its format could not hold."""

    path: Path
    documents: int
    losses: dict[str, int]  # counts before minus counts after, if positive


def convert_corpus(
    source: Path, target: Path, *, reader: CorpusFormat, writer: CorpusFormat
) -> Iterator[ConvertedPart]:
    """Write each split of `source` to `target`, read it again, and yield what was written."""
    for name, path in (find_splits(source) or {WHOLE: source}).items():
        destination = target if name == WHOLE else target / (name + writer.ending)
        tally = Tally()
        writer.write(tally.watch(reader.read(path)), destination)
        before = tally.counts
        after = count(writer.read(destination)) if before.documents else Counts()
        kinds = ("entities", "discontinuous", "relations", "concepts", "attributes", "notes", "sentences", "words")
        lost = {kind: before.total(kind) - after.total(kind) for kind in kinds}
        yield ConvertedPart(
            destination, before.documents, {kind: number for kind, number in lost.items() if number > 0}
        )


def split_corpus(
    path: Path, out: Path, reader: CorpusFormat, *, dev: float = 0.1, test: float = 0.1, seed: int = 0
) -> dict[str, list[Document]]:
    """Split a corpus into train, dev and test, write and verify the parts and `split.json`, and return the parts.

    The parts have the format of `reader`, or JSON Lines if that format can only be read.
    """
    if dev + test >= 1:
        raise UsageError(f"--dev {dev} and --test {test} leave nothing for training")
    if find_splits(path):
        raise UsageError(f"{path.name} is split already; name one of its parts to split that")
    fractions = {"train": 1 - dev - test, "dev": dev, "test": test}
    parts = split_documents(reader.read(path), {name: part for name, part in fractions.items() if part}, seed)
    manifest = Manifest.of(parts)
    writer = reader if reader.can_write else lossless_format()
    for name, documents in parts.items():
        writer.write(documents, out / (name + writer.ending))
    manifest.write(out / MANIFEST)
    verify(manifest, {name: writer.read(written) for name, written in find_splits(out).items()})
    return parts
