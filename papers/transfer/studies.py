"""The trainings of the transfer paper (`sweep.toml`) as tables that `one_run.py` reads."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from papers.common.sweep import Sweep, Variation, read_variations
from papers.transfer.make_sites import SOURCE_OF, TransferSites

__all__ = ["LAYERS", "NONE", "RECALL_FIRST", "VARIATIONS", "Settings", "Study", "Transfer", "point"]

# The layers of Figure 3, bottom to top: the paper's names, and those of `wardround transfer --up-to`.
LAYERS: Mapping[str, str] = {
    "token-embeddings": "words",
    "character-embeddings": "characters.embedding",
    "character-lstm": "characters",
    "token-lstm": "dense",
    "fully-connected": "output",
    "all": "crf",
}
NONE = "none"  # nothing is transferred
RECALL_FIRST = 0.05  # the threshold that the documentation of `wardround redact` starts with

_STEP = {"meddocan": 0.020, "synthetic": 0.014, "presidio": 0.012}  # seconds of a mini-batch of eight on one core
_ADAM = 0.6  # of that, for eight sentences of its larger mini-batches
_READ = 0.0008  # seconds to tag a sentence
_USED = {"source": 0.8, "official": 0.8, NONE: 0.6}  # share of the epochs: patience ends most trainings
_USED_WITH_TRANSFER = 0.35  # the same for a target that starts from a source


@dataclass(frozen=True)
class Settings:
    """Settings of all trainings."""

    learning_rate: float = 0.1  # of SGD
    batch_size: int = 8  # sentences
    patience: int = 10  # epochs without a better development F1
    epochs: int = 60  # at most, of a target
    source_epochs: int = 15  # at most, of a source
    official_epochs: int = 20  # at most, on all of MEDDOCAN
    least: int = 400  # sentences of an epoch: fewer are repeated within it
    adam_rate: float = 2e-3  # of the other recipe, which falls to zero over all epochs
    adam_batch: int = 32  # its sentences


@dataclass(frozen=True, kw_only=True)
class Study(Variation):
    """One training of `sweep.toml`."""

    corpus: str
    site: str = "target"
    size: int = 100  # percent of the training notes
    layer: str = NONE  # the topmost layer that is transferred
    recipe: str = "sgd"


VARIATIONS = read_variations(Path(__file__).with_name("sweep.toml"), Study)


def point(corpus: str, size: int, layer: str) -> str:
    """Return the name of a point of Figures 2 and 3."""
    return f"{corpus}-{size:03d}-{layer}"


class Transfer(Sweep):
    """The sweep; the trainings of the sources leave the models that the others start from."""

    variations = VARIATIONS
    defaults = Settings()
    tiny: ClassVar[Mapping[str, str]] = {"epochs": "2", "source_epochs": "1", "official_epochs": "1", "least": "16"}
    must_name_tables = True
    fixed_seeds = True
    script = Path(__file__).with_name("one_run.py")
    places: ClassVar[Mapping[str, str]] = {"sources": "the folder of the runs of --only sources; default: --out"}
    read_sites = TransferSites.read
    settings: Settings
    sites: TransferSites

    def source(self, variation: Study) -> Path:
        """Return the folder of the model that a training starts from."""
        return self.folders["sources"] / f"source-{SOURCE_OF[variation.corpus]}-seed-0" / "model"

    def check_files(self, variations: Sequence[Study]) -> None:
        """Exit if a model is missing that a training starts from."""
        needed = dict.fromkeys(self.source(variation) for variation in variations if variation.layer != NONE)
        if missing := [folder.parent.name.removesuffix("-seed-0") for folder in needed if not folder.is_dir()]:
            names = ", ".join(missing)
            sys.exit(f"there is no model of {names}: run --only sources, or name its folder with --sources")

    def epochs(self, variation: Study) -> int:
        """Return the largest number of epochs."""
        own = self.settings
        return {"target": own.epochs, "source": own.source_epochs, "official": own.official_epochs}[variation.site]

    def study(self, variation: Study, seed: int) -> dict[str, Any]:
        """Return the training as tables."""
        own, vectors = self.settings, self.sites.vectors(variation.corpus)
        transfer, recipe = {"source": "", "up_to": ""}, dict[str, Any]()
        if variation.layer != NONE:
            transfer = {"source": str(self.source(variation)), "up_to": LAYERS[variation.layer]}
        if variation.recipe == "adam":
            recipe = {"optimizer": "adam", "schedule": "linear"}
            recipe |= {"batch_size": own.adam_batch, "learning_rate": own.adam_rate}
        else:
            recipe = {"optimizer": "sgd", "schedule": "constant"}
            recipe |= {"batch_size": own.batch_size, "learning_rate": own.learning_rate}
        return {
            "study": {"name": variation.name, "seed": seed},
            "site": {"data": str(self.sites.data(variation.corpus, variation.site)), "fraction": variation.size / 100},
            "model": {"preset": "transfer", "vectors": "" if vectors is None else str(vectors)},
            "transfer": transfer,
            "training": {
                **recipe,
                "epochs": self.epochs(variation),
                "patience": own.patience,
                "least": own.least,
            },
            "keep_model": variation.site != "target",
        }

    def estimate(self, variation: Study, seed: int) -> float:
        """Return the expected seconds on one core."""
        train, dev, test = (self.sites.count(variation.corpus, variation.site, p) for p in ("train", "dev", "test"))
        sentences = max(train * variation.size / 100, self.settings.least)
        eights = sentences / 8 * (_ADAM if variation.recipe == "adam" else 1.0)
        used = _USED.get(variation.site) or _USED.get(variation.layer, _USED_WITH_TRANSFER)
        epoch = eights * _STEP[variation.corpus] + dev * _READ
        return 8 + used * self.epochs(variation) * epoch + test * _READ
