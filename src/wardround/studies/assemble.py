"""Assembly: build the models, tasks and coordinator that a study file or a command names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from wardround.algorithms.algorithm import ServerInputs, SharedLayers
from wardround.errors import ModelError, StudyError, UsageError
from wardround.federation.coordinator import Coordinator
from wardround.federation.message import Array
from wardround.federation.site_runtime import PublicSet
from wardround.models.families import ModelChoice
from wardround.models.family_table import build_model, chosen_family
from wardround.models.parameter_split import OUTPUT_GROUPS, LayeredModel, ParameterSplit
from wardround.models.transfer import warm_start
from wardround.reports.tables import Row, Table
from wardround.secure_aggregation.replica import digest_of_start
from wardround.settings import as_text, did_you_mean, with_settings
from wardround.studies.study_file import Study
from wardround.tasks.task import Task, TaskSettings
from wardround.tasks.task_table import TASKS, task_kind
from wardround.text.document import Document
from wardround.text.relation_sets import RelationSet
from wardround.text.tag_sets import TagSet
from wardround.training.training_config import TrainingConfig

__all__ = [
    "TaskChoice",
    "arrays_of",
    "check_network",
    "check_start",
    "chosen_types",
    "common_model",
    "common_task",
    "coordinator_of",
    "default_training",
    "matching_modes_of",
    "model_of",
    "shared_arrays",
    "start_arrays",
    "start_table",
    "task_at_one_site",
    "task_on",
    "with_start_digest",
]

_ALL = "all"


@dataclass(frozen=True)
class TaskChoice:
    """The task that one site learns on its own."""

    kind: str = "ner"
    types: Sequence[str] | None = None  # of entities; None is all that are annotated
    directed: bool = True
    negatives: float | None = None


def task_at_one_site(chosen: TaskChoice, choice: ModelChoice, documents: Sequence[Document], *, seed: int) -> Task:
    """Build the task of one site on its own: it learns what its training documents are annotated with."""
    kind = task_kind(chosen.kind)
    if not kind.finds_relations and (chosen.negatives is not None or not chosen.directed):
        raise UsageError(f"--negatives and --undirected are about relations; --task {kind.name} finds none")
    if not kind.finds_entities and chosen.types:
        raise UsageError(f"--types names entities to find; --task {kind.name} uses those of the notes")
    chosen_family(choice, kind.name)  # fail before the documents are checked
    relations = None
    if kind.finds_relations:
        if not any(document.relations for document in documents):
            raise UsageError("the training notes contain no relation to learn from")
        relations = RelationSet.of(documents, directed=chosen.directed)
    types = chosen_types(documents, chosen.types) if kind.finds_entities else TagSet(())
    model = build_model(choice, types, relations=relations, task=kind.name, seed=seed)
    return kind.bind(model, TaskSettings(negatives=chosen.negatives, seed=seed))


def chosen_types(documents: Sequence[Document], chosen: Sequence[str] | None) -> TagSet:
    """Return the types to learn: the chosen ones, or all; raise `UsageError` for a type without annotation."""
    annotated = TagSet.of(documents)
    if not annotated.types:
        raise UsageError("the training notes contain no entity to learn from")
    for name in chosen or ():
        if name not in annotated:
            near = did_you_mean(name, annotated.types)
            raise UsageError(f"no training note has the type {name!r}{near}; there are {', '.join(annotated.types)}")
    return TagSet(tuple(chosen)) if chosen else annotated


def default_training(
    choice: ModelChoice, options: Mapping[str, str], *, seed: int, task: str = "ner"
) -> TrainingConfig:
    """Return the default training of the network, with `options` replaced."""
    if "seed" in options:
        raise UsageError("'seed' is not an option of the training alone: --seed sets it for the network too")
    family, choice = chosen_family(choice, task_kind(task).name)
    return replace(with_settings(TrainingConfig(**family.training(choice)), options, "the training"), seed=seed)


def common_model(study: Study) -> LayeredModel:
    """Build a network with the shared layers of all sites; its other layers are those of the first site."""
    # If sites differ in their tag scheme, they share only layers whose shape does not depend on it.
    scheme = next(iter(study.sites.values())).scheme
    return model_of(study, TagSet(study.types or ("any",)), scheme=scheme)


def common_task(study: Study) -> Task:
    """Return the study's task with the common model."""
    return task_on(study, common_model(study))


