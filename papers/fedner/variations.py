"""What is measured: each row of a table and each point of a figure as a study, and the settings they have in common."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from papers.common.settings import AS_THE_PAPERS_AVERAGE
from papers.common.sites import Sites

NETWORKS = ("cnn-crf", "lstm-crf", "gram-cnn", "cnn-lstm-crf", "s-lstm-crf", "cnn-clstm-crf", "elmoner")
MASKED_NETWORK = "cnn-lstm-crf"  # of Figure 5: the best one without a language model, which knows entities beforehand
_PER_BATCH = ("fedner", "pooled")  # algorithms whose round is one mini-batch of all sites together
_EMBEDDINGS = ("words", "characters", "contextual")
_LARGEST_LOCAL = 64  # sentences; what a site on its own trains on at once, however large N is


@dataclass(frozen=True)
class Settings:
    """What every study of a measurement has in common; tuned for all of them together or not at all."""

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
    encoder: str = "minilm"  # of ELMoNER; empty leaves it out


@dataclass(frozen=True)
class Variation:
    """One row or point."""

    name: str
    tables: tuple[str, ...]  # where it is shown
    group: str = "five"  # of sites
    preset: str = "elmoner"
    algorithm: str = "fedner"
    shared: tuple[str, ...] = ()  # empty is the network's own split, which is the paper's
    one_scheme: bool = False
    steps_as_shared: bool = False  # on its own, yet with the rate and batch of the exchange

    @property
    def per_batch(self) -> bool:
        """Whether a round is a mini-batch."""
        return self.algorithm in _PER_BATCH


def _table2() -> list[Variation]:
    everywhere = ("table2", "figure3", "figure6", "algorithms", "gap")
    single = [
        Variation(f"single-{preset}", ("table2", *_figures_of(preset)), preset=preset, algorithm="single")
        for preset in NETWORKS[:-1]
    ]
    return [
        *single,
        Variation("single-elmoner", everywhere, algorithm="single"),
        Variation("fedner", (*everywhere, "figure4")),
        Variation("pooled", ("table2", "gap"), algorithm="pooled"),
    ]


def _figures_of(preset: str) -> tuple[str, ...]:
    return ("figure5", "figure6") if preset == MASKED_NETWORK else ("figure6",)


def _figures_3_and_5() -> list[Variation]:
    groups = [(f"five-ratio-{r:.2f}", "figure3", "elmoner") for r in (0.25, 0.5, 0.75)]
    groups += [(f"five-mask-{r:.2f}", "figure5", MASKED_NETWORK) for r in (0.25, 0.5, 0.75, 1.0)]
    return [
        Variation(f"{name}-{group.removeprefix('five-')}", (figure,), group=group, preset=preset, algorithm=algorithm)
        for group, figure, preset in groups
        for name, algorithm in (("single", "single"), ("fedner", "fedner"))
    ]


def _figure4() -> list[Variation]:
    return [
        Variation("share-nothing", ("figure4",), algorithm="single", steps_as_shared=True),
        Variation("share-embeddings", ("figure4",), shared=_EMBEDDINGS),
        Variation("share-lstm", ("figure4",), shared=(*_EMBEDDINGS, "word_cnn", "lstm")),
        Variation("share-everything", ("figure4",), shared=("all",), one_scheme=True),
    ]


def _figure6() -> list[Variation]:
    return [Variation(f"fedner-{preset}", _figures_of(preset), preset=preset) for preset in NETWORKS[:-1]]


def _one_corpus() -> list[Variation]:
    """Pooled is one site that has all the notes: per-batch exchange of everything would be the same as `everything`."""
    rows = []
    for corpus in ("bc2gm", "bc5cdr"):
        table = (corpus,)
        rows += [
            Variation(f"{corpus}-single", table, group=corpus, algorithm="single"),
            Variation(f"{corpus}-fedner", table, group=corpus),
            Variation(f"{corpus}-everything", table, group=corpus, shared=("all",)),
            Variation(f"{corpus}-pooled", table, group=f"{corpus}-all", algorithm="single"),
        ]
    return rows


def _algorithms() -> list[Variation]:
    return [Variation(name, ("algorithms",), algorithm=name) for name in ("fedavg", "fedprox", "fedatt")]


VARIATIONS = {
    variation.name: variation
    for variation in [
        *_table2(),
        *_figures_3_and_5(),
        *_figure4(),
        *_figure6(),
        *_one_corpus(),
        *_algorithms(),
    ]
}
TABLES = tuple(dict.fromkeys(table for variation in VARIATIONS.values() for table in variation.tables))


def study_of(variation: Variation, seed: int, settings: Settings, sites: Sites) -> dict[str, Any]:
    """The study file as tables."""
    rounds = rounds_of(variation, settings, sites)
    scheme = {"scheme": "BIO"} if variation.one_scheme else {}
    return {
        "study": {"name": variation.name, "seed": seed},
        "model": _model(variation, settings, sites),
        "algorithm": {"name": variation.algorithm, "rounds": rounds},
        "training": _training(variation, settings, sites),
        "privacy": AS_THE_PAPERS_AVERAGE,
        "evaluation": {"every": max(1, rounds // settings.scorings)},
        "federation": {"checkpoint_every": max(1, rounds // 4)},
        "sites": {name: section | scheme for name, section in sites.sections(variation.group).items()},
    }


def rounds_of(variation: Variation, settings: Settings, sites: Sites) -> int:
    """A round is an epoch, or a mini-batch of which Σ|S| / N make one."""
    if settings.rounds:
        return settings.rounds
    if not variation.per_batch:
        return settings.epochs
    return max(1, round(settings.epochs * sites.sentences(variation.group, "train") / settings.shared_batch_size))


def vectors_of(group: str, sites: Sites) -> Path:
    """The word vectors of the group's family."""
    return sites.path / f"{group.partition('-')[0]}.npz"


