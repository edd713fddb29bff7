from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.models.tiny import TYPES, notes, same_weights, write_encoder
from tests.studies.tiny_studies import ONE_TOP, of_algorithm, tiny

from wardround.algorithms.fedprox import FedProx
from wardround.errors import ModelError, StudyError, TrainingError, UsageError
from wardround.federation.site_runtime import PublicSet
from wardround.models.encoder_tagger import EncoderTagger
from wardround.models.families import ADAPTER_TRAINING, ENCODER_TRAINING, ModelChoice
from wardround.models.family_table import build_model
from wardround.models.presets import PRESETS
from wardround.models.relation_classifier import RelationClassifier
from wardround.models.word_tagger import WordTagger
from wardround.secure_aggregation.plain import PlainServer, PlainUpdates
from wardround.secure_aggregation.predictions import PlainPredictions
from wardround.studies.aggregation_setup import payload_of, server_of
from wardround.studies.assemble import (
    TaskChoice,
    check_network,
    common_task,
    coordinator_of,
    default_training,
    matching_modes_of,
    model_of,
    shared_arrays,
    task_at_one_site,
    task_on,
)
from wardround.studies.study_notes import public_set
from wardround.tasks.joint import JointTask
from wardround.tasks.ner import NerTask
from wardround.tasks.relations import RelationTask
from wardround.tasks.task_table import TASKS
from wardround.text.document import Document, Entity, Level, Range, Relation
from wardround.text.relation_sets import RelationSet, RelationType
from wardround.text.tag_sets import TagSet
from wardround.training.training_config import TrainingConfig

WORD_TRAINING = TrainingConfig()
TRANSFER_TRAINING = TrainingConfig(
    epochs=100, batch_size=8, optimizer="sgd", learning_rate=0.1, schedule="constant", patience=10
)
SMALL = {"word_buckets": "32", "word_dimension": "8", "character_width": "8", "word_cnn": "8", "lstm": "4"}


def words(**options: str) -> WordTagger:
    model = build_model(ModelChoice(options=SMALL | options), TYPES, seed=0)
    assert isinstance(model, WordTagger)
    return model


@pytest.mark.parametrize("name", sorted(set(PRESETS) - {"elmoner"}))
def test_every_preset_becomes_its_network(name: str) -> None:
    model = build_model(ModelChoice(name), TYPES, seed=0)
    assert isinstance(model, WordTagger)
    assert model.config == PRESETS[name]
    assert model.tag_set == TYPES


def test_options_replace_fields_of_the_preset() -> None:
    model = words(scheme="BIOES", shared="words, characters", train_words="no")
    assert (model.config.word_buckets, model.config.lstm, model.config.train_words) == (32, 4, False)
    assert model.scheme.name == "BIOES"
    assert model.split.shared == ("words", "characters")
    assert model.config.kernel == PRESETS["fedner"].kernel


def test_weights_follow_from_the_seed_and_nothing_else() -> None:
    choice = ModelChoice(options=SMALL)
    torch.manual_seed(1)
    first = build_model(choice, TYPES, seed=3)
    torch.manual_seed(2)
    assert same_weights(build_model(choice, TYPES, seed=3), first)
    assert not same_weights(build_model(choice, TYPES, seed=4), first)


def test_building_leaves_other_randomness_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    words()
    assert torch.equal(torch.rand(3), expected)


def test_word_vectors_bring_their_words_and_their_size(tmp_path: Path) -> None:
    (tmp_path / "glove.txt").write_text("aspirin 1 2 3\nrash 4 5 6\n")
    model = build_model(ModelChoice(vectors=tmp_path / "glove.txt", options=SMALL), TYPES, seed=0)
    assert isinstance(model, WordTagger)
    assert model.config.word_dimension == 3
    rows = model.words.weight.detach().numpy()
    assert np.array_equal(rows[-2:], [[1, 2, 3], [4, 5, 6]])


def test_an_encoder_takes_the_place_of_the_preset(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "tiny")
    model = build_model(ModelChoice(encoder=str(folder), options={"decoder": "crf", "limit": "32"}), TYPES, seed=0)
    assert isinstance(model, EncoderTagger)
    assert (model.config.encoder, model.config.decoder, model.config.limit) == (str(folder), "crf", 32)
    assert model.groups == ("embeddings", "layer_0", "layer_1", "output", "crf")


