"""What an exchange is: which updates are added up, under what, as everybody who takes part must understand it."""

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

__all__ = ["DIGEST", "Exchange", "is_site_name"]

_VERSION = "wardround-exchange-2"
DIGEST = re.compile(r"[0-9a-f]{64}")
_NONCE = re.compile(r"[0-9a-f]{32}")
_KEY = re.compile(r"[0-9a-f]{0,64}")
_LONGEST_STEP = 100
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
# These parties hold certificates of the study too: a coordinator must not count as one more site.
_NO_SITES = frozenset({"admin", "client", "coordinator", "keys", "server"})


def is_site_name(name: str) -> bool:
    """Whether a site may be called so: plain letters, and no other party's name."""
    return _NAME.fullmatch(name) is not None and name not in _NO_SITES


@dataclass(frozen=True)
class Exchange:
    """One adding-up of updates, as everybody who takes part must understand it."""

    study: str  # SHA-256, in hex
    round: int
    step: str
    nonce: str
    weights: Mapping[SiteId, float]  # of the cohort
    clips: Mapping[str, float]  # by layer group
    epoch: int = 0  # of the sealing key
    key: str = ""  # its id, in hex; empty where nothing is sealed

    def __post_init__(self) -> None:
        for name in ("weights", "clips"):
            numbers = {key: float(number) for key, number in getattr(self, name).items()}
            # The digest is made once: what it was made of must not change under it.
            object.__setattr__(self, name, MappingProxyType(numbers))
        self._check_words()
        self._check_numbers()

    @staticmethod
    def new_nonce() -> str:
        """A nonce that no other exchange has."""
        return secrets.token_hex(16)

    @cached_property
    def context(self) -> bytes:
        """The raw digest, from which masks and MAC keys are derived; the order of the cohort does not count."""
        canonical = json.dumps({"version": _VERSION, **self.to_values()}, sort_keys=True, separators=(",", ":"))
        return sha256(canonical.encode("ascii")).digest()

    def digest(self) -> str:
        """The digest in hex."""
        return self.context.hex()

    def share_of(self, *sites: SiteId) -> float:
        """The part of the mean that one site's update is, or several together."""
        for site in sites:
            if site not in self.weights:
                raise MessageError("exchange", "a site has no share in an exchange that does not name it")
        # Exactly rounded: a plain sum depends on the order, and on the version of Python.
        return math.fsum(self.weights[site] for site in sites) / math.fsum(self.weights.values())

    def to_values(self) -> dict[str, Value]:
        """As `from_values` reads them, to be sent under a name of their own."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: dict(value) if isinstance(value, Mapping) else value for name, value in found.items()}

    @classmethod
    def from_values(cls, values: Mapping[str, Value]) -> Exchange:
        """The exchange that `to_values` described; anything missing, besides or of another kind is refused."""
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

    def _check_words(self) -> None:
        if not DIGEST.fullmatch(self.study) or not _NONCE.fullmatch(self.nonce) or not _KEY.fullmatch(self.key):
            raise MessageError("exchange", "study, nonce or key are not the hex digits they should be")
        if not 0 < len(self.step) <= _LONGEST_STEP:
            raise MessageError("exchange", f"a step has a name of at most {_LONGEST_STEP} letters")
        if not self.weights or not all(map(is_site_name, self.weights)) or "" in self.clips:
            raise MessageError("exchange", "names no site, what cannot be a site, or a layer group without a name")

    def _check_numbers(self) -> None:
        if self.round < 0 or self.epoch < 0:
            raise MessageError("exchange", "round and epoch are counted from 0")
        if not all(0 < number < math.inf for number in (*self.weights.values(), *self.clips.values())):
            raise MessageError("exchange", "a weight and a clip are numbers above 0")
        if not max(self.weights.values()) * len(self.weights) < math.inf:
            raise MessageError("exchange", "the weights add up to more than a number can hold")


def _text(value: Value) -> str:
    if not isinstance(value, str):
        raise MessageError("exchange", "has something else where text should be")
    return value


def _count(value: Value) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise MessageError("exchange", "has something else where a whole number should be")
    return value


def _numbers(value: Value) -> dict[str, float]:
    if not isinstance(value, dict):
        raise MessageError("exchange", "has something else where numbers by name should be")
    found = {name: number for name, number in value.items() if isinstance(number, float)}
    if len(found) < len(value):
        raise MessageError("exchange", "has something else where a number should be")
    return found
