"""A paired permutation test: whether differences of pairs lie to one side of zero by chance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wardround.errors import UsageError

__all__ = ["sign_flips"]

_MOST_EXACT = 16  # pairs; of more, signs are drawn
_DRAWS = 20_000
_ROUNDING = 1e-12  # by which two sums of the same numbers may differ


def sign_flips(differences: Sequence[float], *, seed: int = 0) -> float:
    """Two-sided p-value of the mean, for "each difference could as well have the other sign".

    Up to 16 pairs, of every choice of signs; of n pairs none is below 2 / 2^n.
    """
    if not differences:
        raise UsageError("a permutation test needs at least one pair")
    values = np.asarray(differences, dtype=np.float64)
    if len(values) <= _MOST_EXACT:
        numbers = np.arange(2 ** len(values))[:, None]
        signs = 1.0 - 2.0 * ((numbers >> np.arange(len(values))) & 1)
        return float(np.mean(np.abs(signs @ values) >= abs(values.sum()) - _ROUNDING))
    drawn = np.random.default_rng(seed).choice((-1.0, 1.0), size=(_DRAWS, len(values)))
    extreme = int((np.abs(drawn @ values) >= abs(values.sum()) - _ROUNDING).sum())
    return (extreme + 1) / (_DRAWS + 1)
