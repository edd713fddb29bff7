"""The folder of one run of many: the study that was asked for, the run, and what is kept when it is over."""

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

__all__ = ["ASKED", "SUMMARY", "held", "lay_out", "leave", "summary_in", "table_in", "write_whole"]

ASKED, SUMMARY = "asked.toml", "summary.json"
# What only a resumption needs, or somebody who wants the models.
_LEFT_OVER = ("model", "shared.safetensors", "checkpoint.safetensors", "worker.json")
_SITES, _NOTE_COUNTS = "sites", "note-counts.json"


def lay_out(folder: Path, asked: str) -> None:
    """Write down the study that is to be run; where another one was begun, nothing of it stays."""
    known = folder / ASKED
    found = known.read_bytes() if known.is_file() else None
    if found != asked.encode():
        (folder / SUMMARY).unlink(missing_ok=True)  # first: a folder that is half removed must not look finished
        if found is not None:
            shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(known, asked)


def leave(folder: Path, found: Mapping[str, Any], *, models: bool = False) -> None:
    """Write the summary, then remove what nobody needs any more; the counts of each note stay with their sites."""
    write_whole(folder / SUMMARY, json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    if models:
        return
    for name in _LEFT_OVER:
        _remove(folder / name)
    for site in sorted((folder / _SITES).glob("*")):
        _keep_counts(site)
    _remove_empty(folder / _SITES)


def _keep_counts(site: Path) -> None:
    """They alone stay: by them two runs are compared in pairs, and they hold no text."""
    for path in sorted(site.glob("*")):
        if path.name != _NOTE_COUNTS:
            _remove(path)
    _remove_empty(site)


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    path.unlink(missing_ok=True)


def _remove_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def summary_in(folder: Path) -> dict[str, Any] | None:
    """What a finished run left; None where it is not finished, or its summary is damaged."""
    return table_in(folder / SUMMARY)


def table_in(path: Path) -> dict[str, Any] | None:
    """The table in a JSON file; None where there is no such file, or it is damaged."""
    try:
        found = read_json(path, finite=False)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def write_whole(path: Path, text: str) -> None:
    """Replace a file: at every moment there is the old one or the new one, and after a crash too."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(path)


@contextmanager
def held(folder: Path, *, wait: bool) -> Iterator[None]:
    """The folder for this process alone; without `wait`, refused where another one works in it."""
    descriptor = _opened(folder)
    try:
        _lock(descriptor, folder.name, wait=wait)
        yield
    finally:
        os.close(descriptor)


def _opened(folder: Path) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise UsageError(f"{folder.name} cannot be used as a folder: {error.strerror}; name another one") from None


def _lock(descriptor: int, name: str, *, wait: bool) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(f"another process is at work in {name}; wait for it, or name another folder") from None
