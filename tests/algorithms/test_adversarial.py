from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import isfinite, log, prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.algorithms.hospitals import ALL_SHARED, Listening, site
from tests.models.tiny import TYPES, write_encoder
from tests.models.tiny_bart import write_bart
from tests.studies.protected_studies import shielded
from tests.studies.tiny_studies import Onlooker, of_algorithm, run
from torch import Tensor

from wardround.algorithms import tagsets
from wardround.algorithms.adversarial import ALGORITHM, Adversarial, AdversarialConfig, Adversary, Method
from wardround.algorithms.tagsets import TagSetsConfig
from wardround.errors import MessageError, StudyError, TrainingError
from wardround.federation.federation import Quorum, Replies, Reply
from wardround.federation.message import Message, encode, grouped
from wardround.federation.site_runtime import Site
from wardround.models.discriminators import Discriminators
from wardround.models.probes import StateRecorder
from wardround.models.saved import load_model
from wardround.models.tagging_model import TaggingModel
from wardround.models.word_tagger import WordTagger
from wardround.secure_aggregation.plain import PlainClient, PlainServer
from wardround.studies.aggregation_setup import payload_of
from wardround.studies.assemble import arrays_of, common_model, common_task
from wardround.studies.site_review import review
from wardround.studies.study_file import Study, parse_study, to_toml
from wardround.studies.study_notes import public_set
from wardround.text.tag_sets import TagSet
from wardround.training.state_files import load_tensors
from wardround.training.training_config import RoundTrainingConfig

METHODS: tuple[Method, ...] = ("ganin", "peng", "hong")
NAMES = ("east", "west")
TRAINING = RoundTrainingConfig(batch_size=8, learning_rate=0.01, schedule="constant")


# Settings.


def test_default_settings() -> None:
    config = AdversarialConfig()
    likewise = TagSetsConfig()  # beside which it is measured
    assert (config.rounds, config.local_epochs) == (likewise.rounds, likewise.local_epochs) == (25, 1)
    assert config.trusted_after == likewise.trusted_after
    assert (config.method, config.strength) == ("ganin", 1.0)


@pytest.mark.parametrize("settings", [{"strength": -0.1}, {"strength": float("nan")}, {"trusted_after": -1}])
def test_invalid_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(TrainingError, match=next(iter(settings))):
        AdversarialConfig(**settings)


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(StudyError, match="method"):
        of_algorithm("adversarial", algorithm={"method": "gannin"})


def test_requests_match_the_request_policy_of_a_site() -> None:
    fixed = AdversarialConfig(method="hong", strength=0.5, trusted_after=3).constant_settings()
    own = {"unknown": "pseudo", "method": "hong", "strength": 0.5, "trusted_after": 3}
    assert own.items() <= fixed.items()


# The loss beside the task's.

CHARACTERISTIC = log(3)  # of which a softmax beside 0 makes 3/4 and 1/4


