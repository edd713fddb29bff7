"""The table of model families, and how a family is chosen and built.

A new family needs one file that declares it and one line here, or an entry point of an installed package.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from wardround.errors import UsageError
from wardround.models import encoder_tagger, joint_extractor, light_ner, relation_classifier, word_tagger
from wardround.models.families import Labels, ModelChoice, ModelFamily
from wardround.models.parameter_split import LayeredModel
from wardround.plugins import Registry
from wardround.settings import did_you_mean
from wardround.text.relation_sets import RelationSet
from wardround.text.tag_sets import TagSet

__all__ = ["BUILT_IN", "FAMILIES", "build_model", "chosen_family", "family_of"]

BUILT_IN: dict[str, ModelFamily] = {
    "word-tagger": word_tagger.FAMILY,
    "encoder-tagger": encoder_tagger.FAMILY,
    "light-ner": light_ner.FAMILY,
    "relation-classifier": relation_classifier.FAMILY,
    "joint-extractor": joint_extractor.FAMILY,
}
FAMILIES: Mapping[str, ModelFamily] = Registry("wardround.models", BUILT_IN)


def family_of(model: LayeredModel) -> ModelFamily:
    """Return the family of a model."""
    return FAMILIES[model.kind]


def chosen_family(choice: ModelChoice, task: str) -> tuple[ModelFamily, ModelChoice]:
    """Return the family that a choice means for a task, and the choice with the family's defaults."""
    if choice.family:
        if choice.family not in FAMILIES:
            near = did_you_mean(choice.family, FAMILIES)
            raise UsageError(f"no model family is called {choice.family!r}{near}; there are {', '.join(FAMILIES)}")
        family = FAMILIES[choice.family]
        if task not in family.tasks:
            raise UsageError(f"the model family {family.name} serves {', '.join(family.tasks)}, not the task {task}")
    else:
        serving = [family for family in BUILT_IN.values() if task in family.tasks]
        chosen = [family for family in serving if choice.chosen_by in family.chosen_by]
        if not chosen:
            settings = dict.fromkeys(setting for family in serving for setting in family.chosen_by)
            raise UsageError(
                f"no model for the task {task} is chosen by {choice.chosen_by}; use {' or '.join(settings)}"
            )
        family = chosen[0]
    return family, replace(choice, encoder=choice.encoder or family.default_encoder)


def build_model(
    choice: ModelChoice, types: TagSet, *, seed: int, relations: RelationSet | None = None, task: str = "ner"
) -> LayeredModel:
    """Build the chosen network for a task, with fresh weights drawn from `seed`."""
    family, choice = chosen_family(choice, task)
    config = family.configure(choice)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return family.build(config, Labels(types, relations), choice)
