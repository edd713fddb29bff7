from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.algorithms.hospitals import ALL_SHARED, CALM, NOTES, SHAKEN, Listening, site

from wardround.algorithms import fedatt, fedavg, fedprox, single
from wardround.algorithms.fedatt import FedAtt, FedAttConfig, attention
from wardround.algorithms.fedavg import FedAvg, FedAvgConfig, add
from wardround.algorithms.fedprox import FedProx, FedProxConfig
from wardround.algorithms.single import Single
from wardround.errors import MessageError, TrainingError
from wardround.federation.coordinator import Coordinator, Round
from wardround.federation.federation import Quorum
from wardround.federation.message import Array, Message, Value, grouped
from wardround.federation.site_runtime import RequestPolicy, Site, Step
from wardround.secure_aggregation.plain import PlainServer
from wardround.tasks.ner import batch_loss
from wardround.training.training_config import RoundTrainingConfig

TRAINING = RoundTrainingConfig(batch_size=5, learning_rate=0.01, clip=0.0, schedule="constant")
TWO = {"harbour": NOTES[:4], "hill": NOTES[3:]}  # 12 and 9 sentences


def arrays(hospital: Site) -> dict[str, Array]:
    return {name: parameter.detach().numpy().copy() for name, parameter in hospital.shared.items()}


def two_sites(folder: Path, steps: Mapping[str, Step], *, config: object = CALM) -> Listening:
    return Listening(
        list(TWO), lambda name: site(folder, name, documents=TWO[name], steps=steps, config=config), open_at_once=16
    )


def run(coordinator: Coordinator, federation: Listening) -> list[Round]:
    return list(coordinator.rounds(federation, PlainServer(), Quorum(1)))


def question(hospital: Site, **changes: Value) -> Message:
    values: dict[str, Value] = {
        "round": 1,
        "steps": 2,
        "epochs": 1,
        "keep_moments": True,
        "batch_size": 5,
        "rate": 0.01,
        "output_rate": 0.01,
        "decay": 0.0,
        "clip": 0.0,
    }
    return Message(values | changes, grouped("shared", arrays(hospital)))


def trained_by_hand(hospital: Site, steps: int, *, pull: float = 0.0) -> None:
    """Adam over the whole model, as a textbook has it."""
    optimizer = torch.optim.Adam(hospital.model.parameters(), lr=0.01)
    start = {name: parameter.detach().clone() for name, parameter in hospital.shared.items()}
    hospital.model.train()
    for _ in range(steps):
        optimizer.zero_grad()
        loss = batch_loss(hospital.model, hospital.next_batch(5))
        if pull:
            loss = loss + pull / 2 * sum(((p - start[n]) ** 2).sum() for n, p in hospital.shared.items())
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def close(left: Mapping[str, Array], right: Mapping[str, Array]) -> None:
    assert left.keys() == right.keys()
    for name, array in left.items():
        np.testing.assert_allclose(array, right[name], rtol=0, atol=1e-6, err_msg=name)


def test_the_shared_half_moves_by_the_weighted_mean(tmp_path: Path) -> None:
    start = arrays(site(tmp_path / "start"))
    coordinator = FedAvg(start, FedAvgConfig(rounds=1, local_steps=3), TRAINING)
    run(coordinator, two_sites(tmp_path, fedavg.ALGORITHM.site_steps))
    ends = {}
    for name, documents in TWO.items():
        by_hand = site(tmp_path / "hand", name, documents=documents)
        trained_by_hand(by_hand, 3)
        ends[name] = arrays(by_hand)
    mean = {name: (12 * ends["harbour"][name] + 9 * ends["hill"][name]) / 21 for name in start}
    close(coordinator.arrays(), mean)


def test_zero_local_steps_mean_one_epoch(tmp_path: Path) -> None:
    hospital = site(tmp_path, steps=fedavg.ALGORITHM.site_steps)  # 18 sentences, in batches of five
    hospital.answer("train", question(hospital, steps=0))
    assert hospital.batches_drawn == 4


def test_an_update_is_the_change_of_the_shared_half(tmp_path: Path) -> None:
    hospital = site(tmp_path, steps=fedavg.ALGORITHM.site_steps)
    before = arrays(hospital)
    answer = hospital.answer("train", question(hospital))
    weight = answer.value("weight", float)
    assert weight == 18.0
    for name, update in answer.group("update").items():
        np.testing.assert_allclose(before[name] + update / weight, arrays(hospital)[name], atol=1e-6)


def test_the_server_rate_scales_the_mean() -> None:
    shared = {"w": torch.tensor([1.0, 2.0])}
    add(shared, {"w": np.array([4, -4], np.float32)}, rate=0.5)
    assert shared["w"].tolist() == [3.0, 0.0]


def test_both_halves_keep_their_optimizer_between_rounds(tmp_path: Path) -> None:
    start = arrays(site(tmp_path / "start", config=ALL_SHARED))
    coordinator = FedAvg(start, FedAvgConfig(rounds=2, local_steps=2), TRAINING)
    federation = Listening(
        ["harbour"],
        lambda name: site(tmp_path, name, config=ALL_SHARED, steps=fedavg.ALGORITHM.site_steps),
        open_at_once=1,
    )
    run(coordinator, federation)
    by_hand = site(tmp_path / "hand", config=ALL_SHARED)
    trained_by_hand(by_hand, 4)  # one site that gives all its way is a training without interruption
    close(coordinator.arrays(), arrays(by_hand))


