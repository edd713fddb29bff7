"""The cryptography at a site: protect an update for one exchange, and open a sum that can be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes, hmac
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from wardround.errors import MessageError, RefusedSumError
from wardround.federation.aggregation import Reader
from wardround.federation.federation import SiteId
from wardround.federation.message import Array, Message
from wardround.secure_aggregation import masks
from wardround.secure_aggregation.exchange import Exchange
from wardround.secure_aggregation.identities import Certifier, Identity, PublicKeys, check_public_keys
from wardround.secure_aggregation.mac import MacTag, add_tags, derive_pad
from wardround.secure_aggregation.mechanisms import AgreedMechanism
from wardround.secure_aggregation.packing import Packed, SlotLayout
from wardround.secure_aggregation.transcript import Transcript, check_seed, contribute, sealed_digest

__all__ = ["EpochKey", "SealedUpdate", "SecretSource", "SecureAggregationClient"]

_NONCE_LENGTH, _EPOCH_LENGTH = 12, 4  # bytes in front of locked data
_ROUNDS_TO_ZERO = 0.5  # units, the largest number that rounding makes zero
_ROUNDS_TO_ZERO_WITH_FEEDBACK = 1 / 16  # units; residues of a number above it add up to one unit within sixteen rounds
_LOCK, _FINGERPRINT = b"wardround-lock-1", b"wardround-fingerprint-1"


class EpochKey(Protocol):
    """The sealing key of an epoch, as `SealingSecret` is."""

    @property
    def epoch(self) -> int:
        """Return the epoch."""

    @property
    def id(self) -> str:
        """Return the public id of the key."""

    @property
    def scheme(self) -> str:
        """Return the encryption scheme that the key is for."""

    @property
    def secret(self) -> bytes:
        """Return the secret key of the encryption scheme."""

    @property
    def group_key(self) -> bytes:
        """Return the key from which all sites derive further keys."""


class SecretSource(Protocol):
    """Where a site gets its sealing keys from."""

    def secret(self, epoch: int) -> EpochKey:
        """Return the key of an epoch; raise a `MessageError` with a code if this site cannot have it."""


@dataclass(frozen=True)
class _NoKey:
    """The key of a mechanism that encrypts nothing."""

    epoch: int = 0
    id: str = ""
    scheme: str = ""
    secret: bytes = b""
    group_key: bytes = b""


class _NoSecrets:
    def secret(self, epoch: int) -> EpochKey:
        return _NoKey()


@dataclass(frozen=True)
class SealedUpdate:
    """A protected update, and what its site must keep."""

    message: Message
    digest: str  # identifies the update in a transcript
    seed: bytes = field(repr=False)  # of the site's own mask; empty without masks
    residue: Mapping[str, Array] = field(repr=False)  # the part that rounding removed


class SecureAggregationClient:
    """A site's keys in a mechanism; with `feedback`, the part that rounding removes is added to the next update."""

    def __init__(
        self,
        mechanism: AgreedMechanism,
        identity: Identity,
        *,
        secrets: SecretSource | None = None,
        certifier: Certifier | None = None,
        feedback: bool = False,
    ) -> None:
        self.mechanism = mechanism
        self.reader: Reader = mechanism.reader
        self._identity, self._certifier = identity, certifier
        self._secrets: SecretSource = secrets or _NoSecrets()
        self._feedback = feedback
        self._name = identity.public_keys.name
        self._epoch = 0  # of the last exchange
        self._masked: set[bytes] = set()  # exchanges that this identity's masks were used for

    @property
    def public_keys(self) -> bytes:
        """Return the public keys with which this site signs and agrees on masks."""
        return self._identity.public_keys.to_bytes()

    def largest_by_group(self, update: Mapping[str, Array]) -> dict[str, float]:
        """Return the largest number by layer group; raise a `MessageError` if a number is not finite."""
        largest = dict.fromkeys(self.mechanism.layer_groups, 0.0)
        for name, array in update.items():
            group = self.mechanism.groups[name]
            largest[group] = float(np.maximum(largest[group], np.abs(array).max(initial=0.0)))  # NaN stays NaN
        if not np.isfinite(list(largest.values())).all():
            raise MessageError("not-a-number", "the update holds NaN or infinity; lower learning_rate")
        return largest

    def check_exchange(self, exchange: Exchange) -> None:
        """Raise a `MessageError` for another study, too few sites, or a key that this site does not have."""
        if exchange.study != self.mechanism.study:
            raise MessageError("study", "the exchange belongs to another study")
        if not exchange.weights.keys() <= set(self.mechanism.sites):
            raise MessageError("cohort", "the exchange names a site that is not in the study")
        if len(exchange.weights) < self.mechanism.minimum:
            raise MessageError("cohort", f"the study adds at least {self.mechanism.minimum} sites")
        self.mechanism.clip_of(exchange)
        self._key(exchange)

    def seal(
        self, update: Mapping[str, Array], *, exchange: Exchange, public_keys: Mapping[SiteId, bytes]
    ) -> SealedUpdate:
        """Protect an update: clip, scale and pack it, mask it, encrypt and tag it, sign it."""
        layout, codec, key = self.mechanism.layout(exchange), self.mechanism.codec, self._key(exchange)
        packed = layout.pack(update, share=exchange.share_of(self._name))
        seed = self._mask(packed.slots, exchange, public_keys) if self.mechanism.needs_every_participant else b""
        hash_key = codec.hash_key(key.group_key, exchange.context, layout.slots)
        arrays, hashed = codec.seal(packed.slots, key.secret, hash_key)
        sealed = Message(
            {"exchange": exchange.digest(), "clipped": packed.clipped, "vanished": self._vanished(packed)}, arrays
        )
        digest = sealed_digest(sealed)
        tag = add_tags([hashed, self._pad(key, exchange, self._name, digest)], codec.moduli)
        commitment = masks.commitment(seed, context=exchange.context, site=self._name) if seed else ""
        contribution = contribute(self._identity, exchange, digest, tag=tag, commitment=commitment)
        self._epoch = exchange.epoch
        message = Message(sealed.values, sealed.arrays, contribution.to_blobs())
        return SealedUpdate(message, digest, seed, packed.residue)

    def open(self, message: Message, *, own: str | None) -> dict[str, Array]:
        """Return the mean of a sum; `own` is the digest of this site's contribution, None if it has none.

        A sum is authenticated before any of it is decrypted. Every refusal has the code `sum` and takes the same work
        as opening, so neither the code nor the time tells the coordinator anything about the key or the sum.
        """
        exchange = Exchange.from_values(message.value("exchange", dict))
        self.check_exchange(exchange)
        layout, codec, key = self.mechanism.layout(exchange), self.mechanism.codec, self._key(exchange)
        seeds = {n.removeprefix("seed/"): b for n, b in message.blobs.items() if n.startswith("seed/")}
        listed = authentic = False
        try:
            transcript = self._check_transcript(message, exchange, seeds, own=own)
            listed = True
            self._authenticate(message, transcript, key, layout.slots)
            authentic = True
            slots = codec.open(message.arrays, layout.slots, key.secret)
            if self.mechanism.needs_every_participant:
                masks.remove_self_masks(slots, exchange, seeds, codec.ring)
            mean = layout.unpack(slots, share=transcript.share, sites=len(transcript.sites))
        except MessageError as error:
            if not authentic:
                self._open_stand_in(exchange, layout, key)
            raise RefusedSumError(str(error), counts=listed) from None
        self._epoch = exchange.epoch
        return mean

    def encrypt_for_sites(self, data: bytes, *, purpose: str) -> bytes:
        """Encrypt data under a key that all sites share, in the epoch of the last exchange."""
        if not self._epoch:
            raise MessageError("behind", "this site has not taken part since it was started")
        nonce = masks.new_seed()[:_NONCE_LENGTH]
        cipher = AESGCM(self._derived(self._epoch, _LOCK))
        head = self._epoch.to_bytes(_EPOCH_LENGTH, "big")
        return head + nonce + cipher.encrypt(nonce, data, self._purpose(purpose))

    def decrypt_from_site(self, locked: bytes, *, purpose: str) -> bytes:
        """Decrypt data that a site of the study locked for this purpose."""
        epoch = int.from_bytes(locked[:_EPOCH_LENGTH], "big")
        nonce, sealed = locked[_EPOCH_LENGTH:][:_NONCE_LENGTH], locked[_EPOCH_LENGTH + _NONCE_LENGTH :]
        try:
            data = AESGCM(self._derived(epoch, _LOCK)).decrypt(nonce, sealed, self._purpose(purpose))
        except (InvalidTag, ValueError):
            raise MessageError("lock", "was not locked by a site of this study for this purpose") from None
        self._epoch = max(self._epoch, epoch)
        return data

    def fingerprint(self, data: bytes) -> str:
        """Return the HMAC-SHA256 of data under a key that all sites share."""
        mac = hmac.HMAC(self._derived(self._epoch, _FINGERPRINT), hashes.SHA256())
        mac.update(data)
        return mac.finalize().hex()

    def _vanished(self, packed: Packed) -> int:
        """Count the layer groups that the update changes but that round to zero; with feedback, for many rounds."""
        largest = dict.fromkeys(self.mechanism.layer_groups, 0.0)
        for name, number in packed.largest.items():
            group = self.mechanism.groups[name]
            largest[group] = max(largest[group], number)
        threshold = _ROUNDS_TO_ZERO_WITH_FEEDBACK if self._feedback else _ROUNDS_TO_ZERO
        return sum(0 < number <= threshold for number in largest.values())

    def _mask(self, slots: Array, exchange: Exchange, public_keys: Mapping[SiteId, bytes]) -> bytes:
        """Add this site's own mask and, if the mechanism has them, pairwise masks; return the seed of the own mask."""
        others: dict[SiteId, PublicKeys] = {}
        if self.mechanism.is_masked:
            if public_keys.keys() != exchange.weights.keys():
                raise MessageError("public-keys", "the public keys of each site of the exchange are needed")
            others = {site: PublicKeys.from_bytes(keys) for site, keys in public_keys.items()}
            for site, keys in others.items():
                check_public_keys(keys, site, self._certifier)
        # If two updates had the same masks, their difference would be visible once both seeds are known.
        if exchange.context in self._masked:
            raise MessageError("replay", "this site has masked for the exchange before")
        self._masked.add(exchange.context)
        context, modulus, seed = exchange.context, self.mechanism.codec.ring, masks.new_seed()
        if others:
            shared = masks.pairwise_masks(self._identity, others, context=context, slots=len(slots), modulus=modulus)
            masks.add(slots, shared, modulus)
        masks.add(slots, masks.self_mask(seed, context=context, slots=len(slots), modulus=modulus), modulus)
        return seed

    def _check_transcript(
        self, message: Message, exchange: Exchange, seeds: Mapping[SiteId, bytes], *, own: str | None
    ) -> Transcript:
        """Return the transcript of a sum that this site may open; check that its sites committed to these seeds."""
        transcript = Transcript.from_message(message)
        if transcript.exchange != exchange or exchange.round != message.value("round", int):
            raise MessageError("transcript", "belongs to another exchange than the sum")
        transcript.check(
            minimum=self.mechanism.minimum,
            me=self._name,
            own=own,
            study=self.mechanism.study,
            round=exchange.round,
            certifier=self._certifier,
        )
        if self.mechanism.needs_every_participant:
            if exchange.weights.keys() != set(transcript.sites):
                raise MessageError("transcript", "lacks a site of the exchange; an incomplete sum is not opened")
            if seeds.keys() != exchange.weights.keys():
                raise MessageError("seed", "a seed is needed from each site of the exchange")
            for contribution in transcript.contributions:
                check_seed(contribution, exchange, seeds[contribution.site])
        return transcript

    def _authenticate(self, message: Message, transcript: Transcript, key: EpochKey, slots: int) -> None:
        """Raise a `MessageError` unless the ciphertexts are exactly the sum of the listed contributions."""
        codec, exchange = self.mechanism.codec, transcript.exchange
        if any(len(contribution.tag) != len(codec.moduli) for contribution in transcript.contributions):
            raise MessageError("mac", "a contribution has a tag of another scheme")
        hash_key = codec.hash_key(key.group_key, exchange.context, slots)
        pads = [self._pad(key, exchange, c.site, c.digest) for c in transcript.contributions]
        found = add_tags([codec.hash(message.arrays, slots, key.secret, hash_key), *pads], codec.moduli)
        if found != add_tags([c.tag for c in transcript.contributions], codec.moduli):
            raise MessageError("mac", "is not the sum of the listed contributions, or was changed")

    def _pad(self, key: EpochKey, exchange: Exchange, site: SiteId, digest: str) -> MacTag:
        moduli = self.mechanism.codec.moduli
        return derive_pad(key.group_key, context=exchange.context, site=site, digest=digest, moduli=moduli)

    def _open_stand_in(self, exchange: Exchange, layout: SlotLayout, key: EpochKey) -> None:
        """Do the same work as for a valid sum: decrypt, remove masks, unpack."""
        slots = self.mechanism.codec.open_stand_in(layout.slots, key.secret)
        if self.mechanism.needs_every_participant:
            seeds = dict.fromkeys(exchange.weights, bytes(32))
            masks.remove_self_masks(slots.copy(), exchange, seeds, self.mechanism.codec.ring)
        layout.unpack(slots, share=1.0, sites=len(exchange.weights))

    def _key(self, exchange: Exchange) -> EpochKey:
        """Return the sealing key that an exchange names; raise a `MessageError` if this site has another."""
        key = self._secrets.secret(exchange.epoch)
        if (key.epoch, key.id, key.scheme) != (exchange.epoch, exchange.key, self.mechanism.key_scheme):
            raise MessageError("key", "the exchange names another key than this site has for that epoch")
        return key

    def _derived(self, epoch: int, label: bytes) -> bytes:
        group_key = self._secrets.secret(epoch).group_key
        if not group_key:
            raise MessageError("key", "this mechanism has no key that all sites share")
        return HKDF(hashes.SHA256(), 32, salt=None, info=label + self.mechanism.study.encode()).derive(group_key)

    def _purpose(self, purpose: str) -> bytes:
        return f"{self.mechanism.study}/{purpose}".encode()
