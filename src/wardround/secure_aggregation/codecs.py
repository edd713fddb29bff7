"""How the slots of an update are sent and added: as plain integers that masks hide, or as ciphertexts.

Under CKKS an update is not packed into integers: its clipped numbers, times their share, are encrypted directly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from wardround.errors import MessageError
from wardround.federation.aggregation import RunningSum
from wardround.federation.message import Array
from wardround.secure_aggregation import ckks, masks
from wardround.secure_aggregation.bfv import BfvParameters, Ciphertexts, Opener, Sealer, coefficients
from wardround.secure_aggregation.mac import CiphertextHash, MacTag, derive_hash
from wardround.secure_aggregation.packing import MASKED, IntegerLayout, Layout, Packed, SlotLayout
from wardround.secure_aggregation.workers import running_sum

__all__ = ["BfvCodec", "CkksCodec", "Codec", "NumberLayout", "PlaintextCodec"]

Arrays = Mapping[str, Array]
_TINY = 1e-5  # upper bound of the error that CKKS adds to a number
_NOISE = 1.5e-8  # twelve standard deviations (measured) of CKKS's error in one site's zeros; grows with √sites


class Codec(Protocol):
    """One way to send slots."""

    @property
    def moduli(self) -> tuple[int, ...]:
        """Return the primes of the MAC tag; empty if nothing is encrypted."""

    @property
    def ring(self) -> int:
        """Return the modulus of the slots and of their masks; 0 if slots are real numbers."""

    def layout(self, shapes: Mapping[str, tuple[int, ...]], clips: Mapping[str, float]) -> SlotLayout:
        """Return the position of each number of an update in the slots."""

    def integer_layout(self, shapes: Mapping[str, tuple[int, ...]], unit: float) -> SlotLayout:
        """Return the same for updates of integers, each of which stands for that many times `unit`."""

    @property
    def largest_integer(self) -> int:
        """Return the largest integer that a sum of such updates may hold; 0 if sums are not exact."""

    def hash_key(self, group_key: bytes, context: bytes, slots: int) -> CiphertextHash:
        """Derive the hash that authenticates `slots` slots in one exchange."""

    def sum(self, slots: int) -> RunningSum[Arrays, Arrays]:
        """Return an empty sum of `slots` slots; needs no secret."""

    def seal(self, slots: Array, secret: bytes, key: CiphertextHash) -> tuple[dict[str, Array], MacTag]:
        """Return the arrays to send, and their hash."""

    def hash(self, arrays: Arrays, slots: int, secret: bytes, key: CiphertextHash) -> MacTag:
        """Hash a sum without decrypting it; raise a `MessageError` if it does not have the form of a sum."""

    def open(self, arrays: Arrays, slots: int, secret: bytes) -> Array:
        """Return the slots of a sum; the caller must have authenticated it."""

    def open_stand_in(self, slots: int, secret: bytes) -> Array:
        """Do the work of `open` on a stand-in, and return zeros."""


class PlaintextCodec:
    """Slots that only masks hide; they need no MAC, because the coordinator both adds and opens them."""

    moduli: tuple[int, ...] = ()
    ring = MASKED.modulus

    def layout(self, shapes: Mapping[str, tuple[int, ...]], clips: Mapping[str, float]) -> SlotLayout:
        """Return the layout of one number per slot."""
        return Layout(shapes, clips, MASKED)

    def integer_layout(self, shapes: Mapping[str, tuple[int, ...]], unit: float) -> SlotLayout:
        """Return the layout of one integer per slot."""
        return IntegerLayout(shapes, unit, MASKED)

    largest_integer = MASKED.scale

    def hash_key(self, group_key: bytes, context: bytes, slots: int) -> CiphertextHash:
        """Return an empty hash: nothing is encrypted."""
        return CiphertextHash((), np.zeros(0, np.uint64), ())

    def sum(self, slots: int) -> RunningSum[Arrays, Arrays]:
        """Return an empty sum modulo 2^32."""
        return _PlaintextSum(slots)

    def seal(self, slots: Array, secret: bytes, key: CiphertextHash) -> tuple[dict[str, Array], MacTag]:
        """Return the slots as 32-bit integers."""
        return {"slots": slots.astype(np.uint32)}, ()

    def hash(self, arrays: Arrays, slots: int, secret: bytes, key: CiphertextHash) -> MacTag:
        """Return an empty tag: nothing is encrypted."""
        return ()

    def open(self, arrays: Arrays, slots: int, secret: bytes) -> Array:
        """Return the slots of a sum."""
        found = _expected(arrays, "slots", np.uint32)
        if len(found) != slots:
            raise MessageError("shapes", "a sum has another number of slots than expected")
        return found.astype(np.uint64)

    def open_stand_in(self, slots: int, secret: bytes) -> Array:
        """Return zeros."""
        return np.zeros(slots, np.uint64)


class _PlaintextSum:
    def __init__(self, slots: int) -> None:
        self._total: Array = np.zeros(slots, np.uint64)

    def add(self, arrays: Arrays) -> None:
        slots = _expected(arrays, "slots", np.uint32)
        if len(slots) != len(self._total):
            raise MessageError("shapes", "an update has another number of slots than expected")
        masks.add(self._total, slots.astype(np.uint64), MASKED.modulus)

    def total(self) -> Arrays:
        return {"slots": self._total.astype(np.uint32)}


class _CiphertextSum:
    """A running sum of messages that carry ciphertexts."""

    def __init__(self, running: RunningSum[Ciphertexts, Ciphertexts]) -> None:
        self._sum = running

    def add(self, arrays: Arrays) -> None:
        self._sum.add(_as_ciphertexts(arrays))

    def total(self) -> Arrays:
        return _as_arrays(self._sum.total())


class BfvCodec:
    """Slots in BFV ciphertexts."""

    def __init__(self, parameters: BfvParameters) -> None:
        self._parameters = parameters
        self.moduli: tuple[int, ...] = (parameters.coefficient_modulus,)
        self.ring = parameters.packing.modulus

    def layout(self, shapes: Mapping[str, tuple[int, ...]], clips: Mapping[str, float]) -> SlotLayout:
        """Return the layout of two or three numbers per slot."""
        return Layout(shapes, clips, self._parameters.packing)

    def integer_layout(self, shapes: Mapping[str, tuple[int, ...]], unit: float) -> SlotLayout:
        """Return the layout of two or three integers per slot."""
        return IntegerLayout(shapes, unit, self._parameters.packing)

    @property
    def largest_integer(self) -> int:
        """Return the largest integer of a field."""
        return self._parameters.packing.scale

    def hash_key(self, group_key: bytes, context: bytes, slots: int) -> CiphertextHash:
        """Derive a hash over both polynomials of every block."""
        return derive_hash(
            group_key,
            context=context,
            moduli=self.moduli,
            blocks=self._parameters.blocks(slots),
            coefficients=self._parameters.coefficients,
        )

    def sum(self, slots: int) -> RunningSum[Arrays, Arrays]:
        """Return an empty sum of ciphertexts; needs no key."""
        return _CiphertextSum(running_sum(self._parameters, self._parameters.blocks(slots)))

    def seal(self, slots: Array, secret: bytes, key: CiphertextHash) -> tuple[dict[str, Array], MacTag]:
        """Encrypt the slots into ciphertexts of half size; the other half is sent as a seed."""
        sealed = Sealer(self._parameters, secret).seal(slots, key.blocks)
        return _as_arrays(sealed.ciphertexts), key.of_combination(sealed.high, sealed.low)

    def hash(self, arrays: Arrays, slots: int, secret: bytes, key: CiphertextHash) -> MacTag:
        """Hash the coefficients as they arrived."""
        found = coefficients(self._parameters, _as_ciphertexts(arrays), self._parameters.blocks(slots))
        return (key.of_matrix(found),)

    def open(self, arrays: Arrays, slots: int, secret: bytes) -> Array:
        """Decrypt the ciphertexts of a sum."""
        return Opener(self._parameters, secret).open(_as_ciphertexts(arrays), slots)

    def open_stand_in(self, slots: int, secret: bytes) -> Array:
        """Do the same number of decryptions."""
        return Opener(self._parameters, secret).open_stand_in(slots)


class CkksCodec:
    """Real numbers in CKKS ciphertexts, whose sums are approximate."""

    moduli = ckks.PRIMES
    ring = 0

    def layout(self, shapes: Mapping[str, tuple[int, ...]], clips: Mapping[str, float]) -> SlotLayout:
        """Return the layout of one real number per slot."""
        return NumberLayout(shapes, clips)

    largest_integer = 0

    def integer_layout(self, shapes: Mapping[str, tuple[int, ...]], unit: float) -> SlotLayout:
        """Raise: sums are approximate, so a study that needs integers is refused before."""
        raise MessageError("policy", "ckks adds approximately; integers need bfv")

    def hash_key(self, group_key: bytes, context: bytes, slots: int) -> CiphertextHash:
        """Derive a hash over both polynomials of every block, modulo each prime."""
        return derive_hash(
            group_key,
            context=context,
            moduli=self.moduli,
            blocks=ckks.blocks(slots),
            coefficients=ckks.COEFFICIENTS,
        )

    def sum(self, slots: int) -> RunningSum[Arrays, Arrays]:
        """Return an empty sum of ciphertexts.

        Adding needs the parameters but no key of the study, so a context that is made here is enough.
        """
        return _CiphertextSum(ckks.CkksSum(ckks.public_part(ckks.new_secret()), slots))

    def seal(self, slots: Array, secret: bytes, key: CiphertextHash) -> tuple[dict[str, Array], MacTag]:
        """Encrypt the numbers; the ciphertexts are about twenty times as long."""
        sealed = ckks.seal(slots, secret, key.blocks)
        return _as_arrays(sealed.ciphertexts), key.of_combination(sealed.high, sealed.low)

    def hash(self, arrays: Arrays, slots: int, secret: bytes, key: CiphertextHash) -> MacTag:
        """Hash the weighted sum of the blocks."""
        found = ckks.combination(_as_ciphertexts(arrays), secret, slots, key.blocks)
        return key.of_combination(found.high, found.low)

    def open(self, arrays: Arrays, slots: int, secret: bytes) -> Array:
        """Decrypt the ciphertexts of a sum."""
        return ckks.open(_as_ciphertexts(arrays), secret, slots)

    def open_stand_in(self, slots: int, secret: bytes) -> Array:
        """Do the same number of decryptions."""
        return ckks.open_stand_in(secret, slots)


class NumberLayout:
    """A `SlotLayout` of one real number per slot; nothing is packed."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], clips: Mapping[str, float]) -> None:
        self._shapes, self._clips = shapes, clips
        self._sizes = {name: math.prod(shape) for name, shape in shapes.items()}
        self.slots = sum(self._sizes.values())

    def pack(self, update: Mapping[str, Array], *, share: float) -> Packed:
        """Return the clipped update times its share; nothing is rounded."""
        if {name: array.shape for name, array in update.items()} != dict(self._shapes):
            raise MessageError("shapes", "an update has other names or shapes than its exchange")
        clipped = sum(int((np.abs(array) > self._clips[name]).sum()) for name, array in update.items())
        parts = [np.clip(update[name], -clip, clip).ravel() * share for name, clip in self._clips.items()]
        residue = {name: np.zeros(shape, np.float32) for name, shape in self._shapes.items()}
        largest = dict.fromkeys(self._shapes, math.inf)  # nothing is rounded
        return Packed(np.concatenate(parts), clipped, residue, largest)

    def unpack(self, slots: Array, *, share: float, sites: int) -> dict[str, Array]:
        """Return the mean; raise a `MessageError` for a number above the clip: a site ignored the clip.

        A number within the noise becomes zero, because Adam would make a full step from a gradient that is only noise.
        """
        ends = np.cumsum(list(self._sizes.values()))
        denoised = np.where(np.abs(slots) < _NOISE * math.sqrt(sites), 0.0, slots / share)
        found = dict(zip(self._shapes, np.split(denoised, ends[:-1]), strict=True))
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
        raise MessageError("shapes", f"{name} is missing, or has another dtype or shape")
    return found
