"""Prediction by Flair's sequence tagger, untrained; runs in Flair's own environment."""

from __future__ import annotations

import time
from typing import Any

import torch
from flair.data import Sentence
from flair_tagger import make_tagger
from json_script import answer


def measure(request: dict[str, Any]) -> dict[str, Any]:
    """Return the seconds of each repeat; sentences are new objects each time, because Flair keeps their embeddings."""
    torch.set_num_threads(request["threads"])
    torch.manual_seed(0)
    words = sorted(request["sentences"], key=len)
    tagger = make_tagger({"batches": [[(sentence, []) for sentence in words]], "types": request["types"]})
    tagger.eval()
    seconds = []
    for _ in range(request["repeats"]):
        sentences = [Sentence(sentence) for sentence in words]
        started = time.perf_counter()
        tagger.predict(sentences, mini_batch_size=64)
        seconds.append(time.perf_counter() - started)
    return {"seconds": seconds}


if __name__ == "__main__":
    answer(measure)
