"""A classifier of entity pairs on any Hugging Face encoder (FedED, Section 3.2).

Four markers, <e1> </e1> <e2> </e2>, surround the two mentions. They are rows of the encoder's embeddings, after those
of its vocabulary, and so belong to the group `embeddings`. Each is drawn from a normal distribution with the mean and
the deviation of the vocabulary's rows in each dimension. The tokenizer does not know them, so no note can contain one.

A saved folder holds the encoder as a Hugging Face folder, and the output layer in `output.safetensors`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence

from wardround.errors import ModelError, TextError
from wardround.models.encoders import (
    MINILM,
    PieceTokenizer,
    encoder_folder,
    encoder_layer,
    in_layer_order,
    token_network,
)
from wardround.models.families import (
    ENCODER_TRAINING,
    ModelFamily,
    check_share,
    check_size,
)
from wardround.models.model_files import (
    OUTPUT,
    load_parts,
    read_configuration,
    relation_set_of,
    save_encoder_model,
)
from wardround.models.parameter_split import OUTPUT_GROUPS, LayeredModel, ParameterSplit
from wardround.models.pretrained import shown_name
from wardround.settings import with_settings
from wardround.text.relation_sets import RelationSet

__all__ = [
    "CONTEXT",
    "FAMILY",
    "FIRST",
    "SECOND",
    "MarkedText",
    "PairPieces",
    "Part",
    "RelationClassifier",
    "RelationClassifierConfig",
    "RelationInputs",
]

CONTEXT, FIRST, SECOND = 0, 1, 2  # the owner of a part of the text: none, e1 or e2
_MARKERS = 4
_TEXTS_AT_ONCE = 1024  # texts tokenized at once: bounds memory


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of text that is context, or belongs to one of the two mentions."""

    words: str = field(repr=False)
    owner: int = CONTEXT


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A text with two marked mentions, as parts in order; a discontinuous mention has several parts."""

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        if not {FIRST, SECOND} <= {part.owner for part in self.parts}:
            raise TextError("a text for the relation classifier needs both of its mentions marked")

    def __len__(self) -> int:
        return sum(len(part.words) for part in self.parts)


@dataclass(frozen=True, slots=True)
class PairPieces:
    """A marked text as word pieces, including markers and special pieces."""

    ids: tuple[int, ...] = field(repr=False)
    owners: tuple[int, ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class RelationInputs:
    """A batch of marked texts as tensors."""

    ids: Tensor  # [batch, pieces]
    attention: Tensor  # [batch, pieces]
    owners: Tensor  # [batch, pieces]: CONTEXT, FIRST or SECOND

    def to(self, device: torch.device) -> RelationInputs:
        """Return a copy on another device."""
        return RelationInputs(self.ids.to(device), self.attention.to(device), self.owners.to(device))


@dataclass(frozen=True)
class RelationClassifierConfig:
    """Which encoder to use, which pairs it classifies, and how they are written."""

    encoder: str = "minilm"  # Hugging Face id, folder, "minilm", or a compact size to train from scratch
    dropout: float = 0.1
    limit: int = 256  # pieces of a text, including markers and special pieces
    window: int = 1  # consecutive sentences that may contain the two mentions
    blinding: bool = True  # replace each mention by its type
    shared: tuple[str, ...] = ()  # layer groups; empty shares all except the output

    def __post_init__(self) -> None:
        check_share("dropout", self.dropout)
        check_size("limit", self.limit, least=_MARKERS + 4)
        check_size("window", self.window, least=1)


class RelationClassifier(LayeredModel):
    """A classifier with the layer groups `embeddings`, `layer_0` …, `output`."""

    kind = "relation-classifier"

    def __init__(self, config: RelationClassifierConfig, relations: RelationSet, *, source: str | None = None) -> None:
        """Build from `config.encoder`, or from the folder `source` of a saved model."""
        super().__init__()
        self.config, self.relations = config, relations
        self.class_rows = {name: row for row, name in enumerate(relations.names)}
        origin = source or encoder_folder(config.encoder)
        self.tokenizer = PieceTokenizer(origin, limit=config.limit, overlap=0)
        if not self.tokenizer.prefix:
            raise ModelError(f"{shown_name(origin)}: the encoder has no piece such as [CLS] before a text")
        self.network = token_network(config.encoder, origin, fresh=source is None).base_model
        if source is None:
            _add_markers(self.network)
        self.first_marker = self.network.get_input_embeddings().num_embeddings - _MARKERS
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(3 * self.network.config.hidden_size, len(relations.names))  # W, b of Eq. 2
        shared = config.shared or tuple(group for group in self.groups if group not in OUTPUT_GROUPS)
        self.split = ParameterSplit.sharing(shared, self.groups)

    def settings(self) -> dict[str, Any]:
        """Return the configuration as plain values."""
        return asdict(self.config)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Return the classes of a pair, and the types of entities that they may connect."""
        return (*self.relations.names, repr(self.relations))

    @property
    def saved_parts(self) -> dict[str, nn.Module]:
        """Return the output layer, by the name of its file."""
        return {OUTPUT: self.output}

    @property
    def groups(self) -> tuple[str, ...]:
        """Return the groups; every layer of the encoder is one."""
        found = {self.group_of(name) for name, _ in self.named_parameters()}
        return (*in_layer_order(found), "output")

    def group_of(self, parameter: str) -> str:
        """Return the group of a parameter: `network.encoder.layer.3…` is in `layer_3`."""
        return encoder_layer(parameter) or ("output" if parameter.startswith("output.") else "embeddings")

    def pieces(self, texts: Sequence[MarkedText]) -> list[PairPieces | None]:
        """Tokenize texts, with context cut to the limit; None if both mentions do not fit together."""
        rows: list[PairPieces | None] = []
        for at in range(0, len(texts), _TEXTS_AT_ONCE):
            some = texts[at : at + _TEXTS_AT_ONCE]
            # A tokenizer rejects half a surrogate pair, which JSON can bring into a text.
            spelled = [part.words.strip().encode("utf-8", "replace").decode() for text in some for part in text.parts]
            # A note that contains "[SEP]" contains five characters: only the tokenizer itself adds special pieces.
            cut = self.tokenizer.tokenizer(spelled, add_special_tokens=False, split_special_tokens=True, verbose=False)
            pieces = iter(cut["input_ids"])
            rows += [self._marked_pieces([(next(pieces), part.owner) for part in text.parts]) for text in some]
        return rows

    def collate(self, rows: Sequence[PairPieces]) -> RelationInputs:
        """Combine tokenized texts into one batch."""
        padding = self.tokenizer.tokenizer.pad_token_id or 0
        ids = pad_sequence([torch.tensor(row.ids) for row in rows], batch_first=True, padding_value=padding)
        owners = pad_sequence([torch.tensor(row.owners) for row in rows], batch_first=True, padding_value=CONTEXT)
        lengths = torch.tensor([len(row) for row in rows])
        return RelationInputs(ids, (torch.arange(ids.shape[1])[None] < lengths[:, None]).long(), owners)

    def prepare(self, texts: Sequence[MarkedText]) -> RelationInputs:
        """Convert texts to the tensors that this model reads; raise `ModelError` if one does not fit."""
        rows = self.pieces(texts)
        fitting = [row for row in rows if row is not None]
        if not rows:
            raise ModelError("there is no text to prepare")
        if len(fitting) < len(rows):
            raise ModelError(
                f"{len(rows) - len(fitting)} of {len(rows)} texts do not fit {self.config.limit} pieces "
                "even without their context; leave them out or raise the limit"
            )
        return self.collate(fitting)

    def logits(self, inputs: RelationInputs) -> Tensor:
        """Return a score for each class, [batch, classes]."""
        states = self.network(inputs.ids, attention_mask=inputs.attention).last_hidden_state
        mentions = [(states * (inputs.owners == owner)[..., None]).sum(1) for owner in (FIRST, SECOND)]
        scores: Tensor = self.output(self.dropout(torch.cat([states[:, 0], *mentions], dim=-1)))  # Eq. 1
        return scores

    def loss(self, inputs: RelationInputs, labels: Tensor) -> Tensor:
        """Return the mean cross-entropy of the right classes, [batch] (Eq. 3)."""
        # torch ignores a label of −100 silently.
        if labels.numel() and not 0 <= int(labels.min()) <= int(labels.max()) < len(self.class_rows):
            raise ModelError(f"a label lies outside the {len(self.class_rows)} classes of the model")
        return cross_entropy(self.logits(inputs).float(), labels)

    def _marked_pieces(self, parts: Sequence[tuple[list[int], int]]) -> PairPieces | None:
        ids, owners, marks = list[int](), list[int](), list[int]()
        for pieces, owner in parts:
            before = self.first_marker + 2 * (owner - FIRST)
            around = () if owner == CONTEXT else (before, before + 1)
            marks += [len(ids), len(ids) + len(pieces) + 1] if around else []
            ids += [*around[:1], *pieces, *around[1:]]
            owners += [*[CONTEXT] * len(around[:1]), *[owner] * len(pieces), *[CONTEXT] * len(around[1:])]
        kept = _context_slice(marks[0], marks[-1] + 1, length=len(ids), room=self.tokenizer.limit)
        if kept is None:
            return None
        prefix, suffix = self.tokenizer.prefix, self.tokenizer.suffix
        outside = [CONTEXT] * len(prefix), [CONTEXT] * len(suffix)
        return PairPieces((*prefix, *ids[kept], *suffix), (*outside[0], *owners[kept], *outside[1]))