def test_an_encoder_and_word_vectors_do_not_fit_together(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match="an encoder has its own embeddings; word vectors can only be used with a preset"
    ):
        ModelChoice(encoder="minilm", vectors=tmp_path)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ModelError, match=r"^no preset is called 'fedmer' – did you mean 'fedner'\?; there are fedner,"):
        build_model(ModelChoice("fedmer"), TYPES, seed=0)
    with pytest.raises(UsageError, match=r"^'lstn' is not an option of the preset 'fedner' – did you mean 'lstm'\?"):
        words(lstn="3")
    with pytest.raises(UsageError, match=r"^'lstm' is not an option of the encoder tagger; it has encoder, decoder"):
        build_model(ModelChoice(encoder="minilm", options={"lstm": "3"}), TYPES, seed=0)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (ModelChoice(), WORD_TRAINING),
        (ModelChoice("gram-cnn"), WORD_TRAINING),
        (ModelChoice("transfer"), TRANSFER_TRAINING),
        (ModelChoice(encoder="minilm"), TrainingConfig(**ENCODER_TRAINING)),
        (ModelChoice("transfer", encoder="minilm"), TrainingConfig(**ENCODER_TRAINING)),
        (ModelChoice(encoder="minilm", options={"adapter": "lora"}), TrainingConfig(**ADAPTER_TRAINING)),
        (ModelChoice(encoder="minilm", options={"adapter": "none"}), TrainingConfig(**ENCODER_TRAINING)),
        (ModelChoice(bart="facebook/bart-base"), TrainingConfig(**ADAPTER_TRAINING)),
    ],
)
def test_each_family_has_its_default_training(choice: ModelChoice, expected: object) -> None:
    assert default_training(choice, {}, seed=0) == expected


def test_two_networks_at_once_are_refused() -> None:
    with pytest.raises(UsageError, match=r"^encoder and bart name two networks; set only one of them$"):
        ModelChoice(encoder="minilm", bart="facebook/bart-base")


def test_a_bart_finds_entities_alone() -> None:
    with pytest.raises(UsageError, match=r"^no model for the task relations is chosen by bart; use encoder"):
        task_at_one_site(TaskChoice("relations"), ModelChoice(bart="x"), [], seed=0)


def test_the_trainings_of_the_papers() -> None:
    # FedNER, Section 4.1: Adam, N = 64, a rate of 0.001.
    assert (WORD_TRAINING.optimizer, WORD_TRAINING.batch_size, WORD_TRAINING.learning_rate) == ("adam", 64, 1e-3)
    # Lee 2017, Section 3: plain gradient descent, a patience of ten epochs.
    assert (TRANSFER_TRAINING.optimizer, TRANSFER_TRAINING.patience) == ("sgd", 10)
    assert ENCODER_TRAINING["output_learning_rate"] > ENCODER_TRAINING["learning_rate"]


def test_a_training_with_other_settings() -> None:
    found = default_training(ModelChoice(), {"epochs": "3", "optimizer": "sgd", "mixed_precision": "true"}, seed=7)
    assert (found.epochs, found.optimizer, found.mixed_precision, found.seed) == (3, "sgd", True, 7)
    assert found.batch_size == WORD_TRAINING.batch_size


def test_invalid_settings_of_a_training_are_refused() -> None:
    with pytest.raises(UsageError, match=r"^'epoch' is not an option of the training – did you mean 'epochs'\?"):
        default_training(ModelChoice(), {"epoch": "3"}, seed=0)
    with pytest.raises(TrainingError, match="optimizer is 'adm'"):
        default_training(ModelChoice(), {"optimizer": "adm"}, seed=0)


def test_the_seed_is_one_for_network_and_training() -> None:
    with pytest.raises(UsageError, match=r"^'seed' is not an option of the training alone: --seed sets it"):
        default_training(ModelChoice(), {"seed": "3"}, seed=0)


def shared_groups(**sections: Any) -> set[str]:
    study = tiny(**sections)
    model = model_of(study, TagSet(study.sites["harbour"].types or ("X",)), scheme=study.sites["harbour"].scheme)
    return set(model.split.shared)


def test_a_study_shares_what_it_names() -> None:
    assert shared_groups() == {"words", "word_cnn"}
    assert shared_groups(model={"shared": ["lstm"]}) == {"lstm"}
    assert shared_groups(model={"shared": None}) == {"words", "word_cnn"}  # the preset's, of the layers it has
    assert shared_groups(model={"shared": ["words", "characters"]}) == {"words"}
    assert shared_groups(model={"shared": ["all"]}, sites=ONE_TOP) == {"words", "word_cnn", "lstm", "output", "crf"}


