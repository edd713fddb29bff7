"""One study in a process of its own: `python one_run.py FOLDER DEVICE` runs FOLDER/asked.toml and writes its summary.

Beside the counts there are the sizes of the network, what a site sent and was sent in the last round, and what the
algorithm told of each round.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from papers.common.one_run import Finished, leave, run_asked

from wardround.models.tagging_model import TaggingModel
from wardround.studies.assemble import common_model


def network(study: Any) -> dict[str, Any]:
    """How many numbers the network has, how many of them train, and the shape of the gradient that sites compare by."""
    model = common_model(study)
    assert isinstance(model, TaggingModel), "the study is one of entities"
    sizes = [(parameter.numel(), parameter.requires_grad) for parameter in model.parameters()]
    return {
        "parameters": sum(size for size, _ in sizes),
        "trainable": sum(size for size, trains in sizes if trains),
        "probe": list(model.probe_shape),
    }


def last_round(run: Any) -> dict[str, float]:
    """Bytes from a site and to it."""
    event = [event for event in run.events() if event["event"] == "round"][-1]
    answered = max(1, int(event["answered"]))
    return {way: event[way] / answered for way in ("up", "down")}


def told(run: Any) -> dict[str, list[float]]:
    """By figure, its rounds."""
    rounds = [event.get("figures", {}) for event in run.events() if event["event"] == "round"]
    return {name: [figures[name] for figures in rounds if name in figures] for name in (rounds or [{}])[-1]}


def more(done: Finished) -> dict[str, Any]:
    """What is kept beside the common summary."""
    return {"network": network(done.study), "a_round": last_round(done.run), "figures": told(done.run)}


def main() -> None:
    """Run the study and leave its summary behind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("device", help="auto, cpu or cuda")
    asked = parser.parse_args()
    done = run_asked(asked.folder, asked.device)
    leave(asked.folder, done.run, {**done.summary, **more(done)})


if __name__ == "__main__":
    main()
