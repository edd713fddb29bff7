"""From names to objects: the one place where a study, a preset, an encoder or a vector file becomes what runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from wardround.algorithms.coordinator import Coordinator
from wardround.algorithms.feded import FedEdConfig, prediction_shapes
from wardround.algorithms.site import PublicSet
from wardround.algorithms.training_config import ENCODER_RECIPE, TRANSFER_RECIPE, WORD_RECIPE, TrainingConfig
from wardround.errors import StudyError, UsageError
from wardround.federation.message import Array
from wardround.models.decoders import IndependentWords
from wardround.models.encoder_tagger import EncoderTagger, EncoderTaggerConfig
from wardround.models.encoders import MINILM
from wardround.models.parameter_split import OUTPUT_GROUPS, LayeredModel, ParameterSplit
from wardround.models.presets import preset
from wardround.models.relation_classifier import RelationClassifier, RelationClassifierConfig
from wardround.models.tagging_model import TaggingModel
from wardround.models.word_tagger import GROUPS, WordTagger
from wardround.models.word_vectors import load_word_vectors
from wardround.privacy.aggregator import Aggregator, CohortAggregator, Giver, PlainAggregator
from wardround.privacy.predictions import PlainPredictions
from wardround.settings import did_you_mean, with_settings
from wardround.studies.catalogue import Sharing
from wardround.studies.protection import Protection, check_installed
from wardround.studies.sections import as_text
from wardround.studies.study_file import Study, digest_of
from wardround.tasks.ner import NerTask
from wardround.tasks.relations import RelationTask
from wardround.tasks.task import Task
from wardround.text.document import Document
from wardround.text.relation_sets import RelationSet
from wardround.text.tag_sets import TagSet

if TYPE_CHECKING:
    from wardround.privacy.mechanism import Mechanism

__all__ = [
    "TASKS",
    "GivenForm",
    "ModelChoice",
    "WantedTask",
    "aggregator_of",
    "arrays_of",
    "build_classifier",
    "build_model",
    "common_model",
    "common_task",
    "coordinator_of",
    "form_of",
    "giver_of",
    "mechanism_of",
    "model_of",
    "plain_aggregator",
    "readings_of",
    "recipe",
    "shared_arrays",
    "task_at_one_site",
    "task_on",
]

TASKS: Mapping[str, type[Task]] = {"ner": NerTask, "relations": RelationTask}
_ALL = "all"


@dataclass(frozen=True)
class ModelChoice:
    """Which network: a preset, or an encoder; options are fields of its configuration, as text."""

    preset: str = "fedner"
    encoder: str = ""  # takes the preset's place
    vectors: Path | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.encoder and self.vectors:
            raise UsageError("an encoder brings its own embeddings: word vectors go with a preset only")


@dataclass(frozen=True)
class WantedTask:
    """What one site on its own is to learn."""

    kind: str = "ner"
    types: Sequence[str] | None = None  # of entities; None is all that are annotated
    directed: bool = True
    negatives: float | None = None


def build_model(choice: ModelChoice, tag_set: TagSet, *, seed: int) -> TaggingModel:
    """The network with fresh weights drawn from `seed`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if choice.encoder:
            config = with_settings(EncoderTaggerConfig(encoder=choice.encoder), choice.options, "the encoder tagger")
            return EncoderTagger(config, tag_set)
        words = with_settings(preset(choice.preset), choice.options, f"the preset {choice.preset!r}")
        vectors = None if choice.vectors is None else load_word_vectors(choice.vectors)
        return WordTagger(words, tag_set, vectors)


def build_classifier(choice: ModelChoice, relations: RelationSet, *, seed: int) -> RelationClassifier:
    """A classifier of entity pairs, its output layer drawn from `seed`."""
    config = RelationClassifierConfig(encoder=choice.encoder or MINILM)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return RelationClassifier(with_settings(config, choice.options, "the relation classifier"), relations)


def task_at_one_site(wanted: WantedTask, choice: ModelChoice, documents: Sequence[Document], *, seed: int) -> Task:
    """A task of one site on its own: it learns what its training documents are annotated with."""
    if wanted.kind not in TASKS:
        near = did_you_mean(wanted.kind, TASKS)
        raise UsageError(f"{wanted.kind!r} is no task{near}; there are {', '.join(TASKS)}")
    if wanted.kind == "ner":
        return NerTask(build_model(choice, _tag_set(documents, wanted.types), seed=seed))
    if not any(document.relations for document in documents):
        raise UsageError("the training notes hold no relation to learn from")
    relations = RelationSet.of(documents, directed=wanted.directed)
    return RelationTask(build_classifier(choice, relations, seed=seed), negatives=wanted.negatives, seed=seed)


