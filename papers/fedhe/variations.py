"""What is measured: each cell of Table 4 and of what the paper leaves for later as a study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from papers.common.settings import AS_THE_PAPERS_AVERAGE
from papers.common.sites import Sites
from papers.fedhe.make_sites import FEW_CLIENTS, MANY, MANY_CLIENTS, SKEWED_CLIENTS

CORPORA = ("bc2gm", "bc5cdr")
RANDOM_NETWORKS = ("bert-tiny", "bert-mini", "bert-small")  # shapes without pretrained weights here
NETWORKS = (*RANDOM_NETWORKS, "minilm")
METHODS = ("single", "central", "federated", "fedhe")
CANDIDATES = ("1e-4", "3e-4", "1e-3")  # rates of which one a shape is chosen on the development part
TUNED_ON = "bc5cdr"
MANY_NETWORK = "bert-mini"  # of the tables with more than two clients
MECHANISM_NETWORK = "bert-tiny"  # CKKS takes a hundred times its plain bytes in memory
MILLIONS = {"bert-tiny": 4.4, "bert-mini": 11.1, "bert-small": 28.5, "minilm": 22.6}  # of parameters
_WORKERS = {22: 2, 64: 4}  # processes for so many clients, so that no site is opened twice in a round


@dataclass(frozen=True)
class Settings:
    """What every study of a measurement has in common."""

    rounds: int = 5  # T, Alg. 1
    local_epochs: int = 10  # I, Alg. 2
    batch_size: int = 64
    learning_rate: float = 2e-5  # η, "Training Setup"
    weight_decay: float = 0.1
    schedule: str = "linear"
    clip: float = 1.0  # largest norm of a gradient


@dataclass(frozen=True)
class Privacy:
    """How a study protects its updates."""

    mechanism: str = "plain"
    scheme: str = "bfv"
    packing: str = "standard"

    def section(self) -> dict[str, Any]:
        """Of a study file; what only ciphertexts have is left out where there are none."""
        if "sealed" not in self.mechanism:
            return {"mechanism": self.mechanism}
        return {"mechanism": self.mechanism, "scheme": self.scheme, "packing": self.packing}

    @property
    def fewest(self) -> int:
        """Sites among which the mechanism hides one."""
        return 1 if self.mechanism == "plain" else 3 if "masked" in self.mechanism else 2


PLAIN, FEDHE = Privacy(), Privacy("sealed")
MECHANISMS = {
    "plain": PLAIN,
    "masked": Privacy("masked"),
    "sealed": FEDHE,
    "sealed-compact": Privacy("sealed", packing="compact"),
    "sealed-ckks": Privacy("sealed", scheme="ckks"),
    "sealed-masked": Privacy("sealed+masked"),
}


@dataclass(frozen=True)
class Variation:
    """One cell."""

    name: str
    tables: tuple[str, ...]  # where it is shown
    group: str  # of sites
    encoder: str
    algorithm: str = "fedavg"
    privacy: Privacy = PLAIN
    rate: str = ""  # of the training; empty is the paper's, `chosen` what was chosen for the encoder
    workers: int = 0  # processes that share its sites


def _table4() -> list[Variation]:
    paper = [_cell(c, n, m) for c in CORPORA for n in NETWORKS for m in METHODS]
    return [*paper, *(_cell(c, n, m, rate="chosen") for c in CORPORA for n in RANDOM_NETWORKS for m in METHODS)]


def _cell(corpus: str, network: str, method: str, *, rate: str = "") -> Variation:
    """Every client on its own; one site that has all notes; an average; a sealed average."""
    return Variation(
        "-".join(filter(None, (corpus, network, method, rate))),
        ("table4-chosen" if rate else "table4", *_other_tables(corpus, network, method, rate)),
        f"{corpus}-all" if method == "central" else f"{corpus}-2",
        network,
        algorithm="single" if method in ("single", "central") else "fedavg",
        privacy=FEDHE if method == "fedhe" else PLAIN,
        rate=rate,
    )


def _other_tables(corpus: str, network: str, method: str, rate: str) -> tuple[str, ...]:
    """Two clients are the first row of the table of clients."""
    first = corpus == MANY and network == MANY_NETWORK and rate == "chosen" and method in ("federated", "fedhe")
    return ("clients",) if first else ()


def _tuning() -> list[Variation]:
    return [
        Variation(f"tune-{network}-{rate}", ("tune",), f"{TUNED_ON}-all", network, algorithm="single", rate=rate)
        for network in RANDOM_NETWORKS
        for rate in CANDIDATES
    ]


def _clients() -> list[Variation]:
    groups = {f"{MANY}-{clients}": clients for clients in MANY_CLIENTS}
    groups[f"{MANY}-{SKEWED_CLIENTS}-skewed"] = SKEWED_CLIENTS
    return [
        Variation(
            f"{group}-{MANY_NETWORK}-{method}",
            ("clients",),
            group,
            MANY_NETWORK,
            privacy=privacy,
            rate="chosen",
            workers=_WORKERS[clients],
        )
        for group, clients in groups.items()
        for method, privacy in (("federated", PLAIN), ("fedhe", FEDHE))
    ]


def _mechanisms() -> list[Variation]:
    group = f"{MANY}-{FEW_CLIENTS}"
    return [
        Variation(
            f"{group}-{MECHANISM_NETWORK}-{name}",
            ("mechanisms",),
            group,
            MECHANISM_NETWORK,
            privacy=privacy,
            rate="chosen",
            workers=FEW_CLIENTS if privacy.scheme == "ckks" else 0,
        )
        for name, privacy in MECHANISMS.items()
    ]


VARIATIONS = {v.name: v for v in [*_tuning(), *_table4(), *_clients(), *_mechanisms()]}
TABLES = tuple(dict.fromkeys(table for variation in VARIATIONS.values() for table in variation.tables))


def rate_of(variation: Variation, settings: Settings, chosen: Mapping[str, float]) -> float:
    """The paper's, the one chosen for the encoder, or the one that is tried."""
    if variation.rate == "chosen":
        return chosen[variation.encoder]
    return float(variation.rate) if variation.rate else settings.learning_rate


