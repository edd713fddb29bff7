from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.models.tiny import notes, quick_tagger, same_weights, write_encoder
from torch import Tensor, nn

from wardround.algorithms.distillation import (
    Agreement,
    DistillationConfig,
    agreement_figures,
    distil,
    distillation_loss,
    predictions_to_send,
    teacher_distribution,
)
from wardround.errors import MessageError, TrainingError
from wardround.models.parameter_split import LayeredModel, ParameterSplit
from wardround.models.relation_classifier import RelationClassifier, RelationClassifierConfig
from wardround.tasks.ner import NerTask
from wardround.tasks.relations import RelationTask
from wardround.tasks.task import Example, Task, TaskScore, head_scores
from wardround.text.document import Document, Relation
from wardround.text.relation_sets import RelationSet, RelationType
from wardround.training.training_config import Rates

CONFIG = DistillationConfig(batch_size=2)
RATES = Rates(0.1, 0.1)
LOG_3 = math.log(3.0)  # the softmax of (0, log 3) is (1/4, 3/4)


@dataclass(frozen=True)
class Toy:
    """A few words, each known by a number of its own, and pairs likewise, with the right class of each."""

    words: tuple[int, ...] = ()
    tags: tuple[int, ...] = ()
    pairs: tuple[int, ...] = ()
    relations: tuple[int, ...] = ()


