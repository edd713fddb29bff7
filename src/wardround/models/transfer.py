"""Layer-wise transfer (Lee 2017, Section 4.2): a trained tagger's lower layers as the beginning of another tagger.

Layers are taken bottom to top, up to a named one; what lies above starts fresh. Where the two taggers differ in words
or in tags, rows are matched by word and by tag; where a layer has another shape or meaning it is skipped, and with it
all that rests on it. Layers are the groups of a model, but for the characters, whose embedding is a layer of its own
below the rest of them, as in the paper's Figure 3.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from wardround.errors import ModelError
from wardround.models.encoder_tagger import EncoderTagger
from wardround.models.parameter_split import LayeredModel
from wardround.models.saved import load_model, model_card
from wardround.models.vocabulary import RESERVED, HashedWords, ListedWords
from wardround.models.word_tagger import WordTagger
from wardround.settings import did_you_mean

__all__ = [
    "LayerTransfer",
    "Tagger",
    "TransferReport",
    "freeze",
    "layers_of",
    "layers_up_to",
    "load_source",
    "transferred",
    "warm_start",
]

Tagger: TypeAlias = WordTagger | EncoderTagger
How: TypeAlias = Literal["copied", "resized", "skipped", "fresh"]

_SPELLED = "characters.embedding"
# They stand side by side at the bottom: none of them reads another.
_INPUTS = ("words", _SPELLED, "characters", "contextual")
_ROWS_OF_TAGS = ("output.", "network.classifier.", "crf.")
_SQUARE_OF_TAGS = "crf.step"
_READ_BY = ("model_type", "num_attention_heads", "hidden_act")  # what the shapes of an encoder's layers do not show
_NAMED = 6  # fresh tags that a reason names


@dataclass(frozen=True)
class LayerTransfer:
    """What became of one layer."""

    layer: str
    parameters: int  # numbers that it has in the target
    taken: int  # of those, how many are the source's
    how: How
    why: str = ""


@dataclass(frozen=True)
class TransferReport:
    """What a transfer takes from a source, layer by layer, bottom to top."""

    up_to: str
    layers: tuple[LayerTransfer, ...]
    weights: Mapping[str, Tensor] = field(repr=False, compare=False)  # of the target, by name

    @property
    def taken(self) -> int:
        """Numbers that are the source's."""
        return sum(layer.taken for layer in self.layers)

    @torch.no_grad()
    def put_into(self, target: LayeredModel) -> None:
        """Give the target, or another network built like it, what was taken."""
        parameters = {_plain(name): parameter for name, parameter in target.named_parameters()}
        for name, weights in self.weights.items():
            parameters[name].copy_(weights)

    def as_values(self) -> dict[str, Any]:
        """Plain values for a model card; the digest tells one source from another."""
        digest = sha256()
        for name, weights in sorted(self.weights.items()):
            digest.update(name.encode() + weights.detach().cpu().numpy().tobytes())
        return {
            "up_to": self.up_to,
            "layers": [asdict(layer) for layer in self.layers],
            "weights_sha256": digest.hexdigest(),
        }


@dataclass(frozen=True)
class _Taken:
    """What of one layer comes from the source; without weights it is skipped, and `why` says why."""

    weights: Mapping[str, Tensor] = field(default_factory=dict)
    numbers: int = 0
    why: str = ""


_Layer: TypeAlias = dict[str, nn.Parameter]


def load_source(folder: Path) -> Tagger:
    """The tagger in a model folder, or in the run folder around one."""
    inner = folder / "model"
    place = inner if inner.is_dir() and not (folder / "wardround.json").is_file() else folder
    kind = model_card(place)["kind"]
    model = load_model(place)
    if not isinstance(model, WordTagger | EncoderTagger):
        raise ModelError(f"{folder.name} holds a model of kind {kind}; layers go from a word or encoder tagger only")
    return model


