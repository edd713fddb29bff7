"""Pretrained word vectors: GloVe or word2vec text, or a numpy archive with `words` and `vectors`."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from wardround.errors import ModelError

__all__ = ["WordVectors", "load_word_vectors"]


@dataclass(frozen=True)
class WordVectors:
    """A public list of words with a vector each."""

    words: tuple[str, ...]
    vectors: npt.NDArray[np.float32]  # [words, dimension]


def load_word_vectors(path: Path) -> WordVectors:
    """Read `.npz`, or text with a word and its numbers a line (`.gz` allowed)."""
    if not path.is_file():
        raise ModelError(f"there is no word-vector file {path.name!r}")
    loaded = _from_archive(path) if path.suffix == ".npz" else _from_text(path)
    if not np.isfinite(loaded.vectors).all():
        raise ModelError(f"{path.name}: a vector holds a value that is no number")
    return loaded


def _from_archive(path: Path) -> WordVectors:
    try:
        with np.load(path, allow_pickle=False) as archive:
            words, vectors = archive["words"], archive["vectors"].astype(np.float32)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"{path.name}: is no numpy archive with plain arrays 'words' and 'vectors'") from error
    if vectors.ndim != 2 or len(words) != len(vectors):
        raise ModelError(f"{path.name}: {len(words)} words do not fit vectors of shape {vectors.shape}")
    return WordVectors(tuple(str(word) for word in words), vectors)


def _from_text(path: Path) -> WordVectors:
    words: list[str] = []
    rows: list[npt.NDArray[np.float32]] = []
    for number, (word, row) in enumerate(_text_rows(path), start=1):
        if rows and len(row) != len(rows[0]):
            raise ModelError(f"{path.name}:{number}: {len(row)} numbers where the first line has {len(rows[0])}")
        words.append(word)
        rows.append(row)
    if not rows:
        raise ModelError(f"{path.name}: holds no vectors")
    return WordVectors(tuple(words), np.stack(rows))


def _text_rows(path: Path) -> Iterator[tuple[str, npt.NDArray[np.float32]]]:
    raw = gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")
    with raw, io.TextIOWrapper(raw, encoding="utf-8") as stream:
        try:
            for number, line in enumerate(stream, start=1):
                word, _, numbers = line.rstrip().partition(" ")
                if number == 1 and numbers.isdigit():
                    continue  # word2vec's first line: how many words, how many numbers
                yield word, np.array(numbers.split(" "), dtype=np.float32)
        except (UnicodeDecodeError, ValueError, EOFError, OSError) as error:
            raise ModelError(f"{path.name}: is no word-vector text") from error