class ToyModel(LayeredModel):
    """A row of scores for each number: `words` below, `output` above."""

    split = ParameterSplit(shared=("words",), private=("output",))

    def __init__(self, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.words = nn.Parameter(torch.zeros(40, 3))
        self.output = nn.Parameter(torch.zeros(40, 2))
        self.constant_settings = nn.Parameter(torch.ones(1), requires_grad=False)
        self.dropout = nn.Dropout(dropout)

    @property
    def groups(self) -> tuple[str, ...]:
        return ("words", "output", "fixed")


class ToyTask(Task):
    """Two heads, of three classes and of two."""

    matching_modes = ("toy",)
    lost: Mapping[str, int] = {}

    def __init__(self, *, dropout: float = 0.0) -> None:
        self.model = ToyModel(dropout=dropout)

    @property
    def entity_types(self) -> tuple[str, ...]:
        raise NotImplementedError

    def encode(self, documents: Iterable[Document]) -> Sequence[Example]:
        raise NotImplementedError

    def batch_loss(self, batch: Sequence[Example]) -> Tensor:
        raise NotImplementedError

    def predict(self, documents: Iterable[Document]) -> Iterable[Document]:
        raise NotImplementedError

    def score(self, documents: Sequence[Document]) -> TaskScore:
        raise NotImplementedError

    def length(self, example: Example) -> int:
        return len(example.words)

    def classes(self) -> Mapping[str, int]:
        return {"tags": 3, "relations": 2}

    def labels(self, batch: Sequence[Example]) -> dict[str, Tensor]:
        return {
            "tags": torch.tensor([tag for example in batch for tag in example.tags]),
            "relations": torch.tensor([relation for example in batch for relation in example.relations]),
        }

    def heads(self, batch: Sequence[Example]) -> dict[str, Tensor]:
        words = torch.tensor([word for example in batch for word in example.words], dtype=torch.long)
        pairs = torch.tensor([pair for example in batch for pair in example.pairs], dtype=torch.long)
        return {"tags": self.model.dropout(self.model.words[words]), "relations": self.model.output[pairs]}


TOYS = (
    Toy((0, 1, 2), (0, 1, 2), (0,), (1,)),
    Toy((3,), (2,)),
    Toy(),
    Toy((4, 5, 6, 7), (0, 0, 1, 0), (1, 2, 3), (0, 1, 0)),
    Toy((), (), (4,), (1,)),
)


def rows(*numbers: Sequence[float]) -> Tensor:
    return torch.tensor(numbers)


def one_hot(classes: Sequence[int], of: int) -> Tensor:
    return torch.eye(of)[list(classes)]


# What is given, and the teacher.


def test_probabilities_or_logits_are_sent() -> None:
    scores = rows([0.0, LOG_3], [5.0, 5.0]).requires_grad_()
    for kind, expected in (("probabilities", [[0.25, 0.75], [0.5, 0.5]]), ("logits", [[0.0, LOG_3], [5.0, 5.0]])):
        found = predictions_to_send(scores, kind)  # type: ignore[arg-type]
        np.testing.assert_allclose(found, expected, atol=1e-7)
        assert found.dtype == np.float32
    assert predictions_to_send(scores.bfloat16(), "logits").dtype == np.float32
    given = predictions_to_send(scores, "logits")
    given[:] = 0.0
    assert scores[1, 0].item() == 5.0  # a copy


@pytest.mark.parametrize(
    ("mean", "kind", "temperature", "expected"),
    [
        ([0.0, LOG_3], "logits", 1.0, [0.25, 0.75]),
        ([0.0, 2 * LOG_3], "logits", 2.0, [0.25, 0.75]),
        ([0.0, LOG_3], "logits", 0.5, [0.1, 0.9]),  # 1 : 3²
        ([0.25, 0.75], "probabilities", 1.0, [0.25, 0.75]),
        ([0.25, 0.75], "probabilities", 0.5, [0.1, 0.9]),
        ([0.1, 0.9], "probabilities", 2.0, [0.25, 0.75]),  # √1 : √9
        ([0.0, 0.1, 0.9], "probabilities", 2.0, [0.0, 0.25, 0.75]),
        ([1.0, 0.0], "probabilities", 100.0, [1.0, 0.0]),
        ([-1e-7, 1.0], "probabilities", 1.0, [0.0, 1.0]),  # as sealing rounds
        ([1e-40, 1.0], "probabilities", 0.01, [0.0, 1.0]),
        ([1000.0, 0.0], "logits", 0.01, [1.0, 0.0]),
    ],
)
def test_the_teacher_by_hand(mean: list[float], kind: Any, temperature: float, expected: list[float]) -> None:
    found = teacher_distribution(np.array([mean], np.float64), kind, temperature)
    assert found.dtype == torch.float32
    assert found[0].tolist() == pytest.approx(expected, abs=1e-7)


def test_probabilities_are_softened_as_their_logarithms() -> None:
    p = predictions_to_send(torch.randn(50, 4, generator=torch.Generator().manual_seed(1)), "probabilities")
    for temperature in (0.3, 1.0, 4.0):
        torch.testing.assert_close(
            teacher_distribution(p, "probabilities", temperature),
            teacher_distribution(np.log(p), "logits", temperature),
            atol=1e-6,
            rtol=0,
        )
        assert teacher_distribution(p, "probabilities", temperature).sum(-1).tolist() == pytest.approx(
            [1.0] * 50, abs=1e-6
        )


def test_a_mean_that_is_not_a_distribution_is_refused_as_teacher() -> None:
    for mean in ([0.0, 0.0], [float("nan"), 1.0]):
        with pytest.raises(TrainingError, match="is not a distribution"):
            teacher_distribution(np.array([mean], np.float32), "probabilities", 1.0)
    assert teacher_distribution(np.zeros((0, 3), np.float32), "probabilities", 1.0).shape == (0, 3)


def test_an_unknown_kind_of_predictions_is_refused() -> None:
    with pytest.raises(TrainingError, match=r"^predictions is 'labels'; it can be probabilities or logits"):
        predictions_to_send(rows([1.0, 0.0]), "labels")  # type: ignore[arg-type]
    with pytest.raises(TrainingError, match=r"^predictions is 'labels'; it can be probabilities or logits"):
        teacher_distribution(np.ones((1, 1)), "labels", 1.0)  # type: ignore[arg-type]


# The settings and the loss.


@pytest.mark.parametrize("name", ["batch_size", "epochs", "temperature"])
@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf")])
def test_settings_above_zero(name: str, wrong: float) -> None:
    with pytest.raises(TrainingError, match=f"^{name} is "):
        replace(CONFIG, **{name: wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["label_weight", "teacher_weight"])
@pytest.mark.parametrize("wrong", [-0.5, float("nan"), float("inf")])
def test_weights_from_zero(name: str, wrong: float) -> None:
    with pytest.raises(TrainingError, match=f"^{name} is "):
        replace(CONFIG, **{name: wrong})  # type: ignore[arg-type]


def test_a_config_without_labels_and_teacher_is_refused() -> None:
    with pytest.raises(TrainingError, match="nothing would be learned"):
        replace(CONFIG, label_weight=0.0, teacher_weight=0.0)
    with pytest.raises(TrainingError, match="nothing would be learned"):
        replace(CONFIG, teacher_weight=0.0, labelled=False)
    assert replace(CONFIG, labelled=False).label_weight == 0.0
    assert replace(CONFIG, label_weight=0.0).teacher_weight == 1.0


def test_the_loss_by_hand() -> None:
    heads = {"relations": rows([0.0, LOG_3], [LOG_3, 0.0])}  # p = (1/4, 3/4), (3/4, 1/4)
    q = {"relations": rows([0.5, 0.5], [0.75, 0.25])}
    labels = {"relations": torch.tensor([0, 0])}
    config = DistillationConfig(batch_size=1, label_weight=2.0, teacher_weight=3.0)
    cross_entropy = (math.log(4) + math.log(4 / 3)) / 2
    divergence = (0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75) + 0.0) / 2
    both = 2 * cross_entropy + 3 * divergence
    assert distillation_loss(heads, q, labels, config).item() == pytest.approx(both, abs=1e-6)
    assert distillation_loss(heads, q, None, config).item() == pytest.approx(3 * divergence, abs=1e-6)
    assert distillation_loss(heads, {}, labels, config).item() == pytest.approx(2 * cross_entropy, abs=1e-6)
    unlabelled = replace(config, labelled=False)
    assert distillation_loss(heads, q, labels, unlabelled).item() == pytest.approx(3 * divergence, abs=1e-6)
    for wrong in ((heads, {}, None, config), (heads, {}, labels, unlabelled)):
        with pytest.raises(TrainingError, match="nothing would be learned"):
            distillation_loss(*wrong)  # type: ignore[arg-type]


def test_a_teacher_that_is_certain_is_a_label() -> None:
    heads, labels = {"h": rows([0.3, -1.2, 2.0])}, {"h": torch.tensor([1])}
    certain = {"h": rows([0.0, 1.0, 0.0])}
    told = distillation_loss(heads, {}, labels, CONFIG)
    assert distillation_loss(heads, certain, None, CONFIG).item() == pytest.approx(told.item(), abs=1e-6)


def test_heads_are_summed_and_one_without_rows_counts_nothing() -> None:
    one = {"tags": rows([0.0, LOG_3]).requires_grad_()}
    none = {"relations": torch.zeros(0, 3, requires_grad=True)}
    labels = {"tags": torch.tensor([0]), "relations": torch.zeros(0, dtype=torch.long)}
    q = {"tags": rows([0.5, 0.5]), "relations": torch.zeros(0, 3)}
    alone = distillation_loss(one, q, labels, CONFIG)
    assert distillation_loss(one | none, q, labels, CONFIG).item() == alone.item()
    twice = {"tags": one["tags"], "relations": one["tags"]}
    same = {name: {head: part["tags"] for head in twice} for name, part in (("q", q), ("labels", labels))}
    assert distillation_loss(twice, same["q"], same["labels"], CONFIG).item() == pytest.approx(2 * alone.item())
    nothing = distillation_loss(none, q, labels, CONFIG)
    nothing.backward()  # type: ignore[no-untyped-call]
    assert nothing.item() == 0.0


def test_the_gradient_points_from_labels_and_teacher_to_the_student() -> None:
    scores = rows([0.0, LOG_3], [0.0, 0.0]).requires_grad_()
    q, labels = rows([0.5, 0.5], [1.0, 0.0]), torch.tensor([0, 1])
    config = DistillationConfig(batch_size=1, label_weight=2.0, teacher_weight=3.0)
    distillation_loss({"h": scores}, {"h": q}, {"h": labels}, config).backward()  # type: ignore[no-untyped-call]
    # (2 (p − y) + 3 (p − q)) / 2 with p = (1/4, 3/4), (1/2, 1/2)
    first = (2 * (0.25 - 1) + 3 * (0.25 - 0.5)) / 2
    second = (2 * 0.5 + 3 * (0.5 - 1)) / 2
    assert scores.grad is not None
    assert scores.grad.flatten().tolist() == pytest.approx([first, -first, second, -second], abs=1e-6)


# The training.


def learn(task: Task, examples: Sequence[Any], q: Mapping[str, Tensor] | None, **changes: Any) -> float:
    options = {"config": CONFIG, "rates": RATES, "clip": 0.0, "seed": "7/round-1"} | changes
    return distil(task, examples, q, **options)  # type: ignore[arg-type]


def test_one_step_by_hand() -> None:
    task = ToyTask()
    example = Toy((0,), (2,), (3,), (1,))
    q = {"tags": rows([0.0, 0.5, 0.5]), "relations": rows([0.5, 0.5])}
    loss = learn(task, [example], q, rates=Rates(0.1, 0.01))
    # At scores of zero: log 3 + D((0, ½, ½) ‖ ⅓) for the tag, log 2 + 0 for the relation.
    assert loss == pytest.approx(LOG_3 + math.log(1.5) + math.log(2), abs=1e-6)
    # Adam's first step is the rate against the gradient's sign: p − y + p − q is ⅔, ⅔ − ½, ⅔ − 3/2 for the tag.
    assert task.model.words[0].tolist() == pytest.approx([-0.1, -0.1, 0.1], abs=1e-6)
    assert task.model.output[3].tolist() == pytest.approx([-0.01, 0.01], abs=1e-6)  # at the rate of output layers
    assert task.model.words[1:].abs().max().item() == 0.0
    assert task.model.constant_settings.item() == 1.0
    assert all(parameter.grad is None for parameter in task.model.parameters())


class HardOfReading(ToyTask):
    """Cannot read what has numbers from 30 on, and says nothing of it that could be learned from."""

    def heads(self, batch: Sequence[Example]) -> dict[str, Tensor]:
        heard = any(word < 30 for example in batch for word in example.words)
        return {head: scores if heard else scores.detach() for head, scores in super().heads(batch).items()}


def test_a_batch_that_the_model_cannot_read_takes_no_step() -> None:
    task, deaf = HardOfReading(), HardOfReading()
    config = replace(CONFIG, batch_size=1)
    loss = learn(task, [Toy((0,), (2,)), Toy((30, 31), (0, 1))], None, config=config)
    assert loss == pytest.approx(LOG_3, abs=1e-6)  # of scores of zero, for both
    assert task.model.words[0].tolist() == pytest.approx([-0.1, -0.1, 0.1], abs=1e-6)  # one step of Adam, not two
    assert learn(deaf, [Toy((30, 31), (0, 1))], None, config=config) == pytest.approx(LOG_3, abs=1e-6)
    assert not deaf.model.words.any()


def test_the_mean_loss_weights_examples_equally() -> None:
    task = ToyTask()
    examples = [Toy((0,), (0,)), Toy((1, 2), (1, 1)), Toy((), (), (0,), (1,))]
    # At a rate of zero the model stays: log 3 for each batch with tags, log 2 for one with a relation.
    found = {
        size: learn(task, examples, None, config=replace(CONFIG, batch_size=size), rates=Rates(0.0, 0.0))
        for size in (1, 3)
    }
    assert found[1] == pytest.approx((2 * LOG_3 + math.log(2)) / 3, abs=1e-6)
    assert found[3] == pytest.approx(LOG_3 + math.log(2), abs=1e-6)


@pytest.mark.parametrize("batch_size", [1, 2, 3, 64])
def test_every_row_learns_from_its_own_row_of_the_teacher(batch_size: int) -> None:
    task = ToyTask()
    # The teacher contradicts the labels; a row taken from elsewhere would show.
    tags, relations = [1, 0, 1, 0, 2, 1, 2, 1], [0, 1, 0, 1, 0]
    q = {"tags": 0.8 * one_hot(tags, 3) + 0.2 / 3, "relations": 0.8 * one_hot(relations, 2) + 0.1}
    config = DistillationConfig(batch_size=batch_size, epochs=60, labelled=False)
    learn(task, TOYS, q, config=config)
    found = {head: scores.softmax(-1) for head, scores in head_scores(task, TOYS).items()}
    for head, expected in q.items():
        torch.testing.assert_close(found[head], expected, atol=0.03, rtol=0)


@pytest.mark.parametrize("nobody", [None, {}])
def test_without_a_teacher_only_labels_are_learned(nobody: Mapping[str, Tensor] | None) -> None:
    task = ToyTask()
    losses = [learn(task, TOYS, nobody, config=replace(CONFIG, epochs=20)) for _ in range(2)]
    assert losses[1] < losses[0]
    found, labels = head_scores(task, TOYS), task.labels(TOYS)
    assert all(torch.equal(found[head].argmax(-1), labels[head]) for head in found)
    with pytest.raises(TrainingError, match="nothing would be learned"):
        learn(task, TOYS, nobody, config=replace(CONFIG, labelled=False))
    with pytest.raises(TrainingError, match="nothing would be learned"):
        learn(task, TOYS, nobody, config=replace(CONFIG, label_weight=0.0))


def test_an_empty_public_set_is_refused() -> None:
    with pytest.raises(TrainingError, match="no example"):
        learn(ToyTask(), [], None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"tags": torch.full((8, 3), 1 / 3)},
        {"tags": torch.full((7, 3), 1 / 3), "relations": torch.full((5, 2), 0.5)},
        {"tags": torch.full((8, 2), 0.5), "relations": torch.full((5, 2), 0.5)},
        {"tags": torch.full((8, 3), 1 / 3), "pairs": torch.full((5, 2), 0.5)},
    ],
    ids=["heads", "rows", "classes", "names"],
)
def test_a_teacher_for_another_public_set_is_refused(wrong: dict[str, Tensor]) -> None:
    with pytest.raises(TrainingError, match="other heads, rows or classes"):
        learn(ToyTask(), TOYS, wrong)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_is_refused(number: float) -> None:
    task = ToyTask()
    with torch.no_grad():
        task.model.words[0, 0] = number
    with pytest.raises(MessageError, match=r"^not-a-number"):
        learn(task, TOYS[:1], None)


