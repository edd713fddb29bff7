"""The aggregation seam: what an algorithm, the round loop and a site know of how updates are added.

Aggregation has a server end at the coordinator and a client end at each site. It runs in up to four phases: *announce*
(a site trains and announces its update), *submit* (each site sends its protected update), *unmask* (sites send the
seeds of their own masks, once) and *open* (the sum is read by those who may). Plain aggregation has the first phase
only: the announcement holds the update itself. An algorithm calls `RoundContext.gather` and receives a `RoundSum`,
whatever the mechanism.

Weights are applied at the sites, so that aggregating is adding: the coordinator keeps one running sum, however many
sites there are, and the mean is the sum divided by the summed weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from wardround.errors import FederationError, MessageError
from wardround.federation.federation import SiteId
from wardround.federation.message import Array, Message, Value

if TYPE_CHECKING:
    from torch import Tensor

    from wardround.federation.coordinator import RoundContext
    from wardround.federation.site_history import SiteHistory

__all__ = [
    "AggregationClient",
    "AggregationServer",
    "Reader",
    "RoundSum",
    "Rows",
    "SharedCopy",
    "Tensors",
    "agreed_mean",
    "capped_weights",
    "check_opened",
    "check_weight",
    "share_limit",
    "spread_rows",
    "with_values",
]

# Outside these, an update times its weight may vanish in float32 or overflow it.
_SMALLEST_WEIGHT, _LARGEST_WEIGHT = 1e-9, 1e12
_TINY_SHARE = 1e-12
_ROUNDING = 1e-4  # by which two sites may open the same sum differently: CKKS sums are approximate
_FLOAT = np.dtype(np.float32)


class Reader(Enum):
    """Who can read the sum of a round."""

    COORDINATOR = "coordinator"
    SITE = "site"


@dataclass(frozen=True)
class Rows:
    """A table whose rows are all zero but these."""

    rows: Array  # [touched], in order, each once
    numbers: Array  # [touched, width]
    length: int  # of the whole table

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the whole table."""
        return (self.length, *self.numbers.shape[1:])

    def whole(self) -> Array:
        """Return the whole table, zeros included."""
        return spread_rows(self.numbers, self.rows, self.shape)


Tensors = Mapping[str, Array | Rows]


@dataclass(frozen=True)
class RoundSum:
    """The updates of a round in one sum: its mean, or, where only sites can open it, the message to them."""

    sites: tuple[SiteId, ...]  # whose updates are in it
    mean: Mapping[str, Array] | None = None
    sealed: Message | None = None
    values: Mapping[str, Value] = field(default_factory=dict)  # what `step` needs beside the mean; not secret


class AggregationServer(Protocol):
    """The coordinator's end of a mechanism."""

    @property
    def reader(self) -> Reader:
        """Return who can read the sum."""

    def aggregate(self, context: RoundContext, step: str, values: Mapping[str, Value]) -> RoundSum:
        """Run all phases of one aggregation among the sites of a round, in which they answer `step`."""


class SharedCopy(Protocol):
    """A site's own copy of the shared half, kept where only sites can open the sum."""

    @property
    def number(self) -> int:
        """Return the last round that this copy has stepped."""

    @property
    def changes(self) -> int:
        """Return a count that grows whenever the state must be written again."""

    def arrays(self, *, after: int) -> dict[str, Array]:
        """Return the shared half after a round, which must be the last that this copy has stepped."""

    def keep_scored(self, best_round: int) -> None:
        """Keep the shared half that is being scored; `best_round` is the best round before it."""

    def best(self, best_round: int) -> dict[str, Array]:
        """Return the shared half of the best round."""

    def optimizer_state(self) -> dict[str, Tensor]:
        """Return what goes with the shared half: the optimizer's state, or an algorithm's own."""

    def state(self) -> dict[str, Tensor]:
        """Return everything that must be saved."""

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""


class AggregationClient(Protocol):
    """A site's end of a mechanism."""

    @property
    def history(self) -> SiteHistory:
        """Return the site's lasting record of rounds, sums and refusals."""

    @property
    def changes(self) -> int:
        """Return a count that grows whenever the state must be written again."""

    @property
    def redraws(self) -> int:
        """Return how often this site drew other sentences because its update had been opened."""

    def steps(self, replica: Any) -> Mapping[str, Callable[[Any, Message], Message]]:
        """Return the steps of the later phases that the site answers; `replica` is its copy of the shared half."""

    def begin(self, round_number: int, *, after: int, most_redraws: int) -> None:
        """Prepare for training in a round from the state after another; raise a `MessageError` to refuse it."""

    def announce(
        self, update: Tensors, *, weight: float, values: Mapping[str, Value], learn_clips: bool = False
    ) -> Message:
        """Return the answer to a training step: the update itself, or the announcement of one that is held."""

    def state(self) -> dict[str, Tensor]:
        """Return what must be saved with the state of the site."""

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""


def check_opened(answer: Message, *, like: Mapping[str, Array]) -> None:
    """Refuse what cannot be the opened mean of arrays named and shaped `like` these."""
    mean = answer.group("mean")
    if {name: (a.dtype, a.shape) for name, a in mean.items()} != {n: (_FLOAT, a.shape) for n, a in like.items()}:
        raise MessageError("shapes", "a mean has other names or shapes than expected")
    if not all(np.isfinite(array).all() for array in mean.values()):
        raise MessageError("not-a-number", "a mean holds NaN or infinity")


def agreed_mean(means: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """What most sites opened; they opened the same sum, so that the others, up to rounding, must say the same."""
    for mean in means:
        alike = [other for other in means if all(np.allclose(other[n], a, atol=_ROUNDING) for n, a in mean.items())]
        if 2 * len(alike) > len(means):
            return dict(mean)
    raise FederationError("the sites do not agree on what they opened")


def with_values(message: Message, values: Mapping[str, Value]) -> Message:
    """The same message, saying more."""
    return replace(message, values={**message.values, **values})


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
    """Raise a `MessageError` for a weight that no update can have."""
    if not _SMALLEST_WEIGHT <= weight <= _LARGEST_WEIGHT:
        raise MessageError("weight", f"a weight lies between {_SMALLEST_WEIGHT:g} and {_LARGEST_WEIGHT:g}")


def spread_rows(numbers: Array, places: Array, shape: tuple[int, ...]) -> Array:
    """Return a table of zeros with these rows at their places."""
    whole = np.zeros(shape, numbers.dtype)
    whole[places] = numbers
    return whole
