"""`wardround coordinator`: coordinate a networked study."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wardround.cli.options import Track, listed
from wardround.cli.printing import Json, printed
from wardround.cli.provision import (
    Days,
    Host,
    KeysAddress,
    KitFolder,
    Port,
    Public,
    StudyFile,
    Vectors,
    require_flare,
    show_status,
)
from wardround.errors import UsageError

if TYPE_CHECKING:
    from wardround.provisioning.kits import Kit

__all__ = ["app"]

app = typer.Typer(help="Coordinate a networked study.", no_args_is_help=True)
Start = Annotated[
    Path | None,
    typer.Option(help="The saved model that the study starts from.", exists=True, file_okay=False),
]


@app.command("open")
def open_consortium(
    study: StudyFile,
    out: Annotated[Path, typer.Option(help="The folder of the consortium; must be new or empty.", file_okay=False)],
    host: Host,
    port: Port = 8002,
    days: Days = 365,
    keys: KeysAddress = "",
    json: Json = False,
) -> None:
    """Create the study's certificate authority and the coordinator's kit; sites request theirs."""
    with require_flare():
        from wardround.provisioning import kits
        from wardround.studies.networked import plan_kits
    plan, content = plan_kits(study, host=host, port=port, days=days, keys=keys)
    kit = kits.read_kit(kits.open_consortium(plan, content, out))
    with printed(json) as result:
        result.line(f"{out.resolve().name}/{kit.path.name}: the coordinator's kit", kit=kit.path)
        line = f"{out.resolve().name}/authority: the owner of this folder decides who takes part; keep it secret"
        result.line(line, authority=out / "authority")
        line = f"Each site will see this fingerprint; send it by another channel than the approval:\n{kit.fingerprint}"
        result.line(line, fingerprint=kit.fingerprint)


@app.command()
def approve(
    consortium: Annotated[Path, typer.Argument(help="The folder that `open` created.", exists=True, file_okay=False)],
    request: Annotated[
        Path, typer.Argument(help="The file that a site or the key service sent.", exists=True, dir_okay=False)
    ],
    out: Annotated[Path, typer.Option(help="The folder for the approval.", file_okay=False)] = Path(),
    again: Annotated[bool, typer.Option("--again", help="The site lost its key and requests a second kit.")] = False,
    json: Json = False,
) -> None:
    """Approve the request of a site; first ask the site whether the request is its own."""
    with require_flare():
        from wardround.provisioning import kits
    approval = kits.approve(consortium, request, out, again=again)
    party = "key service" if approval.name.startswith(f"{kits.KEYS}.") else "site"
    with printed(json) as result:
        result.line(f"{approval.name}: send it to the {party}; it holds no key", approval=approval, party=party)


@app.command()
def start(
    kit: KitFolder,
    vectors: Vectors = None,
    public: Public = None,
    start: Start = None,
    track: Track = "",
    again: Annotated[
        bool, typer.Option("--again", help="Also if the study has finished: score it again and end it at the sites.")
    ] = False,
) -> None:
    """Run or resume the study to its end. Ctrl-C stops it without losing anything."""
    with require_flare():
        from wardround.federation.engines.flare.supervisor import exec_supervisor
        from wardround.provisioning.kits import read_kit
        from wardround.studies.networked import coordinator_study
        from wardround.studies.party_status import has_finished
        from wardround.studies.site_agent import LocalPaths, party_command
    from wardround.studies.assemble import check_start
    from wardround.studies.study_notes import public_documents
    from wardround.tracking.feeding import check_trackers

    paths, opened = LocalPaths(vectors, public, start), _coordinator_kit(read_kit(kit))
    if has_finished(opened) and not again:
        typer.echo(f"the study has finished; report {opened.path / 'run' / 'report.html'}; --again scores it once more")
        return
    study = coordinator_study(opened, paths)
    check_start(study)  # now, while the user can see the error
    public_documents(study)
    check_trackers(listed(track) or ())
    tracking = ("--track", track) if track else ()
    raise typer.Exit(exec_supervisor((*party_command("coordinator", kit, paths), *tracking)))


@app.command()
def status(kit: KitFolder, json: Json = False) -> None:
    """Say whether the study waits, runs, was stopped or has finished, in which round, and which sites were absent."""
    with require_flare():
        from wardround.provisioning.kits import read_kit
        from wardround.studies.party_status import coordinator_status
    with printed(json) as result:
        show_status(coordinator_status(_coordinator_kit(read_kit(kit))), result)


@app.command(hidden=True)
def work(
    kit: KitFolder, vectors: Vectors = None, public: Public = None, start: Start = None, track: Track = ""
) -> None:
    """Do the work of `start`, which runs this command again if it dies."""
    with require_flare():
        from wardround.provisioning.kits import read_kit
        from wardround.studies.networked import run_coordinator
        from wardround.studies.site_agent import LocalPaths
    raise typer.Exit(
        run_coordinator(
            _coordinator_kit(read_kit(kit)), LocalPaths(vectors, public, start), trackers=listed(track) or ()
        )
    )


@app.command()
def key(
    kit: KitFolder,
    file: Annotated[Path, typer.Argument(help="The `parameters.json` that was sent.", exists=True, dir_okay=False)],
    json: Json = False,
) -> None:
    """Record which key is in use, if keys are issued offline; a file that holds a secret is refused."""
    with require_flare():
        from wardround.provisioning.kits import read_kit
    from wardround.secure_aggregation.keys.material import PublicParameters, refuse_secrets
    from wardround.secure_aggregation.keys.party import CoordinatorKeys

    opened = _coordinator_kit(read_kit(kit))
    if opened.plan.keys:
        raise UsageError(f"the study has a key service at {opened.plan.keys}, which informs the coordinator itself")
    data = file.read_bytes()
    refuse_secrets(data)
    parameters = PublicParameters.from_json(data)
    CoordinatorKeys(opened.files, study=opened.study_digest).import_parameters(parameters)
    with printed(json) as result:
        result.line(f"epoch {parameters.epoch}, id {parameters.id}", epoch=parameters.epoch, id=parameters.id)


def _coordinator_kit(kit: Kit) -> Kit:
    """Return the kit if it is the coordinator's and holds no secret but the coordinator's own key."""
    from wardround.secure_aggregation.keys.material import refuse_secrets

    if kit.role == "keys":
        raise UsageError(f"{kit.path.name} is the kit of the key service; `wardround keys serve` takes it")
    if kit.role != "coordinator":
        raise UsageError(f"{kit.path.name} is the kit of a site; `wardround site start` takes it")
    refuse_secrets(kit.path, own=kit.key)
    return kit
