from __future__ import annotations

import os
from pathlib import Path

import pytest

from wardround.sweeps import gpu


@pytest.mark.parametrize("answers", [True, False])
def test_the_service_that_shares_a_gpu_is_stopped_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    control, log, said = tmp_path / "control", tmp_path / "log", list[str]()
    control.write_text(f'#!/bin/sh\nif [ "$1" = "-d" ]; then echo start >> {log}; else cat >> {log}; fi\n')
    control.chmod(0o755)
    monkeypatch.setattr(gpu.shutil, "which", lambda name: str(control))
    monkeypatch.setattr(gpu, "_PROBE", "" if answers else "raise SystemExit(1)")
    with gpu.shared_gpu("cuda", say=said.append):
        assert ("CUDA_MPS_PIPE_DIRECTORY" in os.environ) is answers
        assert log.read_text() == ("start\n" if answers else "start\nquit\n")
    assert log.read_text() == "start\nquit\n" and "CUDA_MPS_PIPE_DIRECTORY" not in os.environ
    assert said == ["multi-process service: " + ("used" if answers else "does not answer; not used")]


def test_a_cpu_has_no_such_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu.shutil, "which", lambda name: pytest.fail("nobody is asked"))
    with gpu.shared_gpu("cpu", say=pytest.fail):
        assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ


def test_a_service_that_runs_already_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "/run/pipe")
    monkeypatch.setattr(gpu.shutil, "which", lambda name: pytest.fail("none is started"))
    with gpu.shared_gpu("cuda", say=pytest.fail):
        assert os.environ["CUDA_MPS_PIPE_DIRECTORY"] == "/run/pipe"
    assert os.environ["CUDA_MPS_PIPE_DIRECTORY"] == "/run/pipe"
