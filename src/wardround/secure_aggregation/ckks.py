"""Numbers encrypted as in the FedHE paper: CKKS through TenSEAL, for comparison with `bfv`.

N = 8192, moduli of 60, 40, 40 and 60 bits, scale 2^40, encryption with the public key, 4096 numbers per block. A sealed
update is about twenty times as long as the plain one, a mean has an error of about 1e-8, and masks are impossible
because sums are approximate. The coordinator must not learn an opened mean: the secret key can be computed from a
ciphertext and its decryption, which contains the error. As under BFV, `mac` authenticates a sum before it is decrypted.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from wardround.errors import MessageError, UsageError
from wardround.federation.message import Array
from wardround.secure_aggregation.bfv import HALF, Ciphertexts, SealedBlocks

__all__ = [
    "BLOCK",
    "COEFFICIENTS",
    "PRIMES",
    "CkksSum",
    "blocks",
    "check",
    "combination",
    "new_secret",
    "open",
    "open_stand_in",
    "public_part",
    "seal",
]

BLOCK = 4096  # numbers of a ciphertext
PRIMES = (1152921504606748673, 1099510890497, 1099511480321)  # of the coefficients of a fresh ciphertext
COEFFICIENTS = 2 * 8192  # of a block, modulo each prime
_DEGREE = 8192
_COEFFICIENT_BITS = [60, 40, 40, 60]
_SCALE = 2.0**40
_POLYNOMIALS = 2  # of a ciphertext that was never multiplied by another
_LONGEST_BLOCK = 2 * 3 * 8 * _DEGREE + 4096  # bytes, without compression
_REFUSALS = (RuntimeError, ValueError, IndexError, OverflowError)


def new_secret() -> bytes:
    """Return a new secret key and its public key, as a serialised TenSEAL context."""
    tenseal = _tenseal()
    context = tenseal.context(tenseal.SCHEME_TYPE.CKKS, _DEGREE, coeff_mod_bit_sizes=_COEFFICIENT_BITS)
    context.global_scale = _SCALE
    return _serialised(context, secret=True)


def public_part(secret: bytes) -> bytes:
    """Return the context without the secret key, which is all that a coordinator needs and may have."""
    return _serialised(_with_secret(secret), secret=False)


def blocks(numbers: int) -> int:
    """Return the number of blocks for `numbers` numbers."""
    return -(-numbers // BLOCK)


def seal(numbers: Array, secret: bytes, weights: Array) -> SealedBlocks:
    """Encrypt numbers block by block at a site; `weights` has one number below 2^60 per block."""
    if not np.isfinite(numbers).all():
        raise MessageError("not-a-number", "the update holds NaN or infinity")
    assert len(weights) == blocks(len(numbers)), "one weight per block"
    context, vector = _with_secret(secret), _tenseal().ckks_vector
    combined, parts = _Combination(context), []
    for block, weight in enumerate(weights.tolist()):
        sealed = vector(context, numbers[block * BLOCK : (block + 1) * BLOCK].tolist())
        combined.add(weight, sealed)
        parts.append(sealed.serialize())
    return SealedBlocks(_joined(parts), *combined.halves())


def combination(ciphertexts: Ciphertexts, secret: bytes, numbers: int, weights: Array) -> SealedBlocks:
    """Return the same ciphertexts with their weighted sum; nothing is decrypted."""
    context = _with_secret(secret)
    combined = _Combination(context)
    for weight, vector in zip(weights.tolist(), _loaded(context, ciphertexts, numbers), strict=True):
        combined.add(weight, vector)
    return SealedBlocks(ciphertexts, *combined.halves())


def open(ciphertexts: Ciphertexts, secret: bytes, numbers: int) -> Array:
    """Decrypt `numbers` numbers as float64 at a site; raise a `MessageError` if a wrong key yields only noise."""
    context = _with_secret(secret)
    found: Array = np.empty(numbers)
    for block, vector in enumerate(_loaded(context, ciphertexts, numbers)):
        found[block * BLOCK : (block + 1) * BLOCK] = vector.decrypt()
    # A wrong key yields numbers up to the modulus over the scale, 2^100 / 2^40; an update has no number above 2^40.
    if np.abs(found).max(initial=0.0) > _SCALE:
        raise MessageError("key", "was encrypted under another key")
    return found


def open_stand_in(secret: bytes, numbers: int) -> Array:
    """Do the work of `open` on encrypted zeros, so that refusing a sum takes as long as opening it."""
    context, found = _with_secret(secret), np.empty(numbers)
    stand_in = _tenseal().ckks_vector(context, [0.0] * BLOCK).serialize()
    for block in range(blocks(numbers)):
        place = slice(block * BLOCK, min((block + 1) * BLOCK, numbers))
        found[place] = _tenseal().ckks_vector_from(context, stand_in).decrypt()[: place.stop - place.start]
    return np.zeros(numbers)


def check(public: bytes, ciphertexts: Ciphertexts, numbers: int) -> None:
    """Raise a `MessageError` unless these are fresh ciphertexts of `numbers` numbers."""
    _loaded(_without_secret(public), ciphertexts, numbers)


class CkksSum:
    """The coordinator's running sum of ciphertexts, in the memory of one sum and one update.

    `public` is a context without its secret key; one with a secret key is refused.
    """

    def __init__(self, public: bytes, numbers: int) -> None:
        self._context = _without_secret(public)
        self._numbers = numbers
        self._sums: list[Any] = []

    def add(self, ciphertexts: Ciphertexts) -> None:
        """Add one site's ciphertexts; those that `check` refuses leave the sum unchanged."""
        vectors = _loaded(self._context, ciphertexts, self._numbers)
        if not self._sums:
            self._sums = vectors
            return
        for total, vector in zip(self._sums, vectors, strict=True):
            total.add_(vector)

    def total(self) -> Ciphertexts:
        """Return the sum so far; adding may continue."""
        if not self._sums:
            raise MessageError("empty", "there is no ciphertext to add")
        return _joined([total.serialize() for total in self._sums])


