from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.algorithms.clinics import (
    CALM,
    NAMES,
    OWN,
    PUBLIC,
    SHAPES,
    SIZES,
    TRAINING,
    Case,
    Clinics,
    Net,
    assert_nothing_is_stepped,
    cases,
    furthest,
    giving,
    measurements,
    plain_mean,
    same,
)
from tests.algorithms.wards import changing, codes
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

from wardround.algorithms.feded import ALGORITHM, FedEdConfig
from wardround.algorithms.public_only import PublicConfig
from wardround.errors import TrainingError
from wardround.federation.coordinator import Absent
from wardround.federation.federation import Absence
from wardround.federation.message import Array, Message, grouped
from wardround.secure_aggregation.predictions import PlainPredictions

STARTS = pytest.mark.parametrize("config", [CALM, OWN], ids=["central", "own"])

# Algorithm 1 in plain torch. Every batch is all there is, so that the order in which examples are drawn is no matter.


def labels(batch: Sequence[Case]) -> dict[str, Tensor]:
    organs = [organ for case in batch for organ in case.organs]
    return {"diseases": torch.tensor([case.disease for case in batch]), "organs": torch.tensor(organs)}


def step(model: Net, optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    clip_grad_norm_(model.parameters(), TRAINING.clip)
    optimizer.step()


def local_update(central: Net, train: Sequence[Case], config: FedEdConfig, rate: float) -> Net:
    """LocalUpdate(k, Θ): E epochs of Eq. 3."""
    model = deepcopy(central)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    right, rows = labels(train), measurements(train)
    for _ in range(config.local_epochs):
        losses = [cross_entropy(model(head, rows[head]), right[head]) for head in rows if len(rows[head])]
        step(model, optimizer, torch.stack(losses).sum())
    return model


def ensemble(models: Sequence[Net], config: FedEdConfig) -> dict[str, Tensor]:
    """q of Eq. 4 over the mean of Eq. 5."""
    found = {}
    with torch.no_grad():
        for head, rows in measurements(PUBLIC).items():
            if config.predictions == "logits":
                mean = torch.stack([model(head, rows) for model in models]).mean(0)
                found[head] = (mean / config.temperature).softmax(-1)
            else:
                mean = torch.stack([model(head, rows).softmax(-1) for model in models]).mean(0)
                powers = mean ** (1 / config.temperature)
                found[head] = powers / powers.sum(-1, keepdim=True)
    return found


def student_loss(model: Net, teacher: Mapping[str, Tensor], config: FedEdConfig) -> Tensor:
    """Eq. 6, of both heads."""
    total, right = torch.zeros(()), labels(PUBLIC)
    for head, rows in measurements(PUBLIC).items():
        log_p, q = model(head, rows).log_softmax(-1), teacher[head]
        told = -log_p[torch.arange(len(q)), right[head]].mean()
        taught = (q * (q.log() - log_p)).sum(-1).mean()
        total = total + config.label_weight * told + config.teacher_weight * taught
    return total


def by_hand(config: FedEdConfig, drawn: Sequence[Sequence[str]]) -> Net:
    """The central model after some rounds among these sites."""
    central = Net()
    for number, sites in enumerate(drawn, start=1):
        rate = TRAINING.learning_rate * (config.rounds - number + 1) / config.rounds
        locals_ = [local_update(central, cases(SIZES[name], name), config, rate) for name in sites]
        teacher = ensemble(locals_, config)
        optimizer = torch.optim.Adam(central.parameters(), lr=rate)
        for _ in range(config.distillation_epochs):
            step(central, optimizer, student_loss(central, teacher, config))
    return central


def weights(model: Net) -> dict[str, Array]:
    return {name: tensor.detach().numpy() for name, tensor in model.named_parameters()}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"temperature": 2.0},
        {"temperature": 0.5, "predictions": "logits"},
        {"local_epochs": 5, "distillation_epochs": 1},
        {"label_weight": 0.25, "teacher_weight": 3.0},
        {"label_weight": 0.0},
        {"local_steps": 4, "local_epochs": 4},  # with one batch an epoch, four of either
    ],
    ids=str,
)
def test_two_rounds_are_those_of_algorithm_1(changes: dict[str, Any], tmp_path: Path) -> None:
    config = replace(CALM, **changes)
    clinics = Clinics(tmp_path, config=config)
    clinics.run(2)
    expected = by_hand(config, [NAMES, NAMES])
    assert furthest(clinics.central(), weights(expected)) < 1e-5
    assert furthest(weights(Net()), weights(expected)) > 0.01  # it went somewhere


