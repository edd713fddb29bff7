"""One study in a process of its own: `python one_run.py FOLDER DEVICE` runs FOLDER/asked.toml and writes its summary.

Interrupted, it goes on from the last checkpoint. What only a resumption needs is removed at the end.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wardround.models.saved import load_model
from wardround.studies.site_setup import load_notes
from wardround.sweeps import folders, one_run
from wardround.sweeps.folders import REQUESTED_STUDY, SUMMARY
from wardround.sweeps.pool import end_with_parent
from wardround.tasks.of_models import task_of

__all__ = ["REQUESTED_STUDY", "SUMMARY", "Finished", "leave", "run_asked"]


@dataclass(frozen=True)
class Finished:
    """A study that was run, and what is kept of it."""

    study: Any
    run: Any
    device: Any
    summary: dict[str, Any]


def run_asked(folder: Path, device: str, *, workers: int = 0) -> Finished:
    """Run the study of the folder to its end, or go on with it; a measurement that is killed takes it along."""
    end_with_parent()
    done = one_run.run_requested_study(folder, device, workers=workers)
    found = summary(done.run, seconds=done.seconds, device=done.machine)
    return Finished(done.study, done.run, done.device, found)


def leave(folder: Path, run: Any, found: Mapping[str, Any]) -> None:
    """Write the summary, and remove what nobody needs any more."""
    assert folder == run.path, "a run is summarised where it lies"
    folders.finish_folder(folder, found)


def main(asked: argparse.Namespace) -> None:
    """Run the study and leave its summary behind."""
    done = run_asked(asked.folder, asked.device, workers=asked.workers)
    if asked.score_training:
        for name, counts in training_counts(done.study, done.run, done.device).items():
            done.summary["sites"][name]["training"] = counts
    leave(asked.folder, done.run, done.summary)


def summary(run: Any, *, seconds: float, device: str) -> dict[str, Any]:
    """What is kept of a run; of types, only how many mentions were right, wrong and missed."""
    scores = json.loads((run.path / "scores.json").read_text(encoding="utf-8"))
    events = list(run.events())
    dev = [event["mean_f1"] for event in events if event["event"] == "scored"]
    return {
        "dev_f1": max(dev),
        "rounds": scores["rounds"],
        "best_round": scores["best_round"],
        "seconds": round(seconds, 1),
        "bytes_down": scores["traffic"]["down"],
        "bytes_up": scores["traffic"]["up"],
        "clipped": sum(event.get("clipped", 0) for event in events),
        "device": device,
        "sites": {name: _site(site) for name, site in scores["sites"].items()},
    }


def _site(site: Mapping[str, Any]) -> dict[str, Any]:
    types = {
        kind: {reading: [figures[reading][count] for count in ("tp", "fp", "fn")] for reading in figures}
        for kind, figures in site["types"].items()
    }
    readings = {name: figures for name, figures in site.items() if name not in ("documents", "types")}
    return {**readings, "types": types}


def training_counts(study: Any, run: Any, device: Any) -> dict[str, list[int]]:
    """How each site's finished model does on the notes it was trained on: strict tp, fp, fn."""
    found = {}
    for name, section in study.sites.items():
        model = load_model(run.site(name) / "model").to(device)
        counts = task_of(model).score(load_notes(name, section, seed=study.study.seed).train).main.micro
        found[name] = [counts.tp, counts.fp, counts.fn]
    return found


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("device", help="auto, cpu or cuda")
    parser.add_argument("--workers", type=int, default=0, help="processes that share the sites; 0 is this one")
    parser.add_argument("--score-training", action="store_true", help="score the training notes too")
    return parser.parse_args()


if __name__ == "__main__":
    main(arguments())
