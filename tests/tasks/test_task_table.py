from __future__ import annotations

from pathlib import Path

import pytest
from tests.models.tiny import TINY, TYPES, word_tagger, write_encoder

from wardround.models.joint_extractor import JointExtractor, JointExtractorConfig
from wardround.models.parameter_split import LayeredModel
from wardround.models.relation_classifier import RelationClassifier, RelationClassifierConfig
from wardround.models.saved import load_model, save_model
from wardround.models.word_tagger import WordTagger
from wardround.tasks.deidentify import DeidentifyTask
from wardround.tasks.joint import JointTask
from wardround.tasks.ner import NerTask
from wardround.tasks.relations import RelationTask
from wardround.tasks.task import Task
from wardround.tasks.task_table import task_of
from wardround.text.relation_sets import RelationSet, RelationType
from wardround.text.tag_sets import TagSet

RELATIONS = RelationSet((RelationType("causes", (("Drug", "ADE"),)),))


@pytest.mark.parametrize("kind", [NerTask, RelationTask, JointTask])
def test_a_saved_model_knows_its_task(kind: type[Task], tmp_path: Path) -> None:
    encoder = str(write_encoder(tmp_path / "encoder"))
    models: dict[type[Task], LayeredModel] = {
        NerTask: word_tagger(),
        RelationTask: RelationClassifier(RelationClassifierConfig(encoder=encoder), RELATIONS),
        JointTask: JointExtractor(JointExtractorConfig(encoder=encoder), TYPES, RELATIONS),
    }
    save_model(models[kind], tmp_path / "model")
    model = load_model(tmp_path / "model")
    task = task_of(model)
    assert type(task) is kind
    assert task.model is model
    assert set(task.entity_types) == {"ADE", "Drug"}


def test_leakage_is_scored_if_all_types_are_phi_or_on_request() -> None:
    people, drugs = WordTagger(TINY, TagSet(("PATIENT", "FECHAS"))), word_tagger()
    assert [type(task_of(model)) for model in (people, drugs)] == [DeidentifyTask, NerTask]
    assert type(task_of(people, leakage=False)) is NerTask
    assert type(task_of(drugs, leakage=True)) is DeidentifyTask
