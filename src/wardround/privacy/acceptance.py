"""Acceptance by the sites, where single updates are not visible: a step that most sites find harmful is not taken.

`Accepted(mechanism, settings)` wraps a mechanism that hides updates. Before the shared half steps, every site computes
the loss on its own development notes before and after the step, and votes. Votes are *ballots*: a vector of slots, all
zero but one that the site draws at random, added by a masked sum of its own. The coordinator reads the slots: how many
votes there are of each kind, and not whose they are. A site that casts more than one vote, or that takes votes of other
sites away, is noticed, unless it guesses a slot of another site: the number of ballots is then wrong. See
docs/poisoning.md.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from wardround.errors import FederationError, MessageError, SpoiledSumError, StudyError
from wardround.federation.aggregation import (
    AggregationClient,
    AggregationServer,
    OpenSum,
    Reader,
    RoundSum,
    Tensors,
)
from wardround.federation.coordinator import Coordinator, RoundContext, RoundsConfig
from wardround.federation.federation import Replies, SiteId
from wardround.federation.message import Array, Message, Value
from wardround.federation.site_history import most_repeats
from wardround.secure_aggregation.mechanisms import AgreedMechanism, ClientSetup, Masked, Mechanism, ServerSetup
from wardround.tasks.batching import in_length_order
from wardround.training.state_files import tensors_under
from wardround.training.training_config import RoundTrainingConfig

if TYPE_CHECKING:
    from torch import Tensor

    from wardround.federation.site_history import SiteHistory
    from wardround.federation.site_runtime import Site
    from wardround.federation.unit_privacy import UnitPrivacy
    from wardround.secure_aggregation.replica import Replica
    from wardround.secure_aggregation.submission import Submission

__all__ = ["Acceptance", "Accepted", "AcceptedClient", "AcceptedServer", "JudgedSum", "ballot", "count_ballots"]

SLOTS = 4096  # a malicious site hits the slot of one of n others with probability n / SLOTS
_ARRAY = "ballots"
_EXACT = 0.1  # a counted slot is a whole number up to the rounding of the packing: for n sites n² / 2³⁰ at most
_FLOOR = 1e-3  # a loss below this counts as this
_BATCH = 64
# The phases of the sum of votes have steps of their own, so that a site does not confuse them with those of updates.
_STEPS = {"submit": "submit_vote", "unmask": "unmask_vote"}


@dataclass(frozen=True)
class Acceptance:
    """The section [privacy.acceptance] of a study file."""

    tolerance: float = 0.1  # largest relative growth of the loss on a site's development notes in one step
    sentences: int = 200  # most development examples that a site scores for a vote; 0: all
    patience: int = 2  # rejected rounds in a row before sites sit out to find the one that causes them

    def __post_init__(self) -> None:
        if not 0 <= self.tolerance < math.inf:
            raise StudyError(f"tolerance is {self.tolerance}; it must be a share of the loss, zero or above")
        for name, least in (("sentences", 0), ("patience", 1)):
            if getattr(self, name) < least:
                raise StudyError(f"{name} is {getattr(self, name)}; it must be at least {least}")


# Ballots.


def ballot(harmful: bool, *, slot: int, voters: int) -> Array:
    """Return a vote in one slot: 1 for a harmful step, 1 / (voters + 1) for another.

    A slot that several sites drew can still be read: in units of the smaller vote it is the number of the smaller ones
    plus (voters + 1) times the number of the larger ones.
    """
    slots = np.zeros(SLOTS, np.float32)
    slots[slot] = 1.0 if harmful else 1.0 / (voters + 1)
    return slots


def count_ballots(mean: Array, *, cast: int, voters: int) -> int:
    """Return how many of the `cast` ballots call the step harmful; raise a `MessageError` for impossible ones."""
    units = np.asarray(mean, np.float64) * cast * (voters + 1)
    whole = np.rint(units)
    if not (np.abs(units - whole) <= _EXACT).all() or whole.min() < 0:
        raise MessageError("votes", "the sum of the votes holds a slot that no votes add up to")
    harmful, harmless = np.divmod(whole, voters + 1)
    if harmful.sum() + harmless.sum() != cast:
        raise MessageError("votes", "there are more or fewer votes than sites that voted")
    return int(harmful.sum())


def _voting(agreed: AgreedMechanism) -> AgreedMechanism:
    """Return the agreement about votes: masked, readable by the coordinator, and separate from that about updates."""
    return replace(
        agreed,
        study=sha256(f"votes of {agreed.study}".encode()).hexdigest(),
        protection=Masked(),
        shapes={_ARRAY: (SLOTS,)},
        groups={_ARRAY: _ARRAY},
        scheme="bfv",
        packing="standard",
        clips={_ARRAY: 1.0},
        mean_comes_back=False,
        unit=0.0,
    )


# The coordinator.


class _BallotBox(Coordinator):
    """The coordinator of one vote, in which every site counts the same."""

    uniform_weights = True

    def gather(self, context: RoundContext) -> RoundSum:
        """Ask the voters to judge."""
        return context.gather("judge", {})

    def expected_arrays(self) -> dict[str, Array]:
        """Return an array of the form of a ballot."""
        return {_ARRAY: np.zeros(SLOTS, np.float32)}


@dataclass
class _Vote(RoundContext):
    """The context of one vote: its question is given, and its later phases have steps of their own."""

    asked: Message = field(default_factory=Message)

    def question(self, values: Mapping[str, Value]) -> Message:
        """Return the question that the voters judge."""
        return self.asked

    def ask(self, step: str, question: Message, *, to: Sequence[SiteId]) -> Replies:
        """Ask the voters; a phase of the sum of votes has a name of its own."""
        return super().ask(_STEPS.get(step, step), question, to=to)


@dataclass(frozen=True)
class JudgedSum(RoundSum):
    """A sum that is stepped with only if most sites do not find the step harmful."""

    inner: RoundSum
    votes: AggregationServer

    def step(self, context: RoundContext) -> None:
        """Have the sites judge the step, and take it or mark the round as rejected."""
        context.votes = self._harmful_votes(context)
        harmful, cast = context.votes
        context.rejected = 2 * harmful > cast
        self.decide(context, taken=not context.rejected)

    def opened(self, context: RoundContext) -> OpenSum:
        """Return the wrapped sum opened for the coordinator; it is not stepped with, so it is not judged."""
        return self.inner.opened(context)

    def question(self, context: RoundContext) -> Message:
        """Return what the sites judge."""
        return self.inner.question(context)

    def decide(self, context: RoundContext, *, taken: bool) -> None:
        """Take the step, or finish the round without it."""
        self.inner.decide(context, taken=taken)

    def _harmful_votes(self, context: RoundContext) -> tuple[int, int]:
        """Return how many sites find the step harmful, and how many voted."""
        voters = [site for site in context.federation.sites if site not in context.coordinator.search.absent]
        box = _BallotBox({}, RoundsConfig(rounds=context.coordinator.config.rounds), RoundTrainingConfig())
        box.number = context.coordinator.number
        question = self.question(context)
        question = replace(question, values={**question.values, "voters": len(voters)})
        vote = _Vote(
            box,
            context.federation,
            self.votes,
            context.quorum,
            voters,
            [],
            context.absent,
            context.cost,
            asked=question,
        )
        before = len(context.absent)
        try:
            counted = box.gather(vote)
        except SpoiledSumError:
            raise
        except FederationError as error:
            refusals = [absent for absent in context.absent[before:] if absent.code == "sum"]
            if 2 * len(refusals) <= len(voters):
                raise
            raise SpoiledSumError(f"most sites refuse the round's sum: {error}", sites=self.sites) from None
        cast, mean = len(counted.sites), counted.opened(vote).mean[_ARRAY]
        try:
            return count_ballots(mean, cast=cast, voters=len(voters)), cast
        except MessageError as error:
            raise SpoiledSumError(
                f"the votes on the round's step are not valid ({error.code})", sites=counted.sites
            ) from None


class AcceptedServer:
    """The coordinator's end: the wrapped one, whose sums are judged before they are stepped with."""

    def __init__(self, inner: AggregationServer, votes: AggregationServer) -> None:
        self.inner, self.votes = inner, votes

    @property
    def reader(self) -> Reader:
        """Return who can read the sum."""
        return self.inner.reader

    def aggregate(self, context: RoundContext, step: str, values: Mapping[str, Value]) -> RoundSum:
        """Run the phases of the wrapped mechanism."""
        gathered = self.inner.aggregate(context, step, values)
        return JudgedSum(gathered.sites, gathered, self.votes, values=gathered.values)


