"""The composable tagger over words: embeddings, characters, context, CNN, BiLSTM, dense layer, CRF or softmax.

FedNER's network, every baseline of its Table 2 and the network of the transfer paper are configurations of it
(`models.presets`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from wardround.errors import ModelError
from wardround.models.blocks import BiLstm, CharacterCnn, CharacterLstm, WordCnn
from wardround.models.contextual import ContextualEmbedding
from wardround.models.decoders import Decoder, IndependentWords, LinearChainCrf
from wardround.models.parameter_split import ParameterSplit
from wardround.models.ranges import check_choice, check_share, check_size
from wardround.models.tagging_model import Inputs, TaggingModel
from wardround.models.vocabulary import PADDING, HashedWords, ListedWords, WordIndex, spelling
from wardround.models.word_vectors import WordVectors
from wardround.text.tag_sets import TagSet

__all__ = ["GROUPS", "WordTagger", "WordTaggerConfig"]

_ROWS, _COLUMNS = 64, 4  # what a table of spellings is rounded up to
GROUPS = ("words", "characters", "contextual", "word_cnn", "lstm", "dense", "output", "crf")  # bottom to top


@dataclass(frozen=True)
class WordTaggerConfig:
    """The sizes of a tagger; 0 or an empty name leaves a layer out."""

    word_dimension: int = 100  # D_w; FedNER has 300
    word_buckets: int = 16_384  # rows of a learned embedding; pretrained vectors bring their own list
    train_words: bool = True
    character_layer: str = "cnn"  # cnn | lstm | none
    character_dimension: int = 100  # D_c
    character_width: int = 200  # filters of the CNN, or hidden states a direction of the LSTM
    contextual: str = ""  # an encoder: Hugging Face id, folder or "minilm"
    word_cnn: int = 200  # filters
    kernel: int = 3
    lstm: int = 200  # hidden states a direction
    lstm_layers: int = 1
    dense: int = 0
    decoder: str = "crf"  # crf | softmax
    input_dropout: float = 0.2  # on a word's whole representation
    dropout: float = 0.2  # above each further layer
    scheme: str = "BIO"
    shared: tuple[str, ...] = ("words", "characters", "contextual", "word_cnn")

    def __post_init__(self) -> None:
        check_choice("character_layer", self.character_layer, ("cnn", "lstm", "none"))
        check_choice("decoder", self.decoder, ("crf", "softmax"))
        for name in ("word_dimension", "word_buckets", "character_dimension", "character_width", "kernel"):
            check_size(name, getattr(self, name), least=1)
        for name in ("word_cnn", "lstm", "dense"):
            check_size(name, getattr(self, name), least=0)
        check_size("lstm_layers", self.lstm_layers, least=1)
        check_share("input_dropout", self.input_dropout)
        check_share("dropout", self.dropout)
        if self.kernel % 2 == 0:
            raise ModelError(f"kernel is {self.kernel}; it must be odd, to reach as far left as right")
        unknown = set(self.shared) - set(GROUPS)
        if unknown:
            raise ModelError(f"no layer group is called {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")


class WordTagger(TaggingModel):
    """A tagger built as its configuration says; every layer group is an attribute of its own name."""

    def __init__(
        self,
        config: WordTaggerConfig,
        tag_set: TagSet,
        vectors: WordVectors | None = None,
        *,
        offline: bool = False,
    ) -> None:
        """Build as `config` says; `offline` looks for a contextual encoder on this machine only."""
        super().__init__(tag_set, config.scheme)
        if vectors is not None:
            config = replace(config, word_dimension=vectors.vectors.shape[1])
        self.config = config
        self.word_index: WordIndex = ListedWords(vectors.words) if vectors else HashedWords(config.word_buckets)
        self.words = _word_embedding(self.word_index.size, config, vectors)
        width = config.word_dimension
        if config.character_layer != "none":
            self.characters = _character_layer(config)
            width += self.characters.width
        if config.contextual:
            self.contextual = ContextualEmbedding(config.contextual, offline=offline)
            width += self.contextual.width
        self._represented = width
        width = self._build_context(width)
        self.output = nn.Linear(width, len(self.tags))
        if config.decoder == "crf":
            self.crf = LinearChainCrf(self.tags, self.scheme)
        else:
            self.independent = IndependentWords(self.tags, self.scheme)
        self.input_dropout, self.dropout = nn.Dropout(config.input_dropout), nn.Dropout(config.dropout)
        present = [group for group in config.shared if group in self.groups]
        self.split = ParameterSplit.sharing(present, self.groups)

    def _build_context(self, width: int) -> int:
        config = self.config
        if config.word_cnn:
            self.word_cnn = WordCnn(width, filters=config.word_cnn, kernel=config.kernel)
            width = self.word_cnn.width
        if config.lstm:
            self.lstm = BiLstm(width, hidden=config.lstm, layers=config.lstm_layers, dropout=config.dropout)
            width = self.lstm.width
        if config.dense:
            self.dense = nn.Sequential(nn.Linear(width, config.dense), nn.Tanh())
            width = config.dense
        return width

    @property
    def groups(self) -> tuple[str, ...]:
        """The layer groups this configuration has."""
        return (*(group for group in GROUPS if hasattr(self, group)), *self.aside)

    def settings(self) -> dict[str, Any]:
        """The configuration as plain values."""
        return asdict(self.config)

    @property
    def decoder(self) -> Decoder:
        """The CRF, or words on their own."""
        return self.crf if self.config.decoder == "crf" else self.independent

    def prepare(self, sentences: Sequence[Sequence[str]]) -> Inputs:
        """Word rows, the spelling of each distinct word once, and pieces where an encoder looks on."""
        lengths = torch.tensor([len(sentence) for sentence in sentences])
        mask = torch.arange(int(lengths.max()))[None] < lengths[:, None]
        distinct = {word: row for row, word in enumerate(dict.fromkeys(w for s in sentences for w in s))}
        rows = np.fromiter((self.word_index(word) for word in distinct), dtype=np.int64, count=len(distinct))
        spelled = pad_sequence([torch.tensor([distinct[w] for w in s]) for s in sentences], batch_first=True)
        return Inputs(
            mask=mask,
            words=torch.from_numpy(rows)[spelled].masked_fill(~mask, PADDING),
            spellings=_spellings(list(distinct)) if hasattr(self, "characters") else None,
            spelled=spelled,
            pieces=self.contextual.tokenizer.encode(sentences) if hasattr(self, "contextual") else None,
        )

    def emissions(self, inputs: Inputs) -> Tensor:
        """Bottom to top through whichever layers there are."""
        states = self._represent(inputs)
        if self.probe is not None:
            states = states + self.probe[:, None]
        states = self._seen(self.input_dropout(states), inputs)
        if hasattr(self, "word_cnn"):
            states = self._seen(self.dropout(self.word_cnn(states, inputs.mask)), inputs)
        if hasattr(self, "lstm"):
            states = self._seen(self.dropout(self.lstm(states, inputs.mask)), inputs)
        if hasattr(self, "dense"):
            states = self.dense(states)
        scores: Tensor = self.output(states)
        return scores

    @property
    def probe_shape(self) -> tuple[int, ...]:
        """As wide as a word's whole representation."""
        return (self._represented,)

    @property
    def watched_widths(self) -> tuple[int, ...]:
        """A word's whole representation, then the word CNN and the LSTM where they are there."""
        above = [getattr(self, layer).width for layer in ("word_cnn", "lstm") if hasattr(self, layer)]
        return (self._represented, *above)

    def _seen(self, states: Tensor, inputs: Inputs) -> Tensor:
        """The same states, after whoever looks on has seen them."""
        if self.watched is not None:
            self.watched.add(states, inputs.mask)
        return states

    def _represent(self, inputs: Inputs) -> Tensor:
        """e_i = [word; characters; language model] (FedNER, Section 3.1)."""
        parts = [self.words(inputs.words)]
        if hasattr(self, "characters"):
            parts.append(self.characters(inputs.spellings)[inputs.spelled])
        if hasattr(self, "contextual"):
            assert inputs.pieces is not None, "prepare() of this model always makes pieces"
            parts.append(self.contextual(inputs.pieces))
        return torch.cat(parts, dim=2)


