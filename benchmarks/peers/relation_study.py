"""A complete relation-extraction study among small hospitals: memory, time, bytes and disk.

The sites share one network, as they do on one machine, or, for comparison, each open site builds its own.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
from json_script import answer, peak_megabytes
from site_scaling import STYLES

from wardround.federation.coordinator import Round
from wardround.federation.engines.in_process import InProcessFederation
from wardround.federation.worker_process import RequestHandler
from wardround.studies.run_folder import RunFolder
from wardround.studies.shared_model_pool import SharedModelPool
from wardround.studies.site_setup import open_here
from wardround.studies.study_file import Study, parse_study
from wardround.studies.study_run import EngineSettings, StudyRun

CPU = torch.device("cpu")
PAIRS = {"causes": [["Drug", "ADE"]], "has_dosage": [["Drug", "Dosage"]], "treats": [["Drug", "Disease"]]}
WITH_DRUGS = STYLES[:3]  # the fourth style mentions no drug, so it has no relation
PUBLIC = "hillside"


class Stopwatch:
    """A watcher that records when each round finished."""

    def __init__(self) -> None:
        self._at: list[float] = []

    def on_start(self, number: int) -> None:
        """Record the start of the first round."""
        self._at.append(time.perf_counter())

    def on_round(self, record: Round) -> None:
        """Record the end of a round; every sampled site must have answered."""
        assert not record.absent, record.absent
        self._at.append(time.perf_counter())

    def on_scores(self, number: int, f1: Mapping[str, float]) -> None:
        """Record nothing."""

    def on_event(self, text: str) -> None:
        """Record nothing."""

    def seconds(self) -> float:
        """Return the median of all rounds but the first, in which every site is also asked for its size."""
        return median(after - before for before, after in zip(self._at[1:], self._at[2:], strict=False))


def measure(request: dict[str, Any]) -> dict[str, Any]:
    """Run the requested study."""
    torch.set_num_threads(1)
    study = make_study(**request["study"])
    with TemporaryDirectory() as scratch:
        folder, watch, started = RunFolder(Path(scratch)), Stopwatch(), time.perf_counter()
        files = run(study, folder, one_network=request["one_network"], watch=watch)
        return {
            "peak_mb": peak_megabytes(),
            "seconds_a_round": watch.seconds(),
            "seconds": time.perf_counter() - started,
            "bytes_up": bytes_up(folder),
            "disk_mb": disk_megabytes(folder.path),
            "open_files": files,
        }


def run(study: Study, folder: RunFolder, *, one_network: bool, watch: Stopwatch) -> int:
    """Run the study like `run_on_one_machine`; return the number of files open at the end."""
    lending = SharedModelPool(study, CPU) if one_network else None

    def open_named(name: str) -> RequestHandler:
        return open_here(study, name, folder.site(name), device=CPU, model_pool=lending)

    federation = InProcessFederation(tuple(study.sites), open_named)
    engine = EngineSettings(checkpoint_every=study.federation.checkpoint_every, sites_save=False)
    StudyRun(study, federation, folder, engine=engine, watcher=watch, device=CPU).run()
    files = len(os.listdir("/proc/self/fd"))
    federation.close()
    return files


def make_study(*, algorithm: str, settings: dict[str, Any], encoder: str, sites: int, drawn: int, rounds: int) -> Study:
    """Return a study of `sites` small hospitals, of which `drawn` work in a round; scored once, at the end."""
    options = {"name": algorithm, "rounds": rounds, "participation": drawn / sites, "local_epochs": 1, **settings}
    lines = ["[study]", 'name = "many"', "[task]", 'kind = "relations"', "negatives = 2.0", "[task.relations]"]
    lines += [f"{name} = {json.dumps(ends)}" for name, ends in PAIRS.items()]
    lines += ["[model]", f'encoder = "{encoder}"', "[algorithm]"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in options.items()]
    lines += ["[training]", "batch_size = 8", "learning_rate = 5e-5"]
    lines += ["[evaluation]", f"every = {rounds}", "[federation]", f"checkpoint_every = {rounds}"]
    lines += ["[public]", f'built_in = "{PUBLIC}"'] if algorithm == "feded" else []
    for number in range(sites):
        place = number // len(WITH_DRUGS) * len(STYLES) + number % len(WITH_DRUGS)
        lines += [f"[sites.site-{number}]", f'built_in = "{STYLES[place % len(STYLES)]}-{place:04d}"']
    return parse_study("\n".join(lines))


def bytes_up(folder: RunFolder) -> float:
    """Return the bytes that one site sent in the last round."""
    *_, last = (event for event in folder.events() if event["event"] == "round")
    return float(last["up"] / last["answered"])


def disk_megabytes(folder: Path) -> float:
    """Return the disk space of the files; a file with two names counts once."""
    found = {info.st_ino: info.st_blocks * 512 for info in (path.stat() for path in folder.rglob("*"))}
    return sum(found.values()) / 1e6


if __name__ == "__main__":
    answer(measure)
