"""The second door: a site seals its update, the coordinator combines, and whoever may read it opens the mean.

Weights are applied where the update is sealed, so that combining is adding: the coordinator keeps one running sum,
however many sites there are, and the mean is the sum over the summed weights.

`plain` seals an update at once, with no regard to the others: `Aggregator`. The mechanisms that protect it seal it for
one exchange among named sites: `CohortAggregator` is their end at the coordinator, `Giver` that at a site.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

import numpy as np

from wardround.errors import MessageError
from wardround.federation.federation import SiteId
from wardround.federation.message import Array, Message, Value, grouped
from wardround.privacy.exchange import Exchange

__all__ = [
    "Aggregator",
    "CohortAggregator",
    "Combined",
    "Exchange",
    "Given",
    "Giver",
    "Place",
    "PlainAggregator",
    "Rows",
    "Tensors",
    "Total",
    "capped_weights",
    "check_weight",
    "share_limit",
]


@dataclass(frozen=True)
class Rows:
    """A table of which all rows but these are zero."""

    rows: Array  # [touched], in order, each once
    numbers: Array  # [touched, width]
    length: int  # of the whole table

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the whole table."""
        return (self.length, *self.numbers.shape[1:])

    def whole(self) -> Array:
        """The table, zeros and all."""
        return _spread(self.numbers, self.rows, self.shape)


Tensors = Mapping[str, Array | Rows]

# Outside these, an update times its weight may vanish in float32 or overflow it.
_SMALLEST_WEIGHT, _LARGEST_WEIGHT = 1e-9, 1e12
_TINY_SHARE = 1e-12
_FEWEST_ROWS = 256  # of a table that is looked through for rows to leave out


class Place(Enum):
    """Where a combined update can be read."""

    COORDINATOR = "coordinator"
    SITE = "site"


@dataclass(frozen=True)
class Combined:
    """A sum of sealed updates, the sum of their weights, and how many there are."""

    sum: Message
    weight: float
    count: int


class Aggregator(Protocol):
    """Seal at a site, combine at the coordinator, open where it may be read."""

    @property
    def opens_at(self) -> Place:
        """Who reads the mean."""

    def seal(self, update: Tensors, *, weight: float) -> Message:
        """An update times its weight, made as unreadable as the mechanism promises."""

    def check(self, sealed: Message, *, like: Tensors) -> None:
        """Refuse, with a `MessageError`, what cannot be an update of arrays named and shaped `like` these.

        The coordinator does so before it adds: what `combine` refuses is lost together with the sum.
        """

    def combine(self, sealed: Iterable[Message]) -> Combined:
        """The running sum of sealed updates; needs no secret."""

    def reweigh(self, sealed: Message, weight: float) -> Message:
        """The same update with another weight; needs no secret."""

    def open(self, combined: Combined) -> dict[str, Array]:
        """The weighted mean."""


class Total(Protocol):
    """The running sum of one exchange, at the coordinator; seeds are what its sites revealed, where there are masks."""

    def add(self, site: SiteId, sealed: Message) -> None:
        """Add what a site gave; what is refused with a `MessageError` leaves the sum as it was."""

    def check_seed(self, site: SiteId, seed: bytes) -> None:
        """Refuse, with a `MessageError`, a seed that the site did not commit to when it gave."""

    def message(self, seeds: Mapping[SiteId, bytes]) -> Message:
        """The sum, and all that a site needs to check and open it."""

    def mean(self, seeds: Mapping[SiteId, bytes]) -> dict[str, Array]:
        """The weighted mean, where it opens at the coordinator."""


class CohortAggregator(ABC):
    """Adds updates that are sealed for one another, without a secret: who gives is known before anybody seals."""

    opens_at: Place
    is_masked: bool  # sites need one another's cards to give
    opens_once: bool  # a sum that lacks a site of its exchange cannot be opened, nor two sums of one update
    groups: tuple[str, ...]  # of layers
    clips: Mapping[str, float]  # by group; of one that is missing it is learned

    @abstractmethod
    def exchange(
        self, *, round_number: int, step: str, weights: Mapping[SiteId, float], clips: Mapping[str, float]
    ) -> Exchange:
        """A new exchange among these sites."""

    @abstractmethod
    def check_card(self, site: SiteId, card: bytes) -> None:
        """Refuse, with a `MessageError`, a card that is not this site's."""

    @abstractmethod
    def total(self, exchange: Exchange, cards: Mapping[SiteId, bytes]) -> Total:
        """The sum of an exchange, before anybody gave."""


@dataclass(frozen=True)
class Given:
    """A sealed update, as its site remembers it."""

    message: Message
    digest: str  # by which the site knows it again
    seed: bytes = field(repr=False)  # of its own mask; empty without masks
    residue: Mapping[str, Array] = field(repr=False)  # what rounding took away


