"""Updates as integers: clipped, scaled, rounded, and several packed into one slot that can be added.

A slot is a number modulo the ring's modulus and holds `fields` signed numbers:

    slot = n₀ + n₁·2^(width+1) + n₂·2^(2·(width+1)) …   (mod modulus)

Slots add field by field as long as no field exceeds its width + 1 bits. None does: the shares of an exchange add up to
at most 1, so a sum of clipped updates is itself within the clip, and the spare bit holds what rounding adds.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple, Protocol

import numpy as np

from wardround.errors import MessageError
from wardround.federation.message import Array

__all__ = ["MASKED", "IntegerLayout", "Layout", "Packed", "Packing", "SlotLayout"]

_EXACT = 2**53  # integers below this are exact in float64, which all computations here use
_MOST_SITES = 2**20
_SMALLEST_CLIP, _LARGEST_CLIP = 1e-20, 1e20  # so that every mean fits into float32, however small the shares
_SMALLEST_SHARE = 1e-9
_TINY = 1e-9  # rounding may raise a sum of shares by this much
_CHUNK = 6 * 2**14  # numbers at a time: they fit in the cache, and the count is a multiple of 1, 2 and 3 fields


@dataclass(frozen=True)
class Packing:
    """How signed numbers share a slot: `fields` numbers of `width` bits and a spare bit each, modulo `modulus`."""

    width: int
    fields: int
    modulus: int

    def __post_init__(self) -> None:
        assert self.width >= 2 and self.fields >= 1 and _CHUNK % self.fields == 0, "no such fields"
        assert self.modulus < _EXACT, "slots are computed in float64"
        largest = 3 * 2 ** (self.width - 2)  # of a field, with the rounding of `most_sites`
        assert largest * sum(self.base**field for field in range(self.fields)) < self.modulus / 2, "slots overflow"

    @property
    def scale(self) -> int:
        """Return the integer that represents the clip."""
        return 1 << (self.width - 1)

    @property
    def base(self) -> int:
        """Return the factor between one field and the next."""
        return 1 << (self.width + 1)

    @property
    def most_sites(self) -> int:
        """Return the most sites whose rounding errors, all in one direction, use at most half of the spare bit."""
        return min(_MOST_SITES, self.scale)


MASKED = Packing(31, 1, 2**32)


@dataclass(frozen=True, eq=False)
class Packed:
    """An update times its share, as slots, with the count of clipped numbers and what rounding lost."""

    slots: Array  # [slots], uint64
    clipped: int
    residue: dict[str, Array]  # float32, in units of the update, without what the clip cut off
    largest: dict[str, float]  # the largest number of each array before rounding; 0.5 and below round to zero


class SlotLayout(Protocol):
    """The positions of an update's numbers in the slots of an exchange."""

    @property
    def slots(self) -> int:
        """Return the number of slots of an update."""

    def pack(self, update: Mapping[str, Array], *, share: float) -> Packed:
        """Return the clipped update times its share, as slots."""

    def unpack(self, slots: Array, *, share: float, sites: int) -> dict[str, Array]:
        """Return the mean: the summed slots of `sites` sites over their summed share."""


class _Part(NamedTuple):
    """The position of one array's numbers in a chunk."""

    name: str
    numbers: slice  # of the array
    place: slice  # in the chunk


