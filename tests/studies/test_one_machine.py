from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.models.tiny import notes
from tests.studies.tiny_studies import (
    ONE_TOP,
    Killed,
    Onlooker,
    events_of,
    learnable,
    run,
    scores_of,
    tensors_of,
    tiny,
)

from wardround.algorithms import fedavg, fedner
from wardround.algorithms.coordinator import Coordinator
from wardround.algorithms.site import Site
from wardround.corpora.jsonl import Jsonl
from wardround.errors import FederationError, StudyError
from wardround.federation.in_process import InProcessFederation
from wardround.models.saved import load_model
from wardround.privacy.ledger import read_entries
from wardround.studies import one_machine
from wardround.studies.run_folder import RunFolder
from wardround.studies.study_file import Study
from wardround.studies.worker_spec import WorkerSpec
from wardround.tasks import ner
from wardround.text.document import Document, Entity, Range

MARKER = "Mrs Quillfeather of Lantern Street took xylozipam"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The notes of two sites; a test must leave them as they are."""
    return tmp_path_factory.mktemp("notes")


@pytest.fixture(scope="module")
def study(data: Path) -> Study:
    return learnable(data)


@pytest.fixture(scope="module")
def whole(study: Study, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nobody interrupted; a test must leave it as it is."""
    folder = tmp_path_factory.mktemp("whole")
    run(study, folder)
    return folder


def assert_same(folder: Path, other: Path) -> None:
    assert scores_of(folder) == scores_of(other)
    mine, theirs = tensors_of(folder), tensors_of(other)
    assert mine.keys() == theirs.keys()
    assert [name for name in mine if mine[name] != theirs[name]] == []


def test_the_study_of_these_tests_learns(whole: Path) -> None:
    """Else equal scores would say nothing: the mean goes up and down, and its best is none of the ends."""
    means = [event["mean_f1"] for event in events_of(whole, "scored")]
    assert len(means) == 8
    assert max(means) > 0.5
    assert 1 < scores_of(whole)["best_round"] < 8


def test_what_lies_in_the_folder_afterwards(whole: Path) -> None:
    files = {str(path.relative_to(whole)) for path in whole.rglob("*") if path.is_file()}
    of_a_site = ("ledger.jsonl", "ledger.jsonl.head", "model/model.safetensors", "model/wardround.json")
    states = ("state/laid-aside.safetensors", "state/state-00000006.safetensors", "state/state-00000008.safetensors")
    assert files == {
        *("checkpoint.safetensors", "events.jsonl", "scores.json", "shared.safetensors", "study.toml"),
        *(f"sites/{site}/{name}" for site in ("east", "west") for name in of_a_site + states),
    }


def test_the_models_at_the_sites_are_those_that_were_scored(whole: Path, data: Path) -> None:
    for name, scheme in (("east", "BIO"), ("west", "BIOES")):
        model = load_model(RunFolder(whole).site(name) / "model")
        assert model.scheme.name == scheme
        found = ner.score(model, list(Jsonl().read(data / name / "test.jsonl")), types=model.tag_set).strict.micro
        assert found.figures().items() <= scores_of(whole)["sites"][name]["strict"].items()


def test_the_ledger_of_a_site_has_every_answer(whole: Path) -> None:
    entries = list(read_entries(RunFolder(whole).site("east") / "ledger.jsonl"))
    training = [event["round"] for event in events_of(whole, "round")]
    assert [entry.round for entry in entries if entry.step == "gradient"] == training
    assert {entry.step for entry in entries} == {"restore", "describe", "gradient", "score", "save", "finish"}
    assert {(entry.study, entry.mechanism) for entry in entries} == {("tiny", "plain")}


def test_the_bytes_are_those_on_record_at_the_sites(study: Study, tmp_path: Path) -> None:
    outcome = run(study, tmp_path)
    left = [e for name in study.sites for e in read_entries(RunFolder(tmp_path).site(name) / "ledger.jsonl")]
    assert outcome.traffic.up == sum(entry.bytes for entry in left)
    rounds = sum(event["up"] for event in events_of(tmp_path, "round"))
    assert rounds == sum(entry.bytes for entry in left if entry.step in ("describe", "gradient"))


def test_the_same_seed_gives_the_same_result(study: Study, whole: Path, tmp_path: Path) -> None:
    run(study, tmp_path)
    assert_same(tmp_path, whole)
    losses, others = ([event["loss"] for event in events_of(path, "round")] for path in (tmp_path, whole))
    assert losses == others


def test_another_seed_gives_another(data: Path, whole: Path, tmp_path: Path) -> None:
    run(learnable(data, study={"seed": 8}), tmp_path)
    assert tensors_of(tmp_path) != tensors_of(whole)


