"""Keys and certificates of a study, made and checked with FLARE's own tools.

A study has its own authority, and only holders of certificates that it signed are admitted. An authority is a folder
with its certificate, its key, and a small file that FLARE's tools look for.
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

__all__ = [
    "ROOT",
    "Identified",
    "Kind",
    "check_authority",
    "check_issued",
    "check_pair",
    "check_readable",
    "fingerprint",
    "make_authority",
    "make_request",
    "no_request",
    "sign",
    "write_private",
]

ROOT = "rootCA.pem"
_ROOT_KEY = "rootCA.key"
_MARKER = "ca.json"  # FLARE's tools refuse an authority without it
Kind = Literal["client", "server"]


@dataclass(frozen=True)
class Identified:
    """The holder of a certificate that was checked, and when the certificate expires."""

    name: str
    expires: datetime


def make_authority(folder: Path, *, study: str, days: int) -> None:
    """Make the key and the self-signed certificate that all parties of the study trust."""
    key, public = generate_keys()
    identity = Identity(study)
    certificate = generate_cert(identity, identity, key, public, valid_days=days, ca=True)
    folder.mkdir(mode=0o700)
    write_private(folder / _ROOT_KEY, serialize_pri_key(key))
    write_private(folder / ROOT, serialize_cert(certificate))
    write_private(folder / _MARKER, b"{}\n")


def make_request(name: str, kind: Kind, folder: Path) -> Path:
    """Make a private key and a request for a certificate in `folder`; return the path of the request to send."""
    if (folder / f"{name}.key").exists():
        raise KitError(f"{name}.key exists already; a second request needs a folder of its own")
    with _silent(f"the request for {name!r} cannot be made; is the folder writable?"):
        made = generate_csr_files(name, None, kind, str(folder))
    return Path(made["csr_path"])


def sign(
    request: bytes, authority: Path, *, kind: Kind, days: int, what: str, host: str | None = None
) -> tuple[str, bytes]:
    """Sign a request; return the name in it and the certificate.

    A request that its own key did not sign is refused. `what` names the request in errors.
    """
    check_authority(authority)
    with TemporaryDirectory(dir=authority) as scratch, _silent(no_request(what)):
        file = Path(scratch) / "request"
        file.write_bytes(request)
        signed = sign_csr_files(
            str(file), str(authority), scratch, cert_type=kind, valid_days=days, server_default_host=host
        )
        return signed["subject_cn"], Path(signed["signed_cert"]).read_bytes()


def check_authority(authority: Path) -> None:
    """Raise a `KitError` if the authority's key is missing."""
    if not (authority / _ROOT_KEY).is_file():
        raise KitError(f"{_ROOT_KEY} is missing; without the authority's key no party can be admitted")


def no_request(what: str) -> str:
    """Return the error message about a file that is not a request for a certificate."""
    return f"{what} is not a request for a certificate; make it with `wardround site request`"


def check_issued(certificate: bytes, root: bytes, *, what: str) -> Identified:
    """Return the holder of a certificate that is valid now and signed by the study's authority; raise otherwise."""
    issued, trusted = check_readable(certificate, what), check_readable(root, ROOT)
    now = datetime.now(UTC)
    for checked, name in ((issued, what), (trusted, ROOT)):
        if checked.not_valid_after_utc <= now:
            raise KitError(f"{name} expired on {checked.not_valid_after_utc:%Y-%m-%d}; ask for a new approval")
        if checked.not_valid_before_utc > now:
            raise KitError(f"{name} is not valid yet; set this machine's clock")
    try:
        verify_cert_chain(issued, [], trusted)
        return Identified(get_cn_from_cert(issued), issued.not_valid_after_utc)
    except MissingCN:
        raise KitError(f"{what} names no holder; ask for a new approval") from None
    except Exception:  # the verifier raises errors of several kinds
        raise KitError(f"{what} was not signed by this study's authority; use the kit of one study only") from None


def check_pair(key: bytes, certificate: bytes, *, what: str) -> None:
    """Raise a `KitError` for a certificate made for another key."""
    try:
        public = load_private_key(key.decode("ascii")).public_key()
    except (ValueError, TypeError):
        raise KitError("the private key cannot be read; make a new request") from None
    if public != check_readable(certificate, what).public_key():
        raise KitError(f"{what} belongs to another private key; complete the approval where its request was made")


def fingerprint(certificate: bytes) -> str:
    """Return the SHA-256 of a certificate as OpenSSL writes it, for people to compare over the telephone."""
    return str(cert_fingerprint_sha256(check_readable(certificate, ROOT)))


def write_private(path: Path, data: bytes) -> None:
    """Write a new file that only its owner can read; an existing one is not overwritten."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)


def check_readable(pem: bytes, what: str) -> Any:
    """Return a certificate as FLARE loads it; raise a `KitError` if it cannot be loaded."""
    try:
        return load_crt_bytes(pem)
    except ValueError:
        raise KitError(f"{what} is not a certificate; ask for a new approval") from None


@contextmanager
def _silent(complaint: str) -> Iterator[None]:
    """Raise a `KitError` where FLARE's tools would print full paths and exit."""
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            yield
    except SystemExit:
        raise KitError(complaint) from None
