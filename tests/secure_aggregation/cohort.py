"""Sites that protect hand-made updates in exchanges, for tests without a model or notes."""

from __future__ import annotations

import gc
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest

from wardround.errors import MessageError
from wardround.federation.federation import SiteId
from wardround.federation.message import Array, Message, decode, encode
from wardround.secure_aggregation import ckks
from wardround.secure_aggregation.bfv import BfvParameters
from wardround.secure_aggregation.client import SealedUpdate, SecureAggregationClient
from wardround.secure_aggregation.exchange import Exchange
from wardround.secure_aggregation.identities import Certifier, Identity
from wardround.secure_aggregation.keys.material import PublicParameters, SealingSecret, new_secret
from wardround.secure_aggregation.mechanisms import AgreedMechanism, Masked, Sealed, SealedMasked
from wardround.secure_aggregation.packing import MASKED as MASKED_PACKING
from wardround.secure_aggregation.packing import Packing
from wardround.secure_aggregation.server import ExchangeSum, SecureAggregationServer

pytest.importorskip("tenseal", reason="install wardround[sealed]")

STUDY = sha256(b"study").hexdigest()
SITES = ("h1", "h2", "h3")
SHAPES = {"words": (2, 2), "bias": (3,)}
GROUPS = {"words": "embedding", "bias": "top"}
CLIPS = {"embedding": 1.0, "top": 4.0}
WEIGHTS = {"h1": 1.0, "h2": 2.0, "h3": 5.0}

MASKED = AgreedMechanism(STUDY, Masked(), SHAPES, GROUPS, (*SITES, "h4"), 2)
SEALED = replace(MASKED, protection=Sealed())
COMPACT = replace(SEALED, packing="compact")
BOTH = replace(SEALED, protection=SealedMasked())
BOTH_COMPACT = replace(BOTH, packing="compact")
CKKS = replace(SEALED, scheme="ckks")
RETURNED = replace(SEALED, mean_comes_back=True)
RETURNED_COMPACT = replace(RETURNED, packing="compact")
EXACT = (MASKED, SEALED, COMPACT, BOTH, BOTH_COMPACT, RETURNED, RETURNED_COMPACT)  # whose error the width bounds


def named(value: object) -> str | None:
    """Return a name for the id of a parametrized test."""
    if not isinstance(value, AgreedMechanism):
        return None
    returned = "-returned" if value.mean_comes_back else ""
    return f"{value.protection.name}-{value.scheme if value.scheme == 'ckks' else value.packing}{returned}"


@lru_cache(maxsize=16)
def secret_of(scheme: str, epoch: int = 1, number: int = 0) -> SealingSecret:
    """Return the secret of an epoch; each `number` gives another secret."""
    return SealingSecret(epoch, scheme, new_secret(scheme))


class Keys:
    """Holds secrets by epoch; refuses every other epoch."""

    def __init__(self, *secrets: SealingSecret) -> None:
        self._secrets = {secret.epoch: secret for secret in secrets}

    def secret(self, epoch: int) -> SealingSecret:
        if epoch not in self._secrets:
            raise MessageError("epoch", "is not here")
        return self._secrets[epoch]


def update_of(slots: Sequence[float] = (0, 0, 0, 0), bias: Sequence[float] = (0, 0, 0)) -> dict[str, Array]:
    """Return an update with the shapes above."""
    return {"words": np.array(slots, np.float32).reshape(2, 2), "bias": np.array(bias, np.float32)}


UPDATES = {
    "h1": update_of((0.5, -1.0, 0.0, 0.25), (4.0, -4.0, 0.0)),
    "h2": update_of((0.5, 1.0, -0.125, 0.25), (0.0, 2.0, 1.0)),
    "h3": update_of((0.5, 0.2, 0.1, -0.75), (0.8, 0.0, -0.4)),
}
# (1·h1 + 2·h2 + 5·h3) / 8, by hand.
MEAN = update_of((0.5, 0.25, 0.03125, -0.375), (1.0, 0.0, 0.0))


