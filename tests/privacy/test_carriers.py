from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.privacy.cohort import CLIPS, SHAPES, code_of, reachable, secret_of, update_of

from wardround.errors import MessageError
from wardround.federation.message import Array
from wardround.privacy.bfv import BfvParameters
from wardround.privacy.carriers import BareWords, Carrier, NumberLayout, SealedNumbers, SealedWords

STANDARD = BfvParameters("standard")
SECRET = secret_of("bfv-standard").secret
CKKS_SECRET = secret_of("ckks").secret
NONE: Array = np.zeros(0, np.uint64)


def words(*numbers: int) -> Array:
    return np.array(numbers, np.uint64)


def added(carrier: Carrier, count: int, *parts: dict[str, Array]) -> dict[str, Array]:
    running = carrier.sum(count)
    for part in parts:
        running.add(part)
    return running.total()


def test_bare_words_add_modulo_two_to_the_32() -> None:
    carrier = BareWords()
    first, second = (carrier.seal(numbers, NONE, b"") for numbers in (words(1, 2**32 - 1, 7), words(2, 3, 0)))
    assert first["words"].dtype == np.uint32  # four bytes a number, as float32
    found, guards = carrier.open(added(carrier, 3, first, second), 3, b"")
    assert found.tolist() == [3, 2, 7]
    assert found.dtype == np.uint64
    assert len(guards) == carrier.payload == 0


def test_sealed_words_add_modulo_the_ring_and_so_do_their_guards() -> None:
    carrier, last = SealedWords(STANDARD), STANDARD.packing.modulus - 1
    first = carrier.seal(words(1, last, 7), words(last), SECRET)
    second = carrier.seal(words(2, 3, 0), words(5), SECRET)
    found, guards = carrier.open(added(carrier, 3, first, second), 3, SECRET)
    assert (found.tolist(), guards.tolist()) == ([3, 2, 7], [4])


def test_a_ciphertext_has_a_guard() -> None:
    assert SealedWords(STANDARD).payload == 4095
    assert SealedNumbers().payload == 0


def test_sealed_numbers_add_nearly() -> None:
    carrier = SealedNumbers()
    first, second = (carrier.seal(np.array(n), NONE, CKKS_SECRET) for n in ([0.5, -1.0], [0.25, 3.0]))
    found, guards = carrier.open(added(carrier, 2, first, second), 2, CKKS_SECRET)
    assert np.abs(found - [0.75, 2.0]).max() < 1e-6
    assert len(guards) == 0


def changed(arrays: dict[str, Array], place: int, bit: int = 1) -> dict[str, Array]:
    data = arrays["sealed"].copy()
    data[place] ^= bit
    return {**arrays, "sealed": data}


SEALED = SealedWords(STANDARD).seal(words(1, 2, 3), words(9), SECRET)
BARE = BareWords().seal(words(1, 2, 3), NONE, b"")
NUMBERS = SealedNumbers().seal(np.array([1.0, 2.0, 3.0]), NONE, CKKS_SECRET)
Change = Callable[[dict[str, Array]], dict[str, Array]]