@pytest.mark.parametrize("number", [1, 2, 3, 4, 6, 8])
def test_killed_after_a_round_it_goes_on_to_the_same_end(
    study: Study, whole: Path, tmp_path: Path, number: int
) -> None:
    with pytest.raises(Killed):
        run(study, tmp_path, watcher=Onlooker(kill_after=number))
    onlooker = Onlooker()
    run(study, tmp_path, watcher=onlooker)
    # There is a checkpoint after the rounds 3, 6 and 8; the plug is pulled before that of its own round.
    assert onlooker.started == [(number - 1) // 3 * 3]
    assert_same(tmp_path, whole)


def test_killed_again_and_again(study: Study, whole: Path, tmp_path: Path) -> None:
    for watcher in (Onlooker(kill_after=2), Onlooker(kill_at_scores=3), Onlooker(kill_after=7), Onlooker(kill_after=5)):
        try:
            run(study, tmp_path, watcher=watcher)
        except Killed:
            continue
    run(study, tmp_path)
    assert_same(tmp_path, whole)


def pull_the_plug_once(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, when: Callable[..., bool]) -> None:
    """The first call for which `when` is true never returns."""
    plain, left = getattr(owner, name), [True]

    def called(*words: Any, **named: Any) -> Any:
        if left and when(*words):
            left.clear()
            raise Killed
        return plain(*words, **named)

    monkeypatch.setattr(owner, name, called)


@pytest.mark.parametrize("number", [3, 6, 8])
def test_killed_between_the_states_of_the_sites_and_that_of_the_coordinator(
    study: Study, whole: Path, tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pull_the_plug_once(monkeypatch, Coordinator, "save", lambda self, path: self.number == number)
    with pytest.raises(Killed):
        run(study, tmp_path)
    run(study, tmp_path)
    assert_same(tmp_path, whole)


@pytest.mark.parametrize("name", ["east", "west"])
def test_killed_between_the_states_of_two_sites(
    study: Study, whole: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pull_the_plug_once(monkeypatch, Site, "save", lambda self, number: (self.name, number) == (name, 6))
    with pytest.raises(FederationError, match=f"^{name} could not save its state: Killed$"):
        run(study, tmp_path)
    run(study, tmp_path)
    assert_same(tmp_path, whole)


@pytest.mark.parametrize("file", ["scores.json"])
def test_killed_while_it_writes_the_scores(
    study: Study, whole: Path, tmp_path: Path, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pull_the_plug_once(monkeypatch, RunFolder, "write_json", lambda self, name, value: name == file)
    with pytest.raises(Killed):
        run(study, tmp_path)
    run(study, tmp_path)
    assert_same(tmp_path, whole)


@pytest.mark.parametrize("number", [2, 4])
def test_every_other_algorithm_goes_on_alike(data: Path, tmp_path: Path, number: int) -> None:
    for name in ("fedavg", "fedatt", "single", "pooled"):
        study = learnable(
            data,
            algorithm={"name": name, "rounds": 5, "participation": 1.0},
            model={"shared": None if name in ("single", "pooled") else ["words", "word_cnn"]},
            evaluation={"every": 2},
        )
        run(study, tmp_path / name / "whole")
        with pytest.raises(Killed):
            run(study, tmp_path / name / "cut", watcher=Onlooker(kill_after=number))
        run(study, tmp_path / name / "cut")
        assert_same(tmp_path / name / "cut", tmp_path / name / "whole")


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("fedner", {"local_steps": 1}),
        ("fedner", {"local_steps": 3}),
        ("fedner", {"participation": 0.5}),
        ("fedavg", {"local_steps": 2}),
        ("fedavg", {"participation": 0.5, "server_rate": 0.5}),
        ("fedprox", {"proximal": 0.1}),
        ("fedatt", {"local_steps": 2}),
        ("single", {}),
        ("pooled", {}),
    ],
)
def test_every_algorithm_runs_between_hospitals_that_differ(
    name: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    shared = None if name in ("single", "pooled") else ["words", "word_cnn"]
    study = tiny(algorithm={"name": name, "rounds": 3} | settings, model={"shared": shared})
    outcome = run(study, tmp_path)
    rounds = events_of(tmp_path, "round")
    assert [event["round"] for event in rounds] == [1, 2, 3]
    assert all(math.isfinite(event["loss"]) and event["loss"] > 0 for event in rounds)
    assert [event["absent"] for event in rounds] == [[]] * 3
    assert {event["answered"] for event in rounds} == {1 if "participation" in settings else 2}
    assert {name: set(site.strict) for name, site in outcome.sites.items()} == {
        "harbour": {"Drug", "Disease", "Dosage"},
        "hillside": {"Drug", "ADE", "Finding"},
    }
    assert (tmp_path / "shared.safetensors").exists() == (name != "single")


def test_pooled_shares_the_top_where_all_tag_alike(tmp_path: Path) -> None:
    study = tiny(algorithm={"name": "pooled", "rounds": 2}, model={"shared": None}, sites=ONE_TOP)
    outcome = run(study, tmp_path)
    model = load_model(RunFolder(tmp_path).model)
    assert set(outcome.shared) == {name for name, _ in model.named_parameters()}


def test_a_whole_model_predicts(data: Path, tmp_path: Path) -> None:
    tops = {"east": {"types": ["Drug"], "scheme": "BIOES"}}
    study = learnable(data, algorithm={"name": "fedavg", "local_steps": 4}, model={"shared": ["all"]}, sites=tops)
    outcome = run(study, tmp_path)
    model = load_model(RunFolder(tmp_path).model)
    assert (model.tag_set.types, model.scheme.name) == (("Drug",), "BIOES")
    documents = list(Jsonl().read(data / "west" / "test.jsonl"))
    found = ner.score(model, documents, types=model.tag_set).strict
    assert found == outcome.sites["west"].strict
    assert found.micro.f1 > 0.5


def test_a_site_that_fails_in_a_round_is_absent(study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def step(site: Site, message: Any) -> Any:
        if site.name == "west" and message.value("round", int) == 2:
            raise OSError("the disk is full")
        return fedner.gradient(site, message)

    monkeypatch.setitem(fedner.STEPS, "gradient", step)
    run(study, tmp_path)
    absent = {event["round"]: event["absent"] for event in events_of(tmp_path, "round")}
    assert absent == {number: [["west", "failed", "OSError"]] if number == 2 else [] for number in range(1, 9)}


@pytest.mark.parametrize(
    ("site", "said"),
    [
        (
            {"built_in": None},
            r"^\[sites.harbour\] says not where its notes are: it needs data and format, or built_in$",
        ),
        (
            {"built_in": None, "data": "/nowhere/secret/ward", "format": "brat"},
            r"^\[sites.harbour\] data: ward does not exist$",
        ),
    ],
)
def test_notes_that_are_nowhere_are_missed_before_anybody_is_asked(
    site: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(StudyError, match=said):
        run(tiny(sites={"harbour": site}), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_sites_are_closed_also_after_a_failure(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[bool] = []
    plain = InProcessFederation.close

    def close(self: InProcessFederation) -> None:
        closed.append(True)
        plain(self)

    monkeypatch.setattr(InProcessFederation, "close", close)
    with pytest.raises(Killed):
        run(study, tmp_path, watcher=Onlooker(kill_after=1))
    assert closed == [True]
    assert (RunFolder(tmp_path).site("east") / "state" / "laid-aside.safetensors").is_file()


def test_there_are_no_more_workers_than_sites(study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[str, ...]] = []

    monkeypatch.setattr(one_machine, "WorkerProcess", lambda command: started.append(command))
    spec = WorkerSpec("", str(tmp_path))
    pool = one_machine._pool(study, RunFolder(tmp_path), spec, 9)
    assert len(started) == 2
    assert pool.sites == ("east", "west")


def planted(folder: Path) -> Study:
    """A study in which one site's training notes say something that must stay there."""
    study = learnable(folder, algorithm={"rounds": 4})
    start = MARKER.index("xylozipam")
    note = Document("m", MARKER + ".", (Entity("T1", "Drug", (Range(start, start + 9),)),))
    Jsonl().write([note, *notes(3)], folder / "east" / "train.jsonl")
    return study


def searched(folder: Path, site: str) -> Iterator[tuple[Path, bytes]]:
    """Every file of a run but those of one site."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_relative_to(folder / "sites" / site):
            yield path, path.read_bytes()


def assert_stays(folder: Path, said: str) -> None:
    words = [word for word in MARKER.split() if len(word) > 4]
    for path, content in searched(folder, "east"):
        assert [word for word in words if word.encode() in content] == [], path.name
    assert [word for word in words if word in said] == []


def quote(model: Any, sentences: Any) -> Any:
    raise ValueError(" ".join(word for sentence in sentences for word in sentence.words))


def test_a_sentence_stays_at_its_site(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    run(planted(tmp_path / "data"), tmp_path / "run")
    captured = capfd.readouterr()
    assert_stays(tmp_path / "run", captured.out + captured.err + caplog.text)


@pytest.mark.slow
def test_workers_give_the_same_result_also_after_they_were_interrupted(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    study = planted(tmp_path / "data")
    run(study, tmp_path / "alone")
    with pytest.raises(Killed):
        run(study, tmp_path / "two", watcher=Onlooker(kill_after=4), workers=2)
    run(study, tmp_path / "two", workers=2)
    assert_same(tmp_path / "two", tmp_path / "alone")
    captured = capfd.readouterr()
    assert_stays(tmp_path / "two", captured.out + captured.err)


def test_a_sentence_stays_where_it_is_also_when_training_fails_on_it(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (fedner, fedavg):
        monkeypatch.setattr(module, "batch_loss", quote)
    with pytest.raises(FederationError) as stopped:
        run(planted(tmp_path / "data"), tmp_path / "run")
    captured = capfd.readouterr()
    assert "east failed ValueError" in str(stopped.value)
    assert "site=east step=gradient failed: ValueError at test_one_machine.py:" in caplog.text
    assert_stays(tmp_path / "run", captured.out + captured.err + caplog.text + str(stopped.value))
    (failed,) = events_of(tmp_path / "run", "round_failed")
    assert "ValueError" in json.dumps(failed)
