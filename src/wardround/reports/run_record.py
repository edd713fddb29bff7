"""One run as the reports see it: plain data, read from a run folder by the caller."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from wardround.evaluation.counts import TypedCounts
from wardround.parsing import read_json
from wardround.reports.history import History
from wardround.reports.marked_notes import Excerpt
from wardround.reports.page import Section
from wardround.reports.score_tables import ScoredSite
from wardround.reports.tables import Table
from wardround.reports.training_page import ErrorCounts

__all__ = ["LedgerHead", "MechanismDeclaration", "PrivacyFacts", "RunRecord", "Sends", "sweep_row"]

# What leaves a site; "alone" is training at one site, outside any study.
Sends: TypeAlias = Literal["updates", "predictions", "nothing", "notes", "alone"]

_SUMMARY = "summary.json"  # which a sweep writes into the folder of a finished run
# A varied setting may be a path on this machine; folders are not shown.
_FOLDERS = re.compile(r"(?<![^\s,])~?/(?=\S)(?:[^,+]*/)?")


class MechanismDeclaration(Protocol):
    """What a report needs of a mechanism's declaration in `secure_aggregation.mechanisms`."""

    @property
    def name(self) -> str:
        """Return the name in the study file."""

    @property
    def report(self) -> str:
        """Return who could read what in a finished run, in words."""

    @property
    def budget(self) -> str:
        """Return what differential privacy promises, in words."""

    @property
    def adds_noise(self) -> bool:
        """Return whether noise hides everything that depends on training notes, and losses stay at the sites."""

    @property
    def coordinator_reads_update(self) -> bool:
        """Return whether the coordinator can read the update of one site."""

    @property
    def coordinator_reads_sum(self) -> bool:
        """Return whether the coordinator can read the sum of a round."""

    @property
    def coordinator_and_one_site_read_update(self) -> bool:
        """Return whether the coordinator and one site together can read the update of another site."""


@dataclass(frozen=True)
class LedgerHead:
    """The state of a site's ledger."""

    site: str
    entries: int
    bytes_out: int
    head: str  # digest of the last line; empty if the chain of digests is broken


@dataclass(frozen=True)
class PrivacyFacts:
    """How the updates of the sites were protected."""

    mechanism: MechanismDeclaration | None  # None for training at one site
    sends: Sends
    minimum_sites: int = 1
    smallest_batch: int = 1
    encryption: str = ""  # scheme and packing
    clips: Mapping[str, float] = field(default_factory=dict)  # by layer group, if the study sets them
    shared: tuple[str, ...] = ()  # layer groups, if the study names them; all others stay at their site
    ledgers: tuple[LedgerHead, ...] = ()


@dataclass(frozen=True)
class RunRecord:
    """Everything known about one run."""

    name: str  # of its folder; for a run of a sweep, its row and seed
    title: str
    facts: tuple[tuple[str, str], ...]  # name and value, for the first table
    history: History
    privacy: PrivacyFacts
    sites: Mapping[str, ScoredSite] = field(default_factory=dict)  # empty until the run has finished
    scored_on: str = "test"
    best: int = 0  # the round or epoch of the final model
    down: int | None = None  # bytes of all exchanges, as counted by the run
    up: int | None = None
    study: str = ""  # text of the study file with every default and without paths
    seed: int | None = None
    excerpts: tuple[Excerpt, ...] = ()
    no_excerpts: str = ""  # why there are none
    more: tuple[Table, ...] = ()
    notes: Mapping[str, Sequence[TypedCounts]] = field(default_factory=dict)  # counts of each test note, by site
    errors: ErrorCounts | None = None  # for training at one site; the sites of a study do not send them
    leakage: Section | None = None  # what a leakage audit of the study found
    task_mode: str = "main"  # the main matching mode of the task, for a run without scores yet

    @property
    def mode(self) -> str:
        """Return the main matching mode, which compares rounds."""
        return next((next(iter(site.counts)) for site in self.sites.values()), self.task_mode)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all sites, the scored ones first."""
        return tuple(dict.fromkeys([*self.sites, *self.history.sites]))

    @property
    def mean_f1(self) -> float | None:
        """Return the mean micro-F1 over the sites."""
        found = [site.interval.estimate for site in self.sites.values()]
        return sum(found) / len(found) if found else None


def sweep_row(folder: Path, seed: int | None) -> str:
    """Return the row and seed of a sweep's run, without folders of files; empty if the run is not of a sweep.

    The folder of such a run is named by a digest, which tells a reader nothing.
    """
    try:
        row = read_json(folder / _SUMMARY, finite=False)["cell"]
    except (OSError, ValueError, TypeError, KeyError):
        return ""
    if not isinstance(row, str) or not row:
        return ""
    name = _FOLDERS.sub("", row)
    return name if seed is None else f"{name}, seed {seed}"
