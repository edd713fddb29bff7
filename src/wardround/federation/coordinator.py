"""The coordinator's round loop, which every algorithm shares.

The coordinator holds the shared half and, of the sites, only their sizes. An algorithm defines what is asked in a round
(`gather`) and how the mean changes the shared half (`step`); drawing sites, weighting, counting, saving and resuming
are here. If the mean opens at the sites, each site holds a copy of this object and steps it; the coordinator's own then
counts the rounds, and its shared half stays as it was before the first.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wardround.errors import (
    FederationError,
    MessageError,
    SpentBudgetError,
    SpoiledSumError,
    TrainingError,
    WithheldSeedError,
)
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
from wardround.training.state_files import copy_into, load_tensors, save_tensors, tensors_under
from wardround.training.training_config import RoundTrainingConfig

__all__ = ["Absent", "Coordinator", "Round", "RoundContext", "RoundCost", "RoundSum", "RoundsConfig"]

_BUDGET = "budget"  # the code of a site whose privacy budget is spent
_MOST_VANISHING = 3  # rounds in a row in which an update rounds to zero
# Clips are learned again at most this often, plus once for every so many rounds.
_MOST_RELEARNED, _ROUNDS_PER_RELEARNING = 4, 20


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

    def passes(self, examples: Sequence[int], batch_size: int) -> float | None:
        """Return about how often the study passes over a site's notes; None if the algorithm does not say.

        Args:
            examples: the number of training examples of each site.
            batch_size: that of the section [training].
        """
        return None


@dataclass(frozen=True)
class Absent:
    """A site without a usable answer in an exchange, and why."""

    site: SiteId
    absence: Absence
    code: str


@dataclass
class RoundCost:
    """Collects the cost while a round runs; `phase` and `recorded` measure time."""

    exchanges: dict[str, dict[SiteId, Traffic]] = field(default_factory=dict)  # by step and site
    seconds: dict[str, float] = field(default_factory=dict)  # the coordinator's own, by phase
    _waited: float = 0.0  # for sites

    @property
    def total(self) -> Traffic:
        """Return the sum over all exchanges; seconds of sites that work in parallel are added."""
        return sum((cost for sites in self.exchanges.values() for cost in sites.values()), Traffic())

    def recorded(self, step: str, replies: Replies) -> Iterator[Reply]:
        """Yield the replies and count them; the time until a reply arrives counts as waiting, not as work."""
        while True:
            started = perf_counter()
            reply = next(replies, None)
            self._waited += perf_counter() - started
            if reply is None:
                return
            sites = self.exchanges.setdefault(step, {})
            sites[reply.site] = sites.get(reply.site, Traffic()) + reply.traffic
            yield reply

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the seconds of the enclosed work for this phase, without the time spent waiting for sites."""
        started, waited, others = perf_counter(), self._waited, sum(self.seconds.values())
        try:
            yield
        finally:
            passed = perf_counter() - started - (self._waited - waited)
            inner = sum(self.seconds.values()) - others  # of nested phases
            self.seconds[name] = self.seconds.get(name, 0.0) + max(0.0, passed - inner)


@dataclass(frozen=True)
class Round:
    """The results of one round."""

    number: int
    loss: float  # mean over the sites that answered, weighted by their sizes
    answered: int
    absent: tuple[Absent, ...]
    traffic: Traffic  # of all exchanges; seconds of sites that work in parallel are added
    clipped: int = 0  # numbers of updates outside their clip
    vanished: Mapping[SiteId, int] = field(default_factory=dict)  # number of layer groups that rounding made zero
    digests: Mapping[SiteId, str] = field(default_factory=dict)  # of the sites' copies of the shared half
    figures: Mapping[str, float] = field(default_factory=dict)  # of the algorithm, in addition to the loss
    used: Mapping[SiteId, float] = field(default_factory=dict)  # share of each update that a robust rule used
    votes: tuple[int, int] | None = None  # sites that found the step harmful, and sites that voted; None: no vote
    rejected: bool = False  # whether the step was not taken because most sites found it harmful
    notice: str = ""  # what follows from a rejection
    cost: RoundCost = field(default_factory=RoundCost)  # of every exchange and of the coordinator's own work


