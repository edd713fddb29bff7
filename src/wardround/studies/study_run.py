"""Run a study from its first round to its scores, on any engine; an interrupted run resumes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from wardround.errors import FederationError, MessageError, SpentBudgetError, StudyError
from wardround.federation.coordinator import Round, RoundCost
from wardround.federation.federation import Federation, Quorum, Reply, SiteId, Traffic, checked
from wardround.federation.message import Message, Value, grouped
from wardround.models.saved import save_model
from wardround.studies.aggregation_setup import payload_of, server_of
from wardround.studies.assemble import common_model, common_task, coordinator_of, matching_modes_of
from wardround.studies.outcomes import (
    SiteOutcome,
    StudyOutcome,
    check_counts,
    check_outcome,
    counts_in,
    interval_in,
    outcome_in,
)
from wardround.studies.party_keys import PartyKeys
from wardround.studies.run_folder import RunFolder, versions
from wardround.studies.run_guard import StopRequest, check_space, run_lock, stop_on_signals
from wardround.studies.study_file import Study, read_study, to_toml
from wardround.studies.study_notes import public_set
from wardround.training.state_files import save_tensors, tensors_under

__all__ = ["EngineSettings", "SiteOutcome", "StudyOutcome", "StudyRun", "Watcher"]

_SCORINGS = 20  # in a study that does not set `every`
_DIGITS = 5  # decimals of seconds in the log
_STUDY, _SCORES, _SHARED = "study.toml", "scores.json", "shared.safetensors"
# Codes of a site whose copy of the shared half is old, has another history, or missed a sum.
_OUTDATED = frozenset({"behind", "round", "sum"})


class Watcher(Protocol):
    """Receives the progress of a study."""

    def on_start(self, number: int) -> None:
        """Called when the study starts or resumes after this round."""

    def on_round(self, record: Round) -> None:
        """Called after a round."""

    def on_scores(self, number: int, f1: Mapping[SiteId, float]) -> None:
        """Called after the development notes were scored."""

    def on_event(self, text: str) -> None:
        """Called for any other event worth showing."""


@dataclass(frozen=True)
class EngineSettings:
    """How a study is run on an engine."""

    checkpoint_every: int  # rounds
    sites_save: bool  # sites write their state before each answer; otherwise they are asked to at a checkpoint
    retries: int = 0  # for a round that too few sites answered
    pause: float = 5.0  # seconds before each retry
    checkpoint_seconds: float = 60.0  # a checkpoint is also written after this time, and before a run is stopped


@dataclass
class _Progress:
    """The state of the run between rounds, in addition to the coordinator's."""

    best: dict[str, torch.Tensor]  # shared half of the best round, or of the last one if that is kept
    best_f1: float = -1.0
    best_round: int = 0
    stale: int = 0  # scorings since the best one
    traffic: Traffic = field(default_factory=Traffic)

    def tensors(self) -> dict[str, torch.Tensor]:
        figures = [self.best_f1, self.best_round, self.stale, *asdict(self.traffic).values()]
        named = {f"best/{name}": tensor for name, tensor in self.best.items()}
        return named | {"figures": torch.tensor(figures, dtype=torch.float64)}

    @classmethod
    def of(cls, tensors: Mapping[str, torch.Tensor]) -> _Progress:
        f1, number, stale, down, up, *seconds = tensors["figures"].tolist()
        return cls(tensors_under("best", tensors), f1, int(number), int(stale), Traffic(int(down), int(up), *seconds))