def test_without_kept_moments_every_round_starts_with_a_fresh_optimizer(tmp_path: Path) -> None:
    start = arrays(site(tmp_path / "start", config=ALL_SHARED))
    coordinator = FedAvg(start, FedAvgConfig(rounds=2, local_steps=2, keep_moments=False), TRAINING)
    federation = Listening(
        ["harbour"],
        lambda name: site(tmp_path, name, config=ALL_SHARED, steps=fedavg.ALGORITHM.site_steps),
        open_at_once=1,
    )
    run(coordinator, federation)
    by_hand, kept = (site(tmp_path / place, config=ALL_SHARED) for place in ("hand", "kept"))
    for _ in range(2):
        trained_by_hand(by_hand, 2)  # each with an Adam that remembers nothing
    close(coordinator.arrays(), arrays(by_hand))
    trained_by_hand(kept, 4)
    assert any(not np.allclose(array, arrays(kept)[name], atol=1e-4) for name, array in coordinator.arrays().items())
    stepper = federation.opened["harbour"].shared_optimizer
    assert not stepper.state()  # nothing of it is written to disk


def test_the_proximal_term_pulls_back(tmp_path: Path) -> None:
    start = arrays(site(tmp_path / "start"))
    training = replace(TRAINING, clip=0.0)
    coordinator = FedProx(start, FedProxConfig(rounds=1, local_steps=4, proximal=2.0), training)
    federation = Listening(["harbour"], lambda name: site(tmp_path, name, steps=fedprox.ALGORITHM.site_steps))
    run(coordinator, federation)
    by_hand = site(tmp_path / "hand")
    trained_by_hand(by_hand, 4, pull=2.0)
    close(coordinator.arrays(), arrays(by_hand))
    free = site(tmp_path / "free")
    trained_by_hand(free, 4)
    assert any(not np.allclose(coordinator.arrays()[name], array, atol=1e-4) for name, array in arrays(free).items())


def test_attention_is_a_softmax_over_sites_of_each_layer() -> None:
    found = attention({"a": np.array([0.0, 1.0]), "b": np.array([np.log(3), 1.0])})
    np.testing.assert_allclose(found["a"], [0.25, 0.5])
    np.testing.assert_allclose(found["b"], [0.75, 0.5])
    huge = attention({"a": np.array([1e4]), "b": np.array([0.0])})
    assert huge["a"].tolist() == [1.0]  # without overflow


def test_a_layer_that_changed_more_has_more_attention(tmp_path: Path) -> None:
    start = arrays(site(tmp_path / "start"))
    coordinator = FedAtt(start, FedAttConfig(rounds=1, local_steps=3, server_rate=0.5), TRAINING)
    record = run(coordinator, two_sites(tmp_path, fedatt.ALGORITHM.site_steps))[0]
    ways = {}
    for name, documents in TWO.items():
        by_hand = site(tmp_path / "hand", name, documents=documents)
        trained_by_hand(by_hand, 3)
        ways[name] = {layer: array - start[layer] for layer, array in arrays(by_hand).items()}
    for layer, array in coordinator.arrays().items():
        norms = np.array([np.linalg.norm(ways[name][layer]) for name in TWO])
        shares = np.exp(norms) / np.exp(norms).sum()
        expected = start[layer] + 0.5 * sum(s * ways[n][layer] for s, n in zip(shares, TWO, strict=True))
        np.testing.assert_allclose(array, expected, rtol=0, atol=2e-6, err_msg=layer)
    assert np.isfinite(record.loss)


def test_attention_is_normalised_again_if_a_site_drops_out_between_the_exchanges(tmp_path: Path) -> None:
    class Leaving(Listening):
        def ask(self, step, message, *, to=None):  # type: ignore[no-untyped-def]
            if step == "give_attended":
                self.missing = {"hill"}
                self.close()
            return super().ask(step, message, to=to)

    start = arrays(site(tmp_path / "start"))
    coordinator = FedAtt(start, FedAttConfig(rounds=1, local_steps=3), TRAINING)
    federation = Leaving(
        list(TWO), lambda name: site(tmp_path, name, documents=TWO[name], steps=fedatt.ALGORITHM.site_steps)
    )
    record = run(coordinator, federation)[0]
    assert [gone.site for gone in record.absent] == ["hill"]
    by_hand = site(tmp_path / "hand", documents=TWO["harbour"])
    trained_by_hand(by_hand, 3)
    close(coordinator.arrays(), arrays(by_hand))


