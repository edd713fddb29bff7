"""LightNER (Chen 2022) as described by Wang 2023, Section 3.1: a frozen BART that writes the mentions of a sentence.

Its encoder reads the sentence; its decoder writes the start, end and type of each mention, then an end symbol. Trained
are a prompt that every layer attends to (Appendix B) and the few weights that turn a decoder's state into an output.

A saved folder is that of its BART, with the trained parts in `prompt.safetensors` and `output.safetensors`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding
from torch.nn.utils.rnn import pad_sequence

from wardround.errors import ModelError
from wardround.models.encoders import PieceTokenizer, encoder_folder, quiet_transformers
from wardround.models.families import ADAPTER_TRAINING, ModelFamily, check_share, check_size
from wardround.models.model_files import (
    OUTPUT,
    PROMPT,
    load_parts,
    read_configuration,
    save_encoder_model,
    tag_set_of,
)
from wardround.models.parameter_split import OUTPUT_GROUPS, ParameterSplit
from wardround.models.pointer_sequences import END, OutputSpace, Targets, parse_labels, words_of_type
from wardround.models.pretrained import UnloadableError, load_bart_network, load_configuration, shown_name
from wardround.models.probes import Probes
from wardround.models.prompts import Prompt
from wardround.models.tagging_model import Inputs, MentionModel, SplitLoss
from wardround.settings import with_settings
from wardround.text.tag_schemes import WordSpan
from wardround.text.tag_sets import TagSet

if TYPE_CHECKING:
    from transformers import EncoderDecoderCache

__all__ = ["FAMILY", "LightNer", "LightNerConfig", "PointerOutputs", "load_bart"]

_MIX = 0.5  # share of a word's encoder state in its vector; the rest is its embedding
_LAYER = re.compile(r"network\.(encoder|decoder)\.layers\.(\d+)\.")


@dataclass(frozen=True)
class LightNerConfig:
    """Which BART to use, and what is trained beside it."""

    bart: str = "facebook/bart-base"  # Hugging Face id or folder
    prompt_length: int = 10  # N_q
    prompt_hidden: int = 400  # h, Appendix B
    dropout: float = 0.1  # below the outputs; BART's own dropout is that of its configuration
    scheme: str = "BIO"
    limit: int = 512  # pieces of a sentence, including special ones; the rest is not read
    longest: int = 96  # outputs written for a sentence, three per mention
    labels: str = ""  # words that stand for a type, "ADE=adverse drug effect, …"; by default its name
    frozen: bool = True  # whether BART is not trained
    shared: tuple[str, ...] = ()  # layer groups; empty shares all that are trained except the output

    def __post_init__(self) -> None:
        check_share("dropout", self.dropout)
        check_size("limit", self.limit, least=4)
        check_size("longest", self.longest, least=3)
        check_size("prompt_length", self.prompt_length, least=1)
        check_size("prompt_hidden", self.prompt_hidden, least=1)
        parse_labels(self.labels)


class PointerOutputs(nn.Module):
    """The vectors that a decoder's state is compared with; they start as the network's own embeddings.

    The learned parts are scaled down, those of names by 1/√d and those of the pointer, which has d times as many
    numbers, by 1/d: a score is a sum over all of them, and a step size that suits a prompt would change it too much.
    """

    def __init__(self, width: int, names: int) -> None:
        super().__init__()
        self._scale = width**-0.5
        self.names = nn.Parameter(torch.zeros(names, width))  # added to the embeddings of the end and of each type
        self.pointer = nn.Linear(width, width)
        nn.init.zeros_(self.pointer.weight)
        nn.init.zeros_(self.pointer.bias)

    @property
    def learned_names(self) -> Tensor:
        """Return what is learned for the end and the types, which is added to the embeddings of their names."""
        learned: Tensor = self._scale * self.names
        return learned

    def words(self, states: Tensor, embedded: Tensor) -> Tensor:
        """Return the vector of each word: a mix of its encoder state and its embedding."""
        mixed: Tensor = _MIX * self._scale**2 * self.pointer(states) + (1 - _MIX) * embedded
        return mixed


class _EncodedSentences(NamedTuple):
    """Encoded sentences, with everything that can be written: the end, the types and the words."""

    states: Tensor  # [batch, pieces, width]
    attention: Tensor  # [batch, pieces]
    vectors: Tensor  # [batch, outputs, width]: compared with a decoder's state
    embedded: Tensor  # [batch, outputs, width]: read by the decoder after writing the output
    possible: Tensor  # [batch, outputs]

    def rows(self, chosen: Tensor) -> _EncodedSentences:
        """Return some of the sentences."""
        return _EncodedSentences(*(part[chosen] for part in self))


class LightNer(MentionModel):
    """A model with the layer groups `embeddings`, `encoder_0` …, `decoder_0` …, `prompt`, `output`."""

    kind = "light-ner"
    pieces_of_names: Tensor  # [1 + types, pieces]: the end and each type's label
    name_mask: Tensor  # [1 + types, pieces]

    def __init__(self, config: LightNerConfig, tag_set: TagSet, *, source: str | None = None) -> None:
        """Build from `config.bart`, or from the folder `source` of a saved model."""
        super().__init__(tag_set, config.scheme)
        self.config = config
        self.output_space = OutputSpace(tag_set.types)
        origin = source or encoder_folder(config.bart)
        self.tokenizer = PieceTokenizer(origin, limit=config.limit, overlap=0)
        self.network = load_bart(origin)
        self.network.requires_grad_(not config.frozen)
        self.prompt = Prompt(self.network, length=config.prompt_length, hidden=config.prompt_hidden)
        self.output = PointerOutputs(self.network.config.d_model, self.output_space.first_word)
        self.dropout = nn.Dropout(config.dropout)
        self._register_names()
        shared = config.shared or tuple(g for g in self.groups if g not in OUTPUT_GROUPS and self.parameters_in((g,)))
        self.split = ParameterSplit.sharing(shared, self.groups)
        sizes = self.network.config
        self.probes = Probes(widths=(int(sizes.d_model),) * int(sizes.encoder_layers), prompt=self.prompt.q)

    def settings(self) -> dict[str, Any]:
        """Return the configuration as plain values."""
        return asdict(self.config)

    @property
    def groups(self) -> tuple[str, ...]:
        """Return the groups; every layer of BART is one."""
        sizes = self.network.config
        encoder = (f"encoder_{layer}" for layer in range(sizes.encoder_layers))
        decoder = (f"decoder_{layer}" for layer in range(sizes.decoder_layers))
        return ("embeddings", *encoder, *decoder, "prompt", "output", *self.training_only)

    def group_of(self, parameter: str) -> str:
        """Return the group of a parameter: `network.decoder.layers.3…` is in `decoder_3`."""
        if layer := _LAYER.match(parameter):
            return f"{layer.group(1)}_{layer.group(2)}"
        return "embeddings" if parameter.startswith("network.") else super().group_of(parameter)

    @property
    def saved_parts(self) -> dict[str, nn.Module]:
        """Return the prompt and the output layer, by the names of their files."""
        return {PROMPT: self.prompt, OUTPUT: self.output}

    @property
    def trainable_share(self) -> float:
        """Return the share of all parameters that are trained, η in Section 5.4."""
        sizes = [(parameter.numel(), parameter.requires_grad) for parameter in self.parameters()]
        return sum(size for size, trained in sizes if trained) / sum(size for size, _ in sizes)

    def prepare(self, sentences: Sequence[Sequence[str]]) -> Inputs:
        """Return each sentence's first window; `words` are each word's first piece, −1 if it is not read."""
        lengths = torch.tensor([len(sentence) for sentence in sentences])
        mask = torch.arange(int(lengths.max()))[None] < lengths[:, None]
        pieces, is_read = self.tokenizer.encode(sentences).first_windows()
        is_read &= mask
        words = pieces.ids.flatten()[pieces.first_piece].masked_fill(~is_read, -1)
        return Inputs(mask=mask, words=words, pieces=pieces)

    def words_read(self, sentences: Sequence[Sequence[str]]) -> list[int]:
        """Return the number of words in each sentence's first window."""
        return self.tokenizer.words_in_first_windows(sentences)

    def _register_names(self) -> None:
        """Register the pieces of the end symbol and of each type's label as buffers."""
        labels, tokenizer = parse_labels(self.config.labels), self.tokenizer.tokenizer
        spelled = [labels.get(kind, words_of_type(kind)) for kind in self.tag_set.types]
        pieces = tokenizer(spelled, add_special_tokens=False)["input_ids"] if spelled else []
        rows = [torch.tensor(row) for row in ([self.network.config.eos_token_id], *pieces)]
        if nameless := [kind for kind, row in zip(self.tag_set.types, pieces, strict=True) if not row]:
            raise ModelError(f"labels: BART has no piece for the label of {', '.join(nameless)}; give it another label")
        counts = torch.tensor([len(row) for row in rows])
        padded = pad_sequence(rows, batch_first=True)
        self.register_buffer("pieces_of_names", padded, persistent=False)
        mask = torch.arange(padded.shape[1])[None] < counts[:, None]
        self.register_buffer("name_mask", mask, persistent=False)

    def loss(self, inputs: Inputs, tags: Tensor) -> Tensor:
        """Return the mean negative log likelihood of a sentence's outputs (Eq. 3), including the end."""
        spans = self._spans(inputs, tags)
        losses, _ = self._losses(inputs, spans, [[] for _ in spans])
        return losses.sum(1).mean()

    def split_loss(
        self, inputs: Inputs, local: Tensor, taught: Tensor | None, *, annotated: Tensor, outside: float = 0.0
    ) -> SplitLoss:
        """Return the loss of the outputs of local mentions, of taught mentions, and of the end (Eq. 8 and 9).

        If nothing is taught, the local mentions are taken as complete, whatever their types: a sequence cannot leave
        words unlabelled, so `outside` has no effect.
        """
        own = self._spans(inputs, local)
        complete = own if taught is None else self._spans(inputs, taught)
        added = [[span for span in spans if span not in known] for spans, known in zip(complete, own, strict=True)]
        losses, targets = self._losses(inputs, own, added)
        ends = targets.outputs == END
        source, silence = ((losses * part).sum(1) for part in (~targets.taught & ~ends, ends))
        # A target without a gradient tells the caller not to compute one.
        target = losses.new_zeros(len(own)) if taught is None else (losses * targets.taught).sum(1)
        return SplitLoss(source, target, silence)

    def _losses(
        self, inputs: Inputs, local: Sequence[Sequence[WordSpan]], taught: Sequence[Sequence[WordSpan]]
    ) -> tuple[Tensor, Targets]:
        """Return −log p of each output, [batch, steps], zero after the end."""
        made = self.output_space.targets(local, taught, most=(self.network.config.max_position_embeddings - 2) // 3)
        targets = Targets(*(part.to(inputs.mask.device) for part in made))
        with self.prompt.appended(self.probes.leaf):
            encoded = self._encode(inputs)
            steps = targets.outputs[:, :-1, None].expand(-1, -1, encoded.embedded.shape[2])
            written = torch.cat([self._start_embeddings(encoded), encoded.embedded.gather(1, steps)], 1)
            states = self._decoder_states(encoded, written)[:, -targets.outputs.shape[1] :]
            scores = self._output_scores(encoded, states)
        self.probes.decoded(states, targets.written)
        if self.probes.wants_predictions:
            self.probes.predicted(scores.softmax(2)[targets.taught])
        chosen = scores.log_softmax(2).gather(2, targets.outputs[:, :, None])[:, :, 0]
        return -chosen.masked_fill(~targets.written, 0.0), targets

    def _spans(self, inputs: Inputs, tags: Tensor) -> list[list[WordSpan]]:
        """Return the mentions in rows of tags, except those that BART does not read."""
        assert inputs.words is not None, "prepare() of this model always makes words"
        lengths, ends = inputs.mask.sum(1).tolist(), (inputs.words >= 0).sum(1).tolist()
        found = []
        for row, length, end in zip(tags.tolist(), lengths, ends, strict=True):
            spans = self.scheme.spans([self.tags[tag] for tag in row[:length]])
            found.append([span for span in spans if span.end <= end])
        return found

    def _encode(self, inputs: Inputs) -> _EncodedSentences:
        assert inputs.pieces is not None and inputs.words is not None, "prepare() of this model always makes both"
        pieces, table = inputs.pieces, self.network.shared.weight
        encoded = self.network.encoder(
            pieces.ids, attention_mask=pieces.attention, output_hidden_states=self.probes.is_recording
        )
        states = encoded.last_hidden_state
        if self.probes.is_recording:
            for layer in encoded.hidden_states[1:]:  # the first are the embeddings
                self.probes.encoded(pieces.gather(layer), inputs.words >= 0)
        spelled = embedding(inputs.words.clamp(min=0), table)
        words = self.output.words(pieces.gather(states), spelled)
        # The end and the types: the mean embedding of the pieces of their names, and what was learned beyond that.
        name_mask = self.name_mask[:, :, None]
        named = (embedding(self.pieces_of_names, table) * name_mask).sum(1) / name_mask.sum(1)
        names = (named + self.output.learned_names).expand(len(words), -1, -1)
        always = inputs.mask.new_ones(names.shape[:2])
        return _EncodedSentences(
            states=states,
            attention=pieces.attention,
            vectors=torch.cat([names, words], 1),
            embedded=torch.cat([names, spelled], 1) * self.network.shared.embed_scale,
            possible=torch.cat([always, inputs.words >= 0], 1),
        )

    def _start_embeddings(self, encoded: _EncodedSentences) -> Tensor:
        """Return what the decoder reads before its first output, as in BART's training: </s> and <s>."""
        sizes = self.network.config
        start = torch.tensor([sizes.decoder_start_token_id, sizes.bos_token_id], device=encoded.states.device)
        embedded: Tensor = self.network.shared(start).expand(len(encoded.states), -1, -1)
        return embedded

    def _decoder_states(
        self, encoded: _EncodedSentences, written: Tensor, past: EncoderDecoderCache | None = None
    ) -> Tensor:
        """Return the decoder's state after each of the embeddings `written`, [batch, steps, width]."""
        states: Tensor = self.network.decoder(
            inputs_embeds=written,
            encoder_hidden_states=encoded.states,
            encoder_attention_mask=encoded.attention,
            past_key_values=past,
            use_cache=past is not None,
        ).last_hidden_state
        return states

    def _output_scores(self, encoded: _EncodedSentences, states: Tensor) -> Tensor:
        """Return the score of every output after each state, [batch, steps, outputs]."""
        scores: Tensor = (self.dropout(states) @ encoded.vectors.transpose(1, 2)).float()
        return scores.masked_fill(~encoded.possible[:, None], -torch.inf)

    @torch.no_grad()
    def decode(self, inputs: Inputs) -> list[list[str]]:
        """Return the tags of the mentions that BART writes, taking the best output at each step (Eq. 4)."""
        with self.prompt.appended(None):
            sequences = self._generate(self._encode(inputs))
        lengths = inputs.mask.sum(1).tolist()
        return [
            self.scheme.encode(self.output_space.spans(sequence, length), length)
            for sequence, length in zip(sequences, lengths, strict=True)
        ]

    def _generate(self, encoded: _EncodedSentences) -> list[list[int]]:
        """Return the outputs of each sentence, without the end; a finished sentence leaves the batch."""
        from transformers import DynamicCache, EncoderDecoderCache

        found: list[list[int]] = [[] for _ in encoded.states]
        rows = list(range(len(found)))
        past = EncoderDecoderCache(DynamicCache(), DynamicCache())
        following = self._start_embeddings(encoded)
        words = encoded.possible.shape[1] - self.output_space.first_word
        # A mention has at least one word; an untrained model would never stop.
        for _ in range(min(3 * words, self.config.longest, self.network.config.max_position_embeddings - 2)):
            best = self._output_scores(encoded, self._decoder_states(encoded, following, past))[:, -1].argmax(1)
            outputs = best.tolist()  # the only point of a step that waits for the GPU
            going = [place for place, output in enumerate(outputs) if output != END]
            if not going:
                break
            if len(going) < len(outputs):
                kept = torch.tensor(going, device=best.device)
                past.batch_select_indices(kept)
                encoded, best = encoded.rows(kept), best[kept]
                rows, outputs = [rows[place] for place in going], [outputs[place] for place in going]
            for row, output in zip(rows, outputs, strict=True):
                found[row].append(output)
            following = encoded.embedded[torch.arange(len(best), device=best.device), best][:, None]
        return found


def load_bart(origin: str) -> Any:
    """Load BART's encoder and decoder from a folder; raise `ModelError` if a weight is missing."""
    name = shown_name(origin)
    try:
        with quiet_transformers():
            kind = load_configuration(origin).model_type
            if kind != "bart":
                raise ModelError(f"{name!r} is a model of kind {kind!r}; name a BART, such as facebook/bart-base")
            network, lacking = load_bart_network(origin)
    except UnloadableError as error:
        raise ModelError(
            f"no BART could be loaded from {name!r}: name a Hugging Face id that is cached here, or a folder with "
            "config.json and model.safetensors"
        ) from error
    if lacking:
        raise ModelError(
            f"{name}: {len(lacking)} weights of BART are missing; name a folder whose model.safetensors "
            "is complete, such as that of facebook/bart-base"
        )
    return network


FAMILY = ModelFamily(
    name=LightNer.kind,
    tasks=("ner", "deidentify"),
    chosen_by=("bart",),
    configure=lambda choice: with_settings(LightNerConfig(bart=choice.bart), choice.options, "LightNER"),
    build=lambda config, labels, choice: LightNer(config, labels.types),
    save=lambda model, folder: save_encoder_model(model, folder, model.tag_set.types),
    load=lambda folder, card: load_parts(
        LightNer(read_configuration(LightNerConfig, card, folder), tag_set_of(card, folder), source=str(folder)), folder
    ),
    training=lambda choice: ADAPTER_TRAINING,
)
