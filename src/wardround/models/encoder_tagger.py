"""A tagger on any Hugging Face encoder: fine-tuned as a whole, like the compact BERTs of FedHE, or with an adapter.

A saved folder is a Hugging Face folder too, which `transformers.pipeline("token-classification")` opens as it is. LoRA
layers are saved merged into what they adapt: the loaded model is a plain encoder tagger. A prompt is saved beside the
encoder in `prompt.safetensors`; `transformers` ignores it, and so reads the folder as another model.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from wardround.errors import ModelError, UsageError
from wardround.models.adapters import add_lora, input_offset, is_lora
from wardround.models.arrays import word_mask
from wardround.models.decoders import Decoder, IndependentWords, LinearChainCrf
from wardround.models.encoders import (
    PieceTokenizer,
    encoder_folder,
    encoder_layer,
    in_layer_order,
    token_network,
)
from wardround.models.families import (
    ADAPTER_TRAINING,
    ENCODER_TRAINING,
    Labels,
    LayerWeights,
    ModelChoice,
    ModelFamily,
    check_choice,
    check_share,
    check_size,
)
from wardround.models.model_files import (
    CRF,
    PROMPT,
    load_parts,
    read_configuration,
    save_encoder_model,
    tag_set_of,
)
from wardround.models.parameter_split import OUTPUT_GROUPS, ParameterSplit
from wardround.models.probes import Probes
from wardround.models.prompts import Prompt
from wardround.models.tagging_model import Inputs, TaggingModel
from wardround.settings import with_settings
from wardround.text.tag_sets import TagSet

__all__ = ["FAMILY", "EncoderTagger", "EncoderTaggerConfig"]

_ADAPTERS = ("prompt", "lora")  # also the names of their layer groups
_READING = ("model_type", "num_attention_heads", "hidden_act")  # settings that the shapes of layers do not show


@dataclass(frozen=True)
class EncoderTaggerConfig:
    """Which encoder to use, and what is on top of it."""

    encoder: str = "minilm"  # Hugging Face id, folder, "minilm", or a compact size to train from scratch
    decoder: str = "softmax"  # crf | softmax
    dropout: float = 0.1
    scheme: str = "BIO"
    limit: int = 256  # pieces in a window, special ones included
    overlap: int = 64  # pieces that neighbouring windows share
    shared: tuple[str, ...] = ()  # layer groups; empty shares all that are trained except the output
    adapter: str = "none"  # none | prompt | lora: what is trained instead of the encoder, which is then frozen
    prompt_length: int = 10  # N_q, rows that a prompt adds to keys and values (Wang 2023)
    prompt_hidden: int = 48  # h, between the prompt and those rows
    lora_rank: int = 8
    lora_alpha: int = 16  # LoRA layers are scaled by alpha / rank

    def __post_init__(self) -> None:
        check_choice("decoder", self.decoder, ("crf", "softmax"))
        check_choice("adapter", self.adapter, ("none", *_ADAPTERS))
        check_share("dropout", self.dropout)
        check_size("limit", self.limit, least=4)
        check_size("overlap", self.overlap, least=0)
        for name in ("prompt_length", "prompt_hidden", "lora_rank", "lora_alpha"):
            check_size(name, getattr(self, name), least=1)

    def merged(self) -> EncoderTaggerConfig:
        """Return the configuration of the tagger after its LoRA layers are merged into what they adapt."""
        if self.adapter != "lora":
            return self
        return replace(self, adapter="none", shared=tuple(group for group in self.shared if group != "lora"))


class EncoderTagger(TaggingModel):
    """A tagger with the layer groups `embeddings`, `layer_0` …, an adapter's `prompt` or `lora`, `output`, `crf`."""

    kind = "encoder-tagger"

    def __init__(
        self, config: EncoderTaggerConfig, tag_set: TagSet, *, source: str | None = None, offline: bool = False
    ) -> None:
        """Build from `config.encoder`, or from the folder `source` of a saved model.

        With `offline`, look for the encoder on this machine only.
        """
        super().__init__(tag_set, config.scheme)
        self.config = config
        origin = source or encoder_folder(config.encoder, offline=offline)
        self.tokenizer = PieceTokenizer(origin, limit=config.limit, overlap=config.overlap)
        self.network = token_network(config.encoder, origin, fresh=source is None, labels=self.tags)
        if config.adapter == "prompt":
            self.prompt = Prompt(self.network, length=config.prompt_length, hidden=config.prompt_hidden)
        elif config.adapter == "lora":
            add_lora(self.network, rank=config.lora_rank, alpha=config.lora_alpha)
        if config.adapter != "none":
            for name, parameter in self.named_parameters():
                parameter.requires_grad_(self.group_of(name) in (config.adapter, *OUTPUT_GROUPS))
        self.dropout = nn.Dropout(config.dropout)
        if config.decoder == "crf":
            self.crf = LinearChainCrf(self.tags, self.scheme)
        else:
            self.independent = IndependentWords(self.tags, self.scheme)
        shared = config.shared or tuple(g for g in self.groups if g not in OUTPUT_GROUPS and self.parameters_in((g,)))
        self.split = ParameterSplit.sharing(shared, self.groups)
        sizes = self.network.config
        self.probes = Probes(
            widths=(int(sizes.hidden_size),) * int(sizes.num_hidden_layers),
            leaf_width=int(self.network.get_input_embeddings().embedding_dim),
            prompt=self.prompt.q if config.adapter == "prompt" else None,
        )

    def settings(self) -> dict[str, Any]:
        """Return the configuration as plain values."""
        return asdict(self.config)

    @property
    def decoder(self) -> Decoder:
        """Return the CRF, or the decoder of independent words."""
        return self.crf if self.config.decoder == "crf" else self.independent

    @property
    def groups(self) -> tuple[str, ...]:
        """Return the groups; every layer of the encoder is one, frozen or not."""
        found = {self.group_of(name) for name, _ in self.named_parameters()}
        return tuple(g for g in (*in_layer_order(found), *_ADAPTERS, *OUTPUT_GROUPS, *self.training_only) if g in found)

    @property
    def saved_parts(self) -> dict[str, nn.Module]:
        """Return the CRF and the prompt, if the model has them, by the names of their files."""
        parts: dict[str, nn.Module] = {CRF: self.crf} if self.config.decoder == "crf" else {}
        return parts | ({PROMPT: self.prompt} if self.config.adapter == "prompt" else {})

    @property
    def trainable_share(self) -> float:
        """Return the share of all parameters that are trained."""
        sizes = [(parameter.numel(), parameter.requires_grad) for parameter in self.parameters()]
        return sum(size for size, trains in sizes if trains) / sum(size for size, _ in sizes)

    def group_of(self, parameter: str) -> str:
        """Return the group of a parameter: `network.bert.encoder.layer.3…` is in `layer_3`."""
        first = parameter.partition(".")[0]
        if first in ("crf", "prompt", *self.training_only):
            return first
        if is_lora(parameter):
            return "lora"
        if layer := encoder_layer(parameter):
            return layer
        return "embeddings" if parameter.startswith(f"network.{self.network.base_model_prefix}.") else "output"

    def prepare(self, sentences: Sequence[Sequence[str]]) -> Inputs:
        """Return word pieces in windows."""
        return Inputs(mask=torch.from_numpy(word_mask(sentences)), pieces=self.tokenizer.encode(sentences))

    def emissions(self, inputs: Inputs) -> Tensor:
        """Return scores from the state of each word's first piece."""
        assert inputs.pieces is not None, "prepare() of this model always makes pieces"
        pieces = inputs.pieces
        leaf = None if self.probes.leaf is None else self.probes.leaf[pieces.sentence]
        reading: AbstractContextManager[None] = nullcontext()
        if self.config.adapter == "prompt":
            reading = self.prompt.appended(leaf)
        elif leaf is not None:
            reading = input_offset(self.network, leaf)
        with reading:
            read = self.network.base_model(
                pieces.ids, attention_mask=pieces.attention, output_hidden_states=self.probes.is_recording
            )
        if self.probes.is_recording:
            for layer in read.hidden_states[1:]:  # the first are the embeddings
                self.probes.encoded(pieces.gather(layer), inputs.mask)
        scores: Tensor = self.network.classifier(self.dropout(pieces.gather(read.last_hidden_state)))
        return scores


