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

    def combine(self, sealed: Iterable[Message]) -> Combined:
        """The running sum of sealed updates; needs no secret."""

    def open(self, combined: Combined) -> dict[str, Array]:
        """The weighted mean."""


class PlainAggregator:
    """No protection: the coordinator sees every update."""

    opens_at = Place.COORDINATOR

    def seal(self, update: Tensors, *, weight: float) -> Message:
        """The update times its weight, readable."""
        if not weight > 0 or not np.isfinite(weight):
            raise MessageError("weight", "an update's weight is a number above zero")
        weighted = {name: np.asarray(array, dtype=np.float32) * np.float32(weight) for name, array in update.items()}
        for name, array in weighted.items():
            _check_finite(name, array)
        return Message({"weight": float(weight)}, grouped("update", weighted))

    def combine(self, sealed: Iterable[Message]) -> Combined:
        """Add in float64, in the order of arrival."""
        total: dict[str, Array] = {}
        weight, count = 0.0, 0
        for message in sealed:
            update = message.group("update")
            _check_same_shapes(total, update, first=count == 0)
            for name, array in update.items():
                _check_finite(name, array)
                if count:
                    total[name] += array
                else:
                    total[name] = array.astype(np.float64)
            weight += message.value("weight", float)
            count += 1
        return Combined(Message({}, grouped("sum", total)), weight, count)

    def open(self, combined: Combined) -> dict[str, Array]:
        """Sum over weights, as float32."""
        if not combined.count:
            raise MessageError("empty", "there is no update to open")
        return {name: (a / combined.weight).astype(np.float32) for name, a in combined.sum.group("sum").items()}


def _check_same_shapes(total: Tensors, update: Tensors, *, first: bool) -> None:
    if not update or (not first and {n: a.shape for n, a in total.items()} != {n: a.shape for n, a in update.items()}):
        raise MessageError("shapes", "an update has other names or shapes than the others")


def _check_finite(name: str, array: Array) -> None:
    if not np.isfinite(array).all():
        raise MessageError("not-a-number", f"{name} holds NaN or infinity")
