from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from wardround.errors import MessageError
from wardround.federation.message import Array
from wardround.secure_aggregation.packing import MASKED, Layout, Packed, Packing

STANDARD = Packing(22, 2, 70368743669761)  # as in bfv.py, whose test says so
COMPACT = Packing(15, 3, 281474976694273)
SMALL = Packing(4, 2, 2**12)  # a clip is 8, a field 32 wide
PACKINGS = pytest.mark.parametrize("packing", [STANDARD, COMPACT, MASKED, SMALL], ids=lambda packing: packing.width)


def one_array(numbers: Sequence[float] | Array, packing: Packing, *, clip: float = 1.0, share: float = 1.0) -> Packed:
    array = np.asarray(numbers, np.float32)
    return Layout({"a": array.shape}, {"a": clip}, packing).pack({"a": array}, share=share)


def added(slots: Sequence[Array], packing: Packing) -> Array:
    """Add with Python integers, so that no tested code is used."""
    columns = zip(*(site.tolist() for site in slots), strict=True)
    return np.array([sum(column) % packing.modulus for column in columns], np.uint64)


def code_of(error: pytest.ExceptionInfo[MessageError]) -> str:
    return error.value.code


def test_slots_by_hand() -> None:
    # Of 4 bits a clip of 2 is 8: 1 is 4, -0.5 is -2; two fields 32 apart, negative slots count from 4096 down.
    packed = one_array([1.0, -0.5, -0.25, 0.0, 2.0], SMALL, clip=2.0)
    assert packed.slots.dtype == np.uint64
    assert packed.slots.tolist() == [4096 + 4 - 2 * 32, 4096 - 1, 8]
    assert packed.clipped == 0
    assert not packed.residue["a"].any()


def test_three_fields_by_hand() -> None:
    packed = one_array([1.0, -1.0, 0.5], COMPACT)
    assert packed.slots.tolist() == [16384 - 16384 * 2**16 + 8192 * 2**32]


def test_one_field_modulo_two_to_the_32() -> None:
    assert one_array([-1.0, 0.5], MASKED).slots.tolist() == [2**32 - 2**30, 2**29]


def test_a_share_is_applied_before_rounding_and_the_residue_is_returned() -> None:
    # 1 · 0.3 · 8 = 2.4 is rounded to 2: the 0.4 lost are 0.4 / 2.4 of the number itself.
    packed = one_array([1.0], SMALL, share=0.3)
    assert packed.slots.tolist() == [2]
    assert packed.residue["a"].tolist() == pytest.approx([0.4 / 2.4])
    # Next time an eighth, by itself 0.3 and lost, makes 0.7 with it: that is 1.
    assert one_array([1 / 8], SMALL, share=0.3).slots.tolist() == [0]
    assert one_array(1 / 8 + packed.residue["a"], SMALL, share=0.3).slots.tolist() == [1]


def test_clipped_numbers_are_counted_and_are_not_part_of_the_residue() -> None:
    packed = one_array([3.0, -1.0, -1.0001, 1.0], SMALL)
    assert packed.clipped == 2
    assert packed.slots.tolist() == [4096 + 8 - 8 * 32, 4096 - 8 + 8 * 32 - 4096]
    assert not packed.residue["a"].any()


def test_a_clip_that_float32_cannot_represent_is_not_exceeded() -> None:
    clip = 0.1  # the nearest float32 is larger
    packed = one_array([np.float32(0.1)], STANDARD, clip=clip)
    assert packed.clipped == 1
    assert packed.slots.tolist() == [2**21]


def test_arrays_are_packed_in_order_each_with_its_clip() -> None:
    layout = Layout({"b": (1,), "none": (0, 4), "a": (2, 1)}, {"a": 1.0, "b": 4.0, "none": 1.0}, SMALL)
    assert (layout.numbers, layout.slots) == (3, 2)
    update = {"a": np.array([[0.5], [1.0]]), "b": np.array([1.0]), "none": np.zeros((0, 4))}
    packed = layout.pack(update, share=1.0)
    assert packed.slots.tolist() == [2 + 4 * 32, 8]
    opened = layout.unpack(packed.slots, share=1.0, sites=1)
    assert {name: array.tolist() for name, array in opened.items()} == {"b": [1.0], "none": [], "a": [[0.5], [1.0]]}
    assert {array.dtype.str for array in (*opened.values(), *packed.residue.values())} == {"<f4"}
    assert list(opened) == ["b", "none", "a"]


