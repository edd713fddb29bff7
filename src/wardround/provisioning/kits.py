"""Kits: folders with which the coordinator, the key service and the sites take part in a networked study.

    kit.json          role, name, study, host, port, sites, where keys come from, and the SHA-256 of the study file
    study.toml        the study file, byte for byte
    coordinator.crt   the certificate that verifies the coordinator's requests at a site
    startup/          the party's private key, its certificate, and the certificate of the study's authority

In a real study each site and the key service make their own keys and send only a request: `open_consortium` and
`approve` run at the coordinator, `request` and `complete` at the other parties, and no private key is ever sent. The
approval that comes back contains only certificates, the study and the address of the coordinator.
"""

from __future__ import annotations

import json
import os
import stat
import warnings
import zipfile
import zlib
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from wardround.errors import KitError
from wardround.federation.engines.flare import certificates
from wardround.federation.engines.flare.certificates import ROOT, write_private
from wardround.federation.engines.flare.requests import FlareParty
from wardround.parsing import MalformedDataError, is_integer, parse_json, read_limited
from wardround.provisioning.kit_plan import COORDINATOR, KEYS, KitPlan, check_site_name
from wardround.secure_aggregation.identities import weakness_of_certificate, weakness_of_request
from wardround.secure_aggregation.keys.peers import PartyFiles

__all__ = [
    "COORDINATOR",
    "KEYS",
    "Kit",
    "KitPlan",
    "approve",
    "check_issued",
    "complete",
    "open_consortium",
    "provision",
    "read_kit",
    "request",
]

Role = Literal["coordinator", "keys", "site"]

_VERSION = 3  # 1 had no MAC over ciphertexts; 2 also held the configuration of FLARE's own server and client
_READABLE = (2, 3)
# The files of format 2 that nothing reads.
_UNUSED = ("startup/fed_server.json", "startup/fed_client.json", "local")
_LONGEST_REQUEST = 100_000  # bytes; one has some two thousand
_LARGEST_PART = 1_000_000  # bytes of one file in an approval or a kit
_FACTS, _STUDY, _COORDINATOR_CERTIFICATE = "kit.json", "study.toml", "coordinator.crt"
_AUTHORITY, _APPROVED = "authority", "approved"
_CERTIFICATE = "site.crt"  # within an approval
_PARTS = (_FACTS, _STUDY, _COORDINATOR_CERTIFICATE, _CERTIFICATE, ROOT)


@dataclass(frozen=True)
class Kit:
    """A kit whose files have been checked."""

    path: Path
    name: str
    plan: KitPlan
    study: bytes
    expires: datetime

    @property
    def role(self) -> Role:
        """Return the role of its holder in the study."""
        return _role(self.name)

    @property
    def files(self) -> PartyFiles:
        """Return the paths of the kit's keys and certificates."""
        return PartyFiles(self.path, self.key, self.certificate, self.root)

    @property
    def party(self) -> FlareParty:
        """Return what the engine needs to connect as this party."""
        return FlareParty(
            name=self.name,
            study=self.study_digest,
            host=self.plan.host,
            port=self.plan.port,
            sites=self.plan.sites,
            folder=self.path,
            key=self.key,
            certificate=self.certificate,
            root=self.root,
            coordinator_certificate=self.coordinator_certificate,
        )

    @property
    def study_digest(self) -> str:
        """Return the SHA-256 of the study file."""
        return sha256(self.study).hexdigest()

    @property
    def key(self) -> Path:
        """Return the path of the private key, in PEM."""
        return self.path / _key_and_certificate(self.name)[0]

    @property
    def certificate(self) -> Path:
        """Return the path of the certificate that belongs to the key."""
        return self.path / _key_and_certificate(self.name)[1]

    @property
    def root(self) -> Path:
        """Return the path of the certificate of the study's authority."""
        return self.path / "startup" / ROOT

    @property
    def coordinator_certificate(self) -> Path:
        """Return the path of the certificate that verifies the coordinator's signatures."""
        return self.path / _COORDINATOR_CERTIFICATE

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint of the study's authority; if two parties see the same one, no one intercepts them."""
        return certificates.fingerprint(self.root.read_bytes())


