from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.models.tiny import notes, quick_tagger, same_weights

from wardround.corpora.jsonl import Jsonl
from wardround.corpora.splits import Manifest
from wardround.errors import SplitError, TrainingError
from wardround.evaluation.counts import SpanCounts
from wardround.models.saved import load_model, model_card
from wardround.studies.run_folder import RunFolder
from wardround.studies.single_site import SiteData, load_part, load_site, pick_device, train_at_one_site
from wardround.tasks import ner
from wardround.tasks.ner import NerTask
from wardround.text.document import Document
from wardround.training.loop import EpochRecord, SilentListener
from wardround.training.training_config import TrainingConfig

NOTES = notes(38)
DATA = SiteData(NOTES[:30], NOTES[30:34], NOTES[34:])
QUICK = TrainingConfig(epochs=4, batch_size=4, learning_rate=0.02, patience=9)


class Killed(Exception):
    """Somebody pulled the plug."""


class Kill(SilentListener):
    """Pulls the plug at a step of an epoch, or, without a step, at its end."""

    def __init__(self, epoch: int, step: int | None = None) -> None:
        self.epoch, self.step = epoch, step

    def on_step(self, epoch: int, *, step: int, steps: int, loss: float) -> None:
        if (epoch, step) == (self.epoch, self.step):
            raise Killed

    def on_epoch(self, record: EpochRecord) -> None:
        if record.epoch == self.epoch and self.step is None:
            raise Killed


def timeless(records: Sequence[EpochRecord]) -> list[EpochRecord]:
    return [replace(record, seconds=0.0) for record in records]


def scores(folder: RunFolder) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder.path / "scores.json").read_text())
    for epoch in found["epochs"]:
        del epoch["seconds"]
    return found


