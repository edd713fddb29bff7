"""Run the missing studies of a sweep, each in a process of its own, and show the progress in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from wardround.sweeps.folders import lock_folder, prepare_folder
from wardround.sweeps.index import Index
from wardround.sweeps.plan import PlannedRun
from wardround.sweeps.pool import LOG, Job, Pool, shared_gpu

__all__ = ["SweepProgress", "SweepRun", "SweepWatcher"]


class SweepWatcher(Protocol):
    """Receives the events of a sweep."""

    def on_start(self, run: PlannedRun) -> None:
        """Handle a run that starts or resumes."""

    def on_end(self, run: PlannedRun) -> None:
        """Handle a run that is finished and in the index."""

    def on_failure(self, run: PlannedRun, reason: str) -> None:
        """Handle a run that ended without a result."""

    def on_stop(self, run: PlannedRun) -> None:
        """Handle a run that was stopped; it resumes the next time."""

    def on_event(self, text: str) -> None:
        """Handle any other message."""


@dataclass
class SweepRun:
    """Runs the studies that are missing in an index."""

    index: Index
    watcher: SweepWatcher
    device: str = "auto"
    keep_models: bool = False
    failed: dict[str, str] = field(default_factory=dict, init=False)  # reasons, by the name of the run
    _by_job: dict[str, PlannedRun] = field(default_factory=dict, init=False)

    def work(self, *, processes: int, minutes: float = 0.0) -> None:
        """Run as much as the time allows; 0 minutes means no limit."""
        with lock_folder(self.index.folder, wait=False):
            self.index.write()
            for run in self.unfinished():
                self._by_job.setdefault(run.key, run)  # cells with identical studies share one run
            with shared_gpu(self.device if processes > 1 else "cpu", say=self.watcher.on_event):
                Pool(self, processes, minutes).work([self._job(run) for run in self._by_job.values()])

    def _job(self, run: PlannedRun) -> Job:
        folder = self.index.run_folder(run)
        options = [f"--cell={run.cell.name}", *(["--keep-models"] if self.keep_models else [])]
        command = [sys.executable, "-m", "wardround.sweeps.one_run", str(folder.resolve()), self.device, *options]
        return Job(run.key, folder, command)

    def on_start(self, job: Job) -> None:
        """Write the requested study into the run's folder."""
        run = self._by_job[job.name]
        prepare_folder(job.folder, run.study_text)
        self.watcher.on_start(run)

    def on_end(self, job: Job, status: int) -> None:
        """Add the run to the index, or report why it failed: its log's last line, which quotes no note."""
        run = self._by_job[job.name]
        if not status and self.index.add(run):
            self.watcher.on_end(run)
            return
        log = job.folder / LOG
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
        reason = (lines[-1] if lines else "") or f"it ended with status {status}"
        self.failed[run.name] = reason
        self.watcher.on_failure(run, reason)

    def on_stop(self, job: Job, status: int) -> None:
        """Add the run to the index if it finished before it was stopped."""
        run = self._by_job[job.name]
        if self.index.add(run):
            self.watcher.on_end(run)
        else:
            self.watcher.on_stop(run)

    def unfinished(self) -> Sequence[PlannedRun]:
        """Return the runs that are not finished."""
        return [run for run in self.index.runs if not self.index.has(run)]


class SweepProgress:
    """Prints one line per run, above a progress bar, on standard error so that the table can be piped."""

    def __init__(self, index: Index, *, console: Console | None = None) -> None:
        self._index, self._running = index, list[str]()
        self._console = console or Console(stderr=True)
        self._bar = Progress(
            TextColumn("runs"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("", total=len(index.runs), completed=self._done())

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def on_start(self, run: PlannedRun) -> None:
        """Show the run's name beside the bar."""
        self._running.append(run.name)
        self._update()

    def on_end(self, run: PlannedRun) -> None:
        """Print the run's first figure."""
        first = self._index.figures[0]
        value = self._index.figure(run, first)
        self._finish(run, f"{first.title} {'–' if value is None else f'{value:.4g}'}")

    def on_failure(self, run: PlannedRun, reason: str) -> None:
        """Print why the run failed."""
        self._finish(run, f"failed: {reason}")

    def on_stop(self, run: PlannedRun) -> None:
        """Print that the run was stopped."""
        self._finish(run, "stopped; the same command resumes it")

    def on_event(self, text: str) -> None:
        """Print a message."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _finish(self, run: PlannedRun, result: str) -> None:
        self._running.remove(run.name)
        self.on_event(f"{self._done()}/{len(self._index.runs)}  {run.name}: {result}")
        self._update()

    def _done(self) -> int:
        return sum(self._index.has(run) for run in self._index.runs)

    def _update(self) -> None:
        self._bar.update(self._task, completed=self._done(), description="; ".join(self._running))
