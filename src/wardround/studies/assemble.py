"""From names to objects: the one place where a study, a preset, an encoder or a vector file becomes what runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from wardround.algorithms.algorithm import ServerInputs, SharedLayers
from wardround.errors import StudyError, UsageError
from wardround.federation.coordinator import Coordinator
from wardround.federation.message import Array
from wardround.federation.site_runtime import PublicSet
from wardround.models.encoder_tagger import EncoderTagger, EncoderTaggerConfig
from wardround.models.encoders import MINILM
from wardround.models.joint_extractor import JointExtractor, JointExtractorConfig
from wardround.models.light_ner import LightNer, LightNerConfig
from wardround.models.parameter_split import OUTPUT_GROUPS, LayeredModel, ParameterSplit
from wardround.models.presets import preset
from wardround.models.relation_classifier import RelationClassifier, RelationClassifierConfig
from wardround.models.tagging_model import TaggingModel
from wardround.models.transfer import warm_start
from wardround.models.word_tagger import GROUPS, WordTagger
from wardround.models.word_vectors import load_word_vectors
from wardround.settings import did_you_mean, with_settings
from wardround.studies.sections import as_text
from wardround.studies.study_file import Study
from wardround.tasks.deidentify import DeidentifyTask
from wardround.tasks.joint import JointTask
from wardround.tasks.ner import NerTask
from wardround.tasks.relations import RelationTask
from wardround.tasks.task import Task
from wardround.text.document import Document
from wardround.text.relation_sets import RelationSet
from wardround.text.tag_sets import TagSet
from wardround.training.training_config import (
    ADAPTER_RECIPE,
    ENCODER_RECIPE,
    TRANSFER_RECIPE,
    WORD_RECIPE,
    TrainingConfig,
)

__all__ = [
    "TASKS",
    "ModelChoice",
    "WantedTask",
    "arrays_of",
    "build_classifier",
    "build_joint",
    "build_model",
    "common_model",
    "common_task",
    "coordinator_of",
    "model_of",
    "readings_of",
    "recipe",
    "shared_arrays",
    "task_at_one_site",
    "task_on",
    "wanted_types",
]

_TAGGING: Mapping[str, type[NerTask]] = {"ner": NerTask, "deidentify": DeidentifyTask}
TASKS: Mapping[str, type[Task]] = {
    "ner": NerTask,
    "relations": RelationTask,
    "joint": JointTask,
    "deidentify": DeidentifyTask,
}
_ALL = "all"


@dataclass(frozen=True)
class ModelChoice:
    """Which network: a preset, an encoder or a BART; options are fields of its configuration, as text."""

    preset: str = "fedner"
    encoder: str = ""  # takes the preset's place
    vectors: Path | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    bart: str = ""  # takes the preset's place

    def __post_init__(self) -> None:
        if self.encoder and self.bart:
            raise UsageError("an encoder and a bart are two networks: name one of them")
        if (self.encoder or self.bart) and self.vectors:
            raise UsageError("an encoder brings its own embeddings: word vectors go with a preset only")

    @property
    def name(self) -> str:
        """What the network is called."""
        return self.encoder or self.bart or self.preset


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
        if choice.bart:
            return LightNer(with_settings(LightNerConfig(bart=choice.bart), choice.options, "LightNER"), tag_set)
        words = with_settings(preset(choice.preset), choice.options, f"the preset {choice.preset!r}")
        vectors = None if choice.vectors is None else load_word_vectors(choice.vectors)
        return WordTagger(words, tag_set, vectors)


def build_classifier(choice: ModelChoice, relations: RelationSet, *, seed: int) -> RelationClassifier:
    """A classifier of entity pairs, its output layer drawn from `seed`."""
    config = RelationClassifierConfig(encoder=choice.encoder or MINILM)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return RelationClassifier(with_settings(config, choice.options, "the relation classifier"), relations)


def build_joint(choice: ModelChoice, types: TagSet, relations: RelationSet, *, seed: int) -> JointExtractor:
    """A network that finds entities and their relations, its heads drawn from `seed`."""
    config = with_settings(
        JointExtractorConfig(encoder=choice.encoder or MINILM), choice.options, "the joint extractor"
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return JointExtractor(config, types, relations)


def task_at_one_site(wanted: WantedTask, choice: ModelChoice, documents: Sequence[Document], *, seed: int) -> Task:
    """A task of one site on its own: it learns what its training documents are annotated with."""
    if wanted.kind not in TASKS:
        near = did_you_mean(wanted.kind, TASKS)
        raise UsageError(f"{wanted.kind!r} is no task{near}; there are {', '.join(TASKS)}")
    tagging = _TAGGING.get(wanted.kind)
    if tagging and (wanted.negatives is not None or not wanted.directed):
        raise UsageError(f"--negatives and --undirected are about relations; --task {wanted.kind} looks for none")
    if not tagging and choice.bart:
        raise UsageError("a bart finds entities; relations are read by an encoder: --encoder")
    if wanted.kind == "relations" and wanted.types:
        raise UsageError("--types are of entities to find; --task relations takes those that are there")
    if tagging:
        return tagging(build_model(choice, wanted_types(documents, wanted.types), seed=seed))
    if not any(document.relations for document in documents):
        raise UsageError("the training notes hold no relation to learn from")
    relations = RelationSet.of(documents, directed=wanted.directed)
    if wanted.kind == "joint":
        joint = build_joint(choice, wanted_types(documents, wanted.types), relations, seed=seed)
        return JointTask(joint, negatives=wanted.negatives, seed=seed)
    return RelationTask(build_classifier(choice, relations, seed=seed), negatives=wanted.negatives, seed=seed)


def wanted_types(documents: Sequence[Document], wanted: Sequence[str] | None) -> TagSet:
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
    if choice.bart or choice.options.get("adapter", "none") != "none":
        base = ADAPTER_RECIPE
    elif choice.encoder:
        base = ENCODER_RECIPE
    else:
        base = TRANSFER_RECIPE if choice.preset == "transfer" else WORD_RECIPE
    return replace(with_settings(base, options, "the training"), seed=seed)


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
    model = task.model
    kind.check_model(study.algorithm.config, model)
    shared = arrays_of(model.parameters_in(model.groups)) if kind.central_model else shared_arrays(model)
    coordinator = kind.coordinator(
        ServerInputs(
            shared,
            study.algorithm.config,
            study.training,
            study.study.seed,
            model.output_names(shared),
            task,
            public or PublicSet(),
        )
    )
    coordinator.largest_share = study.privacy.largest_share
    return coordinator


def shared_arrays(model: LayeredModel) -> dict[str, Array]:
    """A copy of the shared half."""
    return arrays_of(model.shared_parameters())


def arrays_of(parameters: Mapping[str, Tensor]) -> dict[str, Array]:
    """A copy of some parameters."""
    return {name: parameter.detach().cpu().numpy().copy() for name, parameter in parameters.items()}


def model_of(study: Study, types: TagSet, *, scheme: str, encoder: str = "") -> LayeredModel:
    """A site's network: its own types on top, or those of all sites where the top is shared, or what it says."""
    section, seed = study.model, study.study.seed
    options = {name: as_text(value) for name, value in section.options.items()}
    options |= {"scheme": scheme} if scheme else {}
    choice = ModelChoice(section.preset, encoder or section.encoder, section.vectors, options, section.bart)
    if study.task.kind == "relations":
        model: LayeredModel = build_classifier(choice, study.task.relation_set, seed=seed)
    elif study.task.kind == "joint":
        model = build_joint(choice, TagSet(study.types), study.task.relation_set, seed=seed)
    else:
        model = build_model(choice, types, seed=seed)
    shared = _shared_groups(study, model)
    if study.task.kind != "relations" and _tags_alike(study, shared):
        _check_one_top(study)
        if study.task.tags and types.types != study.types:
            model = build_model(choice, TagSet(study.types), seed=seed)
    model.split = ParameterSplit.sharing(shared, model.groups)
    if section.start is not None:
        _begin(model, section.start, up_to=section.start_up_to)
    study.algorithm.kind.prepare_model(study.algorithm.config, model, tuple(study.sites))
    return model


