"""`wardround console`; what its pages show is in tests/console."""

from __future__ import annotations

import signal
import socket
import ssl
import subprocess
import sys
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the console needs wardround[console]")

from tests.cli.running import Run
from tests.console.records import round_of, started, write_kit, write_run
from tests.processes import Command, eventually, free_port
from wardround.console import app as console_app


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    write_run(tmp_path / "runs" / "first", started(), round_of(1))
    return tmp_path / "runs"


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[str, str, str, str]:
    """The options that name a certificate of our own making, and its key."""
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    subject = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")
    command = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject)
    subprocess.run([*command, "-keyout", key, "-out", chain], check=True, capture_output=True)
    return "--certificate", str(chain), "--key", str(key)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What would have been served, in place of serving it."""
    found: list[object] = []
    monkeypatch.setattr(console_app, "serve", lambda app, access, listening: found.append(access))
    return found


def test_on_this_machine_it_says_where_and_asks_for_nothing(runs: Path, run: Run, served: list[object]) -> None:
    port = free_port()
    ran = run("console", runs, "--port", str(port))
    assert (ran.code, ran.out) == (0, f"console  http://127.0.0.1:{port}/\n")
    assert len(served) == 1


def test_elsewhere_it_refuses_to_start_without_tls(runs: Path, run: Run, served: list[object]) -> None:
    ran = run("console", runs, "--host", "0.0.0.0")  # noqa: S104
    assert ran.code == 2
    assert (
        "0.0.0.0 can be reached from other machines, so the console needs TLS: add --certificate and --key" in ran.err
    )
    assert not served


def test_a_certificate_without_its_key_is_refused(
    runs: Path, run: Run, certificate: tuple[str, ...], served: list[object]
) -> None:
    ran = run("console", runs, *certificate[:2])
    assert (ran.code, ran.err) == (2, "wardround: --certificate and --key need each other; give both\n")
    assert not served


def test_elsewhere_a_token_is_printed_once(
    runs: Path, run: Run, certificate: tuple[str, ...], served: list[object]
) -> None:
    words = ("console", runs, "--host", "0.0.0.0", "--port", str(free_port()), *certificate)  # noqa: S104
    first, second = run(*words), run(*words)
    assert first.code == second.code == 0
    tokens = [ran.out.partition("token    ")[2].strip() for ran in (first, second)]
    assert all(len(token) >= 43 for token in tokens)  # 32 bytes in base64
    assert tokens[0] != tokens[1]
    assert first.out.count(tokens[0]) == 1


def test_a_token_that_is_kept_is_not_printed(runs: Path, run: Run, tmp_path: Path, served: list[object]) -> None:
    ran = run("console", runs, "--port", str(free_port()), "--token-file", tmp_path / "token")
    assert ran.code == 0
    assert ran.out.endswith("token    in token\n")
    assert (tmp_path / "token").read_text().strip() not in ran.said


def test_a_port_in_use_is_refused(runs: Path, run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = run("console", runs, "--port", str(port))
    assert ran.code == 2
    said = f"cannot listen on 127.0.0.1:{port} (Address already in use); choose another --port or --host"
    assert ran.err == f"wardround: {said}\n"


def test_an_invalid_certificate_is_refused(runs: Path, run: Run, certificate: tuple[str, ...]) -> None:
    Path(certificate[1]).write_text("none")
    ran = run("console", runs, "--port", str(free_port()), *certificate)
    assert (ran.code, ran.err) == (2, "wardround: --certificate and --key cannot be used together (SSLError)\n")


def test_a_sites_folder_needs_the_sites_view(tmp_path: Path, run: Run) -> None:
    write_kit(tmp_path / "kit")
    ran = run("console", tmp_path / "kit")
    assert (ran.code, ran.err) == (2, "wardround: kit is the folder of a site; add --site\n")


@pytest.mark.parametrize("missing", ["starlette", "uvicorn", "jinja2"])
def test_without_the_extra_it_is_named(runs: Path, run: Run, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setattr(console_app, "serve", lambda app, access, listening: pytest.fail("it was served"))
    for name in [name for name in sys.modules if name.startswith(("wardround.console.", missing))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    ran = run("console", runs)
    assert ran.code == 2
    assert f"the console needs {missing}: pip install 'wardround[console]'" in ran.err


def status(connection: HTTPConnection, path: str = "/list") -> int:
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


def test_a_real_console_serves_and_ends_at_ctrl_c_though_somebody_looks_on(runs: Path, tmp_path: Path) -> None:
    port = free_port()
    command = Command(tmp_path / "said", "console", runs, "--port", str(port))
    try:
        assert eventually(lambda: status(HTTPConnection("127.0.0.1", port)) == 200), command.said
        looking = HTTPConnection("127.0.0.1", port)
        looking.request("GET", "/events/first")
        assert looking.getresponse().readline() == b"retry: 1000\n"
        command.process.send_signal(signal.SIGINT)
        assert command.wait(20) == 0
        assert command.said == f"console  http://127.0.0.1:{port}/\n"
        looking.close()
    finally:
        command.end()


def test_a_real_console_behind_tls_and_login(runs: Path, tmp_path: Path, certificate: tuple[str, ...]) -> None:
    port = free_port()
    words = ("console", runs, "--host", "0.0.0.0", "--port", str(port), *certificate)  # noqa: S104
    command = Command(tmp_path / "said", *words)
    context = ssl.create_default_context(cafile=certificate[1])
    try:
        assert eventually(lambda: status(HTTPSConnection("127.0.0.1", port, context=context)) == 401), command.said
        token = command.said.partition("token    ")[2].strip()
        inside = HTTPSConnection("127.0.0.1", port, context=context)
        inside.request("POST", "/login", body=f"token={token}")
        answer = inside.getresponse()
        answer.read()
        cookie = answer.headers["set-cookie"].partition(";")[0]
        inside.request("GET", "/list", headers={"cookie": cookie})
        assert inside.getresponse().status == 200
        inside.close()
        assert status(HTTPConnection("127.0.0.1", port)) == 0
    finally:
        command.end()