# A site.


class AcceptedClient:
    """A site's end: the wrapped one, and a second submission for votes."""

    def __init__(self, inner: Submission, votes: Submission, settings: Acceptance, *, durable: bool) -> None:
        self._inner, self._votes, self._settings, self._durable = inner, votes, settings, durable
        self._examples: Sequence[Any] = ()  # of the development notes, once they are needed
        self._opened: dict[str, Tensor] = {}  # the mean of the sum that was judged, until it is decided
        self._opened_round = 0

    @property
    def history(self) -> SiteHistory:
        """Return the site's permanent record."""
        return self._inner.history

    @property
    def unit_privacy(self) -> UnitPrivacy | None:
        """Return None: acceptance is refused together with differential privacy."""
        return self._inner.unit_privacy

    @property
    def changes(self) -> int:
        """Return a count that grows whenever the state must be written again."""
        return self._inner.changes + self._votes.changes

    @property
    def redraws(self) -> int:
        """Return how often this site drew other sentences because its update had been opened."""
        return self._inner.redraws

    def steps(self, replica: Replica | None) -> Mapping[str, Callable[[Any, Message], Message]]:
        """Return the steps of the wrapped mechanism, without the one that steps unjudged, and those of a vote."""
        inner = {name: step for name, step in self._inner.steps(replica).items() if name != "open_sum"}
        votes = self._votes

        def submit_vote(site: Site, message: Message) -> Message:
            number = message.value("round", int)
            return votes.submit(message, name=site.name, round_number=number, rounds=site.rounds)

        steps: dict[str, Callable[[Any, Message], Message]] = {
            "judge": lambda site, message: self._judge(site, message, replica),
            "submit_vote": submit_vote,
            "unmask_vote": lambda site, message: votes.unmask(message),
        }
        if replica is not None:
            steps["decide"] = lambda site, message: self._decide(site, message, replica)
        return inner | steps

    def begin(self, round_number: int, *, after: int, most_redraws: int) -> None:
        """Prepare the wrapped mechanism for a round."""
        self._inner.begin(round_number, after=after, most_redraws=most_redraws)

    def announce(
        self, update: Tensors, *, weight: float, values: Mapping[str, Value], learn_clips: bool = False
    ) -> Message:
        """Announce an update as the wrapped mechanism does."""
        return self._inner.announce(update, weight=weight, values=values, learn_clips=learn_clips)

    def state(self) -> dict[str, Tensor]:
        """Return the state of the wrapped mechanism, the vote that is held, and the mean that is not decided yet."""
        tensors = self._inner.state() | {f"vote/{name}": tensor for name, tensor in self._votes.state().items()}
        tensors |= {f"opened/{name}": tensor for name, tensor in self._opened.items()}
        return tensors | {"opened_round": torch.tensor(self._opened_round)}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        self._inner.load(tensors)
        self._votes.load(tensors_under("vote", tensors))
        self._opened, self._opened_round = tensors_under("opened", tensors), int(tensors["opened_round"])

    def _judge(self, site: Site, message: Message, replica: Replica | None) -> Message:
        """Score the shared half before and after a step; announce the vote, which is held."""
        number, voters = message.value("round", int), message.value("voters", int)
        if not 1 <= voters <= len(self._votes.client.mechanism.sites):
            raise MessageError("value", "there are at most as many voters as sites")
        self._votes.begin(number, after=number - 1, most_redraws=most_repeats(site.rounds))
        if replica is None:
            before, after = message.group("shared"), message.group("candidate")
        else:
            replica.arrays(after=number - 1)  # refuse a wrong round before anything is opened
            mean = self._inner.open(message)
            before = {name: array.copy() for name, array in replica.arrays(after=number - 1).items()}
            after = replica.stepped(mean, message.values)
            self._opened, self._opened_round = {n: torch.from_numpy(a) for n, a in mean.items()}, number
        # If the loss was not finite before the step either, the step is not to blame.
        known, found = (self._loss(site, arrays) for arrays in (before, after))
        harmful = not found <= (1.0 + self._settings.tolerance) * max(known, _FLOOR) and math.isfinite(known)
        slots = ballot(harmful, slot=self._slot(site, number), voters=voters)
        return self._votes.announce({_ARRAY: slots}, weight=1.0, values={})

    def _decide(self, site: Site, message: Message, replica: Replica) -> Message:
        """Take the step that was judged, or leave the shared half as it is for this round."""
        number = message.value("round", int)
        replica.arrays(after=number - 1)
        if not message.value("taken", bool):
            replica.skip(number)
        elif self._opened_round != number:
            raise MessageError("behind", "this site has not opened the sum of the round")
        else:
            replica.step({name: t.numpy() for name, t in self._opened.items()}, message.values, number=number)
        self._opened, self._opened_round = {}, 0
        site.extend_hash_chain(replica.shared_bytes())
        return Message({"shared": self._inner.client.fingerprint(replica.shared_bytes())})

    @torch.inference_mode()
    def _loss(self, site: Site, arrays: Mapping[str, Array]) -> float:
        """Return the mean loss on the site's development notes, without dropout."""
        if not self._examples:
            encoded = site.task.encode(site.notes.dev)
            most = self._settings.sentences or len(encoded)
            random = Random(f"{site.seed}/{site.name}/votes")  # noqa: S311 – which examples, not a secret
            self._examples = random.sample(list(encoded), min(most, len(encoded)))
        site.fill(arrays)
        site.model.eval()
        total = 0.0
        for batch in self._batches(site):
            total += len(batch) * float(site.task.batch_loss(batch))
        return total / len(self._examples)

    def _batches(self, site: Site) -> Iterator[list[Any]]:
        lengths = [site.task.length(example) for example in self._examples]
        return ([self._examples[row] for row in rows] for rows in in_length_order(lengths, _BATCH))

    def _slot(self, site: Site, number: int) -> int:
        """Return a slot that no other party knows; on one machine, where nothing is secret, a repeatable one."""
        if self._durable:
            return secrets.randbelow(SLOTS)
        return Random(f"{site.seed}/{site.name}/slot-{number}").randrange(SLOTS)  # noqa: S311


