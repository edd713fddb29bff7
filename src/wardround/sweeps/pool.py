"""Run many processes in parallel on a fixed number of cores.

A process ends with its parent, even if the parent is killed: the parent holds one end of a pipe and the children hold
the other, which closes when the parent is gone. Several processes share one GPU through NVIDIA's multi-process service.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

__all__ = ["LOG", "Job", "Lifeline", "Listener", "Pool", "end_with_parent", "lifeline", "shared_gpu"]

LOG = "log.txt"
_POLL_SECONDS = 0.2
_GRACE_SECONDS = 60.0  # between asking a process to end and killing it
# One thread per process: several small trainings in parallel lose more by contention than threads gain.
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "TQDM_DISABLE": "1"}

_LIFELINE_VARIABLE = "WARDROUND_LIFELINE"
_ORPHAN_STATUS = 75  # exit status of a process whose parent is gone: it may be retried

_MPS_PIPES, _MPS_LOG = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"
_GPU_PROBE = "import torch; torch.zeros(1, device='cuda')"


@dataclass(frozen=True)
class Job:
    """One process; its output goes to `log.txt` in its folder, which each start overwrites."""

    name: str
    folder: Path
    command: Sequence[str]
    guess: float = 0.0  # expected seconds; the longest start first, equal ones in the order given
    slots: int = 1  # cores it uses


class Listener(Protocol):
    """Receives the events of a pool."""

    def on_start(self, job: Job) -> None:
        """Handle a job that is about to start."""

    def on_end(self, job: Job, status: int) -> None:
        """Handle a job that ended by itself."""

    def on_stop(self, job: Job, status: int) -> None:
        """Handle a job that was stopped because the time is over or the pool was interrupted."""


@dataclass(frozen=True)
class _Running:
    job: Job
    process: subprocess.Popen[bytes]


@dataclass
class Pool:
    """Runs jobs in parallel, the longest first; call `work` once."""

    listener: Listener
    processes: int  # cores
    minutes: float = 0.0  # 0 means no limit
    environment: Mapping[str, str] = field(default_factory=dict)  # added to this process's own, for every job
    _running: list[_Running] = field(default_factory=list, init=False)

    def work(self, jobs: Sequence[Job]) -> None:
        """Run as many jobs as the time allows; stop those still running at its end or on an interrupt."""
        deadline = time.monotonic() + 60 * self.minutes if self.minutes else float("inf")
        waiting = sorted(jobs, key=lambda job: -job.guess)
        with ExitStack() as stack:
            pipe = stack.enter_context(lifeline())
            stack.callback(self._stop)
            while (waiting or self._running) and time.monotonic() < deadline:
                for job in list(waiting):
                    busy = sum(running.job.slots for running in self._running)
                    if not busy or busy + job.slots <= self.processes:  # a job larger than the pool runs alone
                        waiting.remove(job)
                        self._start(job, pipe)
                time.sleep(_POLL_SECONDS)
                self._collect()

    def _start(self, job: Job, pipe: Lifeline) -> None:
        self.listener.on_start(job)
        job.folder.mkdir(parents=True, exist_ok=True)
        with (job.folder / LOG).open("wb") as log:
            process = subprocess.Popen(  # noqa: S603 – the command comes from the code that made the job
                list(job.command),
                env={**os.environ, **_ENVIRONMENT, **self.environment, **pipe.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(pipe.descriptor,),
            )
        self._running.append(_Running(job, process))

    def _collect(self) -> None:
        for running in [r for r in self._running if r.process.poll() is not None]:
            self._running.remove(running)
            self.listener.on_end(running.job, running.process.returncode)

    def _stop(self) -> None:
        self._collect()
        stopped, self._running = self._running, []
        for running in stopped:
            running.process.terminate()
        for running in stopped:
            try:
                status = running.process.wait(_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                running.process.kill()
                status = running.process.wait()
            self.listener.on_stop(running.job, status)


@dataclass(frozen=True)
class Lifeline:
    """The child's end of the pipe: pass `descriptor` and `environment` to each process."""

    descriptor: int

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variable that names the child's end of the pipe."""
        return {_LIFELINE_VARIABLE: str(self.descriptor)}


@contextmanager
def lifeline() -> Iterator[Lifeline]:
    """Hold the parent's end of a pipe; child processes that called `end_with_parent` end when it closes."""
    child, parent = os.pipe()
    try:
        yield Lifeline(child)
    finally:
        os.close(parent)
        os.close(child)


def end_with_parent() -> None:
    """End this process as soon as its parent is gone; a no-op for a process that no pool started."""
    descriptor = os.environ.pop(_LIFELINE_VARIABLE, "")

    def exit_when_closed() -> None:
        os.read(int(descriptor), 1)  # nothing is ever written: this returns when the other end closes
        os._exit(_ORPHAN_STATUS)

    if descriptor:
        threading.Thread(target=exit_when_closed, daemon=True).start()


@contextmanager
def shared_gpu(device: str, *, say: Callable[[str], None]) -> Iterator[None]:
    """Let processes share the GPU through NVIDIA's multi-process service, if it is installed and responds.

    A service that is already running, as its environment variable shows, is used as it is.
    """
    not_needed = device == "cpu" or _MPS_PIPES in os.environ
    control = None if not_needed else shutil.which("nvidia-cuda-mps-control")
    if control is None:
        yield
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ |= {_MPS_PIPES: f"{folder}/pipe", _MPS_LOG: f"{folder}/log"}
        subprocess.run([control, "-d"], check=False)  # noqa: S603 – the service's own command
        responds = subprocess.run([sys.executable, "-c", _GPU_PROBE], check=False).returncode == 0  # noqa: S603
        say(f"multi-process service: {'used' if responds else 'does not respond; not used'}")
        try:
            if not responds:
                _quit_service(control)
            yield
        finally:
            if responds:
                _quit_service(control)


def _quit_service(control: str) -> None:
    subprocess.run([control], input=b"quit\n", check=False)  # noqa: S603
    del os.environ[_MPS_PIPES], os.environ[_MPS_LOG]
