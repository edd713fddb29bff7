"""The simplest attack: the rows of an embedding table that an update changes name the tokens it was made from."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["row_scores"]

Array = np.ndarray[Any, Any]

_NOISE = 4 * np.finfo(np.float32).eps  # relative error of a float32 parameter that was read before and after a step


def row_scores(change: Array, before: Array | None = None) -> Array:
    """Return a score for each row of a table, lower the more it changed; infinite for a row that did not change.

    `before` are the rows before an optimizer step, if `change` is the difference that the step made. Weight decay
    shrinks all rows alike: the common factor, which is the median over the rows, is taken out.
    """
    change = change.astype(np.float64)
    floor = np.zeros(len(change))
    if before is not None:
        rows = before.astype(np.float64)
        squares = (rows**2).sum(axis=1)
        shares = np.divide((change * rows).sum(axis=1), squares, out=np.zeros(len(rows)), where=squares > 0)
        change = change - np.median(shares) * rows
        floor = _NOISE * np.abs(rows).max(axis=1, initial=0.0)
    sizes = np.abs(change).max(axis=1, initial=0.0)
    return np.where(sizes > floor, -sizes, np.inf)
