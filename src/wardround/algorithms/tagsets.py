"""One model for all tag sets (Wang et al. 2023): federated averaging where sites annotate different types.

A site completes its annotation with pseudo-annotations: mentions that the global model of the round finds of types the
site does not annotate (Section 3.2). It trains on both. The loss of its own annotation is weighted per sentence: the
more a sentence's gradient agrees with the gradient of the other sites' pseudo-annotations, the larger its weight
(Section 3.3). Each site therefore sends, in the same sum as its update, one small gradient. In the next round it
receives the sum of all and subtracts its own. Weights never leave their site. Weights computed in round t are used in
round t + 1 (Eq. 10).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from wardround.algorithms.algorithm import (
    Algorithm,
    Payload,
    ServerInputs,
    SharedLayers,
    SiteStep,
    shared_layers_payload,
)
from wardround.algorithms.fedavg import LOCAL_TRAINING, FedAvg, FedAvgConfig, local_delta
from wardround.errors import MessageError, StudyError, TrainingError
from wardround.federation.coordinator import RoundContext, RoundSum
from wardround.federation.federation import SiteId
from wardround.federation.message import Array, Message, Value, grouped
from wardround.federation.site_runtime import PublicSet, Site
from wardround.models.parameter_split import LayeredModel
from wardround.tasks.batching import in_length_order
from wardround.tasks.completion import CompletedNer, TeacherLabels, UnknownLabelling
from wardround.tasks.ner import NerTask
from wardround.tasks.task import Task
from wardround.training.training_config import RoundTrainingConfig

__all__ = [
    "ALGORITHM",
    "COMPLETES",
    "TARGETS",
    "TARGET_BOUND",
    "CompletionConfig",
    "TagSets",
    "TagSetsConfig",
    "begin_completed",
    "check_completion",
    "train_completed",
    "updated_weights",
]

TARGETS = "targets"  # name of the gradient of the pseudo-annotations in an update
TARGET_BOUND = 1.0  # it is clamped to this absolute value, because a protected sum needs a bound
_UNKNOWN: tuple[UnknownLabelling, ...] = ("pseudo", "posterior", "partial", "outside")
_ROUNDING_ERROR = 1e-6  # rounding error of a mean; a sum of the others below this times the sites counts as zero
_GRADIENT_BATCH = 32  # sentences


@dataclass(frozen=True)
class CompletionConfig(FedAvgConfig):
    """The settings shared by algorithms whose sites complete their annotation."""

    rounds: int = 25
    trusted_after: int = 5  # rounds before the global model is used; until then, unannotated words stay unlabelled
    outside: float = 0.0  # weight of the loss that treats an unlabelled word as outside any mention

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.trusted_after < 0:
            raise TrainingError(f"trusted_after is {self.trusted_after}; it must be a number of rounds, zero or above")
        if not 0 <= self.outside <= 1:
            raise TrainingError(f"outside is {self.outside}; it must be the weight of a loss, from 0 to 1")
        if self.outside and not self.leaves_unlabelled:
            raise TrainingError(
                "outside applies to unlabelled words, and with these settings there are none: leave it out"
            )
        if self.uses_global_model and self.trusted_after >= self.rounds:
            raise TrainingError(
                f"trusted_after is {self.trusted_after} of {self.rounds} rounds: no model would ever be used; lower "
                "it, or raise rounds"
            )

    @property
    def uses_global_model(self) -> bool:
        """Whether the global model labels what is not annotated."""
        return True

    @property
    def leaves_unlabelled(self) -> bool:
        """Whether unannotated words stay unlabelled in some rounds."""
        return self.trusted_after > 0

    def constant_settings(self) -> dict[str, Value]:
        """Return the settings of a request that are the same in every round."""
        return {**super().constant_settings(), "trusted_after": self.trusted_after, "outside": self.outside}


@dataclass(frozen=True)
class TagSetsConfig(CompletionConfig):
    """The settings of Algorithm 1 of the paper, and those that it leaves open."""

    unknown: UnknownLabelling = "pseudo"  # how to label words outside the mentions of the types annotated at a site
    weighting: bool = True
    momentum: float = 0.9  # α, Eq. 12
    centred: bool = True  # weights follow 1 + the cosine; false is Eq. 12 as printed

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.momentum < 1:
            raise TrainingError(f"momentum is {self.momentum}; it must be at least 0 and below 1")
        if self.weighting and self.unknown != "pseudo":
            raise TrainingError(
                f"weighting needs the gradient of pseudo-annotations; with unknown = {self.unknown!r} there are none, "
                "or their gradient is zero because the model expects them already: set weighting = false"
            )

    @property
    def uses_global_model(self) -> bool:
        """Whether the global model labels what is not annotated."""
        return self.unknown in ("pseudo", "posterior")

    @property
    def leaves_unlabelled(self) -> bool:
        """Whether unannotated words may stay unlabelled."""
        return self.unknown in ("partial", "posterior") or (self.unknown == "pseudo" and super().leaves_unlabelled)

    def constant_settings(self) -> dict[str, Value]:
        """Return the settings of a request that are the same in every round."""
        own: dict[str, Value] = {"weighting": self.weighting, "momentum": self.momentum, "centred": self.centred}
        return {**super().constant_settings(), "unknown": self.unknown, **own}


class TagSets(FedAvg):
    """The server of Algorithm 1; `probe` is the shape of the gradient that sites compare."""

    config: TagSetsConfig
    uniform_weights = True  # m_k of Eq. 1; otherwise a small site would have no influence (Appendix C)

    def __init__(
        self,
        shared: Mapping[str, Array],
        config: TagSetsConfig,
        training: RoundTrainingConfig,
        *,
        seed: int = 0,
        output: Sequence[str] = (),
        probe: tuple[int, ...] = (),
    ) -> None:
        super().__init__(shared, config, training, seed=seed, output=output)
        self._zero_gradient = {TARGETS: np.zeros(probe, np.float32)} if self.config.weighting else {}
        self._targets: dict[str, Array] = {}  # the mean of the last round
        self._contributors: dict[int, tuple[SiteId, ...]] = {}  # sites whose gradients are in the mean, by round

    def gather(self, context: RoundContext) -> RoundSum | None:
        """Have every site complete its annotation, weight its sentences and train."""
        before = self._contributors.get(self.number, ())
        gathered = context.gather("train_completed", {**self.local_settings(), "targets_from": [*before]})
        self._contributors = {self.number: before, self.number + 1: gathered.sites}  # a round may be repeated
        return gathered

    def step(self, mean: Mapping[str, Array], values: Mapping[str, Value]) -> None:
        """Apply Eq. 1 and keep the gradients of the pseudo-annotations for the next round."""
        super().step(mean, values)
        self._targets = {name: np.array(mean[name]) for name in self._zero_gradient}

    def broadcast_arrays(self) -> dict[str, Array]:
        """Return the shared half and the mean gradient of the pseudo-annotations."""
        return super().broadcast_arrays() | grouped(TARGETS, self._targets)

    def expected_arrays(self) -> dict[str, Array]:
        """Return zeros in the shape of an update and of the gradient sent with it."""
        return super().expected_arrays() | self._zero_gradient

    def optimizer_state(self) -> dict[str, Tensor]:
        """Return the mean gradient of the last round and the names of its sites."""
        lines = "\n".join([str(self.number), *self._contributors.get(self.number, ())])
        contributors = torch.frombuffer(bytearray(lines.encode()), dtype=torch.uint8)
        return {name: torch.from_numpy(array) for name, array in self._targets.items()} | {"given": contributors}

    def load_optimizer_state(self, memory: Mapping[str, Tensor]) -> None:
        """Restore the mean gradient of the last round and the names of its sites."""
        self._targets = {name: memory[name].numpy() for name in self._zero_gradient if name in memory}
        number, *names = bytes(memory["given"].tolist()).decode().split("\n")
        self._contributors = {int(number): tuple(names)}


def train_completed(site: Site, message: Message) -> Message:
    """Complete the annotation with what the model of the round finds, train on both, send the update."""
    with site.all_or_nothing():
        learner, taught = begin_completed(site, message)
        update: dict[str, Array] = {}
        weights = None
        if message.value("weighting", bool):
            weights = _weights(site, message, learner)
            update[TARGETS] = _target_gradient(site, learner, taught, message.value("round", int))
        delta, loss = local_delta(site, message, loss=partial(_loss, learner, taught, weights))
        return site.announce(update | delta, weight=1.0, values={"loss": loss})


def begin_completed(site: Site, message: Message) -> tuple[CompletedNer, TeacherLabels]:
    """Receive the model of the round; return the learner, and the pseudo-annotations from `trusted_after` on."""
    number = message.value("round", int)
    site.begin_round(number)
    site.receive(message)
    learner = _learner(site, message)
    return learner, learner.teacher_labels() if number > message.value("trusted_after", int) else TeacherLabels()


def updated_weights(weights: Tensor, source: Tensor, others: Tensor, *, momentum: float) -> Tensor:
    """Return Eq. 12: weights [n] moved towards the cosine of each sentence's gradient [n, …] and the others' [...]."""
    rows = torch.nn.functional.normalize(source.flatten(1).float(), dim=1)
    direction = torch.nn.functional.normalize(others.flatten().float(), dim=0)
    return momentum * weights + (1 - momentum) * rows @ direction


def _learner(site: Site, message: Message) -> CompletedNer:
    unknown = next((name for name in _UNKNOWN if name == message.value("unknown", str)), None)
    if unknown is None or not isinstance(site.task, NerTask):
        raise MessageError(
            "value", "annotation is completed for entities only, in one of the ways that a study can name"
        )
    return CompletedNer(site.task, site.notes.train, unknown, outside=message.value("outside", float))


def _loss(learner: CompletedNer, taught: TeacherLabels, weights: Tensor | None, rows: Sequence[int]) -> Tensor:
    """Eq. 7, or, weighted, Eq. 10."""
    source, target, silence = learner.losses(rows, taught)
    if weights is not None:
        source = source * weights[list(rows)]
    return (source + target + silence).mean()


def _weights(site: Site, message: Message, learner: CompletedNer) -> Tensor:
    """Return the weights of this round from the gradients of the previous one; no weight is below zero.

    Cosines lie around zero. Weights that follow them, as in Eq. 12, make a site's own annotation vanish beside the
    pseudo-annotations. Weights around one only let some sentences count more than others.
    """
    held, count = site.algorithm_state, len(learner.sentences)
    if len(held.get("weights", ())) != count:
        held.clear()  # the first round, or the notes have changed
    weights = held.get("weights", torch.ones(count, device=site.model.device))
    others = _gradient_of_others(site, message)
    if others is not None:
        momentum = message.value("momentum", float)
        weights = updated_weights(weights, held["source"], others, momentum=momentum)
        if message.value("centred", bool):
            weights = weights + (1 - momentum)
    held["weights"] = weights
    return weights.clamp(min=0.0)


def _gradient_of_others(site: Site, message: Message) -> Tensor | None:
    """Return g^tgt of Eq. 11, the sum over the other sites in the previous round; None if there is none to compare."""
    if site.replica is None:
        received = message.group(TARGETS)
    else:
        received = {name: tensor.numpy() for name, tensor in site.replica.optimizer_state().items() if name == TARGETS}
    # The sites whose gradients are in the mean.
    names = message.value("targets_from", list)
    most = site.request_policy.sites if site.request_policy else len(names)
    if not all(isinstance(name, str) for name in names) or not len(set(names)) == len(names) <= most:
        raise MessageError("value", "targets_from must name sites of the study, each once")
    held, before = site.algorithm_state, message.value("round", int) - 1
    if not received or not names or int(held.get("compared", torch.tensor(-1))) != before:
        return None
    mean, own = received.get(TARGETS, np.zeros(0)), held["own"]
    if mean.shape != tuple(own.shape) or mean.dtype != np.float32:
        raise MessageError("shapes", "the gradient of all sites has another shape than this site's")
    if not (np.abs(mean) <= 2 * TARGET_BOUND).all():  # NaN fails too
        raise MessageError("value", "the gradient of all sites is larger than any mean of bounded gradients")
    total = len(names) * torch.from_numpy(np.array(mean)).to(own.device)
    others = total - own if site.name in names else total
    return others if bool((others.abs() > len(names) * _ROUNDING_ERROR).any()) else None


def _target_gradient(site: Site, learner: CompletedNer, taught: TeacherLabels, number: int) -> Array:
    """Return the mean target gradient (Algorithm 2); keep each sentence's source gradient at the site.

    It is zero without pseudo-annotations, and if it would be made from fewer sentences than an update must be.
    """
    if not taught.tags:
        return np.zeros(learner.model.probes.leaf_shape, np.float32)
    model, count, contributing = learner.model, len(learner.sentences), 0
    shape = model.probes.leaf_shape
    source = torch.zeros(count, *shape, dtype=torch.float16, device=model.device)
    target = torch.zeros(shape, device=model.device)
    model.eval()
    for rows in in_length_order([len(sentence.words) for sentence in learner.sentences], _GRADIENT_BATCH):
        with model.probes.leaves(len(rows), model.device) as leaves:
            losses = learner.losses(rows, taught)
            has_target = losses.target.requires_grad
            source_gradients = torch.autograd.grad(losses.source.sum(), leaves, retain_graph=has_target)[0]
            # Half precision is enough for unit vectors, and only their direction counts.
            source[rows] = (
                torch.nn.functional.normalize(source_gradients.flatten(1), dim=1).view_as(source_gradients).half()
            )
            if has_target:
                target_gradients = torch.autograd.grad(losses.target.sum(), leaves)[0]
                target += target_gradients.sum(0)
                contributing += int(target_gradients.flatten(1).any(1).sum())
    if contributing < site.fewest_sentences:
        target.zero_()
    own = (target / count).clamp(-TARGET_BOUND, TARGET_BOUND)
    site.algorithm_state |= {"source": source, "own": own, "compared": torch.tensor(number)}
    return own.cpu().numpy()


def check_completion(config: CompletionConfig, model: LayeredModel) -> None:
    """Raise a StudyError if a model that writes mentions cannot use the settings."""
    if config.outside and not model.scores_tags:
        raise StudyError("[algorithm] outside applies to unlabelled words; this [model] writes mentions: leave it out")


def _check_model(config: TagSetsConfig, model: LayeredModel) -> None:
    check_completion(config, model)
    if not model.scores_tags and config.unknown in ("partial", "posterior"):
        raise StudyError(
            f"[algorithm] unknown = {config.unknown!r} needs a score for every tag of a word; this [model] writes "
            "mentions: use pseudo or outside"
        )


def _payload(config: TagSetsConfig, task: Task, public: PublicSet) -> Payload:
    update = shared_layers_payload(config, task, public)
    if not config.weighting:
        return update
    return Payload(
        {TARGETS: task.model.probes.leaf_shape, **update.shapes},
        {TARGETS: TARGETS, **update.groups},
        {TARGETS: TARGET_BOUND},
    )


def _server(inputs: ServerInputs[TagSetsConfig]) -> TagSets:
    probe = inputs.task.model.probes.leaf_shape if inputs.config.weighting else ()
    return TagSets(inputs.shared, inputs.config, inputs.training, seed=inputs.seed, output=inputs.output, probe=probe)


COMPLETES = (  # for `site review`
    "marks in your notes, here and for this training only, what the shared model finds of types that you do not "
    "annotate"
)
ALGORITHM = Algorithm(
    name="tagsets",
    description="One model for all tag sets: sites complete their annotation with what the global model finds.",
    config=TagSetsConfig(),
    training=LOCAL_TRAINING,
    server=TagSets,
    steps={
        "train_completed": SiteStep(
            train_completed, f"{COMPLETES}; trains on both and sends the change of the shared layers"
        )
    },
    shared_layers=SharedLayers.ALL,
    sends="updates",
    sent_to_sites=(
        "Other sites receive the updated shared layers and, if sentences are weighted, the sum of one small gradient "
        "of each site: of two sites, each learns the other's."
    ),
    tasks=("ner",),
    keep="last",
    constant_settings=TagSetsConfig.constant_settings,
    payload=_payload,
    check_model=_check_model,
    build_server=_server,
)
