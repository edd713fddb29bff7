"""Pretrained word vectors: GloVe or word2vec text, or a numpy archive with `words` and `vectors`."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from wardround.errors import ModelError

__all__ = ["WordVectors", "load_word_vectors"]

_DAMAGED = (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True)
class WordVectors:
    """A public list of words with one vector for each."""

    words: tuple[str, ...]
    vectors: npt.NDArray[np.float32]  # [words, dimension]


def load_word_vectors(path: Path) -> WordVectors:
    """Read `.npz`, or text with one word and its numbers per line (`.gz` allowed)."""
    if not path.is_file():
        raise ModelError(f"there is no word-vector file {path.name!r}")
    loaded = _from_archive(path) if path.suffix == ".npz" else _from_text(path)
    if not np.isfinite(loaded.vectors).all():
        raise ModelError(f"{path.name}: a vector contains a value that is not finite")
    return loaded


def _from_archive(path: Path) -> WordVectors:
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            words, vectors = archive["words"], archive["vectors"].astype(np.float32)
    except (*_DAMAGED, KeyError, AttributeError, TypeError) as error:
        raise ModelError(f"{path.name} is not a numpy archive with plain arrays 'words' and 'vectors'") from error
    if vectors.ndim != 2 or words.shape != vectors.shape[:1]:
        raise ModelError(f"{path.name}: words of shape {words.shape} do not fit vectors of shape {vectors.shape}")
    return WordVectors(tuple(str(word) for word in words), vectors)


def _from_text(path: Path) -> WordVectors:
    words: list[str] = []
    rows: list[npt.NDArray[np.float32]] = []
    raw = gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")
    with raw, io.TextIOWrapper(raw, encoding="utf-8") as stream:
        try:
            for number, line in enumerate(stream, start=1):
                word, _, numbers = line.rstrip().partition(" ")
                if number == 1 and word.isdigit() and numbers.isdigit():
                    continue  # the first line of word2vec: the numbers of words and of dimensions
                row = np.array(numbers.split(" "), dtype=np.float32)
                if rows and len(row) != len(rows[0]):
                    raise ModelError(
                        f"{path.name}:{number}: {len(row)} numbers where the first line has {len(rows[0])}"
                    )
                words.append(word)
                rows.append(row)
        except _DAMAGED as error:
            raise ModelError(f"{path.name} is not a text file of word vectors") from error
    if not rows:
        raise ModelError(f"{path.name} contains no vectors")
    return WordVectors(tuple(words), np.stack(rows))
