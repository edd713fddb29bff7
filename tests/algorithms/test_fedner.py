from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.algorithms.hospitals import ALL_SHARED, CALM, NOTES, SHAKEN, Listening, site

from wardround.algorithms.fedner import FedNer, FedNerConfig, batch_share, gradient
from wardround.errors import FederationError, MessageError, TrainingError
from wardround.federation.coordinator import Round
from wardround.federation.federation import Absence, Federation, Quorum, Replies, Reply, SiteId, Traffic
from wardround.federation.message import Array, Message, Value, decode, encode, grouped
from wardround.federation.site_runtime import RequestPolicy, Site
from wardround.secure_aggregation.plain import PlainServer, PlainUpdates
from wardround.tasks.ner import batch_loss
from wardround.text.tag_sets import TagSet
from wardround.training.training_config import RoundTrainingConfig

CONFIG = FedNerConfig(rounds=6)
TRAINING = RoundTrainingConfig(batch_size=8, learning_rate=0.01)
PLAIN = PlainUpdates()
STEP: dict[str, Value] = {"rate": 0.01, "output_rate": 0.01, "decay": 0.0, "clip": 5.0}


class Fixed:
    """Sites of known sizes that give the same gradient of one parameter `w` in every round."""

    def __init__(self, sizes: Mapping[SiteId, int], replies: Mapping[SiteId, Message]) -> None:
        self.sites: Sequence[SiteId] = tuple(sizes)
        self.sizes, self.replies = sizes, replies
        self.questions: list[Message] = []
        self.absent: set[SiteId] = set()
        self.living: list[int] = []  # replies alive when the next is made
        self._made: list[weakref.ref[Message]] = []

    def ask(self, step: str, message: Message, *, to: Sequence[SiteId] | None = None) -> Replies:
        if step == "gradient":
            self.questions.append(decode(encode(message)))  # fixed when asked
        return self._answers(step, self.sites if to is None else to)

    def _answers(self, step: str, to: Sequence[SiteId]) -> Iterator[Reply]:
        for name in to:
            self.living.append(sum(made() is not None for made in self._made))
            if name in self.absent:
                yield Reply(name, None, Traffic(), Absence.LATE, "late")
            elif step == "describe":
                yield Reply(name, Message({"examples": self.sizes[name]}), Traffic())
            else:
                reply = replace(self.replies[name])
                self._made.append(weakref.ref(reply))
                yield Reply(name, reply, Traffic())
                del reply


def sealed(numbers: Sequence[float], *, weight: float, loss: float) -> Message:
    message = PLAIN.seal({"w": np.array(numbers, np.float32)}, weight=weight)
    return replace(message, values={**message.values, "loss": loss})


def two_sites() -> Fixed:
    """Eq. 2: ¾·[4, 0] + ¼·[0, -8] = [3, -2]; the loss ¾·1 + ¼·5 = 2."""
    replies = {"large": sealed([4, 0], weight=30.0, loss=1.0), "small": sealed([0, -8], weight=10.0, loss=5.0)}
    return Fixed({"large": 30, "small": 10}, replies)


def server(config: FedNerConfig = CONFIG, training: RoundTrainingConfig = TRAINING) -> FedNer:
    return FedNer({"w": np.zeros(2, np.float32)}, config, training)


def start(hospital: Site) -> dict[str, Array]:
    return {name: parameter.detach().numpy().copy() for name, parameter in hospital.shared.items()}


def train(coordinator: FedNer, federation: Federation, rounds: int | None = None, *, least: int = 1) -> list[Round]:
    done = []
    for record in coordinator.rounds(federation, PlainServer(PLAIN), Quorum(least)):
        done.append(record)
        if len(done) == rounds:
            break
    return done


def figures(rounds: Sequence[Round]) -> list[tuple[int, float]]:
    """All but the seconds."""
    return [(record.number, record.loss) for record in rounds]


def same(left: Mapping[str, Array], right: Mapping[str, Array]) -> bool:
    return left.keys() == right.keys() and all(np.array_equal(left[name], right[name]) for name in left)


def private(hospital: Site) -> dict[str, Array]:
    return {name: parameter.detach().numpy().copy() for name, parameter in hospital.private.items()}


