"""Clinics that share predictions on a public set: a model of forty weights, and somebody on the way who listens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from tests.algorithms.wards import Meddle, honest
from tests.secure_aggregation.cohort import STUDY, Keys, secret_of
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from wardround.algorithms.distillation import prediction_shapes
from wardround.algorithms.feded import ALGORITHM, FedEd, FedEdConfig
from wardround.algorithms.public_only import PublicConfig, PublicOnly
from wardround.errors import FederationError, MessageError
from wardround.federation.aggregation import AggregationClient, AggregationServer
from wardround.federation.coordinator import Coordinator, Round, RoundsConfig
from wardround.federation.engines.in_process import InProcessFederation
from wardround.federation.federation import Quorum, SiteId
from wardround.federation.message import Array, Message
from wardround.federation.site_runtime import PublicSet, Site, SiteNotes
from wardround.federation.worker_process import RequestHandler
from wardround.models.parameter_split import LayeredModel, ParameterSplit
from wardround.privacy.mechanism_table import MECHANISMS
from wardround.secure_aggregation.client import SecureAggregationClient
from wardround.secure_aggregation.identities import Identity
from wardround.secure_aggregation.mechanisms import AgreedMechanism
from wardround.secure_aggregation.plain import PlainClient, PlainServer
from wardround.secure_aggregation.predictions import PlainPredictions
from wardround.secure_aggregation.server import SecureAggregationServer
from wardround.secure_aggregation.submission import Submission
from wardround.tasks.task import Example, Task, TaskScore
from wardround.text.document import Document
from wardround.training.training_config import RoundTrainingConfig

NAMES = ("harbour", "hillside", "riverside", "station")
SIZES = {"harbour": 3, "hillside": 5, "riverside": 8, "station": 2}
WAYS = {"masked": "masked", "sealed": "sealed", "both": "sealed+masked", "ckks": "sealed", "compact": "sealed"}
CALM = FedEdConfig(rounds=4, distillation_epochs=4)  # of one step, Adam takes the direction alone
OWN = replace(CALM, site_models="own")
TRAINING = RoundTrainingConfig(batch_size=64, learning_rate=0.05)  # every batch is all there is


# What is learned.


@dataclass(frozen=True)
class Case:
    """Three measurements, what the patient has, and, of some organs, whether each is affected."""

    measured: tuple[float, float, float]
    disease: int  # of three
    organs: tuple[int, ...] = ()


class Net(LayeredModel):
    """`words` below, `output` above; the second is for both heads."""

    def __init__(self, *, width: int = 4, dropout: float = 0.0, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)  # `torch.manual_seed` notes its stack for a GPU to come
            self.words = nn.Linear(3, width)
            self.output = nn.ModuleDict({"diseases": nn.Linear(width, 3), "organs": nn.Linear(width, 2)})
        self.dropout = nn.Dropout(dropout)
        self.split = ParameterSplit.sharing(self.groups, self.groups)

    @property
    def groups(self) -> tuple[str, ...]:
        return ("words", "output")

    def forward(self, head: str, measured: Tensor) -> Tensor:
        scores: Tensor = self.output[head](self.dropout(self.words(measured).tanh()))
        return scores


class CaseTask(Task):
    """Two heads: a row a case of three classes, and a row an organ of two."""

    matching_modes = ("cases",)
    lost: Mapping[str, int] = {}

    def __init__(self, model: Net) -> None:
        self.model: Net = model

    @property
    def entity_types(self) -> tuple[str, ...]:
        raise NotImplementedError

    def encode(self, documents: Iterable[Document]) -> Sequence[Example]:
        raise NotImplementedError

    def predict(self, documents: Iterable[Document]) -> Iterable[Document]:
        raise NotImplementedError

    def score(self, documents: Sequence[Document]) -> TaskScore:
        raise NotImplementedError

    def length(self, example: Example) -> int:
        return 1 + len(example.organs)

    def batch_loss(self, batch: Sequence[Example]) -> Tensor:
        labels = self.labels(batch)
        losses = [cross_entropy(rows, labels[head]) for head, rows in self.heads(batch).items() if len(rows)]
        return torch.stack(losses).sum()

    def classes(self) -> Mapping[str, int]:
        return {"diseases": 3, "organs": 2}

    def labels(self, batch: Sequence[Example]) -> dict[str, Tensor]:
        return {
            "diseases": torch.tensor([case.disease for case in batch]),
            "organs": torch.tensor([organ for case in batch for organ in case.organs], dtype=torch.long),
        }

    def heads(self, batch: Sequence[Example]) -> dict[str, Tensor]:
        return {head: self.model(head, rows) for head, rows in measurements(batch).items()}


def measurements(cases: Sequence[Case]) -> dict[str, Tensor]:
    """What the model reads for each row of a head; of the n-th organ everything is a tenth of n higher."""
    organs = [[m + n / 10 for m in case.measured] for case in cases for n in range(len(case.organs))]
    return {
        "diseases": torch.tensor([case.measured for case in cases]),
        "organs": torch.tensor(organs).reshape(-1, 3),
    }


def cases(count: int, seed: str) -> tuple[Case, ...]:
    """Cases of one clinic; each has two organs, one or none."""
    chance = Random(seed)
    return tuple(
        Case(
            (chance.gauss(0, 1), chance.gauss(0, 1), chance.gauss(0, 1)),
            chance.randrange(3),
            tuple(chance.randrange(2) for _ in range(number % 3)),
        )
        for number in range(count)
    )


PUBLIC = cases(6, "public")
SHAPES = {"diseases": (6, 3), "organs": (6, 2)}  # 0 + 1 + 2 + 0 + 1 + 2 organs


# Who learns it.


class Clinics:
    """Four of them and their coordinator; `meddle` is asked about all that passes, and `passed` has it."""

    def __init__(
        self,
        folder: Path,
        mechanism: str = "plain",
        *,
        config: RoundsConfig = CALM,
        public: Sequence[Case] = PUBLIC,
        labelled: bool = True,
        names: Sequence[SiteId] = NAMES,
        dropout: float = 0.0,
        minimum: int = 1,
        seed: int = 7,
        batch_size: int = 64,
        open_at_once: int = 16,
    ) -> None:
        self.folder, self.config, self.names = folder, config, tuple(names)
        self.public, self.dropout, self.seed = PublicSet(tuple(public), labelled), dropout, seed
        self.training = replace(TRAINING, batch_size=batch_size)
        self.mechanism = None if mechanism == "plain" else self._agreed(mechanism, minimum)
        self.meddle: Meddle = honest
        self.passed: list[tuple[str, SiteId, Message, Message]] = []  # step, site, question, answer
        self.sites: dict[SiteId, Site] = {}
        self.federation = InProcessFederation(
            self.names, lambda name: RequestHandler(_Way(self, name)), open_at_once=open_at_once
        )
        self.quorum = Quorum(minimum)
        self.coordinator = self.server()
        self.aggregator = self._aggregator()

    def server(self) -> Coordinator:
        """The coordinator's object before round 1."""
        task = self._task()
        model = task.model
        shared = {name: tensor.detach().numpy() for name, tensor in model.named_parameters()}
        kind: Any = PublicOnly if isinstance(self.config, PublicConfig) else FedEd
        output = model.output_names(shared)
        server: Coordinator = kind(
            shared, self.config, self.training, task=task, public=self.public, seed=self.seed, output=output
        )
        return server

    def opened(self, name: SiteId) -> Site:
        """The site as a new process finds it: on its disk, with fresh keys."""
        task = self._task(
            own=isinstance(self.config, FedEdConfig) and self.config.sites_keep_models, number=self.names.index(name)
        )
        train = cases(SIZES.get(name, 3), name)
        return Site(
            name,
            task,
            SiteNotes(train, (), (), self.public),
            aggregation=self._door(name),
            steps=ALGORITHM.site_steps if isinstance(self.config, FedEdConfig) else {},
            folder=self.folder / name,
            seed=self.seed,
        )

    def run(self, rounds: int = 1) -> list[Round]:
        """So many rounds more."""
        running = self.coordinator.rounds(self.federation, self.aggregator, self.quorum)
        return [next(running) for _ in range(rounds)]

    def ask(self, step: str, message: Message, *, to: Sequence[SiteId] | None = None) -> dict[SiteId, Any]:
        """Past the coordinator: each site's answer, or the code of its refusal."""
        replies = self.federation.ask(step, message, to=to)
        return {reply.site: reply.code if reply.message is None else reply.message for reply in replies}

    def answers(self, step: str) -> list[tuple[SiteId, Message]]:
        return [(site, answer) for name, site, _, answer in self.passed if name == step]

    def questions(self, step: str) -> list[Message]:
        """Each that some site answered, once, in order."""
        found: list[Message] = []
        for name, _, question, _ in self.passed:
            if name == step and question not in found[-1:]:
                found.append(question)
        return found

    def central(self) -> dict[str, Array]:
        """The central model."""
        return self.coordinator.arrays()

    def question(self, number: int, **changed: Any) -> Message:
        """The one that begins a round."""
        values = {**self.coordinator.settings(), **self.config.constant_settings(), "round": number} | changed
        return Message(values, self.coordinator.broadcast_arrays())

    def mean(self) -> dict[str, Array]:
        """What the ensemble said in the last round."""
        return {name: tensor.numpy() for name, tensor in self.coordinator.optimizer_state().items()}

    def _task(self, *, own: bool = False, number: int = 0) -> CaseTask:
        """A site that keeps its model has one of a width of its own."""
        model = Net(dropout=self.dropout, width=4 + number if own else 4, seed=number if own else 0)
        if own:
            model.split = ParameterSplit.sharing((), model.groups)
        return CaseTask(model)

    def _shapes(self) -> dict[str, tuple[int, int]]:
        return prediction_shapes(self._task(), self.public.examples)

    def _door(self, name: SiteId) -> AggregationClient:
        if self.mechanism is None:
            return PlainClient(self.folder / name, self._plain())
        secrets = Keys(secret_of(self.mechanism.key_scheme)) if self.mechanism.is_sealed else None
        client = SecureAggregationClient(self.mechanism, Identity.new(name, None), secrets=secrets)
        return Submission(client, self.folder / name, clips=self.mechanism.clips)

    def _aggregator(self) -> AggregationServer:
        if self.mechanism is None:
            return PlainServer(self._plain())
        if not self.mechanism.is_sealed:
            return SecureAggregationServer(self.mechanism)
        public = secret_of(self.mechanism.key_scheme).public(STUDY)
        return SecureAggregationServer(self.mechanism, parameters=lambda: public)

    def _plain(self) -> PlainPredictions:
        if not isinstance(self.config, FedEdConfig):
            return PlainPredictions(self._shapes())
        return PlainPredictions(
            self._shapes(),
            precision=self.config.precision,
            top_k=self.config.top_k,
            normalised=self.config.predictions == "probabilities",
        )

    def _agreed(self, name: str, minimum: int) -> AgreedMechanism:
        shapes, way = self._shapes(), WAYS[name]
        scheme = "ckks" if name == "ckks" else "bfv"
        packing = "compact" if name == "compact" else "standard"
        known = isinstance(self.config, FedEdConfig) and self.config.predictions == "probabilities"
        clips = dict.fromkeys(shapes, 1.0) if known else {}
        groups = {head: head for head in shapes}
        return AgreedMechanism(
            STUDY,
            MECHANISMS[way],
            shapes,
            groups,
            self.names,
            minimum,
            scheme,
            packing,
            clips,
            mean_comes_back=True,
        )


