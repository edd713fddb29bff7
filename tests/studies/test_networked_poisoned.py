"""Votes of the sites, among hospitals: they give what they give on one machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.studies.tiny_studies import events_of, scores_of, text_of

pytest.importorskip("nvflare", reason="install wardround[flare]")
pytest.importorskip("tenseal", reason="install wardround[sealed]")

from tests.studies.consortium import Consortium

from wardround.cli.main import main

RIVERSIDE = {"built_in": "riverside-0002", "types": ["Drug", "Symptom"], "scheme": "BIO"}
HOSPITALS = {"harbour": "harbour-0000", "hillside": "hillside-0001", "riverside": "riverside-0002"}


@pytest.mark.slow
def test_among_hospitals_and_on_one_machine_votes_are_the_same(tmp_path: Path) -> None:
    text = text_of(
        model={"lstm": 0, "word_cnn": 16, "word_buckets": 512},
        algorithm={"rounds": 5},
        training={"batch_size": 64, "learning_rate": 0.05, "schedule": "constant"},
        sites={"riverside": RIVERSIDE},
        evaluation={"every": 5},
        privacy={"mechanism": "sealed+masked", "minimum_sites": 3, "acceptance": {}},
        federation={"wait": 90.0, "deadline": 40.0},
    )
    (tmp_path / "hospitals").mkdir()
    consortium = Consortium(tmp_path / "hospitals", text, sealed=True)
    try:
        consortium.start_keys()
        for name, hospital in HOSPITALS.items():
            consortium.accept(name)
            consortium.work_at_site(name, hospital)
        coordinator = consortium.start_coordinator(supervised=False)
        assert coordinator.wait(120.0) == 0, consortium.outputs()
    finally:
        consortium.end()
    out = tmp_path / "run"
    with pytest.raises(SystemExit) as ended:
        main(["run", str(consortium.folder / "study.toml"), "--out", str(out), "--device", "cpu"])
    assert not ended.value.code
    assert scores_of(out) == scores_of(consortium.run)
    votes = [event["votes"] for event in consortium.events("round")]
    assert votes == [event["votes"] for event in events_of(out, "round")]
    assert [found["cast"] for found in votes] == [3] * 5
