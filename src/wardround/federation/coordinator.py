"""What the coordinator's side of every algorithm has in common.

It holds the shared half and, of the sites, nothing but their sizes. An algorithm says what is asked in a round
(`gather`) and what becomes of the mean (`step`); drawing sites, weighing, counting, saving and going on are here.
Where the mean opens at the sites, each holds a copy of this object and steps it; the coordinator's own then keeps the
rounds, and its shared half stays as it was before the first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wardround.errors import FederationError, MessageError, SpoiledSumError, TrainingError
from wardround.federation.aggregation import AggregationServer, Reader, RoundSum, capped_weights
from wardround.federation.culprit_search import CulpritSearch
from wardround.federation.federation import (
    Absence,
    Federation,
    Quorum,
    Replies,
    Reply,
    SiteId,
    Traffic,
    checked,
)
from wardround.federation.message import Array, Message, Value, grouped
from wardround.federation.round_cost import RoundCost
from wardround.training.state_files import copy_into, load_tensors, save_tensors, under
from wardround.training.training_config import RoundTrainingConfig

__all__ = ["Absent", "Coordinator", "Round", "RoundContext", "RoundSum", "RoundsConfig"]

_MOST_VANISHING = 3  # rounds in a row in which an update rounds to zero
_MOST_RELEARNED = 4  # times that clips are learned again, and once more for each …
_ROUNDS_A_RELEARNING = 20


@dataclass(frozen=True)
class RoundsConfig:
    """The settings that the section [algorithm] of every study has."""

    rounds: int = 400
    participation: float = 1.0  # C, the fraction of sites asked in each round

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise TrainingError(f"rounds is {self.rounds}; it must be above zero")
        if not 0 < self.participation <= 1:
            raise TrainingError(f"participation is {self.participation}; it is a fraction of the sites, up to 1")


@dataclass(frozen=True)
class Absent:
    """A site that gave nothing to an exchange, and why."""

    site: SiteId
    absence: Absence
    code: str


@dataclass(frozen=True)
class Round:
    """One round in figures."""

    number: int
    loss: float  # mean over the sites that answered, weighted by their sizes
    answered: int
    absent: tuple[Absent, ...]
    traffic: Traffic  # of all its exchanges; seconds of sites that work side by side are added
    clipped: int = 0  # numbers of updates that lay outside their clip
    vanished: Mapping[SiteId, int] = field(default_factory=dict)  # layer groups that rounding left nothing of
    digests: Mapping[SiteId, str] = field(default_factory=dict)  # of the sites' copies of the shared half
    figures: Mapping[str, float] = field(default_factory=dict)  # what the algorithm has to tell beside the loss
    cost: RoundCost = field(default_factory=RoundCost)  # of every exchange, and of the coordinator's own work


@dataclass
class RoundContext:
    """One round while it runs: asks the sites drawn for it, and counts what passes."""

    coordinator: Coordinator
    federation: Federation
    aggregator: AggregationServer
    quorum: Quorum
    sites: Sequence[SiteId]
    unmet: list[Reply]  # of sites that never said their size; they count as absent from the first exchange
    absent: list[Absent] = field(default_factory=list)
    cost: RoundCost = field(default_factory=RoundCost)
    present: list[SiteId] = field(default_factory=list)  # in the last exchange
    clipped: int = 0  # numbers of updates that lay outside their clip
    vanished: dict[SiteId, int] = field(default_factory=dict)  # layer groups that rounding left nothing of
    digests: dict[SiteId, str] = field(default_factory=dict)  # of the sites' copies of the shared half
    _loss: float = 0.0
    _weight: int = 0

    def gather(self, step: str, values: Mapping[str, Value]) -> RoundSum:
        """The updates that the sites give in a step, as Σ n_i u_i / Σ n_i."""
        return self.aggregator.aggregate(self, step, values)

    def question(self, values: Mapping[str, Value]) -> Message:
        """A question of the coming round, with the shared half where the coordinator has it."""
        at_sites = self.aggregator.reader is Reader.SITE and not self.coordinator.central
        # No copy: what is asked is fixed at once, and the shared half changes after the last answer.
        told = {} if at_sites else self.coordinator.broadcast_arrays()
        return Message({**values, "round": self.coordinator.number + 1}, told)

    def answers(
        self,
        step: str,
        question: Message,
        *,
        check: Callable[[Message], None] | None = None,
        everybody: bool = False,
    ) -> Iterator[tuple[SiteId, Message]]:
        """The usable answers as they arrive; too few of them are an error at the end.

        Asked are the sites of the round, or every site of the study.
        """
        replies = self.ask(step, question, to=self.federation.sites if everybody else self.sites)
        yield from self.usable(checked(replies, check) if check else replies)

    def ask(self, step: str, question: Message, *, to: Sequence[SiteId]) -> Replies:
        """Every reply as it arrives; what it cost is noted."""
        return self.cost.recorded(step, self.federation.ask(step, question, to=to))

    def usable(self, replies: Replies) -> Iterator[tuple[SiteId, Message]]:
        """Those of the replies that count; too few of them are an error at the end."""
        self.present = []
        replies, self.unmet = chain(self.unmet, replies), []
        for site, message in self.quorum.present(self._counted(replies)):
            self.present.append(site)
            yield site, message

    def answered(self, replies: Replies) -> Iterator[tuple[SiteId, Message]]:
        """Return the answers, however few; sites without one are noted as absent."""
        for reply in self._counted(replies):
            if reply.message is not None:
                yield reply.site, reply.message

    def note_loss(self, loss: float) -> None:
        """Of a round in which the coordinator alone trained."""
        self._loss, self._weight = self._loss + loss, self._weight + 1

    def loss(self) -> float:
        """Over the answers that gave one."""
        return self._loss / self._weight if self._weight else float("nan")

    def _counted(self, replies: Replies) -> Iterator[Reply]:
        for reply in checked(replies, _check_loss):
            if reply.message is None:
                assert reply.absence is not None
                self.absent.append(Absent(reply.site, reply.absence, reply.code))
            elif "loss" in reply.message.values:
                size = self.coordinator.sizes.get(reply.site, 0)
                self._loss, self._weight = self._loss + size * reply.message.value("loss", float), self._weight + size
            yield reply


class Coordinator(ABC):
    """The server of an algorithm; `output` names the shared parameters of output layers."""

    uniform_weights = False  # whether the mean is over sites, whatever their sizes
    central = False  # whether the shared half stays here, also where only sites can open what they gave

    def __init__(
        self,
        shared: Mapping[str, Array],
        config: RoundsConfig,
        training: RoundTrainingConfig,
        *,
        seed: int = 0,
        output: Sequence[str] = (),
    ) -> None:
        self.config, self.training, self.seed, self.output = config, training, seed, tuple(output)
        self.shared = {name: torch.from_numpy(np.array(array)) for name, array in shared.items()}
        self.number = 0  # the last round that is finished
        self.failed_round_cost = RoundCost()  # in the last round that too few sites answered
        self.sizes: dict[SiteId, int] = {}  # |S_i|
        self.clips: dict[str, float] = {}  # by layer group, once learned; under a mechanism that needs them
        self.largest_share = 1.0  # of one site in a mean of three or more
        self.search = CulpritSearch()  # for a site that spoils sums
        self._vanishing = 0  # rounds in a row in which an update rounded to zero
        self._relearned = 0  # times that clips were learned again
        self.figures: dict[str, float] = {}  # of the last round: what an algorithm has to tell beside the loss

    @abstractmethod
    def gather(self, context: RoundContext) -> RoundSum | None:
        """One round: ask, and gather the updates, where there are any."""

    def step(self, mean: Mapping[str, Array], values: Mapping[str, Value]) -> None:
        """Change the shared half by the mean; `values` are those of what was gathered, and may come from anybody."""
        raise NotImplementedError

    def optimizer_state(self) -> dict[str, Tensor]:
        """What the coming rounds depend on beside the shared half."""
        return {}

    def load_optimizer_state(self, memory: Mapping[str, Tensor]) -> None:
        """Take up what `memory` gave."""
        assert not memory

    def rounds(self, federation: Federation, aggregator: AggregationServer, quorum: Quorum) -> Iterator[Round]:
        """From the round after the last one done."""
        self.search.minimum = quorum.least
        while self.number < self.config.rounds:
            cost = RoundCost()
            unmet = self._meet(federation, cost)
            context = RoundContext(
                self, federation, aggregator, quorum, self._drawn(federation.sites), unmet, cost=cost
            )
            try:
                with cost.phase("step"):
                    gathered = self.gather(context)
                    if gathered is not None:
                        gathered.step(context)
            except SpoiledSumError as error:
                self.failed_round_cost = cost
                raise FederationError(self._after_spoiled_sum(error)) from None
            except FederationError:
                self.failed_round_cost = cost
                raise
            self.number += 1
            answered = context.present if gathered is None else gathered.sites
            self.search.note_good(answered)
            self._note_vanished(context.vanished)
            yield Round(
                self.number,
                context.loss(),
                len(answered),
                tuple(context.absent),
                cost.total,
                context.clipped,
                context.vanished,
                context.digests,
                dict(self.figures),
                cost,
            )

    def check_weight(self, site: SiteId, weight: float) -> None:
        """Refuse, with a `MessageError`, a weight that is not the one the site described itself with."""
        if weight != self.weight_of(site):
            raise MessageError("weight", "is not the size that the site described, or 1 where all sites weigh the same")

    def weight_of(self, site: SiteId) -> float:
        """The weight of a site: its size, or 1 where all weigh alike."""
        return 1.0 if self.uniform_weights else float(self.sizes[site])

    def weights_of(self, sites: Sequence[SiteId]) -> dict[SiteId, float]:
        """The weights of the sites of a round, none of which has more than the largest share."""
        return capped_weights({site: self.weight_of(site) for site in sites}, self.largest_share)

    def _after_spoiled_sum(self, error: SpoiledSumError) -> str:
        """Decide who sits out the next try; the sentence that says so."""
        if error.culprit:
            self.search.exclude(error.culprit)
            return f"{error}; it is excluded from the study"
        before = len(self.search.excluded)
        if not self.search.note_spoiled(error.sites):
            return f"{error}: a site spoils it, and minimum_sites leaves none to do without, so it cannot be found"
        if len(self.search.excluded) > before:
            return f"{error}: {self.search.excluded[-1]} spoils it, and is excluded from the study"
        return f"{error}: a site spoils it; it is tried without {', '.join(sorted(self.search.absent))}"

    def _note_vanished(self, vanished: Mapping[SiteId, int]) -> None:
        """Have clips learned again after an update rounded to zero; where that does not help, the study ends."""
        self._vanishing = self._vanishing + 1 if vanished else 0
        # Sites tell how large their numbers are only so often; a site that says untruly that its update vanished must
        # not use that up.
        if vanished and self._relearned < _MOST_RELEARNED + self.config.rounds // _ROUNDS_A_RELEARNING:
            self._relearned += 1
            self.clips.clear()
        if self._vanishing >= _MOST_VANISHING:
            raise TrainingError(
                f"updates of {', '.join(sorted(vanished))} rounded to zero in {self._vanishing} rounds in a row, so "
                "nothing is learned from them; set [privacy] value_bounds for the layer groups, or packing to standard"
            )

    def broadcast_arrays(self) -> dict[str, Array]:
        """What sites are told of the coming round's start."""
        return grouped("shared", self.as_asked())

    def expected_arrays(self) -> dict[str, Array]:
        """Arrays such as a site gives in a round."""
        return self.as_asked()

    def as_asked(self) -> dict[str, Array]:
        """The shared half as it is now; its numbers change with it."""
        return {name: tensor.numpy() for name, tensor in self.shared.items()}

    def arrays(self) -> dict[str, Array]:
        """A copy of the shared half as it is now."""
        return {name: tensor.numpy().copy() for name, tensor in self.shared.items()}

    def settings(self) -> dict[str, Value]:
        """The part of a question that says how to step in the coming round."""
        rates = self.training.rates(self.number + 1, self.config.rounds)
        return {**rates.as_values(), "batch_size": self.training.batch_size, "clip": self.training.clip}

    def save(self, path: Path, *, more: Mapping[str, Tensor] | None = None) -> None:
        """Write all that the coming rounds depend on, whole or not at all; `more` goes with it."""
        tensors = self.state() | {f"size/{site}": torch.tensor(size) for site, size in self.sizes.items()}
        tensors |= {f"clip/{group}": torch.tensor(clip, dtype=torch.float64) for group, clip in self.clips.items()}
        tensors |= {f"excluded/{site}": torch.tensor(place) for place, site in enumerate(self.search.excluded)}
        save_tensors(path, tensors | {f"more/{name}": tensor for name, tensor in (more or {}).items()})

    def restore(self, path: Path) -> dict[str, Tensor]:
        """Go on from a file of a study with the same model and settings; gives back what went with it."""
        tensors = load_tensors(path)
        self.take_up(tensors)
        self.sizes = {site: int(size) for site, size in under("size", tensors).items()}
        self.clips = {group: float(clip) for group, clip in under("clip", tensors).items()}
        excluded = under("excluded", tensors)
        self.search.excluded = sorted(excluded, key=lambda site: int(excluded[site]))
        return under("more", tensors)

    def state(self) -> dict[str, Tensor]:
        """The shared half, what goes with it, and the last finished round."""
        tensors = {f"shared/{name}": tensor for name, tensor in self.shared.items()}
        tensors |= {f"memory/{name}": tensor for name, tensor in self.optimizer_state().items()}
        return tensors | {"round": torch.tensor(self.number)}

    def take_up(self, tensors: Mapping[str, Tensor]) -> None:
        """Be as another one was that gave its `state`."""
        copy_into(self.shared, under("shared", tensors))
        self.load_optimizer_state(under("memory", tensors))
        self.number = int(tensors["round"])

    def _meet(self, federation: Federation, cost: RoundCost) -> list[Reply]:
        """Learn the sizes of sites never met; returns the absences of those that gave none."""
        unknown = [site for site in federation.sites if site not in self.sizes]
        if not unknown:
            return []
        absent = []
        replies = cost.recorded("describe", federation.ask("describe", Message(), to=unknown))
        for reply in checked(replies, _check_size):
            if reply.message is None:
                absent.append(reply)
            else:
                self.sizes[reply.site] = reply.message.value("examples", int)
        return absent

    def _drawn(self, sites: Sequence[SiteId]) -> list[SiteId]:
        """The sites of the coming round: the same ones for the same seed, whatever happened before."""
        known = [site for site in sites if site in self.sizes and site not in self.search.absent]
        if self.config.participation == 1:
            return known
        wanted = max(1, round(self.config.participation * len(sites)))
        random = Random(f"{self.seed}/round-{self.number + 1}")  # noqa: S311 – order, not secrecy
        drawn = set(random.sample(list(sites), wanted))
        return [site for site in known if site in drawn]


def _check_size(described: Message) -> None:
    if described.value("examples", int) < 1:
        raise MessageError("empty", "a site with nothing to train on cannot train")


def _check_loss(answer: Message) -> None:
    loss: Any = answer.values.get("loss", 0.0)
    if not isinstance(loss, float):
        raise MessageError("value-missing", "loss as float")
