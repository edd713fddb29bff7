"""The one table of algorithms: what a study file may name, and what each name stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Literal

from wardround.algorithms import adversarial, fedatt, fedavg, feded, fedner, fedprox, single, tagsets
from wardround.federation.coordinator import RoundsConfig
from wardround.federation.site_runtime import Step
from wardround.training.training_config import RoundTrainingConfig

__all__ = ["ALGORITHMS", "AlgorithmKind", "Sharing"]


class Sharing(Enum):
    """Which layers an algorithm shares."""

    CHOSEN = "chosen"  # those the section [model] names
    NOTHING = "nothing"
    POOLED = "pooled"  # all; where sites differ in types or scheme, all below the output layers
    WHOLE = "whole"  # all, the output layers included; where sites keep their models, nothing


@dataclass(frozen=True)
class AlgorithmKind:
    """One algorithm: its server, its settings and the steps it asks of sites."""

    server: Any  # type[Coordinator]; each takes a configuration of its own
    config: RoundsConfig  # with the defaults
    training: RoundTrainingConfig  # the same
    steps: Mapping[str, Step]
    sharing: Sharing
    line: str
    adds_updates: bool = True  # it needs nothing of the sites' updates but their sum
    needs_public: bool = False  # it works on notes that everybody may read
    tasks: tuple[str, ...] = ("ner", "relations", "joint")  # that it can learn
    keep: Literal["best", "last"] = "best"  # which round's model a study ends with, unless it says
    central: bool = False  # the model stays with the coordinator, also where only sites can open a sum


_PER_BATCH = RoundTrainingConfig()
_LOCAL = replace(_PER_BATCH, batch_size=16)
_DISTILLED = replace(_LOCAL, learning_rate=5e-5)  # of encoders, which are what it is for

ALGORITHMS: Mapping[str, AlgorithmKind] = {
    "fedner": AlgorithmKind(
        fedner.FedNer,
        fedner.FedNerConfig(),
        _PER_BATCH,
        fedner.STEPS,
        Sharing.CHOSEN,
        "FedNER: the gradient of the shared half, every mini-batch.",
    ),
    "fedavg": AlgorithmKind(
        fedavg.FedAvg,
        fedavg.FedAvgConfig(),
        _LOCAL,
        fedavg.STEPS,
        Sharing.CHOSEN,
        "Federated averaging of the shared half after some training at the sites.",
    ),
    "fedprox": AlgorithmKind(
        fedprox.FedProx,
        fedprox.FedProxConfig(),
        _LOCAL,
        fedprox.STEPS,
        Sharing.CHOSEN,
        "Federated averaging whose sites are held near the shared half.",
    ),
    "fedatt": AlgorithmKind(
        fedatt.FedAtt,
        fedatt.FedAttConfig(),
        _LOCAL,
        fedatt.STEPS,
        Sharing.CHOSEN,
        "Federated averaging that attends to the layers that went furthest.",
        adds_updates=False,
    ),
    "feded": AlgorithmKind(
        feded.FedEd,
        feded.FedEdConfig(),
        _DISTILLED,
        feded.STEPS,
        Sharing.WHOLE,
        "FedED: sites give predictions on a public set, whose mean teaches the central model.",
        needs_public=True,
        central=True,
    ),
    "public": AlgorithmKind(
        feded.PublicOnly,
        feded.PublicConfig(),
        _DISTILLED,
        {},
        Sharing.WHOLE,
        "The central model learns from the public set alone: what FedED is measured against.",
        needs_public=True,
        central=True,
    ),
    "tagsets": AlgorithmKind(
        tagsets.TagSets,
        tagsets.TagSetsConfig(),
        _LOCAL,
        tagsets.STEPS,
        Sharing.WHOLE,
        "One model for all tag sets: sites complete their annotation with what the global model finds.",
        tasks=("ner",),
        keep="last",
    ),
    "adversarial": AlgorithmKind(
        adversarial.Adversarial,
        adversarial.AdversarialConfig(),
        _LOCAL,
        adversarial.STEPS,
        Sharing.WHOLE,
        "Adversarial baselines of tagsets: a network whose states are to let nobody tell which site a note is of.",
        tasks=("ner",),
        keep="last",
    ),
    "single": AlgorithmKind(
        single.Single,
        fedavg.FedAvgConfig(),
        _LOCAL,
        single.STEPS,
        Sharing.NOTHING,
        "Every site on its own: what a study is measured against.",
    ),
    "pooled": AlgorithmKind(
        fedner.FedNer,
        fedner.FedNerConfig(),
        _PER_BATCH,
        fedner.STEPS,
        Sharing.POOLED,
        "All notes in one place, which hospitals may not do; for studies on one machine only.",
    ),
}