def test_a_site_more_or_less_would_show(tmp_path: Path) -> None:
    clinics = Clinics(tmp_path)
    clinics.run()
    assert furthest(clinics.central(), weights(by_hand(CALM, [NAMES[:3]]))) > 1e-4


def test_only_the_sampled_sites_train(tmp_path: Path) -> None:
    config = replace(CALM, participation=0.5)
    clinics = Clinics(tmp_path, config=config)
    clinics.run(3)
    trained = [site for site, _ in clinics.answers("train_and_predict")]
    drawn = [trained[0:2], trained[2:4], trained[4:6]]
    assert len(trained) == 6
    assert furthest(clinics.central(), weights(by_hand(config, drawn))) < 1e-5


@pytest.mark.parametrize(("fraction", "expected"), [(0.001, 1), (0.1, 1), (0.3, 3), (0.6, 6), (1.0, 10)])
def test_a_fraction_of_the_sites_is_sampled_and_at_least_one(fraction: float, expected: int, tmp_path: Path) -> None:
    """m ← max(C × K, 1)."""
    names = [f"h{number}" for number in range(10)]

    def drawn(folder: str, seed: int) -> list[list[str]]:
        config = FedEdConfig(rounds=4, participation=fraction, local_epochs=1)
        clinics = Clinics(tmp_path / folder, config=config, names=names, seed=seed)
        records = clinics.run(4)
        assert [record.answered for record in records] == [expected] * 4
        asked = [site for site, _ in clinics.answers("train_and_predict")]
        return [asked[at : at + expected] for at in range(0, len(asked), expected)]

    first = drawn("first", 7)
    assert drawn("again", 7) == first
    if expected < 10:
        assert drawn("other", 8) != first
        assert len({tuple(sites) for sites in first}) > 1


def test_every_site_has_the_same_weight(tmp_path: Path) -> None:
    """Eq. 5 divides by |J|, although one site has two cases and another eight."""
    clinics = Clinics(tmp_path)
    clinics.run()
    given = dict(clinics.answers("train_and_predict"))
    assert same(clinics.mean(), plain_mean(given.values()))
    assert {answer.value("weight", float) for answer in given.values()} == {1.0}
    by_size = sum(SIZES[name] * answer.group("update")["diseases"] for name, answer in given.items()) / 18
    assert np.abs(clinics.mean()["diseases"] - by_size).max() > 0.01


# What crosses.


@STARTS
@pytest.mark.parametrize(
    ("precision", "arrays"),
    [
        ("float32", {"update/diseases": ("<f4", (6, 3)), "update/organs": ("<f4", (6, 2))}),
        ("float16", {"update/diseases": ("<f2", (6, 3)), "update/organs": ("<f2", (6, 2))}),
        (
            "top-k",
            {
                "update/diseases": ("<f2", (6, 2)),
                "update/organs": ("<f2", (6, 2)),
                "classes/diseases": ("|u1", (6, 2)),
                "classes/organs": ("|u1", (6, 2)),
            },
        ),
    ],
)
def test_nothing_but_predictions_leaves_a_site(
    config: FedEdConfig, precision: Any, arrays: dict[str, Any], tmp_path: Path
) -> None:
    clinics = Clinics(tmp_path, config=replace(config, precision=precision, top_k=2))
    clinics.run(3)
    for step_, _, _, answer in clinics.passed:
        found = {name: (array.dtype.str, array.shape) for name, array in answer.arrays.items()}
        assert found == (arrays if step_ == "train_and_predict" else {})
        expected = {"weight", "digest", "loss"} if step_ == "train_and_predict" else {"examples", "documents"}
        assert answer.values.keys() == expected
        assert not answer.blobs


