"""Protected updates at a site: sealed for one exchange, and opened as part of a sum that can be trusted."""

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
from wardround.secure_aggregation.agreed_mechanism import AgreedMechanism
from wardround.secure_aggregation.codecs import NumberLayout
from wardround.secure_aggregation.exchange import Exchange
from wardround.secure_aggregation.identities import Certifier, Identity, PublicKeys, check_public_keys
from wardround.secure_aggregation.keys.material import SealingSecret
from wardround.secure_aggregation.mac import Tag, added, pad_of
from wardround.secure_aggregation.packing import Layout, Packed
from wardround.secure_aggregation.server import remove_self_masks
from wardround.secure_aggregation.transcript import Transcript, check_seed, contribute, sealed_digest

__all__ = ["SealedUpdate", "SecretSource", "SecureAggregationClient"]

_NONCE_LENGTH, _EPOCH_LENGTH = 12, 4  # bytes in front of what is locked
_ROUNDS_TO_ZERO = 0.5  # units, the largest number that rounding makes zero
_FAINT = 1 / 16  # units; with feedback, numbers above it count once in sixteen rounds or sooner
_LOCK, _FINGERPRINT = b"wardround-lock-1", b"wardround-fingerprint-1"


class SecretSource(Protocol):
    """Where a site has its sealing secrets from."""

    def secret(self, epoch: int) -> SealingSecret:
        """The secret of an epoch; a `MessageError` with a code where this site cannot have it."""


@dataclass(frozen=True)
class SealedUpdate:
    """A protected update, as its site remembers it."""

    message: Message
    digest: str  # identifies the update in a transcript
    seed: bytes = field(repr=False)  # of the site's own mask; empty without masks
    residue: Mapping[str, Array] = field(repr=False)  # what rounding took away


