"""Plain aggregation, the one-phase case: the coordinator sees every update.

If an update changes few rows of a table, as one mini-batch does with word embeddings, only these rows are sent;
`rows/NAME` lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from wardround.errors import MessageError
from wardround.federation.aggregation import (
    OpenSum,
    Reader,
    RoundSum,
    RunningSum,
    SparseRows,
    Tensors,
    check_weight,
    scatter_rows,
)
from wardround.federation.federation import SiteId, checked_by_site
from wardround.federation.message import Array, Message, Value
from wardround.federation.site_history import SiteHistory

if TYPE_CHECKING:
    from torch import Tensor

    from wardround.federation.coordinator import RoundContext

__all__ = [
    "IntegerUpdates",
    "PlainClient",
    "PlainCodec",
    "PlainServer",
    "PlainUpdates",
    "TableSum",
    "UpdateSum",
]

_FEWEST_ROWS = 256  # smaller tables are sent whole
_LARGEST_FLOAT = float(np.finfo(np.float32).max)


class PlainCodec(Protocol):
    """How readable updates are encoded at a site, and added and averaged at the coordinator."""

    def seal(self, update: Tensors, *, weight: float) -> Message:
        """Return the message of an update and its weight."""

    def check(self, sealed: Message, *, like: Tensors) -> None:
        """Raise a `MessageError` unless this can be an update of arrays with the names and shapes of `like`."""

    def reweigh(self, sealed: Message, weight: float) -> Message:
        """Return the same update with another weight."""

    def sum(self) -> RunningSum[Message, dict[str, Array]]:
        """Return an empty sum of updates; its total is their weighted mean."""


class PlainServer:
    """The coordinator's end: check, reweigh and add the updates as they arrive."""

    reader = Reader.COORDINATOR

    def __init__(self, codec: PlainCodec | None = None) -> None:
        self.codec = codec or PlainUpdates()

    def aggregate(self, context: RoundContext, step: str, values: Mapping[str, Value]) -> RoundSum:
        """Ask the sites for `step`; return the mean Σ n_i u_i / Σ n_i of their updates."""
        codec, weights = self.codec, context.coordinator.weights_of(context.sites)
        running = codec.sum()
        with context.cost.phase("combine"):
            for site, message in self.updates(context, step, values):
                own = message.value("weight", float)
                running.add(message if weights[site] == own else codec.reweigh(message, weights[site]))
        with context.cost.phase("open"):
            return OpenSum(tuple(context.present), running.total())

    def updates(
        self, context: RoundContext, step: str, values: Mapping[str, Value]
    ) -> Iterator[tuple[SiteId, Message]]:
        """Ask the sites for `step`; yield each update as it arrives, checked."""
        codec, coordinator = self.codec, context.coordinator
        like = coordinator.expected_arrays()

        def check(site: SiteId, reply: Message) -> None:
            codec.check(reply, like=like)
            coordinator.check_weight(site, reply.value("weight", float))

        yield from context.usable(checked_by_site(context.ask(step, context.question(values), to=context.sites), check))


class PlainClient:
    """A site's end: the update is sent with the answer to the training step. There is no state to save."""

    changes = 0
    redraws = 0
    unit_privacy = None

    def __init__(self, folder: Path, codec: PlainCodec | None = None, *, durable: bool = False) -> None:
        self.codec = codec or PlainUpdates()
        self.history = SiteHistory(folder, durable=durable)

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
    """Updates as readable float32 arrays, multiplied by their weight; a `PlainCodec`."""

    def seal(self, update: Tensors, *, weight: float) -> Message:
        """Return the update times its weight."""
        check_weight(weight)
        lengths: dict[str, Value] = {}  # of tables that are sent in part
        arrays: dict[str, Array] = {}
        with np.errstate(over="ignore"):  # an overflow is refused
            for name, part in update.items():
                found = part if isinstance(part, SparseRows) else _touched(part)
                if isinstance(found, SparseRows):
                    lengths[name], arrays[f"rows/{name}"] = found.length, np.asarray(found.rows, np.int32)
                numbers = found.numbers if isinstance(found, SparseRows) else found
                arrays[f"update/{name}"] = np.asarray(np.multiply(numbers, weight), np.float32)
                _check_numbers(name, arrays[f"update/{name}"], weight)
        if not arrays:
            raise MessageError("shapes", "an update without arrays cannot be added")
        return Message({"weight": float(weight)} | ({"lengths": lengths} if lengths else {}), arrays)

    def check(self, sealed: Message, *, like: Tensors) -> None:
        """Raise a `MessageError` for unexpected names, shapes or dtypes, NaN, infinity, or an impossible weight."""
        update, weight = sealed.group("update"), sealed.value("weight", float)
        check_weight(weight)
        if not update or _shapes(sealed) != {name: array.shape for name, array in like.items()}:
            raise MessageError("shapes", "an update has other names or shapes than expected")
        for name, array in update.items():
            _check_numbers(name, array, weight)

    def reweigh(self, sealed: Message, weight: float) -> Message:
        """Return the update times `weight` in place of its own weight."""
        factor = np.float32(weight / sealed.value("weight", float))
        update = {f"update/{name}": np.asarray(array * factor) for name, array in sealed.group("update").items()}
        return Message({**sealed.values, "weight": weight}, {**sealed.arrays, **update}, sealed.blobs)

    def sum(self) -> UpdateSum:
        """Return an empty sum."""
        return UpdateSum()


