"""FLARE's own server and client, started from kits: they come up, and let in only those of their study."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.processes import free_port

pytest.importorskip("nvflare", reason="kits need wardround[flare]")

from wardround.federation.engines.flare.kits import Kit, KitPlan, provision, read_kit

STUDY = b'[study]\nname = "heart"\n'
PROGRAMS = {"coordinator": ("server", "fed_server.json"), "site": ("client", "fed_client.json")}


@contextmanager
def flare(found: Kit, scratch: Path) -> Iterator[Path]:
    """FLARE's own process from a kit, ended whatever happens; yields its log."""
    kind, startup = PROGRAMS[found.role]
    module = f"nvflare.private.fed.app.{kind}.{kind}_train"
    words = ("-m", str(found.path), "-s", startup, "--set", "secure_train=true", f"uid={found.name}", "org=wardround")
    process = subprocess.Popen(
        [sys.executable, "-m", module, *words, "config_folder=config"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"TMPDIR": str(scratch)},
        start_new_session=True,
    )
    try:
        yield found.path / "log.txt"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(log: Path, words: str, *, seconds: float = 180) -> str:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        text = log.read_text() if log.exists() else ""
        if words in text:
            return text
        time.sleep(0.2)
    raise AssertionError(f"{log.parent.name} never said {words!r}")


def answers(port: int, root: Path, caller: Kit | None) -> bool:
    """Whether the coordinator says anything to whoever calls with this kit's certificate, or with none."""
    context = ssl.create_default_context(cafile=root)
    context.set_alpn_protocols(["h2"])
    if caller:
        context.load_cert_chain(caller.certificate, caller.key)
    with (
        socket.create_connection(("localhost", port), timeout=60) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as connection,
    ):
        try:
            return bool(connection.recv(1))  # a gRPC server speaks first
        except (ssl.SSLError, ConnectionError):
            return False


@pytest.mark.slow
def test_flare_starts_from_kits_and_lets_in_only_its_own(tmp_path: Path) -> None:
    plan = KitPlan("heart", "localhost", free_port(), ("harbour", "hillside"), days=1)
    ours = {name: read_kit(path) for name, path in provision(plan, STUDY, tmp_path / "ours").items()}
    theirs = read_kit(provision(plan, STUDY, tmp_path / "theirs")["hillside"])  # the same plan, another authority
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with flare(ours["coordinator"], scratch) as coordinator:
        wait_for(coordinator, "Server started")
        with flare(ours["harbour"], scratch) as site, flare(theirs, scratch) as stranger:
            wait_for(site, "Successfully registered client:harbour")
            assert "internal listener for stcp:" in wait_for(site, "verified server identity 'coordinator'")
            assert "internal listener for stcp:" in wait_for(coordinator, "New client harbour")
            assert answers(plan.port, ours["harbour"].root, ours["harbour"])
            assert not answers(plan.port, ours["harbour"].root, None)
            assert not answers(plan.port, ours["harbour"].root, theirs)
            with pytest.raises(ssl.SSLCertVerificationError):  # nor would a stranger's site speak to this coordinator
                answers(plan.port, theirs.root, theirs)
            wait_for(stranger, "Retrying")
            assert "hillside" not in coordinator.read_text()
    assert list(scratch.iterdir()) == []
    assert read_kit(ours["harbour"].path) == ours["harbour"]  # FLARE wrote nothing where it reads
