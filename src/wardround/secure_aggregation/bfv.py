"""Slots encrypted with BFV of Microsoft SEAL through TenSEAL's bindings; ciphertexts are as small as the numbers.

Only sites hold the secret key and encrypt with it. Half of a fresh ciphertext is therefore random, and the seed that it
is expanded from is sent in its place. The coordinator adds ciphertexts and needs only the parameters. A block is one
ciphertext of 4096 slots. This module does not authenticate a sum: `mac` does, before anything is decrypted.

A message carries SEAL's own bytes, which under these parameters have one form and one length:

    fresh block  123 constant bytes · 4096 coefficients · 17 constant bytes · 64 bytes of seed
    sum          123 constant bytes · 8192 coefficients

Anything else is refused before SEAL reads it: SEAL would expand a few malicious bytes into gigabytes.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from itertools import repeat
from typing import Any

import numpy as np

from wardround.errors import MessageError, UsageError
from wardround.federation.message import Array
from wardround.secure_aggregation.packing import Packing

__all__ = [
    "HALF",
    "BfvParameters",
    "BfvSum",
    "Ciphertexts",
    "Opener",
    "SealedBlocks",
    "Sealer",
    "check",
    "coefficients",
    "is_secret",
]

HALF = 30  # bits; the weight of a block is split into two such halves, each below half of the smallest ring

_DEGREE = 4096  # N: coefficients of a polynomial, and slots of a block
_COEFFICIENT_BITS = 60  # log₂ q; 128-bit security allows 109 at this N
# log₂ t, bits per number, numbers per slot, and the most sites whose sum still has a bit of noise budget (measured).
_PACKINGS = {"standard": (46, 22, 2, 2**14), "compact": (48, 15, 3, 2**11)}
_LEAST_BUDGET = 1  # bits of noise budget; another key, or a sum of too many sites, leaves none
_ATTEMPTS = 3
_REFUSALS = (RuntimeError, ValueError, IndexError, OverflowError)  # the exceptions that SEAL raises in Python
_UNKNOWN_FORM = "this version of SEAL writes ciphertexts in an unknown form; reinstall wardround[sealed]"

# SEAL's serialisation: a header (mark, length of the header, version, compression, total length), then the members.
_HEADER = struct.Struct("<HBBBBxxQ")
_MARK = 0xA15E
_PLAIN, _COMPRESSED = 0, 2
_MEMBERS = struct.Struct("<4Q?QQQdQ")  # id of the parameters, NTT form, polynomials, N, moduli, scale, correction
_COUNT = struct.Struct("<Q")
_FRAME = struct.Struct("<IBH")  # of zstd: mark, kind, length minus 256
_FRAME_LENGTH = _FRAME.size + 3  # with the header of its only block, which is stored uncompressed
_BODY = _HEADER.size + _FRAME_LENGTH
_BLAKE2 = b"\x01"  # SEAL's number for the generator that expands a seed
_SEED = 64

_OBJECT = re.compile(rb"\x5e\xa1\x10")  # the first bytes of everything that SEAL saves
# A secret key begins with the id of its parameters, a count and the scale 1.0, uncompressed; a ciphertext has more
# before its numbers, and a BFV plaintext has no id.
_SECRET = re.compile(
    rb"\x5e\xa1\x10..[\x00\x02]\x00\x00.{8}(?:\x28\xb5\x2f\xfd.{5,12})?(?!\x00{32}).{40}\x00{6}\xf0\x3f\x5e\xa1\x10",
    re.DOTALL,
)
# In a TenSEAL context, field 1 of field 3 is the secret key; each field follows its length.
_IN_CONTEXT = re.compile(rb"\x1a[\x80-\xff]{0,4}[\x00-\x7f]\x0a[\x80-\xff]{0,4}[\x00-\x7f]\Z")
_LONGEST_TAGS = 12


@dataclass(frozen=True, eq=False)
class Ciphertexts:
    """Consecutive blocks in the form in which they are sent."""

    data: Array  # [bytes], uint8
    lengths: Array  # [blocks], int32


@dataclass(frozen=True, eq=False)
class SealedBlocks:
    """Ciphertexts with the weighted sum Σ ρ_b block_b of their coefficients, for both halves of the weights ρ_b."""

    ciphertexts: Ciphertexts
    high: tuple[Array, ...]  # [coefficients of a block], uint64, for each prime of the scheme
    low: tuple[Array, ...]


class BfvParameters:
    """BFV parameters: N = 4096, a 60-bit modulus, slots modulo a prime of 46 (`standard`) or 48 bits (`compact`)."""

    block = _DEGREE
    coefficients = 2 * _DEGREE  # of a block: c0, then c1

    def __init__(self, name: str) -> None:
        if name not in _PACKINGS:
            raise UsageError(f"there is no packing {name!r}; choose one of {', '.join(_PACKINGS)}")
        bits, width, fields, self.most_sites = _PACKINGS[name]
        self.name = name
        self.context = _context(bits)
        modulus = self.context.first_context_data().parms().plain_modulus().value()
        self.packing = Packing(width, fields, modulus)
        self.fresh = _form(self.context, seeded=True)
        self.summed = _form(self.context, seeded=False)
        self.coefficient_modulus = self.summed.modulus  # q, a prime

    def blocks(self, slots: int) -> int:
        """Return the number of blocks for `slots` slots."""
        return -(-slots // self.block)

    def new_secret(self) -> bytes:
        """Return a new secret key, serialised."""
        with _memory_file() as file:
            return file.saved(_seal().KeyGenerator(self.context).secret_key())


class Sealer:
    """Encrypt slots at a site."""

    def __init__(self, parameters: BfvParameters, secret: bytes) -> None:
        self._parameters = parameters
        self._encoder = _seal().BatchEncoder(parameters.context)
        self._encryptor = _seal().Encryptor(parameters.context, _secret_key(parameters, secret))

    def seal(self, slots: Array, weights: Array) -> SealedBlocks:
        """Encrypt slots, padded with zeros; `weights` has one number below 2^60 per block.

        The weighted sum covers whole ciphertexts, so SEAL first expands the half that is sent as a seed.
        """
        parameters, length = self._parameters, self._parameters.fresh.length
        blocks = parameters.blocks(len(slots))
        assert len(weights) == blocks, "one weight per block"
        assert slots.max(initial=0) < parameters.packing.modulus, "slots of another ring"
        data = np.empty(blocks * length, np.uint8)
        padded = np.zeros(parameters.block, np.uint64)
        high, low = _Combination(parameters), _Combination(parameters)
        cipher = _seal().Ciphertext()
        with _memory_file() as file, _loading(parameters, parameters.fresh) as load:
            for block, row in enumerate(_rows(data, length)):
                own = slots[block * parameters.block : (block + 1) * parameters.block]
                padded[: len(own)], padded[len(own) :] = own, 0
                self._encrypt(padded, file, row)
                upper, lower = divmod(int(weights[block]), 1 << HALF)
                load(row, cipher)
                high.add(upper, cipher)
                low.add(lower, cipher)
        sealed = Ciphertexts(data, np.full(blocks, length, np.int32))
        return SealedBlocks(sealed, (high.coefficients(),), (low.coefficients(),))

    def _encrypt(self, slots: Array, file: _MemoryFile, row: memoryview) -> None:
        plain = _seal().Plaintext()
        self._encoder.encode(slots.tolist(), plain)
        # SEAL compresses a ciphertext if that makes it smaller. Random coefficients do not shrink. If some ever do, the
        # block is encrypted again, because only the uncompressed form is accepted.
        for _ in range(_ATTEMPTS):
            if file.save_into(self._encryptor.encrypt_symmetric(plain), row):
                return
        raise UsageError(_UNKNOWN_FORM)


class _Combination:
    """A running sum of ciphertexts, each multiplied by an integer below 2^30."""

    def __init__(self, parameters: BfvParameters) -> None:
        self._parameters = parameters
        self._evaluator = _seal().Evaluator(parameters.context)
        self._sum: Any = None
        self._product = _seal().Ciphertext()

    def add(self, factor: int, cipher: Any) -> None:
        if not factor:  # SEAL refuses to multiply by zero
            return
        constant = _seal().Plaintext(f"{factor:X}")
        if self._sum is None:
            self._sum = _seal().Ciphertext()
            self._evaluator.multiply_plain(cipher, constant, self._sum)
        else:
            self._evaluator.multiply_plain(cipher, constant, self._product)
            self._evaluator.add_inplace(self._sum, self._product)

    def coefficients(self) -> Array:
        form = self._parameters.summed
        if self._sum is None:
            return np.zeros(form.numbers, np.uint64)
        row: Array = np.empty(form.length, np.uint8)
        with _memory_file() as file:
            _save_sum(file, self._sum, row.data)
        return row[len(form.head) :].view("<u8").copy()


class BfvSum:
    """The coordinator's running sum of ciphertexts; needs no key, and the memory of one sum.

    `blocks` is the number of blocks of every update; by default the number of the first update.
    """

    def __init__(self, parameters: BfvParameters, blocks: int | None = None) -> None:
        self._parameters = parameters
        self._blocks = blocks
        self._evaluator = _seal().Evaluator(parameters.context)
        self._sums: list[Any] = []

    def add(self, ciphertexts: Ciphertexts) -> None:
        """Add one site's ciphertexts; those that `check` refuses leave the sum unchanged."""
        blocks = len(ciphertexts.lengths) if self._blocks is None else self._blocks
        check(self._parameters, ciphertexts, blocks)
        with _loading(self._parameters, self._parameters.fresh) as load:
            rows = _rows(ciphertexts.data, self._parameters.fresh.length)
            if self._sums:
                scratch = _seal().Ciphertext()
                for total, row in zip(self._sums, rows, strict=True):
                    self._evaluator.add_inplace(total, load(row, scratch))
            else:
                self._sums = [load(row, _seal().Ciphertext()) for row in rows]
        self._blocks = blocks

    def total(self) -> Ciphertexts:
        """Return the sum so far; adding may continue."""
        if not self._sums:
            raise MessageError("empty", "there is no ciphertext to add")
        length = self._parameters.summed.length
        data = np.empty(len(self._sums) * length, np.uint8)
        with _memory_file() as file:
            for total, row in zip(self._sums, _rows(data, length), strict=True):
                if not file.save_into(total, row):
                    raise MessageError("ciphertext", "a sum is not random, so no honest site is in it; ask other sites")
        return Ciphertexts(data, np.full(len(self._sums), length, np.int32))


