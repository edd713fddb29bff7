"""One model for all tag sets (Wang et al. 2023): federated averaging where every site annotates other types.

A site completes its annotation with what the global model of the round finds of the types that are not annotated there
(Section 3.2) and trains on both. The loss of its own annotation is weighted sentence by sentence: the more a sentence's
gradient points where the other sites' pseudo-annotations pull, the more it counts (Section 3.3). For that each site
gives, with its update and in the same sum, one small gradient; what it is told in the next round is the sum of all, of
which it takes away its own. Weights never leave their site. Those computed in round t serve in round t + 1 (Eq. 10).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wardround.algorithms.fedavg import FedAvg, FedAvgConfig, local_delta
from wardround.errors import MessageError, TrainingError
from wardround.federation.coordinator import RoundContext, RoundSum
from wardround.federation.federation import SiteId
from wardround.federation.message import Array, Message, Value, grouped
from wardround.federation.site_runtime import Site, Step
from wardround.tasks.completion import CompletedNer, Taught, Unknown
from wardround.tasks.ner import NerTask
from wardround.tasks.task import in_length_order

__all__ = [
    "REACH",
    "STEPS",
    "TARGETS",
    "CompletionConfig",
    "TagSets",
    "TagSetsConfig",
    "begin_completed",
    "train_completed",
    "weighed",
]

TARGETS = "targets"  # what the gradient of the pseudo-annotations is called among the parts of an update
REACH = 1.0  # numbers of it that are further from zero are cut there, for a sum under masks or seals has bounds
_UNKNOWN: tuple[Unknown, ...] = ("pseudo", "posterior", "partial", "outside")
_ROUNDED = 1e-6  # by which a mean may be off: less than that, times its sites, is nothing of the others'
_COMPARED_AT_ONCE = 32  # sentences


@dataclass(frozen=True)
class CompletionConfig(FedAvgConfig):
    """What every algorithm has whose sites complete their annotation."""

    rounds: int = 25
    trusted_after: int = 5  # rounds before the global model is asked; until then, what is not annotated stays open
    outside: float = 0.0  # how much a word that is left open counts as no mention

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.trusted_after < 0:
            raise TrainingError(f"trusted_after is {self.trusted_after}; it is a number of rounds, zero or above")
        if not 0 <= self.outside <= 1:
            raise TrainingError(f"outside is {self.outside}; it is the weight of a loss, from 0 to 1")
        if self.outside and not self.leaves_open:
            raise TrainingError("outside is of words that are left open, and here none ever are: leave it out")
        if self.asks and self.trusted_after >= self.rounds:
            raise TrainingError(
                f"trusted_after is {self.trusted_after} of {self.rounds} rounds: no model would ever be asked; lower "
                "it, or raise rounds"
            )

    @property
    def asks(self) -> bool:
        """Whether a model is to say what is not annotated."""
        return True

    @property
    def leaves_open(self) -> bool:
        """Whether there are rounds in which nobody says what a word is that is not annotated."""
        return self.trusted_after > 0

    def constant_settings(self) -> dict[str, Value]:
        """How far a site goes in a round, from when on it asks the model, and what an open word counts for."""
        return {**super().constant_settings(), "trusted_after": self.trusted_after, "outside": self.outside}


@dataclass(frozen=True)
class TagSetsConfig(CompletionConfig):
    """The settings of Algorithm 1 of the paper, and those it leaves open."""

    unknown: Unknown = "pseudo"  # what a word may be that is no mention of the types annotated here
    weighting: bool = True
    momentum: float = 0.9  # α, Eq. 12
    centred: bool = True  # weights follow 1 + the cosine; false is Eq. 12 as it stands

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.momentum < 1:
            raise TrainingError(f"momentum is {self.momentum}; it must be from 0 to below 1")
        if self.weighting and self.unknown != "pseudo":
            raise TrainingError(
                f"weighting follows the gradient of pseudo-annotations; with unknown = {self.unknown!r} there are "
                "none, or only what the model expects anyway, whose gradient is zero: set weighting = false"
            )

    @property
    def asks(self) -> bool:
        """Where something is taught."""
        return self.unknown in ("pseudo", "posterior")

    @property
    def leaves_open(self) -> bool:
        """Where no teacher says all, always; before there is one; never, where labels are taken as they are."""
        return self.unknown in ("partial", "posterior") or (self.unknown == "pseudo" and super().leaves_open)

    @property
    def needs_gradient_probe(self) -> bool:
        """Weights need the gradient of the others."""
        return self.weighting

    def constant_settings(self) -> dict[str, Value]:
        """How far a site goes in a round, what it takes the unknown for, and how it weighs."""
        own: dict[str, Value] = {"weighting": self.weighting, "momentum": self.momentum, "centred": self.centred}
        return {**super().constant_settings(), "unknown": self.unknown, **own}


class TagSets(FedAvg):
    """The server of Algorithm 1; `probe` is the shape of the gradient by which sentences are compared."""

    config: TagSetsConfig
    uniform_weights = True  # m_k of Eq. 1: a small site would not be heard otherwise (Appendix C)

    def __init__(self, *args: Any, probe: tuple[int, ...] = (), **named: Any) -> None:
        super().__init__(*args, **named)
        self._blank = {TARGETS: np.zeros(probe, np.float32)} if self.config.weighting else {}
        self._targets: dict[str, Array] = {}  # the mean of the last round
        self._given: dict[int, tuple[SiteId, ...]] = {}  # by round, whose gradients are in it

    def gather(self, context: RoundContext) -> RoundSum | None:
        """Every site completes its annotation, weighs its sentences and trains."""
        before = self._given.get(self.number, ())
        gathered = context.gather("train_completed", {**self.local_settings(), "targets_from": [*before]})
        self._given = {self.number: before, self.number + 1: gathered.sites}  # the round may have to be done again
        return gathered

    def step(self, mean: Mapping[str, Array], values: Mapping[str, Value]) -> None:
        """Eq. 1, and the gradients of the pseudo-annotations for the next round."""
        super().step(mean, values)
        self._targets = {name: np.array(mean[name]) for name in self._blank}

    def broadcast_arrays(self) -> dict[str, Array]:
        """The shared half, and the mean of what sites gave beside their updates."""
        return super().broadcast_arrays() | grouped(TARGETS, self._targets)

    def expected_arrays(self) -> dict[str, Array]:
        """An update, and a gradient beside it."""
        return super().expected_arrays() | self._blank

    def optimizer_state(self) -> dict[str, Tensor]:
        """The mean of the last round and whose it is."""
        lines = "\n".join([str(self.number), *self._given.get(self.number, ())])
        given = torch.frombuffer(bytearray(lines.encode()), dtype=torch.uint8)
        return {name: torch.from_numpy(array) for name, array in self._targets.items()} | {"given": given}

    def load_optimizer_state(self, memory: Mapping[str, Tensor]) -> None:
        """Take up what `memory` gave."""
        self._targets = {name: memory[name].numpy() for name in self._blank if name in memory}
        number, *names = bytes(memory["given"].tolist()).decode().split("\n")
        self._given = {int(number): tuple(names)}


def train_completed(site: Site, message: Message) -> Message:
    """Complete the annotation with what the model of the round finds, and train on both."""
    with site.all_or_nothing():
        learner, taught = begin_completed(site, message)
        update: dict[str, Array] = {}
        weights = None
        if message.value("weighting", bool):
            weights = _weights(site, message, learner)
            update[TARGETS] = _targets(site, learner, taught, message.value("round", int))
        way, loss = local_delta(site, message, loss=partial(_loss, learner, taught, weights))
        return site.give(update | way, weight=1.0, values={"loss": loss})


def begin_completed(site: Site, message: Message) -> tuple[CompletedNer, Taught]:
    """Take up the model of the round; what it finds of types that are not annotated here, once it is believed."""
    number = message.value("round", int)
    site.check_round(number)
    site.receive(message)
    learner = _learner(site, message)
    return learner, learner.ask() if number > message.value("trusted_after", int) else Taught()


def weighed(weights: Tensor, source: Tensor, others: Tensor, *, momentum: float) -> Tensor:
    """Eq. 12: weights [n] moved towards the cosine between each sentence's gradient [n, …] and the others' [...]."""
    rows = torch.nn.functional.normalize(source.flatten(1).float(), dim=1)
    direction = torch.nn.functional.normalize(others.flatten().float(), dim=0)
    return momentum * weights + (1 - momentum) * rows @ direction


def _learner(site: Site, message: Message) -> CompletedNer:
    unknown = next((way for way in _UNKNOWN if way == message.value("unknown", str)), None)
    if unknown is None or not isinstance(site.task, NerTask):
        raise MessageError("value", "annotation is completed in one of the ways the study names, of entities alone")
    return CompletedNer(site.task, site.notes.train, unknown, outside=message.value("outside", float))


def _loss(learner: CompletedNer, taught: Taught, weights: Tensor | None, rows: Sequence[int]) -> Tensor:
    """Eq. 7, or, weighted, Eq. 10."""
    source, target, silence = learner.losses(rows, taught)
    if weights is not None:
        source = source * weights[list(rows)]
    return (source + target + silence).mean()


def _weights(site: Site, message: Message, learner: CompletedNer) -> Tensor:
    """The weights of this round, from the gradients of the one before; none lets a model unlearn a sentence.

    Cosines lie around zero. Weights that follow them, as Eq. 12 has it, let a site's own annotation fade beside what it
    is taught; around one, they say which sentences count more than others.
    """
    held, count = site.held, len(learner.sentences)
    if len(held.get("weights", ())) != count:
        held.clear()  # the first round, or other notes than those that were weighed
    weights = held.get("weights", torch.ones(count, device=site.model.device))
    others = _others(site, message)
    if others is not None:
        momentum = message.value("momentum", float)
        weights = weighed(weights, held["source"], others, momentum=momentum)
        if message.value("centred", bool):
            weights = weights + (1 - momentum)
    held["weights"] = weights
    return weights.clamp(min=0.0)


def _others(site: Site, message: Message) -> Tensor | None:
    """g^tgt of Eq. 11: the sum over the other sites in the round before; None where this site cannot compare."""
    told = message.group(TARGETS) if site.replica is None else _as_arrays(site.replica.optimizer_state())
    names, held = _givers(site, message), site.held
    before = message.value("round", int) - 1
    if not told or not names or int(held.get("compared", torch.tensor(-1))) != before:
        return None
    mean, own = told.get(TARGETS, np.zeros(0)), held["own"]
    if mean.shape != tuple(own.shape) or mean.dtype != np.float32:
        raise MessageError("shapes", "the gradient of all sites has another shape than this site's")
    if not (np.abs(mean) <= 2 * REACH).all():  # nor is NaN
        raise MessageError("value", "the gradient of all sites lies where no mean of theirs can")
    total = len(names) * torch.from_numpy(np.array(mean)).to(own.device)
    others = total - own if site.name in names else total
    return others if bool((others.abs() > len(names) * _ROUNDED).any()) else None


def _givers(site: Site, message: Message) -> list[SiteId]:
    """Whose gradients are in the mean that this site is told."""
    names = message.value("targets_from", list)
    most = site.terms.sites if site.terms else len(names)
    if not all(isinstance(name, str) for name in names) or not len(set(names)) == len(names) <= most:
        raise MessageError("value", "targets_from names sites of the study, each once")
    return names


def _as_arrays(memory: Mapping[str, Tensor]) -> dict[str, Array]:
    return {TARGETS: memory[TARGETS].numpy()} if TARGETS in memory else {}


def _targets(site: Site, learner: CompletedNer, taught: Taught, number: int) -> Array:
    """The mean target gradient, which is given; zero, where nothing was taught and nothing can be compared."""
    if taught.tags:
        return _compare(site, learner, taught, number)
    return np.zeros(learner.model.probe_shape, np.float32)


def _compare(site: Site, learner: CompletedNer, taught: Taught, number: int) -> Array:
    """Keep each sentence's source gradient here; the mean target gradient (Algorithm 2).

    That is zero where fewer sentences are in it than an update is made of at least.
    """
    model, count, contributing = learner.model, len(learner.sentences), 0
    source = torch.zeros(count, *model.probe_shape, dtype=torch.float16, device=model.device)
    target = torch.zeros(model.probe_shape, device=model.device)
    model.eval()
    for rows in in_length_order([len(sentence.words) for sentence in learner.sentences], _COMPARED_AT_ONCE):
        with _probing(learner, len(rows)) as probe:
            losses = learner.losses(rows, taught)
            taught_more = losses.target.requires_grad
            found = torch.autograd.grad(losses.source.sum(), probe, retain_graph=taught_more)[0]
            source[rows] = _units(found).half()
            if taught_more:
                pulls = torch.autograd.grad(losses.target.sum(), probe)[0]
                target += pulls.sum(0)
                contributing += int(pulls.flatten(1).any(1).sum())
    if contributing < site.fewest_sentences:
        target.zero_()
    own = (target / count).clamp(-REACH, REACH)
    site.held |= {"source": source, "own": own, "compared": torch.tensor(number)}
    return own.cpu().numpy()


@contextmanager
def _probing(learner: CompletedNer, sentences: int) -> Iterator[Tensor]:
    """A leaf a sentence in the model. Without cuDNN, whose recurrent layers have no gradient but in training."""
    learner.model.probe = learner.model.fresh_probe(sentences).detach().requires_grad_()
    try:
        with torch.backends.cudnn.flags(enabled=False):
            yield learner.model.probe
    finally:
        learner.model.probe = None


def _units(gradients: Tensor) -> Tensor:
    """Each sentence's gradient at length one: half precision is then enough, and its direction is all that counts."""
    return torch.nn.functional.normalize(gradients.flatten(1), dim=1).view_as(gradients)


STEPS: dict[str, Step] = {"train_completed": train_completed}