@pytest.mark.parametrize(
    ("carrier", "whole", "change", "code"),
    [
        (BareWords(), BARE, lambda a: {}, "shapes"),
        (BareWords(), BARE, lambda a: {"words": a["words"][:2]}, "shapes"),
        (BareWords(), BARE, lambda a: {"words": a["words"].astype(np.uint64)}, "shapes"),
        (BareWords(), BARE, lambda a: {"words": a["words"].reshape(3, 1)}, "shapes"),
        (SealedWords(STANDARD), SEALED, lambda a: {"sealed": a["sealed"]}, "shapes"),
        (SealedWords(STANDARD), SEALED, lambda a: {**a, "sealed": a["sealed"][:-1]}, "ciphertext"),
        (SealedWords(STANDARD), SEALED, lambda a: {**a, "lengths": a["lengths"] - 1}, "ciphertext"),
        (SealedWords(STANDARD), SEALED, lambda a: {**a, "lengths": a["lengths"].astype(np.int64)}, "shapes"),
        (SealedWords(STANDARD), SEALED, lambda a: changed(a, 0), "ciphertext"),
        (SealedWords(STANDARD), SEALED, lambda a: changed(a, 100), "ciphertext"),
        (SealedWords(STANDARD), SEALED, lambda a: changed(a, 123 + 7, 0x80), "ciphertext"),  # above the modulus
        (SealedNumbers(), NUMBERS, lambda a: {**a, "sealed": a["sealed"][:-1]}, "ciphertext"),
        (SealedNumbers(), NUMBERS, lambda a: changed(a, 0, 0xFF), "ciphertext"),
        (SealedNumbers(), NUMBERS, lambda a: SEALED, "ciphertext"),
    ],
)
def test_what_is_refused_leaves_the_sum_as_it_was(
    carrier: Carrier, whole: dict[str, Array], change: Change, code: str
) -> None:
    secret = CKKS_SECRET if isinstance(carrier, SealedNumbers) else SECRET
    running = carrier.sum(3)
    running.add(whole)
    assert code_of(running.add, change(whole)) == code
    found, _ = carrier.open(running.total(), 3, secret)
    assert np.abs(found.astype(np.float64) - [1, 2, 3]).max() < 1e-6


def test_a_sum_of_another_length_is_refused() -> None:
    assert code_of(BareWords().open, BARE, 4, b"") == "shapes"
    assert code_of(SealedWords(STANDARD).open, SEALED, 5000, SECRET) == "ciphertext"


def test_under_another_key_nothing_opens() -> None:
    carriers: tuple[tuple[Carrier, dict[str, Array], str], ...] = (
        (SealedWords(STANDARD), SEALED, "bfv-standard"),
        (SealedNumbers(), NUMBERS, "ckks"),
    )
    for carrier, sealed, scheme in carriers:
        assert code_of(carrier.open, added(carrier, 3, sealed), 3, secret_of(scheme, number=1).secret) == "key"


def test_who_adds_numbers_holds_no_secret_key() -> None:
    contexts = [one for one in reachable(SealedNumbers().sum(3)) if hasattr(one, "is_private")]
    assert contexts and not any(context.is_private() for context in contexts)


def clips() -> dict[str, float]:
    return {"words": CLIPS["embedding"], "bias": CLIPS["top"]}


def test_unpacked_numbers_are_clipped_and_times_their_share() -> None:
    layout = NumberLayout(SHAPES, clips())
    packed = layout.pack(update_of((1.5, -1.5, 1.0, 0.5), (5.0, -4.0, 0.25)), share=0.5)
    assert packed.words.tolist() == [0.5, -0.5, 0.5, 0.25, 2.0, -2.0, 0.125]
    assert packed.clipped == 3
    assert not any(array.any() for array in packed.residue.values())
    mean = layout.unpack(packed.words, share=0.5, sites=1)
    assert mean["words"].tolist() == [[1.0, -1.0], [1.0, 0.5]]
    assert mean["bias"].tolist() == [4.0, -4.0, 0.25]
    assert {array.dtype for array in mean.values()} == {np.dtype(np.float32)}


def test_what_cannot_be_told_from_zero_is_zero() -> None:
    """Of four sites the noise is twice one's: below 3e-8 nothing is heard, whatever the share."""
    layout = NumberLayout(SHAPES, clips())
    sums = np.array([2.9e-8, -2.9e-8, 3.1e-8, -3.1e-8, 0.0, 1e-9, 1e-6])
    mean = layout.unpack(sums, share=0.5, sites=4)
    assert mean["words"].ravel() == pytest.approx([0.0, 0.0, 6.2e-8, -6.2e-8], rel=1e-6)
    assert mean["bias"] == pytest.approx([0.0, 0.0, 2e-6], rel=1e-6)


@pytest.mark.parametrize("sites", [1, 9])
def test_sealed_zeros_come_out_as_zeros(sites: int) -> None:
    layout, carrier = NumberLayout({"w": (4096,)}, {"w": 1.0}), SealedNumbers()
    zeros = carrier.seal(np.zeros(4096), NONE, CKKS_SECRET)
    found, _ = carrier.open(added(carrier, 4096, *[zeros] * sites), 4096, CKKS_SECRET)
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