def test_algorithms_that_decide_what_is_shared() -> None:
    decided = {"shared": None}
    assert shared_groups(algorithm={"name": "single"}, model=decided) == set()
    assert shared_groups(algorithm={"name": "pooled"}, model=decided) == {"words", "word_cnn", "lstm"}
    everything = shared_groups(algorithm={"name": "pooled"}, model=decided, sites=ONE_TOP)
    assert everything == {"words", "word_cnn", "lstm", "output", "crf"}


def test_an_unknown_layer_is_refused() -> None:
    with pytest.raises(StudyError, match=r"^\[model\] shared: no layer group is called 'wrods' – did you mean 'words'"):
        coordinator_of(tiny(model={"shared": ["wrods"]}))


@pytest.mark.parametrize("group", ["output", "crf", "all"])
def test_shared_output_layers_need_types_and_one_scheme(group: str) -> None:
    model = {"shared": [group]}
    said = r"^\[sites.hillside\] must name its types: the study shares the output layers$"
    with pytest.raises(StudyError, match=said):
        coordinator_of(tiny(model=model, sites={"hillside": {"types": None}}))
    with pytest.raises(StudyError, match="shares the output layers, so all sites must use one scheme"):
        coordinator_of(tiny(model=model))


@pytest.mark.parametrize(("scheme", "tags"), [("", 5), ("BIO", 5), ("BIOES", 9), ("IOB1", 5)])
def test_shared_output_layers_have_the_types_of_all_sites(scheme: str, tags: int) -> None:
    sites = {"harbour": {"types": ["Drug"], "scheme": scheme}, "hillside": {"types": ["ADE"], "scheme": scheme}}
    study = tiny(model={"shared": ["all"]}, sites=sites)
    coordinator = coordinator_of(study)
    for section in study.sites.values():
        model = model_of(study, TagSet(section.types), scheme=section.scheme)
        assert model.tag_set.types == ("Drug", "ADE")
        assert len(model.tags) == tags  # O, and each prefix of two types
        shapes = {name: array.shape for name, array in shared_arrays(model).items()}
        assert shapes == {name: tuple(tensor.shape) for name, tensor in coordinator.shared.items()}


def test_coordinator_and_sites_start_with_the_same_shared_half() -> None:
    study = tiny()
    coordinator = coordinator_of(study)
    for section in study.sites.values():
        found = shared_arrays(model_of(study, TagSet(section.types), scheme=section.scheme))
        assert found.keys() == coordinator.shared.keys()
        assert all(np.array_equal(array, coordinator.shared[name].numpy()) for name, array in found.items())


def test_a_coordinator_has_the_settings_of_its_study() -> None:
    coordinator = coordinator_of(tiny(algorithm={"name": "fedprox", "proximal": 0.5, "rounds": 9}))
    assert isinstance(coordinator, FedProx)
    assert (coordinator.config.proximal, coordinator.config.rounds, coordinator.seed) == (0.5, 9, 7)
    assert (coordinator.training.batch_size, coordinator.training.learning_rate) == (8, 0.01)


def test_shared_arrays_are_copies() -> None:
    model = words()
    before = model.words.weight.detach().clone()
    for array in shared_arrays(model).values():
        array += 1
    assert torch.equal(model.words.weight, before)


def test_the_plain_aggregation_of_a_study() -> None:
    study = tiny()
    server = server_of(study, payload_of(study, common_task(study), PublicSet()))
    assert isinstance(server, PlainServer)
    assert isinstance(server.codec, PlainUpdates)


def test_options_of_the_network_in_a_study() -> None:
    model = model_of(tiny(model={"train_words": False, "kernel": 5}), TYPES, scheme="IOB1")
    assert isinstance(model, WordTagger)
    assert (model.config.train_words, model.config.kernel, model.scheme.name) == (False, 5, "IOB1")
    with pytest.raises(UsageError, match=r"^'lstn' is not an option of the preset 'fedner' – did you mean 'lstm'\?"):
        coordinator_of(tiny(model={"lstn": 3}))


@pytest.mark.parametrize("algorithm", ["fedner", "fedavg"])
def test_the_coordinator_knows_which_shared_layers_are_output_layers(algorithm: str) -> None:
    named = {"algorithm": {"name": algorithm}}
    assert coordinator_of(tiny(**named)).output == ()
    whole = coordinator_of(tiny(**named, model={"shared": ["all"]}, sites=ONE_TOP))
    assert {name.partition(".")[0] for name in whole.output} == {"output", "crf"}
    assert {name for name in whole.shared if name.partition(".")[0] in ("output", "crf")} == set(whole.output)


# What one site on its own learns.

