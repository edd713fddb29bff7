"""Kits are made, sent, completed and read; every invalid kit is refused."""

from __future__ import annotations

import json
import shutil
import stat
import zipfile
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest

from wardround.errors import KitError

pytest.importorskip("nvflare", reason="kits need wardround[flare]")

from cryptography.x509 import ObjectIdentifier
from nvflare.lighter.utils import Identity, generate_cert, load_crt, load_private_key_file, serialize_cert

from wardround.provisioning.kits import (
    Kit,
    KitPlan,
    approve,
    complete,
    open_consortium,
    provision,
    read_kit,
    request,
)

STUDY = b'[study]\nname = "heart"\n[sites.harbour]\n[sites.hillside]\n'
PLAN = KitPlan("heart", "localhost", 8002, ("harbour", "hillside"), days=30)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return provision(PLAN, STUDY, tmp_path_factory.mktemp("made") / "kits")


@pytest.fixture(scope="module")
def consortium(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("coordinator") / "heart"
    open_consortium(PLAN, STUDY, folder)
    return folder


@pytest.fixture
def consortium_copy(consortium: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(consortium, tmp_path / "consortium"))


@pytest.fixture
def kit(made: dict[str, Path], tmp_path: Path) -> Path:
    """Return a copy of a kit that the test may change."""
    return Path(shutil.copytree(made["harbour"], tmp_path / "harbour"))


def loaded(path: Path) -> dict[str, object]:
    found = json.loads(path.read_bytes())
    assert isinstance(found, dict)
    return found


def altered(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(loaded(path) | changes))


def keys_in(data: bytes) -> int:
    return data.count(b"PRIVATE KEY")


# Provisioning


def test_each_party_gets_a_kit(made: dict[str, Path]) -> None:
    assert list(made) == ["coordinator", "harbour", "hillside"]
    assert {path.name for path in made["harbour"].parent.iterdir()} == set(made)  # nothing else: no authority
    for name, path in made.items():
        found = read_kit(path)
        assert (found.name, found.plan, found.study) == (name, PLAN, STUDY)
        assert found.role == ("coordinator" if name == "coordinator" else "site")
        assert timedelta(days=29) < found.expires - datetime.now(UTC) <= timedelta(days=30)


def test_the_content_of_kit_json(made: dict[str, Path]) -> None:
    assert loaded(made["hillside"] / "kit.json") == {
        "version": 3,
        "role": "site",
        "name": "hillside",
        "study": "heart",
        "study_sha256": sha256(STUDY).hexdigest(),
        "host": "localhost",
        "port": 8002,
        "sites": ["harbour", "hillside"],
        "days": 30,
    }


def test_kits_are_readable_only_by_their_owner_and_share_no_key(made: dict[str, Path]) -> None:
    keys = []
    for path in made.values():
        for found in (path, *path.rglob("*")):
            assert stat.S_IMODE(found.stat().st_mode) == (0o700 if found.is_dir() else 0o600)
            if found.is_file() and keys_in(found.read_bytes()):
                assert found == read_kit(path).key
                keys.append(found.read_bytes())
    assert len(set(keys)) == len(keys) == 3


def test_all_kits_hold_one_authority_and_the_coordinators_certificate(made: dict[str, Path]) -> None:
    kits = [read_kit(path) for path in made.values()]
    assert len({found.root.read_bytes() for found in kits}) == 1
    assert len({found.fingerprint for found in kits}) == 1
    assert kits[0].fingerprint.startswith("SHA256:") and len(kits[0].fingerprint) == len("SHA256") + 32 * 3
    assert {found.coordinator_certificate.read_bytes() for found in kits} == {kits[0].certificate.read_bytes()}


def test_site_names_do_not_collide_with_folders_of_the_consortium(tmp_path: Path) -> None:
    names = ("consortium", "authority", "kit")
    made = provision(KitPlan("heart", "localhost", 8002, names), STUDY, tmp_path)
    assert [read_kit(path).name for path in made.values()] == ["coordinator", *names]


def test_paths_do_not_depend_on_the_working_directory(kit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(kit.parent)
    assert read_kit(Path("harbour")).key == kit / "startup" / "client.key"


def test_provisioning_refuses_a_folder_that_is_not_empty(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("mine")
    with pytest.raises(KitError, match="exists already"):
        provision(PLAN, STUDY, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["note.txt"]


# Request, approval, completion


def test_a_site_is_approved_and_its_key_is_never_sent(consortium_copy: Path, tmp_path: Path) -> None:
    site, post = tmp_path / "site", tmp_path / "post"
    asked = request("harbour", site)
    approval = approve(consortium_copy, asked, post)
    for sent in (
        asked.read_bytes(),
        *(zipfile.ZipFile(approval).read(part) for part in zipfile.ZipFile(approval).namelist()),
    ):
        assert keys_in(sent) == 0
    key = (site / "harbour.key").read_bytes()
    assert keys_in(key) == 2 and stat.S_IMODE((site / "harbour.key").stat().st_mode) == 0o600
    assert not any(key in path.read_bytes() for path in consortium_copy.rglob("*") if path.is_file())
    joined = read_kit(complete(site, approval))
    assert (joined.path, joined.name, joined.study) == (site / "kit", "harbour", STUDY)
    assert joined.key.read_bytes() == key
    assert joined.fingerprint == read_kit(consortium_copy / "coordinator").fingerprint


def test_an_approval_holds_no_configuration_of_flare(consortium_copy: Path, tmp_path: Path) -> None:
    approval = approve(consortium_copy, request("harbour", tmp_path / "site"), tmp_path)
    with zipfile.ZipFile(approval) as archive:
        names = archive.namelist()
    assert names == ["kit.json", "study.toml", "coordinator.crt", "site.crt", "rootCA.pem"]


def test_a_site_outside_the_study_is_not_approved(consortium_copy: Path, tmp_path: Path) -> None:
    asked = request("lakeside", tmp_path / "site")
    with pytest.raises(
        KitError, match=r"lakeside\.csr comes from 'lakeside', which is not a site of the study 'heart'"
    ):
        approve(consortium_copy, asked, tmp_path / "post")
    assert not (tmp_path / "post").exists()
    assert list((consortium_copy / "approved").iterdir()) == []
    assert {path.name for path in (consortium_copy / "authority").iterdir()} == {"rootCA.pem", "rootCA.key", "ca.json"}


def test_renaming_a_request_does_not_change_its_name(consortium_copy: Path, tmp_path: Path) -> None:
    asked = request("lakeside", tmp_path / "site").rename(tmp_path / "harbour.csr")
    with pytest.raises(KitError, match="'lakeside'"):
        approve(consortium_copy, asked, tmp_path / "post")


def test_no_request_is_made_under_a_reserved_name(tmp_path: Path) -> None:
    for name in ("coordinator", "server", "../x", ""):
        with pytest.raises(KitError):
            request(name, tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_a_site_is_approved_twice_only_with_again(consortium_copy: Path, tmp_path: Path) -> None:
    first = approve(consortium_copy, request("harbour", tmp_path / "a"), tmp_path / "post").read_bytes()
    asked = request("harbour", tmp_path / "b")
    with pytest.raises(KitError, match="'harbour' was approved already"):
        approve(consortium_copy, asked, tmp_path / "post")
    again = approve(consortium_copy, asked, tmp_path / "post", again=True)
    assert again.read_bytes() != first
    assert read_kit(complete(tmp_path / "b", again)).name == "harbour"


def test_a_request_does_not_replace_a_key(tmp_path: Path) -> None:
    request("harbour", tmp_path)
    key = (tmp_path / "harbour.key").read_bytes()
    with pytest.raises(KitError, match=r"harbour\.key exists already"):
        request("harbour", tmp_path)
    assert (tmp_path / "harbour.key").read_bytes() == key


def flipped(pem: bytes) -> bytes:
    """Return the request with another character near its end, where the signature is."""
    lines = pem.splitlines(keepends=True)
    middle = lines[-3]
    lines[-3] = (b"B" if middle[:1] == b"A" else b"A") + middle[1:]
    return b"".join(lines)


@pytest.mark.parametrize("spoil", [flipped, lambda _: b"", lambda _: b"hello", lambda pem: pem[: len(pem) // 2]])
def test_a_file_that_is_not_a_request_is_refused(
    spoil: Callable[[bytes], bytes], consortium: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    asked = request("harbour", tmp_path)
    asked.write_bytes(spoil(asked.read_bytes()))
    with pytest.raises(KitError, match=r"^harbour\.csr is not a request for a certificate"):
        approve(consortium, asked, tmp_path / "post")
    with pytest.raises(KitError, match=r"^none\.csr is not a request"):
        approve(consortium, tmp_path / "none.csr", tmp_path / "post")
    assert capfd.readouterr() == ("", "")  # FLARE's tools would print full paths


def test_an_authority_without_its_key_is_refused(consortium_copy: Path, tmp_path: Path) -> None:
    (consortium_copy / "authority" / "rootCA.key").unlink()
    with pytest.raises(KitError, match=r"rootCA\.key is missing"):
        approve(consortium_copy, request("harbour", tmp_path / "site"), tmp_path)


def test_an_approval_for_another_site_or_another_key_is_refused(consortium_copy: Path, tmp_path: Path) -> None:
    harbour, hillside = tmp_path / "harbour", tmp_path / "hillside"
    approval = approve(consortium_copy, request("harbour", harbour), tmp_path)
    request("hillside", hillside)
    with pytest.raises(KitError, match=r"harbour\.approval\.zip is for 'harbour', whose key is not here"):
        complete(hillside, approval)
    (harbour / "harbour.key").unlink()
    request("harbour", harbour)
    with pytest.raises(KitError, match="belongs to another private key"):
        complete(harbour, approval)
    assert not (harbour / "kit").exists()


def test_an_existing_kit_is_not_overwritten(consortium_copy: Path, tmp_path: Path) -> None:
    approval = approve(consortium_copy, request("harbour", tmp_path / "site"), tmp_path)
    complete(tmp_path / "site", approval)
    with pytest.raises(KitError, match="kit exists already"):
        complete(tmp_path / "site", approval)


def rewritten(approval: Path, **parts: bytes) -> None:
    with zipfile.ZipFile(approval) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(approval, "w") as archive:
        for name, content in (held | {name.replace("_", "."): content for name, content in parts.items()}).items():
            archive.writestr(name, content)


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        ({"study_toml": b"[study]\n"}, "study.toml was altered"),
        ({"kit_json": b"[]"}, "does not describe a kit"),
        ({"kit_json": b"[" * 100_000}, "does not describe a kit"),
        ({"rootCA_pem": b"hello"}, "rootCA.pem is not a certificate"),
        ({"site_crt": b"x" * 1_000_001}, "site.crt of the approval is longer than 1,000,000 bytes"),
    ],
)
def test_an_altered_approval_is_refused(
    parts: dict[str, bytes], complaint: str, consortium_copy: Path, tmp_path: Path
) -> None:
    approval = approve(consortium_copy, request("harbour", tmp_path / "site"), tmp_path)
    rewritten(approval, **parts)
    with pytest.raises(KitError, match=complaint):
        complete(tmp_path / "site", approval)
    assert {path.name for path in (tmp_path / "site").iterdir()} == {"harbour.key", "harbour.csr"}


def test_a_truncated_approval_is_refused(consortium_copy: Path, tmp_path: Path) -> None:
    approval = approve(consortium_copy, request("harbour", tmp_path / "site"), tmp_path)
    approval.write_bytes(approval.read_bytes()[:-30])
    with pytest.raises(KitError, match="is not a complete approval"):
        complete(tmp_path / "site", approval)


def test_unexpected_parts_of_an_approval_are_not_extracted(consortium_copy: Path, tmp_path: Path) -> None:
    approval = approve(consortium_copy, request("harbour", tmp_path / "site"), tmp_path)
    with zipfile.ZipFile(approval, "a") as archive:
        archive.writestr("startup/resources.json", "{}")
        archive.writestr("../../escaped", "x")
    found = complete(tmp_path / "site", approval)
    assert not (found / "startup" / "resources.json").exists()
    assert not list(tmp_path.rglob("escaped"))


# The key service


WITH_KEYS = replace(PLAN, keys="keys.example.org:8003")


@pytest.fixture(scope="module")
def with_keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("with-keys") / "heart"
    open_consortium(WITH_KEYS, STUDY, folder)
    return folder


def test_the_key_service_requests_and_gets_a_kit(with_keys: Path, tmp_path: Path) -> None:
    asked = request("keys", tmp_path / "keys")
    found = read_kit(complete(tmp_path / "keys", approve(with_keys, asked, tmp_path, again=True)))
    assert (found.role, found.name, found.plan) == ("keys", "keys", WITH_KEYS)
    assert (found.key.name, found.certificate.name) == ("server.key", "server.crt")
    assert not (found.path / "local").exists()
    assert loaded(found.path / "kit.json")["keys"] == "keys.example.org:8003"
    names = load_crt(found.certificate).extensions.get_extension_for_oid(ObjectIdentifier("2.5.29.17")).value
    assert [name.value for name in names] == ["keys.example.org"]  # its own host, not the coordinator's
    assert (with_keys / "approved" / "keys.crt").read_bytes() == found.certificate.read_bytes()
    with pytest.raises(KitError, match="'keys' was approved already"):
        approve(with_keys, asked, tmp_path)


def test_a_sites_kit_has_the_address_of_the_key_service(with_keys: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    found = read_kit(complete(site, approve(with_keys, request("harbour", site), site)))
    assert (found.role, found.plan.keys) == ("site", "keys.example.org:8003")
    assert found.study_digest == sha256(STUDY).hexdigest()
    assert (found.files.key, found.files.vault) == (found.key, found.path / "keys.vault")


def test_a_study_without_a_key_service_approves_none(consortium: Path, tmp_path: Path) -> None:
    asked = request("keys", tmp_path / "keys")
    with pytest.raises(KitError, match=r"^keys\.csr comes from a key service, which 'heart' does not have$"):
        approve(consortium, asked, tmp_path / "post")
    assert not (tmp_path / "post").exists() and not (consortium / "approved" / "keys.crt").exists()


def test_a_rehearsal_includes_the_key_service(tmp_path: Path) -> None:
    made = provision(replace(PLAN, keys="localhost:8003"), STUDY, tmp_path)
    assert list(made) == ["coordinator", "keys", "harbour", "hillside"]
    assert [read_kit(path).role for path in made.values()] == ["coordinator", "keys", "site", "site"]


def test_a_kit_of_a_key_service_that_its_study_lacks_is_refused(with_keys: Path, tmp_path: Path) -> None:
    approval = approve(with_keys, request("keys", tmp_path / "keys"), tmp_path, again=True)
    found = complete(tmp_path / "keys", approval)
    altered(found / "kit.json", keys="")
    with pytest.raises(KitError, match="a participant that the study does not have"):
        read_kit(found)


# Reading: what is refused


def test_a_changed_study_file_is_refused(kit: Path) -> None:
    (kit / "study.toml").write_bytes(STUDY.replace(b"heart", b"hearT"))
    with pytest.raises(KitError, match=r"study\.toml was altered after the kit was made"):
        read_kit(kit)


@pytest.mark.parametrize(
    "file",
    [
        *("kit.json", "study.toml", "coordinator.crt", "startup/rootCA.pem", "startup/client.crt"),
        "startup/client.key",
    ],
)
def test_a_missing_file_is_named(file: str, kit: Path) -> None:
    (kit / file).unlink()
    with pytest.raises(KitError, match=f"harbour is not a complete kit: {file} is missing") as refused:
        read_kit(kit)
    assert str(kit.parent) not in str(refused.value)


def test_an_unexpected_file_in_a_kit_is_refused(kit: Path) -> None:
    (kit / "startup" / "more__resources.json").write_text("{}")
    with pytest.raises(KitError, match=r"startup/more__resources\.json is not part of a kit; remove it"):
        read_kit(kit)


def test_a_kit_of_version_0_1_is_read_with_a_warning(kit: Path) -> None:
    altered(kit / "kit.json", version=2)
    (kit / "startup" / "fed_client.json").write_text("{}")
    (kit / "local").mkdir()
    (kit / "local" / "resources.json").write_text("{}")
    with pytest.warns(UserWarning, match=r"nothing reads startup/fed_client\.json, local of this kit any more$"):
        assert read_kit(kit).name == "harbour"


def test_a_key_that_others_can_read_is_refused(kit: Path) -> None:
    (kit / "startup" / "client.key").chmod(0o640)
    with pytest.raises(KitError, match=r"client\.key can be read by others"):
        read_kit(kit)


def test_a_kit_whose_name_differs_from_its_certificate_is_refused(kit: Path, made: dict[str, Path]) -> None:
    altered(kit / "kit.json", name="hillside")
    with pytest.raises(KitError, match=r"kit.json names 'hillside', but startup/client.crt names 'harbour'"):
        read_kit(kit)


def test_a_site_cannot_call_itself_the_coordinator(kit: Path) -> None:
    shutil.copy(kit / "startup" / "client.crt", kit / "coordinator.crt")
    with pytest.raises(KitError, match=r"coordinator\.crt is not the coordinator's"):
        read_kit(kit)


def test_the_key_of_another_site_is_refused(kit: Path, made: dict[str, Path]) -> None:
    shutil.copy(made["hillside"] / "startup" / "client.key", kit / "startup" / "client.key")
    with pytest.raises(KitError, match=r"client\.crt belongs to another private key"):
        read_kit(kit)


@pytest.mark.parametrize("file", ["startup/client.crt", "coordinator.crt", "startup/rootCA.pem"])
def test_the_certificate_of_another_study_is_refused(
    file: str, kit: Path, consortium_copy: Path, tmp_path: Path
) -> None:
    site = tmp_path / "elsewhere"
    other = complete(site, approve(consortium_copy, request("harbour", site), site))  # same names, another authority
    shutil.copy(other / file, kit / file)
    with pytest.raises(KitError, match="was not signed by this study's authority"):
        read_kit(kit)


@pytest.mark.parametrize("facts", [b"{", b"[]", b"{}", b'"x"', b"\xff", b'{"version": 2}', b'{"version": "two"}'])
def test_a_kit_json_that_describes_no_kit_is_refused(facts: bytes, kit: Path) -> None:
    (kit / "kit.json").write_bytes(facts)
    with pytest.raises(KitError, match=r"^kit\.json does not describe a kit"):
        read_kit(kit)


def test_inconsistent_facts_in_kit_json_are_refused(kit: Path) -> None:
    for changes, complaint in (
        ({"version": 1}, "kit.json has format 1, and this version of Wardround reads formats 2 and 3: make the kit"),
        ({"version": 4}, "kit.json has format 4, and this version of Wardround reads formats 2 and 3: make the kit"),
        ({"version": "Mrs Marker"}, "does not describe a kit"),
        ({"role": "coordinator"}, "a participant that the study does not have"),
        ({"name": "lakeside"}, "a participant that the study does not have"),
        ({"port": "8002"}, "does not describe a kit"),
        ({"keys": "nowhere"}, "must be HOST:PORT"),
        ({"keys": 8003}, "does not describe a kit"),
    ):
        before = (kit / "kit.json").read_bytes()
        altered(kit / "kit.json", **changes)
        with pytest.raises(KitError, match=complaint):
            read_kit(kit)
        (kit / "kit.json").write_bytes(before)
    assert read_kit(kit).name == "harbour"


def signed_between(authority: Path, found: Kit, start: timedelta, end: timedelta) -> bytes:
    """Return the certificate of the kit, signed again by the real authority for another period."""
    now = datetime.now(UTC)
    certificate = generate_cert(
        Identity(found.name),
        Identity(PLAN.study),
        load_private_key_file(authority / "rootCA.key"),
        load_crt(found.certificate).public_key(),
        not_valid_before=now + start,
        not_valid_after=now + end,
    )
    return bytes(serialize_cert(certificate))


def test_a_certificate_outside_its_validity_is_refused(consortium_copy: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    found = read_kit(complete(site, approve(consortium_copy, request("harbour", site), site)))
    past, day = timedelta(days=-3), timedelta(days=1)
    found.certificate.write_bytes(signed_between(consortium_copy / "authority", found, past, -day))
    with pytest.raises(KitError, match=r"startup/client\.crt expired on \d{4}-\d\d-\d\d; ask for a new approval"):
        read_kit(found.path)
    found.certificate.write_bytes(signed_between(consortium_copy / "authority", found, day, 2 * day))
    with pytest.raises(KitError, match="is not valid yet; set this machine's clock"):
        read_kit(found.path)