def test_the_largest_number_of_each_array_before_rounding() -> None:
    # Of 4 bits a clip of 1 is 8 units: 0.05 is 0.4, which is rounded to 0, and -0.1 is 0.8.
    shapes = {"still": (2,), "lost": (2,), "kept": (3,), "clipped": (1,), "none": (0,)}
    layout = Layout(shapes, {**dict.fromkeys(shapes, 1.0), "still": 4.0}, SMALL)
    update = {
        "still": np.zeros(2),
        "lost": np.array([0.05, -0.025]),
        "kept": np.array([0.0, 0.05, -0.1]),
        "clipped": np.array([-50.0]),
        "none": np.zeros(0),
    }
    whole, half = layout.pack(update, share=1.0).largest, layout.pack(update, share=0.5).largest
    assert whole == pytest.approx({"still": 0.0, "lost": 0.4, "kept": 0.8, "clipped": 8.0, "none": 0.0})
    assert half == pytest.approx({name: largest / 2 for name, largest in whole.items()})
    assert {type(largest) for largest in whole.values()} == {float}


@PACKINGS
def test_exactly_the_numbers_above_half_a_unit_are_not_rounded_to_zero(packing: Packing) -> None:
    unit = 1 / packing.scale
    for size, kept in ((0.49, False), (0.5, False), (0.51, True)):
        packed = one_array([0.0, size * unit], packing)
        assert packed.largest["a"] == pytest.approx(size)
        assert (packed.slots.any(), packed.largest["a"] > 0.5) == (kept, kept)


def test_the_largest_number_may_be_in_any_chunk() -> None:
    numbers = np.zeros(2 * 98_304 + 1, np.float32)
    assert one_array(numbers, SMALL).largest == {"a": 0.0}
    numbers[-1] = 0.05
    assert one_array(numbers, SMALL).largest["a"] == pytest.approx(0.4)
    numbers[98_304] = -0.1
    assert one_array(numbers, SMALL).largest["a"] == pytest.approx(0.8)


def test_an_empty_update_packs_into_no_slots() -> None:
    layout = Layout({}, {}, STANDARD)
    assert layout.slots == 0
    assert layout.unpack(layout.pack({}, share=1.0).slots, share=1.0, sites=2) == {}


@PACKINGS
def test_many_chunks_and_arrays_that_cross_their_boundaries(packing: Packing) -> None:
    generator = np.random.default_rng(3)
    shapes = {"x": (98_303,), "y": (5,), "z": (2, 98_304), "w": (7, 3)}
    clips = {"x": 1.0, "y": 3.0, "z": 0.5, "w": 2.0}
    update = {name: generator.uniform(-1, 1, shape).astype(np.float32) * clips[name] for name, shape in shapes.items()}
    layout = Layout(shapes, clips, packing)
    packed = layout.pack(update, share=0.5)
    opened = layout.unpack(packed.slots, share=0.5, sites=1)
    for name, numbers in update.items():
        assert np.abs(opened[name] + packed.residue[name] - numbers).max() <= 1e-6 * clips[name]
        assert np.abs(packed.residue[name]).max() <= clips[name] / 2**packing.width / 0.5 * (1 + 1e-6)


def test_non_contiguous_arrays_are_packed_in_reading_order() -> None:
    numbers = np.arange(6, dtype=np.float32).reshape(2, 3) / 8
    assert (
        one_array(numbers.T, SMALL).slots.tolist() == one_array(np.ascontiguousarray(numbers.T), SMALL).slots.tolist()
    )


