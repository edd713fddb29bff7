"""`wardround keys`: store and distribute the keys that encrypt updates."""

from __future__ import annotations

import signal
import threading
from collections import deque
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wardround.cli.printing import Json, printed
from wardround.cli.provision import (
    Approval,
    KeyFolder,
    KeyringOption,
    KitFolder,
    PassphraseFile,
    RequestFolder,
    SiteName,
    make_kit,
    make_request,
    require_flare,
)
from wardround.errors import UsageError
from wardround.provisioning.kit_plan import KEYS
from wardround.reports.tables import Table

if TYPE_CHECKING:
    from wardround.provisioning.kits import Kit
    from wardround.secure_aggregation.keys.material import PublicParameters
    from wardround.secure_aggregation.keys.service_state import Epochs, KeyState

__all__ = ["app"]

app = typer.Typer(help="Store and distribute the keys that encrypt updates.", no_args_is_help=True)

_LOG_COLUMNS = ("time (UTC)", "who", "asked", "epoch", "outcome", "from", "certificate")


@app.command()
def request(out: KeyFolder, json: Json = False) -> None:
    """Create the key service's private key and the request that the coordinator approves."""
    make_request(KEYS, out, json=json)


@app.command()
def complete(folder: RequestFolder, approval: Approval, json: Json = False) -> None:
    """Join the key and the approval into the kit of the key service."""
    make_kit(folder, approval, json=json)


@app.command()
def serve(
    kit: KitFolder,
    passphrase_file: PassphraseFile = None,
    keyring: KeyringOption = False,
    per_address: Annotated[
        int, typer.Option(min=1, help="Connections of one address that may be in a TLS handshake at the same time.")
    ] = 64,
) -> None:
    """Serve keys to the sites of the study until Ctrl-C; the first start creates the first key."""
    from wardround.secure_aggregation.keys.key_log import KeyLog
    from wardround.secure_aggregation.keys.key_service import KeyRequestHandler, KeyService
    from wardround.secure_aggregation.keys.limits import Limits
    from wardround.secure_aggregation.keys.party import parse_address
    from wardround.secure_aggregation.keys.peers import fingerprint_of

    opened = _issuer(kit)
    if opened.role != "keys":
        raise UsageError(f"{kit.name} is the kit of a site; the key service has a kit of its own")
    epochs = _epochs(opened, passphrase_file, keyring=keyring, create=True)
    handler = KeyRequestHandler(epochs, KeyLog(opened.files.log), study=opened.study_digest, sites=opened.plan.sites)
    host, port = parse_address(opened.plan.keys)
    limits = Limits(strangers_per_address=per_address)
    with KeyService(handler, opened.files, host=host, port=port, limits=limits):
        typer.echo(f"epoch {epochs.state().current} of {opened.plan.study} at {opened.plan.keys}; log keys.jsonl")
        own = fingerprint_of(opened.certificate.read_bytes())
        typer.echo(f"Sites see this fingerprint; send it by another channel:\n{own}")
        stopped = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stopped.set())
        while not stopped.wait(0.5):
            pass


@app.command()
def rotate(
    kit: KitFolder,
    at_once: Annotated[
        bool, typer.Option("--at-once", help="A key was exposed: end the previous epoch as well.")
    ] = False,
    passphrase_file: PassphraseFile = None,
    json: Json = False,
) -> None:
    """Start a new epoch with a new key, which a running service serves from then on."""
    from wardround.secure_aggregation.keys.material import new_secret

    opened = _issuer(kit)
    _show_new_epoch(opened, "rotate", _epochs(opened, passphrase_file).rotate(new_secret, at_once=at_once), json=json)


@app.command()
def revoke(kit: KitFolder, site: SiteName, passphrase_file: PassphraseFile = None, json: Json = False) -> None:
    """Exclude a site and start a new epoch for which it has no key."""
    from wardround.secure_aggregation.keys.material import new_secret

    opened = _issuer(kit)
    _check_site(opened, site)
    _show_new_epoch(opened, f"revoke {site}", _epochs(opened, passphrase_file).revoke(site, new_secret), json=json)


