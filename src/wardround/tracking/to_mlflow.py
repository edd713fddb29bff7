"""Events as the metrics of one MLflow run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from wardround.tracking.points import Points, points_of
from wardround.tracking.tracker import TrackedRun

__all__ = ["ToMlflow", "open_mlflow"]

_ADDRESS = "MLFLOW_TRACKING_URI"
_MOST_METRICS = 1000  # that MLflow takes at once
_LONGEST_SETTING = 500  # characters


class ToMlflow:
    """One MLflow run for a run folder, whichever processes write to it; its name is the folder's."""

    def __init__(self, client: MlflowClient, run_id: str) -> None:
        self._client, self.memory = client, run_id
        self._last = 0
        self._held: list[Metric] = []
        self._state = ""

    def take(self, event: Mapping[str, Any]) -> None:
        """Hold one event's numbers until `flush`."""
        if event.get("event") in ("started", "resumed", "finished"):
            self._state = "FINISHED" if event["event"] == "finished" else "RUNNING"
        points = points_of(event, last=self._last)
        if points is not None:
            self._last = points.step
            self._held += _metrics(points)

    def flush(self) -> None:
        """Send what was held."""
        while self._held:
            self._client.log_batch(self.memory, metrics=self._held[:_MOST_METRICS])
            del self._held[:_MOST_METRICS]
        if self._state == "FINISHED":
            self._client.set_terminated(self.memory)
        elif self._state:
            self._client.update_run(self.memory, status=self._state)
        self._state = ""

    def close(self) -> None:
        """Nothing stays open."""


def open_mlflow(run: TrackedRun, memory: str) -> ToMlflow:
    """The MLflow run that `memory` names, or a new one; where MLflow is, `MLFLOW_TRACKING_URI` says.

    Without it, a store below the run's folder.
    """
    address = os.environ.get(_ADDRESS) or _own_store(run)
    client = MlflowClient(tracking_uri=address)
    if memory and _is_known(client, memory):
        return ToMlflow(client, memory)
    experiment = client.get_experiment_by_name(run.study)
    number = experiment.experiment_id if experiment else client.create_experiment(run.study)
    created = client.create_run(number, run_name=run.name).info.run_id
    settings = [Param(name, value[:_LONGEST_SETTING]) for name, value in run.settings.items()]
    client.log_batch(created, params=settings)
    return ToMlflow(client, created)


def _own_store(run: TrackedRun) -> str:
    # MLflow wants to be told that files, which need no further package, are meant.
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    return (run.folder / "mlruns").resolve().as_uri()


def _is_known(client: MlflowClient, run_id: str) -> bool:
    try:
        client.get_run(run_id)
    except MlflowException:
        return False
    return True


def _metrics(points: Points) -> list[Metric]:
    time = round(points.time * 1000)
    return [Metric(name, value, time, points.step) for name, value in points.values.items()]
