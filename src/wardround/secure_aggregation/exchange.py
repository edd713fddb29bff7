"""An exchange: which updates are added, and with which weights, clips and key. All parties must agree on it."""

from __future__ import annotations

import json
import math
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from hashlib import sha256
from types import MappingProxyType

from wardround.errors import MessageError
from wardround.federation.federation import SiteId
from wardround.federation.message import Value
from wardround.parsing import is_integer

__all__ = ["DIGEST", "Exchange", "is_site_name"]

_VERSION = "wardround-exchange-2"
DIGEST = re.compile(r"[0-9a-f]{64}")
_NONCE = re.compile(r"[0-9a-f]{32}")
_KEY = re.compile(r"[0-9a-f]{0,64}")
_LONGEST_STEP = 100
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
# Other parties hold certificates of the study too; none of them may count as a site.
_RESERVED_NAMES = frozenset({"admin", "client", "coordinator", "keys", "server"})


def is_site_name(name: str) -> bool:
    """Return whether a site may have this name: plain characters, and not the name of another party."""
    return _NAME.fullmatch(name) is not None and name not in _RESERVED_NAMES


@dataclass(frozen=True)
class Exchange:
    """One sum of updates, described so that every party computes the same digest."""

    study: str  # SHA-256, in hex
    round: int
    step: str
    nonce: str
    weights: Mapping[SiteId, float]  # of the sites that take part
    clips: Mapping[str, float]  # by layer group
    epoch: int = 0  # of the sealing key
    key: str = ""  # its id, in hex; empty if nothing is encrypted

    def __post_init__(self) -> None:
        for name in ("weights", "clips"):
            numbers = {key: float(number) for key, number in getattr(self, name).items()}
            # The digest is computed once, so its input must not change.
            object.__setattr__(self, name, MappingProxyType(numbers))
        if not DIGEST.fullmatch(self.study) or not _NONCE.fullmatch(self.nonce) or not _KEY.fullmatch(self.key):
            raise MessageError("exchange", "study, nonce and key must be hex digits")
        if not 0 < len(self.step) <= _LONGEST_STEP:
            raise MessageError("exchange", f"a step name has 1 to {_LONGEST_STEP} characters")
        if not self.weights or not all(map(is_site_name, self.weights)) or "" in self.clips:
            raise MessageError("exchange", "names no site, an impossible site, or a layer group without a name")
        if self.round < 0 or self.epoch < 0:
            raise MessageError("exchange", "round and epoch must not be negative")
        if not all(0 < number < math.inf for number in (*self.weights.values(), *self.clips.values())):
            raise MessageError("exchange", "weights and clips must be above 0")
        if not max(self.weights.values()) * len(self.weights) < math.inf:
            raise MessageError("exchange", "the sum of the weights overflows")

    @staticmethod
    def new_nonce() -> str:
        """Return a nonce that no other exchange has."""
        return secrets.token_hex(16)

    @cached_property
    def context(self) -> bytes:
        """Return the raw digest, from which masks and MAC keys are derived; the order of the sites does not matter."""
        canonical = json.dumps({"version": _VERSION, **self.to_values()}, sort_keys=True, separators=(",", ":"))
        return sha256(canonical.encode("ascii")).digest()

    def digest(self) -> str:
        """Return the digest in hex."""
        return self.context.hex()

    def share_of(self, *sites: SiteId) -> float:
        """Return the share of one or several sites in the mean."""
        for site in sites:
            if site not in self.weights:
                raise MessageError("exchange", "the exchange does not name this site")
        # Exactly rounded: a plain sum depends on the order and on the version of Python.
        return math.fsum(self.weights[site] for site in sites) / math.fsum(self.weights.values())

    def to_values(self) -> dict[str, Value]:
        """Return the values that `from_values` reads."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: dict(value) if isinstance(value, Mapping) else value for name, value in found.items()}

    @classmethod
    def from_values(cls, values: Mapping[str, Value]) -> Exchange:
        """Return the exchange of `to_values`; raise a `MessageError` for missing, extra or mistyped values."""
        if not isinstance(values, Mapping) or values.keys() != {field.name for field in fields(cls)}:
            raise MessageError("exchange", "has other parts than an exchange")
        return cls(
            study=_text(values["study"]),
            round=_count(values["round"]),
            step=_text(values["step"]),
            nonce=_text(values["nonce"]),
            weights=_numbers(values["weights"]),
            clips=_numbers(values["clips"]),
            epoch=_count(values["epoch"]),
            key=_text(values["key"]),
        )


def _text(value: Value) -> str:
    if not isinstance(value, str):
        raise MessageError("exchange", "a value must be text")
    return value


def _count(value: Value) -> int:
    if not is_integer(value):
        raise MessageError("exchange", "a value must be a whole number")
    return value


def _numbers(value: Value) -> dict[str, float]:
    if not isinstance(value, dict):
        raise MessageError("exchange", "a value must map names to numbers")
    found = {name: number for name, number in value.items() if isinstance(number, float)}
    if len(found) < len(value):
        raise MessageError("exchange", "a value must be a number")
    return found
