from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.errors import TagError
from wardround.text.tag_schemes import BIO, BIOES, IOB1, SCHEMES, TagScheme, WordSpan, split_tag

TYPES = ("Drug", "ADE", "Dose-Unit")
ALL = pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)


def tags(line: str) -> list[str]:
    """`B I O b` is shorthand for `B-X I-X O B-Y`: capitals have type X, small letters type Y."""
    return [t if t == "O" else f"{t.upper()}-{'X' if t.isupper() else 'Y'}" for t in line.split()]


def spans(*triples: tuple[int, int, str]) -> list[WordSpan]:
    return [WordSpan(*triple) for triple in triples]


def test_tag_is_split_at_its_first_dash() -> None:
    assert split_tag("O") == ("O", "")
    assert split_tag("B-Drug") == ("B", "Drug")
    assert split_tag("I-Dose-Unit") == ("I", "Dose-Unit")


@pytest.mark.parametrize("wrong", ["", "B", "B-", "-Drug", "Drug", "BI-Drug", "O-Drug", "o"])
def test_invalid_tags_are_refused(wrong: str) -> None:
    with pytest.raises(TagError, match="is not a tag: expected 'O' or '<prefix>-<type>' such as 'B-Drug'"):
        split_tag(wrong)


@pytest.mark.parametrize(("scheme", "foreign"), [(BIO, "S-X"), (IOB1, "E-X"), (BIOES, "L-X"), (BIO, "#-X")])
def test_prefix_of_another_scheme_is_refused(scheme: TagScheme, foreign: str) -> None:
    with pytest.raises(TagError, match=f"'{foreign}' is not a {scheme.name} tag: prefixes are "):
        scheme.spans([foreign])


def test_tags_are_in_a_fixed_order() -> None:
    assert BIO.tags(("X", "Y")) == ("O", "B-X", "I-X", "B-Y", "I-Y")
    assert BIOES.tags(("X",)) == ("O", "B-X", "I-X", "E-X", "S-X")
    assert IOB1.tags(()) == ("O",)


# Which tag may follow which: "." any, "s" only one of the same type, "x" never.
# Rows are the left tag (# is the edge of the sentence), columns the right one.
TABLES = {
    "BIO": ("OBI#", {"#": "..x.", "O": "..x.", "B": "..s.", "I": "..s."}),
    "IOB1": ("OBI#", {"#": ".x..", "O": ".x..", "B": ".s..", "I": ".s.."}),
    "BIOES": (
        "OBIES#",
        {"#": "..xx..", "O": "..xx..", "B": "xxssxx", "I": "xxssxx", "E": "..xx..", "S": "..xx.."},
    ),
}


@ALL
def test_transitions_by_hand(scheme: TagScheme) -> None:
    columns, rows = TABLES[scheme.name]
    for left, row in rows.items():
        for right, rule in zip(columns, row, strict=True):
            for left_type in ("X", "Y"):
                expected = rule == "." or (rule == "s" and left_type == "X")
                assert scheme.may_follow(tag(left, left_type), tag(right, "X")) is expected, (left, left_type, right)


def tag(prefix: str, kind: str) -> str | None:
    return None if prefix == "#" else prefix if prefix == "O" else f"{prefix}-{kind}"


@pytest.mark.parametrize(
    ("scheme", "line"),
    [(BIO, "O B I I O B B I b i"), (BIOES, "O B I E O S B E b e"), (IOB1, "O I I I O I B I i i")],
    ids=["BIO", "BIOES", "IOB1"],
)
def test_the_same_mentions_in_each_scheme(scheme: TagScheme, line: str) -> None:
    mentions = spans((1, 4, "X"), (5, 6, "X"), (6, 8, "X"), (8, 10, "Y"))
    assert scheme.encode(mentions, 10) == tags(line)
    assert scheme.spans(tags(line)) == mentions
    assert scheme.is_legal(tags(line))


