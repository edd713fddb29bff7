"""What FLARE reads in a kit, as a function of the study's plan alone.

Nothing here is negotiated: a site writes these files itself from the plan it was approved for, and a kit whose files
differ from them is refused. They leave FLARE what carries messages and take away what runs jobs: no job manager, no
launcher, no resource manager, no store, no administrator, no log that is sent to anybody, and an empty list of classes
that may be built.

What files cannot take away: a site's FLARE obeys administrative requests, reading of files among them, without asking
the policy unless the coordinator's FLARE wants it asked. The site's process must therefore register none of them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from wardround.errors import KitError
from wardround.parsing import is_whole

__all__ = ["COORDINATOR", "KEYS", "KitPlan", "check_site_name", "configuration", "has_server_certificate"]

COORDINATOR = "coordinator"
KEYS = "keys"  # the key service
_TAKEN = frozenset({COORDINATOR, KEYS, "server", "admin", "client"})  # FLARE calls its own ends by the last three
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_STUDY = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,62}")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_LONGEST_VALIDITY = 3650  # days
_PROJECT = "wardround"
_SCHEME = "grpc"  # of FLARE's drivers the one that compares the coordinator's host with its certificate
_ROLES = ("project_admin", "org_admin", "lead", "member")  # all that FLARE knows


@dataclass(frozen=True)
class KitPlan:
    """Who takes part in a study, and where the coordinator, and the key service if there is one, are reached."""

    study: str
    host: str
    port: int
    sites: tuple[str, ...]
    days: int = 365  # for which certificates are valid
    keys: str = ""  # host:port of the key service; empty where keys are issued offline

    def __post_init__(self) -> None:
        _require(_STUDY, self.study, "study", "letters, digits, blanks, '.', '_' and '-', at most 63, a letter first")
        _require(_HOST, self.host, "host", "a host name or an IPv4 address")
        for what, number in (("port", self.port), ("days of validity", self.days)):
            if not is_whole(number):
                raise KitError(f"{what}: a whole number is expected, not a value of kind {type(number).__name__}")
        if not 1 <= self.port <= 65535:
            raise KitError(f"port {self.port} does not exist; choose one from 1024 to 65535")
        if not 1 <= self.days <= _LONGEST_VALIDITY:
            raise KitError(f"certificates are valid for 1 to {_LONGEST_VALIDITY} days, not {self.days}")
        if not self.sites:
            raise KitError("the study names no site; give it a table [sites.NAME] for each")
        for site in self.sites:
            check_site_name(site)
            if site == self.host.lower():
                raise KitError(f"site {site!r} bears the name of the coordinator's host; rename it")
        if len(set(self.sites)) < len(self.sites):
            raise KitError("the study names a site twice; names are unique")
        if self.keys:
            _check_place(self.keys, coordinator=f"{self.host}:{self.port}")

    @property
    def keys_host(self) -> str:
        """Where the key service is, without its port."""
        return self.keys.rpartition(":")[0]

    @property
    def parties(self) -> tuple[str, ...]:
        """Everybody who has a kit."""
        return (COORDINATOR, *([KEYS] if self.keys else []), *self.sites)


def check_site_name(name: str) -> None:
    """Refuse what cannot be a site's name in a certificate and in FLARE."""
    _require(_NAME, name, "site", "small letters, digits and '-', at most 63, no '-' first")
    if name in _TAKEN:
        raise KitError(f"no site may be called {name!r}; rename it")


def has_server_certificate(name: str) -> bool:
    """Whether others connect to the party, which its certificate then says."""
    return name in (COORDINATOR, KEYS)


def configuration(plan: KitPlan, name: str) -> dict[str, bytes]:
    """The files of one kit that FLARE reads and that are no keys or certificates, by their path in it."""
    if name == KEYS:  # which speaks no FLARE
        return {}
    server = name == COORDINATOR
    files = {
        "startup/fed_server.json" if server else "startup/fed_client.json": _server(plan) if server else _client(plan),
        "local/resources.json": _resources(server=server),
        "local/authorization.json": {"format_version": "1.0", "permissions": dict.fromkeys(_ROLES, "none")},
        "local/comm_config.json": _INSIDE,
        "local/log_config.json": _LOGGING,
    }
    return {path: (json.dumps(content, indent=2) + "\n").encode() for path, content in files.items()}


def _server(plan: KitPlan) -> dict[str, Any]:
    one = {
        "name": _PROJECT,
        "service": {"target": f"{plan.host}:{plan.port}", "scheme": _SCHEME},
        "identity": COORDINATOR,
        "auth_identity": COORDINATOR,
        "admin_server": COORDINATOR,
        "admin_port": plan.port,  # the same, so that FLARE opens one port
        "admin_storage": "transfer",
        "max_num_clients": len(plan.sites),
        "heart_beat_timeout": 60,
        "ssl_private_key": "server.key",
        "ssl_cert": "server.crt",
        "ssl_root_cert": "rootCA.pem",
        "connection_security": "mtls",
    }
    return {"format_version": 2, "require_signed_jobs": True, "servers": [one]}


def _client(plan: KitPlan) -> dict[str, Any]:
    server = {
        "name": _PROJECT,
        "service": {"target": f"{plan.host}:{plan.port}", "scheme": _SCHEME},
        "identity": COORDINATOR,
    }
    client = {
        "ssl_private_key": "client.key",
        "ssl_cert": "client.crt",
        "ssl_root_cert": "rootCA.pem",
        "is_leaf": True,
        "connection_security": "mtls",
        "retry_timeout": 30,
    }
    return {"format_version": 2, "require_signed_jobs": True, "servers": [server], "client": client}


def _resources(*, server: bool) -> dict[str, Any]:
    common: dict[str, Any] = {
        "format_version": 2,
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": [],
        "components": [],
    }
    return common if server else common | {"allow_log_streaming": False}


# FLARE listens on the machine itself for job processes; there are none, and whoever else comes needs a certificate.
_INSIDE: dict[str, Any] = {
    "allow_adhoc_conns": False,
    "internal": {"scheme": "tcp", "resources": {"host": "localhost", "connection_security": "mtls"}},
}

_LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {
        "file": {
            "class": "logging.handlers.RotatingFileHandler",
            "formatter": "line",
            "filename": "log.txt",
            "maxBytes": 20_000_000,
            "backupCount": 3,
        }
    },
    "loggers": {"root": {"level": "INFO", "handlers": ["file"]}},
}


def _check_place(place: str, *, coordinator: str) -> None:
    host, _, port = place.rpartition(":")
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
        raise KitError(f"the key service is reached at HOST:PORT, not {place!r}")
    _require(_HOST, host, "host", "a host name or an IPv4 address")
    if place.lower() == coordinator.lower():
        raise KitError("the key service and the coordinator cannot share a port; they are two parties")


def _require(pattern: re.Pattern[str], text: str, what: str, rule: str) -> None:
    if not pattern.fullmatch(text):
        raise KitError(f"{what} {text!r} is no name that can be used: {rule}")
