"""A study, or a training at one site, that is tracked elsewhere while it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from wardround.parsing import parse_toml
from wardround.studies.run_folder import RunFolder
from wardround.studies.study_file import Study, to_toml
from wardround.tracking.feeding import Say, check_trackers, feed_trackers
from wardround.tracking.tracker import TrackedRun

__all__ = ["tracked", "tracked_training"]

# Of a study file: where nothing says where anything lies.
_SECTIONS = ("study", "task", "algorithm", "training", "privacy", "evaluation")
_PLAIN = (str, int, float, bool)


def tracked(study: Study, folder: RunFolder, trackers: tuple[str, ...], *, say: Say) -> AbstractContextManager[None]:
    """While the study runs below, feed its events to these trackers; one that is not there is refused at once."""
    table = parse_toml(to_toml(study))
    settings = {f"{section}.{name}": value for section in _SECTIONS for name, value in table.get(section, {}).items()}
    return tracked_training(study.study.name, folder, settings, trackers=trackers, say=say)


def tracked_training(
    title: str, folder: RunFolder, settings: Mapping[str, Any], *, trackers: tuple[str, ...], say: Say
) -> AbstractContextManager[None]:
    """The same of any training; of its settings those that are plain values go along."""
    path = folder.path.resolve()
    run = TrackedRun(title, path.name, path / "tracking", dict(_plain(settings)))
    return feed_trackers(folder.record, run, check_trackers(trackers), say=say)


def _plain(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in settings.items():
        if isinstance(value, _PLAIN) and value != "":
            yield name, str(value)
