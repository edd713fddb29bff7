from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.algorithms.hospitals import ALL_SHARED, Listening
from tests.models.tiny import TYPES, notes
from torch import Tensor

from wardround.algorithms import fedavg, tagsets
from wardround.algorithms.fedavg import FedAvg, FedAvgConfig
from wardround.algorithms.tagsets import ALGORITHM, TARGETS, TagSets, TagSetsConfig, updated_weights
from wardround.errors import FederationError, MessageError, TrainingError
from wardround.federation.coordinator import Round
from wardround.federation.federation import Quorum, SiteId
from wardround.federation.message import Array, Message, Value, encode, grouped
from wardround.federation.site_runtime import RequestPolicy, Site, SiteNotes
from wardround.models.word_tagger import WordTagger
from wardround.secure_aggregation.plain import PlainClient, PlainServer, PlainUpdates
from wardround.tasks.completion import CompletedNer, TeacherLabels, UnknownLabelling
from wardround.tasks.ner import NerTask
from wardround.text.document import Document
from wardround.text.tag_sets import TagSet
from wardround.training.training_config import RoundTrainingConfig

DRUG, ADE = TagSet(("Drug",)), TagSet(("ADE",))
NOTES = notes(7)
TRAINING = RoundTrainingConfig(batch_size=5, learning_rate=0.002, clip=0.0, schedule="constant")
AT_ONCE = replace(TRAINING, batch_size=99)  # one mini-batch is all of a site's notes


@dataclass(frozen=True)
class Ward:
    """What a site annotates, and where it writes."""

    types: TagSet
    documents: Sequence[Document]


# 9, 6 and 6 sentences. A model that has learned nothing finds all sorts of things in them.
WARDS = {"harbour": Ward(DRUG, NOTES[:3]), "hill": Ward(ADE, NOTES[3:5]), "river": Ward(DRUG, NOTES[5:])}
TWO = {name: WARDS[name] for name in ("harbour", "hill")}


def network() -> WordTagger:
    torch.manual_seed(11)  # it finds both types at every site
    model = WordTagger(ALL_SHARED, TYPES)
    with torch.no_grad():
        model.output.weight.mul_(4.0)  # opinions to begin with
    return model


def opened(
    folder: Path, name: SiteId, ward: Ward | None = None, *, request_policy: RequestPolicy | None = None
) -> Site:
    ward = ward or WARDS[name]
    task = NerTask(network(), ward.types)
    held = SiteNotes(task.encode(ward.documents), ward.documents[:1], ward.documents[:1])
    steps = {**ALGORITHM.site_steps, **fedavg.ALGORITHM.site_steps}
    return Site(
        name,
        task,
        held,
        aggregation=PlainClient(folder / name),
        steps=steps,
        folder=folder / name,
        seed=7,
        request_policy=request_policy,
    )


def server(training: RoundTrainingConfig = TRAINING, **settings: Any) -> TagSets:
    """Of a study that believes its model from the first round on, unless told."""
    shared = {name: tensor.detach().numpy() for name, tensor in network().shared_parameters().items()}
    config = TagSetsConfig(**({"rounds": 5, "trusted_after": 0} | settings))
    return TagSets(shared, config, training, probe=network().probes.leaf_shape)


class Consortium(Listening):
    """Sites in this process; what they hold after each round is written down, and answers can get lost."""

    def __init__(self, folder: Path, wards: Mapping[SiteId, Ward] = TWO, *, open_at_once: int = 16) -> None:
        super().__init__(list(wards), lambda name: opened(folder, name, wards[name]), open_at_once=open_at_once)
        self.passed: list[tuple[str, int, SiteId, Message, Message]] = []
        self.held: dict[tuple[SiteId, int], dict[str, Tensor]] = {}

    def ask(self, step: str, message: Message, *, to: Sequence[SiteId] | None = None) -> Any:
        number = int(message.values.get("round", 0))  # type: ignore[arg-type]
        for reply in super().ask(step, message, to=to):
            if reply.message is not None:
                self.passed.append((step, number, reply.site, message, reply.message))
                self.held[reply.site, number] = {
                    n: t.clone() for n, t in self.opened[reply.site].algorithm_state.items()
                }
            yield reply

    def run(self, coordinator: TagSets, rounds: int) -> list[Round]:
        running = coordinator.rounds(self, PlainServer(), Quorum(1))
        return [next(running) for _ in range(rounds)]

    def weights(self, site: SiteId, number: int) -> list[float]:
        return [float(weight) for weight in self.held[site, number]["weights"]]

    def own(self, site: SiteId, number: int) -> Array:
        return self.held[site, number]["own"].double().numpy()

    def added(self, sites: Iterable[SiteId], number: int) -> Array:
        return np.asarray(np.sum([self.own(site, number) for site in sites], axis=0))

    def moved(
        self, site: SiteId, number: int, others: Array, *, before: Sequence[float], centre: float = 1.0
    ) -> list[float]:
        """Eq. 12 in plain numpy, from the gradients that a site held after a round."""
        found = []
        for weight, row in zip(before, self.held[site, number]["source"].double().numpy(), strict=True):
            cosine = (row * others).sum() / np.linalg.norm(row) / np.linalg.norm(others)
            found.append(0.9 * weight + 0.1 * (centre + cosine))
        return found


