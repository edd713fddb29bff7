from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.errors import MessageError
from wardround.secure_aggregation.bfv import BfvParameters
from wardround.secure_aggregation.packing import MASKED, IntegerLayout, Packing

SHAPES = {"a": (3, 2), "b": (5,)}
PACKINGS = {
    "masked": MASKED,
    "standard": BfvParameters("standard").packing,
    "compact": BfvParameters("compact").packing,
}
EVERY = pytest.mark.parametrize("packing", PACKINGS.values(), ids=PACKINGS)


def update(first: int, second: int) -> dict[str, np.ndarray[Any, Any]]:
    return {"a": np.full((3, 2), first, np.int32), "b": np.full(5, second, np.int32)}


@EVERY
@given(numbers=st.lists(st.tuples(st.integers(-4000, 4000), st.integers(-4000, 4000)), min_size=1, max_size=4))
def test_the_sum_of_integers_is_exact(packing: Packing, numbers: list[tuple[int, int]]) -> None:
    layout = IntegerLayout(SHAPES, 0.5, packing)
    slots = np.zeros(layout.slots, np.uint64)
    for first, second in numbers:
        packed = layout.pack(update(first, second), share=0.1)
        assert (packed.clipped, packed.residue) == (0, {})
        slots = (slots + packed.slots) % np.uint64(packing.modulus)
    mean = layout.unpack(slots, share=0.3, sites=len(numbers))
    expected = np.float32(sum(first for first, _ in numbers) * (0.5 / len(numbers)))
    assert (mean["a"] == expected).all()
    assert (mean["b"] == np.float32(sum(second for _, second in numbers) * (0.5 / len(numbers)))).all()


@EVERY
def test_a_number_or_a_sum_beyond_its_field_is_refused(packing: Packing) -> None:
    layout = IntegerLayout(SHAPES, 1.0, packing)
    with pytest.raises(MessageError, match="too large for its field"):
        layout.pack(update(packing.scale + 1, 0), share=1.0)
    slots = layout.pack(update(packing.scale, 0), share=1.0).slots
    twice = (slots + layout.pack(update(1, 0), share=1.0).slots) % np.uint64(packing.modulus)
    assert layout.unpack(slots, share=1.0, sites=1)["a"].max() == packing.scale
    with pytest.raises(MessageError, match="a sum exceeds its field"):
        layout.unpack(twice, share=1.0, sites=2)


def test_other_names_or_slots_are_refused() -> None:
    layout = IntegerLayout(SHAPES, 1.0, MASKED)
    with pytest.raises(MessageError, match="other names or shapes"):
        layout.pack({"a": np.zeros((3, 2), np.int32)}, share=1.0)
    with pytest.raises(MessageError, match="another number of slots"):
        layout.unpack(np.zeros(3, np.uint64), share=1.0, sites=1)