def test_one_sites_halves_are_a_mean(tmp_path: Path) -> None:
    """Of 0.50036 and 0.49964, float16 makes 0.50049 and 0.49976: a quarter of a thousandth more than one."""
    clinics = Clinics(tmp_path, config=replace(OWN, precision="float16"), names=NAMES[:1])
    rows = np.array([[0.50036, 0.49964]] * 6, np.float32)
    halves = rows.astype(np.float16).astype(np.float32)
    assert halves.sum(axis=1) == pytest.approx([1.000244] * 6, abs=1e-6)
    plain = np.array([[1.0, 0.0, 0.0]] * 6, np.float32)
    sealed = clinics._plain().seal({"diseases": plain, "organs": rows}, weight=1.0)
    clinics.meddle = changing(
        "harbour", "train_and_predict", lambda answer: replace(sealed, values={**sealed.values, "loss": 1.0})
    )
    (first, second) = clinics.run(2)  # in the second, the site is told that mean
    assert (first.absent, second.absent) == ((), ())
    assert same({"organs": clinics.mean()["organs"]}, {"organs": halves})


def test_sites_receive_the_central_model(tmp_path: Path) -> None:
    clinics = Clinics(tmp_path)
    started = clinics.central()
    clinics.run(2)
    first, second = clinics.questions("train_and_predict")
    assert first.arrays.keys() == second.arrays.keys() == grouped("shared", started).keys()
    assert same(first.group("shared"), started)
    assert not same(second.group("shared"), started)


def test_sites_that_keep_their_models_receive_only_the_mean(tmp_path: Path) -> None:
    clinics = Clinics(tmp_path, config=OWN)
    told: list[dict[str, Array]] = []
    for _ in range(3):
        told.append(clinics.mean())
        clinics.run()
    asked = clinics.questions("train_and_predict")
    assert [set(question.arrays) for question in asked] == [set(), *[{"mean/diseases", "mean/organs"}] * 2]
    assert all(same(question.group("mean"), mean) for question, mean in zip(asked, told, strict=True))
    assert same(told[1], plain_mean([answer for _, answer in clinics.answers("train_and_predict")[:4]]))


def test_models_of_four_sizes_learn_from_one_another(tmp_path: Path) -> None:
    clinics = Clinics(tmp_path, config=OWN)
    clinics.run(4)
    sizes = {name: sum(p.numel() for p in clinics.sites[name].model.parameters()) for name in NAMES}
    assert len(set(sizes.values())) == 4
    assert not any(site.shared for site in clinics.sites.values())
    deaf = Clinics(tmp_path / "deaf", config=OWN)
    for _ in range(4):
        deaf.run()
        deaf.coordinator.load_optimizer_state({})  # of the round before nobody hears
    spread = [
        np.std([a.group("update")["diseases"] for _, a in c.answers("train_and_predict")[-4:]], axis=0).mean()
        for c in (clinics, deaf)
    ]
    assert spread[0] < 0.8 * spread[1]


# Labels of the public set.


def relabelled(public: Sequence[Case]) -> tuple[Case, ...]:
    """The same, every label another."""
    return tuple(
        replace(case, disease=(case.disease + 1) % 3, organs=tuple(1 - organ for organ in case.organs))
        for case in public
    )


@STARTS
def test_labels_of_an_unlabelled_set_change_nothing(config: FedEdConfig, tmp_path: Path) -> None:
    ends = {}
    for name, public, labelled in (
        ("right", PUBLIC, False),
        ("wrong", relabelled(PUBLIC), False),
        ("told", PUBLIC, True),
    ):
        clinics = Clinics(tmp_path / name, config=config, public=public, labelled=labelled)
        records = clinics.run(3)
        ends[name] = {**clinics.central(), **states(clinics)}
        assert ("diseases/teacher_accuracy" in records[-1].figures) == labelled
    assert same(ends["right"], ends["wrong"])
    assert not same(ends["right"], ends["told"])


