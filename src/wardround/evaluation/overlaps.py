"""Which gold mention shares characters with which predicted one, and the largest one-to-one pairing."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from wardround.text.document import Entity, Range

__all__ = ["Mention", "Overlaps", "align", "maximum_matching", "mentions_of"]


class Mention(NamedTuple):
    """An entity as evaluation sees it: ids, concepts and remarks do not count."""

    ranges: tuple[Range, ...]
    type: str


@dataclass(frozen=True, slots=True)
class Overlaps:
    """Two lists of mentions, and for each predicted one the gold mentions it touches."""

    gold: Sequence[Mention]
    predicted: Sequence[Mention]
    shared: Sequence[Mapping[int, int]]  # [predicted]: gold position → characters in common, in order of gold

    def of_type(self, type_: str) -> Overlaps:
        """What is left when every mention of another type is taken away."""
        return align([m for m in self.gold if m.type == type_], [m for m in self.predicted if m.type == type_])


def mentions_of(entities: Iterable[Entity]) -> list[Mention]:
    """The mentions in reading order; two entities of one type and place are one mention."""
    return sorted({Mention(entity.ranges, entity.type) for entity in entities})


def align(gold: Sequence[Mention], predicted: Sequence[Mention]) -> Overlaps:
    """Find every pair that shares a character, without comparing all with all."""
    pieces = sorted((start, end, position) for position, m in enumerate(gold) for start, end in m.ranges)
    starts = [start for start, _, _ in pieces]
    # The furthest end so far never falls, so all pieces left of the first that reaches a place end before it.
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
    """As many one-to-one pairs (left → right) as there can be, grown from the pairs `begin` by augmenting paths.

    `neighbours[left]` are the rights that `left` may have. A left or right paired in `begin` stays paired,
    though perhaps with another.
    """
    right_of, left_of = dict(begin), {right: left for left, right in begin.items()}
    for free in range(len(neighbours)):
        if free in right_of:
            continue
        right, reached_from = _search(free, neighbours, left_of)
        while right is not None:  # walk back to `free`, each left on the way taking the right it led to
            left = reached_from[right]
            given_up = right_of.get(left)
            right_of[left], left_of[right] = right, left
            right = given_up
    return right_of


def _search(
    free: int, neighbours: Sequence[Sequence[int]], left_of: Mapping[int, int]
) -> tuple[int | None, dict[int, int]]:
    """An unpaired right that `free` can reach through pairs, and for each right passed the left that led to it."""
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
