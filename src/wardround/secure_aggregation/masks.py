"""Masks: random slots that hide an update and cancel in the sum of all sites of an exchange.

Two sites share a secret that no other party knows. From the secret and the exchange both derive the same slots. The
site whose name comes first adds them, the other subtracts them, so they cancel in the sum of all sites of the exchange;
a sum of fewer sites is noise. A site's own mask remains until the site sends its seed.

A key is used for one stream only. Each context therefore belongs to one exchange, and each kind of mask has its label.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from hashlib import sha256

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from wardround.errors import MessageError
from wardround.federation.federation import SiteId
from wardround.federation.message import Array
from wardround.secure_aggregation.exchange import Exchange
from wardround.secure_aggregation.identities import Identity, PublicKeys

__all__ = [
    "add",
    "commitment",
    "derive_key",
    "key_stream",
    "new_seed",
    "pairwise_masks",
    "remove_self_masks",
    "self_mask",
    "subtract",
]

_PAIR, _OWN = b"wardround-mask-1\x00", b"wardround-own-1\x00"
_COMMITMENT = b"wardround-seed-commitment-2\x00"
_KEY_LENGTH = 32
_CHUNK = 1 << 15  # slots at a time, so that they stay in the processor's cache
_ZEROS = bytes(8 * _CHUNK)  # encrypted zeros are the key stream itself
_LARGEST_MODULUS = 1 << 63  # the sum of two slots must fit in 64 bits


def new_seed() -> bytes:
    """Return a fresh seed for a site's own mask in one exchange."""
    return secrets.token_bytes(_KEY_LENGTH)


def key_stream(key: bytes, slots: int, modulus: int) -> Array:
    """Return slots that are uniform below `modulus`, as uint64: the key stream of AES-256 in counter mode from 0.

    A slot is 64 bits of the stream, or 32 if the modulus needs no more, lowest byte first, cut to the bit length of the
    modulus minus one. A slot that is not below the modulus is replaced by the next valid slot that follows the first
    `slots` slots of the stream; remainders would make small numbers more likely.
    """
    assert len(key) == _KEY_LENGTH and 2 <= modulus < _LARGEST_MODULUS, "a key of 32 bytes, a modulus below 2^63"
    # The nonce may be zero because a key is never used twice.
    source = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    found = _drawn(source, slots, modulus)
    missing = np.flatnonzero(found >= modulus)
    while len(missing):
        more = _drawn(source, len(missing), modulus)
        more = more[more < modulus]
        found[missing[: len(more)]] = more
        missing = missing[len(more) :]
    return found


def pairwise_masks(
    identity: Identity, public_keys: Mapping[SiteId, PublicKeys], *, context: bytes, slots: int, modulus: int
) -> Array:
    """Return the sum of the masks that this site shares with each other site; over all sites the masks cancel.

    `public_keys` has the keys of all sites of the exchange, including this one; the caller must have checked them.
    """
    me = identity.public_keys.name
    if public_keys.get(me) != identity.public_keys or any(keys.name != name for name, keys in public_keys.items()):
        raise MessageError("public-keys", "the cohort lists public keys under another name, or not this site's own")
    total: Array = np.zeros(slots, np.uint64)
    for name, keys in public_keys.items():
        if name != me:
            pair = (part.encode("ascii") for part in sorted((me, name)))
            key = derive_key(identity.agree(keys), _PAIR, context, *pair)
            (add if me < name else subtract)(total, key_stream(key, slots, modulus), modulus)
    return total


def self_mask(seed: bytes, *, context: bytes, slots: int, modulus: int) -> Array:
    """Return the site's own mask, which remains in the sum until the site sends the seed."""
    if len(seed) != _KEY_LENGTH:
        raise MessageError("seed", f"a seed has {_KEY_LENGTH} bytes")
    return key_stream(derive_key(seed, _OWN, context), slots, modulus)


def remove_self_masks(slots: Array, exchange: Exchange, seeds: Mapping[SiteId, bytes], modulus: int) -> None:
    """Subtract the sites' own masks from a complete sum, in place; the pairwise masks have cancelled."""
    if seeds.keys() != exchange.weights.keys():
        raise MessageError("seed", "a seed is needed from each site of the exchange")
    for site in exchange.weights:
        subtract(slots, self_mask(seeds[site], context=exchange.context, slots=len(slots), modulus=modulus), modulus)


def commitment(seed: bytes, *, context: bytes, site: SiteId) -> str:
    """Return the digest that commits a site to the seed of its own mask before it sends the seed."""
    return sha256(_COMMITMENT + context + seed + site.encode("ascii")).hexdigest()


def add(into: Array, other: Array, modulus: int) -> None:
    """Add modulo `modulus`, in place; both are uint64 slots below it."""
    for part, more in _chunks(into, other):
        part += more
        _reduce(part, modulus)


def subtract(into: Array, other: Array, modulus: int) -> None:
    """Subtract modulo `modulus`, in place; both are uint64 slots below it."""
    for part, less in _chunks(into, other):
        part += np.uint64(modulus) - less
        _reduce(part, modulus)


def derive_key(secret: bytes, label: bytes, *parts: bytes) -> bytes:
    """Derive a key for one purpose; each part follows its length, so that different lists of parts never collide."""
    info = label + b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return HKDF(algorithm=SHA256(), length=_KEY_LENGTH, salt=None, info=info).derive(secret)


def _drawn(source: CipherContext, slots: int, modulus: int) -> Array:
    """Return the next slots of a key stream, cut to the bit length of the modulus minus one."""
    bits = (modulus - 1).bit_length()
    dtype = np.dtype("<u4" if bits <= 32 else "<u8")
    low, drawn = dtype.type(2**bits - 1), np.empty(slots, np.uint64)
    for start in range(0, slots, _CHUNK):
        part = drawn[start : start + _CHUNK]
        raw = source.update(memoryview(_ZEROS)[: len(part) * dtype.itemsize])
        np.bitwise_and(np.frombuffer(raw, dtype), low, out=part)
    return drawn


def _chunks(into: Array, other: Array) -> Iterator[tuple[Array, Array]]:
    assert into.dtype == other.dtype == np.uint64 and into.shape == other.shape, "uint64 slots of the same length"
    for start in range(0, len(into), _CHUNK):
        yield into[start : start + _CHUNK], other[start : start + _CHUNK]


def _reduce(part: Array, modulus: int) -> None:
    """Reduce numbers below twice the modulus; for a number below the modulus, the difference wraps to a larger one."""
    np.minimum(part, part - np.uint64(modulus), out=part)
