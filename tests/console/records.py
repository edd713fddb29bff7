"""Run folders written by hand, with numbers that can be added in one's head."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from wardround.federation.ledger import Ledger
from wardround.federation.message import Message

STUDY = """\
[study]
name = "adverse-effects"

[algorithm]
name = "fedner"
rounds = 40

[privacy]
mechanism = "sealed+masked"
minimum_sites = 2

[federation]
deadline = 30.0

[sites.harbour]
data = "/srv/notes/lantern-street"
[sites.hillside]
[sites.lakeside]
"""
MARKER = "Mrs Quillfeather was seen at the lantern street clinic"
START = 1_790_000_000.0


def started(round_number: int = 0) -> dict[str, Any]:
    kind = "resumed" if round_number else "started"
    return {"time": START + round_number, "event": kind, "round": round_number, "sites": 3}


def round_of(number: int, *, absent: Iterable[list[str]] = ()) -> dict[str, Any]:
    """Round n has a loss of 8 / n; each site that answers has sent 1,000 bytes and been sent 2,000."""
    gone = list(absent)
    here = [name for name in ("harbour", "hillside", "lakeside") if name not in {row[0] for row in gone}]
    return {
        "time": START + number,
        "event": "round",
        "round": number,
        "loss": 8 / number,
        "answered": len(here),
        "absent": gone,
        "clipped": 0,
        "down": 2_000 * len(here),
        "up": 1_000 * len(here),
        "seconds": 1.0,
        "exchanges": {"give": {name: [2_000, 1_000, 0.5, 0.4] for name in here}},
    }


def asked(number: int, *, down: int, up: int) -> dict[str, Any]:
    """What was asked of harbour and lakeside after round n, each with so many bytes."""
    costs = {name: [down, up, 0.5, 0.4] for name in ("harbour", "lakeside")}
    return {"time": START + number + 0.25, "event": "asked", "round": number, "exchanges": {"score": costs}}


def scored(number: int) -> dict[str, Any]:
    f1 = {"harbour": 0.5 + number / 100, "hillside": 0.25, "lakeside": 0.75}
    return {
        "time": START + number + 0.5,
        "event": "scored",
        "round": number,
        "f1": f1,
        "mean_f1": sum(f1.values()) / 3,
    }


def finished(number: int) -> dict[str, Any]:
    f1 = {"harbour": 0.8, "hillside": 0.6, "lakeside": 0.7}
    return {"time": START + number + 1, "event": "finished", "rounds": number, "best_round": number, "f1": f1}


def append(folder: Path, *events: dict[str, Any]) -> None:
    with (folder / "events.jsonl").open("a", encoding="utf-8") as stream:
        stream.writelines(json.dumps(event) + "\n" for event in events)


def write_run(folder: Path, *events: dict[str, Any], study: str = STUDY) -> Path:
    """A run folder with these events."""
    folder.mkdir(parents=True)
    (folder / "study.toml").write_text(study, encoding="utf-8")
    append(folder, *events)
    return folder


def write_kit(folder: Path, *, messages: int = 0) -> Path:
    """A site's kit; messages of round 1, 2, … that left it, each one array of 10 numbers."""
    site = folder / "site"
    site.mkdir(parents=True)
    (folder / "kit.json").write_text(json.dumps({"name": "harbour"}), encoding="utf-8")
    (folder / "study.toml").write_text(STUDY, encoding="utf-8")
    (site / "accepted.json").write_text("{}", encoding="utf-8")
    (site / "worker.json").write_text(json.dumps({"data": "/srv/notes/lantern-street"}), encoding="utf-8")
    for number in range(1, messages + 1):
        leave(folder, "give", number)
    return folder


def leave(kit: Path, step: str, number: int) -> None:
    """A message of that step and round leaves the kit's site."""
    ledger = Ledger(kit / "site" / "ledger.jsonl", durable=False)
    sent = Message({"weight": 12.0}, {}, {"sealed": b"x" * 100})
    ledger.record(sent, study="adverse-effects", step=step, round_number=number, mechanism="sealed+masked")
