from __future__ import annotations

import numpy as np
import pytest
import torch

from wardround.privacy.audit.span import Span, spans_of


def gradient(inputs: np.ndarray[tuple[int, int], np.dtype[np.float64]], *, rows: int) -> np.ndarray:  # type: ignore[type-arg]
    """Σ δ xᵀ with random δ: the gradient of a linear layer with that many outputs."""
    return np.random.default_rng(1).normal(size=(rows, len(inputs))) @ inputs


def test_an_input_that_was_there_is_in_the_span_and_another_is_not() -> None:
    inputs = np.random.default_rng(0).normal(size=(5, 12))
    spans = spans_of(gradient(inputs, rows=20))
    assert [span.absent.shape for span in spans] == [(12, 7)]
    there = spans[0].distances(torch.from_numpy(inputs).float())
    assert there.numpy() == pytest.approx(np.zeros(5), abs=1e-5)
    others = spans[0].distances(torch.randn(50, 12, generator=torch.Generator().manual_seed(0)))
    assert others.min() > 0.3


def test_a_distance_is_the_share_outside_the_span() -> None:
    span = Span(torch.tensor([[0.0], [1.0]]))
    assert span.distances(torch.tensor([[3.0, 4.0], [5.0, 0.0], [0.0, 2.0], [0.0, 0.0]])).tolist() == pytest.approx(
        [0.8, 0.0, 1.0, 0.0]
    )


def test_more_inputs_than_dimensions_leave_no_direction_out() -> None:
    inputs = np.random.default_rng(0).normal(size=(30, 12))
    assert spans_of(gradient(inputs, rows=40)) == []


def test_rounding_of_a_sum_leaves_the_gap() -> None:
    inputs = np.random.default_rng(0).normal(size=(5, 12))
    exact = gradient(inputs, rows=20)
    spans = spans_of(np.round(exact * 2**14) / 2**14)
    assert (12, 7) in [tuple(span.absent.shape) for span in spans]
