"""Attacks with keys that can be broken: in a request, or in a certificate that the root issued."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("cryptography", reason="certificates need wardround[sealed]")

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from tests.secure_aggregation.authority import Authority, pem_of, rsa_key

from wardround.errors import FederationError, KeyMaterialError, KitError, MessageError
from wardround.secure_aggregation.identities import Signatures
from wardround.secure_aggregation.keys.peers import issued_key, peer_of

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="weak keys are made with OpenSSL")

# Words of `openssl req` that make a key, and what is wrong with it.
WEAK_KEYS = {
    "rsa-512": (("-newkey", "rsa:512"), "an RSA key of 512 bits"),
    "rsa-1024": (("-newkey", "rsa:1024"), "an RSA key of 1024 bits"),
    "rsa-2047": (("-newkey", "rsa:2047"), "an RSA key of 2047 bits"),
    "exponent-3": (("-newkey", "rsa:2048", "-pkeyopt", "rsa_keygen_pubexp:3"), "an RSA key with the exponent 3"),
    "elliptic": (("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"), "no RSA key"),
    "edwards": (("-newkey", "ed25519"), "no RSA key"),
}
WEAK_HASHES = {"md5": "-md5", "sha1": "-sha1"}


def openssl(*words: str | Path) -> None:
    done = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("this OpenSSL makes nothing so weak")


def request_for(name: str, folder: Path, key: tuple[str, ...], digest: str = "-sha256") -> Path:
    """Return a request for a certificate and its key, as anyone can make them."""
    folder.mkdir(parents=True, exist_ok=True)
    made = ("-keyout", folder / f"{name}.key", "-out", folder / f"{name}.csr", "-subj", f"/CN={name}", "-nodes")
    openssl("req", "-new", *key, *made, *([] if "ed25519" in key else [digest]))
    return folder / f"{name}.csr"


class OpenAuthority:
    """An authority that issues every requested certificate."""

    def __init__(self, folder: Path, key: tuple[str, ...] = ("-newkey", "rsa:2048"), digest: str = "-sha256") -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.pem = folder / "root.pem"
        made = ("-keyout", folder / "root.key", "-out", self.pem, "-subj", "/CN=study", "-nodes", "-days", "30")
        openssl("req", "-x509", *key, *made, digest)

    def certificate(self, request: Path, digest: str = "-sha256") -> bytes:
        out = self.folder / "issued.crt"
        signing = ("-CA", self.pem, "-CAkey", self.folder / "root.key", "-CAcreateserial", "-days", "30")
        openssl("x509", "-req", "-in", request, *signing, "-out", out, *([] if "none" in digest else [digest]))
        return out.read_bytes()


# Approvals.


@pytest.fixture
def consortium(tmp_path: Path) -> Path:
    pytest.importorskip("nvflare", reason="kits need wardround[flare]")
    from wardround.provisioning.kits import KitPlan, open_consortium

    study = b'[study]\nname = "heart"\n[sites.harbour]\n'
    open_consortium(KitPlan("heart", "localhost", 8002, ("harbour",), days=30), study, tmp_path / "consortium")
    return tmp_path / "consortium"


@pytest.mark.parametrize(("key", "fault"), WEAK_KEYS.values(), ids=WEAK_KEYS)
def test_a_request_for_a_weak_key_is_not_approved(
    key: tuple[str, ...], fault: str, consortium: Path, tmp_path: Path
) -> None:
    from wardround.provisioning.kits import approve

    asked = request_for("harbour", tmp_path / "site", key)
    with pytest.raises(KitError, match=rf"harbour\.csr .*{fault}; .*wardround site request"):
        approve(consortium, asked, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert list((consortium / "approved").iterdir()) == []


@pytest.mark.parametrize("digest", WEAK_HASHES.values(), ids=WEAK_HASHES)
def test_a_request_signed_with_a_weak_hash_is_not_approved(digest: str, consortium: Path, tmp_path: Path) -> None:
    from wardround.provisioning.kits import approve

    asked = request_for("harbour", tmp_path / "site", ("-newkey", "rsa:2048"), digest)
    with pytest.raises(KitError, match=r"harbour\.csr .*wardround site request"):
        approve(consortium, asked, tmp_path / "out")


def test_a_request_for_an_endless_key_is_not_approved(consortium: Path, tmp_path: Path) -> None:
    """Verifying a signature of this key takes seconds; it is refused before its own signature is verified."""
    from wardround.provisioning.kits import approve

    numbers = rsa.RSAPublicNumbers(65537, (1 << 16_383) + 1)
    asked = request_for("harbour", tmp_path / "site", ("-newkey", "rsa:2048"))
    asked.write_bytes(with_key(asked.read_bytes(), numbers))
    with pytest.raises(KitError, match=r"harbour\.csr .*an RSA key of 16384 bits"):
        approve(consortium, asked, tmp_path / "out")


def with_key(request: bytes, numbers: rsa.RSAPublicNumbers) -> bytes:
    """Return the request with another public key, so that its signature is wrong."""
    loaded = x509.load_pem_x509_csr(request)
    before = loaded.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    after = numbers.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    inner = loaded.tbs_certrequest_bytes
    content = inner[len(inner) - length_in(inner) :].replace(before, after)
    outer = loaded.public_bytes(serialization.Encoding.DER)
    rest = outer[outer.index(inner) + len(inner) :]
    return pem("CERTIFICATE REQUEST", sequence(sequence(content) + rest))


def length_in(der: bytes) -> int:
    """Return the length field of a DER value."""
    return der[1] if der[1] < 0x80 else int.from_bytes(der[2 : 2 + der[1] - 0x80], "big")


def sequence(content: bytes) -> bytes:
    size = len(content).to_bytes((len(content).bit_length() + 7) // 8, "big")
    return b"\x30" + bytes([0x80 + len(size)]) + size + content


def pem(kind: str, der: bytes) -> bytes:
    body = ssl.DER_cert_to_PEM_cert(der)
    return body.replace("CERTIFICATE", kind).encode()


# Kits.


@pytest.mark.parametrize(("key", "fault"), WEAK_KEYS.values(), ids=WEAK_KEYS)
def test_a_kit_with_a_weak_key_is_not_opened(
    key: tuple[str, ...], fault: str, consortium: Path, tmp_path: Path
) -> None:
    """The kit is as an older coordinator approved it."""
    from wardround.provisioning.kits import approve, complete, read_kit, request

    site = tmp_path / "site"
    site.mkdir()
    kit = complete(site, approve(consortium, request("harbour", site), tmp_path / "out"))
    asked = request_for("harbour", tmp_path / "weak", key)
    issued = tmp_path / "issued.crt"
    authority = consortium / "authority"
    signing = ("-CA", authority / "rootCA.pem", "-CAkey", authority / "rootCA.key", "-CAcreateserial", "-days", "9")
    openssl("x509", "-req", "-in", asked, *signing, "-out", issued)
    (kit / "startup" / "client.crt").write_bytes(issued.read_bytes())
    (kit / "startup" / "client.key").write_bytes((tmp_path / "weak" / "harbour.key").read_bytes())
    with pytest.raises(KitError, match=rf"startup/client\.crt has {fault}; .*new approval"):
        read_kit(kit)


def test_a_kit_under_a_weak_root_is_not_opened(consortium: Path, tmp_path: Path) -> None:
    from wardround.provisioning.kits import check_issued

    weak = OpenAuthority(tmp_path / "authority", ("-newkey", "rsa:1024"))
    issued = weak.certificate(request_for("harbour", tmp_path / "site", ("-newkey", "rsa:2048")))
    with pytest.raises(KitError, match=r"rootCA\.pem has an RSA key of 1024 bits"):
        check_issued(issued, weak.pem.read_bytes(), what="client.crt")


# Signatures of messages, and parties of the key service.

CHECKS: dict[str, Callable[[bytes, bytes], object]] = {
    "issued_key": lambda pem, root: issued_key(pem, root=root, name="harbour"),
    "peer_of": lambda pem, root: peer_of(x509.load_pem_x509_certificate(pem).public_bytes(serialization.Encoding.DER)),
    "signatures": lambda pem, root: own_signatures(root).check(b"", b"", certificate=pem, name="harbour"),
}


def own_signatures(root: bytes) -> Signatures:
    return Signatures(key=pem_of(rsa_key(1)), certificate=Authority().certificate("us", rsa_key(1)), root=root)


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
@pytest.mark.parametrize(("key", "fault"), WEAK_KEYS.values(), ids=WEAK_KEYS)
def test_a_weak_key_is_trusted_nowhere(
    key: tuple[str, ...], fault: str, check: Callable[[bytes, bytes], object], tmp_path: Path
) -> None:
    authority = OpenAuthority(tmp_path / "authority")
    issued = authority.certificate(request_for("harbour", tmp_path / "site", key))
    with pytest.raises((MessageError, KeyMaterialError), match=f"has {fault}"):
        check(issued, authority.pem.read_bytes())


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
@pytest.mark.parametrize("digest", WEAK_HASHES.values(), ids=WEAK_HASHES)
def test_a_certificate_under_a_weak_hash_is_trusted_nowhere(
    digest: str, check: Callable[[bytes, bytes], object], tmp_path: Path
) -> None:
    """Two certificates can have the same MD5 or SHA-1: the root signs one, and the signature fits the other."""
    authority = OpenAuthority(tmp_path / "authority")
    issued = authority.certificate(request_for("harbour", tmp_path / "site", ("-newkey", "rsa:2048")), digest)
    with pytest.raises((MessageError, KeyMaterialError), match="is signed with another hash than SHA-256"):
        check(issued, authority.pem.read_bytes())


@pytest.mark.parametrize("check", [CHECKS["issued_key"], CHECKS["signatures"]], ids=["issued_key", "signatures"])
def test_a_weak_root_is_trusted_nowhere(check: Callable[[bytes, bytes], object], tmp_path: Path) -> None:
    authority = OpenAuthority(tmp_path / "authority", ("-newkey", "rsa:1024"))
    issued = authority.certificate(request_for("harbour", tmp_path / "site", ("-newkey", "rsa:2048")))
    with pytest.raises((MessageError, KeyMaterialError, FederationError), match="root has an RSA key of 1024 bits"):
        check(issued, authority.pem.read_bytes())


def test_nobody_signs_with_a_weak_key(tmp_path: Path) -> None:
    authority = OpenAuthority(tmp_path / "authority")
    issued = authority.certificate(request_for("harbour", tmp_path / "site", ("-newkey", "rsa:1024")))
    key = (tmp_path / "site" / "harbour.key").read_bytes()
    with pytest.raises(FederationError, match=r"certificate has an RSA key of 1024 bits; .* make the kit again"):
        Signatures(key=key, certificate=issued, root=authority.pem.read_bytes())


def test_a_broken_signature_under_a_weak_key_does_not_pass(tmp_path: Path) -> None:
    """The complete attack: a party that factored a site's 512-bit key signs in its name."""
    authority = OpenAuthority(tmp_path / "authority")
    issued = authority.certificate(request_for("harbour", tmp_path / "site", ("-newkey", "rsa:1024")))
    factored = serialization.load_pem_private_key((tmp_path / "site" / "harbour.key").read_bytes(), password=None)
    assert isinstance(factored, rsa.RSAPrivateKey)
    sha = hashes.SHA256()
    forged = factored.sign(b"wardround-1\x00an update", padding.PSS(padding.MGF1(sha), sha.digest_size), sha)
    with pytest.raises(MessageError, match="certificate: "):
        own_signatures(authority.pem.read_bytes()).check(b"an update", forged, certificate=issued, name="harbour")
