"""A site in a study: its notes, its model, and its private half on its own disk.

An algorithm defines the steps of a site; those that every algorithm needs (describe, score, finish, save, restore) are
here, and those of the later aggregation phases come from the `AggregationClient`. A site's folder belongs to one study.
It holds the states of the last finished rounds, from round 0 on, and, if the site was closed since, the newer
`laid-aside.safetensors`; a site that is opened again continues from the newest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from wardround.errors import MessageError, TrainingError
from wardround.federation.aggregation import AggregationClient, SharedCopy, Tensors
from wardround.federation.message import Array, Message, Value, content_digest
from wardround.federation.site_history import Draw, most_repeats
from wardround.federation.unit_privacy import UnitPrivacy
from wardround.tasks.task import Example, Task, TaskScore
from wardround.text.document import Document
from wardround.training.batches import length_buckets, pad_batches, pad_to_tokens
from wardround.training.optimizer import ParameterOptimizer
from wardround.training.randomness import seeded_from
from wardround.training.state_files import copy_into, load_tensors, save_tensors, tensors_under
from wardround.training.training_config import Rates
from wardround.training.unit_gradients import UnitClip, UnitGradients

__all__ = ["COMMON_STEPS", "PublicSet", "RequestPolicy", "Site", "SiteNotes", "Step", "rates_in", "score_message"]

_GENERATIONS = 2  # states kept on disk: the newest, and the previous one in case the newest answer was lost


@dataclass(frozen=True)
class PublicSet:
    """A small set of examples that everybody in a study may read; empty if the algorithm needs none."""

    examples: Sequence[Example] = field(default=(), repr=False)
    labelled: bool = True  # whether the labels of the examples may be used


@dataclass(frozen=True)
class SiteNotes:
    """The notes that a site trains and is scored on; they never leave this object."""

    train: Sequence[Example] = field(repr=False)
    dev: Sequence[Document] = field(repr=False)
    test: Sequence[Document] = field(repr=False)
    public: PublicSet = field(default_factory=PublicSet, repr=False)  # readable by everybody in the study
    units: Sequence[Sequence[int]] = field(default=(), repr=False)  # rows of `train` by unit of privacy; empty: each


@dataclass(frozen=True)
class RequestPolicy:
    """What a site allows a coordinator to ask."""

    rounds: int
    constant_settings: Mapping[str, Value] = field(default_factory=dict)  # values that a request must not change
    highest: Mapping[str, float] = field(default_factory=dict)  # upper bounds of rates, which decrease over the rounds
    smallest_batch: int = 1  # fewest sentences of an update, if the site has so many
    sites: int = 1  # in the study, the most that a mean can be made of
    names: frozenset[str] = frozenset()  # of these sites; empty if they are not known
    fewest_tokens: int = 0  # words of an update, by the site's own policy

    def check(self, values: Mapping[str, Value]) -> None:
        """Raise a `MessageError` for a request outside the policy; missing values are left to the step."""
        number = values.get("round", 0)
        if isinstance(number, int) and not 0 <= number <= self.rounds:
            raise MessageError("policy", f"the study has {self.rounds} rounds")
        for name, expected in self.constant_settings.items():
            if values.get(name, expected) != expected:
                raise MessageError("policy", f"{name} is not the study's")
        for name, most in self.highest.items():
            rate = values.get(name, most)
            if not isinstance(rate, float) or not 0 <= rate <= most:
                raise MessageError("policy", f"{name} is outside the study's")


class Site:
    """Answers the steps of one algorithm, within the request policy of its study.

    `durable` writes the state of a round before its answer leaves, so that a site that dies loses nothing it sent;
    otherwise the coordinator asks for it. With `keeps_last`, a site with a private half ends with its last model, not
    with the one that scored best on its development notes.
    """

    def __init__(
        self,
        name: str,
        task: Task,
        notes: SiteNotes,
        *,
        aggregation: AggregationClient,
        steps: Mapping[str, Step],
        folder: Path,
        seed: int,
        request_policy: RequestPolicy | None = None,
        durable: bool = False,
        keeps_last: bool = False,
        replica: SharedCopy | None = None,
        on_finish: Callable[[Task, TaskScore], None] | None = None,
    ) -> None:
        self.name, self.task, self.notes, self.aggregation, self.folder = name, task, notes, aggregation, folder
        self.model = model = task.model
        self.history, self.unit_privacy = aggregation.history, aggregation.unit_privacy
        self.replica = replica  # of the shared half, if only sites can open the sum
        self.steps, self.seed = {**COMMON_STEPS, **steps, **aggregation.steps(replica)}, seed
        self._algorithm_steps = frozenset(steps)
        self.request_policy, self.on_finish = request_policy, on_finish
        self.private, self.shared = model.private_parameters(), model.shared_parameters()
        self.private_optimizer = self._optimizer_for(self.private)
        self.shared_optimizer = self._optimizer_for(self.shared)
        self.round = 0  # the last round this site trained in
        self.batches_drawn = 0
        self.algorithm_state: dict[str, Tensor] = {}  # what an algorithm keeps at the site until a later exchange
        self._order: list[list[int]] = []
        self._order_key = (-1, 0, 0, "")
        self._request = ("", Message())  # the present step and its question
        self._training: tuple[int, Draw] | None = None  # the round of the present step, if it trains
        self._unit_gradients: UnitGradients | None = None
        self._redraw = 0
        self._is_new_question = False
        self._hash_chain = bytes(32)  # covers everything that led to this state
        self._best: dict[str, Tensor] = {}
        self._best_f1 = -1.0
        self._durable, self._keeps_last = durable, keeps_last
        folder.mkdir(parents=True, exist_ok=True)
        self._resume()

    def answer(self, step: str, message: Message) -> Message:
        """Do a step; raise a `MessageError` for one that the algorithm does not have."""
        if step not in self.steps:
            raise MessageError("step", "this site does not know the step")
        self.check_policy(message.values)
        before = self._progress()
        self._request, self._training = (step, message), None
        try:
            answer = self.steps[step](self, message)
        finally:
            self._request = ("", Message())
            # Gradients are as large as the model, and the next question may go to another site.
            self.model.zero_grad(set_to_none=True)
        if self._training is not None:
            self._hash_chain = bytes.fromhex(self._training[1].question)
        elif step in self._algorithm_steps:  # its message may change what the site trains on next
            self.extend_hash_chain(content_digest(message, purpose=step).encode())
        if self._durable and self._progress() != before:
            self.save(max(self.round, self.replica.number if self.replica else 0))
        return answer

    def close(self) -> None:
        """Save the state, so that a later site in the same folder continues from it."""
        save_tensors(self._laid_aside_file, self.state())

    def check_policy(self, values: Mapping[str, Value]) -> None:
        """Raise a `MessageError` for values outside the request policy."""
        if self.request_policy is not None:
            self.request_policy.check(values)

    def begin_round(self, number: int) -> None:
        """Record the round and draw its sentences; raise a `MessageError` if this site has trained in it already."""
        if number <= self.round:
            raise MessageError("round", f"this site has done round {self.round}; restore an earlier state first")
        step, message = self._request
        # On one machine, where all parties belong to one person, the arrays need not be hashed at every site.
        hashed = message if self._durable else Message(message.values)
        question = sha256(self._hash_chain + content_digest(hashed, purpose=step).encode()).hexdigest()
        self._is_new_question = not self.history.is_known(number, question)
        self._redraw = self.history.draw_index(number, question, after=self.round, rounds=self.rounds)
        self._training = number, Draw(question, self._redraw)
        # Before anything is drawn: a training that fails reveals something about its sentences too.
        self.history.note_round(*self._training)
        if self.unit_privacy is not None:
            self.unit_privacy.begin(self._training[1], repeated=not self._is_new_question)
        self.aggregation.begin(number, after=self.round, most_redraws=most_repeats(self.rounds))

    def extend_hash_chain(self, data: bytes) -> None:
        """Add data to the digest of everything that led to the state of this site."""
        self._hash_chain = sha256(self._hash_chain + data).digest()

    @property
    def rounds(self) -> int:
        """Return how many rounds the study has; 0 if that is not known."""
        return self.request_policy.rounds if self.request_policy else 0

    @property
    def fewest_sentences(self) -> int:
        """Return the fewest sentences of which an update of this site is made."""
        return min(self.request_policy.smallest_batch, len(self.notes.train)) if self.request_policy else 1

    @property
    def unit_count(self) -> int:
        """Return how many training examples the site has; under differential privacy, how many units."""
        return len(self.notes.units or self.notes.train)

    def noisy_sum(self, privacy: UnitPrivacy) -> dict[str, Array]:
        """Return the sum of the clipped gradients of sampled units, with noise, as integers.

        A gradient is that of the task's loss in the shared parameters.
        """
        if self._unit_gradients is None:
            self._unit_gradients = UnitGradients(self.model, self.shared, self.task.batch_loss)
        rows = self.notes.units or [[row] for row in range(len(self.notes.train))]
        units = [[self.notes.train[row] for row in rows[number]] for number in privacy.sample(len(rows))]
        # Similar lengths together: less padding. The order of a sum of integers does not matter.
        units.sort(key=lambda unit: max(map(self.task.length, unit), default=0))
        clip = UnitClip(privacy.plan.clip, privacy.plan.integer_clip)
        return privacy.noisy(self._unit_gradients.clipped_sum(units, clip))

    def announce(self, update: Tensors, *, weight: float, values: Mapping[str, Value]) -> Message:
        """Return the answer to a training step: the update, or the announcement of one that is held."""
        learn_clips = self._request[1].values.get("learn_clips") is True
        if learn_clips and self._is_new_question:
            self.history.count_learning(rounds=self.rounds)
        return self.aggregation.announce(update, weight=weight, values=values, learn_clips=learn_clips)

    def receive(self, message: Message, *, back: int = 1) -> None:
        """Load the shared half into the model, as it was `back` rounds before that of the message."""
        arrays = message.group("shared")
        if self.replica is not None:
            if arrays:
                raise MessageError("policy", "in this study sites keep the shared half themselves; it must not be sent")
            arrays = self.replica.arrays(after=message.value("round", int) - back)
        self.fill(arrays)

    def fill(self, arrays: Mapping[str, Array]) -> None:
        """Load a shared half into the model."""
        expected = {name: (np.dtype(np.float32), tuple(parameter.shape)) for name, parameter in self.shared.items()}
        if {name: (array.dtype, array.shape) for name, array in arrays.items()} != expected:
            raise MessageError("shapes", "the shared half has other names or shapes than this site's model")
        with torch.no_grad():
            for name, parameter in self.shared.items():
                if parameter.is_cpu:  # directly: a tensor cannot share a read-only array
                    np.copyto(parameter.detach().numpy(), arrays[name])
                else:
                    parameter.copy_(torch.from_numpy(arrays[name].copy()))

    def next_batch(self, size: int, *, fewest: int = 1) -> list[Example]:
        """Return the next mini-batch, the only one of its round."""
        return [self.notes.train[row] for row in self.next_rows(size, fewest=fewest)]

    def next_rows(self, size: int, *, fewest: int = 1, per_round: int = 1) -> list[int]:
        """Return the rows of the next mini-batch; each epoch is shuffled by seed, site and the epoch's number.

        The last mini-batch of an epoch holds the remaining rows and is padded to `fewest`. All mini-batches of a round,
        `per_round`, together have the fewest tokens of the site's policy.
        """
        per_epoch = -(-len(self.notes.train) // size)
        epoch, position = divmod(self.batches_drawn, per_epoch)
        if self._order_key != (epoch, size, fewest, self._redraw_suffix()):
            lengths = [self.task.length(example) for example in self.notes.train]
            batches = length_buckets(lengths, size, f"{self.seed}/{self.name}/epoch-{epoch}{self._redraw_suffix()}")
            self._order = pad_batches(batches, fewest)
            if self.request_policy is not None and self.request_policy.fewest_tokens:
                tokens = [self.task.tokens(example) for example in self.notes.train]
                self._order = pad_to_tokens(self._order, tokens, -(-self.request_policy.fewest_tokens // per_round))
            self._order_key = (epoch, size, fewest, self._redraw_suffix())
        self.batches_drawn += 1
        return self._order[position]

    @contextmanager
    def randomness(self, round_number: int) -> Iterator[None]:
        """Seed the generators from seed, site and round; restore them on exit."""
        with seeded_from(f"{self.seed}/{self.name}/round-{round_number}{self._redraw_suffix()}", self.model):
            yield

    def keep_if_best(self, f1: float) -> None:
        """Keep the whole model if no earlier round scored higher; a site without a private half keeps none."""
        if self.private and not self._keeps_last and f1 > self._best_f1:
            self._best_f1 = f1
            self._best = {name: p.detach().clone() for name, p in (self.private | self.shared).items()}

    def restore_best(self) -> None:
        """Load the model of this site's best round, if it kept one."""
        parameters = self.private | self.shared
        with torch.no_grad():
            for name, tensor in self._best.items():
                parameters[name].copy_(tensor)

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Restore the site's state if the enclosed work raises."""
        before = {name: tensor.clone() for name, tensor in self.state().items()}
        try:
            yield
        except Exception:
            self._load_state(before)
            raise

    def save(self, round_number: int) -> None:
        """Write the state of a finished round atomically."""
        save_tensors(self._state_file(round_number), self.state())
        self._discard(self._saved()[:-_GENERATIONS])

    def restore(self, round_number: int) -> None:
        """Restore the newest state up to a finished round; later states are discarded."""
        latest = self._state_file(round_number)
        earlier = [path for path in self._saved() if path <= latest]
        if not earlier:
            raise MessageError("no-state", f"this site has no state as old as round {round_number}")
        self._load_file(earlier[-1])
        self._discard([later for later in self._saved() if later > latest])

    def state(self) -> dict[str, Tensor]:
        """Return everything that the next rounds of this site depend on."""
        tensors = {f"private/{name}": parameter.detach() for name, parameter in self.private.items()}
        tensors |= {f"kept/{name}": tensor for name, tensor in self._best.items()}
        tensors |= {f"held/{name}": tensor for name, tensor in self.algorithm_state.items()}
        tensors |= {f"optimizer/{name}": tensor for name, tensor in self.private_optimizer.state().items()}
        tensors |= {f"shared_optimizer/{name}": tensor for name, tensor in self.shared_optimizer.state().items()}
        tensors |= {f"aggregation/{n}": tensor for n, tensor in self.aggregation.state().items()}
        tensors |= {f"replica/{n}": tensor for n, tensor in (self.replica.state() if self.replica else {}).items()}
        tensors["kept_f1"] = torch.tensor(self._best_f1, dtype=torch.float64)
        tensors["past"] = torch.tensor(list(self._hash_chain), dtype=torch.uint8)
        return tensors | {"round": torch.tensor(self.round), "batches_drawn": torch.tensor(self.batches_drawn)}

    def _resume(self) -> None:
        """Load the newest state; a site without one writes the first."""
        newest = [*self._saved(), *([self._laid_aside_file] if self._laid_aside_file.is_file() else [])]
        if newest:
            self._load_file(newest[-1])
        else:
            self.save(0)

    def _load_file(self, path: Path) -> None:
        try:
            self._load_state(load_tensors(path))
        except (TrainingError, KeyError, ValueError) as error:
            raise MessageError("state", f"{path.name} is damaged, or of another model") from error

    def _load_state(self, tensors: Mapping[str, Tensor]) -> None:
        copy_into(self.private, tensors_under("private", tensors))
        device = self.model.device
        self._best = {name: tensor.to(device) for name, tensor in tensors_under("kept", tensors).items()}
        self.algorithm_state = {name: tensor.to(device) for name, tensor in tensors_under("held", tensors).items()}
        self.private_optimizer.load(tensors_under("optimizer", tensors))
        self.shared_optimizer.load(tensors_under("shared_optimizer", tensors))
        # Version 0.1 saved the state of the aggregation under "giving".
        self.aggregation.load(tensors_under("aggregation", tensors) or tensors_under("giving", tensors))
        if self.replica is not None:
            self.replica.load(tensors_under("replica", tensors))
        self._best_f1 = float(tensors["kept_f1"])
        self._hash_chain = bytes(tensors["past"].tolist())
        self.round, self.batches_drawn = int(tensors["round"]), int(tensors["batches_drawn"])

    def _progress(self) -> tuple[float, ...]:
        """Return the numbers whose change requires writing the state."""
        return self.round, self._best_f1, *(part.changes for part in (self.aggregation, self.replica) if part)

    def _redraw_suffix(self) -> str:
        """Return a suffix for seeds, empty unless the first draw of a round must not be used again."""
        revealed = self.aggregation.redraws
        return f"/again-{revealed}-{self._redraw}" if revealed or self._redraw else ""

    def _optimizer_for(self, parameters: Mapping[str, Tensor]) -> ParameterOptimizer:
        return ParameterOptimizer(parameters, self.model.output_names(parameters))

    def _discard(self, paths: Sequence[Path]) -> None:
        """Remove these states, and `laid-aside.safetensors`, which is no longer the newest."""
        for path in (*paths, self._laid_aside_file):
            path.unlink(missing_ok=True)

    def _saved(self) -> list[Path]:
        return sorted(self.folder.glob("state-*.safetensors"))

    @property
    def _laid_aside_file(self) -> Path:
        return self.folder / "laid-aside.safetensors"

    def _state_file(self, round_number: int) -> Path:
        return self.folder / f"state-{round_number:08}.safetensors"