CHOICE = ModelChoice(options=SMALL)
GAVE = Document(
    "n",
    "Aspirin gave rash.",
    (Entity("T1", "Drug", (Range(0, 7),), concepts=("A",)), Entity("T2", "ADE", (Range(13, 17),), concepts=("R",))),
    (Relation("R1", "causes", "T1", "T2"),),
)
CAUSES = RelationType("causes", (("Drug", "ADE"),))


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_encoder(tmp_path_factory.mktemp("encoders") / "tiny"))


def test_a_site_learns_the_entities_that_its_notes_hold() -> None:
    task = task_at_one_site(TaskChoice(), CHOICE, notes(2), seed=3)
    assert isinstance(task, NerTask)
    assert task.types == task.model.tag_set == TYPES
    assert same_weights(task.model, build_model(CHOICE, TYPES, seed=3))


def test_a_site_learns_the_chosen_types_in_their_order() -> None:
    task = task_at_one_site(TaskChoice(types=("Drug", "ADE")), CHOICE, notes(2), seed=0)
    assert task.entity_types == ("Drug", "ADE")
    assert task_at_one_site(TaskChoice(types=["Drug"]), CHOICE, notes(2), seed=0).entity_types == ("Drug",)


@pytest.mark.parametrize(
    ("wanted", "documents", "said"),
    [
        (TaskChoice("nre"), notes(1), r"'nre' is not a task – did you mean 'ner'\?; there are ner, relations"),
        (
            TaskChoice(types=["Durg"]),
            notes(1),
            r"no training note has the type 'Durg' – did you mean 'Drug'\?",
        ),
        (TaskChoice(), [Document("n", "Well.")], "the training notes contain no entity to learn from$"),
        (TaskChoice("relations"), notes(3), "the training notes contain no relation to learn from$"),
        (TaskChoice("relations"), [], "the training notes contain no relation to learn from$"),
    ],
)
def test_what_a_site_cannot_learn(wanted: TaskChoice, documents: list[Document], said: str) -> None:
    with pytest.raises(UsageError, match=f"^{said}"):
        task_at_one_site(wanted, CHOICE, documents, seed=0)


def test_a_site_learns_the_relations_that_its_notes_hold(encoder: str) -> None:
    choice = ModelChoice(encoder=encoder, options={"window": "2"})
    task = task_at_one_site(TaskChoice("relations", negatives=0.5), choice, [GAVE], seed=3)
    assert isinstance(task, RelationTask)
    assert task.model.relations == RelationSet((CAUSES,))
    assert (task.negatives, task.seed, task.model.config.window) == (0.5, 3, 2)
    again = task_at_one_site(TaskChoice("relations", directed=False), choice, [GAVE], seed=3)
    assert isinstance(again, RelationTask)
    assert again.model.relations == RelationSet((CAUSES,), directed=False)
    assert torch.equal(again.model.output.weight, task.model.output.weight)
    other = task_at_one_site(TaskChoice("relations"), choice, [GAVE], seed=4)
    assert isinstance(other, RelationTask)
    assert not torch.equal(other.model.output.weight, task.model.output.weight)


def test_relations_between_concepts_are_learned_as_such(encoder: str) -> None:
    document = Document(GAVE.id, GAVE.text, GAVE.entities, (Relation("R1", "causes", "A", "R", Level.CONCEPT),))
    task = task_at_one_site(TaskChoice("relations"), ModelChoice(encoder=encoder), [document], seed=0)
    assert isinstance(task, RelationTask)
    assert task.model.relations == RelationSet((CAUSES,), level=Level.CONCEPT)
    assert [example.label for example in task.encode([document])] == ["causes"]


def test_a_site_learns_entities_and_relations_together(encoder: str) -> None:
    choice = ModelChoice(encoder=encoder, options={"scheme": "BIOES"})
    task = task_at_one_site(TaskChoice("joint", negatives=2.0, directed=False), choice, [GAVE], seed=3)
    assert isinstance(task, JointTask)
    assert (task.entity_types, task.model.relations) == (("ADE", "Drug"), RelationSet((CAUSES,), directed=False))
    assert (task.negatives, task.seed, task.model.config.scheme) == (2.0, 3, "BIOES")
    with pytest.raises(UsageError, match=r"^the training notes contain no relation to learn from$"):
        task_at_one_site(TaskChoice("joint"), choice, notes(3), seed=0)


