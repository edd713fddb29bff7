"""The studies of the FedHE paper (`sweep.toml`) as study files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from papers.common.sites import Sites
from papers.common.sweep import UNBOUNDED, Sweep, Variation, read_variations

__all__ = ["VARIATIONS", "FedHe", "Settings", "Study"]

_FEW_CLIENTS = 4  # with more of them a checkpoint takes gigabytes, and more time than it could save
_STEP = {"bert-tiny": 0.010, "bert-mini": 0.014, "bert-small": 0.016, "minilm": 0.021}  # seconds
_MILLIONS = {"bert-tiny": 4.4, "bert-mini": 11.1, "bert-small": 28.5, "minilm": 22.6}  # of parameters


@dataclass(frozen=True)
class Settings:
    """Settings of all studies."""

    rounds: int = 5  # T, Alg. 1
    local_epochs: int = 10  # I, Alg. 2
    batch_size: int = 64
    learning_rate: float = 2e-5  # η, "Training Setup"
    weight_decay: float = 0.1
    schedule: str = "linear"
    clip: float = 1.0  # largest norm of a gradient


@dataclass(frozen=True, kw_only=True)
class Study(Variation):
    """One study of `sweep.toml`."""

    group: str  # of sites
    encoder: str
    algorithm: str = "fedavg"
    rate: str = ""  # empty: the paper's; `chosen`: the one chosen for the encoder
    mechanism: str = "plain"
    scheme: str = "bfv"  # of ciphertexts
    packing: str = "standard"  # the same
    workers: int = 0  # processes that share its sites

    def privacy(self) -> dict[str, Any]:
        """Return the section [privacy] of a study file."""
        sealed = {"scheme": self.scheme, "packing": self.packing} if "sealed" in self.mechanism else {}
        fewest = 1 if self.mechanism == "plain" else 3 if "masked" in self.mechanism else 2  # that hide one site
        return {"mechanism": self.mechanism, **sealed, "minimum_sites": fewest, **UNBOUNDED}


VARIATIONS = read_variations(Path(__file__).with_name("sweep.toml"), Study)


class FedHe(Sweep):
    """The sweep; `chosen` has the rate of each encoder without pretrained weights."""

    variations = VARIATIONS
    defaults = Settings()
    tiny: ClassVar[Mapping[str, str]] = {"rounds": "2", "local_epochs": "1"}
    skipped_by_default = ("tune",)
    read_sites = Sites.read
    settings: Settings
    sites: Sites

    def check(self, variations: Sequence[Study]) -> None:
        """Exit if a rate was not chosen yet."""
        self.require_choices({v.encoder for v in variations if v.rate == "chosen"}, self.chosen, "fedhe")

    def rate(self, variation: Study) -> float:
        """Return the learning rate."""
        if variation.rate == "chosen":
            return float(self.chosen[variation.encoder])
        return float(variation.rate or self.settings.learning_rate)

    def study(self, variation: Study, seed: int) -> dict[str, Any]:
        """Return the study file as tables."""
        own, shared = self.settings, {"shared": ["all"]} if variation.algorithm == "fedavg" else {}
        few = len(self.sites.described[variation.group]) <= _FEW_CLIENTS
        return {
            "study": {"name": variation.name, "seed": seed},
            "model": {"encoder": variation.encoder, **shared},
            "algorithm": {"name": variation.algorithm, "rounds": own.rounds, "local_epochs": own.local_epochs},
            "training": {
                "batch_size": own.batch_size,
                "learning_rate": self.rate(variation),
                "weight_decay": own.weight_decay,
                "schedule": own.schedule,
                "clip": own.clip,
            },
            "privacy": variation.privacy(),
            "evaluation": {"every": 1},
            "federation": {"checkpoint_every": 2 if few else own.rounds},
            "sites": self.sites.sections(variation.group),
        }

    def options(self, variation: Study, seed: int) -> dict[str, Any]:
        """Return the rate, the processes, and that training notes are scored too."""
        facts = {"learning_rate": self.rate(variation)}
        return {"facts": facts, "workers": variation.workers, "own_options": ["--score-training"]}

    def estimate(self, variation: Study, seed: int) -> float:
        """Return the expected seconds on a GPU that sixteen runs share.

        A quarter of a second to encrypt and decrypt a million parameters, three with CKKS, were measured on one core;
        seconds per step and per scored sentence are a guess.
        """
        group, rounds = variation.group, self.settings.rounds
        clients = len(self.sites.described[group])
        train, dev, test = (self.sites.sentences(group, part) for part in ("train", "dev", "test"))
        steps = rounds * self.settings.local_epochs * max(clients, train / self.settings.batch_size)
        seconds = steps * _STEP[variation.encoder] + (rounds * dev + test + train) * 0.0006
        if variation.mechanism != "plain":
            each = 0.25 if variation.scheme == "bfv" else 3.0
            seconds += rounds * clients * _MILLIONS[variation.encoder] * each
        return 15 + seconds / max(1, variation.workers)