class Giver(ABC):
    """Seals and opens at a site, for one exchange at a time."""

    opens_at: Place

    @property
    @abstractmethod
    def card(self) -> bytes:
        """Who this site is to the others."""

    @abstractmethod
    def extents(self, update: Mapping[str, Array]) -> dict[str, float]:
        """The largest number, by layer group."""

    @abstractmethod
    def check_exchange(self, exchange: Exchange) -> None:
        """Refuse an exchange that this site must not give to: another study's, too few sites, no weight of its own."""

    @abstractmethod
    def seal(self, update: Mapping[str, Array], *, exchange: Exchange, cards: Mapping[SiteId, bytes]) -> Given:
        """The update times this site's share, for this exchange alone; `cards` are those of its sites."""

    @abstractmethod
    def open(self, taken: Message, *, own: str | None) -> dict[str, Array]:
        """The mean, once it is known whose updates are in it; `own` is the digest of what this site gave to it."""

    @abstractmethod
    def lock(self, data: bytes, *, purpose: str) -> bytes:
        """Readable to the sites of the study and to nobody on the way."""

    @abstractmethod
    def unlock(self, locked: bytes, *, purpose: str) -> bytes:
        """What `lock` locked for the same purpose."""

    @abstractmethod
    def fingerprint(self, data: bytes) -> str:
        """A digest that only sites of the study can compute."""


class PlainAggregator:
    """No protection: the coordinator sees every update.

    Of a table most of whose rows an update does not touch, as word embeddings under one mini-batch, only the touched
    ones are sent: `rows/NAME` says which.
    """

    opens_at = Place.COORDINATOR

    def seal(self, update: Tensors, *, weight: float) -> Message:
        """The update times its weight, readable, in float32."""
        check_weight(weight)
        lengths: dict[str, Value] = {}  # of tables that are sent in part
        arrays: dict[str, Array] = {}
        for name, part in update.items():
            found = part if isinstance(part, Rows) else _touched(part)
            if isinstance(found, Rows):
                lengths[name], arrays[f"rows/{name}"] = found.length, np.asarray(found.rows, np.int32)
            numbers = found.numbers if isinstance(found, Rows) else found
            with np.errstate(over="ignore"):  # refused below
                arrays[f"update/{name}"] = np.asarray(np.multiply(numbers, weight), np.float32)
        sealed = Message({"weight": float(weight)} | ({"lengths": lengths} if lengths else {}), arrays)
        self.check(sealed, like=update)
        return sealed

    def check(self, sealed: Message, *, like: Tensors) -> None:
        """Refuse other names, shapes or kinds of number than expected, NaN, infinity, and a weight that is none."""
        update, weight = sealed.group("update"), sealed.value("weight", float)
        check_weight(weight)
        if not update or _shapes(sealed) != {name: array.shape for name, array in like.items()}:
            raise MessageError("shapes", "an update has other names or shapes than expected")
        for name, array in update.items():
            _check_numbers(name, array, weight)

    def reweigh(self, sealed: Message, weight: float) -> Message:
        """Scale what was multiplied by the old weight."""
        factor = np.float32(weight / sealed.value("weight", float))
        update = {f"update/{name}": np.asarray(array * factor) for name, array in sealed.group("update").items()}
        return Message({**sealed.values, "weight": weight}, {**sealed.arrays, **update}, sealed.blobs)

    def combine(self, sealed: Iterable[Message]) -> Combined:
        """Add in float64, in the order of arrival."""
        total: dict[str, _Sum] = {}
        weight, count = 0.0, 0
        for message in sealed:
            shapes, own = _shapes(message), message.value("weight", float)
            check_weight(own)
            total = total or {name: _Sum(shape) for name, shape in shapes.items()}
            if not shapes or shapes != {name: part.shape for name, part in total.items()}:
                raise MessageError("shapes", "updates have different names or shapes")
            rows = message.group("rows")
            for name, array in message.group("update").items():
                total[name].add(array, rows.get(name))
            weight, count = weight + own, count + 1
        if not count:
            raise MessageError("empty", "there is no update to combine")
        return _combined(total, weight, count)

    def open(self, combined: Combined) -> dict[str, Array]:
        """Sum over weights, as float32; refused where that is no number."""
        if not combined.weight > 0:
            raise MessageError("empty", "there is no update to open")
        shapes, rows = _shapes(combined.sum), combined.sum.group("rows")
        opened = {}
        for name, total in combined.sum.group("update").items():
            with np.errstate(over="ignore"):
                mean = np.asarray(total / combined.weight, np.float32)
            _check_numbers(name, mean, 1.0)
            opened[name] = mean if name not in rows else _spread(mean, rows[name], shapes[name])
        return opened


