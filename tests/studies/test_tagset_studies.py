from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.algorithms.wards import Go, codes, without
from tests.models.tiny import notes
from tests.models.tiny_bart import write_bart
from tests.studies.protected_studies import MASKED, SEALED, Lasting, copies, shielded
from tests.studies.tiny_studies import CPU, Killed, Onlooker, events_of, run, scores_of, tensors_of
from torch import Tensor

from wardround.algorithms.tagsets import TARGET_BOUND, TARGETS
from wardround.corpora.jsonl import Jsonl
from wardround.errors import MessageError, StudyError
from wardround.federation.engines.in_process import InProcessFederation
from wardround.federation.federation import SiteId
from wardround.federation.ledger import read_entries
from wardround.federation.message import Message
from wardround.models.light_ner import LightNer
from wardround.models.saved import load_model
from wardround.models.tagging_model import TaggingModel
from wardround.studies import one_machine
from wardround.studies.aggregation_setup import payload_of
from wardround.studies.assemble import common_task
from wardround.studies.run_folder import RunFolder
from wardround.studies.site_setup import open_site
from wardround.studies.study_file import Study, parse_study, to_toml
from wardround.studies.study_notes import load_notes, public_set
from wardround.studies.study_run import EngineSettings, StudyRun
from wardround.text.document import Document
from wardround.training.state_files import load_tensors, tensors_under

ROUNDS = 7
BOTH = ["Drug", "ADE"]
# One site annotates drugs, one what they did, one both; test notes hold both everywhere.
WHO = {"east": ["Drug"], "west": ["ADE"], "north": BOTH}
WIDTH = 8  # of a word's representation in these networks


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the notes are; a test must leave them as they are."""
    return tmp_path_factory.mktemp("notes")


@pytest.fixture(scope="module")
def whole(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run without protection that nobody interrupted; a test must leave it as it is."""
    folder = tmp_path_factory.mktemp("whole")
    run(tagged(data), folder)
    return folder


def tagged(folder: Path, protection: str = "plain", **sections: Mapping[str, Any] | None) -> Study:
    """Seven rounds of all that the algorithm does, three of them before the model is believed."""
    table: dict[str, dict[str, Any]] = {
        "model": {"shared": None},
        "algorithm": {"name": "tagsets", "rounds": ROUNDS, "trusted_after": 3},
        "training": {"batch_size": 16, "learning_rate": 0.1},
        "evaluation": {"every": ROUNDS},
        "federation": {"checkpoint_every": 2},
        "sites": {name: {"types": types, "scored": BOTH, "scheme": "BIO"} for name, types in WHO.items()},
    }
    table["sites"]["north"] |= {"data": str(folder / "north"), "format": "jsonl"}
    changed = sections.pop("sites", None) or {}
    table["sites"] = {name: {**site, **changed.get(name, {})} for name, site in table["sites"].items()}
    merged = {name: {**table.get(name, {}), **(sections.get(name) or {})} for name in {**table, **sections}}
    return shielded(folder, protection, **merged)


def held(folder: Path, name: SiteId) -> dict[str, Tensor]:
    """What a site kept to itself at the end of a run."""
    return tensors_under("held", load_tensors(folder / "sites" / name / "state" / "laid-aside.safetensors"))


def losses(folder: Path) -> list[float]:
    return [event["loss"] for event in events_of(folder, "round")]


def assert_same(folder: Path, other: Path) -> None:
    assert scores_of(folder) == scores_of(other)
    mine, theirs = tensors_of(folder), tensors_of(other)
    assert mine.keys() == theirs.keys()
    assert [name for name in mine if mine[name] != theirs[name]] == []


# What comes out.


