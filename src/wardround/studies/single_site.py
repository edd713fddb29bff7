"""Training at one site: train, stop early, score, save; resume an interrupted training."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any

import torch

from wardround.corpora.check import WHOLE
from wardround.corpora.corpus_format import CorpusFormat
from wardround.corpora.skipped_faults import SkippedFaults, sink_of
from wardround.corpora.splits import MANIFEST, Manifest, find_splits, split_documents, verify
from wardround.corpora.type_names import in_tag_set
from wardround.errors import SplitError, TrainingError, UsageError
from wardround.evaluation.calibration import judge
from wardround.evaluation.counts import TypedCounts
from wardround.evaluation.significance import Interval
from wardround.models.saved import save_model
from wardround.studies.note_counts import write_note_counts
from wardround.studies.run_folder import RunFolder, versions
from wardround.studies.run_guard import check_space, run_lock
from wardround.tasks.task import Task, TaskScore
from wardround.text.document import Document
from wardround.training.loop import EpochRecord, Listener, TrainingLoop, load_checkpoint, save_checkpoint
from wardround.training.training_config import TrainingConfig

__all__ = [
    "Outcome",
    "Site",
    "SiteData",
    "calibration_notes",
    "digest_of_documents",
    "figures_by_type",
    "figures_of",
    "load_part",
    "load_site",
    "pick_device",
    "site_of",
    "train_at_one_site",
]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SiteData:
    """A site's notes in three parts; without a development part, a tenth of the training notes is used as one."""

    train: tuple[Document, ...] = field(repr=False)
    dev: tuple[Document, ...] = field(default=(), repr=False)
    test: tuple[Document, ...] = field(default=(), repr=False)

    def in_tag_set(self, name: str) -> SiteData:
        """Return the notes with types renamed to those of a PHI tag set; without a name, unchanged."""
        return SiteData(*(in_tag_set(part, name) for part in (self.train, self.dev, self.test)))

    def with_dev(self, seed: int) -> SiteData:
        """Return the notes with a development part."""
        if self.dev:
            return self
        try:
            parts = split_documents(self.train, {"train": 0.9, "dev": 0.1}, seed=seed)
        except SplitError as error:
            raise TrainingError(
                f"{len(self.train)} notes are too few to take a development set from; name one"
            ) from error
        return replace(self, train=tuple(parts["train"]), dev=tuple(parts["dev"]))

    def with_fraction(self, fraction: float, seed: int) -> SiteData:
        """Return the notes with a share of the training part; shares of one seed are nested."""
        if fraction == 1:
            return self
        try:
            parts = split_documents(self.train, {"train": fraction, "rest": 1 - fraction}, seed=seed)
        except SplitError as error:
            raise UsageError(f"{len(self.train)} training notes are too few to take {fraction} of them") from error
        return replace(self, train=tuple(parts["train"]))


@dataclass(frozen=True)
class Outcome:
    """The result of a training."""

    records: tuple[EpochRecord, ...]
    score: TaskScore  # on the test part, or the development part if there is none
    scored_on: str
    f1: Mapping[str, Interval]  # micro, by matching mode, the main one first

    def as_json(self) -> dict[str, Any]:
        """Return plain values for `scores.json`."""
        epochs = [asdict(record) for record in self.records]
        return {"scored_on": self.scored_on, **figures_of(self.score, self.f1), "epochs": epochs}


@dataclass(frozen=True)
class Site:
    """A site's notes, and warnings about them."""

    data: SiteData
    warnings: tuple[str, ...] = ()


