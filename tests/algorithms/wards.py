"""Sites with hand-made updates and no model behind a real exchange, and somebody on the way who may meddle with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from tests.secure_aggregation.cohort import STUDY, Keys, secret_of

from wardround.algorithms.fedavg import FedAvg, FedAvgConfig
from wardround.errors import MessageError
from wardround.federation.coordinator import Round
from wardround.federation.engines.in_process import InProcessFederation
from wardround.federation.federation import Quorum, SiteId
from wardround.federation.message import Array, Message
from wardround.federation.site_runtime import Site
from wardround.federation.worker_process import RequestHandler
from wardround.secure_aggregation.client import SecureAggregationClient
from wardround.secure_aggregation.identities import Identity
from wardround.secure_aggregation.mechanisms import AgreedMechanism, Masked, Sealed, SealedMasked
from wardround.secure_aggregation.replica import Replica
from wardround.secure_aggregation.server import SecureAggregationServer
from wardround.secure_aggregation.submission import Submission
from wardround.training.training_config import RoundTrainingConfig

NAMES = ("h1", "h2", "h3", "h4")
SIZES = {"h1": 1, "h2": 2, "h3": 5, "h4": 8}
WIDTH = 64  # numbers of the one parameter: what is noise does not lie in range by chance

MASKED = AgreedMechanism(STUDY, Masked(), {"w": (WIDTH,)}, {"w": "layer"}, NAMES, 3)
SEALED = replace(MASKED, protection=Sealed())
BOTH = replace(MASKED, protection=SealedMasked())
CKKS = replace(SEALED, scheme="ckks")
RETURNED = replace(SEALED, mean_comes_back=True)
EVERY = (MASKED, SEALED, BOTH, CKKS)

Updates = Callable[[SiteId, int], float]  # what all numbers of a site's update in a round are
Go = Callable[[Message], Message]
Meddle = Callable[[SiteId, str, Message, Go], Message]


def steady(site: SiteId, number: int) -> float:
    """0.1 for h1, 0.2 for h2 … in every round; of all four the mean is (1 + 4 + 15 + 32)/160 = 0.325."""
    return 0.1 * int(site[1:])


def honest(site: SiteId, step: str, message: Message, go: Go) -> Message:
    """Nobody meddles."""
    return go(message)


class Ward:
    """All that the steps of an exchange need of a site."""

    def __init__(self, name: SiteId, submission: Submission, replica: Replica | None, updates: Updates) -> None:
        self.name, self.aggregation, self.replica = name, submission, replica
        self.round = self.rounds = 0
        self._updates = updates

    def answer(self, step: str, message: Message) -> Message:
        if step == "describe":
            return Message({"examples": SIZES[self.name]})
        if step == "train":
            return self._train(message)
        if step == "restore":
            self.round = min(self.round, message.value("round", int))
            return Message()
        steps = self.aggregation.steps(self.replica)
        if step not in steps:
            raise MessageError("step")
        return steps[step](cast(Site, self), message)

    def close(self) -> None:
        """Nothing lasts but what `Giving` writes."""

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        yield

    def extend_hash_chain(self, what: bytes) -> None:
        """Nothing here is drawn."""

    def _train(self, message: Message) -> Message:
        number = message.value("round", int)
        if number <= self.round:
            raise MessageError("round")
        self.aggregation.begin(number, after=self.round)
        if self.replica is not None:
            self.replica.arrays(after=number - 1)
        update = {"w": np.full(WIDTH, self._updates(self.name, number), np.float32)}
        learn_clips = message.values.get("learn_clips") is True
        weight = float(SIZES[self.name])
        answer = self.aggregation.announce(update, weight=weight, values={"loss": 1.0}, learn_clips=learn_clips)
        self.round = number
        return answer


class Consortium:
    """Four wards, their coordinator, and whoever is on the way: `meddle` is asked about all that passes."""

    def __init__(
        self,
        folder: Path,
        mechanism: AgreedMechanism,
        *,
        updates: Updates = steady,
        clips: Mapping[str, float] | None = None,
        feedback: bool = False,
        rounds: int = 50,
    ) -> None:
        self.mechanism = replace(mechanism, clips=clips or {})
        self.meddle: Meddle = honest
        self.passed: list[tuple[str, SiteId, Message, Message]] = []  # step, site, question, answer
        self._folder, self._updates, self._feedback, self._rounds = folder, updates, feedback, rounds
        self.wards = {name: self.opened(name) for name in mechanism.sites}
        self.federation = InProcessFederation(mechanism.sites, lambda name: RequestHandler(_Way(self, name)))
        self.coordinator = self.server()
        parameters = None
        if mechanism.is_sealed:
            public = secret_of(mechanism.key_scheme).public(STUDY)
            parameters = lambda: public  # noqa: E731
        self.aggregator = SecureAggregationServer(self.mechanism, parameters=parameters)

    def server(self) -> FedAvg:
        """Moves the shared half, zero in the beginning, by the mean of each round."""
        return FedAvg({"w": np.zeros(WIDTH, np.float32)}, FedAvgConfig(rounds=self._rounds), RoundTrainingConfig())

    def opened(self, name: SiteId) -> Ward:
        """A ward as its process finds itself: with fresh keys, and what lies on its disk."""
        secrets = Keys(secret_of(self.mechanism.key_scheme)) if self.mechanism.is_sealed else None
        client = SecureAggregationClient(
            self.mechanism, Identity.new(name, None), secrets=secrets, feedback=self._feedback
        )
        submission = Submission(client, self._folder / name, clips=self.mechanism.clips, feedback=self._feedback)
        replica = Replica(self.server()) if self.mechanism.is_sealed else None
        return Ward(name, submission, replica, self._updates)

    def restart(self, name: SiteId) -> None:
        """The process dies and is started again: its state comes from disk, its keys are new."""
        old, new = self.wards[name], self.opened(name)
        new.aggregation.load(_copied(old.aggregation.state()))
        if old.replica is not None and new.replica is not None:
            new.replica.load(_copied(old.replica.state()))
        new.round = old.round
        self.wards[name] = new

    def run(self, rounds: int = 1, *, least: int | None = None) -> list[Round]:
        """So many rounds more."""
        quorum = Quorum(self.mechanism.minimum if least is None else least)
        running = self.coordinator.rounds(self.federation, self.aggregator, quorum)
        return [next(running) for _ in range(rounds)]

    def ask(self, step: str, message: Message, *, to: Sequence[SiteId] | None = None) -> dict[SiteId, Any]:
        """Past the coordinator: each site's answer, or the code of its refusal."""
        replies = self.federation.ask(step, message, to=to)
        return {reply.site: reply.code if reply.message is None else reply.message for reply in replies}

    def shared(self, site: SiteId = "h1") -> float:
        """The shared half, whose numbers are all alike up to what CKKS adds, wherever it is."""
        replica = self.wards[site].replica
        found = (self.coordinator if replica is None else replica._server).shared["w"]
        assert float(found.max() - found.min()) <= (1e-6 if self.mechanism.scheme == "ckks" else 0.0)
        return float(found[0])

    def questions(self, step: str) -> list[Message]:
        """Each that some site answered once, in order."""
        found: list[Message] = []
        for name, _, question, _ in self.passed:
            if name == step and question not in found[-1:]:
                found.append(question)
        return found

    def answers(self, step: str) -> list[tuple[SiteId, Message]]:
        return [(site, answer) for name, site, _, answer in self.passed if name == step]