def test_one_model_finds_the_types_of_all_sites_at_every_site(whole: Path) -> None:
    scores = scores_of(whole)
    assert scores["best_round"] == ROUNDS  # the last: development notes say nothing of what is not annotated there
    for name in WHO:
        model = load_model(whole / "sites" / name / "model")
        assert isinstance(model, TaggingModel)
        assert set(model.tag_set.types) == set(BOTH)
        # Five test notes, with a drug and what it did in each.
        found = {kind: scores["sites"][name]["types"][kind]["strict"] for kind in BOTH}
        assert {kind: figures["tp"] + figures["fn"] for kind, figures in found.items()} == {"Drug": 5, "ADE": 5}
    # Nobody at east has ever marked an ADE, and nobody at west a drug.
    assert scores["sites"]["east"]["types"]["ADE"]["strict"]["f1"] > 0.8
    assert scores["sites"]["west"]["types"]["Drug"]["strict"]["f1"] > 0.8


def test_labels_as_they_are_teach_that_the_unknown_is_absent(data: Path, whole: Path, tmp_path: Path) -> None:
    run(tagged(data, algorithm={"unknown": "outside", "weighting": False}), tmp_path)
    mine, theirs = scores_of(tmp_path)["sites"], scores_of(whole)["sites"]
    for name, kind in (("east", "ADE"), ("west", "Drug")):
        f1 = [scores[name]["types"][kind]["strict"]["f1"] for scores in (mine, theirs)]
        assert f1[0] < f1[1] - 0.1


def test_development_notes_are_scored_on_what_is_annotated_alone(whole: Path, data: Path) -> None:
    """Sites differ in their types: a scoring counts what each of them looks for, and takes no other for wrong."""
    study = tagged(data)
    for name, types in WHO.items():
        notes_there = load_notes(name, study.sites[name], seed=7)
        site = open_site(study, name, notes_there, folder=whole.parent / "scoring" / name, device=CPU)
        shared = load_tensors(whole / "shared.safetensors")
        asked = Message({"round": ROUNDS}, {f"shared/{key}": tensor.numpy() for key, tensor in shared.items()})
        assert set(site.answer("score", asked).value("strict", dict)) <= set(types)
        assert set(site.answer("finish", asked).value("strict", dict)) == set(BOTH)


def test_sentences_on_which_sites_disagree_are_weighted(whole: Path) -> None:
    for name in WHO:
        weights = held(whole, name)["weights"]
        assert weights.min() < weights.max()
        assert 0.5 < weights.mean() < 1.5
    assert held(whole, "east")["own"].any()
    assert held(whole, "north")["own"].abs().max() < 1e-6  # it has nothing to be taught


# What leaves.


def test_what_leaves_a_site(whole: Path) -> None:
    for name in WHO:
        entries = [e for e in read_entries(whole / "sites" / name / "ledger.jsonl") if e.step == "train_completed"]
        assert len(entries) == ROUNDS
        for entry in entries:
            arrays = dict(map(tuple, json.loads(json.dumps(entry.arrays))))
            assert arrays.pop(f"update/{TARGETS}") == [WIDTH]
            layers = {f"update/{layer}" for layer in load_tensors(whole / "shared.safetensors")}
            assert arrays.keys() == layers
            assert entry.weight == 1.0
            assert entry.blobs == {"worked": 8}  # how long, and nothing else


@pytest.mark.parametrize("weighting", [True, False])
def test_the_payload_has_the_gradient_if_sentences_are_weighted(data: Path, weighting: bool) -> None:
    study = tagged(data, algorithm={"weighting": weighting})
    task = common_task(study)
    form = payload_of(study, task, public_set(study, task))
    layers = {name: tuple(parameter.shape) for name, parameter in task.model.shared_parameters().items()}
    more = {TARGETS: (WIDTH,)} if weighting else {}
    assert form.shapes == layers | more
    assert form.groups.keys() == form.shapes.keys()
    assert form.bounds == ({TARGETS: TARGET_BOUND} if weighting else {})


# Bit for bit.


def test_the_same_study_gives_the_same_bits(data: Path, whole: Path, tmp_path: Path) -> None:
    run(tagged(data), tmp_path)
    assert_same(tmp_path, whole)
    assert losses(tmp_path) == losses(whole)