@dataclass
class RoundContext:
    """The state of one running round: asks the sites drawn for it and counts the cost."""

    coordinator: Coordinator
    federation: Federation
    aggregator: AggregationServer
    quorum: Quorum
    sites: Sequence[SiteId]
    missing_sizes: list[Reply]  # of sites that never sent their size; they are absent from the first exchange
    absent: list[Absent] = field(default_factory=list)
    cost: RoundCost = field(default_factory=RoundCost)
    present: list[SiteId] = field(default_factory=list)  # in the last exchange
    clipped: int = 0  # numbers of updates outside their clip
    vanished: dict[SiteId, int] = field(default_factory=dict)  # number of layer groups that rounding made zero
    digests: dict[SiteId, str] = field(default_factory=dict)  # of the sites' copies of the shared half
    epsilon: float = 0.0  # the most that a site has spent, as the sites say
    used: dict[SiteId, float] = field(default_factory=dict)  # share of each update that a robust rule used
    votes: tuple[int, int] | None = None  # sites that found the step harmful, and sites that voted
    rejected: bool = False  # most sites found the step harmful, so it was not taken
    _loss: float = 0.0
    _weight: int = 0

    def gather(self, step: str, values: Mapping[str, Value]) -> RoundSum:
        """Ask the sites to do `step`; return the sum of their updates, whose mean is Σ n_i u_i / Σ n_i."""
        return self.aggregator.aggregate(self, step, values)

    def question(self, values: Mapping[str, Value]) -> Message:
        """Return a question of the next round, with the shared half if the coordinator has it."""
        at_sites = self.aggregator.reader is Reader.SITE and not self.coordinator.central
        # No copy is needed: the message is encoded at once, and the shared half changes after the last answer.
        arrays = {} if at_sites else self.coordinator.broadcast_arrays()
        return Message({**values, "round": self.coordinator.number + 1}, arrays)

    def answers(
        self,
        step: str,
        question: Message,
        *,
        check: Callable[[Message], None] | None = None,
        all_sites: bool = False,
    ) -> Iterator[tuple[SiteId, Message]]:
        """Ask the sites of the round, or `all_sites` of the study; yield usable answers, raise if they are too few."""
        replies = self.ask(step, question, to=self.federation.sites if all_sites else self.sites)
        yield from self.usable(checked(replies, check) if check else replies)

    def ask(self, step: str, question: Message, *, to: Sequence[SiteId]) -> Replies:
        """Ask sites; yield every reply as it arrives, and record its cost."""
        return self.cost.recorded(step, self.federation.ask(step, question, to=to))

    def usable(self, replies: Replies) -> Iterator[tuple[SiteId, Message]]:
        """Yield the answers among the replies; raise a `FederationError` at the end if they are too few."""
        self.present = []
        replies, self.missing_sizes = chain(self.missing_sizes, replies), []
        try:
            for site, message in self.quorum.present(self._counted(replies)):
                self.present.append(site)
                yield site, message
        except FederationError as error:
            if any(gone.code == _BUDGET for gone in self.absent):
                raise SpentBudgetError(str(error)) from None
            raise

    def answered(self, replies: Replies) -> Iterator[tuple[SiteId, Message]]:
        """Yield the answers, however few there are; record sites without an answer as absent."""
        for reply in self._counted(replies):
            if reply.message is not None:
                yield reply.site, reply.message

    def note_loss(self, loss: float) -> None:
        """Note the loss of a round in which only the coordinator trained."""
        self._loss, self._weight = self._loss + loss, self._weight + 1

    def loss(self) -> float:
        """Return the mean loss of the answers that have one."""
        return self._loss / self._weight if self._weight else float("nan")

    def _counted(self, replies: Replies) -> Iterator[Reply]:
        for reply in checked(replies, _check_loss):
            if reply.message is None:
                assert reply.absence is not None
                self.absent.append(Absent(reply.site, reply.absence, reply.code))
            elif "loss" in reply.message.values:
                size = self.coordinator.sizes.get(reply.site, 0)
                self._loss, self._weight = self._loss + size * reply.message.value("loss", float), self._weight + size
            if reply.message is not None and "epsilon" in reply.message.values:
                self.epsilon = max(self.epsilon, reply.message.value("epsilon", float))
            yield reply