def load_site(path: Path, form: CorpusFormat, *, faults: SkippedFaults | None = None) -> Site:
    """Read a corpus, split or not; a `split.json` beside the parts must match them.

    With `faults`, faulty parts are collected there and left out instead of raising an error.
    """
    places = find_splits(path)
    if places and "train" not in places:
        raise TrainingError(f"{path.name} has parts called {', '.join(places)} but no training part")
    parts = {
        name: tuple(form.read(place, problems=sink_of(faults))) for name, place in (places or {WHOLE: path}).items()
    }
    for name, part in parts.items():
        _log.info("read %d notes of the part %s", len(part), name)
    if places and (path / MANIFEST).is_file():
        verify(Manifest.read(path / MANIFEST), parts)
    site = site_of(parts)
    return site if faults is None else replace(site, warnings=(*site.warnings, *faults.sentences()))


def site_of(parts: Mapping[str, Sequence[Document]]) -> Site:
    """Return a site with notes in parts; notes that are not split are the one part `all`."""
    if WHOLE in parts:
        return Site(SiteData(tuple(parts[WHOLE])), ("the corpus is not split: it is scored on a development part",))
    if "train" not in parts:
        raise TrainingError(f"the corpus has parts called {', '.join(parts)} but no training part")
    warnings = list(_shared_texts(parts))
    if not parts.get("test"):
        warnings.append("the corpus has no test part: it is scored on a development part")
    return Site(SiteData(**{name: tuple(part) for name, part in parts.items()}), tuple(warnings))


def load_part(path: Path, form: CorpusFormat, part: str, *, faults: SkippedFaults | None = None) -> list[Document]:
    """Read one part of a split corpus, or all of an unsplit one; `faults` is as for `load_site`."""
    places = find_splits(path)
    if places and part not in places:
        raise TrainingError(f"{path.name} has parts called {', '.join(places)} but none called {part}")
    documents = list(form.read(places.get(part, path), problems=sink_of(faults)))
    _log.info("read %d notes of the part %s", len(documents), part if places else "all")
    return documents


def _shared_texts(parts: Mapping[str, Sequence[Document]]) -> Iterator[str]:
    texts = {name: {document.text for document in documents} for name, documents in parts.items()}
    for left, right in combinations(texts, 2):
        if shared := len(texts[left] & texts[right]):
            yield f"{left} and {right} share {shared} texts; `wardround data split` makes parts that do not"


