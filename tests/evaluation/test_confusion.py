from __future__ import annotations

from wardround.evaluation.confusion import Confusion
from wardround.evaluation.spans import score_document
from wardround.text.document import Document, Entity, Range


def confusion_of(gold: list[tuple[str, int, int]], predicted: list[tuple[str, int, int]]) -> Confusion:
    def note(mentions: list[tuple[str, int, int]]) -> Document:
        return Document("n", "x" * 50, tuple(Entity(str(i), t, (Range(a, b),)) for i, (t, a, b) in enumerate(mentions)))

    return score_document(note(gold), note(predicted)).confusion


def test_worked_example() -> None:
    confusion = confusion_of(
        [("Drug", 0, 5), ("ADE", 10, 15), ("ADE", 20, 25)],
        [("Drug", 0, 5), ("Drug", 12, 18), ("Dose", 30, 35)],
    )
    assert confusion.counts == {("Drug", "Drug"): 1, ("ADE", "Drug"): 1, ("ADE", None): 1, (None, "Dose"): 1}
    assert confusion.types == ("ADE", "Dose", "Drug")
    # Columns ADE, Dose, Drug, missed; the last row is spurious.
    assert confusion.rows() == [[0, 0, 1, 1], [0, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0]]
    assert confusion.rows(["Drug"]) == [[1, 0], [0, 0]]


def test_a_mention_of_the_same_type_goes_before_a_longer_overlap() -> None:
    confusion = confusion_of([("Drug", 0, 10)], [("ADE", 0, 9), ("Drug", 9, 12)])
    assert confusion.counts == {("Drug", "Drug"): 1, (None, "ADE"): 1}


def test_leftovers_go_to_the_longest_overlap() -> None:
    confusion = confusion_of([("Drug", 0, 10)], [("ADE", 0, 3), ("Dose", 3, 10)])
    assert confusion.counts == {("Drug", "Dose"): 1, (None, "ADE"): 1}


def test_confusions_add() -> None:
    total = Confusion({("A", "B"): 1, ("A", None): 2}) + Confusion({("A", "B"): 3, (None, "C"): 1})
    assert total == Confusion({("A", "B"): 4, ("A", None): 2, (None, "C"): 1})
    assert total["C", "A"] == 0
