"""The table of tasks, and the task that a saved model is for.

A new task needs one file that declares it and one line here.
"""

from __future__ import annotations

from collections.abc import Mapping

from wardround.errors import UsageError
from wardround.models.family_table import family_of
from wardround.models.parameter_split import LayeredModel
from wardround.settings import did_you_mean
from wardround.tasks.deidentify import DEIDENTIFY
from wardround.tasks.joint import JOINT
from wardround.tasks.ner import NER
from wardround.tasks.relations import RELATIONS
from wardround.tasks.task import Task, TaskKind, TaskSettings
from wardround.text.phi_tag_sets import are_phi

__all__ = ["TASKS", "task_kind", "task_of"]

TASKS: Mapping[str, TaskKind] = {
    "ner": NER,
    "relations": RELATIONS,
    "joint": JOINT,
    "deidentify": DEIDENTIFY,
}


def task_kind(name: str) -> TaskKind:
    """Return the declaration of a task; raise `UsageError` if there is none of this name."""
    if name not in TASKS:
        raise UsageError(f"{name!r} is not a task{did_you_mean(name, TASKS)}; there are {', '.join(TASKS)}")
    return TASKS[name]


def task_of(model: LayeredModel, *, leakage: bool | None = None) -> Task:
    """Return the task of a model, with the settings that it needs to predict and score.

    `leakage` chooses whether its scores report leakage, if it has such a task. By default they do if all entity types
    of the model are known to identify people.
    """
    kinds = [TASKS[name] for name in family_of(model).tasks]
    task = kinds[0].bind(model, TaskSettings())
    identifies = are_phi(task.entity_types) if leakage is None else leakage
    special = [kind for kind in kinds if kind.reports_leakage]
    return special[0].bind(model, TaskSettings()) if special and identifies else task
