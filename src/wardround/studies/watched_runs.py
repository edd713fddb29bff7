"""The runs below a folder, for the console: at the coordinator by their events, at a site by its ledger."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from wardround.console.runs import Role, Runs, SiteNotes, StudyFacts, Trouble, WatchedRun
from wardround.errors import LedgerError, UsageError
from wardround.federation.ledger import Verdict, verify
from wardround.parsing import read_json, read_toml
from wardround.reports.run_record import sweep_row
from wardround.secure_aggregation.mechanisms import MECHANISMS

__all__ = ["CoordinatorRuns", "SiteRuns", "runs_in"]

_EVENTS, _LEDGER, _ACCEPTED = "events.jsonl", "ledger.jsonl", "accepted.json"
_STUDY, _REPORT, _REPORT_FOLDER, _KIT = "study.toml", "report.html", "report", "kit.json"
_DEEPEST = 4  # folders below the one that is watched
# Of a run or a kit, which are known by these files, the folders in which no run is; elsewhere a run may be called so.
_HOMES = frozenset({_EVENTS, _KIT})
_NOT_RUNS = frozenset({"sites", "model", "state", "startup", "local", "logs", "mlruns", "tensorboard"})
_NOT_UNICODE = re.compile(r"[\ud800-\udfff]")  # what stands in a name for a byte that is not UTF-8
_LOG, _LOG_END, _MOST_TROUBLES = Path("logs/engine.log"), 65_536, 20
# The two lines that a site's end of the engine writes of its own; nothing else of that log is shown.
_REFUSED = re.compile(r"^(\S+ [\d:]+)\S* WARNING wardround\.\S+ a request was refused: ([\w.-]+)$")
_FAILED = re.compile(r"^(\S+ [\d:]+)\S* WARNING wardround\.\S+ step=([\w.-]+) round=(\d+) failed: ([\w.-]+)$")


def runs_in(folder: Path, *, site: bool) -> Runs:
    """What is to be watched there; refused where the other view was meant."""
    runs: Runs = SiteRuns(folder) if site else CoordinatorRuns(folder)
    other: Runs = CoordinatorRuns(folder) if site else SiteRuns(folder)
    if not runs.all() and other.all():
        remedy = "leave --site out" if site else "add --site"
        raise UsageError(f"{folder.resolve().name} is the folder of a {other.role}; {remedy}")
    return runs


@dataclass(frozen=True)
class CoordinatorRuns:
    """Every run folder: of studies on one machine, of a coordinator's kit, of trainings at one site."""

    folder: Path

    @property
    def role(self) -> Role:
        """The coordinator's view."""
        return "coordinator"

    def all(self) -> list[WatchedRun]:
        """Every run that is there now."""
        return [self._run(place) for place in _folders_with(self.folder, (_EVENTS,))]

    def one(self, key: str) -> WatchedRun | None:
        """The run of that key."""
        places = _folders_with(self.folder, (_EVENTS,))
        return next((self._run(place) for place in places if _key(self.folder, place) == key), None)

    def _run(self, place: Path) -> WatchedRun:
        key, record = _key(self.folder, place), place / _EVENTS
        try:
            # Before round 1 a coordinator's run folder has no study file yet; its kit has.
            waits = not (place / _STUDY).is_file() and (place.parent / _KIT).is_file()
            study = place.parent / _STUDY if waits else place / _STUDY
            facts = _facts(study)
            return WatchedRun(key, record, facts, _report(place), row=sweep_row(place, facts.seed))
        except OSError:  # a folder that may not be read: of the run there is its name
            return WatchedRun(key, record, StudyFacts())


@dataclass(frozen=True)
class SiteRuns:
    """Every site's folder: of a kit, or of a rehearsal with ledgers."""

    folder: Path

    @property
    def role(self) -> Role:
        """A site's view."""
        return "site"

    def all(self) -> list[WatchedRun]:
        """Every study that the site is in."""
        return [self._run(place) for place in self._places()]

    def one(self, key: str) -> WatchedRun | None:
        """The study of that key."""
        return next((self._run(place) for place in self._places() if _key(self.folder, place) == key), None)

    def _places(self) -> Iterator[Path]:
        return _folders_with(self.folder, (_LEDGER, _ACCEPTED))

    def _run(self, place: Path) -> WatchedRun:
        key, record, kit = _key(self.folder, place), place / _LEDGER, place.parent
        try:
            study = kit / _STUDY if (kit / _STUDY).is_file() else kit.parent / _STUDY
            return WatchedRun(key, record, _facts(study), site=_site_notes(place))
        except OSError:
            notes = SiteNotes(_in_unicode(place.name), None, 0, 0, "", fault="the site's folder cannot be read")
            return WatchedRun(key, record, StudyFacts(), site=notes)


def _key(folder: Path, place: Path) -> str:
    inside = place.relative_to(folder).as_posix()
    return _in_unicode(folder.resolve().name if inside == "." else inside)