class Layout:
    """A `SlotLayout` with the arrays one after the other, in the order of `shapes`."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], clips: Mapping[str, float], packing: Packing) -> None:
        if shapes.keys() != clips.keys():
            raise MessageError("clip", "there must be exactly one clip for each array")
        if not all(_SMALLEST_CLIP <= clip <= _LARGEST_CLIP for clip in clips.values()):
            raise MessageError("clip", f"a clip lies between {_SMALLEST_CLIP:g} and {_LARGEST_CLIP:g}")
        self.shapes = dict(shapes)
        self.clips = {name: float(clips[name]) for name in shapes}
        self.packing = packing
        self._names = tuple(shapes)
        self._starts = (0, *accumulate(math.prod(shape) for shape in shapes.values()))
        self.numbers = self._starts[-1]
        self.slots = -(-self.numbers // packing.fields)

    def pack(self, update: Mapping[str, Array], *, share: float) -> Packed:
        """Return the clipped update times its share, rounded; needs the memory of the result and one chunk."""
        _check_share(share)
        if {name: array.shape for name, array in update.items()} != self.shapes:
            raise MessageError("shapes", "an update has other names or shapes than its exchange")
        flat = {name: array.reshape(-1) for name, array in update.items()}
        residue = {name: np.empty(shape, np.float32) for name, shape in self.shapes.items()}
        lost = {name: array.reshape(-1) for name, array in residue.items()}
        slots, clipped = np.empty(self.slots, np.uint64), 0
        largest = dict.fromkeys(self.shapes, 0.0)
        for place, parts in self._chunks():
            numbers = np.zeros((place.stop - place.start) * self.packing.fields)
            for part in parts:
                own, clip = numbers[part.place], self.clips[part.name]
                own[:] = flat[part.name][part.numbers]
                clipped += _clip(own, clip, part.name)
                own *= share * self.packing.scale / clip
                largest[part.name] = max(largest[part.name], float(np.abs(own).max(initial=0.0)))
                lost[part.name][part.numbers] = _round(own, share * self.packing.scale / clip)
            slots[place] = _fold(numbers, self.packing)
        return Packed(slots, clipped, residue, largest)

    def unpack(self, slots: Array, *, share: float, sites: int) -> dict[str, Array]:
        """Return the mean: the summed slots of `sites` sites over their summed share.

        Raise a `MessageError` for a field above the largest sum of clipped updates: a site ignored the clip or its
        weight. Below that bound such a site cannot be distinguished from an honest one.
        """
        _check_share(share)
        if slots.dtype != np.uint64 or slots.shape != (self.slots,):
            raise MessageError("slots", "a sum has another number of slots than its exchange")
        if not 1 <= sites <= self.packing.most_sites:
            raise MessageError("sites", f"at most {self.packing.most_sites:,} sites can be added in this packing")
        if slots.max(initial=0) >= self.packing.modulus:
            raise MessageError("range", "a slot lies outside its ring")
        most = self.packing.scale * share * (1 + _TINY) + sites / 2 + 1
        mean = {name: np.empty(shape, np.float32) for name, shape in self.shapes.items()}
        flat = {name: array.reshape(-1) for name, array in mean.items()}
        for place, parts in self._chunks():
            numbers = _unfold(slots[place], self.packing)
            if np.abs(numbers).max() > most:
                raise MessageError("range", "a sum exceeds its clip: a site ignored the clip or its weight")
            for part in parts:
                unit = self.clips[part.name] / (self.packing.scale * share)
                np.multiply(numbers[part.place], unit, out=flat[part.name][part.numbers], casting="same_kind")
        return mean

    def _chunks(self) -> Iterator[tuple[slice, list[_Part]]]:
        """Yield the slots that each chunk of numbers fills, and the parts of arrays that the chunk consists of."""
        fields = self.packing.fields
        for start in range(0, self.numbers, _CHUNK):
            stop = min(start + _CHUNK, self.numbers)
            parts, index = [], bisect_right(self._starts, start) - 1
            while index < len(self._names) and self._starts[index] < stop:
                first, last = max(start, self._starts[index]), min(stop, self._starts[index + 1])
                own = slice(first - self._starts[index], last - self._starts[index])
                parts.append(_Part(self._names[index], own, slice(first - start, last - start)))
                index += 1
            yield slice(start // fields, -(-stop // fields)), parts


class IntegerLayout(Layout):
    """A `SlotLayout` of updates that are integers: they are packed as they are, so that their sum is exact.

    An integer stands for that many times `unit`. The shares of an exchange do not matter: every site counts the same.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], unit: float, packing: Packing) -> None:
        super().__init__(shapes, dict.fromkeys(shapes, unit * packing.scale), packing)
        self.unit = unit

    def pack(self, update: Mapping[str, Array], *, share: float) -> Packed:
        """Return the integers as slots; raise a `MessageError` for one that the sum of a field cannot hold."""
        if {name: array.shape for name, array in update.items()} != self.shapes:
            raise MessageError("shapes", "an update has other names or shapes than its exchange")
        flat = {name: array.reshape(-1) for name, array in update.items()}
        slots = np.empty(self.slots, np.uint64)
        for place, parts in self._chunks():
            numbers = np.zeros((place.stop - place.start) * self.packing.fields)
            for part in parts:
                numbers[part.place] = flat[part.name][part.numbers]
            if np.abs(numbers).max(initial=0.0) > self.packing.scale:
                raise MessageError("range", "an integer is too large for its field")
            slots[place] = _fold(numbers, self.packing)
        # Nothing was clipped, rounded or lost here.
        return Packed(slots, 0, {}, dict.fromkeys(self.shapes, math.inf))

    def unpack(self, slots: Array, *, share: float, sites: int) -> dict[str, Array]:
        """Return the mean over `sites` sites: the summed integers times the unit."""
        if slots.dtype != np.uint64 or slots.shape != (self.slots,):
            raise MessageError("slots", "a sum has another number of slots than its exchange")
        if sites < 1 or slots.max(initial=0) >= self.packing.modulus:
            raise MessageError("range", "a slot lies outside its ring")
        mean = {name: np.empty(shape, np.float32) for name, shape in self.shapes.items()}
        flat = {name: array.reshape(-1) for name, array in mean.items()}
        for place, parts in self._chunks():
            numbers = _unfold(slots[place], self.packing)
            if np.abs(numbers).max(initial=0.0) > self.packing.scale:
                raise MessageError("range", "a sum exceeds its field: a site ignored its bound")
            for part in parts:
                np.multiply(
                    numbers[part.place],
                    self.unit / sites,
                    out=flat[part.name][part.numbers],
                    casting="same_kind",
                )
        return mean


