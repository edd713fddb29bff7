"""Robust aggregation where single updates are visible: rules that limit what a few malicious sites can do to a mean.

`Robust(Plain(), settings)` wraps the plain mechanism. Sites send what they always send; the coordinator compares the
updates of a round number by number and combines them by a rule. Every rule counts each site once, whatever size it
describes: a size is the site's own word. See docs/poisoning.md for what each rule withstands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from wardround.errors import StudyError
from wardround.federation.aggregation import (
    AggregationClient,
    AggregationServer,
    OpenSum,
    Reader,
    RoundSum,
    scatter_rows,
)
from wardround.federation.federation import SiteId
from wardround.federation.message import Array, Message, Value
from wardround.secure_aggregation.mechanisms import ClientSetup, Mechanism, ServerSetup
from wardround.secure_aggregation.plain import PlainServer

if TYPE_CHECKING:
    from wardround.federation.coordinator import RoundContext

__all__ = [
    "CentredClipping",
    "Median",
    "MultiKrum",
    "Robust",
    "RobustAggregation",
    "RobustRule",
    "RobustServer",
    "TrimmedMean",
    "VisibleUpdates",
    "check_memory",
]

_SCRATCH = 2**22  # numbers of all sites in one chunk: 32 MiB in float64
_GIB = 2**30


@dataclass(frozen=True)
class RobustAggregation:
    """The section [privacy.robust] of a study file."""

    rule: Literal["median", "trimmed_mean", "multi_krum", "centred_clipping"]
    malicious: int = 1  # f of Krum, b of the trimmed mean: sites of a round that may send anything
    selected: int = 0  # m, the updates that multi_krum averages; 0: all but `malicious`
    radius: float = 0.0  # τ of centred_clipping, the largest distance from the centre; 0: the sites' median distance
    iterations: int = 3  # L of centred_clipping
    memory: float = 4.0  # GiB that the updates of one round may need at the coordinator

    def __post_init__(self) -> None:
        if self.malicious < 1:
            raise StudyError(f"malicious is {self.malicious}; it must be at least 1, the sites that may send anything")
        if self.selected < 0:
            raise StudyError(f"selected is {self.selected}; it must be a number of updates, or 0 for the default")
        if not 0 <= self.radius < math.inf:
            raise StudyError(f"radius is {self.radius}; it must be a distance, or 0 for the sites' median distance")
        if self.iterations < 1:
            raise StudyError(f"iterations is {self.iterations}; it must be at least 1")
        if not 0 < self.memory < math.inf:
            raise StudyError(f"memory is {self.memory}; it must be a number of GiB above zero")
        for name, owner in (
            ("selected", "multi_krum"),
            ("radius", "centred_clipping"),
            ("iterations", "centred_clipping"),
        ):
            if self.rule != owner and getattr(self, name) != getattr(type(self), name):
                raise StudyError(f"{name} belongs to rule {owner}, not {self.rule}; leave it out")

    @property
    def built(self) -> RobustRule:
        """Return the rule with these settings."""
        if self.rule == "median":
            return Median()
        if self.rule == "trimmed_mean":
            return TrimmedMean(self.malicious)
        if self.rule == "multi_krum":
            return MultiKrum(self.malicious, self.selected)
        return CentredClipping(self.radius, self.iterations)

    @property
    def fewest_sites(self) -> int:
        """Return the fewest sites of a round among which the rule withstands `malicious` ones."""
        return 2 * self.malicious + (3 if self.rule == "multi_krum" else 1)


class VisibleUpdates:
    """The updates of a round, held as they were sent, and read in chunks of numbers.

    An update was multiplied by its weight at its site, and is divided by it here. Of a table that sites sent in part,
    the missing rows are zero. A chunk holds about four million numbers of all sites together, but at least one row.
    """

    def __init__(self, messages: Mapping[SiteId, Message], like: Mapping[str, Array]) -> None:
        self.sites = tuple(messages)
        self._messages = tuple(messages.values())
        self._weights = np.array([message.value("weight", float) for message in self._messages])
        self._shapes = {name: array.shape for name, array in like.items()}

    def __len__(self) -> int:
        return len(self.sites)

    def chunks(self) -> Iterator[tuple[str, slice, Array]]:
        """Yield the name of an array, its rows, and their numbers at each site, [sites, rows * width] in float64."""
        for name, shape in self._shapes.items():
            length, width = (shape[0], math.prod(shape[1:])) if shape else (1, 1)
            step = max(1, _SCRATCH // (len(self) * max(1, width)))
            for start in range(0, length, step):
                rows = slice(start, min(start + step, length))
                yield name, rows, self._numbers(name, rows, width)

    def combined(self, rule: Callable[[Array], Array]) -> dict[str, Array]:
        """Return the arrays that a rule makes of each chunk, [sites, numbers] to [numbers].

        A rule returns means of what was sent, with weights that add up to at most one, so float32 can hold its result.
        """
        result: dict[str, Array] = {name: np.zeros(shape, np.float32) for name, shape in self._shapes.items()}
        for name, rows, numbers in self.chunks():
            table = result[name].reshape(result[name].shape or (1,))
            table[rows] = rule(numbers).reshape(table[rows].shape)
        return result

    def mean(self, weights: Array) -> dict[str, Array]:
        """Return the sum of the updates, each times its weight in `weights`, [sites]."""
        return self.combined(lambda numbers: weights @ numbers)

    def _numbers(self, name: str, rows: slice, width: int) -> Array:
        numbers = np.empty((len(self), (rows.stop - rows.start) * width))
        for place, message in enumerate(self._messages):
            sent, listed = message.arrays[f"update/{name}"], message.arrays.get(f"rows/{name}")
            if listed is None:
                part = sent.reshape(sent.shape or (1,))[rows]
            else:
                low, high = np.searchsorted(listed, (rows.start, rows.stop))
                shape = (rows.stop - rows.start, *sent.shape[1:])
                part = scatter_rows(sent[low:high], listed[low:high] - rows.start, shape)
            numbers[place] = part.reshape(-1)
        return np.asarray(numbers / self._weights[:, None])


class RobustRule(Protocol):
    """A way to combine updates, of which some may be anything."""

    def combine(self, updates: VisibleUpdates) -> tuple[dict[str, Array], Array]:
        """Return the combined update, and the share of each site's numbers that was used, [sites]."""


