"""What the console knows of a run before its first line: where its record is, and what its study file says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

__all__ = ["Role", "Runs", "SiteNotes", "StudyFacts", "Trouble", "WatchedRun", "protection_in_words"]

Role: TypeAlias = Literal["coordinator", "site"]


@dataclass(frozen=True)
class StudyFacts:
    """What is shown of a study file."""

    name: str = ""
    seed: int = 0
    task: str = ""
    algorithm: str = ""
    rounds: int = 0  # 0 is unknown
    mechanism: str = ""  # of [privacy]; empty where there is no federation
    minimum_sites: int = 0
    sites: tuple[str, ...] = ()
    patience: float = 600.0  # seconds without an event before the run is said to be quiet
    gives_predictions: bool = False  # rather than updates of parameters


@dataclass(frozen=True)
class Trouble:
    """A request that a site could not, or would not, answer; codes only."""

    time: str
    step: str
    round: int
    code: str


@dataclass(frozen=True)
class SiteNotes:
    """What a site's own page says beside its ledger."""

    name: str
    accepted: bool | None  # None in a rehearsal, where nobody is asked
    entries: int
    bytes_out: int
    head: str
    fault: str = ""  # of the ledger; empty where its chain holds
    troubles: tuple[Trouble, ...] = ()


@dataclass(frozen=True)
class WatchedRun:
    """One run, at the coordinator or at a site."""

    key: str  # by which it is addressed: its folder below the one that is watched
    record: Path  # the JSONL file that grows
    facts: StudyFacts
    report: Path | None = None
    site: SiteNotes | None = None
    row: str = ""  # what a sweep that has run it calls it


class Runs(Protocol):
    """Where runs are found."""

    @property
    def role(self) -> Role:
        """Whose view it is."""

    def all(self) -> Sequence[WatchedRun]:
        """Every run that is there now."""

    def one(self, key: str) -> WatchedRun | None:
        """The run of that key; nothing but what `all` finds."""


_UPDATES: Mapping[str, str] = {
    "plain": "Nothing is sealed: the coordinator can read each site's update.",
    "masked": "Masked: the coordinator can read the sum of a round's updates, and none by itself.",
    "sealed": "Sealed: the coordinator adds ciphertexts and can read neither an update nor the sum; the sites open it.",
    "sealed+masked": (
        "Sealed and masked: the coordinator adds ciphertexts and can read neither an update nor the sum; "
        "the sites open the sum, and masks hide each update in it."
    ),
}
_PREDICTIONS: Mapping[str, str] = {
    "plain": "Nothing is sealed: the coordinator can read each site's predictions on the public set.",
    "masked": "Masked: the coordinator can read the mean of a round's predictions, and none by itself.",
    "sealed": "Sealed: the coordinator adds ciphertexts; the sites open the mean prediction and give it back.",
    "sealed+masked": (
        "Sealed and masked: the coordinator adds ciphertexts; the sites open the mean prediction and give it back, "
        "and masks hide each site's in it."
    ),
}


def protection_in_words(facts: StudyFacts) -> str:
    """Who can read what leaves a site."""
    words = _PREDICTIONS if facts.gives_predictions else _UPDATES
    return words.get(facts.mechanism, "A training at one site: nothing leaves it.")
