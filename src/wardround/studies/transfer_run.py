"""A training at one site that begins from another model: which network, which notes, which layers stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from wardround.errors import ModelError, UsageError
from wardround.models.encoder_tagger import EncoderTagger, EncoderTaggerConfig
from wardround.models.transfer import Tagger, TransferReport, freeze, layers_of, layers_up_to, transferred
from wardround.models.vocabulary import RESERVED, ListedWords
from wardround.models.word_tagger import WordTagger
from wardround.models.word_vectors import WordVectors, load_word_vectors
from wardround.reports.tables import Table
from wardround.settings import with_settings
from wardround.studies.assemble import ModelChoice, build_model, recipe
from wardround.studies.single_site import SiteData
from wardround.text.tag_sets import TagSet
from wardround.training.training_config import TrainingConfig

__all__ = ["Beginning", "WantedTransfer", "begin", "part_of", "recipe_of", "target_network", "transfer_table"]


@dataclass(frozen=True)
class WantedTransfer:
    """How far a transfer goes, and what of the target stays as it begins."""

    up_to: str = ""  # empty is every layer of the source
    past_gaps: bool = False  # whether layers above one that is skipped are taken
    freeze: tuple[str, ...] = ()
    freeze_up_to: str = ""  # in place of `freeze`: a layer and all below it

    def __post_init__(self) -> None:
        if self.freeze and self.freeze_up_to:
            raise UsageError("--freeze and --freeze-up-to say the same in two ways: use one of them")


@dataclass(frozen=True)
class Beginning:
    """A network before its first epoch, and where it comes from."""

    model: Tagger
    report: TransferReport
    frozen: tuple[str, ...] = ()

    def notes(self) -> dict[str, Any]:
        """For the model's card."""
        return {"transfer": {**self.report.as_values(), "frozen": list(self.frozen)}}


def begin(source: Tagger, target: Tagger, transfer: WantedTransfer) -> Beginning:
    """Give `target` the layers of `source` and freeze what is to stay."""
    report = transferred(source, target, up_to=transfer.up_to, past_gaps=transfer.past_gaps)
    report.put_into(target)
    names = layers_up_to(target, transfer.freeze_up_to) if transfer.freeze_up_to else transfer.freeze
    return Beginning(target, report, freeze(target, names) if names else ())


def target_network(source: Tagger, choice: ModelChoice, tag_set: TagSet, *, seed: int) -> Tagger:
    """The chosen network over `tag_set`, fresh from `seed`; one like the source where the preset is empty."""
    if choice.preset or choice.encoder:
        built = build_model(choice, tag_set, seed=seed)
        assert isinstance(built, WordTagger | EncoderTagger), "a preset or an encoder"
        return built
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _like(source, choice, tag_set)


def _like(source: Tagger, choice: ModelChoice, tag_set: TagSet) -> Tagger:
    what = "the source's network"
    if isinstance(source, EncoderTagger):
        if choice.vectors:
            raise UsageError("the source is an encoder tagger, which brings its own embeddings: leave --vectors out")
        return _encoder_like(with_settings(source.config, choice.options, what), tag_set)
    config = with_settings(source.config, choice.options, what)
    vectors = _vectors_of(source) if choice.vectors is None else load_word_vectors(choice.vectors)
    return WordTagger(config, tag_set, vectors, offline=True)


def _encoder_like(config: EncoderTaggerConfig, tag_set: TagSet) -> EncoderTagger:
    try:
        # The id is the source's word, not the user's: no hub is called for it.
        return EncoderTagger(config, tag_set, offline=True)
    except ModelError as error:
        raise ModelError(
            f"the encoder that the source began from, {Path(config.encoder).name!r}, cannot be had here; name one with "
            "--encoder, for example the source's own folder"
        ) from error


def _vectors_of(source: WordTagger) -> WordVectors | None:
    if not isinstance(source.word_index, ListedWords):
        return None
    return WordVectors(source.word_index.words, source.words.weight.detach()[RESERVED:].numpy())


def recipe_of(target: Tagger, options: Mapping[str, str], *, seed: int) -> TrainingConfig:
    """The training that goes with the network: the paper's with its character LSTM and fully connected layer."""
    if isinstance(target, EncoderTagger):
        return recipe(ModelChoice(encoder=target.config.encoder), options, seed=seed)
    is_papers = target.config.character_layer == "lstm" and target.config.dense > 0
    return recipe(ModelChoice("transfer" if is_papers else "fedner"), options, seed=seed)


def part_of(data: SiteData, fraction: float, *, seed: int) -> SiteData:
    """The same with a fraction of the training notes.

    Development and test notes stay whole, and the types to learn are those of all training notes, so that trainings on
    different fractions are scored alike.
    """
    if not 0 < fraction <= 1:
        raise UsageError(f"--fraction is {fraction}; it is a share of the training notes, above 0 and up to 1")
    return data.with_dev(seed).with_fraction(fraction, seed)


def transfer_table(beginning: Beginning, title: str) -> Table:
    """What became of each layer, and whether it is trained further."""
    layers = layers_of(beginning.model)
    trains = {
        name: "yes" if any(parameter.requires_grad for parameter in held.values()) else "no"
        for name, held in layers.items()
    }
    rows = tuple(
        (row.layer, row.parameters, row.taken, row.how, trains.get(row.layer, ""), row.why)
        for row in beginning.report.layers
    )
    columns = ("layer", "parameters", "of the source", "what happened", "trains", "why")
    totals = (("all", sum(row.parameters for row in beginning.report.layers), beginning.report.taken, "", "", ""),)
    return Table(title, columns, rows, totals=totals)