class Opener:
    """Decrypt slots at a site."""

    def __init__(self, parameters: BfvParameters, secret: bytes) -> None:
        self._parameters = parameters
        self._encoder = _seal().BatchEncoder(parameters.context)
        self._key = _secret_key(parameters, secret)
        self._decryptor = _seal().Decryptor(parameters.context, self._key)

    def open(self, ciphertexts: Ciphertexts, slots: int) -> Array:
        """Decrypt `slots` slots of a sum or of one site's ciphertexts; the caller must have authenticated them."""
        parameters = self._parameters
        blocks = parameters.blocks(slots)
        form = parameters.fresh if _all_are(ciphertexts, parameters.fresh) else parameters.summed
        _check(form, ciphertexts, blocks)
        return self._opened(_rows(ciphertexts.data, form.length), form, slots)

    def open_stand_in(self, slots: int) -> Array:
        """Do the work of `open` on encrypted zeros, so that refusing a sum takes as long as opening it."""
        row = self._stand_in()
        return self._opened(repeat(row, self._parameters.blocks(slots)), self._parameters.summed, slots)

    def _opened(self, rows: Iterable[memoryview], form: _Form, slots: int) -> Array:
        opened: Array = np.empty(self._parameters.blocks(slots) * _DEGREE, np.uint64)
        cipher = _seal().Ciphertext()
        with _loading(self._parameters, form) as load:
            for block, row in enumerate(rows):
                opened[block * _DEGREE : (block + 1) * _DEGREE] = self._decrypted(load(row, cipher), first=block == 0)
        return opened[:slots]

    def _stand_in(self) -> memoryview:
        plain, cipher = _seal().Plaintext(), _seal().Ciphertext()
        self._encoder.encode([0] * _DEGREE, plain)
        _seal().Encryptor(self._parameters.context, self._key).encrypt_symmetric(plain, cipher)
        row: Array = np.empty(self._parameters.summed.length, np.uint8)
        with _memory_file() as file:
            _save_sum(file, cipher, row.data)
        return row.data

    def _decrypted(self, cipher: Any, *, first: bool) -> Array:
        if cipher.is_transparent():
            raise MessageError("ciphertext", "a block is not encrypted at all")
        # The MAC has authenticated these blocks; they can still be the sum of too many sites.
        if first and self._decryptor.invariant_noise_budget(cipher) < _LEAST_BUDGET:
            raise MessageError("key", "was encrypted under another key, or is the sum of too many sites")
        plain = _seal().Plaintext()
        self._decryptor.decrypt(cipher, plain)
        return np.fromiter(self._encoder.decode_uint64(plain), np.uint64, _DEGREE)