def test_the_gradient_is_clipped() -> None:
    example = Toy((0,), (0,))
    tasks = {clip: ToyTask() for clip in (0.0, 1e-9)}
    for clip, task in tasks.items():
        learn(task, [example], None, clip=clip)
    # Adam divides by the gradient's size plus 1e-8, which a gradient of 1e-9 in all hardly reaches.
    assert tasks[0.0].model.words[0, 0].item() == pytest.approx(0.1, abs=1e-6)
    assert 0 < tasks[1e-9].model.words[0, 0].item() < 0.01


def trained(seed: str, *, disturbed: int = 0, dropout: float = 0.5) -> ToyTask:
    torch.manual_seed(disturbed)
    task = ToyTask(dropout=dropout)
    task.model.eval()  # as predicting leaves it
    learn(task, TOYS, None, config=replace(CONFIG, epochs=3), seed=seed)
    return task


def test_the_result_depends_only_on_the_seed() -> None:
    first, again, other = trained("a"), trained("a", disturbed=5), trained("b")
    assert torch.equal(first.model.words, again.model.words)
    assert not torch.equal(first.model.words, other.model.words)
    assert not torch.equal(first.model.words, trained("a", dropout=0.0).model.words)
    # Without dropout, the order of the batches is all that a seed decides.
    assert not torch.equal(trained("a", dropout=0.0).model.words, trained("b", dropout=0.0).model.words)


