"""Tiny studies to attack: encoders of two layers, wide enough that a few sentences do not fill the space."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tomli_w
import torch
from tests.models.tiny import notes
from transformers import AutoTokenizer, BertConfig, BertForTokenClassification

from wardround.models.encoders import MINILM, encoder_source
from wardround.studies.study_file import Study, parse_study
from wardround.text.document import Document

NOTES: tuple[Document, ...] = notes(90, seed=4)
LAYERS = ["layer_0", "layer_1"]
NAMES = ("east", "west", "north")


def write_wide_encoder(folder: Path, *, dropout: float = 0.0) -> Path:
    """A BERT of two layers of width 64 with MiniLM's tokenizer."""
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(encoder_source(MINILM))
    sizes: dict[str, Any] = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    configuration = BertConfig(
        **sizes, **rates, intermediate_size=512, vocab_size=len(tokenizer), max_position_embeddings=64, num_labels=2
    )
    BertForTokenClassification(configuration).save_pretrained(folder)  # type: ignore[no-untyped-call]
    tokenizer.save_pretrained(folder)
    return folder


def study_of(mechanism: str, *, sentences: int = 2, sites: int = 3, **sections: dict[str, Any]) -> Study:
    """FedNER among three sites, each with so many sentences behind an update."""
    table: dict[str, Any] = {
        "study": {"name": "attacked", "seed": 3},
        "model": {},
        "algorithm": {"name": "fedner", "rounds": 1},  # without a further round there is no built layer
        "training": {"batch_size": sentences * sites, "learning_rate": 0.001},
        "privacy": {"mechanism": mechanism, "minimum_sites": sites, "smallest_batch": sentences},
        "sites": {name: {"types": ["Drug", "ADE"]} for name in NAMES[:sites]},
    }
    for name, section in sections.items():
        table[name] = {**table.get(name, {}), **section}
    return parse_study(tomli_w.dumps(table))


def of_encoder(encoder: Path, mechanism: str, *, shared: list[str], **settings: Any) -> Study:
    """The same with an encoder."""
    model = {"encoder": str(encoder), "shared": shared, "dropout": 0.0, **settings.pop("model", {})}
    return study_of(mechanism, model=model, **settings)
