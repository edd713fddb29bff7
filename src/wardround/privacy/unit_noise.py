"""The noise of one site: its secret, its samples, and its permanent budget."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import numpy as np

from wardround.errors import MessageError
from wardround.federation.message import Array
from wardround.federation.site_history import Draw, SiteHistory
from wardround.federation.unit_privacy import NoisePlan
from wardround.privacy.accounting import epsilon_after, most_releases
from wardround.privacy.discrete_gaussian import discrete_gaussian, uniform_sample
from wardround.secure_aggregation.masks import derive_key

__all__ = ["UnitNoise", "read_or_create_secret", "rehearsal_secret"]

_FILE = "noise.key"
_LENGTH = 32
_ROUND, _SAMPLE, _NOISE = b"wardround-noise-round-1\x00", b"wardround-noise-sample-1\x00", b"wardround-noise-sum-1\x00"


def read_or_create_secret(folder: Path) -> bytes:
    """Return the secret of a site, which is made once and never sent, restored or logged."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / _FILE
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        found = path.read_bytes()
        if len(found) != _LENGTH:
            raise MessageError("state", f"{_FILE} is damaged; noise cannot be drawn from it") from None
        return found
    with os.fdopen(descriptor, "wb") as stream:
        secret = secrets.token_bytes(_LENGTH)
        stream.write(secret)
        stream.flush()
        os.fsync(stream.fileno())
    return secret


def rehearsal_secret(seed: int, site: str) -> bytes:
    """Return a secret that depends on the study's seed, for studies in which all sites belong to one person."""
    return sha256(f"wardround-rehearsal/{seed}/{site}".encode()).digest()


class UnitNoise:
    """A `UnitPrivacy` that draws everything from a secret and counts releases in the site's history."""

    def __init__(
        self,
        plan: NoisePlan,
        history: SiteHistory,
        secret: Callable[[], bytes],
        *,
        budget: float | None = None,
        pays_repeats: bool = True,
    ) -> None:
        """Add noise by `plan`; stop when ε would exceed the study's, or the site's own `budget` if that is less.

        Without `pays_repeats`, for studies on one machine, from which nothing leaves, a repeated question is not paid
        again, so that an interrupted study ends as an uninterrupted one does.
        """
        self.plan = plan
        self._history, self._read_secret, self._pays_repeats = history, secret, pays_repeats
        self._budget = plan.epsilon if budget is None else min(budget, plan.epsilon)
        self._round_key = b""
        self._step = 0  # releases of the present round so far

    @property
    def epsilon(self) -> float:
        """Return ε of everything that this site has released so far."""
        plan = self.plan
        return epsilon_after(
            self._history.released, sampling_rate=plan.sampling_rate, multiplier=plan.multiplier, delta=plan.delta
        )

    @cached_property
    def most(self) -> int:
        """Return how many releases the budget allows."""
        plan = self.plan
        return most_releases(
            self._budget,
            sampling_rate=plan.sampling_rate,
            multiplier=plan.multiplier,
            delta=plan.delta,
            up_to=plan.releases,
        )

    def begin(self, draw: Draw, *, repeated: bool = False) -> None:
        """Record the releases of a round before anything is computed; raise if the budget does not allow them."""
        if self._pays_repeats or not repeated:
            self._history.spend(self.plan.per_round, most=self.most)
        question, redraw = bytes.fromhex(draw.question), draw.redraw.to_bytes(8, "big")
        self._round_key, self._step = derive_key(self._secret, _ROUND, question, redraw), 0

    def sample(self, units: int) -> list[int]:
        """Return a Poisson sample of the units."""
        return uniform_sample(self._key(_SAMPLE), units, self.plan.sampling_rate)

    def noisy(self, sums: Mapping[str, Array]) -> dict[str, Array]:
        """Return the sums, limited to the plan's bound, with discrete Gaussian noise.

        The key of the noise depends on the sums too. If the same question finds other sums, because notes changed or
        because a device computes slightly differently, the noise is fresh: the difference of the two answers is not the
        difference of the two sums.
        """
        limited = {name: np.clip(array, -self.plan.bound, self.plan.bound) for name, array in sums.items()}
        digest = sha256()
        for name, array in limited.items():
            digest.update(f"{name} {array.shape}\n".encode())
            digest.update(np.ascontiguousarray(array, np.int64).tobytes())
        key = self._key(_NOISE, digest.digest())
        drawn = discrete_gaussian(key, sum(array.size for array in limited.values()), bits=self.plan.bits)
        noisy, start = dict[str, Array](), 0
        for name, array in limited.items():
            noise = drawn[start : start + array.size].reshape(array.shape)
            noisy[name], start = (array + noise).astype(np.int32), start + array.size
        self._step += 1
        return noisy

    @cached_property
    def _secret(self) -> bytes:
        return self._read_secret()

    def _key(self, label: bytes, *parts: bytes) -> bytes:
        assert self._round_key and self._step < self.plan.per_round, "every release was recorded before"
        return derive_key(self._round_key, label, self._step.to_bytes(4, "big"), *parts)