@pytest.mark.parametrize(
    ("scheme", "broken", "repaired"),
    [
        (BIO, "O I I", "O B I"),  # a mention that starts without B
        (BIO, "I i", "B b"),
        (BIO, "B i i B", "B b i B"),
        (BIO, "b I I i", "b B I b"),
        (BIOES, "B O", "S O"),  # never closed
        (BIOES, "B I", "B E"),
        (BIOES, "I I E", "B I E"),  # never opened
        (BIOES, "E", "S"),
        (BIOES, "I", "S"),
        (BIOES, "B B E", "S B E"),  # B starts a new mention
        (BIOES, "B S", "S S"),
        (BIOES, "S E", "S S"),
        (BIOES, "B E I", "B E S"),
        (BIOES, "B i E", "S s S"),
        (IOB1, "B I", "I I"),  # B without a neighbour of its type
        (IOB1, "O B B", "O I B"),
        (IOB1, "i B I", "i I I"),
    ],
)
def test_repair_by_hand(scheme: TagScheme, broken: str, repaired: str) -> None:
    assert not scheme.is_legal(tags(broken))
    assert scheme.repair(tags(broken)) == tags(repaired)
    assert scheme.spans(tags(broken)) == scheme.spans(tags(repaired))


@ALL
def test_empty_sentence(scheme: TagScheme) -> None:
    assert scheme.encode([], 0) == []
    assert scheme.spans([]) == []
    assert scheme.is_legal([])
    assert scheme.encode([], 2) == ["O", "O"]


@ALL
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (((0, 3, "X"),), "X at words 0-3 is outside a sentence of 2 words"),
        (((-1, 1, "X"),), "X at words -1-1 is outside"),
        (((1, 1, "X"),), "X at words 1-1 is outside"),
        (((0, 2, "X"), (1, 2, "Y")), "Y at words 1-2 overlaps another mention"),
    ],
)
def test_spans_that_do_not_fit_are_refused(
    scheme: TagScheme, wrong: tuple[tuple[int, int, str], ...], message: str
) -> None:
    with pytest.raises(TagError, match=message):
        scheme.encode(spans(*wrong), 2)


@st.composite
def mentions(draw: st.DrawFn) -> tuple[list[WordSpan], int]:
    """Draw spans in order, often adjacent and often of the same type."""
    found, position = [], 0
    for _ in range(draw(st.integers(0, 6))):
        start = position + draw(st.sampled_from([0, 0, 1, 2]))
        position = start + draw(st.integers(1, 4))
        found.append(WordSpan(start, position, draw(st.sampled_from(TYPES))))
    return found, position + draw(st.integers(0, 2))


@ALL
@given(case=mentions())
def test_spans_to_tags_and_back(scheme: TagScheme, case: tuple[list[WordSpan], int]) -> None:
    found, length = case
    encoded = scheme.encode(reversed(found), length)
    assert len(encoded) == length
    assert scheme.is_legal(encoded)
    assert scheme.spans(encoded) == found


@ALL
@given(data=st.data())
def test_repair_is_legal_idempotent_and_keeps_legal_tags(scheme: TagScheme, data: st.DataObject) -> None:
    drawn = data.draw(st.lists(st.sampled_from(scheme.tags(TYPES)), max_size=12))
    repaired = scheme.repair(drawn)
    assert scheme.is_legal(repaired)
    assert scheme.repair(repaired) == repaired
    # Words inside a mention stay inside a mention of the same type.
    assert [split_tag(tag)[1] for tag in repaired] == [split_tag(tag)[1] for tag in drawn]
    if scheme.is_legal(drawn):
        assert repaired == drawn


@pytest.mark.parametrize(
    ("scheme", "left", "right", "continues"),
    [
        (BIO, "B-X", "I-X", True),
        (BIO, "I-X", "I-X", True),
        (BIO, "B-X", "I-Y", False),
        (BIO, "B-X", "B-X", False),
        (BIO, "O", "I-X", False),
        (BIO, "I-X", "O", False),
        (BIO, "O", "O", False),
        (BIOES, "B-X", "I-X", True),
        (BIOES, "I-X", "E-X", True),
        (BIOES, "E-X", "I-X", False),
        (BIOES, "S-X", "E-X", False),
        (IOB1, "I-X", "I-X", True),
        (IOB1, "I-X", "B-X", False),
        (IOB1, "B-X", "I-X", True),
    ],
)
def test_which_tag_continues_a_mention(scheme: TagScheme, left: str, right: str, continues: bool) -> None:
    assert scheme.continues(left, right) is continues
