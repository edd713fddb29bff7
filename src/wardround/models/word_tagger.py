"""A composable tagger over words: embeddings, characters, context, CNN, BiLSTM, dense layer, CRF or softmax.

FedNER's network, every baseline of its Table 2 and the network of the transfer paper are configurations of it; the
module `presets` has them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from wardround.errors import ModelError
from wardround.models.arrays import word_arrays
from wardround.models.blocks import BiLstm, CharacterCnn, CharacterLstm, WordCnn
from wardround.models.contextual import ContextualEmbedding
from wardround.models.decoders import Decoder, IndependentWords, LinearChainCrf
from wardround.models.families import Labels, LayerWeights, ModelChoice, ModelFamily
from wardround.models.model_files import WEIGHTS, fill, load_tensors, read_configuration, save_tensors, tag_set_of
from wardround.models.parameter_split import ParameterSplit
from wardround.models.presets import GROUPS, WordTaggerConfig, preset
from wardround.models.probes import Probes
from wardround.models.tagging_model import Inputs, TaggingModel
from wardround.models.vocabulary import PADDING, RESERVED, HashedWords, ListedWords, WordIndex
from wardround.models.word_vectors import WordVectors, load_word_vectors
from wardround.parsing import read_json
from wardround.settings import with_settings
from wardround.text.tag_sets import TagSet

__all__ = ["FAMILY", "WordTagger"]

_WORDS = "words.json"  # the words of pretrained vectors, in a saved model


class WordTagger(TaggingModel):
    """A tagger over words; every layer group is an attribute of the same name."""

    kind = "word-tagger"

    def __init__(
        self,
        config: WordTaggerConfig,
        tag_set: TagSet,
        vectors: WordVectors | None = None,
        *,
        offline: bool = False,
    ) -> None:
        """Build the layers of `config`; with `offline`, look for a contextual encoder on this machine only."""
        super().__init__(tag_set, config.scheme)
        if vectors is not None:
            config = replace(config, word_dimension=vectors.vectors.shape[1])
        self.config = config
        self.word_index: WordIndex = ListedWords(vectors.words) if vectors else HashedWords(config.word_buckets)
        self.words = _word_embedding(self.word_index.size, config, vectors)
        width = config.word_dimension
        if config.character_layer != "none":
            dimension, filters = config.character_dimension, config.character_width
            self.characters: CharacterCnn | CharacterLstm = (
                CharacterCnn(dimension=dimension, filters=filters, kernel=config.kernel)
                if config.character_layer == "cnn"
                else CharacterLstm(dimension=dimension, hidden=filters)
            )
            width += self.characters.width
        if config.contextual:
            self.contextual = ContextualEmbedding(config.contextual, offline=offline)
            width += self.contextual.width
        widths = [width]
        if config.word_cnn:
            self.word_cnn = WordCnn(width, filters=config.word_cnn, kernel=config.kernel)
            width = self.word_cnn.width
            widths.append(width)
        if config.lstm:
            self.lstm = BiLstm(width, hidden=config.lstm, layers=config.lstm_layers, dropout=config.dropout)
            width = self.lstm.width
            widths.append(width)
        self.probes = Probes(widths=widths, leaf_width=widths[0])
        if config.dense:
            self.dense = nn.Sequential(nn.Linear(width, config.dense), nn.Tanh())
            width = config.dense
        self.output = nn.Linear(width, len(self.tags))
        if config.decoder == "crf":
            self.crf = LinearChainCrf(self.tags, self.scheme)
        else:
            self.independent = IndependentWords(self.tags, self.scheme)
        self.input_dropout, self.dropout = nn.Dropout(config.input_dropout), nn.Dropout(config.dropout)
        present = [group for group in config.shared if group in self.groups]
        self.split = ParameterSplit.sharing(present, self.groups)

    @property
    def groups(self) -> tuple[str, ...]:
        """Return the layer groups that this configuration has."""
        return (*(group for group in GROUPS if hasattr(self, group)), *self.training_only)

    @property
    def possible_groups(self) -> tuple[str, ...]:
        """Return the layer groups that any configuration can have."""
        return GROUPS

    def settings(self) -> dict[str, Any]:
        """Return the configuration as plain values."""
        return asdict(self.config)

    @property
    def decoder(self) -> Decoder:
        """Return the CRF, or the decoder of independent words."""
        return self.crf if self.config.decoder == "crf" else self.independent

    def prepare(self, sentences: Sequence[Sequence[str]]) -> Inputs:
        """Return word rows, the spelling of each distinct word once, and pieces if there is a contextual encoder."""
        arrays = word_arrays(sentences, self.word_index, with_spellings=hasattr(self, "characters"))
        return Inputs(
            mask=torch.from_numpy(arrays.mask),
            words=torch.from_numpy(arrays.words),
            spellings=None if arrays.spellings is None else torch.from_numpy(arrays.spellings),
            spelled=torch.from_numpy(arrays.spelled),
            pieces=self.contextual.tokenizer.encode(sentences) if hasattr(self, "contextual") else None,
        )

    def emissions(self, inputs: Inputs) -> Tensor:
        """Run the layers of the configuration, bottom to top."""
        states = self._represent(inputs)
        if self.probes.leaf is not None:
            states = states + self.probes.leaf[:, None]
        states = self.input_dropout(states)
        self.probes.encoded(states, inputs.mask)
        if hasattr(self, "word_cnn"):
            states = self.dropout(self.word_cnn(states, inputs.mask))
            self.probes.encoded(states, inputs.mask)
        if hasattr(self, "lstm"):
            states = self.dropout(self.lstm(states, inputs.mask))
            self.probes.encoded(states, inputs.mask)
        if hasattr(self, "dense"):
            states = self.dense(states)
        scores: Tensor = self.output(states)
        return scores

    def _represent(self, inputs: Inputs) -> Tensor:
        """Return e_i = [word; characters; language model] (FedNER, Section 3.1)."""
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


# The family: build, save, load and transfer.

# Lee 2017, Section 3: stochastic gradient descent, early stopping with a patience of 10 epochs.
_TRANSFER_TRAINING: Mapping[str, Any] = {
    "epochs": 100,
    "batch_size": 8,
    "optimizer": "sgd",
    "learning_rate": 0.1,
    "schedule": "constant",
    "patience": 10,
}


def _rebuild(source: WordTagger, labels: Labels, choice: ModelChoice) -> WordTagger:
    config = with_settings(source.config, choice.options, "the source's network")
    if choice.vectors is not None:
        vectors: WordVectors | None = load_word_vectors(choice.vectors)
    elif isinstance(source.word_index, ListedWords):
        vectors = WordVectors(source.word_index.words, source.words.weight.detach()[RESERVED:].numpy())
    else:
        vectors = None
    return WordTagger(config, labels.types, vectors, offline=True)


def _save(model: WordTagger, folder: Path) -> dict[str, Any]:
    save_tensors(model.state_dict(), folder / WEIGHTS)
    if isinstance(model.word_index, ListedWords):
        (folder / _WORDS).write_text(json.dumps(model.word_index.words, ensure_ascii=False), encoding="utf-8")
    context = model.contextual.fingerprint() if "contextual" in model.groups else None
    return {"types": list(model.tag_set.types), "contextual_sha256": context}


def _load(folder: Path, card: dict[str, Any]) -> WordTagger:
    config = read_configuration(WordTaggerConfig, card, folder)
    weights = load_tensors(folder / WEIGHTS)
    vectors = _load_vectors(folder, weights) if (folder / _WORDS).is_file() else None
    model = WordTagger(config, tag_set_of(card, folder), vectors, offline=True)
    if "contextual" in model.groups and model.contextual.fingerprint() != card.get("contextual_sha256"):
        raise ModelError(
            f"{folder.name}: the encoder {config.contextual!r} on this machine is not the one used in training"
        )
    fill(model, weights, folder)
    return model


def _load_vectors(folder: Path, weights: Mapping[str, Tensor]) -> WordVectors:
    try:
        words = read_json(folder / _WORDS)
        vectors = weights["words.weight"][RESERVED:].numpy()
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"{folder.name}/{_WORDS} is not valid JSON, or there are no vectors beside it") from error
    if not isinstance(words, list) or len(words) != len(vectors):
        raise ModelError(f"{folder.name}/{_WORDS} is not a list of {len(vectors)} words")
    return WordVectors(tuple(map(str, words)), vectors)


def _transfer_layer(source: WordTagger, target: WordTagger, layer: str) -> LayerWeights | None:
    if layer == "contextual" and source.contextual.fingerprint() != target.contextual.fingerprint():
        return LayerWeights(why="it mixes the layers of another encoder")
    if layer != "words":
        return None
    theirs, mine = source.words.weight.detach(), target.words.weight.detach()
    if theirs.shape[1] != mine.shape[1]:
        sizes = [" × ".join(map(str, tensor.shape)) for tensor in (theirs, mine)]
        return LayerWeights(why=f"words.weight is {sizes[0]} in the source, {sizes[1]} in the target")
    there, here = source.word_index, target.word_index
    if isinstance(there, HashedWords) and isinstance(here, HashedWords):
        return _transfer_buckets(theirs, there.buckets, here.buckets)
    if isinstance(there, ListedWords) and isinstance(here, ListedWords):
        return _transfer_words(theirs, mine, there=there.words, here=here.words)
    return LayerWeights(why="one of the two models hashes words, the other has a list of them")


def _transfer_buckets(theirs: Tensor, there: int, here: int) -> LayerWeights:
    """Match rows by bucket: a bucket is a hash modulo their number, so they match if one number divides the other."""
    if there == here:
        return LayerWeights({"words.weight": theirs.clone()}, theirs.numel())
    if here % there and there % here:
        return LayerWeights(why=f"{there} buckets of words cannot become {here}: neither number divides the other")
    reserved, rows = theirs[:RESERVED], theirs[RESERVED:]
    if here % there == 0:
        taken, why = rows.repeat(here // there, 1), f"each of {there} buckets of words became {here // there}"
    else:
        taken = rows.view(there // here, here, -1).mean(0)
        why = f"each {there // here} of {there} buckets of words became one, their mean"
    weights = torch.cat([reserved, taken])
    return LayerWeights({"words.weight": weights}, weights.numel(), why)


def _transfer_words(theirs: Tensor, mine: Tensor, *, there: Sequence[str], here: Sequence[str]) -> LayerWeights:
    if there == here:
        return LayerWeights({"words.weight": theirs.clone()}, theirs.numel())
    rows = {word: RESERVED + place for place, word in enumerate(there)}
    common = [(RESERVED + place, rows[word]) for place, word in enumerate(here) if word in rows]
    if not common:
        return LayerWeights(why="no word of its list is in the source's")
    pairs = [*((row, row) for row in range(RESERVED)), *common]
    taken = mine.clone()
    taken[[row for row, _ in pairs]] = theirs[[row for _, row in pairs]]
    why = f"{len(common)} of {len(here)} words are in the source's list; the others keep their own vectors"
    return LayerWeights({"words.weight": taken}, len(pairs) * theirs.shape[1], why)


FAMILY = ModelFamily(
    name=WordTagger.kind,
    tasks=("ner", "deidentify"),
    chosen_by=("preset",),
    configure=lambda choice: with_settings(preset(choice.preset), choice.options, f"the preset {choice.preset!r}"),
    build=lambda config, labels, choice: WordTagger(
        config, labels.types, None if choice.vectors is None else load_word_vectors(choice.vectors)
    ),
    save=_save,
    load=_load,
    training=lambda choice: _TRANSFER_TRAINING if choice.preset == "transfer" else {},
    rebuild=_rebuild,
    # A character LSTM below a dense layer is the network of the transfer paper.
    choice_like=lambda model: ModelChoice(
        "transfer" if model.config.character_layer == "lstm" and model.config.dense > 0 else "fedner"
    ),
    transfer_layer=_transfer_layer,
)
