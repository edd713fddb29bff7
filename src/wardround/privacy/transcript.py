"""Who gave what to an exchange, and the check that lets a site trust a sum it did not add up itself.

The coordinator names an `Exchange`; each site signs a `Contribution` to it; with the sum each site gets the
`Transcript`, the signed list of the contributions in it. A sum of too few sites, without one's own contribution, or of
another exchange is refused before it is opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from wardround.errors import MessageError
from wardround.federation.federation import SiteId
from wardround.federation.message import Array, Message, Value, decode, encode
from wardround.privacy.exchange import DIGEST, Exchange, is_site_name
from wardround.privacy.identities import Card, Certifier, Identity, check_card, check_signature

__all__ = [
    "Contribution",
    "Transcript",
    "check_contribution",
    "contribute",
    "sealed_digest",
]

_SEALED = "wardround-sealed-1"
_SIGNATURE_LENGTH = 64
_CONTRIBUTION, _TRANSCRIPT = "contribution", "transcript"  # what their blobs are called in a message


@dataclass(frozen=True)
class Contribution:
    """A site's word that it gave something, known by its digest, to an exchange."""

    site: SiteId
    digest: str  # of what it gave: see `sealed_digest`
    signature: bytes

    def __post_init__(self) -> None:
        if not is_site_name(self.site) or not DIGEST.fullmatch(self.digest):
            raise MessageError("contribution", "names no site or no digest")
        if len(self.signature) != _SIGNATURE_LENGTH:
            raise MessageError("contribution", f"{self.site}: a signature has {_SIGNATURE_LENGTH} bytes")

    def to_blobs(self) -> dict[str, bytes]:
        """To be put beside what was given; `sealed_digest` leaves this blob out."""
        return {_CONTRIBUTION: self.to_bytes()}

    @classmethod
    def from_message(cls, message: Message) -> Contribution:
        """The contribution that a message brings with it."""
        if _CONTRIBUTION not in message.blobs:
            raise MessageError("contribution", "is missing")
        return cls.from_bytes(message.blobs[_CONTRIBUTION])

    def to_bytes(self) -> bytes:
        """As `from_bytes` reads it."""
        return encode(Message({"site": self.site, "digest": self.digest}, {}, {"signature": self.signature}))

    @classmethod
    def from_bytes(cls, data: bytes) -> Contribution:
        """The contribution in `data`, unchecked beyond its shape."""
        with _refused_as("contribution"):
            message = decode(data)
            site, digest = message.value("site", str), message.value("digest", str)
        if len(message.values) != 2 or message.arrays or {*message.blobs} != {"signature"}:
            raise MessageError("contribution", "has other parts than a contribution")
        return cls(site, digest, message.blobs["signature"])


def sealed_digest(message: Message) -> str:
    """SHA-256 of all that a message says but its contribution, whatever order its parts have."""
    # Arrays and blobs count by digests of their own: to put them into one text would copy the whole update.
    values: dict[str, Value] = {
        "version": _SEALED,
        "values": _ordered(dict(message.values)),
        "arrays": [_described(name, array) for name, array in sorted(message.arrays.items())],
        "blobs": [[n, sha256(b).hexdigest()] for n, b in sorted(message.blobs.items()) if n != _CONTRIBUTION],
    }
    return sha256(encode(Message(values))).hexdigest()


def contribute(identity: Identity, exchange: Exchange, digest: str) -> Contribution:
    """The signed word of a site of the cohort that it gave what has this digest."""
    site = identity.card.name
    if site not in exchange.weights:
        raise MessageError("exchange", f"{site} cannot give to an exchange that does not name it")
    return Contribution(site, digest, identity.sign(_signed(exchange, site, digest)))


def check_contribution(contribution: Contribution, exchange: Exchange, card: Card) -> None:
    """Refuse, with a `MessageError`, what the card's holder did not sign or what is for another exchange."""
    site = contribution.site
    if site != card.name or site not in exchange.weights:
        raise MessageError("contribution", f"{site}: is no site of the exchange, or the card is another's")
    check_signature(card, _signed(exchange, site, contribution.digest), contribution.signature)


