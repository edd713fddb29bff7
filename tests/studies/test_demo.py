from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from html import escape
from pathlib import Path

import pytest

from wardround.corpora.synthetic import ClinicalConfig, SyntheticSite, clinical_hospitals
from wardround.errors import StudyError
from wardround.federation.coordinator import Round
from wardround.models.saved import load_model
from wardround.studies import demo, study_notes
from wardround.studies.demo import METHODS, QUICK_NOTE, DemoResult, demo_studies, run_demo
from wardround.studies.study_file import Study
from wardround.tasks import ner

SMALL = ClinicalConfig(scale=1 / 12)  # about thirty sentences to train on
NAMES = ("harbour", "hillside", "riverside", "lakeside")


def small_hospitals(seed: int) -> tuple[SyntheticSite, ...]:
    return clinical_hospitals(seed, config=SMALL)


class Watching:
    """Counts the rounds of each study."""

    def __init__(self) -> None:
        self.rounds: list[tuple[str, int]] = []

    @contextmanager
    def __call__(self, study: Study) -> Iterator[_Listener]:
        yield _Listener(self.rounds, study.study.name)


class _Listener:
    def __init__(self, rounds: list[tuple[str, int]], name: str) -> None:
        self._rounds, self._name = rounds, name

    def on_start(self, number: int) -> None: ...

    def on_round(self, record: Round) -> None:
        self._rounds.append((self._name, record.number))

    def on_scores(self, number: int, f1: Mapping[str, float]) -> None: ...

    def on_event(self, text: str) -> None: ...


@pytest.fixture(scope="module")
def small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(demo, "clinical_hospitals", small_hospitals)
        patched.setattr(study_notes, "clinical_hospitals", small_hospitals)
        study_notes._clinical.cache_clear()
        yield
    study_notes._clinical.cache_clear()


def quick(seed: int = 0) -> dict[str, Study]:
    """Three rounds, and without an LSTM: it learns something."""
    made = {}
    for method, study in demo_studies(seed).items():
        options = {**study.model.options, "lstm": 0, "input_dropout": 0.1, "dropout": 0.1}
        made[method] = replace(
            study,
            model=replace(study.model, options=options),
            algorithm=replace(study.algorithm, config=replace(study.algorithm.config, rounds=3)),
            training=replace(study.training, batch_size=4 if method == "single site" else 16, learning_rate=0.02),
        )
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def first(small: None, folder: Path) -> tuple[DemoResult, Watching]:
    watching = Watching()
    return run_demo(folder, quick(), watch=watching, device="cpu"), watching


def numbers(result: DemoResult) -> dict[str, dict[str, object]]:
    return {
        site.name: {method: (score.strict.micro, score.relaxed.micro) for method, score in site.scores.items()}
        for site in result.sites
    }


def test_the_three_studies_are_run(first: tuple[DemoResult, Watching]) -> None:
    assert first[1].rounds == [(method, number) for method in METHODS for number in (1, 2, 3)]


def test_every_site_has_a_row(first: tuple[DemoResult, Watching]) -> None:
    result, _ = first
    assert tuple(site.name for site in result.sites) == NAMES
    for site, hospital in zip(result.sites, small_hospitals(0), strict=True):
        assert (site.style, site.types) == (hospital.style, hospital.types)
        assert site.sentences >= 25
        assert list(site.scores) == list(site.strict_f1) == ["single site", "FedNER", "pooled"]
        for method, score in site.scores.items():
            assert site.strict_f1[method].estimate == score.strict.micro.f1
            assert set(score.strict) <= set(site.types), "a type that this hospital does not annotate was counted"


def test_each_hospital_has_its_federated_model(first: tuple[DemoResult, Watching]) -> None:
    result, _ = first
    assert set(result.models) == set(NAMES)
    for site, hospital in zip(result.sites, small_hospitals(0), strict=True):
        model = load_model(result.models[site.name])
        assert model.tag_set.types == hospital.types
        assert ner.score(model, hospital.test).strict == site.scores["FedNER"].strict


def test_pooled_shares_all_below_the_output_and_single_nothing(small: None) -> None:
    studies = quick()
    shared = {method: demo_shared(study) for method, study in studies.items()}
    assert shared["single site"] == set()
    assert shared["FedNER"] == {"words", "characters", "word_cnn"}
    assert shared["pooled"] == {"words", "characters", "word_cnn"}  # the LSTM is left out of the quick network
    assert demo_shared(demo_studies()["pooled"]) == {"words", "characters", "word_cnn", "lstm"}


def test_the_quick_demo_is_smaller_and_says_so(small: None, tmp_path: Path) -> None:
    full, small_studies = demo_studies(), demo_studies(quick=True)
    assert list(small_studies) == list(full)
    for method, study in small_studies.items():
        assert study.algorithm.config.rounds <= 20 < full[method].algorithm.config.rounds
        assert study.training == full[method].training
    result = run_demo(tmp_path, small_studies, watch=Watching(), device="cpu", note=QUICK_NOTE)
    assert QUICK_NOTE in result.report.read_text(encoding="utf-8")
    assert set(result.models) == set(NAMES)


def demo_shared(study: Study) -> set[str]:
    from wardround.studies.assemble import coordinator_of

    return {name.partition(".")[0] for name in coordinator_of(study).shared}


def test_the_report_holds_no_note(first: tuple[DemoResult, Watching], folder: Path) -> None:
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


def test_the_same_folder_again_trains_nothing(first: tuple[DemoResult, Watching], folder: Path) -> None:
    again = Watching()
    result = run_demo(folder, quick(), watch=again, device="cpu")
    assert again.rounds == []
    assert numbers(result) == numbers(first[0])


def test_the_same_seed_gives_the_same_scores(first: tuple[DemoResult, Watching], tmp_path: Path) -> None:
    result = run_demo(tmp_path, quick(), watch=Watching(), device="cpu")
    assert any(site.strict_f1["single site"].estimate > 0.1 for site in result.sites), "else the test proves nothing"
    assert numbers(result) == numbers(first[0])
    assert result.report.read_bytes() == first[0].report.read_bytes()


def test_another_seed_in_the_same_folder_is_refused(first: tuple[DemoResult, Watching], folder: Path) -> None:
    with pytest.raises(StudyError, match="holds another study; name a new one"):
        run_demo(folder, quick(1), watch=Watching(), device="cpu")