def state_of(site: Site) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in site.state().items()}


def same(left: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> bool:
    """Bit for bit."""
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def question(coordinator: TagSets, number: int, *, targets: Array | None = None, **values: Value) -> Message:
    told = {} if targets is None else {f"targets/{TARGETS}": targets}
    asked: dict[str, Value] = {**coordinator.local_settings(), "round": number, "targets_from": []}
    return Message(asked | values, grouped("shared", coordinator.shared_views()) | told)


# Settings.


def test_the_settings_of_the_paper() -> None:
    config = TagSetsConfig()
    assert (config.rounds, config.local_epochs, config.momentum) == (25, 1, 0.9)
    assert (config.unknown, config.weighting) == ("pseudo", True)
    assert TagSets.uniform_weights


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"trusted_after": -1}, r"^trusted_after is -1; it must be a number of rounds"),
        ({"rounds": 5}, r"^trusted_after is 5 of 5 rounds: no model would ever be used; lower it, or raise rounds$"),
        ({"outside": -0.1}, r"^outside is -0.1; it must be the weight of a loss, from 0 to 1$"),
        ({"outside": 1.1}, r"^outside is 1.1;"),
        ({"outside": float("nan")}, r"^outside is nan;"),
        (
            {"outside": 0.1, "trusted_after": 0},
            r"^outside applies to unlabelled words, and with these settings there are none",
        ),
        ({"outside": 0.1, "unknown": "outside", "weighting": False}, r"^outside applies to unlabelled words,"),
        ({"momentum": 1.0}, r"^momentum is 1.0; it must be at least 0 and below 1$"),
        ({"momentum": -0.1}, r"^momentum is -0.1;"),
        ({"rounds": 0}, r"^rounds is 0;"),
        *[
            ({"unknown": way}, f"^weighting needs .*unknown = {way!r}.*: set weighting = false$")
            for way in ("posterior", "partial", "outside")
        ],
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(TrainingError, match=said):
        TagSetsConfig(**settings)
    assert not TagSetsConfig(unknown="posterior", weighting=False, momentum=0.0, trusted_after=0).weighting


def test_requests_match_the_request_policy_of_a_site() -> None:
    config = TagSetsConfig(
        unknown="partial", weighting=False, trusted_after=3, outside=0.1, momentum=0.5, centred=False
    )
    assert config.constant_settings() == {
        **FedAvgConfig().constant_settings(),
        "unknown": "partial",
        "trusted_after": 3,
        "outside": 0.1,
        "weighting": False,
        "momentum": 0.5,
        "centred": False,
    }
    asked = TagSets({}, config, TRAINING).local_settings()
    assert asked == {**config.constant_settings(), **TRAINING.constant_settings(), "rate": 0.002, "output_rate": 0.002}


# Eq. 12.


def test_the_weights_of_two_sentences_by_hand() -> None:
    source = torch.tensor([[3.0, 4.0], [0.0, -2.0]])
    # Against (1, 0) the cosines are 3/5 and 0: 0.9 + 0.1 · 0.6, and 0.9.
    first = updated_weights(torch.ones(2), source, torch.tensor([1.0, 0.0]), momentum=0.9)
    assert first.tolist() == pytest.approx([0.96, 0.9])
    # Against (0, −5), however long it is, −4/5 and 1: 0.864 − 0.08, and 0.81 + 0.1.
    second = updated_weights(first, source, torch.tensor([0.0, -5.0]), momentum=0.9)
    assert second.tolist() == pytest.approx([0.784, 0.91])
    # Without momentum, the cosines themselves.
    assert updated_weights(first, source, torch.tensor([0.0, -5.0]), momentum=0.0).tolist() == pytest.approx(
        [-0.8, 1.0]
    )


