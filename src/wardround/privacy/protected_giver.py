"""Protected updates at a site: sealed for one exchange, and opened as part of a sum that can be trusted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes, hmac
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from wardround.errors import MessageError
from wardround.federation.federation import SiteId
from wardround.federation.message import Array, Message
from wardround.privacy import masks
from wardround.privacy.aggregator import Given, Giver
from wardround.privacy.exchange import Exchange
from wardround.privacy.guards import guards
from wardround.privacy.identities import Card, Certifier, Identity, check_card
from wardround.privacy.keys.material import SealingSecret
from wardround.privacy.mechanism import Mechanism
from wardround.privacy.protected_sum import take_off
from wardround.privacy.transcript import Transcript, contribute, sealed_digest

__all__ = ["ProtectedGiver", "SecretSource"]

_NONCE_LENGTH, _EPOCH_LENGTH = 12, 4  # bytes in front of what is locked
_LOCK, _FINGERPRINT = b"wardround-lock-1", b"wardround-fingerprint-1"


class SecretSource(Protocol):
    """Where a site has its sealing secrets from."""

    def secret(self, epoch: int) -> SealingSecret:
        """The secret of an epoch; a `MessageError` with a code where this site cannot have it."""


class ProtectedGiver(Giver):
    """A site's end of a mechanism; without secrets where nothing is sealed."""

    def __init__(
        self,
        mechanism: Mechanism,
        identity: Identity,
        *,
        secrets: SecretSource | None = None,
        certifier: Certifier | None = None,
    ) -> None:
        assert mechanism.is_sealed == (secrets is not None), "what is sealed is sealed under a key"
        self.mechanism, self.opens_at = mechanism, mechanism.opens_at
        self._identity, self._secrets, self._certifier = identity, secrets, certifier
        self._name = identity.card.name
        self._epoch = 0  # of the last exchange
        self._masked: set[bytes] = set()  # exchanges that this identity's masks were used for

    @property
    def card(self) -> bytes:
        """The keys with which this site signs and agrees on masks."""
        return self._identity.card.to_bytes()

    def extents(self, update: Mapping[str, Array]) -> dict[str, float]:
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

    def seal(self, update: Mapping[str, Array], *, exchange: Exchange, cards: Mapping[SiteId, bytes]) -> Given:
        """Clip, scale and pack; mask, where there are masks; seal, where it is sealed; sign."""
        layout = self.mechanism.layout(exchange)
        packed = layout.pack(update, share=exchange.share_of(self._name))
        seed = self._mask(packed.words, exchange, cards) if self.mechanism.opens_once else b""
        secret = self._secret(exchange)
        own = self._guards(exchange, (self._name,), packed.words)
        arrays = self.mechanism.carrier.seal(packed.words, own, secret.secret if secret else b"")
        sealed = Message({"exchange": exchange.digest(), "clipped": packed.clipped}, arrays)
        digest = sealed_digest(sealed)
        contribution = contribute(self._identity, exchange, digest)
        self._epoch = exchange.epoch
        return Given(Message(sealed.values, sealed.arrays, contribution.to_blobs()), digest, seed, packed.residue)

    def open(self, taken: Message, *, own: str | None) -> dict[str, Array]:
        """The mean of a sum, refused where it is not the sum of what its transcript lists."""
        exchange = Exchange.from_values(taken.value("exchange", dict))
        transcript = Transcript.from_message(taken)
        if transcript.exchange != exchange or exchange.round != taken.value("round", int):
            raise MessageError("transcript", "is of another exchange than the sum")
        self.check_exchange(exchange)
        transcript.check(
            minimum=self.mechanism.minimum,
            me=self._name,
            own=own,
            study=self.mechanism.study,
            round=exchange.round,
            certifier=self._certifier,
        )
        secret = self._secret(exchange)
        assert secret is not None, "where nothing is sealed, the coordinator opens"
        layout = self.mechanism.layout(exchange)
        if self.mechanism.opens_once and exchange.weights.keys() != set(transcript.sites):
            raise MessageError("transcript", "lacks a site of the exchange, without which its sum is not opened")
        words, found = self.mechanism.carrier.open(taken.arrays, layout.words, secret.secret)
        if not np.array_equal(found, self._guards(exchange, transcript.sites, words)):
            raise MessageError("sum", "is not the sum of what its list names, or was changed")
        if self.mechanism.opens_once:
            seeds = {n.removeprefix("seed/"): b for n, b in taken.blobs.items() if n.startswith("seed/")}
            take_off(words, exchange, seeds, self.mechanism.words.modulus)
        self._epoch = exchange.epoch
        return layout.unpack(words, share=transcript.share, sites=len(transcript.sites))

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

    def _mask(self, words: Array, exchange: Exchange, cards: Mapping[SiteId, bytes]) -> bytes:
        """Add a mask of this site's own and, where there are any, those it shares; returns the seed of its own."""
        shown = self._checked(cards, exchange) if self.mechanism.is_masked else {}
        # Under the same masks twice, two updates would show their difference once both seeds are told.
        if exchange.context in self._masked:
            raise MessageError("replay", "this site has masked for the exchange before")
        self._masked.add(exchange.context)
        modulus, seed = self.mechanism.words.modulus, masks.new_seed()
        if shown:
            shared = masks.pairwise(self._identity, shown, context=exchange.context, words=len(words), modulus=modulus)
            masks.add(words, shared, modulus)
        masks.add(words, masks.own(seed, context=exchange.context, words=len(words), modulus=modulus), modulus)
        return seed

    def _checked(self, cards: Mapping[SiteId, bytes], exchange: Exchange) -> dict[SiteId, Card]:
        if cards.keys() != exchange.weights.keys():
            raise MessageError("card", "of each site of the exchange a card is needed")
        opened = {site: Card.from_bytes(card) for site, card in cards.items()}
        for site, card in opened.items():
            check_card(card, site, self._certifier)
        return opened

    def _guards(self, exchange: Exchange, sites: Iterable[SiteId], words: Array) -> Array:
        """Of words that these sites gave."""
        payload, secret = self.mechanism.carrier.payload, self._secret(exchange)
        if not payload or secret is None:
            return np.zeros(0, np.uint64)
        modulus = self.mechanism.words.modulus
        return guards(secret.group_key, words, context=exchange.context, sites=sites, payload=payload, modulus=modulus)

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
