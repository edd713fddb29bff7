"""What the console knows about a run: its record, its study, and at a site the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

__all__ = ["FailedRequest", "Role", "Runs", "SiteStatus", "StudyFacts", "WatchedRun"]

Role: TypeAlias = Literal["coordinator", "site"]


@dataclass(frozen=True)
class StudyFacts:
    """What the console shows of a study file."""

    name: str = ""
    seed: int = 0
    task: str = ""
    algorithm: str = ""
    rounds: int = 0  # 0 if unknown
    mechanism: str = ""  # of [privacy]; empty for training at one site
    protection: str = "Training at one site: nothing leaves it."  # who can read what leaves a site
    minimum_sites: int = 0
    sites: tuple[str, ...] = ()
    patience: float = 600.0  # seconds without an event after which the run is shown as quiet


@dataclass(frozen=True)
class FailedRequest:
    """A request that a site refused or failed to answer; codes only."""

    time: str
    step: str
    round: int
    code: str


@dataclass(frozen=True)
class SiteStatus:
    """The status of a site, which its page shows beside the lines of its ledger."""

    name: str
    accepted: bool | None  # None on one machine, where no site is asked
    entries: int
    bytes_out: int
    head: str
    fault: str = ""  # of the ledger; empty if its chain is intact
    troubles: tuple[FailedRequest, ...] = ()


@dataclass(frozen=True)
class WatchedRun:
    """One run, at the coordinator or at a site."""

    key: str  # its address: the path of its folder below the watched one
    record: Path  # the JSONL file that grows
    facts: StudyFacts
    report: Path | None = None
    site: SiteStatus | None = None
    row: str = ""  # the row and seed, if a sweep ran it


class Runs(Protocol):
    """Finds the runs to watch."""

    @property
    def role(self) -> Role:
        """Return whose view this is."""

    def all(self) -> Sequence[WatchedRun]:
        """Return every run that exists now."""

    def one(self, key: str) -> WatchedRun | None:
        """Return the run with this key if `all` would return it, otherwise None."""
