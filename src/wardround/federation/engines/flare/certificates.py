"""Keys and certificates of a study, made and checked with FLARE's own tools.

A study has an authority of its own: whoever holds a certificate it signed is who the certificate says, and nobody else
is let in. An authority is a folder: its certificate, its key, and the small file FLARE's tools look for.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from nvflare.lighter.utils import (
    Identity,
    generate_cert,
    generate_keys,
    load_crt_bytes,
    load_private_key,
    serialize_cert,
    serialize_pri_key,
    verify_cert_chain,
)
from nvflare.private.fed.utils.identity_utils import MissingCN, get_cn_from_cert
from nvflare.tool.cert.cert_commands import generate_csr_files, sign_csr_files
from nvflare.tool.cert.fingerprint import cert_fingerprint_sha256

from wardround.errors import KitError
from wardround.parsing import read_limited
from wardround.secure_aggregation.key_strength import weakness_of_certificate, weakness_of_request

__all__ = [
    "ROOT",
    "Identified",
    "check_issued",
    "check_pair",
    "fingerprint",
    "make_authority",
    "make_request",
    "sign",
    "write_private",
]

ROOT = "rootCA.pem"
_ROOT_KEY = "rootCA.key"
_MARK = "ca.json"  # FLARE's tools refuse an authority without it
_LONGEST_REQUEST = 100_000  # bytes; one has some two thousand
Kind = Literal["client", "server"]


@dataclass(frozen=True)
class Identified:
    """What a checked certificate says."""

    name: str
    expires: datetime


def make_authority(folder: Path, *, study: str, days: int) -> None:
    """The key and the self-signed certificate that everybody in the study trusts."""
    key, public = generate_keys()
    identity = Identity(study)
    certificate = generate_cert(identity, identity, key, public, valid_days=days, ca=True)
    folder.mkdir(mode=0o700)
    write_private(folder / _ROOT_KEY, serialize_pri_key(key))
    write_private(folder / ROOT, serialize_cert(certificate))
    write_private(folder / _MARK, b"{}\n")


def make_request(name: str, kind: Kind, folder: Path) -> Path:
    """A key that stays in `folder`, and beside it the request for a certificate, which may be sent."""
    if (folder / f"{name}.key").exists():
        raise KitError(f"{name}.key exists already; a second request needs a folder of its own")
    with _silent(f"the request for {name!r} cannot be made; is the folder writable?"):
        made = generate_csr_files(name, None, kind, str(folder))
    return Path(made["csr_path"])


def sign(request: Path, authority: Path, *, kind: Kind, days: int, host: str | None = None) -> tuple[str, bytes]:
    """The name a request bears and its certificate; one not signed by its own key, or with a weak key, is refused."""
    if not (authority / _ROOT_KEY).is_file():
        raise KitError(f"{_ROOT_KEY} is missing; without the authority's key nobody can be let in")
    complaint = f"{request.name} is no request for a certificate; make it with `wardround site request`"
    try:
        asked = read_limited(request, _LONGEST_REQUEST)
        weak = weakness_of_request(asked)
    except (OSError, ValueError):
        raise KitError(complaint) from None
    if weak:
        raise KitError(f"{request.name} {weak}; make it with `wardround site request`")
    with TemporaryDirectory(dir=authority) as scratch, _silent(complaint):
        looked_at = Path(scratch) / "asked"  # what is signed is what was checked
        looked_at.write_bytes(asked)
        signed = sign_csr_files(
            str(looked_at), str(authority), scratch, cert_type=kind, valid_days=days, server_default_host=host
        )
        return signed["subject_cn"], Path(signed["signed_cert"]).read_bytes()


def check_issued(certificate: bytes, root: bytes, *, what: str) -> Identified:
    """Who the certificate names, once it is known to be in force and signed by the study's authority."""
    issued, trusted = _certificate(certificate, what), _certificate(root, ROOT)
    now = datetime.now(UTC)
    for pem, name in ((certificate, what), (root, ROOT)):
        if weak := weakness_of_certificate(pem):
            raise KitError(f"{name} {weak}; ask for a new approval")
    for checked, name in ((issued, what), (trusted, ROOT)):
        if checked.not_valid_after_utc <= now:
            raise KitError(f"{name} expired on {checked.not_valid_after_utc:%Y-%m-%d}; ask for a new approval")
        if checked.not_valid_before_utc > now:
            raise KitError(f"{name} is not valid yet; set this machine's clock")
    try:
        verify_cert_chain(issued, [], trusted)
        return Identified(get_cn_from_cert(issued), issued.not_valid_after_utc)
    except MissingCN:
        raise KitError(f"{what} names nobody") from None
    except Exception:  # the verifier's own errors are of several kinds, none of them ours to name
        raise KitError(f"{what} was not signed by this study's authority; use the kit of one study only") from None


def check_pair(key: bytes, certificate: bytes, *, what: str) -> None:
    """Refuse a certificate made for another key."""
    try:
        public = load_private_key(key.decode("ascii")).public_key()
    except (ValueError, TypeError):
        raise KitError("the private key cannot be read; make a new request") from None
    if public != _certificate(certificate, what).public_key():
        raise KitError(f"{what} belongs to another private key; complete the approval where its request was made")


def fingerprint(certificate: bytes) -> str:
    """SHA-256 of the certificate as OpenSSL writes it, to be compared over the telephone."""
    return str(cert_fingerprint_sha256(_certificate(certificate, ROOT)))


def write_private(path: Path, data: bytes) -> None:
    """A new file that only its owner may read; an existing one is not written over."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)


def _certificate(pem: bytes, what: str) -> Any:
    try:
        return load_crt_bytes(pem)
    except ValueError:
        raise KitError(f"{what} is no certificate; ask for a new approval") from None


@contextmanager
def _silent(complaint: str) -> Iterator[None]:
    """FLARE's tools print, with full paths, and exit; here a refusal is an error like any other."""
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            yield
    except SystemExit:
        raise KitError(complaint) from None
