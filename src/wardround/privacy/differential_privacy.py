"""Differential privacy around any mechanism: clipped units, and noise that the sites add before their updates leave.

`DifferentiallyPrivate(mechanism, settings)` wraps a mechanism. The wrapped mechanism adds integers exactly; what
reaches it already holds the site's noise. See docs/differential-privacy.md for what is promised to whom.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from wardround.errors import StudyError
from wardround.federation.aggregation import AggregationClient, AggregationServer, Tensors
from wardround.federation.message import Message, Value
from wardround.federation.unit_privacy import NoisePlan, UnitPrivacy
from wardround.secure_aggregation.mechanisms import ClientSetup, Mechanism, ServerSetup

if TYPE_CHECKING:
    from torch import Tensor

    from wardround.federation.site_history import SiteHistory

__all__ = ["DifferentialPrivacy", "DifferentiallyPrivate", "DifferentiallyPrivateClient", "noise_plan"]

_LARGEST_FLOAT_INTEGER = 2**24  # float32 holds every integer up to here
_SUMMED_CLIPS = 8  # a number of a site's sum is limited to this many clips; sums of gradients stay far below it
_TAIL = 10  # standard deviations of noise for which there is room: more happens with probability 10^-23
_USUAL_SUM = 2**21  # the largest sum of the standard packing
_MOST_BITS = 16  # of one site's standard deviation
_COARSEST = 0.1  # rounding to integers may add this share to the square of a unit's norm


@dataclass(frozen=True)
class DifferentialPrivacy:
    """The section [privacy.differential_privacy] of a study file."""

    epsilon: float  # ε of the whole study
    delta: float  # δ; at most one over the number of units of all sites
    unit: Literal["sentence", "note", "patient"] = "sentence"  # what the promise is about
    clip: float = 0.5  # C, the largest norm of a unit's gradient
    sampling_rate: float = 0.15  # q, the probability that a unit is in the batch of a round
    honest_sites: int = 0  # sites whose noise no reader knows; 0: one fewer than a sum has, or 1 without masks

    def __post_init__(self) -> None:
        for name in ("epsilon", "clip"):
            if not 0 < getattr(self, name) < math.inf:
                raise StudyError(f"{name} is {getattr(self, name)}; it must be above zero")
        if not 0 < self.delta < 1:
            raise StudyError(f"delta is {self.delta}; it must be a probability, at most one over the number of units")
        if not 0 < self.sampling_rate <= 1:
            raise StudyError(f"sampling_rate is {self.sampling_rate}; it must be a probability above 0")
        if self.honest_sites < 0:
            raise StudyError(f"honest_sites is {self.honest_sites}; it must be a number of sites, or 0 for the default")

    def honest_among(self, minimum_sites: int, *, masks: bool) -> int:
        """Return how many sites carry the noise of a sum.

        With masks nobody sees less than the sum of `minimum_sites` sites. Whoever sees it may be a site, or share what
        a site knows; that site knows its own noise. Without masks somebody can see a single update.
        """
        most = max(1, minimum_sites - 1) if masks else 1
        return min(self.honest_sites, most) if self.honest_sites else most


def noise_plan(
    settings: DifferentialPrivacy,
    *,
    rounds: int,
    per_round: int,
    shared: bool,
    sites: int,
    honest_sites: int,
    numbers: int,
    largest_sum: int,
) -> NoisePlan:
    """Return the noise with which a study has its (ε, δ).

    Args:
        settings: what the study file asks for.
        rounds: of the study.
        per_round: noisy releases of a site in one round.
        shared: whether the noise of `honest_sites` adds up in one sum; otherwise each site adds all of it.
        sites: of the study, the most that a sum has.
        honest_sites: how many sites carry the noise of a sum.
        numbers: of one update.
        largest_sum: the largest integer that a sum may hold.
    """
    from wardround.privacy.accounting import check_grid, noise_multiplier

    releases = rounds * per_round
    if not shared:
        sites, honest_sites, largest_sum = 1, 1, _LARGEST_FLOAT_INTEGER
    multiplier = noise_multiplier(
        epsilon=settings.epsilon, delta=settings.delta, sampling_rate=settings.sampling_rate, releases=releases
    )
    # The packing of sealed sums comes first, so that a sum is the same under each mechanism that shares the noise.
    for room in sorted({min(largest_sum, _USUAL_SUM), largest_sum}):
        bits, integer_clip = _finest_grid(multiplier, sites=sites, honest_sites=honest_sites, room=room)
        if numbers / 12 <= _COARSEST * integer_clip**2:
            break
    else:
        raise StudyError(
            f"[privacy.differential_privacy] an update of {numbers:,} numbers is too large for the bits of this "
            "packing; share fewer numbers (LoRA), use packing standard, mechanism masked, or a larger epsilon"
        )
    check_grid(
        deviation=2.0**bits,
        honest_sites=honest_sites,
        numbers=numbers,
        releases=releases,
        epsilon=settings.epsilon,
        delta=settings.delta,
    )
    return NoisePlan(
        settings.epsilon,
        settings.delta,
        settings.sampling_rate,
        settings.clip,
        multiplier,
        bits,
        integer_clip,
        _SUMMED_CLIPS * integer_clip,
        releases,
        per_round,
        shared,
    )


def _finest_grid(multiplier: float, *, sites: int, honest_sites: int, room: int) -> tuple[int, int]:
    """Return the bits of a site's noise and the clip as an integer, as large as fit; zeros if none do.

    The account is for a Gaussian with the variance of the sum less 1/12; see `accounting`.
    """
    for bits in range(_MOST_BITS, 0, -1):
        integer_clip = int(math.sqrt(honest_sites * 4.0**bits - 1 / 12) / multiplier)
        bound = _SUMMED_CLIPS * integer_clip
        fits_sum = sites * bound + _TAIL * math.sqrt(sites) * 2**bits <= room
        if fits_sum and bound + _TAIL * 2**bits < _LARGEST_FLOAT_INTEGER:
            return bits, integer_clip
    return 0, 0


class DifferentiallyPrivate(Mechanism):
    """Noise inside what another mechanism adds: it hides whether one unit was in the training notes."""

    extra = "dp"
    adds_noise = True

    def __init__(self, inner: Mechanism, settings: DifferentialPrivacy) -> None:
        self.inner, self.settings = inner, settings
        self.name = f"{inner.name}, differentially private"
        self.protects, self.seals, self.masks = inner.protects, inner.seals, inner.masks
        self.minimum_sites = inner.minimum_sites
        self.packages = ("cryptography", "dp_accounting")
        self.coordinator_reads_update = inner.coordinator_reads_update
        self.coordinator_reads_sum = inner.coordinator_reads_sum
        self.coordinator_and_one_site_read_update = inner.coordinator_and_one_site_read_update
        promise = (
            f"Noise is added here before an update leaves: over the whole study, what others receive is "
            f"({settings.epsilon:g}, {settings.delta:g})-differentially private for each {settings.unit} of your "
            "training notes. Counts on development and test notes are not covered."
        )
        self.updates_readable_by = f"{inner.updates_readable_by} {promise}"
        self.predictions_readable_by = f"{inner.predictions_readable_by} {promise}"
        short = f"(ε, δ) = ({settings.epsilon:g}, {settings.delta:g}) per {settings.unit}."
        self.summary = f"{inner.summary} Noise in it: {short}"
        self.predictions_summary = f"{inner.predictions_summary} Noise in it: {short}"
        self.budget = (
            f"(ε, δ) = ({settings.epsilon:g}, {settings.delta:g}) for each {settings.unit} of a site's training notes."
        )
        self.report = (
            f"{inner.report} Each site clipped the gradient of each {settings.unit} and added noise before anything "
            f"left: {short}"
        )

    def check_installed(self) -> None:
        """Raise a `UsageError` if a package that this mechanism needs is missing."""
        self.inner.check_installed()
        super().check_installed()

    def steps(self, *, mean_comes_back: bool) -> tuple[str, ...]:
        """Return the steps of the wrapped mechanism."""
        return self.inner.steps(mean_comes_back=mean_comes_back)

    def refusal(self, *, scheme: str, packing: str, mean_comes_back: bool, algorithm: str) -> str:
        """Return why this mechanism cannot run with these settings of [privacy]; empty if it can."""
        if self.inner.protects and scheme == "ckks":
            return "differential_privacy adds integers, and scheme ckks adds approximately; use bfv"
        return self.inner.refusal(scheme=scheme, packing=packing, mean_comes_back=mean_comes_back, algorithm=algorithm)

    def server(self, setup: ServerSetup) -> AggregationServer:
        """Build the coordinator's end of the wrapped mechanism, which adds integers where noise is shared."""
        return self.inner.server(self._with_integers(setup))

    def client(self, setup: ClientSetup) -> AggregationClient:
        """Build a site's end: noise around the wrapped mechanism's client."""
        from wardround.privacy.unit_noise import UnitNoise

        assert setup.noise is not None, "a study with differential privacy has a plan of its noise"
        inner = self.inner.client(self._with_integers(setup))
        noise = UnitNoise(
            setup.noise, inner.history, setup.noise_secret, budget=setup.budget, pays_repeats=setup.durable
        )
        return DifferentiallyPrivateClient(inner, noise)

    def _with_integers(self, setup: Any) -> Any:
        """Return the setup with a codec of integers for a mechanism that sends readable updates."""
        from wardround.secure_aggregation.plain import IntegerUpdates

        if setup.noise is None or not setup.noise.shared:
            return setup
        unit = setup.noise.unit
        return replace(setup, codec=lambda: IntegerUpdates(unit))