class SecureAggregationClient:
    """A site's end of a mechanism; without secrets where nothing is sealed."""

    def __init__(
        self,
        mechanism: AgreedMechanism,
        identity: Identity,
        *,
        secrets: SecretSource | None = None,
        certifier: Certifier | None = None,
        feedback: bool = False,
    ) -> None:
        """`feedback` carries what rounding takes from an update on to the site's next one."""
        assert mechanism.is_sealed == (secrets is not None), "what is sealed is sealed under a key"
        self.mechanism = mechanism
        self.reader: Reader = mechanism.reader
        self._identity, self._secrets, self._certifier = identity, secrets, certifier
        self._feedback = feedback
        self._name = identity.public_keys.name
        self._epoch = 0  # of the last exchange
        self._masked: set[bytes] = set()  # exchanges that this identity's masks were used for

    @property
    def public_keys(self) -> bytes:
        """The keys with which this site signs and agrees on masks."""
        return self._identity.public_keys.to_bytes()

    def largest_by_group(self, update: Mapping[str, Array]) -> dict[str, float]:
        """The largest number, by layer group; an update that holds what is none is refused."""
        largest = dict.fromkeys(self.mechanism.layer_groups, 0.0)
        for name, array in update.items():
            group = self.mechanism.groups[name]
            largest[group] = float(np.maximum(largest[group], np.abs(array).max(initial=0.0)))  # NaN stays NaN
        if not np.isfinite(list(largest.values())).all():
            raise MessageError("not-a-number", "the update holds NaN or infinity; lower learning_rate")
        return largest

    def check_exchange(self, exchange: Exchange) -> None:
        """Refuse what is another study's, among too few, or under a key that this site has not."""
        if exchange.study != self.mechanism.study:
            raise MessageError("study", "the exchange is of another study")
        if not exchange.weights.keys() <= set(self.mechanism.sites):
            raise MessageError("cohort", "the exchange names who is no site of the study")
        if len(exchange.weights) < self.mechanism.minimum:
            raise MessageError("cohort", f"the study adds {self.mechanism.minimum} sites at least")
        self.mechanism.clip_of(exchange)
        self._secret(exchange)

    def seal(
        self, update: Mapping[str, Array], *, exchange: Exchange, public_keys: Mapping[SiteId, bytes]
    ) -> SealedUpdate:
        """Clip, scale and pack; mask, where there are masks; seal and tag, where it is sealed; sign."""
        layout, carrier = self.mechanism.layout(exchange), self.mechanism.carrier
        packed = layout.pack(update, share=exchange.share_of(self._name))
        seed = self._mask(packed.slots, exchange, public_keys) if self.mechanism.needs_every_participant else b""
        secret = self._secret(exchange)
        key = carrier.hash_key(secret.group_key, exchange.context, layout.slots) if secret else None
        arrays, hashed = carrier.seal(packed.slots, secret.secret if secret else b"", key)
        vanished = self._vanished(packed)
        sealed = Message({"exchange": exchange.digest(), "clipped": packed.clipped, "vanished": vanished}, arrays)
        digest = sealed_digest(sealed)
        tag = added([hashed, self._pad(secret, exchange, self._name, digest)], carrier.moduli) if secret else ()
        commitment = masks.commitment(seed, context=exchange.context, site=self._name) if seed else ""
        contribution = contribute(self._identity, exchange, digest, tag=tag, commitment=commitment)
        self._epoch = exchange.epoch
        message = Message(sealed.values, sealed.arrays, contribution.to_blobs())
        return SealedUpdate(message, digest, seed, packed.residue)

    def _vanished(self, packed: Packed) -> int:
        """Count the layer groups that the update changes and of which rounding leaves nothing, now or for long."""
        largest = dict.fromkeys(self.mechanism.layer_groups, 0.0)
        for name, number in packed.largest.items():
            group = self.mechanism.groups[name]
            largest[group] = max(largest[group], number)
        least = _FAINT if self._feedback else _ROUNDS_TO_ZERO
        return sum(0 < number <= least for number in largest.values())

    def open(self, taken: Message, *, own: str | None) -> dict[str, Array]:
        """Return the mean of a sum that is the sum of what its transcript lists.

        A sum is authenticated before any of it is decrypted. Whatever is wrong with it, the code is `sum`, and the same
        work is done before it is refused: neither tells a coordinator anything about the key or the sum.
        """
        exchange = Exchange.from_values(taken.value("exchange", dict))
        self.check_exchange(exchange)
        secret = self._secret(exchange)
        assert secret is not None, "where nothing is sealed, the coordinator opens"
        layout, carrier = self.mechanism.layout(exchange), self.mechanism.carrier
        seeds = {n.removeprefix("seed/"): b for n, b in taken.blobs.items() if n.startswith("seed/")}
        listed = authentic = False
        try:
            transcript = self._listed(taken, exchange, seeds, own=own)
            listed = True
            self._authenticate(taken, transcript, secret, layout.slots)
            authentic = True
            slots = carrier.open(taken.arrays, layout.slots, secret.secret)
            if self.mechanism.needs_every_participant:
                remove_self_masks(slots, exchange, seeds, self.mechanism.slots.modulus)
            mean = layout.unpack(slots, share=transcript.share, sites=len(transcript.sites))
        except MessageError as error:
            if not authentic:
                self._open_stand_in(exchange, layout, secret)
            raise RefusedSumError(str(error), counts=listed) from None
        self._epoch = exchange.epoch
        return mean

    def _listed(
        self, taken: Message, exchange: Exchange, seeds: Mapping[SiteId, bytes], *, own: str | None
    ) -> Transcript:
        """The transcript of a sum that this site may open, and whose seeds are those its sites committed to."""
        transcript = Transcript.from_message(taken)
        if transcript.exchange != exchange or exchange.round != taken.value("round", int):
            raise MessageError("transcript", "is of another exchange than the sum")
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
                raise MessageError("transcript", "lacks a site of the exchange, without which its sum is not opened")
            if seeds.keys() != exchange.weights.keys():
                raise MessageError("seed", "of each site of the exchange a seed is needed")
            for contribution in transcript.contributions:
                check_seed(contribution, exchange, seeds[contribution.site])
        return transcript

    def _authenticate(self, taken: Message, transcript: Transcript, secret: SealingSecret, slots: int) -> None:
        """Refuse what is not, coefficient by coefficient, the sum of the listed contributions."""
        carrier, exchange = self.mechanism.carrier, transcript.exchange
        if any(len(contribution.tag) != len(carrier.moduli) for contribution in transcript.contributions):
            raise MessageError("mac", "a contribution has a tag of another scheme")
        key = carrier.hash_key(secret.group_key, exchange.context, slots)
        pads = [self._pad(secret, exchange, c.site, c.digest) for c in transcript.contributions]
        found = added([carrier.hash(taken.arrays, slots, secret.secret, key), *pads], carrier.moduli)
        if found != added([c.tag for c in transcript.contributions], carrier.moduli):
            raise MessageError("mac", "is not the sum of what its list names, or was changed")

    def _pad(self, secret: SealingSecret, exchange: Exchange, site: SiteId, digest: str) -> Tag:
        moduli = self.mechanism.carrier.moduli
        return pad_of(secret.group_key, context=exchange.context, site=site, digest=digest, moduli=moduli)

    def _open_stand_in(self, exchange: Exchange, layout: Layout | NumberLayout, secret: SealingSecret) -> None:
        """Do what is done to a good sum: decrypt, take masks off, unpack."""
        slots = self.mechanism.carrier.open_stand_in(layout.slots, secret.secret)
        if self.mechanism.needs_every_participant:
            seeds = dict.fromkeys(exchange.weights, bytes(32))
            remove_self_masks(slots.copy(), exchange, seeds, self.mechanism.slots.modulus)
        layout.unpack(slots, share=1.0, sites=len(exchange.weights))

    def lock(self, data: bytes, *, purpose: str) -> bytes:
        """Under a key of all sites, of the last exchange's epoch."""
        if not self._epoch:
            raise MessageError("behind", "this site has not taken part since it was started")
        nonce = masks.new_seed()[:_NONCE_LENGTH]
        cipher = AESGCM(self._derived(self._epoch, _LOCK))
        head = self._epoch.to_bytes(_EPOCH_LENGTH, "big")
        return head + nonce + cipher.encrypt(nonce, data, self._purpose(purpose))

    def unlock(self, locked: bytes, *, purpose: str) -> bytes:
        """What a site of the study locked for this purpose."""
        epoch = int.from_bytes(locked[:_EPOCH_LENGTH], "big")
        nonce, sealed = locked[_EPOCH_LENGTH:][:_NONCE_LENGTH], locked[_EPOCH_LENGTH + _NONCE_LENGTH :]
        try:
            data = AESGCM(self._derived(epoch, _LOCK)).decrypt(nonce, sealed, self._purpose(purpose))
        except (InvalidTag, ValueError):
            raise MessageError("lock", "was not locked by a site of this study, for this purpose") from None
        self._epoch = max(self._epoch, epoch)
        return data

    def fingerprint(self, data: bytes) -> str:
        """HMAC-SHA256 under a key of all sites."""
        mac = hmac.HMAC(self._derived(self._epoch, _FINGERPRINT), hashes.SHA256())
        mac.update(data)
        return mac.finalize().hex()

    def _mask(self, slots: Array, exchange: Exchange, public_keys: Mapping[SiteId, bytes]) -> bytes:
        """Add a mask of this site's own and, where there are any, those it shares; returns the seed of its own."""
        shown = self._checked(public_keys, exchange) if self.mechanism.is_masked else {}
        # Under the same masks twice, two updates would show their difference once both seeds are told.
        if exchange.context in self._masked:
            raise MessageError("replay", "this site has masked for the exchange before")
        self._masked.add(exchange.context)
        modulus, seed = self.mechanism.slots.modulus, masks.new_seed()
        if shown:
            shared = masks.pairwise(self._identity, shown, context=exchange.context, slots=len(slots), modulus=modulus)
            masks.add(slots, shared, modulus)
        masks.add(slots, masks.own(seed, context=exchange.context, slots=len(slots), modulus=modulus), modulus)
        return seed

    def _checked(self, public_keys: Mapping[SiteId, bytes], exchange: Exchange) -> dict[SiteId, PublicKeys]:
        if public_keys.keys() != exchange.weights.keys():
            raise MessageError("public-keys", "of each site of the exchange a keys is needed")
        opened = {site: PublicKeys.from_bytes(keys) for site, keys in public_keys.items()}
        for site, keys in opened.items():
            check_public_keys(keys, site, self._certifier)
        return opened

    def _secret(self, exchange: Exchange) -> SealingSecret | None:
        if self._secrets is None:
            return None
        secret = self._secrets.secret(exchange.epoch)
        told = exchange.epoch, exchange.key, self.mechanism.key_scheme
        if (secret.epoch, secret.id, secret.scheme) != told:
            raise MessageError("key", "the exchange is under another key than this site's of that epoch")
        return secret

    def _derived(self, epoch: int, label: bytes) -> bytes:
        assert self._secrets is not None, "what is locked is locked under a sealing key"
        key = self._secrets.secret(epoch).group_key
        return HKDF(hashes.SHA256(), 32, salt=None, info=label + self.mechanism.study.encode()).derive(key)

    def _purpose(self, purpose: str) -> bytes:
        return f"{self.mechanism.study}/{purpose}".encode()