class TrimmedMean:
    """The mean of each number without its largest and smallest values (Yin et al. 2018, Definition 2)."""

    def __init__(self, trimmed: int) -> None:
        self.trimmed = trimmed  # b, values that are left out at each end

    def combine(self, updates: VisibleUpdates) -> tuple[dict[str, Array], Array]:
        """Sort the values of each number, and average those in the middle."""
        trimmed = min(self.trimmed, (len(updates) - 1) // 2)
        used, differing = np.zeros(len(updates)), 0

        def middle(numbers: Array) -> Array:
            nonlocal used, differing
            kept = np.sort(numbers, axis=0)[trimmed : len(updates) - trimmed]
            # Numbers that are the same at every site, such as rows that none touched, say nothing about a site.
            differs = numbers.min(axis=0) != numbers.max(axis=0)
            used += ((numbers >= kept[0]) & (numbers <= kept[-1]) & differs).sum(axis=1)
            differing += int(differs.sum())
            return np.asarray(kept.mean(axis=0))

        combined = updates.combined(middle)
        return combined, used / differing if differing else np.ones(len(updates))


class Median:
    """The median of each number (Yin et al. 2018, Definition 1); of an even number of sites, the mean of the middle."""

    def combine(self, updates: VisibleUpdates) -> tuple[dict[str, Array], Array]:
        """Leave out all values but one or two."""
        return TrimmedMean(len(updates)).combine(updates)


class MultiKrum:
    """The mean of the updates that are nearest to their neighbours (Blanchard et al. 2017)."""

    def __init__(self, malicious: int, selected: int = 0) -> None:
        self.malicious = malicious  # f
        self.selected = selected  # m; 0: all but f

    def combine(self, updates: VisibleUpdates) -> tuple[dict[str, Array], Array]:
        """Average the m updates with the smallest sums of squared distances to their n - f - 2 nearest ones."""
        count = len(updates)
        distances = np.zeros((count, count))  # squared
        for _, _, numbers in updates.chunks():
            for place in range(count - 1):
                distances[place, place + 1 :] += np.square(numbers[place + 1 :] - numbers[place]).sum(axis=1)
        distances += distances.T
        nearest = max(1, count - self.malicious - 2)
        # The first column is the distance of an update to itself.
        scores = np.sort(distances, axis=1)[:, 1 : nearest + 1].sum(axis=1)
        most = max(1, count - self.malicious)
        chosen = np.argsort(scores, kind="stable")[: min(self.selected or most, most)]
        used = np.zeros(count)
        used[chosen] = 1.0
        return updates.mean(used / len(chosen)), used


class CentredClipping:
    """The mean of the updates, of which none is further than a radius from the centre (Karimireddy et al. 2021).

    The paper starts from the aggregate of the previous round. Here the first centre is the median of each number, so
    that a round depends on its own updates only and a study resumes unchanged.
    """

    def __init__(self, radius: float, iterations: int) -> None:
        self.radius = radius  # τ; 0: the median of the sites' distances
        self.iterations = iterations  # L

    def combine(self, updates: VisibleUpdates) -> tuple[dict[str, Array], Array]:
        """Compute v ← v + 1/n Σ (x_i − v) min(1, τ / ‖x_i − v‖), L times."""
        centre, _ = Median().combine(updates)
        used = np.ones(len(updates))
        for _ in range(self.iterations):
            squares = np.zeros(len(updates))
            for name, rows, numbers in updates.chunks():
                table = centre[name].reshape(centre[name].shape or (1,))
                squares += np.square(numbers - table[rows].reshape(-1)).sum(axis=1)
            distances = np.sqrt(squares)
            radius = self.radius or float(np.median(distances))
            used = np.minimum(1.0, np.divide(radius, distances, out=np.ones(len(updates)), where=distances > 0))
            weights = used / len(updates)
            moved, rest = updates.mean(weights), np.float32(1.0 - weights.sum())
            centre = {name: np.asarray(moved[name] + rest * centre[name], np.float32) for name in centre}
        return centre, used


class RobustServer:
    """The coordinator's end: hold the checked updates of a round and combine them by a rule."""

    reader = Reader.COORDINATOR

    def __init__(self, inner: PlainServer, rule: RobustRule) -> None:
        self.inner, self.rule = inner, rule

    def aggregate(self, context: RoundContext, step: str, values: Mapping[str, Value]) -> RoundSum:
        """Ask the sites for `step`; return what the rule makes of their updates."""
        answers = dict(self.inner.updates(context, step, values))
        # In the order of the study, so that a result does not depend on which site answers first.
        ordered = {site: answers[site] for site in context.sites if site in answers}
        updates = VisibleUpdates(ordered, context.coordinator.expected_arrays())
        with context.cost.phase("combine"):
            combined, used = self.rule.combine(updates)
        context.used = dict(zip(updates.sites, map(float, used), strict=True))
        return OpenSum(updates.sites, combined)


_RULES: Mapping[str, str] = {
    "median": "of each number it uses the median over the sites",
    "trimmed_mean": "of each number it leaves out the {malicious} largest and the {malicious} smallest, and averages "
    "the others",
    "multi_krum": "it averages the updates that are nearest to each other and leaves out {malicious} or more",
    "centred_clipping": "it moves updates that are far from the others towards their centre",
}


class Robust(Mechanism):
    """A rule that combines the visible updates of another mechanism."""

    def __init__(self, inner: Mechanism, settings: RobustAggregation) -> None:
        self.inner, self.settings = inner, settings
        self.name = f"{inner.name} with {settings.rule}"
        self.protects, self.seals, self.masks = inner.protects, inner.seals, inner.masks
        self.minimum_sites, self.packages = settings.fewest_sites, inner.packages
        self.coordinator_reads_update = inner.coordinator_reads_update
        self.coordinator_reads_sum = inner.coordinator_reads_sum
        self.coordinator_and_one_site_read_update = inner.coordinator_and_one_site_read_update
        rule = _RULES[settings.rule].format(malicious=settings.malicious)
        limit = (
            f"Each site counts once, whatever its size. This limits what {settings.malicious} malicious of "
            f"{settings.fewest_sites} or more sites can do to the shared layers."
        )
        self.updates_readable_by = (
            f"{inner.updates_readable_by} The coordinator does not add updates: {rule}. {limit} How much of each "
            "site's update is used is written to the coordinator's log."
        )
        self.predictions_readable_by = inner.predictions_readable_by
        self.summary = f"{inner.summary} Robust aggregation: {rule}."
        self.predictions_summary = inner.predictions_summary
        self.report = f"{inner.report} Robust aggregation: {rule}. {limit}"

    def server(self, setup: ServerSetup) -> AggregationServer:
        """Build the coordinator's end, which holds the updates of a round."""
        inner = self.inner.server(setup)
        assert isinstance(inner, PlainServer), "a robust rule wraps a mechanism whose updates are visible"
        return RobustServer(inner, self.settings.built)

    def client(self, setup: ClientSetup) -> AggregationClient:
        """Build a site's end: that of the wrapped mechanism."""
        return self.inner.client(setup)


def check_memory(settings: RobustAggregation, *, sites: int, numbers: int) -> None:
    """Raise a `StudyError` if the updates of one round need more memory than the study allows."""
    needed = 4 * sites * numbers / _GIB
    if needed > settings.memory:
        raise StudyError(
            f"[privacy.robust] {settings.rule} needs all updates of a round at once: {sites} sites times {numbers:,} "
            f"numbers are {needed:.2f} GiB, and memory allows {settings.memory:g}; share fewer layers, ask fewer sites "
            "a round (participation), or raise memory if the coordinator has it"
        )
