from __future__ import annotations

from pathlib import Path

import pytest

from wardround.console.access import Certificate
from wardround.errors import UsageError
from wardround.serving.access import ServiceAccess

TLS = Certificate(Path("chain.pem"), Path("key.pem"))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.9.1"])
def test_this_machine_needs_neither_token_nor_tls(host: str) -> None:
    assert ServiceAccess(host).is_local


@pytest.mark.parametrize("host", ["::", "10.1.2.3", "ward.example"])
def test_other_machines_need_tls_and_a_token_or_a_certificate(host: str) -> None:
    with pytest.raises(UsageError, match="the service needs TLS: add --certificate"):
        ServiceAccess(host, token="t" * 32)
    with pytest.raises(UsageError, match="clients must identify themselves: add --token-file, or --client-ca"):
        ServiceAccess(host, certificate=TLS)
    assert not ServiceAccess(host, certificate=TLS, token="t" * 32).is_local
    assert ServiceAccess(host, certificate=TLS, clients=Path("ca.pem")).admits("")


def test_client_certificates_need_tls() -> None:
    with pytest.raises(UsageError, match="client certificates need TLS"):
        ServiceAccess(clients=Path("ca.pem"))


def test_the_token_is_not_in_the_repr() -> None:
    assert "sesame" not in repr(ServiceAccess(token="sesame" * 6))


def test_the_address_has_scheme_and_brackets() -> None:
    assert ServiceAccess("::1", 99).address == "http://[::1]:99/"
    assert ServiceAccess("10.0.0.1", 99, TLS, Path("ca.pem")).address == "https://10.0.0.1:99/"
