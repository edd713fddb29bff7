from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlflow", reason="tracking needs wardround[tracking]")

from mlflow.tracking import MlflowClient

from wardround.tracking import feeding
from wardround.tracking.to_mlflow import ToMlflow, open_mlflow
from wardround.tracking.tracker import TrackedRun


@pytest.fixture(autouse=True)
def own_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # set by us too; here it is taken back afterwards


def tracked(folder: Path) -> TrackedRun:
    return TrackedRun("adverse-effects", "first", folder, {"algorithm.name": "fedner", "algorithm.rounds": "40"})


def store(folder: Path) -> MlflowClient:
    return MlflowClient(tracking_uri=(folder / "mlruns").as_uri())


def round_of(number: int, loss: float) -> dict[str, Any]:
    return {"time": 100.0 + number, "event": "round", "round": number, "loss": loss, "absent": []}


def feed(tracker: ToMlflow, *events: dict[str, Any]) -> None:
    for event in events:
        tracker.add(event)
    tracker.flush()


def test_mlflow_reads_the_sent_points(tmp_path: Path) -> None:
    tracker = open_mlflow(tracked(tmp_path), "")
    feed(tracker, {"event": "started", "round": 0}, round_of(1, 0.5), round_of(2, 0.25))
    client = store(tmp_path)
    history = client.get_metric_history(tracker.resume_id, "loss")
    assert [(point.step, point.timestamp, point.value) for point in history] == [(1, 101_000, 0.5), (2, 102_000, 0.25)]
    run = client.get_run(tracker.resume_id)
    assert (run.info.run_name, run.info.status) == ("first", "RUNNING")
    assert run.data.params == {"algorithm.name": "fedner", "algorithm.rounds": "40"}
    assert client.get_experiment(run.info.experiment_id).name == "adverse-effects"


def test_a_run_that_is_finished_is_ended(tmp_path: Path) -> None:
    tracker = open_mlflow(tracked(tmp_path), "")
    feed(tracker, round_of(1, 0.5), {"time": 102.0, "event": "finished", "rounds": 1, "f1": {"harbour": 0.5}})
    run = store(tmp_path).get_run(tracker.resume_id)
    assert run.info.status == "FINISHED"
    assert run.data.metrics["test_f1/harbour"] == 0.5


def test_another_process_continues_the_same_run(tmp_path: Path) -> None:
    first = open_mlflow(tracked(tmp_path), "")
    feed(first, round_of(1, 0.5))
    second = open_mlflow(tracked(tmp_path), first.resume_id)
    assert second.resume_id == first.resume_id
    feed(second, {"event": "resumed", "round": 1}, round_of(2, 0.25))
    assert [point.step for point in store(tmp_path).get_metric_history(first.resume_id, "loss")] == [1, 2]


def test_a_run_that_mlflow_has_lost_is_created_again(tmp_path: Path) -> None:
    assert open_mlflow(tracked(tmp_path), "0" * 32).resume_id != "0" * 32


def test_many_points_are_sent_in_several_requests(tmp_path: Path) -> None:
    tracker = open_mlflow(tracked(tmp_path), "")
    feed(tracker, *(round_of(number, 0.5) for number in range(1, 701)))  # two points each
    assert len(store(tmp_path).get_metric_history(tracker.resume_id, "loss")) == 700


def test_the_environment_sets_the_address_of_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "elsewhere").as_uri())
    open_mlflow(tracked(tmp_path / "run"), "")
    assert (tmp_path / "elsewhere").is_dir()
    assert not (tmp_path / "run").exists()


def test_usage_reports_of_mlflow_are_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow.telemetry.utils import is_telemetry_disabled

    monkeypatch.delenv("MLFLOW_DISABLE_TELEMETRY", raising=False)
    for name in ("PYTEST_CURRENT_TEST", "CI", "DO_NOT_TRACK"):
        monkeypatch.delenv(name, raising=False)
    feeding.check_trackers(["mlflow"])
    assert is_telemetry_disabled()
