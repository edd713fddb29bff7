"""Partitions of one corpus into several sites, for studies on one machine.

Each function returns a list of documents for each site. Each document goes to exactly one site, and the same seed gives
the same partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy

from wardround.corpora.splits import shares
from wardround.errors import CorpusError
from wardround.text.document import Document

__all__ = ["by_size", "by_source", "dirichlet"]

Sites = dict[str, list[Document]]


def by_source(documents: Iterable[Document], attribute: str) -> Sites:
    """Return one site for each value of a document attribute, in order of appearance."""
    sites: Sites = {}
    for document in documents:
        value = dict(document.attributes).get(attribute)
        if value is None:
            raise CorpusError(f"document {document.id!r} has no attribute {attribute!r} to partition the corpus by")
        sites.setdefault(value, []).append(document)
    return sites


def by_size(documents: Sequence[Document], fractions: Mapping[str, float], seed: int) -> Sites:
    """Assign documents to sites at random, a fraction of them to each site."""
    order = numpy.random.default_rng(seed).permutation(len(documents)).tolist()
    return _deal([documents[position] for position in order], shares(len(documents), fractions))


def dirichlet(
    documents: Sequence[Document], sites: Sequence[str], *, alpha: float, seed: int, minimum: int = 1
) -> Sites:
    """Return sites with different mixtures of entity types; a smaller `alpha` makes them more different.

    The documents of each dominant type are divided by proportions drawn from Dirichlet(alpha). A site with fewer than
    `minimum` documents takes some from the largest site.
    """
    if alpha <= 0:
        raise CorpusError("alpha must be above 0; 0.1 makes sites very different, 100 nearly equal")
    if len(documents) < minimum * len(sites):
        raise CorpusError(f"{len(documents)} documents are too few for {len(sites)} sites with at least {minimum} each")
    groups: dict[str, list[Document]] = {}  # by the most frequent type, the alphabetically first of equals
    for document in documents:
        counts = Counter(entity.type for entity in document.entities)
        groups.setdefault(min(counts, key=lambda kind: (-counts[kind], kind), default=""), []).append(document)
    random = numpy.random.default_rng(seed)
    divided: Sites = {site: [] for site in sites}
    for _, group in sorted(groups.items()):
        order = random.permutation(len(group)).tolist()
        drawn = random.dirichlet([alpha] * len(sites)).tolist()
        sizes = shares(len(group), dict(zip(sites, drawn, strict=True)))
        for site, dealt in _deal([group[position] for position in order], sizes).items():
            divided[site] += dealt
    for assigned in divided.values():
        while len(assigned) < minimum:
            assigned.append(max(divided.values(), key=len).pop())
    return divided


def _deal(documents: Sequence[Document], sizes: Mapping[str, int]) -> Sites:
    sites: Sites = {}
    start = 0
    for site, size in sizes.items():
        sites[site] = list(documents[start : start + size])
        start += size
    return sites
