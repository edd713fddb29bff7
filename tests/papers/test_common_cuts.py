from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from wardround.text.document import Document, Range

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def cuts() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT))
    yield import_module("papers.common.cuts")
    sys.path.remove(str(ROOT))


def note(name: str, text: str) -> Document:
    return Document(name, text, sentences=(Range(0, len(text)),))


def test_a_sentence_that_shares_eight_words_with_a_test_is_left_out(cuts: ModuleType) -> None:
    test = note("t", "one two three four five six seven eight nine")
    leak = note("a", "Zero, two THREE four (five) six seven eight-nine ten")
    near = note("b", "two three four five six seven eight ten")
    short, other = note("c", "one two"), note("e", "one two three")
    seen = cuts.runs_of([[test, short]])
    assert cuts.unseen([leak, near, short, other], seen) == [near, other]


def test_a_cut_keeps_the_order_and_is_the_same_for_a_seed(cuts: ModuleType) -> None:
    notes = [note(str(number), f"word {number}") for number in range(20)]
    once = cuts.cut(notes, 5, "seed")
    assert len(once) == 5 and once == sorted(once, key=lambda document: int(document.id))
    assert once == cuts.cut(notes, 5, "seed") != cuts.cut(notes, 5, "other")
    assert cuts.cut(notes, 0, "seed") == cuts.cut(notes, 99, "seed") == notes


def test_no_training_sentence_is_in_a_test_of_another_site(cuts: ModuleType) -> None:
    tested, other = note("t", "one two three"), note("o", "four five six")
    left, right = cuts.Site((), [other], [], [tested]), cuts.Site((), [tested, other], [tested], [])
    cut = cuts.without_leaks({"left": left, "right": right}, cuts.PartSizes(), seed=0)
    assert [list(cut["right"].train), list(cut["right"].dev), list(cut["left"].train)] == [[other], [], [other]]
