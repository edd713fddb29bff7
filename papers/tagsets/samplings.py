"""Draw which site annotates which types; the draw depends on the seed alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from random import Random

__all__ = ["Annotatable", "Sampler", "TagSets", "disjoint", "drawn", "overlapping"]

TagSets = dict[str, tuple[str, ...]]  # by site
Annotatable = Mapping[str, Sequence[str]]  # by site: the types with enough training mentions
Sampler = Callable[[Annotatable, Random], TagSets]


def disjoint(annotatable: Annotatable, random: Random) -> TagSets:
    """Give every type to one site (Section 5.2), and every site about as many types, at least one."""
    types, sites = _types(annotatable), list(annotatable)
    while True:
        random.shuffle(types)
        random.shuffle(sites)
        dealt = [(sites[number % len(sites)], kind) for number, kind in enumerate(types)]
        if all(kind in annotatable[site] for site, kind in dealt):
            return _ordered(annotatable, dealt)


def overlapping(annotatable: Annotatable, random: Random) -> TagSets:
    """Give every site a type of its own, and each other type to one or two sites with equal chance (Appendix D)."""
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
    """Draw a different sampling for each set of notes."""
    found: list[TagSets] = []
    for able in annotatable:
        draws = (sampler(able, Random(f"{name}/{number}")) for number in count())  # noqa: S311 – a draw, not a secret
        found.append(next(tag_sets for tag_sets in draws if tag_sets not in found))
    return found


def _types(annotatable: Annotatable) -> list[str]:
    return list(dict.fromkeys(kind for types in annotatable.values() for kind in types))


def _ordered(annotatable: Annotatable, annotated: Sequence[tuple[str, str]]) -> TagSets:
    """Return sites and types in the order of `annotatable`."""
    return {site: tuple(kind for kind in types if (site, kind) in annotated) for site, types in annotatable.items()}
