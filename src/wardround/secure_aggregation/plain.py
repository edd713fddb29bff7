"""Plain aggregation, the one-phase case: the coordinator sees every update.

Of a table most of whose rows an update does not touch, such as word embeddings under one mini-batch, only the touched
rows are sent: `rows/NAME` lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from wardround.errors import MessageError
from wardround.federation.aggregation import Reader, RoundSum, Rows, Tensors, check_weight, spread_rows
from wardround.federation.federation import SiteId, each_checked
from wardround.federation.message import Array, Message, Value, grouped
from wardround.federation.site_history import SiteHistory

if TYPE_CHECKING:
    from torch import Tensor

    from wardround.federation.coordinator import RoundContext

__all__ = ["Combined", "PlainClient", "PlainCodec", "PlainServer", "PlainUpdates"]

_FEWEST_ROWS = 256  # of a table that is searched for rows to leave out


@dataclass(frozen=True)
class Combined:
    """A sum of sealed updates, the sum of their weights, and how many there are."""

    sum: Message
    weight: float
    count: int


class PlainCodec(Protocol):
    """How readable updates are encoded at a site, added and averaged at the coordinator."""

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


class PlainServer:
    """The coordinator's end: checks, reweighs and adds the updates as they arrive."""

    reader = Reader.COORDINATOR

    def __init__(self, codec: PlainCodec | None = None) -> None:
        self.codec = codec or PlainUpdates()

    def aggregate(self, context: RoundContext, step: str, values: Mapping[str, Value]) -> RoundSum:
        """Return the mean Σ n_i u_i / Σ n_i of the updates that the sites answer `step` with."""
        codec, coordinator = self.codec, context.coordinator
        like, weights = coordinator.expected_arrays(), coordinator.weights_of(context.sites)

        def check(site: SiteId, reply: Message) -> None:
            codec.check(reply, like=like)
            coordinator.check_weight(site, reply.value("weight", float))

        def weighed(replies: Iterator[tuple[SiteId, Message]]) -> Iterator[Message]:
            for site, message in replies:
                own = message.value("weight", float)
                yield message if weights[site] == own else codec.reweigh(message, weights[site])

        replies = each_checked(context.ask(step, context.question(values), to=context.sites), check)
        with context.account.phase("combine"):
            combined = codec.combine(weighed(context.usable(replies)))
        with context.account.phase("open"):
            return RoundSum(tuple(context.present), codec.open(combined))


class PlainClient:
    """A site's end: the update leaves with the answer to the training step. There is nothing to save."""

    changes = 0
    redraws = 0

    def __init__(self, folder: Path, codec: PlainCodec | None = None, *, lasting: bool = False) -> None:
        self.codec = codec or PlainUpdates()
        self.history = SiteHistory(folder, lasting=lasting)

    def steps(self, replica: Any) -> Mapping[str, Callable[[Any, Message], Message]]:
        """Return no steps: there are no later phases."""
        return {}

    def begin(self, round_number: int, *, after: int, most_redraws: int) -> None:
        """Accept every round."""

    def announce(
        self, update: Tensors, *, weight: float, values: Mapping[str, Value], learn_clips: bool = False
    ) -> Message:
        """Return the update times its weight, together with `values`."""
        sealed = self.codec.seal(update, weight=weight)
        return replace(sealed, values={**sealed.values, **values})

    def state(self) -> dict[str, Tensor]:
        """Return nothing."""
        return {}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore nothing."""


class PlainUpdates:
    """No protection: the coordinator sees every update.

    Of a table most of whose rows an update does not touch, as word embeddings under one mini-batch, only the touched
    ones are sent: `rows/NAME` says which.
    """

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
            opened[name] = mean if name not in rows else spread_rows(mean, rows[name], shapes[name])
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
            self.numbers = spread_rows(self.numbers, self.rows, self.shape)
            self.rows = None
        elif len(wanted) > len(self.rows):
            places, shape = np.searchsorted(wanted, self.rows), (len(wanted), *self.shape[1:])
            self.rows, self.numbers = wanted, spread_rows(self.numbers, places, shape)


def _combined(total: Mapping[str, _Sum], weight: float, count: int) -> Combined:
    """Laid out as an update is."""
    rows = {name: part.rows for name, part in total.items() if part.rows is not None}
    lengths: dict[str, Value] = {name: total[name].shape[0] for name in rows}
    arrays = grouped("update", {name: part.numbers for name, part in total.items()}) | grouped("rows", rows)
    return Combined(Message({"lengths": lengths}, arrays), weight, count)


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


def _check_numbers(name: str, array: Array, weight: float) -> None:
    if array.dtype != np.float32:
        raise MessageError("shapes", f"{name} is {array.dtype} where an update is float32")
    with np.errstate(over="ignore"):
        # Without its weight again, for that is what the mean is made of; the ends speak for all, NaN included.
        ends = np.array([array.min(initial=0), array.max(initial=0)]) / np.float32(weight)
    if not np.isfinite(ends).all():
        raise MessageError("not-a-number", f"{name} holds NaN, infinity, or what float32 cannot hold")