def provision(plan: KitPlan, study: bytes, out: Path) -> dict[str, Path]:
    """Make all kits of a study at once, for a rehearsal on one machine; return their paths by name.

    Every private key is made here, so the person who runs this can impersonate every site: hospitals use `request` and
    `approve` instead. The authority is deleted afterwards; no party can be added later.
    """
    _make_folder(out)
    with TemporaryDirectory(dir=out) as scratch:
        consortium = Path(scratch) / "_"  # no site can have this name
        made = {COORDINATOR: open_consortium(plan, study, consortium)}
        for name in plan.parties[1:]:
            folder = Path(scratch) / name
            approval = approve(consortium, request(name, folder), folder)
            made[name] = complete(folder, approval)
        return {name: kit.rename(out / name) for name, kit in made.items()}


def open_consortium(plan: KitPlan, study: bytes, folder: Path) -> Path:
    """Make the study's authority and the coordinator's own kit, at the coordinator; return the path of the kit."""
    _make_folder(folder)
    authority = folder / _AUTHORITY
    certificates.make_authority(authority, study=plan.study, days=plan.days)
    (folder / _APPROVED).mkdir(mode=0o700)
    with TemporaryDirectory(dir=folder) as scratch:
        asked = certificates.make_request(COORDINATOR, "server", Path(scratch))
        _, certificate = _sign(asked, authority, kind="server", days=plan.days, host=plan.host)
        key = asked.with_suffix(".key").read_bytes()
    parts = {
        _FACTS: _facts(plan, COORDINATOR, study),
        _STUDY: study,
        _COORDINATOR_CERTIFICATE: certificate,
        _CERTIFICATE: certificate,
        ROOT: (authority / ROOT).read_bytes(),
    }
    return _write_kit(folder / COORDINATOR, parts, key)


def request(name: str, folder: Path) -> Path:
    """Make a private key and a request for a certificate, at a site or at the key service (whose name is `keys`).

    The key stays in `folder`. The request, whose path is returned, is the file to send to the coordinator.
    """
    if name != KEYS:
        check_site_name(name)
    return certificates.make_request(name, _kind(name), folder)


def approve(consortium: Path, request_file: Path, out: Path, *, again: bool = False) -> Path:
    """Admit the party that made a request, at the coordinator; return the approval to send back, which holds no key.

    `again` admits a site that lost its key. Its older certificate stays valid until it expires: if the key was stolen,
    open a new consortium.
    """
    kit = read_kit(consortium / COORDINATOR)
    # FLARE reads the name in a request only while it signs; a certificate for an unknown name is discarded below.
    authority, days = consortium / _AUTHORITY, kit.plan.days
    name, certificate = _sign(request_file, authority, kind="client", days=days)
    if name == KEYS and not kit.plan.keys:
        raise KitError(f"{request_file.name} comes from a key service, which {kit.plan.study!r} does not have")
    if name not in (*kit.plan.sites, KEYS):
        raise KitError(f"{request_file.name} comes from {name!r}, which is not a site of the study {kit.plan.study!r}")
    if name == KEYS:
        host = kit.plan.keys_host
        _, certificate = _sign(request_file, authority, kind="server", days=days, host=host)
    record = consortium / _APPROVED / f"{name}.crt"
    if record.exists() and not again:
        raise KitError(f"{name!r} was approved already; approve it again only if it asked for that")
    parts = {
        _FACTS: _facts(kit.plan, name, kit.study),
        _STUDY: kit.study,
        _COORDINATOR_CERTIFICATE: kit.coordinator_certificate.read_bytes(),
        _CERTIFICATE: certificate,
        ROOT: kit.root.read_bytes(),
    }
    approval = _write_approval(out / f"{name}.approval.zip", parts)
    record.unlink(missing_ok=True)
    write_private(record, certificate)
    return approval