def test_a_gradient_may_have_any_shape_and_none_is_orthogonal_to_all() -> None:
    source = torch.tensor([[[3.0], [4.0]], [[0.0], [0.0]]])
    found = updated_weights(torch.tensor([1.0, 0.5]), source.half(), torch.tensor([[2.0], [0.0]]), momentum=0.9)
    assert found.tolist() == pytest.approx([0.96, 0.45], abs=1e-3)


# The gradients of Eq. 11.


def test_gradients_are_those_of_each_sentence_on_its_own(tmp_path: Path) -> None:
    site, coordinator = opened(tmp_path, "harbour"), server()
    answer = site.answer("train_completed", question(coordinator, 1))
    model = network().eval()
    learner = CompletedNer(NerTask(model, DRUG), site.notes.train, "pseudo")
    taught = learner.teacher_labels()
    targets = []
    for row in range(9):
        with model.probes.leaves(1, model.device) as probe:
            losses = learner.losses([row], taught)
        source, target = (torch.autograd.grad(p.sum(), probe, retain_graph=True)[0][0] for p in losses[:2])
        torch.testing.assert_close(
            site.algorithm_state["source"][row].float(), source / source.norm(), atol=2e-3, rtol=0
        )
        targets.append(target)
    mean = torch.stack(targets).mean(0)
    assert mean.abs().max() > 1e-3
    torch.testing.assert_close(site.algorithm_state["own"], mean, atol=1e-5, rtol=1e-4)
    assert np.array_equal(answer.group("update")[TARGETS], site.algorithm_state["own"].numpy())
    assert answer.value("weight", float) == 1.0
    assert int(site.algorithm_state["compared"]) == 1
    assert isinstance(site.model, WordTagger) and site.model.probes.leaf is None


def test_gradients_are_compared_without_dropout(tmp_path: Path) -> None:
    compared = []
    for name, dropout in (("calm", 0.0), ("shaken", 0.5)):
        site = opened(tmp_path / name, "harbour")
        assert isinstance(site.model, WordTagger)
        site.model.input_dropout.p = site.model.dropout.p = dropout
        site.model.train()
        site.answer("train_completed", question(server(), 1))
        compared.append(site)
    assert all(
        torch.equal(compared[0].algorithm_state[name], compared[1].algorithm_state[name]) for name in ("source", "own")
    )
    ends = [dict(site.shared) for site in compared]
    assert not same(*ends)  # which training is not


def test_the_gradient_sent_with_an_update_is_within_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tagsets, "TARGET_BOUND", 1e-3)
    site = opened(tmp_path, "harbour")
    given = site.answer("train_completed", question(server(), 1)).group("update")[TARGETS]
    assert np.abs(given).max() == np.float32(1e-3)


def test_without_pseudo_annotations_no_gradients_are_compared(tmp_path: Path) -> None:
    site = opened(tmp_path, "harbour")
    answer = site.answer("train_completed", question(server(trusted_after=3), 1))
    given = answer.group("update")[TARGETS]
    assert given.shape == site.model.probes.leaf_shape and not given.any()
    assert site.algorithm_state.keys() == {"weights"}


@pytest.mark.parametrize("fewest", [1, 2])
def test_a_gradient_is_made_from_as_many_sentences_as_an_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fewest: int
) -> None:
    def one_mention(learner: CompletedNer) -> TeacherLabels:
        rows = [learner._local([row])[0].clone() for row in range(len(learner.sentences))]
        rows[0][0] = learner.model.tag_rows["B-ADE"]
        return TeacherLabels(tags=rows)

    monkeypatch.setattr(CompletedNer, "teacher_labels", one_mention)
    site = opened(tmp_path, "harbour", request_policy=RequestPolicy(5, smallest_batch=fewest, sites=2))
    given = site.answer("train_completed", question(server(), 1)).group("update")[TARGETS]
    assert given.any() == (fewest == 1)
    assert site.algorithm_state["own"].any() == (fewest == 1)