def _begin(model: LayeredModel, start: Path, *, up_to: str) -> None:
    """Have the shared layers begin from a saved model; private ones are fresh, as among hospitals, who are not told."""
    if not warm_start(model, start, up_to=up_to, only=model.shared_parameters()).weights:
        raise StudyError(
            f"[model] start: nothing of {start.name} fits the layers that sites share: "
            f"{', '.join(model.split.shared)}; share others, or leave it out"
        )


def task_on(study: Study, model: LayeredModel, types: TagSet | None = None, *, scored: TagSet | None = None) -> Task:
    """The study's task with a network of it; `types` are what a site annotates, `scored` what its test notes are."""
    section, seed = study.task, study.study.seed
    if isinstance(model, RelationClassifier):
        return RelationTask(model, negatives=section.negatives, seed=seed)
    if isinstance(model, JointExtractor):
        return JointTask(model, negatives=section.negatives, seed=seed, relation_weight=section.relation_weight)
    assert isinstance(model, TaggingModel), "a kind of model without a task"
    return _TAGGING[section.kind](model, types, scored)


def readings_of(study: Study) -> tuple[str, ...]:
    """How sites of the study score their models, the main reading first."""
    return TASKS[study.task.kind].readings


def _shared_groups(study: Study, model: LayeredModel) -> tuple[str, ...]:
    wanted, sharing = study.model.shared, study.algorithm.kind.shared_layers
    if sharing is SharedLayers.NONE or study.algorithm.sites_keep_models:
        return ()
    if sharing is SharedLayers.ALL:
        return model.groups
    one_top = not study.task.tags or _is_one_top(study)  # relations are those of the study, at every site
    if sharing is SharedLayers.ALL_COMMON:
        return tuple(group for group in model.groups if one_top or group not in OUTPUT_GROUPS)
    if wanted is None:
        return model.split.shared if study.task.tags else model.groups
    if wanted == (_ALL,):
        return model.groups
    known = GROUPS if isinstance(model, WordTagger) else model.groups
    for name in wanted:
        if name not in known:
            near = did_you_mean(name, known)
            raise StudyError(f"[model] shared: no layer group is called {name!r}{near}; there are {', '.join(known)}")
    return tuple(group for group in model.groups if group in wanted)


def _tags_alike(study: Study, shared: Sequence[str]) -> bool:
    """Whether a tag must be the same at every site: its layers are shared, or what sites say of it is averaged."""
    return study.algorithm.kind.central_model or bool(set(OUTPUT_GROUPS) & set(shared))


def _is_one_top(study: Study) -> bool:
    """Whether every site tags alike."""
    tops = {(site.types, site.scheme) for site in study.sites.values()}
    return len(tops) == 1 and bool(study.types)


def _check_one_top(study: Study) -> None:
    together = (
        "averages what sites say of the tags"
        if study.algorithm.kind.central_model
        else "shares the layers that give the tags"
    )
    for name, site in study.sites.items():
        if study.task.tags and not site.types:  # of joint, every site has the types of the study
            raise StudyError(f"[sites.{name}] must name its types: the study {together}")
    schemes = {site.scheme for site in study.sites.values()}
    if len(schemes) > 1:
        raise StudyError(f"[sites] scheme: sites of one study that {together} must use one scheme")
