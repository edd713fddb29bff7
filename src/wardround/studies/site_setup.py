"""A site of a study, opened where its notes are."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from wardround.corpora.formats import open_format
from wardround.corpora.type_names import read_type_names, renamed
from wardround.errors import CorpusError, StudyError, UsageError
from wardround.federation.ledger import Ledger
from wardround.federation.message import Message
from wardround.federation.request_handler import RequestHandler
from wardround.federation.request_policy import RequestPolicy
from wardround.federation.site_runtime import Site, SiteNotes
from wardround.models.saved import save_model
from wardround.secure_aggregation.replica import Replica
from wardround.studies.aggregation_setup import client_of, payload_of
from wardround.studies.assemble import coordinator_of, model_of, task_on
from wardround.studies.note_counts import write_note_counts
from wardround.studies.protection import Protection
from wardround.studies.public_set import public_set
from wardround.studies.run_folder import RunFolder
from wardround.studies.shared_model_pool import SharedModelPool
from wardround.studies.single_site import SiteData, load_site
from wardround.studies.study_file import SiteSection, Study
from wardround.studies.synthetic_sites import built_in_hospital
from wardround.tasks.task import Task, TaskScore
from wardround.tasks.task_table import TASKS
from wardround.text.tag_sets import TagSet

__all__ = [
    "LEDGER",
    "annotated_at",
    "check_place",
    "load_notes",
    "open_door",
    "open_here",
    "open_site",
    "request_policy_of",
]

LEDGER = "ledger.jsonl"
_NOTES = "notes.json"


def check_place(name: str, section: SiteSection, *, types: Sequence[str] = ()) -> None:
    """Refuse notes that are nowhere, and names that map onto none of the study's `types`; no note is read."""
    _check_data(name, section)
    _names(name, section, types)


def _check_data(name: str, section: SiteSection) -> None:
    if not section.built_in and section.data is None:
        raise StudyError(f"[sites.{name}] says not where its notes are: it needs data and format, or built_in")
    if section.data is not None and not section.data.exists():
        raise StudyError(f"[sites.{name}] data: {section.data.name} does not exist")


def load_notes(name: str, section: SiteSection, *, seed: int, types: Sequence[str] = (), tag_set: str = "") -> SiteData:
    """The notes a study file points at, under the names that the study, whose `types` these are, has for types.

    A `tag_set` of what identifies people renames the types of other such sets; a site's own mapping file goes first.
    """
    _check_data(name, section)
    names = _names(name, section, types)
    notes = _notes_as_they_are(section, seed)
    if names:
        notes = SiteData(renamed(notes.train, names), renamed(notes.dev, names), renamed(notes.test, names))
    return notes.in_tag_set(tag_set)


def _notes_as_they_are(section: SiteSection, seed: int) -> SiteData:
    if not section.built_in:
        assert section.data is not None, "it was looked for"
        return load_site(section.data, open_format(section.format, dict(section.options))).data
    hospital = built_in_hospital(section.built_in, seed)
    if set(section.scored) <= set(section.types):
        return SiteData(hospital.train, hospital.dev, hospital.test)
    # What a hospital trains on holds its own types alone; what it is scored on, all that the study says.
    scored, complete = TagSet(section.scored), hospital.complete
    return SiteData(hospital.train, *(tuple(map(scored.restrict, part)) for part in (complete.dev, complete.test)))


def _names(name: str, section: SiteSection, types: Sequence[str]) -> dict[str, str]:
    try:
        return {} if section.names is None else read_type_names(section.names, types)
    except CorpusError as error:
        raise StudyError(f"[sites.{name}] names: {error}") from None


def open_site(
    study: Study,
    name: str,
    data: SiteData,
    *,
    folder: Path,
    device: torch.device,
    lasting: bool = False,
    protection: Protection | None = None,
    lending: SharedModelPool | None = None,
) -> Site:
    """The site as the study describes it, going on from what lies in its folder; without `lending`, all is its own."""
    section = study.sites[name]
    data = data.with_dev(study.study.seed)
    types = annotated_at(study, name, data)
    data = _fraction_of(data, name, study)
    if lending is None:
        model = model_of(study, types, scheme=section.scheme, encoder=section.encoder).to(device)
    else:
        model = lending.network(types, scheme=section.scheme, encoder=section.encoder)
    task = task_on(study, model, types, scored=TagSet(section.scored) if section.scored else None)
    train = task.encode(data.train)
    _check_enough(study, name, len(train))
    _tell_owner(folder, {"examples": len(train), **task.alignment_losses, **_unknown(study, types, data)})
    public = public_set(study, task) if lending is None else lending.public(task)
    state = folder / "state"
    return Site(
        name,
        task,
        SiteNotes(train, data.dev, data.test, public),
        aggregation=client_of(
            study, name, payload_of(study, task, public), folder=state, protection=protection, lasting=lasting
        ),
        steps=study.algorithm.kind.steps,
        folder=state,
        seed=study.study.seed,
        request_policy=request_policy_of(study),
        lasting=lasting,
        keeps_last=study.keeps_last,
        replica=_replica(study) if study.shared_at_sites and model.shared_parameters() else None,
        on_finish=_keeper(folder, lending),
    )


