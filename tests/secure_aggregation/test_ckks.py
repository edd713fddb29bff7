from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from tests.secure_aggregation.cohort import ckks_block

from wardround.errors import MessageError, UsageError
from wardround.federation.message import Array
from wardround.secure_aggregation import ckks
from wardround.secure_aggregation.bfv import HALF, BfvParameters, Ciphertexts
from wardround.secure_aggregation.ckks import (
    COEFFICIENTS,
    PRIMES,
    CkksSum,
    check,
    combination,
    new_secret,
    public_part,
)

tenseal = pytest.importorskip("tenseal", reason="install wardround[sealed]")

SECRET = new_secret()
PUBLIC = public_part(SECRET)
NUMBERS: Array = np.linspace(-1, 1, 4096 + 3, dtype=np.float32)  # of two blocks


def seal(numbers: Array, secret: bytes) -> Ciphertexts:
    return ckks.seal(numbers, secret, np.ones(ckks.blocks(len(numbers)), np.uint64)).ciphertexts


ONE = seal(NUMBERS, SECRET)


def refusal(ciphertexts: Ciphertexts, numbers: int = len(NUMBERS)) -> str:
    with pytest.raises(MessageError) as error:
        check(PUBLIC, ciphertexts, numbers)
    return error.value.code


def as_sent(*vectors: Any) -> Ciphertexts:
    parts = [vector.serialize() for vector in vectors]
    return Ciphertexts(np.frombuffer(b"".join(parts), np.uint8), np.array([len(part) for part in parts], np.int32))


def test_the_sum_of_three_sites() -> None:
    running = CkksSum(PUBLIC, len(NUMBERS))
    for factor in (1.0, -3.0, 0.5):
        running.add(seal(NUMBERS * np.float32(factor), SECRET))
    found = ckks.open(running.total(), SECRET, len(NUMBERS))
    assert found.dtype == np.float64
    assert np.abs(found - NUMBERS * -1.5).max() < 1e-6


def test_adding_may_continue_after_a_total() -> None:
    running = CkksSum(PUBLIC, len(NUMBERS))
    with pytest.raises(MessageError, match="no ciphertext to add"):
        running.total()
    running.add(ONE)
    assert np.abs(ckks.open(running.total(), SECRET, len(NUMBERS)) - NUMBERS).max() < 1e-6
    running.add(ONE)
    assert np.abs(ckks.open(running.total(), SECRET, len(NUMBERS)) - 2 * NUMBERS).max() < 1e-6


def test_a_block_holds_4096_numbers_and_is_about_twenty_times_as_long() -> None:
    assert [ckks.blocks(numbers) for numbers in (0, 1, 4096, 4097)] == [0, 1, 1, 2]
    assert len(ONE.lengths) == 2
    assert 19 < ONE.lengths[0] / (4 * 4096) < 22


def test_an_empty_update_is_sealed_into_no_blocks() -> None:
    empty = seal(np.zeros(0, np.float32), SECRET)
    check(PUBLIC, empty, 0)
    assert ckks.open(empty, SECRET, 0).tolist() == []


def test_adding_needs_no_secret_key_and_refuses_one() -> None:
    context = tenseal.context_from(PUBLIC)
    assert context.is_public()
    with pytest.raises(ValueError, match="secret_key"):
        tenseal.ckks_vector_from(context, ONE.data[: ONE.lengths[0]].tobytes()).decrypt()
    for use in (lambda: CkksSum(SECRET, 1), lambda: check(SECRET, ONE, len(NUMBERS))):
        with pytest.raises(MessageError, match="rotate the keys") as error:
            use()
        assert error.value.code == "key"


def test_a_site_needs_the_secret_key() -> None:
    with pytest.raises(MessageError, match="public context"):
        seal(NUMBERS, PUBLIC)
    with pytest.raises(MessageError, match="public context"):
        ckks.open(ONE, PUBLIC, len(NUMBERS))


def test_a_wrong_key_is_detected() -> None:
    with pytest.raises(MessageError, match="another key") as error:
        ckks.open(ONE, new_secret(), len(NUMBERS))
    assert error.value.code == "key"


def small_context() -> bytes:
    context = tenseal.context(tenseal.SCHEME_TYPE.CKKS, 4096, coeff_mod_bit_sizes=[40, 20, 40])
    context.global_scale = 2.0**40
    found: bytes = context.serialize(save_secret_key=True)
    return found


