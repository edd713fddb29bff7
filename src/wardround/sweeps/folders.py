"""The folder of one run of a sweep: the requested study, the run, and what stays when it has finished."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from wardround.errors import UsageError
from wardround.parsing import read_json

__all__ = [
    "REQUESTED_STUDY",
    "SUMMARY",
    "finish_folder",
    "lock_folder",
    "prepare_folder",
    "read_summary",
    "read_table",
    "write_atomically",
]

REQUESTED_STUDY, SUMMARY = "asked.toml", "summary.json"
# Needed only to resume the run, or by a user who wants the models.
_REMOVED = ("model", "shared.safetensors", "checkpoint.safetensors", "worker.json")
_SITES, _NOTE_COUNTS = "sites", "note-counts.json"


def prepare_folder(folder: Path, study: str) -> None:
    """Write the text of the requested study file; remove everything if the folder holds another study."""
    path = folder / REQUESTED_STUDY
    found = path.read_bytes() if path.is_file() else None
    if found != study.encode():
        (folder / SUMMARY).unlink(missing_ok=True)  # first: a half-removed folder must not look finished
        if found is not None:
            shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, study)


def finish_folder(folder: Path, summary: Mapping[str, Any], *, keep_models: bool = False) -> None:
    """Write the summary, then remove the models and checkpoints.

    Each site keeps its counts per note: paired comparisons of two runs need them, and they contain no text.
    """
    write_atomically(folder / SUMMARY, json.dumps(summary, indent=2, ensure_ascii=False) + "\n")
    if keep_models:
        return
    for name in _REMOVED:
        _remove(folder / name)
    sites = folder / _SITES
    for site in sorted(sites.glob("*")):
        for path in sorted(site.glob("*")):
            if path.name != _NOTE_COUNTS:
                _remove(path)
        _remove_if_empty(site)
    _remove_if_empty(sites)


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    path.unlink(missing_ok=True)


def _remove_if_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def read_summary(folder: Path) -> dict[str, Any] | None:
    """Return the summary of a finished run, or None if the run is unfinished or its summary is damaged."""
    return read_table(folder / SUMMARY)


def read_table(path: Path) -> dict[str, Any] | None:
    """Return the object in a JSON file, or None if the file is missing or damaged."""
    try:
        found = read_json(path, finite=False)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def write_atomically(path: Path, text: str) -> None:
    """Replace a file so that either the old or the new content is there at any moment, even after a crash."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(path)


@contextmanager
def lock_folder(folder: Path, *, wait: bool) -> Iterator[None]:
    """Create the folder and lock it for this process; without `wait`, raise if another process has locked it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise UsageError(f"{folder.name} cannot be used as a folder: {error.strerror}; choose another one") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"another process is working in {folder.name}; wait until it ends, or choose another folder"
            ) from None
        yield
    finally:
        os.close(descriptor)
