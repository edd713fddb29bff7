"""Who annotates what: the types of a study beside what the notes of its sites hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from wardround.corpora.type_names import nearest_type
from wardround.text.document import Document
from wardround.text.tag_sets import TagSet

__all__ = ["Overlap", "SiteTypes", "TagSetTable"]

_MOST_PAIRS = 45  # those of ten sites are named one by one


@dataclass(frozen=True)
class SiteTypes:
    """What one site annotates, and how many mentions its notes hold by type; None where nobody counted."""

    types: tuple[str, ...]  # in its training notes
    scored: tuple[str, ...]  # in its test notes
    train: Mapping[str, int] | None = None  # under the study's names; of what no mapping knows, the site's own
    test: Mapping[str, int] | None = None

    @classmethod
    def counted(
        cls, types: TagSet, scored: TagSet, *, train: Iterable[Document], test: Iterable[Document]
    ) -> SiteTypes:
        """The same with the mentions of its notes counted."""
        none = TagSet(())
        return cls(types.types, scored.types, none.count_other_types(train), none.count_other_types(test))

    def cell(self, kind: str) -> str:
        """Mentions in training notes, then, where the type is scored here, those in test notes."""
        train = _shown(self.train, kind) if kind in self.types else "·"
        return f"{train} / {_shown(self.test, kind)}" if kind in self.scored else train

    def as_json(self, kind: str) -> dict[str, Any]:
        """The same as plain values; what is not annotated, not scored or not counted here is null."""
        annotated, scored = kind in self.types, kind in self.scored
        return {
            "annotated": annotated,
            "scored": scored,
            "train": self.train.get(kind, 0) if annotated and self.train is not None else None,
            "test": self.test.get(kind, 0) if scored and self.test is not None else None,
        }

    def may_teach(self, kind: str) -> bool:
        """Whether a mention of the type can be among its training notes, as far as anybody counted."""
        return kind in self.types and (self.train is None or self.train.get(kind, 0) > 0)


@dataclass(frozen=True)
class Overlap:
    """Two sites and the types that both annotate."""

    sites: tuple[str, str]
    types: tuple[str, ...]
    together: int  # types that at least one of them annotates

    def sentence(self) -> str:
        """In words."""
        both = " and ".join(self.sites)
        if not self.types:
            return f"{both} share no type."
        return f"{both} share {len(self.types)} of {self.together} types: {', '.join(self.types)}."


@dataclass(frozen=True)
class TagSetTable:
    """The types of a study, and each site's part of them."""

    types: tuple[str, ...]
    sites: Mapping[str, SiteTypes]

    def rows(self) -> tuple[tuple[str, ...], ...]:
        """A type, and its cell at each site."""
        return tuple((kind, *(site.cell(kind) for site in self.sites.values())) for kind in self.types)

    def alone(self) -> dict[str, tuple[str, ...]]:
        """By site, the types that no other annotates."""
        at = {kind: [name for name, site in self.sites.items() if kind in site.types] for kind in self.types}
        found = {name: tuple(kind for kind in self.types if at[kind] == [name]) for name in self.sites}
        return {name: types for name, types in found.items() if types}

    def overlaps(self) -> tuple[Overlap, ...]:
        """Of every pair of sites."""
        return tuple(
            Overlap((first, second), tuple(k for k in one.types if k in other.types), len({*one.types, *other.types}))
            for (first, one), (second, other) in combinations(self.sites.items(), 2)
        )

    def untaught(self) -> tuple[str, ...]:
        """Types of which no training note holds a mention at a site that annotates them."""
        return tuple(kind for kind in self.types if not any(site.may_teach(kind) for site in self.sites.values()))

    def unknown(self) -> dict[str, dict[str, int]]:
        """By site, the names in its training and test notes that are no type of the study, and their mentions."""
        return _filled(
            {
                name: {kind: n for kind, n in sorted(_added(site.train, site.test).items()) if kind not in self.types}
                for name, site in self.sites.items()
            }
        )

    def left_out(self) -> dict[str, dict[str, int]]:
        """By site, mentions in its training notes of types of the study that it does not list."""
        return _filled(
            {
                name: {k: n for k, n in (site.train or {}).items() if k in self.types and k not in site.types}
                for name, site in self.sites.items()
            }
        )

    def sentences(self) -> Iterator[str]:
        """What to know about it, in words."""
        for name, types in self.alone().items():
            yield f"Only {name} annotates {', '.join(types)}."
        if len(self.sites) > 1 and not self.alone():
            yield "Every type is annotated at two sites or more."
        yield from self._pairs()
        for kind in self.untaught():
            yield f"No training note holds a mention of {kind}: nobody teaches it."
        for name, found in self.unknown().items():
            for kind, count in found.items():
                near = nearest_type(kind, self.types)
                yield f"{name}: {_mentions(count)} of {kind!r}, which is no type of the study{near}; map the name."
        for name, found in self.left_out().items():
            said = ", ".join(f"{kind} {count:,}" for kind, count in found.items())
            yield f"{name}: its training notes hold types that it does not list, which it does not learn: {said}."

    def as_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "types": {kind: {name: site.as_json(kind) for name, site in self.sites.items()} for kind in self.types},
            "only_one_site": {name: list(types) for name, types in self.alone().items()},
            "overlaps": [
                {"sites": list(pair.sites), "types": list(pair.types), "together": pair.together}
                for pair in self.overlaps()
            ],
            "untaught": list(self.untaught()),
            "unknown_names": self.unknown(),
            "left_out": self.left_out(),
        }

    def _pairs(self) -> Iterator[str]:
        pairs = self.overlaps()
        if len(pairs) <= _MOST_PAIRS:
            yield from (pair.sentence() for pair in pairs)
            return
        apart = sum(1 for pair in pairs if not pair.types)
        yield f"Of {len(pairs):,} pairs of sites {apart:,} share no type."


def _shown(counts: Mapping[str, int] | None, kind: str) -> str:
    return "✓" if counts is None else f"{counts.get(kind, 0):,}"


def _added(left: Mapping[str, int] | None, right: Mapping[str, int] | None) -> Counter[str]:
    return Counter(left or {}) + Counter(right or {})


def _filled(found: Mapping[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    return {name: counts for name, counts in found.items() if counts}


def _mentions(count: int) -> str:
    return f"{count:,} mention" if count == 1 else f"{count:,} mentions"