@pytest.mark.parametrize("number", [5, pytest.param(3, marks=pytest.mark.slow)])
def test_a_study_killed_after_a_round_resumes_to_the_same_result(
    number: int, data: Path, whole: Path, tmp_path: Path
) -> None:
    """There is a checkpoint every second round; weights, gradients and whose they are come back from it."""
    with pytest.raises(Killed):
        run(tagged(data), tmp_path, watcher=Onlooker(kill_after=number))
    kept = tensors_under("memory", load_tensors(tmp_path / "checkpoint.safetensors"))
    assert kept[TARGETS].shape == (WIDTH,)
    assert bytes(kept["given"].tolist()).decode().split("\n") == [str(number - 1), *WHO]
    onlooker = Onlooker()
    run(tagged(data), tmp_path, watcher=onlooker)
    assert onlooker.started == [number - 1]
    assert_same(tmp_path, whole)


def test_sites_opened_one_at_a_time_give_the_same_result(
    data: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_machine, "InProcessFederation", partial(InProcessFederation, open_at_once=1))
    run(tagged(data), tmp_path)
    assert_same(tmp_path, whole)


@pytest.mark.slow
def test_workers_give_the_same_result(data: Path, whole: Path, tmp_path: Path) -> None:
    run(tagged(data), tmp_path, workers=2)
    assert_same(tmp_path, whole)


def test_labels_that_a_site_does_not_say_it_annotates_change_nothing(data: Path, whole: Path, tmp_path: Path) -> None:
    """At one site they were taken from the files, at another they are wrong."""
    study = tagged(tmp_path)
    for name, types in WHO.items():
        for part in ("train", "dev"):
            path = tmp_path / name / f"{part}.jsonl"
            Jsonl().write([_changed(document, types, wrong=name == "west") for document in Jsonl().read(path)], path)
    assert (tmp_path / "west" / "train.jsonl").read_bytes() != (data / "west" / "train.jsonl").read_bytes()
    run(study, tmp_path / "run")
    assert_same(tmp_path / "run", whole)


def _changed(document: Document, types: list[str], *, wrong: bool) -> Document:
    own = [entity for entity in document.entities if entity.type in types]
    others = [entity for entity in document.entities if entity.type not in types] if wrong else []
    return document.with_entities([*own, *(replace(entity, ranges=own[0].ranges) for entity in others)])


# Protected.


def assert_alike(folder: Path, plain: Path, *, rel: float = 1e-4) -> None:
    """As a study without protection, but for what rounding does."""
    assert losses(folder) == pytest.approx(losses(plain), rel=rel)
    mine, theirs = ({n: s["types"] for n, s in scores_of(one)["sites"].items()} for one in (folder, plain))
    assert mine == theirs
    assert [event["absent"] for event in events_of(folder, "round")] == [[]] * ROUNDS
    for name in WHO:
        left, right = held(folder, name), held(plain, name)
        torch.testing.assert_close(left["weights"], right["weights"], atol=20 * rel, rtol=0)
        torch.testing.assert_close(left["own"], right["own"], atol=20 * rel, rtol=0)


@pytest.mark.parametrize("kind", ["masked", "sealed", "sealed+masked"])
def test_a_protected_study_gives_the_result_of_a_plain_one(kind: str, data: Path, whole: Path, tmp_path: Path) -> None:
    run(tagged(data, kind), tmp_path)
    assert_alike(tmp_path, whole)
    for name in WHO:  # what a site gave lies nowhere beyond its own folder
        own = held(tmp_path, name)["own"].numpy().tobytes()
        for path in tmp_path.rglob("*"):
            if path.is_file() and name not in path.parts and name != "north":
                assert own not in path.read_bytes(), path.name


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "rel"), [("compact", 5e-3), ("ckks", 1e-4)])
def test_compact_packing_and_ckks_give_nearly_the_result_of_a_plain_study(
    kind: str, rel: float, data: Path, whole: Path, tmp_path: Path
) -> None:
    run(tagged(data, kind), tmp_path)
    assert_alike(tmp_path, whole, rel=rel)


