from __future__ import annotations

import resource
import struct
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.processes import open_files

from wardround.errors import MessageError, UsageError
from wardround.federation.message import Array
from wardround.secure_aggregation import bfv, ckks
from wardround.secure_aggregation.bfv import (
    HALF,
    BfvParameters,
    BfvSum,
    Ciphertexts,
    Opener,
    SealedBlocks,
    Sealer,
    check,
    coefficients,
    is_secret,
)
from wardround.secure_aggregation.mac import derive_hash

pytest.importorskip("tenseal", reason="install wardround[sealed]")

STANDARD, COMPACT = BfvParameters("standard"), BfvParameters("compact")
SECRETS = {parameters.name: parameters.new_secret() for parameters in (STANDARD, COMPACT)}
BOTH = pytest.mark.parametrize("parameters", [STANDARD, COMPACT], ids=lambda parameters: parameters.name)
HEAD, COEFFICIENTS, TAIL, SEED = 123, 4096 * 8, 17, 64  # bytes of a fresh block
FRESH, SUMMED = HEAD + COEFFICIENTS + TAIL + SEED, HEAD + 2 * COEFFICIENTS


def weighted(slots: list[int], weights: list[int], parameters: BfvParameters = STANDARD) -> SealedBlocks:
    sealer = Sealer(parameters, SECRETS[parameters.name])
    return sealer.seal(np.array(slots, np.uint64), np.array(weights, np.uint64))


def sealed(slots: list[int], parameters: BfvParameters = STANDARD) -> Ciphertexts:
    return weighted(slots, [1] * parameters.blocks(len(slots)), parameters).ciphertexts


def added(*ciphertexts: Ciphertexts, parameters: BfvParameters = STANDARD) -> Ciphertexts:
    running = BfvSum(parameters)
    for one in ciphertexts:
        running.add(one)
    return running.total()


def opened(total: Ciphertexts, slots: int, parameters: BfvParameters = STANDARD) -> list[int]:
    found = Opener(parameters, SECRETS[parameters.name]).open(total, slots)
    assert found.dtype == np.uint64
    return found.tolist()


def altered(ciphertexts: Ciphertexts, at: int, new: bytes) -> Ciphertexts:
    data = ciphertexts.data.copy()
    data[at : at + len(new)] = np.frombuffer(new, np.uint8)
    return Ciphertexts(data, ciphertexts.lengths)


def refusal(ciphertexts: Ciphertexts, blocks: int = 1, parameters: BfvParameters = STANDARD) -> str:
    with pytest.raises(MessageError) as error:
        check(parameters, ciphertexts, blocks)
    return error.value.code


ONE = sealed([1, 2, 3])


@BOTH
def test_the_parameters_are_safe_and_what_was_measured(parameters: BfvParameters) -> None:
    assert parameters.context.parameters_set()
    modulus = {"standard": 70368743669761, "compact": 281474976694273}[parameters.name]
    width, fields = {"standard": (22, 2), "compact": (15, 3)}[parameters.name]
    assert (parameters.packing.width, parameters.packing.fields) == (width, fields)
    assert parameters.packing.modulus == modulus
    assert modulus % (2 * 4096) == 1  # so that 4096 slots fit a polynomial
    assert (parameters.block, parameters.coefficients) == (4096, 2 * 4096)
    assert [parameters.blocks(slots) for slots in (0, 1, 4096, 4097, 8192, 8193)] == [0, 1, 1, 2, 2, 3]
    assert parameters.coefficient_modulus == parameters.fresh.modulus == 1152921504606830593
    assert 2 ** (2 * HALF) > parameters.coefficient_modulus  # two halves hold any weight
    assert 2**HALF < modulus // 2  # SEAL multiplies by a half as it is, not by what it stands for modulo the ring


def test_a_context_is_made_once() -> None:
    assert BfvParameters("standard").context is STANDARD.context


def test_an_unknown_packing_is_refused() -> None:
    with pytest.raises(UsageError, match="choose one of standard, compact"):
        BfvParameters("tight")


def test_unsafe_parameters_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bfv, "_DEGREE", 2048)  # 60 bits are more than 128-bit security allows there
    with pytest.raises(UsageError, match="unsafe"):
        bfv._context.__wrapped__(46)


