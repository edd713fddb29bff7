"""Run one study in its own process: `python one_run.py FOLDER DEVICE --test FILE` runs FOLDER/asked.toml.

After each round, or every few rounds, the coordinator's model is scored on the test documents. `curve.jsonl` has one
line per round, `summary.json` has all of them. The run ends after the last round or at a target F1; sites are not
scored. If it is stopped by a signal, it writes a summary marked `cut_off`. Without test documents, only bytes are
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
from wardround.federation.worker_process import RequestHandler
from wardround.studies.assemble import common_task
from wardround.studies.one_machine import check_notes, run_on_one_machine
from wardround.studies.run_folder import RunFolder
from wardround.studies.shared_model_pool import SharedModelPool
from wardround.studies.single_site import pick_device
from wardround.studies.site_setup import open_here
from wardround.studies.study_file import Study, read_study
from wardround.studies.study_run import EngineSettings, StudyRun
from wardround.sweeps.folders import REQUESTED_STUDY, SUMMARY
from wardround.tasks.task import Task, TaskScore
from wardround.text.document import Document

__all__ = ["Examiner", "Recorder", "main", "run_watched"]

CURVE = "curve.jsonl"
_LEFT_OVER = ("sites", "model", "shared.safetensors", "checkpoint.safetensors")


class Enough(Exception):
    """The run is complete."""


class CutOff(BaseException):
    """The run was stopped; not an `Exception`, so that it is not taken for the absence of a site."""


class Examiner:
    """Score the coordinator's model on test documents."""

    def __init__(self, task: Task, documents: list[Document], *, every: int) -> None:
        self.task, self.documents, self.every = task, documents, every

    def score(self, shared: Mapping[str, torch.Tensor]) -> dict[str, Any]:
        """Return micro-F1 and the counts of each type."""
        with torch.no_grad():
            for name, parameter in self.task.model.parameters_in(self.task.model.groups).items():
                parameter.copy_(shared[name])
        return scores(self.task.score(self.documents))


def scores(found: TaskScore) -> dict[str, Any]:
    """Return the scores for a line of the curve."""
    types = {name: [counts.tp, counts.fp, counts.fn] for name, counts in found.main.items()}
    return {"f1": found.main.micro.f1, "types": types}


class Recorder:
    """Write a line per round and end the run; it scores the model of `coordinator`."""

    def __init__(self, curve: Path, rounds: int, *, examiner: Examiner | None = None, target: float = 0.0) -> None:
        self.lines: list[dict[str, Any]] = []
        self.coordinator: Coordinator | None = None
        self._curve, self._rounds, self._examiner, self._target = curve, rounds, examiner, target
        curve.write_text("", encoding="utf-8")

    def on_start(self, number: int) -> None:
        """Ignore it."""

    def on_round(self, record: Round) -> None:
        """Score, write a line, and end the run after the last round or at the target."""
        last = record.number == self._rounds
        line = figures(record)
        if self._examiner is not None and (last or record.number % self._examiner.every == 0):
            assert self.coordinator is not None, "its model is scored"
            line |= self._examiner.score(self.coordinator.shared)
        self.lines.append(line)
        with self._curve.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")
        if last or self.reached:
            raise Enough

    def on_scores(self, number: int, f1: Mapping[str, float]) -> None:
        """Ignore it."""

    def on_event(self, text: str) -> None:
        """Ignore it."""

    @property
    def scores_rounds(self) -> bool:
        """Return whether it needs the coordinator."""
        return self._examiner is not None

    @property
    def reached(self) -> int | None:
        """Return the first round at the target, if there is one."""
        if not self._target:
            return None
        return next((line["round"] for line in self.lines if line.get("f1", 0.0) >= self._target), None)

    def summary(self) -> dict[str, Any]:
        """Return the summary of the run."""
        scored = [line["f1"] for line in self.lines if "f1" in line]
        own = {"target": self._target, "reached": self.reached} if self._target else {}
        return {"rounds": len(self.lines), "f1": scored[-1] if scored else 0.0, **own, "curve": self.lines}


def figures(record: Round) -> dict[str, Any]:
    """Return the bytes of a round, and the figures that the algorithm reports."""
    traffic = record.traffic
    passed = {"answered": record.answered, "up": traffic.up, "down": traffic.down}
    assert not record.absent, "all sites of one machine answer"
    return {"round": record.number, "loss": record.loss, **passed, "figures": dict(record.figures)}


def run_watched(study: Study, folder: RunFolder, recorder: Recorder, *, device: torch.device) -> None:
    """Do as `run_on_one_machine`, but give the recorder the coordinator and keep every site open.

    A site that uses a shared model is small, and opening it again takes longer than its part of a round.
    """
    check_notes(study)
    lending = SharedModelPool(study, device)

    def open_named(name: str) -> RequestHandler:
        return open_here(study, name, folder.site(name), device=device, model_pool=lending)

    federation = InProcessFederation(tuple(study.sites), open_named, open_at_once=len(study.sites))
    # A checkpoint of so many sites costs more than it could save.
    engine = EngineSettings(checkpoint_every=study.algorithm.config.rounds, sites_save=False)
    try:
        run = StudyRun(study, federation, folder, engine=engine, watcher=recorder, device=device)
        recorder.coordinator = run.coordinator
        run.run()
    finally:
        federation.close()


def main(options: argparse.Namespace) -> None:
    """Run the study and write its summary."""
    started = time.perf_counter()
    signal.signal(signal.SIGTERM, _stop)
    torch.set_num_threads(1)
    (options.folder / SUMMARY).unlink(missing_ok=True)
    _clear(options.folder)
    device, study = pick_device(options.device), read_study(options.folder / REQUESTED_STUDY, generated=True)
    examiner = None
    if options.test is not None:
        task = common_task(study)
        task.model.to(device)
        examiner = Examiner(task, list(Jsonl().read(options.test)), every=options.every)
    rounds = study.algorithm.config.rounds
    recorder = Recorder(options.folder / CURVE, rounds, examiner=examiner, target=options.target)
    cut_off = _run(study, RunFolder(options.folder), recorder, device=device)
    machine = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    found = {**recorder.summary(), "seconds": round(time.perf_counter() - started, 1), "device": machine}
    RunFolder(options.folder).write_json(SUMMARY, found | ({"cut_off": True} if cut_off else {}))
    _clear(options.folder)


def _run(study: Study, folder: RunFolder, recorder: Recorder, *, device: torch.device) -> bool:
    """Run until the recorder ends it; return whether it was cut off."""
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
    """Remove what is left of the sites: a run always starts from the beginning."""
    for name in _LEFT_OVER:
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).unlink(missing_ok=True)


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("device", help="auto, cpu or cuda")
    parser.add_argument("--test", type=Path, help="documents to score on")
    parser.add_argument("--every", type=int, default=1, help="rounds between two scorings")
    parser.add_argument("--target", type=float, default=0.0, help="stop at this F1; 0: never")
    return parser.parse_args()


if __name__ == "__main__":
    main(arguments())
