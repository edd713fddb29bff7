"""Copies of a sealing secret for offline distribution: one file for each site, which only that site can open.

A random key is encrypted for the site's certificate with RSA-OAEP and SHA-256. The secret is encrypted with AES-256-GCM
under that key, which also authenticates study, site and epoch. Anyone who has the certificate can make a copy, so a
copy does not prove its origin: sites compare the secret's id with the issuer.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from wardround.errors import KeyMaterialError, MessageError
from wardround.federation.federation import SiteId
from wardround.federation.message import Message, Value, decode, encode
from wardround.secure_aggregation.keys.material import SealingSecret
from wardround.secure_aggregation.keys.peers import Peer, fingerprint_of, issued_key
from wardround.secure_aggregation.keys.service_state import Epochs
from wardround.secure_aggregation.keys.vault import write_whole

__all__ = ["SealedCopy", "read_certificates", "seal_copies"]

_MARK = "wardround-sealed-copy-1"
_BLOBS = {"key", "nonce", "sealed"}
_NONCE = 12
_PADDING = padding.OAEP(mgf=padding.MGF1(hashes.SHA256()), algorithm=hashes.SHA256(), label=_MARK.encode())


@dataclass(frozen=True)
class SealedCopy:
    """The secret of an epoch for one site."""

    study: str
    site: SiteId
    epoch: int
    oldest: int  # earlier epochs have ended
    key: bytes = field(repr=False)
    nonce: bytes = field(repr=False)
    sealed: bytes = field(repr=False)

    @classmethod
    def make(
        cls, secret: SealingSecret, *, study: str, site: SiteId, oldest: int, public: rsa.RSAPublicKey
    ) -> SealedCopy:
        """Encrypt the secret for the site's public key."""
        key, nonce = secrets.token_bytes(32), secrets.token_bytes(_NONCE)
        header = encode(Message(_header(study, site, secret.epoch, oldest)))
        sealed = AESGCM(key).encrypt(nonce, secret.to_bytes(), header)
        return cls(study, site, secret.epoch, oldest, public.encrypt(key, _PADDING), nonce, sealed)

    @property
    def file_name(self) -> str:
        """Return the name of the file to send."""
        return f"{self.site}.epoch-{self.epoch}.key.sealed"

    def open(self, private: bytes, *, study: str, site: SiteId) -> SealingSecret:
        """Return the secret; `private` is the site's key in PEM. A copy for another site or study is refused."""
        if self.study != study:
            raise KeyMaterialError("the copy belongs to another study; ask for one of this study")
        if self.site != site:
            raise KeyMaterialError(f"the copy is for {self.site}; this is the kit of {site}")
        complaint = (
            f"the copy of epoch {self.epoch} for {self.site} was altered, or sealed to another key; ask for it again"
        )
        try:
            holder = load_pem_private_key(private, password=None)
            if not isinstance(holder, rsa.RSAPrivateKey):
                raise KeyMaterialError("the kit's key is not an RSA key; make the kit again")
            header = encode(Message(_header(self.study, self.site, self.epoch, self.oldest)))
            opened = AESGCM(holder.decrypt(self.key, _PADDING)).decrypt(self.nonce, self.sealed, header)
            secret = SealingSecret.from_bytes(opened)
        except (ValueError, TypeError, InvalidTag, MessageError):
            raise KeyMaterialError(complaint) from None
        if secret.epoch != self.epoch:
            raise KeyMaterialError(complaint)
        return secret

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        blobs = {"key": self.key, "nonce": self.nonce, "sealed": self.sealed}
        return encode(Message(_header(self.study, self.site, self.epoch, self.oldest), blobs=blobs))

    @classmethod
    def from_bytes(cls, data: bytes) -> SealedCopy:
        """Return the copy in the content of a file; only its form is checked."""
        try:
            message = decode(data)
            if message.values.get("kind") != _MARK or message.blobs.keys() != _BLOBS:
                raise MessageError("mark", "this is not a copy")
            study, site = message.value("study", str), message.value("site", str)
            epoch, oldest = message.value("epoch", int), message.value("oldest", int)
            if not (study + site).isprintable():  # errors show them before they are authenticated
                raise MessageError("mark", "this is not a copy")
        except MessageError:
            raise KeyMaterialError("the file is not a complete copy of a key; ask for it again") from None
        return cls(study, site, epoch, oldest, **message.blobs)


def read_certificates(folder: Path, *, sites: tuple[SiteId, ...], root: bytes) -> dict[SiteId, bytes]:
    """Return the certificates NAME.crt of a folder, each checked against the study and the site."""
    found = {}
    for site in sites:
        path = folder / f"{site}.crt"
        if path.is_file():
            found[site] = path.read_bytes()
            issued_key(found[site], root=root, name=site)
    if not found:
        raise KeyMaterialError(f"{folder.name} holds no certificate NAME.crt of a site; name the folder `approved`")
    return found


def seal_copies(
    epochs: Epochs, certificates: Mapping[SiteId, bytes], *, study: str, root: bytes, out: Path
) -> list[tuple[SealedCopy, str]]:
    """Write a copy of the current secret for each site that may have it, and the public parameters.

    Return each copy with the fingerprint of the certificate that it is encrypted for. A revoked site gets no copy. A
    site whose certificate has changed is refused until it is admitted.
    """
    parameters = epochs.parameters()
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    sealed = []
    for site, certificate in certificates.items():
        if site in epochs.state().revoked:
            continue
        fingerprint = fingerprint_of(certificate)
        try:
            secret = epochs.issue(Peer(site, fingerprint), parameters.epoch)
        except MessageError as error:
            if error.code != "certificate":
                raise
            raise KeyMaterialError(
                f"{site} had another certificate before; ask the site whether it has a new one, then run "
                "`wardround keys admit`"
            ) from None
        public = issued_key(certificate, root=root, name=site)
        copy = SealedCopy.make(secret, study=study, site=site, oldest=parameters.oldest, public=public)
        write_whole(out / copy.file_name, copy.to_bytes())
        sealed.append((copy, fingerprint))
    write_whole(out / "parameters.json", parameters.to_json())
    return sealed


def _header(study: str, site: SiteId, epoch: int, oldest: int) -> dict[str, Value]:
    return {"kind": _MARK, "study": study, "site": site, "epoch": epoch, "oldest": oldest}
