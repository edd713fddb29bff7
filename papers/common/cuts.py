"""Corpora cut to the size of a hospital's, without leaks between them, and the word vectors that they need."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import numpy as np
from papers.common.sites import Group, Site

from wardround.models.word_vectors import load_word_vectors
from wardround.text.document import Document
from wardround.text.segmentation import words_of

_RUN = 8  # words; what two texts by different hands do not share by chance


@dataclass(frozen=True)
class PartSizes:
    """How many sentences of each part are kept; 0 is all."""

    train: int = 1000
    dev: int = 300
    test: int = 1000


def without_leaks(whole: Group, sizes: PartSizes, *, seed: int) -> dict[str, Site]:
    """Test parts are cut first, then development parts without what is in a test, then training parts without both."""
    test = {name: cut(site.test, sizes.test, f"{seed}/{name}/test") for name, site in whole.items()}
    seen = runs_of(test.values())
    dev = {name: cut(unseen(site.dev, seen), sizes.dev, f"{seed}/{name}/dev") for name, site in whole.items()}
    seen |= runs_of(dev.values())
    train = {name: cut(unseen(site.train, seen), sizes.train, f"{seed}/{name}/train") for name, site in whole.items()}
    return {n: replace(site, train=train[n], dev=dev[n], test=test[n]) for n, site in whole.items()}


def cut(documents: Sequence[Document], size: int, seed: str) -> list[Document]:
    """`size` of the documents drawn at random, in their order."""
    if not size or size >= len(documents):
        return list(documents)
    drawn = Random(seed).sample(range(len(documents)), size)  # noqa: S311 – a draw, not a secret
    return [documents[position] for position in sorted(drawn)]


def runs_of(parts: Iterable[Iterable[Document]]) -> set[tuple[str, ...]]:
    """Every run of eight words in these documents."""
    return {run for part in parts for document in part for run in _runs(document)}


def unseen(documents: Iterable[Document], seen: Collection[tuple[str, ...]]) -> list[Document]:
    """Those that share no run of words with what was seen."""
    return [document for document in documents if not any(run in seen for run in _runs(document))]


def _runs(document: Document) -> Iterator[tuple[str, ...]]:
    """Letters and digits only: corpora part and join punctuation each in their own way."""
    spelled = "".join(c if c.isalnum() else " " for c in document.text.lower()).split()
    for start in range(max(1, len(spelled) - _RUN + 1)):
        yield tuple(spelled[start : start + _RUN])


# Word vectors.


def spellings(documents: Iterable[Document]) -> set[str]:
    """Every word that occurs, as it is and in small letters."""
    texts = {document.text[start:end] for document in documents for start, end in words_of(document)}
    return texts | {text.lower() for text in texts}


def documents_of(groups: Iterable[Group]) -> Iterator[Document]:
    """Of every part of every site."""
    for group in groups:
        for site in group.values():
            for documents in site.parts.values():
                yield from documents


def write_vectors(source: Path, path: Path, wanted: Collection[str]) -> None:
    """The vectors of the wanted words: the rest would never be read, and would travel in every message."""
    known = load_word_vectors(source)
    rows = [row for row, word in enumerate(known.words) if word in wanted]
    words = np.array([known.words[row] for row in rows])
    np.savez_compressed(path, words=words, vectors=known.vectors[rows].astype(np.float16))
