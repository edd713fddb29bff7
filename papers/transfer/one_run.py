"""Run one training in its own process: `python one_run.py FOLDER DEVICE` runs FOLDER/asked.toml and writes its summary.

It does what `wardround train` does, or `wardround transfer` with a source, except that an epoch repeats its sentences
if there are very few.
"""

from __future__ import annotations

import argparse
import time
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from papers.transfer.studies import RECALL_FIRST

from wardround.corpora.jsonl import Jsonl
from wardround.evaluation.entity_scores import score_corpus
from wardround.evaluation.leakage import LeakageScore, score_leakage
from wardround.evaluation.significance import Measure, intervals
from wardround.models.families import ModelChoice
from wardround.models.family_table import build_model
from wardround.models.tagging_model import TaggingModel, tag_scoring
from wardround.models.transfer import load_source
from wardround.redaction.finders import model_finder
from wardround.redaction.findings import Finding
from wardround.studies.assemble import chosen_types, default_training
from wardround.studies.run_folder import RunFolder
from wardround.studies.single_site import SiteData, load_site, pick_device, train_at_one_site
from wardround.studies.transfer_run import TransferSettings, begin, part_of
from wardround.sweeps.folders import REQUESTED_STUDY, SUMMARY
from wardround.sweeps.pool import end_with_parent
from wardround.tasks.ner import NerTask
from wardround.text.document import Document, Entity
from wardround.text.tag_sets import TagSet
from wardround.training.loop import EpochRecord, TrainingLoop
from wardround.training.training_config import TrainingConfig

__all__ = ["TrainingRequest", "main", "network", "run", "scores", "trained"]


@dataclass(frozen=True, kw_only=True)
class TrainingRequest:
    """The content of `asked.toml`."""

    seed: int
    data: Path
    fraction: float
    model: ModelChoice
    transfer: TransferSettings
    source: Path | None  # a model folder; None: nothing is transferred
    training: TrainingConfig
    least: int  # sentences of an epoch
    keep_model: bool  # and write checkpoints: such a training is long

    @classmethod
    def read(cls, file: Path) -> TrainingRequest:
        """Read the file that `papers.measure` wrote."""
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
        seed, (site, model, transfer) = (
            tables["study"]["seed"],
            (tables[name] for name in ("site", "model", "transfer")),
        )
        options = {name: str(value) for name, value in tables["training"].items() if name != "least"}
        return cls(
            seed=seed,
            data=Path(site["data"]),
            fraction=site["fraction"],
            model=ModelChoice(model["preset"], vectors=Path(model["vectors"]) if model["vectors"] else None),
            transfer=TransferSettings(transfer["up_to"]),
            source=Path(transfer["source"]) if transfer["source"] else None,
            training=default_training(ModelChoice("transfer"), options, seed=seed),
            least=tables["training"]["least"],
            keep_model=tables["keep_model"],
        )


def network(request: TrainingRequest, types: TagSet) -> tuple[TaggingModel, list[dict[str, Any]]]:
    """Return the network before its first epoch, and what became of each layer of the source."""
    target = tag_scoring(build_model(request.model, types, seed=request.seed))
    if request.source is None:
        return target, []
    beginning = begin(load_source(request.source), target, request.transfer)
    return beginning.model, [asdict(layer) for layer in beginning.report.layers]


def trained(task: NerTask, notes: SiteData, request: TrainingRequest, folder: Path) -> Sequence[EpochRecord]:
    """Train and return the records of all epochs; if the model is kept, an interrupted training continues."""
    if request.keep_model:
        return train_at_one_site(task, notes, request.training, folder=RunFolder(folder)).records
    examples = list(task.encode(notes.train))
    repeats = -(-request.least // len(examples))
    training = TrainingLoop(task, request.training, train=examples * repeats, dev=notes.dev)
    for _ in training.run():
        pass
    return training.records


def scores(task: NerTask, notes: Sequence[Document]) -> dict[str, Any]:
    """Return the counts of mentions, also by type, and what would stay readable.

    Every mention of the notes counts, even if no training note had its type.
    """
    pairs = list(zip(notes, task.predict(notes), strict=True))
    found, leakage = score_corpus(pairs), score_leakage(pairs)
    micro = {name: getattr(found, name).micro for name in ("strict", "relaxed")}
    interval = intervals(found.strict_by_document, [Measure()])[0]
    return {
        "f1": micro["strict"].f1,
        "interval": [interval.low, interval.high],
        **{name: [counts.tp, counts.fp, counts.fn] for name, counts in micro.items()},
        "types": {kind: [counts.tp, counts.fp, counts.fn] for kind, counts in found.strict.items()},
        "leakage": leakage_figures(leakage),
    }


def with_threshold(task: NerTask, notes: Sequence[Document]) -> LeakageScore:
    """Score what stays readable if words that the model is unsure of are hidden too, as `wardround redact` can."""
    finder = model_finder(task, threshold=RECALL_FIRST)
    return score_leakage(
        (note, _with_findings(note, found)) for note, (_, found) in zip(notes, finder(notes), strict=True)
    )


def _with_findings(note: Document, findings: Sequence[Finding]) -> Document:
    return note.with_entities(Entity(f"T{n}", found.type, (found.range,)) for n, found in enumerate(findings, start=1))


def leakage_figures(leakage: LeakageScore) -> dict[str, Any]:
    """Return the counts of words and characters, whatever their type, and the notes that leak."""
    words, characters = leakage.hiding.words, leakage.hiding.characters
    return {
        "words": [words.tp, words.fp, words.fn],
        "characters": [characters.tp, characters.fp, characters.fn],
        "notes": leakage.hiding.notes,
        "leaking_notes": leakage.hiding.leaking_notes,
        "mentions": asdict(leakage.mentions),
    }


def run(request: TrainingRequest, folder: Path, device: str) -> dict[str, Any]:
    """Train, score, and return the summary."""
    started, place = time.perf_counter(), pick_device(device)
    data = load_site(request.data, Jsonl()).data
    notes = part_of(data, request.fraction, seed=request.seed)
    model, layers = network(request, chosen_types(data.train, None))
    task = NerTask(model.to(place))
    records = trained(task, notes, request, folder)
    found = scores(task, notes.test)
    if request.keep_model:
        found["recall_first"] = leakage_figures(with_threshold(task, notes.test))
    best = max(records, key=lambda record: record.dev_f1)
    return {
        "dev_f1": best.dev_f1,
        "rounds": len(records),
        "best_round": best.epoch,
        "stopped": len(records) < request.training.epochs,
        "notes": len(notes.train),
        "mentions": sum(len(note.entities) for note in notes.train),
        "layers": layers,
        "seconds": round(time.perf_counter() - started, 1),
        "device": torch.cuda.get_device_name(place) if place.type == "cuda" else "cpu",
        **found,
    }


def main() -> None:
    """Run the training of the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("device", help="auto, cpu or cuda")
    options = parser.parse_args()
    end_with_parent()
    torch.set_num_threads(1)
    found = run(TrainingRequest.read(options.folder / REQUESTED_STUDY), options.folder, options.device)
    RunFolder(options.folder).write_json(SUMMARY, found)


if __name__ == "__main__":
    main()
