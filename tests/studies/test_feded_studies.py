from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from tests.studies.distilled_studies import (
    OTHER_WORDS,
    SITES,
    distilled,
    note,
    related,
    server_of,
    write_notes,
    write_small_encoder,
)
from tests.studies.tiny_studies import CPU, Killed, Onlooker, events_of, run, scores_of, tensors_of
from torch import Tensor
from torch.nn.functional import cross_entropy

from wardround.corpora.jsonl import Jsonl
from wardround.errors import CorpusError, FederationError, MessageError, StudyError, TrainingError
from wardround.federation.engines.in_process import InProcessFederation
from wardround.federation.ledger import read_entries
from wardround.federation.message import Message
from wardround.models.relation_classifier import RelationClassifier, RelationInputs
from wardround.models.saved import load_model
from wardround.studies import one_machine
from wardround.studies.assemble import common_model, model_of, task_on
from wardround.studies.run_folder import RunFolder
from wardround.studies.site_setup import open_site
from wardround.studies.study_file import Study
from wardround.studies.study_notes import load_notes, public_set
from wardround.tasks import relations
from wardround.tasks.task import head_scores
from wardround.text.document import Document, Relation
from wardround.text.tag_sets import TagSet
from wardround.training.state_files import load_tensors, tensors_under

STARTS = pytest.mark.parametrize("start", ["central", "own"])
LONG = "then she had took and any day then she had took and any day then "  # thirteen pieces
MARKER = "Quillfeather of Lantern Street told xylozipam"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The notes of three sites and the public set; a test must leave them as they are."""
    folder = tmp_path_factory.mktemp("notes")
    write_notes(folder)
    return folder


@pytest.fixture(scope="module")
def whole(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs of four rounds that nobody interrupted, by where sites start from; a test must leave them as they are."""
    folder = tmp_path_factory.mktemp("whole")
    for start in ("central", "own"):
        run(of_four(data, start), folder / start)
    return {start: folder / start for start in ("central", "own")}


def of_four(data: Path, start: str, **sections: Mapping[str, Any] | None) -> Study:
    return distilled(data, algorithm={"site_models": start, "rounds": 4}, **sections)


def assert_same(folder: Path, other: Path) -> None:
    assert scores_of(folder) == scores_of(other)
    mine, theirs = tensors_of(folder), tensors_of(other)
    assert mine.keys() == theirs.keys()
    assert [name for name in mine if mine[name] != theirs[name]] == []


def absences(folder: Path) -> list[Any]:
    return [event["absent"] for event in events_of(folder, "round")]


# The paper's round.


def inputs_of(model: RelationClassifier, documents: Sequence[Document]) -> tuple[RelationInputs, Tensor]:
    """The one pair of each note, and whether it is related."""
    task = relations.RelationTask(model)
    texts = [example.instance.text for document in documents for example in task.public([document])]
    return model.prepare(texts), torch.tensor([len(document.relations) for document in documents])


