"""What is measured: every corpus, size of the target and topmost layer that is transferred, as a training each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from papers.transfer.make_sites import CORPORA, SOURCE_OF, TransferSites

SIZES = (5, 10, 20, 40, 60, 100)  # percent of the target's training notes
# Figure 3 has the paper's names, bottom to top; `wardround transfer --up-to` has ours.
LAYERS: Mapping[str, str] = {
    "token-embeddings": "words",
    "character-embeddings": "characters.embedding",
    "character-lstm": "characters",
    "token-lstm": "dense",
    "fully-connected": "output",
    "all": "crf",
}
NONE = "none"  # nothing is transferred
LAYERED: Mapping[str, tuple[int, ...]] = {"meddocan": (5, 10, 20), "synthetic": (5, 10, 20, 40, 60)}  # Experiment 2
SEEDS = range(5)
FEW_SEEDS = range(3)  # of layers between none and all, and of presidio, for which nothing was to be reached
RECIPES = ("sgd", "adam")  # of the training on all of MEDDOCAN
RECALL_FIRST = 0.05  # the threshold that the documentation of `wardround redact` begins with


@dataclass(frozen=True)
class Settings:
    """What the trainings of a measurement have in common."""

    learning_rate: float = 0.1  # of SGD
    batch_size: int = 8  # sentences
    patience: int = 10  # epochs without a better development F1
    epochs: int = 60  # at most, of a target
    source_epochs: int = 15  # at most, of a source
    official_epochs: int = 20  # at most, on all of MEDDOCAN
    least: int = 400  # sentences of an epoch: fewer are gone through several times
    adam_rate: float = 2e-3  # of the other recipe, which falls to zero over all epochs
    adam_batch: int = 32  # its sentences


@dataclass(frozen=True)
class Variation:
    """One point of a figure, a source, or one recipe on all of MEDDOCAN."""

    name: str
    tables: tuple[str, ...]  # where it is shown
    corpus: str
    site: str = "target"
    size: int = 100  # percent of the training notes
    layer: str = NONE  # topmost that is transferred
    recipe: str = "sgd"
    seeds: Sequence[int] = SEEDS


def point(corpus: str, size: int, layer: str) -> str:
    """What a point of Figures 2 and 3 is called."""
    return f"{corpus}-{size:03d}-{layer}"


def _points() -> list[Variation]:
    found = []
    for corpus in CORPORA:
        for size in SIZES:
            layered = size in LAYERED.get(corpus, ())
            for layer in (NONE, *(LAYERS if layered else ["all"])):
                ends = layer in (NONE, "all")
                experiments = ["experiment1"] * ends + ["experiment2"] * layered
                tables = tuple(name for e in experiments for name in (e, f"{e}-{corpus}"))
                seeds = SEEDS if ends and corpus != "presidio" else FEW_SEEDS
                found.append(Variation(point(corpus, size, layer), tables, corpus, size=size, layer=layer, seeds=seeds))
    return found


def _sources() -> list[Variation]:
    corpora = dict.fromkeys(SOURCE_OF.values())
    return [Variation(source_name(corpus), ("sources",), corpus, "source", seeds=range(1)) for corpus in corpora]


def _official() -> list[Variation]:
    return [
        Variation(f"official-{recipe}", ("official",), "meddocan", "official", recipe=recipe, seeds=range(1))
        for recipe in RECIPES
    ]


def source_name(corpus: str) -> str:
    """The training at the source of a corpus."""
    return f"source-{corpus}"


VARIATIONS = {v.name: v for v in [*_sources(), *_points(), *_official()]}
TABLES = tuple(dict.fromkeys(table for variation in VARIATIONS.values() for table in variation.tables))


def study_of(
    variation: Variation, seed: int, settings: Settings, *, sites: TransferSites, sources: Path
) -> dict[str, Any]:
    """The training as tables; `sources` is where the runs of the sources lie."""
    vectors = sites.vectors(variation.corpus)
    return {
        "study": {"name": variation.name, "seed": seed},
        "site": {"data": str(sites.data(variation.corpus, variation.site)), "fraction": variation.size / 100},
        "model": {"preset": "transfer", "vectors": "" if vectors is None else str(vectors)},
        "transfer": _transfer(variation, sources),
        "training": {
            **_recipe(variation, settings),
            "epochs": epochs_of(variation, settings),
            "patience": settings.patience,
            "least": settings.least,
        },
        "keep_model": variation.site != "target",
    }


def _transfer(variation: Variation, sources: Path) -> dict[str, str]:
    if variation.layer == NONE:
        return {"source": "", "up_to": ""}
    return {"source": str(source_of(variation, sources)), "up_to": LAYERS[variation.layer]}


def source_of(variation: Variation, sources: Path) -> Path:
    """The folder of the model that the variation begins from."""
    return sources / f"{source_name(SOURCE_OF[variation.corpus])}-seed-0" / "model"


def _recipe(variation: Variation, settings: Settings) -> dict[str, Any]:
    if variation.recipe == "adam":
        own = {"batch_size": settings.adam_batch, "learning_rate": settings.adam_rate}
        return {"optimizer": "adam", "schedule": "linear", **own}
    own = {"batch_size": settings.batch_size, "learning_rate": settings.learning_rate}
    return {"optimizer": "sgd", "schedule": "constant", **own}


def epochs_of(variation: Variation, settings: Settings) -> int:
    """At most."""
    epochs = {"target": settings.epochs, "source": settings.source_epochs, "official": settings.official_epochs}
    return epochs[variation.site]


# Time.

_STEP = {"meddocan": 0.020, "synthetic": 0.014, "presidio": 0.012}  # seconds of a mini-batch of eight on one core
_ADAM = 0.6  # of that, for eight of its larger mini-batches
_READ = 0.0008  # seconds of a sentence that is tagged
_USED = {"source": 0.8, "official": 0.8, NONE: 0.6}  # of the epochs, for patience ends most trainings
_USED_WITH_TRANSFER = 0.35  # the same of a target that begins from a source


def estimate(variation: Variation, settings: Settings, sites: TransferSites) -> float:
    """Seconds on one core, roughly: the order in which runs start hangs on it, nothing else."""
    held = sites.count(variation.corpus, variation.site, "train") * variation.size / 100
    dev, test = (sites.count(variation.corpus, variation.site, part) for part in ("dev", "test"))
    eights = max(held, settings.least) / 8 * (_ADAM if variation.recipe == "adam" else 1.0)
    used = _USED.get(variation.site) or _USED.get(variation.layer, _USED_WITH_TRANSFER)
    epochs = used * epochs_of(variation, settings)
    return 8 + epochs * (eights * _STEP[variation.corpus] + dev * _READ) + test * _READ
