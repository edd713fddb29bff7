from __future__ import annotations

import numpy as np

from wardround.privacy.audit.changed_rows import row_scores


def test_a_row_that_did_not_change_is_never_named() -> None:
    change = np.array([[0.0, 0.0], [0.0, -3.0], [1.0, 2.0]])
    assert row_scores(change).tolist() == [np.inf, -3.0, -2.0]


def test_weight_decay_is_taken_out() -> None:
    before = np.array([[1.0, 2.0], [4.0, 0.0], [0.0, 3.0], [2.0, 2.0], [1.0, 1.0]], np.float32)
    step = np.zeros_like(before)
    step[3] = (0.5, -0.5)
    after = (before * np.float32(0.99) + step).astype(np.float32)
    named = np.isfinite(row_scores(after.astype(np.float64) - before, before))
    assert named.tolist() == [False, False, False, True, False]
    # Without that, every row has changed.
    assert np.isfinite(row_scores(after.astype(np.float64) - before)).all()


def test_rounding_of_a_parameter_is_no_change() -> None:
    before = np.full((3, 2), 1.0, np.float32)
    change = np.array([[0.0, 0.0], [1e-7, 0.0], [1e-3, 0.0]])
    assert np.isfinite(row_scores(change, before)).tolist() == [False, False, True]
