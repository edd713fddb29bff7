"""Write the figures of events as metrics of one MLflow run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from wardround.tracking.tracker import TrackedRun, points_of

__all__ = ["ToMlflow", "open_mlflow"]

_ADDRESS = "MLFLOW_TRACKING_URI"
_MOST_METRICS = 1000  # that MLflow accepts in one request
_LONGEST_SETTING = 500  # characters


class ToMlflow:
    """One MLflow run per run folder, named after it, even if several processes write to it in turn."""

    def __init__(self, client: MlflowClient, run_id: str) -> None:
        self._client, self.resume_id = client, run_id
        self._last = 0
        self._pending: list[Metric] = []
        self._state = ""

    def add(self, event: Mapping[str, Any]) -> None:
        """Keep the numbers of one event until `flush`."""
        if event.get("event") in ("started", "resumed", "finished"):
            self._state = "FINISHED" if event["event"] == "finished" else "RUNNING"
        points = points_of(event, last=self._last)
        if points is not None:
            self._last = points.step
            time = round(points.time * 1000)
            self._pending += [Metric(name, value, time, points.step) for name, value in points.values.items()]

    def flush(self) -> None:
        """Send the pending metrics."""
        while self._pending:
            self._client.log_batch(self.resume_id, metrics=self._pending[:_MOST_METRICS])
            del self._pending[:_MOST_METRICS]
        if self._state == "FINISHED":
            self._client.set_terminated(self.resume_id)
        elif self._state:
            self._client.update_run(self.resume_id, status=self._state)
        self._state = ""

    def close(self) -> None:
        """Do nothing: no connection stays open."""


def open_mlflow(run: TrackedRun, resume_id: str) -> ToMlflow:
    """Return the MLflow run `resume_id`, or a new one.

    `MLFLOW_TRACKING_URI` is the address of MLflow; without it, the store is below the run's folder.
    """
    address = os.environ.get(_ADDRESS)
    if not address:
        # MLflow requires an explicit opt-in for a store of files, which needs no further package.
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        address = (run.folder / "mlruns").resolve().as_uri()
    client = MlflowClient(tracking_uri=address)
    if resume_id and _exists(client, resume_id):
        return ToMlflow(client, resume_id)
    experiment = client.get_experiment_by_name(run.study)
    number = experiment.experiment_id if experiment else client.create_experiment(run.study)
    created = client.create_run(number, run_name=run.name).info.run_id
    settings = [Param(name, value[:_LONGEST_SETTING]) for name, value in run.settings.items()]
    client.log_batch(created, params=settings)
    return ToMlflow(client, created)


def _exists(client: MlflowClient, run_id: str) -> bool:
    try:
        client.get_run(run_id)
    except MlflowException:
        return False
    return True
