from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

from wardround.errors import TrainingError
from wardround.evaluation.counts import SpanCounts, TypedCounts
from wardround.evaluation.entity_scores import CorpusScore
from wardround.models.parameter_split import LayeredModel, ParameterSplit
from wardround.tasks.task import Example, Task, TaskScore, head_scores
from wardround.text.document import Document


class Doubling(LayeredModel):
    """Scores the number n as n and 2n; what it drops out in training, it drops by half."""

    def __init__(self) -> None:
        super().__init__()
        self.output = nn.Parameter(torch.tensor([1.0, 2.0]))
        self.dropout = nn.Dropout(0.5)
        self.split = ParameterSplit(("output",), ())

    def forward(self, numbers: Tensor) -> Tensor:
        return self.dropout(numbers[:, None] * self.output)  # type: ignore[no-any-return]


class Numbers(Task):
    """Its documents are lists of whole numbers: a row a number, and a row for every two neighbours."""

    matching_modes = ("exact",)

    def __init__(self) -> None:
        self.model = Doubling()
        self.lost: Mapping[str, int] = {}
        self.asked: list[list[list[int]]] = []

    @property
    def entity_types(self) -> tuple[str, ...]:
        return ()

    def encode(self, documents: Iterable[Document]) -> Sequence[Example]:
        return [[int(number) for number in document.text.split()] for document in documents]

    def length(self, example: Example) -> int:
        return len(example)

    def batch_loss(self, batch: Sequence[Example]) -> Tensor:
        raise NotImplementedError

    def predict(self, documents: Iterable[Document]) -> Iterator[Document]:
        raise NotImplementedError

    def score(self, documents: Sequence[Document]) -> TaskScore:
        return TaskScore({"exact": tuple(TypedCounts({document.id: SpanCounts(1, 0, 0)}) for document in documents)})

    def classes(self) -> Mapping[str, int]:
        return {"numbers": 2, "sums": 2}

    def labels(self, batch: Sequence[Example]) -> dict[str, Tensor]:
        rows = {"numbers": sum(map(len, batch)), "sums": sum(len(example) - 1 for example in batch)}
        return {head: torch.zeros(count, dtype=torch.long) for head, count in rows.items()}

    def heads(self, batch: Sequence[Example]) -> dict[str, Tensor]:
        self.asked.append(list(batch))
        sums = [left + right for example in batch for left, right in pairwise(example)]
        rows = {"numbers": [number for example in batch for number in example], "sums": sums}
        return {head: self.model(torch.tensor(numbers, dtype=torch.float64)) for head, numbers in rows.items()}


# Rows of three examples, whose lengths are not in their order.
EXAMPLES = [[3, 1, 4], [5], [9, 2]]


# What a model says of examples.


@pytest.mark.parametrize(("batch_size", "batches"), [(1, [1, 1, 1]), (2, [2, 1]), (64, [3])])
def test_rows_are_in_the_order_of_the_examples(batch_size: int, batches: list[int]) -> None:
    task = Numbers()
    found = head_scores(task, EXAMPLES, batch_size=batch_size)
    assert [len(batch) for batch in task.asked] == batches
    assert task.asked[0][0] == [5]  # the shortest came first
    assert found["numbers"].tolist() == [[3, 6], [1, 2], [4, 8], [5, 10], [9, 18], [2, 4]]
    # The second example has no neighbours, and no row.
    assert found["sums"].tolist() == [[4, 8], [5, 10], [11, 22]]


def test_rows_are_plain_numbers_on_the_cpu() -> None:
    found = head_scores(Numbers(), EXAMPLES)
    for scores in found.values():
        assert (scores.dtype, scores.device.type, scores.requires_grad) == (torch.float32, "cpu", False)


def test_dropout_is_off_also_where_the_model_was_training() -> None:
    task = Numbers()
    task.model.train()
    first = head_scores(task, EXAMPLES)
    assert first["numbers"][0].tolist() == [3, 6]  # else each would be 0 or twice as much
    task.model.train()
    assert torch.equal(head_scores(task, EXAMPLES)["numbers"], first["numbers"])


def test_a_head_without_any_row_keeps_its_classes() -> None:
    found = head_scores(Numbers(), [[1], [2]])
    assert found["numbers"].tolist() == [[1, 2], [2, 4]]
    assert found["sums"].shape == (0, 2)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_scores_that_are_not_finite_are_refused(value: float) -> None:
    task = Numbers()
    with torch.no_grad():
        task.model.output[1] = value
    with pytest.raises(TrainingError, match=r"^the model's scores are not finite; its training has diverged"):
        head_scores(task, EXAMPLES)


def test_public_examples_are_encoded_like_training_examples_by_default() -> None:
    assert Numbers().public([Document("n", "3 1"), Document("m", "5")]) == [[3, 1], [5]]


# Scores.

BY_DOCUMENT = {
    "strict": (
        TypedCounts({"Drug": SpanCounts(1, 1, 0)}),
        TypedCounts({"ADE": SpanCounts(0, 0, 2), "Drug": SpanCounts(1, 0, 1)}),
    ),
    "relaxed": (TypedCounts({"Drug": SpanCounts(2, 0, 0)}), TypedCounts({"Drug": SpanCounts(2, 0, 0)})),
}


def test_counts_are_added_over_documents() -> None:
    score = TaskScore(BY_DOCUMENT)
    assert list(score.counts) == ["strict", "relaxed"]
    assert dict(score.counts["strict"]) == {"Drug": SpanCounts(2, 1, 1), "ADE": SpanCounts(0, 0, 2)}
    assert dict(score.counts["relaxed"]) == {"Drug": SpanCounts(4, 0, 0)}
    assert score.documents == 2
    assert (score.dropped, score.entities) == (0, None)


def test_the_main_matching_mode_is_the_first() -> None:
    assert TaskScore(BY_DOCUMENT).main == TaskScore(BY_DOCUMENT).counts["strict"]
    # 2 right, 1 wrong, 3 not found.
    assert TaskScore(BY_DOCUMENT).main.micro.f1 == pytest.approx(4 / 8)
    turned = TaskScore(dict(reversed(BY_DOCUMENT.items())))
    assert turned.main == turned.counts["relaxed"]


def test_an_interval_for_each_matching_mode() -> None:
    score = TaskScore(BY_DOCUMENT)
    # Two documents: both, the first twice (4 of 6 in F1), or the second twice (2 right, 6 not found).
    found = score.interval()
    assert found == score.interval("strict")
    assert (found.estimate, found.low, found.high) == (0.5, pytest.approx(4 / 10), pytest.approx(4 / 6))
    sure = score.interval("relaxed")
    assert (sure.estimate, sure.low, sure.high) == (1.0, 1.0, 1.0)
    with pytest.raises(KeyError):
        score.interval("loose")


def test_an_interval_for_each_type() -> None:
    score = TaskScore(BY_DOCUMENT)
    found = score.type_intervals()
    assert list(found) == list(score.main)
    assert found == score.type_intervals("strict")
    for kind, interval in found.items():
        assert interval.estimate == score.main[kind].f1
        assert interval.low <= interval.estimate <= interval.high


def test_a_score_of_no_document() -> None:
    score = TaskScore({"strict": ()}, entities=CorpusScore())
    assert (score.documents, score.main, score.counts) == (0, TypedCounts(), {"strict": TypedCounts()})


def test_test_notes_are_scored_like_other_notes_by_default() -> None:
    task, documents = Numbers(), [Document("a", "1"), Document("b", "2")]
    assert task.score_test(documents) == task.score(documents)
    assert task.score_test(documents).documents == 2
