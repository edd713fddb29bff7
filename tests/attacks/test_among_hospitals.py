"""Attacks on running studies over mutual TLS, with real processes, real kits and a key service."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.studies.test_networked_sealed import HOSPITALS, RIVERSIDE, study

pytest.importorskip("nvflare", reason="install wardround[flare]")
pytest.importorskip("tenseal", reason="install wardround[sealed]")

from tests.studies.consortium import Consortium
from tests.studies.tiny_studies import events_of, scores_of

from wardround.federation.ledger import read_entries
from wardround.training.state_files import load_tensors


@pytest.mark.slow
def test_a_coordinator_learns_nothing_from_sums_that_it_changes_or_repeats(tmp_path: Path) -> None:
    text = study(algorithm={"rounds": 5}, evaluation={"every": 5}, privacy={"mechanism": "sealed", "minimum_sites": 2})
    consortium = Consortium(tmp_path, text, sealed=True)
    try:
        consortium.start_keys()
        for name, hospital in HOSPITALS.items():
            consortium.accept(name)
            consortium.work_at_site(name, hospital)
        consortium.start_malicious("coordinator", "coordinator", "sums")
        keys = consortium.commands.pop("keys")
        codes = {name: command.wait(180.0) for name, command in consortium.commands.items()}
        consortium.commands["keys"] = keys
        assert set(codes.values()) == {0}, (codes, consortium.outputs())
        seen = json.loads((consortium.run / "attack.json").read_text(encoding="utf-8"))
        assert seen == {"changed": ["sum"] * 16, "again": ["taken"] + ["replay"] * 5}
        # The hospital finds every one of them in its ledger.
        entries = list(read_entries(consortium.kits["harbour"] / "site" / "ledger.jsonl"))
        refused = [(entry.round, entry.refusal) for entry in entries if entry.refusal in ("sum", "replay")]
        assert refused == [(2, "sum")] * 16 + [(3, "replay")] * 6  # the last one is the honest question
        assert scores_of(consortium.run)["rounds"] == 5
    finally:
        consortium.end()


@pytest.mark.slow
def test_sites_that_lie_or_spoil_sums_do_not_stop_the_others(tmp_path: Path) -> None:
    """One site reveals another seed; one lies about the size of its update and submits noise from round 4 on."""
    others = {"dockside": "harbour-0004", "parkside": "hillside-0005"}
    types = {"types": ["Drug"], "scheme": "BIO"}
    sites = {"riverside": RIVERSIDE} | {name: {"built_in": where, **types} for name, where in others.items()}
    text = study(
        algorithm={"rounds": 9},
        evaluation={"every": 9},
        privacy={"mechanism": "masked", "minimum_sites": 3},
        sites=sites,
    )
    consortium = Consortium(tmp_path, text)
    twists = {"dockside": "seed", "parkside": "noise"}
    try:
        for name in (*HOSPITALS, *others):
            consortium.accept(name)
        for name, hospital in HOSPITALS.items():
            consortium.work_at_site(name, hospital)
        for name, twist in twists.items():
            consortium.start_malicious("site", name, twist, others[name])
        coordinator = consortium.start_coordinator(supervised=False)
        assert coordinator.wait(240.0) == 0, consortium.outputs()
        reasons = " | ".join(event["reason"] for event in events_of(consortium.run, "round_failed"))
        assert "dockside sent another seed than it had committed to" in reasons
        assert "parkside spoils it, and is excluded from the study" in reasons
        assert not [event for event in events_of(consortium.run, "round") if event.get("vanished")]
        assert scores_of(consortium.run)["rounds"] == 9
        kept = load_tensors(consortium.run / "checkpoint.safetensors")
        clips = [float(clip) for name, clip in kept.items() if name.startswith("clip/")]
        assert clips and max(clips) < 100  # not the billions that were claimed
    finally:
        consortium.end()