def test_building_a_classifier_keeps_the_global_random_state(encoder: str) -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    build_model(ModelChoice(encoder=encoder), TagSet(()), relations=RelationSet((CAUSES,)), task="relations", seed=0)
    assert torch.equal(torch.rand(1), expected)
    said = r"^'lstm' is not an option of the relation classifier; it has encoder, dropout,"
    with pytest.raises(UsageError, match=said):
        choice = ModelChoice(encoder=encoder, options={"lstm": "3"})
        build_model(choice, TagSet(()), relations=RelationSet((CAUSES,)), task="relations", seed=0)


# Relations in a study.


def related(encoder: str, **sections: Any) -> Any:
    """A study of relations at two sites."""
    task = {"kind": "relations", "relations": {"causes": [["Drug", "ADE"]]}, "negatives": 0.5}
    given = {"task": task, "model": dict.fromkeys((*tiny().model.options, "shared")) | {"encoder": encoder}}
    sites = {"harbour": {"types": None}, "hillside": {"types": None, "scheme": None}}
    return tiny(**given, **{"sites": sites, **sections})


@pytest.mark.parametrize("algorithm", ["fedavg", "pooled"])
def test_relations_are_those_of_the_study_at_every_site(encoder: str, algorithm: str) -> None:
    study = related(encoder, algorithm={"name": algorithm})
    model = model_of(study, TagSet(("Drug",)), scheme="")
    assert isinstance(model, RelationClassifier)
    assert model.relations == study.task.relation_set
    assert model.split.private == ()  # the output too, whatever entities a site names
    task = task_on(study, model, TagSet(("Drug",)))
    assert isinstance(task, RelationTask)
    assert (task.negatives, task.seed) == (0.5, 7)
    assert matching_modes_of(study) == ("relations",)


def test_every_task_names_its_matching_modes() -> None:
    assert matching_modes_of(tiny()) == ("strict", "relaxed")
    assert all(task.matching_modes for task in TASKS.values())


def test_a_site_may_have_an_encoder_of_its_own(encoder: str, tmp_path: Path) -> None:
    other = str(write_encoder(tmp_path / "other", seed=9))
    study = related(encoder)
    first, second = (model_of(study, TYPES, scheme="", encoder=chosen) for chosen in ("", other))
    assert isinstance(first, RelationClassifier) and isinstance(second, RelationClassifier)
    assert (first.config.encoder, second.config.encoder) == (encoder, other)


# Predictions on a public set.


@pytest.mark.parametrize(("exchange", "clips"), [("probabilities", {"tags": 1.0}), ("logits", {})])
def test_sites_send_predictions_under_feded(exchange: str, clips: dict[str, float]) -> None:
    study = of_algorithm("feded", algorithm={"predictions": exchange})
    task = common_task(study)
    public = public_set(study, task)
    words = sum(len(sentence.words) for sentence in public.examples)
    form = payload_of(study, task, public)
    assert form.shapes == {"tags": (words, 3)}  # of one type: O, B and I
    assert (form.groups, form.bounds) == ({"tags": "tags"}, clips)
    server = server_of(study, form)
    assert isinstance(server, PlainServer)
    assert isinstance(server.codec, PlainPredictions)


@pytest.mark.parametrize("start", ["central", "own"])
def test_the_coordinator_has_a_whole_model_whatever_sites_share(start: str) -> None:
    study = of_algorithm("feded", algorithm={"site_models": start})
    task = common_task(study)
    coordinator = coordinator_of(study, task, public_set(study, task))
    assert coordinator.shared.keys() == dict(task.model.named_parameters()).keys()
    assert {name.partition(".")[0] for name in coordinator.output} == {"output"}
    split = task.model.split
    assert (split.private if start == "central" else split.shared) == ()


@pytest.mark.parametrize("algorithm", ["feded", "public"])
def test_a_network_that_ends_in_a_crf_is_not_distilled(algorithm: str) -> None:
    study = of_algorithm(algorithm, model={"decoder": "crf"})
    task = common_task(study)
    with pytest.raises(
        StudyError, match=rf"^\[model\] ends in a CRF; {algorithm} distils each word's tag on its own: "
    ):
        coordinator_of(study, task, public_set(study, task))


# The network of a study, before it is built.


def test_options_of_the_network_are_checked_without_building_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wardround.studies.assemble.build_model", None)
    check_network(of_algorithm("fedner"))
    for model, message in (
        ({"lsmt": 3}, "'lsmt' is not an option of .* – did you mean 'lstm'"),
        ({"preset": "fednre"}, "no preset is called 'fednre' – did you mean 'fedner'"),
    ):
        with pytest.raises(StudyError, match=rf"^\[model\] {message}"):
            check_network(of_algorithm("fedner", model=model))
