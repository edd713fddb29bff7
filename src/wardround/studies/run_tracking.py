"""Experiment tracking of a study, or of a training at one site, while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from wardround.parsing import parse_toml
from wardround.studies.run_folder import RunFolder
from wardround.studies.study_file import Study, to_toml
from wardround.tracking.feeding import Say, check_trackers, feed_trackers
from wardround.tracking.tracker import TrackedRun

__all__ = ["tracked", "tracked_training"]

# Sections of a study file that contain no paths.
_SECTIONS = ("study", "task", "algorithm", "training", "privacy", "evaluation")
_PLAIN = (str, int, float, bool)


def tracked(study: Study, folder: RunFolder, trackers: tuple[str, ...], *, say: Say) -> AbstractContextManager[None]:
    """Return a context in which a study's events are sent to these trackers; refuse a tracker that is not installed."""
    table = parse_toml(to_toml(study))
    settings = {f"{section}.{name}": value for section in _SECTIONS for name, value in table.get(section, {}).items()}
    return tracked_training(study.study.name, folder, settings, trackers=trackers, say=say)


def tracked_training(
    title: str, folder: RunFolder, settings: Mapping[str, Any], *, trackers: tuple[str, ...], say: Say
) -> AbstractContextManager[None]:
    """Return the same context for any training; settings that are text, numbers or booleans are sent as well."""
    plain = {name: str(value) for name, value in settings.items() if isinstance(value, _PLAIN) and value != ""}
    path = folder.path.resolve()
    run = TrackedRun(title, path.name, path / "tracking", plain)
    return feed_trackers(folder.record, run, check_trackers(trackers), say=say)
