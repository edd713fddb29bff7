"""Studies under differential privacy, on one machine and among sites that last."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.studies.protected_studies import Lasting, shielded
from tests.studies.tiny_studies import PUBLIC, Killed, Onlooker, events_of, run, scores_of, tensors_of

from wardround.algorithms.fedner import FedNer
from wardround.errors import FederationError, MessageError, StudyError
from wardround.federation.federation import Quorum
from wardround.federation.ledger import read_entries
from wardround.federation.message import Array, Message
from wardround.federation.site_runtime import PublicSet
from wardround.privacy import unit_noise
from wardround.studies.aggregation_setup import noise_of, payload_of, server_of
from wardround.studies.assemble import common_task, coordinator_of
from wardround.studies.site_policy import POLICY, read_site_policy
from wardround.studies.study_file import Study, parse_study, to_toml
from wardround.training.unit_gradients import UnitGradients

NOISE = {"epsilon": 8.0, "delta": 0.005, "clip": 1.0, "sampling_rate": 0.3}
ONE_TOP = {"east": {"types": ["Drug"]}, "west": {"scheme": "BIO"}}
EVERY_MECHANISM = pytest.mark.parametrize("mechanism", ["plain", "masked", "sealed", "sealed+masked"])


def private(folder: Path, mechanism: str = "masked", **sections: Mapping[str, Any] | None) -> Study:
    """A study of three sites that share every layer, under differential privacy."""
    noise = {**NOISE, **(sections.pop("noise", None) or {})}
    changes = dict(sections.pop("privacy", None) or {})
    return shielded(
        folder,
        mechanism,
        model=sections.pop("model", None) or {"shared": ["all"], "lstm": 0, "word_cnn": 16, "word_dimension": 8},
        sites=ONE_TOP,
        training={"clip": None, "batch_size": None, "learning_rate": 0.05},
        privacy={"smallest_batch": 0, "mechanism": mechanism, "differential_privacy": noise, **changes},
        **sections,
    )


def sum_noise(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Array]]:
    """Have units add nothing, so that a mean is noise; return the means that are stepped with."""
    means: list[dict[str, Array]] = []

    def nothing(self: UnitGradients, units: Any, clip: Any) -> dict[str, Array]:
        return {name: np.zeros(tuple(p.shape), np.int64) for name, p in self._parameters.items()}

    def step(self: FedNer, mean: Mapping[str, Array], values: Any) -> None:
        means.append({name: array.copy() for name, array in mean.items()})

    monkeypatch.setattr(UnitGradients, "clipped_sum", nothing)
    monkeypatch.setattr(FedNer, "step", step)
    return means


@EVERY_MECHANISM
def test_an_opened_sum_has_at_least_the_noise_that_is_claimed(
    mechanism: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = private(tmp_path / "notes", mechanism)
    means = sum_noise(monkeypatch)
    run(study, tmp_path / "run")
    plan = noise_of(study, payload_of(study, common_task(study), PublicSet()))
    assert plan is not None
    sums = np.concatenate([array.ravel() for mean in means for array in mean.values()]) * 3 / plan.unit
    assert len(sums) > 7_000
    claimed = (plan.multiplier * plan.integer_clip) ** 2
    honest = study.privacy.honest_sites
    assert honest == (2 if "masked" in mechanism else 1)
    # All three sites added noise; the promise counts the noise of the honest ones only.
    assert sums.var() == pytest.approx(3 * 4.0**plan.bits, rel=0.08)  # 994 numbers in 8 rounds: standard error 1.6%
    assert sums.var() * honest / 3 >= 0.95 * claimed
    assert abs(sums.mean()) < 5 * math.sqrt(3) * 2**plan.bits / math.sqrt(len(sums))
    if study.shared_at_sites:  # every copy stepped with the same means
        assert len({json.dumps({n: a.tolist() for n, a in mean.items()}) for mean in means}) == 8


def test_a_site_that_drops_out_does_not_lower_the_noise_below_the_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = private(tmp_path / "notes", privacy={"minimum_sites": 3})
    four = {**study.sites, "south": study.sites["north"]}
    study = parse_study(to_toml(study).replace("[sites.north]", "[sites.north]", 1))
    study = replace(study, sites=four)
    means = sum_noise(monkeypatch)
    federation = Lasting(study, tmp_path / "run")

    def meddle(name: str, step: str, message: Message, go: Any) -> Message:
        if name == "south" and step == "submit":
            raise MessageError("gone")
        return go(message)

    federation.meddle = meddle
    coordinator, server = parts_of(study, federation)
    records = list(coordinator.rounds(federation, server, Quorum(3)))
    assert {record.answered for record in records} == {3}
    plan = noise_of(study, payload_of(study, common_task(study), PublicSet()))
    assert plan is not None
    sums = np.concatenate([array.ravel() for mean in means for array in mean.values()]) * 3 / plan.unit
    # Two of the three sites that are left are honest.
    assert sums.var() * 2 / 3 >= 0.95 * (plan.multiplier * plan.integer_clip) ** 2


def parts_of(study: Study, federation: Lasting) -> tuple[Any, Any]:
    task = common_task(study)
    return coordinator_of(study, task), server_of(study, payload_of(study, task, PublicSet()), federation.protection)


def test_sealed_and_masked_sums_are_those_of_readable_updates(tmp_path: Path) -> None:
    """With the same secrets, the noise and the integers are the same under each mechanism that shares the noise."""
    found = {}
    for mechanism in ("masked", "sealed+masked"):
        study = private(tmp_path / "notes", mechanism)
        outcome = run(study, tmp_path / mechanism)
        found[mechanism] = (
            {name: site.main.micro for name, site in outcome.sites.items()},
            tensors_of(tmp_path / mechanism),
        )
    models = [
        {key: value for key, value in tensors.items() if "/model/" in key or ":model" in key}
        for _, tensors in found.values()
    ]
    assert models[0] and models[0] == models[1]
    assert found["masked"][0] == found["sealed+masked"][0]


def test_a_killed_study_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    study = private(tmp_path / "notes", "masked", evaluation={"every": 4})
    run(study, tmp_path / "whole")
    # On one machine a killed run repeats the rounds after its last checkpoint, and nothing of them has left.
    with pytest.raises(Killed):
        run(study, tmp_path / "cut", watcher=Onlooker(kill_after=3))
    run(study, tmp_path / "cut")
    left, right = (
        {k: v for k, v in tensors_of(tmp_path / name).items() if "state" not in k} for name in ("whole", "cut")
    )
    assert left == right
    assert scores_of(tmp_path / "whole") == scores_of(tmp_path / "cut")


def test_what_leaves_is_on_record_with_the_privacy_that_was_spent(tmp_path: Path) -> None:
    study = private(tmp_path / "notes", "masked")
    watcher = Onlooker()
    run(study, tmp_path / "run", watcher=watcher)
    spent = [record.figures["epsilon"] for record in watcher.rounds]
    assert spent == sorted(spent) and 7.9 < spent[-1] <= 8.0
    assert all(math.isnan(record.loss) for record in watcher.rounds)
    assert [event["figures"]["epsilon"] for event in events_of(tmp_path / "run", "round")] == spent
    entries = list(read_entries(tmp_path / "run" / "sites" / "east" / "ledger.jsonl"))
    training = [entry for entry in entries if entry.step == "gradient"]
    assert [entry.epsilon for entry in training] == spent
    for entry in training:
        assert set(entry.values) <= {"epsilon", "largest_by_group", "weight"}
        assert entry.weight == 1.0
    for entry in entries:
        assert entry.step != "submit" or set(entry.values) == {"exchange", "clipped", "vanished"}


def test_what_is_announced_does_not_depend_on_the_notes(tmp_path: Path) -> None:
    federation = Lasting(private(tmp_path / "notes", "masked"), tmp_path / "run")
    answers: list[tuple[str, Message]] = []

    def listen(name: str, step: str, message: Message, go: Any) -> Message:
        answer: Message = go(message)
        answers.append((step, answer))
        return answer

    federation.meddle = listen
    coordinator, server = parts_of(federation._study, federation)
    next(iter(coordinator.rounds(federation, server, Quorum(3))))
    for step, answer in answers:
        if step == "gradient":
            assert answer.values["largest_by_group"] == {} and not answer.arrays and "loss" not in answer.values
        if step == "submit":
            assert (answer.values["clipped"], answer.values["vanished"]) == (0, 0)
    assert {step for step, _ in answers} == {"describe", "gradient", "submit", "unmask"}


def test_a_budget_survives_a_restart_and_a_restore_and_a_question_asked_again_is_paid_again(tmp_path: Path) -> None:
    study = private(tmp_path / "notes", "plain")
    federation = Lasting(study, tmp_path / "run")
    site = federation.open("east")
    question = Message(
        {"round": 1, "rate": 0.05, "output_rate": 0.05, "decay": 0.0, "batch_size": 64, "clip": 0.0},
        {f"shared/{name}": p.detach().numpy() for name, p in site.shared.items()},
    )
    first = site.answer("gradient", question)
    one = first.values["epsilon"]
    federation.restart("east")  # as after kill -9: everything is on disk
    federation.open("east").answer("restore", Message({"round": 0}))
    again = federation.open("east").answer("gradient", question)
    assert again.values["epsilon"] > one  # type: ignore[operator]
    for name, array in first.arrays.items():
        assert (again.arrays[name] == array).all()  # the same question from the same state: the same bytes
    federation.restart("east")
    federation.open("east").answer("restore", Message({"round": 0}))
    other = federation.open("east").answer("gradient", Message({**question.values, "rate": 0.04}, question.arrays))
    assert all((other.arrays[name] != array).mean() > 0.9 for name, array in first.arrays.items() if array.size > 20)


def test_a_site_stops_at_its_own_budget_and_the_study_ends_with_the_model_it_has(tmp_path: Path) -> None:
    study = private(tmp_path / "notes", "masked")
    policies = tmp_path / "run" / "sites" / "east"
    policies.mkdir(parents=True)
    (policies / POLICY).write_text("[differential_privacy]\nepsilon = 4.0\n")
    budget = read_site_policy(policies).differential_privacy.epsilon
    assert budget == 4.0
    original = unit_noise.UnitNoise.__init__

    def strict(self: Any, plan: Any, history: Any, secret: Any, **options: Any) -> None:
        original(self, plan, history, secret, **{**options, "budget": budget})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unit_noise.UnitNoise, "__init__", strict)
        watcher = Onlooker()
        outcome = run(study, tmp_path / "run", watcher=watcher)
    assert 0 < outcome.rounds < 8
    assert watcher.rounds[-1].figures["epsilon"] <= 4.0
    assert watcher.said[-1].startswith(f"the study ends after round {outcome.rounds}: 0 of 3 sites answered")
    assert events_of(tmp_path / "run", "budget")[0]["round"] == outcome.rounds
    assert outcome.best_round == outcome.rounds or outcome.best_round > 0
    assert (tmp_path / "run" / "sites" / "east" / "model").is_dir()


LOCAL = {"name": "fedavg", "local_steps": 2, "rounds": 4}


TEACHERS = {"algorithm": {**LOCAL, "name": "feded"}, "public": PUBLIC}
ALL_WITH_SOFTMAX = {"shared": None, "decoder": "softmax", "lstm": 0, "word_cnn": 16, "word_dimension": 8}


@pytest.mark.parametrize(
    ("mechanism", "sections"),
    [
        ("plain", {"algorithm": LOCAL}),
        ("masked", {"algorithm": LOCAL}),
        ("plain", {**TEACHERS, "model": ALL_WITH_SOFTMAX}),
        ("masked", {**TEACHERS, "model": ALL_WITH_SOFTMAX}),
    ],
)
def test_local_steps_each_have_all_of_the_noise(
    mechanism: str, sections: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = private(tmp_path / "notes", mechanism, **sections)
    releases: list[Array] = []
    original = unit_noise.UnitNoise.noisy

    def nothing(self: UnitGradients, units: Any, clip: Any) -> dict[str, Array]:
        return {name: np.zeros(tuple(p.shape), np.int64) for name, p in self._parameters.items()}

    def listen(self: unit_noise.UnitNoise, sums: Mapping[str, Array]) -> dict[str, Array]:
        found = original(self, sums)
        releases.append(np.concatenate([array.ravel() for array in found.values()]))
        return found

    monkeypatch.setattr(UnitGradients, "clipped_sum", nothing)
    monkeypatch.setattr(unit_noise.UnitNoise, "noisy", listen)
    watcher = Onlooker()
    run(study, tmp_path / "run", watcher=watcher)
    plan = noise_of(study, payload_of(study, common_task(study), PublicSet()))
    assert plan is not None and (plan.per_round, plan.releases, plan.shared) == (2, 8, False)
    assert len(releases) == 3 * 8  # sites, rounds times steps
    assert len({release.tobytes() for release in releases}) == len(releases)
    for release in releases:  # one site's noise alone carries the promise
        assert release.std() >= 0.9 * plan.multiplier * plan.integer_clip  # 994 numbers: standard error 2.2%
    assert 7.9 < watcher.rounds[-1].figures["epsilon"] <= 8.0
    assert all(math.isnan(record.loss) for record in watcher.rounds)


def test_local_steps_of_fedavg_learn_and_are_the_textbooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the noise switched off by hand, two steps are those of AdamW along the clipped sums."""
    study = private(tmp_path / "notes", "plain", algorithm=LOCAL)
    site = Lasting(study, tmp_path / "run").open("east")
    sums: list[dict[str, Array]] = []

    def exact(self: unit_noise.UnitNoise, found: Mapping[str, Array]) -> dict[str, Array]:
        sums.append({name: array.astype(np.int32) for name, array in found.items()})
        self._step += 1
        return sums[-1]

    monkeypatch.setattr(unit_noise.UnitNoise, "noisy", exact)
    start = {name: p.detach().clone() for name, p in site.shared.items()}
    question = {
        **{"round": 1, "rate": 0.05, "output_rate": 0.05, **study.training.constant_settings()},
        **study.algorithm.config.constant_settings(),
    }
    arrays = {f"shared/{name}": p.numpy().copy() for name, p in start.items()}
    answer = site.answer("train", Message(question, arrays))
    assert len(sums) == 2 and site.unit_privacy is not None
    by_hand = {name: p.clone().requires_grad_() for name, p in start.items()}
    optimizer = torch.optim.AdamW(by_hand.values(), lr=0.05, weight_decay=0.0)
    for found in sums:
        for name, p in by_hand.items():
            p.grad = torch.from_numpy((found[name] * site.unit_privacy.plan.unit).astype(np.float32))
        optimizer.step()
    for name, p in by_hand.items():
        update = answer.arrays[next(key for key in answer.arrays if key.endswith(name))]
        np.testing.assert_allclose(update, (p.detach() - start[name]).numpy(), atol=2e-6)
    assert "loss" not in answer.values and answer.values["weight"] == 1.0