# The round trip.


def test_two_sites_are_weighted_by_the_gradient_of_the_other(tmp_path: Path) -> None:
    sites, coordinator = Consortium(tmp_path), server()
    sites.run(coordinator, 3)
    for site, count in (("harbour", 9), ("hill", 6)):
        other = {"harbour": "hill", "hill": "harbour"}[site]
        assert sites.weights(site, 1) == [1.0] * count  # nobody has compared anything
        expected = [1.0] * count
        for number in (2, 3):
            expected = sites.moved(site, number - 1, sites.own(other, number - 1), before=expected)
            assert sites.weights(site, number) == pytest.approx(expected, abs=1e-4)
        assert max(expected) - min(expected) > 0.01
    # What they were told in the last round is the mean of the one before, and so says the coordinator's memory.
    told = {(number, site): message for step, number, site, message, _ in sites.passed if step == "train_completed"}
    for site in sites.sites:
        mean = (sites.own("harbour", 2) + sites.own("hill", 2)) / 2
        np.testing.assert_allclose(told[3, site].group("targets")[TARGETS], mean, rtol=1e-5, atol=1e-8)
        assert told[3, site].values["targets_from"] == ["harbour", "hill"]
        assert told[1, site].values["targets_from"] == []
        assert not told[1, site].group("targets")


def test_weights_as_the_paper_has_them_follow_the_cosine_alone(tmp_path: Path) -> None:
    sites = Consortium(tmp_path)
    sites.run(server(centred=False), 2)
    for site, other in (("harbour", "hill"), ("hill", "harbour")):
        before = [1.0] * len(sites.weights(site, 1))
        expected = sites.moved(site, 1, sites.own(other, 1), before=before, centre=0.0)
        assert sites.weights(site, 2) == pytest.approx(expected, abs=1e-4)


def test_each_of_three_sites_subtracts_its_own_gradient(tmp_path: Path) -> None:
    sites = Consortium(tmp_path, WARDS)
    sites.run(server(), 2)
    for site in WARDS:
        others = sites.added([other for other in WARDS if other != site], 1)
        expected = sites.moved(site, 1, others, before=[1.0] * len(sites.weights(site, 1)))
        assert sites.weights(site, 2) == pytest.approx(expected, abs=1e-4)
        wrong = sites.moved(site, 1, sites.added(WARDS, 1), before=[1.0] * len(expected))
        assert sites.weights(site, 2) != pytest.approx(wrong, abs=1e-4)


def test_a_site_that_missed_a_round_compares_again_in_the_one_after_the_next(tmp_path: Path) -> None:
    sites, coordinator = Consortium(tmp_path, WARDS, open_at_once=1), server()
    sites.run(coordinator, 1)
    sites.missing = {"hill"}
    sites.run(coordinator, 1)
    sites.missing = set()
    sites.run(coordinator, 2)
    for site, other in (("harbour", "river"), ("river", "harbour")):
        # Round 3: of the sum of two each takes its own away.
        expected = sites.moved(site, 2, sites.own(other, 2), before=sites.weights(site, 2))
        assert sites.weights(site, 3) == pytest.approx(expected, abs=1e-4)
    assert ("hill", 2) not in sites.held
    assert sites.weights("hill", 3) == sites.weights("hill", 1)  # its gradients are of another model
    for site in WARDS:
        others = sites.added([other for other in WARDS if other != site], 3)
        expected = sites.moved(site, 3, others, before=sites.weights(site, 3))
        assert sites.weights(site, 4) == pytest.approx(expected, abs=1e-4)


def test_a_site_whose_answer_was_lost_subtracts_nothing(tmp_path: Path) -> None:
    """It trained and compared, and is not in the sum."""
    sites, coordinator = Consortium(tmp_path, WARDS), server()
    answer = Site.answer

    def losing(site: Site, step: str, message: Message) -> Message:
        found = answer(site, step, message)
        if (site.name, step, message.values.get("round")) == ("hill", "train_completed", 1):
            raise ConnectionError
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Site, "answer", losing)
        (record,) = sites.run(coordinator, 1)
    assert [gone.site for gone in record.absent] == ["hill"]
    held = sites.opened["hill"].algorithm_state
    assert int(held["compared"]) == 1
    sites.held["hill", 1] = {name: tensor.clone() for name, tensor in held.items()}
    sites.run(coordinator, 1)
    total = sites.own("harbour", 1) + sites.own("river", 1)
    assert sites.weights("hill", 2) == pytest.approx(sites.moved("hill", 1, total, before=[1.0] * 6), abs=1e-4)
    expected = sites.moved("harbour", 1, sites.own("river", 1), before=[1.0] * 9)
    assert sites.weights("harbour", 2) == pytest.approx(expected, abs=1e-4)