@pytest.mark.parametrize("data", [b"", b"key", SECRET[:1000], small_context(), BfvParameters("standard").new_secret()])
def test_bytes_that_are_not_a_key_are_refused(data: bytes) -> None:
    for use in (lambda: seal(NUMBERS, data), lambda: CkksSum(data, 1)):
        with pytest.raises(MessageError, match="not a CKKS key"):
            use()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_infinity_are_refused(bad: float) -> None:
    with pytest.raises(MessageError) as error:
        seal(np.array([0.0, bad], np.float32), SECRET)
    assert error.value.code == "not-a-number"


def test_unexpected_blocks_are_refused() -> None:
    check(PUBLIC, ONE, len(NUMBERS))
    assert refusal(ONE, len(NUMBERS) + 1) == "ciphertext"  # the last block holds one number less
    assert refusal(ONE, 4096) == "ciphertext"
    assert refusal(Ciphertexts(ONE.data[:-1], ONE.lengths)) == "ciphertext"
    assert refusal(Ciphertexts(ONE.data, ONE.lengths + np.array([1, -1], np.int32))) == "ciphertext"
    assert refusal(Ciphertexts(ONE.data, np.array([0, len(ONE.data)], np.int32))) == "ciphertext"
    assert refusal(Ciphertexts(ONE.data.view(np.int8), ONE.lengths)) == "ciphertext"
    assert refusal(Ciphertexts(np.zeros_like(ONE.data), ONE.lengths)) == "ciphertext"


def test_a_block_of_another_level_or_scale_is_refused() -> None:
    context = tenseal.context_from(SECRET)
    fresh, few = tenseal.ckks_vector(context, [1.0] * 4096), tenseal.ckks_vector(context, [1.0] * 3)
    check(PUBLIC, as_sent(fresh, few), 4099)
    assert refusal(as_sent(fresh, few * 0.5)) == "ciphertext"  # multiplied, hence a level lower
    assert refusal(as_sent(fresh, tenseal.ckks_vector(context, [1.0] * 3, 2.0**30))) == "ciphertext"


def test_a_refused_site_leaves_the_sum_unchanged() -> None:
    running = CkksSum(PUBLIC, len(NUMBERS))
    running.add(ONE)
    before = ckks.open(running.total(), SECRET, len(NUMBERS))
    data = ONE.data.copy()
    data[ONE.lengths[0] + 40 :] = 0  # in the second block, after the first would have been added
    with pytest.raises(MessageError):
        running.add(Ciphertexts(data, ONE.lengths))
    assert (ckks.open(running.total(), SECRET, len(NUMBERS)) == before).all()


# The weighted sum, by which a sum is authenticated


def residues(ciphertexts: Ciphertexts, numbers: int) -> list[Array]:
    """Return the coefficients of c0 and c1 of every block for each prime: [blocks, coefficients], Python integers."""
    context = tenseal.context_from(SECRET)
    ciphers = [vector.ciphertext()[0] for vector in ckks._loaded(context, ciphertexts, numbers)]
    count = 2 * len(PRIMES) * 8192
    table = np.array([[cipher[place] for place in range(count)] for cipher in ciphers], np.uint64).astype(object)
    return [table.reshape(-1, 2, 3, 8192)[:, :, place].reshape(len(ciphers), -1) for place in range(len(PRIMES))]


def combined(rows: list[Array], factors: list[int]) -> list[list[int]]:
    weights = np.array(factors, object)[:, None]
    return [((weights * row).sum(axis=0) % prime).tolist() for row, prime in zip(rows, PRIMES, strict=True)]


@pytest.mark.parametrize(
    "weights", [[0, 0], [1, 0], [0, 1], [2**30, 2**30], [2**30 - 1, 1], [2**60 - 1, 2**60 - 1], [2**59 + 5, 2**31 + 7]]
)
def test_the_weighted_sum_is_exact_modulo_each_prime(weights: list[int]) -> None:
    """Numbers add approximately under CKKS, but ciphertexts add exactly."""
    sealed = ckks.seal(NUMBERS, SECRET, np.array(weights, np.uint64))
    rows = residues(sealed.ciphertexts, len(NUMBERS))
    assert [part.tolist() for part in sealed.high] == combined(rows, [weight >> HALF for weight in weights])
    assert [part.tolist() for part in sealed.low] == combined(rows, [weight % 2**HALF for weight in weights])
    assert {(part.dtype, part.shape) for part in (*sealed.high, *sealed.low)} == {(np.dtype("u8"), (COEFFICIENTS,))}
    # And is the same when it is computed from what was sent.
    again = combination(sealed.ciphertexts, SECRET, len(NUMBERS), np.array(weights, np.uint64))
    assert again.ciphertexts is sealed.ciphertexts
    for first, second in zip((*sealed.high, *sealed.low), (*again.high, *again.low), strict=True):
        assert np.array_equal(first, second)