@BOTH
def test_what_three_sites_sealed_adds_modulo_the_ring(parameters: BfvParameters) -> None:
    last = parameters.packing.modulus - 1
    slots = 4096 + 2  # of two blocks
    numbers = [list(range(slots)), [last] * slots, [5] * slots]
    total = added(*(sealed(own, parameters) for own in numbers), parameters=parameters)
    assert opened(total, slots, parameters) == [number - 1 + 5 for number in range(slots)]


@BOTH
@settings(deadline=None, max_examples=10)
@given(data=st.data())
def test_any_slots_add_up(parameters: BfvParameters, data: st.DataObject) -> None:
    sites, slots = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 40))
    slot = st.integers(0, parameters.packing.modulus - 1)
    numbers = [data.draw(st.lists(slot, min_size=slots, max_size=slots)) for _ in range(sites)]
    total = added(*(sealed(own, parameters) for own in numbers), parameters=parameters)
    sums = opened(total, slots, parameters)
    assert sums == [sum(column) % parameters.packing.modulus for column in zip(*numbers, strict=True)]


def test_an_empty_update_is_sealed_into_no_blocks() -> None:
    empty = sealed([])
    assert (len(empty.data), len(empty.lengths)) == (0, 0)
    check(STANDARD, empty, 0)


def test_the_ciphertexts_of_one_site_can_be_opened_like_a_sum() -> None:
    assert opened(ONE, 3) == [1, 2, 3]
    assert opened(added(ONE), 3) == [1, 2, 3]


def test_the_last_block_is_padded_with_zeros() -> None:
    two = sealed([9] * 4097)
    assert opened(two, 2 * 4096) == [9] * 4097 + [0] * 4095


def test_sealing_twice_gives_different_bytes() -> None:
    again = sealed([1, 2, 3])
    assert (again.data[HEAD:] != ONE.data[HEAD:]).mean() > 0.9
    assert (again.data[-SEED:] != ONE.data[-SEED:]).any()


@pytest.mark.parametrize(("parameters", "most"), [(STANDARD, 1.05), (COMPACT, 0.70)])
def test_an_upload_is_no_larger_than_float32(parameters: BfvParameters, most: float) -> None:
    slots = 10 * parameters.block
    blocks = sealed([0] * slots, parameters)
    assert blocks.lengths.tolist() == [FRESH] * 10
    assert blocks.data.nbytes + blocks.lengths.nbytes <= most * 4 * slots * parameters.packing.fields


@pytest.mark.parametrize(
    ("slots", "weights"),
    [([1], []), ([1], [1, 2]), ([], [1]), ([1] * 4097, [1]), ([STANDARD.packing.modulus], [0])],
)
def test_slots_of_another_ring_or_without_weights_are_programming_errors(slots: list[int], weights: list[int]) -> None:
    with pytest.raises(AssertionError):
        weighted(slots, weights)


def test_a_wrong_number_of_ciphertexts_is_refused() -> None:
    two = sealed([1] * 4097)
    check(STANDARD, two, 2)
    for blocks in (0, 1, 3):
        assert refusal(two, blocks) == "ciphertext"
    assert refusal(Ciphertexts(two.data, two.lengths[:1])) == "ciphertext"  # bytes are left over
    assert refusal(Ciphertexts(two.data[:-1], two.lengths), 2) == "ciphertext"  # one is missing
    shifted = np.array([FRESH - 1, FRESH + 1], np.int32)
    assert refusal(Ciphertexts(two.data, shifted), 2) == "ciphertext"


@pytest.mark.parametrize(
    "bad",
    [
        Ciphertexts(ONE.data.view(np.int8), ONE.lengths),
        Ciphertexts(ONE.data, ONE.lengths.astype(np.int64)),
        Ciphertexts(ONE.data.reshape(1, -1), ONE.lengths),
        Ciphertexts(ONE.data, ONE.lengths.reshape(1, 1)),
        Ciphertexts(np.repeat(ONE.data, 2)[::2], ONE.lengths),
    ],
)
def test_arrays_of_another_kind_are_refused(bad: Ciphertexts) -> None:
    assert refusal(bad) == "ciphertext"


@pytest.mark.parametrize("at", [*range(HEAD), *range(HEAD + COEFFICIENTS, HEAD + COEFFICIENTS + TAIL)])
def test_constant_bytes_must_not_differ_by_a_bit(at: int) -> None:
    assert refusal(altered(ONE, at, bytes([ONE.data[at] ^ 1]))) == "ciphertext"