@app.command()
def admit(
    kit: KitFolder,
    site: SiteName,
    fingerprint: Annotated[
        str, typer.Option(help="Fingerprint of the site's certificate, if there were several requests.")
    ] = "",
    passphrase_file: PassphraseFile = None,
    json: Json = False,
) -> None:
    """Admit a site again that was revoked or has a new certificate."""
    opened = _issuer(kit)
    _check_site(opened, site)
    chosen = _epochs(opened, passphrase_file).admit(site, fingerprint)
    _record(opened, f"admit {site}", chosen)
    with printed(json) as result:
        result.line(f"{site} may ask again", site=site, fingerprint=chosen)
        if chosen:
            result.line(f"Compare this fingerprint with the site, by telephone; `revoke` if it is another:\n{chosen}")


@app.command()
def issue(
    kit: KitFolder,
    certificates: Annotated[
        Path, typer.Option(help="The folder of the sites' certificates, NAME.crt.", exists=True, file_okay=False)
    ],
    out: Annotated[Path, typer.Option(help="The folder for the copies.", file_okay=False)],
    passphrase_file: PassphraseFile = None,
    keyring: KeyringOption = False,
    json: Json = False,
) -> None:
    """Encrypt a copy of the current key for each site's certificate, to be sent; the first call creates the key."""
    from wardround.secure_aggregation.keys.copies import read_certificates, seal_copies

    opened = _issuer(kit)
    epochs = _epochs(opened, passphrase_file, keyring=keyring, create=True)
    found = read_certificates(certificates, sites=opened.plan.sites, root=opened.root.read_bytes())
    sealed = seal_copies(epochs, found, study=opened.study_digest, root=opened.root.read_bytes(), out=out)
    folder = out.resolve().name
    with printed(json) as result:
        result.declare("copies", "without_copy")
        for copy, fingerprint in sealed:
            _record(opened, f"copy for {copy.site}", fingerprint, epoch=copy.epoch)
            line = f"{folder}/{copy.file_name}: for {copy.site}, whose certificate is\n  {fingerprint}"
            made = {"site": copy.site, "file": out / copy.file_name, "fingerprint": fingerprint}
            result.item(line, copies=made)
        line = f"{folder}/parameters.json: for the coordinator; it holds no secret"
        result.line(line, parameters=out / "parameters.json")
        for missing in sorted(set(opened.plan.sites) - {copy.site for copy, _ in sealed}):
            line = f"{missing} gets no copy: it was revoked, or its certificate is not there"
            result.item(line, without_copy=missing)
        parameters = epochs.parameters()
        result.line("Compare each fingerprint with its site by telephone, before the copy is sent.")
        line = f"Sites will see epoch {parameters.epoch} and this id; say it by telephone as well:\n{parameters.id}"
        result.line(line, epoch=parameters.epoch, id=parameters.id)


@app.command()
def show(kit: KitFolder, passphrase_file: PassphraseFile = None, json: Json = False) -> None:
    """Show the current epoch and which site has which key."""
    opened = _issuer(kit)
    epochs = _epochs(opened, passphrase_file)
    parameters, state = epochs.parameters(), epochs.state()
    rows = tuple(
        (
            site,
            _key_status(state, site),
            ", ".join(map(str, state.given.get(site, ()))),
            _short(state.pinned.get(site, "")),
        )
        for site in opened.plan.sites
    )
    sites = [
        {
            "site": site,
            "state": _key_status(state, site),
            "epochs": list(state.given.get(site, ())),
            "certificate": state.pinned.get(site, ""),
        }
        for site in opened.plan.sites
    ]
    with printed(json) as result:
        line = f"epoch {parameters.epoch}, scheme {parameters.scheme}, id {parameters.id}"
        result.line(line, epoch=parameters.epoch, scheme=parameters.scheme, id=parameters.id)
        table = Table(opened.plan.study, ("site", "state", "epochs", "certificate"), rows)
        result.table("sites", table, sites)


