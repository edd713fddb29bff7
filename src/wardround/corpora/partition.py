"""One corpus as several sites, for studies on one machine.

Every function takes documents and gives a list of them for each site; each document goes to exactly one site, and
the same seed gives the same partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy

from wardround.corpora.splits import shares
from wardround.errors import CorpusError
from wardround.text.document import Document
from wardround.text.tag_sets import TagSet

__all__ = ["by_size", "by_source", "by_tag_set", "dirichlet", "keep_types"]

Sites = dict[str, list[Document]]


def by_source(documents: Iterable[Document], attribute: str) -> Sites:
    """A site for each value of a document attribute, in order of appearance."""
    sites: Sites = {}
    for document in documents:
        value = dict(document.attributes).get(attribute)
        if value is None:
            raise CorpusError(f"document {document.id!r} has no attribute {attribute!r} to part the corpus by")
        sites.setdefault(value, []).append(document)
    return sites


def by_size(documents: Sequence[Document], fractions: Mapping[str, float], seed: int) -> Sites:
    """Documents dealt out at random, each site its fraction of them."""
    order = numpy.random.default_rng(seed).permutation(len(documents)).tolist()
    return _deal([documents[position] for position in order], shares(len(documents), fractions))


def dirichlet(
    documents: Sequence[Document], sites: Sequence[str], *, alpha: float, seed: int, minimum: int = 1
) -> Sites:
    """Sites whose mix of entity types differs: the smaller `alpha`, the more.

    The documents of each dominant type are parted by proportions drawn from Dirichlet(alpha). A site left with fewer
    than `minimum` documents takes some from the largest.
    """
    if alpha <= 0:
        raise CorpusError("alpha must be above 0; 0.1 makes sites very different, 100 nearly alike")
    if len(documents) < minimum * len(sites):
        raise CorpusError(f"{len(documents)} documents are too few to give {len(sites)} sites {minimum} each")
    random = numpy.random.default_rng(seed)
    parted: Sites = {site: [] for site in sites}
    for group in _by_dominant_type(documents):
        order = random.permutation(len(group)).tolist()
        drawn = random.dirichlet([alpha] * len(sites)).tolist()
        sizes = shares(len(group), dict(zip(sites, drawn, strict=True)))
        for site, dealt in _deal([group[position] for position in order], sizes).items():
            parted[site] += dealt
    _fill_up(parted, minimum)
    return parted


def by_tag_set(documents: Sequence[Document], tag_sets: Mapping[str, Collection[str]], seed: int) -> Sites:
    """Sites of equal size that annotate different types: each keeps only its own types' entities."""
    parted = by_size(documents, {site: 1 / len(tag_sets) for site in tag_sets}, seed)
    return {site: [keep_types(document, tag_sets[site]) for document in parted[site]] for site in tag_sets}


def keep_types(document: Document, types: Collection[str]) -> Document:
    """The document with only the entities of these types and the relations among them."""
    return TagSet(tuple(types)).restrict(document)


def _deal(documents: Sequence[Document], sizes: Mapping[str, int]) -> Sites:
    sites: Sites = {}
    start = 0
    for site, size in sizes.items():
        sites[site] = list(documents[start : start + size])
        start += size
    return sites


def _by_dominant_type(documents: Sequence[Document]) -> list[list[Document]]:
    """Documents grouped by their most frequent type, the first by name where two are; those without any together."""
    groups: dict[str, list[Document]] = {}
    for document in documents:
        counts = Counter(entity.type for entity in document.entities)
        dominant = min(counts, key=lambda kind: (-counts[kind], kind), default="")
        groups.setdefault(dominant, []).append(document)
    return [groups[kind] for kind in sorted(groups)]


def _fill_up(sites: Sites, minimum: int) -> None:
    for documents in sites.values():
        while len(documents) < minimum:
            largest = max(sites.values(), key=len)
            documents.append(largest.pop())