def descend(model: RelationClassifier, loss: Callable[[], Tensor], steps: int) -> None:
    """Adam at the rate of the study, fresh."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(steps):
        optimizer.zero_grad()
        found = loss()
        found.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()


def _local_loss(model: RelationClassifier, inputs: RelationInputs, labels: Tensor) -> Tensor:
    return cross_entropy(model.logits(inputs), labels)  # Eq. 3


def test_a_round_is_that_of_the_paper(data: Path, tmp_path: Path) -> None:
    """In plain torch; every batch is all there is, and nothing is dropped out."""
    study = distilled(
        data,
        model={"encoder": str(data / "steady"), "dropout": 0.0},
        algorithm={"rounds": 1, "local_epochs": 3, "distillation_epochs": 4, "temperature": 2.0},
        training={"batch_size": 64},
    )
    run(study, tmp_path)
    central = common_model(study)
    assert isinstance(central, RelationClassifier)
    inputs, labels = inputs_of(central, list(Jsonl().read(data / "public.jsonl")))
    before = central.eval().logits(inputs).detach()
    said = []
    for name in SITES:
        local = deepcopy(central).train()
        mine, right = inputs_of(local, list(Jsonl().read(data / name / "train.jsonl")))
        descend(local, partial(_local_loss, local, mine, right), 3)
        said.append(local.eval().logits(inputs).softmax(-1).detach())
    mean = torch.stack(said).mean(0)  # Eq. 5
    teacher = mean.sqrt() / mean.sqrt().sum(-1, keepdim=True)  # Eq. 4 with τ = 2

    def loss() -> Tensor:
        log_p = central.logits(inputs).log_softmax(-1)
        distance = (teacher * (teacher.log() - log_p)).sum(-1)
        return (distance - log_p[torch.arange(len(labels)), labels]).mean()  # Eq. 6

    descend(central.train(), loss, 4)
    product = load_model(RunFolder(tmp_path).model)
    assert isinstance(product, RelationClassifier)
    after = central.eval().logits(inputs).detach()
    assert (product.eval().logits(inputs).detach() - after).abs().max() < 1e-3
    assert (after - before).abs().max() > 0.1
    kept = tensors_under("memory", load_tensors(tmp_path / "checkpoint.safetensors"))
    torch.testing.assert_close(kept["relations"], mean, atol=1e-5, rtol=0)


# What leaves, and what is there afterwards.


@STARTS
def test_what_leaves_a_site(start: str, data: Path, whole: dict[str, Path]) -> None:
    for name in SITES:
        entries = list(read_entries(whole[start] / "sites" / name / "ledger.jsonl"))
        sent = {(entry.step, json.dumps(entry.arrays)) for entry in entries if entry.arrays}
        assert sent == {("train_and_predict", json.dumps([["update/relations", [8, 2]]]))}
        assert all(entry.blobs == {"worked": 8} for entry in entries)  # how long, and nothing else
        assert [entry.weight for entry in entries if entry.step == "train_and_predict"] == [1.0] * 4
    assert absences(whole[start]) == [[]] * 4


def test_what_is_sent_to_the_sites(data: Path, whole: dict[str, Path]) -> None:
    """To a site that keeps its model, a mean of sixteen numbers, in place of the model's thousands."""
    down = {start: [event["down"] for event in events_of(path, "round")] for start, path in whole.items()}
    size = sum(tensor.numel() for tensor in load_tensors(whole["central"] / "shared.safetensors").values())
    assert all(bytes_ > 3 * 4 * size for bytes_ in down["central"])
    assert all(bytes_ < 3 * 700 for bytes_ in down["own"][1:])
    up = [event["up"] for event in events_of(whole["central"], "round")]
    assert all(bytes_ < 3 * 400 for bytes_ in up[1:])


@STARTS
def test_the_central_model_is_written_and_loads(start: str, data: Path, whole: dict[str, Path]) -> None:
    model = load_model(whole[start] / "model")
    kept = load_tensors(whole[start] / "shared.safetensors")
    assert {name for name, _ in model.named_parameters()} == kept.keys()
    assert all(torch.equal(tensor, kept[name]) for name, tensor in model.named_parameters())
    for name in SITES:
        own = load_model(whole[start] / "sites" / name / "model")
        alike = [torch.equal(a, b) for a, b in zip(own.parameters(), model.parameters(), strict=True)]
        assert all(alike) if start == "central" else not any(alike)


def test_the_figures_of_a_round(whole: dict[str, Path]) -> None:
    for event in events_of(whole["central"], "round"):
        assert {"agreement", "agreement_before", "teacher_f1", "student_f1", "public_loss"} <= event["figures"].keys()
        assert all(math.isfinite(figure) for figure in event["figures"].values())


# Bit for bit.


@STARTS
def test_the_same_study_gives_the_same_bits(start: str, data: Path, whole: dict[str, Path], tmp_path: Path) -> None:
    run(of_four(data, start), tmp_path)
    assert_same(tmp_path, whole[start])
    losses = [[event["loss"] for event in events_of(path, "round")] for path in (tmp_path, whole[start])]
    assert losses[0] == losses[1]


