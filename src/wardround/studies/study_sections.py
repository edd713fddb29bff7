"""The sections of a study file that every study has; what is learned is in `task_sections`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from wardround.errors import StudyError
from wardround.secure_aggregation.mechanisms import MECHANISMS, Mechanism
from wardround.settings import did_you_mean

__all__ = [
    "EvaluationSection",
    "FederationSection",
    "ModelSection",
    "PrivacySection",
    "SiteSection",
    "StudySection",
]

_STUDY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,62}")


@dataclass(frozen=True)
class StudySection:
    """Which study this is."""

    name: str
    seed: int = 0
    description: str = ""

    def __post_init__(self) -> None:
        if not _STUDY_NAME.fullmatch(self.name):
            raise StudyError("name is up to 63 letters, digits, blanks and . _ -")


@dataclass(frozen=True)
class ModelSection:
    """Which network; every further key is an option of it, as `wardround model presets` lists them."""

    preset: str = "fedner"
    encoder: str = ""  # takes the preset's place: Hugging Face id, folder or minilm
    vectors: Path | None = None  # word vectors for a preset: GloVe text or npz
    shared: tuple[str, ...] | None = None  # layer groups; ["all"] is every one; unset is the network's own split
    options: Mapping[str, Any] = field(default_factory=dict)
    bart: str = ""  # takes the preset's place: a BART, by id or folder, which LightNER prompts to write mentions
    family: str | None = None  # a model family by name, for those of installed packages
    start: Path | None = None  # a saved model, or its run folder, from which the study's shared layers begin
    start_up_to: str = ""  # the highest layer that is taken from it; empty is all that fit
    start_sha256: str = ""  # of the shared layers that begin so; unset is not compared

    def __post_init__(self) -> None:
        if self.encoder and self.bart:
            raise StudyError("names an encoder and a bart; one of them")
        if self.start_up_to and not self.begins:
            raise StudyError("start_up_to says how much of a start is taken; name the start as well")

    @property
    def begins(self) -> bool:
        """Whether the shared layers begin from another model; a hospital knows it by its digest alone."""
        return self.start is not None or bool(self.start_sha256)


DEFAULT_SMALLEST_BATCH = 16  # sentences; see docs/threat-model.md for what smaller updates give away


@dataclass(frozen=True)
class PrivacySection:
    """How updates are protected on their way into the sum."""

    mechanism: str = "plain"  # a name in `MECHANISMS`
    minimum_sites: int = 1  # answers that an exchange needs; fewer stop the study
    smallest_batch: int = 0  # sentences that an update is made of at least; 0 is 16, or all that a site has
    scheme: Literal["bfv", "ckks"] = "bfv"  # of sealed updates; ckks is the FedHE paper's, for comparison
    packing: Literal["standard", "compact"] = "standard"  # of bfv: 22 bits a number, or 15 and two thirds of the bytes
    value_bounds: Mapping[str, float] = field(default_factory=dict)  # by layer group; missing ones are learned
    error_feedback: bool = False  # what rounding takes from an update is added to the site's next
    largest_share: float = 0.5  # of one site in a mean of three or more, whatever size it says it has

    def __post_init__(self) -> None:
        if self.mechanism not in MECHANISMS:
            near = did_you_mean(self.mechanism, MECHANISMS)
            raise StudyError(f"mechanism is {self.mechanism!r}{near}; it can be {', '.join(MECHANISMS)}")
        if self.smallest_batch < 0:
            raise StudyError(f"smallest_batch is {self.smallest_batch}; it must be above zero, or 0 for the default")
        if not 0 < self.largest_share <= 1:
            raise StudyError(f"largest_share is {self.largest_share}; it is a share of a mean, above 0 and up to 1")
        for group, bound in self.value_bounds.items():
            if not 0 < bound < float("inf"):
                raise StudyError(f"value_bounds of {group} is {bound}; it must be above zero")

    @property
    def fewest_sentences(self) -> int:
        """Of which an update is made, where a site has so many."""
        return self.smallest_batch or DEFAULT_SMALLEST_BATCH

    @property
    def protection(self) -> Mechanism:
        """Return the declaration of the mechanism: who can read what, and what it needs."""
        return MECHANISMS[self.mechanism]


@dataclass(frozen=True)
class EvaluationSection:
    """When the development sets are scored, and which round's model the study ends with."""

    every: int = 0  # rounds; 0 is twenty times in the study
    patience: int = 0  # scorings without a better mean F1 before the study ends early; 0 is never
    keep: Literal["", "best", "last"] = ""  # empty is the algorithm's own

    def __post_init__(self) -> None:
        for name in ("every", "patience"):
            if getattr(self, name) < 0:
                raise StudyError(f"{name} is {getattr(self, name)}; it must be zero or above")


@dataclass(frozen=True)
class FederationSection:
    """What the engine must know."""

    deadline: float = 600.0  # seconds a hospital has for an answer
    wait: float = 3600.0  # seconds the coordinator waits for enough hospitals before it gives up
    checkpoint_every: int = 50  # rounds between two checkpoints on one machine; among hospitals, each round has one

    def __post_init__(self) -> None:
        for name in ("deadline", "wait", "checkpoint_every"):
            if not getattr(self, name) > 0:
                raise StudyError(f"{name} is {getattr(self, name)}; it must be above zero")


@dataclass(frozen=True)
class SiteSection:
    """One site. Where its notes are is for studies on one machine; a hospital says so itself and to nobody else."""

    data: Path | None = None
    format: str = ""
    options: Mapping[str, str] = field(default_factory=dict)  # of the format
    built_in: str = ""  # a hospital of the synthetic corpus, in place of data and format
    names: Path | None = None  # a mapping file: what its notes call a type of the study
    types: tuple[str, ...] = ()  # what it annotates; empty is what its training notes hold
    scored: tuple[str, ...] = ()  # what its test notes are annotated with; empty is the same
    scheme: str = ""  # BIO, BIOES or IOB1; empty is the model's
    encoder: str = ""  # of its own, where sites share nothing but predictions; empty is the study's
    fraction: float = 1.0  # of its training notes, those that it trains on, drawn by the study's seed

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise StudyError(f"fraction is {self.fraction}; it is a share of the training notes, above 0 and up to 1")
        for setting, types in (("types", self.types), ("scored", self.scored)):
            if len(set(types)) < len(types):
                raise StudyError(f"{setting} names a type twice")
        if self.scored and not self.types:
            raise StudyError("scored needs types beside it: what the training notes are annotated with")
        for kind in self.types if self.scored else ():
            if kind not in self.scored:
                raise StudyError(f"scored leaves out {kind!r}, which the site annotates; name it as well")

    @property
    def scored_types(self) -> tuple[str, ...]:
        """The types that its test notes are annotated with, as far as it names any."""
        return self.scored or self.types

    def for_hospitals(self) -> SiteSection:
        """The same without where its notes are, and what they call things."""
        return replace(self, data=None, format="", options={}, built_in="", names=None)
