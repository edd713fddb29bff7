"""Layer-wise transfer (Lee 2017, Section 4.2): start a tagger from the lower layers of a trained one.

Layers are taken bottom to top, up to a named one; the layers above start fresh. If the two taggers differ in words or
in tags, rows are matched by word and by tag. A layer with another shape or meaning is skipped, and so is every layer
above it. Layers are the groups of a model, except that the embedding of characters is a layer of its own below the rest
of the group `characters`, as in the paper's Figure 3.
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
from wardround.models.families import LayerWeights
from wardround.models.family_table import BUILT_IN, family_of
from wardround.models.parameter_split import LayeredModel
from wardround.models.saved import load_model
from wardround.models.tagging_model import TaggingModel, tag_scoring
from wardround.settings import did_you_mean

__all__ = [
    "LayerTransfer",
    "TransferReport",
    "freeze",
    "layers_of",
    "layers_up_to",
    "load_source",
    "plan_transfer",
    "warm_start",
]

How: TypeAlias = Literal["copied", "resized", "skipped", "fresh"]

_CHARACTERS = "characters.embedding"
_INPUTS = ("words", _CHARACTERS, "characters", "contextual")  # side by side at the bottom: none reads another
_ROWS_OF_TAGS = ("output.", "network.classifier.", "crf.")
_SQUARE_OF_TAGS = "crf.step"
_NAMED = 6  # fresh tags that a reason lists


@dataclass(frozen=True)
class LayerTransfer:
    """The result of a transfer for one layer."""

    layer: str
    parameters: int  # numbers in the target's layer
    taken: int  # how many of those come from the source
    how: How
    why: str = ""


@dataclass(frozen=True)
class TransferReport:
    """What a target takes from a source, layer by layer, bottom to top."""

    up_to: str
    layers: tuple[LayerTransfer, ...]
    weights: Mapping[str, Tensor] = field(repr=False, compare=False)  # of the target, by name

    @property
    def taken(self) -> int:
        """Return how many numbers come from the source."""
        return sum(layer.taken for layer in self.layers)

    @torch.no_grad()
    def put_into(self, target: LayeredModel) -> None:
        """Copy the transferred weights into the target, or into another network built like it."""
        parameters = {_name_without_adapter(name): parameter for name, parameter in target.named_parameters()}
        for name, weights in self.weights.items():
            parameters[name].copy_(weights)

    def as_values(self) -> dict[str, Any]:
        """Return plain values for a model card; the digest identifies the source's weights."""
        digest = sha256()
        for name, weights in sorted(self.weights.items()):
            digest.update(name.encode() + weights.detach().cpu().numpy().tobytes())
        return {
            "up_to": self.up_to,
            "layers": [asdict(layer) for layer in self.layers],
            "weights_sha256": digest.hexdigest(),
        }


_Layer: TypeAlias = dict[str, nn.Parameter]


def load_source(folder: Path) -> TaggingModel:
    """Load the tagger in a model folder, or in the run folder around one."""
    inner = folder / "model"
    place = inner if inner.is_dir() and not (folder / "wardround.json").is_file() else folder
    model = load_model(place)
    if family_of(model).rebuild is None:
        raise ModelError(
            f"{folder.name} holds a model of the family {model.kind}; layers can be transferred from "
            f"{_transferable()} only"
        )
    return tag_scoring(model)


def warm_start(
    target: LayeredModel, folder: Path, *, up_to: str = "", only: Collection[str] | None = None
) -> TransferReport:
    """Start `target` from the layers of the model saved in `folder`, up to `up_to` or all that fit.

    `only` names the parameters of the target that may change; the others stay as they are.
    """
    if family_of(target).rebuild is None:
        raise ModelError(f"only {_transferable()} can start from another model")
    report = plan_transfer(load_source(folder), tag_scoring(target), up_to=up_to)
    if only is not None:
        names = {_name_without_adapter(name) for name in only}
        report = replace(report, weights={name: part for name, part in report.weights.items() if name in names})
    report.put_into(target)
    return report


def layers_of(model: LayeredModel) -> dict[str, _Layer]:
    """Return the parameters of each layer, bottom to top, under their names without an adapter."""
    found: dict[str, _Layer] = {}
    for group in model.groups:
        if group == "characters":
            found[_CHARACTERS] = {}
        if group not in model.training_only:
            found[group] = {}
    for name, parameter in model.named_parameters():
        layer = _CHARACTERS if name.startswith(f"{_CHARACTERS}.") else model.group_of(name)
        if layer in found:
            found[layer][_name_without_adapter(name)] = parameter
    return found


def layers_up_to(model: LayeredModel, last: str) -> tuple[str, ...]:
    """Return the names of the layers from the bottom up to `last`."""
    names = list(layers_of(model))
    _check_known(last, names)
    return tuple(names[: names.index(last) + 1])


def freeze(model: LayeredModel, names: Sequence[str]) -> tuple[str, ...]:
    """Exclude the named layers from training; return their names bottom to top."""
    layers = layers_of(model)
    for name in names:
        _check_known(name, list(layers))
    chosen = tuple(layer for layer in layers if layer in names or layer.partition(".")[0] in names)
    left = (parameter for layer, held in layers.items() if layer not in chosen for parameter in held.values())
    if not any(parameter.requires_grad for parameter in left):
        raise ModelError("every layer would be frozen and nothing left to train; name fewer layers")
    for layer in chosen:
        for parameter in layers[layer].values():
            parameter.requires_grad_(False)
    return chosen