class DifferentiallyPrivateClient:
    """A site's end of any mechanism, from which nothing leaves that depends on notes but what holds noise."""

    def __init__(self, inner: AggregationClient, noise: UnitPrivacy) -> None:
        self._inner = inner
        self.unit_privacy: UnitPrivacy | None = noise

    @property
    def history(self) -> SiteHistory:
        """Return the site's permanent record."""
        return self._inner.history

    @property
    def changes(self) -> int:
        """Return a count that grows whenever the state must be written again."""
        return self._inner.changes

    @property
    def redraws(self) -> int:
        """Return how often this site drew other units because its update had been opened."""
        return self._inner.redraws

    def steps(self, replica: Any) -> Mapping[str, Callable[[Any, Message], Message]]:
        """Return the steps of the wrapped mechanism."""
        return self._inner.steps(replica)

    def begin(self, round_number: int, *, after: int, most_redraws: int) -> None:
        """Prepare the wrapped mechanism for a round."""
        self._inner.begin(round_number, after=after, most_redraws=most_redraws)

    def announce(
        self, update: Tensors, *, weight: float, values: Mapping[str, Value], learn_clips: bool = False
    ) -> Message:
        """Announce a noisy update with the weight 1 and the privacy that was spent.

        The weight and the loss depend on notes and hold no noise: neither leaves. Clips are learned only from updates
        that hold all of the noise, of which the largest numbers say nothing more.
        """
        assert self.unit_privacy is not None
        spent: dict[str, Value] = {"epsilon": self.unit_privacy.epsilon}
        may_learn = learn_clips and not self.unit_privacy.plan.shared
        return self._inner.announce(update, weight=1.0, values=spent, learn_clips=may_learn)

    def state(self) -> dict[str, Tensor]:
        """Return what must be saved; the site's secret and its budget are kept elsewhere."""
        return self._inner.state()

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        self._inner.load(tensors)
