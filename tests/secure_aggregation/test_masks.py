from __future__ import annotations

import hmac
from hashlib import sha256
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wardround.errors import MessageError
from wardround.federation.message import Array
from wardround.secure_aggregation import masks
from wardround.secure_aggregation.identities import Identity, PublicKeys
from wardround.secure_aggregation.masks import (
    add,
    commitment,
    key_stream,
    new_seed,
    pairwise_masks,
    self_mask,
    subtract,
)

CONTEXT = b"c" * 32
KEY = bytes(range(32))
BATCHING = 70368743489537  # of 46 bits
MODULI = (5, 2**20 + 7, 2**32, 2**32 + 1, BATCHING, 2**60 - 2**14 + 1, 2**60, 2**62 + 11)


def cohort(count: int) -> tuple[list[Identity], dict[str, PublicKeys]]:
    # The tenth name comes between the first and the second: neither order nor number of the site is its place.
    found = [Identity.new(f"h{number}", None) for number in (10, 2, 1, 7, 3, 30, 4)[:count]]
    return found, {identity.public_keys.name: identity.public_keys for identity in found}


def masks_of(
    identities: list[Identity],
    public_keys: dict[str, PublicKeys],
    *,
    slots: int,
    modulus: int,
    context: bytes = CONTEXT,
) -> list[Array]:
    return [pairwise_masks(one, public_keys, context=context, slots=slots, modulus=modulus) for one in identities]


def total(arrays: list[Array], modulus: int) -> list[int]:
    """Add with Python integers, so that no tested code is used."""
    return [sum(column) % modulus for column in zip(*(array.tolist() for array in arrays), strict=True)]