class Coordinator(ABC):
    """The coordinator's side of an algorithm; `output` names the shared parameters of output layers."""

    uniform_weights = False  # whether every site counts the same, whatever its size
    central = False  # whether the shared half stays here even if only sites can open the sum

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
        self.number = 0  # the last finished round
        self.failed_round_cost = RoundCost()  # of the last round that failed
        self.sizes: dict[SiteId, int] = {}  # |S_i|
        self.clips: dict[str, float] = {}  # by layer group, once learned, if the mechanism needs them
        self.largest_share = 1.0  # of one site in a mean of three or more
        self.most_units = math.inf  # that all sites may have together; more would contradict δ
        self.search = CulpritSearch()  # for a site that spoils sums
        self._vanishing = 0  # rounds in a row in which an update rounded to zero
        self._relearned = 0  # times that clips were learned again
        self.figures: dict[str, float] = {}  # of the last round, in addition to the loss

    @abstractmethod
    def gather(self, context: RoundContext) -> RoundSum | None:
        """Run one round: ask the sites and gather their updates; return None if there are none."""

    def step(self, mean: Mapping[str, Array], values: Mapping[str, Value]) -> None:
        """Change the shared half by the mean; `values` are those of the `RoundSum` and are not authenticated."""
        raise NotImplementedError

    def stepped(self, mean: Mapping[str, Array], values: Mapping[str, Value]) -> dict[str, Array]:
        """Return the shared half as `step` would leave it; everything stays as it is."""
        before = {name: tensor.clone() for name, tensor in self.state().items()}
        try:
            self.step({name: array.copy() for name, array in mean.items()}, values)
            return self.arrays()
        finally:
            self.load_state(before)

    def optimizer_state(self) -> dict[str, Tensor]:
        """Return what the next rounds depend on in addition to the shared half."""
        return {}

    def load_optimizer_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `optimizer_state` returned."""
        assert not state

    def rounds(self, federation: Federation, aggregator: AggregationServer, quorum: Quorum) -> Iterator[Round]:
        """Run the remaining rounds and yield their figures."""
        self.search.minimum = quorum.minimum
        while self.number < self.config.rounds:
            cost = RoundCost()
            missing_sizes = self._ask_sizes(federation, cost)
            if sum(self.sizes.values()) > self.most_units:
                raise TrainingError(
                    f"the sites have {sum(self.sizes.values()):,} units; [privacy.differential_privacy] delta must be "
                    "at most one over that number"
                )
            context = RoundContext(
                self, federation, aggregator, quorum, self._sample_sites(federation.sites), missing_sizes, cost=cost
            )
            try:
                with cost.phase("step"):
                    gathered = self.gather(context)
                    if gathered is not None:
                        gathered.step(context)
            except SpoiledSumError as error:
                self.failed_round_cost = cost
                raise FederationError(self.search.after_spoiled_sum(error)) from None
            except WithheldSeedError as error:
                self.failed_round_cost = cost
                said = self.search.after_withheld_seeds(error, context.sites, number=self.number + 1)
                raise FederationError(said) from None
            except FederationError:
                self.failed_round_cost = cost
                raise
            self.number += 1
            answered = context.present if gathered is None else gathered.sites
            notice, stop = self.search.after_round(answered, rejected=context.rejected)
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
                {**self.figures, **({"epsilon": context.epsilon} if context.epsilon else {})},
                context.used,
                context.votes,
                context.rejected,
                notice,
                cost,
            )
            if stop:
                raise TrainingError(stop)

    def check_weight(self, site: SiteId, weight: float) -> None:
        """Raise a `MessageError` for a weight that is not the size the site described."""
        if weight != self.weight_of(site):
            raise MessageError("weight", "is not the size that the site described, or 1 where all sites weigh the same")

    def weight_of(self, site: SiteId) -> float:
        """Return the weight of a site: its size, or 1 with uniform weights."""
        return 1.0 if self.uniform_weights else float(self.sizes[site])

    def weights_of(self, sites: Sequence[SiteId]) -> dict[SiteId, float]:
        """Return the weights of sites, capped so that none has more than the largest share."""
        return capped_weights({site: self.weight_of(site) for site in sites}, self.largest_share)

    def _note_vanished(self, vanished: Mapping[SiteId, int]) -> None:
        """Learn clips again after an update rounded to zero; raise a `TrainingError` if that does not help."""
        self._vanishing = self._vanishing + 1 if vanished else 0
        # Sites reveal how large their numbers are only so often; a site that falsely reports a vanished update must not
        # use that up.
        if vanished and self._relearned < _MOST_RELEARNED + self.config.rounds // _ROUNDS_PER_RELEARNING:
            self._relearned += 1
            self.clips.clear()
        if self._vanishing >= _MOST_VANISHING:
            raise TrainingError(
                f"updates of {', '.join(sorted(vanished))} rounded to zero in {self._vanishing} rounds in a row, so "
                "nothing is learned from them; set [privacy] value_bounds for the layer groups, or packing to standard"
            )

    def broadcast_arrays(self) -> dict[str, Array]:
        """Return the arrays that sites receive at the start of a round."""
        return grouped("shared", self.shared_views())

    def expected_arrays(self) -> dict[str, Array]:
        """Return arrays with the names and shapes of an update."""
        return self.shared_views()

    def shared_views(self) -> dict[str, Array]:
        """Return the shared half without copying; its numbers change with it."""
        return {name: tensor.numpy() for name, tensor in self.shared.items()}

    def arrays(self) -> dict[str, Array]:
        """Return a copy of the shared half."""
        return {name: tensor.numpy().copy() for name, tensor in self.shared.items()}

    def settings(self) -> dict[str, Value]:
        """Return the values of a question that say how to train in the next round."""
        rates = self.training.rates(self.number + 1, self.config.rounds)
        return {**rates.as_values(), "batch_size": self.training.batch_size, "clip": self.training.clip}

    def save(self, path: Path, *, more: Mapping[str, Tensor] | None = None) -> None:
        """Write everything that the next rounds depend on, and `more`, atomically."""
        tensors = self.state() | {f"size/{site}": torch.tensor(size) for site, size in self.sizes.items()}
        tensors |= {f"clip/{group}": torch.tensor(clip, dtype=torch.float64) for group, clip in self.clips.items()}
        tensors |= {f"search/{name}": tensor for name, tensor in self.search.state().items()}
        save_tensors(path, tensors | {f"more/{name}": tensor for name, tensor in (more or {}).items()})

    def restore(self, path: Path) -> dict[str, Tensor]:
        """Continue from a file of a study with the same model and settings; return the `more` in it."""
        tensors = load_tensors(path)
        self.load_state(tensors)
        self.sizes = {site: int(size) for site, size in tensors_under("size", tensors).items()}
        self.clips = {group: float(clip) for group, clip in tensors_under("clip", tensors).items()}
        # Earlier versions saved the excluded sites only.
        old = {f"excluded/{site}": place for site, place in tensors_under("excluded", tensors).items()}
        self.search.load(tensors_under("search", tensors) or old)
        return tensors_under("more", tensors)

    def state(self) -> dict[str, Tensor]:
        """Return the shared half, the optimizer state and the last finished round."""
        tensors = {f"shared/{name}": tensor for name, tensor in self.shared.items()}
        tensors |= {f"memory/{name}": tensor for name, tensor in self.optimizer_state().items()}
        return tensors | {"round": torch.tensor(self.number)}

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore what another coordinator's `state` returned."""
        copy_into(self.shared, tensors_under("shared", tensors))
        self.load_optimizer_state(tensors_under("memory", tensors))
        self.number = int(tensors["round"])

    def _ask_sizes(self, federation: Federation, cost: RoundCost) -> list[Reply]:
        """Ask sites whose size is unknown for it; return the absences among them."""
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

    def _sample_sites(self, sites: Sequence[SiteId]) -> list[SiteId]:
        """Return the sites of the next round, which depend on the seed and the round number only."""
        known = [site for site in sites if site in self.sizes and site not in self.search.absent]
        if self.config.participation == 1:
            return known
        count = max(1, round(self.config.participation * len(sites)))
        random = Random(f"{self.seed}/round-{self.number + 1}")  # noqa: S311 – order, not secrecy
        drawn = set(random.sample(list(sites), count))
        return [site for site in known if site in drawn]


def _check_size(described: Message) -> None:
    if described.value("examples", int) < 1:
        raise MessageError("empty", "a site with nothing to train on cannot train")


def _check_loss(answer: Message) -> None:
    loss: Any = answer.values.get("loss", 0.0)
    if not isinstance(loss, float):
        raise MessageError("value-missing", "loss as float")