def _tag_set(documents: Sequence[Document], wanted: Sequence[str] | None) -> TagSet:
    """The types to learn: those wanted, or all; a type that nobody annotated cannot be learned."""
    annotated = TagSet.of(documents)
    if not annotated.types:
        raise UsageError("the training notes hold no entity to learn from")
    for name in wanted or ():
        if name not in annotated:
            near = did_you_mean(name, annotated.types)
            raise UsageError(f"no training note has the type {name!r}{near}; there are {', '.join(annotated.types)}")
    return TagSet(tuple(wanted)) if wanted else annotated


def recipe(choice: ModelChoice, options: Mapping[str, str], *, seed: int) -> TrainingConfig:
    """The training that goes with the network, with `options` replaced."""
    if "seed" in options:
        raise UsageError("'seed' is not an option of the training alone: --seed sets it for the network too")
    if choice.encoder:
        base = ENCODER_RECIPE
    else:
        base = TRANSFER_RECIPE if choice.preset == "transfer" else WORD_RECIPE
    return replace(with_settings(base, options, "the training"), seed=seed)


@dataclass(frozen=True)
class GivenForm:
    """What a site gives in a round: the shapes of its arrays, the group of each, and clips by group."""

    shapes: Mapping[str, tuple[int, ...]]
    groups: Mapping[str, str]
    clips: Mapping[str, float]


def form_of(study: Study, task: Task, public: PublicSet) -> GivenForm:
    """Updates of the shared half, or predictions on the public set."""
    if study.algorithm.kind.central:
        shapes = prediction_shapes(task, public.examples)
        # No probability is above one: there is nothing to learn of their clip.
        known = {head: 1.0 for head in shapes if _exchange(study) == "probabilities"}
        return GivenForm(shapes, {head: head for head in shapes}, {**known, **study.privacy.clip})
    shared = task.model.shared_parameters()
    groups = {name: task.model.group_of(name) for name in shared}
    return GivenForm({name: tuple(p.shape) for name, p in shared.items()}, groups, study.privacy.clip)


def _exchange(study: Study) -> str:
    config = study.algorithm.config
    return config.exchange if isinstance(config, FedEdConfig) else ""


def mechanism_of(study: Study, form: GivenForm) -> Mechanism:
    """How what sites give in the study is protected."""
    check_installed(study)
    from wardround.privacy.mechanism import Mechanism

    privacy = study.privacy
    _check_clips(privacy.clip, form.groups.values())
    _check_many(study)
    assert privacy.mechanism != "plain", "there is nothing to agree on"
    return Mechanism(
        digest_of(study),
        privacy.mechanism,
        form.shapes,
        form.groups,
        tuple(study.sites),
        privacy.minimum_sites,
        privacy.scheme,
        privacy.packing,
        form.clips,
    )


def plain_aggregator(study: Study, form: GivenForm) -> Aggregator:
    """The second door where nothing is protected: of updates, or of predictions at their precision."""
    config = study.algorithm.config
    if not isinstance(config, FedEdConfig):
        return PlainAggregator()
    return PlainPredictions(
        form.shapes,
        precision=config.precision,
        top_k=config.top_k,
        normalised=config.exchange == "probabilities",
    )


def aggregator_of(study: Study, form: GivenForm, protection: Protection | None = None) -> Aggregator | CohortAggregator:
    """The coordinator's side of the second door, as the study wants it."""
    if study.privacy.mechanism == "plain":
        return plain_aggregator(study, form)
    from wardround.privacy.protected_sum import ProtectedAggregator

    assert protection is not None, "what is protected needs its means"
    return ProtectedAggregator(
        mechanism_of(study, form),
        parameters=protection.parameters,
        certifier=protection.certifier,
    )


def giver_of(study: Study, name: str, form: GivenForm, protection: Protection) -> Giver:
    """A site's side of the second door."""
    from wardround.privacy.protected_giver import ProtectedGiver

    return ProtectedGiver(
        mechanism_of(study, form),
        protection.identity(name),
        secrets=protection.secrets,
        certifier=protection.certifier,
    )


def common_model(study: Study) -> LayeredModel:
    """A network with the shared half of every site's; of the rest it has what the first site has."""
    # Of sites that differ in scheme only layers are shared whose shape no scheme changes.
    scheme = next(iter(study.sites.values())).scheme
    return model_of(study, TagSet(study.types or ("any",)), scheme=scheme)


def common_task(study: Study) -> Task:
    """The study's task with the common model."""
    return task_on(study, common_model(study))


def coordinator_of(study: Study, task: Task | None = None, public: PublicSet | None = None) -> Coordinator:
    """The server of the study's algorithm, before round 1; `task` is the common one, where it is at hand."""
    kind, task = study.algorithm.kind, task or common_task(study)
    model, more = task.model, dict[str, Any]()
    shared = shared_arrays(model)
    if kind.central:
        assert public is not None, "a central model learns on the public set"
        _check_heads(study, model)
        shared = arrays_of(model.parameters_in(model.groups))
        more = {"task": task, "public": public}
    coordinator: Coordinator = kind.server(
        shared,
        study.algorithm.config,
        study.training,
        seed=study.study.seed,
        output=model.output_names(shared),
        **more,
    )
    return coordinator


