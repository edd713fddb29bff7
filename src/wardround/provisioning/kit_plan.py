"""The plan of a networked study: who takes part, and where the coordinator and the key service are reached."""

from __future__ import annotations

import re
from dataclasses import dataclass

from wardround.errors import KitError
from wardround.federation.engines.flare.requests import COORDINATOR
from wardround.parsing import is_integer

__all__ = ["COORDINATOR", "KEYS", "KitPlan", "check_site_name"]

KEYS = "keys"  # the name of the key service
_RESERVED = frozenset({COORDINATOR, KEYS, "server", "admin", "client"})  # FLARE uses the last three itself
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_STUDY = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,62}")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_LONGEST_VALIDITY = 3650  # days


@dataclass(frozen=True)
class KitPlan:
    """Who takes part in a study, and where the coordinator and the key service, if there is one, are reached."""

    study: str
    host: str
    port: int
    sites: tuple[str, ...]
    days: int = 365  # how long certificates are valid
    keys: str = ""  # host:port of the key service; empty if keys are issued offline

    def __post_init__(self) -> None:
        allowed = "letters, digits, blanks, '.', '_' and '-', at most 63, first a letter or a digit"
        _require(_STUDY, self.study, "study", allowed)
        _require(_HOST, self.host, "host", "a host name or an IPv4 address")
        for what, number in (("port", self.port), ("days of validity", self.days)):
            if not is_integer(number):
                raise KitError(f"{what}: a whole number is expected, not a value of kind {type(number).__name__}")
        if not 1 <= self.port <= 65535:
            raise KitError(f"port {self.port} does not exist; choose one from 1024 to 65535")
        if not 1 <= self.days <= _LONGEST_VALIDITY:
            raise KitError(f"certificates are valid for 1 to {_LONGEST_VALIDITY} days, not {self.days}")
        if not self.sites:
            raise KitError("the study names no site; add a section [sites.NAME] for each site")
        for site in self.sites:
            check_site_name(site)
            if site == self.host.lower():
                raise KitError(f"site {site!r} has the name of the coordinator's host; rename it")
        if len(set(self.sites)) < len(self.sites):
            raise KitError("the study names a site twice; names are unique")
        if self.keys:
            _check_address(self.keys, coordinator=f"{self.host}:{self.port}")

    @property
    def keys_host(self) -> str:
        """Return the host of the key service, without its port."""
        return self.keys.rpartition(":")[0]

    @property
    def parties(self) -> tuple[str, ...]:
        """Return the names of all parties that have a kit."""
        return (COORDINATOR, *([KEYS] if self.keys else []), *self.sites)


def check_site_name(name: str) -> None:
    """Raise a `KitError` for a name that a site cannot have in a certificate or in FLARE."""
    _require(_NAME, name, "site", "lower-case letters, digits and '-', at most 63, not '-' first")
    if name in _RESERVED:
        raise KitError(f"no site may be called {name!r}; rename it")


def _check_address(address: str, *, coordinator: str) -> None:
    host, _, port = address.rpartition(":")
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
        raise KitError(f"the address of the key service must be HOST:PORT, not {address!r}")
    _require(_HOST, host, "host", "a host name or an IPv4 address")
    if address.lower() == coordinator.lower():
        raise KitError("the key service and the coordinator cannot share a port; they are two parties")


def _require(pattern: re.Pattern[str], text: str, what: str, rule: str) -> None:
    if not pattern.fullmatch(text):
        raise KitError(f"{what} {text!r} cannot be used; expected: {rule}")