def question(hospital: Site, *, number: int = 1, **changes: Value) -> Message:
    sizes: dict[str, Value] = {hospital.name: len(hospital.notes.train)}
    values: dict[str, Value] = {"round": number, "sizes": sizes, "batch_size": 4, **STEP}
    return Message(values | changes, grouped("shared", start(hospital)))


def code(hospital: Site, message: Message) -> str:
    with pytest.raises(MessageError) as refused:
        hospital.answer("gradient", message)
    return refused.value.code


def shared_among(hospital: Site, others: Value, *, batch_size: int = 8, **named: Any) -> int:
    sizes: Value = {hospital.name: 18, "hill": others} if others is not None else {"hill": 18}
    return batch_share(hospital, Message({"sizes": sizes, "batch_size": batch_size}), **named)


def test_a_site_draws_its_share_of_the_batch(tmp_path: Path) -> None:
    assert shared_among(site(tmp_path / "6"), 6) == 6  # 18 / 24 · 8
    assert shared_among(site(tmp_path / "54"), 54) == 2
    assert shared_among(site(tmp_path / "many"), 10_000) == 1  # 0.01 sentences would teach nothing
    assert shared_among(site(tmp_path / "floor"), 10_000, fewest=4) == 4
    for others, batch_size in ((6, 0), (0, 8), (-3, 8), (2.5, 8), ("6", 8), (None, 8)):
        with pytest.raises(MessageError, match=r"^sizes"):
            shared_among(site(tmp_path / "refused"), others, batch_size=batch_size)


def test_announced_sizes_must_be_this_sites_and_those_of_the_rounds_before(tmp_path: Path) -> None:
    hospital = site(tmp_path, request_policy=RequestPolicy(6, names=frozenset({"harbour", "hill", "river"})))
    shared_among(hospital, 6)
    for sizes in ({"harbour": 17, "hill": 6}, {"harbour": 18, "hill": 60_000}, {"harbour": 18, "stranger": 5}):
        with pytest.raises(MessageError, match=r"^sizes"):
            batch_share(hospital, Message({"sizes": sizes, "batch_size": 8}))
    more = {"harbour": 18, "hill": 6, "river": 12}  # a site that came later
    assert batch_share(hospital, Message({"sizes": more, "batch_size": 8})) == 4
    again = site(tmp_path, request_policy=hospital.request_policy)  # the process was started again
    with pytest.raises(MessageError, match=r"^sizes"):
        shared_among(again, 7)


def test_the_share_is_what_a_site_trains_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hospital = site(tmp_path)  # 18 sentences
    drawn: list[int] = []
    whole = hospital.next_batch
    monkeypatch.setattr(hospital, "next_batch", lambda size, fewest: drawn.append(size) or whole(size))
    reply = gradient(hospital, question(hospital, sizes={"harbour": 18, "hill": 54}, batch_size=8))
    assert drawn == [2]  # 18 / 72 · 8
    assert reply.value("weight", float) == 18.0


def test_the_mean_gradient_is_weighted_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator, seen = server(), []
    monkeypatch.setattr(coordinator, "step", lambda mean, values: seen.append(mean))
    record = train(coordinator, two_sites(), 1)[0]
    assert [gradient["w"].tolist() for gradient in seen] == [[3.0, -2.0]]
    assert (record.number, record.loss, record.answered, record.absent) == (1, 2.0, 2, ())


def test_the_shared_half_steps_against_the_mean_gradient() -> None:
    coordinator = server(replace(CONFIG, rounds=2), replace(TRAINING, learning_rate=0.5))
    federation = two_sites()
    train(coordinator, federation)
    # Adam under a constant gradient steps by the rate against its sign: α, then half of it, for the rate goes down.
    assert coordinator.arrays()["w"].tolist() == pytest.approx([-0.75, 0.75], abs=1e-6)
    assert [q.values for q in federation.questions] == [
        {"round": number, "sizes": {"large": 30, "small": 10}, "batch_size": 8, "clip": 5.0}
        | {"rate": rate, "output_rate": rate, "decay": 0.0}
        for number, rate in ((1, 0.5), (2, 0.25))
    ]
    assert federation.questions[0].group("shared")["w"].tolist() == [0, 0]