@STARTS
def test_labels_without_weight_are_no_labels(config: FedEdConfig, tmp_path: Path) -> None:
    ends = []
    for name, public, labelled in (("unlabelled", PUBLIC, False), ("labelled", relabelled(PUBLIC), True)):
        weightless = replace(config, label_weight=0.0) if labelled else config
        clinics = Clinics(tmp_path / name, config=weightless, public=public, labelled=labelled)
        clinics.run(3)
        asked_alike = {key: part for key, part in states(clinics).items() if not key.endswith("/past")}
        ends.append({**clinics.central(), **asked_alike})
    assert same(*ends)


def states(clinics: Clinics) -> dict[str, Array]:
    """All that the coming rounds of the sites depend on."""
    return {
        f"{name}/{key}": tensor.numpy().copy()
        for name, site in clinics.sites.items()
        for key, tensor in site.state().items()
    }


# The public set alone.


def test_the_algorithm_public_asks_no_site_to_train(tmp_path: Path) -> None:
    clinics = Clinics(tmp_path, config=PublicConfig(rounds=4, public_epochs=2))
    (first, *_, last) = clinics.run(4)
    assert {step_ for step_, *_ in clinics.passed} == {"describe"}
    assert (last.answered, last.absent) == (0, ())
    assert last.loss < first.loss
    assert last.loss == last.figures["public_loss"]
    assert not any("teacher" in name or "agreement" in name for name in last.figures)
    model = Net()
    for number in range(1, 5):
        optimizer = torch.optim.Adam(model.parameters(), lr=TRAINING.learning_rate * (5 - number) / 4)
        for _ in range(2):
            rows, right = measurements(PUBLIC), labels(PUBLIC)
            losses = [cross_entropy(model(head, rows[head]), right[head]) for head in rows]
            step(model, optimizer, torch.stack(losses).sum())
    assert furthest(clinics.central(), weights(model)) < 1e-5


def test_the_algorithm_public_needs_labels(tmp_path: Path) -> None:
    """Before anybody is asked anything."""
    with pytest.raises(TrainingError, match=r"^the public set is not labelled, and the algorithm public learns from"):
        Clinics(tmp_path, config=PublicConfig(rounds=4), labelled=False)


# Bit for bit.


@STARTS
def test_the_same_seed_gives_the_same_bits(config: FedEdConfig, tmp_path: Path) -> None:
    ends = []
    for name, seed in (("one", 7), ("two", 7), ("other", 8)):
        torch.rand(3)  # what was drawn before is no matter
        clinics = Clinics(tmp_path / name, config=config, dropout=0.3, batch_size=4, seed=seed)
        clinics.run(3)
        ends.append({**clinics.central(), **states(clinics)})
    assert same(ends[0], ends[1])
    assert not same(ends[0], ends[2])


@STARTS
def test_an_interrupted_training_resumes_to_the_same_result(config: FedEdConfig, tmp_path: Path) -> None:
    whole = Clinics(tmp_path / "whole", config=config, dropout=0.3, batch_size=4)
    whole.run(4)
    cut = Clinics(tmp_path / "cut", config=config, dropout=0.3, batch_size=4)
    cut.run(2)
    said = cut.mean()
    cut.ask("save", Message({"round": 2}))
    cut.coordinator.save(tmp_path / "checkpoint.safetensors")
    cut.run()  # of which nobody hears any more
    again = Clinics(tmp_path / "cut", config=config, dropout=0.3, batch_size=4)
    again.coordinator.restore(tmp_path / "checkpoint.safetensors")
    again.ask("restore", Message({"round": 2}))
    assert again.coordinator.number == 2
    assert said and same(again.mean(), said)
    again.run(2)
    assert same(again.central(), whole.central())
    assert same(states(again), states(whole))


