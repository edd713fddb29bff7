"""The index of a sweep: one line per finished run, in the order of the plan.

{"cell": "FedNER", "seed": 0, "run": "5f2c…", "figures": {"sites.*.strict.f1": 0.7218}, "rounds": 40, "best_round": 38}

A line contains nothing that differs between two identical machines, or between a resumed and an uninterrupted run. The
index is enough to make the table again after the folders of the runs are deleted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wardround.errors import UsageError
from wardround.parsing import parse_json, parse_toml, read_toml
from wardround.sweeps.figures import figure_at, read_scores
from wardround.sweeps.folders import REQUESTED_STUDY, read_summary, write_atomically
from wardround.sweeps.plan import PlannedRun
from wardround.sweeps.sweep_file import Figure

__all__ = ["INDEX", "Index"]

INDEX = "index.jsonl"
_RUNS = "runs"
_RESULT_KEYS = ("figures", "rounds", "best_round")  # of a line, in addition to what the plan provides


@dataclass
class Index:
    """The finished runs of a plan, in memory and on disk."""

    folder: Path
    runs: Sequence[PlannedRun]
    figures: Sequence[Figure]
    lines: dict[str, dict[str, Any]] = field(default_factory=dict, init=False)  # by run key

    def __post_init__(self) -> None:
        if self.folder.exists() and not self.folder.is_dir():
            raise UsageError(f"{self.folder.name} is a file; name a folder instead, which may be new")
        known = self._read_lines()
        for run in self.runs:
            # If the run's folder exists it decides alone: its settings may differ from those of the line.
            exists = (self.run_folder(run) / REQUESTED_STUDY).exists()
            line = self._read_result(run) if exists else known.get(run.key)
            if line is not None:
                self.lines[run.key] = line

    def run_folder(self, run: PlannedRun) -> Path:
        """Return the folder of a run."""
        return self.folder / _RUNS / run.key

    def has(self, run: PlannedRun) -> bool:
        """Return whether the run is finished."""
        return run.key in self.lines

    def add(self, run: PlannedRun) -> bool:
        """Add a run that has ended and write the index; return False if the run left no summary."""
        line = self._read_result(run)
        if line is None:
            return False
        self.lines[run.key] = line
        self.write()
        return True

    def figure(self, run: PlannedRun, figure: Figure) -> float | None:
        """Return a figure of a finished run, scaled as the table shows it."""
        value = self.lines[run.key]["figures"][figure.path] if self.has(run) else None
        return None if value is None else figure.times * value

    def write(self) -> None:
        """Write the whole index."""
        lines = [
            {"cell": run.cell.name, "seed": run.seed, "run": run.key, **self.lines[run.key]}
            for run in self.runs
            if self.has(run)
        ]
        write_atomically(self.folder / INDEX, "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines))

    def _read_result(self, run: PlannedRun) -> dict[str, Any] | None:
        """Read the run's folder; return None if the run is unfinished, damaged or of another study."""
        folder = self.run_folder(run)
        scores = read_scores(folder)
        if scores is None or read_summary(folder) is None:
            return None
        try:
            requested = read_toml(folder / REQUESTED_STUDY)
        except (OSError, ValueError):
            return None
        # An empty file would agree with any study; every study has a [study] section.
        if "study" not in requested or not _agree(requested, parse_toml(run.study_text)):
            return None
        figures = {figure.path: figure_at(scores, figure.path) for figure in self.figures}
        return {"figures": figures, "rounds": scores["rounds"], "best_round": scores["best_round"]}

    def _read_lines(self) -> dict[str, dict[str, Any]]:
        """Read the lines of an existing index that are intact and have every requested figure."""
        path = self.folder / INDEX
        requested = {figure.path for figure in self.figures}
        found = {}
        for text in path.read_bytes().splitlines() if path.is_file() else []:
            try:
                line = parse_json(text, finite=False)
            except ValueError:
                continue  # a torn line
            is_ours = isinstance(line, dict) and line.keys() >= {"run", *_RESULT_KEYS}
            if is_ours and isinstance(line["figures"], dict) and requested <= line["figures"].keys():
                found[line["run"]] = {name: line[name] for name in _RESULT_KEYS}
        return found


def _agree(one: Any, other: Any) -> bool:
    """Return whether two studies agree in every setting that both have; the folders of files are ignored.

    A later version may have more settings, whose defaults an older run used; a changed default is a difference.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        return all(_agree(one[name], other[name]) for name in one.keys() & other.keys())
    if isinstance(one, str) and isinstance(other, str) and one.startswith(os.sep) and other.startswith(os.sep):
        return Path(one).name == Path(other).name
    return bool(one == other)