def coefficients(parameters: BfvParameters, ciphertexts: Ciphertexts, blocks: int) -> Array:
    """Return the coefficients of a sum, [blocks, coefficients], as uint64 below q; needs no key.

    Raise a `MessageError` if the ciphertexts are not a sum of `blocks` blocks.
    """
    form = parameters.summed
    _check(form, ciphertexts, blocks)
    return ciphertexts.data.reshape(blocks, form.length)[:, len(form.head) :].view("<u8")


def check(parameters: BfvParameters, ciphertexts: Ciphertexts, blocks: int) -> None:
    """Raise a `MessageError` unless these are `blocks` fresh ciphertexts of these parameters.

    Only the form is checked. Signatures and the MAC prove the sender and the exchange.
    """
    _check(parameters.fresh, ciphertexts, blocks)


def is_secret(data: bytes) -> bool:
    """Return whether these bytes contain a secret key of SEAL, alone or in a TenSEAL context.

    Not found are keys that are encrypted or written as text, and single keys whose parameters allow compression.
    """
    starts = (found.start() for found in _OBJECT.finditer(data))
    return any(
        _SECRET.match(data, start) or _IN_CONTEXT.search(data, max(0, start - _LONGEST_TAGS), start) for start in starts
    )


@dataclass(frozen=True)
class _Form:
    """The only accepted form of fresh ciphertexts, or of sums."""

    head: bytes
    numbers: int
    tail: bytes
    seed: int
    modulus: int  # q

    @property
    def length(self) -> int:
        return len(self.head) + 8 * self.numbers + len(self.tail) + self.seed

    @property
    def plain_head(self) -> bytes:
        """Return the head without zstd's frame; SEAL reads a block with it about 0.03 ms faster."""
        return _header(_PLAIN, self.length - _FRAME_LENGTH) + self.head[_BODY:]


