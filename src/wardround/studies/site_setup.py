"""A site of a study, opened where its notes are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from wardround.errors import StudyError, UsageError
from wardround.federation.ledger import Ledger
from wardround.federation.message import Message
from wardround.federation.site_runtime import RequestPolicy, Site, SiteNotes
from wardround.federation.worker_process import RequestHandler
from wardround.models.saved import save_model
from wardround.secure_aggregation.replica import Replica
from wardround.studies.aggregation_setup import client_of, payload_of
from wardround.studies.assemble import coordinator_of, model_of, task_on
from wardround.studies.leakage_policy import check_update_size
from wardround.studies.note_counts import write_note_counts
from wardround.studies.party_keys import PartyKeys
from wardround.studies.privacy_units import check_patients, units_of
from wardround.studies.run_folder import RunFolder
from wardround.studies.shared_model_pool import SharedModelPool
from wardround.studies.single_site import SiteData, calibration_notes
from wardround.studies.site_policy import SitePolicy
from wardround.studies.study_file import Study
from wardround.studies.study_notes import annotated_at, load_notes, public_set
from wardround.tasks.task import Example, Task, TaskScore
from wardround.text.tag_sets import TagSet

__all__ = ["LEDGER", "open_here", "open_site", "request_policy_of", "with_ledger"]

LEDGER = "ledger.jsonl"
_NOTES = "notes.json"


def open_here(
    study: Study,
    name: str,
    folder: Path,
    *,
    device: torch.device,
    durable: bool = False,
    ledger: bool = False,
    party_keys: PartyKeys | None = None,
    model_pool: SharedModelPool | None = None,
    site_policy: SitePolicy | None = None,
) -> RequestHandler:
    """Open a site whose notes its section names.

    `durable` is for a site of a networked study: it writes its state before it answers, and always writes its ledger.
    Such a site has a `site_policy` of its own.
    """
    notes = load_notes(name, study.sites[name], seed=study.study.seed, types=study.types, tag_set=study.task.tag_set)
    site = open_site(
        study,
        name,
        notes,
        folder=folder,
        device=device,
        durable=durable,
        party_keys=party_keys,
        model_pool=model_pool,
        site_policy=site_policy,
    )
    return with_ledger(study, site, folder, durable=durable) if durable or ledger else RequestHandler(site)


def open_site(
    study: Study,
    name: str,
    data: SiteData,
    *,
    folder: Path,
    device: torch.device,
    durable: bool = False,
    party_keys: PartyKeys | None = None,
    model_pool: SharedModelPool | None = None,
    site_policy: SitePolicy | None = None,
) -> Site:
    """Open a site that resumes from the state in its folder; with a `model_pool` it may share a network."""
    section = study.sites[name]
    data = data.with_dev(study.study.seed)
    types = annotated_at(study, name, data)  # of all its notes, so that fractions are scored on the same types
    try:
        data = data.with_fraction(section.fraction, study.study.seed)
    except UsageError as error:
        raise StudyError(f"[sites.{name}] fraction: {error}") from None
    if model_pool is None:
        model = model_of(study, types, scheme=section.scheme, encoder=section.encoder).to(device)
    else:
        model = model_pool.network(types, scheme=section.scheme, encoder=section.encoder)
    task = task_on(study, model, types, scored=TagSet(section.scored) if section.scored else None)
    train = task.encode(data.train)
    least = study.privacy.smallest_batch
    if len(train) < least:
        held = f"{len(train)} {study.task.examples}"
        raise StudyError(f"[sites.{name}]: its training notes hold {held}; [privacy] smallest_batch requires {least}")
    units = _units(study, task, data, train)
    _write_note_figures(folder, study, types, data, task, examples=len(train))
    public = public_set(study, task) if model_pool is None else model_pool.public(task)
    has_replica = study.shared_at_sites and bool(model.shared_parameters())
    write_model = save_model if model_pool is None else model_pool.save

    def on_finish(task: Task, score: TaskScore) -> None:
        notes = {f"{mode}_f1": counts.micro.f1 for mode, counts in score.counts.items()}
        notes |= calibration_notes(task, data.dev)
        write_model(task.model, RunFolder(folder).model, notes=notes)
        write_note_counts(RunFolder(folder), score)

    state, budget = folder / "state", (site_policy or SitePolicy()).differential_privacy.epsilon
    payload = payload_of(study, task, public)
    return Site(
        name,
        task,
        SiteNotes(train, data.dev, data.test, public, units),
        aggregation=client_of(
            study, name, payload, folder=state, party_keys=party_keys, durable=durable, budget=budget
        ),
        steps=study.algorithm.kind.site_steps,
        folder=state,
        seed=study.study.seed,
        request_policy=_with_own_policy(study, site_policy, task, train),
        durable=durable,
        keeps_last=study.keeps_last,
        replica=Replica(coordinator_of(study), study.model.start_sha256) if has_replica else None,
        on_finish=on_finish,
    )


def _units(study: Study, task: Task, data: SiteData, train: Sequence[Example]) -> Sequence[Sequence[int]]:
    """Return the units of differential privacy among the site's training examples; empty without it."""
    settings = study.privacy.differential_privacy
    if settings is None:
        return ()
    if settings.unit == "patient":
        check_patients(data)
    units = units_of(task, data.train, settings.unit)
    if len(units or train) * settings.delta > 1:
        raise StudyError(
            f"[privacy.differential_privacy] delta is {settings.delta:g}; it must be at most one over the units"
        )
    return units


