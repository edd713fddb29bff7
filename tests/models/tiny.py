"""Networks small enough to train in a test, and notes they can learn by heart."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, BertConfig, BertForTokenClassification

from wardround.models.encoders import MINILM, encoder_source
from wardround.models.presets import WordTaggerConfig
from wardround.models.tagging_model import TaggingModel
from wardround.models.word_tagger import WordTagger
from wardround.models.word_vectors import WordVectors
from wardround.text.document import Document, Entity, Range
from wardround.text.tag_sets import TagSet

torch.set_num_threads(1)  # tensors this small are slower on two

TYPES = TagSet(("ADE", "Drug"))
TINY = WordTaggerConfig(
    word_dimension=16,
    word_buckets=64,
    character_dimension=8,
    character_width=16,
    word_cnn=16,
    lstm=16,
    input_dropout=0.1,
    dropout=0.1,
)
TINY_ENCODER = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
SENTENCES = (
    ("Took", "aspirin", "daily", "."),
    ("Rash", "after", "10", "mg", "penicillin", "since", "Monday", "."),
    ("Nausea",),
    ("No", "rash", "now", "."),
)
_DRUGS = ("aspirin", "penicillin", "metformin")
_EFFECTS = ("rash", "nausea", "joint pain")


def word_tagger(*, seed: int = 0, vectors: WordVectors | None = None, **changes: Any) -> WordTagger:
    """A tiny tagger with the named fields of its configuration changed."""
    torch.manual_seed(seed)
    return WordTagger(replace(TINY, **changes), TYPES, vectors)


def quick_tagger(*, seed: int = 0, **changes: Any) -> WordTagger:
    """A tagger that learns `notes` in two or three epochs: without an LSTM, which would take ten."""
    return word_tagger(seed=seed, lstm=0, **changes)


def notes(count: int, *, seed: int = 0) -> tuple[Document, ...]:
    """Notes of one or two sentences that name a drug and what it did."""
    return tuple(_note(number, random.Random(f"{seed}/{number}")) for number in range(count))


def write_encoder(folder: Path, *, seed: int = 0, labels: int = 2) -> Path:
    """A BERT of two tiny layers with MiniLM's tokenizer, as a Hugging Face folder without a pooler."""
    torch.manual_seed(seed)
    source = encoder_source(MINILM)
    tokenizer = AutoTokenizer.from_pretrained(source)
    sizes: dict[str, Any] = TINY_ENCODER | {"vocab_size": len(tokenizer), "num_labels": labels}
    BertForTokenClassification(BertConfig(**sizes, max_position_embeddings=64)).save_pretrained(folder)  # type: ignore[no-untyped-call]
    tokenizer.save_pretrained(folder)
    return folder


def same_weights(left: TaggingModel, right: TaggingModel) -> bool:
    """Whether all weights are equal bit for bit."""
    mine, theirs = left.state_dict(), right.state_dict()
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)


def _note(number: int, chance: random.Random) -> Document:
    drug, effect = chance.choice(_DRUGS), chance.choice(_EFFECTS)
    text = f"Note {number}. The patient took {drug} {chance.randint(1, 90)}mg. It gave her {effect}."
    entities: list[Entity] = []
    for kind, mention in (("Drug", drug), ("ADE", effect)):
        start = text.index(mention)
        entities.append(Entity(f"T{len(entities) + 1}", kind, (Range(start, start + len(mention)),)))
    return Document(f"n{number}", text, tuple(entities))
