"""Run one study in its own process: `python one_run.py FOLDER DEVICE` runs FOLDER/asked.toml and writes its summary.

An interrupted run continues from its last checkpoint. Files that only a continuation needs are removed at the end.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wardround.models.saved import load_model
from wardround.studies.assemble import common_model
from wardround.studies.study_notes import load_notes
from wardround.sweeps.folders import finish_folder
from wardround.sweeps.one_run import run_requested_study
from wardround.sweeps.pool import end_with_parent
from wardround.tasks.task_table import task_of

__all__ = ["last_round_bytes", "main", "network_sizes", "round_figures", "summary", "training_counts"]


def summary(run: Any, *, seconds: float, device: str) -> dict[str, Any]:
    """Return what is kept of a run; of each entity type, only the counts."""
    scores = json.loads((run.path / "scores.json").read_text(encoding="utf-8"))
    events = list(run.events())
    return {
        "dev_f1": max(event["mean_f1"] for event in events if event["event"] == "scored"),
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
        kind: {mode: [figures[mode][count] for count in ("tp", "fp", "fn")] for mode in figures}
        for kind, figures in site["types"].items()
    }
    return {**{name: own for name, own in site.items() if name not in ("documents", "types")}, "types": types}


def training_counts(study: Any, run: Any, device: Any) -> dict[str, list[int]]:
    """Return strict tp, fp, fn of each site's final model on its own training notes."""
    found = {}
    for name, section in study.sites.items():
        model = load_model(run.site(name) / "model").to(device)
        counts = task_of(model).score(load_notes(name, section, seed=study.study.seed).train).main.micro
        found[name] = [counts.tp, counts.fp, counts.fn]
    return found


def network_sizes(study: Any) -> dict[str, Any]:
    """Return the number of parameters, of trainable ones, and the shape of the gradient that sites compare."""
    model = common_model(study)
    sizes = [(parameter.numel(), parameter.requires_grad) for parameter in model.parameters()]
    return {
        "parameters": sum(size for size, _ in sizes),
        "trainable": sum(size for size, trains in sizes if trains),
        "probe": list(model.probes.leaf_shape),
    }


def last_round_bytes(run: Any) -> dict[str, float]:
    """Return the bytes from one site and to it in the last round."""
    event = [event for event in run.events() if event["event"] == "round"][-1]
    answered = max(1, int(event["answered"]))
    return {way: event[way] / answered for way in ("up", "down")}


def round_figures(run: Any) -> dict[str, list[float]]:
    """Return the figures that the algorithm reports, round by round."""
    rounds = [event.get("figures", {}) for event in run.events() if event["event"] == "round"]
    return {name: [figures[name] for figures in rounds if name in figures] for name in (rounds or [{}])[-1]}


def main() -> None:
    """Run the study and write its summary; the run ends if the measurement that started it is killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("device", help="auto, cpu or cuda")
    parser.add_argument("--workers", type=int, default=0, help="processes that share the sites; 0: this one")
    parser.add_argument("--score-training", action="store_true", help="score the training notes too")
    parser.add_argument("--describe-network", action="store_true", help="add its sizes, and bytes and figures by round")
    options = parser.parse_args()
    end_with_parent()
    done = run_requested_study(options.folder, options.device, workers=options.workers)
    found = summary(done.run, seconds=done.seconds, device=done.machine)
    if options.score_training:
        for name, counts in training_counts(done.study, done.run, done.device).items():
            found["sites"][name]["training"] = counts
    if options.describe_network:
        found["network"] = network_sizes(done.study)
        found |= {"a_round": last_round_bytes(done.run), "figures": round_figures(done.run)}
    finish_folder(options.folder, found)


if __name__ == "__main__":
    main()