@st.composite
def cohorts(draw: st.DrawFn) -> tuple[list[Array], list[float], float]:
    """Draw updates, their weights, and a clip that some numbers exceed."""
    sites = draw(st.integers(1, 6))
    numbers = draw(st.integers(1, 7))
    elements = st.floats(-4, 4, width=32)
    updates = [draw(hnp.arrays(np.float32, numbers, elements=elements)) for _ in range(sites)]
    weights = [draw(st.integers(1, 10_000)) for _ in range(sites)]
    return updates, [weight / sum(weights) for weight in weights], draw(st.sampled_from([1e-3, 0.1, 1.0, 3.0, 100.0]))


@PACKINGS
@settings(deadline=None)
@given(cohort=cohorts())
def test_the_opened_mean_is_near_the_plain_one(
    packing: Packing, cohort: tuple[list[Array], list[float], float]
) -> None:
    updates, shares, clip = cohort
    layout = Layout({"a": updates[0].shape}, {"a": clip}, packing)
    packed = [layout.pack({"a": update}, share=share) for update, share in zip(updates, shares, strict=True)]
    opened = layout.unpack(added([p.slots for p in packed], packing), share=1.0, sites=len(updates))["a"]
    plain = sum(
        share * np.clip(update.astype(float), -clip, clip) for update, share in zip(updates, shares, strict=True)
    )
    # What float32 itself rounds counts beside the quantisation; so do the last bits of the scaling.
    bound = len(updates) * clip / 2**packing.width + np.spacing(np.abs(opened)) / 2 + clip * 1e-12
    assert (np.abs(opened.astype(float) - plain) <= bound).all()


@PACKINGS
@settings(deadline=None)
@given(cohort=cohorts())
def test_the_opened_mean_of_the_remaining_sites_is_near_the_plain_one(
    packing: Packing, cohort: tuple[list[Array], list[float], float]
) -> None:
    updates, shares, clip = cohort
    half = [share / 2 for share in shares]
    layout = Layout({"a": updates[0].shape}, {"a": clip}, packing)
    packed = [layout.pack({"a": update}, share=share) for update, share in zip(updates, half, strict=True)]
    opened = layout.unpack(added([p.slots for p in packed], packing), share=0.5, sites=len(updates))["a"]
    plain = sum(
        share * np.clip(update.astype(float), -clip, clip) for update, share in zip(updates, shares, strict=True)
    )
    bound = len(updates) * clip / 2**packing.width / 0.5 + np.spacing(np.abs(opened)) / 2 + clip * 1e-12
    assert (np.abs(opened.astype(float) - plain) <= bound).all()


@PACKINGS
@pytest.mark.parametrize("sign", [1, -1])
def test_rounding_of_very_many_sites_in_one_direction_still_fits(packing: Packing, sign: int) -> None:
    sites = packing.most_sites
    largest = packing.scale + sites // 2
    slot = sign * sum(largest * packing.base**field for field in range(packing.fields)) % packing.modulus
    layout = Layout({"a": (packing.fields,)}, {"a": 1.0}, packing)
    opened = layout.unpack(np.array([slot], np.uint64), share=1.0, sites=sites)["a"]
    assert opened.tolist() == [np.float32(sign * largest / packing.scale)] * packing.fields


@PACKINGS
@pytest.mark.parametrize("field", [0, -1])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_beyond_the_clip_is_refused(packing: Packing, field: int, sign: int) -> None:
    layout = Layout({"a": (packing.fields,)}, {"a": 1.0}, packing)
    place = packing.base ** (range(packing.fields)[field])
    within, beyond = (sign * (packing.scale + over) * place % packing.modulus for over in (2, 4))
    layout.unpack(np.array([within], np.uint64), share=1.0, sites=2)
    with pytest.raises(MessageError, match="ignored the clip") as error:
        layout.unpack(np.array([beyond], np.uint64), share=1.0, sites=2)
    assert code_of(error) == "range"


def test_a_sum_beyond_its_share_is_refused() -> None:
    layout = Layout({"a": (1,)}, {"a": 1.0}, STANDARD)
    slots = layout.pack({"a": np.ones(1, np.float32)}, share=1.0).slots
    with pytest.raises(MessageError, match="its weight"):
        layout.unpack(slots, share=0.5, sites=1)


