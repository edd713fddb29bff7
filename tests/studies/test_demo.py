from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from html import escape
from pathlib import Path

import pytest

from wardround.algorithms.local_training import EpochRecord, Listener, Silence
from wardround.corpora.synthetic import CLINICAL_TYPES, ClinicalConfig, SyntheticSite, clinical_hospitals
from wardround.errors import TrainingError
from wardround.evaluation.spans import score_corpus
from wardround.models.saved import load_model
from wardround.studies import demo
from wardround.studies.demo import _NETWORK, DEMO_RECIPE, DemoResult, run_demo
from wardround.tasks import ner
from wardround.text.tag_sets import TagSet

SMALL = ClinicalConfig(scale=1 / 12)  # about thirty sentences to train on
QUICK = replace(DEMO_RECIPE, epochs=3, batch_size=4, learning_rate=0.02)
# Without an LSTM and nearly without dropout, it learns something in three epochs.
NETWORK = replace(_NETWORK, options={**_NETWORK.options, "lstm": "0", "input_dropout": "0.1", "dropout": "0.1"})
NAMES = ("harbour", "hillside", "riverside", "lakeside")


def small_hospitals(seed: int) -> tuple[SyntheticSite, ...]:
    return clinical_hospitals(seed, config=SMALL)


class Watched:
    """Counts the epochs of each training."""

    def __init__(self) -> None:
        self.epochs: list[tuple[str, int]] = []

    @contextmanager
    def __call__(self, name: str) -> Iterator[Listener]:
        listener = _Counting(self, name)
        yield listener


class _Counting(Silence):
    def __init__(self, watched: Watched, name: str) -> None:
        self.watched, self.name = watched, name

    def on_epoch(self, record: EpochRecord) -> None:
        self.watched.epochs.append((self.name, record.epoch))


@pytest.fixture(scope="module")
def small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(demo, "clinical_hospitals", small_hospitals)
        patched.setattr(demo, "_NETWORK", NETWORK)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def first(small: None, folder: Path) -> tuple[DemoResult, Watched]:
    watched = Watched()
    return run_demo(folder, watch=watched, device="cpu", config=QUICK), watched


def numbers(result: DemoResult) -> dict[str, dict[str, object]]:
    return {
        site.name: {method: (score.strict.micro, score.relaxed.micro) for method, score in site.scores.items()}
        for site in result.sites
    }


def test_every_hospital_is_trained_alone_and_all_of_them_pooled(first: tuple[DemoResult, Watched]) -> None:
    assert first[1].epochs == [(name, epoch) for name in (*NAMES, "pooled") for epoch in (1, 2, 3)]


def test_a_row_a_site(first: tuple[DemoResult, Watched]) -> None:
    result, _ = first
    assert tuple(site.name for site in result.sites) == NAMES
    for site, hospital in zip(result.sites, small_hospitals(0), strict=True):
        assert (site.style, site.types) == (hospital.style, hospital.types)
        assert site.sentences >= 25
        assert list(site.scores) == list(site.strict_f1) == ["single site", "pooled"]
        for method, score in site.scores.items():
            assert score.documents == len(hospital.test)
            assert site.strict_f1[method].estimate == score.strict.micro.f1
            assert set(score.strict) <= set(site.types), "a type that this hospital does not annotate was counted"


def test_each_is_scored_where_it_is_used(first: tuple[DemoResult, Watched]) -> None:
    result, _ = first
    assert set(result.models) == {*NAMES, "pooled"}
    pooled = load_model(result.models["pooled"])
    assert pooled.tag_set.types == CLINICAL_TYPES
    for site, hospital in zip(result.sites, small_hospitals(0), strict=True):
        own = load_model(result.models[site.name])
        assert own.tag_set.types == hospital.types
        assert ner.score(own, hospital.test).strict == site.scores["single site"].strict
        everything = ner.predict(pooled, hospital.test)
        found = score_corpus(zip(hospital.test, map(TagSet(hospital.types).restrict, everything), strict=True))
        assert found.strict == site.scores["pooled"].strict != site.scores["single site"].strict


def test_the_pooled_model_saw_everybody_s_notes(first: tuple[DemoResult, Watched]) -> None:
    result, _ = first
    folder = result.report.parent
    started = json.loads((folder / "pooled" / "events.jsonl").read_text().splitlines()[0])
    assert started["sentences"] == sum(site.sentences for site in result.sites)
    pooled = json.loads((folder / "pooled" / "scores.json").read_text())
    assert pooled["documents"] == sum(len(hospital.test) for hospital in small_hospitals(0))


def test_the_report_holds_no_note(first: tuple[DemoResult, Watched], folder: Path) -> None:
    assert first[0].report == folder / "report.html"
    page = (folder / "report.html").read_text()
    styles = " ".join(hospital.style for hospital in small_hospitals(0))  # a letter's discharge is also a finding
    for hospital in small_hospitals(0):
        assert hospital.name.capitalize() in page
        for document in (*hospital.train, *hospital.dev, *hospital.test):
            lines = [line.strip() for line in document.text.splitlines() if len(line.strip()) > 12]
            assert lines
            assert not [line for line in lines if line in page or escape(line) in page]
            mentions = {entity.text_in(document.text) for entity in document.entities}
            distinct = [mention for mention in mentions if len(mention) > 8 and mention not in styles]
            assert not [mention for mention in distinct if mention in page]


def test_the_same_folder_again_trains_nothing(first: tuple[DemoResult, Watched], folder: Path) -> None:
    again = Watched()
    result = run_demo(folder, watch=again, device="cpu", config=QUICK)
    assert again.epochs == []
    assert numbers(result) == numbers(first[0])


def test_the_same_seed_gives_the_same_scores(first: tuple[DemoResult, Watched], tmp_path: Path) -> None:
    result = run_demo(tmp_path, watch=Watched(), device="cpu", config=QUICK)
    assert any(site.strict_f1["pooled"].estimate > 0.1 for site in result.sites), "else the test proves nothing"
    assert numbers(result) == numbers(first[0])
    assert result.report.read_bytes() == first[0].report.read_bytes()


def test_another_seed_in_the_same_folder_is_refused(first: tuple[DemoResult, Watched], folder: Path) -> None:
    with pytest.raises(TrainingError, match="a training with other settings or data; name another folder"):
        run_demo(folder, watch=Watched(), seed=1, device="cpu", config=QUICK)