def warm_start(
    target: LayeredModel, folder: Path, *, up_to: str = "", only: Collection[str] | None = None
) -> TransferReport:
    """Have `target` begin from the model saved in `folder`; without `up_to`, from all of its layers that fit.

    `only` names the parameters of the target that may; the others stay as they are.
    """
    if not isinstance(target, WordTagger | EncoderTagger):
        raise ModelError("only a word tagger or an encoder tagger can begin from another model")
    report = transferred(load_source(folder), target, up_to=up_to)
    if only is not None:
        names = {_plain(name) for name in only}
        report = replace(report, weights={name: part for name, part in report.weights.items() if name in names})
    report.put_into(target)
    return report


def layers_of(model: LayeredModel) -> dict[str, _Layer]:
    """The parameters of each layer, bottom to top, under the names they have without an adapter."""
    aside = getattr(model, "aside", ())
    names = [name for group in model.groups if group not in aside for name in _split(group)]
    found: dict[str, _Layer] = {name: {} for name in names}
    for name, parameter in model.named_parameters():
        layer = _SPELLED if name.startswith(f"{_SPELLED}.") else model.group_of(name)
        if layer in found:
            found[layer][_plain(name)] = parameter
    return found


def layers_up_to(model: LayeredModel, last: str) -> tuple[str, ...]:
    """The names of the layers from the bottom up to `last`."""
    names = list(layers_of(model))
    _check_known(last, names)
    return tuple(names[: names.index(last) + 1])


def freeze(model: LayeredModel, names: Sequence[str]) -> tuple[str, ...]:
    """Have the named layers stay as they are in any training; returns them bottom to top."""
    layers = layers_of(model)
    for name in names:
        _check_known(name, list(layers))
    chosen = tuple(layer for layer in layers if layer in names or layer.partition(".")[0] in names)
    left = (parameter for layer, held in layers.items() if layer not in chosen for parameter in held.values())
    if not any(parameter.requires_grad for parameter in left):
        raise ModelError("every layer would be frozen, and nothing left to train; name fewer")
    for layer in chosen:
        for parameter in layers[layer].values():
            parameter.requires_grad_(False)
    return chosen


def transferred(source: Tagger, target: Tagger, *, up_to: str = "", past_gaps: bool = False) -> TransferReport:
    """What `target` takes from `source`, from the bottom up to layer `up_to`; neither model is changed.

    Without `up_to`, all layers. Above a layer that is skipped nothing is taken, unless `past_gaps` says so.
    """
    theirs, mine = layers_of(source), layers_of(target)
    last = up_to or list(theirs)[-1]
    _check_known(last, list(theirs), "of the source ")
    order = _merged(list(mine), list(theirs))
    place = order.index(last) + 1
    rows: list[LayerTransfer] = []
    weights: dict[str, Tensor] = {}
    for layer in order[:place]:
        gap = "" if past_gaps else _gap_below(layer, rows)
        taken = _Taken(why=f"it rests on {gap}, which was skipped") if gap else _layer(source, target, layer)
        weights |= taken.weights
        size = _size(mine.get(layer, {}))
        rows.append(LayerTransfer(layer, size, taken.numbers, _how(taken, theirs.get(layer, {}), size), taken.why))
    if not weights:
        raise ModelError(f"nothing of the source fits: {'; '.join(f'{row.layer}: {row.why}' for row in rows[:3])}")
    above = (layer for layer in order[place:] if layer in mine)
    rows += [LayerTransfer(layer, _size(mine[layer]), 0, "fresh", f"above {last}") for layer in above]
    return TransferReport(last, tuple(rows), weights)


def _gap_below(layer: str, rows: Sequence[LayerTransfer]) -> str:
    """The lowest layer below this one that was skipped, or nothing."""
    # LoRA layers begin at zero: without the source's, what is above reads as it did.
    skipped = (row.layer for row in rows if row.how == "skipped" and row.layer != "lora")
    return "" if layer in _INPUTS else next(skipped, "")


