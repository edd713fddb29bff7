"""The sites of a study on one machine, made of public corpora: read, cut into sentences, written, described.

GROUP/SITE/{train,dev,test}.jsonl.gz    the notes; every document is one sentence
sites.json                              types, schemes and sizes
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wardround.corpora.conll import Conll
from wardround.corpora.jsonl import Jsonl
from wardround.corpora.pubtator import Pubtator
from wardround.text.document import Document, Entity, Range
from wardround.text.segmentation import find_words, sentences_of
from wardround.text.tag_sets import TagSet

PARTS = ("train", "dev", "test")
_IOB = Conll(delimiter="tab")
_IOB_NAMES = {"train": "train.tsv", "dev": "devel.tsv", "test": "test.tsv"}
_BIORED_NAMES = {"train": "Train.PubTator", "dev": "Dev.PubTator", "test": "Test.PubTator"}
_DESCRIPTION = "sites.json"


@dataclass(frozen=True)
class Site:
    """What one site has and annotates."""

    types: tuple[str, ...]
    train: Sequence[Document] = field(repr=False)
    dev: Sequence[Document] = field(repr=False)
    test: Sequence[Document] = field(repr=False)
    scheme: str = "BIO"

    @property
    def parts(self) -> dict[str, Sequence[Document]]:
        """The three parts by name."""
        return {name: getattr(self, name) for name in PARTS}


Group = Mapping[str, Site]


@dataclass(frozen=True)
class Sites:
    """A folder that `write_groups` wrote."""

    path: Path
    described: Mapping[str, Mapping[str, Any]]

    @classmethod
    def read(cls, path: Path) -> Sites:
        """What lies in the folder."""
        return cls(path.resolve(), json.loads((path / _DESCRIPTION).read_text(encoding="utf-8")))

    def sentences(self, group: str, part: str) -> int:
        """Of all sites together."""
        return sum(int(site[part]["sentences"]) for site in self.described[group].values())

    def sections(self, group: str) -> dict[str, dict[str, Any]]:
        """The part of a study file that says who takes part."""
        return {
            name: {
                "data": str(self.path / group / name),
                "format": "jsonl",
                "types": site["types"],
                "scheme": site["scheme"],
            }
            for name, site in self.described[group].items()
        }


# Reading.


def read_iob(folder: Path, types: tuple[str, ...] = ()) -> Site:
    """A corpus of the MTL collection, with its official parts; without types, with all that it trains on."""
    parts = {name: list(_IOB.read(folder / file)) for name, file in _IOB_NAMES.items()}
    return site_of(parts, types or TagSet.of(parts["train"]).types)


def read_biored(folder: Path) -> Site:
    """BioRED with its official parts."""
    parts = {name: list(Pubtator().read(folder / file)) for name, file in _BIORED_NAMES.items()}
    return site_of(parts, TagSet.of(parts["train"]).types)


def site_of(parts: Mapping[str, Sequence[Document]], types: tuple[str, ...]) -> Site:
    """The documents of each part cut into sentences, annotated with these types alone."""
    wanted = TagSet(types)
    cut_up = {n: [s for d in documents for s in sentences(wanted.restrict(d))] for n, documents in parts.items()}
    return Site(types, cut_up["train"], cut_up["dev"], cut_up["test"])


def sentences(document: Document) -> Iterator[Document]:
    """Each sentence as a document of its own; sentences that a mention runs across stay together."""
    for number, (start, end) in enumerate(_joined(document), start=1):
        inside = [entity for entity in document.entities if start <= entity.start and entity.end <= end]
        yield Document(
            f"{document.id}.{number}",
            document.text[start:end],
            tuple(_moved(entity, f"T{n}", -start) for n, entity in enumerate(inside, start=1)),
            words=_own_words(document, start, end),
            sentences=(Range(0, end - start),),
        )


def _own_words(document: Document, start: int, end: int) -> tuple[Range, ...] | None:
    """The corpus's own words, where they are others than would be found: the files stay small."""
    given = [word for word in document.words or () if start <= word.start and word.end <= end]
    words = tuple(Range(word.start - start, word.end - start) for word in given)
    return None if document.words is None or list(words) == find_words(document.text[start:end]) else words


def _joined(document: Document) -> list[Range]:
    joined: list[Range] = []
    for sentence in sentences_of(document):
        crossed = joined and any(e.start < joined[-1].end and e.end > sentence.start for e in document.entities)
        if crossed:
            sentence = Range(joined.pop().start, sentence.end)
        joined.append(sentence)
    return joined


def _moved(entity: Entity, entity_id: str, by: int) -> Entity:
    return Entity(entity_id, entity.type, tuple(Range(start + by, end + by) for start, end in entity.ranges))


# Writing.


def write_groups(groups: Mapping[str, Group], out: Path) -> None:
    """A folder a site, packed, and what is in it."""
    for group_name, group in groups.items():
        for name, site in group.items():
            for part, documents in site.parts.items():
                Jsonl().write(documents, out / group_name / name / f"{part}.jsonl.gz")
    said = {group_name: {name: described(site) for name, site in group.items()} for group_name, group in groups.items()}
    (out / _DESCRIPTION).write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


def described(site: Site) -> dict[str, Any]:
    """Types, scheme, and the sentences and mentions of each part."""
    counts = {
        name: {"sentences": len(documents), "mentions": sum(len(d.entities) for d in documents)}
        for name, documents in site.parts.items()
    }
    return {"types": list(site.types), "scheme": site.scheme, **counts}