def coordinator_of(study: Study, task: Task | None = None, public: PublicSet | None = None) -> Coordinator:
    """Build the coordinator of the study's algorithm before round 1; `task` is `common_task`, if already built."""
    kind, task = study.algorithm.kind, task or common_task(study)
    model = task.model
    kind.check_model(study.algorithm.config, model)
    shared = start_arrays(study, model)
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
    if study.privacy.acceptance is not None:
        coordinator.search.patience = study.privacy.acceptance.patience
    if study.privacy.differential_privacy is not None:
        # Sizes would reveal something about the units of a site, and every unit must count the same.
        coordinator.uniform_weights = True
        coordinator.most_units = 1 / study.privacy.differential_privacy.delta
    return coordinator


def shared_arrays(model: LayeredModel) -> dict[str, Array]:
    """Return a copy of the shared parameters."""
    return arrays_of(model.shared_parameters())


def start_arrays(study: Study, model: LayeredModel) -> dict[str, Array]:
    """Return a copy of what the coordinator starts from: the whole central model, or the shared parameters."""
    central = study.algorithm.kind.central_model
    return arrays_of(model.parameters_in(model.groups)) if central else shared_arrays(model)


def arrays_of(parameters: Mapping[str, Tensor]) -> dict[str, Array]:
    """Return a copy of some parameters."""
    return {name: parameter.detach().cpu().numpy().copy() for name, parameter in parameters.items()}


def model_of(study: Study, types: TagSet, *, scheme: str, encoder: str = "") -> LayeredModel:
    """Build a site's network: with its own types, or with those of all sites if they share the output layers."""
    section, task = study.model, TASKS[study.task.kind]
    choice = _model_choice(study, scheme=scheme, encoder=encoder)
    relations = study.task.relation_set if task.finds_relations else None

    def build(types: TagSet) -> LayeredModel:
        return build_model(choice, types, relations=relations, task=task.name, seed=study.study.seed)

    model = build(types if task.only_tags_words else TagSet(study.types))
    shared = _shared_groups(study, model)
    # Sites need the same tags if they share the output layers, or if their predictions are averaged.
    if task.finds_entities and (study.algorithm.kind.central_model or set(OUTPUT_GROUPS) & set(shared)):
        _check_same_tags(study)
        if task.only_tags_words and types.types != study.types:
            model = build(TagSet(study.types))
    model.split = ParameterSplit.sharing(shared, model.groups)
    if section.start is not None:
        # Private layers start fresh, as among hospitals, which receive the shared layers only.
        only = model.shared_parameters()
        if not warm_start(model, section.start, up_to=section.start_up_to, only=only).weights:
            raise StudyError(
                f"[model] start: nothing of {section.start.name} fits the layers that sites share: "
                f"{', '.join(model.split.shared)}; share others, or leave it out"
            )
    study.algorithm.kind.prepare_model(study.algorithm.config, model, tuple(study.sites))
    if study.privacy.differential_privacy is not None and model.private_parameters():
        raise StudyError(
            f"[privacy.differential_privacy] the layers {', '.join(model.split.private)} would be private: trained "
            "without noise, they carry what they learn from one note into the updates that other notes cause; share "
            'every layer that is trained ([model] shared = ["all"])'
        )
    return model


def _model_choice(study: Study, *, scheme: str = "", encoder: str = "") -> ModelChoice:
    section = study.model
    options = {name: as_text(value) for name, value in section.options.items()}
    options |= {"scheme": scheme} if scheme else {}
    return ModelChoice(
        section.preset, encoder or section.encoder, section.vectors, options, section.bart, section.family or ""
    )


def check_network(study: Study) -> None:
    """Raise a StudyError if the study names no network that serves its task, or a wrong option of it; build nothing."""
    if any(site.encoder for site in study.sites.values()):
        return  # sites have networks of their own; their options are checked when they are built
    try:
        family, choice = chosen_family(_model_choice(study), study.task.kind)
        family.configure(choice)
    except (ModelError, UsageError) as error:
        raise StudyError(f"[model] {error}") from None