def _form(context: Any, *, seeded: bool) -> _Form:
    """Return the form of a ciphertext of two polynomials; if `seeded`, a seed replaces the second one."""
    numbers, seed = (_DEGREE, _SEED) if seeded else (2 * _DEGREE, 0)
    tail = _header(_PLAIN, _HEADER.size + len(_BLAKE2) + _SEED) + _BLAKE2 if seeded else b""
    body = _MEMBERS.pack(*context.first_parms_id(), False, 2, _DEGREE, 1, 1.0, 1)
    body += _header(_PLAIN, _HEADER.size + _COUNT.size + 8 * numbers) + _COUNT.pack(numbers)
    length = len(body) + 8 * numbers + len(tail) + seed
    frame = _FRAME.pack(0xFD2FB528, 0x60, length - 256) + (length << 3 | 1).to_bytes(3, "little")
    head = _header(_COMPRESSED, _BODY + length) + frame + body
    modulus = context.first_context_data().parms().coeff_modulus()[0].value()
    return _Form(head, numbers, tail, seed, modulus)


def _header(compression: int, length: int) -> bytes:
    version = _seal().Serialization.SEALHeader()
    return _HEADER.pack(_MARK, _HEADER.size, version.version_major, version.version_minor, compression, length)


def _all_are(ciphertexts: Ciphertexts, form: _Form) -> bool:
    data, lengths = ciphertexts.data, ciphertexts.lengths
    return (
        data.dtype == np.uint8
        and data.flags.c_contiguous
        and lengths.dtype == np.int32
        and lengths.ndim == data.ndim == 1
        and bool((lengths == form.length).all())
        and len(data) == len(lengths) * form.length
    )


