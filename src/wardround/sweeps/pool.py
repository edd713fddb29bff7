"""Processes side by side: so many cores are kept busy, the longest first, until all are done or the time is over."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from wardround.sweeps.lifeline import Lifeline

__all__ = ["LOG", "Job", "Listener", "Pool"]

LOG = "log.txt"
_POLL = 0.2  # seconds
_GRACE = 60.0  # seconds that a process has to end when it is told to
# One thread a process: several small trainings at once lose more by waiting for one another than threads gain them.
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "TQDM_DISABLE": "1"}


@dataclass(frozen=True)
class Job:
    """One process: what it says goes to `log.txt` in its folder, anew at each start."""

    name: str
    folder: Path
    command: Sequence[str]
    guess: float = 0.0  # seconds; of equal ones the first begins first
    slots: int = 1  # cores that it keeps busy


class Listener(Protocol):
    """Who is told."""

    def on_start(self, job: Job) -> None:
        """It is about to begin."""

    def on_end(self, job: Job, status: int) -> None:
        """It ended by itself."""

    def on_cut_off(self, job: Job, status: int) -> None:
        """It was told to end, for the time is over or everything is stopped."""


@dataclass(frozen=True)
class _Running:
    job: Job
    process: subprocess.Popen[bytes]


@dataclass
class Pool:
    """Runs jobs; use `work` once."""

    listener: Listener
    processes: int  # cores
    minutes: float = 0.0  # 0 is without end
    environment: Mapping[str, str] = field(default_factory=dict)  # of every process, beside this one's own
    _running: list[_Running] = field(default_factory=list, init=False)

    def work(self, jobs: Sequence[Job]) -> None:
        """Everything that fits into the time; what still runs at its end, or when this is interrupted, is stopped."""
        ends = time.monotonic() + 60 * self.minutes if self.minutes else float("inf")
        waiting = sorted(jobs, key=lambda job: -job.guess)
        with ExitStack() as stack:
            lifeline = stack.enter_context(Lifeline())
            stack.callback(self._stop)
            while (waiting or self._running) and time.monotonic() < ends:
                for job in list(waiting):
                    if self._fits(job):
                        waiting.remove(job)
                        self._start(job, lifeline)
                time.sleep(_POLL)
                self._collect()

    def _fits(self, job: Job) -> bool:
        """What needs more cores than there are runs alone."""
        busy = sum(running.job.slots for running in self._running)
        return not busy or busy + job.slots <= self.processes

    def _start(self, job: Job, lifeline: Lifeline) -> None:
        self.listener.on_start(job)
        job.folder.mkdir(parents=True, exist_ok=True)
        with (job.folder / LOG).open("wb") as log:
            process = subprocess.Popen(  # noqa: S603 – what is run is written down by whoever made the job
                list(job.command),
                env={**os.environ, **_ENVIRONMENT, **self.environment, **lifeline.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(lifeline.descriptor,),
            )
        self._running.append(_Running(job, process))

    def _collect(self) -> None:
        for running in [r for r in self._running if r.process.poll() is not None]:
            self._running.remove(running)
            self.listener.on_end(running.job, running.process.returncode)

    def _stop(self) -> None:
        self._collect()
        left, self._running = self._running, []
        for running in left:
            running.process.terminate()
        for running in left:
            self.listener.on_cut_off(running.job, _ended(running.process))


def _ended(process: subprocess.Popen[bytes]) -> int:
    try:
        return process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