def test_another_number_of_local_steps_than_the_account_has_is_refused(tmp_path: Path) -> None:
    study = private(tmp_path / "notes", "plain", algorithm=LOCAL)
    site = Lasting(study, tmp_path / "run").open("east")
    site.request_policy = None  # which would refuse it too
    question = {
        **{"round": 1, "rate": 0.05, "output_rate": 0.05, "decay": 0.0, "batch_size": 64, "clip": 0.0},
        **{**study.algorithm.config.constant_settings(), "steps": 3},
    }
    with pytest.raises(MessageError, match="another number of steps"):
        site.answer("train", Message(question, {f"shared/{n}": p.detach().numpy() for n, p in site.shared.items()}))
    assert site.history.released == 2  # paid before anything is computed, whatever follows


@pytest.mark.parametrize("unit", ["note", "sentence"])
def test_a_study_with_either_unit_announces_units(unit: str, tmp_path: Path) -> None:
    study = private(tmp_path / "notes", "plain", noise={"unit": unit})
    site = Lasting(study, tmp_path / "run").open("east")
    assert site.answer("describe", Message()).values["examples"] == (12 if unit == "note" else len(site.notes.train))
    assert len(site.notes.train) > 12


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"algorithm": {"name": "fedatt"}}, "fedatt needs more of each site's update than the sum of all"),
        ({"algorithm": {"name": "fedprox"}}, "fedprox with these settings does not clip the gradient of each sentence"),
        ({"algorithm": {"local_steps": 2}}, "fedner with these settings does not clip"),
        ({"algorithm": {"name": "fedavg"}}, "fedavg with these settings does not clip"),
        ({"algorithm": {"name": "pooled"}, "model": {"shared": None}}, "pooled with these settings"),
        (
            {
                **TEACHERS,
                "algorithm": {"name": "feded", "local_steps": 2, "site_models": "own"},
                "model": {"shared": None},
            },
            "feded with these settings does not clip",
        ),
        ({"privacy": {"error_feedback": True}}, "error_feedback would add to an update what its noise does not cover"),
        ({"privacy": {"value_bounds": {"words": 1.0}}}, "value_bounds follow from the clip and the noise"),
        ({"privacy": {"smallest_batch": 4}}, "smallest_batch belongs to batches of a fixed size"),
        ({"training": {"clip": 5.0}}, r"set \[training\] clip to 0"),
        ({"noise": {"honest_sites": 3}}, "has at most 2 whose noise no reader knows"),
        ({"privacy": {"mechanism": "sealed", "scheme": "ckks"}}, "scheme ckks adds approximately; use bfv"),
    ],
)
def test_what_would_break_the_promise_is_refused(changes: dict[str, Any], expected: str, tmp_path: Path) -> None:
    training = {"clip": None, "batch_size": None, **changes.pop("training", {})}
    noise = {**NOISE, **changes.pop("noise", {})}
    privacy = {"smallest_batch": 0, "differential_privacy": noise, **changes.pop("privacy", {})}
    with pytest.raises(StudyError, match=expected):
        shielded(
            tmp_path, privacy.get("mechanism", "masked"), privacy=privacy, training=training, sites=ONE_TOP, **changes
        )


def test_private_layers_are_refused_before_round_one(tmp_path: Path) -> None:
    study = private(tmp_path / "notes", "plain")
    split = replace(study, model=replace(study.model, shared=("words", "word_cnn")))
    with pytest.raises(StudyError, match=r"the layers .*output.* would be private: trained without noise"):
        run(split, tmp_path / "run")


def test_a_delta_above_one_over_the_units_is_refused_before_round_one(tmp_path: Path) -> None:
    with pytest.raises(FederationError, match="cannot resume from round 0: StudyError"):  # a site refuses to open
        run(private(tmp_path / "notes", "plain", noise={"delta": 0.2}), tmp_path / "one")
    with pytest.raises(Exception, match="delta must be at most one over that number"):
        run(private(tmp_path / "notes", "plain", noise={"delta": 0.025}), tmp_path / "two")


def test_the_study_file_keeps_its_digest_without_the_section_and_round_trips_with_it(tmp_path: Path) -> None:
    study = private(tmp_path / "notes", "masked")
    assert parse_study(to_toml(study)) == study
    assert study.training.clip == 0.0
    plain = shielded(tmp_path / "plain", "masked")
    assert "differential_privacy" not in to_toml(plain)
