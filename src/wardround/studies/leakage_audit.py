"""The leakage audit: real updates of a study, what each reader would see of them, and the attacks on that.

Sites are opened as in a study on one machine and run the study's own steps, under its own mechanism. The audit watches
what they send and what is opened. As many sites answer as a sum has at least; the others of the study only say how many
examples they have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from wardround.errors import FederationError, MessageError
from wardround.federation.aggregation import Tensors, dense
from wardround.federation.coordinator import Coordinator
from wardround.federation.engines.in_process import InProcessFederation
from wardround.federation.federation import Quorum, SiteId
from wardround.federation.message import Array, Message, encode
from wardround.federation.site_runtime import Site
from wardround.federation.worker_process import BytesWorker, RequestHandler
from wardround.privacy.audit.crafted import Trap, trap_of
from wardround.privacy.audit.gradient_attacks import Attacked, Seen, attack, tokens_in
from wardround.privacy.audit.readers import TokenReader, reader_of
from wardround.studies.aggregation_setup import payload_of, server_of
from wardround.studies.assemble import common_task, coordinator_of
from wardround.studies.audit_notes import audit_notes, built_in_words
from wardround.studies.leakage_findings import BOTH, COORDINATOR, OTHER_SITE, Finding, LeakageFindings
from wardround.studies.party_keys import InMemoryKeys, PartyKeys
from wardround.studies.site_setup import open_site
from wardround.studies.study_file import Study, digest_of, key_scheme
from wardround.studies.study_notes import public_set
from wardround.tasks.task import Example, Task
from wardround.text.document import Document
from wardround.text.segmentation import words_of
from wardround.training.state_files import copy_into

__all__ = ["audit_leakage"]

_ROUNDS = 2  # in the first, LoRA layers start at zero and half of their gradients is zero


@dataclass
class _Update:
    """What one site computed in a round."""

    arrays: dict[str, Array] = field(default_factory=dict)
    examples: list[Example] = field(default_factory=list)
    share: float = 1.0  # of the mean


@dataclass
class _WatchedRound:
    """Everything that was computed and opened in one round."""

    number: int
    before: dict[str, Array]  # the shared half
    after: dict[str, Array] = field(default_factory=dict)
    mean: dict[str, Array] = field(default_factory=dict)  # as it was opened; empty if it stays sealed
    updates: dict[SiteId, _Update] = field(default_factory=dict)
    trap: Trap | None = None  # the layer that the coordinator built before the round


def audit_leakage(study: Study, notes: Sequence[Document] = (), *, rounds: int = _ROUNDS) -> LeakageFindings:
    """Run a few rounds of the study on built-in notes, or on `notes`, and the attacks of every reader.

    The result has figures only, nothing of the notes.
    """
    found = LeakageFindings.of(study, own_notes=bool(notes))
    if study.algorithm.kind.sends != "updates":
        return found
    study = _auditable(study)
    data = audit_notes(study, tuple(study.sites)[: study.privacy.minimum_sites], notes)
    task = common_task(study)
    documents = [document for each in data.values() for document in each.train]
    dictionary = {document.text[start:end] for document in documents for start, end in words_of(document)}
    reader = reader_of(task.model, task, sorted(dictionary | built_in_words(study)))
    if reader is None:
        return replace(found, not_attacked=type(task.model).__name__)
    findings = list[Finding]()
    with TemporaryDirectory(prefix="wardround-audit-") as folder:
        for watched in _watched_rounds(study, task, reader, data, Path(folder), rounds=rounds):
            shared = task.model.shared_parameters()
            copy_into(shared, {name: torch.from_numpy(watched.before[name].copy()) for name in shared})
            findings += _attacked(study, reader, watched)
    return replace(found, unit=reader.unit, findings=tuple(findings))


def _auditable(study: Study) -> Study:
    """Return the study with every site in each round, and from a start that every party can build."""
    config = replace(study.algorithm.config, participation=1.0)
    sites = {name: replace(section, fraction=1.0) for name, section in study.sites.items()}
    return replace(
        study,
        algorithm=replace(study.algorithm, config=config),
        model=replace(study.model, start_sha256=""),
        sites=sites,
    )


# The rounds, watched.


class _AbsentSite:
    """A site of the study that only says how many examples it has."""

    def __init__(self, examples: Callable[[], int]) -> None:
        self._examples = examples

    def answer_bytes(self, step: str, round_number: int, data: Any) -> bytes:
        """Answer the first question of a study, and no other."""
        if step != "describe":
            raise MessageError("absent")
        return encode(Message({"examples": self._examples(), "documents": 0}))

    def close(self) -> None:
        """Do nothing: there is no state."""


def _watched_rounds(
    study: Study, task: Task, reader: TokenReader, data: Mapping[SiteId, Any], folder: Path, *, rounds: int
) -> Iterator[_WatchedRound]:
    """Run rounds of the study; yield what was computed and opened in each.

    Where the coordinator sends the shared half, there is one more round, with a layer that it built for an attack.
    """
    study.privacy.protection.check_installed()
    watched = list[_WatchedRound]()
    sites: dict[SiteId, Site] = {}
    with ExitStack() as closing:
        party_keys = PartyKeys()
        if study.privacy.protection.seals:
            keys = InMemoryKeys.new(key_scheme(study))
            closing.callback(keys.close)
            party_keys = PartyKeys(secrets=keys, parameters=partial(keys.parameters, digest_of(study)))

        def open_named(name: SiteId) -> BytesWorker:
            if name not in data:
                return _AbsentSite(lambda: next(iter(sites.values())).unit_count)
            device = torch.device("cpu")
            site = open_site(study, name, data[name], folder=folder / name, device=device, party_keys=party_keys)
            sites[name] = site
            _watch(site, watched)
            return RequestHandler(site)

        public = public_set(study, task)
        coordinator = coordinator_of(study, task, public)
        server = server_of(study, payload_of(study, task, public), party_keys)
        if not study.shared_at_sites:
            _before_step(coordinator, watched)
        names = tuple(data) + tuple(name for name in study.sites if name not in data)
        federation = InProcessFederation(names, open_named, open_at_once=len(names))
        closing.callback(federation.close)
        running = coordinator.rounds(federation, server, Quorum(study.privacy.minimum_sites))
        for number in range(1, min(rounds + 1, study.algorithm.config.rounds) + 1):
            watched.append(_WatchedRound(number, _shared_half(study, coordinator, sites)))
            if number > rounds and not _build_trap(study, task, reader, coordinator, watched[-1]):
                return
            try:
                next(running)
            except FederationError as error:
                raise error from federation.fault
            now, weights = watched[-1], coordinator.weights_of(tuple(data))
            now.after = _shared_half(study, coordinator, sites)
            for name, update in now.updates.items():
                update.share = weights[name] / sum(weights.values())
            yield now


def _build_trap(
    study: Study, task: Task, reader: TokenReader, coordinator: Coordinator, watched: _WatchedRound
) -> bool:
    """Build a layer in the shared half that the coordinator sends; return whether it can."""
    trap = trap_of(reader, task.model, watched.before)
    if trap is None or study.shared_at_sites or not study.privacy.protection.coordinator_reads_sum:
        return False
    watched.trap, watched.before = trap, trap.built(reader, watched.before)
    copy_into(coordinator.shared, {name: torch.from_numpy(array) for name, array in watched.before.items()})
    return True


def _watch(site: Site, rounds: list[_WatchedRound]) -> None:
    """Note what a site draws, sends and opens in the running round."""

    def update_of() -> _Update:
        return rounds[-1].updates.setdefault(site.name, _Update())

    def drawn(rows: Sequence[int], *_given: Any, **_named: Any) -> None:
        update_of().examples += [site.notes.train[row] for row in rows]

    def sampled(units: Sequence[int], *_given: Any) -> None:
        rows = site.notes.units or [[row] for row in range(len(site.notes.train))]
        drawn([row for unit in units for row in rows[unit]])

    def announced(_answer: Message, update: Tensors, **_named: Any) -> None:
        unit = 1.0 if site.unit_privacy is None else site.unit_privacy.plan.unit
        shared = site.unit_privacy is not None and site.unit_privacy.plan.shared
        factor = unit if shared else 1.0
        update_of().arrays = {name: factor * dense(part).astype(np.float64) for name, part in update.items()}

    _after(site, "next_rows", drawn)
    _after(site, "announce", announced)
    if site.unit_privacy is not None:
        _after(site.unit_privacy, "sample", sampled)
    if site.replica is not None:
        _before_step(site.replica, rounds)


def _before_step(owner: Any, rounds: list[_WatchedRound]) -> None:
    """Note the mean with which a shared half is stepped, before the step, which may change it in place."""
    step = owner.step

    def call(mean: Mapping[str, Array], *given: Any, **named: Any) -> None:
        rounds[-1].mean = {name: array.astype(np.float64) for name, array in mean.items()}
        step(mean, *given, **named)

    owner.step = call


def _after(owner: Any, name: str, note: Callable[..., None]) -> None:
    """Have `note` receive the result and the arguments of each call of a method of one object."""
    method = getattr(owner, name)

    def call(*given: Any, **named: Any) -> Any:
        result = method(*given, **named)
        note(result, *given, **named)
        return result

    setattr(owner, name, call)


def _shared_half(study: Study, coordinator: Coordinator, sites: Mapping[SiteId, Site]) -> dict[str, Array]:
    """Return a copy of the shared half, from wherever it is."""
    if not study.shared_at_sites or not sites:
        return coordinator.arrays()
    replica = next(iter(sites.values())).replica
    assert replica is not None, "the sites of this study keep the shared half"
    return {name: array.copy() for name, array in replica.arrays(after=replica.number).items()}


# The readers.


@dataclass(frozen=True)
class _View:
    """What some readers see, and the sites whose notes are behind it and unknown to them."""

    readers: tuple[str, ...]
    what: str
    seen: Seen
    sites: tuple[SiteId, ...]


def _attacked(study: Study, reader: TokenReader, watched: _WatchedRound) -> Iterator[Finding]:
    """Yield the result of every attack of every reader on one round."""
    for view in _views(study, watched):
        examples = [example for name in view.sites for example in watched.updates[name].examples]
        sentences = reader.sentences(examples)
        if not sentences:
            continue
        if watched.trap is not None and view.readers == (OTHER_SITE,):
            continue  # who built the layer reads it
        if watched.trap is None:
            results = attack(reader, view.seen, sentences)
        else:
            results = [watched.trap.attack(reader, view.seen.arrays, tokens_in(reader, sentences))]
        for result in results:
            for name in view.readers:
                yield _finding(name, view, watched.number, result, sentences, reader)


def _finding(
    name: str, view: _View, number: int, result: Attacked, sentences: Sequence[Sequence[int]], reader: TokenReader
) -> Finding:
    return Finding(
        reader=name,
        what=view.what,
        attack=result.attack,
        round=number,
        sites=len(view.sites),
        sentences=len(sentences),
        tokens=sum(len(reader.words(sentence)) for sentence in sentences),
        different=len(tokens_in(reader, sentences)),
        recall=result.tokens.recall,
        precision=result.tokens.precision,
        chance=result.tokens.chance,
        whole=result.whole,
        length_found=result.length_found,
    )


def _views(study: Study, watched: _WatchedRound) -> Iterator[_View]:
    """Yield what each reader sees of a round; equal views are attacked once."""
    mechanism, names = study.privacy.protection, tuple(watched.updates)
    single = Seen(watched.updates[names[0]].arrays)
    mean = Seen(watched.mean)
    if mechanism.coordinator_reads_update:
        yield _View((COORDINATOR, BOTH), "one update", single, names[:1])
    elif mechanism.coordinator_reads_sum:
        yield _View((COORDINATOR,), "sum", mean, names)
    if mechanism.seals:
        others = _without_own(watched, names)
        yield _View((OTHER_SITE, *(() if mechanism.coordinator_and_one_site_read_update else (BOTH,))), *others)
        if mechanism.coordinator_and_one_site_read_update:
            yield _View((BOTH,), "one update", single, names[:1])
    else:
        changed = {name: watched.after[name].astype(np.float64) - array for name, array in watched.before.items()}
        yield _View((OTHER_SITE,), "step", Seen(changed, watched.before), names)
        if not mechanism.coordinator_reads_update:
            yield _View((BOTH,), *_without_own(watched, names))


def _without_own(watched: _WatchedRound, names: tuple[SiteId, ...]) -> tuple[str, Seen, tuple[SiteId, ...]]:
    """Return the sum as a site sees it that took part: without what it added itself."""
    if len(names) == 1:
        return "sum", Seen(watched.mean), names
    own = watched.updates[names[-1]]
    rest = {name: array - own.share * own.arrays[name] for name, array in watched.mean.items()}
    return "sum less its own", Seen(rest), names[:-1]