def _check(form: _Form, ciphertexts: Ciphertexts, blocks: int) -> None:
    if not _all_are(ciphertexts, form) or len(ciphertexts.lengths) != blocks:
        raise MessageError("ciphertext", f"is not {blocks:,} blocks of {form.length:,} bytes")
    rows = ciphertexts.data.reshape(blocks, form.length)
    start, stop = len(form.head), len(form.head) + 8 * form.numbers
    fixed = (rows[:, :start], form.head), (rows[:, stop : stop + len(form.tail)], form.tail)
    if not all((found == np.frombuffer(expected, np.uint8)).all() for found, expected in fixed):
        raise MessageError("ciphertext", "a block has other parameters, or is not a ciphertext")
    if rows[:, start:stop].view("<u8").max(initial=0) >= form.modulus:
        raise MessageError("ciphertext", "a block holds numbers outside its ring")


def _rows(data: Array, length: int) -> Iterator[memoryview]:
    """Yield the bytes of each block without copying."""
    view = data.data
    return (view[start : start + length] for start in range(0, len(data), length))


class _MemoryFile:
    """A file in memory, because SEAL's bindings read and write only paths."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.path = f"/proc/self/fd/{descriptor}"

    def saved(self, thing: Any) -> bytes:
        thing.save(self.path)
        return os.pread(self._descriptor, os.fstat(self._descriptor).st_size, 0)

    def save_into(self, thing: Any, row: memoryview) -> bool:
        """Save into `row`; return whether the size fits."""
        thing.save(self.path)
        fits = os.fstat(self._descriptor).st_size == len(row)
        return fits and os.preadv(self._descriptor, [row], 0) == len(row)

    def write(self, data: bytes | memoryview, at: int = 0) -> None:
        if os.pwrite(self._descriptor, data, at) != len(data):
            raise OSError("no memory is left")


@contextmanager
def _memory_file() -> Iterator[_MemoryFile]:
    descriptor = os.memfd_create("wardround", os.MFD_CLOEXEC)
    try:
        yield _MemoryFile(descriptor)
    finally:
        os.close(descriptor)


def _save_sum(file: _MemoryFile, cipher: Any, row: memoryview) -> None:
    """Save a ciphertext that this site made; it is random and therefore has the accepted form."""
    if not file.save_into(cipher, row):
        raise UsageError(_UNKNOWN_FORM)


@contextmanager
def _loading(parameters: BfvParameters, form: _Form) -> Iterator[Any]:
    """Yield a function that loads a checked block into SEAL and writes only the part that differs between blocks."""
    with _memory_file() as file:
        file.write(form.plain_head)

        def load(row: memoryview, into: Any) -> Any:
            file.write(row[_BODY:], at=_HEADER.size)
            into.load(parameters.context, file.path)
            return into

        yield load


def _secret_key(parameters: BfvParameters, data: bytes) -> Any:
    key = _seal().SecretKey()
    with _memory_file() as file:
        file.write(data)
        try:
            key.load(parameters.context, file.path)
        except _REFUSALS:
            raise MessageError("key", f"is not a secret key for the packing {parameters.name!r}") from None
    return key


@lru_cache(maxsize=1)
def _seal() -> Any:
    if not hasattr(os, "memfd_create"):
        raise UsageError("sealed updates need Linux, which has files in memory")
    try:
        return import_module("tenseal.sealapi")
    except ImportError:
        raise UsageError("sealed updates need TenSEAL: pip install 'wardround[sealed]'") from None


@lru_cache(maxsize=len(_PACKINGS))
def _context(plain_bits: int) -> Any:
    """Return a context of SEAL, cached because it is slow to make; it holds no key."""
    seal = _seal()
    parameters = seal.EncryptionParameters(seal.SCHEME_TYPE.BFV)
    parameters.set_poly_modulus_degree(_DEGREE)
    parameters.set_coeff_modulus(seal.CoeffModulus.Create(_DEGREE, [_COEFFICIENT_BITS]))
    parameters.set_plain_modulus(seal.PlainModulus.Batching(_DEGREE, plain_bits))
    context = seal.SEALContext(parameters, True, seal.SEC_LEVEL_TYPE.TC128)
    if not context.parameters_set():
        raise UsageError(f"this SEAL finds the parameters unsafe ({context.parameters_error_name()})")
    return context