class UpdateSum:
    """A sum of updates in float64, in the order of arrival; the total is their weighted mean in float32."""

    def __init__(self) -> None:
        self.tables: dict[str, TableSum] = {}
        self.weight = 0.0
        self.count = 0

    def add(self, message: Message) -> None:
        """Add an update; its names and shapes must be those of the updates before it."""
        shapes, own = _shapes(message), message.value("weight", float)
        check_weight(own)
        tables = self.tables or {name: TableSum(shape) for name, shape in shapes.items()}
        if not shapes or shapes != {name: table.shape for name, table in tables.items()}:
            raise MessageError("shapes", "updates have different names or shapes")
        rows, update = message.group("rows"), message.group("update")
        for array in update.values():
            if array.dtype != np.float32:
                raise MessageError("shapes", f"an update is float32, not {array.dtype}")
        for name, array in update.items():
            tables[name].add(SparseRows(rows[name], array, tables[name].shape[0]) if name in rows else array)
        self.tables, self.weight, self.count = tables, self.weight + own, self.count + 1

    def total(self) -> dict[str, Array]:
        """Return the mean; raise a `MessageError` if a number in it is not finite."""
        if not self.count:
            raise MessageError("empty", "there is no update to add")
        mean = {}
        for name, table in self.tables.items():
            with np.errstate(over="ignore"):
                numbers = self._mean(table.numbers)
            _check_numbers(name, numbers, 1.0)
            mean[name] = numbers if table.rows is None else scatter_rows(numbers, table.rows, table.shape)
        return mean

    def _mean(self, numbers: Array) -> Array:
        """Return sums divided by the summed weight."""
        return np.asarray(numbers / self.weight, np.float32)


class IntegerUpdates(PlainUpdates):
    """Updates of integers, which float32 holds exactly below 2^24; an integer stands for that many times `unit`."""

    def __init__(self, unit: float) -> None:
        self._unit = unit

    def sum(self) -> UpdateSum:
        """Return an empty sum; its total is the mean over the sites times the unit."""
        return _IntegerSum(self._unit)


class _IntegerSum(UpdateSum):
    def __init__(self, unit: float) -> None:
        super().__init__()
        self._unit = unit

    def _mean(self, numbers: Array) -> Array:
        return np.asarray(numbers * (self._unit / self.count), np.float32)


class TableSum:
    """A sum of arrays in float64; of a table only the changed rows are stored while they are few."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.rows: Array | None = np.zeros(0, np.int32) if len(shape) == 2 else None  # None: all of them
        self.numbers: Array = np.zeros(shape if self.rows is None else (0, *shape[1:]))

    def add(self, part: Array | SparseRows) -> None:
        """Add an array, or some rows of one."""
        rows, numbers = (part.rows, part.numbers) if isinstance(part, SparseRows) else (None, part)
        if self.rows is not None:
            needed = None if rows is None else np.union1d(self.rows, rows)
            if needed is None or 2 * len(needed) > self.shape[0]:
                self.numbers, self.rows = scatter_rows(self.numbers, self.rows, self.shape), None
            elif len(needed) > len(self.rows):
                places, shape = np.searchsorted(needed, self.rows), (len(needed), *self.shape[1:])
                self.rows, self.numbers = needed, scatter_rows(self.numbers, places, shape)
        if rows is None:
            self.numbers += numbers
        else:
            self.numbers[rows if self.rows is None else np.searchsorted(self.rows, rows)] += numbers


def _touched(array: Array) -> Array | SparseRows:
    """Return the non-zero rows of a large table if they are fewer than half of it; otherwise return the array."""
    if array.ndim != 2 or len(array) < _FEWEST_ROWS:
        return array
    rows = np.flatnonzero(array.any(axis=1))
    return SparseRows(rows, array[rows], len(array)) if 2 * len(rows) < len(array) else array


def _shapes(sealed: Message) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the whole update; raise if it lists rows of other arrays."""
    rows, lengths = sealed.group("rows"), sealed.values.get("lengths", {})
    found = {name: array.shape for name, array in sealed.group("update").items()}
    if not isinstance(lengths, dict) or rows.keys() != lengths.keys() or not rows.keys() <= found.keys():
        raise MessageError("shapes", "an update lists rows of arrays that it does not hold")
    for name, listed in rows.items():
        length, shape = lengths[name], found[name]
        if not isinstance(length, int) or not shape or listed.dtype != np.int32 or listed.shape != (shape[0],):
            raise MessageError("shapes", "rows are listed as int32, one for each row that is sent")
        if len(listed) and not (listed[0] >= 0 and listed[-1] < length and (np.diff(listed) > 0).all()):
            raise MessageError("shapes", "rows are ascending, without repeats, and lie within the table")
        found[name] = (length, *shape[1:])
    return found


def _check_numbers(name: str, array: Array, weight: float) -> None:
    if array.dtype != np.float32:
        raise MessageError("shapes", f"{name} is {array.dtype}; an update is float32")
    # The smallest and the largest number are enough, NaN included; divided by the weight, as in the mean.
    low, high = float(array.min(initial=0)), float(array.max(initial=0))
    if not (-_LARGEST_FLOAT <= low / weight and high / weight <= _LARGEST_FLOAT):
        raise MessageError("not-a-number", f"{name} holds NaN, infinity, or a number that float32 cannot hold")
