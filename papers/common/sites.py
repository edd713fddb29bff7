"""Sites made of public corpora: read, cut into sentences and to size, written and described.

GROUP/SITE/{train,dev,test}.jsonl.gz    the notes; every document is one sentence
sites.json                              types, schemes and sizes
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, Self

import numpy as np

from wardround.corpora.conll import Conll
from wardround.corpora.jsonl import Jsonl
from wardround.corpora.pubtator import Pubtator
from wardround.models.word_vectors import load_word_vectors
from wardround.text.document import Document, Entity, Range
from wardround.text.segmentation import find_words, sentences_of, words_of
from wardround.text.tag_sets import TagSet

__all__ = [
    "GLOVE",
    "PARTS",
    "Group",
    "PartSizes",
    "Site",
    "SiteFolder",
    "Sites",
    "corpus_arguments",
    "cut",
    "described",
    "documents_of",
    "read_biored",
    "read_iob",
    "runs_of",
    "sentences",
    "site_of",
    "spellings",
    "unseen",
    "without_leaks",
    "write_description",
    "write_groups",
    "write_vectors",
]

PARTS = ("train", "dev", "test")
GLOVE = "word_vectors/glove6B_100d_subset_f16.npz"  # below the folder of the corpora
_RUN = 8  # words; two texts by different authors do not share so many in a row by chance
_DESCRIPTION = "sites.json"


@dataclass(frozen=True)
class Site:
    """The notes of one site, and the types that it annotates."""

    types: tuple[str, ...]
    train: Sequence[Document] = field(repr=False)
    dev: Sequence[Document] = field(repr=False)
    test: Sequence[Document] = field(repr=False)
    scheme: str = "BIO"

    @property
    def parts(self) -> dict[str, Sequence[Document]]:
        """Return the three parts by name."""
        return {name: getattr(self, name) for name in PARTS}


Group = Mapping[str, Site]


def corpus_arguments(about: str | None, *, seed: bool = True) -> argparse.ArgumentParser:
    """Return the command line of a `make_sites`; without `seed`, nothing is drawn by one seed for all."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder with the corpora and the word vectors")
    parser.add_argument("--out", type=Path, required=True, help="the folder to write")
    if seed:
        parser.add_argument("--seed", type=int, default=0, help="of all random draws")
    return parser


# Reading.


def read_iob(folder: Path, types: tuple[str, ...] = ()) -> Site:
    """Read a corpus of the MTL collection with its official parts; without `types`, keep all that its training has."""
    files = {"train": "train.tsv", "dev": "devel.tsv", "test": "test.tsv"}
    parts = {name: list(Conll(delimiter="tab").read(folder / file)) for name, file in files.items()}
    return site_of(parts, types or TagSet.of(parts["train"]).types)


def read_biored(folder: Path) -> Site:
    """Read BioRED with its official parts."""
    parts = {part: list(Pubtator().read(folder / f"{part.capitalize()}.PubTator")) for part in PARTS}
    return site_of(parts, TagSet.of(parts["train"]).types)


def site_of(parts: Mapping[str, Sequence[Document]], types: tuple[str, ...]) -> Site:
    """Cut the documents of each part into sentences and keep the annotation of these types."""
    kept = TagSet(types)
    cut_up = {n: [s for d in documents for s in sentences(kept.restrict(d))] for n, documents in parts.items()}
    return Site(types, cut_up["train"], cut_up["dev"], cut_up["test"])


def sentences(document: Document) -> Iterator[Document]:
    """Yield each sentence as its own document; sentences that share a mention stay together."""
    joined: list[Range] = []
    for sentence in sentences_of(document):
        if joined and any(e.start < joined[-1].end and e.end > sentence.start for e in document.entities):
            sentence = Range(joined.pop().start, sentence.end)
        joined.append(sentence)
    for number, (start, end) in enumerate(joined, start=1):
        inside = [entity for entity in document.entities if start <= entity.start and entity.end <= end]
        entities = [
            Entity(f"T{n}", entity.type, tuple(Range(first - start, last - start) for first, last in entity.ranges))
            for n, entity in enumerate(inside, start=1)
        ]
        text = document.text[start:end]
        given = [word for word in document.words or () if start <= word.start and word.end <= end]
        words: tuple[Range, ...] | None = tuple(Range(word.start - start, word.end - start) for word in given)
        if document.words is None or list(words or ()) == find_words(text):
            words = None  # they would be found again: the files stay small
        yield Document(
            f"{document.id}.{number}", text, tuple(entities), words=words, sentences=(Range(0, end - start),)
        )


# Cutting to size, without leaks between sites.


@dataclass(frozen=True)
class PartSizes:
    """How many sentences of each part are kept; 0: all."""

    train: int = 1000
    dev: int = 300
    test: int = 1000


