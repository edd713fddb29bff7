from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.running import Run
from tests.studies.tiny_studies import ONE_TOP, Killed, Onlooker, events_of, learnable, scores_of, tensors_of, text_of
from tests.studies.tiny_studies import run as run_study
from wardround.studies.study_file import read_study, to_toml
from wardround.text.plain_text import size_text

DEADLINE = 120.0  # seconds


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(text_of(algorithm={"rounds": 3}))
    return path


def test_scores_models_and_a_report(run: Run, study: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    ran = run("run", study, "--out", out, "--device", "cpu")
    assert ran.code == 0
    written = json.loads((out / "scores.json").read_text())
    for name in ("harbour", "hillside"):
        assert ran.row(name)[3] == f"{written['sites'][name]['strict']['f1']:.3f}"
        assert f"model   {name:12} {out / 'sites' / name / 'model'}\n" in ran.out
        assert (out / "sites" / name / "model" / "model.safetensors").is_file()
    assert ran.row("mean")[0] == "6"  # notes, three at each
    best, traffic = written["best_round"], written["traffic"]
    passed = f"up {size_text(traffic['up'])}, down {size_text(traffic['down'])}"
    assert f"rounds  3, the best {best}; {passed}\n" in ran.out
    assert ran.out.endswith(f"report  {out / 'report.html'}\n")
    report = (out / "report.html").read_text()
    assert "<h1>Study tiny</h1>" in report and f"{written['sites']['harbour']['strict']['f1']:.3f}" in report
    assert (out / "study.toml").read_text() == to_toml(read_study(study))
    assert ran.err.startswith("tiny  round 3/3  loss ")


def test_each_type_at_each_site_where_they_differ(run: Run, study: Path, tmp_path: Path) -> None:
    ran = run("run", study, "--out", tmp_path / "run", "--device", "cpu")
    sites = json.loads((tmp_path / "run" / "scores.json").read_text())["sites"]
    drug = [f"{sites[name]['types']['Drug']['strict']['f1']:.3f} ●" for name in ("harbour", "hillside")]
    assert ran.row("Drug") == drug
    assert ran.row("Finding")[0] == ""
    assert ran.row("macro, all") == [f"{sites[name]['macro']['all']:.3f}" for name in ("harbour", "hillside")]
    assert ran.row("macro, not annotated") == ["–", "–"]
    study.write_text(text_of(algorithm={"rounds": 3}, sites=ONE_TOP))
    assert "macro" not in run("run", study, "--out", tmp_path / "alike", "--device", "cpu").out


def test_a_tracked_run_prints_the_same(run: Run, study: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tracking needs wardround[tracking]")
    plain = run("run", study, "--out", tmp_path / "plain", "--device", "cpu")
    out = tmp_path / "tracked"
    tracked = run("run", study, "--out", out, "--device", "cpu", "--track", "tensorboard")
    assert tracked.out.replace(str(out), str(tmp_path / "plain")) == plain.out
    assert [path.name.split(".")[0] for path in (out / "tracking" / "tensorboard").iterdir()] == ["events"]


def test_the_same_command_again_prints_the_same(run: Run, study: Path, tmp_path: Path) -> None:
    first = run("run", study, "--out", tmp_path / "run")
    again = run("run", study, "--out", tmp_path / "run")
    assert again.code == 0
    assert again.row("harbour") == first.row("harbour")
    assert "tiny resumes after round 3, its last one" in again.err


def test_an_interrupted_run_resumes(run: Run, study: Path, tmp_path: Path) -> None:
    with pytest.raises(Killed):
        run_study(read_study(study), tmp_path / "cut", watcher=Onlooker(kill_after=3))
    ran = run("run", study, "--out", tmp_path / "cut")
    assert (ran.code, "tiny resumes at round 3" in ran.err) == (0, True)
    run("run", study, "--out", tmp_path / "whole")
    assert tensors_of(tmp_path / "cut") == tensors_of(tmp_path / "whole")


def test_another_study_in_the_same_folder(run: Run, study: Path, tmp_path: Path) -> None:
    run("run", study, "--out", tmp_path / "mine")
    study.write_text(text_of(algorithm={"rounds": 4}))
    ran = run("run", study, "--out", tmp_path / "mine")
    assert (ran.code, ran.err) == (2, "wardround: the run folder mine holds another study; name a new one\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (text_of(study={"name": None}), "wardround: [study] needs a name\n"),
        (text_of(sites={"harbour": {"built_in": None}}), "wardround: [sites.harbour] does not say where its notes are"),
        (text_of(model={"preset": "fedmer"}), "wardround: no preset is called 'fedmer' – did you mean 'fedner'?"),
    ],
)
def test_an_invalid_study_is_refused(run: Run, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "s.toml").write_text(text)
    ran = run("run", tmp_path / "s.toml", "--out", tmp_path / "run")
    assert ran.code == 2
    assert ran.err.startswith(said)


def test_invalid_arguments_are_refused(run: Run, study: Path, tmp_path: Path) -> None:
    for words in (["--workers", "-1"], ["--threads", "0"], ["--device", "abacus"]):
        assert run("run", study, "--out", tmp_path / "run", *words).code == 2
    assert run("run", tmp_path / "none.toml", "--out", tmp_path / "run").code == 2
    assert run("run", study).code == 2


def killed_when_it_shows(round_number: int, study: Path, out: Path) -> None:
    """Start the command as a process and kill it, without a chance to tidy up, once a round is on record."""
    command = [sys.executable, "-m", "wardround.cli.main", "run", str(study), "--out", str(out), "--device", "cpu"]
    with (out.parent / "said").open("wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said)
        try:
            started = time.monotonic()
            while not any(event["round"] >= round_number for event in events_of(out, "round")):
                assert process.poll() is None, (out.parent / "said").read_text()
                assert time.monotonic() - started < DEADLINE
                time.sleep(0.01)
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
    assert process.returncode == -signal.SIGKILL


@pytest.mark.slow
def test_a_killed_process_resumes_to_the_same_result(tmp_path: Path) -> None:
    # Seconds after the round that is waited for, so that the kill comes before the end; a checkpoint every third.
    study = learnable(tmp_path / "data", algorithm={"rounds": 500}, evaluation={"every": 50})
    (tmp_path / "s.toml").write_text(to_toml(study))
    killed_when_it_shows(23, tmp_path / "s.toml", tmp_path / "cut")
    assert not (tmp_path / "cut" / "scores.json").exists()
    onlooker = Onlooker()
    run_study(study, tmp_path / "cut", watcher=onlooker)
    run_study(study, tmp_path / "whole")
    (resumed_at,) = onlooker.started
    assert 18 <= resumed_at < 500 and resumed_at % 3 == 0
    assert scores_of(tmp_path / "cut") == scores_of(tmp_path / "whole")
    assert tensors_of(tmp_path / "cut") == tensors_of(tmp_path / "whole")