def _check_heads(study: Study, model: LayeredModel) -> None:
    """Refuse a model of whose predictions the rows are not all."""
    if isinstance(model, TaggingModel) and not isinstance(model.decoder, IndependentWords):
        raise StudyError(
            f"[model] ends in a CRF; {study.algorithm.name} distils each word's tag on its own: name an encoder with "
            'decoder = "softmax"'
        )


def _check_many(study: Study) -> None:
    """Refuse more sites than whose noise a sum of ciphertexts bears."""
    if not study.privacy.is_sealed or study.privacy.scheme != "bfv":
        return
    from wardround.privacy.bfv import BfvParameters

    packing, sites = study.privacy.packing, len(study.sites)
    most = BfvParameters(packing).most_sites
    if sites > most:
        raise StudyError(f"[privacy] packing {packing} adds up to {most:,} sites, not {sites:,}")


def _check_clips(clips: Mapping[str, float], groups: Iterable[str]) -> None:
    known = tuple(dict.fromkeys(groups))
    for group in clips:
        if group not in known:
            near = did_you_mean(group, known)
            raise StudyError(f"[privacy] clip: no shared layer group is called {group!r}{near}; {', '.join(known)} are")


def shared_arrays(model: LayeredModel) -> dict[str, Array]:
    """A copy of the shared half."""
    return arrays_of(model.shared_parameters())


def arrays_of(parameters: Mapping[str, Tensor]) -> dict[str, Array]:
    """A copy of some parameters."""
    return {name: parameter.detach().cpu().numpy().copy() for name, parameter in parameters.items()}


def model_of(study: Study, types: TagSet, *, scheme: str, encoder: str = "") -> LayeredModel:
    """A site's network: its own types on top, or those of all sites where the top is shared."""
    section, seed = study.model, study.study.seed
    options = {name: as_text(value) for name, value in section.options.items()}
    options |= {"scheme": scheme} if scheme else {}
    choice = ModelChoice(section.preset, encoder or section.encoder, section.vectors, options)
    if study.task.kind == "relations":
        model: LayeredModel = build_classifier(choice, study.task.relation_set, seed=seed)
        shared = _shared_groups(study, model)
    else:
        model = build_model(choice, types, seed=seed)
        shared = _shared_groups(study, model)
        if set(OUTPUT_GROUPS) & set(shared):
            _check_one_top(study)
            if types.types != study.types:
                model = build_model(choice, TagSet(study.types), seed=seed)
    model.split = ParameterSplit.sharing(shared, model.groups)
    return model


def task_on(study: Study, model: LayeredModel, types: TagSet | None = None) -> Task:
    """The study's task with a network of it; `types` are what a site annotates."""
    if isinstance(model, RelationClassifier):
        return RelationTask(model, negatives=study.task.negatives, seed=study.study.seed)
    assert isinstance(model, TaggingModel), "a kind of model without a task"
    return NerTask(model, types)


def readings_of(study: Study) -> tuple[str, ...]:
    """How sites of the study score their models, the main reading first."""
    return TASKS[study.task.kind].readings


def _shared_groups(study: Study, model: LayeredModel) -> tuple[str, ...]:
    wanted, sharing = study.model.shared, study.algorithm.kind.sharing
    keep = study.algorithm.config.sites_keep_models
    if sharing is Sharing.NOTHING or keep:
        return ()
    if sharing is Sharing.WHOLE:
        return model.groups
    one_top = study.task.kind != "ner" or _is_one_top(study)  # relations are those of the study, at every site
    if sharing is Sharing.POOLED:
        return tuple(group for group in model.groups if one_top or group not in OUTPUT_GROUPS)
    if wanted is None:
        return model.split.shared if study.task.kind == "ner" else model.groups
    if wanted == (_ALL,):
        return model.groups
    known = GROUPS if isinstance(model, WordTagger) else model.groups
    for name in wanted:
        if name not in known:
            near = did_you_mean(name, known)
            raise StudyError(f"[model] shared: no layer group is called {name!r}{near}; there are {', '.join(known)}")
    return tuple(group for group in model.groups if group in wanted)


def _is_one_top(study: Study) -> bool:
    """Whether every site tags alike."""
    tops = {(site.types, site.scheme) for site in study.sites.values()}
    return len(tops) == 1 and bool(study.types)


def _check_one_top(study: Study) -> None:
    for name, site in study.sites.items():
        if not site.types:
            raise StudyError(f"[sites.{name}] must name its types: the study shares the layers that give the tags")
    schemes = {site.scheme for site in study.sites.values()}
    if len(schemes) > 1:
        raise StudyError("sites of one study that shares the layers that give the tags must use one scheme")
