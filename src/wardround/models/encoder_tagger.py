"""A tagger on any Hugging Face encoder: fine-tuned whole, as the compact BERTs of FedHE, or frozen under an adapter."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from wardround.models.adapters import add_lora, input_moved, is_lora
from wardround.models.decoders import Decoder, IndependentWords, LinearChainCrf
from wardround.models.encoders import (
    PieceBatch,
    PieceTokenizer,
    encoder_folder,
    encoder_layer,
    in_layer_order,
    token_network,
)
from wardround.models.parameter_split import OUTPUT_GROUPS, ParameterSplit
from wardround.models.prompts import Prompt
from wardround.models.ranges import check_choice, check_share, check_size
from wardround.models.tagging_model import Inputs, TaggingModel
from wardround.text.tag_sets import TagSet

__all__ = ["EncoderTagger", "EncoderTaggerConfig"]

_ADAPTERS = ("prompt", "lora")  # and the names of their groups


@dataclass(frozen=True)
class EncoderTaggerConfig:
    """Which encoder, and how it is read."""

    encoder: str = "minilm"  # Hugging Face id, folder, "minilm", or a compact size to train from scratch
    decoder: str = "softmax"  # crf | softmax
    dropout: float = 0.1
    scheme: str = "BIO"
    limit: int = 256  # pieces in a window, special ones included
    overlap: int = 64  # pieces that neighbouring windows share
    shared: tuple[str, ...] = ()  # layer groups; empty shares all that train but the output
    adapter: str = "none"  # none | prompt | lora: what trains in place of the encoder, which is frozen then
    prompt_length: int = 10  # N_q, the rows that a prompt adds to keys and values (Wang 2023)
    prompt_hidden: int = 48  # h, between the prompt and those rows
    lora_rank: int = 8
    lora_alpha: int = 16  # LoRA layers count alpha / rank times

    def __post_init__(self) -> None:
        check_choice("decoder", self.decoder, ("crf", "softmax"))
        check_choice("adapter", self.adapter, ("none", *_ADAPTERS))
        check_share("dropout", self.dropout)
        check_size("limit", self.limit, least=4)
        check_size("overlap", self.overlap, least=0)
        for name in ("prompt_length", "prompt_hidden", "lora_rank", "lora_alpha"):
            check_size(name, getattr(self, name), least=1)

    def merged(self) -> EncoderTaggerConfig:
        """Of the tagger that is left once LoRA layers are added to what they adapt."""
        if self.adapter != "lora":
            return self
        return replace(self, adapter="none", shared=tuple(group for group in self.shared if group != "lora"))


class EncoderTagger(TaggingModel):
    """Groups, bottom to top: `embeddings`, `layer_0` …, an adapter's `prompt` or `lora`, `output`, `crf`."""

    def __init__(
        self, config: EncoderTaggerConfig, tag_set: TagSet, *, source: str | None = None, offline: bool = False
    ) -> None:
        """Build from `config.encoder`, or, for a saved model, from the folder `source`.

        With `offline`, the encoder is looked for on this machine only.
        """
        super().__init__(tag_set, config.scheme)
        self.config = config
        origin = source or encoder_folder(config.encoder, offline=offline)
        self.tokenizer = PieceTokenizer(origin, limit=config.limit, overlap=config.overlap)
        self.network = token_network(config.encoder, origin, fresh=source is None, labels=self.tags)
        self._adapt()
        self.dropout = nn.Dropout(config.dropout)
        if config.decoder == "crf":
            self.crf = LinearChainCrf(self.tags, self.scheme)
        else:
            self.independent = IndependentWords(self.tags, self.scheme)
        shared = config.shared or tuple(g for g in self.groups if g not in OUTPUT_GROUPS and self.parameters_in((g,)))
        self.split = ParameterSplit.sharing(shared, self.groups)

    def _adapt(self) -> None:
        """Put the adapter in, and freeze the encoder below it."""
        config = self.config
        if config.adapter == "none":
            return
        if config.adapter == "prompt":
            self.prompt = Prompt(self.network, length=config.prompt_length, hidden=config.prompt_hidden)
        else:
            add_lora(self.network, rank=config.lora_rank, alpha=config.lora_alpha)
        for name, parameter in self.named_parameters():
            parameter.requires_grad_(self.group_of(name) in (config.adapter, *OUTPUT_GROUPS))

    def settings(self) -> dict[str, Any]:
        """The configuration as plain values."""
        return asdict(self.config)

    @property
    def decoder(self) -> Decoder:
        """The CRF, or words on their own."""
        return self.crf if self.config.decoder == "crf" else self.independent

    @property
    def groups(self) -> tuple[str, ...]:
        """Every layer of the encoder is a group of its own, frozen or not."""
        found = {self.group_of(name) for name, _ in self.named_parameters()}
        return tuple(g for g in (*in_layer_order(found), *_ADAPTERS, *OUTPUT_GROUPS, *self.aside) if g in found)

    @property
    def trainable_share(self) -> float:
        """Of all its parameters, those that train."""
        sizes = [(parameter.numel(), parameter.requires_grad) for parameter in self.parameters()]
        return sum(size for size, trains in sizes if trains) / sum(size for size, _ in sizes)

    def group_of(self, parameter: str) -> str:
        """`network.bert.encoder.layer.3…` is in `layer_3`."""
        if parameter.startswith(("crf.", "prompt.", "discriminators.")):
            return parameter.partition(".")[0]
        if is_lora(parameter):
            return "lora"
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
        pieces = inputs.pieces
        with self._given(pieces):
            read = self.network.base_model(
                pieces.ids, attention_mask=pieces.attention, output_hidden_states=self.watched is not None
            )
        if self.watched is not None:
            for layer in read.hidden_states[1:]:  # the first are the embeddings
                self.watched.add(pieces.gather(layer), inputs.mask)
        scores: Tensor = self.network.classifier(self.dropout(pieces.gather(read.last_hidden_state)))
        return scores

    @property
    def watched_widths(self) -> tuple[int, ...]:
        """Every layer of the encoder."""
        sizes = self.network.config
        return (int(sizes.hidden_size),) * int(sizes.num_hidden_layers)

    def _given(self, pieces: PieceBatch) -> AbstractContextManager[None]:
        """What the encoder is given beside the pieces: a prompt, and what sentences are compared by."""
        probe = None if self.probe is None else self.probe[pieces.sentence]
        if self.config.adapter == "prompt":
            return self.prompt.given(probe)
        return nullcontext() if probe is None else input_moved(self.network, probe)

    @property
    def probe_shape(self) -> tuple[int, ...]:
        """That of the prompt; without one, as wide as the embedding of a piece."""
        if self.config.adapter == "prompt":
            return tuple(self.prompt.q.shape)
        return (int(self.network.get_input_embeddings().embedding_dim),)

    def fresh_probe(self, sentences: int) -> Tensor:
        """A copy of the prompt for each sentence; without a prompt, zeros."""
        if self.config.adapter == "prompt":
            return self.prompt.q.detach().repeat(sentences, 1, 1)
        return super().fresh_probe(sentences)