def test_the_global_random_state_is_restored() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    learn(ToyTask(dropout=0.5), TOYS, None)
    assert torch.equal(torch.rand(4), expected)


def test_every_epoch_has_its_own_order(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[int]] = []
    task = ToyTask()
    plain = task.heads

    def heads(batch: Sequence[Example]) -> dict[str, Tensor]:
        seen.append([example.pairs[0] for example in batch])
        return plain(batch)

    monkeypatch.setattr(task, "heads", heads)
    learn(task, [Toy((), (), (n,), (0,)) for n in range(20)], None, config=DistillationConfig(batch_size=5, epochs=2))
    epochs = [[pair for batch in half for pair in batch] for half in (seen[:4], seen[4:])]
    assert [sorted(epoch) for epoch in epochs] == [list(range(20))] * 2
    assert epochs[0] != epochs[1]


# Real tasks.


def test_a_tagger_learns_from_another_without_labels() -> None:
    public = notes(12, seed=9)
    master, student = NerTask(quick_tagger(seed=1)), NerTask(quick_tagger(seed=2))
    examples = master.encode(public)
    quick = Rates(0.02, 0.02)
    learn(master, examples, None, config=DistillationConfig(batch_size=4, epochs=6), rates=quick, clip=5.0)
    q = {
        "tags": teacher_distribution(
            predictions_to_send(head_scores(master, examples)["tags"], "probabilities"), "probabilities", 1.0
        )
    }
    before = head_scores(student, examples)
    unlabelled = DistillationConfig(batch_size=4, epochs=6, labelled=False)
    learn(student, examples, q, config=unlabelled, rates=quick, clip=5.0)
    found = agreement_figures(q, before, head_scores(student, examples), master.labels(examples))
    assert found["agreement_before"] < 0.8 < 0.95 < found["agreement"]
    assert found["student_f1"] > found["student_f1_before"]


