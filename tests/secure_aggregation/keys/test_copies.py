"""Copies for offline distribution: each opens only at its site, for its study and epoch, and unaltered."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.secure_aggregation.authority import STUDY, Authority, lock, pem_of, rsa_key

from wardround.errors import KeyMaterialError
from wardround.federation.message import Message, encode
from wardround.secure_aggregation.keys.copies import SealedCopy, read_certificates, seal_copies
from wardround.secure_aggregation.keys.material import PublicParameters, SealingSecret
from wardround.secure_aggregation.keys.peers import fingerprint_of
from wardround.secure_aggregation.keys.service_state import Epochs

SECRET = SealingSecret(3, "ckks", b"0123456789abcdef" * 4)
KEY = pem_of(rsa_key(1))


@pytest.fixture(scope="module")
def copy() -> SealedCopy:
    return SealedCopy.make(SECRET, study=STUDY, site="h1", oldest=2, public=rsa_key(1).public_key())


def test_the_site_opens_its_copy(copy: SealedCopy) -> None:
    data = copy.to_bytes()
    assert SealedCopy.from_bytes(data).open(KEY, study=STUDY, site="h1") == SECRET
    assert (copy.file_name, copy.oldest) == ("h1.epoch-3.key.sealed", 2)
    assert b"0123456789abcdef" not in data and b"wardround-sealing-secret" not in data
    assert repr(copy) == f"SealedCopy(study='{STUDY}', site='h1', epoch=3, oldest=2)"


def test_two_copies_of_one_secret_share_no_key_nonce_or_ciphertext(copy: SealedCopy) -> None:
    again = SealedCopy.make(SECRET, study=STUDY, site="h1", oldest=2, public=rsa_key(1).public_key())
    assert not {copy.key, copy.nonce, copy.sealed} & {again.key, again.nonce, again.sealed}


def test_a_copy_for_another_site_or_study_is_refused(copy: SealedCopy) -> None:
    with pytest.raises(KeyMaterialError, match=r"^the copy is for h1; this is the kit of h2$"):
        copy.open(KEY, study=STUDY, site="h2")
    with pytest.raises(KeyMaterialError, match=r"^the copy belongs to another study"):
        copy.open(KEY, study="00" * 32, site="h1")


@pytest.mark.parametrize("change", [{"site": "\x1b]0;h1\x07"}, {"study": "\u202e" + STUDY}])
def test_a_copy_with_control_characters_in_its_names_is_refused(change: dict[str, str], copy: SealedCopy) -> None:
    with pytest.raises(KeyMaterialError, match=r"^the file is not a complete copy of a key"):
        SealedCopy.from_bytes(replace(copy, **change).to_bytes())  # type: ignore[arg-type]


@pytest.mark.parametrize("change", [{"site": "h2"}, {"study": "00" * 32}, {"epoch": 4}, {"oldest": 1}])
def test_a_copy_with_an_altered_header_is_refused(change: dict[str, object], copy: SealedCopy) -> None:
    altered = replace(copy, **change)  # type: ignore[arg-type]
    with pytest.raises(KeyMaterialError, match="was altered, or sealed to another key"):
        altered.open(KEY, study=altered.study, site=altered.site)


@pytest.mark.parametrize("part", ["key", "nonce", "sealed"])
@pytest.mark.parametrize("place", [0, -1])
def test_one_bit_altered(part: str, place: int, copy: SealedCopy) -> None:
    data = bytearray(getattr(copy, part))
    data[place] ^= 1
    altered = SealedCopy.from_bytes(replace(copy, **{part: bytes(data)}).to_bytes())
    with pytest.raises(KeyMaterialError, match="was altered, or sealed to another key") as refused:
        altered.open(KEY, study=STUDY, site="h1")
    assert "0123" not in str(refused.value)


@pytest.mark.parametrize("change", [{"nonce": b""}, {"key": b""}, {"sealed": b""}, {"key": bytes(300)}])
def test_parts_of_a_wrong_length_are_refused(change: dict[str, bytes], copy: SealedCopy) -> None:
    with pytest.raises(KeyMaterialError, match="was altered"):
        replace(copy, **change).open(KEY, study=STUDY, site="h1")


def test_another_key_does_not_open_it(copy: SealedCopy) -> None:
    for key in (pem_of(rsa_key(2)), b"", b"no key"):
        with pytest.raises(KeyMaterialError, match="sealed to another key"):
            copy.open(key, study=STUDY, site="h1")


def test_a_copy_that_contains_another_epoch_is_refused(copy: SealedCopy) -> None:
    inner = SealedCopy.make(replace(SECRET, epoch=4), study=STUDY, site="h1", oldest=2, public=rsa_key(1).public_key())
    with pytest.raises(KeyMaterialError):
        replace(inner, epoch=3).open(KEY, study=STUDY, site="h1")


@pytest.mark.parametrize(
    "data",
    [b"", b"hello", encode(Message()), SECRET.to_bytes(), encode(Message({"kind": "wardround-sealed-copy-1"}))],
)
def test_a_file_that_is_not_a_copy_is_refused(data: bytes) -> None:
    with pytest.raises(KeyMaterialError, match=r"^the file is not a complete copy of a key"):
        SealedCopy.from_bytes(data)


def test_every_truncation_is_refused(copy: SealedCopy) -> None:
    data = copy.to_bytes()
    for length in range(0, len(data), 37):
        with pytest.raises(KeyMaterialError, match="is not a complete copy"):
            SealedCopy.from_bytes(data[:length])


# Issuing


@pytest.fixture
def study() -> Authority:
    return Authority()


@pytest.fixture
def epochs(tmp_path: Path) -> Epochs:
    tmp_path.chmod(0o700)
    made = iter(range(1, 100))
    folder = tmp_path / "issuer"
    folder.mkdir(mode=0o700)
    return Epochs.create(
        folder / "epochs.vault", lock(), study=STUDY, scheme="ckks", new=lambda _: bytes([next(made)]) * 32
    )


def approved(folder: Path, study: Authority, **numbers: int) -> Path:
    folder.mkdir(exist_ok=True)
    for name, number in numbers.items():
        (folder / f"{name}.crt").write_bytes(study.certificate(name, rsa_key(number)))
    return folder


def issue(epochs: Epochs, study: Authority, folder: Path, out: Path) -> dict[str, tuple[SealedCopy, str]]:
    found = read_certificates(folder, sites=("h1", "h2", "h3"), root=study.pem)
    sealed = seal_copies(epochs, found, study=STUDY, root=study.pem, out=out)
    return {copy.site: (copy, fingerprint) for copy, fingerprint in sealed}


def test_each_site_gets_its_own_copy(epochs: Epochs, study: Authority, tmp_path: Path) -> None:
    folder = approved(tmp_path / "approved", study, h1=1, h2=2, keys=3)
    made = issue(epochs, study, folder, tmp_path / "copies")
    assert sorted(path.name for path in (tmp_path / "copies").iterdir()) == [
        "h1.epoch-1.key.sealed",
        "h2.epoch-1.key.sealed",
        "parameters.json",
    ]
    for site, number in (("h1", 1), ("h2", 2)):
        copy = SealedCopy.from_bytes((tmp_path / "copies" / f"{site}.epoch-1.key.sealed").read_bytes())
        assert copy.open(pem_of(rsa_key(number)), study=STUDY, site=site) == epochs.current()
        assert made[site][1] == fingerprint_of((folder / f"{site}.crt").read_bytes())
    told = PublicParameters.from_json((tmp_path / "copies" / "parameters.json").read_bytes())
    assert told == epochs.parameters()
    assert epochs.state().given == {"h1": (1,), "h2": (1,)}


def test_a_revoked_site_gets_no_copy(epochs: Epochs, study: Authority, tmp_path: Path) -> None:
    folder = approved(tmp_path / "approved", study, h1=1, h2=2)
    issue(epochs, study, folder, tmp_path / "first")
    epochs.revoke("h1", lambda _: bytes(32))
    made = issue(epochs, study, folder, tmp_path / "second")
    assert made.keys() == {"h2"} and (made["h2"][0].epoch, made["h2"][0].oldest) == (2, 2)


def test_another_certificate_with_a_sites_name_is_refused(epochs: Epochs, study: Authority, tmp_path: Path) -> None:
    folder = approved(tmp_path / "approved", study, h1=1)
    issue(epochs, study, folder, tmp_path / "first")
    approved(folder, study, h1=2)
    with pytest.raises(KeyMaterialError, match=r"^h1 had another certificate before.*wardround keys admit"):
        issue(epochs, study, folder, tmp_path / "second")
    assert not list((tmp_path / "second").glob("*.sealed"))
    epochs.admit("h1")
    assert issue(epochs, study, folder, tmp_path / "second").keys() == {"h1"}


def test_certificates_of_another_study_are_refused(study: Authority, tmp_path: Path) -> None:
    folder = approved(tmp_path / "approved", Authority(3), h1=1)
    with pytest.raises(KeyMaterialError, match="the certificate of h1 belongs to another study"):
        read_certificates(folder, sites=("h1",), root=study.pem)
    with pytest.raises(KeyMaterialError, match=r"^approved holds no certificate NAME\.crt of a site"):
        read_certificates(folder, sites=("h2",), root=study.pem)
