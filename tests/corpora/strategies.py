"""Hypothesis strategies and settings, shared by the tests of every reader and writer."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import settings
from hypothesis import strategies as st

from wardround.corpora.xml import escape_xml
from wardround.errors import CorpusError
from wardround.text.document import Attributes, Document, Entity, Range, Relation

# For every property in this folder. An example writes and reads files, so there are fewer than a hundred; on a busy
# machine, a correct example may take long.
BRIEF = settings(max_examples=30, deadline=None)
TYPES = ("Drug", "ADE", "Dose-Unit")
# Characters that break careless readers are frequent: line ends, spaces, accents, astral planes.
CHARACTERS = st.one_of(
    st.sampled_from("abc DEF12.,\n\n \té\u0301ß中😀𝒳"),
    st.characters(exclude_categories=["Cs"], exclude_characters="\r"),
)
# Every character that UTF-8 can encode, including carriage returns.
ANY_CHARACTERS = st.one_of(CHARACTERS, st.sampled_from("\r\u2028\x85\x0b\ufeff"))
# No white space and no control characters: safe inside a word, a value or an id of any format.
WORD_CHARACTERS = st.one_of(
    st.sampled_from("abcDEF12.,-é中😀𝒳"),
    st.characters(exclude_categories=["Cs", "Cc", "Cf", "Zs", "Zl", "Zp"]),
)
TEXTS = st.text(CHARACTERS, max_size=60)
# Characters that XML 1.0 can represent; those with a special meaning are frequent.
XML_CHARACTERS = st.characters(exclude_categories=["Cs"]).filter(lambda character: not xml_forbids(character))
XML_TEXTS = st.text(st.one_of(st.sampled_from("ab<>&\"']\r\n\t é😀\u2028\x85\ufeff"), XML_CHARACTERS), max_size=60)
VALUES = st.text(WORD_CHARACTERS, min_size=1, max_size=8)
ATTRIBUTES = st.lists(st.tuples(VALUES, VALUES), max_size=2, unique_by=lambda pair: pair[0]).map(tuple)


def xml_forbids(text: str) -> bool:
    """Return True if XML cannot represent the text."""
    try:
        escape_xml(text)
    except CorpusError:
        return True
    return False


@st.composite
def documents(
    draw: st.DrawFn,
    *,
    texts: st.SearchStrategy[str] = TEXTS,
    types: Sequence[str] = TYPES,
    relation_types: Sequence[str] = ("Causes", "Dose-Of"),
    discontinuous: bool = False,
    overlapping: bool = False,
    relations: bool = False,
    extras: bool = False,
) -> Document:
    """Draw one document with entities `T1`, `T2`, ... and relations `R1`, `R2`, ... between mentions.

    Entities do not overlap unless `overlapping`; each has one range unless `discontinuous`;
    `extras` adds concepts, attributes and notes. The id is `d`: see `corpora` for unique ones.
    """
    text = draw(texts)
    entities = tuple(
        Entity(f"T{number}", draw(st.sampled_from(list(types))), ranges, **_extras(draw) if extras else {})
        for number, ranges in enumerate(_mentions(draw, len(text), discontinuous, overlapping), start=1)
    )
    pairs = _relations(draw, [entity.id for entity in entities], relation_types) if relations else ()
    return Document("d", text, entities, pairs)


def corpora(
    one: st.SearchStrategy[Document], *, prefix: str = "n", minimum: int = 0, maximum: int = 4
) -> st.SearchStrategy[list[Document]]:
    """Draw a few documents with the ids `<prefix>1`, `<prefix>2`, ..."""
    return st.lists(one, min_size=minimum, max_size=maximum).map(
        lambda found: [_renamed(document, f"{prefix}{number}") for number, document in enumerate(found, start=1)]
    )


def _renamed(document: Document, name: str) -> Document:
    return Document(
        name,
        document.text,
        document.entities,
        document.relations,
        document.words,
        document.sentences,
        document.attributes,
    )


def _mentions(draw: st.DrawFn, length: int, discontinuous: bool, overlapping: bool) -> list[tuple[Range, ...]]:
    if overlapping:
        count = draw(st.integers(0, 4)) if length else 0
        return [tuple(_cuts(draw, length, 3 if discontinuous else 1, minimum=1)) for _ in range(count)]
    ranges = _cuts(draw, length, 6)
    found = []
    while ranges:
        size = draw(st.integers(1, 3)) if discontinuous else 1
        found.append(tuple(ranges[:size]))
        ranges = ranges[size:]
    return found


def _cuts(draw: st.DrawFn, length: int, maximum: int, minimum: int = 0) -> list[Range]:
    """Draw at most `maximum` ranges in order that are not adjacent."""
    if length == 0:
        return []
    points = draw(st.sets(st.integers(0, length), min_size=2 * minimum, max_size=min(2 * maximum, length + 1)))
    ordered = sorted(points)
    return [Range(start, end) for start, end in zip(ordered[::2], ordered[1::2], strict=False)]


def _relations(draw: st.DrawFn, ids: list[str], types: Sequence[str]) -> tuple[Relation, ...]:
    if not ids:
        return ()
    ends = st.sampled_from(ids)
    triples = draw(st.lists(st.tuples(st.sampled_from(list(types)), ends, ends), max_size=3))
    return tuple(Relation(f"R{number}", *triple) for number, triple in enumerate(triples, start=1))


def _extras(draw: st.DrawFn) -> dict[str, tuple[str, ...] | Attributes | str]:
    return {
        "concepts": tuple(draw(st.lists(VALUES, max_size=2, unique=True))),
        "attributes": draw(ATTRIBUTES),
        "note": draw(st.one_of(st.just(""), VALUES)),
    }