def related(document: Document) -> Document:
    return replace(document, relations=(Relation("R1", "causes", "T1", "T2"),) if "rash" in document.text else ())


def relation_task(folder: Path, seed: int) -> RelationTask:
    torch.manual_seed(seed)
    config = RelationClassifierConfig(encoder=str(folder), window=3)
    return RelationTask(RelationClassifier(config, RelationSet((RelationType("causes", (("Drug", "ADE"),)),))))


def test_a_relation_classifier_is_distilled_bit_for_bit_alike(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "tiny")
    students = [relation_task(folder, seed=1) for _ in range(2)]
    examples = students[0].encode([related(note) for note in notes(10)])
    q = {"relations": teacher_distribution(np.full((len(examples), 2), 0.5, np.float32), "probabilities", 1.0)}
    losses = [learn(student, examples, q, config=DistillationConfig(batch_size=4), clip=1.0) for student in students]
    assert losses[0] == losses[1] > 0
    assert same_weights(students[0].model, students[1].model)  # type: ignore[arg-type]
    assert not same_weights(students[0].model, relation_task(folder, seed=1).model)  # type: ignore[arg-type]


# The figures of a round.

LABELS = torch.tensor([0, 1, 1, 2])
TEACHER = one_hot([0, 1, 2, 2], 3)
BEFORE = one_hot([0, 0, 0, 0], 3)
AFTER = one_hot([0, 1, 2, 1], 3)


