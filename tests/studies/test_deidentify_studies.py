"""Whole studies of de-identification on one machine: names of types that differ, and what leaks, counted by sites."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.models.tiny import notes
from tests.studies.tiny_studies import learnable, run, scores_of, tensors_of

from wardround.cli.main import main
from wardround.corpora.jsonl import Jsonl
from wardround.corpora.type_names import renamed
from wardround.evaluation.leakage import LeakageScore
from wardround.federation.ledger import read_entries
from wardround.models.saved import load_model
from wardround.studies.study_file import Study, to_toml
from wardround.tasks.task_table import task_of
from wardround.text.document import Document

# What two hospitals call the same two types.
NAMES = {"east": {"Drug": "PERSON", "ADE": "DATE_TIME"}, "west": {"Drug": "NOMBRE_SUJETO_ASISTENCIA", "ADE": "FECHAS"}}
OURS = {"Drug": "PATIENT", "ADE": "DATE"}
TYPES = ["PATIENT", "DATE", "CITY"]
LEARNING: dict[str, Any] = {
    "algorithm": {"name": "fedavg", "rounds": 6},
    "model": {"shared": ["all"]},
    "training": {"batch_size": 4, "learning_rate": 0.03},
}


def identifying(folder: Path, **sections: Any) -> Study:
    """The learnable study with types that identify, of which each hospital has its own names."""
    sites = {name: {"types": TYPES, "scheme": "BIO"} for name in NAMES}
    task = {"kind": "deidentify", "tag_set": "i2b2-2014"}
    study = learnable(folder, task=task, sites=sites, **sections)
    for number, (name, names) in enumerate(NAMES.items()):
        for part, size in (("train", 12), ("dev", 4), ("test", 5)):
            documents = renamed(notes(size, seed=number * 10 + size), names)
            Jsonl().write(documents, folder / name / f"{part}.jsonl")
    return study


def gold_at(number: int) -> tuple[Document, ...]:
    """The test notes of a site under the study's names."""
    return renamed(notes(5, seed=number * 10 + 5), OURS)


def test_sites_count_what_leaks_and_the_counts_add(tmp_path: Path) -> None:
    study = identifying(tmp_path / "notes", **LEARNING)
    outcome = run(study, tmp_path / "run")
    model = load_model(tmp_path / "run" / "model")
    found = {name: task_of(model).score(gold_at(number)) for number, name in enumerate(NAMES)}
    for name, score in found.items():
        assert outcome.sites[name].leakage == score.leakage
        assert dict(outcome.sites[name].counts["words"]) == dict(score.counts["words"])
    leakages = [site.leakage for site in outcome.sites.values() if site.leakage is not None]
    whole = sum(leakages, LeakageScore())
    assert (whole.mentions.mentions, whole.hiding.notes) == (20, 10)  # two mentions in each of ten notes
    assert whole.mentions.hidden > 0  # else equal counts would say nothing
    written = json.loads((tmp_path / "run" / "scores.json").read_text())["sites"]["east"]["leakage"]
    assert written == leakages[0].figures()


def test_counts_and_no_text_leave_a_site(tmp_path: Path) -> None:
    study = identifying(tmp_path / "notes", algorithm={"rounds": 1})
    run(study, tmp_path / "run")
    steps = [entry.step for entry in read_entries(tmp_path / "run" / "sites" / "east" / "ledger.jsonl")]
    assert "finish" in steps
    for path in (tmp_path / "run").glob("*.json*"):
        assert "aspirin" not in path.read_text()


def test_the_kind_changes_what_is_scored_and_nothing_that_is_learned(tmp_path: Path) -> None:
    for kind in ("ner", "deidentify"):
        run(learnable(tmp_path / "notes", algorithm={"rounds": 2}, task={"kind": kind}), tmp_path / kind)
    plain, ours = (tensors_of(tmp_path / kind) for kind in ("ner", "deidentify"))
    assert plain == ours
    assert len(ours) > 10
    before, after = (scores_of(tmp_path / kind)["sites"]["east"] for kind in ("ner", "deidentify"))
    assert after.keys() - before.keys() == {"leakage", "words"}
    assert before["strict"] == after["strict"]


def test_the_report_shows_it(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(to_toml(identifying(tmp_path / "notes", algorithm={"rounds": 1})))
    with pytest.raises(SystemExit) as ended:
        main(["run", str(tmp_path / "study.toml"), "--out", str(tmp_path / "run"), "--device", "cpu"])
    assert not ended.value.code
    assert "Leakage on each site" in (tmp_path / "run" / "report.html").read_text()
