from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Run
from tests.processes import Command, descendants, eventually, is_running, kill
from tests.studies.tiny_studies import events_of, learnable
from tests.sweeps.tiny_sweeps import GRID, write
from wardround.studies.study_file import to_toml
from wardround.sweeps.folders import lock_folder

ONE_SEED = {**GRID, "study.seed": [7]}


def scores(folder: Path) -> list[dict[str, Any]]:
    """Of every run in the index."""
    keys = [json.loads(line)["run"] for line in (folder / "index.jsonl").read_text().splitlines()]
    return [json.loads((folder / "runs" / key / "scores.json").read_text()) for key in keys]


def test_it_runs_every_study_once_and_prints_the_table(run: Run, tmp_path: Path) -> None:
    sweep, out = write(tmp_path / "s.toml", grid=ONE_SEED), tmp_path / "out"
    ran = run("sweep", sweep, "--out", out, "--device", "cpu", "--processes", "2")
    assert ran.code == 0, ran.err
    means = [sum(site["strict"]["f1"] for site in found["sites"].values()) / 2 for found in scores(out)]
    shown = [f"{100 * mean:.1f}" for mean in means]
    assert [ran.row(name) for name in ("FedNER", "alone")] == [["1 of 1", score] for score in shown]
    rows = list(csv.DictReader((out / "table.csv").read_text().splitlines()))
    assert [float(row["mean"]) for row in rows] == [100 * mean for mean in means]
    for name in ("index.jsonl", "table.md", "table.csv", "plot.svg"):
        assert f" {out / name}\n" in ran.out
    (folder, *_) = sorted((out / "runs").iterdir())
    kept = {"asked.toml", "events.jsonl", "log.txt", "scores.json", "study.toml", "summary.json"}
    assert kept <= {path.name for path in folder.iterdir()}
    assert {path.name for path in (folder / "sites").glob("*/*")} == {"note-counts.json"}
    before = {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("*")}
    again = run("sweep", sweep, "--out", out)
    assert (again.code, again.out) == (0, ran.out)
    assert {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("*")} == before


def test_a_dry_run_checks_and_lists(run: Run, tmp_path: Path) -> None:
    ran = run("sweep", write(tmp_path / "s.toml"), "--out", tmp_path / "out", "--dry-run")
    lines = ran.out.splitlines()
    assert ran.code == 0
    listed = [line.split(maxsplit=2) for line in lines[:2]]
    assert [(state, name) for state, _, name in listed] == [("missing", "FedNER, seed 7"), ("missing", "alone, seed 7")]
    assert lines[-1] == "4 runs, 0 of them finished"
    assert not (tmp_path / "out").exists()


def test_an_invalid_cell_is_refused_before_the_first_run(run: Run, tmp_path: Path) -> None:
    sweep = write(tmp_path / "s.toml", grid={"algorithm.name": ["fedner", "single"]})
    ran = run("sweep", sweep, "--out", tmp_path / "out")
    assert (ran.code, (tmp_path / "out").exists()) == (2, False)
    assert ran.err.startswith("wardround: single: [model] shared cannot be set for single,")


def test_a_failed_run_is_reported_and_the_others_finish(run: Run, tmp_path: Path) -> None:
    """Notes that no check beforehand reads: of a training part without an entity nothing can be learned."""
    empty = tmp_path / "empty"
    empty.mkdir()
    for part in ("train", "dev", "test"):
        (empty / f"{part}.txt").write_text("Nothing to see.\n")
    bad = {"sites.harbour.data": str(empty), "sites.harbour.format": "plain", "unset": ["sites.harbour.built_in"]}
    sweep = write(tmp_path / "s.toml", grid={"notes": {"empty": bad, "full": {}}})
    ran = run("sweep", sweep, "--out", tmp_path / "out", "--device", "cpu")
    assert ran.code == 1
    assert "empty, seed 7: failed: " in ran.err and str(tmp_path) not in ran.err and "Nothing" not in ran.said
    assert ran.row("empty")[0] == "0 of 1" and ran.row("full")[0] == "1 of 1"
    assert "left    1 of 2 runs; the same command resumes them\n" in ran.out


def long_sweep(folder: Path) -> Path:
    """Three seeds of a study that takes seconds to be killed in, with a checkpoint every third round."""
    study = learnable(folder / "data", algorithm={"rounds": 150}, evaluation={"every": 50})
    (folder / "study.toml").write_text(to_toml(study))
    path = folder / "sweep.toml"
    path.write_text(
        '[sweep]\nname = "long"\nstudy = "study.toml"\n[grid]\nstudy.seed = [1, 2, 3]\n'
        '[report]\nF1 = "sites.*.strict.f1"\nround = "best_round"\n'
    )
    return path


def is_in_the_middle(out: Path) -> bool:
    """One run is in the index, and another has passed a checkpoint."""
    index = out / "index.jsonl"
    done = {json.loads(line)["run"] for line in index.read_text().splitlines()} if index.is_file() else set()
    others = [path for path in (out / "runs").glob("*") if path.name not in done]
    return bool(done) and any(event["round"] > 6 for path in others for event in events_of(path, "round"))


@pytest.mark.slow
def test_a_killed_sweep_resumes_to_the_same_results(tmp_path: Path) -> None:
    sweep = long_sweep(tmp_path)
    words = ("sweep", sweep, "--device", "cpu", "--out")
    cut = Command(tmp_path / "cut.txt", *words, tmp_path / "cut")
    try:
        assert eventually(lambda: is_in_the_middle(tmp_path / "cut"), 240.0), cut.said
        below = descendants(cut.process.pid)
        assert len(below) > 1
        kill(cut.process.pid)
        assert cut.process.wait() == -9
        assert eventually(lambda: not any(map(is_running, below))), "a run went on without anybody who waits for it"
    finally:
        cut.end()
    assert len((tmp_path / "cut" / "index.jsonl").read_text().splitlines()) < 3
    for name, folder in (("resumed", "cut"), ("whole", "whole")):
        command = Command(tmp_path / f"{name}.txt", *words, tmp_path / folder)
        assert command.wait(240.0) == 0, command.said
    for name in ("index.jsonl", "table.csv", "table.md", "plot.svg"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    resumed = [path for path in (tmp_path / "cut" / "runs").iterdir() if events_of(path, "resumed")]
    assert len(resumed) == 1, "one was in the middle, and went on from a checkpoint"


def test_a_second_sweep_in_the_same_folder_is_refused(run: Run, tmp_path: Path) -> None:
    sweep = write(tmp_path / "s.toml", grid=ONE_SEED)
    with lock_folder(tmp_path / "out", wait=False):
        ran = run("sweep", sweep, "--out", tmp_path / "out")
    assert (ran.code, ran.err.count("another process is working in out; wait until it ends")) == (2, 1)


def test_runs_left_at_the_time_limit_are_run_the_next_time(run: Run, tmp_path: Path) -> None:
    ran = run("sweep", write(tmp_path / "s.toml"), "--out", tmp_path / "out", "--minutes", "0.0001")
    assert ran.code == 0
    assert "FedNER, seed 7: stopped; the same command resumes it" in ran.err
    assert "left    4 of 4 runs; the same command resumes them\n" in ran.out
