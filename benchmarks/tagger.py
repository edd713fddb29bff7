"""Training throughput of FedNER's network on CPU, compared with Flair's sequence tagger on the same batches in one run.

Both have word vectors of 100, character vectors of 200, a BiLSTM of 2 x 200 and a CRF. FedNER's network also has a word
CNN on top, so it does more work; `cnn-lstm-crf` has exactly Flair's shape. The taggers alternate, each in its own
process.
"""

from __future__ import annotations

import sys
from statistics import median
from typing import Any

import torch
from common import Bar, arguments, finish

from wardround.corpora.synthetic import CLINICAL_TYPES, clinical_hospitals
from wardround.reports.tables import Table
from wardround.tasks.ner import encode
from wardround.text.tag_schemes import BIO
from wardround.text.tag_sets import TagSet
from wardround.training.batches import length_buckets

SIZES = {"full": (64, 20, 3), "quick": (64, 10, 2), "smallest": (8, 1, 1)}  # sentences per batch, batches, repeats
BAR = 2.0  # times the throughput of the peer
FLAIR, FEDNER = "Flair 0.15.1", "Wardround fedner"


def main() -> int:
    """Measure and report."""
    options = arguments(__doc__)
    batch_size, batches, repeats = SIZES[options.size]
    request = make_request(batch_size, batches)
    words = [sum(len(w) for w, _ in batch) for batch in request["batches"]]
    flair = options.peer_python("flair", "torch==2.13.0", "flair==0.15.1")
    runs: dict[str, list[float]] = {}
    for _ in range(repeats):
        if flair:
            answer = options.run("flair_tagger", request, python=flair)
            runs.setdefault(FLAIR, []).append(throughput(answer, words))
        for preset in ("fedner", "cnn-lstm-crf"):
            answer = options.run("our_tagger", request | {"preset": preset})
            runs.setdefault(f"Wardround {preset}", []).append(throughput(answer, words))
    rates = {name: median(values) for name, values in runs.items()}
    ratios = {name: rate / rates[FLAIR] if flair else None for name, rate in rates.items()}
    rows = tuple((name, round(rate), ratios[name] and round(ratios[name], 2)) for name, rate in rates.items())
    title = f"Training, batches of {batch_size}, {request['threads']} threads"
    table = Table(title, ("tagger", "words per second", "ratio"), rows)
    figures = [{"tagger": name, "words_a_second": rate, "ratio": ratios[name]} for name, rate in rates.items()]
    bars = [Bar("throughput of FedNER's network over Flair's", ratios[FEDNER], least=BAR)] if flair else []
    return finish("tagger", table, figures, bars, check=options.check)


def make_request(batch_size: int, batches: int) -> dict[str, Any]:
    """Return batches of similar sentence length from the built-in hospitals under their complete annotation."""
    documents = [document for hospital in clinical_hospitals(0) for document in hospital.complete.train]
    sentences = encode(documents, TagSet(CLINICAL_TYPES), BIO).sentences
    order = length_buckets([len(s.words) for s in sentences], batch_size, "benchmark")
    complete = [batch for batch in order if len(batch) == batch_size]
    chosen = [complete[number % len(complete)] for number in range(batches + 2)]
    return {
        "threads": torch.get_num_threads(),
        "types": list(CLINICAL_TYPES),
        "batches": [[(sentences[i].words, sentences[i].tags) for i in batch] for batch in chosen],
    }


def throughput(answer: dict[str, Any], words: list[int]) -> float:
    """Return words per second; the first two steps warm up and do not count."""
    return sum(words[2:]) / sum(answer["seconds"][2:])


if __name__ == "__main__":
    sys.exit(main())
