"""How the console listens; that it serves and ends in order is in tests/cli/test_console.py."""

from __future__ import annotations

import socket

import pytest

pytest.importorskip("uvicorn", reason="the console needs wardround[console]")

from tests.processes import free_port

from wardround.console.access import Access
from wardround.console.serving import listen
from wardround.errors import UsageError


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_it_listens_on_one_address_only(host: str) -> None:
    if ":" in host and not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    port = free_port()
    with listen(Access(host, port)) as listening:
        assert listening.getsockname()[:2] == (host, port)


def test_a_port_that_is_taken_is_named_with_the_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"127\.0\.0\.1:{port} \(Address already in use\); name another by"):
            listen(Access(port=port))
