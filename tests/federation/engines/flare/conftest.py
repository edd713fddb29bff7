"""A rehearsal of a networked study: kits and processes, which are removed afterwards."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import pytest
from tests.processes import descendants, eventually, free_port, is_running, kill_all_below, listening

PARTY = Path(__file__).with_name("party.py")
SITES = ("h1", "h2", "h3", "h4")  # party.py gives the last no place in the study
STUDY = b'[study]\nname = "rehearsal"\n'


def make_kits(out: Path, port: int, study: bytes = STUDY, sites: tuple[str, ...] = SITES) -> dict[str, Path]:
    pytest.importorskip("nvflare", reason="install wardround[flare]")
    from wardround.provisioning.kits import KitPlan, provision

    return provision(KitPlan("rehearsal", "localhost", port, sites, days=2), study, out)


class Program:
    """A party's process and the lines that it printed."""

    def __init__(self, *arguments: str | Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(PARTY), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.printed: list[str] = []
        self._lines: SimpleQueue[str] = SimpleQueue()
        for stream in (self.process.stdout, self.process.stderr):
            threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def _read(self, stream: Any) -> None:
        for line in stream:
            self.printed.append(line)
            if stream is self.process.stdout:
                self._lines.put(line)

    def line(self, seconds: float = 180.0) -> Any:
        try:
            return json.loads(self._lines.get(timeout=seconds))
        except Empty:
            raise AssertionError(f"nothing came within {seconds} seconds: {self.printed}") from None

    def order(self, **order: Any) -> Any:
        self.write(**order)
        return self.line()

    def write(self, **order: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def ask(self, step: str, **order: Any) -> dict[str, list[Any]]:
        return {reply[0]: reply[1:] for reply in self.order(ask=step, **order)}

    def finish(self) -> int:
        """Close its input, which ends the study."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(60)

    def end(self) -> None:
        kill_all_below(self.process.pid)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                if stream is not None:
                    stream.close()
            except OSError:
                continue


class Rehearsal:
    """Kits in a folder and the processes that were started from them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.kits = make_kits(folder / "kits", self.port)
        self.programs: list[Program] = []
        self.head: Program
        self.sites: dict[str, Program] = {}

    def start(self, *arguments: str | Path) -> Program:
        program = Program(*arguments)
        self.programs.append(program)
        return program

    def coordinate(self) -> Program:
        self.head = self.start("coordinator", self.kits["coordinator"])
        assert self.head.line() == "ready"
        return self.head

    def site(self, name: str) -> Program:
        return self.start("supervised", "site", self.kits[name], self.folder / f"{name}.diary")

    def make_kits(self, out: Path, *, port: int | None = None) -> dict[str, Path]:
        """Return kits of another authority, for the same coordinator unless another port is given."""
        return make_kits(out, port or self.port)

    def times_asleep(self, site: str) -> int:
        """Return how often the worker of a site began to sleep."""
        return (self.folder / f"{site}.diary").read_text().count("asleep")

    def below(self, pid: int) -> list[int]:
        return descendants(pid)

    def is_running(self, pid: int) -> bool:
        return is_running(pid)

    def eventually(self, holds: Callable[[], bool]) -> bool:
        return eventually(holds)

    def listening(self, pid: int) -> list[int]:
        return listening(pid)

    def engine_log(self, name: str) -> str:
        log = self.kits[name] / "logs" / "engine.log"
        return log.read_text() if log.exists() else ""

    def copy(self, name: str, other: str) -> Path:
        return shutil.copytree(self.kits[name], self.folder / other, ignore=shutil.ignore_patterns("logs"))

    def end(self) -> None:
        for program in self.programs:
            program.end()


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """Three sites, each under its supervisor, and a coordinator; shared by the tests of a module."""
    made = Rehearsal(tmp_path_factory.mktemp("rehearsal"))
    try:
        made.sites = {name: made.site(name) for name in SITES[:3]}
        made.coordinate().order(wait=3, seconds=120)
        yield made
    finally:
        made.end()
