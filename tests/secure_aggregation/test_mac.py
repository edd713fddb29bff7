from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from hashlib import sha256

import numpy as np
import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given, settings
from hypothesis import strategies as st

from wardround.federation.message import Array, Message, decode, encode
from wardround.secure_aggregation import ckks
from wardround.secure_aggregation.bfv import HALF, BfvParameters, BfvSum, Ciphertexts, Sealer, coefficients
from wardround.secure_aggregation.mac import CiphertextHash, MacTag, add_tags, derive_hash, derive_pad
from wardround.secure_aggregation.masks import key_stream

pytest.importorskip("tenseal", reason="install wardround[sealed]")

KEY, CONTEXT, DIGEST = bytes(range(32)), b"c" * 32, sha256(b"update").hexdigest()
BFV = BfvParameters("standard")
Q = BFV.coefficient_modulus
FULL = BFV.coefficients
SECRET = BFV.new_secret()


def key_of(label: bytes, *parts: bytes) -> bytes:
    info = label + b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(KEY)


def numbers(values: Sequence[int] | Sequence[Sequence[int]]) -> Array:
    return np.array(values, np.uint64)


def plain(weights: Array, matrix: Array, vector: Array, modulus: int) -> int:
    """ρᵀ V r in whole numbers of any size."""
    rows = (sum(c * r for c, r in zip(row, vector.tolist(), strict=True)) for row in matrix.tolist())
    return sum(weight * row for weight, row in zip(weights.tolist(), rows, strict=True)) % modulus


def halves(weights: Array, matrix: Array, modulus: int) -> tuple[Array, Array]:
    """Σ ρ_b V_b for the upper and the lower halves of the weights, as the sealing library adds them up."""
    upper, lower = (weights >> np.uint64(HALF)).astype(object), (weights & np.uint64(2**HALF - 1)).astype(object)
    found = [(half[:, None] * matrix.astype(object)).sum(axis=0) % modulus for half in (upper, lower)]
    return found[0].astype(np.uint64), found[1].astype(np.uint64)


def random_matrix(blocks: int, width: int, modulus: int = Q, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(0, modulus, (blocks, width), np.uint64)


def hash_for(blocks: int, width: int = FULL, *, context: bytes = CONTEXT, key: bytes = KEY) -> CiphertextHash:
    return derive_hash(key, context=context, moduli=(Q,), blocks=blocks, coefficients=width)


# By hand


SMALL = CiphertextHash((101,), numbers([7, 8]), (numbers([10, 20, 30]),))
ROWS = numbers([[1, 2, 3], [4, 5, 6]])


def test_a_hash_by_hand() -> None:
    """V r is 10 + 40 + 90 = 140 and 40 + 100 + 180 = 320; 7·140 + 8·320 = 3540 = 35·101 + 5."""
    assert SMALL.of_matrix(ROWS) == 5


def test_the_hash_of_a_combination_by_hand() -> None:
    """7·(1, 2, 3) + 8·(4, 5, 6) = (39, 54, 69), and 390 + 1080 + 2070 = 3540 = 35·101 + 5."""
    assert SMALL.of_combination([numbers([0, 0, 0])], [numbers([39, 54, 69])]) == (5,)


def test_the_upper_half_of_the_weights_counts_two_to_the_30() -> None:
    """Modulo 101, 2^10 is 14, 14² is 95 and 95·14 is 17; 17·(10 + 2·30) + (3·10 + 20) = 1240 = 12·101 + 28."""
    assert SMALL.of_combination([numbers([1, 0, 2])], [numbers([3, 1, 0])]) == (28,)


def test_tags_of_three_primes_by_hand() -> None:
    """Each prime has its own residues and its own r: 2·3 + 4·5 = 26, 1·1 + 1·2 = 3, and 6·6 + 6·6 = 72."""
    three = CiphertextHash((23, 29, 31), numbers([1]), (numbers([3, 5]), numbers([1, 2]), numbers([6, 6])))
    zero = [numbers([0, 0])] * 3
    found = three.of_combination(zero, [numbers([2, 4]), numbers([1, 1]), numbers([6, 6])])
    assert found == (26 % 23, 3, 72 % 31) == (3, 3, 10)


def test_tags_add_modulo_each_prime() -> None:
    assert add_tags([(22, 5, 30), (2, 5, 2), (0, 28, 0)], (23, 29, 31)) == (1, 9, 1)
    assert add_tags([(96,)], (97,)) == (96,)
    with pytest.raises(ValueError, match="zip"):
        add_tags([(1, 2), (3,)], (23, 29))  # of another scheme
    with pytest.raises(ValueError, match="zip"):
        add_tags([(1, 2)], (23, 29, 31))


# Exactness


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from([101, 2**31 - 1, Q, 2**60 - 93, 2**60]), st.integers(1, 40), st.integers(1, 6))
def test_both_computations_equal_integer_arithmetic(data: st.DataObject, modulus: int, blocks: int, width: int) -> None:
    number = st.integers(0, modulus - 1) | st.sampled_from([0, modulus - 1, min(2**32, modulus) - 1])
    matrix = numbers([data.draw(st.lists(number, min_size=width, max_size=width)) for _ in range(blocks)])
    weights = numbers(data.draw(st.lists(st.integers(0, 2**60 - 1), min_size=blocks, max_size=blocks)))
    vector = numbers(data.draw(st.lists(number, min_size=width, max_size=width)))
    own = CiphertextHash((modulus,), weights, (vector,))
    expected = plain(weights, matrix, vector, modulus)
    assert own.of_matrix(matrix) == expected
    upper, lower = halves(weights, matrix, modulus)
    assert own.of_combination([upper], [lower]) == (expected,)


