"""The studies of private learning (`sweep.toml`) as study files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from papers.common.sites import Sites
from papers.common.sweep import Sweep, Variation, read_variations

__all__ = ["VARIATIONS", "PrivateLearning", "Settings", "Study"]

_SENTENCES_A_SECOND = 1500.0  # that one of sixteen processes learns from on a shared GPU, exchanges included; a guess


@dataclass(frozen=True)
class Settings:
    """Settings of all studies; a study of `sweep.toml` may have its own."""

    learning_rate: float = 2e-3
    schedule: str = "linear"
    clip: float = 0.5  # C
    batch_size: int = 1024  # sentences that a round has on average, of all sites together; q follows from it
    rounds: int = 200
    lora_rank: int = 8
    decoder: str = "softmax"
    mechanism: str = "sealed+masked"
    score_during: int = 1  # scorings of the development notes


@dataclass(frozen=True, kw_only=True)
class Study(Variation):
    """One study of `sweep.toml`."""

    corpus: str
    epsilon: float = 0.0  # 0: neither clipping nor noise
    unit: str = "sentence"
    rounds: int = 0  # 0: those of the settings; the same for the three below
    learning_rate: float = 0.0
    batch_size: int = 0
    clip: float = 0.0


VARIATIONS = read_variations(Path(__file__).with_name("sweep.toml"), Study)


class PrivateLearning(Sweep):
    """The sweep."""

    variations = VARIATIONS
    defaults = Settings()
    tiny: ClassVar[Mapping[str, str]] = {"rounds": "2", "batch_size": "40"}
    skipped_by_default = ("tune",)
    read_sites = Sites.read
    settings: Settings
    sites: Sites

    def units(self, variation: Study) -> int:
        """Return how many units the sites have."""
        notes = sum(int(site["notes"]) for site in self.sites.described[variation.corpus].values())
        return notes if variation.unit == "note" else self.sites.sentences(variation.corpus, "train")

    def study(self, variation: Study, seed: int) -> dict[str, Any]:
        """Return the study file as tables."""
        own = self.settings
        rounds = variation.rounds or own.rounds
        batch = variation.batch_size or own.batch_size
        sites = self.sites.sections(variation.corpus)
        training: dict[str, Any] = {
            "learning_rate": variation.learning_rate or own.learning_rate,
            "schedule": own.schedule,
        }
        privacy: dict[str, Any] = {"mechanism": own.mechanism, "minimum_sites": len(sites)}
        if variation.epsilon:
            privacy["differential_privacy"] = {
                "epsilon": variation.epsilon,
                "delta": 1 / self.units(variation),
                "unit": variation.unit,
                "clip": variation.clip or own.clip,
                "sampling_rate": round(min(1.0, batch / self.sites.sentences(variation.corpus, "train")), 4),
            }
        else:
            training["batch_size"] = batch
        return {
            "study": {"name": variation.name, "seed": seed},
            "model": {
                "encoder": "minilm",
                "adapter": "lora",
                "lora_rank": own.lora_rank,
                "decoder": own.decoder,
                "shared": ["all"],
            },
            "algorithm": {"name": "fedner", "rounds": rounds},
            "training": training,
            "privacy": privacy,
            "evaluation": {"every": max(1, rounds // own.score_during), "keep": "last"},
            "federation": {"checkpoint_every": rounds},
            "sites": sites,
        }

    def options(self, variation: Study, seed: int) -> dict[str, Any]:
        """Return the privacy of the study."""
        return {"facts": {"epsilon": variation.epsilon, "unit": variation.unit}}

    def estimate(self, variation: Study, seed: int) -> float:
        """Return the expected seconds on a GPU that sixteen runs share."""
        rounds, batch = variation.rounds or self.settings.rounds, variation.batch_size or self.settings.batch_size
        scored = sum(self.sites.sentences(variation.corpus, part) for part in ("dev", "test"))
        return 20 + rounds * (batch / _SENTENCES_A_SECOND + 10 * 0.03) + scored * 0.0006
