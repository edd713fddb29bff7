from __future__ import annotations

import resource
import struct
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.processes import open_files

from wardround.errors import MessageError, UsageError
from wardround.federation.message import Array
from wardround.privacy import bfv, ckks
from wardround.privacy.bfv import BfvParameters, Ciphertexts, Opener, RunningSum, Sealer, check, is_secret

pytest.importorskip("tenseal", reason="install wardround[sealed]")

STANDARD, COMPACT = BfvParameters("standard"), BfvParameters("compact")
SECRETS = {parameters.name: parameters.new_secret() for parameters in (STANDARD, COMPACT)}
BOTH = pytest.mark.parametrize("parameters", [STANDARD, COMPACT], ids=lambda parameters: parameters.name)
HEAD, COEFFICIENTS, TAIL, SEED = 123, 4096 * 8, 17, 64  # bytes of a fresh block
FRESH, SUMMED = HEAD + COEFFICIENTS + TAIL + SEED, HEAD + 2 * COEFFICIENTS


def sealed(words: list[int], guards: list[int], parameters: BfvParameters = STANDARD) -> Ciphertexts:
    sealer = Sealer(parameters, SECRETS[parameters.name])
    return sealer.seal(np.array(words, np.uint64), np.array(guards, np.uint64))


def added(*ciphertexts: Ciphertexts, parameters: BfvParameters = STANDARD) -> Ciphertexts:
    running = RunningSum(parameters)
    for one in ciphertexts:
        running.add(one)
    return running.total()


def opened(total: Ciphertexts, words: int, parameters: BfvParameters = STANDARD) -> tuple[list[int], list[int]]:
    found, guards = Opener(parameters, SECRETS[parameters.name]).open(total, words)
    assert found.dtype == guards.dtype == np.uint64
    return found.tolist(), guards.tolist()


def altered(ciphertexts: Ciphertexts, at: int, new: bytes) -> Ciphertexts:
    data = ciphertexts.data.copy()
    data[at : at + len(new)] = np.frombuffer(new, np.uint8)
    return Ciphertexts(data, ciphertexts.lengths)


def refusal(ciphertexts: Ciphertexts, blocks: int = 1, parameters: BfvParameters = STANDARD) -> str:
    with pytest.raises(MessageError) as error:
        check(parameters, ciphertexts, blocks)
    return error.value.code


ONE = sealed([1, 2, 3], [7])


@BOTH
def test_the_parameters_are_safe_and_what_was_measured(parameters: BfvParameters) -> None:
    assert parameters.context.parameters_set()
    modulus = {"standard": 70368743669761, "compact": 281474976694273}[parameters.name]
    width, fields = {"standard": (22, 2), "compact": (15, 3)}[parameters.name]
    assert (parameters.packing.width, parameters.packing.fields) == (width, fields)
    assert parameters.packing.modulus == modulus
    assert modulus % (2 * 4096) == 1  # so that 4096 words fit a polynomial
    assert (parameters.block, parameters.payload) == (4096, 4095)
    assert [parameters.blocks(words) for words in (0, 1, 4095, 4096, 8190, 8191)] == [0, 1, 1, 2, 2, 3]


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
    words = 4095 + 2  # of two blocks
    numbers = [list(range(words)), [last] * words, [5] * words]
    guards = [[1, 2], [last, last], [10, 20]]
    total = added(*(sealed(n, g, parameters) for n, g in zip(numbers, guards, strict=True)), parameters=parameters)
    assert opened(total, words, parameters) == ([number - 1 + 5 for number in range(words)], [10, 21])


@BOTH
@settings(deadline=None, max_examples=10)
@given(data=st.data())
def test_any_words_add_up(parameters: BfvParameters, data: st.DataObject) -> None:
    sites, words = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 40))
    word = st.integers(0, parameters.packing.modulus - 1)
    numbers = [data.draw(st.lists(word, min_size=words, max_size=words)) for _ in range(sites)]
    guards = [[data.draw(word)] for _ in range(sites)]
    total = added(*(sealed(n, g, parameters) for n, g in zip(numbers, guards, strict=True)), parameters=parameters)
    sums, (guard,) = opened(total, words, parameters)
    assert sums == [sum(column) % parameters.packing.modulus for column in zip(*numbers, strict=True)]
    assert guard == sum(own for (own,) in guards) % parameters.packing.modulus


def test_nothing_is_sealed_into_nothing() -> None:
    empty = sealed([], [])
    assert (len(empty.data), len(empty.lengths)) == (0, 0)
    check(STANDARD, empty, 0)