@dataclass(frozen=True)
class Transcript:
    """The signed list of the contributions in a sum."""

    exchange: Exchange
    cards: Mapping[SiteId, Card]  # at least those of the sites that contributed
    contributions: Sequence[Contribution]

    @property
    def sites(self) -> tuple[SiteId, ...]:
        """Who contributed."""
        return tuple(contribution.site for contribution in self.contributions)

    @property
    def share(self) -> float:
        """The part of the whole cohort's mean that the contributions are; 1 where nobody is missing."""
        return self.exchange.share_of(*self.sites)

    def to_blobs(self) -> dict[str, bytes]:
        """One blob to be put into a message; cards of those who did not contribute stay out of it."""
        parts = {f"contribution/{number}": part.to_bytes() for number, part in enumerate(self.contributions)}
        cards = {f"card/{number}": self.cards[site].to_bytes() for number, site in enumerate(self.sites)}
        return {_TRANSCRIPT: encode(Message({"exchange": self.exchange.to_values()}, {}, parts | cards))}

    @classmethod
    def from_message(cls, message: Message) -> Transcript:
        """The transcript that a message brings with it, unchecked beyond its shape."""
        if _TRANSCRIPT not in message.blobs:
            raise MessageError("transcript", "is missing")
        with _refused_as("transcript"):
            found = decode(message.blobs[_TRANSCRIPT])
            exchange = Exchange.from_values(found.value("exchange", dict))
            numbers = range(len(found.blobs) // 2)
            names = {f"{part}/{number}" for number in numbers for part in ("contribution", "card")}
            if len(found.values) != 1 or found.arrays or {*found.blobs} != names:
                raise MessageError("parts", "are others than a transcript's")
            cards = [Card.from_bytes(found.blobs[f"card/{number}"]) for number in numbers]
            contributions = [Contribution.from_bytes(found.blobs[f"contribution/{number}"]) for number in numbers]
        return cls(exchange, {card.name: card for card in cards}, tuple(contributions))

    def check(
        self, *, minimum: int, me: SiteId, own: str | None, study: str, round: int, certifier: Certifier | None
    ) -> None:
        """Refuse, with a `MessageError`, the sum this stands for, unless it is what the site `me` may open.

        `own` is the digest of what the site gave to this exchange, None where it gave nothing. Whether the exchange was
        seen before is for whoever opens its sum to know.
        """
        if self.exchange.study != study or self.exchange.round != round:
            raise MessageError("transcript", "is of another study or another round")
        self._check_sites(minimum)
        self._check_mine(me, own)
        with _refused_as("transcript"):
            for contribution in self.contributions:
                card = self.cards.get(contribution.site)
                if card is None:
                    raise MessageError("card", f"{contribution.site}: is missing")
                check_card(card, contribution.site, certifier)
                check_contribution(contribution, self.exchange, card)

    def _check_sites(self, minimum: int) -> None:
        sites = self.sites
        if len(set(sites)) < len(sites):
            raise MessageError("transcript", "lists a site twice")
        if not self.exchange.weights.keys() >= set(sites):
            raise MessageError("transcript", "lists a site outside the cohort")
        if len(sites) < minimum:
            raise MessageError("transcript", f"lists {len(sites)} sites where the study wants at least {minimum}")

    def _check_mine(self, me: SiteId, own: str | None) -> None:
        mine = [contribution.digest for contribution in self.contributions if contribution.site == me]
        if own is None and mine:
            raise MessageError("transcript", f"lists {me}, which gave nothing")
        if own is not None and not mine:
            raise MessageError("transcript", f"leaves out what {me} gave")
        if own is not None and mine != [own]:
            raise MessageError("transcript", f"lists {me} with something else than it gave")


def _signed(exchange: Exchange, site: SiteId, digest: str) -> bytes:
    """What a contribution signs; two digests of fixed length, so that the name is told from them."""
    return exchange.context + bytes.fromhex(digest) + site.encode("ascii")


def _ordered(value: Value) -> Value:
    if isinstance(value, dict):
        return {name: _ordered(part) for name, part in sorted(value.items())}
    return [_ordered(part) for part in value] if isinstance(value, list) else value


def _described(name: str, array: Array) -> list[Value]:
    wire = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
    return [name, wire.dtype.str, list(wire.shape), sha256(wire.data).hexdigest()]


@contextmanager
def _refused_as(code: str) -> Iterator[None]:
    """Under one code, whatever is wrong in detail."""
    try:
        yield
    except MessageError as error:
        raise MessageError(code, str(error)) from None
