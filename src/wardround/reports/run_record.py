"""One run as reports see it: plain data, whoever read it from a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from wardround.evaluation.counts import TypedCounts
from wardround.reports.error_counts import ErrorCounts
from wardround.reports.excerpts import Excerpt
from wardround.reports.history import History
from wardround.reports.study_scores import ScoredSite
from wardround.reports.tables import Table

__all__ = ["Given", "LedgerHead", "PrivacyFacts", "RunRecord"]

Given: TypeAlias = Literal["updates", "predictions", "nothing", "notes", "alone"]


@dataclass(frozen=True)
class LedgerHead:
    """A site's ledger as it was found to be."""

    site: str
    entries: int
    bytes_out: int
    head: str  # digest of its last line; empty where it does not hold together


@dataclass(frozen=True)
class PrivacyFacts:
    """How what sites gave was protected."""

    mechanism: str  # plain, masked, sealed or sealed+masked
    given: Given  # what left a site; of a training at one site, nothing ever did
    minimum_sites: int = 1
    smallest_batch: int = 1
    carrier: str = ""  # scheme and packing of what is sealed
    clips: Mapping[str, float] = field(default_factory=dict)  # by layer group, as the study names them
    shared: tuple[str, ...] = ()  # layer groups, where the study names them; the others never left a site
    ledgers: tuple[LedgerHead, ...] = ()


@dataclass(frozen=True)
class RunRecord:
    """What is known of one run."""

    name: str  # of its folder; of a sweep's run, its row and seed
    title: str
    facts: tuple[tuple[str, str], ...]  # what ran, in words
    history: History
    privacy: PrivacyFacts
    sites: Mapping[str, ScoredSite] = field(default_factory=dict)  # nobody, until it has finished
    scored_on: str = "test"
    best: int = 0  # the round or epoch whose model it ends with
    down: int | None = None  # bytes of all exchanges, as the run counted them itself
    up: int | None = None
    study: str = ""  # its file, with every default and nobody's paths
    seed: int | None = None
    excerpts: tuple[Excerpt, ...] = ()
    no_excerpts: str = ""  # why there are none
    more: tuple[Table, ...] = ()
    notes: Mapping[str, Sequence[TypedCounts]] = field(default_factory=dict)  # counts of each test note, by site
    errors: ErrorCounts | None = None  # of a training at one site; in a study no site tells them
    task_reading: str = "main"  # how its task is scored before anything is, where that is on record

    @property
    def reading(self) -> str:
        """The way of scoring by which rounds are compared."""
        return next((next(iter(site.counts)) for site in self.sites.values()), self.task_reading)

    @property
    def names(self) -> tuple[str, ...]:
        """Every site, those first that were scored."""
        return tuple(dict.fromkeys([*self.sites, *self.history.sites]))

    @property
    def mean_f1(self) -> float | None:
        """Over sites."""
        found = [site.interval.estimate for site in self.sites.values()]
        return sum(found) / len(found) if found else None