@pytest.mark.parametrize("blocks", [1, 7, 8, 9, 33])
def test_random_sums_of_full_size(blocks: int) -> None:
    """The numbers of blocks lie below and above the number that is multiplied at once."""
    own, matrix = hash_for(blocks), random_matrix(blocks, FULL)
    expected = plain(own.blocks, matrix, own.coefficients[0], Q)
    assert own.of_matrix(matrix) == expected
    upper, lower = halves(own.blocks, matrix, Q)
    assert own.of_combination([upper], [lower]) == (expected,)


@pytest.mark.parametrize("modulus", [Q, 2**60 - 1, 2**60])
@pytest.mark.parametrize("largest", [True, False], ids=["largest r", "random r"])
def test_the_largest_coefficients_of_full_size_are_exact(modulus: int, largest: bool) -> None:
    vector = np.full(FULL, modulus - 1, np.uint64) if largest else random_matrix(1, FULL, modulus)[0]
    weights = numbers([modulus - 1, 2**60 - 1, 1, 2**30])
    matrix = np.full((4, FULL), modulus - 1, np.uint64)
    assert CiphertextHash((modulus,), weights, (vector,)).of_matrix(matrix) == plain(weights, matrix, vector, modulus)


def test_sums_of_products_stay_exact() -> None:
    """The sum over a block is exact even if each half of a coefficient is 2^32 − 1 and each limb is 127."""
    assert (2**32 - 1) * 127 * 2 * FULL < 2**53
    modulus = 2**60 - 1  # times 2^32 is a rotation of 60 bits: its limbs are as full as those of r
    weights, vector = numbers([2**60 - 1]), np.full(FULL, modulus - 1, np.uint64)
    matrix = np.full((1, FULL), 2**64 - 1, np.uint64)
    assert CiphertextHash((modulus,), weights, (vector,)).of_matrix(matrix) == plain(weights, matrix, vector, modulus)


def test_longer_blocks_and_larger_primes_are_programming_errors() -> None:
    long = CiphertextHash((Q,), numbers([1]), (np.zeros(FULL + 1, np.uint64),))
    with pytest.raises(AssertionError, match="no longer exact"):
        long.of_matrix(np.zeros((1, FULL + 1), np.uint64))
    with pytest.raises(AssertionError, match="no longer exact"):
        CiphertextHash((2**60 + 33,), numbers([1]), (numbers([1]),)).of_matrix(numbers([[1]]))
    with pytest.raises(AssertionError, match="two halves"):
        derive_hash(KEY, context=CONTEXT, moduli=(2**60 + 33,), blocks=1, coefficients=1)


