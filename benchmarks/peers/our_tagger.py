"""Training steps of our tagger, in a process of its own like its peer."""

from __future__ import annotations

import time
from typing import Any

import torch
from json_script import answer

from wardround.studies.assemble import ModelChoice, build_model
from wardround.tasks.ner import NerTask, TaggedSentence
from wardround.text.tag_sets import TagSet
from wardround.training.loop import TrainingLoop
from wardround.training.training_config import WORD_RECIPE


def measure(request: dict[str, Any]) -> dict[str, Any]:
    """Return the seconds of each training step."""
    torch.set_num_threads(request["threads"])
    batches = [[TaggedSentence(tuple(words), tuple(tags)) for words, tags in batch] for batch in request["batches"]]
    model = build_model(ModelChoice(request["preset"]), TagSet(tuple(request["types"])), seed=0)
    training = TrainingLoop(NerTask(model), WORD_RECIPE, train=[s for batch in batches for s in batch], dev=())
    model.train()
    seconds = []
    for batch in batches:
        started = time.perf_counter()
        training.step(batch)
        seconds.append(time.perf_counter() - started)
    return {"seconds": seconds}


if __name__ == "__main__":
    answer(measure)
