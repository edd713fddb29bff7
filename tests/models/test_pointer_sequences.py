from __future__ import annotations

import pytest
import torch

from wardround.errors import ModelError
from wardround.models.pointer_sequences import END, OutputSpace, parse_labels, words_of_type
from wardround.text.tag_schemes import WordSpan

SPACE = OutputSpace(("ADE", "Drug", "Disease"))
ADE, DRUG, DISEASE = 1, 2, 3


def word(position: int) -> int:
    return 4 + position


def test_outputs_number_the_end_the_types_and_the_words() -> None:
    assert SPACE.first_word == 4
    spans = [WordSpan(2, 4, "ADE"), WordSpan(0, 1, "Drug")]
    # Words 2 and 3, the last one included, then the type; the order of the spans is kept.
    assert SPACE.sequence(spans) == [6, 7, 1, 4, 4, 2]
    assert SPACE.sequence([]) == []


def test_spans_survive_a_round_trip() -> None:
    spans = [WordSpan(0, 1, "Drug"), WordSpan(1, 3, "Drug"), WordSpan(4, 5, "Disease")]
    assert SPACE.spans([*SPACE.sequence(spans), END], 5) == spans
    assert SPACE.spans(SPACE.sequence(spans), 5) == spans  # cut short, without an end
    assert SPACE.spans([END], 5) == []
    assert SPACE.spans([], 0) == []


@pytest.mark.parametrize(
    ("outputs", "kept"),
    [
        # Figure 2: "Clozapine, Drug, Drug" – the second type has no span before it.
        ([word(0), word(0), DRUG, DRUG], [WordSpan(0, 1, "Drug")]),
        ([DRUG, word(0), word(0), DRUG], [WordSpan(0, 1, "Drug")]),
        ([word(2), DRUG, word(0), word(0), ADE], [WordSpan(0, 1, "ADE")]),  # half a span
        ([word(0), word(1), word(2), DRUG, word(3), word(3), ADE], [WordSpan(3, 4, "ADE")]),  # one pointer too many
        ([word(2), word(1), DRUG, word(2), word(2), ADE], [WordSpan(2, 3, "ADE")]),  # starts after its end
        ([word(3), word(5), DRUG, word(4), word(4), ADE], [WordSpan(4, 5, "ADE")]),  # ends outside five words
        ([word(0), word(2), DRUG, word(2), word(3), ADE], [WordSpan(0, 3, "Drug")]),  # overlaps an earlier one
        ([word(0), word(1), DRUG, word(0), word(1), ADE], [WordSpan(0, 2, "Drug")]),
        ([word(0), word(1)], []),  # never typed
        ([word(0), word(1), END, DRUG], []),  # nothing counts behind the end
        ([word(1), word(1), ADE, END, word(0), word(0), DRUG], [WordSpan(1, 2, "ADE")]),
    ],
)
def test_invalid_outputs_are_ignored(outputs: list[int], kept: list[WordSpan]) -> None:
    assert SPACE.spans(outputs, 5) == kept


def test_targets_are_own_mentions_then_taught_ones_then_the_end() -> None:
    local = [[WordSpan(3, 4, "ADE")], [], []]
    taught = [[WordSpan(0, 1, "Drug")], [WordSpan(1, 3, "Disease")], []]
    targets = SPACE.targets(local, taught, most=9)
    assert targets.outputs.tolist() == [
        [word(3), word(3), ADE, word(0), word(0), DRUG, END],
        [word(1), word(2), DISEASE, END, END, END, END],
        [END] * 7,
    ]
    yes, no = True, False
    assert targets.taught.tolist() == [[no] * 3 + [yes] * 3 + [no], [yes] * 3 + [no] * 4, [no] * 7]
    assert targets.written.tolist() == [[yes] * 7, [yes] * 4 + [no] * 3, [yes] + [no] * 6]


def test_mentions_beyond_the_limit_are_cut() -> None:
    local = [[WordSpan(0, 1, "ADE"), WordSpan(1, 2, "ADE")], [WordSpan(0, 1, "ADE")]]
    taught = [[WordSpan(2, 3, "Drug")], [WordSpan(1, 2, "Drug"), WordSpan(2, 3, "Drug")]]
    targets = SPACE.targets(local, taught, most=2)
    assert targets.outputs.tolist() == [
        [word(0), word(0), ADE, word(1), word(1), ADE, END],
        [word(0), word(0), ADE, word(1), word(1), DRUG, END],
    ]
    assert targets.taught.sum(1).tolist() == [0, 3]
    assert SPACE.targets(local, taught, most=1).taught.sum() == 0


def test_targets_without_any_mention() -> None:
    targets = SPACE.targets([[]], [[]], most=9)
    assert targets.outputs.tolist() == [[END]]
    assert targets.outputs.dtype == torch.long
    assert targets.written.all() and not targets.taught.any()


def test_labels_as_text() -> None:
    assert parse_labels("") == {}
    given = "ADE=adverse drug effect,  Drug = medicine ,"
    assert parse_labels(given) == {"ADE": "adverse drug effect", "Drug": "medicine"}
    assert parse_labels("Ratio=a = b") == {"Ratio": "a = b"}


@pytest.mark.parametrize("text", ["ADE", "ADE=", "=adverse effect", "ADE=effect, Drug"])
def test_malformed_labels_are_refused(text: str) -> None:
    with pytest.raises(ModelError, match="is not a label; write a type, = and words"):
        parse_labels(text)


def test_a_type_with_two_labels_is_refused() -> None:
    with pytest.raises(ModelError, match="the type 'ADE' has two labels"):
        parse_labels("ADE=effect, ADE=adverse effect")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("Drug", "drug"),
        ("AdverseEffect", "adverse effect"),
        ("adverse_effect", "adverse effect"),
        ("ADE", "ADE"),
        ("DrugADE", "drug ADE"),
        ("ADEFinding", "ADE finding"),
        ("Gene_or_gene_product", "gene or gene product"),
        ("Multi-tissue_structure", "multi tissue structure"),
        ("WORK_OF_ART", "WORK OF ART"),
        ("Médicament", "médicament"),
        ("effetIndésirable", "effet indésirable"),
        ("Type2", "type2"),
        ("+", "+"),
    ],
)
def test_the_words_of_a_type(kind: str, words: str) -> None:
    assert words_of_type(kind) == words
