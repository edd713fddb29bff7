"""A study among hospitals that are all on this machine: kits, and the processes started from them by our commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.processes import Command, eventually, free_port, kill, processes_of
from tests.studies.tiny_studies import events_of

from wardround.provisioning.kits import Kit, provision, read_kit
from wardround.studies import networked
from wardround.studies import site_agent as attendance
from wardround.studies.networked import plan_kits
from wardround.studies.study_file import SiteSection
from wardround.training.state_files import load_tensors

PATIENCE = 90.0  # seconds that a loaded machine may take for what takes it two when it is idle


class Consortium:
    """Three hospitals and a coordinator; with `sealed`, a key service too."""

    def __init__(self, folder: Path, study: str, *, sealed: bool = False) -> None:
        self.folder = folder
        file = folder / "study.toml"
        file.write_text(study, encoding="utf-8")
        keys = f"localhost:{free_port()}" if sealed else ""
        plan = plan_kits(file, host="localhost", port=free_port(), days=2, keys=keys)
        self.kits = provision(*plan, folder / "kits")
        self.commands: dict[str, Command] = {}
        self._starts = 0

    @property
    def run(self) -> Path:
        """The coordinator's run folder."""
        return self.kits["coordinator"] / "run"

    def kit(self, name: str) -> Kit:
        return read_kit(self.kits[name])

    def accept(self, name: str) -> None:
        attendance.accept(self.kit(name))

    def start_site(self, name: str, *words: str | Path, environment: Mapping[str, str] | None = None) -> Command:
        return self._start(
            name, "site", "start", self.kits[name], "--device", "cpu", *words, environment=environment or {}
        )

    def work_at_site(self, name: str, built_in: str) -> Command:
        """What `site start` would run, without a supervisor, and whether or not the site accepted."""
        networked.SiteChoice(SiteSection(built_in=built_in), "cpu").write_spec(self.kit(name))
        return self._start(name, "site", "work", self.kits[name], environment={})

    def start_malicious(self, role: str, name: str, twist: str, built_in: str = "") -> Command:
        """A party that does not do what it should: see `tests.attacks.malicious_party`."""
        if built_in:
            networked.SiteChoice(SiteSection(built_in=built_in), "cpu").write_spec(self.kit(name))
        words = (role, self.kits[name], twist)
        return self._start(name, *words, environment={}, module="tests.attacks.malicious_party")

    def start_coordinator(self, *words: str | Path, supervised: bool = True) -> Command:
        word = "start" if supervised else "work"
        return self._start("coordinator", "coordinator", word, self.kits["coordinator"], *words, environment={})

    def start_keys(self) -> Command:
        """The key service, once it gives out keys."""
        environment = {"WARDROUND_PASSPHRASE": "nobody reads this one"}
        command = self._start("keys", "keys", "serve", self.kits["keys"], environment=environment)
        assert eventually(lambda: "fingerprint" in command.said, PATIENCE), command.said
        return command

    def _start(
        self, name: str, *words: str | Path, environment: Mapping[str, str], module: str = "wardround.cli.main"
    ) -> Command:
        self._starts += 1
        output = self.folder / f"output-{self._starts}-{name}.txt"
        self.commands[name] = Command(output, *words, environment=environment, module=module)
        return self.commands[name]

    def engine(self, name: str) -> int:
        """The process that a party's supervisor keeps running."""
        # The supervisor names the same words, for they are what it runs.
        return self._process(name, lambda words: "work" in words and not any("supervisor" in word for word in words))

    def worker(self, name: str) -> int:
        """The process in which a site trains."""
        return self._process(name, lambda words: "wardround.studies.worker" in words)

    def _process(self, name: str, fits: Callable[[list[str]], bool]) -> int:
        words = processes_of(self.kits[name].parent)
        mine = [pid for pid, said in words.items() if fits(said) and any(self._is_of(name, word) for word in said)]
        assert len(mine) == 1, f"{name} has {len(mine)} such processes: {self.commands[name].said}"
        return mine[0]

    def _is_of(self, name: str, word: str) -> bool:
        return word == str(self.kits[name]) or word.startswith(f"{self.kits[name]}/")

    def events(self, kind: str) -> list[dict[str, Any]]:
        return events_of(self.run, kind)

    def round_number(self) -> int:
        """The last round that is finished."""
        return max((int(event["round"]) for event in self.events("round")), default=0)

    def wait_until(self, holds: Callable[[], bool], what: str) -> None:
        """Fail at once where the coordinator has ended, with what everybody said."""

        def over() -> bool:
            return holds() or self.commands["coordinator"].process.poll() is not None

        eventually(over, PATIENCE)
        assert holds(), f"{what}: {self.outputs()}"

    def outputs(self) -> dict[str, str]:
        """What the parties said last."""
        return {name: command.said[-2000:] for name, command in self.commands.items()}

    def finish(self) -> None:
        """Every command ends by itself, and well; no process is left."""
        codes = {name: command.wait(PATIENCE) for name, command in self.commands.items()}
        assert set(codes.values()) == {0}, (codes, self.outputs())
        assert eventually(lambda: not processes_of(self.folder))

    def batches_drawn(self, name: str) -> int:
        """As the newest state of a site says, after it was closed."""
        state = self.kits[name] / "site" / "state" / "laid-aside.safetensors"
        return int(load_tensors(state)["batches_drawn"])

    def end(self) -> None:
        """Leave nothing, also where a process lost its parent."""
        for command in self.commands.values():
            command.end()
        for pid in processes_of(self.folder):
            kill(pid)