def test_a_coefficient_outside_the_ring_is_refused() -> None:
    modulus = STANDARD.fresh.modulus
    assert modulus.bit_length() == 60
    for at in (HEAD, HEAD + COEFFICIENTS - 8):
        check(STANDARD, altered(ONE, at, struct.pack("<Q", modulus - 1)), 1)
        assert refusal(altered(ONE, at, struct.pack("<Q", modulus))) == "ciphertext"


def test_ciphertexts_of_the_other_packing_or_of_a_sum_are_refused() -> None:
    assert refusal(sealed([1], COMPACT)) == "ciphertext"
    total = added(ONE)
    assert total.lengths.tolist() == [SUMMED]
    assert refusal(total) == "ciphertext"


def test_a_frame_that_would_decompress_to_more_is_refused() -> None:
    # 8,000 blocks of zstd, each of which stands for 32,946 zeros.
    block = (32946 << 3 | 0b010).to_bytes(3, "little") + b"\x00"
    assert refusal(altered(ONE, 23, block * 8000)) == "ciphertext"


def test_a_refused_site_leaves_the_sum_unchanged() -> None:
    good = sealed([1] * 4097)
    running = BfvSum(STANDARD, 2)
    last_head = FRESH + 40  # in the second block, after the first would have been added
    for bad in (altered(good, last_head, b"\xff"), ONE):
        with pytest.raises(MessageError):
            running.add(bad)
    with pytest.raises(MessageError, match="no ciphertext to add"):
        running.total()
    running.add(good)
    before = running.total().data.tobytes()
    with pytest.raises(MessageError):
        running.add(altered(good, last_head, b"\xff"))
    assert running.total().data.tobytes() == before
    running.add(good)
    assert opened(running.total(), 4097) == [2] * 4097


def test_the_first_update_decides_the_number_of_blocks() -> None:
    running = BfvSum(STANDARD)
    running.add(ONE)
    with pytest.raises(MessageError):
        running.add(sealed([1] * 4097))


def added_to_another(one: Ciphertexts) -> list[int] | str:
    """Return the slots of its sum with a site that sent 10 and zeros, or the code with which the sum is refused."""
    try:
        return opened(added(one, sealed([10])), 3)
    except MessageError as error:
        return error.code


def test_a_bit_within_the_noise_does_not_change_the_decrypted_slots() -> None:
    changed = altered(ONE, HEAD, bytes([ONE.data[HEAD] ^ 1]))
    assert added_to_another(changed) == [11, 2, 3]
    # The MAC, which is over ciphertexts, sees it all the same.
    assert hashed(added(changed)) != hashed(added(ONE))


def hashed(total: Ciphertexts) -> int:
    blocks = len(total.lengths)
    moduli = (STANDARD.coefficient_modulus,)
    own = derive_hash(bytes(32), context=bytes(32), moduli=moduli, blocks=blocks, coefficients=STANDARD.coefficients)
    return own.of_matrix(coefficients(STANDARD, total, blocks))


@pytest.mark.parametrize("at", [HEAD + 6, HEAD + 2000 * 8 + 3, FRESH - SEED, FRESH - 1])
def test_any_other_altered_bit_changes_the_decrypted_slots(at: int) -> None:
    changed = altered(ONE, at, bytes([ONE.data[at] ^ 0x80]))
    assert added_to_another(changed) != [11, 2, 3]
    assert hashed(added(changed)) != hashed(added(ONE))


def test_a_block_that_cannot_be_decrypted_is_noise_that_only_the_mac_detects() -> None:
    """The noise is measured in the first block only, because the sum was authenticated before."""
    two = sealed([1] * 4097)
    at = FRESH + HEAD + 6
    spoiled = altered(two, at, bytes([two.data[at] ^ 0x55]))
    slots = opened(spoiled, 4097)
    assert slots[:4096] == [1] * 4096
    assert slots[4096] != 1
    assert hashed(added(spoiled)) != hashed(added(two))


@BOTH
def test_a_wrong_key_is_detected(parameters: BfvParameters) -> None:
    total = added(sealed([1, 2], parameters), parameters=parameters)
    with pytest.raises(MessageError, match="another key") as error:
        Opener(parameters, parameters.new_secret()).open(total, 2)
    assert error.value.code == "key"


