"""Hospitals with tiny networks whose updates are protected, and somebody on the way who may meddle with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from tests.algorithms.hospitals import CALM, site
from tests.algorithms.wards import Meddle, honest
from tests.models.tiny import TYPES, notes
from tests.secure_aggregation.cohort import STUDY, Keys, secret_of

from wardround.algorithms.fedavg import ALGORITHM as FEDAVG
from wardround.algorithms.fedavg import FedAvg, FedAvgConfig
from wardround.algorithms.fedner import ALGORITHM as FEDNER
from wardround.algorithms.fedner import FedNer, FedNerConfig
from wardround.federation.aggregation import AggregationServer
from wardround.federation.coordinator import Coordinator, Round
from wardround.federation.engines.in_process import InProcessFederation
from wardround.federation.federation import Quorum, SiteId
from wardround.federation.message import Message
from wardround.federation.site_runtime import Site
from wardround.federation.worker_process import RequestHandler
from wardround.models.word_tagger import WordTagger
from wardround.privacy.mechanism_table import MECHANISMS
from wardround.secure_aggregation.client import SecureAggregationClient
from wardround.secure_aggregation.identities import Identity
from wardround.secure_aggregation.mechanisms import AgreedMechanism
from wardround.secure_aggregation.plain import PlainServer
from wardround.secure_aggregation.replica import Replica
from wardround.secure_aggregation.server import SecureAggregationServer
from wardround.secure_aggregation.submission import Submission
from wardround.training.training_config import RoundTrainingConfig

NAMES = ("harbour", "hillside", "riverside", "station")
ROUNDS = 8


class Hospitals:
    """Sites that write what must last before they answer, each with its own notes; `mechanism` may be `plain`."""

    def __init__(
        self, folder: Path, mechanism: str, *, config: Any = CALM, algorithm: str = "fedner", minimum: int = 3
    ) -> None:
        self.folder, self.config, self.algorithm = folder, config, algorithm
        self.meddle: Meddle = honest
        self.mechanism = None if mechanism == "plain" else self._agreed(mechanism, minimum)
        self.sites: dict[SiteId, Site] = {name: self.opened(name) for name in NAMES}
        self.federation = InProcessFederation(NAMES, lambda name: RequestHandler(_Way(self, name)))
        self.coordinator = self.server()
        self.quorum = Quorum(minimum)
        self.aggregator = self._aggregator()

    def server(self) -> Coordinator:
        """The coordinator's object before round 1."""
        shared = {name: tensor.detach().numpy() for name, tensor in self._model().shared_parameters().items()}
        training = RoundTrainingConfig(batch_size=12, learning_rate=0.01)
        if self.algorithm == "fedavg":
            return FedAvg(shared, FedAvgConfig(rounds=ROUNDS, local_steps=2), training)
        return FedNer(shared, FedNerConfig(rounds=ROUNDS), training)

    def opened(self, name: SiteId) -> Site:
        """The site as a new process finds it: on its disk, with fresh keys."""
        number = NAMES.index(name)
        steps = {**FEDNER.site_steps, **FEDAVG.site_steps}
        settings: dict[str, Any] = {"config": self.config, "documents": notes(6, seed=number), "steps": steps}
        if self.mechanism is None:
            return site(self.folder, name, durable=True, **settings)
        secrets = Keys(secret_of(self.mechanism.key_scheme)) if self.mechanism.is_sealed else None
        client = SecureAggregationClient(self.mechanism, Identity.new(name, None), secrets=secrets)
        submission = Submission(client, self.folder / name, clips={}, feedback=True)
        replica = Replica(self.server()) if self.mechanism.is_sealed else None
        return site(self.folder, name, durable=True, aggregation=submission, replica=replica, **settings)

    def restart(self, name: SiteId) -> None:
        """The process dies, without a word, and another one begins."""
        self.sites[name] = self.opened(name)

    def run(self, rounds: int = 1) -> list[Round]:
        """So many rounds more."""
        running = self.coordinator.rounds(self.federation, self.aggregator, self.quorum)
        return [next(running) for _ in range(rounds)]

    def ask(self, step: str, message: Message, *, to: Sequence[SiteId] | None = None) -> dict[SiteId, Any]:
        """Past the coordinator: each site's answer, or the code of its refusal."""
        replies = self.federation.ask(step, message, to=to)
        return {reply.site: reply.code if reply.message is None else reply.message for reply in replies}

    def put_back(self, number: int) -> None:
        """All of them to the state after a round."""
        assert not [code for code in self.ask("restore", Message({"round": number})).values() if isinstance(code, str)]
        self.coordinator.number = number

    def shared(self, name: SiteId = NAMES[0]) -> dict[str, torch.Tensor]:
        """The shared half, wherever it is."""
        replica = self.sites[name].replica
        return (self.coordinator if replica is None else replica._server).shared

    def held(self, name: SiteId) -> bytes:
        """The update that a site holds."""
        submission = self.sites[name].aggregation
        assert submission is not None
        return b"".join(t.numpy().tobytes() for n, t in sorted(submission.state().items()) if n.startswith("update/"))

    def train(self, number: int, **changed: Any) -> Message:
        """The question that begins a round of fedner."""
        values = {**self.coordinator.settings(), "sizes": dict(self.coordinator.sizes), "round": number}
        return Message(values | changed)

    def _agreed(self, name: Any, minimum: int) -> AgreedMechanism:
        model = self._model()
        shared = model.shared_parameters()
        shapes = {key: tuple(tensor.shape) for key, tensor in shared.items()}
        groups = {key: model.group_of(key) for key in shared}
        return AgreedMechanism(STUDY, MECHANISMS[name], shapes, groups, NAMES, minimum)

    def _aggregator(self) -> AggregationServer:
        if self.mechanism is None:
            return PlainServer()
        if not self.mechanism.is_sealed:
            return SecureAggregationServer(self.mechanism)
        public = secret_of(self.mechanism.key_scheme).public(STUDY)
        return SecureAggregationServer(self.mechanism, parameters=lambda: public)

    def _model(self) -> WordTagger:
        torch.manual_seed(0)
        return WordTagger(self.config, TYPES)


class _Way:
    """Between the coordinator and a site."""

    def __init__(self, hospitals: Hospitals, name: SiteId) -> None:
        self._hospitals, self._name = hospitals, name

    def answer(self, step: str, message: Message) -> Message:
        meddle = self._hospitals.meddle
        # Looked up when it is asked: somebody on the way may have restarted it.
        return meddle(
            self._name, step, message, lambda question: self._hospitals.sites[self._name].answer(step, question)
        )

    def close(self) -> None: ...


def same(left: Mapping[str, torch.Tensor], right: Mapping[str, torch.Tensor]) -> bool:
    """Bit for bit."""
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def furthest(left: Mapping[str, torch.Tensor], right: Mapping[str, torch.Tensor]) -> float:
    """The largest difference of two shared halves."""
    return max(float((left[name] - right[name]).abs().max()) for name in left)
