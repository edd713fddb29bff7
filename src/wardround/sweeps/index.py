"""The index of a sweep: a line a finished run, in the order of the plan, whatever the order in which they ended.

{"cell": "FedNER", "seed": 0, "run": "5f2c…", "figures": {"sites.*.strict.f1": 0.7218}, "rounds": 40, "best_round": 38}

A line holds nothing that differs between two machines alike, or between a run that was resumed and one that was not. It
outlives the folders of the runs: with it alone the table can be made again.
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
from wardround.sweeps.figures import figure_in, scores_in
from wardround.sweeps.folders import ASKED, summary_in, write_whole
from wardround.sweeps.plan import Planned
from wardround.sweeps.sweep_file import Figure

__all__ = ["INDEX", "Index"]

INDEX = "index.jsonl"
_RUNS = "runs"
_KEPT = ("figures", "rounds", "best_round")  # of a line, beside what the plan says


@dataclass
class Index:
    """What is finished of a plan, on disk and here."""

    folder: Path
    runs: Sequence[Planned]
    figures: Sequence[Figure]
    lines: dict[str, dict[str, Any]] = field(default_factory=dict, init=False)  # by the key of the run

    def __post_init__(self) -> None:
        if self.folder.exists() and not self.folder.is_dir():
            raise UsageError(f"{self.folder.name} is a file; name a folder in its place, which may be new")
        known = self._known()
        for run in self.runs:
            # Of a run whose folder is there, the folder alone tells: it may be of other settings than the line.
            line = self._found(run) if (self.place(run) / ASKED).exists() else known.get(run.key)
            if line is not None:
                self.lines[run.key] = line

    def place(self, run: Planned) -> Path:
        """The folder of a run."""
        return self.folder / _RUNS / run.key

    def has(self, run: Planned) -> bool:
        """Whether it is finished."""
        return run.key in self.lines

    def add(self, run: Planned) -> bool:
        """Write a run down that has ended; false where it left no summary."""
        line = self._found(run)
        if line is None:
            return False
        self.lines[run.key] = line
        self.write()
        return True

    def figure(self, run: Planned, figure: Figure) -> float | None:
        """What a finished run has, as the table shows it."""
        value = self.lines[run.key]["figures"][figure.path] if self.has(run) else None
        return None if value is None else figure.times * value

    def write(self) -> None:
        """All of it, whole."""
        found = [self._line(run) for run in self.runs if self.has(run)]
        write_whole(self.folder / INDEX, "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in found))

    def _line(self, run: Planned) -> dict[str, Any]:
        return {"cell": run.cell.name, "seed": run.seed, "run": run.key, **self.lines[run.key]}

    def _found(self, run: Planned) -> dict[str, Any] | None:
        """What lies in the run's folder; None where it is not finished, of another study, or damaged."""
        scores = scores_in(self.place(run))
        if scores is None or summary_in(self.place(run)) is None or not self._is_of(run):
            return None
        figures = {figure.path: figure_in(scores, figure.path) for figure in self.figures}
        return {"figures": figures, "rounds": scores["rounds"], "best_round": scores["best_round"]}

    def _is_of(self, run: Planned) -> bool:
        """Whether what lies in the folder was made by the study as it is now."""
        try:
            asked = read_toml(self.place(run) / ASKED)
        except (OSError, ValueError):
            return False
        # A file without a setting contradicts none; every study has this section.
        return "study" in asked and _agree(asked, parse_toml(run.asked))

    def _known(self) -> dict[str, dict[str, Any]]:
        """Lines of an index that is there, as far as they are whole and have every figure that is asked for."""
        path = self.folder / INDEX
        lines = path.read_bytes().splitlines() if path.is_file() else []
        wanted = {figure.path for figure in self.figures}
        whole = [line for line in map(_read, lines) if line is not None and wanted <= line["figures"].keys()]
        return {line["run"]: {name: line[name] for name in _KEPT} for line in whole}


def _read(line: bytes) -> dict[str, Any] | None:
    """A line of an index; None where it is torn, or no line of ours."""
    try:
        found = parse_json(line, finite=False)
    except ValueError:
        return None
    is_ours = isinstance(found, dict) and found.keys() >= {"run", *_KEPT} and isinstance(found["figures"], dict)
    return found if is_ours else None


def _agree(one: Any, other: Any) -> bool:
    """Whether two studies are the same in every setting that both know; where their files lie does not matter.

    A later version may know more settings, which an older run had in effect; a default that has changed tells.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        return all(_agree(one[name], other[name]) for name in one.keys() & other.keys())
    if isinstance(one, str) and isinstance(other, str) and one.startswith(os.sep) and other.startswith(os.sep):
        return Path(one).name == Path(other).name
    return bool(one == other)
