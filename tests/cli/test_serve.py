from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Run
from tests.models.tiny import word_tagger
from tests.processes import free_port
from wardround.models.saved import save_model

pytest.importorskip("prometheus_client", reason="the service needs wardround[serve]")

SECRET = "Zebedee-Quux"
_PATIENCE = 120  # seconds that a busy machine may take


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("serve") / "model"
    save_model(word_tagger(), folder)
    return folder


@contextmanager
def served(model: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Run the command until its port is open."""
    code = "from wardround.cli.main import main; main()"
    command = [sys.executable, "-c", code, "--verbose", "serve", str(model), *options]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("service  http")
        yield process
    finally:
        process.kill()
        process.communicate()


def ask(
    port: int, path: str, *, body: Any = None, token: str = "", tls: ssl.SSLContext | None = None
) -> tuple[int, str]:
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
    kind = (lambda *a, **k: HTTPSConnection(*a, **k, context=tls)) if tls else HTTPConnection
    connection = kind("127.0.0.1", port, timeout=_PATIENCE)
    try:
        connection.request("GET" if body is None else "POST", path, json.dumps(body) if body else None, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.slow
def test_it_serves_with_a_token_and_logs_nothing_of_a_request(model: Path, tmp_path: Path) -> None:
    port, file = free_port(), tmp_path / "token"
    with served(model, "--port", str(port), "--token-file", str(file)) as process:
        token = file.read_text().strip()
        assert file.stat().st_mode & 0o777 == 0o600
        assert ask(port, "/ready") == (200, '{"ready":true}')
        assert ask(port, "/v1/predict", body={"text": SECRET})[0] == 401
        assert ask(port, "/v1/predict", body={"text": SECRET}, token=token)[0] == 200
        assert ask(port, f"/v1/{SECRET}", token=token)[0] == 404
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=_PATIENCE)
    assert process.returncode == 0
    assert out == ""
    for secret in (SECRET, token, str(model), str(tmp_path)):
        assert secret not in err


@pytest.mark.slow
def test_client_certificates_are_required_where_their_authority_is_named(model: Path, tmp_path: Path) -> None:
    ours, theirs, stranger = (certificate(tmp_path, name) for name in ("service", "client", "stranger"))
    port = free_port()
    options = ("--certificate", ours[0], "--key", ours[1], "--client-ca", theirs[0], "--port", port)
    with served(model, *map(str, options)):
        for shown, admitted in ((theirs, True), (stranger, False), (None, False)):
            context = ssl.create_default_context(cafile=str(ours[0]))
            if shown:
                context.load_cert_chain(*map(str, shown))
            if admitted:
                assert ask(port, "/v1/model", tls=context)[0] == 200
            else:
                with pytest.raises((ssl.SSLError, ConnectionError)):
                    ask(port, "/v1/model", tls=context)


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate that signed itself, and its key."""
    pytest.importorskip("cryptography", reason="install wardround[sealed]")
    from ipaddress import ip_address

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    built = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / f"{name}.pem", folder / f"{name}.key"
    paths[0].write_bytes(built.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    paths[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, *form))
    return paths


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--host", "10.0.0.1"), "so the service needs TLS: add --certificate and --key"),
        (("--client-ca", "FILE"), "client certificates need TLS"),
        (("--certificate", "FILE"), "--certificate and --key need each other"),
        (("--threshold", "0.1"), "this model does not redact"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    model: Path, tmp_path: Path, run: Run, options: tuple[str, ...], message: str
) -> None:
    (tmp_path / "file.pem").write_text("")
    given = [str(tmp_path / "file.pem") if option == "FILE" else option for option in options]
    ran = run("serve", model, *given)
    assert ran.code == 2
    assert message in ran.err