@pytest.mark.parametrize("shape", [(1, 3), (3, 3), (2, 2), (2, 4), (0, 3)])
def test_another_number_of_blocks_or_coefficients_is_never_hashed_in_part(shape: tuple[int, int]) -> None:
    with pytest.raises(AssertionError, match="another number of blocks or coefficients"):
        SMALL.of_matrix(np.zeros(shape, np.uint64))
    with pytest.raises(ValueError, match="zip"):
        SMALL.of_combination([numbers([0, 0, 0])] * 2, [numbers([0, 0, 0])] * 2)


def test_the_hash_of_no_blocks_is_zero() -> None:
    none = hash_for(0)
    assert none.of_matrix(np.zeros((0, FULL), np.uint64)) == 0
    assert none.of_combination([np.zeros(FULL, np.uint64)], [np.zeros(FULL, np.uint64)]) == (0,)


@pytest.mark.parametrize("blocks", [1, 3])
def test_coefficients_are_hashed_directly_from_a_message(blocks: int) -> None:
    """The coefficients are read-only, not aligned, and separated by headers of blocks."""
    own, matrix = hash_for(blocks), random_matrix(blocks, FULL)
    head = np.frombuffer(BFV.summed.head, np.uint8)
    data = np.concatenate([np.concatenate([head, row.view(np.uint8)]) for row in matrix])
    sent = decode(encode(Message({}, {"sealed": data}))).arrays["sealed"]
    lengths = np.full(blocks, BFV.summed.length, np.int32)
    found = coefficients(BFV, Ciphertexts(sent, lengths), blocks)
    assert not found.flags.writeable and not found.flags.aligned
    assert np.array_equal(found, matrix)
    assert own.of_matrix(found) == plain(own.blocks, matrix, own.coefficients[0], Q)


def test_a_long_sum_is_hashed_without_a_copy_of_it() -> None:
    """400 blocks have 26 MB; an update of BERT-base's size has thirty times as many."""
    blocks = 400
    own = hash_for(blocks)
    rows = np.zeros((blocks, BFV.summed.length), np.uint8)
    rows[:, : len(BFV.summed.head)] = np.frombuffer(BFV.summed.head, np.uint8)
    rows[-1, len(BFV.summed.head)] = 1  # the first coefficient of the last block
    total = Ciphertexts(rows.reshape(-1), np.full(blocks, BFV.summed.length, np.int32))
    tracemalloc.start()
    found = own.of_matrix(coefficients(BFV, total, blocks))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == int(own.blocks[-1]) * int(own.coefficients[0][0]) % Q
    assert peak < 10_000_000


# What the hash tells apart


def test_any_single_coefficient_counts() -> None:
    """The hash of a matrix with a single 1 is the product of the weight of its row and the number of its column."""
    own = hash_for(3, 11)
    found = set()
    for block in range(3):
        for place in range(11):
            matrix = np.zeros((3, 11), np.uint64)
            matrix[block, place] = 1
            expected = int(own.blocks[block]) * int(own.coefficients[0][place]) % Q
            assert own.of_matrix(matrix) == expected != 0
            found.add(expected)
    assert len(found) == 33


@settings(max_examples=80, deadline=None)
@given(block=st.integers(0, 16), place=st.integers(0, FULL - 1), by=st.integers(1, Q - 1) | st.just(1))
def test_every_change_of_one_coefficient_changes_the_hash(block: int, place: int, by: int) -> None:
    """The change is ρ_b · Δ · r_j in c0 and in c1."""
    matrix = LARGE.copy()
    matrix[block, place] = (int(matrix[block, place]) + by) % Q
    moved = int(LARGE_HASH.blocks[block]) * by * int(LARGE_HASH.coefficients[0][place])
    assert moved % Q
    assert LARGE_HASH.of_matrix(matrix) == (LARGE_HASH.of_matrix(LARGE) + moved) % Q


