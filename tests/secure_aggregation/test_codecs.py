from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.secure_aggregation.cohort import CLIPS, SHAPES, code_of, reachable, secret_of, update_of

from wardround.errors import MessageError
from wardround.federation.message import Array
from wardround.secure_aggregation.bfv import BfvParameters
from wardround.secure_aggregation.codecs import BfvCodec, CkksCodec, Codec, NumberLayout, PlaintextCodec
from wardround.secure_aggregation.mac import MacTag, add_tags

STANDARD = BfvParameters("standard")
SECRET = secret_of("bfv-standard").secret
CKKS_SECRET = secret_of("ckks").secret
GROUP_KEY, CONTEXT = bytes(range(32)), b"c" * 32
BFV_CODEC, CKKS_CODEC = BfvCodec(STANDARD), CkksCodec()


def slots(*numbers: int) -> Array:
    return np.array(numbers, np.uint64)


def secret_for(codec: Codec) -> bytes:
    return CKKS_SECRET if isinstance(codec, CkksCodec) else SECRET


def sealed(codec: Codec, numbers: Array, *, context: bytes = CONTEXT) -> tuple[dict[str, Array], MacTag]:
    key = codec.hash_key(GROUP_KEY, context, len(numbers))
    return codec.seal(numbers, secret_for(codec), key)


def hashed(codec: Codec, arrays: dict[str, Array], count: int) -> MacTag:
    return codec.hash(arrays, count, secret_for(codec), codec.hash_key(GROUP_KEY, CONTEXT, count))


def summed(codec: Codec, count: int, *parts: dict[str, Array]) -> dict[str, Array]:
    running = codec.sum(count)
    for part in parts:
        running.add(part)
    return running.total()


def test_plain_slots_add_modulo_two_to_the_32() -> None:
    codec = PlaintextCodec()
    (first, no_tag), (second, _) = (sealed(codec, numbers) for numbers in (slots(1, 2**32 - 1, 7), slots(2, 3, 0)))
    assert first["slots"].dtype == np.uint32  # four bytes a number, as float32
    found = codec.open(summed(codec, 3, first, second), 3, b"")
    assert found.tolist() == [3, 2, 7]
    assert found.dtype == np.uint64
    assert no_tag == codec.moduli == ()


def test_plain_slots_have_no_tag_and_their_stand_in_is_zeros() -> None:
    codec = PlaintextCodec()
    assert codec.hash_key(GROUP_KEY, CONTEXT, 3).moduli == ()
    assert codec.hash(BARE, 3, b"", codec.hash_key(GROUP_KEY, CONTEXT, 3)) == ()
    assert codec.open_stand_in(3, b"").tolist() == [0, 0, 0]


def test_sealed_slots_add_modulo_the_ring_and_their_hashes_add_modulo_q() -> None:
    last = STANDARD.packing.modulus - 1
    (first, one), (second, two) = sealed(BFV_CODEC, slots(1, last, 7)), sealed(BFV_CODEC, slots(2, 3, 0))
    total = summed(BFV_CODEC, 3, first, second)
    assert BFV_CODEC.open(total, 3, SECRET).tolist() == [3, 2, 7]
    assert BFV_CODEC.moduli == (STANDARD.coefficient_modulus,)
    assert hashed(BFV_CODEC, total, 3) == add_tags([one, two], BFV_CODEC.moduli)
    assert hashed(BFV_CODEC, summed(BFV_CODEC, 3, first), 3) == one


def test_sealed_numbers_add_approximately_and_their_hashes_add_modulo_three_primes() -> None:
    (first, one), (second, two) = (sealed(CKKS_CODEC, np.array(n)) for n in ([0.5, -1.0], [0.25, 3.0]))
    total = summed(CKKS_CODEC, 2, first, second)
    assert np.abs(CKKS_CODEC.open(total, 2, CKKS_SECRET) - [0.75, 2.0]).max() < 1e-6
    assert len(CKKS_CODEC.moduli) == 3
    assert hashed(CKKS_CODEC, total, 2) == add_tags([one, two], CKKS_CODEC.moduli)
    assert hashed(CKKS_CODEC, summed(CKKS_CODEC, 2, first), 2) == one


@pytest.mark.parametrize("codec", [BFV_CODEC, CKKS_CODEC], ids=["bfv", "ckks"])
def test_a_hash_belongs_to_one_exchange_and_one_sum(codec: Codec) -> None:
    numbers = slots(1, 2) if codec is BFV_CODEC else np.array([1.0, 2.0])
    arrays, tag = sealed(codec, numbers)
    again, other = sealed(codec, numbers)
    assert tag != other  # the same numbers, encrypted again
    elsewhere = codec.hash_key(GROUP_KEY, b"d" * 32, 2)
    assert codec.hash(summed(codec, 2, arrays), 2, secret_for(codec), elsewhere) != tag
    stranger = codec.hash_key(bytes(32), CONTEXT, 2)
    assert codec.hash(summed(codec, 2, arrays), 2, secret_for(codec), stranger) != tag
    assert hashed(codec, summed(codec, 2, arrays, again), 2) not in (tag, other)


