"""The aggregation seam: what an algorithm, the round loop and a site know about how updates are added.

Aggregation has a server end at the coordinator and a client end at each site. It runs in up to four phases: *announce*
(a site trains and announces its update), *submit* (each site sends its protected update), *unmask* (sites send the
seeds of their own masks, once) and *open* (the sum is read by those who may read it). Plain aggregation has the first
phase only: the announcement holds the update itself. An algorithm calls `RoundContext.gather` and receives a
`RoundSum`, whatever the mechanism.

Weights are applied at the sites, so that aggregating is adding: the coordinator keeps one running sum, however many
sites there are, and the mean is the sum divided by the summed weights.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from wardround.errors import FederationError, MessageError, SpoiledSumError
from wardround.federation.federation import SiteId
from wardround.federation.message import Array, Message, Value, grouped

if TYPE_CHECKING:
    from torch import Tensor

    from wardround.federation.coordinator import RoundContext
    from wardround.federation.site_history import SiteHistory
    from wardround.federation.unit_privacy import UnitPrivacy

__all__ = [
    "AggregationClient",
    "AggregationServer",
    "OpenSum",
    "Reader",
    "RoundSum",
    "RunningSum",
    "SealedSum",
    "SharedCopy",
    "SparseRows",
    "Tensors",
    "capped_weights",
    "check_weight",
    "dense",
    "scatter_rows",
    "share_limit",
]

Item_contra = TypeVar("Item_contra", contravariant=True)
Total_co = TypeVar("Total_co", covariant=True)

# Outside this range, an update times its weight may vanish in float32 or overflow it.
_SMALLEST_WEIGHT, _LARGEST_WEIGHT = 1e-9, 1e12
_TINY_SHARE = 1e-12
_ROUNDING = 1e-4  # largest difference between two sites that open the same sum: CKKS sums are approximate
_FLOAT = np.dtype(np.float32)


class Reader(Enum):
    """Who can read the sum of a round."""

    COORDINATOR = "coordinator"
    SITE = "site"


@dataclass(frozen=True)
class SparseRows:
    """Some rows of a table whose other rows are zero."""

    rows: Array  # [touched], ascending, without repeats
    numbers: Array  # [touched, width]
    length: int  # of the whole table

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the whole table."""
        return (self.length, *self.numbers.shape[1:])

    def to_dense(self) -> Array:
        """Return the whole table, zeros included."""
        return scatter_rows(self.numbers, self.rows, self.shape)


Tensors = Mapping[str, Array | SparseRows]


def dense(part: Array | SparseRows) -> Array:
    """Return a part of an update as a whole array."""
    return part.to_dense() if isinstance(part, SparseRows) else part


class RunningSum(Protocol[Item_contra, Total_co]):
    """A sum that grows as updates arrive, in constant memory, however many sites there are."""

    def add(self, item: Item_contra, /) -> None:
        """Add one site's part; an item that is refused with a `MessageError` leaves the sum unchanged."""

    def total(self) -> Total_co:
        """Return the sum so far; adding may continue."""


@dataclass(frozen=True)
class RoundSum(ABC):
    """The updates of a round in one sum."""

    sites: tuple[SiteId, ...]  # whose updates are in the sum
    values: Mapping[str, Value] = field(default_factory=dict, kw_only=True)  # not secret; `Coordinator.step` uses them

    @abstractmethod
    def step(self, context: RoundContext) -> None:
        """Step the shared half wherever the sum can be opened."""

    @abstractmethod
    def opened(self, context: RoundContext) -> OpenSum:
        """Return the sum opened for the coordinator."""

    @abstractmethod
    def question(self, context: RoundContext) -> Message:
        """Return what the sites need to judge the step before it is taken."""

    @abstractmethod
    def decide(self, context: RoundContext, *, taken: bool) -> None:
        """Take the step that the sites have judged, or finish the round without it."""


@dataclass(frozen=True)
class OpenSum(RoundSum):
    """A sum that the coordinator can read."""

    mean: Mapping[str, Array]

    def step(self, context: RoundContext) -> None:
        """Step the shared half at the coordinator."""
        context.coordinator.step(self.mean, self.values)

    def opened(self, context: RoundContext) -> OpenSum:
        """Return this sum."""
        return self

    def question(self, context: RoundContext) -> Message:
        """Return the shared half before and after the step."""
        coordinator = context.coordinator
        arrays = grouped("shared", coordinator.shared_views())
        arrays |= grouped("candidate", coordinator.stepped(self.mean, self.values))
        return Message({"round": coordinator.number + 1}, arrays)

    def decide(self, context: RoundContext, *, taken: bool) -> None:
        """Step the shared half, or leave it as it is."""
        if taken:
            self.step(context)


