"""Which site annotates which types: drawn at random, the same for the same seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from random import Random

TagSets = dict[str, tuple[str, ...]]  # by site
Annotatable = Mapping[str, Sequence[str]]  # by site: the types that its training notes could teach
Sampler = Callable[[Annotatable, Random], TagSets]


def disjoint(annotatable: Annotatable, random: Random) -> TagSets:
    """Every type at one site (Section 5.2): as many at each as there can be, one at least."""
    types, sites = _types(annotatable), list(annotatable)
    while True:
        random.shuffle(types)
        random.shuffle(sites)
        dealt = [(sites[number % len(sites)], kind) for number, kind in enumerate(types)]
        if all(kind in annotatable[site] for site, kind in dealt):
            return _ordered(annotatable, dealt)


def overlapping(annotatable: Annotatable, random: Random) -> TagSets:
    """A type of its own at every site, each other type at one site or at two, as likely (Appendix D)."""
    types, sites = _types(annotatable), list(annotatable)
    while True:
        unique = random.sample(types, len(sites))
        if all(kind in annotatable[site] for site, kind in zip(sites, unique, strict=True)):
            break
    annotated = list(zip(sites, unique, strict=True))
    for kind in types:
        if kind not in unique:
            able = [site for site in sites if kind in annotatable[site]]
            annotated += [(site, kind) for site in random.sample(able, min(random.choice((1, 2)), len(able)))]
    return _ordered(annotatable, annotated)


def drawn(sampler: Sampler, annotatable: Sequence[Annotatable], name: str) -> list[TagSets]:
    """A sampling for each of the given notes, no two alike."""
    found: list[TagSets] = []
    for able in annotatable:
        found.append(next(tag_sets for tag_sets in _draws(sampler, able, name) if tag_sets not in found))
    return found


def _draws(sampler: Sampler, annotatable: Annotatable, name: str) -> Iterator[TagSets]:
    for number in count():
        yield sampler(annotatable, Random(f"{name}/{number}"))  # noqa: S311 – a draw, not a secret


def _types(annotatable: Annotatable) -> list[str]:
    return list(dict.fromkeys(kind for types in annotatable.values() for kind in types))


def _ordered(annotatable: Annotatable, annotated: Sequence[tuple[str, str]]) -> TagSets:
    """Sites and types in the order in which they are known."""
    return {site: tuple(kind for kind in types if (site, kind) in annotated) for site, types in annotatable.items()}
