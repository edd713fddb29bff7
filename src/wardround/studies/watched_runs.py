"""The runs below a folder, for the console: a coordinator's are found by their events, a site's by its ledger."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from wardround.console.runs import FailedRequest, Role, Runs, SiteStatus, StudyFacts, WatchedRun
from wardround.errors import LedgerError, UsageError
from wardround.federation.ledger import Verdict, verify
from wardround.parsing import read_json, read_toml
from wardround.privacy.mechanism_table import MECHANISMS
from wardround.reports.run_record import sweep_row

__all__ = ["CoordinatorRuns", "SiteRuns", "runs_in"]

_EVENTS, _LEDGER, _ACCEPTED = "events.jsonl", "ledger.jsonl", "accepted.json"
_STUDY, _REPORT, _REPORT_FOLDER, _KIT = "study.toml", "report.html", "report", "kit.json"
_DEEPEST = 4  # folders below the one that is watched
# A folder with one of these files is a run or a kit. Its subfolders of the following names contain no runs; elsewhere a
# run may have such a name.
_HOMES = frozenset({_EVENTS, _KIT})
_NOT_RUNS = frozenset({"sites", "model", "state", "startup", "local", "logs", "mlruns", "tensorboard"})
_NOT_UNICODE = re.compile(r"[\ud800-\udfff]")  # how Python represents a byte that is not UTF-8 in a file name
_LOG, _LOG_END, _MOST_TROUBLES = Path("logs/engine.log"), 65_536, 20
# The two lines that our code writes to a site's log of the engine; no other line of that log is shown.
_REFUSED = re.compile(r"^(\S+ [\d:]+)\S* WARNING wardround\.\S+ a request was refused: ([\w.-]+)$")
_FAILED = re.compile(r"^(\S+ [\d:]+)\S* WARNING wardround\.\S+ step=([\w.-]+) round=(\d+) failed: ([\w.-]+)$")


def runs_in(folder: Path, *, site: bool) -> Runs:
    """Return the runs below a folder; raise a `UsageError` if only the other role has runs there."""
    runs: Runs = SiteRuns(folder) if site else CoordinatorRuns(folder)
    other: Runs = CoordinatorRuns(folder) if site else SiteRuns(folder)
    if not runs.all() and other.all():
        remedy = "leave --site out" if site else "add --site"
        raise UsageError(f"{folder.resolve().name} is the folder of a {other.role}; {remedy}")
    return runs


@dataclass(frozen=True)
class CoordinatorRuns:
    """All run folders: of studies on one machine, of a coordinator's kit and of trainings at one site."""

    folder: Path

    @property
    def role(self) -> Role:
        """Return `coordinator`."""
        return "coordinator"

    def all(self) -> list[WatchedRun]:
        """Return every run that exists now."""
        return [self._run(place) for place in _folders_with(self.folder, (_EVENTS,))]

    def one(self, key: str) -> WatchedRun | None:
        """Return the run with this key; None if there is none."""
        places = _folders_with(self.folder, (_EVENTS,))
        return next((self._run(place) for place in places if _key(self.folder, place) == key), None)

    def _run(self, place: Path) -> WatchedRun:
        key, record = _key(self.folder, place), place / _EVENTS
        try:
            # Before round 1 only a coordinator's kit has the study file; its run folder does not.
            waits = not (place / _STUDY).is_file() and (place.parent / _KIT).is_file()
            study = place.parent / _STUDY if waits else place / _STUDY
            facts = _facts(study)
            # A run writes a page at its end, and `wardround report` writes another; the newer one is shown.
            pages = [
                page
                for page in (place / _REPORT, place / _REPORT_FOLDER / _REPORT)
                if page.is_file() and not page.is_symlink() and not page.parent.is_symlink()
            ]
            report = max(pages, key=lambda page: page.stat().st_mtime_ns, default=None)
            return WatchedRun(key, record, facts, report, row=sweep_row(place, facts.seed))
        except OSError:  # the folder cannot be read, so only the name of the run is known
            return WatchedRun(key, record, StudyFacts())


@dataclass(frozen=True)
class SiteRuns:
    """All folders of sites: of a kit, or of a study on one machine with ledgers."""

    folder: Path

    @property
    def role(self) -> Role:
        """Return `site`."""
        return "site"

    def all(self) -> list[WatchedRun]:
        """Return every study in which the site takes part."""
        return [self._run(place) for place in _folders_with(self.folder, (_LEDGER, _ACCEPTED))]

    def one(self, key: str) -> WatchedRun | None:
        """Return the study with this key; None if there is none."""
        places = _folders_with(self.folder, (_LEDGER, _ACCEPTED))
        return next((self._run(place) for place in places if _key(self.folder, place) == key), None)

    def _run(self, place: Path) -> WatchedRun:
        key, record, kit = _key(self.folder, place), place / _LEDGER, place.parent
        try:
            study = kit / _STUDY if (kit / _STUDY).is_file() else kit.parent / _STUDY
            return WatchedRun(key, record, _facts(study), site=_site_status(place))
        except OSError:
            notes = SiteStatus(_in_unicode(place.name), None, 0, 0, "", fault="the site's folder cannot be read")
            return WatchedRun(key, record, StudyFacts(), site=notes)