def test_a_mean_gradient_is_clipped_to_its_norm() -> None:
    for clip, expected in ((1.0, [0.6, 0.8]), (0.0, [3.0, 4.0])):
        coordinator = server(training=replace(TRAINING, clip=clip))
        coordinator.step({"w": np.array([3, 4], np.float32)}, {})
        assert coordinator.shared["w"].grad is not None
        assert coordinator.shared["w"].grad.tolist() == pytest.approx(expected, abs=1e-5)


def test_the_mean_is_over_the_sites_that_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator, seen, federation = server(), [], two_sites()
    monkeypatch.setattr(coordinator, "step", lambda mean, values: seen.append(mean))
    rounds = coordinator.rounds(federation, PlainServer(PLAIN), Quorum(1))
    next(rounds)
    federation.absent = {"large"}
    assert next(rounds).loss == 5.0
    assert seen[1]["w"].tolist() == [0.0, -8.0]
    assert federation.questions[1].values["sizes"] == {"large": 30, "small": 10}  # |N_i| stays what it was


def test_a_site_that_joins_late_takes_part_from_then_on() -> None:
    coordinator, federation = server(), two_sites()
    federation.absent = {"large"}
    rounds = coordinator.rounds(federation, PlainServer(PLAIN), Quorum(1))
    assert next(rounds).loss == 5.0
    federation.absent = set()
    assert next(rounds).loss == 2.0
    sizes = [q.values["sizes"] for q in federation.questions]
    assert sizes == [{"small": 10}, {"large": 30, "small": 10}]


def test_too_few_sites_stop_the_round_and_change_nothing() -> None:
    coordinator, federation = server(), two_sites()
    federation.absent = {"large"}
    with pytest.raises(FederationError, match=r"1 of 2 sites answered; .* at least 2 \(large late late\)"):
        train(coordinator, federation, least=2)
    assert coordinator.number == 0
    assert coordinator.arrays()["w"].tolist() == [0, 0]


@pytest.mark.parametrize(
    "bad",
    [
        PLAIN.seal({"w": np.ones(2, np.float32)}, weight=30.0),  # no loss
        sealed([1, 2, 3], weight=30.0, loss=1.0),
        Message({"weight": 30.0, "loss": 1.0}, grouped("update", {"v": np.ones(2, np.float32)})),
        Message({"weight": 30.0, "loss": 1.0}, grouped("update", {"w": np.full(2, np.nan, np.float32)})),
    ],
    ids=["loss", "shape", "name", "nan"],
)
def test_a_site_with_an_invalid_answer_is_absent_from_the_round(bad: Message) -> None:
    coordinator, federation = server(), two_sites()
    federation.replies = {**federation.replies, "large": bad}
    assert train(coordinator, federation, 1)[0].loss == 5.0


def test_the_coordinator_never_holds_all_replies() -> None:
    sizes = {f"h{number}": 10 for number in range(20)}
    federation = Fixed(sizes, {name: sealed([1, 1], weight=10.0, loss=1.0) for name in sizes})
    train(server(), federation, 2)
    assert max(federation.living) <= 1


def test_invalid_settings_are_refused() -> None:
    for name, wrong in (("rounds", 0), ("local_steps", 0), ("participation", 0.0), ("participation", 1.5)):
        with pytest.raises(TrainingError, match=f"^{name} is "):
            replace(CONFIG, **{name: wrong})  # type: ignore[arg-type]
    with pytest.raises(TrainingError, match="nothing to train together"):
        FedNer({}, CONFIG, TRAINING)


def test_broadcast_arrays_do_not_change_later() -> None:
    coordinator = server()
    before = coordinator.arrays()
    train(coordinator, two_sites(), 1)
    assert before["w"].tolist() == [0, 0]


