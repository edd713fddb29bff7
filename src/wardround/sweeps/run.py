"""A sweep from its plan to its index: what is missing is run, each study in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from wardround.sweeps.folders import held, lay_out
from wardround.sweeps.gpu import shared_gpu
from wardround.sweeps.index import Index
from wardround.sweeps.plan import Planned
from wardround.sweeps.pool import LOG, Job, Pool

__all__ = ["SweepRun", "SweepWatcher"]


class SweepWatcher(Protocol):
    """Who looks on."""

    def on_start(self, run: Planned) -> None:
        """A run begins, or goes on."""

    def on_end(self, run: Planned) -> None:
        """It is finished, and in the index."""

    def on_failure(self, run: Planned, reason: str) -> None:
        """It ended without a result."""

    def on_cut_off(self, run: Planned) -> None:
        """It was stopped; the next time it goes on."""

    def on_event(self, text: str) -> None:
        """Something else."""


@dataclass
class SweepRun:
    """Runs what is missing of an index."""

    index: Index
    watcher: SweepWatcher
    device: str = "auto"
    keep_models: bool = False
    failed: dict[str, str] = field(default_factory=dict, init=False)  # by the name of a run, why
    _by_job: dict[str, Planned] = field(default_factory=dict, init=False)

    def work(self, *, processes: int, minutes: float = 0.0) -> None:
        """Everything that fits into the time."""
        with held(self.index.folder, wait=False):
            self.index.write()
            for run in self.left():
                self._by_job.setdefault(run.key, run)  # one run serves all cells that are the same study
            with shared_gpu(self.device if processes > 1 else "cpu", say=self.watcher.on_event):
                Pool(self, processes, minutes).work([self._job(run) for run in self._by_job.values()])

    def _job(self, run: Planned) -> Job:
        folder = self.index.place(run)
        options = [f"--cell={run.cell.name}", *(["--keep-models"] if self.keep_models else [])]
        command = [sys.executable, "-m", "wardround.sweeps.one_run", str(folder.resolve()), self.device, *options]
        return Job(run.key, folder, command)

    def on_start(self, job: Job) -> None:
        """Write down what it is to run."""
        run = self._by_job[job.name]
        lay_out(job.folder, run.asked)
        self.watcher.on_start(run)

    def on_end(self, job: Job, status: int) -> None:
        """Into the index with it, or say why not."""
        run = self._by_job[job.name]
        if not status and self.index.add(run):
            self.watcher.on_end(run)
            return
        reason = _last_line(job.folder / LOG) or f"it ended with status {status}"
        self.failed[run.name] = reason
        self.watcher.on_failure(run, reason)

    def on_cut_off(self, job: Job, status: int) -> None:
        """It may have been done just then."""
        run = self._by_job[job.name]
        if self.index.add(run):
            self.watcher.on_end(run)
        else:
            self.watcher.on_cut_off(run)

    def left(self) -> Sequence[Planned]:
        """What is not finished."""
        return [run for run in self.index.runs if not self.index.has(run)]


def _last_line(log: Path) -> str:
    """What a process said last; its errors quote no note."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
    return lines[-1] if lines else ""
