"""LightNER (Chen 2022) as Wang 2023 have it in Section 3.1: a frozen BART that writes the mentions of a sentence.

Its encoder reads the sentence; its decoder writes the start, end and type of each mention, then the end of all. What is
trained is a prompt that every layer attends to (Appendix B) and the little that turns a decoder's state into an output.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding
from torch.nn.utils.rnn import pad_sequence
from transformers import DynamicCache, EncoderDecoderCache

from wardround.errors import ModelError
from wardround.models.crf import Posterior
from wardround.models.decoders import Decoder
from wardround.models.encoders import PieceTokenizer, encoder_folder, without_remarks
from wardround.models.parameter_split import OUTPUT_GROUPS, ParameterSplit
from wardround.models.pointer_outputs import PointerOutputs
from wardround.models.pointer_sequences import END, OutputSpace, Targets, parse_labels, spoken
from wardround.models.pretrained import UnloadableError, load_bart_network, load_configuration, shown_name
from wardround.models.prompts import Prompt
from wardround.models.ranges import check_share, check_size
from wardround.models.tagging_model import Inputs, SplitLoss, TaggingModel
from wardround.text.tag_schemes import WordSpan
from wardround.text.tag_sets import TagSet

__all__ = ["LightNer", "LightNerConfig", "load_bart"]

_LAYER = re.compile(r"network\.(encoder|decoder)\.layers\.(\d+)\.")


@dataclass(frozen=True)
class LightNerConfig:
    """Which BART, and what is trained beside it."""

    bart: str = "facebook/bart-base"  # Hugging Face id or folder
    prompt_length: int = 10  # N_q
    prompt_hidden: int = 400  # h, Appendix B
    dropout: float = 0.1  # below the outputs; BART's own is as its configuration has it
    scheme: str = "BIO"
    limit: int = 512  # pieces of a sentence, special ones included; what is beyond is not read
    longest: int = 96  # outputs that are written of a sentence, three a mention
    labels: str = ""  # what is read for a type, "ADE=adverse drug effect, …"; else its name
    frozen: bool = True  # whether BART stays as it is
    shared: tuple[str, ...] = ()  # layer groups; empty shares all that train but the output

    def __post_init__(self) -> None:
        check_share("dropout", self.dropout)
        check_size("limit", self.limit, least=4)
        check_size("longest", self.longest, least=3)
        check_size("prompt_length", self.prompt_length, least=1)
        check_size("prompt_hidden", self.prompt_hidden, least=1)
        parse_labels(self.labels)


class _Read(NamedTuple):
    """Sentences that the encoder has read, with all that can be written of them: the end, the types, the words."""

    states: Tensor  # [batch, pieces, width]
    attention: Tensor  # [batch, pieces]
    vectors: Tensor  # [batch, outputs, width]: what a decoder's state is compared with
    embedded: Tensor  # [batch, outputs, width]: what the decoder reads after writing it
    possible: Tensor  # [batch, outputs]

    def rows(self, chosen: Tensor) -> _Read:
        """Some of the sentences."""
        return _Read(*(part[chosen] for part in self))


class LightNer(TaggingModel):
    """Groups, bottom to top: `embeddings`, `encoder_0` …, `decoder_0` …, `prompt`, `output`."""

    scores_tags = False
    pieces_of_names: Tensor  # [1 + types, pieces]: of the end and of each type's label
    name_mask: Tensor  # [1 + types, pieces]

    def __init__(self, config: LightNerConfig, tag_set: TagSet, *, source: str | None = None) -> None:
        """Build from `config.bart`, or, for a saved model, from the folder `source`."""
        super().__init__(tag_set, config.scheme)
        self.config = config
        self.space = OutputSpace(tag_set.types)
        origin = source or encoder_folder(config.bart)
        self.tokenizer = PieceTokenizer(origin, limit=config.limit, overlap=0)
        self.network = load_bart(origin)
        self.network.requires_grad_(not config.frozen)
        self.prompt = Prompt(self.network, length=config.prompt_length, hidden=config.prompt_hidden)
        self.output = PointerOutputs(self.network.config.d_model, self.space.first_word)
        self.dropout = nn.Dropout(config.dropout)
        self._register_names()
        shared = config.shared or tuple(g for g in self.groups if g not in OUTPUT_GROUPS and self.parameters_in((g,)))
        self.split = ParameterSplit.sharing(shared, self.groups)

    def settings(self) -> dict[str, Any]:
        """The configuration as plain values."""
        return asdict(self.config)

    @property
    def groups(self) -> tuple[str, ...]:
        """Every layer of BART is a group of its own."""
        sizes = self.network.config
        encoder = (f"encoder_{layer}" for layer in range(sizes.encoder_layers))
        decoder = (f"decoder_{layer}" for layer in range(sizes.decoder_layers))
        return ("embeddings", *encoder, *decoder, "prompt", "output", *self.aside)

    def group_of(self, parameter: str) -> str:
        """`network.decoder.layers.3…` is in `decoder_3`."""
        if layer := _LAYER.match(parameter):
            return f"{layer.group(1)}_{layer.group(2)}"
        return "embeddings" if parameter.startswith("network.") else super().group_of(parameter)

    @property
    def trainable_share(self) -> float:
        """Of all parameters, η in Section 5.4."""
        sizes = [(parameter.numel(), parameter.requires_grad) for parameter in self.parameters()]
        return sum(size for size, trained in sizes if trained) / sum(size for size, _ in sizes)

    @property
    def probe_shape(self) -> tuple[int, ...]:
        """That of the prompt."""
        return tuple(self.prompt.q.shape)

    def fresh_probe(self, sentences: int) -> Tensor:
        """A copy of the prompt for each sentence."""
        return self.prompt.q.detach().repeat(sentences, 1, 1)

    @property
    def watched_widths(self) -> tuple[int, ...]:
        """Every layer of BART's encoder; its decoder is as wide."""
        sizes = self.network.config
        return (int(sizes.d_model),) * int(sizes.encoder_layers)

    # What it cannot say.

    @property
    def decoder(self) -> Decoder:
        """There is none between scores and tags."""
        _refuse_scores()

    def emissions(self, inputs: Inputs) -> Tensor:
        """There are none."""
        _refuse_scores()

    def marginals(self, inputs: Inputs) -> Tensor:
        """There are none."""
        _refuse_scores()

    def posterior(self, inputs: Inputs, local: Tensor, *, annotated: Tensor) -> Posterior:
        """There is none."""
        _refuse_scores()

    # From words to what BART reads.

    def prepare(self, sentences: Sequence[Sequence[str]]) -> Inputs:
        """Each sentence's first window; `words` are each word's first piece, −1 where it is not read."""
        lengths = torch.tensor([len(sentence) for sentence in sentences])
        mask = torch.arange(int(lengths.max()))[None] < lengths[:, None]
        pieces, is_read = self.tokenizer.encode(sentences).first_windows()
        is_read &= mask
        words = pieces.ids.flatten()[pieces.first_piece].masked_fill(~is_read, -1)
        return Inputs(mask=mask, words=words, pieces=pieces)

    def words_read(self, sentences: Sequence[Sequence[str]]) -> list[int]:
        """As many as lie in a sentence's first window."""
        return self.tokenizer.words_in_first_windows(sentences)

    def _register_names(self) -> None:
        """The pieces of what stands for the end and for each type."""
        labels, tokenizer = parse_labels(self.config.labels), self.tokenizer.tokenizer
        spelled = [labels.get(kind, spoken(kind)) for kind in self.tag_set.types]
        pieces = tokenizer(spelled, add_special_tokens=False)["input_ids"] if spelled else []
        rows = [torch.tensor(row) for row in ([self.network.config.eos_token_id], *pieces)]
        if nameless := [kind for kind, row in zip(self.tag_set.types, pieces, strict=True) if not row]:
            raise ModelError(
                f"labels: BART has no piece of what {', '.join(nameless)} is called; give it another label"
            )
        counts = torch.tensor([len(row) for row in rows])
        padded = pad_sequence(rows, batch_first=True)
        self.register_buffer("pieces_of_names", padded, persistent=False)
        mask = torch.arange(padded.shape[1])[None] < counts[:, None]
        self.register_buffer("name_mask", mask, persistent=False)

    # Losses.

    def loss(self, inputs: Inputs, tags: Tensor) -> Tensor:
        """Mean negative log likelihood of a sentence's outputs (Eq. 3), the end included."""
        spans = self._spans(inputs, tags)
        losses, _ = self._losses(inputs, spans, [[] for _ in spans])
        return losses.sum(1).mean()

    def partial_loss(self, inputs: Inputs, allowed: Tensor) -> Tensor:
        """There is none: what is written says everything."""
        _refuse_scores()

    def split_loss(
        self,
        inputs: Inputs,
        local: Tensor,
        taught: Tensor | Posterior | None,
        *,
        annotated: Tensor,
        outside: float = 0.0,
    ) -> SplitLoss:
        """Eq. 8 and 9: of the outputs of local mentions, of those of taught ones, and of the end.

        Where nothing is taught the local mentions are all there is, of whatever types: a sequence cannot be left open,
        and `outside` has nothing to add.
        """
        if isinstance(taught, Posterior):
            _refuse_scores()
        own = self._spans(inputs, local)
        complete = own if taught is None else self._spans(inputs, taught)
        added = [[span for span in spans if span not in known] for spans, known in zip(complete, own, strict=True)]
        losses, targets = self._losses(inputs, own, added)
        ends = targets.outputs == END
        source, silence = ((losses * part).sum(1) for part in (~targets.taught & ~ends, ends))
        # A target without a gradient says that none need be asked for.
        target = losses.new_zeros(len(own)) if taught is None else (losses * targets.taught).sum(1)
        return SplitLoss(source, target, silence)

    def _losses(
        self, inputs: Inputs, local: Sequence[Sequence[WordSpan]], taught: Sequence[Sequence[WordSpan]]
    ) -> tuple[Tensor, Targets]:
        """−log p of each output, [batch, steps], zero behind the end."""
        made = self.space.targets(local, taught, most=(self.network.config.max_position_embeddings - 2) // 3)
        targets = Targets(*(part.to(inputs.mask.device) for part in made))
        with self.prompt.given(self.probe):
            read = self._read(inputs)
            steps = targets.outputs[:, :-1, None].expand(-1, -1, read.embedded.shape[2])
            written = torch.cat([self._beginning(read), read.embedded.gather(1, steps)], 1)
            states = self._decoded(read, written)[:, -targets.outputs.shape[1] :]
            scores = self._compared(read, states)
        if self.watched is not None:
            self.watched.add_decoded(states, targets.written)
            if self.watched.predictions:
                self.watched.predicted = scores.softmax(2)[targets.taught]
        chosen = scores.log_softmax(2).gather(2, targets.outputs[:, :, None])[:, :, 0]
        return -chosen.masked_fill(~targets.written, 0.0), targets

    def _spans(self, inputs: Inputs, tags: Tensor) -> list[list[WordSpan]]:
        """The mentions in rows of tags, but for those that BART does not read."""
        assert inputs.words is not None, "prepare() of this model always makes words"
        lengths, ends = inputs.mask.sum(1).tolist(), (inputs.words >= 0).sum(1).tolist()
        found = []
        for row, length, end in zip(tags.tolist(), lengths, ends, strict=True):
            spans = self.scheme.spans([self.tags[tag] for tag in row[:length]])
            found.append([span for span in spans if span.end <= end])
        return found

    # Reading and writing.

    def _read(self, inputs: Inputs) -> _Read:
        assert inputs.pieces is not None and inputs.words is not None, "prepare() of this model always makes both"
        pieces, table = inputs.pieces, self.network.shared.weight
        encoded = self.network.encoder(
            pieces.ids, attention_mask=pieces.attention, output_hidden_states=self.watched is not None
        )
        states = encoded.last_hidden_state
        if self.watched is not None:
            for layer in encoded.hidden_states[1:]:  # the first are the embeddings
                self.watched.add(pieces.gather(layer), inputs.words >= 0)
        spelled = embedding(inputs.words.clamp(min=0), table)
        words = self.output.words(pieces.gather(states), spelled)
        names = self._names(table).expand(len(words), -1, -1)
        always = inputs.mask.new_ones(names.shape[:2])
        return _Read(
            states=states,
            attention=pieces.attention,
            vectors=torch.cat([names, words], 1),
            embedded=torch.cat([names, spelled], 1) * self.network.shared.embed_scale,
            possible=torch.cat([always, inputs.words >= 0], 1),
        )

    def _names(self, table: Tensor) -> Tensor:
        """What the end and the types are called, in BART's own embeddings, and what was learned beyond that."""
        mask = self.name_mask[:, :, None]
        mean = (embedding(self.pieces_of_names, table) * mask).sum(1) / mask.sum(1)
        return mean + self.output.beyond_names

    def _beginning(self, read: _Read) -> Tensor:
        """What the decoder reads before its first output, as in BART's training: </s> and <s>."""
        sizes = self.network.config
        start = torch.tensor([sizes.decoder_start_token_id, sizes.bos_token_id], device=read.states.device)
        embedded: Tensor = self.network.shared(start).expand(len(read.states), -1, -1)
        return embedded

    def _scores(self, read: _Read, written: Tensor, past: EncoderDecoderCache | None = None) -> Tensor:
        """Of every output after each of the embeddings `written`, [batch, steps, outputs]."""
        return self._compared(read, self._decoded(read, written, past))

    def _decoded(self, read: _Read, written: Tensor, past: EncoderDecoderCache | None = None) -> Tensor:
        """The decoder's state after each of them, [batch, steps, width]."""
        states: Tensor = self.network.decoder(
            inputs_embeds=written,
            encoder_hidden_states=read.states,
            encoder_attention_mask=read.attention,
            past_key_values=past,
            use_cache=past is not None,
        ).last_hidden_state
        return states

    def _compared(self, read: _Read, states: Tensor) -> Tensor:
        """The score of every output after each state, [batch, steps, outputs]."""
        scores: Tensor = (self.dropout(states) @ read.vectors.transpose(1, 2)).float()
        return scores.masked_fill(~read.possible[:, None], -torch.inf)

    @torch.no_grad()
    def decode(self, inputs: Inputs) -> list[list[str]]:
        """The tags of the mentions that the trained prompt has BART write, the best output at each step (Eq. 4)."""
        with self.prompt.given(None):
            sequences = self._written(self._read(inputs))
        lengths = inputs.mask.sum(1).tolist()
        return [
            self.scheme.encode(self.space.spans(sequence, length), length)
            for sequence, length in zip(sequences, lengths, strict=True)
        ]

    def _written(self, read: _Read) -> list[list[int]]:
        """The outputs of each sentence, without the end; a sentence that has ended leaves the batch."""
        found: list[list[int]] = [[] for _ in read.states]
        rows = list(range(len(found)))
        past = EncoderDecoderCache(DynamicCache(), DynamicCache())
        following = self._beginning(read)
        words = read.possible.shape[1] - self.space.first_word
        # A mention takes a word at least; an untrained model would go on for ever.
        for _ in range(min(3 * words, self.config.longest, self.network.config.max_position_embeddings - 2)):
            best = self._scores(read, following, past)[:, -1].argmax(1)
            outputs = best.tolist()  # the one thing of a step that a GPU is waited for
            going = [place for place, output in enumerate(outputs) if output != END]
            if not going:
                break
            if len(going) < len(outputs):
                kept = torch.tensor(going, device=best.device)
                past.batch_select_indices(kept)
                read, best = read.rows(kept), best[kept]
                rows, outputs = [rows[place] for place in going], [outputs[place] for place in going]
            for row, output in zip(rows, outputs, strict=True):
                found[row].append(output)
            following = read.embedded[torch.arange(len(best), device=best.device), best][:, None]
        return found


def load_bart(origin: str) -> Any:
    """BART's encoder and decoder from a folder; all of their weights must be there."""
    name = shown_name(origin)
    try:
        with without_remarks():
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
            "holds a whole one, such as that of facebook/bart-base"
        )
    return network


def _refuse_scores() -> NoReturn:
    raise ModelError("this model writes mentions and has no scores of tags; name an encoder or a preset in its place")