LARGE, LARGE_HASH = random_matrix(17, FULL), hash_for(17)


def test_swapping_any_two_blocks_changes_the_hash() -> None:
    own, matrix = hash_for(6, 9), random_matrix(6, 9)
    found = {own.of_matrix(matrix)}
    for first in range(6):
        for second in range(first + 1, 6):
            swapped = matrix.copy()
            swapped[[first, second]] = matrix[[second, first]]
            found.add(own.of_matrix(swapped))
    assert len(found) == 1 + 15


def test_swapping_two_coefficients_or_both_polynomials_changes_the_hash() -> None:
    own, matrix = hash_for(2, 10), random_matrix(2, 10)
    swapped = matrix[:, [1, 0, *range(2, 10)]]
    turned = np.concatenate([matrix[:, 5:], matrix[:, :5]], axis=1)
    assert len({own.of_matrix(one) for one in (matrix, swapped, turned, matrix[::-1].copy())}) == 4


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), sites=st.integers(2, 5))
def test_the_tags_of_sites_add_up_to_the_tag_of_their_sum(seed: int, sites: int) -> None:
    own, names = hash_for(3, 7), [f"h{number}" for number in range(sites)]
    given_rows = [random_matrix(3, 7, seed=seed + number) for number in range(sites)]
    digests = [sha256(rows.tobytes()).hexdigest() for rows in given_rows]
    pads = [
        derive_pad(KEY, context=CONTEXT, site=name, digest=digest, moduli=(Q,))
        for name, digest in zip(names, digests, strict=True)
    ]
    tags = [add_tags([(own.of_matrix(rows),), pad], (Q,)) for rows, pad in zip(given_rows, pads, strict=True)]
    total = (sum(rows.astype(object) for rows in given_rows) % Q).astype(np.uint64)
    assert add_tags([(own.of_matrix(total),), *pads], (Q,)) == add_tags(tags, (Q,))
    # Not where a site is left out of the list or of the sum, or listed with another update than it submitted.
    assert add_tags([(own.of_matrix(total),), *pads[1:]], (Q,)) != add_tags(tags[1:], (Q,))
    assert add_tags([(own.of_matrix(given_rows[0]),), *pads], (Q,)) != add_tags(tags, (Q,))
    other = derive_pad(KEY, context=CONTEXT, site=names[0], digest=sha256(b"other").hexdigest(), moduli=(Q,))
    assert add_tags([(own.of_matrix(total),), other, *pads[1:]], (Q,)) != add_tags(tags, (Q,))


# Keys


def test_keys_are_derived_from_the_group_key_and_the_exchange() -> None:
    own = derive_hash(KEY, context=CONTEXT, moduli=(Q, 1099510890497), blocks=5, coefficients=9)
    assert own.moduli == (Q, 1099510890497)
    assert own.blocks.tolist() == key_stream(key_of(b"wardround-mac-blocks-2\x00", CONTEXT), 5, Q).tolist()
    for place, modulus in enumerate(own.moduli):
        key = key_of(b"wardround-mac-coefficients-2\x00", CONTEXT, str(place).encode())
        assert own.coefficients[place].tolist() == key_stream(key, 9, modulus).tolist()


@pytest.mark.parametrize("moduli", [(5,), (3, 5), (5, 3, 2)])
def test_weights_of_blocks_are_uniform_modulo_the_largest_prime(moduli: tuple[int, ...]) -> None:
    """If weights were drawn below 2^60, some residues, such as zero, would be twice as likely modulo a 60-bit prime."""
    weights = derive_hash(KEY, context=CONTEXT, moduli=moduli, blocks=5000, coefficients=1).blocks
    counts = np.bincount(weights.astype(np.int64))
    assert len(counts) == 5
    assert counts.min() > 800  # of 1000 that are expected, seven standard deviations