@pytest.mark.parametrize(("start", "number"), [("central", 3), ("own", 2), ("own", 3)])
def test_a_study_killed_after_a_round_resumes_to_the_same_result(
    start: str, number: int, data: Path, whole: dict[str, Path], tmp_path: Path
) -> None:
    """There is a checkpoint after the second round; the plug is pulled before that of its own round."""
    with pytest.raises(Killed):
        run(of_four(data, start), tmp_path, watcher=Onlooker(kill_after=number))
    onlooker = Onlooker()
    run(of_four(data, start), tmp_path, watcher=onlooker)
    assert onlooker.started == [(number - 1) // 2 * 2]
    assert_same(tmp_path, whole[start])


@STARTS
def test_sites_opened_one_at_a_time_give_the_same_result(
    start: str, data: Path, whole: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_machine, "InProcessFederation", partial(InProcessFederation, open_at_once=1))
    run(of_four(data, start), tmp_path)
    assert_same(tmp_path, whole[start])


@pytest.mark.slow
@STARTS
def test_workers_give_the_same_result(start: str, data: Path, whole: dict[str, Path], tmp_path: Path) -> None:
    run(of_four(data, start), tmp_path, workers=2)
    assert_same(tmp_path, whole[start])


def test_labels_of_an_unlabelled_public_set_change_nothing(data: Path, tmp_path: Path) -> None:
    documents = list(Jsonl().read(data / "public.jsonl"))
    turned = [
        replace(document, relations=() if document.relations else (Relation("R1", "ADE", "T1", "T2"),))
        for document in documents
    ]
    Jsonl().write(turned, tmp_path / "turned.jsonl")
    for name, path in (("as they are", data / "public.jsonl"), ("turned", tmp_path / "turned.jsonl")):
        run(distilled(data, public={"data": str(path), "labelled": False}), tmp_path / name)
    assert tensors_of(tmp_path / "as they are") == tensors_of(tmp_path / "turned")
    run(distilled(data, public={"data": str(tmp_path / "turned.jsonl")}), tmp_path / "believed")
    assert tensors_of(tmp_path / "believed") != tensors_of(tmp_path / "turned")


def test_the_public_set_alone(data: Path, tmp_path: Path) -> None:
    run(distilled(data, algorithm={"name": "public", "public_epochs": 2}), tmp_path)
    steps = {e.step for name in SITES for e in read_entries(tmp_path / "sites" / name / "ledger.jsonl")}
    assert steps == {"restore", "describe", "score", "save", "finish"}
    assert [event["answered"] for event in events_of(tmp_path, "round")] == [0, 0, 0]
    unlabelled = distilled(data, algorithm={"name": "public"}, public={"labelled": False})
    refused_before_round_1(unlabelled, "^the public set is not labelled", tmp_path / "unlabelled", error=TrainingError)


def test_requests_match_the_request_policy_of_a_site(data: Path, tmp_path: Path) -> None:
    study = of_four(data, "own")
    found = load_notes("east", study.sites["east"], seed=7)
    site = open_site(study, "east", found, folder=tmp_path, device=CPU)
    server, _ = server_of(study)
    values = {**server.settings(), **study.algorithm.kind.constant_settings(study.algorithm.config), "round": 1}
    for name, value in (("given_as", "logits"), ("temperature", 9.0), ("teacher_weight", 9.0), ("epochs", 99)):
        with pytest.raises(MessageError, match=f"^policy: {name} is not the study's$"):
            site.answer("train_and_predict", Message({**values, name: value}))
    with pytest.raises(MessageError, match=r"^step: this site does not know the step$"):
        site.answer("open_mean", Message({"round": 1}))
    assert site.round == 0


# Sites that differ.


@pytest.fixture(scope="module")
def different(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Encoders that agree in nothing, and a public set of which one of them cannot read all pairs."""
    folder = tmp_path_factory.mktemp("different")
    write_small_encoder(folder / "wide", words=OTHER_WORDS, hidden=12, layers=2, seed=1)
    write_small_encoder(folder / "short", positions=20, hidden=4, seed=2)
    Jsonl().write([*related(8, seed=99), *related(2, seed=98, between=LONG)], folder / "public.jsonl")
    return folder


def of_three_kinds(data: Path, different: Path, **sections: Any) -> Study:
    return distilled(
        data,
        public={"data": str(different / "public.jsonl")},
        algorithm={"site_models": "own", "rounds": 4},
        training={"batch_size": 16},
        sites={"west": {"encoder": str(different / "wide")}, "north": {"encoder": str(different / "short")}},
        **sections,
    )


def test_sites_with_encoders_of_their_own_learn_together(data: Path, different: Path, tmp_path: Path) -> None:
    study = of_three_kinds(data, different)
    outcome = run(study, tmp_path)
    assert absences(tmp_path) == [[]] * 4
    assert {name: site.documents for name, site in outcome.sites.items()} == dict.fromkeys(SITES, 6)
    models = {name: load_model(tmp_path / "sites" / name / "model") for name in SITES}
    sizes = {name: sum(p.numel() for p in model.parameters()) for name, model in models.items()}
    assert len(set(sizes.values())) == 3
    for name in SITES:
        entries = read_entries(tmp_path / "sites" / name / "ledger.jsonl")
        sent = {json.dumps(entry.arrays) for entry in entries if entry.step == "train_and_predict"}
        assert sent == {json.dumps([["update/relations", [10, 2]]])}
    losses = [event["loss"] for event in events_of(tmp_path, "round")]
    assert losses[-1] < 0.7 * losses[0]
    scored = [event["f1"] for event in events_of(tmp_path, "scored")]
    assert all(set(f1) == set(SITES) for f1 in scored)


def test_a_pair_that_an_encoder_cannot_read_still_has_a_row(data: Path, different: Path) -> None:
    study = of_three_kinds(data, different)
    rows = {}
    for name, section in study.sites.items():
        task = task_on(study, model_of(study, TagSet(()), scheme="", encoder=section.encoder))
        found = head_scores(task, public_set(study, task).examples)["relations"]
        rows[name] = (len(found), [not scores.any() for scores in found])
    assert rows["east"] == rows["west"] == (10, [False] * 10)
    assert rows["north"] == (10, [False] * 8 + [True] * 2)


def test_a_study_of_sites_that_differ_resumes_to_the_same_result(data: Path, different: Path, tmp_path: Path) -> None:
    study = of_three_kinds(data, different)
    run(study, tmp_path / "whole")
    with pytest.raises(Killed):
        run(study, tmp_path / "cut", watcher=Onlooker(kill_after=3))
    run(study, tmp_path / "cut")
    assert_same(tmp_path / "cut", tmp_path / "whole")


@pytest.mark.parametrize("start", ["central", "own"])
def test_a_batch_of_pairs_that_no_encoder_can_read_changes_nothing(
    start: str, data: Path, different: Path, tmp_path: Path
) -> None:
    """Batches are of like length: the long pairs come together."""
    study = distilled(
        data,
        model={"encoder": str(different / "short")},
        public={"data": str(different / "public.jsonl")},
        algorithm={"site_models": start, "rounds": 2, "distillation_batch": 2},
    )
    run(study, tmp_path)
    assert absences(tmp_path) == [[]] * 2


def of_entities(data: Path, north: dict[str, Any], kind: str = "ner") -> Study:
    """Sites that keep their models, and tag; one of them in a way of its own."""
    sites = {name: {"types": ["Drug", "Effect"]} for name in SITES} | {"north": north}
    task = {"kind": "ner", "relations": None} if kind == "ner" else {"kind": kind}
    return distilled(data, task=task, model={"decoder": "softmax"}, algorithm={"site_models": "own"}, sites=sites)


@pytest.mark.parametrize("types", [["Effect", "Drug"], ["Effect"]], ids=["order", "fewer"])
def test_entities_that_sites_count_in_another_order_are_counted_alike(types: list[str], data: Path) -> None:
    """Of another order, rows would have the same shape; of fewer types, the site would be absent from every round."""
    study = of_entities(data, {"types": types})
    central = common_model(study)
    public = {}
    for name, section in study.sites.items():
        annotated = TagSet(section.types)
        own = model_of(study, annotated, scheme=section.scheme)
        assert own.outputs == central.outputs
        assert (own.scheme, own.tag_set) == (central.scheme, central.tag_set)
        task = task_on(study, own, annotated)
        public[name] = task.labels(public_set(study, task).examples)["tags"].tolist()
    assert public["north"] == public["east"]  # also of what it does not annotate itself


@pytest.mark.parametrize("kind", ["ner", "joint"])
def test_tags_of_two_schemes_are_not_averaged(kind: str, data: Path) -> None:
    study = of_entities(data, {"types": ["Drug", "Effect"], "scheme": "IOB1"}, kind)
    said = "^.* the study averages predictions of tags, so all sites must use one scheme$"
    with pytest.raises(StudyError, match=said):
        common_model(study)


def test_sites_whose_tags_are_averaged_must_name_their_types(data: Path) -> None:
    with pytest.raises(StudyError, match=r"^\[sites.north\] must name its types: the study averages predictions of"):
        common_model(of_entities(data, {}))


# Protected.


@pytest.mark.parametrize(
    ("start", "privacy"),
    [
        ("central", {"mechanism": "masked"}),
        ("central", {"mechanism": "sealed"}),
        ("own", {"mechanism": "sealed"}),
        ("central", {"mechanism": "sealed", "packing": "compact"}),
        ("own", {"mechanism": "sealed+masked"}),
    ],
    ids=["masked", "sealed", "sealed, own", "compact", "both, own"],
)
def test_a_protected_study_ends_nearly_as_a_plain_one(
    start: str, privacy: dict[str, Any], data: Path, whole: dict[str, Path], tmp_path: Path
) -> None:
    study = of_four(data, start, privacy={**privacy, "minimum_sites": 3})
    with pytest.raises(Killed):
        run(study, tmp_path, watcher=Onlooker(kill_after=2))
    plain = [event["loss"] for event in events_of(whole[start], "round")]
    found = events_of(tmp_path, "round")
    tolerance = 2e-2 if "packing" in privacy else 1e-3
    assert [event["loss"] for event in found] == pytest.approx(plain[:2], rel=tolerance)
    assert [event["absent"] for event in found] == [[], []]
    assert [event["clipped"] for event in found] == [0, 0]
    figures, others = (events_of(path, "round")[1]["figures"] for path in (tmp_path, whole[start]))
    assert figures["public_loss"] == pytest.approx(others["public_loss"], rel=tolerance)
    for name in SITES:
        entries = list(read_entries(tmp_path / "sites" / name / "ledger.jsonl"))
        sent = {(entry.step, array) for entry in entries for array, _ in entry.arrays}
        masked = privacy["mechanism"] == "masked"
        sealed = {("submit", "sealed"), ("submit", "lengths"), ("open_mean", "mean/relations")}
        assert sent == ({("submit", "slots")} if masked else sealed)


@pytest.mark.parametrize("kind", ["sealed", "masked"])
def test_a_protected_study_that_was_interrupted_resumes(kind: str, data: Path, tmp_path: Path) -> None:
    study = of_four(data, "own", privacy={"mechanism": kind, "minimum_sites": 3})
    with pytest.raises(Killed):
        run(study, tmp_path, watcher=Onlooker(kill_after=3))
    outcome = run(study, tmp_path)
    assert outcome.rounds == 4
    assert [event["round"] for event in events_of(tmp_path, "round")] == [1, 2, 3, 3, 4]
    assert absences(tmp_path) == [[]] * 5


def test_no_opened_mean_comes_back_under_ckks(data: Path) -> None:
    """It would give the key away (IND-CPA-D)."""
    with pytest.raises(
        StudyError, match=r"^\[privacy\] scheme ckks adds approximately, and an opened mean .* needs bfv$"
    ):
        distilled(data, privacy={"mechanism": "sealed", "scheme": "ckks", "minimum_sites": 3})


# Bad input.


def refused_before_round_1(
    study: Study, said: str, folder: Path, *, error: type[Exception] = StudyError, secret: Sequence[str] = ()
) -> None:
    """And nothing of where files are, or of what is in them, is quoted."""
    with pytest.raises(error, match=said) as refused:
        run(study, folder)
    assert not events_of(folder, "round")
    assert "/" not in str(refused.value).replace("and/or", "")
    assert not [word for word in (*secret, "aspirin", "rash", "nausea") if word in str(refused.value)]


def damaged(folder: Path, form: str) -> Path:
    """Three notes, of which the third relates a mention to one that is not there."""
    if form == "jsonl":
        folder.mkdir(parents=True)
        Jsonl().write(related(3), folder / "train.jsonl")
        lines = (folder / "train.jsonl").read_text().splitlines()
        third = json.loads(lines[2])
        third["relations"][0]["tail"] = "T9"
        (folder / "train.jsonl").write_text("\n".join([*lines[:2], json.dumps(third)]))
        return folder / "train.jsonl"
    folder.mkdir(parents=True)
    (folder / "third.txt").write_text("She took aspirin and then had rash.")
    annotated = ("T1\tDrug 9 16\taspirin", "T2\tEffect 30 34\trash", "R1\tADE Arg1:T1 Arg2:T9")
    (folder / "third.ann").write_text("\n".join(annotated))
    return folder


@pytest.mark.parametrize(("form", "place"), [("jsonl", "train.jsonl:3"), ("brat", "third.ann:3")])
def test_a_relation_to_what_is_not_there_is_refused_with_file_and_line(form: str, place: str, tmp_path: Path) -> None:
    write_notes(tmp_path / "data")
    path = damaged(tmp_path / "damaged", form)
    study = distilled(tmp_path / "data", public={"data": str(path), "format": form})
    said = rf"^{place}: relation R1 has a tail that is not a mention here"
    refused_before_round_1(study, said, tmp_path / "public", error=CorpusError)
    study = distilled(
        tmp_path / "data", sites={"east": {"data": str(path.parent if form == "jsonl" else path), "format": form}}
    )
    with pytest.raises(CorpusError, match=said):
        load_notes("east", study.sites["east"], seed=7)
    # On its way to the coordinator an error is a code; whoever runs all sites is told the rest.
    refused_before_round_1(
        study, "^east cannot resume from round 0: CorpusError$", tmp_path / "site", error=FederationError
    )
    with pytest.raises(FederationError) as stopped:
        run(study, tmp_path / "site")
    assert isinstance(stopped.value.__cause__, CorpusError)
    assert re.match(said, str(stopped.value.__cause__))
    assert "no mention here" not in (tmp_path / "site" / "events.jsonl").read_text()


def test_relations_that_no_pair_can_carry_are_counted(data: Path, tmp_path: Path) -> None:
    """One lies across two sentences, one is of a type that nobody looks for, two are for the classifier."""
    far = related(1, related=True, between=". She had ")[0]
    strange = replace(related(1, related=True)[0], id="strange", relations=(Relation("R1", "TREATS", "T1", "T2"),))
    Jsonl().write([far, strange, *related(3, seed=4)], tmp_path / "public.jsonl")
    study = distilled(data, public={"data": str(tmp_path / "public.jsonl")})
    server, task = server_of(study)
    assert len(server.public.examples) == 4  # type: ignore[attr-defined]
    counts = {name: count for name, count in task.alignment_losses.items() if count}
    assert counts == {"kept": 2, "unknown_type": 1, "out_of_window": 1, "negatives": 2}
    run(study, tmp_path / "run")
    assert absences(tmp_path / "run") == [[]] * 3


def test_losses_of_the_public_set_are_in_the_events(data: Path, tmp_path: Path) -> None:
    far = related(2, related=True, between=". She had ")
    Jsonl().write([*far, *related(4, seed=4)], tmp_path / "public.jsonl")
    study = distilled(data, public={"data": str(tmp_path / "public.jsonl")})
    with pytest.raises(Killed):
        run(study, tmp_path / "run", watcher=Onlooker(kill_after=3))
    run(study, tmp_path / "run")
    for kind in ("started", "resumed"):
        (event,) = events_of(tmp_path / "run", kind)
        told = {name: count for name, count in event["public"].items() if count}
        assert told == {"examples": 4, "kept": 2, "out_of_window": 2, "negatives": 2}


def test_losses_of_a_sites_notes_stay_at_the_site(tmp_path: Path) -> None:
    write_notes(tmp_path / "data")
    far = related(2, related=True, between=". She had ")
    Jsonl().write([*far, *related(4, seed=4)], tmp_path / "data" / "east" / "train.jsonl")
    run(distilled(tmp_path / "data"), tmp_path / "run")
    told = json.loads((tmp_path / "run" / "sites" / "east" / "notes.json").read_text())
    assert {name: count for name, count in told.items() if count} == {
        "examples": 4,
        "kept": 2,
        "out_of_window": 2,
        "negatives": 2,
    }
    (event,) = events_of(tmp_path / "run", "started")
    assert event["public"]["out_of_window"] == 0  # of the eight public notes alone
    assert not [e for e in RunFolder(tmp_path / "run").events() if "out_of_window" in e]


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"public": None}, r"^\[algorithm\] feded needs notes that all sites may read: name them in \[public\]$"),
        ({"algorithm": {"name": "fedavg"}}, r"^\[public\] is not used by fedavg; leave it out$"),
        ({"task": {"relations": None}}, r"^\[task\] a task of kind relations needs its relations: name each type in "),
        ({"task": {"kind": "relation"}}, r"^\[task\] kind is 'relation' – did you mean 'relations'\?; it can be ner, "),
        ({"task": {"negatives": -0.5}}, r"^\[task\] negatives is -0.5; it must be zero or above$"),
        (
            {"algorithm": {"precision": "top-k", "predictions": "logits"}},
            r"^\[algorithm\] precision top-k .*: set predictions to pro",
        ),
        ({"algorithm": {"temperature": 0}}, r"^\[algorithm\] temperature is 0.0; it must be above zero$"),
        ({"algorithm": {"teacher_weight": 0}}, r"^\[algorithm\] teacher_weight is 0.0; it must be above zero"),
        ({"algorithm": {"distillation_epochs": 0}}, r"^\[algorithm\] distillation_epochs is 0; it must be above zero$"),
        (
            {"algorithm": {"site_models": "owns"}},
            r"^\[algorithm\] site_models is 'owns' – did you mean 'own'\?; it can be central",
        ),
        ({"model": {"shared": ["all"]}}, r"^\[model\] shared cannot be set for feded"),
        ({"public": {"built_in": "harbour"}}, r"^\[public\] names a built-in hospital and data; keep one of them$"),
        ({"public": {"format": None}}, r"^\[public\] names data; it needs a format as well$"),
        (
            {"algorithm": {"precision": "float16"}, "privacy": {"mechanism": "masked", "minimum_sites": 3}},
            r"^\[algorithm\] precision float16 needs mechanism plain; under masked every number is packed the same$",
        ),
        ({"sites": {"east": {"encoder": "minilm"}}}, r'^\[sites.east\] encoder: .* feded with site_models = "own"$'),
        (
            {"public": None, "algorithm": {"name": "fedavg"}, "sites": {"west": {"encoder": "minilm"}}},
            r'^\[sites.west\] encoder: sites with encoders of their own cannot share layers; .* site_models = "own"$',
        ),
    ],
    ids=str,
)
def test_invalid_studies_are_refused(sections: dict[str, Any], said: str, data: Path) -> None:
    with pytest.raises(StudyError, match=said):
        distilled(data, **sections)


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"public": {"sha256": "0" * 64}}, r"^\[public\] holds other documents than the study was made with"),
        ({"public": {"data": "/secret/ward/notes.jsonl"}}, r"^\[public\] data: notes.jsonl does not exist$"),
        ({"public": {"format": "jsnl"}}, r"^\[public\] format: 'jsnl' is not a format – did you mean 'jsonl'\?"),
        (
            {"public": {"built_in": "harbor", "data": None, "format": None}},
            r"^\[public\] built_in: no built-in hospital is called 'harbor' – did you mean 'harbour'\?",
        ),
    ],
    ids=str,
)
def test_missing_public_sets_are_refused_before_round_1(
    sections: dict[str, Any], said: str, data: Path, tmp_path: Path
) -> None:
    refused_before_round_1(distilled(data, **sections), said, tmp_path, secret=["secret", "/ward"])
    assert not events_of(tmp_path, "started")


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        (
            {"sites": {"east": {"types": ["Drug"]}}},
            r"\[sites.east\] types: a task of kind relations uses given entities and tags none; leave",
        ),
        (
            {"sites": {"east": {"scheme": "BIO"}}},
            r"\[sites.east\] scheme: a task of kind relations uses given entities and tags none; leave",
        ),
        ({"model": {"preset": "transfer"}}, r"\[model\] preset is for taggers; .* uses an encoder: leave"),
        (
            {"model": {"preset": "transfer", "encoder": None}, "task": {"kind": "joint"}},
            r"\[model\] preset is for taggers; a task of kind joint uses an encoder: leave it out$",
        ),
        (
            {"model": {"vectors": "glove.npz"}},
            r"\[model\] vectors is for taggers; .* encoder: leave it out$",
        ),
        (
            {"model": {"vectors": "glove.npz", "encoder": None}},
            r"\[model\] vectors is for taggers; a task of kind relations uses an encoder: leave it out$",
        ),
    ],
    ids=["types", "scheme", "preset", "preset of joint", "vectors", "vectors alone"],
)
def test_settings_without_effect_are_refused(sections: dict[str, Any], said: str, data: Path) -> None:
    with pytest.raises(StudyError, match=f"^{said}"):
        distilled(data, **sections)


def test_a_joint_study_uses_types_and_scheme(data: Path) -> None:
    sites = {name: {"types": ["Drug", "Effect"], "scheme": "BIOES"} for name in SITES}
    model = common_model(distilled(data, task={"kind": "joint"}, model={"decoder": "softmax"}, sites=sites))
    assert "S-Drug" in model.outputs


@pytest.mark.parametrize("clip", [0.5, 2.0])
def test_probabilities_have_one_clip(clip: float, data: Path) -> None:
    """Cut at less, rows add up to less than one; at far more, what rounding takes is no longer little."""
    privacy = {"mechanism": "masked", "minimum_sites": 3, "value_bounds": {"relations": clip}}
    with pytest.raises(
        StudyError, match=rf"^\[privacy\] value_bounds of relations is {clip}; feded sends numbers up to 1.0, wh"
    ):
        distilled(data, privacy=privacy)
    assert distilled(data, privacy={**privacy, "value_bounds": {"relations": 1.0}}).privacy.value_bounds == {
        "relations": 1.0
    }
    assert distilled(data, privacy=privacy, algorithm={"predictions": "logits"}).privacy.value_bounds == {
        "relations": clip
    }


# What stays at a site.


def planted(folder: Path, start: str) -> Study:
    """A study in which one site's training notes say something that must stay there."""
    write_notes(folder)
    plain = note("m", Random(1), related=True)
    secret = replace(plain, text=f"{plain.text[:-1]} {MARKER}.")
    Jsonl().write([secret, *related(5)], folder / "east" / "train.jsonl")
    return distilled(folder, algorithm={"site_models": start})


def assert_stays(folder: Path, said: str) -> None:
    words = [word for word in MARKER.split() if len(word) > 4]
    assert len(words) == 4
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_relative_to(folder / "sites" / "east"):
            content = path.read_bytes()
            assert [word for word in words if word.encode() in content] == [], path.name
    assert [word for word in words if word in said] == []


@STARTS
def test_a_sentence_stays_at_its_site(
    start: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    run(planted(tmp_path / "data", start), tmp_path / "run")
    captured = capfd.readouterr()
    assert_stays(tmp_path / "run", captured.out + captured.err + caplog.text)


@STARTS
def test_a_sentence_stays_where_it_is_also_when_training_fails_on_it(
    start: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def quote(model: Any, batch: Any) -> Any:
        raise ValueError(" ".join(part.words for example in batch for part in example.instance.text.parts))

    monkeypatch.setattr(relations, "batch_loss", quote)
    with pytest.raises(FederationError) as stopped:
        run(planted(tmp_path / "data", start), tmp_path / "run")
    captured = capfd.readouterr()
    assert "east failed ValueError" in str(stopped.value)
    assert "site=east step=train_and_predict failed: ValueError at" in caplog.text
    assert_stays(tmp_path / "run", captured.out + captured.err + caplog.text + str(stopped.value))
