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

__all__ = ["ASKED", "SUMMARY", "held", "lay_out", "leave", "summary_in", "write_whole"]

ASKED, SUMMARY = "asked.toml", "summary.json"
# What only a resumption needs, or somebody who wants the models.
_LEFT_OVER = ("sites", "model", "shared.safetensors", "checkpoint.safetensors", "worker.json")


def lay_out(folder: Path, asked: str) -> None:
    """Write down the study that is to be run; where another one was begun, nothing of it stays."""
    known = folder / ASKED
    if known.is_file() and known.read_text(encoding="utf-8") != asked:
        (folder / SUMMARY).unlink(missing_ok=True)  # first: a folder that is half removed must not look finished
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(known, asked)


def leave(folder: Path, found: Mapping[str, Any], *, models: bool = False) -> None:
    """Write the summary, then remove what nobody needs any more."""
    write_whole(folder / SUMMARY, json.dumps(found, indent=2) + "\n")
    for name in () if models else _LEFT_OVER:
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).unlink(missing_ok=True)


def summary_in(folder: Path) -> dict[str, Any] | None:
    """What a finished run left; None where it is not finished."""
    path = folder / SUMMARY
    if not path.is_file():
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


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
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _lock(descriptor, folder.name, wait=wait)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, name: str, *, wait: bool) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(f"another process is at work in {name}; wait for it, or name another folder") from None