@STARTS
def test_sites_that_are_closed_between_rounds_end_the_same(config: FedEdConfig, tmp_path: Path) -> None:
    ends = []
    for name, count in (("all", 16), ("one", 1)):
        clinics = Clinics(tmp_path / name, config=config, dropout=0.3, batch_size=4, open_at_once=count)
        clinics.run(3)
        clinics.federation.close()
        ends.append({**clinics.central(), **states(clinics)})
    assert same(*ends)


# One site's predictions are none.


def changed(head: str, change: Callable[[Array], Array]) -> Callable[[dict[str, Array]], dict[str, Array]]:
    return lambda arrays: {**arrays, f"update/{head}": change(arrays[f"update/{head}"])}


def at(row: int, column: int, number: float) -> Callable[[Array], Array]:
    def change(rows: Array) -> Array:
        rows[row, column] = number
        return rows

    return change


def negative(rows: Array) -> Array:
    """Still adds up to one."""
    rows[2] = (-0.25, 0.25, 1.0)
    return rows


BAD: dict[str, tuple[Callable[[dict[str, Array]], Mapping[str, Array]], str]] = {
    "a row too many": (changed("diseases", lambda rows: np.vstack([rows, rows[:1]])), "shapes"),
    "a row too few": (changed("organs", lambda rows: rows[:-1]), "shapes"),
    "a class too many": (changed("organs", lambda rows: np.hstack([rows, 0 * rows[:, :1]])), "shapes"),
    "turned round": (changed("diseases", lambda rows: rows.T.copy()), "shapes"),
    "in one row": (changed("diseases", lambda rows: rows.reshape(-1)), "shapes"),
    "float64": (changed("diseases", lambda rows: rows.astype(np.float64)), "shapes"),
    "float16": (changed("diseases", lambda rows: rows.astype(np.float16)), "shapes"),
    "whole numbers": (changed("diseases", lambda rows: np.eye(6, 3, dtype=np.int64)), "shapes"),
    "half of a row": (changed("diseases", lambda rows: rows / 2), "sum"),
    "twice a row": (changed("organs", lambda rows: np.minimum(2 * rows, 1)), "sum"),
    "a row that misses one by a hundredth": (changed("diseases", lambda rows: rows * np.float32(0.99)), "sum"),
    "nothing": (changed("organs", np.zeros_like), "sum"),
    "NaN": (changed("diseases", at(3, 1, float("nan"))), "not-a-number"),
    "infinity": (changed("organs", at(0, 0, float("inf"))), "not-a-number"),
    "negative": (changed("diseases", negative), "range"),
    "above one": (changed("organs", at(5, 1, 1.5)), "range"),
    "a missing head": (lambda arrays: {"update/diseases": arrays["update/diseases"]}, "shapes"),
    "a head too many": (lambda arrays: {**arrays, "update/extra": arrays["update/organs"]}, "shapes"),
    "no head": (lambda arrays: {}, "shapes"),
    "its classes as of top-k": (lambda arrays: {**arrays, "classes/organs": np.zeros((6, 1), np.uint8)}, "shapes"),
    "rows that changed places": (changed("diseases", lambda rows: rows[::-1].copy()), "altered"),
}


@pytest.mark.parametrize(("name", "site"), [*((name, "riverside") for name in BAD), ("NaN", "harbour")])
def test_a_site_with_invalid_predictions_is_absent_from_the_mean(name: str, site: str, tmp_path: Path) -> None:
    change, code = BAD[name]
    clinics = Clinics(tmp_path, minimum=3)
    clinics.meddle = giving(site, change)
    (record,) = clinics.run()
    assert record.absent == (Absent(site, Absence.FAILED, code),)
    assert record.answered == 3
    others = [answer for other, answer in clinics.answers("train_and_predict") if other != site]
    assert same(clinics.mean(), plain_mean(others))
    expected = by_hand(CALM, [[other for other in NAMES if other != site]])
    assert furthest(clinics.central(), weights(expected)) < 1e-5