class _Way:
    """Between the coordinator and a site."""

    def __init__(self, clinics: Clinics, name: SiteId) -> None:
        self._clinics, self._name = clinics, name
        clinics.sites[name] = clinics.opened(name)

    def answer(self, step: str, message: Message) -> Message:
        clinics = self._clinics
        site = clinics.sites[self._name]
        answer = clinics.meddle(self._name, step, message, lambda question: site.answer(step, question))
        clinics.passed.append((step, self._name, message, answer))
        return answer

    def close(self) -> None:
        self._clinics.sites[self._name].close()


# What is done on the way.


def giving(site: SiteId, change: Callable[[dict[str, Array]], Mapping[str, Array]]) -> Meddle:
    """A site that answers with other arrays than it has, and seals them as if they were its own."""

    def meddle(asked: SiteId, step: str, message: Message, go: Callable[[Message], Message]) -> Message:
        answer = go(message)
        if (asked, step) != (site, "train_and_predict"):
            return answer
        return replace(answer, arrays=dict(change({name: np.array(a) for name, a in answer.arrays.items()})))

    return meddle


def failing(site: SiteId, step: str, code: str) -> Meddle:
    """A site that refuses a step."""

    def meddle(asked: SiteId, name: str, message: Message, go: Callable[[Message], Message]) -> Message:
        if (asked, name) == (site, step):
            raise MessageError(code)
        return go(message)

    return meddle


def same(left: Mapping[str, Array], right: Mapping[str, Array]) -> bool:
    """Bit for bit."""
    return left.keys() == right.keys() and all(np.array_equal(left[name], right[name]) for name in left)


def furthest(left: Mapping[str, Array], right: Mapping[str, Array]) -> float:
    """The largest difference."""
    assert left.keys() == right.keys()
    return max(float(np.abs(left[name] - right[name]).max()) for name in left)


def plain_mean(answers: Iterable[Message]) -> dict[str, Array]:
    """Of what some sites gave: each counts as much as another."""
    given = [answer.group("update") for answer in answers]
    return {
        head: np.asarray(sum(one[head].astype(np.float64) for one in given) / len(given), np.float32)
        for head in given[0]
    }


def assert_nothing_is_stepped(clinics: Clinics, said: str) -> None:
    """The coming round fails, and everything at the coordinator is as it was."""
    central, mean, number = clinics.central(), clinics.mean(), clinics.coordinator.number
    with pytest.raises(FederationError, match=said):
        clinics.run()
    assert clinics.coordinator.number == number
    assert same(clinics.central(), central)
    assert same(clinics.mean(), mean)
