"""Which gold mentions share characters with which predicted mentions, and the largest one-to-one matching."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from wardround.text.document import Entity, Range

__all__ = ["Mention", "Overlaps", "find_overlaps", "maximum_matching", "mentions_of"]


class Mention(NamedTuple):
    """The part of an entity that is scored; ids, concepts and remarks are ignored."""

    ranges: tuple[Range, ...]
    type: str


@dataclass(frozen=True, slots=True)
class Overlaps:
    """Gold and predicted mentions, and for each predicted one the gold mentions it overlaps."""

    gold: Sequence[Mention]
    predicted: Sequence[Mention]
    shared: Sequence[Mapping[int, int]]  # [predicted]: gold position → characters in common, in order of gold

    def of_type(self, type_: str) -> Overlaps:
        """Return the overlaps among the mentions of one type."""
        return find_overlaps([m for m in self.gold if m.type == type_], [m for m in self.predicted if m.type == type_])


def mentions_of(entities: Iterable[Entity]) -> list[Mention]:
    """Return the mentions in reading order; entities with the same type and ranges become one mention."""
    return sorted({Mention(entity.ranges, entity.type) for entity in entities})


def find_overlaps(gold: Sequence[Mention], predicted: Sequence[Mention]) -> Overlaps:
    """Find every pair that shares a character, without comparing all pairs."""
    pieces = sorted((start, end, position) for position, m in enumerate(gold) for start, end in m.ranges)
    starts = [start for start, _, _ in pieces]
    # The running maximum of the ends never falls: all pieces before the first that reaches a position end before it.
    reach = list(accumulate((end for _, end, _ in pieces), max))
    shared = []
    for mention in predicted:
        common: dict[int, int] = {}
        for start, end in mention.ranges:
            for piece in pieces[bisect_right(reach, start) : bisect_left(starts, end)]:
                length = min(end, piece[1]) - max(start, piece[0])
                if length > 0:
                    common[piece[2]] = common.get(piece[2], 0) + length
        shared.append(dict(sorted(common.items())))
    return Overlaps(gold, predicted, shared)


def maximum_matching(neighbours: Sequence[Sequence[int]], begin: Mapping[int, int]) -> dict[int, int]:
    """Return a maximum one-to-one matching (left → right), grown from the pairs `begin` by augmenting paths.

    `neighbours[left]` are the right nodes that `left` may be matched with. A node that is matched in `begin` stays
    matched, but its partner may change.
    """
    right_of, left_of = dict(begin), {right: left for left, right in begin.items()}
    for free in range(len(neighbours)):
        if free in right_of:
            continue
        right, reached_from = _augmenting_path(free, neighbours, left_of)
        while right is not None:  # walk back to `free`; each left node takes the right node it led to
            left = reached_from[right]
            previous = right_of.get(left)
            right_of[left], left_of[right] = right, left
            right = previous
    return right_of


def _augmenting_path(
    free: int, neighbours: Sequence[Sequence[int]], left_of: Mapping[int, int]
) -> tuple[int | None, dict[int, int]]:
    """Search breadth first for an unmatched right node reachable from `free`.

    Return it (or None) and, for each right node visited, the left node that led to it.
    """
    reached_from: dict[int, int] = {}
    waiting = deque([free])
    while waiting:
        left = waiting.popleft()
        for right in neighbours[left]:
            if right in reached_from:
                continue
            reached_from[right] = left
            if right not in left_of:
                return right, reached_from
            waiting.append(left_of[right])
    return None, reached_from
