"""Studies small enough to run in a test, and what is compared after one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w
import torch
from tests.models.tiny import notes

from wardround.algorithms.algorithm import SharedLayers
from wardround.corpora.jsonl import Jsonl
from wardround.federation.coordinator import Round
from wardround.studies.catalogue import ALGORITHMS
from wardround.studies.one_machine import run_on_one_machine
from wardround.studies.run_folder import RunFolder
from wardround.studies.study_file import Study, parse_study
from wardround.studies.study_run import StudyOutcome
from wardround.training.state_files import load_tensors

CPU = torch.device("cpu")
NETWORK: dict[str, Any] = {
    "word_buckets": 64,
    "word_dimension": 8,
    "character_layer": "none",
    "word_cnn": 8,
    "lstm": 8,
    "input_dropout": 0.1,
    "dropout": 0.1,
}
HARBOUR = {"built_in": "harbour-0000", "types": ["Drug", "Disease", "Dosage"]}
HILLSIDE = {"built_in": "hillside-0001", "types": ["Drug", "ADE", "Finding"], "scheme": "BIOES"}
TABLE: dict[str, dict[str, Any]] = {
    "study": {"name": "tiny", "seed": 7},
    "model": {**NETWORK, "shared": ["words", "word_cnn"]},
    "algorithm": {"name": "fedner", "rounds": 6},
    "training": {"batch_size": 8, "learning_rate": 0.01},
    "evaluation": {"every": 3},
    "federation": {"checkpoint_every": 2},
    "sites": {"harbour": HARBOUR, "hillside": HILLSIDE},
}
# A top that both sites have, for studies that share it.
ONE_TOP = {"harbour": {"types": ["Drug"]}, "hillside": {"types": ["Drug"], "scheme": ""}}
# Notes that everybody may read.
PUBLIC = {"built_in": "riverside-0002"}


def text_of(**sections: Mapping[str, Any] | None) -> str:
    """The study file of the tiny study with settings of sections added or replaced; None takes a setting away."""
    table: dict[str, Any] = {name: dict(section) for name, section in TABLE.items()}
    for name, section in sections.items():
        table[name] = _merged(table.get(name, {}), section or {})
    return tomli_w.dumps(table)


def tiny(**sections: Mapping[str, Any] | None) -> Study:
    """The study of that file."""
    return parse_study(text_of(**sections))


def of_algorithm(name: str, **sections: Mapping[str, Any] | None) -> Study:
    """The same by another algorithm, with what that one needs and without what it refuses."""
    kind = ALGORITHMS[name]
    needed: dict[str, Any] = {"algorithm": {"name": name}}
    if kind.shared_layers is not SharedLayers.CONFIGURED:
        needed["model"] = {"shared": None}
    if kind.shared_layers is SharedLayers.ALL:
        needed |= {"sites": ONE_TOP, "model": {"shared": None, "decoder": "softmax"}}
    if kind.needs_public_set:
        needed["public"] = PUBLIC
    return tiny(**_over(needed, {part: table or {} for part, table in sections.items()}))


def learnable(folder: Path, **sections: Mapping[str, Any] | None) -> Study:
    """A study that learns something in eight rounds: notes on disk that name three drugs, at two sites."""
    sites = {}
    for number, (name, types, scheme) in enumerate((("east", ["Drug", "ADE"], "BIO"), ("west", ["Drug"], "BIOES"))):
        for part, size in (("train", 12), ("dev", 4), ("test", 5)):
            Jsonl().write(notes(size, seed=number * 10 + size), folder / name / f"{part}.jsonl")
        sites[name] = {"data": str(folder / name), "format": "jsonl", "types": types, "scheme": scheme}
    learning: dict[str, Any] = {
        "model": {"lstm": 0, "word_cnn": 16},
        "algorithm": {"rounds": 8},
        "training": {"batch_size": 64, "learning_rate": 0.1, "schedule": "constant"},
        "evaluation": {"every": 1},
        "federation": {"checkpoint_every": 3},
    }
    table = _merged(TABLE | {"sites": sites}, learning)
    return parse_study(tomli_w.dumps(_merged(table, {name: part or {} for name, part in sections.items()})))


def _over(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    """Both, and a None of either, which is to take a setting away."""
    merged = dict(left)
    for key, value in right.items():
        old = merged.get(key)
        merged[key] = _over(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def _merged(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(left)
    for key, value in right.items():
        old = merged.get(key)
        merged[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return {key: value for key, value in merged.items() if value is not None}


class Killed(Exception):
    """Somebody pulled the plug."""


class Onlooker:
    """Remembers what it was shown; pulls the plug after a round, or after the scores of one."""

    def __init__(self, *, kill_after: int = 0, kill_at_scores: int = 0) -> None:
        self._after, self._at_scores = kill_after, kill_at_scores
        self.started: list[int] = []
        self.rounds: list[Round] = []
        self.scores: list[tuple[int, dict[str, float]]] = []
        self.said: list[str] = []

    def on_start(self, number: int) -> None:
        self.started.append(number)

    def on_round(self, record: Round) -> None:
        self.rounds.append(record)
        if record.number == self._after:
            raise Killed

    def on_scores(self, number: int, f1: Mapping[str, float]) -> None:
        self.scores.append((number, dict(f1)))
        if number == self._at_scores:
            raise Killed

    def on_event(self, text: str) -> None:
        self.said.append(text)


def run(study: Study, path: Path, *, watcher: Onlooker | None = None, workers: int = 0) -> StudyOutcome:
    """The study on this machine, in this folder."""
    return run_on_one_machine(
        study, RunFolder(path), device=CPU, watcher=watcher or Onlooker(), workers=workers, ledgers=True
    )


def tensors_of(path: Path) -> dict[str, bytes]:
    """Every tensor that is the result of a run, bit for bit: of the shared half, of the sites, of the models."""
    files = [path / "shared.safetensors", *path.rglob("state/*.safetensors"), *path.rglob("model/*.safetensors")]
    return {
        f"{file.relative_to(path)}:{name}": tensor.numpy().tobytes()
        for file in files
        if file.is_file()
        for name, tensor in load_tensors(file).items()
    }


def scores_of(path: Path) -> dict[str, Any]:
    """What `scores.json` says, without the traffic, to which going on adds a little."""
    found: dict[str, Any] = json.loads((path / "scores.json").read_text())
    del found["traffic"]
    return found


def events_of(path: Path, kind: str) -> list[dict[str, Any]]:
    """The events of one kind."""
    return [event for event in RunFolder(path).events() if event["event"] == kind]
