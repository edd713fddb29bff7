"""`wardround site`: take part in a networked study."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wardround.cli.options import Device, FormatOptions, SkipFaulty, chosen_format, format_settings
from wardround.cli.printing import Json, printed
from wardround.cli.provision import (
    Approval,
    KeyFolder,
    KeyringOption,
    KitFolder,
    PassphraseFile,
    Public,
    RequestFolder,
    SiteName,
    Vectors,
    make_kit,
    make_request,
    require_flare,
    show_status,
)
from wardround.corpora.skipped_faults import SkippedFaults
from wardround.corpora.type_names import nearest_type
from wardround.errors import UsageError
from wardround.text.plain_text import neutralise
from wardround.text.tag_sets import TagSet

if TYPE_CHECKING:
    from wardround.provisioning.kits import Kit

__all__ = ["app"]

app = typer.Typer(help="Take part in a networked study.", no_args_is_help=True)


@app.command()
def request(name: SiteName, out: KeyFolder, json: Json = False) -> None:
    """Create a private key and the request that the coordinator approves."""
    make_request(name, out, json=json)


@app.command()
def complete(folder: RequestFolder, approval: Approval, json: Json = False) -> None:
    """Join the key and the approval into a kit."""
    make_kit(folder, approval, json=json)


@app.command()
def review(
    kit: KitFolder,
    accept: Annotated[bool, typer.Option("--accept", help="Accept the study, so that the site answers.")] = False,
    by: Annotated[str, typer.Option("--by", help="Who accepts, for the record; by default the user's name.")] = "",
    vectors: Vectors = None,
    public: Public = None,
    audit: Annotated[
        bool, typer.Option("--audit", help="Also attack updates of this study, and show what they reveal.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(help="Notes for the audit, instead of built-in ones; only figures are shown.", exists=True),
    ] = None,
    format: Annotated[str, typer.Option("--format", help="The format of these notes.")] = "",
    option: FormatOptions = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="Also write the review as a page to this file.", dir_okay=False)
    ] = None,
    json: Json = False,
) -> None:
    """Explain what the study would do here and what would leave; the site answers only after it is accepted.

    A study that the site's own policy forbids is refused: site_policy.toml in the folder `site` of the kit.
    """
    with require_flare():
        from wardround.provisioning.kits import read_kit
        from wardround.studies import networked, site_agent
    from wardround.studies.audit_notes import training_notes
    from wardround.studies.site_policy import read_site_policy
    from wardround.studies.site_review import audit_for_review, write_review
    from wardround.studies.site_review import review as review_study

    if bool(data) != bool(format):
        raise UsageError("name the notes of the audit by --data and --format, or leave both out for built-in notes")
    opened = _site_kit(read_kit(kit))
    address = f"{opened.plan.host}:{opened.plan.port}"
    study = networked.study_of(opened, site_agent.LocalPaths(vectors, public))
    folder = site_agent.site_folder(opened)
    policy = read_site_policy(folder.path).leakage
    sections = review_study(study, opened.name, coordinator=address, policy=policy)
    notes = training_notes(data, chosen_format(format, option, data)) if data else ()
    findings = audit_for_review(study, folder, policy, notes, always=audit)
    if html is not None:
        write_review(html, study, sections, findings)
    with printed(json) as result:
        result.values(study=opened.plan.study, site=opened.name, coordinator=address)
        result.values(sections=[asdict(section) for section in sections])
        for section in sections:
            result.line(f"\n{section.heading}", bold=True)
            for line in section.lines:
                result.line(f"  {line}")
        if findings is not None:
            result.line("\nWhat updates reveal", bold=True)
            result.line(f"  {findings.sentence}")
            result.table("leakage", findings.table, findings.as_json())
        if accept:
            site_agent.accept(opened, by=by)
        accepted, how = site_agent.has_accepted(opened), site_agent.acceptance(opened)
        state = "Not accepted: add --accept to take part."
        if accepted:
            state = "Accepted." if how == "yes" else f"Accepted {how}."
        result.line("\n" + neutralise(state), accepted=accepted, acceptance=how)


@app.command()
def status(kit: KitFolder, json: Json = False) -> None:
    """Say whether the study was accepted and runs here, what left last, and where the model is."""
    with require_flare():
        from wardround.provisioning.kits import read_kit
        from wardround.studies.party_status import site_status
    with printed(json) as result:
        show_status(site_status(_site_kit(read_kit(kit))), result)


@app.command()
def start(
    kit: KitFolder,
    data: Annotated[Path | None, typer.Option(help="The notes: train, dev and test in a folder.", exists=True)] = None,
    format: Annotated[str, typer.Option("--format", help="The format of the notes.")] = "",
    option: FormatOptions = None,
    skip_faulty: SkipFaulty = False,
    built_in: Annotated[str, typer.Option(help="For a rehearsal: a synthetic hospital instead of notes.")] = "",
    names: Annotated[
        Path | None,
        typer.Option(
            help="A mapping file from the type names of the notes to those of the study.", exists=True, dir_okay=False
        ),
    ] = None,
    vectors: Vectors = None,
    public: Public = None,
    device: Device = "auto",
    threads: Annotated[int, typer.Option(help="Threads for the training.", min=1)] = 1,
    passphrase_file: PassphraseFile = None,
) -> None:
    """Take part in the study to its end. The location of the notes stays here; Ctrl-C stops without losing anything."""
    with require_flare():
        from wardround.federation.engines.flare.supervisor import exec_supervisor
        from wardround.provisioning.kits import read_kit
        from wardround.studies import networked, site_agent
    from wardround.secure_aggregation.keys.passphrase import export_passphrase
    from wardround.studies.study_file import SiteSection
    from wardround.studies.study_notes import load_notes, public_documents

    if bool(data) == bool(built_in) or bool(data) != bool(format):
        raise UsageError("name the notes by --data and --format, or a synthetic hospital by --built-in")
    opened = _site_kit(read_kit(kit))
    if not site_agent.has_accepted(opened):
        raise UsageError(f"the study was not accepted; read `wardround site review {kit.name}`, then add --accept")
    format, options = format_settings(format, option, data)
    notes = SiteSection(data and data.resolve(), format, options, built_in, names, skip_faulty=skip_faulty)
    paths = site_agent.LocalPaths(vectors, public)
    study = networked.study_of(opened, paths)
    # Read the notes now, while the user can see an error; later the site would only be absent, with an error code.
    seed, tag_set, faults = study.study.seed, study.task.tag_set, SkippedFaults()
    read = load_notes(opened.name, notes, seed=seed, types=study.types, tag_set=tag_set, faults=faults)
    for sentence in faults.sentences():
        typer.echo(neutralise(sentence))
    types = study.types if study.sites[opened.name].types else ()
    # Print type names that the study does not know, so that they can be mapped; this is shown only here.
    for kind, count in (TagSet(tuple(types)).count_other_types(read.train) if types else {}).items():
        near = nearest_type(kind, types)
        typer.echo(neutralise(f"not learned: {count:,} of {kind!r}, which is no type of the study{near}; see --names"))
    public_documents(study)
    export_passphrase(passphrase_file, opened.files.vault)
    networked.SiteChoice(notes, device, threads, paths).write_spec(opened)
    typer.echo(f"{opened.name} takes part in {opened.plan.study}; coordinator {opened.plan.host}:{opened.plan.port}")
    typer.echo(f"ledger  {site_agent.site_folder(opened).path / 'ledger.jsonl'}")
    raise typer.Exit(exec_supervisor(site_agent.party_command("site", kit)))


@app.command(hidden=True)
def work(kit: KitFolder) -> None:
    """Do the work of `start`, which runs this command again if it dies."""
    with require_flare():
        from wardround.provisioning.kits import read_kit
        from wardround.studies.site_agent import take_part
    raise typer.Exit(take_part(read_kit(kit)))


@app.command()
def key(
    kit: KitFolder,
    file: Annotated[
        Path | None, typer.Argument(help="The copy of the key that was sent to this site.", dir_okay=False)
    ] = None,
    passphrase_file: PassphraseFile = None,
    keyring: KeyringOption = False,
    new_service: Annotated[
        bool, typer.Option("--new-service", help="The key service has a new certificate; accept it.")
    ] = False,
    json: Json = False,
) -> None:
    """Store the study's sealing key in this site's vault, from a copy that was sent or from the key service."""
    with require_flare():
        from wardround.provisioning.kits import read_kit
    from wardround.secure_aggregation.keys.copies import SealedCopy
    from wardround.secure_aggregation.keys.party import SiteKeys
    from wardround.secure_aggregation.keys.passphrase import lock_from
    from wardround.secure_aggregation.keys.peers import fingerprint_of

    opened = _site_kit(read_kit(kit))
    if file is None and not opened.plan.keys:
        raise UsageError("the study has no key service; name the file with the copy of the key that was sent")
    if new_service:
        opened.files.service.unlink(missing_ok=True)
    lock = lock_from(passphrase_file, keyring=keyring and not opened.files.vault.exists())
    keys = SiteKeys(opened.files, study=opened.study_digest, service=opened.plan.keys, lock=lock)
    with printed(json) as result:
        if file is not None:
            secret = keys.load_copy(SealedCopy.from_bytes(file.read_bytes()), opened.name)
            line = f"epoch {secret.epoch}; compare this id by telephone with the issuer:\n{secret.id}"
            result.line(line, epoch=secret.epoch, id=secret.id)
        else:
            parameters, _ = keys.current()
            service = opened.files.service.read_text(encoding="ascii").strip()
            line = f"epoch {parameters.epoch}, id {parameters.id}"
            result.line(line, epoch=parameters.epoch, id=parameters.id)
            line = f"Compare this fingerprint by telephone with the operator of the key service:\n{service}"
            result.line(line, service=service)
        own = fingerprint_of(opened.certificate.read_bytes())
        line = f"The fingerprint of this site's own certificate, if somebody asks for it:\n{own}"
        result.line(line, fingerprint=own)


def _site_kit(kit: Kit) -> Kit:
    """Return the kit if it is a site's."""
    if kit.role == "keys":
        raise UsageError(f"{kit.path.name} is the kit of the key service; `wardround keys serve` takes it")
    if kit.role != "site":
        raise UsageError(f"{kit.path.name} is the coordinator's kit; `wardround coordinator start` takes it")
    return kit
