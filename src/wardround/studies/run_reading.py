"""A run folder read again: the study, what happened, each site's scores, as a report wants them.

The folder is data that anybody may have written: nothing in it is run, and what is no run is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from wardround.errors import LedgerError, ModelError, StudyError, UsageError
from wardround.evaluation.counts import SpanCounts, TypedCounts
from wardround.evaluation.leakage import HidingScore, LeakageScore, TypeLeakage
from wardround.evaluation.significance import Interval
from wardround.federation.ledger import verify
from wardround.models.saved import model_card
from wardround.parsing import read_json
from wardround.reports.history import History
from wardround.reports.run_page import write_run_page
from wardround.reports.run_record import LedgerHead, PrivacyFacts, RunRecord, sweep_row
from wardround.reports.training_page import read_error_counts
from wardround.studies.assemble import matching_modes_of
from wardround.studies.note_counts import read_note_counts
from wardround.studies.outcomes import SiteOutcome
from wardround.studies.run_folder import RunFolder
from wardround.studies.site_setup import LEDGER
from wardround.studies.study_file import SiteSection, Study, read_study, to_toml

__all__ = ["read_run", "run_folder_at", "study_in", "write_own_report"]

_EVENTS, _SCORES, _STUDY = "events.jsonl", "scores.json", "study.toml"
_UNFIT = (AttributeError, KeyError, TypeError, ValueError, OverflowError)  # of values of another kind than ours
_BESIDE = frozenset({"documents", "types", "macro", "leakage", "scored_on", "epochs"})  # what is no reading


def run_folder_at(path: Path) -> Path:
    """The run folder that is meant: the path itself, or `run` in a coordinator's kit."""
    for folder in (path, path / "run"):
        if (folder / _EVENTS).is_file() or (folder / _SCORES).is_file():
            return folder
    raise UsageError(f"{_name_of(path)} is no run folder: it holds neither {_EVENTS} nor {_SCORES}")


def read_run(path: Path) -> RunRecord:
    """All that the folder of a run tells, finished or not."""
    folder, name = run_folder_at(path), _name_of(path)
    history, scores, study = _history(folder), _scores(folder), study_in(folder)
    try:
        if study is None:
            return _training(name, history, scores, folder)
        return _study(name, history, scores, folder, study)
    except _UNFIT:
        raise UsageError(f"{name}/{_SCORES} holds what no run of ours has written; run it again") from None


def write_own_report(folder: RunFolder) -> None:
    """The page of a run that has just finished, into its own folder."""
    write_run_page(folder.report, read_run(folder.path))


def study_in(folder: Path) -> Study | None:
    """The study that ran here; None where it was a training at one site."""
    path = folder / _STUDY
    if not path.is_file():
        return None
    try:
        return read_study(path)
    except StudyError as error:
        raise UsageError(f"{_name_of(folder)}/{_STUDY} cannot be read: {error}") from None


def _history(folder: Path) -> History:
    try:
        return History.of(RunFolder(folder).events())
    except _UNFIT:
        raise UsageError(f"{_name_of(folder)}/{_EVENTS} holds a line that no run of ours has written") from None


def _scores(folder: Path) -> dict[str, Any]:
    path = folder / _SCORES
    if not path.is_file():
        return {}
    try:
        found = read_json(path, finite=False)
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise UsageError(f"{_name_of(folder)}/{_SCORES} is no JSON of a run; run the same command again")
    return found


def _study(name: str, history: History, scores: Mapping[str, Any], folder: Path, study: Study) -> RunRecord:
    sites = {site: _outcome(found, study.sites.get(site), study) for site, found in scores.get("sites", {}).items()}
    traffic = scores.get("traffic", {})
    reading, row = matching_modes_of(study)[0], sweep_row(folder, study.study.seed)
    counted = {site: read_note_counts(folder / "sites" / site).get(reading, ()) for site in sites}
    return RunRecord(
        row or name,
        f"Study {study.study.name}",
        (*_facts(study), *([("row of a sweep", row)] if row else [])),
        history,
        _privacy(study, folder),
        sites,
        best=int(scores.get("best_round", 0)),
        down=traffic.get("down"),
        up=traffic.get("up"),
        study=to_toml(_without_places(study)),
        seed=study.study.seed,
        notes={site: notes for site, notes in counted.items() if notes},
        task_mode=reading,
    )


def _training(name: str, history: History, scores: Mapping[str, Any], folder: Path) -> RunRecord:
    sites = {name: _outcome(scores, None, None)} if scores else {}
    reading = next((next(iter(site.counts)) for site in sites.values()), "")
    seed = history.training.get("seed")
    counted = read_note_counts(folder).get(reading, ())
    return RunRecord(
        name,
        f"Training {name}",
        (("what", "a training at one site"), *_model_facts(folder)),
        history,
        PrivacyFacts(None, "alone"),
        sites,
        scored_on=str(scores.get("scored_on", "test")),
        best=max((epoch.epoch for epoch in history.epochs if epoch.best), default=0),
        seed=seed if isinstance(seed, int) else None,
        no_excerpts="None: nothing says that the notes of this training are synthetic or public.",
        notes={name: counted} if counted else {},
        errors=read_error_counts(folder) if scores else None,
    )