def test_a_sum_without_noise_budget_is_refused() -> None:
    # The same ciphertext again and again is the worst case: its noise adds in one direction.
    running = BfvSum(COMPACT)
    one = sealed([1], COMPACT)
    for _ in range(32):
        running.add(one)
    assert opened(running.total(), 1, COMPACT) == [32]
    for _ in range(224):
        running.add(one)
    with pytest.raises(MessageError, match="too many sites"):
        opened(running.total(), 1, COMPACT)


@pytest.mark.parametrize("secret", [b"", b"secret", SECRETS["standard"][:-1], bytes(len(SECRETS["standard"]))])
def test_bytes_that_are_not_a_secret_key_are_refused(secret: bytes) -> None:
    for use in (Sealer, Opener):
        with pytest.raises(MessageError, match="not a secret key") as error:
            use(STANDARD, secret)
        assert error.value.code == "key"


def test_a_key_of_the_other_packing_is_refused() -> None:
    with pytest.raises(MessageError, match="'standard'"):
        Sealer(STANDARD, SECRETS["compact"])


def test_a_block_that_was_never_encrypted_is_refused() -> None:
    with pytest.raises(MessageError, match="not encrypted at all"):
        opened(altered(added(ONE), HEAD + COEFFICIENTS, bytes(COEFFICIENTS)), 3)


@pytest.mark.parametrize("blocks", [0, 2])
def test_a_sum_of_another_number_of_blocks_is_not_opened(blocks: int) -> None:
    with pytest.raises(MessageError, match="blocks of"):
        opened(added(ONE), blocks * 4096)


def test_a_sum_that_compresses_has_no_honest_site_and_is_refused() -> None:
    running = BfvSum(STANDARD)
    running.add(altered(ONE, HEAD, bytes(COEFFICIENTS)))
    with pytest.raises(MessageError, match="ask other sites"):
        running.total()
    running.add(ONE)
    assert running.total().lengths.tolist() == [SUMMED]


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_everything_that_passes_the_check_can_be_added(seed: int) -> None:
    generator = np.random.default_rng(seed)
    coefficients = generator.integers(0, STANDARD.fresh.modulus, 4096, np.uint64)
    forged = altered(altered(ONE, HEAD, coefficients.tobytes()), FRESH - SEED, generator.bytes(SEED))
    running = BfvSum(STANDARD)
    running.add(ONE)
    running.add(forged)
    with pytest.raises(MessageError, match="another key"):
        opened(running.total(), 3)


def test_no_file_stays_open() -> None:
    before = open_files()
    opened(added(sealed([1])), 1)
    Opener(STANDARD, SECRETS["standard"]).open_stand_in(1)
    with pytest.raises(MessageError):
        Sealer(STANDARD, b"none")
    with pytest.raises(MessageError):
        opened(altered(added(ONE), HEAD + COEFFICIENTS, bytes(COEFFICIENTS)), 3)
    assert open_files() <= before


def test_memory_does_not_grow_with_the_number_of_sites() -> None:
    site = sealed([0] * (40 * 4096))
    running, peaks = BfvSum(STANDARD), []
    for sites in range(1, 25):
        running.add(site)
        if sites in (4, 24):
            peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    assert peaks[1] - peaks[0] < 1000  # kilobytes; an update has 1,300


# The weighted sum over whole ciphertexts, and the coefficients of a sum


def grown(ciphertexts: Ciphertexts, parameters: BfvParameters = STANDARD) -> Array:
    """Return the coefficients of fresh blocks with expanded seeds, as Python integers."""
    total = added(ciphertexts, parameters=parameters)
    return coefficients(parameters, total, len(total.lengths)).astype(object)


def combined(matrix: Array, factors: list[int], parameters: BfvParameters = STANDARD) -> list[int]:
    return ((np.array(factors, object)[:, None] * matrix).sum(axis=0) % parameters.coefficient_modulus).tolist()