def test_one_site_that_shares_everything_is_plain_adam(tmp_path: Path) -> None:
    training = replace(TRAINING, batch_size=5, clip=0.0)
    by_hand = site(tmp_path / "hand", config=ALL_SHARED)
    assert not by_hand.private
    coordinator = FedNer(start(by_hand), CONFIG, training)
    train(coordinator, Listening(["harbour"], lambda name: site(tmp_path, name, config=ALL_SHARED)))
    optimizer = torch.optim.Adam(by_hand.model.parameters())
    by_hand.model.train()
    for number in range(6):
        optimizer.param_groups[0]["lr"] = 0.01 * (6 - number) / 6
        optimizer.zero_grad()
        batch_loss(by_hand.model, by_hand.next_batch(5)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    for name, array in coordinator.arrays().items():
        np.testing.assert_allclose(array, start(by_hand)[name], rtol=0, atol=1e-6, err_msg=name)


def test_two_equal_sites_are_like_one(tmp_path: Path) -> None:
    def trained(names: Sequence[str]) -> tuple[dict[str, Array], list[float], Site]:
        federation = Listening(names, lambda name: site(tmp_path / str(len(names)), name))
        # Whole epochs as batches, for sites of different names draw in different orders.
        training = replace(TRAINING, batch_size=18 * len(names))
        coordinator = FedNer(start(site(tmp_path / "start")), FedNerConfig(rounds=4), training)
        losses = [record.loss for record in train(coordinator, federation)]
        return coordinator.arrays(), losses, federation.opened[names[-1]]

    (one, losses_of_one, alone), (two, losses_of_two, second) = trained(["harbour"]), trained(["harbour", "hill"])
    assert losses_of_two == pytest.approx(losses_of_one, rel=1e-5)
    assert losses_of_one[-1] < losses_of_one[0]
    for mine, theirs in ((one, two), (private(alone), private(second))):
        for name, array in mine.items():
            np.testing.assert_allclose(array, theirs[name], rtol=0, atol=2e-5, err_msg=name)


def test_private_halves_differ_and_the_shared_half_is_the_same(tmp_path: Path) -> None:
    documents = {"harbour": NOTES[:4], "hill": NOTES[3:]}
    federation = Listening(list(documents), lambda name: site(tmp_path, name, documents=documents[name]))
    coordinator = FedNer(start(site(tmp_path / "start")), CONFIG, TRAINING)
    train(coordinator, federation)
    message = Message({}, grouped("shared", coordinator.arrays()))
    assert all(reply.absence is None for reply in federation.ask("score", message))
    one, two = federation.opened["harbour"], federation.opened["hill"]
    assert same(start(one), start(two)) and same(start(one), coordinator.arrays())
    assert all(not np.array_equal(array, private(two)[name]) for name, array in private(one).items())


def test_sites_may_tag_in_other_schemes_and_other_types_and_nothing_private_is_sent(tmp_path: Path) -> None:
    def open_site(name: SiteId) -> Site:
        if name == "harbour":
            return site(tmp_path, name, types=TagSet(("Drug",)))
        return site(tmp_path, name, config=replace(CALM, scheme="BIOES"))

    federation = Listening(["harbour", "hill"], open_site)
    first = start(site(tmp_path / "start"))
    coordinator = FedNer(first, replace(CONFIG, rounds=40), replace(TRAINING, batch_size=36))
    losses = [record.loss for record in train(coordinator, federation, least=2)]
    assert losses[-1] < losses[0] / 4
    federation.tell("save", 40)
    message = Message({}, grouped("shared", coordinator.arrays()))
    assert all(reply.absence is None for step in ("score", "finish") for reply in federation.ask(step, message))
    harbour, hill = federation.opened["harbour"], federation.opened["hill"]
    # O, B-Drug, I-Drug; O and four prefixes of two types
    assert [len(harbour.model.tags), len(hill.model.tags)] == [3, 9]
    shared = set(harbour.shared)
    tables = {name for name in shared if name in ("words.weight", "characters.embedding.weight")}
    assert federation.names == {
        *(f"{part}/{name}" for part in ("shared", "update") for name in shared),
        *(f"rows/{name}" for name in tables),  # of tables only the rows that the batch touched
    }
    assert not shared & set(hill.private) and {"output.weight", "output.bias"} <= set(hill.private)


@pytest.mark.parametrize("open_at_once", [1, 16])
def test_a_restored_training_equals_an_uninterrupted_one(tmp_path: Path, open_at_once: int) -> None:
    names = ["harbour", "hill"]

    def opened(folder: str) -> Listening:
        def open_site(name: SiteId) -> Site:
            # Another start each: only what is restored can make the halves equal.
            return site(tmp_path / folder, name, config=SHAKEN, model_seed=seeds[folder])

        return Listening(names, open_site, open_at_once=open_at_once)

    seeds = {"whole": 0, "cut": 0}
    shared = start(site(tmp_path / "start", config=SHAKEN))
    whole, federation = FedNer(shared, CONFIG, TRAINING), opened("whole")
    expected = train(whole, federation)
    federation.close()

    cut, first = FedNer(shared, CONFIG, TRAINING), opened("cut")
    assert figures(train(cut, first, 3)) == figures(expected[:3])
    first.tell("save", 3)
    cut.save(tmp_path / "coordinator.safetensors")
    train(cut, first, 1)  # a round that is lost in the crash
    seeds["cut"] = 9
    resumed = FedNer({name: array * 0 for name, array in shared.items()}, CONFIG, TRAINING)
    second = opened("cut")
    resumed.restore(tmp_path / "coordinator.safetensors")
    second.tell("restore", 3)
    assert figures(train(resumed, second)) == figures(expected[3:])
    second.close()
    assert same(resumed.arrays(), whole.arrays())
    for name in names:
        ends = [site(tmp_path / folder, name, config=SHAKEN, model_seed=3).state() for folder in ("whole", "cut")]
        assert ends[0].keys() == ends[1].keys()
        assert all(torch.equal(ends[0][key], ends[1][key]) for key in ends[0])


def test_a_coordinator_refuses_the_state_of_another_model(tmp_path: Path) -> None:
    FedNer({"v": np.zeros(2, np.float32)}, CONFIG, TRAINING).save(tmp_path / "c.safetensors")
    with pytest.raises(TrainingError, match="another model"):
        server().restore(tmp_path / "c.safetensors")


def test_a_restored_coordinator_knows_sizes_of_sites_that_are_away(tmp_path: Path) -> None:
    coordinator, federation = server(), two_sites()
    train(coordinator, federation, 1)
    coordinator.save(tmp_path / "c.safetensors")
    resumed = server()
    resumed.restore(tmp_path / "c.safetensors")
    federation.absent = {"large"}
    assert figures(train(resumed, federation, 1)) == [(2, 5.0)]
    assert federation.questions[-1].values["sizes"] == {"large": 30, "small": 10}


def test_a_site_that_missed_rounds_takes_part_again(tmp_path: Path) -> None:
    federation = Listening(["harbour", "hill"], lambda name: site(tmp_path, name))
    coordinator = FedNer(start(site(tmp_path / "start")), CONFIG, TRAINING)
    train(coordinator, federation, 2)
    hill = federation.opened["hill"]
    federation.close()
    federation.missing = {"hill"}
    train(coordinator, federation, 2)
    assert hill.round == 2
    federation.missing = set()
    train(coordinator, federation, 1, least=2)
    back = federation.opened["hill"]
    assert (back.round, back.batches_drawn) == (5, 3)
    assert not same(private(back), private(hill))


def test_dropout_of_a_round_does_not_depend_on_what_was_done_before(tmp_path: Path) -> None:
    def loss(folder: str, *, number: int, noise: int) -> float:
        hospital = site(tmp_path / folder, config=SHAKEN)
        torch.manual_seed(noise)
        return gradient(hospital, question(hospital, number=number)).value("loss", float)

    assert loss("a", number=3, noise=1) == loss("b", number=3, noise=2)
    assert loss("c", number=4, noise=1) != loss("a", number=3, noise=1)


def test_the_sparse_gradient_of_an_embedding_equals_the_dense_one(tmp_path: Path) -> None:
    hospital, whole = site(tmp_path / "rows"), site(tmp_path / "whole")
    answer = gradient(hospital, question(hospital))
    whole.model.train()
    batch_loss(whole.model, whole.next_batch(4)).backward()  # type: ignore[no-untyped-call]
    running = PLAIN.sum()
    running.add(answer)
    opened = running.total()
    for name, parameter in whole.shared.items():
        assert parameter.grad is not None
        np.testing.assert_allclose(opened[name], parameter.grad.numpy(), rtol=0, atol=1e-7, err_msg=name)
    rows = answer.arrays["rows/words.weight"]
    assert rows.tolist() == np.flatnonzero(whole.shared["words.weight"].grad.numpy().any(axis=1)).tolist()
    assert hospital.model.words.sparse is False  # as it was, for the next who trains it


def test_an_invalid_request_is_refused(tmp_path: Path) -> None:
    hospital = site(tmp_path)
    assert code(hospital, question(hospital, sizes={"harbour": 3})) == "sizes"
    assert code(hospital, question(hospital, batch_size=0)) == "sizes"
    assert code(hospital, question(hospital, rate="fast")) == "value-missing"
    assert code(hospital, Message(question(hospital).values)) == "shapes"
    assert hospital.batches_drawn == 0


def test_a_site_answers_a_round_once(tmp_path: Path) -> None:
    hospital = site(tmp_path)
    gradient(hospital, question(hospital, number=2))
    before = private(hospital)
    for number in (1, 2):
        assert code(hospital, question(hospital, number=number)) == "round"
    assert same(private(hospital), before)
    gradient(hospital, question(hospital, number=5))
    assert hospital.round == 5


@pytest.mark.parametrize("where", ["loss", "private gradient", "shared gradient"])
def test_gradients_that_are_not_finite_are_refused_before_any_step(tmp_path: Path, where: str) -> None:
    hospital = site(tmp_path)
    names = {"private gradient": "output.weight", "shared gradient": next(iter(hospital.shared))}
    if where == "loss":
        hospital.model.loss = lambda inputs, tags: hospital.model.output.weight.sum() * float("nan")  # type: ignore
    else:
        parameter = dict(hospital.model.named_parameters())[names[where]]
        parameter.register_hook(lambda gradient: gradient * float("inf"))
    before = private(hospital)
    assert code(hospital, question(hospital)) == "not-a-number"
    assert same(private(hospital), before)
    assert hospital.round == 0


@pytest.mark.parametrize("step", ["gradient", "train_share"])
def test_a_share_below_the_smallest_batch_is_raised_to_it(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """18 of 144 sentences: 1 of a batch of 8. A coordinator that makes sizes up gets nothing smaller than 2."""
    hospital = site(tmp_path, request_policy=RequestPolicy(6, {"batch_size": 8}, smallest_batch=2))
    drawn: list[int] = []
    whole = hospital.next_rows
    monkeypatch.setattr(hospital, "next_rows", lambda size, **more: drawn.append(size) or whole(size, **more))
    sizes = {"harbour": 18, "hill": 126}
    hospital.answer(step, question(hospital, batch_size=8, sizes=sizes, steps=1))
    assert (hospital.round, hospital.batches_drawn, drawn) == (1, 1, [2])


def test_with_several_local_steps_no_single_gradient_is_sent(tmp_path: Path) -> None:
    hospital = site(tmp_path, request_policy=RequestPolicy(6, FedNerConfig(local_steps=2).constant_settings()))
    assert code(hospital, question(hospital)) == "policy"
    assert hospital.batches_drawn == 0
    hospital.answer("train_share", question(hospital, steps=2))
    assert hospital.batches_drawn == 2


def test_shared_output_layers_step_at_their_own_rate() -> None:
    start = {"w": np.zeros(1, np.float32), "output.weight": np.zeros(1, np.float32)}
    training = RoundTrainingConfig(learning_rate=0.1, output_learning_rate=0.01, schedule="constant", clip=0.0)
    for output, expected in ((["output.weight"], [-0.1, -0.01]), ([], [-0.1, -0.1])):
        coordinator = FedNer(start, CONFIG, training, output=output)
        coordinator.step({name: np.ones(1, np.float32) for name in start}, {})
        # Adam's first step is the rate itself.
        assert [a.item() for a in coordinator.arrays().values()] == pytest.approx(expected, abs=1e-6)
