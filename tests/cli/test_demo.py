from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.cli.running import Run
from wardround.cli import demo as command
from wardround.corpora.synthetic import ClinicalConfig, clinical_hospitals
from wardround.studies import demo
from wardround.studies.demo import DEMO_RECIPE, run_demo

NAMES = ("harbour", "hillside", "riverside", "lakeside")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo at a size for tests."""
    hospitals = partial(clinical_hospitals, config=ClinicalConfig(scale=1 / 30))
    monkeypatch.setattr(demo, "clinical_hospitals", hospitals)
    quick = partial(run_demo, config=replace(DEMO_RECIPE, epochs=1))
    monkeypatch.setattr(command, "run_demo", quick)


@pytest.mark.usefixtures("small")
def test_scores_by_site_models_and_a_report(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "demo"
    ran = run("demo", "--out", out, "--device", "cpu")
    assert ran.code == 0
    for name in NAMES:
        written = json.loads((out / name / "scores.json").read_text())
        assert ran.row(name)[2] == f"{written['strict']['f1']:.3f}"
        assert f"model   {name:9} {out / name / 'model'}\n" in ran.out
    assert len(ran.row("mean")) == 4
    assert f"model   pooled    {out / 'pooled' / 'model'}\n" in ran.out
    assert ran.out.endswith(f"report            {out / 'report.html'}\n")
    assert (out / "report.html").is_file()
    assert [line.split()[0] for line in ran.err.splitlines() if line] == [*NAMES, "pooled"]


@pytest.mark.usefixtures("small")
def test_without_a_folder_it_lies_in_runs(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run("demo", "--seed", "3")
    assert ran.out.endswith("report            runs/demo/report.html\n")
    assert (tmp_path / "runs" / "demo" / "pooled" / "model" / "model.safetensors").is_file()


def test_a_folder_that_is_a_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("")
    ran = run("demo", "--out", tmp_path / "demo")
    assert ran.code == 2
    assert "is a file" in ran.err_in_one_line
