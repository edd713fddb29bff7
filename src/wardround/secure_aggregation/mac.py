"""A linear MAC over ciphertexts, so that a site checks a sum before it decrypts any of it (encrypt-then-MAC).

An update is a matrix V of ciphertext coefficients modulo a prime q, one row per block (c0 and c1, all coefficients).
For one exchange, the holders of the group key derive

    ρ   one number per block            r   one number per coefficient of a block
    p_i a pad of site i, bound to the digest of the ciphertexts it tags

and site i sends the tag

    t_i = p_i + ρᵀ V_i r   (mod q)

Ciphertexts add coefficient by coefficient modulo q, and so do tags: a sum S of the listed sites' ciphertexts is
accepted only if ρᵀ S r + Σ p_i = Σ t_i. The coordinator holds no group key.

**Forgery bound.** All keys are outputs of HKDF-SHA256 and AES-256-CTR under the group key and are treated as uniform. A
pad is used for one matrix only, because its key is derived from the digest of that matrix. Tags therefore reveal
nothing about ρ and r, even if rounds are repeated or states restored. To have another matrix S' accepted, an attacker
needs ρᵀ(S' − S) r = δ for a matrix S' − S ≠ 0 and a δ that he chooses. (S' − S) r is zero with probability at most 1/q,
because r is uniform modulo q. If it is not zero, ρᵀ(S' − S) r equals δ with probability at most 1/q, because ρ is
uniform too. So one attempt succeeds with probability at most 2/q, and k attempts, each answered only with "refused",
with at most 2k/q. To list a site that did not contribute, an attacker must guess its pad: 1/q. A site allows at most
`MOST_REFUSED_SUMS` refusals under one sealing key (see `federation.site_history`), so k is at most that number times
the number of sites; the number of sums under the key does not matter. For BFV q has 60 bits: with 32 refusals and 100
sites, 2k/q is below 2⁻⁴⁷. For CKKS each of three primes, of 60, 40 and 40 bits, has a tag. An attacker may change the
residues of one prime only, so the smallest prime determines the bound: below 2⁻²⁷. There ρ is uniform modulo the
largest prime only; modulo a prime of 40 bits no residue is more than 1 + 2⁻¹⁹ times as likely as another.

This is Carter and Wegman's construction over a linear universal hash; Agrawal and Boneh (2009) describe its use for
sums. HKDF and AES are those of `cryptography`; only arithmetic modulo q is done here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from wardround.federation.federation import SiteId
from wardround.federation.message import Array
from wardround.secure_aggregation import masks
from wardround.secure_aggregation.bfv import HALF

__all__ = ["CiphertextHash", "MacTag", "add_tags", "derive_hash", "derive_pad"]

MacTag = tuple[int, ...]  # one number per prime

_PAD = b"wardround-mac-pad-2\x00"
_BLOCKS = b"wardround-mac-blocks-2\x00"
_COEFFICIENTS = b"wardround-mac-coefficients-2\x00"
_WEIGHT = 2 * HALF
_WORD = 32  # bits of the halves in which coefficients are multiplied
_LIMB = 7  # bits; 2^32 · 2^7 · 2^14 products stay below 2^53 and are exact in float64
_MOST_WORDS = 1 << 14  # 32-bit words in a block
# Products of this size stay on one core. For larger ones BLAS starts threads, which may cost more than they save.
_BLOCKS_AT_ONCE, _WORDS_AT_ONCE = 8, 2048


@dataclass(frozen=True, eq=False)
class CiphertextHash:
    """The keyed hash ρᵀ V r of one exchange, modulo one prime or several."""

    moduli: tuple[int, ...]
    blocks: Array  # ρ: [blocks], uint64 below the largest prime, the same for every prime
    coefficients: tuple[Array, ...]  # r: [coefficients of a block], uint64 below the prime, for each prime

    def of_matrix(self, rows: Array) -> int:
        """Hash the coefficients of a whole sum; `rows` is [blocks, coefficients], uint64 below the one modulus."""
        (modulus,), (r,) = self.moduli, self.coefficients
        assert rows.shape == (len(self.blocks), len(r)), "the hash has another number of blocks or coefficients"
        limbs, total = self._limbs, 0
        for start in range(0, len(rows), _BLOCKS_AT_ONCE):
            chunk = slice(start, start + _BLOCKS_AT_ONCE)
            slots = np.ascontiguousarray(rows[chunk]).view("<u4").astype(np.float64)
            products = np.zeros((len(slots), limbs.shape[1]))
            for first in range(0, len(limbs), _WORDS_AT_ONCE):
                part = slice(first, first + _WORDS_AT_ONCE)
                products += slots[:, part] @ limbs[part]
            for weight, row in zip(self.blocks[chunk].tolist(), products.astype(np.uint64).tolist(), strict=True):
                total += weight * sum(part << (_LIMB * place) for place, part in enumerate(row))
        return total % modulus

    def of_combination(self, high: Sequence[Array], low: Sequence[Array]) -> MacTag:
        """Hash Σ ρ_b V_b, which the encryption library computed for two halves of the weights; one row per prime."""
        found = []
        for modulus, r, upper, lower in zip(self.moduli, self.coefficients, high, low, strict=True):
            combined = (upper.astype(object) << HALF) + lower.astype(object)
            found.append(int((combined * r.astype(object)).sum() % modulus))
        return tuple(found)

    @cached_property
    def _limbs(self) -> Array:
        """Return r times 1 and r times 2^32 as limbs of 7 bits: [32-bit words of a block, limbs], float64."""
        (modulus,), (r,) = self.moduli, self.coefficients
        assert 2 * len(r) <= _MOST_WORDS and modulus <= 1 << _WEIGHT, "sums of products are no longer exact"
        upper = (r.astype(object) << _WORD) % modulus
        slots = np.stack([r, upper.astype(np.uint64)], axis=1).reshape(-1)
        shifts = np.arange(0, _WEIGHT, _LIMB, dtype=np.uint64)
        limbs: Array = ((slots[:, None] >> shifts) & np.uint64(2**_LIMB - 1)).astype(np.float64)
        return limbs


def derive_hash(
    group_key: bytes, *, context: bytes, moduli: Sequence[int], blocks: int, coefficients: int
) -> CiphertextHash:
    """Derive the hash of one exchange; `context` is its digest."""
    assert max(moduli) <= 1 << _WEIGHT, "a weight is two halves"
    # Below the largest prime: below 2^60, zero would be twice as likely as most other residues.
    weights = masks.key_stream(masks.derive_key(group_key, _BLOCKS, context), blocks, max(moduli))
    vectors = [
        masks.key_stream(
            masks.derive_key(group_key, _COEFFICIENTS, context, str(place).encode()), coefficients, modulus
        )
        for place, modulus in enumerate(moduli)
    ]
    return CiphertextHash(tuple(moduli), weights, tuple(vectors))


def derive_pad(group_key: bytes, *, context: bytes, site: SiteId, digest: str, moduli: Sequence[int]) -> MacTag:
    """Derive the pad of a site for the ciphertexts that have this digest."""
    parts = context, site.encode("ascii"), bytes.fromhex(digest)
    return tuple(
        int(masks.key_stream(masks.derive_key(group_key, _PAD, *parts, str(place).encode()), 1, modulus)[0])
        for place, modulus in enumerate(moduli)
    )


def add_tags(tags: Iterable[MacTag], moduli: Sequence[int]) -> MacTag:
    """Add tags, pads and hashes modulo each prime."""
    columns = zip(*tags, strict=True)
    return tuple(sum(column) % modulus for column, modulus in zip(columns, moduli, strict=True))