@BOTH
@pytest.mark.parametrize(
    "weights",
    [
        [0, 0, 0],
        [1, 0, 0],
        [0, 0, 1],
        [2**30, 2**30, 2**30],  # of which the lower half is zero
        [2**30 - 1, 1, 0],  # of which the upper half is zero
        [2**60 - 1, 2**60 - 1, 2**60 - 1],
        [0, 2**30, 2**60 - 1],
        [2**59 + 12345, 2**31 + 7, 1152921504606830592],
    ],
)
def test_the_weighted_sum_is_exact_over_the_expanded_ciphertexts(parameters: BfvParameters, weights: list[int]) -> None:
    """Both polynomials agree in every coefficient modulo q; nothing is rounded or left out."""
    found = weighted([parameters.packing.modulus - 1] * (2 * 4096 + 9), weights, parameters)
    matrix = grown(found.ciphertexts, parameters)
    (high,), (low,) = found.high, found.low
    assert high.dtype == low.dtype == np.uint64
    assert high.shape == low.shape == (parameters.coefficients,)
    assert high.tolist() == combined(matrix, [weight >> 30 for weight in weights], parameters)
    assert low.tolist() == combined(matrix, [weight % 2**30 for weight in weights], parameters)


@settings(deadline=None, max_examples=15)
@given(st.lists(st.integers(0, 2**60 - 1) | st.sampled_from([0, 1, 2**30, 2**60 - 1]), min_size=1, max_size=3))
def test_any_weights_give_the_sum_of_the_weighted_blocks(weights: list[int]) -> None:
    found = weighted([7] * (4096 * len(weights)), weights)
    matrix = grown(found.ciphertexts)
    (high,), (low,) = found.high, found.low
    whole = ((high.astype(object) << HALF) + low.astype(object)) % STANDARD.coefficient_modulus
    assert whole.tolist() == combined(matrix, weights)


def test_the_weighted_sum_of_nothing_is_zero() -> None:
    found = weighted([], [])
    assert not found.high[0].any() and not found.low[0].any()
    assert found.high[0].shape == (STANDARD.coefficients,)


def test_the_weighted_sum_includes_the_half_that_is_sent_as_a_seed() -> None:
    found = weighted([1, 2, 3], [1])
    data = found.ciphertexts.data[HEAD : HEAD + COEFFICIENTS].view("<u8")
    assert found.low[0][:4096].tolist() == data.tolist()
    second = found.low[0][4096:]
    assert 4000 < len(set(second.tolist())) <= 4096  # as random as c0
    assert second.tolist() == grown(found.ciphertexts)[0, 4096:].tolist()


def test_coefficients_are_the_ones_that_seal_has() -> None:
    total = added(ONE, sealed([4, 5, 6]))
    found = coefficients(STANDARD, total, 1)
    assert (found.dtype, found.shape) == (np.dtype("<u8"), (1, 8192))
    with bfv._loading(STANDARD, STANDARD.summed) as load:
        cipher = load(total.data.data, bfv._seal().Ciphertext())
    assert found[0].tolist() == [cipher[place] for place in range(8192)]
    assert np.shares_memory(found, total.data)  # no copy of what may be gigabytes


def test_coefficients_of_two_sites_add_modulo_q() -> None:
    other = sealed([9, 9, 9])
    expected = (grown(ONE) + grown(other)) % STANDARD.coefficient_modulus
    assert grown_sum(ONE, other).tolist() == expected.tolist()


def grown_sum(*parts: Ciphertexts) -> Array:
    return coefficients(STANDARD, added(*parts), 1)


@pytest.mark.parametrize("blocks", [0, 2])
def test_coefficients_of_another_number_of_blocks_are_refused(blocks: int) -> None:
    with pytest.raises(MessageError, match="blocks of") as error:
        coefficients(STANDARD, added(ONE), blocks)
    assert error.value.code == "ciphertext"


def test_coefficients_are_read_only_from_sums_in_the_accepted_form() -> None:
    total = added(ONE)
    modulus = STANDARD.coefficient_modulus
    last = SUMMED - 8
    coefficients(STANDARD, altered(total, last, struct.pack("<Q", modulus - 1)), 1)
    for bad in (
        ONE,  # fresh, not a sum
        added(sealed([1], COMPACT), parameters=COMPACT),
        altered(total, last, struct.pack("<Q", modulus)),
        altered(total, HEAD, struct.pack("<Q", 2**64 - 1)),
        *(altered(total, at, bytes([total.data[at] ^ 1])) for at in range(HEAD)),
        Ciphertexts(total.data[:-1], total.lengths),
        Ciphertexts(np.repeat(total.data, 2)[::2], total.lengths),  # not in one piece
        Ciphertexts(total.data.reshape(1, -1), total.lengths),
        Ciphertexts(total.data, total.lengths + 1),
    ):
        with pytest.raises(MessageError) as error:
            coefficients(STANDARD, bad, 1)
        assert error.value.code == "ciphertext"