def test_one_sites_ciphertexts_open_as_well_as_a_sum() -> None:
    assert opened(ONE, 3) == ([1, 2, 3], [7])
    assert opened(added(ONE), 3) == ([1, 2, 3], [7])


def test_zeros_follow_the_last_word_whatever_the_block_before_held() -> None:
    two = sealed([9] * 4096, [1, 2])
    assert opened(two, 2 * 4095) == ([9] * 4096 + [0] * 4094, [1, 2])


def test_sealing_twice_gives_other_bytes() -> None:
    again = sealed([1, 2, 3], [7])
    assert (again.data[HEAD:] != ONE.data[HEAD:]).mean() > 0.9
    assert (again.data[-SEED:] != ONE.data[-SEED:]).any()


@pytest.mark.parametrize(("parameters", "most"), [(STANDARD, 1.05), (COMPACT, 0.70)])
def test_an_upload_is_no_larger_than_float32(parameters: BfvParameters, most: float) -> None:
    words = 10 * parameters.payload
    blocks = Sealer(parameters, SECRETS[parameters.name]).seal(np.zeros(words, np.uint64), np.zeros(10, np.uint64))
    assert blocks.lengths.tolist() == [FRESH] * 10
    assert blocks.data.nbytes + blocks.lengths.nbytes <= most * 4 * words * parameters.packing.fields


@pytest.mark.parametrize(
    ("words", "guards"),
    [([1], []), ([1], [1, 2]), ([STANDARD.packing.modulus], [0]), ([0], [STANDARD.packing.modulus])],
)
def test_words_of_another_ring_or_without_guards_are_our_own_mistake(words: list[int], guards: list[int]) -> None:
    with pytest.raises(AssertionError):
        sealed(words, guards)


def test_ciphertexts_of_another_number_are_refused() -> None:
    two = sealed([1] * 4096, [1, 2])
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
def test_what_is_always_the_same_may_not_differ_by_a_bit(at: int) -> None:
    assert refusal(altered(ONE, at, bytes([ONE.data[at] ^ 1]))) == "ciphertext"


def test_a_coefficient_outside_the_ring_is_refused() -> None:
    modulus = STANDARD.fresh.modulus
    assert modulus.bit_length() == 60
    for at in (HEAD, HEAD + COEFFICIENTS - 8):
        check(STANDARD, altered(ONE, at, struct.pack("<Q", modulus - 1)), 1)
        assert refusal(altered(ONE, at, struct.pack("<Q", modulus))) == "ciphertext"


def test_ciphertexts_of_the_other_packing_or_of_a_sum_are_refused() -> None:
    assert refusal(sealed([1], [1], COMPACT)) == "ciphertext"
    total = added(ONE)
    assert total.lengths.tolist() == [SUMMED]
    assert refusal(total) == "ciphertext"


def test_a_frame_that_unpacks_into_more_is_not_unpacked() -> None:
    # 8,000 blocks of zstd, each of which stands for 32,946 zeros.
    block = (32946 << 3 | 0b010).to_bytes(3, "little") + b"\x00"
    assert refusal(altered(ONE, 23, block * 8000)) == "ciphertext"


def test_a_refused_site_leaves_the_sum_as_it_was() -> None:
    good = sealed([1] * 4096, [1, 2])
    running = RunningSum(STANDARD, 2)
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
    assert opened(running.total(), 4096) == ([2] * 4096, [2, 4])


def test_without_a_number_of_blocks_the_first_decides() -> None:
    running = RunningSum(STANDARD)
    running.add(ONE)
    with pytest.raises(MessageError):
        running.add(sealed([1] * 4096, [1, 2]))


def added_to_another(one: Ciphertexts) -> str | int:
    """The guard of its sum with a site whose guard is 1, or the code with which that sum is refused."""
    try:
        return opened(added(one, sealed([0], [1])), 3)[1][0]
    except MessageError as error:
        return error.code


def test_a_bit_within_the_noise_changes_nothing() -> None:
    assert added_to_another(altered(ONE, HEAD, bytes([ONE.data[HEAD] ^ 1]))) == 7 + 1


@pytest.mark.parametrize("at", [HEAD + 6, HEAD + 2000 * 8 + 3, FRESH - SEED, FRESH - 1])
def test_any_other_bit_that_was_altered_shows(at: int) -> None:
    assert added_to_another(altered(ONE, at, bytes([ONE.data[at] ^ 0x80]))) != 7 + 1


