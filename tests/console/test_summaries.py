from __future__ import annotations

from pathlib import Path

import pytest
from tests.console.records import append, finished, leave, round_of, scored, started, write_kit, write_run

from wardround.console.runs import WatchedRun
from wardround.console.summaries import Summary, summary_of
from wardround.studies.watched_runs import CoordinatorRuns, SiteRuns


def watched(folder: Path) -> WatchedRun:
    return CoordinatorRuns(folder).all()[0]


def test_a_run_that_goes_on(tmp_path: Path) -> None:
    write_run(tmp_path / "a", started(), round_of(1), scored(1), round_of(2))
    assert summary_of(watched(tmp_path)) == Summary("running", 2, (0.51 + 0.25 + 0.75) / 3, round_of(2)["time"])


def test_a_run_that_is_finished_and_one_that_was_begun_again(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", started(), round_of(1), finished(1))
    assert summary_of(watched(tmp_path)).state == "finished"
    append(folder, started(1))
    assert summary_of(watched(tmp_path)).state == "running"


def test_a_coordinator_that_waits_for_sites(tmp_path: Path) -> None:
    write_run(tmp_path / "a", {"time": 3.0, "event": "waiting", "least": 2, "sites": 3})
    assert summary_of(watched(tmp_path)) == Summary("waiting", None, None, 3.0)


def test_a_training_at_one_site(tmp_path: Path) -> None:
    epoch = {"time": 9.0, "event": "epoch", "epoch": 7, "loss": 0.5, "dev_f1": 0.625, "best": True}
    write_run(tmp_path / "a", epoch, study="")
    assert summary_of(watched(tmp_path)) == Summary("running", 7, 0.625, 9.0)


def test_a_site(tmp_path: Path) -> None:
    write_kit(tmp_path / "kit", messages=3)
    found = summary_of(SiteRuns(tmp_path).all()[0])
    assert (found.state, found.number, found.f1) == ("running", 3, None)


def test_a_site_from_which_nothing_left(tmp_path: Path) -> None:
    write_kit(tmp_path / "kit")
    assert summary_of(SiteRuns(tmp_path).all()[0]) == Summary()


def test_a_site_is_finished_once_its_scores_left(tmp_path: Path) -> None:
    kit = write_kit(tmp_path / "kit", messages=2)
    leave(kit, "finish", 2)
    assert summary_of(SiteRuns(tmp_path).all()[0]).state == "finished"
    leave(kit, "restore", 2)  # the coordinator was started again
    assert summary_of(SiteRuns(tmp_path).all()[0]).state == "running"


def test_a_site_that_was_away_at_the_end_does_not_end_the_run(tmp_path: Path) -> None:
    gone = {"event": "absent", "step": "finish", "round": 1, "site": "harbour", "absence": "late", "code": "deadline"}
    write_run(tmp_path / "a", started(), round_of(1), gone)
    assert summary_of(watched(tmp_path)).state == "running"


def test_a_round_of_hundreds_of_sites_is_found_whole(tmp_path: Path) -> None:
    costs = {f"hospital-{number:03}": [2_000_000, 1_000_000, 0.123456, 0.123456] for number in range(1_000)}
    wide = round_of(7) | {"exchanges": {"give": costs}}
    run = write_run(tmp_path / "a", started(), wide)
    assert (run / "events.jsonl").stat().st_size > 40_000
    assert summary_of(watched(tmp_path)) == Summary("running", 7, None, wide["time"])


def test_a_record_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path / "a", started(), round_of(1))
    run = watched(tmp_path)

    def refuse(path: Path, mode: str = "r") -> None:
        raise PermissionError(path, mode)

    monkeypatch.setattr(Path, "open", refuse)
    assert summary_of(run) == Summary("unreadable")