def _how(taken: _Taken, theirs: _Layer, size: int) -> How:
    if not taken.weights:
        return "skipped"
    as_it_was = all(theirs[name].shape == weights.shape for name, weights in taken.weights.items())
    return "copied" if as_it_was and taken.numbers == size else "resized"


def _size(layer: _Layer) -> int:
    return sum(parameter.numel() for parameter in layer.values())


def _merged(mine: list[str], theirs: list[str]) -> list[str]:
    """All layers of both, bottom to top: one that only the source has stands above the one it had below it."""
    order, place = list(mine), 0
    for layer in theirs:
        if layer not in order:
            order.insert(place, layer)
        place = order.index(layer) + 1
    return order


def _split(group: str) -> tuple[str, ...]:
    return (_SPELLED, group) if group == "characters" else (group,)


def _plain(name: str) -> str:
    return name.replace(".base_layer.", ".")  # which LoRA wraps around what it adapts


def _check_known(name: str, names: Sequence[str], whose: str = "") -> None:
    if name not in names:
        near = did_you_mean(name, names)
        raise ModelError(f"no layer {whose}is called {name!r}{near}; there are {', '.join(names)}")


# One way a kind of layer.


def _layer(source: Tagger, target: Tagger, layer: str) -> _Taken:
    theirs, mine = layers_of(source).get(layer), layers_of(target).get(layer)
    if not theirs or not mine:
        return _Taken(why=f"the {'target' if theirs else 'source'} has no such layer")
    if layer in ("output", "crf"):
        return _tags(source, target, layer)
    if isinstance(source, WordTagger) and isinstance(target, WordTagger):
        if layer == "words":
            return _words(source, target)
        if layer == "contextual" and source.contextual.fingerprint() != target.contextual.fingerprint():
            return _Taken(why="it mixes the layers of another encoder")
    if isinstance(source, EncoderTagger) and isinstance(target, EncoderTagger):
        why = _read_otherwise(source, target, layer)
        return _Taken(why=why) if why else _whole(theirs, mine)
    return _whole(theirs, mine)


def _whole(theirs: _Layer, mine: _Layer) -> _Taken:
    """All of a layer or nothing."""
    for name in dict.fromkeys((*mine, *theirs)):
        if name not in theirs or name not in mine:
            return _Taken(why=f"it is of another kind: only the {'target' if name in mine else 'source'} has {name}")
        if theirs[name].shape != mine[name].shape:
            return _Taken(why=_misfit(name, theirs[name], mine[name]))
    return _Taken({name: parameter.detach().clone() for name, parameter in theirs.items()}, _size(theirs))


def _misfit(name: str, theirs: Tensor, mine: Tensor) -> str:
    sizes = [" × ".join(map(str, tensor.shape)) for tensor in (theirs, mine)]
    return f"{name} is {sizes[0]} in the source, {sizes[1]} in the target"


def _read_otherwise(source: EncoderTagger, target: EncoderTagger, layer: str) -> str:
    """Why an encoder's layer would mean something else in the target, or nothing."""
    if layer == "embeddings" and source.tokenizer.tokenizer.get_vocab() != target.tokenizer.tokenizer.get_vocab():
        return "the vocabularies of word pieces differ"
    for setting in _READ_BY:
        theirs, mine = (getattr(model.network.config, setting, None) for model in (source, target))
        if theirs != mine:
            return f"{setting} is {theirs} in the source, {mine} in the target"
    return ""