def test_a_block_that_cannot_be_decrypted_shows_in_its_guard() -> None:
    two = sealed([1] * 4096, [1, 2])
    words, guards = opened(altered(two, FRESH + HEAD + 6, b"\x55"), 4096)
    assert (words[0], guards[0]) == (1, 1)
    assert guards[1] != 2


@BOTH
def test_another_key_is_told_from_this_one(parameters: BfvParameters) -> None:
    total = added(sealed([1, 2], [3], parameters), parameters=parameters)
    with pytest.raises(MessageError, match="another key") as error:
        Opener(parameters, parameters.new_secret()).open(total, 2)
    assert error.value.code == "key"


def test_a_sum_with_no_room_left_for_its_noise_is_refused() -> None:
    # The same ciphertext again and again is the worst case: its noise adds in one direction.
    running = RunningSum(COMPACT)
    one = sealed([1], [1], COMPACT)
    for _ in range(32):
        running.add(one)
    assert opened(running.total(), 1, COMPACT) == ([32], [32])
    for _ in range(224):
        running.add(one)
    with pytest.raises(MessageError, match="too many sites"):
        opened(running.total(), 1, COMPACT)


@pytest.mark.parametrize("secret", [b"", b"secret", SECRETS["standard"][:-1], bytes(len(SECRETS["standard"]))])
def test_what_is_no_secret_key_is_refused(secret: bytes) -> None:
    for use in (Sealer, Opener):
        with pytest.raises(MessageError, match="no secret key") as error:
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
        opened(added(ONE), blocks * 4095)


def test_a_sum_that_compresses_holds_nobody_honest() -> None:
    running = RunningSum(STANDARD)
    running.add(altered(ONE, HEAD, bytes(COEFFICIENTS)))
    with pytest.raises(MessageError, match="ask others"):
        running.total()
    running.add(ONE)
    assert running.total().lengths.tolist() == [SUMMED]


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_whatever_passes_the_check_is_added(seed: int) -> None:
    generator = np.random.default_rng(seed)
    coefficients = generator.integers(0, STANDARD.fresh.modulus, 4096, np.uint64)
    forged = altered(altered(ONE, HEAD, coefficients.tobytes()), FRESH - SEED, generator.bytes(SEED))
    running = RunningSum(STANDARD)
    running.add(ONE)
    running.add(forged)
    with pytest.raises(MessageError, match="another key"):
        opened(running.total(), 3)


def test_no_file_stays_open() -> None:
    before = open_files()
    opened(added(sealed([1], [2])), 1)
    with pytest.raises(MessageError):
        Sealer(STANDARD, b"none")
    with pytest.raises(MessageError):
        opened(altered(added(ONE), HEAD + COEFFICIENTS, bytes(COEFFICIENTS)), 3)
    assert open_files() <= before


def test_memory_does_not_grow_with_the_number_of_sites() -> None:
    words = 40 * 4095
    site = Sealer(STANDARD, SECRETS["standard"]).seal(np.zeros(words, np.uint64), np.zeros(40, np.uint64))
    running, peaks = RunningSum(STANDARD), []
    for sites in range(1, 25):
        running.add(site)
        if sites in (4, 24):
            peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    assert peaks[1] - peaks[0] < 1000  # kilobytes; an update has 1,300


def test_secret_keys_are_found_wherever_they_lie() -> None:
    context = ckks.new_secret()
    for secret in (*SECRETS.values(), context):
        assert is_secret(secret)
        assert is_secret(b"\x5e\xa1\x10 something before it" + secret + b"and after it")


def test_what_the_coordinator_holds_is_no_secret_key() -> None:
    public = ckks.public_part(ckks.new_secret())
    sealed_by_ckks = ckks.seal(np.ones(3, np.float32), ckks.new_secret())
    plain: Array = np.random.default_rng(0).integers(0, 256, 1_000_000, np.uint8)
    for data in (ONE.data, added(ONE).data, sealed([1], [1], COMPACT).data, sealed_by_ckks.data, plain):
        assert not is_secret(data.tobytes())
    assert not is_secret(public)
    assert not is_secret(b"")


def test_the_door_needs_no_library_for_encryption() -> None:
    source = "import sys, wardround.privacy.aggregator, wardround.privacy.bfv; assert 'tenseal' not in sys.modules"
    subprocess.run([sys.executable, "-c", source], check=True)


def test_without_the_library_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tenseal.sealapi", None)
    with pytest.raises(UsageError, match=r"wardround\[sealed\]"):
        bfv._seal.__wrapped__()