Step = Callable[[Site, Message], Message]


def rates_in(message: Message) -> Rates:
    """Return the rates that `Rates.as_values` put into a message."""
    return Rates(message.value("rate", float), message.value("output_rate", float), message.value("decay", float))


def score_message(score: TaskScore) -> Message:
    """Return counts by matching mode and type, which can be added, and the interval of the main F1."""
    counts: dict[str, Value] = {
        reading: {kind: [c.tp, c.fp, c.fn] for kind, c in typed.items()} for reading, typed in score.counts.items()
    }
    leaking: dict[str, Value] = {} if score.leakage is None else {"leakage": score.leakage.as_values()}
    interval = score.interval()
    return Message({"documents": score.documents, **counts, "interval": [interval.low, interval.high], **leaking})


def _describe(site: Site, message: Message) -> Message:
    return Message({"examples": site.unit_count, "documents": len(site.notes.test)})


def _score(site: Site, message: Message) -> Message:
    site.history.count_scoring(rounds=site.rounds)
    site.receive(message, back=0)
    if site.replica is not None:
        site.replica.keep_scored(message.value("best_round", int))
    score = site.task.score(site.notes.dev)
    site.keep_if_best(score.main.micro.f1)
    return score_message(score)


def _finish(site: Site, message: Message) -> Message:
    site.history.count_scoring(rounds=site.rounds)
    if site.replica is None:
        site.receive(message)
    else:
        site.fill(site.replica.best(message.value("best_round", int)))
    site.restore_best()
    score = site.task.score_test(site.notes.test) if site.notes.test else site.task.score(site.notes.dev)
    if site.on_finish is not None:
        site.on_finish(site.task, score)
    counts = score_message(score)
    by_type: dict[str, Value] = {kind: [found.low, found.high] for kind, found in score.type_intervals().items()}
    of_dev: dict[str, Value] = {} if site.notes.test else {"scored_on": "dev"}
    return replace(counts, values={**counts.values, "type_intervals": by_type, **of_dev})


def _save(site: Site, message: Message) -> Message:
    site.save(message.value("round", int))
    return Message()


def _restore(site: Site, message: Message) -> Message:
    site.restore(message.value("round", int))
    return Message()


COMMON_STEPS: Mapping[str, Step] = {
    "describe": _describe,
    "score": _score,
    "finish": _finish,
    "save": _save,
    "restore": _restore,
}
