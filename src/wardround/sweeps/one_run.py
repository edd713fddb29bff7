"""One study in a process of its own: `python -m wardround.sweeps.one_run FOLDER DEVICE` runs FOLDER/asked.toml.

Interrupted, it goes on from the last checkpoint. At its end there is a summary beside the scores, and what only a
resumption needs is removed.
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
from wardround.sweeps.figures import scores_in
from wardround.sweeps.folders import ASKED, held, leave, summary_in
from wardround.sweeps.lifeline import end_with_parent

__all__ = ["Finished", "Silent", "main", "run_asked"]


class Silent:
    """Nobody looks on: `events.jsonl` has everything."""

    def on_start(self, number: int) -> None:
        """Say nothing."""

    def on_round(self, record: Any) -> None:
        """Say nothing."""

    def on_scores(self, number: int, f1: Mapping[str, float]) -> None:
        """Say nothing."""

    def on_event(self, text: str) -> None:
        """Say nothing."""


@dataclass(frozen=True)
class Finished:
    """A study that was run, and where."""

    study: Study
    run: RunFolder
    device: torch.device
    seconds: float  # of this process; of a study that was resumed, the last one's

    @property
    def machine(self) -> str:
        """The name of the GPU, or `cpu`."""
        return torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "cpu"


def run_asked(folder: Path, device: str, *, workers: int = 0) -> Finished:
    """Run the study of the folder to its end, or go on with it."""
    started = time.perf_counter()
    torch.set_num_threads(1)
    place = pick_device(device)
    study, run = read_study(folder / ASKED), RunFolder(folder)
    run_on_one_machine(study, run, device=place, watcher=Silent(), workers=workers)
    return Finished(study, run, place, time.perf_counter() - started)


def main() -> None:
    """Run the study and leave its summary behind; an error is one line that quotes no note."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("device", help="auto, cpu, cuda or cuda:N")
    parser.add_argument("--keep-models", action="store_true", help="leave the models of the sites where they are")
    parser.add_argument("--cell", default="", help="what the summary calls the run")
    asked = parser.parse_args()
    end_with_parent()
    try:
        _run(asked.folder, asked.device, models=asked.keep_models, cell=asked.cell)
    except WardroundError as error:
        # A round that failed brings along what the first of the sites, which are all on this machine, said.
        cause = error.__cause__ if isinstance(error, FederationError) else None
        sys.exit(f"{error} – {cause}" if isinstance(cause, WardroundError) else str(error))
    except Exception as error:
        if os.environ.get("WARDROUND_DEBUG"):
            raise
        frame = traceback.extract_tb(error.__traceback__)[-1]
        sys.exit(f"unforeseen {type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}")


def _run(folder: Path, device: str, *, models: bool, cell: str) -> None:
    with held(folder, wait=True):
        if summary_in(folder) is not None and scores_in(folder) is not None:
            return  # somebody who held the folder before has done it
        done = run_asked(folder, device)
        seconds = round(done.seconds, 1)
        found = {"cell": cell, "seconds": seconds, "device": done.machine, "wardround": __version__}
        leave(folder, found, models=models)


if __name__ == "__main__":
    forbid_core_dumps()
    main()
