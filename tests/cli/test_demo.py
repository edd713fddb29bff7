from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.cli.running import Run
from wardround.cli import demo as command
from wardround.corpora.synthetic import ClinicalConfig, clinical_hospitals
from wardround.studies import demo, study_notes
from wardround.studies.demo import QUICK_NOTE, demo_studies
from wardround.studies.study_file import Study

NAMES = ("harbour", "hillside", "riverside", "lakeside")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo at a size for tests, in this process."""
    hospitals = partial(clinical_hospitals, config=ClinicalConfig(scale=1 / 30))
    monkeypatch.setattr(demo, "clinical_hospitals", hospitals)
    monkeypatch.setattr(study_notes, "_clinical", lambda seed: {h.name: h for h in hospitals(seed)})
    monkeypatch.setattr(command, "demo_studies", quick)
    monkeypatch.setattr("os.cpu_count", lambda: 0)


def quick(seed: int, *, quick: bool = False) -> dict[str, Study]:
    return {
        method: replace(study, algorithm=replace(study.algorithm, config=replace(study.algorithm.config, rounds=1)))
        for method, study in demo_studies(seed, quick=quick).items()
    }


@pytest.mark.usefixtures("small")
def test_scores_by_site_models_and_a_report(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "demo"
    ran = run("demo", "--out", out, "--device", "cpu")
    assert ran.code == 0
    for place, method in enumerate(("single-site", "fedner", "pooled"), start=2):
        written = json.loads((out / method / "scores.json").read_text())
        for name in NAMES:
            assert ran.row(name)[place] == f"{written['sites'][name]['strict']['f1']:.3f}"
    for name in NAMES:
        assert f"model   {name:9} {out / 'fedner' / 'sites' / name / 'model'}\n" in ran.out
    assert len(ran.row("mean")) == 5
    assert ran.out.endswith(f"report            {out / 'report.html'}\n")
    assert (out / "report.html").is_file()


@pytest.mark.usefixtures("small")
def test_the_default_folder_is_in_runs(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run("demo", "--seed", "3")
    assert ran.out.endswith("report            runs/demo/report.html\n")
    assert (tmp_path / "runs/demo/fedner/sites/harbour/model/model.safetensors").is_file()


@pytest.mark.usefixtures("small")
def test_the_quick_demo_has_a_folder_and_a_label_of_its_own(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run("demo", "--quick", "--device", "cpu")
    assert ran.code == 0
    assert f"{QUICK_NOTE}\nmodel   harbour " in ran.out
    assert ran.out.endswith("report            runs/demo-quick/report.html\n")
    assert not (tmp_path / "runs" / "demo").exists()


def test_a_folder_that_is_a_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("")
    ran = run("demo", "--out", tmp_path / "demo")
    assert ran.code == 2
    assert "is a file" in ran.err_in_one_line
