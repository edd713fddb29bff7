from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.models import bag_of_words
from tests.models.tiny import TYPES, notes, same_weights
from tests.studies.tiny_studies import tiny
from wardround.errors import ModelError, UsageError
from wardround.models.families import ModelChoice
from wardround.models.family_table import BUILT_IN, FAMILIES, build_model, chosen_family, family_of
from wardround.models.saved import load_model, model_card, save_model
from wardround.studies.assemble import TaskChoice, default_training, model_of, task_at_one_site
from wardround.tasks.task_table import TASKS, task_of
from wardround.text.tag_sets import TagSet
from wardround.training.loop import TrainingLoop

NOTES = notes(34)
DUMMY = "bag-of-words"


@pytest.fixture
def dummy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one line of the table."""
    monkeypatch.setitem(BUILT_IN, DUMMY, bag_of_words.FAMILY)


def test_every_family_is_listed_under_its_own_name_and_serves_known_tasks() -> None:
    for name, family in BUILT_IN.items():
        assert family.name == name
        assert family.tasks and set(family.tasks) <= TASKS.keys()
    assert {name for family in BUILT_IN.values() for name in family.tasks} == TASKS.keys()


@pytest.mark.parametrize(
    ("choice", "task", "name"),
    [
        (ModelChoice(), "ner", "word-tagger"),
        (ModelChoice(), "deidentify", "word-tagger"),
        (ModelChoice(encoder="x"), "ner", "encoder-tagger"),
        (ModelChoice(bart="x"), "ner", "light-ner"),
        (ModelChoice(), "relations", "relation-classifier"),
        (ModelChoice(encoder="x"), "relations", "relation-classifier"),
        (ModelChoice(encoder="x"), "joint", "joint-extractor"),
        (ModelChoice(family="word-tagger"), "ner", "word-tagger"),
    ],
)
def test_a_choice_and_a_task_mean_one_family(choice: ModelChoice, task: str, name: str) -> None:
    assert chosen_family(choice, task)[0].name == name


def test_a_family_completes_the_choice_with_its_encoder() -> None:
    assert chosen_family(ModelChoice(), "joint")[1].encoder == "minilm"
    assert chosen_family(ModelChoice(encoder="x"), "joint")[1].encoder == "x"
    assert chosen_family(ModelChoice(), "ner")[1].encoder == ""


@pytest.mark.parametrize(
    ("choice", "task", "said"),
    [
        (ModelChoice(bart="x"), "joint", r"^no model for the task joint is chosen by bart; use encoder or preset$"),
        (
            ModelChoice(family="word-taggr"),
            "ner",
            r"^no model family is called 'word-taggr' – did you mean 'word-tagger'\?; there are word-tagger, ",
        ),
        (
            ModelChoice(family="word-tagger"),
            "relations",
            r"^the model family word-tagger serves ner, deidentify, not the task relations$",
        ),
    ],
)
def test_choices_without_a_family_are_refused(choice: ModelChoice, task: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        chosen_family(choice, task)


# A further family needs one file and one line.


def test_a_dummy_family_trains_is_saved_and_loaded(dummy: None, tmp_path: Path) -> None:
    choice = ModelChoice(family=DUMMY, options={"width": "8"})
    task = task_at_one_site(TaskChoice(), choice, NOTES[:30], seed=3)
    config = default_training(choice, {"batch_size": "4"}, seed=0)
    assert (config.epochs, config.learning_rate, config.batch_size) == (5, 0.05, 4)
    records = list(TrainingLoop(task, config, train=task.encode(NOTES[:30]), dev=NOTES[30:]).run())
    assert records[-1].loss < records[0].loss / 2
    assert task.score(NOTES[30:]).main.micro.f1 > 0.5
    save_model(task.model, tmp_path / "model")
    assert model_card(tmp_path / "model")["kind"] == DUMMY
    found = load_model(tmp_path / "model")
    assert same_weights(found, task.model) and family_of(found) is bag_of_words.FAMILY
    again = task_of(found)
    assert type(again) is type(task)
    assert list(again.predict(NOTES[:2])) == list(task.predict(NOTES[:2]))


def test_a_dummy_family_in_a_study(dummy: None) -> None:
    study = tiny()
    study = replace(study, model=replace(study.model, family=DUMMY, options={"width": 8}, shared=None))
    model = model_of(study, TYPES, scheme="")
    assert isinstance(model, bag_of_words.BagOfWords)
    assert model.config.width == 8
    assert (model.split.shared, model.split.private) == (("words",), ("output",))


def test_a_family_that_was_removed(dummy: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_model(build_model(ModelChoice(family=DUMMY), TagSet(("Drug",)), seed=0), tmp_path / "model")
    monkeypatch.delitem(BUILT_IN, DUMMY)
    assert DUMMY not in FAMILIES
    with pytest.raises(ModelError, match=r"^model: this version does not know the model family 'bag-of-words'"):
        load_model(tmp_path / "model")


def test_building_does_not_change_the_global_random_state(dummy: None) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    build_model(ModelChoice(family=DUMMY), TYPES, seed=1)
    assert torch.equal(torch.rand(3), expected)