@pytest.mark.parametrize(("slots", "blocks"), [(1, 1), (4096, 1), (4097, 2)])
def test_a_hash_has_a_weight_for_each_block_and_a_number_for_each_coefficient(slots: int, blocks: int) -> None:
    for codec, width in ((BFV_CODEC, 2 * 4096), (CKKS_CODEC, 2 * 8192)):
        key = codec.hash_key(GROUP_KEY, CONTEXT, slots)
        assert key.moduli == codec.moduli
        assert len(key.blocks) == blocks
        assert [len(vector) for vector in key.coefficients] == [width] * len(codec.moduli)


def test_stand_ins_open_to_zeros() -> None:
    found = BFV_CODEC.open_stand_in(4097, SECRET)
    assert (found.dtype, found.shape, found.any()) == (np.uint64, (4097,), False)
    found = CKKS_CODEC.open_stand_in(4097, CKKS_SECRET)
    assert (found.dtype, found.shape, found.any()) == (np.float64, (4097,), False)


def changed(arrays: dict[str, Array], place: int, bit: int = 1) -> dict[str, Array]:
    data = arrays["sealed"].copy()
    data[place] ^= bit
    return {**arrays, "sealed": data}


SEALED, _ = sealed(BFV_CODEC, slots(1, 2, 3))
BARE, _ = sealed(PlaintextCodec(), slots(1, 2, 3))
NUMBERS, _ = sealed(CKKS_CODEC, np.array([1.0, 2.0, 3.0]))
Change = Callable[[dict[str, Array]], dict[str, Array]]


@pytest.mark.parametrize(
    ("codec", "whole", "change", "code"),
    [
        (PlaintextCodec(), BARE, lambda a: {}, "shapes"),
        (PlaintextCodec(), BARE, lambda a: {"slots": a["slots"][:2]}, "shapes"),
        (PlaintextCodec(), BARE, lambda a: {"slots": a["slots"].astype(np.uint64)}, "shapes"),
        (PlaintextCodec(), BARE, lambda a: {"slots": a["slots"].reshape(3, 1)}, "shapes"),
        (BFV_CODEC, SEALED, lambda a: {"sealed": a["sealed"]}, "shapes"),
        (BFV_CODEC, SEALED, lambda a: {**a, "sealed": a["sealed"][:-1]}, "ciphertext"),
        (BFV_CODEC, SEALED, lambda a: {**a, "lengths": a["lengths"] - 1}, "ciphertext"),
        (BFV_CODEC, SEALED, lambda a: {**a, "lengths": a["lengths"].astype(np.int64)}, "shapes"),
        (BFV_CODEC, SEALED, lambda a: changed(a, 0), "ciphertext"),
        (BFV_CODEC, SEALED, lambda a: changed(a, 100), "ciphertext"),
        (BFV_CODEC, SEALED, lambda a: changed(a, 123 + 7, 0x80), "ciphertext"),  # above the modulus
        (CKKS_CODEC, NUMBERS, lambda a: {**a, "sealed": a["sealed"][:-1]}, "ciphertext"),
        (CKKS_CODEC, NUMBERS, lambda a: changed(a, 0, 0xFF), "ciphertext"),
        (CKKS_CODEC, NUMBERS, lambda a: SEALED, "ciphertext"),
    ],
)
def test_refused_arrays_leave_the_sum_unchanged(
    codec: Codec, whole: dict[str, Array], change: Change, code: str
) -> None:
    running = codec.sum(3)
    running.add(whole)
    assert code_of(running.add, change(whole)) == code
    found = codec.open(running.total(), 3, secret_for(codec))
    assert np.abs(found.astype(np.float64) - [1, 2, 3]).max() < 1e-6


def test_a_sum_of_another_length_is_refused() -> None:
    assert code_of(PlaintextCodec().open, BARE, 4, b"") == "shapes"
    assert code_of(BFV_CODEC.open, SEALED, 5000, SECRET) == "ciphertext"