def complete(request_folder: Path, approval: Path) -> Path:
    """Make a kit from a key and its approval, at a site or the key service; return its path, `kit` next to the key."""
    parts = _read_approval(approval)
    name, _, _ = _read_facts(parts[_FACTS], approval.name)
    key = request_folder / f"{name}.key"
    if not key.is_file():
        raise KitError(f"{approval.name} is for {name!r}, whose key is not here; name the folder of its request")
    return _write_kit(request_folder / "kit", parts, key.read_bytes())


def read_kit(path: Path) -> Kit:
    """Read a kit; raise a `KitError` if anything in it is missing, altered, expired or belongs to another party."""
    name, plan, digest = _read_facts(_read(path, _FACTS), _FACTS)
    study = _read(path, _STUDY)
    if sha256(study).hexdigest() != digest:
        raise KitError(f"{_STUDY} was altered after the kit was made; a changed study needs new kits")
    unused = [file for file in _UNUSED if (path / file).exists()]
    if unused:
        warnings.warn(f"{path.name}: nothing reads {', '.join(unused)} of this kit any more", stacklevel=2)
    allowed = {*_key_and_certificate(name), f"startup/{ROOT}", *unused}
    for found in sorted((path / "startup").glob("*")):
        if f"startup/{found.name}" not in allowed:
            raise KitError(f"startup/{found.name} is not part of a kit; remove it")
    return Kit(path.resolve(), name, plan, study, _check_identity(path, name))


def check_issued(certificate: bytes, root: bytes, *, what: str) -> certificates.Identified:
    """Check a certificate as `certificates.check_issued` does, and that neither it nor the root is weak."""
    for pem, name in ((certificate, what), (root, ROOT)):
        certificates.check_readable(pem, name)
        if weak := weakness_of_certificate(pem):
            raise KitError(f"{name} {weak}; ask for a new approval")
    return certificates.check_issued(certificate, root, what=what)


def _sign(
    request_file: Path, authority: Path, *, kind: certificates.Kind, days: int, host: str | None = None
) -> tuple[str, bytes]:
    """Sign a request whose key is strong; return the name in it and the certificate."""
    certificates.check_authority(authority)
    try:
        asked = read_limited(request_file, _LONGEST_REQUEST)
        weak = weakness_of_request(asked)
    except (OSError, ValueError):
        raise KitError(certificates.no_request(request_file.name)) from None
    if weak:
        raise KitError(f"{request_file.name} {weak}; make it with `wardround site request`")
    return certificates.sign(asked, authority, kind=kind, days=days, host=host, what=request_file.name)


def _check_identity(path: Path, name: str) -> datetime:
    key_file, certificate_file = _key_and_certificate(name)
    certificate, root = _read(path, certificate_file), _read(path, f"startup/{ROOT}")
    held = check_issued(certificate, root, what=certificate_file)
    if held.name != name:
        raise KitError(f"{_FACTS} names {name!r}, but {certificate_file} names {held.name!r}; use one site's kit")
    speaker = check_issued(_read(path, _COORDINATOR_CERTIFICATE), root, what=_COORDINATOR_CERTIFICATE)
    if speaker.name != COORDINATOR:
        raise KitError(f"{_COORDINATOR_CERTIFICATE} is not the coordinator's; complete the approval again")
    key = _read(path, key_file)
    if stat.S_IMODE((path / key_file).stat().st_mode) & 0o077:
        raise KitError(f"{key_file} can be read by others; only its owner may (chmod 600)")
    certificates.check_pair(key, certificate, what=certificate_file)
    return min(held.expires, speaker.expires)


def _facts(plan: KitPlan, name: str, study: bytes) -> bytes:
    facts = {
        "version": _VERSION,
        "role": _role(name),
        "name": name,
        "study": plan.study,
        "study_sha256": sha256(study).hexdigest(),
        "host": plan.host,
        "port": plan.port,
        "sites": plan.sites,
        "days": plan.days,
    }
    if plan.keys:
        facts["keys"] = plan.keys
    return (json.dumps(facts, indent=2) + "\n").encode()