def adversary(method: Method, *, strength: float = 1.0) -> Adversary:
    """Of east; two numbers a state, of which the first tells sites apart."""
    found = Discriminators((2,), NAMES, separated=2)
    with torch.no_grad():
        found.get_parameter("layer_0").copy_(torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
    return Adversary(found, "east", method, strength)


def seen(*, predicted: Tensor | None = None) -> StateRecorder:
    recorder = StateRecorder()
    recorder.layers.append(torch.tensor([[CHARACTERISTIC, 0.0]], requires_grad=True))
    recorder.predicted = predicted
    return recorder


def test_the_loss_of_ganin_is_the_cross_entropy_of_the_site() -> None:
    assert adversary("ganin").loss(seen()).item() == pytest.approx(log(4 / 3))


def test_peng_adds_the_separation_loss() -> None:
    """Halves at their start are orthonormal, of one sentence they do not correlate, and they tell two sites as 1/2."""
    assert adversary("peng").loss(seen()).item() == pytest.approx(log(4 / 3) + log(2))


def test_hong_squares_the_loss() -> None:
    looked = seen()
    loss = adversary("hong").loss(looked)
    assert loss.item() == pytest.approx(log(4 / 3) ** 2 / 2)
    # The slope of a half of a square is the loss itself: of a site that is told badly it is steeper.
    gradient, plain = seen_gradient(adversary("hong")), seen_gradient(adversary("ganin"))
    torch.testing.assert_close(gradient, log(4 / 3) * plain)
    torch.testing.assert_close(plain, torch.tensor([[0.25, 0.0]]))  # turned round: east becomes less likely


def seen_gradient(against: Adversary) -> Tensor:
    looked = seen()
    against.loss(looked).backward()  # type: ignore[no-untyped-call]
    gradient = looked.layers[0].grad
    assert gradient is not None
    return gradient


def test_hong_adds_the_entropy_of_pseudo_annotated_words() -> None:
    """One word at ln 2, one that is sure, times the strength."""
    looked = seen(predicted=torch.tensor([[0.5, 0.5], [1.0, 0.0]]))
    loss = adversary("hong", strength=0.2).loss(looked).item()
    assert loss == pytest.approx(log(4 / 3) ** 2 / 2 + 0.2 * log(2) / 2)
    assert [adversary(method).uses_predictions for method in METHODS] == [False, False, True]


# At a site.


def armed(folder: Path, name: str, *, method: Method = "ganin", types: TagSet = TYPES) -> Site:
    """A site whose network has discriminators, of everything shared."""
    opened = site(folder, name, config=ALL_SHARED, steps=ALGORITHM.site_steps)
    model = opened.model
    assert isinstance(model, WordTagger)
    model.attach("discriminators", Discriminators(model.probes.widths, NAMES, separated=8 if method == "peng" else 0))
    found = site_on(folder / "armed", name, opened)
    found.task.types = types  # type: ignore[attr-defined]
    return found


def site_on(folder: Path, name: str, like: Site) -> Site:
    """The same once more: what a site shares is settled when it is opened."""
    return Site(
        name,
        like.task,
        like.notes,
        aggregation=PlainClient(folder / name),
        steps=ALGORITHM.site_steps,
        folder=folder / name,
        seed=like.seed,
    )


def server(model: TaggingModel, **settings: Any) -> Adversarial:
    return Adversarial(arrays_of(model.shared_parameters()), AdversarialConfig(**settings), TRAINING)


def question(of: Site, number: int = 1, **settings: Any) -> Message:
    coordinator = server(of.model, **{"trusted_after": 1, **settings})  # type: ignore[arg-type]
    values = {**coordinator.local_settings(), "round": number}
    return Message(values, grouped("shared", coordinator.arrays()))


@pytest.mark.parametrize("method", METHODS)
def test_a_site_sends_its_network_and_discriminators_with_weight_one(tmp_path: Path, method: Method) -> None:
    opened = armed(tmp_path, "east", method=method)
    answer = opened.answer("train_adversarially", question(opened, method=method))
    assert answer.value("weight", float) == 1.0
    assert isfinite(answer.value("loss", float))
    given = {name.partition("/")[2] for name in answer.arrays}
    assert given == set(opened.model.shared_parameters())
    halves = {"discriminators.halves.turn", "discriminators.halves.discriminator"} if method == "peng" else set()
    assert {name for name in given if "discriminators" in name} == halves | {
        "discriminators.layer_0",
        "discriminators.layer_1",
    }


def test_with_strength_zero_the_network_trains_as_without_discriminators(tmp_path: Path) -> None:
    """Beside clipping, by which the discriminators' gradients too are measured."""
    found = {}
    for strength in (0.0, 1.0):
        opened = armed(tmp_path / str(strength), "east")
        asked = question(opened, strength=strength, local_epochs=2)
        unclipped = Message({**asked.values, "clip": 0.0}, asked.arrays)
        opened.answer("train_adversarially", unclipped)
        found[strength] = {name: p.detach().clone() for name, p in opened.shared.items()}
    plain = site(tmp_path / "plain", "east", config=ALL_SHARED)
    alone = site_on(tmp_path / "alone", "east", plain)
    alone.steps = {**alone.steps, **tagsets.ALGORITHM.site_steps}
    told = {**question(alone, local_epochs=2).values, "clip": 0.0, "weighting": False}
    alone.answer("train_completed", Message(told, grouped("shared", arrays_of(plain.model.shared_parameters()))))
    network = dict(alone.shared)
    assert all(torch.equal(found[0.0][name], network[name]) for name in network)
    assert not all(torch.equal(found[1.0][name], network[name]) for name in network)


def test_a_site_learns_its_own_number(tmp_path: Path) -> None:
    """Of all that it sees it is the site: its row is pulled to its states, the other pushed from them."""
    rows = {}
    for name in NAMES:
        opened = armed(tmp_path / name, name)
        opened.answer("train_adversarially", question(opened, strength=0.0))
        rows[name] = opened.shared["discriminators.layer_1"].detach().clone()
    torch.testing.assert_close(rows["east"][0], -rows["east"][1])  # of two, one gains what the other loses
    assert rows["east"][0] @ rows["west"][1] > 0 > rows["east"][0] @ rows["west"][0]


def test_only_predictions_of_pseudo_annotated_words_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The site annotates drugs; what its model finds of effects is what is looked at."""
    looked: list[Tensor | None] = []
    loss = Adversary.loss

    def remember(self: Adversary, recorded: StateRecorder) -> Tensor:
        looked.append(recorded.predicted)
        return loss(self, recorded)

    monkeypatch.setattr(Adversary, "loss", remember)
    opened = armed(tmp_path, "east", types=TagSet(("Drug",)))
    found = [["O"] * (len(sentence.words) - 1) + ["B-ADE"] for sentence in opened.notes.train]
    by_words = {sentence.words: tags for sentence, tags in zip(opened.notes.train, found, strict=True)}
    read: list[Sequence[Sequence[str]]] = []
    prepare: Any = opened.model.prepare

    def note(sentences: Sequence[Sequence[str]]) -> Any:
        read.append(sentences)
        return prepare(sentences)

    monkeypatch.setattr(opened.model, "prepare", note)
    monkeypatch.setattr(opened.model, "decode", lambda inputs: [by_words[tuple(words)] for words in read[-1]])
    opened.answer("train_adversarially", question(opened, method="hong"))
    assert looked and all(predicted is None for predicted in looked)  # in round 1 the model is not believed yet
    looked.clear()
    opened.answer("train_adversarially", question(opened, 2, method="hong"))
    sentences = len(opened.notes.train)
    assert sum(len(predicted) for predicted in looked if predicted is not None) == sentences  # the last word of each


def test_states_are_recorded_only_during_a_step(tmp_path: Path) -> None:
    opened = armed(tmp_path, "east")
    opened.answer("train_adversarially", question(opened))
    assert not opened.model.probes.is_recording


@pytest.mark.parametrize("change", [{"method": "gannin"}, {"unknown": "partial-ish"}, {"strength": "strong"}])
def test_an_invalid_request_is_refused_and_changes_nothing(tmp_path: Path, change: dict[str, Any]) -> None:
    opened = armed(tmp_path, "east")
    asked = question(opened)
    with pytest.raises(MessageError, match="value"):
        opened.answer("train_adversarially", Message({**asked.values, **change}, asked.arrays))
    assert opened.round == 0


def test_a_network_without_discriminators_is_refused(tmp_path: Path) -> None:
    opened = site(tmp_path, "east", config=ALL_SHARED, steps=ALGORITHM.site_steps)
    with pytest.raises(MessageError, match="discriminators"):
        opened.answer("train_adversarially", question(opened))
    assert opened.round == 0


# What crosses.


class Counting(Listening):
    """Keeps every answer."""

    def ask(self, step: str, message: Message, *, to: Sequence[str] | None = None) -> Replies:
        return self._kept(step, super().ask(step, message, to=to))

    def _kept(self, step: str, replies: Replies) -> Replies:
        for reply in replies:
            if step == "train_adversarially":
                KEPT.append(reply)
            yield reply


KEPT: list[Reply] = []


@pytest.mark.parametrize("method", METHODS)
def test_sent_bytes_are_those_of_the_network_and_the_discriminators(tmp_path: Path, method: Method) -> None:
    KEPT.clear()
    federation = Counting(NAMES, partial(armed, tmp_path, method=method))
    model = armed(tmp_path / "common", "east", method=method).model
    assert isinstance(model, WordTagger)
    rounds = list(server(model, rounds=2, trusted_after=1, method=method).rounds(federation, PlainServer(), Quorum(2)))
    network = sum(p.numel() for name, p in model.shared_parameters().items() if "discriminators" not in name)
    assert model.probes.widths == (32, 8)  # words and characters, and the word CNN
    beside = 2 * (32 + 8) + (8 * 8 + 2 * 4 if method == "peng" else 0)  # K × d each; d × d and K × d/2
    assert len(KEPT) == 4 and all(reply.message is not None for reply in KEPT)
    for reply in KEPT:
        assert reply.message is not None
        assert sum(array.nbytes for array in reply.message.arrays.values()) == 4 * (network + beside)
        told = len('["worked",8]') + 8  # how long the site worked: in the header, and the seconds themselves
        assert reply.traffic.up == len(encode(reply.message)) + told
    assert rounds[1].traffic.up == sum(reply.traffic.up for reply in KEPT[2:])


# Studies.

TYPED = {"harbour": {"types": ["Drug", "Disease"]}, "hillside": {"types": ["Drug", "ADE"], "scheme": ""}}
_OF_WORDS = ("word_buckets", "word_dimension", "character_layer", "word_cnn", "lstm", "input_dropout")
WITHOUT_WORDS: dict[str, Any] = dict.fromkeys(_OF_WORDS)


def network(family: str, folder: Path) -> dict[str, Any]:
    """A [model] of a family that trains in a moment."""
    if family == "words":
        return {"decoder": "crf"}
    if family == "light-ner":
        bart = str(write_bart(folder / "bart"))
        return {**WITHOUT_WORDS, "decoder": None, "bart": bart, "prompt_hidden": 8}
    return {**WITHOUT_WORDS, "encoder": str(write_encoder(folder / "encoder")), "adapter": family}


def study_of(method: Method, model: dict[str, Any]) -> Study:
    settings = {"method": method, "rounds": 2, "trusted_after": 1}
    return of_algorithm("adversarial", algorithm=settings, model=model, sites=TYPED)


@pytest.mark.parametrize("family", ["words", "none", "prompt", "light-ner"])
@pytest.mark.parametrize("method", METHODS)
def test_the_final_model_of_a_study_has_no_discriminators(tmp_path: Path, method: Method, family: str) -> None:
    study, watcher = study_of(method, network(family, tmp_path)), Onlooker()
    outcome = run(study, tmp_path / "run", watcher=watcher)
    assert [record.answered for record in watcher.rounds] == [2, 2]
    assert all(isfinite(record.loss) for record in watcher.rounds)
    learned = {name: array for name, array in outcome.shared.items() if name.startswith("discriminators.")}
    assert learned and all(bool(np.asarray(array).any()) for array in learned.values())
    for folder in (tmp_path / "run" / "model", *(tmp_path / "run" / "sites").glob("*/model")):
        tensors = [name for file in folder.glob("*.safetensors") for name in load_tensors(file)]
        assert tensors and not any("discriminators" in name for name in tensors)
    found = load_model(tmp_path / "run" / "model")
    assert found.training_only == ()


def test_sites_are_numbered_in_the_order_of_the_study() -> None:
    study = study_of("ganin", network("words", Path()))
    model = common_model(study)
    discriminators = model.get_submodule("discriminators")
    assert isinstance(discriminators, Discriminators)
    assert discriminators.sites == ("harbour", "hillside")
    assert parse_study(to_toml(study)) == study


@pytest.mark.parametrize("mechanism", ["masked", "sealed"])
def test_under_protection_the_sum_is_that_of_plain_updates(tmp_path: Path, mechanism: str) -> None:
    found = {}
    for protection in ("plain", mechanism):
        study = shielded(
            tmp_path / "notes",
            protection,
            algorithm={"name": "adversarial", "rounds": 2, "trusted_after": 1},
            model={"shared": None},
            sites={"west": {"scheme": "BIO"}},
            training={"learning_rate": 0.001},
        )
        run(study, tmp_path / protection)
        states = sorted((tmp_path / protection / "sites" / "east").rglob("model/model.safetensors"))
        found[protection] = load_tensors(states[0])
    for name, tensor in found["plain"].items():
        torch.testing.assert_close(found[mechanism][name], tensor, atol=2e-3, rtol=0)


def test_a_review_counts_and_explains_the_discriminators() -> None:
    study = study_of("ganin", network("words", Path()))
    sections = {part.heading: part.lines for part in review(study, "harbour", coordinator="c:1")}
    leaving = "\n".join(sections["What would leave this site"])
    task = common_task(study)
    numbers = sum(prod(shape) for shape in payload_of(study, task, public_set(study, task)).shapes.values())
    assert f"{numbers:,} numbers" in leaving and "discriminators.layer_2 2 × 16" in leaving
    assert any("distinguish sites" in line for line in sections["Who could read what leaves"])
    assert any(line.startswith("train_adversarially: ") for line in sections["What would run here"])