def without_leaks(whole: Group, sizes: PartSizes, *, seed: int) -> dict[str, Site]:
    """Cut the parts so that no development or training sentence is in a test part, and no training sentence in either.

    Test parts are cut first, then development parts, then training parts.
    """
    test = {name: cut(site.test, sizes.test, f"{seed}/{name}/test") for name, site in whole.items()}
    seen = runs_of(test.values())
    dev = {name: cut(unseen(site.dev, seen), sizes.dev, f"{seed}/{name}/dev") for name, site in whole.items()}
    seen |= runs_of(dev.values())
    train = {name: cut(unseen(site.train, seen), sizes.train, f"{seed}/{name}/train") for name, site in whole.items()}
    return {n: replace(site, train=train[n], dev=dev[n], test=test[n]) for n, site in whole.items()}


def cut(documents: Sequence[Document], size: int, seed: str) -> list[Document]:
    """Return `size` of the documents, drawn at random, in their order."""
    if not size or size >= len(documents):
        return list(documents)
    drawn = Random(seed).sample(range(len(documents)), size)  # noqa: S311 – a draw, not a secret
    return [documents[position] for position in sorted(drawn)]


def runs_of(parts: Iterable[Iterable[Document]]) -> set[tuple[str, ...]]:
    """Return every run of eight words in these documents."""
    return {run for part in parts for document in part for run in _runs(document)}


def unseen(documents: Iterable[Document], seen: Collection[tuple[str, ...]]) -> list[Document]:
    """Return the documents that contain none of these runs of words."""
    return [document for document in documents if not any(run in seen for run in _runs(document))]


def _runs(document: Document) -> Iterator[tuple[str, ...]]:
    """Yield runs of letters and digits only: corpora split and join punctuation in different ways."""
    spelled = "".join(c if c.isalnum() else " " for c in document.text.lower()).split()
    for start in range(max(1, len(spelled) - _RUN + 1)):
        yield tuple(spelled[start : start + _RUN])


# Word vectors.


def spellings(documents: Iterable[Document]) -> set[str]:
    """Return every word that occurs, as it is and in lower case."""
    texts = {document.text[start:end] for document in documents for start, end in words_of(document)}
    return texts | {text.lower() for text in texts}


def documents_of(groups: Iterable[Group]) -> Iterator[Document]:
    """Yield the documents of all parts of all sites."""
    for group in groups:
        for site in group.values():
            for documents in site.parts.values():
                yield from documents


def write_vectors(source: Path, path: Path, words: Collection[str]) -> None:
    """Write the vectors of these words; the others would never be read but would be part of every message."""
    known = load_word_vectors(source)
    rows = [row for row, word in enumerate(known.words) if word in words]
    kept = np.array([known.words[row] for row in rows])
    np.savez_compressed(path, words=kept, vectors=known.vectors[rows].astype(np.float16))


# Writing.


def write_groups(groups: Mapping[str, Group], out: Path) -> None:
    """Write a folder per site, and their description."""
    for group_name, group in groups.items():
        for name, site in group.items():
            for part, documents in site.parts.items():
                Jsonl().write(documents, out / group_name / name / f"{part}.jsonl.gz")
    write_description({group: {n: described(site) for n, site in own.items()} for group, own in groups.items()}, out)


def described(site: Site) -> dict[str, Any]:
    """Return types, scheme, and the sentences and mentions of each part."""
    counts = {
        name: {
            "sentences": sum(len(d.sentences or "1") for d in documents),
            "mentions": sum(len(d.entities) for d in documents),
        }
        for name, documents in site.parts.items()
    }
    return {"types": list(site.types), "scheme": site.scheme, **counts}


def write_description(described: Mapping[str, Any], out: Path) -> None:
    """Write `sites.json`."""
    (out / _DESCRIPTION).write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")


# What was written.


@dataclass(frozen=True)
class SiteFolder:
    """A folder that a `make_sites` wrote."""

    path: Path
    described: Mapping[str, Mapping[str, Any]] = field(repr=False)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read its description."""
        return cls(path.resolve(), json.loads((path / _DESCRIPTION).read_text(encoding="utf-8")))


class Sites(SiteFolder):
    """Groups of sites that `write_groups` wrote."""

    def sentences(self, group: str, part: str) -> int:
        """Return the sentences of all sites of a group together."""
        return sum(int(site[part]["sentences"]) for site in self.described[group].values())

    def sections(self, group: str) -> dict[str, dict[str, Any]]:
        """Return the section [sites] of a study file."""
        return {
            name: {
                "data": str(self.path / group / name),
                "format": "jsonl",
                "types": site["types"],
                "scheme": site["scheme"],
            }
            for name, site in self.described[group].items()
        }
