"""An empirical audit of the noise, in one run (Steinke, Nasr and Jagielski 2023).

A promise of (ε, δ) says how often a guess about single units can be right. The audit makes units that are as easy to
guess as possible, the *canaries*: the gradient of canary i is the whole clip on number i and nothing elsewhere. A coin
decides which canaries are among a site's units. The releases of all rounds are then made by the site's own sampling
and noise, and the guess about a canary follows from the sum of its number over all releases. How many guesses are right
gives a lower bound on ε that holds with 95% confidence. It can only refute a promise: a bound below the promised ε
means that no fault was seen, not that there is none.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from wardround.federation.site_history import Draw, SiteHistory
from wardround.federation.unit_privacy import NoisePlan, UnitPrivacy
from wardround.privacy.unit_noise import UnitNoise, rehearsal_secret

__all__ = ["NoiseAudit", "audit_noise", "lower_bound"]

_CONFIDENCE = 0.95
_GUESSED = 0.2  # share of the canaries about which a guess is made, chosen before the run
_HIGHEST = 100.0  # the bound is searched below it


@dataclass(frozen=True)
class NoiseAudit:
    """What an audit of the noise found."""

    claimed: float  # ε of the plan
    measured: float  # lower bound on ε, with 95% confidence
    canaries: int
    guesses: int
    right: int

    @property
    def refuted(self) -> bool:
        """Return whether the measured bound contradicts the claim."""
        return self.measured > self.claimed


def audit_noise(
    plan: NoisePlan,
    *,
    honest_sites: int,
    canaries: int = 1000,
    seed: int = 0,
    open_noise: Callable[[int, Path], UnitPrivacy] | None = None,
) -> NoiseAudit:
    """Return a lower bound on the ε that the noise of a study really has.

    The first of `honest_sites` sites has the canaries; the reader opens the sum of all of them, as the weakest reader
    that the plan must withstand does. `open_noise` returns the noise of a site by its number and a folder, by default
    that of the plan.
    """
    random = np.random.default_rng([seed, 0x6E6F697365])
    included = random.random(canaries) < 0.5
    scores = np.zeros(canaries)
    with tempfile.TemporaryDirectory() as folder:
        sites = [
            (open_noise or _noise_of(plan, seed))(number, Path(folder, str(number)))
            for number in range(honest_sites if plan.shared else 1)
        ]
        for release in range(plan.releases // plan.per_round):
            question = Draw(sha256(f"noise-audit/{seed}/{release}".encode()).hexdigest(), 0)
            for site in sites:
                site.begin(question)
            for _ in range(plan.per_round):
                for number, site in enumerate(sites):
                    sums = np.zeros(canaries, np.int64)
                    drawn = site.sample(canaries)
                    if number == 0:
                        sums[[canary for canary in drawn if included[canary]]] = plan.integer_clip
                    scores += site.noisy({"canaries": sums})["canaries"]
    guesses = 2 * int(canaries * _GUESSED / 2)
    order = np.argsort(scores, kind="stable")
    right = int((~included[order[: guesses // 2]]).sum() + included[order[-(guesses // 2) :]].sum())
    measured = lower_bound(right=right, guesses=guesses, canaries=canaries, delta=plan.delta)
    return NoiseAudit(plan.epsilon, measured, canaries, guesses, right)


def lower_bound(*, right: int, guesses: int, canaries: int, delta: float, confidence: float = _CONFIDENCE) -> float:
    """Return the largest ε that so many right guesses refute; 0 if they refute none."""
    if not right:
        return 0.0
    low, high = 0.0, _HIGHEST
    if _chance(right, guesses, canaries, low, delta) > 1 - confidence:
        return 0.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        if _chance(right, guesses, canaries, middle, delta) > 1 - confidence:
            high = middle
        else:
            low = middle
    return low


def _chance(right: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """Return the largest probability of so many right guesses, or more, under (ε, δ) (Theorem 5.2 of the paper)."""
    from scipy.stats import binom

    each = 1 / (1 + math.exp(-epsilon))  # a guess is right with at most this probability, if δ is 0
    pure = float(binom.sf(right - 1, guesses, each))
    # δ can add i right guesses at once, with a probability of at most 2mδ/i.
    fewer: Sequence[float] = np.cumsum(binom.pmf(np.arange(right - 1, -1, -1), guesses, each)).tolist()
    most = max(sum_below / i for i, sum_below in enumerate(fewer, start=1))
    return min(1.0, pure + 2 * canaries * delta * most)


def _noise_of(plan: NoisePlan, seed: int) -> Callable[[int, Path], UnitPrivacy]:
    def opened(number: int, folder: Path) -> UnitPrivacy:
        folder.mkdir()
        return UnitNoise(plan, SiteHistory(folder), lambda: rehearsal_secret(seed, f"audit-{number}"))

    return opened
