"""Which type was taken for which, as counts that add."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wardround.evaluation.overlaps import Overlaps

__all__ = ["Cell", "Confusion", "confuse"]

Cell = tuple[str | None, str | None]  # gold type, predicted type; None on the right is missed, on the left spurious


@dataclass(frozen=True, slots=True)
class Confusion:
    """How often a gold type (None: no gold mention there) met a predicted type (None: nothing predicted there).

    A row sums to the gold mentions of its type, a column to the predicted ones, and the diagonal holds the
    relaxed true positives.
    """

    counts: Mapping[Cell, int] = field(default_factory=dict)

    def __add__(self, other: Confusion) -> Confusion:
        return Confusion(dict(Counter(self.counts) + Counter(other.counts)))

    def __getitem__(self, cell: Cell) -> int:
        return self.counts.get(cell, 0)

    @property
    def types(self) -> tuple[str, ...]:
        """Every type that occurs, sorted."""
        return tuple(sorted({type_ for cell in self.counts for type_ in cell if type_ is not None}))

    def rows(self, types: Sequence[str] | None = None) -> list[list[int]]:
        """Counts as gold rows and predicted columns; the last row is spurious, the last column missed."""
        order = [*(self.types if types is None else types), None]
        return [[self[gold, predicted] for predicted in order] for gold in order]


def confuse(overlaps: Overlaps, relaxed: Mapping[int, int]) -> Confusion:
    """The confusion of one document, grown from its `relaxed` pairs (predicted → gold position).

    What they leave over is paired with what it shares most characters with, whatever the type.
    """
    pairs = dict(relaxed)
    taken = set(pairs.values())
    for _, predicted, gold in _most_shared_first(overlaps):
        if predicted not in pairs and gold not in taken:
            pairs[predicted] = gold
            taken.add(gold)
    cells: list[Cell] = [(overlaps.gold[g].type, overlaps.predicted[p].type) for p, g in pairs.items()]
    cells += [(mention.type, None) for g, mention in enumerate(overlaps.gold) if g not in taken]
    cells += [(None, mention.type) for p, mention in enumerate(overlaps.predicted) if p not in pairs]
    return Confusion(dict(Counter(cells)))


def _most_shared_first(overlaps: Overlaps) -> list[tuple[int, int, int]]:
    return sorted(
        (-length, predicted, gold) for predicted, row in enumerate(overlaps.shared) for gold, length in row.items()
    )
