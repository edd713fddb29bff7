from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from wardround.evaluation.counts import SpanCounts
from wardround.evaluation.leakage import TypeLeakage
from wardround.models.tagging_model import Inputs, TaggingModel
from wardround.tasks.deidentify import DeidentifyTask
from wardround.tasks.ner import NerTask
from wardround.text.document import Document, Entity, Range
from wardround.text.tag_sets import TagSet

TYPES = TagSet(("NAME", "CITY", "DATE"))
#       0         1         2
#       012345678901234567890123456789
TEXT = "Ann Carr came from Leeds in May"


def note(*mentions: tuple[str, int, int]) -> Document:
    return Document("n", TEXT, tuple(Entity(f"T{n}", kind, (Range(a, b),)) for n, (kind, a, b) in enumerate(mentions)))


GOLD = note(("NAME", 0, 8), ("CITY", 19, 24), ("DATE", 28, 31))


class Lexicon(TaggingModel):
    """Knows the tag of a few words."""

    def __init__(self, **tags: str) -> None:
        super().__init__(TYPES, "BIO")
        self.known, self.asked = tags, list[Sequence[str]]()
        self.anchor = nn.Parameter(torch.zeros(1))

    def prepare(self, sentences: Sequence[Sequence[str]]) -> Inputs:
        self.asked = [list(sentence) for sentence in sentences]
        return Inputs(mask=torch.ones(len(sentences), 1, dtype=torch.bool))

    def decode(self, inputs: Inputs) -> list[list[str]]:
        return [[self.known.get(word, "O") for word in sentence] for sentence in self.asked]


def test_matching_modes_and_leakage_by_hand() -> None:
    # Half of the name is found, the city as a name, and "came" wrongly.
    task = DeidentifyTask(Lexicon(Ann="B-NAME", Leeds="B-NAME", May="B-DATE", came="B-CITY"))
    score = task.score([GOLD])
    assert tuple(score.counts) == task.matching_modes == ("strict", "relaxed", "words")
    assert dict(score.counts["strict"]) == {
        "CITY": SpanCounts(0, 1, 1),
        "DATE": SpanCounts(1, 0, 0),
        "NAME": SpanCounts(0, 2, 1),
    }
    assert dict(score.counts["words"]) == {
        "CITY": SpanCounts(0, 1, 1),
        "DATE": SpanCounts(1, 0, 0),
        "NAME": SpanCounts(1, 1, 1),
    }
    assert score.leakage is not None
    assert score.leakage.hiding.words == SpanCounts(3, 1, 1)  # whatever the type, only "Carr" is readable
    assert score.leakage.by_type["CITY"] == TypeLeakage(1, 1, 0, 0)
    assert score.leakage.by_type["NAME"] == TypeLeakage(1, 0, 1, 1)
    assert score.leakage.exposed_notes == 1


def test_text_hidden_under_an_unannotated_type_counts_as_hidden() -> None:
    model = Lexicon(Ann="B-NAME", Carr="I-NAME", Leeds="B-DATE")
    score = DeidentifyTask(model, TagSet(("NAME", "CITY"))).score([GOLD])
    assert dict(score.main) == {"CITY": SpanCounts(0, 0, 1), "NAME": SpanCounts(1, 0, 0)}
    assert score.leakage is not None and score.leakage.exposed_notes == 0


def test_entities_are_scored_as_by_the_task_it_extends() -> None:
    model = Lexicon(Ann="B-NAME", Leeds="B-NAME", May="B-DATE")
    theirs, ours = NerTask(model).score([GOLD]), DeidentifyTask(model).score([GOLD])
    assert {reading: dict(ours.counts[reading]) for reading in theirs.counts} == {
        reading: dict(counts) for reading, counts in theirs.counts.items()
    }
    assert theirs.leakage is None
    assert ours.interval() == theirs.interval()