@dataclass(frozen=True)
class SealedSum(RoundSum):
    """A sum that only sites can open."""

    message: Message

    def step(self, context: RoundContext) -> None:
        """Have every site open the sum and step its own copy of the shared half."""
        before = len(context.absent)
        try:
            replies = context.answers("open_sum", self.question(context), check=_check_digest, all_sites=True)
            for site, answer in replies:
                context.digests[site] = answer.value("shared", str)
        except FederationError as error:
            refusals = [absent for absent in context.absent[before:] if absent.code == "sum"]
            if 2 * len(refusals) <= len(context.federation.sites):
                raise
            raise SpoiledSumError(f"most sites refuse the round's sum: {error}", sites=self.sites) from None

    def opened(self, context: RoundContext) -> OpenSum:
        """Have the sites of the round open the sum for the coordinator; return the mean that most of them found."""
        check = partial(_check_mean, like=context.coordinator.expected_arrays())
        means = [
            answer.group("mean") for _, answer in context.answers("open_mean", self.question(context), check=check)
        ]
        for mean in means:
            equal = [other for other in means if all(np.allclose(other[n], a, atol=_ROUNDING) for n, a in mean.items())]
            if 2 * len(equal) > len(means):
                return OpenSum(self.sites, mean, values=self.values)
        raise FederationError("the sites do not agree on what they opened")

    def question(self, context: RoundContext) -> Message:
        """Return the sealed sum, which the sites open."""
        return replace(self.message, values={**self.message.values, **self.values})

    def decide(self, context: RoundContext, *, taken: bool) -> None:
        """Have every site step its own copy of the shared half, or leave it as it is."""
        decision = Message({**self.values, "round": context.coordinator.number + 1, "taken": taken})
        for site, answer in context.answers("decide", decision, check=_check_digest, all_sites=True):
            context.digests[site] = answer.value("shared", str)


def _check_digest(answer: Message) -> None:
    answer.value("shared", str)


def _check_mean(answer: Message, *, like: Mapping[str, Array]) -> None:
    mean = answer.group("mean")
    if {name: (a.dtype, a.shape) for name, a in mean.items()} != {n: (_FLOAT, a.shape) for n, a in like.items()}:
        raise MessageError("shapes", "a mean has other names or shapes than expected")
    if not all(np.isfinite(array).all() for array in mean.values()):
        raise MessageError("not-a-number", "a mean holds NaN or infinity")


class AggregationServer(Protocol):
    """The coordinator's end of a mechanism."""

    @property
    def reader(self) -> Reader:
        """Return who can read the sum."""

    def aggregate(self, context: RoundContext, step: str, values: Mapping[str, Value]) -> RoundSum:
        """Run all phases of one aggregation; in the first, the sites of the round train as `step` says."""


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
        """Return what belongs to the shared half: the state of the optimizer or of the algorithm."""

    def state(self) -> dict[str, Tensor]:
        """Return everything that must be saved."""

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""


class AggregationClient(Protocol):
    """A site's end of a mechanism."""

    @property
    def history(self) -> SiteHistory:
        """Return the site's permanent record of rounds, sums and refusals."""

    @property
    def unit_privacy(self) -> UnitPrivacy | None:
        """Return who samples units and adds noise; None without differential privacy."""

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


def share_limit(sites: int, largest_share: float) -> float:
    """Return the largest share that one of `sites` may have in a mean; for two sites there is no limit."""
    return 1.0 if sites <= 2 else max(largest_share, 1.0 / sites)


def capped_weights(weights: Mapping[SiteId, float], largest_share: float) -> dict[SiteId, float]:
    """Return the weights, lowered to the limit for sites whose share of the mean would exceed it."""
    limit = share_limit(len(weights), largest_share)
    heaviest = sorted(weights, key=lambda site: (-weights[site], site))
    for count, site in enumerate(heaviest):
        # With `count` sites at the limit, the weights of the others are 1 - count · limit of the total.
        total = math.fsum(weights[other] for other in heaviest[count:]) / (1.0 - count * limit)
        if weights[site] <= limit * total * (1 + _TINY_SHARE):
            return {**weights, **dict.fromkeys(heaviest[:count], limit * total)}
    # If the limit is 1 / sites, rounding may lead here: then every site weighs as much as the lightest.
    return dict.fromkeys(weights, min(weights.values(), default=0.0))


def check_weight(weight: float) -> None:
    """Raise a `MessageError` for a weight that no update can have."""
    if not _SMALLEST_WEIGHT <= weight <= _LARGEST_WEIGHT:
        raise MessageError("weight", f"a weight lies between {_SMALLEST_WEIGHT:g} and {_LARGEST_WEIGHT:g}")


def scatter_rows(numbers: Array, places: Array, shape: tuple[int, ...]) -> Array:
    """Return a table of zeros with `numbers` in the rows `places`."""
    table = np.zeros(shape, numbers.dtype)
    table[places] = numbers
    return table
