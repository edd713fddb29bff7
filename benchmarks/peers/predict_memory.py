"""Predict a stream of sentences and measure the peak memory of the process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import cycle, islice
from typing import Any

from json_script import answer, peak_megabytes

from wardround.corpora.synthetic import CLINICAL_TYPES, clinical_hospitals
from wardround.models.families import ModelChoice
from wardround.models.family_table import build_model
from wardround.tasks.mentions import predict_mentions
from wardround.text.document import Document
from wardround.text.segmentation import sentences_of
from wardround.text.tag_sets import TagSet


def measure(request: dict[str, Any]) -> dict[str, Any]:
    """Predict as many sentences as requested."""
    model = build_model(ModelChoice("fedner"), TagSet(CLINICAL_TYPES), seed=0)
    notes = [document for hospital in clinical_hospitals(0) for document in hospital.test]
    started = time.perf_counter()
    for _ in predict_mentions(model, sentences(notes, request["sentences"])):
        pass
    seconds = time.perf_counter() - started
    return {"sentences": request["sentences"], "peak_mb": peak_megabytes(), "seconds": seconds}


def sentences(notes: list[Document], count: int) -> Iterator[Document]:
    """Yield each sentence as a document, each time with a new word, so that no cache can help."""
    stream = (note.text[start:end] for note in cycle(notes) for start, end in sentences_of(note))
    for number, text in enumerate(islice(stream, count)):
        yield Document(str(number), f"{text} x{number}y")


if __name__ == "__main__":
    answer(measure)
