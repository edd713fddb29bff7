from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tensorboard", reason="tracking needs wardround[tracking]")
pytest.importorskip("mlflow", reason="tracking needs wardround[tracking]")

from mlflow.tracking import MlflowClient
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tests.studies.tiny_studies import Killed, Onlooker, events_of, learnable
from tests.studies.tiny_studies import run as run_study

from wardround.errors import UsageError
from wardround.studies.run_folder import RunFolder
from wardround.studies.run_tracking import tracked, tracked_training

BOTH = ("tensorboard", "mlflow")


@pytest.fixture(autouse=True)
def own_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")


def mlflow_runs(folder: Path) -> tuple[MlflowClient, list[Any]]:
    client = MlflowClient(tracking_uri=(folder / "tracking" / "mlruns").as_uri())
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    return client, list(client.search_runs(experiments))


def test_both_show_what_the_run_folder_holds_also_after_a_crash(tmp_path: Path) -> None:
    study, folder = learnable(tmp_path / "notes"), tmp_path / "run"
    said: list[str] = []
    with pytest.raises(Killed), tracked(study, RunFolder(folder), BOTH, say=said.append):
        run_study(study, folder, watcher=Onlooker(kill_after=5))  # the last checkpoint is of round 3
    with tracked(study, RunFolder(folder), BOTH, say=said.append):
        run_study(study, folder)
    assert said == []
    logged = {event["round"]: event for event in events_of(folder, "round")}
    read = EventAccumulator(str(folder / "tracking" / "tensorboard")).Reload()
    client, (run,) = mlflow_runs(folder)
    history = client.get_metric_history(run.info.run_id, "loss")
    assert [point.step for point in history] == [1, 2, 3, 4, 5, 4, 5, 6, 7, 8]  # MLflow keeps what was done again
    assert {point.step: point.value for point in history} == {n: event["loss"] for n, event in logged.items()}
    for point in read.Scalars("loss"):
        assert point.value == pytest.approx(logged[point.step]["loss"])
    last = events_of(folder, "scored")[-1]
    for site, f1 in last["f1"].items():
        assert run.data.metrics[f"f1/{site}"] == f1
        assert read.Scalars(f"f1/{site}")[-1].value == pytest.approx(f1)
    assert run.info.status == "FINISHED"


def test_settings_go_along_and_no_path_does(tmp_path: Path) -> None:
    study, folder = learnable(tmp_path / "notes"), tmp_path / "run"
    with tracked(study, RunFolder(folder), ("mlflow",), say=print):
        RunFolder(folder).log("started", {"round": 0})
    _, (run,) = mlflow_runs(folder)
    assert run.data.params["algorithm.name"] == "fedner"
    assert run.data.params["algorithm.rounds"] == "8"
    assert run.data.params["privacy.mechanism"] == "plain"
    assert run.info.run_name == "run"
    assert not [value for value in run.data.params.values() if str(tmp_path) in value]


def test_a_training_at_one_site(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    settings = {"epochs": 3, "schedule": "linear", "optimizer": None, "split": ("a", "b"), "empty": ""}
    with tracked_training("fedner on ward", folder, settings, trackers=("mlflow",), say=print):
        folder.log("epoch", {"epoch": 1, "loss": 0.5, "dev_f1": 0.25, "best": True, "seconds": 1.0})
        folder.log("finished", {"strict_f1": 0.75})
    _, (run,) = mlflow_runs(folder.path)
    assert run.data.params == {"epochs": "3", "schedule": "linear"}
    assert run.data.metrics == {"loss": 0.5, "f1/dev": 0.25, "seconds": 1.0, "test/strict_f1": 0.75}


def test_an_unknown_tracker_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    study = learnable(tmp_path / "notes")
    with pytest.raises(UsageError, match="'wandb' is not a tracker; there are tensorboard, mlflow"):
        tracked(study, RunFolder(tmp_path / "run"), ("wandb",), say=print)
    assert not (tmp_path / "run" / "tracking").exists()