class _Way:
    """Between the coordinator and a ward."""

    def __init__(self, consortium: Consortium, name: SiteId) -> None:
        self._consortium, self._name = consortium, name

    def answer(self, step: str, message: Message) -> Message:
        ward = self._consortium.wards[self._name]
        answer = self._consortium.meddle(self._name, step, message, lambda question: ward.answer(step, question))
        self._consortium.passed.append((step, self._name, message, answer))
        return answer

    def close(self) -> None: ...


def without(*lost: tuple[SiteId, str]) -> Meddle:
    """These sites do not answer these steps."""

    def meddle(site: SiteId, step: str, message: Message, go: Go) -> Message:
        if (site, step) in lost:
            raise ConnectionError
        return go(message)

    return meddle


def changing(site: SiteId, step: str, change: Callable[[Message], Message]) -> Meddle:
    """What a site answers to a step is changed on the way."""

    def meddle(asked: SiteId, name: str, message: Message, go: Go) -> Message:
        answer = go(message)
        return change(answer) if (asked, name) == (site, step) else answer

    return meddle


def asking(site: SiteId, step: str, change: Callable[[Message], Message]) -> Meddle:
    """What a site is asked in a step is changed on the way."""

    def meddle(asked: SiteId, name: str, message: Message, go: Go) -> Message:
        return go(change(message) if (asked, name) == (site, step) else message)

    return meddle


def _copied(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in tensors.items()}


def codes(record: Round) -> list[tuple[SiteId, str]]:
    """Who was absent, and why."""
    return [(gone.site, gone.code) for gone in record.absent]


def whole(number: float) -> dict[str, Array]:
    """An update all of whose numbers are alike."""
    return {"w": np.full(WIDTH, number, np.float32)}
