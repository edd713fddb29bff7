"""Entities and the relations among them from one pass of any Hugging Face encoder.

The text is read as it is: no mention is marked or replaced, so that one pass serves both heads and every pair. The
entity head scores the tags of each word. The relation head scores a pair of spans from the states of their words, the
states of the words between them, the two entity types, and which of the two comes first.

A saved folder is that of an encoder tagger, with the relation head in `output.safetensors`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from wardround.errors import ModelError
from wardround.models.decoders import Decoder, IndependentWords, LinearChainCrf, mention_probabilities
from wardround.models.encoders import (
    MINILM,
    PieceBatch,
    PieceTokenizer,
    encoder_folder,
    encoder_layer,
    in_layer_order,
    token_network,
)
from wardround.models.families import (
    ENCODER_TRAINING,
    ModelFamily,
    check_choice,
    check_share,
    check_size,
)
from wardround.models.model_files import (
    CRF,
    OUTPUT,
    load_parts,
    read_configuration,
    relation_set_of,
    save_encoder_model,
    tag_set_of,
)
from wardround.models.parameter_split import OUTPUT_GROUPS, LayeredModel, ParameterSplit
from wardround.settings import with_settings
from wardround.text.relation_sets import RelationSet
from wardround.text.tag_schemes import SCHEMES, ScoredTags, WordSpan
from wardround.text.tag_sets import TagSet

__all__ = ["FAMILY", "JointExtractor", "JointExtractorConfig", "PairRows", "RelationHead", "SpanPair"]

_TYPE_WIDTH = 32  # width of the learned vectors of an entity type and of the order of the two mentions


class SpanPair(NamedTuple):
    """Two mentions of a text as spans of words; the relation runs from head to tail."""

    head: WordSpan
    tail: WordSpan

    @property
    def between(self) -> tuple[int, int]:
        """Return the range of words between the two."""
        start = min(self.head.end, self.tail.end)
        return start, max(start, self.head.start, self.tail.start)


@dataclass(frozen=True)
class PairRows:
    """All pairs of a batch of texts as tensors."""

    texts: Tensor  # [pairs]: row of the text in its batch
    words: Tensor  # [pairs, 3, 2]: first word, and one past the last, of head, tail and the words between
    types: Tensor  # [pairs, 2]: rows of the types of head and tail
    turned: Tensor  # [pairs]: 1 if the tail comes first, else 0

    def to(self, device: torch.device) -> PairRows:
        """Return a copy on another device."""
        return PairRows(*(part.to(device) for part in (self.texts, self.words, self.types, self.turned)))


@dataclass(frozen=True)
class JointExtractorConfig:
    """Which encoder to use, what is on top of it, and which pairs it classifies."""

    encoder: str = "minilm"  # Hugging Face id, folder, "minilm", or a compact size to train from scratch
    decoder: str = "softmax"  # crf | softmax
    scheme: str = "BIO"
    dropout: float = 0.1
    limit: int = 256  # pieces in a window of the encoder, including special pieces
    overlap: int = 64  # pieces that neighbouring windows share
    window: int = 1  # consecutive sentences that may contain the two mentions
    shared: tuple[str, ...] = ()  # layer groups; empty shares all except the output

    def __post_init__(self) -> None:
        check_choice("decoder", self.decoder, ("crf", "softmax"))
        check_choice("scheme", self.scheme, tuple(SCHEMES))
        check_share("dropout", self.dropout)
        check_size("limit", self.limit, least=4)
        check_size("overlap", self.overlap, least=0)
        check_size("window", self.window, least=1)


class RelationHead(nn.Module):
    """Layers that score the classes of a pair of spans from the states of the words of its text."""

    def __init__(self, width: int, *, types: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.types = nn.Embedding(types, _TYPE_WIDTH)
        self.order = nn.Embedding(2, _TYPE_WIDTH)
        self.dropout = nn.Dropout(dropout)
        self.hidden = nn.Linear(3 * width + 3 * _TYPE_WIDTH, width)
        self.classes = nn.Linear(width, classes)

    def forward(self, states: Tensor, pairs: PairRows) -> Tensor:
        """Map states [batch, words, width] to scores [pairs, classes]."""
        # The mean state of the words of head, tail and the words between; zero without words.
        sums = pad(states.cumsum(1), (0, 0, 1, 0))  # sums over the words before each position
        start, stop = pairs.words.unbind(2)
        held = sums[pairs.texts[:, None], stop] - sums[pairs.texts[:, None], start]
        spans = held / (stop - start).clamp(min=1)[..., None]  # [pairs, 3, width]
        kinds = self.types(pairs.types)  # [pairs, 2, …]
        whole = torch.cat([spans.flatten(1), kinds.flatten(1), self.order(pairs.turned)], dim=1)
        scores: Tensor = self.classes(self.dropout(self.hidden(self.dropout(whole)).relu()))
        return scores


class JointExtractor(LayeredModel):
    """An extractor with the layer groups `embeddings`, `layer_0` …, `output` of both heads, and optionally `crf`."""

    kind = "joint-extractor"

    def __init__(
        self, config: JointExtractorConfig, tag_set: TagSet, relations: RelationSet, *, source: str | None = None
    ) -> None:
        """Build from `config.encoder`, or from the folder `source` of a saved model."""
        super().__init__()
        _check_ends(tag_set, relations)
        self.config, self.tag_set, self.relations = config, tag_set, relations
        self.scheme = SCHEMES[config.scheme]
        self.tags = tag_set.tags(self.scheme)
        self.tag_rows = {tag: row for row, tag in enumerate(self.tags)}
        self.type_rows = {kind: row for row, kind in enumerate(tag_set.types)}
        self.class_rows = {name: row for row, name in enumerate(relations.names)}
        origin = source or encoder_folder(config.encoder)
        self.tokenizer = PieceTokenizer(origin, limit=config.limit, overlap=config.overlap)
        self.network = token_network(config.encoder, origin, fresh=source is None, labels=self.tags)
        self.dropout = nn.Dropout(config.dropout)
        if config.decoder == "crf":
            self.crf = LinearChainCrf(self.tags, self.scheme)
        else:
            self.independent = IndependentWords(self.tags, self.scheme)
        self.relation_head = RelationHead(
            self.network.config.hidden_size,
            types=len(tag_set.types),
            classes=len(relations.names),
            dropout=config.dropout,
        )
        shared = config.shared or tuple(group for group in self.groups if group not in OUTPUT_GROUPS)
        self.split = ParameterSplit.sharing(shared, self.groups)

    def settings(self) -> dict[str, Any]:
        """Return the configuration as plain values."""
        return asdict(self.config)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Return the tags, then the classes of a pair and the types of entities that they may connect."""
        return (*self.tags, *self.relations.names, repr(self.relations))

    @property
    def decoder(self) -> Decoder:
        """Return the CRF, or the decoder of independent words."""
        return self.crf if self.config.decoder == "crf" else self.independent

    @property
    def saved_parts(self) -> dict[str, nn.Module]:
        """Return the relation head, and the CRF if the model has one, by the names of their files."""
        parts: dict[str, nn.Module] = {CRF: self.crf} if self.config.decoder == "crf" else {}
        return parts | {OUTPUT: self.relation_head}

    @property
    def not_distillable(self) -> str:
        """Return why the model cannot be distilled, if its decoder does not treat words independently."""
        return "" if self.decoder.independent else "ends in a CRF"

    @property
    def groups(self) -> tuple[str, ...]:
        """Return the groups; every layer of the encoder is one."""
        found = {self.group_of(name) for name, _ in self.named_parameters()}
        return tuple(g for g in (*in_layer_order(found), *OUTPUT_GROUPS) if g in found)

    def group_of(self, parameter: str) -> str:
        """Return the group of a parameter: `network.bert.encoder.layer.3…` is in `layer_3`."""
        if parameter.startswith("crf."):
            return "crf"
        if layer := encoder_layer(parameter):
            return layer
        return "embeddings" if parameter.startswith(f"network.{self.network.base_model_prefix}.") else "output"

    def prepare(self, texts: Sequence[Sequence[str]]) -> PieceBatch:
        """Convert texts of words to the tensors that this model reads."""
        if not texts or not all(texts):
            raise ModelError("there is no word to prepare; leave empty texts out")
        return self.tokenizer.encode(texts)

    def pair_rows(self, pairs: Sequence[tuple[int, SpanPair]], lengths: Sequence[int]) -> PairRows:
        """Convert pairs, each with the row of its text in the batch, to tensors; `lengths` are the texts' words."""
        if not all(0 <= span.start < span.end <= lengths[text] for text, pair in pairs for span in pair):
            raise ModelError("a mention of a pair is empty or lies outside its text")
        unknown = sorted({span.type for _, pair in pairs for span in pair} - self.type_rows.keys())
        if unknown:
            known = ", ".join(self.type_rows)
            raise ModelError(f"no entity type of the model is called {unknown[0]!r}; it has {known}")
        words = [[pair.head[:2], pair.tail[:2], pair.between] for _, pair in pairs]
        types = [[self.type_rows[span.type] for span in pair] for _, pair in pairs]
        return PairRows(
            torch.tensor([text for text, _ in pairs], dtype=torch.long),
            torch.tensor(words, dtype=torch.long).reshape(-1, 3, 2),
            torch.tensor(types, dtype=torch.long).reshape(-1, 2),
            torch.tensor([pair.tail[:2] < pair.head[:2] for _, pair in pairs], dtype=torch.long),
        )

    def states(self, pieces: PieceBatch) -> Tensor:
        """Return the state of each word's first piece, [batch, words, width], which both heads read."""
        states = self.network.base_model(pieces.ids, attention_mask=pieces.attention).last_hidden_state
        return pieces.gather(states).float()

    def emissions(self, states: Tensor) -> Tensor:
        """Return a score for each word and tag, [batch, words, tags]."""
        scores: Tensor = self.network.classifier(self.dropout(states))
        return scores.float()

    def relation_scores(self, states: Tensor, pairs: PairRows) -> Tensor:
        """Return a score for each pair and class, [pairs, classes]."""
        scores: Tensor = self.relation_head(states, pairs)
        return scores.float()

    def tag_loss(self, emissions: Tensor, mask: Tensor, tags: Tensor) -> Tensor:
        """Return the negative log likelihood of the tags [batch, words], summed over the texts."""
        return -self.decoder.log_likelihood(emissions, mask, tags).sum()

    def relation_loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Return the negative log likelihood of the classes [pairs], summed over the pairs."""
        # torch ignores a label of −100 silently.
        if labels.numel() and not 0 <= int(labels.min()) <= int(labels.max()) < len(self.class_rows):
            raise ModelError(f"a label lies outside the {len(self.class_rows)} classes of the model")
        return cross_entropy(scores, labels, reduction="sum")

    def decode(self, emissions: Tensor, mask: Tensor, *, scored: bool = False) -> list[ScoredTags]:
        """Return the best legal tags of each text, and if `scored`, the probabilities of their mentions."""
        best = self.decoder.best(emissions, mask)
        rows, lengths = best.tolist(), mask.sum(1).tolist()
        tags = [[self.tags[row] for row in found[:length]] for found, length in zip(rows, lengths, strict=True)]
        if not scored:
            return list(map(ScoredTags, tags))
        likely = mention_probabilities(self.decoder, emissions, mask, best=best, tags=self.tags, scheme=self.scheme)
        return list(map(ScoredTags, tags, likely))


def _check_ends(tag_set: TagSet, relations: RelationSet) -> None:
    if not tag_set.types:
        raise ModelError("the tag set has no entity type, so there is nothing to relate; name at least one")
    for kind in relations.types:
        unknown = sorted({end for pair in kind.ends for end in pair if end not in tag_set})
        if unknown:
            raise ModelError(
                f"relation {kind.name!r} may run between entities of type {unknown[0]!r}, which the tag set does not "
                f"have; it has {', '.join(tag_set.types)}"
            )


FAMILY = ModelFamily(
    name=JointExtractor.kind,
    tasks=("joint",),
    chosen_by=("encoder", "preset"),
    default_encoder=MINILM,
    configure=lambda choice: with_settings(
        JointExtractorConfig(encoder=choice.encoder), choice.options, "the joint extractor"
    ),
    build=lambda config, labels, choice: JointExtractor(config, labels.types, labels.named_relations),
    save=lambda model, folder: save_encoder_model(model, folder, model.tag_set.types, model.relations),
    load=lambda folder, card: load_parts(
        JointExtractor(
            read_configuration(JointExtractorConfig, card, folder),
            tag_set_of(card, folder),
            relation_set_of(card, folder),
            source=str(folder),
        ),
        folder,
    ),
    training=lambda choice: ENCODER_TRAINING,
)