def looks_uniform(slots: list[int], modulus: int) -> bool:
    """Use chi-square over 16 bins: with 15 degrees of freedom it exceeds 70 once in ten million times."""
    counts = np.bincount([slot * 16 // modulus for slot in slots], minlength=16)
    expected = len(slots) / 16
    return float(((counts - expected) ** 2 / expected).sum()) < 70


def hkdf(secret: bytes, info: bytes) -> bytes:
    """Compute RFC 5869 for one block of SHA-256 without a salt."""
    extracted = hmac.digest(bytes(32), secret, "sha256")
    return hmac.digest(extracted, info + b"\x01", "sha256")


def test_the_first_slots_of_a_known_stream() -> None:
    # AES-256 of the zero block under the zero key is dc95c078a2408989ad48a21492842087.
    assert key_stream(bytes(32), 4, 2**32).tolist() == [0x78C095DC, 0x898940A2, 0x14A248AD, 0x87208492]
    assert key_stream(bytes(32), 2, 2**46).tolist() == [0x898940A278C095DC % 2**46, 0x8720849214A248AD % 2**46]
    assert key_stream(bytes(32), 2, 2**60).tolist() == [0x98940A278C095DC, 0x720849214A248AD]  # without the top digit
    assert key_stream(bytes(32), 4, 2**4).tolist() == [0xC, 0x2, 0xD, 0x2]


def test_slots_above_the_modulus_are_replaced_in_order() -> None:
    # Of 3 bits, the known stream begins 4, 2, 5, 2. Below 5, the third gives way to the fifth: the next block begins
    # 530f8afb, or 3 in its low bits.
    assert key_stream(bytes(32), 5, 8).tolist() == [4, 2, 5, 2, 3]
    assert key_stream(bytes(32), 4, 5).tolist() == [4, 2, 3, 2]


@settings(max_examples=60, deadline=None)
@given(st.binary(min_size=32, max_size=32), st.integers(0, 70), st.sampled_from([3, 5, 129, 2**31 + 1, 2**33 + 1]))
def test_replacement_equals_drawing_one_slot_after_another(key: bytes, slots: int, modulus: int) -> None:
    bits = (modulus - 1).bit_length()
    raw = key_stream(key, 20 * slots + 200, 2**bits).tolist()
    further = (slot for slot in raw[slots:] if slot < modulus)
    assert key_stream(key, slots, modulus).tolist() == [w if w < modulus else next(further) for w in raw[:slots]]


@pytest.mark.parametrize("modulus", MODULI)
def test_a_stream_is_uniform_below_its_modulus(modulus: int) -> None:
    slots = key_stream(KEY, 100_000, modulus)
    assert slots.dtype == np.uint64 and slots.shape == (100_000,)
    assert int(slots.max()) < modulus
    if modulus > 16:
        assert looks_uniform(slots.tolist(), modulus)


def test_a_stream_below_a_small_modulus_has_every_number_equally_often() -> None:
    counts = np.bincount(key_stream(KEY, 100_000, 5).astype(int))
    # Each 20,000 ± 126; a remainder of three bits would give 25,000 of each of 0, 1 and 2.
    assert counts.shape == (5,)
    assert abs(counts - 20_000).max() < 1000


def test_a_stream_longer_than_a_chunk_is_one_stream() -> None:
    long, short = key_stream(KEY, 3 * 2**15 + 5, BATCHING - 1), key_stream(KEY, 2**15 + 1, BATCHING - 1)
    assert (long[: len(short)] == short).all()
    assert len(np.unique(long)) > len(long) - 3  # of 46 bits: a chunk that came again would halve it
    assert len(key_stream(KEY, 0, 5)) == 0


@pytest.mark.parametrize(("key", "modulus"), [(bytes(31), 5), (KEY, 1), (KEY, 2**63)])
def test_a_stream_needs_a_valid_key_and_modulus(key: bytes, modulus: int) -> None:
    with pytest.raises(AssertionError):
        key_stream(key, 1, modulus)


@pytest.mark.parametrize("modulus", [2**32, BATCHING, 5])
@pytest.mark.parametrize("count", [2, 3, 7])
def test_masks_cancel_over_the_whole_cohort(count: int, modulus: int) -> None:
    identities, public_keys = cohort(count)
    found = masks_of(identities, public_keys, slots=1000, modulus=modulus)
    assert total(found, modulus) == [0] * 1000
    assert max(int(mask.max()) for mask in found) < modulus


@pytest.mark.parametrize("count", [2, 3, 7])
def test_masks_of_fewer_sites_do_not_cancel(count: int) -> None:
    modulus = 2**20 + 7
    identities, public_keys = cohort(count)
    found = masks_of(identities, public_keys, slots=2000, modulus=modulus)
    for size in range(1, count):
        for some in combinations(found, size):
            slots = total(list(some), modulus)
            assert looks_uniform(slots, modulus)
            assert sum(slot != 0 for slot in slots) > 1980


def test_the_order_of_the_public_keys_does_not_matter() -> None:
    identities, public_keys = cohort(3)
    turned = dict(reversed(public_keys.items()))
    for one, other in zip(
        masks_of(identities, public_keys, slots=50, modulus=BATCHING),
        masks_of(identities, turned, slots=50, modulus=BATCHING),
        strict=True,
    ):
        assert (one == other).all()


def test_a_mask_by_hand() -> None:
    first, second = Identity.new("a", None), Identity.new("b", None)
    public_keys = {"b": second.public_keys, "a": first.public_keys}
    secret = first.agree(second.public_keys)
    info = b"wardround-mask-1\x00" + b"\x00\x00\x00\x20" + CONTEXT + b"\x00\x00\x00\x01a" + b"\x00\x00\x00\x01b"
    expected = key_stream(hkdf(secret, info), 20, BATCHING)
    plus, minus = masks_of([first, second], public_keys, slots=20, modulus=BATCHING)
    assert (plus == expected).all()
    assert minus.tolist() == [(BATCHING - slot) % BATCHING for slot in expected.tolist()]


def test_another_context_gives_unrelated_masks() -> None:
    identities, public_keys = cohort(3)
    modulus = 2**20 + 7
    before = masks_of(identities, public_keys, slots=2000, modulus=modulus)
    after = masks_of(identities, public_keys, slots=2000, modulus=modulus, context=b"d" * 32)
    for one, other in zip(before, after, strict=True):
        assert looks_uniform([(a - b) % modulus for a, b in zip(one.tolist(), other.tolist(), strict=True)], modulus)
    # What was given in the one exchange cannot be completed by what was given in the other.
    assert looks_uniform(total([before[0], after[1], after[2]], modulus), modulus)


def test_a_single_site_has_no_pairwise_mask() -> None:
    identities, public_keys = cohort(1)
    assert masks_of(identities, public_keys, slots=3, modulus=5)[0].tolist() == [0, 0, 0]


def test_public_keys_under_wrong_names_or_without_the_sites_own_are_refused() -> None:
    (one, two), public_keys = cohort(2)
    third = Identity.new("h9", None).public_keys
    for wrong in (
        {two.public_keys.name: two.public_keys},
        {
            one.public_keys.name: Identity.new(one.public_keys.name, None).public_keys,
            two.public_keys.name: two.public_keys,
        },
        public_keys | {"h8": third},
        {},
    ):
        with pytest.raises(MessageError) as caught:
            pairwise_masks(one, wrong, context=CONTEXT, slots=1, modulus=5)
        assert caught.value.code == "public-keys"


def test_the_own_mask_is_determined_by_its_seed() -> None:
    seed = bytes(range(32))
    expected = key_stream(hkdf(seed, b"wardround-own-1\x00" + b"\x00\x00\x00\x20" + CONTEXT), 9, BATCHING)
    assert (self_mask(seed, context=CONTEXT, slots=9, modulus=BATCHING) == expected).all()
    assert not (self_mask(seed, context=b"d" * 32, slots=9, modulus=BATCHING) == expected).any()
    assert not (self_mask(new_seed(), context=CONTEXT, slots=9, modulus=BATCHING) == expected).any()
    with pytest.raises(MessageError, match=r"^seed"):
        self_mask(seed[:-1], context=CONTEXT, slots=9, modulus=BATCHING)


def test_a_commitment_by_hand() -> None:
    expected = sha256(b"wardround-seed-commitment-2\x00" + CONTEXT + KEY + b"h1").hexdigest()
    assert commitment(KEY, context=CONTEXT, site="h1") == expected


def test_a_commitment_binds_a_site_to_one_seed_in_one_exchange() -> None:
    flipped = bytes([KEY[0] ^ 1]) + KEY[1:]
    found = [
        commitment(KEY, context=CONTEXT, site="h1"),
        commitment(flipped, context=CONTEXT, site="h1"),
        commitment(KEY[:-1], context=CONTEXT, site="h1"),
        commitment(KEY + b"h", context=CONTEXT, site="h1"),
        commitment(b"", context=CONTEXT, site="h1"),
        commitment(KEY, context=b"d" * 32, site="h1"),
        commitment(KEY, context=CONTEXT, site="h2"),
        commitment(KEY, context=CONTEXT, site="h11"),
    ]
    assert len(set(found)) == len(found)


def test_a_commitment_is_not_the_key_of_the_mask() -> None:
    """The commitment is a digest under its own label; it is not the key from which the mask is derived."""
    assert commitment(KEY, context=CONTEXT, site="h1") != masks.derive_key(KEY, b"wardround-own-1\x00", CONTEXT).hex()


def test_seeds_are_fresh() -> None:
    assert len({new_seed() for _ in range(100)}) == 100
    assert {len(new_seed()) for _ in range(3)} == {32}


def test_the_kinds_of_mask_do_not_coincide() -> None:
    seed = KEY
    mine = self_mask(seed, context=CONTEXT, slots=3, modulus=BATCHING)
    assert not (mine == key_stream(seed, 3, BATCHING)).any()


def test_adding_and_subtracting_by_hand() -> None:
    slots = np.array([0, 1, 4, 3], np.uint64)
    add(slots, np.array([0, 4, 4, 1], np.uint64), 5)
    assert slots.tolist() == [0, 0, 3, 4]
    subtract(slots, np.array([0, 1, 3, 0], np.uint64), 5)
    assert slots.tolist() == [0, 4, 0, 4]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([5, 2**32, BATCHING, 2**63 - 1]), st.data())
def test_adding_equals_integer_addition(modulus: int, data: st.DataObject) -> None:
    numbers = st.lists(st.integers(0, modulus - 1) | st.sampled_from([0, modulus - 1]), min_size=4, max_size=4)
    left, right = data.draw(numbers), data.draw(numbers)
    slots, other = np.array(left, np.uint64), np.array(right, np.uint64)
    add(slots, other, modulus)
    assert slots.tolist() == [(a + b) % modulus for a, b in zip(left, right, strict=True)]
    subtract(slots, other, modulus)
    assert slots.tolist() == left
    subtract(slots, other, modulus)
    assert slots.tolist() == [(a - b) % modulus for a, b in zip(left, right, strict=True)]
    assert other.tolist() == right


def test_adding_beyond_a_chunk() -> None:
    length = 2 * masks._CHUNK + 3
    slots, other = np.full(length, 4, np.uint64), np.full(length, 3, np.uint64)
    add(slots, other, 5)
    assert (slots == 2).all()
    subtract(slots, other, 5)
    assert (slots == 4).all()


def test_only_slots_of_the_same_length_are_added() -> None:
    for other in (np.zeros(1, np.uint64), np.zeros(2, np.int64)):
        with pytest.raises(AssertionError):
            add(np.zeros(2, np.uint64), other, 5)
