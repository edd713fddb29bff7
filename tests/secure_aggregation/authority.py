"""A study's authority and its parties, as files in a folder; no FLARE needed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from wardround.secure_aggregation.keys.peers import PartyFiles
from wardround.secure_aggregation.keys.vault import PassphraseLock

PASSPHRASE = "correct horse battery"
STUDY = "5e" * 32


def lock(passphrase: str = PASSPHRASE) -> PassphraseLock:
    """Return a lock whose key is derived in milliseconds."""
    return PassphraseLock(lambda: passphrase, cost=2**14)


@cache
def rsa_key(number: int) -> rsa.RSAPrivateKey:
    """Return one of a few keys, each made once."""
    return rsa.generate_private_key(65537, 2048)


class Authority:
    """Issues certificates; `number` selects its key."""

    def __init__(self, number: int = 0, name: str = "study") -> None:
        self.name = name
        self._key = rsa_key(number)
        self.pem = self.certificate(name, self._key, ca=True)

    def certificate(
        self, name: str, key: rsa.RSAPrivateKey, *, ca: bool = False, days: tuple[int, int] = (-1, 1)
    ) -> bytes:
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder(
            issuer_name=_named(self.name),
            subject_name=_named(name),
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=now + timedelta(days[0]),
            not_valid_after=now + timedelta(days[1]),
        )
        builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def party(self, folder: Path, name: str, number: int, *, ca: bool = False) -> PartyFiles:
        """Return a party's files: its key, its certificate and the root."""
        folder.mkdir(mode=0o700, parents=True)
        key = rsa_key(number)
        files = PartyFiles(folder, folder / "own.key", folder / "own.crt", folder / "root.pem")
        files.key.write_bytes(pem_of(key))
        files.certificate.write_bytes(self.certificate(name, key, ca=ca))
        files.root.write_bytes(self.pem)
        return files


def pem_of(key: rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
