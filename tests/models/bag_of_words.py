"""A model family as another package would write it: one file with a model and its declaration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from wardround.models.decoders import Decoder, IndependentWords
from wardround.models.families import Labels, ModelChoice, ModelFamily, check_size
from wardround.models.model_files import WEIGHTS, fill, load_tensors, read_configuration, save_tensors, tag_set_of
from wardround.models.parameter_split import ParameterSplit
from wardround.models.tagging_model import Inputs, TaggingModel
from wardround.models.vocabulary import PADDING, HashedWords
from wardround.settings import with_settings
from wardround.text.tag_sets import TagSet


@dataclass(frozen=True)
class BagOfWordsConfig:
    buckets: int = 256
    width: int = 16
    scheme: str = "BIO"

    def __post_init__(self) -> None:
        check_size("buckets", self.buckets, least=1)
        check_size("width", self.width, least=1)


class BagOfWords(TaggingModel):
    """A tagger that knows each word by itself: an embedding and a linear layer."""

    kind = "bag-of-words"

    def __init__(self, config: BagOfWordsConfig, tag_set: TagSet) -> None:
        super().__init__(tag_set, config.scheme)
        self.config, self.index = config, HashedWords(config.buckets)
        self.words = nn.Embedding(self.index.size, config.width)
        self.output = nn.Linear(config.width, len(self.tags))
        self.independent = IndependentWords(self.tags, self.scheme)
        self.split = ParameterSplit.sharing(("words",), self.groups)

    @property
    def groups(self) -> tuple[str, ...]:
        return ("words", "output")

    @property
    def decoder(self) -> Decoder:
        return self.independent

    def settings(self) -> dict[str, Any]:
        return asdict(self.config)

    def prepare(self, sentences: Sequence[Sequence[str]]) -> Inputs:
        rows = [torch.tensor([self.index(word) for word in sentence]) for sentence in sentences]
        words = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PADDING)
        lengths = torch.tensor([len(row) for row in rows])
        return Inputs(mask=torch.arange(words.shape[1])[None] < lengths[:, None], words=words)

    def emissions(self, inputs: Inputs) -> Tensor:
        scores: Tensor = self.output(self.words(inputs.words))
        return scores


def _save(model: BagOfWords, folder: Path) -> dict[str, Any]:
    save_tensors(model.state_dict(), folder / WEIGHTS)
    return {"types": list(model.tag_set.types)}


def _load(folder: Path, card: dict[str, Any]) -> BagOfWords:
    model = BagOfWords(read_configuration(BagOfWordsConfig, card, folder), tag_set_of(card, folder))
    fill(model, load_tensors(folder / WEIGHTS), folder)
    return model


def _configure(choice: ModelChoice) -> BagOfWordsConfig:
    return with_settings(BagOfWordsConfig(), choice.options, "the bag of words")


def _build(config: BagOfWordsConfig, labels: Labels, choice: ModelChoice) -> BagOfWords:
    return BagOfWords(config, labels.types)


FAMILY = ModelFamily(
    name=BagOfWords.kind,
    tasks=("ner", "deidentify"),
    configure=_configure,
    build=_build,
    save=_save,
    load=_load,
    training=lambda choice: {"epochs": 5, "learning_rate": 0.05},
)