def test_a_sum_of_others_within_the_rounding_error_counts_as_zero(tmp_path: Path) -> None:
    """A third of a number, three times, is not always the number."""
    site, coordinator = opened(tmp_path, "harbour"), server()
    site.answer("train_completed", question(coordinator, 1))
    own = site.algorithm_state["own"].numpy()
    third = (own.astype(np.float64) / 3).astype(np.float32)
    assert (3 * third != own).any()
    site.answer("train_completed", question(coordinator, 2, targets=third, targets_from=[*WARDS]))
    assert site.algorithm_state["weights"].tolist() == [1.0] * 9


def test_a_site_whose_notes_changed_starts_with_fresh_weights(tmp_path: Path) -> None:
    sites, coordinator = Consortium(tmp_path), server()
    sites.run(coordinator, 2)
    sites.close()
    fewer = opened(tmp_path, "harbour", Ward(DRUG, NOTES[:2]))
    assert len(fewer.algorithm_state["weights"]) == 9
    own = sites.held["harbour", 2]["own"].numpy()
    fewer.answer("train_completed", question(coordinator, 3, targets=own * 2, targets_from=["harbour", "hill"]))
    assert fewer.algorithm_state["weights"].tolist() == [1.0] * 6
    assert len(fewer.algorithm_state["source"]) == 6


# The loss.


def losses_of(
    wards: Mapping[SiteId, Ward], name: SiteId, shared: Mapping[str, Array], unknown: UnknownLabelling
) -> Any:
    """What a site's sentences lose under a shared half that teaches itself."""
    model = network().eval()
    with torch.no_grad():
        for layer, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(shared[layer]))
    task = NerTask(model, wards[name].types)
    learner = CompletedNer(task, task.encode(wards[name].documents), unknown)
    with torch.no_grad():
        return learner.losses(range(len(learner.sentences)), learner.teacher_labels())


@pytest.mark.parametrize("centred", [True, False])
def test_the_source_loss_of_each_sentence_is_weighted(tmp_path: Path, centred: bool) -> None:
    """All notes in one step, so that the loss of a round is that of the model it began with."""
    sites, coordinator = Consortium(tmp_path), server(AT_ONCE, momentum=0.0, centred=centred)
    sites.run(coordinator, 1)
    shared = coordinator.arrays()
    sites.run(coordinator, 1)
    said = {site: answer.value("loss", float) for _, number, site, _, answer in sites.passed if number == 2}
    for name in TWO:
        source, target, silence = losses_of(TWO, name, shared, "pseudo")
        weights = torch.tensor(sites.weights(name, 2))
        assert weights.max() - weights.min() > 0.05
        assert said[name] == pytest.approx(float((weights.clamp(min=0) * source + target + silence).mean()), abs=1e-4)


def test_no_weight_is_below_zero(tmp_path: Path) -> None:
    """The others pull away from what the site's own annotation says: it counts for nothing, and not for less."""
    site, coordinator = opened(tmp_path, "harbour"), server(AT_ONCE, momentum=0.0, centred=False)
    site.answer("train_completed", question(coordinator, 1))
    away = -site.algorithm_state["source"].float().mean(0)
    cosines = torch.nn.functional.cosine_similarity(site.algorithm_state["source"].float(), away[None])
    answer = site.answer("train_completed", question(coordinator, 2, targets=away.numpy(), targets_from=["hill"]))
    torch.testing.assert_close(site.algorithm_state["weights"], cosines, atol=1e-3, rtol=0)
    assert cosines.max() < 0
    _, target, silence = losses_of(TWO, "harbour", coordinator.arrays(), "pseudo")
    assert answer.value("loss", float) == pytest.approx(float((target + silence).mean()), abs=1e-4)