def test_arrays_that_do_not_have_the_form_of_a_sum_are_not_hashed() -> None:
    total = summed(BFV_CODEC, 3, SEALED)
    assert code_of(hashed, BFV_CODEC, total, 5000) == "ciphertext"
    assert code_of(hashed, BFV_CODEC, SEALED, 3) == "ciphertext"  # fresh, not a sum
    assert code_of(hashed, BFV_CODEC, {}, 3) == "shapes"
    assert code_of(hashed, BFV_CODEC, changed(total, 100), 3) == "ciphertext"
    assert code_of(hashed, BFV_CODEC, changed(total, 123 + 7, 0x80), 3) == "ciphertext"  # above the modulus
    numbers = summed(CKKS_CODEC, 3, NUMBERS)
    assert code_of(hashed, CKKS_CODEC, numbers, 4) == "ciphertext"
    assert code_of(hashed, CKKS_CODEC, changed(numbers, 0, 0xFF), 3) == "ciphertext"
    assert code_of(hashed, CKKS_CODEC, total, 3) == "ciphertext"


def test_another_key_opens_nothing() -> None:
    codecs: tuple[tuple[Codec, dict[str, Array], str], ...] = (
        (BFV_CODEC, SEALED, "bfv-standard"),
        (CKKS_CODEC, NUMBERS, "ckks"),
    )
    for codec, whole, scheme in codecs:
        assert code_of(codec.open, summed(codec, 3, whole), 3, secret_of(scheme, number=1).secret) == "key"


def test_adding_numbers_needs_no_secret_key() -> None:
    contexts = [one for one in reachable(CkksCodec().sum(3)) if hasattr(one, "is_private")]
    assert contexts and not any(context.is_private() for context in contexts)


def clips() -> dict[str, float]:
    return {"words": CLIPS["embedding"], "bias": CLIPS["top"]}


def test_unpacked_numbers_are_clipped_and_times_their_share() -> None:
    layout = NumberLayout(SHAPES, clips())
    packed = layout.pack(update_of((1.5, -1.5, 1.0, 0.5), (5.0, -4.0, 0.25)), share=0.5)
    assert packed.slots.tolist() == [0.5, -0.5, 0.5, 0.25, 2.0, -2.0, 0.125]
    assert packed.clipped == 3
    assert not any(array.any() for array in packed.residue.values())
    assert packed.largest == {"words": np.inf, "bias": np.inf}  # nothing is rounded, so that nothing vanishes
    mean = layout.unpack(packed.slots, share=0.5, sites=1)
    assert mean["words"].tolist() == [[1.0, -1.0], [1.0, 0.5]]
    assert mean["bias"].tolist() == [4.0, -4.0, 0.25]
    assert {array.dtype for array in mean.values()} == {np.dtype(np.float32)}


def test_numbers_within_the_noise_become_zero() -> None:
    """The noise of four sites is twice that of one: numbers below 3e-8 become zero, whatever the share."""
    layout = NumberLayout(SHAPES, clips())
    sums = np.array([2.9e-8, -2.9e-8, 3.1e-8, -3.1e-8, 0.0, 1e-9, 1e-6])
    mean = layout.unpack(sums, share=0.5, sites=4)
    assert mean["words"].ravel() == pytest.approx([0.0, 0.0, 6.2e-8, -6.2e-8], rel=1e-6)
    assert mean["bias"] == pytest.approx([0.0, 0.0, 2e-6], rel=1e-6)


@pytest.mark.parametrize("sites", [1, 9])
def test_sealed_zeros_open_as_zeros(sites: int) -> None:
    layout, codec = NumberLayout({"w": (4096,)}, {"w": 1.0}), CkksCodec()
    zeros, _ = sealed(codec, np.zeros(4096))
    found = codec.open(summed(codec, 4096, *[zeros] * sites), 4096, CKKS_SECRET)
    assert found.any()
    assert not layout.unpack(found, share=1.0, sites=sites * sites)["w"].any()  # the same noise so many times over


@pytest.mark.parametrize("other", [{"words": (2, 2)}, {"words": (4,), "bias": (3,)}, {**SHAPES, "more": (1,)}])
def test_updates_of_other_shapes_are_refused(other: dict[str, tuple[int, ...]]) -> None:
    update = {name: np.zeros(shape, np.float32) for name, shape in other.items()}
    assert code_of(NumberLayout(SHAPES, clips()).pack, update, share=1.0) == "shapes"


def test_a_mean_outside_the_clip_is_refused() -> None:
    layout = NumberLayout(SHAPES, clips())
    sums = np.array([1.0, 0, 0, 0, 4.0, 0, 0])
    layout.unpack(sums, share=1.0, sites=3)
    with pytest.raises(MessageError, match="words: a site ignored its clip or its weight"):
        layout.unpack(sums * [1.001, 1, 1, 1, 1, 1, 1], share=1.0, sites=3)
    with pytest.raises(MessageError, match="bias: a site ignored its clip or its weight"):
        layout.unpack(sums * [0, 0, 0, 0, 1.001, 0, 0], share=1.0, sites=3)