class Overheard:
    """All that sites answer and what each of them held then."""

    def __init__(self, federation: Lasting) -> None:
        self.federation = federation
        self.answers: list[tuple[SiteId, str, Message]] = []
        self.own: list[np.ndarray[Any, Any]] = []

    def __call__(self, site: SiteId, step: str, message: Message, go: Go) -> Message:
        answer = go(message)
        self.answers.append((site, step, answer))
        if step == "train_completed":
            self.own.append(self.federation.open(site).algorithm_state["own"].numpy().copy())
        return answer


@pytest.mark.parametrize("kind", ["masked", "sealed", "sealed+masked"])
def test_the_coordinator_never_sees_the_gradient_of_one_site(kind: str, data: Path, tmp_path: Path) -> None:
    study = tagged(data, kind, algorithm={"rounds": 2, "trusted_after": 0}, training={"learning_rate": 0.01})
    federation = Lasting(study, tmp_path)
    federation.meddle = overheard = Overheard(federation)
    engine = EngineSettings(checkpoint_every=1, sites_save=True, pause=0.0)
    running = StudyRun(
        study, federation, RunFolder(tmp_path), engine=engine, watcher=Onlooker(), party_keys=federation.protection
    )
    running.run()
    given = [own for own in overheard.own if np.abs(own).max() > 1e-5]
    assert len(given) >= 2
    for _, step, answer in overheard.answers:
        if step == "train_completed":  # it is held until it is known who gives
            assert not answer.arrays
            assert answer.values.keys() <= {"weight", "loss", "largest_by_group"}
            assert TARGETS not in json.dumps(answer.values.get("largest_by_group"))  # its clip is known
        for own in given:
            assert not any(own.tobytes() in array.tobytes() for array in answer.arrays.values())
    server = running.coordinator
    memory = server.optimizer_state()
    if kind in SEALED:
        assert memory.keys() == {"given"} and not server.broadcast_arrays().keys() & {f"targets/{TARGETS}"}
        assert len(copies(federation)) == 1
    else:  # the mean of three
        last = np.mean(overheard.own[-3:], axis=0)
        np.testing.assert_allclose(memory[TARGETS].numpy(), last, atol=1e-5)
        assert all(np.abs(memory[TARGETS].numpy() - own).max() > 1e-5 for own in given)


@pytest.mark.parametrize("kind", ["masked", "sealed"])
def test_a_site_that_was_away_for_a_round_is_in_the_sum_of_the_next(kind: str, data: Path, tmp_path: Path) -> None:
    """Of a sum that it is not in, it takes nothing away, and the others take theirs of the sum of two."""
    study = tagged(
        data,
        kind,
        algorithm={"rounds": 4, "trusted_after": 0},
        training={"learning_rate": 0.01},
        privacy={} if kind in MASKED else {"minimum_sites": 2},
    )
    if kind in MASKED:
        study = four(data, study)
    federation = Lasting(study, tmp_path)
    told: list[tuple[int, list[str]]] = []

    class Watching(Onlooker):
        def on_round(self, record: Any) -> None:
            super().on_round(record)
            federation.meddle = without(("west", "train_completed")) if record.number == 1 else listening

    def listening(site: SiteId, step: str, message: Message, go: Go) -> Message:
        if step == "train_completed" and site == "east":
            told.append((message.value("round", int), message.value("targets_from", list)))
        return go(message)

    engine, watcher = EngineSettings(checkpoint_every=1, sites_save=True, pause=0.0), Watching()
    study_run = StudyRun(
        study, federation, RunFolder(tmp_path), engine=engine, watcher=watcher, party_keys=federation.protection
    )
    study_run.run()
    assert {record.number: codes(record) for record in watcher.rounds if record.absent} == {
        2: [("west", "ConnectionError")]
    }
    others = [name for name in study.sites if name != "west"]
    assert told == [(3, others), (4, list(study.sites))]
    assert int(federation.open("west").algorithm_state["compared"]) == 4