@pytest.mark.parametrize("unknown", ["pseudo", "posterior", "partial", "outside"])
def test_without_weights_the_parts_add_up(tmp_path: Path, unknown: UnknownLabelling) -> None:
    sites, coordinator = Consortium(tmp_path), server(AT_ONCE, unknown=unknown, weighting=False)
    shared = coordinator.arrays()
    sites.run(coordinator, 1)
    said = {site: answer.value("loss", float) for _, number, site, _, answer in sites.passed if number == 1}
    for name in TWO:
        parts = losses_of(TWO, name, shared, unknown)
        assert said[name] == pytest.approx(float(sum(parts).mean()), abs=1e-4)
    assert not sites.opened["hill"].algorithm_state  # nothing is compared
    assert not any(TARGETS in name for name in sites.names)


def test_a_model_labels_nothing_until_it_is_trusted(tmp_path: Path) -> None:
    """The first round of three ways is the same, bit for bit; the second of two of them is not."""
    ways: dict[str, dict[str, Any]] = {
        "waiting": {"trusted_after": 1},
        "waiting, unweighted": {"trusted_after": 1, "weighting": False},
        "open": {"unknown": "partial", "weighting": False},
        "at once": {"weighting": False},
    }
    first, second = {}, {}
    for way, settings in ways.items():
        coordinator = server(**settings)
        sites = Consortium(tmp_path / way)
        sites.run(coordinator, 1)
        first[way] = {name: tensor.clone() for name, tensor in coordinator.shared.items()}
        sites.run(coordinator, 1)
        second[way] = coordinator.shared
        if coordinator.config.weighting:
            assert sites.weights("hill", 2) == [1.0] * 6  # there was nothing to compare with
    assert same(first["waiting"], first["open"]) and same(first["waiting"], first["waiting, unweighted"])
    assert not same(first["waiting"], first["at once"])
    assert same(second["waiting"], second["waiting, unweighted"])
    assert not same(second["waiting"], second["open"])


def test_every_site_has_the_same_weight_whatever_its_size(tmp_path: Path) -> None:
    """Labels as they are: FedAvg's own training at each site, and the plain mean of the two."""
    coordinator = server(unknown="outside", weighting=False)
    start = coordinator.arrays()
    Consortium(tmp_path / "together").run(coordinator, 1)
    ways = []
    averaging = FedAvg(start, FedAvgConfig(rounds=5), TRAINING)
    for name in TWO:
        site = opened(tmp_path / "alone", name)
        asked = Message({**averaging.local_settings(), "round": 1}, grouped("shared", start))
        answer = site.answer("train", asked)
        ways.append({k: u / answer.value("weight", float) for k, u in answer.group("update").items()})
    for name, tensor in coordinator.shared.items():
        expected = start[name] + (ways[0][name] + ways[1][name]) / 2
        np.testing.assert_allclose(tensor.numpy(), expected, atol=2e-4, err_msg=name)


# What passes the door.


def test_a_weight_never_leaves_its_site_and_a_gradient_is_all_that_is_added(tmp_path: Path) -> None:
    sites, coordinator = Consortium(tmp_path), server()
    sites.run(coordinator, 3)
    shape = network().probes.leaf_shape
    layers = set(coordinator.shared)
    for step, number, _, asked, answer in sites.passed:
        if step != "train_completed":
            continue
        assert set(answer.arrays) == {f"update/{name}" for name in layers | {TARGETS}}
        assert answer.arrays[f"update/{TARGETS}"].shape == shape
        told = {f"shared/{name}" for name in layers} | ({f"targets/{TARGETS}"} if number > 1 else set())
        assert set(asked.arrays) == told
        assert answer.values.keys() == {"weight", "loss"}


def test_weighting_adds_the_bytes_of_one_small_gradient(tmp_path: Path) -> None:
    numbers = int(np.prod(network().probes.leaf_shape))
    sizes: dict[bool, list[tuple[int, int]]] = {}
    for weighting in (True, False):
        sites = Consortium(tmp_path / str(weighting))
        sites.run(server(weighting=weighting), 2)
        passed = [(asked, answer) for step, number, _, asked, answer in sites.passed if number == 2]
        sizes[weighting] = [(len(encode(asked)), len(encode(answer))) for asked, answer in passed]
    for (down, up), (plain_down, plain_up) in zip(sizes[True], sizes[False], strict=True):
        # Beside the numbers there are their name and shape and, on the way down, the names of the sites.
        assert 4 * numbers < up - plain_up < 4 * numbers + 60
        assert 4 * numbers < down - plain_down < 4 * numbers + 60