def _word_embedding(size: int, config: WordTaggerConfig, vectors: WordVectors | None) -> nn.Embedding:
    embedding = nn.Embedding(size, config.word_dimension, padding_idx=PADDING)
    with torch.no_grad():
        # Small, so that a word never seen in training adds little to what its characters say.
        embedding.weight.uniform_(-0.05, 0.05)[PADDING] = 0.0
        if vectors is not None:
            embedding.weight[size - len(vectors.words) :] = torch.from_numpy(vectors.vectors)
    embedding.weight.requires_grad_(config.train_words)
    return embedding


def _character_layer(config: WordTaggerConfig) -> CharacterCnn | CharacterLstm:
    if config.character_layer == "cnn":
        return CharacterCnn(dimension=config.character_dimension, filters=config.character_width, kernel=config.kernel)
    return CharacterLstm(dimension=config.character_dimension, hidden=config.character_width)


def _spellings(words: Sequence[str]) -> Tensor:
    spelled = [spelling(word) for word in words]
    # Rounded up, so that few shapes occur: a CPU keeps a compiled kernel for each it has seen.
    rows, width = _rounded_up(len(words), _ROWS), _rounded_up(max(map(len, spelled)), _COLUMNS)
    table = np.full((rows, width), PADDING, dtype=np.int64)
    for row, characters in enumerate(spelled):
        table[row, : len(characters)] = characters
    return torch.from_numpy(table)


def _rounded_up(size: int, step: int) -> int:
    return -(-size // step) * step
