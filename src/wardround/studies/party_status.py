"""What a party of a networked study is doing, read from its kit; it may run, wait or have ended."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from wardround.errors import LedgerError
from wardround.federation.ledger import read_entries
from wardround.models.cards import CARD
from wardround.provisioning.kits import Kit
from wardround.studies.run_folder import RunFolder
from wardround.studies.run_guard import process_in
from wardround.studies.site_agent import acceptance, site_folder
from wardround.studies.study_file import parse_study
from wardround.text.plain_text import size_text

__all__ = ["coordinator_status", "has_finished", "site_status"]

_RUN = "run"


def coordinator_status(kit: Kit) -> dict[str, Any]:
    """Return, by name, what the coordinator of a kit is doing."""
    study = parse_study(kit.study.decode(), generated=True)
    rounds, folder = study.algorithm.config.rounds, kit.path / _RUN
    status: dict[str, Any] = {"study": kit.plan.study, "address": f"{kit.plan.host}:{kit.plan.port}"}
    events = list(RunFolder(folder).events()) if folder.is_dir() else []
    last = {event["event"]: event for event in events if isinstance(event.get("event"), str)}
    running = process_in(kit.path)
    status["process"] = running or "none"
    if has_finished(kit):
        status["state"] = f"finished after {last['finished'].get('rounds')} rounds"
        status["report"] = folder / "report.html"
    elif not events:
        status["state"] = "not started"
    elif events[-1]["event"] == "waiting":
        status["state"] = f"waiting for {events[-1].get('least')} of {events[-1].get('sites')} sites"
    else:
        done = max((event.get("round", 0) for event in events if event["event"] == "round"), default=0)
        status["state"] = (
            f"round {min(done + 1, rounds)} of {rounds}"
            if running
            else f"stopped after round {done} of {rounds}; `wardround coordinator start` resumes it"
        )
    if events:
        status["last event"] = f"{events[-1]['event']}, {_moment(events[-1].get('time'))}"
    absent = last.get("round", {}).get("absent") or []
    if absent:
        status["absent"] = ", ".join(f"{site} ({code or why})" for site, why, code in absent)
    if "scored" in last:
        found = last["scored"]
        status["development F1"] = f"{found.get('mean_f1', 0.0):.3f} after round {found.get('round')}"
    return status


def site_status(kit: Kit) -> dict[str, Any]:
    """Return, by name, what the site of a kit is doing."""
    folder = site_folder(kit).path
    status: dict[str, Any] = {"study": kit.plan.study, "site": kit.name}
    status["coordinator"] = f"{kit.plan.host}:{kit.plan.port}"
    status["accepted"] = acceptance(kit) or "no; `wardround site review` shows what would run here"
    status["process"] = process_in(folder) or "none"
    ledger = folder / "ledger.jsonl"
    if ledger.is_file():
        entries = sent = 0
        latest = None
        try:
            for latest in read_entries(ledger):
                entries, sent = entries + 1, sent + latest.bytes
        except LedgerError as error:
            status["ledger"] = str(error)
        else:
            status["ledger"] = f"{entries:,} lines, {size_text(sent)} left this site"
        if latest is not None:
            what = f"refused ({latest.refusal})" if latest.refusal else "answered"
            status["last request"] = f"round {latest.round}, {latest.step}, {what}, {_moment(latest.time)}"
    model = folder / "model"
    status["model"] = model if (model / CARD).is_file() else "not written yet"
    return status


def has_finished(kit: Kit) -> bool:
    """Return whether the study of a coordinator's kit has been run to its end."""
    folder = kit.path / _RUN
    if not (folder / "scores.json").is_file():
        return False
    last = ""
    for event in RunFolder(folder).events():
        last = str(event.get("event", ""))
    return last == "finished"


def _moment(seconds: Any) -> str:
    try:
        return f"{datetime.fromtimestamp(float(seconds), UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (TypeError, ValueError, OverflowError, OSError):
        return "at an unknown time"