def test_the_primes_are_those_of_the_key() -> None:
    parameters = tenseal.context_from(SECRET).seal_context().data.first_context_data().parms()
    assert tuple(prime.value() for prime in parameters.coeff_modulus()) == PRIMES
    assert [prime.bit_length() for prime in PRIMES] == [60, 40, 40]
    assert min(PRIMES) > 2**HALF  # no half of a weight is zero modulo a prime


@pytest.mark.parametrize("weights", [[], [1], [1, 1, 1]])
def test_a_wrong_number_of_weights_is_a_programming_error(weights: list[int]) -> None:
    """A block without a weight would not be sent, or would not be authenticated."""
    with pytest.raises(AssertionError, match="one weight per block"):
        ckks.seal(NUMBERS, SECRET, np.array(weights, np.uint64))
    with pytest.raises(ValueError, match="zip"):
        combination(ONE, SECRET, len(NUMBERS), np.array(weights, np.uint64))


def one_block(*, ntt: bool) -> Ciphertexts:
    """Return the ciphertexts of three numbers."""
    cipher = tenseal.ckks_vector(tenseal.context_from(SECRET), [1.0, 2.0, 3.0]).ciphertext()[0]
    part = ckks_block(cipher, 3, ntt=ntt)
    return Ciphertexts(np.frombuffer(part, np.uint8), np.array([len(part)], np.int32))


def test_a_block_that_is_not_in_ntt_form_is_refused_by_our_own_check() -> None:
    """SEAL would raise its own error while a sum is computed or checked."""
    good, bad = one_block(ntt=True), one_block(ntt=False)
    assert np.abs(ckks.open(good, SECRET, 3) - [1, 2, 3]).max() < 1e-6
    assert refusal(bad, 3) == "ciphertext"
    running = CkksSum(PUBLIC, 3)
    running.add(good)
    before = running.total().data.tobytes()
    weights = np.ones(1, np.uint64)
    for use in (
        lambda: running.add(bad),
        lambda: combination(bad, SECRET, 3, weights),
        lambda: ckks.open(bad, SECRET, 3),
    ):
        with pytest.raises(MessageError) as error:
            use()
        assert error.value.code == "ciphertext"
    assert running.total().data.tobytes() == before


@pytest.mark.parametrize("numbers", [1, 4096, 4097])
def test_a_stand_in_needs_as_many_decryptions_as_a_sum_and_returns_zeros(
    numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    decrypt = tenseal.CKKSVector.decrypt
    monkeypatch.setattr(tenseal.CKKSVector, "decrypt", lambda self, *rest: calls.append(1) or decrypt(self, *rest))
    sealed = seal(np.ones(numbers), SECRET)
    ckks.open(sealed, SECRET, numbers)
    opened = len(calls)
    found = ckks.open_stand_in(SECRET, numbers)
    assert (opened, len(calls)) == (ckks.blocks(numbers), 2 * ckks.blocks(numbers))
    assert (found.shape, found.any()) == ((numbers,), False)


def test_ckks_works_in_a_fresh_process() -> None:
    """A site of a study under CKKS need not load what BFV needs."""
    source = (
        "import numpy as np\n"
        "from wardround.secure_aggregation import ckks\n"
        "secret = ckks.new_secret()\n"
        "sealed = ckks.seal(np.ones(3), secret, np.ones(1, np.uint64))\n"
        "running = ckks.CkksSum(ckks.public_part(secret), 3)\n"
        "running.add(sealed.ciphertexts)\n"
        "assert abs(ckks.open(running.total(), secret, 3) - 1).max() < 1e-6\n"
    )
    subprocess.run([sys.executable, "-c", source], check=True)


def test_without_the_library_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tenseal", None)
    with pytest.raises(UsageError, match=r"wardround\[sealed\]"):
        ckks._tenseal.__wrapped__()