@app.command()
def log(
    kit: KitFolder,
    last: Annotated[int, typer.Option(min=1, help="How many of the newest lines to show.")] = 50,
    json: Json = False,
) -> None:
    """Show who requested what, and the outcome, newest last."""
    from wardround.secure_aggregation.keys.key_log import read_log

    opened = _issuer(kit)
    lines = deque(read_log(opened.files.log), maxlen=last)
    rows = tuple(
        (
            f"{datetime.fromtimestamp(line.time, UTC):%Y-%m-%d %H:%M:%S}",
            line.who or ("here" if line.outcome == "done" else "a stranger"),
            line.asked,
            str(line.epoch or ""),
            line.outcome,
            line.address,
            _short(line.certificate),
        )
        for line in lines
    )
    with printed(json) as result:
        table = Table(opened.files.log.name, _LOG_COLUMNS, rows)
        result.table("lines", table, [asdict(line) for line in lines])


def _issuer(kit: Path) -> Kit:
    """Return the kit of the party that issues keys: the key service or, offline, a site; never the coordinator."""
    with require_flare():
        from wardround.provisioning.kits import read_kit
    opened = read_kit(kit)
    if opened.role == "coordinator":
        raise UsageError(f"{kit.name} is the coordinator's kit; the coordinator never holds keys, another party does")
    return opened


def _epochs(kit: Kit, passphrase_file: Path | None, *, keyring: bool = False, create: bool = False) -> Epochs:
    """Open the kit's epochs, or create them with the first key; refuse a state that is older than the log."""
    from wardround.secure_aggregation.keys.material import new_secret
    from wardround.secure_aggregation.keys.passphrase import lock_from
    from wardround.secure_aggregation.keys.recovery import check_not_older, logged_state
    from wardround.secure_aggregation.keys.service_state import Epochs

    path, digest = kit.files.epochs, kit.study_digest
    logged = logged_state(kit.files.log, digest)
    if path.exists():
        found = Epochs.open(path, lock_from(passphrase_file), study=digest)
        check_not_older(found.state(), logged)
        return found
    if not create:
        raise UsageError(f"{kit.path.name} has no keys yet; `wardround keys serve` or `keys issue` makes the first")
    lock = lock_from(passphrase_file, keyring=keyring)
    from wardround.studies.study_file import key_scheme, parse_study  # heavy; needed only for the first key

    study = parse_study(kit.study.decode(), generated=True)
    if not study.privacy.protection.seals:
        raise UsageError(
            f"{kit.plan.study} seals nothing ([privacy] mechanism {study.privacy.mechanism}); it has no keys"
        )
    return Epochs.create(path, lock, study=digest, scheme=key_scheme(study), new=new_secret, logged=logged)


def _show_new_epoch(kit: Kit, what: str, parameters: PublicParameters, *, json: bool) -> None:
    _record(kit, what, epoch=parameters.epoch)
    with printed(json) as result:
        result.values(oldest=parameters.oldest)
        result.line(f"epoch {parameters.epoch}, id {parameters.id}", epoch=parameters.epoch, id=parameters.id)
        if parameters.oldest == parameters.epoch:
            result.line("Earlier keys are no longer used.")
        if not kit.plan.keys:
            result.line("Send every site its copy, and the coordinator the parameters: `wardround keys issue`.")


def _record(kit: Kit, what: str, certificate: str = "", *, epoch: int = 0) -> None:
    from wardround.secure_aggregation.keys.key_log import KeyLog

    KeyLog(kit.files.log).write(what, "done", certificate=certificate, epoch=epoch)


def _check_site(kit: Kit, site: str) -> None:
    if site not in kit.plan.sites:
        raise UsageError(f"{site} is no site of {kit.plan.study}; its sites are {', '.join(kit.plan.sites)}")


def _key_status(state: KeyState, site: str) -> str:
    if site in state.revoked:
        return "revoked"
    if site in state.waiting:
        return "refused: another certificate"
    return "has the key" if state.current in state.given.get(site, ()) else "has not asked"


def _short(fingerprint: str) -> str:
    """Return the beginning of a fingerprint, enough to distinguish two in a table."""
    return fingerprint.removeprefix("SHA256:")[:23]
