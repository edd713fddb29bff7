"""One study in a process of its own: `python one_run.py FOLDER DEVICE --test FILE` runs FOLDER/asked.toml.

After each round, or every few, the coordinator's model is scored on the test documents; `curve.jsonl` gets a line a
round, `summary.json` all of them. The run is over after the last round, or at a target F1; sites are not scored.
Stopped by a signal, it leaves the summary of what it has, marked `cut_off`. Without test documents only what passed is
counted.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from wardround.corpora.jsonl import Jsonl
from wardround.federation.coordinator import Coordinator, Round
from wardround.federation.engines.in_process import InProcessFederation
from wardround.federation.request_handler import RequestHandler
from wardround.studies.assemble import common_task
from wardround.studies.one_machine import check_notes, run_on_one_machine
from wardround.studies.run_folder import RunFolder
from wardround.studies.shared_model_pool import SharedModelPool
from wardround.studies.single_site import pick_device
from wardround.studies.site_setup import open_here
from wardround.studies.study_file import Study, read_study
from wardround.studies.study_run import Engine, StudyRun
from wardround.tasks.task import Task, TaskScore
from wardround.text.document import Document

ASKED, SUMMARY, CURVE = "asked.toml", "summary.json", "curve.jsonl"
_LEFT_OVER = ("sites", "model", "shared.safetensors", "checkpoint.safetensors")


class Enough(Exception):
    """The run has done what it was for."""


class CutOff(BaseException):
    """The run was told to stop; whoever takes errors for the absence of a site must let it through."""


class Examiner:
    """Scores the coordinator's model on test documents."""

    def __init__(self, task: Task, documents: list[Document], *, every: int) -> None:
        self.task, self.documents, self.every = task, documents, every

    def score(self, shared: Mapping[str, torch.Tensor]) -> dict[str, Any]:
        """Micro-F1, and right, wrong and missed relations by type."""
        with torch.no_grad():
            for name, parameter in self.task.model.parameters_in(self.task.model.groups).items():
                parameter.copy_(shared[name])
        return scores(self.task.score(self.documents))


def scores(found: TaskScore) -> dict[str, Any]:
    """As a line of the curve has them."""
    types = {name: [counts.tp, counts.fp, counts.fn] for name, counts in found.main.items()}
    return {"f1": found.main.micro.f1, "types": types}


class Recorder:
    """Writes a line a round and ends the run; the rounds' model it finds at the coordinator it is given."""

    def __init__(self, curve: Path, rounds: int, *, examiner: Examiner | None = None, target: float = 0.0) -> None:
        self.lines: list[dict[str, Any]] = []
        self.coordinator: Coordinator | None = None
        self._curve, self._rounds, self._examiner, self._target = curve, rounds, examiner, target
        curve.write_text("", encoding="utf-8")

    def on_start(self, number: int) -> None:
        """Say nothing."""

    def on_round(self, record: Round) -> None:
        """Score, write, and stop where there is nothing left to do."""
        last = record.number == self._rounds
        line = figures(record)
        if self._examiner is not None and (last or record.number % self._examiner.every == 0):
            assert self.coordinator is not None, "whose model is scored"
            line |= self._examiner.score(self.coordinator.shared)
        self.lines.append(line)
        with self._curve.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")
        if last or self.reached:
            raise Enough

    def on_scores(self, number: int, f1: Mapping[str, float]) -> None:
        """Say nothing."""

    def on_event(self, text: str) -> None:
        """Say nothing."""

    @property
    def scores_rounds(self) -> bool:
        """Whether it needs to see the coordinator."""
        return self._examiner is not None

    @property
    def reached(self) -> int | None:
        """The first round at the target, where there is one."""
        if not self._target:
            return None
        return next((line["round"] for line in self.lines if line.get("f1", 0.0) >= self._target), None)

    def summary(self) -> dict[str, Any]:
        """What is kept of the run."""
        scored = [line["f1"] for line in self.lines if "f1" in line]
        own = {"target": self._target, "reached": self.reached} if self._target else {}
        return {"rounds": len(self.lines), "f1": scored[-1] if scored else 0.0, **own, "curve": self.lines}


def figures(record: Round) -> dict[str, Any]:
    """What passed in a round, and what the algorithm has to tell of it."""
    traffic = record.traffic
    passed = {"answered": record.answered, "up": traffic.up, "down": traffic.down}
    assert not record.absent, "sites of one machine answer"
    return {"round": record.number, "loss": record.loss, **passed, "figures": dict(record.figures)}


def run_watched(study: Study, folder: RunFolder, recorder: Recorder, *, device: torch.device) -> None:
    """As `run_on_one_machine` does, with the coordinator where the recorder sees it, and every site open at once.

    A site that works in a lent network is small, and opening it again takes longer than its part of a round.
    """
    check_notes(study)
    lending = SharedModelPool(study, device)

    def open_named(name: str) -> RequestHandler:
        return open_here(study, name, folder.site(name), device=device, lending=lending)

    federation = InProcessFederation(tuple(study.sites), open_named, open_at_once=len(study.sites))
    # What a checkpoint of so many sites costs is more than it could save.
    engine = Engine(checkpoint_every=study.algorithm.config.rounds, sites_save=False)
    try:
        run = StudyRun(study, federation, folder, engine=engine, watcher=recorder, device=device)
        recorder.coordinator = run.coordinator
        run.run()
    finally:
        federation.close()


def main(asked: argparse.Namespace) -> None:
    """Run the study and leave its summary behind."""
    started = time.perf_counter()
    signal.signal(signal.SIGTERM, _stop)
    torch.set_num_threads(1)
    (asked.folder / SUMMARY).unlink(missing_ok=True)
    _clear(asked.folder)
    device, study = pick_device(asked.device), read_study(asked.folder / ASKED)
    examiner = None
    if asked.test is not None:
        task = common_task(study)
        task.model.to(device)
        examiner = Examiner(task, list(Jsonl().read(asked.test)), every=asked.every)
    rounds = study.algorithm.config.rounds
    recorder = Recorder(asked.folder / CURVE, rounds, examiner=examiner, target=asked.target)
    cut_off = _carried_out(study, RunFolder(asked.folder), recorder, device=device)
    machine = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    found = {**recorder.summary(), "seconds": round(time.perf_counter() - started, 1), "device": machine}
    RunFolder(asked.folder).write_json(SUMMARY, found | ({"cut_off": True} if cut_off else {}))
    _clear(asked.folder)


def _carried_out(study: Study, folder: RunFolder, recorder: Recorder, *, device: torch.device) -> bool:
    """Run to where the recorder ends it; whether it was cut off."""
    try:
        if recorder.scores_rounds:
            run_watched(study, folder, recorder, device=device)
        else:
            run_on_one_machine(study, folder, device=device, watcher=recorder)
    except Enough:
        return False
    except CutOff:
        return True
    raise AssertionError("the recorder ends the run")


def _stop(number: int, frame: Any) -> None:
    raise CutOff


def _clear(folder: Path) -> None:
    """What is left of the sites: a run begins anew."""
    for name in _LEFT_OVER:
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).unlink(missing_ok=True)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("device", help="auto, cpu or cuda")
    parser.add_argument("--test", type=Path, help="documents to score on")
    parser.add_argument("--every", type=int, default=1, help="rounds between two scorings")
    parser.add_argument("--target", type=float, default=0.0, help="stop at this F1; 0 is never")
    return parser.parse_args()


if __name__ == "__main__":
    main(arguments())
