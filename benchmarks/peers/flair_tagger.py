"""Training steps of Flair's sequence tagger; runs in Flair's own environment."""

from __future__ import annotations

import time
from typing import Any

import torch
from flair.data import Dictionary, Sentence
from flair.embeddings import CharacterEmbeddings, OneHotEmbeddings, StackedEmbeddings
from flair.models import SequenceTagger
from json_script import answer


def measure(request: dict[str, Any]) -> dict[str, Any]:
    """Return the seconds of each training step."""
    torch.set_num_threads(request["threads"])
    torch.manual_seed(0)
    batches = [[to_sentence(*pair) for pair in batch] for batch in request["batches"]]
    tagger = make_tagger(request)
    optimizer = torch.optim.Adam(tagger.parameters(), lr=1e-3)
    tagger.train()
    seconds = []
    for batch in batches:
        started = time.perf_counter()
        optimizer.zero_grad()
        loss, _ = tagger.forward_loss(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(tagger.parameters(), 5.0)
        optimizer.step()
        seconds.append(time.perf_counter() - started)
        for sentence in batch:
            sentence.clear_embeddings()
    return {"seconds": seconds}


def to_sentence(words: list[str], tags: list[str]) -> Sentence:
    """Return a Flair sentence with its mentions."""
    sentence = Sentence(words)
    start = None
    for position, tag in enumerate([*tags, "O"]):
        if start is not None and not tag.startswith("I-"):
            sentence[start:position].add_label("ner", tags[start][2:])
            start = None
        if tag.startswith("B-"):
            start = position
    return sentence


def make_tagger(request: dict[str, Any]) -> SequenceTagger:
    """Return a tagger as wide as ours: words 100, characters 200, BiLSTM 2 x 200, CRF."""
    vocabulary = Dictionary()
    for word in sorted({word for batch in request["batches"] for words, _ in batch for word in words}):
        vocabulary.add_item(word)
    labels = Dictionary(add_unk=False)
    labels.span_labels = True
    for kind in request["types"]:
        labels.add_item(kind)
    spelled = Dictionary()  # Flair would download its own list
    for character in sorted({c for batch in request["batches"] for words, _ in batch for word in words for c in word}):
        spelled.add_item(character)
    characters = CharacterEmbeddings(path_to_char_dict=spelled, char_embedding_dim=100, hidden_size_char=100)
    return SequenceTagger(
        embeddings=StackedEmbeddings([OneHotEmbeddings(vocabulary, embedding_length=100), characters]),
        tag_dictionary=labels,
        tag_type="ner",
        tag_format="BIO",
        hidden_size=200,
        rnn_layers=1,
        use_crf=True,
        reproject_embeddings=False,
        dropout=0.2,
        word_dropout=0.0,
        locked_dropout=0.0,
    )


if __name__ == "__main__":
    answer(measure)
