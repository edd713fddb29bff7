"""Training steps of our tagger; request and answer as JSON, in a process of its own like its peer."""

from __future__ import annotations

import json
import sys
import time

import torch

from wardround.studies.assemble import ModelChoice, build_model
from wardround.tasks.ner import NerTask, TaggedSentence
from wardround.text.tag_sets import TagSet
from wardround.training.loop import TrainingLoop
from wardround.training.training_config import WORD_RECIPE


def main() -> None:
    """Time the steps."""
    request = json.load(sys.stdin)
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
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
