"""The tag schemes BIO, BIOES and IOB1 as tables: which tag may follow which, and where a mention begins and ends.

A tag is `O` or `<prefix>-<type>`, for example `B-Drug`. A table has an entry for each ordered pair of prefixes: whether
the pair is legal if the two types are equal and if they differ, and whether a mention ends between the two. Decoding,
repair and the constraints of the CRF all use the same table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from wardround.errors import TagError

__all__ = ["BIO", "BIOES", "IOB1", "OUTSIDE", "SCHEMES", "ScoredTags", "TagScheme", "WordSpan", "split_tag"]

OUTSIDE = "O"
_MOST_PAIRS = 100_000  # bounded, because the tags may come from any file
_EDGE = "#"  # the position before the first and after the last word


class WordSpan(NamedTuple):
    """A typed mention that covers the words `[start, end)`."""

    start: int
    end: int
    type: str


class ScoredTags(NamedTuple):
    """The tags of a sentence, and the probability of each mention in them, if the model has probabilities."""

    tags: list[str]
    probabilities: list[float] | None = None


class _Step(NamedTuple):
    """Rules for two neighbouring tags."""

    legal_same_type: bool
    legal_other_type: bool
    cut_same_type: bool  # a new mention begins at the right tag even if the types are equal


_YES = _Step(True, True, True)
_NEVER = _Step(False, False, True)
_CONTINUE = _Step(True, False, False)  # the right tag continues the left one's mention
_FREE = _Step(True, True, False)


def split_tag(tag: str) -> tuple[str, str]:
    """Split `B-Drug` into (`B`, `Drug`), and `O` into (`O`, ``)."""
    if tag == OUTSIDE:
        return OUTSIDE, ""
    prefix, dash, kind = tag.partition("-")
    if not dash or not kind or len(prefix) != 1 or prefix == OUTSIDE:
        raise TagError(f"{tag!r} is not a tag: expected 'O' or '<prefix>-<type>' such as 'B-Drug'")
    return prefix, kind


@dataclass(frozen=True)
class TagScheme:
    """A scheme that encodes mentions as one tag for each word."""

    name: str
    prefixes: str
    steps: dict[str, _Step]
    # Pairs of tags that were asked for: every decoded sentence asks again for the same few.
    _legal: dict[tuple[str | None, str | None], bool] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def tags(self, types: Iterable[str]) -> tuple[str, ...]:
        """Return all tags for `types`, `O` first, in a fixed order."""
        return (OUTSIDE, *(f"{prefix}-{kind}" for kind in types for prefix in self.prefixes))

    def may_follow(self, left: str | None, right: str | None) -> bool:
        """Return True if tag `right` may follow tag `left`; None is the edge of the sentence."""
        known = self._legal.get((left, right))
        if known is not None:
            return known
        (left_prefix, left_type), (right_prefix, right_type) = self._split(left), self._split(right)
        step = self.steps[left_prefix + right_prefix]
        found = step.legal_same_type if left_type == right_type else step.legal_other_type
        if len(self._legal) >= _MOST_PAIRS:
            self._legal.clear()
        self._legal[left, right] = found
        return found

    def continues(self, left: str, right: str) -> bool:
        """Return True if tag `right` belongs to the same mention as tag `left`, which is directly before it."""
        (left_prefix, left_type), (right_prefix, right_type) = split_tag(left), split_tag(right)
        same = left_type == right_type and OUTSIDE not in (left, right)
        return same and not self.steps[left_prefix + right_prefix].cut_same_type

    def spans(self, tags: Sequence[str]) -> list[WordSpan]:
        """Return the mentions in `tags`; an ill-formed sequence is repaired first."""
        return list(self._split_spans(self.repair(tags)))

    def encode(self, spans: Iterable[WordSpan], length: int) -> list[str]:
        """Return the tags of a sentence of `length` words. Spans must not overlap."""
        tags = [OUTSIDE] * length
        for start, end, kind in sorted(spans):
            if not 0 <= start < end <= length:
                raise TagError(f"{kind} at words {start}-{end} is outside a sentence of {length} words")
            if any(tag != OUTSIDE for tag in tags[start:end]):
                raise TagError(f"{kind} at words {start}-{end} overlaps another mention")
            if "S" in self.prefixes:
                prefixes = "S" if end - start == 1 else "B" + "I" * (end - start - 2) + "E"
            else:
                touches = start > 0 and tags[start - 1] != OUTSIDE and split_tag(tags[start - 1])[1] == kind
                begins_with_i = self.steps[_EDGE + "I"].legal_other_type and not touches
                prefixes = ("I" if begins_with_i else "B") + "I" * (end - start - 1)
            tags[start:end] = [f"{prefix}-{kind}" for prefix in prefixes]
        return tags

    def is_legal(self, tags: Sequence[str]) -> bool:
        """Return True if every pair of neighbouring tags, including the edges, is legal."""
        return all(self.may_follow(left, right) for left, right in pairwise([None, *tags, None]))

    def repair(self, tags: Sequence[str]) -> list[str]:
        """Return legal tags; an uninterrupted run of tags of one type becomes one mention.

        `I-Drug` after `O` begins a mention instead of being dropped; an unfinished BIOES mention is closed.
        """
        if self.is_legal(tags):
            return list(tags)
        for tag in tags:
            self._split(tag)
        return self.encode(self._split_spans(tags), len(tags))

    def _split_spans(self, tags: Sequence[str]) -> Iterator[WordSpan]:
        start, previous = 0, OUTSIDE
        for position, tag in enumerate([*tags, OUTSIDE]):
            (prefix, kind), (next_prefix, next_kind) = split_tag(previous), split_tag(tag)
            if previous == OUTSIDE:
                start = position
            elif kind != next_kind or self.steps[prefix + next_prefix].cut_same_type:
                yield WordSpan(start, position, kind)
                start = position
            previous = tag

    def _split(self, tag: str | None) -> tuple[str, str]:
        if tag is None:
            return _EDGE, ""
        prefix, kind = split_tag(tag)
        if prefix not in self.prefixes + OUTSIDE:
            raise TagError(f"{tag!r} is not a {self.name} tag: prefixes are {', '.join(self.prefixes)} and O")
        return prefix, kind


def _table(rows: dict[str, dict[str, _Step]]) -> dict[str, _Step]:
    return {left + right: step for left, row in rows.items() for right, step in row.items()}


BIO = TagScheme(
    "BIO",
    "BI",
    _table(
        {
            _EDGE: {"O": _YES, "B": _YES, "I": _NEVER, _EDGE: _YES},
            "O": {"O": _YES, "B": _YES, "I": _NEVER, _EDGE: _YES},
            "B": {"O": _YES, "B": _YES, "I": _CONTINUE, _EDGE: _YES},
            "I": {"O": _YES, "B": _YES, "I": _CONTINUE, _EDGE: _YES},
        }
    ),
)

# IOB1 uses `B` only directly after another mention of the same type, so `B` needs such a neighbour.
_TOUCHING = _Step(True, False, True)
IOB1 = TagScheme(
    "IOB1",
    "BI",
    _table(
        {
            _EDGE: {"O": _YES, "B": _NEVER, "I": _YES, _EDGE: _YES},
            "O": {"O": _YES, "B": _NEVER, "I": _YES, _EDGE: _YES},
            "B": {"O": _YES, "B": _TOUCHING, "I": _FREE, _EDGE: _YES},
            "I": {"O": _YES, "B": _TOUCHING, "I": _FREE, _EDGE: _YES},
        }
    ),
)

_OPEN = {"O": _NEVER, "B": _NEVER, "I": _CONTINUE, "E": _CONTINUE, "S": _NEVER, _EDGE: _NEVER}
_CLOSED = {"O": _YES, "B": _YES, "I": _NEVER, "E": _NEVER, "S": _YES, _EDGE: _YES}
BIOES = TagScheme(
    "BIOES", "BIES", _table({_EDGE: _CLOSED, "O": _CLOSED, "B": _OPEN, "I": _OPEN, "E": _CLOSED, "S": _CLOSED})
)

SCHEMES = {scheme.name: scheme for scheme in (BIO, BIOES, IOB1)}
