"""The studies of the FedED paper (`sweep.toml`) as study files."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from papers.common.sweep import Sweep, Variation, privacy, read_variations
from papers.feded.make_sites import SITES, TUNE, Draws, site_names

__all__ = ["FEDED", "FEDERATED", "SINGLE", "VARIATIONS", "FedEd", "Settings", "Study"]

# Algorithm settings: FedED as in the paper, and with the labels of the public set only in the first rounds.
FEDED: Mapping[str, Mapping[str, int]] = {
    "feded": {},
    "feded-3": {"label_rounds": 3, "distillation_batch": 16},
    "feded-5": {"label_rounds": 5, "distillation_batch": 32},
}
FEDERATED = ("fedavg", "fedatt", *FEDED)
SINGLE = ("single-1", "single-2", "single-3")  # sites that train alone
_EVERY = {"biored": 2}  # rounds between two scorings, where the test part is large
_STEP = 0.02  # seconds of a step if sixteen runs share a GPU


@dataclass(frozen=True)
class Settings:
    """Settings of all studies."""

    encoder: str = "minilm"
    participation: float = 0.1  # C
    batch_size: int = 4  # B
    local_epochs: int = 2  # E
    gad_rounds: int = 20
    euadr_rounds: int = 20
    biored_rounds: int = 10
    tune_rounds: int = 20
    central_epochs: int = 5
    single_rounds: int = 10  # of E epochs each
    clip: float = 5.0  # largest norm of a gradient


@dataclass(frozen=True, kw_only=True)
class Study(Variation):
    """One study of `sweep.toml`; what is unset is as in the settings."""

    corpus: str
    method: str
    rate: str = ""  # empty: the one chosen for the method
    participation: float = 0.0
    batch_size: int = 0
    local_epochs: int = 0
    races: bool = False  # it ends at the target F1
    precision: str = ""  # of predictions
    mechanism: str = ""  # that protects updates; if set, bytes are counted and nothing is scored
    encoder: str = ""

    @property
    def choice(self) -> str:
        """Return the method whose rate it uses; a site alone trains like all notes in one place."""
        return "central" if self.method in SINGLE else self.method

    def draw(self, seed: int) -> str:
        """Return the draw of the sites that goes with a seed."""
        return TUNE if "tune" in self.tables else f"seed-{seed}"


VARIATIONS = read_variations(Path(__file__).with_name("sweep.toml"), Study)


class FedEd(Sweep):
    """The sweep; `chosen` has the `rates` of the methods and the `target` F1 of races."""

    variations = VARIATIONS
    defaults = Settings()
    tiny: ClassVar[Mapping[str, str]] = {
        **{"encoder": "bert-tiny", "gad_rounds": "2", "euadr_rounds": "2", "biored_rounds": "2", "tune_rounds": "2"},
        **{"central_epochs": "1", "single_rounds": "1"},
    }
    skipped_by_default = ("tune",)
    script = Path(__file__).with_name("one_run.py")
    read_sites = Draws.read
    settings: Settings
    sites: Draws

    @property
    def rates(self) -> Mapping[str, float]:
        """Return the chosen rate of each method."""
        return dict(self.chosen.get("rates", {}))

    def check(self, variations: Sequence[Study]) -> None:
        """Exit if a rate or the target was not chosen yet."""
        needed = {v.choice for v in variations if not v.rate and not v.mechanism}
        self.require_choices(needed, self.rates, "feded rates")
        if not self.chosen.get("target") and any(v.races for v in variations):
            sys.exit("no target F1 was chosen: run --only table3, then papers.choose feded target")

    def head(self) -> dict[str, Any]:
        """Return settings and the sizes of all draws."""
        sizes = {corpus: found["draws"] for corpus, found in self.sites.described.items()}
        return {**super().head(), "sites": sizes}

    def rate(self, variation: Study) -> float:
        """Return the learning rate."""
        if variation.mechanism:
            return 1e-5
        return float(variation.rate or self.rates[variation.choice])

    def rounds(self, variation: Study) -> int:
        """Return the rounds, which all methods of a table share; of a race, the most it may take."""
        own = self.settings
        if variation.mechanism:
            return 2  # in the first one sites are met and clips learned
        if variation.method == "central":
            return own.central_epochs
        if variation.method in SINGLE:
            return own.single_rounds
        return own.tune_rounds if "tune" in variation.tables else int(getattr(own, f"{variation.corpus}_rounds"))

    def study(self, variation: Study, seed: int) -> dict[str, Any]:
        """Return the study file as tables."""
        corpus, draw, method = variation.corpus, variation.draw(seed), variation.method
        names = ["all"] if method == "central" else site_names(SITES[corpus])
        if method in SINGLE:
            names = [names[SINGLE.index(method)]]
        public = {"public": self.sites.public(corpus, draw)} if method in (*FEDED, "public") else {}
        return {
            "study": {"name": variation.name, "seed": seed},
            "task": self.sites.task(corpus),
            **public,
            "model": {"encoder": variation.encoder or self.settings.encoder},
            "algorithm": self._algorithm(variation),
            "training": {
                "batch_size": variation.batch_size or self.settings.batch_size,
                "learning_rate": self.rate(variation),
                "schedule": "linear",
                "clip": self.settings.clip,
            },
            "privacy": privacy(variation.mechanism),
            "evaluation": {"every": self.rounds(variation)},
            "sites": self.sites.sites(corpus, draw, names),
        }

    def _algorithm(self, variation: Study) -> dict[str, Any]:
        rounds, method = self.rounds(variation), variation.method
        if method == "public":
            return {"name": "public", "rounds": rounds, "public_epochs": 1}
        epochs = variation.local_epochs or self.settings.local_epochs
        if method not in FEDERATED:  # an average over one site, which keeps its optimizer state
            epochs = 1 if method == "central" else epochs
            return {"name": "fedavg", "rounds": rounds, "local_epochs": epochs, "keep_moments": True}
        found = {
            "name": "feded" if method in FEDED else method,
            "rounds": rounds,
            "participation": variation.participation or self.settings.participation,
            "local_epochs": epochs,
            "keep_moments": False,
            **FEDED.get(method, {}),
        }
        # Bytes do not depend on the work of a round, except that a plain update has only the rows of words that were
        # read.
        if variation.mechanism and (method == "feded" or variation.mechanism != "plain"):
            found |= {"local_steps": 1, **({"distillation_batch": 64} if method == "feded" else {})}
        return found | ({"precision": variation.precision} if variation.precision else {})

    def options(self, variation: Study, seed: int) -> dict[str, Any]:
        """Return what `one_run.py` scores and when it stops."""
        corpus, draw = variation.corpus, variation.draw(seed)
        facts = {"learning_rate": self.rate(variation), "tested": self.sites.pairs(corpus, draw, "test")}
        words: list[str] = []
        if not variation.mechanism:
            words += ["--test", str(self.sites.test(corpus, draw)), "--every", str(_EVERY.get(corpus, 1))]
            words += ["--target", str(self.chosen["target"])] if variation.races else []
        return {"facts": facts, "own_options": words}

    def estimate(self, variation: Study, seed: int) -> float:
        """Return the expected seconds on a GPU that sixteen runs share."""
        corpus, size = variation.corpus, variation.batch_size or self.settings.batch_size
        train, public, test = (
            self.sites.pairs(corpus, variation.draw(seed), part) for part in ("train", "public", "test")
        )
        sites = max(1, round((variation.participation or self.settings.participation) * SITES[corpus]))
        epochs = variation.local_epochs or self.settings.local_epochs
        local = epochs * (train - public) / SITES[corpus] / size * _STEP  # of one site in a round
        if variation.method in FEDED:
            batches = public / FEDED[variation.method].get("distillation_batch", size)
            a_round = sites * (local + 0.3) + batches * _STEP + (sites + 2) * public * 0.0005
        else:
            a_round = {
                "fedavg": sites * (local + 0.3),
                "fedatt": sites * (local + 0.5),
                "public": public / size * _STEP + 2 * public * 0.0005,
                "central": train / size * _STEP,
            }.get(variation.method, local)
        return 30 + self.rounds(variation) * (a_round + test * 0.0008)
