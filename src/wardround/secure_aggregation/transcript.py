"""The signed list of the contributions in a sum, which lets a site trust a sum that it did not compute.

The coordinator defines an `Exchange`, and each site signs a `Contribution` to it. With the sum each site receives the
`Transcript`, the signed list of the contributions. Before it opens a sum, a site refuses one of too few sites, one
without its own contribution, and one of another exchange.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from wardround.errors import MessageError
from wardround.federation.federation import SiteId
from wardround.federation.message import Message, Value, content_digest, decode, encode
from wardround.secure_aggregation import masks
from wardround.secure_aggregation.exchange import DIGEST, Exchange, is_site_name
from wardround.secure_aggregation.identities import Certifier, Identity, PublicKeys, check_public_keys, check_signature
from wardround.secure_aggregation.mac import MacTag

__all__ = [
    "Contribution",
    "Transcript",
    "check_contribution",
    "check_seed",
    "contribute",
    "sealed_digest",
]

_SEALED = "wardround-sealed-2"
_SIGNATURE_LENGTH = 64
_TAG_LENGTH, _MOST_TAGS = 8, 3  # bytes of one number of a tag; numbers of a tag
_CONTRIBUTION, _TRANSCRIPT = "contribution", "transcript"  # names of blobs in a message


@dataclass(frozen=True)
class Contribution:
    """A site's signed statement that it submitted an update, named by its digest, to an exchange."""

    site: SiteId
    digest: str  # of the protected update: see `sealed_digest`
    signature: bytes
    tag: MacTag = ()  # over the ciphertexts: see `mac`; empty if nothing is encrypted
    commitment: str = ""  # to the seed of the site's own mask; empty if it has none

    def __post_init__(self) -> None:
        if not is_site_name(self.site) or not DIGEST.fullmatch(self.digest):
            raise MessageError("contribution", "names no site or has no digest")
        if self.commitment and not DIGEST.fullmatch(self.commitment):
            raise MessageError("contribution", f"{self.site}: the commitment is not a digest")
        if len(self.tag) > _MOST_TAGS or not all(0 <= number < 1 << (8 * _TAG_LENGTH) for number in self.tag):
            raise MessageError("contribution", f"{self.site}: the tag is malformed")
        if len(self.signature) != _SIGNATURE_LENGTH:
            raise MessageError("contribution", f"{self.site}: a signature has {_SIGNATURE_LENGTH} bytes")

    def to_blobs(self) -> dict[str, bytes]:
        """Return the blob to add to the submitted message; `sealed_digest` leaves it out."""
        return {_CONTRIBUTION: self.to_bytes()}

    @classmethod
    def from_message(cls, message: Message) -> Contribution:
        """Return the contribution in a message."""
        if _CONTRIBUTION not in message.blobs:
            raise MessageError("contribution", "is missing")
        return cls.from_bytes(message.blobs[_CONTRIBUTION])

    def to_bytes(self) -> bytes:
        """Return the bytes that `from_bytes` reads."""
        values: dict[str, Value] = {"site": self.site, "digest": self.digest, "commitment": self.commitment}
        return encode(Message(values, {}, {"signature": self.signature, "tag": _tag_bytes(self.tag)}))

    @classmethod
    def from_bytes(cls, data: bytes) -> Contribution:
        """Return the contribution in `data`; only its form is checked."""
        with _refused_as("contribution"):
            message = decode(data)
            site, digest, commitment = (message.value(name, str) for name in ("site", "digest", "commitment"))
        if len(message.values) != 3 or message.arrays or {*message.blobs} != {"signature", "tag"}:
            raise MessageError("contribution", "has other parts than a contribution")
        tag = message.blobs["tag"]
        if len(tag) % _TAG_LENGTH:
            raise MessageError("contribution", "has a tag of another length")
        numbers = (tag[start : start + _TAG_LENGTH] for start in range(0, len(tag), _TAG_LENGTH))
        parsed = tuple(int.from_bytes(number, "big") for number in numbers)
        return cls(site, digest, message.blobs["signature"], parsed, commitment)


def sealed_digest(message: Message) -> str:
    """Return the SHA-256 of a message without its contribution; the order of its parts does not matter."""
    return content_digest(message, purpose=_SEALED, without=_CONTRIBUTION)


def contribute(
    identity: Identity, exchange: Exchange, digest: str, *, tag: MacTag = (), commitment: str = ""
) -> Contribution:
    """Sign that this site submitted an update with this digest, tag and commitment."""
    site = identity.public_keys.name
    if site not in exchange.weights:
        raise MessageError("exchange", f"{site} cannot contribute to an exchange that does not name it")
    signature = identity.sign(_signed(exchange, site, digest, tag, commitment))
    return Contribution(site, digest, signature, tag, commitment)