@dataclass
class Cohort:
    """Both ends of one mechanism."""

    mechanism: AgreedMechanism
    clients: dict[SiteId, SecureAggregationClient]
    aggregator: SecureAggregationServer

    @classmethod
    def of(
        cls,
        mechanism: AgreedMechanism,
        *,
        keys: Keys | None = None,
        certifiers: Mapping[SiteId, Certifier] | None = None,
    ) -> Cohort:
        """Make fresh identities; without `keys`, all sites have the secret of epoch 1."""
        vouching = certifiers or {}
        secret = secret_of(mechanism.key_scheme) if mechanism.is_sealed else None
        source = keys or (Keys(secret) if secret else None)
        clients = {
            site: SecureAggregationClient(
                mechanism, Identity.new(site, vouching.get(site)), secrets=source, certifier=vouching.get(site)
            )
            for site in mechanism.sites
        }
        parameters: Callable[[], PublicParameters] | None = (lambda: secret.public(STUDY)) if secret else None
        aggregator = SecureAggregationServer(
            mechanism, parameters=parameters, certifier=next(iter(vouching.values()), None)
        )
        return cls(mechanism, clients, aggregator)

    def exchange(
        self,
        weights: Mapping[SiteId, float] = WEIGHTS,
        *,
        round_number: int = 1,
        clips: Mapping[str, float] = CLIPS,
    ) -> Exchange:
        """Return a new exchange."""
        return self.aggregator.exchange(round_number=round_number, step="train", weights=weights, clips=clips)

    def public_keys(self, exchange: Exchange) -> dict[SiteId, bytes]:
        """Return the public keys of the sites of an exchange."""
        return {site: self.clients[site].public_keys for site in exchange.weights}

    def seal(
        self, exchange: Exchange, updates: Mapping[SiteId, Mapping[str, Array]] = UPDATES
    ) -> dict[SiteId, SealedUpdate]:
        """Return the protected updates of the sites of an exchange."""
        public_keys = self.public_keys(exchange)
        return {
            site: self.clients[site].seal(updates[site], exchange=exchange, public_keys=public_keys)
            for site in exchange.weights
        }

    def total(self, exchange: Exchange, given: Mapping[SiteId, SealedUpdate]) -> ExchangeSum:
        """Return the coordinator's sum."""
        total = self.aggregator.total(exchange, self.public_keys(exchange))
        for site, sealed in given.items():
            total.add(site, sent(sealed.message))
        return total

    def opened(
        self, exchange: Exchange, given: Mapping[SiteId, SealedUpdate], *, at: SiteId = "h1"
    ) -> dict[str, Array]:
        """Return the mean, opened by whoever can open it."""
        total, seeds = self.total(exchange, given), seeds_of(self.mechanism, given)
        if not self.mechanism.is_sealed:
            return total.mean(seeds)
        own = given[at].digest if at in given else None
        return self.clients[at].open(sent(total.message(seeds)), own=own)

    def mean(self, updates: Mapping[SiteId, Mapping[str, Array]] = UPDATES) -> dict[str, Array]:
        """Return the mean of one exchange, computed through all phases."""
        exchange = self.exchange()
        return self.opened(exchange, self.seal(exchange, updates))


def sent(message: Message) -> Message:
    """Return the message after encoding and decoding."""
    return decode(encode(message))


def seeds_of(mechanism: AgreedMechanism, given: Mapping[SiteId, SealedUpdate]) -> dict[SiteId, bytes]:
    """Return the seeds that the sites reveal."""
    return {site: sealed.seed for site, sealed in given.items()} if mechanism.needs_every_participant else {}


def packing_of(mechanism: AgreedMechanism) -> Packing:
    """Return the packing of a mechanism."""
    return BfvParameters(mechanism.packing).packing if mechanism.is_sealed else MASKED_PACKING


def bound_of(mechanism: AgreedMechanism, exchange: Exchange, name: str) -> float:
    """Return the largest error of a mean: sites · clip / 2^width."""
    return float(len(exchange.weights) * exchange.clips[mechanism.groups[name]] / 2 ** packing_of(mechanism).width)


def code_of(call: Callable[..., Any], *arguments: Any, **named: Any) -> str:
    """Return the code of the refusal; fail if there is none."""
    with pytest.raises(MessageError) as refused:
        call(*arguments, **named)
    return refused.value.code


def ckks_block(cipher: Any, numbers: int, *, ntt: bool) -> bytes:
    """Return an uncompressed CKKS ciphertext as TenSEAL sends it, with SEAL's flag for NTT form as requested."""
    count = 2 * len(ckks.PRIMES) * 8192
    version = ckks._tenseal().sealapi.Serialization.SEALHeader()

    def framed(body: bytes) -> bytes:
        head = struct.pack("<HBBBBxxQ", 0xA15E, 16, version.version_major, version.version_minor, 0, 16 + len(body))
        return head + body

    members = struct.pack("<4Q?QQQdQ", *cipher.parms_id(), ntt, 2, 8192, len(ckks.PRIMES), cipher.scale, 1)
    coefficients = np.array([cipher[place] for place in range(count)], "<u8").tobytes()
    data = framed(members + framed(struct.pack("<Q", count) + coefficients))
    # Fields 1, 2 and 3 of TenSEAL's message: sizes, the ciphertext, and the scale.
    return b"\x0a" + _counted(_varint(numbers)) + b"\x12" + _counted(data) + b"\x19" + struct.pack("<d", cipher.scale)


def _counted(data: bytes) -> bytes:
    return _varint(len(data)) + data


def _varint(number: int) -> bytes:
    found = b""
    while number > 127:
        found, number = found + bytes([number & 127 | 128]), number >> 7
    return found + bytes([number])


def reachable(thing: Any) -> list[Any]:
    """Return every object reachable from an object, except its classes and the modules of its functions."""
    found: dict[int, Any] = {}
    left = [thing]
    while left:
        one = left.pop()
        if id(one) not in found and not issubclass(type(one), type | ModuleType):
            found[id(one)] = one
            parts = (one.__closure__, one.__defaults__) if type(one) is FunctionType else gc.get_referents(one)
            left.extend(parts)
    return list(found.values())


def buffers(thing: Any) -> Iterator[bytes]:
    """Return the bytes of every object reachable from an object."""
    for one in reachable(thing):
        if issubclass(type(one), bytes | bytearray | memoryview):
            yield bytes(one)
        elif issubclass(type(one), str):
            yield one.encode(errors="replace")
        elif issubclass(type(one), np.ndarray):
            yield one.tobytes()