def pick_device(name: str = "auto") -> torch.device:
    """Return the device of this name; `auto` is a GPU if there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if not re.fullmatch(r"cpu|cuda(:[0-9]+)?", name):
        raise UsageError(f"{name!r} is not a device; use auto, cpu, cuda or cuda:N")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise TrainingError("there is no GPU; use --device cpu")
    _log.info("the device is %s", name)
    return torch.device(name)


def train_at_one_site(
    task: Task,
    data: SiteData,
    config: TrainingConfig,
    *,
    folder: RunFolder,
    listener: Listener | None = None,
    notes: Mapping[str, Any] | None = None,
) -> Outcome:
    """Train the task's model in place, or resume from the folder's checkpoint; score and save it.

    `notes` describe what else the model started from. They are added to its card, and a checkpoint with other notes is
    rejected.
    """
    data = data.with_dev(config.seed)
    examples = task.encode(data.train)
    # At least: the finished model and, in the checkpoint, the present and the best weights and two moments.
    check_space(folder.path, 4 * sum(tensor.nbytes for tensor in task.model.state_dict().values()))
    with run_lock(folder.path):
        return _trained(task, data, config, examples=examples, folder=folder, listener=listener, notes=notes or {})


def _trained(
    task: Task,
    data: SiteData,
    config: TrainingConfig,
    *,
    examples: Sequence[Any],
    folder: RunFolder,
    listener: Listener | None,
    notes: Mapping[str, Any],
) -> Outcome:
    training = TrainingLoop(task, config, train=examples, dev=data.dev)
    settings = _fingerprint(training, data, notes)
    if folder.checkpoint.is_file():
        training.restore(load_checkpoint(folder.checkpoint, settings=settings))
    else:
        made_with = {"training": asdict(config), "versions": versions()}
        folder.log("started", {"examples": len(examples), **task.alignment_losses, **made_with})
    try:
        for record in training.run(listener):
            save_checkpoint(folder.checkpoint, training.state(), settings=settings)
            folder.log("epoch", asdict(record))
    except KeyboardInterrupt:
        # Every finished epoch is in the checkpoint already, and SIGTERM needs no more than that.
        _log.warning("stopped in epoch %d; the same command resumes at it", len(training.records) + 1)
        raise
    scored_on, documents = ("test", data.test) if data.test else ("dev", data.dev)
    score = task.score(documents)
    intervals = {mode: score.interval(mode) for mode in task.matching_modes}
    outcome = Outcome(tuple(training.records), score, scored_on, intervals)
    folder.write_json("scores.json", outcome.as_json())
    write_note_counts(folder, outcome.score)
    f1 = {f"{mode}_f1": interval.estimate for mode, interval in outcome.f1.items()}
    card = {**f1, "scored_on": outcome.scored_on, **calibration_notes(task, data.dev), **notes}
    save_model(task.model, folder.model, notes=card)
    folder.log("finished", f1)
    return outcome


def calibration_notes(task: Task, dev: Sequence[Document]) -> dict[str, Any]:
    """Fit the calibration of a model's probabilities on development notes; return it as notes for the model's card."""
    types = {entity.type for document in dev for entity in document.entities}
    judged = judge(zip(task.predict(dev, scored=True), dev, strict=True), types)
    fitted = {kind: values for kind, scores in judged.items() if (values := scores.fit())}
    return {"calibration": fitted} if fitted else {}


def figures_of(score: TaskScore, f1: Mapping[str, Interval]) -> dict[str, Any]:
    """Return a score as plain values; `f1` has the micro-F1 by matching mode and is empty if there are no documents."""
    counts = score.counts
    by_mode: dict[str, Any] = {name: typed.micro.figures() for name, typed in counts.items()}
    for name, interval in f1.items():
        by_mode[name]["interval"] = [interval.low, interval.high]
    return {
        "documents": score.documents,
        **by_mode,
        "types": figures_by_type(counts, {name: score.type_intervals(name) for name in f1}),
        **({} if score.leakage is None else {"leakage": score.leakage.figures()}),
    }


def figures_by_type(
    counts: Mapping[str, TypedCounts], intervals: Mapping[str, Mapping[str, Interval]]
) -> dict[str, dict[str, Any]]:
    """Return figures by type and matching mode; `intervals` are by matching mode and type, if known."""
    figures: dict[str, dict[str, Any]] = {kind: {} for typed in counts.values() for kind in typed}
    for mode, typed in counts.items():
        for kind, found in typed.items():
            figures[kind][mode] = found.figures()
            if interval := intervals.get(mode, {}).get(kind):
                figures[kind][mode]["interval"] = [interval.low, interval.high]
    return figures


def _fingerprint(training: TrainingLoop, data: SiteData, notes: Mapping[str, Any]) -> str:
    """Return a digest of everything that the result depends on, so that no other training resumes a checkpoint."""
    model = training.model
    shapes = {name: list(tensor.shape) for name, tensor in model.state_dict().items()}
    settings = [asdict(training.config), model.settings(), shapes, list(model.outputs), *([notes] if notes else [])]
    digest = sha256(json.dumps(settings, sort_keys=True).encode())
    digest.update(repr(training.train).encode())  # the examples drawn from the documents, with their labels
    for part in (data.train, data.dev):
        digest.update(digest_of_documents(part))
    return digest.hexdigest()


def digest_of_documents(documents: Iterable[Document]) -> bytes:
    """Return a digest of everything in the documents that a model could learn from."""
    digest = sha256()
    for document in documents:
        digest.update(document.text.encode("utf-8", "surrogatepass"))
        entities = [(entity.id, entity.type, entity.ranges, entity.concepts) for entity in document.entities]
        relations = [(relation.type, relation.head, relation.tail, relation.level) for relation in document.relations]
        digest.update(repr((entities, relations, document.words, document.sentences)).encode())
    return digest.digest()