@pytest.mark.parametrize("name", ["a row too few", "half of a row", "NaN", "negative", "a missing head"])
def test_with_too_few_sites_left_the_round_fails_and_nothing_is_stepped(name: str, tmp_path: Path) -> None:
    change, code = BAD[name]
    clinics = Clinics(tmp_path, minimum=4)
    clinics.run()
    clinics.meddle = giving("hillside", change)
    said = rf"^3 of 4 sites answered; the study needs at least 4 \(hillside failed {code}\)$"
    assert_nothing_is_stepped(clinics, said)


@pytest.mark.parametrize("weight", [0.5, 2.0, 1e9])
@pytest.mark.parametrize("kind", ["plain", "masked", "sealed"])
def test_a_site_cannot_claim_a_larger_weight(weight: float, kind: str, tmp_path: Path) -> None:
    clinics = Clinics(tmp_path, kind, minimum=3)

    def heavier(answer: Message) -> Message:
        if kind != "plain":
            return replace(answer, values={**answer.values, "weight": weight})
        sealed = PlainPredictions(SHAPES).seal(answer.group("update"), weight=weight)
        return replace(sealed, values={**sealed.values, "loss": 1.0})

    clinics.meddle = changing("station", "train_and_predict", heavier)
    (record,) = clinics.run()
    assert codes(record) == [("station", "weight")]
    assert record.answered == 3


def test_a_site_with_an_invalid_loss_is_absent_from_the_round(tmp_path: Path) -> None:
    clinics = Clinics(tmp_path)
    clinics.meddle = changing(
        "harbour", "train_and_predict", lambda answer: replace(answer, values={**answer.values, "loss": "low"})
    )
    (record,) = clinics.run()
    assert codes(record) == [("harbour", "value-missing")]


def test_logits_must_be_finite_but_need_not_add_up_to_one(tmp_path: Path) -> None:
    config = replace(CALM, predictions="logits")
    clinics = Clinics(tmp_path, config=config)
    clinics.meddle = giving("harbour", changed("diseases", at(0, 0, float("-inf"))))
    (record,) = clinics.run()
    assert codes(record) == [("harbour", "not-a-number")]
    assert clinics.mean()["diseases"].min() < 0


# What a site is asked.


def test_a_site_is_not_asked_for_another_kind_of_prediction(tmp_path: Path) -> None:
    clinics = Clinics(tmp_path)
    assert set(clinics.ask("train_and_predict", clinics.question(1, given_as="labels")).values()) == {"value"}
    assert set(clinics.ask("open_mean", Message({"round": 1})).values()) == {"step"}


def test_a_site_that_starts_from_the_central_model_needs_it(tmp_path: Path) -> None:
    clinics = Clinics(tmp_path)
    bare = Message(clinics.question(1).values, grouped("mean", {"diseases": np.ones((6, 3), np.float32)}))
    assert set(clinics.ask("train_and_predict", bare).values()) == {"shapes"}


WRONG_TEACHERS: dict[str, tuple[Callable[[dict[str, Array]], Mapping[str, Array]], str]] = {
    "a row too few": (lambda mean: {**mean, "diseases": mean["diseases"][:-1]}, "shapes"),
    "a class too many": (lambda mean: {**mean, "organs": mean["diseases"]}, "shapes"),
    "float64": (lambda mean: {**mean, "organs": mean["organs"].astype(np.float64)}, "shapes"),
    "a missing head": (lambda mean: {"organs": mean["organs"]}, "shapes"),
    "a head too many": (lambda mean: {**mean, "extra": mean["organs"]}, "shapes"),
    "NaN": (lambda mean: {**mean, "organs": mean["organs"] * np.float32("nan")}, "not-a-number"),
    "nothing": (lambda mean: {**mean, "diseases": 0 * mean["diseases"]}, "sum"),
    "half of a row": (lambda mean: {**mean, "diseases": mean["diseases"] / 2}, "sum"),
    "a row that misses one by a hundredth": (lambda mean: {**mean, "organs": mean["organs"] * np.float32(0.99)}, "sum"),
    "below zero": (lambda mean: {**mean, "organs": mean["organs"] + np.float32([2, -2])}, "range"),
}


