from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.studies.tiny_studies import text_of

from wardround.errors import MessageError
from wardround.federation.message import Message, encode
from wardround.federation.worker_process import BytesWorker, WorkerProcess
from wardround.studies import worker
from wardround.studies.worker import main
from wardround.studies.worker_spec import WorkerSpec, worker_command


def test_a_spec_is_a_file(tmp_path: Path) -> None:
    spec = WorkerSpec("[study]", "/runs/a", "cuda:1", 3)
    path = spec.write(tmp_path / "worker.json")
    assert path == tmp_path / "worker.json"
    assert WorkerSpec(**json.loads(path.read_text())) == spec
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_starts_a_worker(tmp_path: Path) -> None:
    assert worker_command(tmp_path / "w.json") == (
        sys.executable,
        "-m",
        "wardround.studies.worker",
        str(tmp_path / "w.json"),
    )


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[BytesWorker]:
    """What `main` would serve, in this process."""
    found: list[BytesWorker] = []
    monkeypatch.setattr(worker, "serve_worker", lambda open_worker: found.append(open_worker()))
    return found


def test_it_answers_for_any_site_of_its_study(tmp_path: Path, served: list[BytesWorker]) -> None:
    main([str(WorkerSpec(text_of(), str(tmp_path / "run"), ledgers=True).write(tmp_path / "w.json"))])
    (sites,) = served
    for name in ("hillside", "harbour"):
        sites.answer_bytes(f"{name}/describe", 0, encode(Message()))
        assert (tmp_path / "run" / "sites" / name / "ledger.jsonl").is_file()
    with pytest.raises(MessageError, match=r"^step"):
        sites.answer_bytes("harbour/nothing", 0, encode(Message()))
    sites.close()
    assert (tmp_path / "run" / "sites" / "harbour" / "state" / "laid-aside.safetensors").is_file()


def test_among_hospitals_it_answers_for_one(tmp_path: Path, served: list[BytesWorker]) -> None:
    spec = WorkerSpec(text_of(), str(tmp_path / "mine"), site="hillside")
    main([str(spec.write(tmp_path / "w.json"))])
    (site,) = served
    site.answer_bytes("describe", 0, encode(Message()))
    assert (tmp_path / "mine" / "ledger.jsonl").is_file()
    assert not (tmp_path / "mine" / "sites").exists()


def test_it_uses_the_number_of_threads_in_its_spec(
    tmp_path: Path, served: list[BytesWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", told.append)
    main([str(WorkerSpec(text_of(), str(tmp_path / "run"), threads=3).write(tmp_path / "w.json"))])
    assert (told, len(served)) == ([3], 1)


@pytest.mark.slow
def test_as_a_process(tmp_path: Path) -> None:
    spec = WorkerSpec(text_of(), str(tmp_path / "run")).write(tmp_path / "w.json")
    process = WorkerProcess(worker_command(spec), errors=subprocess.DEVNULL)
    try:
        assert process.answer("harbour/describe", Message()).value("documents", int) == 3
        with pytest.raises(MessageError, match=r"^KeyError"):
            process.answer("elsewhere/describe", Message())
    finally:
        process.close()
    assert (tmp_path / "run" / "sites" / "harbour" / "state" / "laid-aside.safetensors").is_file()