def four(folder: Path, study: Study) -> Study:
    """A fourth site: under masks three must be left."""
    for part, size in (("train", 12), ("dev", 4), ("test", 5)):
        Jsonl().write(notes(size, seed=30 + size), folder / "south" / f"{part}.jsonl")
    south = f'\n[sites.south]\ndata = "{folder / "south"}"\nformat = "jsonl"\ntypes = ["Drug"]\nscheme = "BIO"\n'
    return parse_study(to_toml(study) + south)


def test_under_seals_requests_do_not_contain_the_mean_gradient(data: Path, tmp_path: Path) -> None:
    """It takes the one that it opened itself, whatever a coordinator says."""
    study = tagged(data, "sealed", algorithm={"rounds": 2, "trusted_after": 0}, training={"learning_rate": 0.01})
    ends = []
    for name in ("honest", "lying"):
        federation = Lasting(study, tmp_path / name)

        def lying(site: SiteId, step: str, message: Message, go: Go) -> Message:
            forged = {f"targets/{TARGETS}": np.ones(WIDTH, np.float32)}
            return go(replace(message, arrays=forged) if step == "train_completed" else message)

        if name == "lying":
            federation.meddle = lying
        engine = EngineSettings(checkpoint_every=1, sites_save=True, pause=0.0)
        StudyRun(
            study,
            federation,
            RunFolder(tmp_path / name),
            engine=engine,
            watcher=Onlooker(),
            party_keys=federation.protection,
        ).run()
        ends.append({site: federation.open(site).algorithm_state["weights"] for site in WHO})
    assert all(torch.equal(ends[0][site], ends[1][site]) for site in WHO)


# Refused before round 1.


def refused(study: Study, said: str, folder: Path) -> None:
    with pytest.raises(StudyError, match=said):
        run(study, folder)
    assert not events_of(folder, "round")


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"algorithm": {"trusted_after": -1}}, r"^\[algorithm\] trusted_after is -1; it must be a number of rounds"),
        ({"algorithm": {"momentum": 1.0}}, r"^\[algorithm\] momentum is 1.0; it must be at least 0 and below 1$"),
        ({"algorithm": {"unknown": "partial"}}, r"^\[algorithm\] weighting .* 'partial'.*: set weighting = false$"),
        ({"algorithm": {"unknown": "posterior"}}, r"^\[algorithm\] weighting .* 'posterior'.*: set weighting = false$"),
        ({"algorithm": {"unknown": "outside"}}, r"^\[algorithm\] weighting .* 'outside'.*: set weighting = false$"),
        ({"algorithm": {"unknown": "psuedo"}}, r"^\[algorithm\] unknown is 'psuedo' – did you mean 'pseudo'\?"),
        ({"model": {"shared": ["words"]}}, r"^\[model\] shared cannot be set for"),
        ({"sites": {"east": {"scored": ["Drug", "Dose"]}}}, r"^\[sites.east\] scored: no site annotates 'Dose'"),
        ({"sites": {"north": {"scored": ["Drug"]}}}, r"^\[sites.north\] scored leaves out 'ADE'"),
    ],
)
def test_an_invalid_study_is_refused(data: Path, sections: dict[str, Any], said: str) -> None:
    with pytest.raises(StudyError, match=said):
        tagged(data, **sections)


@pytest.mark.parametrize("kind", ["relations", "joint"])
def test_relations_have_no_tag_sets(kind: str) -> None:
    text = (
        '[study]\nname = "s"\n[algorithm]\nname = "tagsets"\n[task]\nkind = "{}"\n[task.relations]\nADE = []\n[sites.a]'
    )
    with pytest.raises(StudyError, match=rf"^\[algorithm\] tagsets learns ner; \[task\] kind is {kind}$"):
        parse_study(text.format(kind))


def test_a_site_must_say_what_it_annotates(data: Path, tmp_path: Path) -> None:
    silent = tagged(data, sites={"west": {"types": None, "scored": None}})
    refused(silent, r"^\[sites.west\] must name its types: the study shares the output layers$", tmp_path)


