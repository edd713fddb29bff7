"""Studies of FedED among three sites with encoders of a few hundred weights, and notes whose relations they learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import tomli_w
import torch
from transformers import BertConfig, BertForTokenClassification, BertTokenizer

from wardround.corpora.jsonl import Jsonl
from wardround.federation.coordinator import Coordinator
from wardround.models.encoders import quiet_transformers
from wardround.studies.assemble import common_model, coordinator_of, task_on
from wardround.studies.study_file import Study, parse_study
from wardround.studies.study_notes import public_set
from wardround.tasks.task import Task
from wardround.text.document import Document, Entity, Range, Relation

SITES = ("east", "west", "north")
SIZES = {"east": 12, "west": 6, "north": 4}  # training notes
PUBLIC_NOTES = 8
WORDS = ("@", "$", ".", "drug", "effect", "note", "she", "took", "and", "then", "had", "without", "any", "day")
# Other pieces, in another order, and a vocabulary of another size.
OTHER_WORDS = (".", "without", "effect", "drug", "##s", "$", "@", "no", "he", "she", "had", "took", "t", "##h", "##e")
_DRUGS, _EFFECTS = ("aspirin", "penicillin", "metformin"), ("rash", "nausea", "pain")


def write_small_encoder(
    folder: Path,
    *,
    words: Sequence[str] = WORDS,
    hidden: int = 8,
    layers: int = 1,
    positions: int = 64,
    dropout: float = 0.1,
    seed: int = 0,
) -> Path:
    """A BERT with a tokenizer of its own, as a Hugging Face folder."""
    torch.manual_seed(seed)
    vocabulary = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=hidden,
        num_hidden_layers=layers,
        intermediate_size=2 * hidden,
        num_attention_heads=2,
        max_position_embeddings=positions,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    with quiet_transformers():
        BertForTokenClassification(config).save_pretrained(folder)  # type: ignore[no-untyped-call]
        BertTokenizer(vocab={word: number for number, word in enumerate(vocabulary)}).save_pretrained(folder)
    return folder


def related(count: int, *, seed: int = 0, related: bool | None = None, between: str = "") -> tuple[Document, ...]:
    """Notes in which a drug was, or was not, followed by an effect; half of them of either kind unless told.

    `between` is put between the two mentions.
    """
    return tuple(
        note(
            f"n{number}",
            Random(f"{seed}/{number}"),
            related=(number % 2 == 0) if related is None else related,
            between=between,
        )
        for number in range(count)
    )


def note(name: str, chance: Random, *, related: bool, between: str = "") -> Document:
    """One of them."""
    drug, effect = chance.choice(_DRUGS), chance.choice(_EFFECTS)
    joint = f" and {between}then had " if related else f" {between}without any "
    text = f"She took {drug}{joint}{effect} day {chance.randint(1, 9)}."
    start = text.index(effect, len("She took ") + len(drug))
    entities = (
        Entity("T1", "Drug", (Range(9, 9 + len(drug)),)),
        Entity("T2", "Effect", (Range(start, start + len(effect)),)),
    )
    return Document(name, text, entities, (Relation("R1", "ADE", "T1", "T2"),) if related else ())


def write_notes(folder: Path) -> None:
    """The notes of the three sites and the public set, and an encoder."""
    for number, (name, size) in enumerate(SIZES.items()):
        for part, count in (("train", size), ("dev", 4), ("test", 6)):
            Jsonl().write(related(count, seed=10 * number + count), folder / name / f"{part}.jsonl")
    Jsonl().write(related(PUBLIC_NOTES, seed=99), folder / "public.jsonl")
    write_small_encoder(folder / "encoder")
    write_small_encoder(folder / "steady", dropout=0.0)


def table_of(folder: Path, **sections: Mapping[str, Any] | None) -> dict[str, Any]:
    """The study of notes in a folder with settings of sections added or replaced; None takes one away."""
    table: dict[str, Any] = {
        "study": {"name": "distilled", "seed": 7},
        "task": {"kind": "relations", "relations": {"ADE": [["Drug", "Effect"]]}},
        "public": {"data": str(folder / "public.jsonl"), "format": "jsonl"},
        "model": {"encoder": str(folder / "encoder")},
        "algorithm": {"name": "feded", "rounds": 3},
        "training": {"batch_size": 4, "learning_rate": 0.02, "schedule": "constant"},
        "evaluation": {"every": 1},
        "federation": {"checkpoint_every": 2},
        "sites": {name: {"data": str(folder / name), "format": "jsonl"} for name in SITES},
    }
    return _merged(table, sections)


def distilled(folder: Path, **sections: Mapping[str, Any] | None) -> Study:
    """The study of that table."""
    return parse_study(tomli_w.dumps(table_of(folder, **sections)))


def server_of(study: Study) -> tuple[Coordinator, Task]:
    """The coordinator before round 1, and the task with its model."""
    task = task_on(study, common_model(study))
    return coordinator_of(study, task, public_set(study, task)), task


def _merged(left: Mapping[str, Any], right: Mapping[str, Any | None]) -> dict[str, Any]:
    merged = dict(left)
    for key, value in right.items():
        old = merged.get(key)
        merged[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return {key: value for key, value in merged.items() if value is not None}