def _in_unicode(name: str) -> str:
    """A name that can be written in an address and on a page, whatever bytes a folder's name has."""
    return _NOT_UNICODE.sub("\N{REPLACEMENT CHARACTER}", name)


def _folders_with(folder: Path, names: tuple[str, ...], depth: int = 0) -> Iterator[Path]:
    """Folders that hold one of these files; not below one that does, and never through a link."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    if any(entry.name in names and entry.is_file(follow_symlinks=False) for entry in entries):
        yield folder
        return
    passed_over = _NOT_RUNS if any(entry.name in _HOMES for entry in entries) else ()
    for entry in entries if depth < _DEEPEST else ():
        hidden = entry.name.startswith(".") or entry.name in passed_over
        if entry.is_dir(follow_symlinks=False) and not hidden:
            yield from _folders_with(folder / entry.name, names, depth + 1)


def _report(place: Path) -> Path | None:
    """The newer of the page that a run writes at its end and the one that `wardround report` writes."""
    pages = [page for page in (place / _REPORT, place / _REPORT_FOLDER / _REPORT) if _is_own_file(page)]
    return max(pages, key=lambda page: page.stat().st_mtime_ns, default=None)


def _is_own_file(page: Path) -> bool:
    return page.is_file() and not page.is_symlink() and not page.parent.is_symlink()


def _facts(study: Path) -> StudyFacts:
    """What a study file says; a training at one site has none."""
    try:
        return _facts_in(read_toml(study, finite=False))
    except (OSError, ValueError, TypeError, AttributeError, KeyError, OverflowError):
        return StudyFacts()


def _facts_in(table: Mapping[str, Any]) -> StudyFacts:
    algorithm, privacy = table.get("algorithm", {}), table.get("privacy", {})
    mechanism = str(privacy.get("mechanism", "plain"))
    return StudyFacts(
        name=str(table.get("study", {}).get("name", "")),
        seed=int(_finite(table.get("study", {}).get("seed"), 0)),
        task=str(table.get("task", {}).get("kind", "ner")),
        algorithm=str(algorithm.get("name", "")),
        rounds=int(_finite(algorithm.get("rounds"), 0)),
        mechanism=mechanism,
        protection=_protection(mechanism, predictions="public" in table and _sends_predictions(algorithm.get("name"))),
        minimum_sites=int(_finite(privacy.get("minimum_sites"), 1)),
        sites=tuple(map(str, table.get("sites", {}))),
        patience=_finite(table.get("federation", {}).get("deadline"), StudyFacts.patience),
    )


def _protection(name: str, *, predictions: bool) -> str:
    mechanism = MECHANISMS.get(name)
    if mechanism is None:
        return "This version does not know the mechanism, and cannot say who can read what."
    return mechanism.predictions_summary if predictions else mechanism.summary


def _sends_predictions(algorithm: Any) -> bool:
    # Imported for studies with a public set only: the catalogue loads PyTorch, which the console does not need.
    from wardround.studies.catalogue import ALGORITHMS

    return algorithm in ALGORITHMS and ALGORITHMS[algorithm].sends == "predictions"


def _finite(value: Any, otherwise: float) -> float:
    """The number that a setting is; what is none, or has no end, cannot be told to a browser."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if known else otherwise


def _site_notes(place: Path) -> SiteNotes:
    name = _site_name(place)
    accepted = (place / _ACCEPTED).is_file() if (place.parent / _KIT).is_file() else None
    troubles = tuple(_troubles(place.parent / _LOG))
    ledger = place / _LEDGER
    if not ledger.is_file():
        return SiteNotes(name, accepted, 0, 0, "", troubles=troubles)
    try:
        verdict = _verified(ledger, ledger.stat().st_mtime_ns, ledger.stat().st_size)
    except LedgerError as error:
        return SiteNotes(name, accepted, 0, 0, "", fault=str(error), troubles=troubles)
    return SiteNotes(name, accepted, verdict.entries, verdict.bytes_out, verdict.head, troubles=troubles)


@lru_cache(maxsize=64)
def _verified(ledger: Path, changed: int, size: int) -> Verdict:
    """The chain is walked again only where the file is another than it was."""
    return verify(ledger)


def _site_name(place: Path) -> str:
    """The name in the kit; in a rehearsal, the folder's own."""
    try:
        name = read_json(place.parent / _KIT)["name"]
    except (OSError, ValueError, TypeError, KeyError):
        return _in_unicode(place.name)
    return _in_unicode(str(name))


def _troubles(log: Path) -> Iterator[Trouble]:
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - _LOG_END))
            lines = stream.read(_LOG_END).decode("utf-8", "replace").splitlines()
    except OSError:
        return
    found = [trouble for line in lines if (trouble := _trouble(line)) is not None]
    yield from found[-_MOST_TROUBLES:]


def _trouble(line: str) -> Trouble | None:
    if refused := _REFUSED.match(line):
        return Trouble(refused[1], "", 0, refused[2])
    if failed := _FAILED.match(line):
        return Trouble(failed[1], failed[2], int(failed[3]), failed[4])
    return None
