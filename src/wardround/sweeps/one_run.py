"""Run one study in a process of its own: `python -m wardround.sweeps.one_run FOLDER DEVICE` runs FOLDER/asked.toml.

An interrupted run resumes from its last checkpoint. A finished run leaves a summary beside its scores; files that only
a resumption needs are removed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from wardround import __version__
from wardround.errors import FederationError, WardroundError
from wardround.process_hardening import forbid_core_dumps
from wardround.studies.one_machine import run_on_one_machine
from wardround.studies.run_folder import RunFolder
from wardround.studies.single_site import pick_device
from wardround.studies.study_file import Study, read_study
from wardround.sweeps.figures import read_scores
from wardround.sweeps.folders import REQUESTED_STUDY, finish_folder, lock_folder, read_summary
from wardround.sweeps.pool import end_with_parent

__all__ = ["FinishedRun", "SilentWatcher", "main", "run_requested_study"]


class SilentWatcher:
    """Ignores every event of a run; `events.jsonl` records them all."""

    def on_start(self, number: int) -> None:
        """Do nothing."""

    def on_round(self, record: Any) -> None:
        """Do nothing."""

    def on_scores(self, number: int, f1: Mapping[str, float]) -> None:
        """Do nothing."""

    def on_event(self, text: str) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class FinishedRun:
    """A study that has run, its folder and its device."""

    study: Study
    run: RunFolder
    device: torch.device
    seconds: float  # of this process: after a resumption, only the last one's

    @property
    def machine(self) -> str:
        """Return the name of the GPU, or `cpu`."""
        return torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "cpu"


def run_requested_study(folder: Path, device: str, *, workers: int = 0) -> FinishedRun:
    """Run or resume the study of the folder to its end."""
    started = time.perf_counter()
    torch.set_num_threads(1)
    place = pick_device(device)
    study, run = read_study(folder / REQUESTED_STUDY, generated=True), RunFolder(folder)
    run_on_one_machine(study, run, device=place, watcher=SilentWatcher(), workers=workers)
    return FinishedRun(study, run, place, time.perf_counter() - started)


def main() -> None:
    """Run the study and write its summary; report an error in one line that quotes no note."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("device", help="auto, cpu, cuda or cuda:N")
    parser.add_argument("--keep-models", action="store_true", help="keep the models of the sites")
    parser.add_argument("--cell", default="", help="the name of the run in its summary")
    options = parser.parse_args()
    end_with_parent()
    try:
        with lock_folder(options.folder, wait=True):
            if read_summary(options.folder) is not None and read_scores(options.folder) is not None:
                return  # another process, which had locked the folder before, finished it
            done = run_requested_study(options.folder, options.device)
            seconds = round(done.seconds, 1)
            summary = {"cell": options.cell, "seconds": seconds, "device": done.machine, "wardround": __version__}
            finish_folder(options.folder, summary, keep_models=options.keep_models)
    except WardroundError as error:
        # All sites are on this machine, so the error of the first one may be shown beside that of the round.
        cause = error.__cause__ if isinstance(error, FederationError) else None
        sys.exit(f"{error} – {cause}" if isinstance(cause, WardroundError) else str(error))
    except Exception as error:
        if os.environ.get("WARDROUND_DEBUG"):
            raise
        frame = traceback.extract_tb(error.__traceback__)[-1]
        sys.exit(f"unexpected {type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}")


if __name__ == "__main__":
    forbid_core_dumps()
    main()
