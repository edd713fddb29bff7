"""Ctrl-C, a second process in the same folder, and a full disk lose no work."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from safetensors import SafetensorError
from tests.studies.tiny_studies import Onlooker, events_of, learnable, scores_of, tensors_of
from tests.studies.tiny_studies import run as run_study

import wardround.training.state_files as state_files
from wardround.errors import TrainingError, UsageError
from wardround.studies.one_machine import run_on_one_machine
from wardround.studies.run_folder import RunFolder
from wardround.studies.run_guard import check_space, process_in, run_lock, stop_on_signals
from wardround.studies.single_site import pick_device
from wardround.studies.study_run import EngineSettings, StudyRun

Usage = namedtuple("Usage", "total used free")


def final(path: Path) -> dict[str, bytes]:
    """Return the results bit for bit, without the states of the sites after earlier rounds than the eighth."""
    found = tensors_of(path)
    assert any("state-00000008" in name for name in found)
    return {name: value for name, value in found.items() if "/state-" not in name or "state-00000008" in name}


def traffic(path: Path) -> tuple[int, int]:
    """Return the bytes of a run, which must not depend on the clock."""
    found = json.loads((path / "scores.json").read_text())["traffic"]
    return found["up"], found["down"]


@pytest.fixture(autouse=True)
def default_handlers() -> Iterator[None]:
    """Handle signals as a terminal's program does; one that runs in the background ignores Ctrl-C."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class Stopping(Onlooker):
    """Sends a signal to this process after a round, as a terminal or a scheduler does."""

    def __init__(self, number: signal.Signals, after: int) -> None:
        super().__init__()
        self.number, self.after = number, after

    def on_round(self, record: Any) -> None:
        super().on_round(record)
        if record.number == self.after:
            os.kill(os.getpid(), self.number)


@pytest.mark.parametrize(("number", "end"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_a_stopped_run_resumes_at_the_next_round(
    tmp_path: Path, number: signal.Signals, end: type[BaseException]
) -> None:
    """Checkpoints are 50 rounds apart, so that without this the run of 8 rounds would start again at round 1."""
    study = learnable(tmp_path / "data", federation={"checkpoint_every": 50})
    watcher, before = Stopping(number, after=5), signal.getsignal(number)
    with pytest.raises(end) as ended:
        run_study(study, tmp_path / "cut", watcher=watcher)
    assert watcher.said == [
        "stopping after this round, which is saved; press Ctrl-C again to stop at once",
        "stopped after round 5; the same command resumes at round 6",
    ]
    assert end is KeyboardInterrupt or ended.value.code == 143
    assert signal.getsignal(number) == before
    onlooker = Onlooker()
    run_study(study, tmp_path / "cut", watcher=onlooker)
    run_study(study, tmp_path / "whole")
    assert onlooker.started == [5]
    assert final(tmp_path / "cut") == final(tmp_path / "whole")
    assert scores_of(tmp_path / "cut") == scores_of(tmp_path / "whole")


def test_a_second_signal_stops_at_once() -> None:
    said: list[str] = []
    with pytest.raises(KeyboardInterrupt), stop_on_signals(said.append) as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.signal == signal.SIGINT
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("the second signal did nothing")
    assert len(said) == 1


def test_another_thread_leaves_the_signals_alone() -> None:
    before, seen = signal.getsignal(signal.SIGINT), []

    def work() -> None:
        with stop_on_signals(print) as stop:
            seen.append((bool(stop), signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(False, before)]


def test_checkpoints_by_time_change_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = learnable(tmp_path / "data", federation={"checkpoint_every": 50})
    run_study(study, tmp_path / "rare")
    written: list[int] = []
    save = StudyRun._checkpoint

    def noted(self: StudyRun, *, extra: bool = False) -> None:
        written.append(self.coordinator.number)
        save(self, extra=extra)

    monkeypatch.setattr(StudyRun, "_checkpoint", noted)
    original = EngineSettings.__init__

    def often(self: EngineSettings, **settings: Any) -> None:
        original(self, **settings | {"checkpoint_seconds": 0.0})

    monkeypatch.setattr(EngineSettings, "__init__", often)
    monkeypatch.setattr("wardround.studies.study_run.time.monotonic", lambda: 0.0)
    run_study(study, tmp_path / "often")
    assert written == [1, 2, 3, 4, 5, 6, 7, 8]
    assert scores_of(tmp_path / "often") == scores_of(tmp_path / "rare")
    assert final(tmp_path / "often") == final(tmp_path / "rare")
    assert traffic(tmp_path / "often") == traffic(tmp_path / "rare")
    for kind in ("asked", "round", "scored"):
        assert len(events_of(tmp_path / "often", kind)) == len(events_of(tmp_path / "rare", kind))


# Two processes.

HOLD = """
import sys, time
from pathlib import Path
from wardround.studies.run_guard import run_lock
with run_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_is_refused_and_the_first_one_named(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        assert process_in(tmp_path).startswith(f"process {holder.pid} on ")
        fault = rf"^the folder .* is in use by process {holder.pid} on .* started .* UTC; wait until it ends, or name"
        with pytest.raises(UsageError, match=fault), run_lock(tmp_path):
            raise AssertionError("two processes have the folder")
        holder.kill()  # without a chance to remove the file
    assert process_in(tmp_path) == ""
    with run_lock(tmp_path):
        assert process_in(tmp_path).startswith(f"process {os.getpid()} on ")
    assert list(tmp_path.iterdir()) == []


def test_a_run_holds_its_folder(tmp_path: Path) -> None:
    study = learnable(tmp_path / "data", algorithm={"rounds": 1})
    (tmp_path / "run").mkdir()
    with run_lock(tmp_path / "run"), pytest.raises(UsageError, match="the folder run is in use by process"):
        run_study(study, tmp_path / "run")


# A full disk.


def test_a_full_disk_is_noticed_before_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: Usage(100, 99, 1))
    check_space(tmp_path, 1)
    fault = rf"^the disk of {tmp_path.name} has 1 B left, and the run needs at least 2.0 KB"
    with pytest.raises(TrainingError, match=fault):
        check_space(tmp_path, 2_000)
    study = learnable(tmp_path / "data", algorithm={"rounds": 1})
    with pytest.raises(TrainingError, match="the disk of run has 1 B left"):
        run_study(study, tmp_path / "run")
    assert not events_of(tmp_path / "run", "started")


def test_a_disk_that_fills_during_the_run_keeps_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = learnable(tmp_path / "data", federation={"checkpoint_every": 4})
    write = state_files.save_file

    def full(tensors: Any, path: Path, **more: Any) -> None:
        if path.name.startswith("checkpoint") and path.with_name("checkpoint.safetensors").exists():
            path.write_bytes(b"half of it")
            raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")
        write(tensors, path, **more)

    monkeypatch.setattr(state_files, "save_file", full)
    fault = (
        r"^checkpoint\.safetensors in the folder run cannot be written: the disk is full; the file of the last "
        r"checkpoint is kept; make room and run the same command again$"
    )
    with pytest.raises(TrainingError, match=fault):
        run_study(study, tmp_path / "run")
    assert not list((tmp_path / "run").glob("*.partial"))
    monkeypatch.undo()
    onlooker = Onlooker()
    run_on_one_machine(study, RunFolder(tmp_path / "run"), device=pick_device("cpu"), watcher=onlooker)
    assert onlooker.started == [4]