def test_a_slot_outside_the_ring_is_refused() -> None:
    with pytest.raises(MessageError, match="outside its ring"):
        Layout({"a": (1,)}, {"a": 1.0}, MASKED).unpack(np.array([2**32], np.uint64), share=1.0, sites=1)


@pytest.mark.parametrize("slots", [np.zeros(2, np.uint64), np.zeros((1, 1), np.uint64), np.zeros(1, np.int64)])
def test_slots_that_do_not_fit_the_layout_are_refused(slots: Array) -> None:
    with pytest.raises(MessageError) as error:
        Layout({"a": (1,)}, {"a": 1.0}, MASKED).unpack(slots, share=1.0, sites=1)
    assert code_of(error) == "slots"


@pytest.mark.parametrize("sites", [0, COMPACT.most_sites + 1])
def test_more_sites_than_fit_are_refused(sites: int) -> None:
    assert [packing.most_sites for packing in (STANDARD, COMPACT, MASKED)] == [2**20, 2**14, 2**20]
    with pytest.raises(MessageError, match="16,384 sites"):
        Layout({"a": (1,)}, {"a": 1.0}, COMPACT).unpack(np.zeros(1, np.uint64), share=1.0, sites=sites)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_refused(bad: float) -> None:
    with pytest.raises(MessageError, match="a holds NaN") as error:
        one_array([0.0, bad, 1.0], STANDARD)
    assert code_of(error) == "not-a-number"


@pytest.mark.parametrize(
    "update",
    [{}, {"b": np.zeros(2)}, {"a": np.zeros(3)}, {"a": np.zeros((2, 1))}, {"a": np.zeros(2), "b": np.zeros(1)}],
)
def test_an_update_that_does_not_fit_the_layout_is_refused(update: dict[str, Array]) -> None:
    with pytest.raises(MessageError) as error:
        Layout({"a": (2,)}, {"a": 1.0}, STANDARD).pack(update, share=1.0)
    assert code_of(error) == "shapes"


@pytest.mark.parametrize("clips", [{}, {"a": 1.0, "b": 1.0}, {"a": 0.0}, {"a": -1.0}, {"a": np.nan}, {"a": np.inf}])
def test_invalid_clips_are_refused(clips: dict[str, float]) -> None:
    with pytest.raises(MessageError) as error:
        Layout({"a": (2,)}, clips, STANDARD)
    assert code_of(error) == "clip"


@pytest.mark.parametrize("share", [0.0, -0.5, 1.1, np.nan, np.inf])
def test_invalid_shares_are_refused(share: float) -> None:
    layout = Layout({"a": (1,)}, {"a": 1.0}, STANDARD)
    with pytest.raises(MessageError) as error:
        layout.pack({"a": np.zeros(1)}, share=share)
    assert code_of(error) == "weight"
    with pytest.raises(MessageError):
        layout.unpack(np.zeros(1, np.uint64), share=share, sites=1)


@pytest.mark.parametrize(
    ("width", "fields", "modulus"), [(22, 2, 2**45), (15, 3, 2**47), (31, 1, 2**31), (8, 1, 2**60)]
)
def test_fields_that_do_not_fit_are_a_programming_error(width: int, fields: int, modulus: int) -> None:
    with pytest.raises(AssertionError):
        Packing(width, fields, modulus)


@PACKINGS
def test_packing_needs_little_memory_beyond_slots_and_residue(packing: Packing) -> None:
    numbers = 3_000_000
    layout = Layout({"a": (numbers,)}, {"a": 1.0}, packing)
    update = {"a": np.full(numbers, 0.3, np.float32)}
    tracemalloc.start()
    try:
        packed = layout.pack(update, share=1.0)
        taken = tracemalloc.get_traced_memory()[1] - packed.slots.nbytes - packed.residue["a"].nbytes
        tracemalloc.reset_peak()
        start = tracemalloc.get_traced_memory()[0]
        opened = layout.unpack(packed.slots, share=1.0, sites=1)
        opening = tracemalloc.get_traced_memory()[1] - start - opened["a"].nbytes
    finally:
        tracemalloc.stop()
    assert max(taken, opening) < 5_000_000
