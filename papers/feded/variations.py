"""What is measured: each cell of the paper's tables and figures as a study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from papers.common.settings import AS_THE_PAPERS_AVERAGE
from papers.feded.make_sites import SITES, TUNE, TUNED_ON, Draws, site_names

CORPORA = ("gad", "euadr", "biored")
# FedED as the paper has it, and with the labels of the public set left out after some rounds, in larger batches of it.
FEDED: Mapping[str, Mapping[str, int]] = {
    "feded": {},
    "feded-3": {"label_rounds": 3, "distillation_batch": 16},
    "feded-5": {"label_rounds": 5, "distillation_batch": 32},
}
FEDERATED = ("fedavg", "fedatt", *FEDED)
RACERS = ("fedavg", "fedatt", "feded-3")
TUNED = (*FEDERATED, "public", "central")  # a rate is chosen for each of these
SINGLE = ("single-1", "single-2", "single-3")  # sites that are trained alone
CANDIDATES = ("4e-5", "1e-4", "2.5e-4")  # rates
MAIN_TABLES = {"gad": "table3", "euadr": "table4", "biored": "table5"}
MAIN_METHODS = {
    "gad": (*FEDERATED, "public", "central", *SINGLE),
    "euadr": (*FEDERATED, "public", "central", SINGLE[0]),
    "biored": (*FEDERATED, "public"),
}
RACED_ON = "gad"  # rounds to a target are counted here
FRACTIONS = (0.1, 0.3, 0.5, 1.0)  # C
WORK = tuple(product((1, 3), (2, 8, 16)))  # E and B of Table 8
PRECISIONS = ("float32", "float16", "top-k")  # of predictions that are not protected
PROTECTED = ("masked", "sealed", "sealed+masked")
_STEP = 0.02  # seconds of a step where sixteen runs share a GPU


@dataclass(frozen=True)
class Settings:
    """What the studies of a measurement have in common."""

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

    def rounds(self, corpus: str) -> int:
        """Of the federated methods on a corpus."""
        return {"gad": self.gad_rounds, "euadr": self.euadr_rounds, "biored": self.biored_rounds}[corpus]


@dataclass(frozen=True)
class Variation:
    """One cell; what is unset is as the measurement has it."""

    name: str
    table: str  # where it is shown
    corpus: str
    method: str
    rate: str = ""  # empty is what was chosen for the method
    participation: float = 0.0
    batch_size: int = 0
    local_epochs: int = 0
    races: bool = False  # it is over at the target F1
    precision: str = ""  # of predictions
    mechanism: str = ""  # under which they are given; set, nothing is scored: bytes are counted
    encoder: str = ""

    @property
    def counts_bytes(self) -> bool:
        """Whether all that is asked is what passes."""
        return bool(self.mechanism)


def _tuning() -> list[Variation]:
    return [Variation(f"tune-{m}-{rate}", "tune", TUNED_ON, m, rate=rate) for m in TUNED for rate in CANDIDATES]


def _main() -> list[Variation]:
    return [
        Variation(f"{corpus}-{method}", table, corpus, method)
        for corpus, table in MAIN_TABLES.items()
        for method in MAIN_METHODS[corpus]
    ]


def _races() -> list[Variation]:
    parallel = [
        Variation(f"race-{method}-c{fraction}", "figure2", RACED_ON, method, participation=fraction, races=True)
        for method, fraction in product(RACERS, FRACTIONS)
    ]
    work = [
        Variation(
            f"race-{method}-b{size}-e{epochs}",
            "table8",
            RACED_ON,
            method,
            batch_size=size,
            local_epochs=epochs,
            races=True,
        )
        for method, (epochs, size) in product(RACERS, WORK)
    ]
    return [*parallel, *work]


def _weighings() -> list[Variation]:
    return [weighed for corpus in CORPORA for weighed in (*_updates(corpus), *_predictions(corpus))]


def _updates(corpus: str) -> list[Variation]:
    ways = [("fedavg", "plain"), ("fedatt", "plain"), ("fedavg", "masked"), ("fedavg", "sealed")]
    return [Variation(f"weigh-{corpus}-{m}-{way}", "table7", corpus, m, mechanism=way) for m, way in ways]


def _predictions(corpus: str) -> list[Variation]:
    """What predictions weigh hangs on the public set alone: a small network gives them too, and plain ones one site."""
    ways = [("plain", precision) for precision in PRECISIONS] + [(way, "") for way in PROTECTED]
    return [
        Variation(
            f"weigh-{corpus}-feded-{precision or way.replace('+', '-')}",
            "table7",
            corpus,
            "feded",
            mechanism=way,
            precision=precision,
            encoder="bert-tiny",
            participation=0.0 if way in PROTECTED else 0.02,
        )
        for way, precision in ways
    ]


VARIATIONS = {v.name: v for v in [*_tuning(), *_main(), *_races(), *_weighings()]}
TABLES = tuple(dict.fromkeys(variation.table for variation in VARIATIONS.values()))


def draw_of(variation: Variation, seed: int) -> str:
    """Which sites go with a seed."""
    return TUNE if variation.table == "tune" else f"seed-{seed}"


def rate_of(variation: Variation, chosen: Mapping[str, float]) -> float:
    """The one that is tried, or the one that was chosen; a site alone trains as all of them in one place."""
    if variation.counts_bytes:
        return 1e-5
    method = "central" if variation.method in SINGLE else variation.method
    return float(variation.rate) if variation.rate else chosen[method]


def study_of(
    variation: Variation, seed: int, settings: Settings, *, chosen: Mapping[str, float], draws: Draws
) -> dict[str, Any]:
    """The study file as tables; `chosen` has the rate of each method."""
    corpus, draw = variation.corpus, draw_of(variation, seed)
    names = _sites(variation)
    public = {"public": draws.public(corpus, draw)} if variation.method in (*FEDED, "public") else {}
    return {
        "study": {"name": variation.name, "seed": seed},
        "task": draws.task(corpus),
        **public,
        "model": {"encoder": variation.encoder or settings.encoder},
        "algorithm": _algorithm(variation, settings),
        "training": {
            "batch_size": variation.batch_size or settings.batch_size,
            "learning_rate": rate_of(variation, chosen),
            "schedule": "linear",
            "clip": settings.clip,
        },
        "privacy": _privacy(variation),
        "evaluation": {"every": rounds_of(variation, settings)},
        "sites": draws.sites(corpus, draw, names),
    }


def _sites(variation: Variation) -> list[str]:
    names = site_names(SITES[variation.corpus])
    if variation.method in SINGLE:
        return [names[SINGLE.index(variation.method)]]
    return ["all"] if variation.method == "central" else names


def _algorithm(variation: Variation, settings: Settings) -> dict[str, Any]:
    """Central and single are an average over one site, whose optimizer remembers."""
    rounds, method = rounds_of(variation, settings), variation.method
    if method == "public":
        return {"name": "public", "rounds": rounds, "public_epochs": 1}
    epochs = variation.local_epochs or settings.local_epochs
    if method not in FEDERATED:
        epochs = 1 if method == "central" else epochs
        return {"name": "fedavg", "rounds": rounds, "local_epochs": epochs, "keep_moments": True}
    return {
        "name": "feded" if method in FEDED else method,
        "rounds": rounds,
        "participation": variation.participation or settings.participation,
        "local_epochs": epochs,
        "keep_moments": False,
        **FEDED.get(method, {}),
        **_little_work(variation),
        **({"precision": variation.precision} if variation.precision else {}),
    }


def _little_work(variation: Variation) -> dict[str, Any]:
    """Where bytes are counted that hang on no training; a plain update has only the rows of words that were read."""
    if not variation.counts_bytes or (variation.method != "feded" and variation.mechanism == "plain"):
        return {}
    return {"local_steps": 1, **({"distillation_batch": 64} if variation.method == "feded" else {})}


def _privacy(variation: Variation) -> dict[str, Any]:
    mechanism = variation.mechanism or "plain"
    return {"mechanism": mechanism, "minimum_sites": 1 if mechanism == "plain" else 3, **AS_THE_PAPERS_AVERAGE}


def rounds_of(variation: Variation, settings: Settings) -> int:
    """As many as all methods of a table have; of a race, the most it may take."""
    if variation.counts_bytes:
        return 2  # in the first one sites are met and clips learned
    if variation.method == "central":
        return settings.central_epochs
    if variation.method in SINGLE:
        return settings.single_rounds
    return settings.tune_rounds if variation.table == "tune" else settings.rounds(variation.corpus)


# Time.


def estimate(variation: Variation, seed: int, settings: Settings, draws: Draws) -> float:
    """Seconds on a GPU shared by sixteen runs, roughly: the order in which runs start hangs on it, nothing else."""
    corpus, draw = variation.corpus, draw_of(variation, seed)
    size = variation.batch_size or settings.batch_size
    public, test = (draws.pairs(corpus, draw, part) for part in ("public", "test"))
    asked = max(1, round((variation.participation or settings.participation) * SITES[corpus]))
    site_pairs = (draws.pairs(corpus, draw, "train") - public) / SITES[corpus]
    epochs = variation.local_epochs or settings.local_epochs
    local = asked * epochs * site_pairs / size * _STEP
    a_round = {
        "fedavg": local + asked * 0.3,
        "fedatt": local + asked * 0.5,
        **{
            method: local
            + asked * 0.3
            + public / more.get("distillation_batch", size) * _STEP
            + (asked + 2) * public * 0.0005
            for method, more in FEDED.items()
        },
        "public": public / size * _STEP + 2 * public * 0.0005,
        "central": draws.pairs(corpus, draw, "train") / size * _STEP,
    }.get(variation.method, local / asked)
    return 30 + rounds_of(variation, settings) * (a_round + test * 0.0008)
