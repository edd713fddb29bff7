"""The second door: a site seals its update, the coordinator combines, and whoever may read it opens the mean.

Weights are applied where the update is sealed, so that combining is adding: the coordinator keeps one running sum,
however many sites there are, and the mean is the sum over the summed weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np

from wardround.errors import MessageError
from wardround.federation.message import Array, Message, grouped

__all__ = ["Aggregator", "Combined", "Place", "PlainAggregator", "Tensors"]

Tensors = Mapping[str, Array]

# Outside these, an update times its weight may vanish in float32 or overflow it.
_SMALLEST_WEIGHT, _LARGEST_WEIGHT = 1e-9, 1e12


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

    def open(self, combined: Combined) -> dict[str, Array]:
        """The weighted mean."""


class PlainAggregator:
    """No protection: the coordinator sees every update."""

    opens_at = Place.COORDINATOR

    def seal(self, update: Tensors, *, weight: float) -> Message:
        """The update times its weight, readable, in float32."""
        _check_weight(weight)
        with np.errstate(over="ignore"):  # refused below
            weighted = {name: np.asarray(np.multiply(array, weight), np.float32) for name, array in update.items()}
        sealed = Message({"weight": float(weight)}, grouped("update", weighted))
        self.check(sealed, like=update)
        return sealed

    def check(self, sealed: Message, *, like: Tensors) -> None:
        """Refuse other names, shapes or kinds of number than expected, NaN, infinity, and a weight that is none."""
        update, weight = sealed.group("update"), sealed.value("weight", float)
        _check_weight(weight)
        if not update or _shapes(update) != _shapes(like):
            raise MessageError("shapes", "an update has other names or shapes than expected")
        for name, array in update.items():
            _check_numbers(name, array, weight)

    def combine(self, sealed: Iterable[Message]) -> Combined:
        """Add in float64, in the order of arrival."""
        total: dict[str, Array] = {}
        weight, count = 0.0, 0
        for message in sealed:
            update = message.group("update")
            self.check(message, like=total or update)
            for name, array in update.items():
                if name in total:
                    total[name] += array
                else:
                    total[name] = array.astype(np.float64)
            weight += message.value("weight", float)
            count += 1
        if not count:
            raise MessageError("empty", "there is no update to combine")
        return Combined(Message({}, grouped("sum", total)), weight, count)

    def open(self, combined: Combined) -> dict[str, Array]:
        """Sum over weights, as float32."""
        if not combined.weight > 0:
            raise MessageError("empty", "there is no update to open")
        return {name: np.asarray(a / combined.weight, np.float32) for name, a in combined.sum.group("sum").items()}


def _shapes(tensors: Tensors) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in tensors.items()}


def _check_weight(weight: float) -> None:
    if not _SMALLEST_WEIGHT <= weight <= _LARGEST_WEIGHT:
        raise MessageError("weight", f"a weight lies between {_SMALLEST_WEIGHT:g} and {_LARGEST_WEIGHT:g}")


def _check_numbers(name: str, array: Array, weight: float) -> None:
    if array.dtype != np.float32:
        raise MessageError("shapes", f"{name} is {array.dtype} where an update is float32")
    with np.errstate(over="ignore"):
        # Without its weight again, for that is what the mean is made of.
        if not np.isfinite(array / np.float32(weight)).all():
            raise MessageError("not-a-number", f"{name} holds NaN, infinity, or what float32 cannot hold")
