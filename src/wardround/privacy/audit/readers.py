"""What an attacker computes with a copy of the model: its tokens, and what enters the first shared layer.

An attacker has the shared half of the round, the study's seed, and so the private half as every site starts it. Each
kind of network has a reader. `reader_of` chooses one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from wardround.models.encoders import PieceTokenizer
from wardround.models.parameter_split import LayeredModel
from wardround.models.prompts import SelfAttention, self_attentions
from wardround.models.vocabulary import HashedWords
from wardround.models.word_tagger import WordTagger
from wardround.tasks.task import Example, Task
from wardround.training.randomness import seeded_from

__all__ = ["PieceReader", "TokenReader", "WordReader", "reader_of"]

Array = np.ndarray[Any, Any]

_AT_ONCE = 256  # tokens, whose inputs are computed together
_SPELLINGS = 100  # of a word, that are tried
# Parameters of a word tagger that multiply the representation of words, if their layer is the first above it.
_READ_INPUT = ("word_cnn.convolution.weight", ".0.weight_ih_l0", "dense.0.weight", "output.weight")


class TokenReader(Protocol):
    """The tokens of a model, and the vectors that enter its layers."""

    @property
    def unit(self) -> str:
        """Return what its tokens are called."""

    @property
    def table(self) -> str:
        """Return the parameter with one row for each token."""

    @property
    def positions(self) -> str:
        """Return the parameter with one row for each position; empty if there is none."""

    @property
    def first_position(self) -> int:
        """Return its row for the first token of a sentence."""

    @property
    def candidates(self) -> Array:
        """Return the tokens that an attacker considers."""

    @property
    def dropout(self) -> float:
        """Return the share of what enters the first layer that dropout takes in training."""

    def sentences(self, examples: Sequence[Example]) -> list[tuple[int, ...]]:
        """Return the tokens of training examples, one sequence for each sentence."""

    def words(self, sentence: Sequence[int]) -> tuple[int, ...]:
        """Return the tokens of a sequence that say something: those that are not in every sentence."""

    def rows(self, candidates: Array) -> Array:
        """Return the row of each candidate in a table of tokens."""

    def gradient_rows(self, update: Mapping[str, Array], layer: int) -> Array | None:
        """Return the rows of an update that lie in the span of what enters a layer; None if there are none."""

    def inputs(self, candidates: Array, positions: int) -> Iterator[tuple[Array, Tensor]]:
        """Yield candidates with what enters the first layer for them, [candidates, positions, width]."""


class _Reached(Exception):
    """The layer of interest was reached."""


@contextmanager
def _stopped_at(layer: nn.Module, found: list[Tensor]) -> Iterator[None]:
    """Append what enters a layer to `found`, and stop the computation there."""

    def stop(_layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        found.append(inputs[0].detach())
        raise _Reached

    hook = layer.register_forward_pre_hook(stop)
    try:
        yield
    except _Reached:
        pass
    finally:
        hook.remove()


class PieceReader:
    """The reader of a network of `transformers`: tokens are word pieces."""

    unit = "word pieces"

    def __init__(self, model: LayeredModel, task: Task) -> None:
        self._model, self._task = model, task
        path, network = next(
            (name, part) for name, part in model.named_modules() if hasattr(part, "get_input_embeddings")
        )
        self._network: Any = network
        pieces = getattr(model, "tokenizer", None)
        assert isinstance(pieces, PieceTokenizer), "chosen by `reader_of`"
        self._pieces, self._tokenizer = pieces, pieces.tokenizer
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        table = self._network.get_input_embeddings()
        self.table = names[id(table.weight)]
        self._padding = self._tokenizer.pad_token_id or 0
        self.positions = next((name for name in names.values() if "position_embeddings.weight" in name), "")
        owner = model.get_submodule(self.positions.rpartition(".")[0]) if self.positions else None
        skipped = getattr(owner, "padding_idx", None)  # RoBERTa counts positions from the row after this one
        self.first_position = 0 if skipped is None else skipped + 1
        self.dropout = float(getattr(self._network.config, "hidden_dropout_prob", 0.0))
        self._special = set(self._tokenizer.all_special_ids)
        self.candidates = np.array([number for number in range(len(self._tokenizer)) if number not in self._special])
        self._prefix = f"{path}." if path else ""
        self._attentions = self_attentions(self._network)

    @property
    def first_layer(self) -> str:
        """Return the path of the first encoder layer."""
        return f"{self._prefix}{self._attentions[0].path}".partition(".attention")[0]

    @property
    def prefix(self) -> list[int]:
        """Return the pieces with which every sentence begins."""
        return self._pieces.prefix

    @property
    def suffix(self) -> list[int]:
        """Return the pieces with which every sentence ends."""
        return self._pieces.suffix

    @torch.no_grad()
    def sentences(self, examples: Sequence[Example]) -> list[tuple[int, ...]]:
        """Return what the model looks up in the table of pieces for each example, without padding."""
        looked_up = list[Tensor]()
        for example in examples:
            if hasattr(example, "words"):
                looked_up.append(self._pieces.encode([example.words]).ids)
                continue
            with (
                seeded_from("leakage audit", self._model),
                _stopped_at(self._network.get_input_embeddings(), looked_up),
            ):
                self._task.batch_loss([example])
        return [tuple(piece for piece in row if piece != self._padding) for ids in looked_up for row in ids.tolist()]

    def words(self, sentence: Sequence[int]) -> tuple[int, ...]:
        """Return the pieces without special ones and markers."""
        return tuple(piece for piece in sentence if piece not in self._special and piece < len(self._tokenizer))

    def rows(self, candidates: Array) -> Array:
        """Return the candidates: each piece has a row."""
        return candidates

    def gradient_rows(self, update: Mapping[str, Array], layer: int) -> Array | None:
        """Return the rows of the projections of an attention layer, or of their LoRA layers, that are in the update."""
        if layer >= len(self._attentions):
            return None
        attention = self._attentions[layer]
        names = [f"{self._prefix}{attention.path}.{name}" for name in attention.names]
        whole = [update[f"{name}.weight"] for name in names if f"{name}.weight" in update]
        adapters = [update[key] for name in names for key in update if key.startswith(f"{name}.lora_A.")]
        found = [part for part in (whole or adapters) if part.any()]
        return np.concatenate(found) if found else None

    @torch.no_grad()
    def inputs(self, candidates: Array, positions: int) -> Iterator[tuple[Array, Tensor]]:
        """Yield what enters the first attention layer if a piece stands at each position, without dropout."""
        self._model.eval()
        for start in range(0, len(candidates), _AT_ONCE):
            chunk = candidates[start : start + _AT_ONCE]
            ids = torch.from_numpy(chunk)[:, None].expand(-1, positions).contiguous()
            yield chunk, self._entering(ids, 0)

    @torch.no_grad()
    def entering_second(self, sequences: Tensor) -> Tensor:
        """Return what enters the second attention layer, [sequences, pieces, width], for sequences of one length."""
        self._model.eval()
        return torch.cat([self._entering(part, 1) for part in torch.split(sequences, _AT_ONCE)])

    def _entering(self, ids: Tensor, layer: int) -> Tensor:
        found = list[Tensor]()
        with _stopped_at(_query(self._attentions[layer]), found):
            self._network.base_model(ids, attention_mask=torch.ones_like(ids))
        return found[0].reshape(*ids.shape, -1).float()


class WordReader:
    """The reader of a word tagger: tokens are the words of a dictionary, in lower case, as far as the model knows them.

    A model with hashed words counts all digits as the same; then the audit does so too.
    """

    unit = "words"
    table, positions, first_position = "words.weight", "", 0

    def __init__(self, model: WordTagger, dictionary: Sequence[str]) -> None:
        """Read words of the dictionary; a word that is not in it is never found."""
        self._model = model
        spelled: dict[str, list[str]] = {}
        for word in sorted(set(dictionary)):
            spelled.setdefault(self._token(word), []).append(word)
        # All numbers of so many digits are one token; some of them stand for all.
        self._spelled = {token: words[:_SPELLINGS] for token, words in spelled.items()}
        self._most = max(map(len, self._spelled.values()))
        self._numbers = {word: number for number, word in enumerate(spelled)}
        self.candidates = np.arange(len(spelled))
        self.dropout = float(model.input_dropout.p)
        self._rows = np.array([model.word_index(word) for word in spelled])

    def sentences(self, examples: Sequence[Example]) -> list[tuple[int, ...]]:
        """Return the words of each sentence."""
        return [tuple(self._numbers.get(self._token(word), -1) for word in example.words) for example in examples]

    def words(self, sentence: Sequence[int]) -> tuple[int, ...]:
        """Return all words."""
        return tuple(sentence)

    def rows(self, candidates: Array) -> Array:
        """Return the row of each word; several words can have the same."""
        return self._rows[candidates]

    def gradient_rows(self, update: Mapping[str, Array], layer: int) -> Array | None:
        """Return the rows of the first layer above the representation of words, if it is shared."""
        if layer:
            return None
        found = [
            # Of a convolution, [filters, width, kernel]: what each filter learned at each place of its kernel.
            np.moveaxis(part, 1, -1).reshape(-1, part.shape[1])
            for name, part in update.items()
            if name.startswith(f"{self._first_layer}.") and name.endswith(_READ_INPUT) and part.any()
        ]
        return np.concatenate(found) if found else None

    def _token(self, word: str) -> str:
        low = word.lower()
        if isinstance(self._model.word_index, HashedWords):
            low = "".join("0" if character.isdigit() else character for character in low)
        return low

    @property
    def _first_layer(self) -> str:
        return next(group for group in self._model.groups if group in ("word_cnn", "lstm", "dense", "output"))

    @torch.no_grad()
    def inputs(self, candidates: Array, positions: int) -> Iterator[tuple[Array, Tensor]]:
        """Yield the representation of each spelling of a word, in place of positions, which it does not depend on."""
        self._model.eval()
        words = list(self._spelled)
        for start in range(0, len(candidates), _AT_ONCE):
            chunk = candidates[start : start + _AT_ONCE]
            spellings = [self._spelled[words[number]] for number in chunk]
            rows, found = list[list[int]](), list[Tensor]()
            for first, each in zip(accumulate(map(len, spellings), initial=0), spellings, strict=False):
                rows.append([first + number % len(each) for number in range(self._most)])
            with _stopped_at(self._model.input_dropout, found):
                self._model.emissions(self._model.prepare([[spelling] for each in spellings for spelling in each]))
            yield chunk, found[0][:, 0].float()[torch.tensor(rows)]


def reader_of(model: LayeredModel, task: Task, dictionary: Sequence[str]) -> TokenReader | None:
    """Return the reader of a model; None if no attack of the audit knows its kind."""
    if isinstance(model, WordTagger):
        return WordReader(model, dictionary)
    if isinstance(getattr(model, "tokenizer", None), PieceTokenizer) and any(
        hasattr(part, "get_input_embeddings") for part in model.modules()
    ):
        return PieceReader(model, task)
    return None


def _query(attention: SelfAttention) -> nn.Module:
    found: nn.Module = getattr(attention.layer, attention.names[0])
    return found
