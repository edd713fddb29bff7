"""One study in a process of its own: `python one_run.py FOLDER DEVICE` runs FOLDER/asked.toml and writes its summary.

Interrupted, it goes on from the last checkpoint. What only a resumption needs is removed at the end.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ASKED, SUMMARY = "asked.toml", "summary.json"
_LEFT_OVER = ("sites", "model", "shared.safetensors", "checkpoint.safetensors")


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


def main(folder: Path, device_name: str) -> None:
    """Run the study and leave its summary behind."""
    started = time.perf_counter()
    import torch

    from wardround.studies.one_machine import run_on_one_machine
    from wardround.studies.run_folder import RunFolder
    from wardround.studies.single_site import pick_device
    from wardround.studies.study_file import read_study

    torch.set_num_threads(1)
    device = pick_device(device_name)
    run = RunFolder(folder)
    run_on_one_machine(read_study(folder / ASKED), run, device=device, watcher=Silent())
    machine = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    run.write_json(SUMMARY, summary(run, seconds=time.perf_counter() - started, device=machine))
    for name in _LEFT_OVER:
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).unlink(missing_ok=True)


def summary(run: Any, *, seconds: float, device: str) -> dict[str, Any]:
    """What is kept of a run; of types, only how many mentions were right, wrong and missed."""
    scores = json.loads((run.path / "scores.json").read_text(encoding="utf-8"))
    dev = [event["mean_f1"] for event in run.events() if event["event"] == "scored"]
    return {
        "dev_f1": max(dev),
        "rounds": scores["rounds"],
        "best_round": scores["best_round"],
        "seconds": round(seconds, 1),
        "bytes_down": scores["traffic"]["down"],
        "bytes_up": scores["traffic"]["up"],
        "device": device,
        "sites": {name: _site(site) for name, site in scores["sites"].items()},
    }


def _site(site: Mapping[str, Any]) -> dict[str, Any]:
    types = {
        kind: {reading: [figures[reading][count] for count in ("tp", "fp", "fn")] for reading in figures}
        for kind, figures in site["types"].items()
    }
    return {"strict": site["strict"], "relaxed": site["relaxed"], "types": types}


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