def test_no_blocks_have_no_coefficients() -> None:
    empty = Ciphertexts(np.zeros(0, np.uint8), np.zeros(0, np.int32))
    assert coefficients(STANDARD, empty, 0).shape == (0, 8192)


class Counting:
    """A decryptor of SEAL that counts its calls."""

    def __init__(self, decryptor: Any) -> None:
        self._decryptor = decryptor
        self.calls: list[str] = []

    def decrypt(self, cipher: Any, plain: Any) -> None:
        self.calls.append("decrypt")
        self._decryptor.decrypt(cipher, plain)

    def invariant_noise_budget(self, cipher: Any) -> int:
        self.calls.append("budget")
        found: int = self._decryptor.invariant_noise_budget(cipher)
        return found


@BOTH
@pytest.mark.parametrize("slots", [1, 4096, 4097, 3 * 4096])
def test_a_stand_in_needs_as_many_decryptions_as_a_sum_and_returns_zeros(parameters: BfvParameters, slots: int) -> None:
    opener = Opener(parameters, SECRETS[parameters.name])
    total = added(sealed([1] * slots, parameters), parameters=parameters)
    calls = []
    for work in (lambda: opener.open(total, slots), lambda: opener.open_stand_in(slots)):
        opener._decryptor = Counting(Opener(parameters, SECRETS[parameters.name])._decryptor)
        found = work()
        calls.append(opener._decryptor.calls)
    assert calls[0] == calls[1]
    assert calls[0].count("decrypt") == parameters.blocks(slots)
    assert (found.dtype, found.shape) == (np.uint64, (slots,))
    assert not found.any()


def test_a_stand_in_is_really_encrypted() -> None:
    row = np.frombuffer(Opener(STANDARD, SECRETS["standard"])._stand_in(), np.uint8)
    stand_in = Ciphertexts(row, np.array([SUMMED], np.int32))
    assert grown_is_random(coefficients(STANDARD, stand_in, 1))
    assert opened(stand_in, 3) == [0, 0, 0]


def grown_is_random(rows: Array) -> bool:
    return all(len(set(half.tolist())) > 4000 for half in rows.reshape(2, 4096))


def test_a_library_that_writes_another_form_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    opener = Opener(STANDARD, SECRETS["standard"])
    monkeypatch.setattr(bfv._MemoryFile, "save_into", lambda self, thing, row: False)
    for use in (lambda: opener.open_stand_in(1), lambda: weighted([1], [1])):
        with pytest.raises(UsageError, match="unknown form"):
            use()


def test_secret_keys_are_found_at_any_position() -> None:
    context = ckks.new_secret()
    for secret in (*SECRETS.values(), context):
        assert is_secret(secret)
        assert is_secret(b"\x5e\xa1\x10 something before it" + secret + b"and after it")


def test_the_coordinators_objects_are_not_taken_for_secret_keys() -> None:
    public = ckks.public_part(ckks.new_secret())
    sealed_by_ckks = ckks.seal(np.ones(3, np.float32), ckks.new_secret(), np.ones(1, np.uint64)).ciphertexts
    plain: Array = np.random.default_rng(0).integers(0, 256, 1_000_000, np.uint8)
    for data in (ONE.data, added(ONE).data, sealed([1], COMPACT).data, sealed_by_ckks.data, plain):
        assert not is_secret(data.tobytes())
    assert not is_secret(public)
    assert not is_secret(b"")


def test_importing_the_module_does_not_load_the_encryption_library() -> None:
    modules = "wardround.secure_aggregation.plain, wardround.secure_aggregation.bfv"
    source = f"import sys, {modules}; assert 'tenseal' not in sys.modules"
    subprocess.run([sys.executable, "-c", source], check=True)


def test_without_the_library_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tenseal.sealapi", None)
    with pytest.raises(UsageError, match=r"wardround\[sealed\]"):
        bfv._seal.__wrapped__()
