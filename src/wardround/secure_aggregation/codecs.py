"""How the slots of an update travel and are added: as they are, where only masks hide them, or sealed.

Under CKKS an update is not packed into slots: its numbers are sealed as they are, clipped and times their share.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from wardround.errors import MessageError
from wardround.federation.message import Array
from wardround.secure_aggregation import ckks, masks
from wardround.secure_aggregation.bfv import BfvParameters, Ciphertexts, Opener, Sealer, coefficients
from wardround.secure_aggregation.mac import CiphertextHash, Tag, hash_of
from wardround.secure_aggregation.packing import MASKED, Packed
from wardround.secure_aggregation.running_sum import RunningSum
from wardround.secure_aggregation.workers import running_sum

__all__ = ["BfvCodec", "CkksCodec", "Codec", "NumberLayout", "PlaintextCodec"]

Arrays = Mapping[str, Array]
_TINY = 1e-5  # what CKKS adds to a number, with room
_NOISE = 1.5e-8  # twelve standard deviations, measured, of what it adds to one site's zeros; it grows as the root


class Codec(Protocol):
    """One way for slots to travel."""

    @property
    def moduli(self) -> tuple[int, ...]:
        """The primes of a tag over what travels; none where nothing is sealed."""

    def hash_key(self, group_key: bytes, context: bytes, slots: int) -> CiphertextHash:
        """Derive the hash that authenticates so many slots in one exchange."""

    def sum(self, slots: int) -> RunningSum[Arrays]:
        """A running sum of so many slots; needs no secret."""

    def seal(self, slots: Array, secret: bytes, key: CiphertextHash | None) -> tuple[dict[str, Array], Tag]:
        """Return the arrays of a message that carries the slots, and their hash."""

    def hash(self, arrays: Arrays, slots: int, secret: bytes, key: CiphertextHash) -> Tag:
        """Hash a sum without decrypting it; a `MessageError` where it has another form than a sum."""

    def open(self, arrays: Arrays, slots: int, secret: bytes) -> Array:
        """The slots of a sum, which was authenticated before."""

    def open_stand_in(self, slots: int, secret: bytes) -> Array:
        """Do the work of `open` on a stand-in, and return zeros."""


class PlaintextCodec:
    """Words that masks alone hide; they need no tag, for the party that adds them opens them."""

    moduli: tuple[int, ...] = ()

    def hash_key(self, group_key: bytes, context: bytes, slots: int) -> CiphertextHash:
        """Nothing is sealed."""
        raise AssertionError("words that are not sealed have no tag")

    def sum(self, slots: int) -> RunningSum[Arrays]:
        """Modulo 2^32."""
        return _BareSum(slots)

    def seal(self, slots: Array, secret: bytes, key: CiphertextHash | None) -> tuple[dict[str, Array], Tag]:
        """In 32 bits each."""
        return {"slots": slots.astype(np.uint32)}, ()

    def hash(self, arrays: Arrays, slots: int, secret: bytes, key: CiphertextHash) -> Tag:
        """Nothing is sealed."""
        raise AssertionError("words that are not sealed have no tag")

    def open(self, arrays: Arrays, slots: int, secret: bytes) -> Array:
        """What a sum gave."""
        found = _expected(arrays, "slots", np.uint32)
        if len(found) != slots:
            raise MessageError("shapes", "a sum has another number of words than expected")
        return found.astype(np.uint64)

    def open_stand_in(self, slots: int, secret: bytes) -> Array:
        """Zeros."""
        return np.zeros(slots, np.uint64)


class _BareSum:
    def __init__(self, slots: int) -> None:
        self._total: Array = np.zeros(slots, np.uint64)

    def add(self, arrays: Arrays) -> None:
        slots = _expected(arrays, "slots", np.uint32)
        if len(slots) != len(self._total):
            raise MessageError("shapes", "an update has another number of words than expected")
        masks.add(self._total, slots.astype(np.uint64), MASKED.modulus)

    def total(self) -> Arrays:
        return {"slots": self._total.astype(np.uint32)}


class BfvCodec:
    """Words in ciphertexts of BFV."""

    def __init__(self, parameters: BfvParameters) -> None:
        self._parameters = parameters
        self.moduli: tuple[int, ...] = (parameters.coefficient_modulus,)

    def hash_key(self, group_key: bytes, context: bytes, slots: int) -> CiphertextHash:
        """Over both polynomials of every block."""
        blocks = self._parameters.blocks(slots)
        return hash_of(
            group_key,
            context=context,
            moduli=self.moduli,
            blocks=blocks,
            coefficients=self._parameters.coefficients,
        )

    def sum(self, slots: int) -> RunningSum[Arrays]:
        """Of ciphertexts, without a key."""
        return _SealedSum(self._parameters, slots)

    def seal(self, slots: Array, secret: bytes, key: CiphertextHash | None) -> tuple[dict[str, Array], Tag]:
        """As ciphertexts of half size: the other half is a seed."""
        assert key is not None, "what is sealed has a tag"
        sealed = Sealer(self._parameters, secret).seal(slots, key.blocks)
        return _as_arrays(sealed.ciphertexts), key.of_combination(sealed.high, sealed.low)

    def hash(self, arrays: Arrays, slots: int, secret: bytes, key: CiphertextHash) -> Tag:
        """From the coefficients as they came."""
        found = coefficients(self._parameters, _as_ciphertexts(arrays), self._parameters.blocks(slots))
        return (key.of_matrix(found),)

    def open(self, arrays: Arrays, slots: int, secret: bytes) -> Array:
        """What was in the ciphertexts of a sum."""
        return Opener(self._parameters, secret).open(_as_ciphertexts(arrays), slots)

    def open_stand_in(self, slots: int, secret: bytes) -> Array:
        """As many decryptions."""
        return Opener(self._parameters, secret).open_stand_in(slots)


class _SealedSum:
    def __init__(self, parameters: BfvParameters, slots: int) -> None:
        self._sum = running_sum(parameters, parameters.blocks(slots))

    def add(self, arrays: Arrays) -> None:
        self._sum.add(_as_ciphertexts(arrays))

    def total(self) -> Arrays:
        return _as_arrays(self._sum.total())


class CkksCodec:
    """Numbers in ciphertexts of CKKS, which add only nearly."""

    moduli = ckks.PRIMES

    def hash_key(self, group_key: bytes, context: bytes, slots: int) -> CiphertextHash:
        """Over both polynomials of every block, modulo each prime."""
        return hash_of(
            group_key,
            context=context,
            moduli=self.moduli,
            blocks=ckks.blocks(slots),
            coefficients=ckks.COEFFICIENTS,
        )

    def sum(self, slots: int) -> RunningSum[Arrays]:
        """Of ciphertexts, without the key they are under."""
        return _NumberSum(slots)

    def seal(self, slots: Array, secret: bytes, key: CiphertextHash | None) -> tuple[dict[str, Array], Tag]:
        """Some twenty times as long as they were."""
        assert key is not None, "what is sealed has a tag"
        sealed = ckks.seal(slots, secret, key.blocks)
        return _as_arrays(sealed.ciphertexts), key.of_combination(sealed.high, sealed.low)

    def hash(self, arrays: Arrays, slots: int, secret: bytes, key: CiphertextHash) -> Tag:
        """From the weighted sum of the blocks."""
        found = ckks.combination(_as_ciphertexts(arrays), secret, slots, key.blocks)
        return key.of_combination(found.high, found.low)

    def open(self, arrays: Arrays, slots: int, secret: bytes) -> Array:
        """What was in the ciphertexts of a sum."""
        return ckks.open(_as_ciphertexts(arrays), secret, slots)

    def open_stand_in(self, slots: int, secret: bytes) -> Array:
        """As many decryptions."""
        return ckks.open_stand_in(secret, slots)


class _NumberSum:
    def __init__(self, numbers: int) -> None:
        # Adding takes the parameters, no key: those of a context made for this purpose are as good as the sites'.
        self._sum = ckks.CkksSum(ckks.public_part(ckks.new_secret()), numbers)

    def add(self, arrays: Arrays) -> None:
        self._sum.add(_as_ciphertexts(arrays))

    def total(self) -> Arrays:
        return _as_arrays(self._sum.total())


class NumberLayout:
    """Where each number of an update lies, where nothing is packed."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], clips: Mapping[str, float]) -> None:
        self._shapes, self._clips = shapes, clips
        self._sizes = {name: math.prod(shape) for name, shape in shapes.items()}
        self.slots = sum(self._sizes.values())

    def pack(self, update: Mapping[str, Array], *, share: float) -> Packed:
        """The clipped update times its share; nothing is lost but what the clip takes."""
        if {name: array.shape for name, array in update.items()} != dict(self._shapes):
            raise MessageError("shapes", "an update has other names or shapes than its exchange")
        clipped = sum(int((np.abs(array) > self._clips[name]).sum()) for name, array in update.items())
        parts = [np.clip(update[name], -clip, clip).ravel() * share for name, clip in self._clips.items()]
        residue = {name: np.zeros(shape, np.float32) for name, shape in self._shapes.items()}
        largest = dict.fromkeys(self._shapes, math.inf)  # nothing is rounded
        return Packed(np.concatenate(parts), clipped, residue, largest)

    def unpack(self, slots: Array, *, share: float, sites: int) -> dict[str, Array]:
        """The mean; a number outside the clip shows that a site ignored it.

        What cannot be told from zero is zero: of a gradient that is all noise, Adam would make a whole step.
        """
        ends = np.cumsum(list(self._sizes.values()))
        heard = np.where(np.abs(slots) < _NOISE * math.sqrt(sites), 0.0, slots / share)
        found = dict(zip(self._shapes, np.split(heard, ends[:-1]), strict=True))
        for name, numbers in found.items():
            if np.abs(numbers).max(initial=0.0) > self._clips[name] * (1 + _TINY) + _TINY:
                raise MessageError("range", f"{name}: a site ignored its clip or its weight")
        return {name: found[name].astype(np.float32).reshape(shape) for name, shape in self._shapes.items()}


def _as_arrays(sealed: Ciphertexts) -> dict[str, Array]:
    return {"sealed": sealed.data, "lengths": sealed.lengths}


def _as_ciphertexts(arrays: Arrays) -> Ciphertexts:
    return Ciphertexts(_expected(arrays, "sealed", np.uint8), _expected(arrays, "lengths", np.int32))


def _expected(arrays: Arrays, name: str, kind: type[np.generic]) -> Array:
    found = arrays.get(name)
    if found is None or found.dtype != kind or found.ndim != 1:
        raise MessageError("shapes", f"{name} is missing or of another kind")
    return found
