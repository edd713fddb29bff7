"""Training steps of our tagger, in a process of its own like its peer."""

from __future__ import annotations

import time
from typing import Any

import torch
from json_script import answer

from wardround.models.families import ModelChoice
from wardround.models.family_table import build_model
from wardround.tasks.ner import TaggedSentence, batch_loss
from wardround.text.tag_sets import TagSet
from wardround.training.loop import train_batches
from wardround.training.optimizer import ParameterOptimizer
from wardround.training.training_config import TrainingConfig


def measure(request: dict[str, Any]) -> dict[str, Any]:
    """Return the seconds of each training step."""
    torch.set_num_threads(request["threads"])
    sentences, batches = [], []
    for batch in request["batches"]:
        batches.append(range(len(sentences), len(sentences) + len(batch)))
        sentences += [TaggedSentence(tuple(words), tuple(tags)) for words, tags in batch]
    model = build_model(ModelChoice(request["preset"]), TagSet(tuple(request["types"])), seed=0)
    parameters = dict(model.named_parameters())
    steps = train_batches(
        model,
        batches,
        lambda rows: batch_loss(model, [sentences[row] for row in rows]),
        optimizers=[ParameterOptimizer(parameters, model.output_names(parameters), kind=TrainingConfig().optimizer)],
        rates=lambda step: TrainingConfig().rates(step, len(batches)),
        clip=TrainingConfig().clip,
    )
    seconds = []
    started = time.perf_counter()
    for _ in steps:
        seconds.append(time.perf_counter() - started)
        started = time.perf_counter()
    return {"seconds": seconds}


if __name__ == "__main__":
    answer(measure)
