"""Every example runs as it stands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from wardround.corpora.jsonl import Jsonl
from wardround.models.saved import load_model
from wardround.studies.one_machine import run_on_one_machine
from wardround.studies.run_folder import RunFolder
from wardround.studies.study_file import read_study
from wardround.sweeps.one_run import SilentWatcher
from wardround.text.tag_sets import TagSet

FOLDER = Path(__file__).resolve().parents[2] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))
TWO_HOSPITALS = FOLDER / "two_hospitals_different_labels"


def test_there_are_examples() -> None:
    assert EXAMPLES


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_it_runs_and_prints_something(example: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(example), "--quick"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert not list(tmp_path.iterdir()), "an example cleans up after itself"


def test_two_hospitals_with_different_labels_get_one_model(tmp_path: Path) -> None:
    """In two rounds in place of thirty, on a few sentences: from one study file a model that knows all four types."""
    study = read_study(TWO_HOSPITALS / "study.toml")
    config = replace(study.algorithm.config, rounds=2, trusted_after=1, local_steps=2)
    study = replace(study, algorithm=replace(study.algorithm, config=config))
    run = RunFolder(tmp_path)
    run_on_one_machine(study, run, device=torch.device("cpu"), watcher=SilentWatcher())
    assert load_model(run.model).outputs[1::2] == ("B-Disease", "B-Dosage", "B-Drug", "B-ADE")
    scores = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
    assert list(scores["sites"]) == ["clinic", "pharmacy"]
    assert all(set(site["macro"]) == {"all", "annotated", "not_annotated"} for site in scores["sites"].values())


def test_what_the_two_hospitals_annotate() -> None:
    """Training notes hold a hospital's own labels under its own names; test notes hold all."""
    held = {
        (name, part): TagSet.of(Jsonl().read(TWO_HOSPITALS / name / f"{part}.jsonl")).types
        for name in ("clinic", "pharmacy")
        for part in ("train", "test")
    }
    assert held == {
        ("clinic", "train"): ("Disease", "Dosage"),
        ("clinic", "test"): ("ADE", "Disease", "Dosage", "Drug"),
        ("pharmacy", "train"): ("medication", "side_effect"),
        ("pharmacy", "test"): ("Disease", "Dosage", "medication", "side_effect"),
    }