# The family: build, save, load and transfer.


def _rebuild(source: EncoderTagger, labels: Labels, choice: ModelChoice) -> EncoderTagger:
    if choice.vectors:
        raise UsageError("the source is an encoder tagger, which has its own embeddings; leave --vectors out")
    config = with_settings(source.config, choice.options, "the source's network")
    try:
        # The card of the source names the encoder, not the user: no hub is called for it.
        return EncoderTagger(config, labels.types, offline=True)
    except ModelError as error:
        raise ModelError(
            f"the encoder of the source, {Path(config.encoder).name!r}, is not on this machine; name one "
            "with --encoder, for example the source's own folder"
        ) from error


def _transfer_layer(source: EncoderTagger, target: EncoderTagger, layer: str) -> LayerWeights | None:
    if layer == "embeddings" and source.tokenizer.tokenizer.get_vocab() != target.tokenizer.tokenizer.get_vocab():
        return LayerWeights(why="the vocabularies of word pieces differ")
    for setting in _READING:
        theirs, mine = (getattr(model.network.config, setting, None) for model in (source, target))
        if theirs != mine:
            return LayerWeights(why=f"{setting} is {theirs} in the source, {mine} in the target")
    return None


FAMILY = ModelFamily(
    name=EncoderTagger.kind,
    tasks=("ner", "deidentify"),
    chosen_by=("encoder",),
    configure=lambda choice: with_settings(
        EncoderTaggerConfig(encoder=choice.encoder), choice.options, "the encoder tagger"
    ),
    build=lambda config, labels, choice: EncoderTagger(config, labels.types),
    save=lambda model, folder: save_encoder_model(model, folder, model.tag_set.types),
    load=lambda folder, card: load_parts(
        EncoderTagger(
            read_configuration(EncoderTaggerConfig, card, folder).merged(),
            tag_set_of(card, folder),
            source=str(folder),
        ),
        folder,
    ),
    training=lambda choice: ENCODER_TRAINING if choice.options.get("adapter", "none") == "none" else ADAPTER_TRAINING,
    rebuild=_rebuild,
    choice_like=lambda model: ModelChoice(encoder=model.config.encoder),
    transfer_layer=_transfer_layer,
)
