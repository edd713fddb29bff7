"""Attacks on a machine with notes: read them from a core dump, another process, or files readable by all."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.running import exit_code
from tests.processes import eventually

from wardround.corpora.brat import Brat
from wardround.corpora.jsonl import Jsonl
from wardround.text.document import Document

ROOT = Path(__file__).resolve().parents[2]
NOTE = {"id": "n1", "text": "Seen on 03/04/2021 by phone 555-123-4567. Quillwort."}
# A user without privileges: root, too, passes by what protects a process unless it gives its capabilities up.
UNPRIVILEGED = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.getuid() == 0 else ()

linux = pytest.mark.skipif(sys.platform != "linux", reason="what a process hides of itself is Linux's own")
needs_setpriv = pytest.mark.skipif(
    bool(UNPRIVILEGED) and shutil.which("setpriv") is None, reason="root needs setpriv to act as somebody else"
)


@contextmanager
def started(*words: str | Path, folder: Path, prefix: tuple[str, ...] = ()) -> Iterator[subprocess.Popen[bytes]]:
    """Start a Python process without a limit on core dumps in `folder`."""

    def generous() -> None:
        hard = resource.RLIM_INFINITY if os.getuid() == 0 else resource.getrlimit(resource.RLIMIT_CORE)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))

    process = subprocess.Popen(
        [*prefix, sys.executable, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
        preexec_fn=generous,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            stream.close()


def core_limit(pid: int) -> list[str]:
    """Return the soft and hard limits on a process's core dumps, according to the kernel."""
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    return next(line for line in lines if line.startswith("Max core file size")).split()[4:6]


def can_be_read(pid: int) -> bool:
    """Return whether another process of the same user, without privileges, can read this one's memory."""
    program = f"open('/proc/{pid}/mem', 'rb')"
    done = subprocess.run([*UNPRIVILEGED, sys.executable, "-c", program], check=False, capture_output=True)
    return done.returncode == 0


# Core dumps.


@linux
def test_a_crash_leaves_no_note_in_a_core_dump(tmp_path: Path) -> None:
    """The process has read a note and crashes; `WCOREDUMP` reports every kind of dump, also into a pipe."""
    words = ("-m", "wardround.cli.main", "redact", "-", "--format", "jsonl")
    with started(*words, folder=tmp_path) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(NOTE).encode() + b"\n")
        process.stdin.flush()
        assert b"Quillwort" in process.stdout.readline()
        os.kill(process.pid, signal.SIGSEGV)
        _, status = os.waitpid(process.pid, 0)
        process.returncode = -os.WTERMSIG(status)
    assert os.WTERMSIG(status) == signal.SIGSEGV
    assert not os.WCOREDUMP(status)
    for file in tmp_path.iterdir():
        assert b"Quillwort" not in file.read_bytes(), file.name
    assert list(tmp_path.iterdir()) == []


ENTRIES = {
    "command": ("-m", "wardround.cli.main", "redact", "-", "--format", "jsonl"),
    "lane": ("-P", "-m", "wardround.secure_aggregation.worker_loop"),
    "worker": ("-m", "wardround.studies.worker", "worker.json"),
    "sweep": ("-m", "wardround.sweeps.one_run", ".", "cpu"),
    "supervisor": ("-m", "wardround.federation.engines.flare.supervisor", sys.executable, "-c", "input()"),
}


@linux
@needs_setpriv
@pytest.mark.parametrize("words", ENTRIES.values(), ids=ENTRIES)
def test_no_process_dumps_core_or_can_be_read_by_others(words: tuple[str, ...], tmp_path: Path) -> None:
    """Each command waits for its input, or for a study file that is a pipe; by then it must be hardened."""
    (tmp_path / "worker.json").write_text(json.dumps({"study": "", "folder": ".", "party": None}))
    os.mkfifo(tmp_path / "asked.toml")
    with started(*words, folder=tmp_path, prefix=UNPRIVILEGED) as process:
        assert eventually(lambda: process.poll() is not None or core_limit(process.pid) == ["0", "0"], seconds=60)
        assert process.poll() is None
        assert eventually(lambda: not can_be_read(process.pid), seconds=60)


@linux
@needs_setpriv
def test_the_process_could_be_read_without_hardening(tmp_path: Path) -> None:
    """The tests above can fail."""
    with started("-c", "input()", folder=tmp_path, prefix=UNPRIVILEGED) as process:
        assert can_be_read(process.pid)
        assert core_limit(process.pid) != ["0", "0"]


# A closed process hides its open files from others: what processes of one run share in memory must not need them.