def _fraction_of(data: SiteData, name: str, study: Study) -> SiteData:
    """What the site trains on; its types are those of all its notes, so that fractions are scored alike."""
    try:
        return data.with_fraction(study.sites[name].fraction, study.study.seed)
    except UsageError as error:
        raise StudyError(f"[sites.{name}] fraction: {error}") from None


def _replica(study: Study) -> Replica:
    """A site's copy of the shared half; it may have to be told what that begins from."""
    return Replica(coordinator_of(study), study.model.start_sha256)


def annotated_at(study: Study, name: str, data: SiteData) -> TagSet:
    """The types of entities that a site annotates; where entities are given, nobody asks."""
    if not study.task.tags:
        return TagSet(study.types)  # those of the study, at every site
    types = study.sites[name].types or TagSet.of(data.train).types
    if not types:
        raise StudyError(f"[sites.{name}]: its training notes hold no entity to learn from")
    return TagSet(types)


def _unknown(study: Study, types: TagSet, data: SiteData) -> dict[str, dict[str, int]]:
    """Mentions in the training notes whose type nobody in the study knows: they are not learned."""
    found = (types | TagSet(study.types)).count_other_types(data.train) if study.task.tags else {}
    return {"unknown_types": found} if found else {}


def request_policy_of(study: Study) -> RequestPolicy:
    """What a site of the study may be asked."""
    config, training = study.algorithm.config, study.training
    fixed = {**training.constant_settings(), **study.algorithm.kind.constant_settings(config)}
    return RequestPolicy(
        config.rounds,
        fixed,
        training.highest(),
        study.privacy.fewest_sentences,
        len(study.sites),
        frozenset(study.sites),
    )


def open_here(
    study: Study,
    name: str,
    folder: Path,
    *,
    device: torch.device,
    lasting: bool = False,
    ledger: bool = False,
    protection: Protection | None = None,
    lending: SharedModelPool | None = None,
) -> RequestHandler:
    """A site whose notes its section points at; among hospitals, `lasting`, its door always writes its ledger."""
    notes = load_notes(name, study.sites[name], seed=study.study.seed, types=study.types, tag_set=study.task.tag_set)
    site = open_site(
        study, name, notes, folder=folder, device=device, lasting=lasting, protection=protection, lending=lending
    )
    return open_door(study, site, folder, lasting=lasting) if lasting or ledger else RequestHandler(site)


def open_door(study: Study, site: Site, folder: Path, *, lasting: bool) -> RequestHandler:
    """The site behind a door that writes its ledger."""
    ledger = Ledger(folder / LEDGER, lasting=lasting)

    def send(answer: Message, step: str, round_number: int) -> bytes:
        return ledger.record(
            answer,
            study=study.study.name,
            step=step,
            round_number=round_number,
            mechanism=study.privacy.mechanism,
        )

    def refuse(code: str, step: str, round_number: int) -> None:
        ledger.record_refusal(
            code,
            study=study.study.name,
            step=step,
            round_number=round_number,
            mechanism=study.privacy.mechanism,
        )

    return RequestHandler(site, send, refuse)


def _check_enough(study: Study, name: str, examples: int) -> None:
    least = study.privacy.smallest_batch
    if examples < least:
        kind = TASKS[study.task.kind].examples
        raise StudyError(
            f"[sites.{name}]: its training notes hold {examples} {kind}; [privacy] smallest_batch wants {least}"
        )


def _tell_owner(folder: Path, figures: Mapping[str, Any]) -> None:
    """What the training notes gave, and what of their annotation was lost: in the site's folder, and told to nobody."""
    path = folder / _NOTES
    if not path.is_file() or path.read_text(encoding="utf-8") != json.dumps(figures, indent=2) + "\n":
        RunFolder(folder).write_json(_NOTES, figures)


def _keeper(folder: Path, lending: SharedModelPool | None) -> Callable[[Task, TaskScore], None]:
    write = save_model if lending is None else lending.keep

    def keep(task: Task, score: TaskScore) -> None:
        notes = {f"{reading}_f1": counts.micro.f1 for reading, counts in score.counts.items()}
        write(task.model, RunFolder(folder).model, notes=notes)
        write_note_counts(RunFolder(folder), score)

    return keep