@pytest.mark.parametrize("name", list(WRONG_TEACHERS))
def test_an_invalid_teacher_leaves_the_site_unchanged(name: str, tmp_path: Path) -> None:
    change, code = WRONG_TEACHERS[name]
    clinics, honest = (Clinics(tmp_path / folder, config=OWN, dropout=0.3) for folder in ("one", "two"))
    clinics.run()
    honest.run()
    before = states(clinics)
    asked = clinics.question(2)
    wrong = replace(asked, arrays=grouped("mean", change({h: np.array(a) for h, a in asked.group("mean").items()})))
    assert set(clinics.ask("train_and_predict", wrong).values()) == {code}
    assert same(states(clinics), before)
    clinics.run()
    honest.run()
    assert same({**clinics.central(), **states(clinics)}, {**honest.central(), **states(honest)})


@STARTS
def test_a_site_that_fails_halfway_is_unchanged(config: FedEdConfig, tmp_path: Path) -> None:
    """It has learned from the others, and stepped once on its own notes, before its loss is lost."""
    clinics, honest = (Clinics(tmp_path / folder, config=config, dropout=0.3) for folder in ("one", "two"))
    clinics.run()
    honest.run()
    site, before = clinics.sites["station"], states(clinics)
    plain, steps = site.task.batch_loss, iter(range(2))
    site.task.batch_loss = lambda batch: plain(batch) * (1.0 if next(steps) == 0 else float("nan"))  # type: ignore[method-assign]
    assert clinics.ask("train_and_predict", clinics.question(2), to=["station"]) == {"station": "not-a-number"}
    assert same(states(clinics), before)
    site.task.batch_loss = plain  # type: ignore[method-assign]
    clinics.run()
    honest.run()
    assert same({**clinics.central(), **states(clinics)}, {**honest.central(), **states(honest)})


# Settings.


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"temperature": 0.0}, "^temperature is 0.0; it must be above zero"),
        ({"temperature": float("nan")}, "^temperature is nan; it must be above zero"),
        ({"teacher_weight": 0.0}, "^teacher_weight is 0.0; it must be above zero; to learn without sites, use the"),
        ({"teacher_weight": -1.0}, "^teacher_weight is -1.0; it must be above zero"),
        ({"teacher_weight": float("inf")}, "^teacher_weight is inf"),
        ({"label_weight": -0.5}, "^label_weight is -0.5; it must be zero or above"),
        ({"distillation_epochs": 0}, "^distillation_epochs is 0; it must be above zero"),
        ({"distillation_batch": -1}, "^distillation_batch is -1; it must be zero or above"),
        ({"precision": "top-k", "predictions": "logits"}, "^precision top-k .*: set predictions to probabilities$"),
        ({"precision": "top-k", "top_k": 0}, "^precision top-k sends the top_k likeliest classes of a row, at"),
        ({"local_epochs": 0}, "^local_epochs is 0; it must be above zero"),
        ({"participation": 0.0}, "^participation is 0.0; it is a fraction"),
    ],
    ids=str,
)
def test_invalid_settings_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(TrainingError, match=said):
        replace(CALM, **changes)


def test_only_predictions_in_full_can_be_packed() -> None:
    assert ALGORITHM.plain_only(CALM) == ""
    assert ALGORITHM.plain_only(replace(CALM, precision="float16")) == "precision float16"
    assert ALGORITHM.plain_only(replace(CALM, precision="top-k")) == "precision top-k"
    with pytest.raises(TrainingError, match=r"^public_epochs is 0; it must be above zero$"):
        PublicConfig(public_epochs=0)
