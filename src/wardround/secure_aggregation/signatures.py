"""Signatures of a networked study, verified with certificates that the study's root issued."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import NameOID

from wardround.errors import FederationError, MessageError
from wardround.secure_aggregation.key_strength import weakness

__all__ = ["Signatures", "open_signatures"]

_CONTEXT = b"wardround-1\x00"  # the same keys serve TLS; the prefix separates the two uses
_HASH = hashes.SHA256()
_PADDING = padding.PSS(mgf=padding.MGF1(_HASH), salt_length=_HASH.digest_size)


class Signatures:
    """Signs with a party's own key; verifies what others signed, up to the root of the study."""

    def __init__(self, *, key: bytes, certificate: bytes, root: bytes) -> None:
        self.certificate = certificate
        self._root = root
        self._key = _private_key(key)
        if _loaded(certificate).public_key() != self._key.public_key():
            raise FederationError("the kit's certificate does not belong to its key; make the kit again")
        for what, pem in (("the kit's certificate", certificate), ("the study's root", root)):
            if weak := weakness(_loaded(pem)):
                raise FederationError(f"{what} {weak}; make the kit again")

    def sign(self, data: bytes) -> bytes:
        """Return the signature over `data`, RSA-PSS with SHA-256."""
        return self._key.sign(_CONTEXT + data, _PADDING, _HASH)

    def check(self, data: bytes, signature: bytes, *, certificate: bytes, name: str | None) -> None:
        """Raise a `MessageError` unless the holder of `certificate` signed `data`.

        The certificate must be in force, issued by the root, not a root itself, have a strong key, and be issued to
        `name`; None is for a certificate that is known beforehand.
        """
        key = _trusted_key(certificate, self._root, name)
        _check_in_force(_loaded(certificate))
        try:
            key.verify(signature, _CONTEXT + data, _PADDING, _HASH)
        except InvalidSignature:
            raise MessageError("signature", "was made by another key or over other bytes") from None


def open_signatures(*, key: Path, certificate: Path, root: Path) -> Signatures:
    """Open the signatures of a kit from its PEM files."""
    try:
        return Signatures(key=key.read_bytes(), certificate=certificate.read_bytes(), root=root.read_bytes())
    except OSError as error:
        raise FederationError(f"the kit lacks a key or certificate ({error.strerror}); make the kit again") from None


def _private_key(pem: bytes) -> rsa.RSAPrivateKey:
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError):
        raise FederationError("the kit's key cannot be read; make the kit again") from None
    if not isinstance(key, rsa.RSAPrivateKey):
        raise FederationError("the kit's key is not an RSA key; make the kit again")
    return key


@lru_cache(maxsize=4096)
def _loaded(pem: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError:
        raise MessageError("certificate", "is not a certificate") from None


@lru_cache(maxsize=4096)
def _trusted_key(pem: bytes, root: bytes, name: str | None) -> rsa.RSAPublicKey:
    """Return the key of a certificate that the root issued to `name`; its dates are not checked."""
    certificate = _loaded(pem)
    if weak := weakness(certificate):
        raise MessageError("certificate", weak)
    try:
        certificate.verify_directly_issued_by(_loaded(root))
    except (ValueError, TypeError, InvalidSignature):
        raise MessageError("certificate", "another root issued it") from None
    names = [attribute.value for attribute in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if name is not None and names != [name]:
        raise MessageError("certificate", "was issued to another party")
    key = certificate.public_key()
    if _is_authority(certificate) or not isinstance(key, rsa.RSAPublicKey):
        raise MessageError("certificate", "is not a certificate of a party")
    return key


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _check_in_force(certificate: x509.Certificate) -> None:
    if not certificate.not_valid_before_utc <= datetime.now(UTC) <= certificate.not_valid_after_utc:
        raise MessageError("certificate", "is not in force today")
