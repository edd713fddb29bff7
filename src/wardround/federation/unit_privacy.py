"""What a site and an algorithm know about differential privacy: a plan of the noise, and who adds it.

A *unit* is what the promise is about: one sentence, one note, or all notes of one patient. Each noisy release of a site
is a sum over a random sample of its units. Each unit adds a vector of integers with a limited norm, and the site adds
random integers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from wardround.federation.message import Array
from wardround.federation.site_history import Draw

__all__ = ["NoisePlan", "UnitPrivacy"]


@dataclass(frozen=True)
class NoisePlan:
    """The noise of a study, as every party computes it from the study file before round 1."""

    epsilon: float  # of all rounds together
    delta: float
    sampling_rate: float  # q, the probability that a unit is in the sample of a release
    clip: float  # C, the largest norm of a unit's gradient
    multiplier: float  # z, the standard deviation of the noise of all honest sites, in clips
    bits: int  # one site's noise has the standard deviation 2^bits, in integers
    integer_clip: int  # C in integers
    bound: int  # largest absolute value of a site's sum before noise, in integers
    releases: int  # of a site in the whole study
    per_round: int  # of these, in one round
    shared: bool  # whether the noise of several sites adds up in one sum; otherwise each site adds all of it

    @property
    def unit(self) -> float:
        """Return the gradient that the integer 1 stands for."""
        return self.clip / self.integer_clip


class UnitPrivacy(Protocol):
    """Samples units and adds noise for one site, with keys that no other party knows."""

    @property
    def plan(self) -> NoisePlan:
        """Return the plan of the study's noise."""

    @property
    def epsilon(self) -> float:
        """Return ε of everything that this site has released so far."""

    def begin(self, draw: Draw, *, repeated: bool = False) -> None:
        """Record the releases of a round, permanently; raise a `MessageError` if the budget does not allow them.

        The sample and the noise depend on a secret of the site and on the question: the same question from the same
        state gets the same answer, and any other question gets other noise. `repeated` says that this is the last
        question of the round once more.
        """

    def sample(self, units: int) -> list[int]:
        """Return the numbers of the units that the next release is made of."""

    def noisy(self, sums: Mapping[str, Array]) -> dict[str, Array]:
        """Return the integer sums of a release with noise, as int32."""