def task_on(study: Study, model: LayeredModel, types: TagSet | None = None, *, scored: TagSet | None = None) -> Task:
    """Return the study's task with a network; `types` are what a site annotates, `scored` those of its test notes."""
    section = study.task
    settings = TaskSettings(
        types=types,
        scored=scored,
        negatives=section.negatives,
        relation_weight=section.relation_weight,
        seed=study.study.seed,
    )
    return TASKS[section.kind].bind(model, settings)


def matching_modes_of(study: Study) -> tuple[str, ...]:
    """Return the matching modes in which sites of the study score their models, the main one first."""
    return TASKS[study.task.kind].matching_modes


def _shared_groups(study: Study, model: LayeredModel) -> tuple[str, ...]:
    configured, sharing = study.model.shared, study.algorithm.kind.shared_layers
    if sharing is SharedLayers.NONE or study.algorithm.sites_keep_models:
        return ()
    if sharing is SharedLayers.ALL:
        return model.groups
    outputs = {(site.types, site.scheme) for site in study.sites.values()}
    # Tasks with relations use the types of the study at every site.
    same_outputs = not study.task.only_tags_words or (len(outputs) == 1 and bool(study.types))
    if sharing is SharedLayers.ALL_COMMON:
        return tuple(group for group in model.groups if same_outputs or group not in OUTPUT_GROUPS)
    if configured is None:
        return model.split.shared if study.task.only_tags_words else model.groups
    if configured == (_ALL,):
        return model.groups
    known = model.possible_groups
    for name in configured:
        if name not in known:
            near = did_you_mean(name, known)
            raise StudyError(f"[model] shared: no layer group is called {name!r}{near}; there are {', '.join(known)}")
    return tuple(group for group in model.groups if group in configured)


def _check_same_tags(study: Study) -> None:
    reason = "averages predictions of tags" if study.algorithm.kind.central_model else "shares the output layers"
    for name, site in study.sites.items():
        if study.task.only_tags_words and not site.types:  # in a joint task, every site has the types of the study
            raise StudyError(f"[sites.{name}] must name its types: the study {reason}")
    schemes = {site.scheme for site in study.sites.values()}
    if len(schemes) > 1:
        raise StudyError(f"[sites] scheme: the study {reason}, so all sites must use one scheme")


# A study that starts from a saved model: every party knows the model's digest, and only the coordinator has the model.


def with_start_digest(study: Study) -> Study:
    """Return the study with the digest of the layers that it starts from; unchanged if it names no saved model."""
    if study.model.start is None:
        return study
    digest = digest_of_start(start_arrays(study, common_model(study)))
    return replace(study, model=replace(study.model, start_sha256=digest))


def check_start(study: Study) -> None:
    """Raise a StudyError if the saved model is missing, or is not the one that the study was created with.

    Only the coordinator calls this, because sites do not have the saved model.
    """
    section = study.model
    if not section.start_sha256:
        return
    if section.start is None:
        raise StudyError("[model] start_sha256 is the digest of a saved model; name that model as start as well")
    if digest_of_start(start_arrays(study, common_model(study))) != section.start_sha256:
        raise StudyError(
            f"[model] start: {section.start.name} is not the model that the study was made with (sha256 differs)"
        )


def start_table(study: Study) -> Table | None:
    """Return a table of the layers that are copied from the start model; None if the study has none."""
    section = study.model
    if section.start is None:
        return None
    fresh = common_model(replace(study, model=replace(section, start=None, start_up_to="", start_sha256="")))
    report = warm_start(fresh, section.start, up_to=section.start_up_to, only=fresh.shared_parameters())
    rows = list[Row]()
    for layer in report.layers:
        if layer.layer.partition(".")[0] in fresh.split.shared:
            rows.append((layer.layer, layer.parameters, layer.taken, layer.how, layer.why))
        else:
            rows.append((layer.layer, layer.parameters, 0, "fresh", "it is private: each site starts with its own"))
    columns = ("layer", "parameters", "of the start", "what happened", "why")
    return Table(f"Starts from {section.start.name} up to {report.up_to}", columns, tuple(rows))