# Bit for bit.


@pytest.mark.parametrize(
    "settings",
    [{}, {"unknown": "posterior", "weighting": False}, {"unknown": "partial", "weighting": False}],
    ids=["pseudo", "posterior", "partial"],
)
def test_labels_of_types_that_a_site_does_not_annotate_move_nothing(tmp_path: Path, settings: dict[str, Any]) -> None:
    """The same notes with and without them, with others in their place, and where they lie on what is annotated."""

    def turned(change: Callable[[Document, TagSet], Document]) -> dict[SiteId, Ward]:
        return {
            name: Ward(ward.types, [change(document, ward.types) for document in ward.documents])
            for name, ward in TWO.items()
        }

    def hidden(document: Document, types: TagSet) -> Document:
        return types.restrict(document)

    def moved(document: Document, types: TagSet) -> Document:
        own = [entity for entity in document.entities if entity.type in types]
        other = next(entity for entity in document.entities if entity.type not in types)
        return document.with_entities([*own, *(replace(other, id=f"X{e.id}", ranges=e.ranges) for e in own)])

    ends = []
    for number, change in enumerate((lambda document, types: document, hidden, moved)):
        coordinator, sites = server(**settings), Consortium(tmp_path / str(number), turned(change))
        sites.run(coordinator, 3)
        ends.append((coordinator.state(), [state_of(site) for site in sites.opened.values()]))
    for shared, states in ends[1:]:
        assert same(shared, ends[0][0])
        assert all(same(state, first) for state, first in zip(states, ends[0][1], strict=True))


def test_an_interrupted_training_resumes_to_the_same_result(tmp_path: Path) -> None:
    """After two rounds coordinator and sites begin anew from what they wrote; weights and gradients are in it."""
    whole, sites = server(), Consortium(tmp_path / "whole")
    sites.run(whole, 4)
    cut, first = server(), Consortium(tmp_path / "cut")
    first.run(cut, 2)
    first.tell("save", 2)
    cut.save(tmp_path / "checkpoint.safetensors")
    first.run(cut, 1)  # which is lost
    again, later = server(), Consortium(tmp_path / "cut", open_at_once=1)
    assert again.restore(tmp_path / "checkpoint.safetensors") == {}
    later.tell("restore", 2)
    later.run(again, 2)
    assert same(again.state(), whole.state())
    assert {"memory/given", f"memory/{TARGETS}"} < again.state().keys()
    for name in TWO:
        left, right = later.held[name, 4], sites.held[name, 4]
        assert left.keys() == right.keys() == {"weights", "source", "own", "compared"}
        assert same(left, right)
    assert later.passed[-1][3].values["targets_from"] == ["harbour", "hill"]


def test_a_repeated_round_receives_the_same_request(tmp_path: Path) -> None:
    coordinator, sites = server(), Consortium(tmp_path, WARDS)
    sites.run(coordinator, 1)
    sites.tell("save", 1)
    step = coordinator.step

    def failing(mean: Mapping[str, Array], values: Mapping[str, Value]) -> None:
        raise ConnectionError

    with pytest.MonkeyPatch.context() as patch, pytest.raises(ConnectionError):
        patch.setattr(coordinator, "step", failing)
        sites.run(coordinator, 1)
    assert coordinator.step == step
    first = dict(sites.held)
    sites.tell("restore", 1)
    sites.run(coordinator, 1)
    told = [asked for name, number, _, asked, _ in sites.passed if (name, number) == ("train_completed", 2)]
    assert len(told) == 6
    assert all(asked == told[0] for asked in told)
    for name in WARDS:
        assert same(sites.held[name, 2], first[name, 2])


# Questions that no honest coordinator asks.


@pytest.fixture
def compared(tmp_path: Path) -> Site:
    """A site after a round, within the request policy of its study of three sites."""
    request_policy = RequestPolicy(5, {**TRAINING.constant_settings(), **server().config.constant_settings()}, sites=3)
    site = opened(tmp_path, "harbour", request_policy=request_policy)
    site.answer("train_completed", question(server(), 1))
    return site


SHAPE = network().probes.leaf_shape
ONES = np.full(SHAPE, 0.5, np.float32)


