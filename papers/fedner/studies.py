"""The studies of the FedNER paper (`sweep.toml`) as study files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from papers.common.sites import Sites
from papers.common.sweep import UNBOUNDED, Sweep, Variation, read_variations

__all__ = ["VARIATIONS", "FedNer", "Settings", "Study"]

_LARGEST_LOCAL = 64  # sentences of a mini-batch of a site on its own, however large N is


@dataclass(frozen=True)
class Settings:
    """Settings of all studies, tuned for all of them together or not at all."""

    epochs: int = 12
    batch_size: int = 16  # of a site that trains on its own or between two exchanges
    learning_rate: float = 2e-3  # the same
    shared_batch_size: int = 128  # N, where gradients are exchanged
    shared_learning_rate: float = 4e-3  # α, the same
    output_learning_rate: float = 0.0
    weight_decay: float = 0.0
    schedule: str = "linear"
    input_dropout: float = 0.5
    dropout: float = 0.3
    train_words: bool = True
    scorings: int = 8  # of the development sets
    rounds: int = 0  # instead of epochs, for trials
    encoder: str = "minilm"  # of ELMoNER; empty: without


@dataclass(frozen=True, kw_only=True)
class Study(Variation):
    """One study of `sweep.toml`."""

    group: str = "five"  # of sites
    preset: str = "elmoner"
    algorithm: str = "fedner"
    shared: tuple[str, ...] = ()  # empty: the network's own split, which is the paper's
    one_scheme: bool = False
    steps_as_shared: bool = False  # a site alone, with the rate and the batch of the exchange

    @property
    def per_batch(self) -> bool:
        """Return whether a round is one mini-batch of all sites together."""
        return self.algorithm in ("fedner", "pooled")


VARIATIONS = read_variations(Path(__file__).with_name("sweep.toml"), Study)


class FedNer(Sweep):
    """The sweep."""

    variations = VARIATIONS
    defaults = Settings()
    tiny: ClassVar[Mapping[str, str]] = {"rounds": "3", "encoder": "", "scorings": "1"}
    read_sites = Sites.read
    settings: Settings
    sites: Sites

    @classmethod
    def prepared(cls, settings: Settings) -> Settings:
        """Return the settings with an absolute path of the encoder."""
        folder = "/" in settings.encoder
        return replace(settings, encoder=str(Path(settings.encoder).resolve())) if folder else settings

    def head(self) -> dict[str, Any]:
        """Return settings and sites; of the encoder only its name."""
        return {**super().head(), "settings": asdict(replace(self.settings, encoder=Path(self.settings.encoder).name))}

    def rounds(self, variation: Study) -> int:
        """Return the rounds: an epoch each, or a mini-batch, of which Σ|S| / N are an epoch."""
        own = self.settings
        if own.rounds or not variation.per_batch:
            return own.rounds or own.epochs
        return max(1, round(own.epochs * self.sites.sentences(variation.group, "train") / own.shared_batch_size))

    def study(self, variation: Study, seed: int) -> dict[str, Any]:
        """Return the study file as tables."""
        own, rounds = self.settings, self.rounds(variation)
        model: dict[str, Any] = {
            "preset": variation.preset,
            "vectors": str(self.sites.path / f"{variation.group.partition('-')[0]}.npz"),
            "input_dropout": own.input_dropout,
            "dropout": own.dropout,
            "train_words": own.train_words,
        }
        if variation.preset == "elmoner":
            model["contextual"] = own.encoder
        if variation.shared:
            model["shared"] = list(variation.shared)
        batch, rate = own.batch_size, own.learning_rate
        if variation.per_batch:
            batch, rate = own.shared_batch_size, own.shared_learning_rate
        elif variation.steps_as_shared:
            share = round(own.shared_batch_size / len(self.sites.described[variation.group]))
            batch, rate = min(max(1, share), _LARGEST_LOCAL), own.shared_learning_rate
        scheme = {"scheme": "BIO"} if variation.one_scheme else {}
        return {
            "study": {"name": variation.name, "seed": seed},
            "model": model,
            "algorithm": {"name": variation.algorithm, "rounds": rounds},
            "training": {
                "batch_size": batch,
                "learning_rate": rate,
                "output_learning_rate": own.output_learning_rate,
                "weight_decay": own.weight_decay,
                "schedule": own.schedule,
            },
            "privacy": UNBOUNDED,
            "evaluation": {"every": max(1, rounds // own.scorings)},
            "federation": {"checkpoint_every": max(1, rounds // 4)},
            "sites": {name: site | scheme for name, site in self.sites.sections(variation.group).items()},
        }

    def estimate(self, variation: Study, seed: int) -> float:
        """Return the expected seconds on a GPU that a dozen runs share.

        18 ms per step and 0.9 ms per scored sentence are what the runs of `bc5cdr_single_site.json` took; the rest is
        a guess.
        """
        rounds, group = self.rounds(variation), variation.group
        own = -(-self.sites.sentences(group, "train") // self.settings.batch_size)
        steps = rounds * (len(self.sites.described[group]) if variation.per_batch else own)
        scored = self.sites.sentences(group, "dev") * min(rounds, self.settings.scorings)
        scored += self.sites.sentences(group, "test")
        contextual = 1.6 if variation.preset == "elmoner" and self.settings.encoder else 1.0
        exchanged = 0.02 * steps if variation.per_batch else 0.0
        return 15 + contextual * (0.018 * steps + 0.0009 * scored) + exchanged