def test_agreement_by_hand() -> None:
    found = Agreement.of(TEACHER, BEFORE, AFTER, LABELS)
    assert (found.agreement_before, found.agreement) == (0.25, 0.75)
    assert (found.teacher_accuracy, found.student_before, found.student_accuracy) == (0.75, 0.25, 0.5)
    # Three rows of other classes than 0; the teacher says three of them, two of which are right.
    assert found.teacher_f1 == pytest.approx(2 / 3)
    assert found.student_f1_before == 0.0
    assert found.student_f1 == pytest.approx(1 / 3)


def test_figures_of_one_head_have_plain_names() -> None:
    found = agreement_figures({"h": TEACHER}, {"h": BEFORE}, {"h": AFTER}, {"h": LABELS})
    assert list(found) == [
        "agreement_before",
        "agreement",
        "teacher_accuracy",
        "student_before",
        "student_accuracy",
        "teacher_f1",
        "student_f1_before",
        "student_f1",
    ]
    assert (found["teacher_accuracy"], found["agreement"]) == (0.75, 0.75)
    unlabelled = agreement_figures({"h": TEACHER}, {"h": BEFORE}, {"h": AFTER}, None)
    assert unlabelled == {"agreement_before": 0.25, "agreement": 0.75}


def test_figures_of_several_heads_name_them() -> None:
    both = [{"tags": part, "relations": part[:1]} for part in (TEACHER, BEFORE, AFTER)]
    found = agreement_figures(*both, None)
    assert found == {
        "tags/agreement_before": 0.25,
        "tags/agreement": 0.75,
        "relations/agreement_before": 1.0,
        "relations/agreement": 1.0,
    }


def test_a_head_without_rows_has_no_figures() -> None:
    empty = torch.zeros(0, 3)
    both = [{"tags": part, "relations": empty} for part in (TEACHER, BEFORE, AFTER)]
    labels = {"tags": LABELS, "relations": torch.zeros(0, dtype=torch.long)}
    assert {name.partition("/")[0] for name in agreement_figures(*both, labels)} == {"tags"}
    assert agreement_figures({"h": empty}, {"h": empty}, {"h": empty}, None) == {}