def _check_share(share: float) -> None:
    if not _SMALLEST_SHARE <= share <= 1 + _TINY:
        raise MessageError("weight", "a site's share of an exchange is more than 0 and at most 1")


def _clip(numbers: Array, clip: float, name: str) -> int:
    """Clip in place; return how many numbers were clipped."""
    low, high = numbers.min(initial=0), numbers.max(initial=0)
    if not (math.isfinite(low) and math.isfinite(high)):  # the smallest and the largest are enough, NaN included
        raise MessageError("not-a-number", f"{name} holds NaN or infinity")
    if -clip <= low and high <= clip:
        return 0
    outside = int(np.count_nonzero(numbers > clip) + np.count_nonzero(numbers < -clip))
    np.clip(numbers, -clip, clip, out=numbers)
    return outside


def _round(numbers: Array, scale: float) -> Array:
    """Round scaled numbers in place; return what rounding lost, in units of the numbers before scaling."""
    lost = numbers.copy()
    np.rint(numbers, out=numbers)
    lost -= numbers
    lost /= scale
    return lost


def _fold(numbers: Array, packing: Packing) -> Array:
    """Pack numbers into slots, from the last field to the first; negative slots wrap around the modulus."""
    slots = numbers[packing.fields - 1 :: packing.fields].copy()
    for field in reversed(range(packing.fields - 1)):
        slots *= packing.base
        slots += numbers[field :: packing.fields]
    slots[slots < 0] += packing.modulus
    return slots


def _unfold(slots: Array, packing: Packing) -> Array:
    """Return the numbers of each slot; the last field holds the rest."""
    rest = slots.astype(np.float64)
    rest[rest > packing.modulus / 2] -= packing.modulus
    numbers = np.empty(len(rest) * packing.fields)
    for field in range(packing.fields - 1):
        above = np.rint(rest / packing.base)
        numbers[field :: packing.fields] = rest - above * packing.base
        rest = above
    numbers[packing.fields - 1 :: packing.fields] = rest
    return numbers