def test_an_update_is_sent_once_and_only_in_its_round(tmp_path: Path) -> None:
    hospital = site(tmp_path, steps=fedatt.ALGORITHM.site_steps)
    layers = len(hospital.shared)

    def refused(message: Message) -> str:
        with pytest.raises(MessageError) as error:
            hospital.answer("give_attended", message)
        return error.value.code

    share = Message({"round": 1, "attention": {"harbour": [1.0] * layers}})
    assert refused(share) == "round"
    hospital.answer("train_and_hold", question(hospital))
    hospital.close()
    hospital = site(tmp_path, steps=fedatt.ALGORITHM.site_steps)  # what is held survives
    assert refused(Message({"round": 2, "attention": {"harbour": [1.0] * layers}})) == "round"
    for wrong in (
        {"hill": [1.0] * layers},
        {"harbour": [1.0]},
        {"harbour": [2.0] * layers},
        {"harbour": ["1"] * layers},
    ):
        assert refused(Message({"round": 1, "attention": wrong})) == "value"
    hospital.answer("give_attended", share)
    assert refused(share) == "round"


def test_a_site_under_single_sends_only_its_loss(tmp_path: Path) -> None:
    config = replace(CALM, shared=())
    federation = two_sites(tmp_path, single.ALGORITHM.site_steps, config=config)
    records = run(Single({}, FedAvgConfig(rounds=3, local_steps=2), TRAINING), federation)
    assert [record.number for record in records] == [1, 2, 3]
    assert federation.names == set()
    by_hand = site(tmp_path / "hand", config=config, documents=TWO["harbour"])
    trained_by_hand(by_hand, 6)
    hospital = federation.opened["harbour"]
    for name, parameter in by_hand.private.items():
        torch.testing.assert_close(hospital.private[name], parameter, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("step", "steps"),
    [
        ("train", fedavg.ALGORITHM.site_steps),
        ("train_near", fedprox.ALGORITHM.site_steps),
        ("train_and_hold", fedatt.ALGORITHM.site_steps),
        ("train_alone", single.ALGORITHM.site_steps),
    ],
)
def test_a_training_that_fails_halfway_changes_nothing(
    tmp_path: Path, step: str, steps: Mapping[str, Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(SHAKEN, shared=()) if step == "train_alone" else SHAKEN
    hospital = site(tmp_path, config=config, steps=steps)
    hospital.answer(step, question(hospital, proximal=0.1))
    before = {name: tensor.clone() for name, tensor in hospital.state().items()}
    losses = iter([1.0, float("nan")])
    whole = hospital.model.loss
    monkeypatch.setattr(hospital.model, "loss", lambda inputs, tags: whole(inputs, tags) * next(losses))
    with pytest.raises(MessageError) as refused:
        hospital.answer(step, question(hospital, round=2, proximal=0.1))
    assert refused.value.code == "not-a-number"
    after = hospital.state()
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())


@pytest.mark.parametrize("changes", [{"batch_size": 0}, {"steps": -1}, {"proximal": 0.0}, {"proximal": -1.0}])
def test_an_invalid_request_is_refused(tmp_path: Path, changes: dict[str, Value]) -> None:
    hospital = site(tmp_path, steps={**fedavg.ALGORITHM.site_steps, **fedprox.ALGORITHM.site_steps})
    with pytest.raises(MessageError) as refused:
        hospital.answer("train_near", question(hospital, **({"proximal": 1.0} | changes)))
    assert refused.value.code == "value"
    assert hospital.batches_drawn == 0


def test_invalid_settings_are_refused() -> None:
    for settings in ({"local_steps": -1}, {"server_rate": 0.0}, {"rounds": 0}):
        with pytest.raises(TrainingError, match=f"^{next(iter(settings))} is "):
            FedAvgConfig(**settings)  # type: ignore[arg-type]
    with pytest.raises(TrainingError, match=r"^proximal is 0"):
        FedProxConfig(proximal=0.0)


def test_requests_match_the_request_policy_of_a_site() -> None:
    coordinator = FedProx({}, FedProxConfig(local_steps=3, proximal=0.5), replace(TRAINING, weight_decay=0.25))
    held = {**coordinator.training.constant_settings(), **coordinator.config.constant_settings()}
    local: dict[str, Value] = {"steps": 3, "epochs": 1, "keep_moments": True, "proximal": 0.5}
    assert held == {"batch_size": 5, "clip": 0.0, "decay": 0.25, **local}
    asked = coordinator.local_settings()
    assert asked == {**held, "rate": 0.01, "output_rate": 0.01}


@pytest.mark.parametrize(("name", "value"), [("steps", 1), ("proximal", 2.0), ("decay", 0.5)])
def test_a_site_refuses_settings_other_than_the_studys(tmp_path: Path, name: str, value: Value) -> None:
    request_policy = RequestPolicy(
        3, {**TRAINING.constant_settings(), **FedProxConfig(local_steps=2, proximal=1.0).constant_settings()}
    )
    hospital = site(tmp_path, steps=fedprox.ALGORITHM.site_steps, request_policy=request_policy)
    with pytest.raises(MessageError) as refused:
        hospital.answer("train_near", question(hospital, **({"proximal": 1.0} | {name: value})))
    assert refused.value.code == "policy"
    assert (hospital.round, hospital.batches_drawn) == (0, 0)
    hospital.answer("train_near", question(hospital, proximal=1.0))
    assert hospital.batches_drawn == 2