def test_sites_must_use_one_scheme(data: Path, tmp_path: Path) -> None:
    refused(
        tagged(data, sites={"west": {"scheme": "BIOES"}}),
        r"^\[sites\] scheme: the study shares the output layers, so all sites must use one scheme$",
        tmp_path,
    )


@pytest.mark.parametrize("unknown", ["partial", "posterior"])
def test_settings_for_unlabelled_words_are_refused_for_a_model_that_writes_mentions(
    unknown: str, data: Path, tmp_path: Path
) -> None:
    bart = str(write_bart(tmp_path / "bart"))
    algorithm = {"name": "tagsets", "rounds": 2, "trusted_after": 1, "unknown": unknown, "weighting": False}
    table = parse_study(_of_bart(data, bart, algorithm))
    refused(table, rf"^\[algorithm\] unknown = '{unknown}' needs a score for every tag of a word", tmp_path / "run")


@pytest.mark.parametrize("name", ["tagsets", "adversarial"])
def test_the_setting_outside_is_refused_for_a_model_that_writes_mentions(name: str, data: Path, tmp_path: Path) -> None:
    bart = str(write_bart(tmp_path / "bart"))
    table = parse_study(_of_bart(data, bart, {"name": name, "rounds": 2, "trusted_after": 1, "outside": 0.1}))
    refused(table, r"^\[algorithm\] outside applies to unlabelled words; this \[model\] writes", tmp_path / "run")


def test_a_model_that_writes_mentions_learns_pseudo_annotations_and_weights(data: Path, tmp_path: Path) -> None:
    """A prompt over a frozen BART: what crosses is the prompt, the outputs and a gradient of the prompt's size."""
    bart = str(write_bart(tmp_path / "bart"))
    study = parse_study(_of_bart(data, bart, {"name": "tagsets", "rounds": 3, "trusted_after": 1}))
    run(study, tmp_path / "run")
    model = load_model(tmp_path / "run" / "sites" / "east" / "model")
    assert isinstance(model, LightNer) and set(model.tag_set.types) == set(BOTH)
    kept = held(tmp_path / "run", "east")
    assert kept["own"].shape == model.probes.leaf_shape and kept["source"].shape[1:] == model.probes.leaf_shape
    assert int(kept["compared"]) == 3
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    ledger = read_entries(tmp_path / "run" / "sites" / "east" / "ledger.jsonl")
    sent = next(entry for entry in ledger if entry.step == "train_completed")
    assert 0 <= sent.bytes - 4 * (trained + kept["own"].numel()) < 4000  # names and shapes around the numbers


def _of_bart(data: Path, bart: str, algorithm: Mapping[str, Any]) -> str:
    tagged(data)  # writes the notes
    lines = ['[study]\nname = "s"\n', f'[model]\nbart = "{bart}"\n', "[algorithm]"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in algorithm.items()]
    for name, types in WHO.items():
        lines += [f'[sites.{name}]\ndata = "{data / name}"\nformat = "jsonl"\ntypes = {json.dumps(types)}']
    return "\n".join(lines)


def test_a_site_refuses_requests_outside_its_policy(data: Path, tmp_path: Path) -> None:
    study = tagged(data)
    site = open_site(study, "east", load_notes("east", study.sites["east"], seed=7), folder=tmp_path, device=CPU)
    before = {name: tensor.clone() for name, tensor in site.state().items()}
    fixed = {
        **study.training.constant_settings(),
        **study.algorithm.kind.constant_settings(study.algorithm.config),
        "round": 1,
        "targets_from": [],
    }
    for name, value in (("unknown", "outside"), ("momentum", 0.5), ("trusted_after", 0), ("weighting", False)):
        with pytest.raises(MessageError, match=f"^policy: {name} is not the study's$"):
            site.answer("train_completed", Message({**fixed, name: value}))
    assert all(torch.equal(tensor, before[name]) for name, tensor in site.state().items())