def _read_facts(data: bytes, place: str) -> tuple[str, KitPlan, str]:
    """Return the name, the plan and the study's digest in a `kit.json`."""
    try:
        facts: dict[str, Any] = parse_json(data)
        version = facts["version"]
        if not is_integer(version):
            raise TypeError
        if version not in _READABLE:
            raise KitError(
                f"{place} has format {version}, and this version of Wardround reads formats "
                f"{' and '.join(map(str, _READABLE))}: make the kit again"
            )
        name, digest = facts["name"], facts["study_sha256"]
        sites, keys = facts["sites"], facts.get("keys", "")  # kits without a key service have none
        if not isinstance(keys, str) or not isinstance(digest, str) or not isinstance(sites, list):
            raise TypeError
        if not (is_integer(facts["port"]) and is_integer(facts["days"])):
            raise TypeError
        plan = KitPlan(facts["study"], facts["host"], facts["port"], tuple(sites), facts["days"], keys)
        if facts["role"] != _role(name) or name not in plan.parties:
            raise KitError(f"{place} names a participant that the study does not have; make the kit again")
    except (ValueError, KeyError, TypeError):
        raise KitError(f"{place} does not describe a kit; make the kit again") from None
    return name, plan, digest


def _write_kit(path: Path, parts: dict[str, bytes], key: bytes) -> Path:
    """Write a kit and read it as its user will; remove a kit that is refused."""
    name, _, _ = _read_facts(parts[_FACTS], _FACTS)
    if path.exists():
        raise KitError(f"{path.name} exists already; move it away")
    key_file, certificate_file = _key_and_certificate(name)
    files = {file: parts[file] for file in (_FACTS, _STUDY, _COORDINATOR_CERTIFICATE)}
    files |= {key_file: key, certificate_file: parts[_CERTIFICATE], f"startup/{ROOT}": parts[ROOT]}
    with TemporaryDirectory(dir=path.parent) as scratch:
        made = Path(scratch) / path.name
        for folder in (made, made / "startup"):
            folder.mkdir(mode=0o700)
        for file, content in files.items():
            write_private(made / file, content)
        read_kit(made)
        return made.rename(path)


def _write_approval(path: Path, parts: dict[str, bytes]) -> Path:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for part in _PARTS:
            archive.writestr(zipfile.ZipInfo(part), parts[part])
    return path


def _read_approval(path: Path) -> dict[str, bytes]:
    """Return the parts of an approval, in memory: no name in the archive decides where a file is written."""
    found: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for part in _PARTS:
                with archive.open(part) as stream:
                    found[part] = stream.read(_LARGEST_PART + 1)
                if len(found[part]) > _LARGEST_PART:
                    raise KitError(f"{part} of the approval is longer than {_LARGEST_PART:,} bytes; ask for it again")
    except (zipfile.BadZipFile, zlib.error, KeyError, OSError, EOFError, RuntimeError):
        raise KitError(f"{path.name} is not a complete approval; ask for it again") from None
    return found


def _read(path: Path, file: str) -> bytes:
    try:
        return read_limited(path / file, _LARGEST_PART)
    except MalformedDataError as error:
        raise KitError(f"{file} of {path.name} {error}; make the kit again") from None
    except OSError:
        raise KitError(f"{path.name} is not a complete kit: {file} is missing or cannot be read") from None


def _key_and_certificate(name: str) -> tuple[str, str]:
    kind = _kind(name)
    return f"startup/{kind}.key", f"startup/{kind}.crt"


def _kind(name: str) -> certificates.Kind:
    return "server" if name in (COORDINATOR, KEYS) else "client"  # the other parties connect to these two


def _role(name: str) -> Role:
    return "coordinator" if name == COORDINATOR else "keys" if name == KEYS else "site"


def _make_folder(folder: Path) -> None:
    """Make a new or empty folder that only its owner can read."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise KitError(f"{folder.name} exists already; name a new folder")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.chmod(folder, 0o700)