def check_contribution(contribution: Contribution, exchange: Exchange, keys: PublicKeys) -> None:
    """Raise a `MessageError` unless the holder of `keys` signed the contribution for this exchange."""
    site = contribution.site
    if site != keys.name or site not in exchange.weights:
        raise MessageError(
            "contribution", f"{site}: is not a site of the exchange, or the public keys belong to another site"
        )
    signed = _signed(exchange, site, contribution.digest, contribution.tag, contribution.commitment)
    check_signature(keys, signed, contribution.signature)


def check_seed(contribution: Contribution, exchange: Exchange, seed: bytes) -> None:
    """Raise a `MessageError` for a seed that the site did not commit to when it contributed."""
    if masks.commitment(seed, context=exchange.context, site=contribution.site) != contribution.commitment:
        raise MessageError("seed", f"{contribution.site}: sent another seed than it committed to")


@dataclass(frozen=True)
class Transcript:
    """The signed list of the contributions in a sum."""

    exchange: Exchange
    public_keys: Mapping[SiteId, PublicKeys]  # at least those of the sites that contributed
    contributions: Sequence[Contribution]

    @property
    def sites(self) -> tuple[SiteId, ...]:
        """Return the sites that contributed."""
        return tuple(contribution.site for contribution in self.contributions)

    @property
    def share(self) -> float:
        """Return the share of the contributions in the mean of all sites; 1 if none is missing."""
        return self.exchange.share_of(*self.sites)

    def to_blobs(self) -> dict[str, bytes]:
        """Return the blob for a message; it has the public keys of only the sites that contributed."""
        parts = {f"contribution/{number}": part.to_bytes() for number, part in enumerate(self.contributions)}
        public_keys = {
            f"public_keys/{number}": self.public_keys[site].to_bytes() for number, site in enumerate(self.sites)
        }
        return {_TRANSCRIPT: encode(Message({"exchange": self.exchange.to_values()}, {}, parts | public_keys))}

    @classmethod
    def from_message(cls, message: Message) -> Transcript:
        """Return the transcript in a message; only its form is checked."""
        if _TRANSCRIPT not in message.blobs:
            raise MessageError("transcript", "is missing")
        with _refused_as("transcript"):
            found = decode(message.blobs[_TRANSCRIPT])
            exchange = Exchange.from_values(found.value("exchange", dict))
            numbers = range(len(found.blobs) // 2)
            names = {f"{part}/{number}" for number in numbers for part in ("contribution", "public_keys")}
            if len(found.values) != 1 or found.arrays or {*found.blobs} != names:
                raise MessageError("parts", "are not those of a transcript")
            public_keys = [PublicKeys.from_bytes(found.blobs[f"public_keys/{number}"]) for number in numbers]
            contributions = [Contribution.from_bytes(found.blobs[f"contribution/{number}"]) for number in numbers]
        return cls(exchange, {keys.name: keys for keys in public_keys}, tuple(contributions))

    def check(
        self, *, minimum: int, me: SiteId, own: str | None, study: str, round: int, certifier: Certifier | None
    ) -> None:
        """Raise a `MessageError` unless the site `me` may open this sum.

        `own` is the digest of the site's submission to this exchange, None if it has none. The caller checks whether
        the sum was opened before.
        """
        if self.exchange.study != study or self.exchange.round != round:
            raise MessageError("transcript", "belongs to another study or another round")
        sites = self.sites
        if len(set(sites)) < len(sites):
            raise MessageError("transcript", "lists a site twice")
        if not self.exchange.weights.keys() >= set(sites):
            raise MessageError("transcript", "lists a site outside the cohort")
        if len(sites) < minimum:
            raise MessageError("transcript", f"lists {len(sites)} sites; the study needs at least {minimum}")
        mine = [contribution.digest for contribution in self.contributions if contribution.site == me]
        if own is None and mine:
            raise MessageError("transcript", f"lists {me}, which submitted nothing")
        if own is not None and not mine:
            raise MessageError("transcript", f"leaves out what {me} submitted")
        if own is not None and mine != [own]:
            raise MessageError("transcript", f"lists {me} with another update than it submitted")
        with _refused_as("transcript"):
            for contribution in self.contributions:
                keys = self.public_keys.get(contribution.site)
                if keys is None:
                    raise MessageError("public-keys", f"{contribution.site}: is missing")
                check_public_keys(keys, contribution.site, certifier)
                check_contribution(contribution, self.exchange, keys)


def _signed(exchange: Exchange, site: SiteId, digest: str, tag: MacTag, commitment: str) -> bytes:
    """Return the bytes to sign; every part has a fixed length or follows its length, and the name comes last."""
    parts = _tag_bytes(tag), bytes.fromhex(commitment)
    variable = b"".join(len(part).to_bytes(1, "big") + part for part in parts)
    return exchange.context + bytes.fromhex(digest) + variable + site.encode("ascii")


def _tag_bytes(tag: MacTag) -> bytes:
    return b"".join(number.to_bytes(_TAG_LENGTH, "big") for number in tag)


@contextmanager
def _refused_as(code: str) -> Iterator[None]:
    """Map any `MessageError` to one code."""
    try:
        yield
    except MessageError as error:
        raise MessageError(code, str(error)) from None