def _write_note_figures(
    folder: Path, study: Study, types: TagSet, data: SiteData, task: Task, *, examples: int
) -> None:
    """Write for the site's owner what the training notes contain and which annotation was lost; it is not sent."""
    unknown = (types | TagSet(study.types)).count_other_types(data.train) if study.task.only_tags_words else {}
    figures = {"examples": examples, **task.alignment_losses, **({"unknown_types": unknown} if unknown else {})}
    path = folder / _NOTES
    if not path.is_file() or path.read_text(encoding="utf-8") != json.dumps(figures, indent=2) + "\n":
        RunFolder(folder).write_json(_NOTES, figures)


def request_policy_of(study: Study) -> RequestPolicy:
    """Return what a coordinator may ask of a site of the study."""
    config, training = study.algorithm.config, study.training
    return RequestPolicy(
        config.rounds,
        {**training.constant_settings(), **study.algorithm.kind.constant_settings(config)},
        training.highest(),
        study.privacy.fewest_sentences,
        len(study.sites),
        frozenset(study.sites),
    )


def _with_own_policy(study: Study, policy: SitePolicy | None, task: Task, train: Sequence[Example]) -> RequestPolicy:
    """Return the request policy with the limits of the site's owner; raise a `StudyError` if they cannot be kept."""
    agreed = request_policy_of(study)
    if policy is None:
        return agreed
    fewest = check_update_size(study, policy.leakage, task.model, words=[task.tokens(example) for example in train])
    return replace(agreed, fewest_tokens=fewest)


def with_ledger(study: Study, site: Site, folder: Path, *, durable: bool) -> RequestHandler:
    """Return a handler that writes each answer and refusal of the site to its ledger before it is sent."""
    ledger = Ledger(folder / LEDGER, durable=durable)
    name, mechanism = study.study.name, study.privacy.mechanism

    privacy = site.unit_privacy

    def send(answer: Message, step: str, round_number: int) -> bytes:
        epsilon = None if privacy is None else privacy.epsilon
        return ledger.record(
            answer, study=name, step=step, round_number=round_number, mechanism=mechanism, epsilon=epsilon
        )

    def refuse(code: str, step: str, round_number: int) -> None:
        ledger.record_refusal(code, study=name, step=step, round_number=round_number, mechanism=mechanism)

    return RequestHandler(site, send, refuse)