def _context_slice(start: int, stop: int, *, length: int, room: int) -> slice | None:
    """Return `[start, stop)` with as much context as there is room for, the same on both sides if possible."""
    spare = room - (stop - start)
    if spare < 0:
        return None
    left = min(start, max(spare // 2, spare - (length - stop)))
    return slice(start - left, min(length, stop + spare - left))


@torch.no_grad()
def _add_markers(network: Any) -> None:
    known = network.get_input_embeddings().weight
    mean, deviation = known.mean(0), known.std(0)
    network.resize_token_embeddings(len(known) + _MARKERS, mean_resizing=False)
    drawn = mean + deviation * torch.randn(_MARKERS, known.shape[1])
    network.get_input_embeddings().weight[-_MARKERS:] = drawn


FAMILY = ModelFamily(
    name=RelationClassifier.kind,
    tasks=("relations",),
    chosen_by=("encoder", "preset"),
    default_encoder=MINILM,
    configure=lambda choice: with_settings(
        RelationClassifierConfig(encoder=choice.encoder), choice.options, "the relation classifier"
    ),
    build=lambda config, labels, choice: RelationClassifier(config, labels.named_relations),
    save=lambda model, folder: save_encoder_model(
        model, folder, [kind.name for kind in model.relations.types], model.relations
    ),
    load=lambda folder, card: load_parts(
        RelationClassifier(
            read_configuration(RelationClassifierConfig, card, folder),
            relation_set_of(card, folder),
            source=str(folder),
        ),
        folder,
    ),
    training=lambda choice: ENCODER_TRAINING,
)
