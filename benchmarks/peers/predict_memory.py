"""Predict a number of sentences in a stream and say how much memory the process took at most."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Iterator
from itertools import cycle, islice

from wardround.corpora.synthetic import CLINICAL_TYPES, clinical_hospitals
from wardround.studies.assemble import ModelChoice, build_model
from wardround.tasks.ner import predict
from wardround.text.document import Document
from wardround.text.sentences import sentences_of
from wardround.text.tag_sets import TagSet


def main() -> None:
    """Stream, count, answer."""
    request = json.load(sys.stdin)
    model = build_model(ModelChoice("fedner"), TagSet(CLINICAL_TYPES), seed=0)
    notes = [document for hospital in clinical_hospitals(0) for document in hospital.test]
    started = time.perf_counter()
    for _ in predict(model, sentences(notes, request["sentences"])):
        pass
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"sentences": request["sentences"], "peak_mb": peak, "seconds": seconds}))


def sentences(notes: list[Document], wanted: int) -> Iterator[Document]:
    """Each sentence as a document of its own, each time with a word never seen before, so that no cache can help."""
    stream = (note.text[start:end] for note in cycle(notes) for start, end in sentences_of(note))
    for number, text in enumerate(islice(stream, wanted)):
        yield Document(str(number), f"{text} x{number}y")


if __name__ == "__main__":
    main()