class StudyRun:
    """Runs the rounds of one study in one run folder."""

    def __init__(
        self,
        study: Study,
        federation: Federation,
        folder: RunFolder,
        *,
        engine: EngineSettings,
        watcher: Watcher,
        party_keys: PartyKeys | None = None,
        device: torch.device | None = None,
    ) -> None:
        self.study, self.federation, self.folder = study, federation, folder
        self._engine, self._watcher = engine, watcher
        task = common_task(study)
        public = public_set(study, task)
        if study.algorithm.kind.central_model and device is not None:
            task.model.to(device)  # where it learns
        self._public = (
            {"public": {"examples": len(public.examples), **task.alignment_losses}} if public.examples else {}
        )
        self.coordinator = coordinator_of(study, task, public)
        payload = payload_of(study, task, public)
        self._aggregator, self._quorum = server_of(study, payload, party_keys), Quorum(study.privacy.minimum_sites)
        self._every = study.evaluation.every or max(1, study.algorithm.config.rounds // _SCORINGS)
        self._matching_modes = matching_modes_of(study)
        self._progress = _Progress(self._shared())
        self._next_checkpoint = time.monotonic() + engine.checkpoint_seconds
        # At least: the checkpoint with the shared half and its best round, and the finished shared half.
        self._space = 3 * sum(tensor.nbytes for tensor in self.coordinator.shared.values())

    def run(self) -> StudyOutcome:
        """Run the remaining rounds and score the sites; Ctrl-C stops after the present round, which is saved."""
        check_space(self.folder.path, self._space)
        # If sites save every round themselves, nothing is lost at any time, and a round may wait long for a hospital.
        handled = nullcontext(StopRequest()) if self._engine.sites_save else stop_on_signals(self._watcher.on_event)
        with run_lock(self.folder.path), handled as stop:
            self._begin()
            # A study that had stalled before it was interrupted only needs its scores.
            for record in () if self._has_stalled() else self._rounds():
                self._finish_round(record, stop)
                if self._has_stalled():
                    break
            return self._finish()

    def _finish_round(self, record: Round, stop: StopRequest) -> None:
        """Record a round, score it, and save it if it is time; stop if the user asked for it."""
        self._record_round(record)
        last = record.number == self.study.algorithm.config.rounds
        if last or record.number % self._every == 0:
            self._score()
        if last or record.number % self._engine.checkpoint_every == 0:
            self._checkpoint()
        elif stop or time.monotonic() >= self._next_checkpoint:
            self._checkpoint(extra=True)
        if stop:
            then = "scores the result" if last else f"resumes at round {record.number + 1}"
            self._watcher.on_event(f"stopped after round {record.number}; the same command {then}")
            stop.stop()

    def _begin(self) -> None:
        text = to_toml(self.study)
        path = self.folder.path / _STUDY
        if path.is_file() and path.read_text(encoding="utf-8") != text and not _is_file_of(path, self.study):
            raise StudyError(f"the run folder {self.folder.path.name} holds another study; name a new one")
        path.write_text(text, encoding="utf-8")
        if self.folder.checkpoint.is_file():
            self._progress = _Progress.of(self.coordinator.restore(self.folder.checkpoint))
        number = self.coordinator.number
        figures = {"round": number, "sites": len(self.study.sites), **self._public, "versions": versions()}
        self.folder.log("resumed" if number else "started", figures)
        self._restore_sites(self.federation.sites)
        self._watcher.on_start(number)

    def _rounds(self) -> Iterator[Round]:
        """Yield the rounds; retry a round that too few sites answered, if the engine allows retries."""
        retries_left = self._engine.retries
        while True:
            try:
                for record in self.coordinator.rounds(self.federation, self._aggregator, self._quorum):
                    retries_left = self._engine.retries
                    yield record
                return
            except SpentBudgetError as error:
                # Every further answer of these sites would be refused too: the study ends with the model it has.
                number = self.coordinator.number
                self.folder.log("budget", {"round": number, "reason": str(error)})
                self._watcher.on_event(f"the study ends after round {number}: {error}")
                if number:
                    self._score()
                    self._checkpoint()
                return
            except FederationError as error:
                number = self.coordinator.number + 1
                cost = self.coordinator.failed_round_cost
                self.folder.log("round_failed", {"round": number, "reason": str(error), **_costs(cost)})
                self._progress.traffic += cost.total
                if not retries_left:
                    raise
                self._watcher.on_event(f"round {number} is retried: {error}")
            retries_left -= 1
            time.sleep(self._engine.pause)
            self._restore_sites(self.federation.sites)

    def _record_round(self, record: Round) -> None:
        absent = [[gone.site, gone.absence.value, gone.code] for gone in record.absent]
        traffic = asdict(record.traffic)
        figures = {"round": record.number, "loss": record.loss, "answered": record.answered, "absent": absent}
        if self.study.privacy.protection.protects:
            figures["clipped"] = record.clipped
        if record.vanished:
            figures["vanished"] = dict(record.vanished)
            names = ", ".join(sorted(record.vanished))
            self._watcher.on_event(
                f"round {record.number}: updates of {names} rounded to zero; clips are learned again"
            )
        if record.used:
            figures["used"] = {site: round(share, _DIGITS) for site, share in record.used.items()}
        if record.votes is not None:
            figures["votes"] = {"harmful": record.votes[0], "cast": record.votes[1]}
        if record.rejected:
            figures |= {"rejected": True, "notice": record.notice}
            self._watcher.on_event(f"round {record.number}: {record.notice}")
        if record.figures:
            figures["figures"] = dict(record.figures)
        self.folder.log("round", figures | traffic | _costs(record.cost))
        self._progress.traffic += record.traffic
        self._watcher.on_round(record)
        # A site that is ahead took part in a round that the coordinator lost.
        ahead = list(dict.fromkeys(gone.site for gone in record.absent if gone.code == "round"))
        if ahead:
            self._restore_sites(ahead)
        if self.study.shared_at_sites:
            # A site may be absent from two exchanges of the round.
            self._catch_up(list(dict.fromkeys(gone.site for gone in record.absent if gone.code in _OUTDATED)))
        self._compare_copies(record.digests)

    def _compare_copies(self, digests: Mapping[SiteId, str]) -> None:
        """Compare the sites' copies of the shared half; a minority that differs gets a copy of the majority's."""
        counted = Counter(digests.values())
        if len(counted) < 2:
            return
        most = counted.most_common(1)[0][0]
        others = [site for site, digest in digests.items() if digest != most]
        self.folder.log("diverged", {"round": self.coordinator.number, "sites": others})
        self._catch_up(others)

    def _catch_up(self, behind: Sequence[SiteId]) -> None:
        """Send another site's copy of the shared half to sites that are behind; the coordinator cannot read it."""
        question = Message({"round": self.coordinator.number})
        for other in [site for site in self.federation.sites if site not in behind] if behind else []:
            for reply in self._ask("share_copy", question, to=[other], check=_check_copy):
                if reply.message is not None:
                    copy = Message(question.values, {}, {"copy": reply.message.blobs["copy"]})
                    loaded = [r.site for r in self._ask("load_copy", copy, to=behind) if r.message is not None]
                    if loaded:
                        self.folder.log("caught_up", {"round": self.coordinator.number, "sites": loaded})
                    return

    def _restore_sites(self, sites: Any) -> None:
        """Have sites restore their state of the last finished round, or an earlier one."""
        question = Message({"round": self.coordinator.number})
        for reply in self._ask("restore", question, to=sites):
            if reply.message is None and not self._engine.sites_save:
                raise FederationError(f"{reply.site} cannot resume from round {self.coordinator.number}: {reply.code}")
        if self.study.sends_start and not self.coordinator.number:
            shared = grouped("shared", self.coordinator.arrays())
            for _ in self._ask("begin", Message(question.values, shared), to=sites):
                pass  # a site that misses it is behind in round 1 and then gets another site's copy

    def _score(self) -> None:
        """Score the development notes with the present shared half."""
        question = self._question(self._shared())
        scored = {}
        for reply in self._ask("score", question, check=partial(check_counts, self._matching_modes)):
            if reply.message is not None:
                scored[reply.site] = (counts_in(reply.message, self._matching_modes[0]), interval_in(reply.message))
        f1 = {site: counts.micro.f1 for site, (counts, _) in scored.items()}
        mean = sum(f1.values()) / len(f1) if f1 else 0.0
        figures = {"round": self.coordinator.number, "f1": f1, "mean_f1": mean}
        figures["interval"] = {site: list(interval) for site, (_, interval) in scored.items()}
        figures["counts"] = {
            site: {kind: [c.tp, c.fp, c.fn] for kind, c in counts.items()} for site, (counts, _) in scored.items()
        }
        self.folder.log("scored", figures)
        self._watcher.on_scores(self.coordinator.number, f1)
        progress = self._progress
        progress.stale += 1
        better = bool(f1) and mean > progress.best_f1
        if better:
            progress.best_f1, progress.stale = mean, 0
        # If only sites have the shared half and none answered, no site kept this round either.
        if better or (self.study.keeps_last and (f1 or not self.study.shared_at_sites)):
            progress.best, progress.best_round = self._shared(), self.coordinator.number

    def _shared(self) -> dict[str, torch.Tensor]:
        """Return a copy of the shared half; empty if only the sites have it."""
        if self.study.shared_at_sites:
            return {}
        return {name: tensor.clone() for name, tensor in self.coordinator.shared.items()}

    def _question(self, shared: Mapping[str, torch.Tensor]) -> Message:
        """Return a question about the last finished round, with the shared half or the number of the best round."""
        values: dict[str, Value] = {"round": self.coordinator.number}
        if self.study.shared_at_sites:
            values["best_round"] = self._progress.best_round
        sent = {} if self.study.algorithm.sites_keep_models else shared
        return Message(values, grouped("shared", {name: tensor.numpy() for name, tensor in sent.items()}))

    def _has_stalled(self) -> bool:
        patience = self.study.evaluation.patience
        return bool(patience) and self._progress.stale >= patience

    def _checkpoint(self, *, extra: bool = False) -> None:
        """Save the sites first, so that they can restore whatever round the coordinator has saved.

        An `extra` checkpoint depends on the clock or on a signal, so its bytes are not counted: the figures of a run
        do not depend on how fast the machine is.
        """
        started, question = time.monotonic(), Message({"round": self.coordinator.number})
        if not self._engine.sites_save:
            for reply in self.federation.ask("save", question) if extra else self._ask("save", question):
                if reply.message is None:
                    raise FederationError(f"{reply.site} could not save its state: {reply.code}")
        self.coordinator.save(self.folder.checkpoint, more=self._progress.tensors())
        # Saving many large sites takes long; it may take a twentieth of the time at most.
        now = time.monotonic()
        self._next_checkpoint = now + max(self._engine.checkpoint_seconds, 20 * (now - started))

    def _finish(self) -> StudyOutcome:
        best = {name: tensor.numpy() for name, tensor in self._progress.best.items()}
        sites = self._outcomes()
        sites = {name: sites[name] for name in self.study.sites if name in sites}  # in the order of the study file
        if len(sites) < self.study.privacy.minimum_sites:
            raise FederationError("too few sites scored the finished model; run the same command again")
        outcome = StudyOutcome(sites, self.coordinator.number, self._progress.best_round, self._progress.traffic, best)
        self._write(outcome)
        return outcome

    def _outcomes(self) -> dict[SiteId, SiteOutcome]:
        """Return how each site scored; a site that is behind is asked again after it has caught up."""
        question, unscored = self._question(self._progress.best), list(self.federation.sites)
        sites: dict[SiteId, SiteOutcome] = {}
        for _ in range(2):
            behind = []
            for reply in self._ask("finish", question, to=unscored, check=partial(check_outcome, self._matching_modes)):
                if reply.message is not None:
                    found = outcome_in(self._matching_modes, reply.message)
                    names_types = self.study.task.only_tags_words  # for joint all sites have the same
                    sites[reply.site] = found.of(self.study.sites[reply.site]) if names_types else found
                elif reply.code == "behind":
                    behind.append(reply.site)
            if not behind:
                break
            self._catch_up(behind)
            unscored = behind
        return sites

    def _write(self, outcome: StudyOutcome) -> None:
        figures = {
            "rounds": outcome.rounds,
            "best_round": outcome.best_round,
            "traffic": asdict(outcome.traffic),
            "sites": {name: site.as_json() for name, site in outcome.sites.items()},
        }
        self.folder.write_json(_SCORES, figures)
        if outcome.shared:
            tensors = {name: torch.from_numpy(np.array(array)) for name, array in outcome.shared.items()}
            save_tensors(self.folder.path / _SHARED, tensors)
        self._write_model(outcome)
        f1 = {name: site.main.micro.f1 for name, site in outcome.sites.items()}
        self.folder.log("finished", {"rounds": outcome.rounds, "best_round": outcome.best_round, "f1": f1})

    def _write_model(self, outcome: StudyOutcome) -> None:
        """Write the study's model if no layer is private and the coordinator has it."""
        if self.study.shared_at_sites or (self.study.task.only_tags_words and not self.study.types):
            return
        model = common_model(self.study)
        if model.private_parameters() and not self.study.algorithm.kind.central_model:
            return
        with torch.no_grad():
            for name, parameter in model.parameters_in(model.groups).items():
                parameter.copy_(torch.from_numpy(np.array(outcome.shared[name])))
        save_model(model, self.folder.model, notes={"study": self.study.study.name, "round": outcome.best_round})

    def _ask(
        self, step: str, message: Message, *, to: Any = None, check: Callable[[Message], None] | None = None
    ) -> Iterator[Reply]:
        """Ask sites outside a round; count bytes, log absences, and treat an answer that `check` refuses as one."""
        cost = RoundCost()
        replies = cost.recorded(step, self.federation.ask(step, message, to=to))
        for reply in checked(replies, check) if check else replies:
            self._progress.traffic += reply.traffic
            if reply.message is None:
                assert reply.absence is not None
                gone = {"site": reply.site, "absence": reply.absence.value, "code": reply.code}
                self.folder.log("absent", {"step": step, "round": self.coordinator.number, **gone})
            yield reply
        self.folder.log("asked", {"round": self.coordinator.number, **_costs(cost)})


def _is_file_of(path: Path, study: Study) -> bool:
    """Whether a file holds the study, perhaps under names of settings of version 0.1."""
    try:
        return read_study(path, generated=True) == study
    except StudyError:
        return False


def _costs(cost: RoundCost) -> dict[str, Any]:
    """Return bytes down and up, seconds and working seconds by step and site, and the coordinator's by phase."""
    exchanges = {
        step: {site: [c.down, c.up, round(c.seconds, _DIGITS), round(c.worked, _DIGITS)] for site, c in sites.items()}
        for step, sites in cost.exchanges.items()
    }
    own = {phase: round(seconds, _DIGITS) for phase, seconds in cost.seconds.items()}
    return {"exchanges": exchanges} | ({"coordinator": own} if own else {})


def _check_copy(message: Message) -> None:
    if not message.blobs.get("copy"):
        raise MessageError("value-missing", "the answer has no copy of the shared half")
