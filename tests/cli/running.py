"""`wardround` as a person calls it, and a tiny site for it to work on."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.models.tiny import notes
from wardround.cli.main import main
from wardround.corpora.brat import Brat
from wardround.text.document import Document, Entity, Range, Relation

NOTES = notes(38)
TRAIN, DEV, TEST = NOTES[:30], NOTES[30:34], NOTES[34:]
# Of two symptoms in each note the drug did one; a mention alone tells which.
_CAUSED, _OTHER = ("rash", "joint pain", "nausea"), ("fever", "chills")

# A network without an LSTM, which learns these notes by heart in three epochs of less than a second.
TINY = (
    *("--model-option", "lstm=0", "--model-option", "word_cnn=16", "--model-option", "word-buckets=64"),
    *("--model-option", "word_dimension=16", "--model-option", "character_dimension=8"),
    *("--model-option", "character_width=16", "--model-option", "input_dropout=0.1", "--model-option", "dropout=0.1"),
)
# An encoder of two tiny layers learns such notes, unblinded, in three epochs of a tenth of a second.
TINY_PAIRS = ("--model-option", "blinding=false", "--model-option", "dropout=0")
QUICK_PAIRS = (
    *("--training-option", "epochs=4", "--training-option", "batch_size=4", "--training-option", "learning_rate=0.01"),
    *("--training-option", "output_learning_rate=0.02", "--device", "cpu"),
)
QUICK = (
    *("--training-option", "epochs=3", "--training-option", "batch_size=4"),
    *("--training-option", "learning_rate=0.02", "--device", "cpu"),
)


@dataclass(frozen=True)
class Ran:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """All of it, in which a person would look for a note."""
        return self.out + self.err

    @property
    def err_in_one_line(self) -> str:
        """What was said of a mistake, without the box around it and the line breaks a long path brings."""
        return " ".join(re.sub(r"[│╭╮╰╯─]", " ", self.err).split())

    def row(self, name: str) -> list[str]:
        """The cells of the first table row that begins so."""
        row = next(line for line in self.out.splitlines() if line.startswith(f"│ {name} "))
        return [cell.strip() for cell in row.strip("│").split("│")][1:]


Run: TypeAlias = Callable[..., Ran]


def exit_code(*words: str | Path) -> int:
    """Call the command; 0 is success."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


def write_site(folder: Path, **parts: Sequence[Document]) -> Path:
    """A corpus in brat, a folder a part."""
    for name, documents in parts.items():
        Brat().write(documents, folder / name)
    return folder


def train(data: Path, out: Path, *more: str) -> tuple[str | Path, ...]:
    """The words of a training that takes seconds."""
    return ("train", data, "--format", "brat", "--out", out, *TINY, *QUICK, *more)


def related_notes(count: int, *, first: int = 0) -> tuple[Document, ...]:
    """Notes that name a drug, something it did and something else."""
    return tuple(_related(number) for number in range(first, first + count))


def _related(number: int) -> Document:
    caused, other = _CAUSED[number % 3], _OTHER[number % 2]
    named = (caused, other) if number % 4 < 2 else (other, caused)
    text = f"Note {number}. The aspirin came with {named[0]} and {named[1]}."
    mentions = (("Drug", "aspirin"), *(("Symptom", symptom) for symptom in named))
    entities = tuple(
        Entity(f"T{place}", kind, (Range(text.index(mention), text.index(mention) + len(mention)),))
        for place, (kind, mention) in enumerate(mentions, start=1)
    )
    relation = Relation("R1", "causes", "T1", f"T{2 + named.index(caused)}")
    return Document(f"n{number}", text, entities, (relation,))


def train_relations(data: Path, out: Path, encoder: Path, *more: str) -> tuple[str | Path, ...]:
    """The words of a training of relations that takes seconds."""
    words = ("train", data, "--format", "brat", "--out", out, "--task", "relations", "--encoder", encoder)
    return (*words, *TINY_PAIRS, *QUICK_PAIRS, *more)
