"""A tagger on any Hugging Face encoder, fine-tuned whole: the compact BERTs of FedHE among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from wardround.models.decoders import Decoder, IndependentWords, LinearChainCrf
from wardround.models.encoders import PieceTokenizer, encoder_layer, encoder_source, in_layer_order, token_network
from wardround.models.parameter_split import OUTPUT_GROUPS, ParameterSplit
from wardround.models.ranges import check_choice, check_share, check_size
from wardround.models.tagging_model import Inputs, TaggingModel
from wardround.text.tag_sets import TagSet

__all__ = ["EncoderTagger", "EncoderTaggerConfig"]


@dataclass(frozen=True)
class EncoderTaggerConfig:
    """Which encoder, and how it is read."""

    encoder: str = "minilm"  # Hugging Face id, folder, "minilm", or a compact size to train from scratch
    decoder: str = "softmax"  # crf | softmax
    dropout: float = 0.1
    scheme: str = "BIO"
    limit: int = 256  # pieces in a window, special ones included
    overlap: int = 64  # pieces that neighbouring windows share
    shared: tuple[str, ...] = ()  # layer groups; empty shares all but the output

    def __post_init__(self) -> None:
        check_choice("decoder", self.decoder, ("crf", "softmax"))
        check_share("dropout", self.dropout)
        check_size("limit", self.limit, least=4)
        check_size("overlap", self.overlap, least=0)


class EncoderTagger(TaggingModel):
    """Groups, bottom to top: `embeddings`, `layer_0` …, `output`, and `crf` where there is one."""

    def __init__(self, config: EncoderTaggerConfig, tag_set: TagSet, *, source: str | None = None) -> None:
        """Build from `config.encoder`, or, for a saved model, from the folder `source`."""
        super().__init__(tag_set, config.scheme)
        self.config = config
        origin = source or encoder_source(config.encoder)
        self.tokenizer = PieceTokenizer(origin, limit=config.limit, overlap=config.overlap)
        self.network = token_network(config.encoder, origin, fresh=source is None, labels=self.tags)
        self.dropout = nn.Dropout(config.dropout)
        if config.decoder == "crf":
            self.crf = LinearChainCrf(self.tags, self.scheme)
        else:
            self.independent = IndependentWords(self.tags, self.scheme)
        shared = config.shared or tuple(group for group in self.groups if group not in OUTPUT_GROUPS)
        self.split = ParameterSplit.sharing(shared, self.groups)

    def settings(self) -> dict[str, Any]:
        """The configuration as plain values."""
        return asdict(self.config)

    @property
    def decoder(self) -> Decoder:
        """The CRF, or words on their own."""
        return self.crf if self.config.decoder == "crf" else self.independent

    @property
    def groups(self) -> tuple[str, ...]:
        """Every layer of the encoder is a group of its own."""
        found = {self.group_of(name) for name, _ in self.named_parameters()}
        return tuple(g for g in (*in_layer_order(found), *OUTPUT_GROUPS) if g in found)

    def group_of(self, parameter: str) -> str:
        """`network.bert.encoder.layer.3…` is in `layer_3`."""
        if parameter.startswith("crf."):
            return "crf"
        if layer := encoder_layer(parameter):
            return layer
        return "embeddings" if parameter.startswith(f"network.{self.network.base_model_prefix}.") else "output"

    def prepare(self, sentences: Sequence[Sequence[str]]) -> Inputs:
        """Word pieces in windows."""
        lengths = torch.tensor([len(sentence) for sentence in sentences])
        mask = torch.arange(int(lengths.max()))[None] < lengths[:, None]
        return Inputs(mask=mask, pieces=self.tokenizer.encode(sentences))

    def emissions(self, inputs: Inputs) -> Tensor:
        """Scores from the state of each word's first piece."""
        assert inputs.pieces is not None, "prepare() of this model always makes pieces"
        states = self.network.base_model(inputs.pieces.ids, attention_mask=inputs.pieces.attention).last_hidden_state
        scores: Tensor = self.network.classifier(self.dropout(inputs.pieces.gather(states)))
        return scores