def study_of(
    variation: Variation, seed: int, settings: Settings, *, chosen: Mapping[str, float], sites: Sites
) -> dict[str, Any]:
    """The study file as tables; `chosen` has the rate of each encoder that has one of its own."""
    model: dict[str, Any] = {"encoder": variation.encoder}
    if variation.algorithm == "fedavg":
        model["shared"] = ["all"]
    few = len(sites.described[variation.group]) <= FEW_CLIENTS
    return {
        "study": {"name": variation.name, "seed": seed},
        "model": model,
        "algorithm": {
            "name": variation.algorithm,
            "rounds": settings.rounds,
            "local_epochs": settings.local_epochs,
        },
        "training": {
            "batch_size": settings.batch_size,
            "learning_rate": rate_of(variation, settings, chosen),
            "weight_decay": settings.weight_decay,
            "schedule": settings.schedule,
            "clip": settings.clip,
        },
        "privacy": {**variation.privacy.section(), "minimum_sites": variation.privacy.fewest, **AS_THE_PAPERS_AVERAGE},
        "evaluation": {"every": 1},
        # Of many clients a checkpoint takes gigabytes, and more time than it could save.
        "federation": {"checkpoint_every": 2 if few else settings.rounds},
        "sites": sites.sections(variation.group),
    }


def estimate(variation: Variation, settings: Settings, sites: Sites) -> float:
    """Seconds on a GPU shared by sixteen runs, roughly: the order in which runs start hangs on it, nothing else.

    A quarter of a second for a million parameters to be sealed and opened, three with CKKS, is what was measured on one
    core; seconds a step and a scored sentence are guessed.
    """
    group, clients = variation.group, len(sites.described[variation.group])
    epochs = settings.rounds * settings.local_epochs
    millions = MILLIONS[variation.encoder]
    steps = epochs * max(clients, sites.sentences(group, "train") / settings.batch_size)
    scored = settings.rounds * sites.sentences(group, "dev") + sites.sentences(group, "test")
    scored += sites.sentences(group, "train")
    worked = steps * _STEP[variation.encoder] + scored * 0.0006
    if variation.privacy.mechanism != "plain":
        worked += settings.rounds * clients * millions * (0.25 if variation.privacy.scheme == "bfv" else 3.0)
    return 15 + worked / max(1, variation.workers)


_STEP = {"bert-tiny": 0.010, "bert-mini": 0.014, "bert-small": 0.016, "minilm": 0.021}  # seconds
