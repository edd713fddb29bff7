"""Which site annotates which types of a study, and how many mentions of them its notes have."""

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

_MOST_PAIRS = 45  # the pairs of ten sites; more are only counted


@dataclass(frozen=True)
class SiteTypes:
    """The types that one site annotates, and the number of mentions in its notes by type; None if not counted."""

    types: tuple[str, ...]  # in its training notes
    scored: tuple[str, ...]  # in its test notes
    train: Mapping[str, int] | None = None  # by the study's names, or the site's own names if they are not mapped
    test: Mapping[str, int] | None = None

    @classmethod
    def counted(
        cls, types: TagSet, scored: TagSet, *, train: Iterable[Document], test: Iterable[Document]
    ) -> SiteTypes:
        """Return the types of a site with the mentions in its notes counted."""
        none = TagSet(())
        return cls(types.types, scored.types, none.count_other_types(train), none.count_other_types(test))

    def cell(self, kind: str) -> str:
        """Return the number of mentions in training notes and, if the type is scored here, in test notes."""
        train = _shown(self.train, kind) if kind in self.types else "·"
        return f"{train} / {_shown(self.test, kind)}" if kind in self.scored else train

    def as_json(self, kind: str) -> dict[str, Any]:
        """Return the cell as plain values; null means not annotated, not scored or not counted here."""
        annotated, scored = kind in self.types, kind in self.scored
        return {
            "annotated": annotated,
            "scored": scored,
            "train": self.train.get(kind, 0) if annotated and self.train is not None else None,
            "test": self.test.get(kind, 0) if scored and self.test is not None else None,
        }

    def may_have_training_mentions(self, kind: str) -> bool:
        """Return True if the site annotates the type and its training notes have mentions of it or were not counted."""
        return kind in self.types and (self.train is None or self.train.get(kind, 0) > 0)


@dataclass(frozen=True)
class Overlap:
    """The types that two sites both annotate."""

    sites: tuple[str, str]
    types: tuple[str, ...]
    together: int  # number of types that at least one of them annotates

    def sentence(self) -> str:
        """Describe the overlap in one sentence."""
        both = " and ".join(self.sites)
        if not self.types:
            return f"{both} share no type."
        return f"{both} share {len(self.types)} of {self.together} types: {', '.join(self.types)}."


@dataclass(frozen=True)
class TagSetTable:
    """The types of a study, and the types of each site."""

    types: tuple[str, ...]
    sites: Mapping[str, SiteTypes]

    def rows(self) -> tuple[tuple[str, ...], ...]:
        """Return one row for each type: its name and its cell at each site."""
        return tuple((kind, *(site.cell(kind) for site in self.sites.values())) for kind in self.types)

    def types_of_one_site(self) -> dict[str, tuple[str, ...]]:
        """Return, by site, the types that no other site annotates."""
        at = {kind: [name for name, site in self.sites.items() if kind in site.types] for kind in self.types}
        found = {name: tuple(kind for kind in self.types if at[kind] == [name]) for name in self.sites}
        return {name: types for name, types in found.items() if types}

    def overlaps(self) -> tuple[Overlap, ...]:
        """Return the overlap of each pair of sites."""
        return tuple(
            Overlap((first, second), tuple(k for k in one.types if k in other.types), len({*one.types, *other.types}))
            for (first, one), (second, other) in combinations(self.sites.items(), 2)
        )

    def types_without_mentions(self) -> tuple[str, ...]:
        """Return the types without a mention in the training notes of any site that annotates them."""
        sites = self.sites.values()
        return tuple(kind for kind in self.types if not any(site.may_have_training_mentions(kind) for site in sites))

    def unknown_names(self) -> dict[str, dict[str, int]]:
        """Return, by site, the names in its notes that are not types of the study, with their number of mentions."""
        counts = {name: Counter(site.train or {}) + Counter(site.test or {}) for name, site in self.sites.items()}
        return _without_empty(
            {
                name: {kind: number for kind, number in sorted(found.items()) if kind not in self.types}
                for name, found in counts.items()
            }
        )

    def unlisted_types(self) -> dict[str, dict[str, int]]:
        """Return, by site, the types of the study in its training notes that it does not list, with their mentions."""
        return _without_empty(
            {
                name: {k: n for k, n in (site.train or {}).items() if k in self.types and k not in site.types}
                for name, site in self.sites.items()
            }
        )

    def sentences(self) -> Iterator[str]:
        """Describe the table in sentences."""
        for name, types in self.types_of_one_site().items():
            yield f"Only {name} annotates {', '.join(types)}."
        if len(self.sites) > 1 and not self.types_of_one_site():
            yield "Every type is annotated at two sites or more."
        pairs = self.overlaps()
        if len(pairs) <= _MOST_PAIRS:
            yield from (pair.sentence() for pair in pairs)
        else:
            apart = sum(1 for pair in pairs if not pair.types)
            yield f"{apart:,} of {len(pairs):,} pairs of sites share no type."
        for kind in self.types_without_mentions():
            yield f"No training note has a mention of {kind}, so no site teaches it."
        for name, found in self.unknown_names().items():
            for kind, count in found.items():
                near = nearest_type(kind, self.types)
                mentions = f"{count:,} mention" if count == 1 else f"{count:,} mentions"
                yield f"{name}: {mentions} of {kind!r}, which is not a type of the study{near}; map the name."
        for name, found in self.unlisted_types().items():
            unlisted = ", ".join(f"{kind} {count:,}" for kind, count in found.items())
            yield f"{name}: its training notes have types that it does not list and does not learn: {unlisted}."

    def as_json(self) -> dict[str, Any]:
        """Return the table and its summary as plain values."""
        return {
            "types": {kind: {name: site.as_json(kind) for name, site in self.sites.items()} for kind in self.types},
            "only_one_site": {name: list(types) for name, types in self.types_of_one_site().items()},
            "overlaps": [
                {"sites": list(pair.sites), "types": list(pair.types), "together": pair.together}
                for pair in self.overlaps()
            ],
            "untaught": list(self.types_without_mentions()),
            "unknown_names": self.unknown_names(),
            "left_out": self.unlisted_types(),
        }


def _shown(counts: Mapping[str, int] | None, kind: str) -> str:
    return "✓" if counts is None else f"{counts.get(kind, 0):,}"


def _without_empty(found: Mapping[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    return {name: counts for name, counts in found.items() if counts}