def _loaded(context: Any, ciphertexts: Ciphertexts, numbers: int) -> list[Any]:
    """Load every block and check size, level and scale: TenSEAL would adapt the whole sum to a block that differs."""
    level = context.seal_context().data.first_parms_id()
    data, lengths = ciphertexts.data, ciphertexts.lengths
    if data.dtype != np.uint8 or lengths.dtype != np.int32 or data.ndim != 1 or lengths.shape != (blocks(numbers),):
        raise MessageError("ciphertext", f"is not {blocks(numbers):,} blocks")
    if len(lengths) and not 0 < lengths.min() <= lengths.max() <= _LONGEST_BLOCK:
        raise MessageError("ciphertext", f"a block is longer than {_LONGEST_BLOCK:,} bytes, or empty")
    ends = np.cumsum(lengths, dtype=np.int64)
    if len(data) != (ends[-1] if len(ends) else 0):
        raise MessageError("ciphertext", "blocks are missing, or bytes are left over")
    sizes = [min(BLOCK, numbers - start) for start in range(0, numbers, BLOCK)]
    vectors = []
    for end, length, size in zip(ends, lengths, sizes, strict=True):
        try:
            vector = _tenseal().ckks_vector_from(context, data[end - length : end].tobytes())
            found = vector.ciphertext()
        except _REFUSALS:
            raise MessageError("ciphertext", "a block has other parameters, or is not a ciphertext") from None
        is_fresh = (
            vector.size() == size
            and len(found) == 1
            and found[0].parms_id() == level
            and found[0].is_ntt_form()  # otherwise SEAL raises its own error when it adds or multiplies the block
            and found[0].scale == _SCALE
            and found[0].size() == _POLYNOMIALS
            and not found[0].is_transparent()
        )
        if not is_fresh:
            raise MessageError("ciphertext", "a block has another size, level, form or scale than a fresh one")
        vectors.append(vector)
    return vectors


class _Combination:
    """The weighted sum Σ weight · block of the coefficients, for the upper and the lower half of the weights."""

    def __init__(self, context: Any) -> None:
        self._library = import_module("tenseal.sealapi")
        seal_context = context.seal_context().data
        self._encoder, self._evaluator = self._library.CKKSEncoder(seal_context), self._library.Evaluator(seal_context)
        self._level = seal_context.first_parms_id()
        self._sums: list[Any] = [None, None]

    def add(self, weight: int, vector: Any) -> None:
        for half, factor in enumerate(divmod(weight, 1 << HALF)):
            if not factor:  # SEAL refuses to multiply by zero
                continue
            constant, product = self._library.Plaintext(), self._library.Ciphertext()
            self._encoder.encode(float(factor), self._level, 1.0, constant)
            self._evaluator.multiply_plain(vector.ciphertext()[0], constant, product)
            if self._sums[half] is None:
                self._sums[half] = product
            else:
                self._evaluator.add_inplace(self._sums[half], product)

    def halves(self) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        """Return the upper and the lower half, each with one row per prime."""
        high, low = map(_residues, self._sums)
        return high, low


def _residues(cipher: Any) -> tuple[Array, ...]:
    """Return the coefficients of both polynomials, modulo each prime."""
    if cipher is None:
        return tuple(np.zeros(COEFFICIENTS, np.uint64) for _ in PRIMES)
    count = _POLYNOMIALS * len(PRIMES) * _DEGREE
    numbers: Array = np.fromiter((cipher[place] for place in range(count)), np.uint64, count)
    table = numbers.reshape(_POLYNOMIALS, len(PRIMES), _DEGREE)
    return tuple(table[:, place].reshape(-1) for place in range(len(PRIMES)))


def _joined(parts: list[bytes]) -> Ciphertexts:
    lengths: Array = np.array([len(part) for part in parts], np.int32)
    return Ciphertexts(np.frombuffer(b"".join(parts), np.uint8), lengths)


def _serialised(context: Any, *, secret: bool) -> bytes:
    found: bytes = context.serialize(
        save_public_key=True, save_secret_key=secret, save_galois_keys=False, save_relin_keys=False
    )
    return found


def _with_secret(data: bytes) -> Any:
    context = _context(data)
    if not context.is_private():
        raise MessageError("key", "is a public context; a site needs the one with the secret key")
    return context


def _without_secret(data: bytes) -> Any:
    context = _context(data)
    if not context.is_public():
        raise MessageError("key", "the secret key reached the coordinator, which must never have it; rotate the keys")
    return context


def _context(data: bytes) -> Any:
    try:
        context = _tenseal().context_from(data)
        parameters = context.seal_context().data.first_context_data().parms()
        primes = tuple(prime.value() for prime in parameters.coeff_modulus())
        ours = context.global_scale == _SCALE and parameters.poly_modulus_degree() == _DEGREE and primes == PRIMES
    except _REFUSALS:
        ours = False
    if not ours:
        raise MessageError("key", "is not a CKKS key with the parameters used here")
    return context


@lru_cache(maxsize=1)
def _tenseal() -> Any:
    try:
        import_module("tenseal.sealapi")  # without it Python cannot read the primes and ciphertexts of a context
        return import_module("tenseal")
    except ImportError:
        raise UsageError("sealed updates need TenSEAL: pip install 'wardround[sealed]'") from None
