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
from wardround.text.document import Document

NOTES = notes(38)
TRAIN, DEV, TEST = NOTES[:30], NOTES[30:34], NOTES[34:]

# A network without an LSTM, which learns these notes by heart in three epochs of less than a second.
TINY = (
    *("--model-option", "lstm=0", "--model-option", "word_cnn=16", "--model-option", "word-buckets=64"),
    *("--model-option", "word_dimension=16", "--model-option", "character_dimension=8"),
    *("--model-option", "character_width=16", "--model-option", "input_dropout=0.1", "--model-option", "dropout=0.1"),
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