@pytest.mark.parametrize(
    ("targets", "values", "code"),
    [
        (np.zeros(SHAPE[0] + 1, np.float32), {}, "shapes"),
        (np.zeros((1, *SHAPE), np.float32), {}, "shapes"),
        (np.zeros(0, np.float32), {}, "shapes"),
        (ONES.astype(np.float64), {}, "shapes"),
        (np.where(np.arange(SHAPE[0]) == 3, np.nan, ONES).astype(np.float32), {}, "value"),
        (np.where(np.arange(SHAPE[0]) == 3, -np.inf, ONES).astype(np.float32), {}, "value"),
        (np.full(SHAPE, 3e38, np.float32), {}, "value"),  # whose sum is no number
        (np.full(SHAPE, -2.1, np.float32), {}, "value"),  # every site's lies within one
        (ONES, {"targets_from": "harbour"}, "value-missing"),
        (ONES, {"targets_from": None}, "value-missing"),
        (ONES, {"targets_from": [1, 2]}, "value"),
        (ONES, {"targets_from": [["harbour"], "hill"]}, "value"),
        (ONES, {"targets_from": ["harbour", "harbour"]}, "value"),
        (ONES, {"targets_from": ["a", "b", "c", "d"]}, "value"),  # of three
        (ONES, {"unknown": "partial"}, "policy"),
        (ONES, {"unknown": "whatever"}, "policy"),
        (ONES, {"momentum": 0.0}, "policy"),
        (ONES, {"momentum": 5.0}, "policy"),
        (ONES, {"weighting": False}, "policy"),
        (ONES, {"centred": False}, "policy"),
        (ONES, {"trusted_after": 3}, "policy"),
        (ONES, {"round": 6}, "policy"),
        (ONES, {"round": 1}, "round"),
        (ONES, {"epochs": 50}, "policy"),
    ],
)
def test_an_invalid_request_is_refused_and_changes_nothing(
    compared: Site, targets: Array, values: dict[str, Value], code: str
) -> None:
    before = state_of(compared)
    told: dict[str, Value] = {"targets_from": ["harbour", "hill"]}
    asked = question(server(), 2, targets=targets, **(told | values))
    with pytest.raises(MessageError) as refused:
        compared.answer("train_completed", asked)
    assert refused.value.code == code
    assert same(state_of(compared), before)
    assert isinstance(compared.model, WordTagger) and compared.model.probes.leaf is None
    compared.answer("train_completed", question(server(), 2, targets=ONES, targets_from=["harbour", "hill"]))
    assert compared.round == 2


def test_a_gradient_under_another_name_is_refused(compared: Site) -> None:
    before = state_of(compared)
    asked = question(server(), 2, targets_from=["harbour", "hill"])
    with pytest.raises(MessageError, match=r"^shapes: "):
        compared.answer("train_completed", replace(asked, arrays={**asked.arrays, "targets/others": ONES}))
    assert same(state_of(compared), before)


def test_a_site_without_a_request_policy_refuses_unknown_ways_to_complete(tmp_path: Path) -> None:
    site = opened(tmp_path, "harbour")
    before = state_of(site)
    with pytest.raises(MessageError, match=r"^value: annotation is completed for entities only"):
        site.answer("train_completed", question(server(), 1, unknown="whatever"))
    assert same(state_of(site), before)


def test_a_training_that_fails_halfway_changes_nothing(compared: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    before = state_of(compared)
    losses, calls = CompletedNer.losses, iter([1.0, 1.0, float("nan")])  # once to compare, then in training

    def failing(learner: CompletedNer, rows: Sequence[int], taught: TeacherLabels) -> Any:
        found = losses(learner, rows, taught)
        return found._replace(source=found.source * next(calls))

    monkeypatch.setattr(CompletedNer, "losses", failing)
    with pytest.raises(MessageError, match=r"^not-a-number"):
        compared.answer("train_completed", question(server(), 2, targets=ONES, targets_from=["harbour", "hill"]))
    assert same(state_of(compared), before)


def test_a_site_cannot_claim_a_larger_weight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seal = PlainUpdates.seal
    monkeypatch.setattr(PlainUpdates, "seal", lambda self, update, weight: seal(self, update, weight=2.0))
    said = r"^0 of 2 sites answered; the study needs at least 1 \(harbour failed weight; hill failed weight\)$"
    with pytest.raises(FederationError, match=said):
        Consortium(tmp_path).run(server(), 1)
