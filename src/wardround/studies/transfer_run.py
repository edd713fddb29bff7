"""A training at one site that starts from another model: which network, which notes, which layers are frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from wardround.errors import UsageError
from wardround.models.families import Labels, ModelChoice
from wardround.models.family_table import build_model, family_of
from wardround.models.tagging_model import TaggingModel, tag_scoring
from wardround.models.transfer import TransferReport, freeze, layers_of, layers_up_to, plan_transfer
from wardround.reports.tables import Table
from wardround.studies.assemble import default_training
from wardround.studies.single_site import SiteData
from wardround.text.tag_sets import TagSet
from wardround.training.training_config import TrainingConfig

__all__ = [
    "TransferSettings",
    "TransferredModel",
    "begin",
    "part_of",
    "saved_transfer_table",
    "target_network",
    "training_of",
    "transfer_table",
]


@dataclass(frozen=True)
class TransferSettings:
    """Which layers are transferred, and which layers of the target are frozen."""

    up_to: str = ""  # the highest layer that is transferred; empty is every layer of the source
    past_gaps: bool = False  # transfer layers above a skipped one
    freeze: tuple[str, ...] = ()
    freeze_up_to: str = ""  # instead of `freeze`: a layer and all below it

    def __post_init__(self) -> None:
        if self.freeze and self.freeze_up_to:
            raise UsageError("--freeze and --freeze-up-to are two ways to say the same: use one of them")


@dataclass(frozen=True)
class TransferredModel:
    """A network before its first epoch, and what it took from its source."""

    model: TaggingModel
    report: TransferReport
    frozen: tuple[str, ...] = ()

    def notes(self) -> dict[str, Any]:
        """Return notes for the model's card."""
        return {"transfer": {**self.report.as_values(), "frozen": list(self.frozen)}}


def begin(source: TaggingModel, target: TaggingModel, transfer: TransferSettings) -> TransferredModel:
    """Copy layers of `source` into `target` and freeze the chosen layers."""
    report = plan_transfer(source, target, up_to=transfer.up_to, past_gaps=transfer.past_gaps)
    report.put_into(target)
    names = layers_up_to(target, transfer.freeze_up_to) if transfer.freeze_up_to else transfer.freeze
    return TransferredModel(target, report, freeze(target, names) if names else ())


def target_network(source: TaggingModel, choice: ModelChoice, tag_set: TagSet, *, seed: int) -> TaggingModel:
    """Build the chosen network over `tag_set`, fresh from `seed`; one like the source if the preset is empty."""
    if choice.preset or choice.encoder:
        return tag_scoring(build_model(choice, tag_set, seed=seed))
    rebuild = family_of(source).rebuild
    assert rebuild is not None, "load_source() returns models of families that can be rebuilt"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return tag_scoring(rebuild(source, Labels(tag_set), choice))


def training_of(target: TaggingModel, options: Mapping[str, str], *, seed: int) -> TrainingConfig:
    """Return the default training of a network, with `options` replaced."""
    return default_training(family_of(target).choice_like(target), options, seed=seed)


def part_of(data: SiteData, fraction: float, *, seed: int) -> SiteData:
    """Return the same data with a fraction of the training notes.

    Development and test notes stay complete, and the types to learn are those of all training notes, so that trainings
    on different fractions are scored in the same way.
    """
    if not 0 < fraction <= 1:
        raise UsageError(f"--fraction is {fraction}; it is a share of the training notes, above 0 and up to 1")
    return data.with_dev(seed).with_fraction(fraction, seed)


def transfer_table(model: TransferredModel, title: str) -> Table:
    """Return a table of what happened to each layer, and whether it is trained."""
    layers = layers_of(model.model)
    trains = {
        name: "yes" if any(parameter.requires_grad for parameter in held.values()) else "no"
        for name, held in layers.items()
    }
    rows = tuple(
        (row.layer, row.parameters, row.taken, row.how, trains.get(row.layer, ""), row.why)
        for row in model.report.layers
    )
    columns = ("layer", "parameters", "of the source", "what happened", "trains", "why")
    totals = (("all", sum(row.parameters for row in model.report.layers), model.report.taken, "", "", ""),)
    return Table(title, columns, rows, totals=totals)


def saved_transfer_table(note: Any) -> Table | None:
    """Return the table of a transfer from the note in the model's card; None if the note has another form.

    The card is data that anybody may have written, so every value is checked.
    """
    try:
        rows = []
        for layer in note["layers"]:
            name, how, why = (str(layer[part]) for part in ("layer", "how", "why"))
            parameters, taken = layer["parameters"], layer["taken"]
            if type(parameters) is not int or type(taken) is not int:
                return None
            rows.append((name, parameters, taken, how, "yes" if name in note["frozen"] else "no", why))
        title, digest = f"Began from another model, up to {note['up_to']}", note["weights_sha256"]
    except (KeyError, TypeError):
        return None
    totals = (("all", sum(row[1] for row in rows), sum(row[2] for row in rows), "", "", ""),)
    columns = ("layer", "parameters", "of the source", "what happened", "frozen", "why")
    return Table(title, columns, tuple(rows), totals=totals, note=f"Digest of the copied weights: {digest}")