def _key(folder: Path, place: Path) -> str:
    inside = place.relative_to(folder).as_posix()
    return _in_unicode(folder.resolve().name if inside == "." else inside)


def _in_unicode(name: str) -> str:
    """Return a name that can be used in a URL and on a page, whatever bytes the folder's name contains."""
    return _NOT_UNICODE.sub("\N{REPLACEMENT CHARACTER}", name)


def _folders_with(folder: Path, names: tuple[str, ...], depth: int = 0) -> Iterator[Path]:
    """Yield folders that contain one of these files; do not search below them, and follow no links."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    if any(entry.name in names and entry.is_file(follow_symlinks=False) for entry in entries):
        yield folder
        return
    skipped = _NOT_RUNS if any(entry.name in _HOMES for entry in entries) else ()
    for entry in entries if depth < _DEEPEST else ():
        hidden = entry.name.startswith(".") or entry.name in skipped
        if entry.is_dir(follow_symlinks=False) and not hidden:
            yield from _folders_with(folder / entry.name, names, depth + 1)


def _facts(study: Path) -> StudyFacts:
    """Return what a study file says; empty for a training at one site, which has none."""
    try:
        table = read_toml(study, finite=False)
        algorithm, privacy = table.get("algorithm", {}), table.get("privacy", {})
        mechanism = str(privacy.get("mechanism", "plain"))
        return StudyFacts(
            name=str(table.get("study", {}).get("name", "")),
            seed=int(_finite(table.get("study", {}).get("seed"), 0)),
            task=str(table.get("task", {}).get("kind", "ner")),
            algorithm=str(algorithm.get("name", "")),
            rounds=int(_finite(algorithm.get("rounds"), 0)),
            mechanism=mechanism,
            protection=_protection(mechanism, algorithm.get("name"), has_public_set="public" in table),
            minimum_sites=int(_finite(privacy.get("minimum_sites"), 1)),
            sites=tuple(map(str, table.get("sites", {}))),
            patience=_finite(table.get("federation", {}).get("deadline"), StudyFacts.patience),
        )
    except (OSError, ValueError, TypeError, AttributeError, KeyError, OverflowError):
        return StudyFacts()


def _protection(name: str, algorithm: Any, *, has_public_set: bool) -> str:
    """Return the sentence of a mechanism about who can read what sites send."""
    sends_predictions = False
    if has_public_set:
        # Imported for studies with a public set only: the catalogue loads PyTorch, which the console does not need.
        from wardround.studies.catalogue import ALGORITHMS

        sends_predictions = algorithm in ALGORITHMS and ALGORITHMS[algorithm].sends == "predictions"
    mechanism = MECHANISMS.get(name)
    if mechanism is None:
        return "This version does not know the mechanism, and cannot say who can read what."
    return mechanism.predictions_summary if sends_predictions else mechanism.summary


def _finite(value: Any, otherwise: float) -> float:
    """Return a setting as a number, or `otherwise` if it is not a finite number, which JSON cannot represent."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if known else otherwise


def _site_status(place: Path) -> SiteStatus:
    name = _site_name(place)
    accepted = (place / _ACCEPTED).is_file() if (place.parent / _KIT).is_file() else None
    troubles = tuple(_failed_requests(place.parent / _LOG))
    ledger = place / _LEDGER
    if not ledger.is_file():
        return SiteStatus(name, accepted, 0, 0, "", troubles=troubles)
    try:
        verdict = _verified(ledger, ledger.stat().st_mtime_ns, ledger.stat().st_size)
    except LedgerError as error:
        return SiteStatus(name, accepted, 0, 0, "", fault=str(error), troubles=troubles)
    return SiteStatus(name, accepted, verdict.entries, verdict.bytes_out, verdict.head, troubles=troubles)


@lru_cache(maxsize=64)
def _verified(ledger: Path, changed: int, size: int) -> Verdict:
    """Verify a ledger; repeat this only if the size or the modification time of the file has changed."""
    return verify(ledger)


def _site_name(place: Path) -> str:
    """Return the site's name in the kit; in a study on one machine, the name of its folder."""
    try:
        name = read_json(place.parent / _KIT)["name"]
    except (OSError, ValueError, TypeError, KeyError):
        return _in_unicode(place.name)
    return _in_unicode(str(name))


def _failed_requests(log: Path) -> Iterator[FailedRequest]:
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - _LOG_END))
            lines = stream.read(_LOG_END).decode("utf-8", "replace").splitlines()
    except OSError:
        return
    found = list[FailedRequest]()
    for line in lines:
        if refused := _REFUSED.match(line):
            found.append(FailedRequest(refused[1], "", 0, refused[2]))
        elif failed := _FAILED.match(line):
            found.append(FailedRequest(failed[1], failed[2], int(failed[3]), failed[4]))
    yield from found[-_MOST_TROUBLES:]