class Accepted(Mechanism):
    """Votes of the sites on every step, around a mechanism that hides updates."""

    def __init__(self, inner: Mechanism, settings: Acceptance) -> None:
        self.inner, self.settings = inner, settings
        self.name = f"{inner.name} with acceptance by the sites"
        self.protects, self.seals, self.masks = inner.protects, inner.seals, inner.masks
        self.minimum_sites = max(3, inner.minimum_sites)  # votes are masked, whatever updates are
        self.packages = inner.packages
        self.coordinator_reads_update = inner.coordinator_reads_update
        self.coordinator_reads_sum = inner.coordinator_reads_sum
        self.coordinator_and_one_site_read_update = inner.coordinator_and_one_site_read_update
        promise = (
            "Before a step is taken, your site computes the loss on its development notes before and after it, and "
            f"votes whether the loss grows by more than {settings.tolerance:.0%}. The coordinator can read how many "
            "sites find the step harmful, but not which: votes are masked and lie in places drawn at random. A step "
            "that most sites find harmful is not taken."
        )
        self.updates_readable_by = f"{inner.updates_readable_by} {promise}"
        self.predictions_readable_by = inner.predictions_readable_by
        self.summary = f"{inner.summary} The sites vote on each step."
        self.predictions_summary = inner.predictions_summary
        self.report = (
            f"{inner.report} Before each step the sites scored it on their development notes and voted; the "
            "coordinator could read how many found it harmful, but not which. A step that most found harmful was not "
            "taken."
        )

    def steps(self, *, mean_comes_back: bool) -> tuple[str, ...]:
        """Return the steps of the wrapped mechanism and those of a vote."""
        inner = (step for step in self.inner.steps(mean_comes_back=mean_comes_back) if step != "open_sum")
        return (*inner, "judge", *_STEPS.values(), *(("decide",) if self.seals else ()))

    def refusal(self, *, scheme: str, packing: str, mean_comes_back: bool, algorithm: str) -> str:
        """Return why this mechanism cannot run with these settings of [privacy]; empty if it can."""
        return self.inner.refusal(scheme=scheme, packing=packing, mean_comes_back=mean_comes_back, algorithm=algorithm)

    def server(self, setup: ServerSetup) -> AggregationServer:
        """Build the coordinator's end of the wrapped mechanism, and that of the votes."""
        from wardround.secure_aggregation.server import SecureAggregationServer

        votes = SecureAggregationServer(_voting(setup.agree()), certifier=setup.certifier)
        return AcceptedServer(self.inner.server(setup), votes)

    def client(self, setup: ClientSetup) -> AggregationClient:
        """Build a site's end of the wrapped mechanism, and that of the votes."""
        from wardround.secure_aggregation.client import SecureAggregationClient
        from wardround.secure_aggregation.submission import Submission

        inner, agreed = self.inner.client(setup), _voting(setup.agree())
        assert isinstance(inner, Submission), "acceptance wraps a mechanism that hides updates"
        client = SecureAggregationClient(agreed, setup.identity(), certifier=setup.certifier)
        votes = Submission(client, setup.folder / "votes", clips=agreed.clips, durable=setup.durable)
        return AcceptedClient(inner, votes, self.settings, durable=setup.durable)