def _tags(source: Tagger, target: Tagger, layer: str) -> _Taken:
    """The rows of tags that both have; the others stay as the target has them."""
    theirs, mine = layers_of(source)[layer], layers_of(target)[layer]
    if source.tags == target.tags:
        return _whole(theirs, mine)
    common = [tag for tag in target.tags if tag in source.tag_rows]
    there, here = (torch.tensor([model.tag_rows[tag] for tag in common]) for model in (source, target))
    weights, numbers = {}, 0
    for name in dict.fromkeys((*mine, *theirs)):
        if name not in theirs or name not in mine or not _is_of_tags(name, theirs[name], mine[name]):
            return _whole(theirs, mine)  # which says what does not fit
        given, taken = theirs[name].detach(), mine[name].detach().clone()
        if name == _SQUARE_OF_TAGS:
            chosen = given[there[:, None], there]
            taken[here[:, None], here] = chosen
        elif name.startswith(_ROWS_OF_TAGS):
            chosen = given[there]
            taken[here] = chosen
        else:
            chosen = taken = given.clone()
        weights[name], numbers = taken, numbers + chosen.numel()
    return _Taken(weights, numbers, _tags_in_words(common, target.tags))


def _is_of_tags(name: str, theirs: Tensor, mine: Tensor) -> bool:
    """Whether the two differ in their tags alone."""
    if name == _SQUARE_OF_TAGS:
        return True
    return theirs.shape[1:] == mine.shape[1:] if name.startswith(_ROWS_OF_TAGS) else theirs.shape == mine.shape


def _tags_in_words(common: Sequence[str], tags: Sequence[str]) -> str:
    fresh = [tag for tag in tags if tag not in common]
    said = f"{len(common)} of {len(tags)} tags are the source's"
    if not fresh:
        return f"{said}, which has them in other rows"
    more = f" and {len(fresh) - _NAMED} more" if len(fresh) > _NAMED else ""
    return f"{said}; fresh: {', '.join(fresh[:_NAMED])}{more}"


def _words(source: WordTagger, target: WordTagger) -> _Taken:
    """Rows by word, or by bucket."""
    theirs, mine = source.words.weight.detach(), target.words.weight.detach()
    if theirs.shape[1] != mine.shape[1]:
        return _Taken(why=_misfit("words.weight", theirs, mine))
    there, here = source.word_index, target.word_index
    if isinstance(there, HashedWords) and isinstance(here, HashedWords):
        return _buckets(theirs, there.buckets, here.buckets)
    if isinstance(there, ListedWords) and isinstance(here, ListedWords):
        return _listed(theirs, mine, there=there.words, here=here.words)
    return _Taken(why="one of the two hashes words, the other has a list of them")


def _buckets(theirs: Tensor, there: int, here: int) -> _Taken:
    """A word's bucket is its hash modulo their number: where one number divides the other, buckets match exactly."""
    if there == here:
        return _Taken({"words.weight": theirs.clone()}, theirs.numel())
    if here % there and there % here:
        return _Taken(why=f"{there} buckets of words cannot become {here}: neither number divides the other")
    reserved, rows = theirs[:RESERVED], theirs[RESERVED:]
    if here % there == 0:
        taken, why = rows.repeat(here // there, 1), f"each of {there} buckets of words became {here // there}"
    else:
        taken = rows.view(there // here, here, -1).mean(0)
        why = f"each {there // here} of {there} buckets of words became one, their mean"
    weights = torch.cat([reserved, taken])
    return _Taken({"words.weight": weights}, weights.numel(), why)


def _listed(theirs: Tensor, mine: Tensor, *, there: Sequence[str], here: Sequence[str]) -> _Taken:
    if there == here:
        return _Taken({"words.weight": theirs.clone()}, theirs.numel())
    rows = {word: RESERVED + place for place, word in enumerate(there)}
    common = [(RESERVED + place, rows[word]) for place, word in enumerate(here) if word in rows]
    if not common:
        return _Taken(why="no word of its list is in the source's")
    pairs = [*((row, row) for row in range(RESERVED)), *common]
    taken = mine.clone()
    taken[[row for row, _ in pairs]] = theirs[[row for _, row in pairs]]
    why = f"{len(common)} of {len(here)} words are in the source's list; the others keep their own vectors"
    return _Taken({"words.weight": taken}, len(pairs) * theirs.shape[1], why)