def test_hashes_differ_by_key_and_exchange() -> None:
    matrix = random_matrix(2, 5)
    hashes = [hash_for(2, 5), hash_for(2, 5, context=b"d" * 32), hash_for(2, 5, key=bytes(32))]
    assert len({own.of_matrix(matrix) for own in hashes}) == 3
    assert hash_for(2, 5).of_matrix(matrix) == hashes[0].of_matrix(matrix)


def pad(*, key: bytes = KEY, context: bytes = CONTEXT, site: str = "h1", digest: str = DIGEST) -> MacTag:
    return derive_pad(key, context=context, site=site, digest=digest, moduli=ckks.PRIMES)


def test_a_pad_is_derived_from_the_exchange_the_site_and_the_digest() -> None:
    parts = CONTEXT, b"h1", bytes.fromhex(DIGEST)
    for place, modulus in enumerate(ckks.PRIMES):
        key = key_of(b"wardround-mac-pad-2\x00", *parts, str(place).encode())
        assert pad()[place] == int(key_stream(key, 1, modulus)[0]) < modulus


def test_pads_differ_by_key_exchange_site_digest_and_prime() -> None:
    others = [
        pad(),
        pad(key=bytes(32)),
        pad(context=b"d" * 32),
        pad(site="h2"),
        pad(site="h"),
        pad(site="h11"),
        pad(digest=sha256(b"another update").hexdigest()),
        pad(digest=DIGEST[:-1] + f"{int(DIGEST[-1], 16) ^ 1:x}"),
    ]
    for place in range(3):
        assert len({other[place] for other in others}) == len(others)
    one = derive_pad(KEY, context=CONTEXT, site="h1", digest=DIGEST, moduli=(Q, Q))
    assert one[0] != one[1]


@settings(max_examples=60, deadline=None)
@given(first=st.tuples(st.text("h12", max_size=3), st.binary(min_size=32, max_size=32)), seed=st.integers(0, 2**32))
def test_no_two_sites_and_updates_share_a_pad(first: tuple[str, bytes], seed: int) -> None:
    chance = np.random.default_rng(seed)
    second = f"h{chance.integers(9)}", chance.bytes(32)
    pads = [pad(site=site, digest=digest.hex()) for site, digest in (first, second)]
    assert (pads[0] == pads[1]) == (first == second)


# Of real ciphertexts


def test_the_hash_at_sealing_equals_that_of_the_coordinators_sum() -> None:
    """Under BFV the library computes the first from a weighted sum, and the second uses the coefficients of a sum."""
    slots = np.arange(3 * 4096 - 5, dtype=np.uint64)
    own, sealer = hash_for(3), Sealer(BFV, SECRET)
    tags, running = [], BfvSum(BFV, 3)
    for _ in range(3):
        sealed = sealer.seal(slots, own.blocks)
        tags.append(own.of_combination(sealed.high, sealed.low))
        running.add(sealed.ciphertexts)
    found = coefficients(BFV, running.total(), 3)
    assert (own.of_matrix(found),) == add_tags(tags, (Q,))
    assert len(set(tags)) == 3  # the same slots are other ciphertexts every time


def test_the_hash_at_sealing_equals_that_of_the_coordinators_sum_under_ckks() -> None:
    """Modulo each of three primes."""
    secret, values = ckks.new_secret(), np.linspace(-1, 1, 4096 + 3)
    own = derive_hash(KEY, context=CONTEXT, moduli=ckks.PRIMES, blocks=2, coefficients=ckks.COEFFICIENTS)
    tags, running = [], ckks.CkksSum(ckks.public_part(secret), len(values))
    for _ in range(2):
        sealed = ckks.seal(values, secret, own.blocks)
        tags.append(own.of_combination(sealed.high, sealed.low))
        running.add(sealed.ciphertexts)
    found = ckks.combination(running.total(), secret, len(values), own.blocks)
    assert own.of_combination(found.high, found.low) == add_tags(tags, ckks.PRIMES)
    assert all(0 <= number < prime for tag in tags for number, prime in zip(tag, ckks.PRIMES, strict=True))
    for place in range(3):
        assert tags[0][place] != tags[1][place]
