from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.models.tiny import notes
from tests.studies.protected_studies import MASKED, MECHANISMS, SEALED, SITES, shielded
from tests.studies.tiny_studies import (
    HARBOUR,
    HILLSIDE,
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

from wardround.algorithms import fedner
from wardround.algorithms.algorithm import SiteStep
from wardround.corpora.jsonl import Jsonl
from wardround.errors import FederationError, StudyError, UsageError
from wardround.federation.coordinator import Coordinator
from wardround.federation.engines.in_process import InProcessFederation
from wardround.federation.ledger import read_entries
from wardround.federation.site_runtime import Site
from wardround.models.saved import load_model
from wardround.secure_aggregation.keys.material import find_secrets
from wardround.studies import one_machine
from wardround.studies.run_folder import RunFolder
from wardround.studies.study_file import Study
from wardround.studies.worker_spec import WorkerSpec
from wardround.tasks import ner
from wardround.text.document import Document, Entity, Range
from wardround.text.tag_sets import TagSet
from wardround.training.state_files import load_tensors, tensors_under

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


def test_the_files_of_a_run_folder(whole: Path) -> None:
    files = {str(path.relative_to(whole)) for path in whole.rglob("*") if path.is_file()}
    told = ("ledger.jsonl", "ledger.jsonl.head", "note-counts.json", "notes.json", "state/history.jsonl")
    of_a_site = (*told, "model/model.safetensors", "model/wardround.json")
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


def test_the_bytes_equal_those_in_the_ledgers(study: Study, tmp_path: Path) -> None:
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
def test_a_study_killed_after_a_round_resumes_to_the_same_result(
    study: Study, whole: Path, tmp_path: Path, number: int
) -> None:
    with pytest.raises(Killed):
        run(study, tmp_path, watcher=Onlooker(kill_after=number))
    onlooker = Onlooker()
    run(study, tmp_path, watcher=onlooker)
    # There is a checkpoint after the rounds 3, 6 and 8; the plug is pulled before that of its own round.
    assert onlooker.started == [(number - 1) // 3 * 3]
    assert_same(tmp_path, whole)


def test_a_study_killed_several_times_resumes_to_the_same_result(study: Study, whole: Path, tmp_path: Path) -> None:
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
def test_every_other_algorithm_resumes_to_the_same_result(data: Path, tmp_path: Path, number: int) -> None:
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
def test_every_algorithm_runs_among_hospitals_that_differ(name: str, settings: dict[str, Any], tmp_path: Path) -> None:
    shared = None if name in ("single", "pooled") else ["words", "word_cnn"]
    study = tiny(algorithm={"name": name, "rounds": 3} | settings, model={"shared": shared})
    outcome = run(study, tmp_path)
    rounds = events_of(tmp_path, "round")
    assert [event["round"] for event in rounds] == [1, 2, 3]
    assert all(math.isfinite(event["loss"]) and event["loss"] > 0 for event in rounds)
    assert [event["absent"] for event in rounds] == [[]] * 3
    assert {event["answered"] for event in rounds} == {1 if "participation" in settings else 2}
    assert {name: set(site.main) for name, site in outcome.sites.items()} == {
        "harbour": {"Drug", "Disease", "Dosage"},
        "hillside": {"Drug", "ADE", "Finding"},
    }
    assert (tmp_path / "shared.safetensors").exists() == (name != "single")


def test_pooled_shares_the_output_layers_if_all_sites_have_the_same_tags(tmp_path: Path) -> None:
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
    assert found == outcome.sites["west"].main
    assert found.micro.f1 > 0.5


def test_a_site_that_fails_in_a_round_is_absent(study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def step(site: Site, message: Any) -> Any:
        if site.name == "west" and message.value("round", int) == 2:
            raise OSError("the disk is full")
        return fedner.gradient(site, message)

    monkeypatch.setitem(fedner.ALGORITHM.steps, "gradient", SiteStep(step, ""))
    run(study, tmp_path)
    absent = {event["round"]: event["absent"] for event in events_of(tmp_path, "round")}
    assert absent == {number: [["west", "failed", "OSError"]] if number == 2 else [] for number in range(1, 9)}


@pytest.mark.parametrize(
    ("site", "said"),
    [
        (
            {"built_in": None},
            r"^\[sites.harbour\] does not say where its notes are: it needs data and format, or built_in$",
        ),
        (
            {"built_in": None, "data": "/nowhere/secret/ward", "format": "brat"},
            r"^\[sites.harbour\] data: ward does not exist$",
        ),
    ],
)
def test_missing_notes_are_refused_before_any_site_is_asked(site: dict[str, Any], said: str, tmp_path: Path) -> None:
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

    monkeypatch.setattr(one_machine, "WorkerProcess", lambda command, *, descriptors: started.append(command))
    spec = WorkerSpec("", str(tmp_path))
    workers = partial(one_machine._start_workers, study, RunFolder(tmp_path), spec, 9)
    sites = one_machine.LocalSites(tuple(study.sites), lambda name: pytest.fail("opened here"), workers)
    pool = one_machine.ENGINES["workers"](sites)
    assert len(started) == 2
    assert pool.sites == ("east", "west")


def test_an_unknown_engine_is_refused(study: Study, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'rockets' is not an engine; there are in-process, workers"):
        one_machine.run_on_one_machine(
            study, RunFolder(tmp_path), device=torch.device("cpu"), watcher=Onlooker(), engine="rockets"
        )


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
    monkeypatch.setattr(ner, "batch_loss", quote)
    with pytest.raises(FederationError) as stopped:
        run(planted(tmp_path / "data"), tmp_path / "run")
    captured = capfd.readouterr()
    assert "east failed ValueError" in str(stopped.value)
    assert "site=east step=gradient failed: ValueError at test_one_machine.py:" in caplog.text
    assert_stays(tmp_path / "run", captured.out + captured.err + caplog.text + str(stopped.value))
    (failed,) = events_of(tmp_path / "run", "round_failed")
    assert "ValueError" in json.dumps(failed)


# Updates that are protected

EVERY = pytest.mark.parametrize("kind", list(MECHANISMS))
SHORT: dict[str, dict[str, Any]] = {"algorithm": {"rounds": 4}, "federation": {"checkpoint_every": 2}}
ALGORITHMS: dict[str, dict[str, Any]] = {
    "fedner": {"name": "fedner", "rounds": 4},
    "fedner-3": {"name": "fedner", "rounds": 4, "local_steps": 3},
    "fedavg": {"name": "fedavg", "rounds": 4, "local_steps": 2},
    "fedprox": {"name": "fedprox", "rounds": 4, "local_steps": 2},
}


@pytest.fixture(scope="module")
def bare(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same studies without protection."""
    folder = tmp_path_factory.mktemp("bare")
    for name, algorithm in ALGORITHMS.items():
        run(shielded(data, "plain", algorithm=algorithm, federation=SHORT["federation"]), folder / name)
    return {name: folder / name for name in ALGORITHMS}


@pytest.fixture(scope="module")
def guarded(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs of `fedner` under each mechanism that nobody interrupted; a test must leave them as they are."""
    folder = tmp_path_factory.mktemp("guarded")
    for kind in MECHANISMS:
        run(shielded(data, kind, **SHORT), folder / kind)
    return {kind: folder / kind for kind in MECHANISMS}


def losses(folder: Path) -> list[float]:
    return [event["loss"] for event in events_of(folder, "round")]


def shared_halves(folder: Path) -> list[dict[str, bytes]]:
    """The sites' copies of the shared half, as they lie on their disks."""
    found = []
    for path in sorted((folder / "sites").glob("*/state/laid-aside.safetensors")):
        shared = tensors_under("replica/server/shared", load_tensors(path))
        found.append({name: tensor.numpy().tobytes() for name, tensor in shared.items()})
    return found


def assert_alike(folder: Path, plain: Path) -> None:
    """As a study without protection, but for what rounding does."""
    assert losses(folder) == pytest.approx(losses(plain), rel=1e-4)
    mine, theirs = scores_of(folder), scores_of(plain)
    assert mine["best_round"] == theirs["best_round"]
    strict, others = ({n: s["strict"]["f1"] for n, s in one["sites"].items()} for one in (mine, theirs))
    assert strict == others
    assert [event["absent"] for event in events_of(folder, "round")] == [[]] * 4


@pytest.mark.parametrize("kind", ["masked", "sealed", "sealed+masked", "ckks"])
def test_a_protected_study_scores_as_a_plain_one(kind: str, bare: dict[str, Path], guarded: dict[str, Path]) -> None:
    assert_alike(guarded[kind], bare["fedner"])


def test_compact_packing_gives_nearly_the_same_result(bare: dict[str, Path], guarded: dict[str, Path]) -> None:
    """Adam, at its first steps, makes a whole step of whatever rounding left of a gradient."""
    assert losses(guarded["compact"]) == pytest.approx(losses(bare["fedner"]), rel=0.02)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *((kind, name) for kind in ("masked", "sealed", "sealed+masked") for name in ("fedner-3", "fedavg", "fedprox")),
        ("compact", "fedavg"),
        ("ckks", "fedavg"),
    ],
)
def test_every_averaging_algorithm_runs_protected(
    kind: str, name: str, data: Path, bare: dict[str, Path], tmp_path: Path
) -> None:
    run(shielded(data, kind, algorithm=ALGORITHMS[name], federation=SHORT["federation"]), tmp_path)
    assert_alike(tmp_path, bare[name])


@pytest.mark.parametrize("kind", SEALED)
def test_all_sites_have_the_same_shared_half_and_the_coordinator_has_none(kind: str, guarded: dict[str, Path]) -> None:
    first, *others = shared_halves(guarded[kind])
    assert len(others) == 2
    assert first and all(other == first for other in others)
    assert not (guarded[kind] / "shared.safetensors").exists()
    kept = tensors_under("shared", load_tensors(guarded[kind] / "checkpoint.safetensors"))
    assert {name: tensor.numpy().tobytes() for name, tensor in kept.items()} != first
    assert not tensors_under("more/best", load_tensors(guarded[kind] / "checkpoint.safetensors"))


@pytest.mark.parametrize("kind", [kind for kind in MECHANISMS if kind != "ckks"])
def test_keys_differ_from_run_to_run_and_the_result_does_not(
    kind: str, data: Path, guarded: dict[str, Path], tmp_path: Path
) -> None:
    run(shielded(data, kind, **SHORT), tmp_path)
    assert_same(tmp_path, guarded[kind])
    given, others = (
        (path / "sites" / "east" / "state" / "submissions.json").read_text() for path in (tmp_path, guarded[kind])
    )
    assert given != others


@pytest.mark.parametrize("kind", ["sealed", "compact"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_an_interrupted_sealed_study_resumes_to_the_same_result(
    kind: str, number: int, data: Path, guarded: dict[str, Path], tmp_path: Path
) -> None:
    study = shielded(data, kind, **SHORT)
    with pytest.raises(Killed):
        run(study, tmp_path, watcher=Onlooker(kill_after=number))
    run(study, tmp_path)
    assert_same(tmp_path, guarded[kind])


@pytest.mark.parametrize("kind", MASKED)
def test_a_masked_study_interrupted_between_two_rounds_resumes_to_the_same_result(
    kind: str, data: Path, guarded: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = shielded(data, kind, **SHORT)
    pull_the_plug_once(monkeypatch, Coordinator, "_sample_sites", lambda self, sites: self.number == 2)
    with pytest.raises(Killed):
        run(study, tmp_path)
    run(study, tmp_path)
    assert_same(tmp_path, guarded[kind])


@pytest.mark.parametrize("kind", MASKED)
def test_a_masked_study_that_lost_a_round_draws_other_sentences(
    kind: str, data: Path, guarded: dict[str, Path], tmp_path: Path
) -> None:
    """What was revealed is not given to a second sum: the end is another one, and as good."""
    study = shielded(data, kind, **SHORT)
    with pytest.raises(Killed):
        run(study, tmp_path, watcher=Onlooker(kill_after=3))
    run(study, tmp_path)
    assert [event["round"] for event in events_of(tmp_path, "round")] == [1, 2, 3, 3, 4]
    assert losses(tmp_path)[:3] == losses(guarded[kind])[:3]
    assert losses(tmp_path)[3] != losses(tmp_path)[2]
    for name in SITES:
        given = json.loads((tmp_path / "sites" / name / "state" / "submissions.json").read_text())
        assert (given["redraws"], given["revealed"], given["seed"]) == (1, 4, "")
    if kind != "masked":
        first, *others = shared_halves(tmp_path)
        assert all(other == first for other in others)


@pytest.mark.parametrize("kind", ["sealed", "masked"])
def test_sites_that_were_not_sampled_still_open_the_sum(kind: str, tmp_path: Path) -> None:
    """Of five sites three are drawn a round."""
    more = ("riverside-0002", "lakeside-0003", "harbour-0004")
    sites = {name: {"built_in": name, "types": ["Drug"]} for name in more}
    study = tiny(
        algorithm={"participation": 0.6, "rounds": 4},
        privacy={"mechanism": kind, "minimum_sites": 3},
        sites=sites,
    )
    run(study, tmp_path)
    rounds = events_of(tmp_path, "round")
    assert [event["answered"] for event in rounds] == [3] * 4
    assert [event["absent"] for event in rounds] == [[]] * 4
    asked = {name: [e.step for e in read_entries(tmp_path / "sites" / name / "ledger.jsonl")] for name in study.sites}
    assert all(steps.count("open_sum") == (4 if kind == "sealed" else 0) for steps in asked.values())
    assert sum(steps.count("submit") for steps in asked.values()) == 12
    assert {steps.count("submit") for steps in asked.values()} != {4}
    if kind == "sealed":
        first, *others = shared_halves(tmp_path)
        assert len(others) == 4 and all(other == first for other in others)


@EVERY
def test_numbers_outside_the_clip_are_counted_in_the_events(kind: str, data: Path, tmp_path: Path) -> None:
    tight = {"words": 1e-3, "word_cnn": 1e-3}
    watcher = Onlooker()
    study = shielded(data, kind, algorithm={"rounds": 2}, privacy={"value_bounds": tight})
    run(study, tmp_path, watcher=watcher)
    counted = [event["clipped"] for event in events_of(tmp_path, "round")]
    assert all(count > 0 for count in counted)
    assert [record.clipped for record in watcher.rounds] == counted


def test_a_plain_study_has_nothing_to_clip(bare: dict[str, Path]) -> None:
    assert not any("clipped" in event for event in events_of(bare["fedner"], "round"))


@EVERY
def test_no_secret_is_in_the_run_folder(kind: str, guarded: dict[str, Path]) -> None:
    assert list(find_secrets(guarded[kind])) == []


@EVERY
def test_the_ledger_has_all_that_left_a_site(kind: str, guarded: dict[str, Path]) -> None:
    entries = [e for name in SITES for e in read_entries(guarded[kind] / "sites" / name / "ledger.jsonl")]
    steps = {entry.step for entry in entries}
    assert {"submit", "unmask", "open_sum"} & steps == {
        "submit",
        *(["unmask"] if kind in MASKED else []),
        *(["open_sum"] if kind in SEALED else []),
    }
    rounds = {"describe", "gradient", "submit", "unmask", "open_sum"}
    assert sum(e.bytes for e in entries if e.step in rounds) == sum(e["up"] for e in events_of(guarded[kind], "round"))
    assert {entry.mechanism for entry in entries} == {MECHANISMS[kind]["mechanism"]}


@pytest.mark.parametrize("kind", ["masked", "sealed"])
def test_a_mechanism_changes_nothing_if_no_layer_is_shared(kind: str, data: Path, tmp_path: Path) -> None:
    alone: dict[str, Any] = {"algorithm": {"name": "single", "rounds": 3}, "model": {"shared": None}}
    for name in ("plain", kind):
        run(shielded(data, name, **alone), tmp_path / name)
    assert scores_of(tmp_path / kind)["sites"] == scores_of(tmp_path / "plain")["sites"]
    assert losses(tmp_path / kind) == losses(tmp_path / "plain")
    assert [event["absent"] for event in events_of(tmp_path / kind, "round")] == [[]] * 3


@pytest.mark.parametrize("kind", ["masked", "sealed"])
def test_pooled_runs_under_a_mechanism(kind: str, data: Path, tmp_path: Path) -> None:
    pooled: dict[str, Any] = {"algorithm": {"name": "pooled", "rounds": 3}, "model": {"shared": None}}
    for name in ("plain", kind):
        run(shielded(data, name, **pooled), tmp_path / name)
    assert losses(tmp_path / kind) == pytest.approx(losses(tmp_path / "plain"), rel=2e-3)


def test_a_value_bound_of_private_layers_is_refused_before_round_1(tmp_path: Path) -> None:
    sites = {"harbour": HARBOUR, "hillside": HILLSIDE}
    for group, said in (
        ("word", r" – did you mean 'words'\?; words, word_cnn are$"),
        ("crf", "; words, word_cnn are$"),
    ):
        study = tiny(privacy={"mechanism": "sealed", "minimum_sites": 2, "value_bounds": {group: 1.0}}, sites=sites)
        with pytest.raises(
            StudyError, match=rf"^\[privacy\] value_bounds: no shared layer group is called '{group}'{said}"
        ):
            run(study, tmp_path)
    assert not events_of(tmp_path, "started")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["masked", "sealed+masked"])
def test_workers_give_the_same_protected_result(
    kind: str, data: Path, guarded: dict[str, Path], tmp_path: Path
) -> None:
    run(shielded(data, kind, **SHORT), tmp_path, workers=2)
    assert_same(tmp_path, guarded[kind])
    assert list(find_secrets(tmp_path)) == []


def annotated(folder: Path, *, restricted: bool, algorithm: str) -> Study:
    """Two sites with one top, whose files hold both types, or, restricted, in training those that the site lists."""
    listed = {"east": ("Drug",), "west": ("ADE",)}
    sites = {}
    for number, (name, types) in enumerate(listed.items()):
        for part, size in (("train", 12), ("dev", 4), ("test", 5)):
            written = notes(size, seed=number * 10 + size)
            kept = TagSet(types) if restricted and part != "test" else TagSet(("Drug", "ADE"))
            Jsonl().write(map(kept.restrict, written), folder / name / f"{part}.jsonl")
        place = {"data": str(folder / name), "format": "jsonl"}
        sites[name] = {**place, "types": list(types), "scored": ["Drug", "ADE"], "scheme": "BIO"}
    shared = None if algorithm == "tagsets" else ["all"]
    return learnable(
        folder / "unused",
        sites=sites,
        algorithm={"name": algorithm, "rounds": 3} | ({"trusted_after": 1} if algorithm == "tagsets" else {}),
        model={"shared": shared},
    )


@pytest.mark.parametrize("algorithm", ["fedavg", "tagsets"])
def test_types_that_a_site_does_not_list_are_not_learned(algorithm: str, tmp_path: Path) -> None:
    for restricted in (False, True):
        part = tmp_path / str(restricted)
        run(annotated(part / "data", restricted=restricted, algorithm=algorithm), part / "run")
    assert_same(tmp_path / "False" / "run", tmp_path / "True" / "run")
    scores = scores_of(tmp_path / "True" / "run")
    assert scores["best_round"] == (3 if algorithm == "tagsets" else scores["best_round"])
    # Both are scored on both types, of which each lists one.
    for site in scores["sites"].values():
        assert {kind: found["strict"]["tp"] + found["strict"]["fn"] for kind, found in site["types"].items()} == {
            "ADE": 5,
            "Drug": 5,
        }
        assert site["macro"].keys() == {"all", "annotated", "not_annotated"}


def test_an_invalid_mapping_is_refused_before_round_1(tmp_path: Path) -> None:
    (tmp_path / "names.toml").write_text('medication = "Drogue"\n')
    study = tiny(sites={"hillside": {"names": str(tmp_path / "names.toml")}})
    said = (
        r"^\[sites.hillside\] names: names.toml: 'medication' is mapped to 'Drogue', which is not a type of the study"
    )
    with pytest.raises(StudyError, match=said):
        run(study, tmp_path / "run")
    assert not (tmp_path / "run" / "events.jsonl").exists()


def test_a_site_with_other_type_names_learns_the_same(study: Study, whole: Path, tmp_path: Path) -> None:
    sites = dict(study.sites)
    assert sites["east"].data is not None
    for file in sites["east"].data.iterdir():
        theirs = (TagSet.rename(document, {"Drug": "medication"}) for document in Jsonl().read(file))
        Jsonl().write(theirs, tmp_path / "ward" / file.name)
    (tmp_path / "names.toml").write_text('medication = "Drug"\n')
    sites["east"] = replace(sites["east"], data=tmp_path / "ward", names=tmp_path / "names.toml")
    run(replace(study, sites=sites), tmp_path / "run")
    assert_same(tmp_path / "run", whole)