def _model(variation: Variation, settings: Settings, sites: Sites) -> dict[str, Any]:
    model: dict[str, Any] = {
        "preset": variation.preset,
        "vectors": str(vectors_of(variation.group, sites)),
        "input_dropout": settings.input_dropout,
        "dropout": settings.dropout,
        "train_words": settings.train_words,
    }
    if variation.preset == "elmoner":
        model["contextual"] = settings.encoder
    if variation.shared:
        model["shared"] = list(variation.shared)
    return model


def _training(variation: Variation, settings: Settings, sites: Sites) -> dict[str, Any]:
    batch, rate = settings.batch_size, settings.learning_rate
    if variation.per_batch:
        batch, rate = settings.shared_batch_size, settings.shared_learning_rate
    elif variation.steps_as_shared:
        share = round(settings.shared_batch_size / len(sites.described[variation.group]))
        batch, rate = min(max(1, share), _LARGEST_LOCAL), settings.shared_learning_rate
    return {
        "batch_size": batch,
        "learning_rate": rate,
        "output_learning_rate": settings.output_learning_rate,
        "weight_decay": settings.weight_decay,
        "schedule": settings.schedule,
    }


def estimate(variation: Variation, settings: Settings, sites: Sites) -> float:
    """Seconds on a GPU shared by a dozen runs, roughly: the order in which runs start hangs on it, nothing else.

    18 ms a step and 0.9 ms a scored sentence are what the runs of `bc5cdr_single_site.json` took; the rest is guessed.
    """
    rounds, group = rounds_of(variation, settings, sites), variation.group
    own = -(-sites.sentences(group, "train") // settings.batch_size)
    steps = rounds * (len(sites.described[group]) if variation.per_batch else own)
    scored = sites.sentences(group, "dev") * min(rounds, settings.scorings) + sites.sentences(group, "test")
    contextual = 1.6 if variation.preset == "elmoner" and settings.encoder else 1.0
    exchanged = 0.02 * steps if variation.per_batch else 0.0
    return 15 + contextual * (0.018 * steps + 0.0009 * scored) + exchanged
