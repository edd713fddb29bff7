"""What `train` and `transfer` print when a model is finished: scores, and the paths of model and report."""

from __future__ import annotations

from wardround.api.one_site import TrainingResult
from wardround.cli.printing import Result
from wardround.studies.run_folder import RunFolder

__all__ = ["show_training"]


def show_training(trained: TrainingResult, result: Result) -> None:
    """Print the scores, and the paths of model and report."""
    folder = RunFolder(trained.folder)
    result.show(*trained.tables)
    result.values(**trained.outcome.as_json())
    result.line(f"model   {folder.model}\nreport  {folder.report}", model=folder.model, report=folder.report)
