"""The studies of the paper on heterogeneous tag sets (`sweep.toml`) as study files."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from papers.common.sweep import Sweep, Variation, privacy, read_variations
from papers.tagsets.make_sites import TUNE, TagSites

__all__ = ["ADVERSARIAL", "VARIATIONS", "Chosen", "Settings", "Study", "TagSetSweep", "tries_of"]

_OUTSIDE = 0.05  # weight with which an unlabelled word counts as no mention; tried on the example alone
# Algorithm settings by method: what an unlabelled word is taken for, and whether sentences are weighted.
COMPLETED: Mapping[str, Mapping[str, Any]] = {
    "full": {"unknown": "pseudo", "weighting": True},
    "raw-weight": {"unknown": "pseudo", "weighting": True, "centred": False},  # Eq. 12 as it stands
    "early": {"unknown": "pseudo", "weighting": True, "trusted_after": 1},
    "no-weight": {"unknown": "pseudo", "weighting": False},
    "neither": {"unknown": "outside", "weighting": False},  # the paper's "w/o distill & weight"
    "partial": {"unknown": "partial", "weighting": False},
    "posterior": {"unknown": "posterior", "weighting": False},
    "partial-outside": {"unknown": "partial", "weighting": False, "outside": _OUTSIDE},
    "posterior-outside": {"unknown": "posterior", "weighting": False, "outside": _OUTSIDE},
}
ADVERSARIAL = ("ganin", "peng", "hong")
_WEIGHED_ROUNDS = 2  # of studies that count bytes; in the first one clips are learned

_STEP = {"bilstm-crf": 0.06, "lora": 0.025, "prompt": 0.025, "light-ner": 0.05}  # seconds of a batch of sixteen
_READ = {"bilstm-crf": 0.0015, "lora": 0.001, "prompt": 0.001, "light-ner": 0.0015}  # seconds of a sentence


@dataclass(frozen=True)
class Settings:
    """Settings of all studies."""

    encoder: str = "minilm"
    bart: str = ""  # the folder of a small BART, which light-ner needs
    gum_rounds: int = 25
    bio_rounds: int = 25
    synthetic_rounds: int = 25
    local_epochs: int = 1  # E
    batch_size: int = 16
    momentum: float = 0.9  # α
    trusted_after: int = 5  # unless another was chosen for the family
    prompt_hidden: int = 48  # h over the encoder
    bart_hidden: int = 128  # h over BART
    train_words: bool = False  # of bilstm-crf, whose word vectors are GloVe's
    input_dropout: float = 0.3  # the same
    dropout: float = 0.3  # the same
    pooled_epochs: int = 12  # over all notes in one place
    pooled_batch: int = 64  # sentences of all sites together
    single_epochs: int = 20  # of a site alone
    clip: float = 5.0  # largest norm of a gradient


@dataclass(frozen=True)
class Chosen:
    """What was chosen for a family on development data; 0: as in the settings."""

    rate: float
    trusted_after: int = 0
    local_epochs: int = 0
    pooled_epochs: int = 0


@dataclass(frozen=True, kw_only=True)
class Study(Variation):
    """One study of `sweep.toml`; what is unset is as chosen, or as in the settings."""

    corpus: str
    family: str
    method: str
    rate: str = ""  # empty: the one chosen for the family
    slower: float = 1.0  # factor of that rate
    trusted_after: int = 0  # rounds before the global model is asked
    prompt_hidden: int = 0
    local_epochs: int = 0
    pooled_epochs: int = 0
    mechanism: str = ""  # that protects updates; if set, only bytes count
    chosen_for: str = ""  # the name of its choice; empty: the family

    @property
    def choice(self) -> str:
        """Return the name of its choice in `chosen.json`."""
        return self.chosen_for or self.family

    @property
    def tried(self) -> Chosen:
        """Return the values that a tuning study tries."""
        return Chosen(float(self.rate), self.trusted_after, self.local_epochs, self.pooled_epochs)

    def sampling(self, seed: int) -> str:
        """Return the sampling of tag sets that goes with a seed."""
        return TUNE if self.rate else str(seed)


VARIATIONS = read_variations(Path(__file__).with_name("sweep.toml"), Study)


def tries_of(choice: str) -> dict[str, Study]:
    """Return the tuning studies of a choice by the last part of their name."""
    found = [v for v in VARIATIONS.values() if "tune" in v.tables and v.choice == choice]
    return {v.name.removeprefix(f"tune-{choice}-"): v for v in found}


class TagSetSweep(Sweep):
    """The sweep; `chosen` has the choice of each family."""

    variations = VARIATIONS
    defaults = Settings()
    tiny: ClassVar[Mapping[str, str]] = {
        **{"encoder": "bert-tiny", "gum_rounds": "2", "bio_rounds": "2", "synthetic_rounds": "2"},
        **{"pooled_epochs": "1", "single_epochs": "1", "batch_size": "64", "pooled_batch": "256"},
    }
    must_name_tables = True
    read_sites = TagSites.read
    settings: Settings
    sites: TagSites

    @classmethod
    def prepared(cls, settings: Settings) -> Settings:
        """Return the settings with absolute paths of the encoder and of BART."""
        encoder, bart = (str(Path(p).resolve()) if "/" in p else p for p in (settings.encoder, settings.bart))
        return replace(settings, encoder=encoder, bart=bart)

    def check(self, variations: Sequence[Study]) -> None:
        """Exit if a rate was not chosen yet, or BART is missing."""
        needed = {v.choice for v in variations if not v.rate and not v.mechanism}
        self.require_choices(needed, self.chosen, "tagsets")
        if not self.settings.bart and any(v.family == "light-ner" for v in variations):
            remedy = "train one with papers.tagsets.small_bart and name it with --set bart=FOLDER"
            sys.exit(f"light-ner needs a BART: {remedy}; or leave light-ner out of --only")

    def head(self) -> dict[str, Any]:
        """Return settings and sites; of the encoder only its name, and no BART, which only some runs have."""
        settings = asdict(self.settings) | {"encoder": Path(self.settings.encoder).name}
        return {"settings": {n: value for n, value in settings.items() if n != "bart"}, "sites": self.sites.described}

    def setting(self, variation: Study, name: str) -> int:
        """Return `trusted_after`, `local_epochs` or `pooled_epochs`: the study's, the chosen one or the default."""
        chosen = {} if variation.rate else self.chosen.get(variation.choice, {})
        found = int(getattr(variation, name) or chosen.get(name) or getattr(self.settings, name))
        if name != "trusted_after":
            return found
        rounds = _WEIGHED_ROUNDS if variation.mechanism else self._federated_rounds(variation)
        return min(found, max(1, rounds // 2))  # the model is asked in half of the rounds at least

    def rate(self, variation: Study) -> float:
        """Return the learning rate."""
        if variation.mechanism:
            return 1e-4
        if variation.rate:
            return float(variation.rate)
        return variation.slower * float(self.chosen[variation.choice]["rate"])

    def _federated_rounds(self, variation: Study) -> int:
        return int(getattr(self.settings, f"{variation.corpus}_rounds"))

    def rounds(self, variation: Study) -> int:
        """Return the rounds, which all federated methods of a table share; in one place a round is a mini-batch."""
        if variation.mechanism:
            return _WEIGHED_ROUNDS
        if variation.method == "single":
            return self.settings.single_epochs
        if variation.method == "pooled":
            batches = self.sites.sentences(variation.corpus, "train") / self.settings.pooled_batch
            return max(1, round(self.setting(variation, "pooled_epochs") * batches))
        return self._federated_rounds(variation)

    def study(self, variation: Study, seed: int) -> dict[str, Any]:
        """Return the study file as tables."""
        rounds, pooled = self.rounds(variation), variation.method == "pooled"
        return {
            "study": {"name": variation.name, "seed": seed},
            "model": self._model(variation),
            "algorithm": {**self._algorithm(variation), "rounds": rounds},
            "training": {
                "batch_size": self.settings.pooled_batch if pooled else self.settings.batch_size,
                "learning_rate": self.rate(variation),
                "schedule": "linear",
                "clip": self.settings.clip,
            },
            "privacy": privacy(variation.mechanism),
            # Nothing is chosen on the development notes: they do not annotate the types that a site does not.
            "evaluation": {"every": rounds, "keep": "last"},
            "federation": {"checkpoint_every": max(1, rounds // 3)},
            "sites": self.sites.sections(variation.corpus, variation.sampling(seed), complete=pooled),
        }

    def _model(self, variation: Study) -> dict[str, Any]:
        own, shared = self.settings, {"shared": ["all"]} if variation.method == "fedavg" else {}
        if variation.family == "bilstm-crf":
            return {
                "preset": "cnn-lstm-crf",
                "vectors": str(self.sites.vectors(variation.corpus)),
                "train_words": own.train_words,
                "input_dropout": own.input_dropout,
                "dropout": own.dropout,
                **shared,
            }
        if variation.family == "light-ner":
            return {"bart": own.bart, "prompt_hidden": variation.prompt_hidden or own.bart_hidden, **shared}
        prompt = {"prompt_hidden": variation.prompt_hidden or own.prompt_hidden}
        hidden = prompt if variation.family == "prompt" else {}
        return {"encoder": own.encoder, "adapter": variation.family, **shared, **hidden}

    def _algorithm(self, variation: Study) -> dict[str, Any]:
        method, epochs = variation.method, {"local_epochs": self.setting(variation, "local_epochs")}
        if method == "pooled":
            return {"name": "pooled"}
        if method in ("single", "fedavg"):
            return {"name": method, **epochs}
        trusted = {"trusted_after": self.setting(variation, "trusted_after")}
        if method in ADVERSARIAL:
            return {"name": "adversarial", "method": method, **epochs, **trusted}
        steps = {"local_steps": 1} if variation.mechanism else {}  # bytes do not depend on the training
        return {
            "name": "tagsets",
            **epochs,
            **trusted,
            "momentum": self.settings.momentum,
            **COMPLETED[method],
            **steps,
        }

    def options(self, variation: Study, seed: int) -> dict[str, Any]:
        """Return the rate and who annotates what, and that the network is described."""
        annotated = self.sites.tag_sets(variation.corpus, variation.sampling(seed))
        facts = {"learning_rate": self.rate(variation), "annotated": annotated}
        return {"facts": facts, "own_options": ["--describe-network"]}

    def estimate(self, variation: Study, seed: int) -> float:
        """Return the expected seconds if sixteen runs share a GPU."""
        step, read, method = _STEP[variation.family], _READ[variation.family], variation.method
        train, test = (self.sites.sentences(variation.corpus, part) for part in ("train", "test"))
        rounds = self.rounds(variation)
        if method == "pooled":
            return 30 + rounds * len(self.sites.names(variation.corpus)) * (step + 0.01) + test * read
        own = COMPLETED.get(method, {"unknown": "pseudo" if method in ADVERSARIAL else "outside"})
        teaching = train * read if own["unknown"] in ("pseudo", "posterior") else 0.0
        compared = 3 * train * read if own.get("weighting") else 0.0
        steps = self.setting(variation, "local_epochs") * train / self.settings.batch_size
        return 30 + rounds * (steps * step + teaching + compared) + test * read
