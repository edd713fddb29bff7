"""Which task a model is for: what a command that is given any saved model asks."""

from __future__ import annotations

from wardround.models.joint_extractor import JointExtractor
from wardround.models.parameter_split import LayeredModel
from wardround.models.relation_classifier import RelationClassifier
from wardround.models.tagging_model import TaggingModel
from wardround.tasks.deidentify import DeidentifyTask
from wardround.tasks.joint import JointTask
from wardround.tasks.ner import NerTask
from wardround.tasks.relations import RelationTask
from wardround.tasks.task import Task
from wardround.text.phi_tag_sets import are_phi

__all__ = ["task_of"]


def task_of(model: LayeredModel, *, leakage: bool | None = None) -> Task:
    """The task of a model, with the settings it needs to predict and score.

    A tagger's score says what leaks where `leakage` says so; unset, where all its types are known to identify people.
    """
    if isinstance(model, RelationClassifier):
        return RelationTask(model)
    if isinstance(model, JointExtractor):
        return JointTask(model)
    assert isinstance(model, TaggingModel), "a kind of model without a task"
    identifies = are_phi(model.tag_set.types) if leakage is None else leakage
    return DeidentifyTask(model) if identifies else NerTask(model)
