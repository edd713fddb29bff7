"""The other end of a connection within a study: its certificate, and mutual TLS."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from wardround.errors import KeyMaterialError, MessageError
from wardround.secure_aggregation.identities import is_authority, weakness

__all__ = ["PartyFiles", "Peer", "fingerprint_of", "issued_key", "peer_of", "tls_client", "tls_server"]


@dataclass(frozen=True)
class PartyFiles:
    """The paths of a party's key, certificates and files about sealing keys."""

    folder: Path
    key: Path
    certificate: Path
    root: Path

    @property
    def vault(self) -> Path:
        """Return the path of a site's secrets."""
        return self.folder / "keys.vault"

    @property
    def epochs(self) -> Path:
        """Return the path of the issuer's secrets and state."""
        return self.folder / "epochs.vault"

    @property
    def log(self) -> Path:
        """Return the path of the log of key requests."""
        return self.folder / "keys.jsonl"

    @property
    def parameters(self) -> Path:
        """Return the path of the coordinator's public parameters, if keys are issued offline."""
        return self.folder / "parameters.json"

    @property
    def service(self) -> Path:
        """Return the path of the fingerprint of the key service, noted at the first contact."""
        return self.folder / "keys.fingerprint"


@dataclass(frozen=True)
class Peer:
    """The name in a certificate, and the certificate's fingerprint."""

    name: str
    fingerprint: str


def peer_of(certificate: bytes) -> Peer:
    """Return the party that a certificate in DER names; authorities and weak keys are refused."""
    try:
        loaded = x509.load_der_x509_certificate(certificate)
    except ValueError:
        raise MessageError("certificate", "is not a certificate") from None
    if weak := weakness(loaded):
        raise MessageError("certificate", weak)
    return _peer(loaded)


def fingerprint_of(pem: bytes) -> str:
    """Return the SHA-256 of a certificate in PEM, as OpenSSL writes it, for people to compare over the telephone."""
    return _fingerprint(_loaded(pem))


def issued_key(pem: bytes, *, root: bytes, name: str) -> rsa.RSAPublicKey:
    """Return the key of a valid certificate that the root issued to `name`; neither may be weak."""
    certificate, authority = _loaded(pem), _loaded(root)
    for what, held in ((f"the certificate of {name}", certificate), ("the study's root", authority)):
        if weak := weakness(held):
            raise KeyMaterialError(f"{what} {weak}; make the kit again")
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        raise KeyMaterialError(f"the certificate of {name} belongs to another study") from None
    if _peer(certificate).name != name:
        raise KeyMaterialError(f"the certificate of {name} was issued to another party")
    if not certificate.not_valid_before_utc <= datetime.now(UTC) <= certificate.not_valid_after_utc:
        raise KeyMaterialError(f"the certificate of {name} is not valid today")
    key = certificate.public_key()
    assert isinstance(key, rsa.RSAPublicKey), "checked above"
    return key


def tls_server(files: PartyFiles) -> ssl.SSLContext:
    """Return the TLS context of a server; callers must show a certificate of the study."""
    return _tls(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), files)


def tls_client(files: PartyFiles) -> ssl.SSLContext:
    """Return the TLS context of a client; the caller checks the other end with `peer_of`."""
    return _tls(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), files)


def _tls(context: ssl.SSLContext, files: PartyFiles) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False  # a party is identified by the name in its certificate, wherever it runs
    context.verify_mode = ssl.CERT_REQUIRED
    # Set here, so that it is the same in every version of Python.
    context.verify_flags = ssl.VerifyFlags.VERIFY_X509_TRUSTED_FIRST
    try:
        context.load_cert_chain(files.certificate, files.key)
        context.load_verify_locations(files.root)
    except OSError:
        raise KeyMaterialError("the kit lacks a key or certificate that can be read; make the kit again") from None
    return context


def _peer(certificate: x509.Certificate) -> Peer:
    names = [attribute.value for attribute in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    # The authority's own certificate has the study's name, and a site may have the same name.
    if len(names) != 1 or is_authority(certificate):
        raise MessageError("certificate", "is not a certificate of a party")
    return Peer(str(names[0]), _fingerprint(certificate))


def _fingerprint(certificate: x509.Certificate) -> str:
    digest = sha256(certificate.public_bytes(Encoding.DER)).hexdigest().upper()
    return "SHA256:" + ":".join(digest[start : start + 2] for start in range(0, 64, 2))


def _loaded(pem: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError:
        raise KeyMaterialError("a file is not a certificate") from None
