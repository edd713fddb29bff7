"""A study with adapters, with or without differential privacy: seconds of a round, and peak memory.

The median leaves out the first round, in which sites are asked for their sizes and two ways to compute gradients are
compared, and the last, after which the sites are scored.
"""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from json_script import answer, peak_megabytes

import wardround
from wardround.studies.study_notes import built_in_hospital
from wardround.text.segmentation import sentences_of

LARGE = ("harbour", "hillside", "riverside", "lakeside")
SMALL = tuple(f"{name}-{number:04}" for number, name in enumerate(LARGE))  # with a few notes each


def measure(request: dict[str, Any]) -> dict[str, Any]:
    """Run the requested study."""
    ends: list[float] = []
    with TemporaryDirectory() as scratch:
        wardround.run(
            make_study(**request),
            out=Path(scratch) / "run",
            device="cpu",
            progress=False,
            on_round=lambda record: ends.append(time.perf_counter()),
        )
    rounds = [after - before for before, after in pairwise(ends[:-1])]
    return {"seconds_a_round": median(rounds), "peak_mb": peak_megabytes()}


def make_study(*, encoder: str, rounds: int, sentences: int, private: bool, small: bool = False) -> wardround.Study:
    """Return a study in which `sentences` sentences of all sites are behind a step, on average."""
    hospitals = SMALL if small else LARGE
    sites = {name.partition("-")[0]: {"built_in": name, "types": ["Drug"]} for name in hospitals}
    privacy: dict[str, Any] = {"mechanism": "sealed+masked", "minimum_sites": len(sites)}
    training: dict[str, Any] = {"learning_rate": 1e-3}
    if private:
        corpora = [built_in_hospital(name, seed=0) for name in hospitals]
        units = sum(len(list(sentences_of(note))) for corpus in corpora for note in corpus.train)
        rate = min(1.0, sentences / units)
        privacy["differential_privacy"] = {"epsilon": 8.0, "delta": 1e-4, "sampling_rate": rate}
    else:
        training["batch_size"] = sentences
    return wardround.Study(
        "private",
        sites=sites,
        model={"encoder": encoder, "adapter": "lora", "lora_rank": 8, "decoder": "softmax", "shared": ["all"]},
        algorithm={"name": "fedner", "rounds": rounds},
        training=training,
        privacy=privacy,
        evaluation={"every": rounds},
        federation={"checkpoint_every": rounds},
    )


if __name__ == "__main__":
    answer(measure)