def plan_transfer(
    source: TaggingModel, target: TaggingModel, *, up_to: str = "", past_gaps: bool = False
) -> TransferReport:
    """Return what `target` takes from `source`, from the bottom up to layer `up_to`; change neither model.

    Without `up_to`, take all layers. Above a skipped layer take nothing, unless `past_gaps` is set.
    """
    theirs, mine = layers_of(source), layers_of(target)
    last = up_to or list(theirs)[-1]
    _check_known(last, list(theirs), "of the source ")
    order = _layers_of_both(list(mine), list(theirs))
    place = order.index(last) + 1
    rows: list[LayerTransfer] = []
    weights: dict[str, Tensor] = {}
    for layer in order[:place]:
        # LoRA layers start at zero: without the source's, the layers above read what they did before.
        skipped = [row.layer for row in rows if row.how == "skipped" and row.layer != "lora"]
        if skipped and layer not in _INPUTS and not past_gaps:
            taken = LayerWeights(why=f"it is above {skipped[0]}, which was skipped")
        else:
            taken = _transfer_layer(source, target, layer)
        weights |= taken.weights
        size = _size(mine.get(layer, {}))
        whole = all(theirs[layer][name].shape == part.shape for name, part in taken.weights.items())
        how: How = "skipped" if not taken.weights else "copied" if whole and taken.numbers == size else "resized"
        rows.append(LayerTransfer(layer, size, taken.numbers, how, taken.why))
    if not weights:
        raise ModelError(f"no layer of the source fits: {'; '.join(f'{row.layer}: {row.why}' for row in rows[:3])}")
    above = (layer for layer in order[place:] if layer in mine)
    rows += [LayerTransfer(layer, _size(mine[layer]), 0, "fresh", f"above {last}") for layer in above]
    return TransferReport(last, tuple(rows), weights)


def _size(layer: _Layer) -> int:
    return sum(parameter.numel() for parameter in layer.values())


def _layers_of_both(mine: list[str], theirs: list[str]) -> list[str]:
    """Return the layers of both, bottom to top; one that only the source has comes right after its lower neighbour."""
    order, place = list(mine), 0
    for layer in theirs:
        if layer not in order:
            order.insert(place, layer)
        place = order.index(layer) + 1
    return order


def _name_without_adapter(name: str) -> str:
    return name.replace(".base_layer.", ".")  # LoRA adds it to the names of the layers it adapts


def _check_known(name: str, names: Sequence[str], whose: str = "") -> None:
    if name not in names:
        near = did_you_mean(name, names)
        raise ModelError(f"no layer {whose}is called {name!r}{near}; there are {', '.join(names)}")


def _transferable() -> str:
    names = (name.replace("-", " ") for name, family in BUILT_IN.items() if family.rebuild is not None)
    return " or ".join(f"{'an' if name[0] in 'aeiou' else 'a'} {name}" for name in names)


def _transfer_layer(source: TaggingModel, target: TaggingModel, layer: str) -> LayerWeights:
    theirs, mine = layers_of(source).get(layer), layers_of(target).get(layer)
    if not theirs or not mine:
        return LayerWeights(why=f"the {'target' if theirs else 'source'} has no such layer")
    if layer in ("output", "crf"):
        return _transfer_tags(source, target, layer)
    taken = family_of(target).transfer_layer(source, target, layer) if source.kind == target.kind else None
    return taken or _transfer_whole(theirs, mine)


def _transfer_whole(theirs: _Layer, mine: _Layer) -> LayerWeights:
    """Take all of a layer or nothing."""
    for name in dict.fromkeys((*mine, *theirs)):
        if name not in theirs or name not in mine:
            owner = "target" if name in mine else "source"
            return LayerWeights(why=f"it is another kind of layer: only the {owner} has {name}")
        if theirs[name].shape != mine[name].shape:
            sizes = [" × ".join(map(str, layer[name].shape)) for layer in (theirs, mine)]
            return LayerWeights(why=f"{name} is {sizes[0]} in the source, {sizes[1]} in the target")
    return LayerWeights({name: parameter.detach().clone() for name, parameter in theirs.items()}, _size(theirs))


def _transfer_tags(source: TaggingModel, target: TaggingModel, layer: str) -> LayerWeights:
    """Take the rows of the tags that both have; the other rows stay as they are in the target."""
    theirs, mine = layers_of(source)[layer], layers_of(target)[layer]
    if source.tags == target.tags:
        return _transfer_whole(theirs, mine)
    common = [tag for tag in target.tags if tag in source.tag_rows]
    there, here = (torch.tensor([model.tag_rows[tag] for tag in common]) for model in (source, target))
    weights, numbers = {}, 0
    for name in dict.fromkeys((*mine, *theirs)):
        if name not in theirs or name not in mine:
            return _transfer_whole(theirs, mine)  # its reason says what does not fit
        source_part, taken = theirs[name].detach(), mine[name].detach().clone()
        if name == _SQUARE_OF_TAGS:
            chosen = source_part[there[:, None], there]
            taken[here[:, None], here] = chosen
        elif name.startswith(_ROWS_OF_TAGS) and source_part.shape[1:] == taken.shape[1:]:
            chosen = source_part[there]
            taken[here] = chosen
        elif source_part.shape == taken.shape:
            chosen = taken = source_part.clone()
        else:
            return _transfer_whole(theirs, mine)
        weights[name], numbers = taken, numbers + chosen.numel()
    return LayerWeights(weights, numbers, _describe_tags(common, target.tags))


def _describe_tags(common: Sequence[str], tags: Sequence[str]) -> str:
    fresh = [tag for tag in tags if tag not in common]
    said = f"{len(common)} of {len(tags)} tags are the source's"
    if not fresh:
        return f"{said}, which has them in other rows"
    more = f" and {len(fresh) - _NAMED} more" if len(fresh) > _NAMED else ""
    return f"{said}; fresh: {', '.join(fresh[:_NAMED])}{more}"