class _Sum:
    """A running sum in float64: of the rows that were touched, as long as they are few."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.rows: Array | None = np.zeros(0, np.int32) if len(shape) == 2 else None
        self.numbers: Array = np.zeros(shape if self.rows is None else (0, *shape[1:]))

    def add(self, array: Array, rows: Array | None) -> None:
        """Add an array, or some rows of one."""
        if array.dtype != np.float32:
            raise MessageError("shapes", f"an update is float32, not {array.dtype}")
        if self.rows is not None:
            self._make_place_for(rows)
        if rows is None:
            self.numbers += array
        else:
            self.numbers[rows if self.rows is None else np.searchsorted(self.rows, rows)] += array

    def _make_place_for(self, rows: Array | None) -> None:
        assert self.rows is not None
        wanted = None if rows is None else np.union1d(self.rows, rows)
        if wanted is None or 2 * len(wanted) > self.shape[0]:
            self.numbers = _spread(self.numbers, self.rows, self.shape)
            self.rows = None
        elif len(wanted) > len(self.rows):
            places, shape = np.searchsorted(wanted, self.rows), (len(wanted), *self.shape[1:])
            self.rows, self.numbers = wanted, _spread(self.numbers, places, shape)


def _combined(total: Mapping[str, _Sum], weight: float, count: int) -> Combined:
    """Laid out as an update is."""
    rows = {name: part.rows for name, part in total.items() if part.rows is not None}
    lengths: dict[str, Value] = {name: total[name].shape[0] for name in rows}
    arrays = grouped("update", {name: part.numbers for name, part in total.items()}) | grouped("rows", rows)
    return Combined(Message({"lengths": lengths}, arrays), weight, count)


def _spread(numbers: Array, places: Array, shape: tuple[int, ...]) -> Array:
    """The rows at their places, zeros between them."""
    whole = np.zeros(shape, numbers.dtype)
    whole[places] = numbers
    return whole


def _touched(array: Array) -> Array | Rows:
    """Without the rows that are zero, where it is worth leaving them out."""
    if array.ndim != 2 or len(array) < _FEWEST_ROWS:
        return array
    rows = np.flatnonzero(array.any(axis=1))
    return Rows(rows, array[rows], len(array)) if 2 * len(rows) < len(array) else array


def _shapes(sealed: Message) -> dict[str, tuple[int, ...]]:
    """The shapes of the whole update; refused where its rows are no rows of it."""
    rows, lengths = sealed.group("rows"), sealed.values.get("lengths", {})
    found = {name: array.shape for name, array in sealed.group("update").items()}
    if not isinstance(lengths, dict) or rows.keys() != lengths.keys() or not rows.keys() <= found.keys():
        raise MessageError("shapes", "an update says of other arrays which rows it holds")
    return found | {name: (_length(lengths[name], rows[name], found[name]), *found[name][1:]) for name in rows}


def _length(length: Value, rows: Array, shape: tuple[int, ...]) -> int:
    if not isinstance(length, int) or not shape or rows.dtype != np.int32 or rows.shape != (shape[0],):
        raise MessageError("shapes", "rows are told by a whole number each")
    inside = not len(rows) or (rows[0] >= 0 and rows[-1] < length and bool((np.diff(rows) > 0).all()))
    if not inside:
        raise MessageError("shapes", "rows are told in order, each once, and lie within the table")
    return length


def share_limit(sites: int, largest_share: float) -> float:
    """Return the largest share that one of so many sites may have in a mean; of two sites there is no limit."""
    return 1.0 if sites <= 2 else max(largest_share, 1.0 / sites)


def capped_weights(weights: Mapping[SiteId, float], largest_share: float) -> dict[SiteId, float]:
    """Lower the weights of sites whose share of the mean would exceed the limit, to just that share."""
    limit = share_limit(len(weights), largest_share)
    heaviest = sorted(weights, key=lambda site: (-weights[site], site))
    for count, site in enumerate(heaviest):
        # With `count` sites at the limit, the others' weights are 1 - count · limit of the whole.
        whole = math.fsum(weights[other] for other in heaviest[count:]) / (1.0 - count * limit)
        if weights[site] <= limit * whole * (1 + _TINY_SHARE):
            return {**weights, **dict.fromkeys(heaviest[:count], limit * whole)}
    # Where the limit is one site's part of all, rounding may lead here: then all weigh as much as the lightest.
    return dict.fromkeys(weights, min(weights.values(), default=0.0))


def check_weight(weight: float) -> None:
    """Refuse, with a `MessageError`, what no update can be weighed by."""
    if not _SMALLEST_WEIGHT <= weight <= _LARGEST_WEIGHT:
        raise MessageError("weight", f"a weight lies between {_SMALLEST_WEIGHT:g} and {_LARGEST_WEIGHT:g}")


def _check_numbers(name: str, array: Array, weight: float) -> None:
    if array.dtype != np.float32:
        raise MessageError("shapes", f"{name} is {array.dtype} where an update is float32")
    with np.errstate(over="ignore"):
        # Without its weight again, for that is what the mean is made of; the ends speak for all, NaN included.
        ends = np.array([array.min(initial=0), array.max(initial=0)]) / np.float32(weight)
    if not np.isfinite(ends).all():
        raise MessageError("not-a-number", f"{name} holds NaN, infinity, or what float32 cannot hold")
