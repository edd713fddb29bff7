from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from wardround.errors import MessageError, UsageError
from wardround.federation.message import Array
from wardround.privacy import ckks
from wardround.privacy.bfv import BfvParameters, Ciphertexts
from wardround.privacy.ckks import RunningSum, check, new_secret, public_part, seal

tenseal = pytest.importorskip("tenseal", reason="install wardround[sealed]")

SECRET = new_secret()
PUBLIC = public_part(SECRET)
NUMBERS: Array = np.linspace(-1, 1, 4096 + 3, dtype=np.float32)  # of two blocks
ONE = seal(NUMBERS, SECRET)


def refusal(ciphertexts: Ciphertexts, numbers: int = len(NUMBERS)) -> str:
    with pytest.raises(MessageError) as error:
        check(PUBLIC, ciphertexts, numbers)
    return error.value.code


def as_sent(*vectors: Any) -> Ciphertexts:
    parts = [vector.serialize() for vector in vectors]
    return Ciphertexts(np.frombuffer(b"".join(parts), np.uint8), np.array([len(part) for part in parts], np.int32))


def test_the_sum_of_three_sites() -> None:
    running = RunningSum(PUBLIC, len(NUMBERS))
    for factor in (1.0, -3.0, 0.5):
        running.add(seal(NUMBERS * np.float32(factor), SECRET))
    found = ckks.open(running.total(), SECRET, len(NUMBERS))
    assert found.dtype == np.float64
    assert np.abs(found - NUMBERS * -1.5).max() < 1e-6


def test_adding_goes_on_after_a_total() -> None:
    running = RunningSum(PUBLIC, len(NUMBERS))
    with pytest.raises(MessageError, match="no ciphertext to add"):
        running.total()
    running.add(ONE)
    assert np.abs(ckks.open(running.total(), SECRET, len(NUMBERS)) - NUMBERS).max() < 1e-6
    running.add(ONE)
    assert np.abs(ckks.open(running.total(), SECRET, len(NUMBERS)) - 2 * NUMBERS).max() < 1e-6


def test_blocks_of_4096_numbers_at_twenty_times_their_size() -> None:
    assert [ckks.blocks(numbers) for numbers in (0, 1, 4096, 4097)] == [0, 1, 1, 2]
    assert len(ONE.lengths) == 2
    assert 19 < ONE.lengths[0] / (4 * 4096) < 22


def test_nothing_is_sealed_into_nothing() -> None:
    empty = seal(np.zeros(0, np.float32), SECRET)
    check(PUBLIC, empty, 0)
    assert ckks.open(empty, SECRET, 0).tolist() == []


def test_who_adds_holds_no_secret_key() -> None:
    context = tenseal.context_from(PUBLIC)
    assert context.is_public()
    with pytest.raises(ValueError, match="secret_key"):
        tenseal.ckks_vector_from(context, ONE.data[: ONE.lengths[0]].tobytes()).decrypt()
    for use in (lambda: RunningSum(SECRET, 1), lambda: check(SECRET, ONE, len(NUMBERS))):
        with pytest.raises(MessageError, match="rotated") as error:
            use()
        assert error.value.code == "key"


def test_a_site_needs_the_secret_key() -> None:
    with pytest.raises(MessageError, match="public context"):
        seal(NUMBERS, PUBLIC)
    with pytest.raises(MessageError, match="public context"):
        ckks.open(ONE, PUBLIC, len(NUMBERS))


def test_another_key_is_told_from_this_one() -> None:
    with pytest.raises(MessageError, match="another key") as error:
        ckks.open(ONE, new_secret(), len(NUMBERS))
    assert error.value.code == "key"


def small_context() -> bytes:
    context = tenseal.context(tenseal.SCHEME_TYPE.CKKS, 4096, coeff_mod_bit_sizes=[40, 20, 40])
    context.global_scale = 2.0**40
    found: bytes = context.serialize(save_secret_key=True)
    return found


@pytest.mark.parametrize("data", [b"", b"key", SECRET[:1000], small_context(), BfvParameters("standard").new_secret()])
def test_what_is_no_key_is_refused(data: bytes) -> None:
    for use in (lambda: seal(NUMBERS, data), lambda: RunningSum(data, 1)):
        with pytest.raises(MessageError, match="no key of CKKS"):
            use()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_number_is_refused(bad: float) -> None:
    with pytest.raises(MessageError) as error:
        seal(np.array([0.0, bad], np.float32), SECRET)
    assert error.value.code == "not-a-number"


def test_other_blocks_than_expected_are_refused() -> None:
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


def test_a_refused_site_leaves_the_sum_as_it_was() -> None:
    running = RunningSum(PUBLIC, len(NUMBERS))
    running.add(ONE)
    before = ckks.open(running.total(), SECRET, len(NUMBERS))
    data = ONE.data.copy()
    data[ONE.lengths[0] + 40 :] = 0  # in the second block, after the first would have been added
    with pytest.raises(MessageError):
        running.add(Ciphertexts(data, ONE.lengths))
    assert (ckks.open(running.total(), SECRET, len(NUMBERS)) == before).all()


def test_without_the_library_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tenseal", None)
    with pytest.raises(UsageError, match=r"wardround\[sealed\]"):
        ckks._tenseal.__wrapped__()