def _model_facts(folder: Path) -> list[tuple[str, str]]:
    try:
        card = model_card(RunFolder(folder).model)
    except ModelError:  # it has not finished
        return []
    return [("model", card["kind"]), ("types", ", ".join(card["types"]))]


def _outcome(found: Mapping[str, Any], section: SiteSection | None, study: Study | None) -> SiteOutcome:
    """A site's scores as `SiteOutcome.as_json` wrote them."""
    try:
        readings = [name for name in found if name not in _BESIDE]
        types: Mapping[str, Mapping[str, Any]] = found["types"]
        counts = {name: _counts({k: by[name] for k, by in types.items() if name in by}) for name in readings}
        main = readings[0]
        outcome = SiteOutcome(
            counts,
            int(found["documents"]),
            _interval(found[main]),
            type_intervals={k: _interval(by[main]) for k, by in types.items() if "interval" in by.get(main, {})},
            leakage=_leakage(found["leakage"]) if "leakage" in found else None,
        )
    except (KeyError, TypeError, ValueError, IndexError):
        raise UsageError(f"{_SCORES} holds no scores as this version writes them; run the same command again") from None
    names_types = study is not None and section is not None and study.task.kind in ("ner", "deidentify")
    return outcome.of(section) if names_types and section is not None else outcome


def _counts(rows: Mapping[str, Mapping[str, Any]]) -> TypedCounts:
    return TypedCounts({kind: _span(row) for kind, row in rows.items()})


def _span(row: Mapping[str, Any]) -> SpanCounts:
    return SpanCounts(int(row["tp"]), int(row["fp"]), int(row["fn"]))


def _interval(row: Mapping[str, Any]) -> Interval:
    low, high = row["interval"]
    return Interval(float(row["f1"]), float(low), float(high))


def _leakage(found: Mapping[str, Any]) -> LeakageScore:
    """As `LeakageScore.figures` wrote it."""
    hiding = HidingScore(_span(found["words"]), _span(found["characters"]), found["notes"], found["leaking_notes"])
    by_type = {
        kind: TypeLeakage(**{name: value for name, value in row.items() if name != "recall"})
        for kind, row in found["types"].items()
    }
    return LeakageScore(hiding, by_type, int(found["exposed_notes"]))


def _facts(study: Study) -> list[tuple[str, str]]:
    algorithm, model = study.algorithm, study.model
    network = model.encoder or model.bart or model.family or model.preset
    facts = [
        ("study", study.study.name),
        ("description", study.study.description),
        ("task", study.task.kind),
        ("algorithm", f"{algorithm.name}: {algorithm.kind.description}"),
        ("model", _named(network)),
        ("shared layers", ", ".join(model.shared or ())),
        ("privacy", study.privacy.mechanism),
        ("sites", f"{len(study.sites):,}"),
        ("asked in a round", "" if algorithm.config.participation == 1 else f"{algorithm.config.participation:.0%}"),
    ]
    return [(what, which) for what, which in facts if which]


def _privacy(study: Study, folder: Path) -> PrivacyFacts:
    privacy = study.privacy
    carrier = f"{privacy.scheme.upper()}, packing {privacy.packing}" if privacy.protection.seals else ""
    return PrivacyFacts(
        privacy.protection,
        study.algorithm.kind.sends,
        privacy.minimum_sites,
        privacy.fewest_sentences,
        carrier,
        privacy.value_bounds,
        study.model.shared or (),
        tuple(head for name in study.sites if (head := _ledger(name, folder / "sites" / name / LEDGER))),
    )


def _ledger(name: str, path: Path) -> LedgerHead | None:
    if not path.is_file():
        return None
    try:
        verdict = verify(path)
    except LedgerError:
        return LedgerHead(name, 0, 0, "")
    return LedgerHead(name, verdict.entries, verdict.bytes_out, verdict.head)


def _without_places(study: Study) -> Study:
    """The same with names of files in place of paths: a report is given to others."""
    cleared = study.for_hospitals()
    sites = {
        name: replace(site, built_in=study.sites[name].built_in, encoder=_named(site.encoder))
        for name, site in cleared.sites.items()
    }
    options = {
        name: _named(value) if isinstance(value, str) else value for name, value in cleared.model.options.items()
    }
    model = replace(cleared.model, encoder=_named(study.model.encoder), bart=_named(study.model.bart), options=options)
    return replace(cleared, sites=sites, model=model)


def _name_of(path: Path) -> str:
    """What the folder is called, also where it is meant by a dot."""
    return path.resolve().name


def _named(place: str) -> str:
    """The last part of what may be a folder of this machine; a Hugging Face id stays whole."""
    return Path(place).name if Path(place).is_absolute() else place
