"""Training throughput of FedNER's network on CPU against Flair's sequence tagger: same batches, one run.

Both have words of 100, characters of 200, a BiLSTM of 2 x 200 and a CRF; FedNER's network has a word CNN on top, so
that it does more. `cnn-lstm-crf` is Flair's shape exactly. Peer and product take turns, each in its own process.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from typing import Any

import torch
from common import Bar, arguments, finish, peer_python, run_json

from wardround.corpora.synthetic import CLINICAL_TYPES, clinical_hospitals
from wardround.reports.tables import Table
from wardround.tasks.ner import encode
from wardround.text.tag_schemes import BIO
from wardround.text.tag_sets import TagSet
from wardround.training.batches import length_buckets

BAR = 2.0  # times the throughput of the peer
BATCH = 64
PEERS = Path(__file__).parent / "peers"


def main() -> int:
    """Measure and report."""
    asked = arguments(__doc__)
    request = make_request(batches=10 if asked.quick else 20)
    words = [sum(len(w) for w, _ in batch) for batch in request["batches"]]
    flair = peer_python("flair", "torch==2.13.0", "flair==0.15.1")
    runs: dict[str, list[float]] = {}
    for _ in range(2 if asked.quick else 3):
        runs.setdefault("Flair 0.15.1", []).append(rate(run_json(flair, PEERS / "flair_tagger.py", request), words))
        for preset in ("fedner", "cnn-lstm-crf"):
            answer = run_json(sys.executable, PEERS / "our_tagger.py", request | {"preset": preset})
            runs.setdefault(f"Wardround {preset}", []).append(rate(answer, words))
    rates = {name: median(values) for name, values in runs.items()}
    peer = rates["Flair 0.15.1"]
    rows = tuple((name, round(value), round(value / peer, 2)) for name, value in rates.items())
    table = Table(f"Training, batch {BATCH}, {request['threads']} threads", ("tagger", "words a second", "ratio"), rows)
    figures = [{"tagger": name, "words_a_second": value, "ratio": value / peer} for name, value in rates.items()]
    bars = [Bar("throughput of FedNER's network over Flair's", rates["Wardround fedner"] / peer, least=BAR)]
    return finish("tagger", table, figures, bars, check=asked.check)


def make_request(batches: int) -> dict[str, Any]:
    """The built-in hospitals' sentences under the complete annotation, in batches of like length."""
    documents = [document for hospital in clinical_hospitals(0) for document in hospital.complete.train]
    sentences = encode(documents, TagSet(CLINICAL_TYPES), BIO).sentences
    order = length_buckets([len(s.words) for s in sentences], BATCH, "benchmark")
    whole = [batch for batch in order if len(batch) == BATCH]
    chosen = [whole[number % len(whole)] for number in range(batches + 2)]
    return {
        "threads": torch.get_num_threads(),
        "types": list(CLINICAL_TYPES),
        "batches": [[(sentences[i].words, sentences[i].tags) for i in batch] for batch in chosen],
    }


def rate(answer: dict[str, Any], words: list[int]) -> float:
    """Words a second, the first two steps left out as warm-up."""
    return sum(words[2:]) / sum(answer["seconds"][2:])


if __name__ == "__main__":
    sys.exit(main())