@linux
@needs_setpriv
def test_a_sealed_study_with_workers_runs_without_privileges(tmp_path: Path) -> None:
    """Workers get the sealing key, and summing processes the blocks, through memory files of their parent."""
    (tmp_path / "study.toml").write_text(STUDY)
    words = ("-m", "wardround.cli.main", "run", "study.toml", "--out", "run", "--device", "cpu", "--workers", "2")
    with started(*words, folder=tmp_path, prefix=UNPRIVILEGED) as process:
        out, _ = process.communicate(timeout=300)
        assert process.returncode == 0, out.decode()


LANE = """
from wardround.process_hardening import forbid_core_dumps
forbid_core_dumps()
from wardround.secure_aggregation.bfv import BfvParameters
from wardround.secure_aggregation.workers import WorkerPool

class Owner: pass

lanes = WorkerPool(1)
owner = Owner()
print(len(lanes.all[0].begin(owner, BfvParameters("standard"), 1).result()))
lanes.close()
"""


@linux
@needs_setpriv
def test_a_worker_can_open_the_shared_buffer_of_a_hardened_process(tmp_path: Path) -> None:
    """Otherwise the sum would be computed without the worker, more slowly and unnoticed."""
    with started("-c", LANE, folder=tmp_path, prefix=UNPRIVILEGED) as process:
        assert process.stdout is not None
        assert process.stdout.read() == b"1\n"
        assert process.wait() == 0


STUDY = """
[study]
name = "closed"

[model]
shared = ["words", "word_cnn"]
word_buckets = 64
word_dimension = 8
character_layer = "none"
word_cnn = 8
lstm = 8

[algorithm]
name = "fedner"
rounds = 2

[privacy]
mechanism = "sealed"
minimum_sites = 2

[sites.harbour]
built_in = "harbour-0000"
types = ["Drug"]

[sites.hillside]
built_in = "hillside-0001"
types = ["Drug"]
"""


# Files of a redaction.


def modes(*places: Path) -> dict[str, str]:
    """Return the permissions of these files and folders and of everything below them."""
    found = [path for place in places for path in (place, *place.rglob("*"))]
    return {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in found}


@pytest.fixture
def generous_umask() -> Iterator[None]:
    """Set a umask under which all new files are readable by everyone."""
    before = os.umask(0o000)
    yield
    os.umask(before)


@pytest.mark.parametrize("form", ["text", "brat", "jsonl"])
def test_redacted_notes_are_readable_only_by_their_owner(form: str, tmp_path: Path, generous_umask: None) -> None:
    """They still contain what a model missed, and the audit file shows where to look."""
    notes = notes_in(form, tmp_path)
    out, page = tmp_path / "new" / "redacted", tmp_path / "pages" / "review.html"
    words = ("redact", notes, "--format", form, "--out", out, "--review", page)
    assert exit_code(*words) == 0
    found = modes(tmp_path / "new" / "redacted", tmp_path / "pages")
    assert {"audit.jsonl", "journal.jsonl", "review.html", "redacted", "pages"} <= found.keys()
    folders = {path.name for place in (out, page.parent) for path in (place, *place.rglob("*")) if path.is_dir()}
    assert {name: mode for name, mode in found.items() if mode != ("0o700" if name in folders else "0o600")} == {}


@pytest.mark.parametrize("form", ["text", "jsonl"])
def test_what_an_interrupted_run_left_open_is_closed(form: str, tmp_path: Path, generous_umask: None) -> None:
    notes = notes_in(form, tmp_path)
    out = tmp_path / "redacted"
    out.mkdir(mode=0o777)
    (out / "audit.jsonl.partial").write_text("")
    (out / "journal.jsonl.partial").write_text("")
    assert exit_code("redact", notes, "--format", form, "--out", out, "--resume") == 0
    found = modes(out)
    assert (found["redacted"], found["audit.jsonl"], found["journal.jsonl"]) == ("0o700", "0o600", "0o600")


def notes_in(form: str, folder: Path) -> Path:
    """Write two notes, one of them in a subfolder if the format has folders."""
    documents = [Document("n1", str(NOTE["text"])), Document("ward/n2", str(NOTE["text"]))]
    if form == "jsonl":
        Jsonl().write(documents, folder / "notes.jsonl")
        return folder / "notes.jsonl"
    if form == "brat":
        Brat().write(documents, folder / "notes")
        return folder / "notes"
    for document in documents:
        (folder / "notes" / document.id).parent.mkdir(parents=True, exist_ok=True)
        (folder / "notes" / f"{document.id}.txt").write_text(document.text)
    return folder / "notes"