def test_a_run_from_end_to_end(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    model = quick_tagger()
    outcome = train_at_one_site(NerTask(model), DATA, QUICK, folder=folder)
    assert len(outcome.records) == 4
    assert outcome.records[0].dev_f1 < outcome.records[-1].dev_f1
    assert outcome.scored_on == "test"
    assert outcome.score.documents == 4
    assert outcome.f1["strict"].estimate == outcome.score.main.micro.f1 > 0.5
    assert outcome.f1["strict"].low <= outcome.f1["strict"].estimate <= outcome.f1["strict"].high

    assert {path.name for path in folder.path.iterdir()} == {
        "checkpoint.safetensors",
        "events.jsonl",
        "model",
        "note-counts.json",
        "scores.json",
    }
    saved = load_model(folder.model)
    assert same_weights(saved, model)
    assert ner.score(saved, DATA.test).strict == outcome.score.main
    assert model_card(folder.model)["notes"] == {
        "strict_f1": outcome.f1["strict"].estimate,
        "relaxed_f1": outcome.f1["relaxed"].estimate,
        "scored_on": "test",
    }


def test_the_events_of_a_training(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    train_at_one_site(NerTask(quick_tagger()), DATA, replace(QUICK, epochs=2), folder=folder)
    events = list(folder.events())
    assert [event["event"] for event in events] == ["started", "epoch", "epoch", "finished"]
    # Three sentences a note, a drug and an effect each.
    assert (events[0]["examples"], events[0]["exact"], events[0]["overlapped"]) == (90, 60, 0)
    assert [event["epoch"] for event in events[1:3]] == [1, 2]
    assert 0 <= events[3]["strict_f1"] <= 1
    written = (tmp_path / "events.jsonl").read_text() + (tmp_path / "scores.json").read_text()
    assert "aspirin" not in written
    assert "patient" not in written


def test_scores_as_they_are_written(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    outcome = train_at_one_site(NerTask(quick_tagger()), DATA, QUICK, folder=folder)
    written = json.loads((tmp_path / "scores.json").read_text())
    assert written == outcome.as_json()
    assert written.keys() == {"scored_on", "documents", "strict", "relaxed", "types", "epochs"}
    assert (written["scored_on"], written["documents"]) == ("test", 4)
    micro = SpanCounts(*(written["strict"][name] for name in ("tp", "fp", "fn")))
    assert micro == outcome.score.main.micro
    assert micro.gold == 8  # a drug and an effect in each of four notes
    assert written["strict"]["f1"] == pytest.approx(micro.f1)
    assert written["strict"]["interval"] == [outcome.f1["strict"].low, outcome.f1["strict"].high]
    assert set(written["types"]) >= {"ADE", "Drug"}
    assert written["types"]["Drug"]["relaxed"]["recall"] == outcome.score.counts["relaxed"]["Drug"].recall
    assert [epoch["epoch"] for epoch in written["epochs"]] == [1, 2, 3, 4]


@pytest.mark.parametrize(("epoch", "step"), [(1, 2), (1, None), (3, None), (3, 1), (4, 5)])
def test_a_resumed_training_equals_an_uninterrupted_one(tmp_path: Path, epoch: int, step: int | None) -> None:
    whole, broken = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "broken")
    expected = quick_tagger()
    outcome = train_at_one_site(NerTask(expected), DATA, QUICK, folder=whole)

    with pytest.raises(Killed):
        train_at_one_site(NerTask(quick_tagger()), DATA, QUICK, folder=broken, listener=Kill(epoch, step))
    assert not (broken.path / "scores.json").exists()
    # A process that starts anew draws other weights; before the first checkpoint they are the beginning.
    fresh = quick_tagger(seed=0 if epoch == 1 else 99)
    resumed = train_at_one_site(NerTask(fresh), DATA, QUICK, folder=broken)
    assert same_weights(fresh, expected)
    assert timeless(resumed.records) == timeless(outcome.records)
    assert scores(broken) == scores(whole)
    assert same_weights(load_model(broken.model), load_model(whole.model))
    finished = [event["epoch"] for event in broken.events() if event["event"] == "epoch"]
    assert finished == [1, 2, 3, 4]


def test_a_finished_run_is_only_scored_again(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    outcome = train_at_one_site(NerTask(quick_tagger()), DATA, QUICK, folder=folder)
    again = train_at_one_site(NerTask(quick_tagger(seed=9)), DATA, QUICK, folder=folder, listener=Kill(1, 1))
    assert again.records == outcome.records
    assert again.score.main == outcome.score.main


@pytest.mark.parametrize(
    "change",
    [
        {"config": replace(QUICK, learning_rate=0.03)},
        {"config": replace(QUICK, seed=1)},
        {"data": replace(DATA, train=DATA.train[:-1])},
        {"data": replace(DATA, dev=DATA.dev[:-1])},
        {"data": replace(DATA, train=(DATA.train[0].with_entities(()), *DATA.train[1:]))},
        {"data": replace(DATA, train=(replace(DATA.train[0], sentences=()), *DATA.train[1:]))},
        {"model": {"dropout": 0.2}},
        {"model": {"word_cnn": 6}},
        {"model": {"scheme": "BIOES"}},
    ],
    ids=["rate", "seed", "train", "dev", "annotation", "sentences", "dropout", "size", "scheme"],
)
def test_a_checkpoint_of_another_training_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    folder = RunFolder(tmp_path)
    with pytest.raises(Killed):
        train_at_one_site(NerTask(quick_tagger()), DATA, QUICK, folder=folder, listener=Kill(2))
    model = quick_tagger(**change.get("model", {}))
    with pytest.raises(TrainingError, match="a training with other settings or data"):
        train_at_one_site(NerTask(model), change.get("data", DATA), change.get("config", QUICK), folder=folder)


def test_the_test_part_may_change(tmp_path: Path) -> None:
    """It decides nothing, so a run goes on and is scored on what there is."""
    folder = RunFolder(tmp_path)
    with pytest.raises(Killed):
        train_at_one_site(NerTask(quick_tagger()), DATA, QUICK, folder=folder, listener=Kill(2))
    outcome = train_at_one_site(NerTask(quick_tagger()), replace(DATA, test=()), QUICK, folder=folder)
    assert (outcome.scored_on, outcome.score.documents) == ("dev", 4)


def test_without_a_development_part_a_tenth_is_taken() -> None:
    data = SiteData(NOTES[:20], test=NOTES[:1]).with_dev(seed=3)
    assert (len(data.train), len(data.dev), len(data.test)) == (18, 2, 1)
    assert sorted(d.id for d in data.train + data.dev) == sorted(d.id for d in NOTES[:20])
    assert SiteData(NOTES[:20]).with_dev(seed=3).dev == data.dev
    assert DATA.with_dev(seed=3) is DATA


def test_too_few_notes_for_a_development_part() -> None:
    with pytest.raises(TrainingError, match="2 notes are too few to take a development set from; name one"):
        SiteData(NOTES[:2]).with_dev(seed=0)
    with pytest.raises(TrainingError, match="0 notes are too few"):
        SiteData(()).with_dev(seed=0)


def test_no_repr_holds_text() -> None:
    assert repr(DATA) == "SiteData()"


def test_devices() -> None:
    assert pick_device("cpu") == torch.device("cpu")
    assert pick_device().type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_missing_gpu_is_refused() -> None:
    with pytest.raises(TrainingError, match="there is no GPU; use --device cpu"):
        pick_device("cuda:0")


def write(folder: Path, **parts: Sequence[Document]) -> Path:
    for name, documents in parts.items():
        Jsonl().write(documents, folder / f"{name}.jsonl")
    return folder


def test_a_split_corpus_is_found(tmp_path: Path) -> None:
    site = load_site(write(tmp_path, train=DATA.train, devel=DATA.dev, test=DATA.test), Jsonl())
    assert [len(part) for part in (site.data.train, site.data.dev, site.data.test)] == [30, 4, 4]
    assert site.data.train[0].text == DATA.train[0].text
    assert site.warnings == ()


def test_an_unsplit_corpus_is_all_for_training(tmp_path: Path) -> None:
    site = load_site(write(tmp_path, notes=NOTES), Jsonl())
    assert (len(site.data.train), site.data.dev, site.data.test) == (38, (), ())
    assert site.warnings == ("the corpus is not split: it is scored on a development part",)


def test_parts_that_share_texts_are_named(tmp_path: Path) -> None:
    site = load_site(write(tmp_path, train=NOTES[:12], test=NOTES[10:20]), Jsonl())
    (warning,) = site.warnings
    assert warning.startswith("train and test share 2 texts")


def test_parts_without_a_training_part(tmp_path: Path) -> None:
    write(tmp_path / "site", dev=DATA.dev, test=DATA.test)
    with pytest.raises(TrainingError, match=r"^site has parts called dev, test but no training part$"):
        load_site(tmp_path / "site", Jsonl())


def test_an_outdated_manifest_is_refused(tmp_path: Path) -> None:
    write(tmp_path, train=DATA.train, test=DATA.test)
    Manifest.of({"train": DATA.train, "test": DATA.test}).write(tmp_path / "split.json")
    load_site(tmp_path, Jsonl())
    write(tmp_path, train=DATA.train[1:], test=DATA.test)
    with pytest.raises(SplitError, match="train has changed since it was split"):
        load_site(tmp_path, Jsonl())


def test_one_part_alone(tmp_path: Path) -> None:
    write(tmp_path / "site", train=DATA.train, test=DATA.test)
    assert len(load_part(tmp_path / "site", Jsonl(), "test")) == 4
    with pytest.raises(TrainingError, match=r"^site has parts called train, test but none called dev$"):
        load_part(tmp_path / "site", Jsonl(), "dev")
    write(tmp_path / "whole", notes=NOTES)
    assert len(load_part(tmp_path / "whole", Jsonl(), "test")) == 38
