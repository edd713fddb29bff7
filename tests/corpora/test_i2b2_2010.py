"""The 2010 concepts layout: a fixture in both folder layouts, faults, refusals and round trips."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpora.strategies import BRIEF, WORD_CHARACTERS, corpora
from wardround.corpora.corpus_format import Problem, Severity
from wardround.corpora.i2b2_2010 import I2b2Concepts
from wardround.errors import CorpusError
from wardround.text.document import Document, Entity, Level, Range, Relation

NOTE = 'Admitted .\n  Chest  pain eased by "Lunarol" .\n'
CONCEPTS = 'c="chest pain" 2:0 2:1||t="problem"\nc=""lunarol"" 2:4 2:4||t="treatment"\n'
RELATIONS = 'c=""lunarol"" 2:4 2:4||r="TrIP"||c="chest pain" 2:0 2:1\n'
ASSERTIONS = 'c="chest pain" 2:0 2:1||t="problem"||a="present"\n'
EXPECTED = Document(
    "n1",
    NOTE,
    (
        # The second line begins at 11; two spaces, Chest 13-18, two spaces, pain 20-24, eased, by, "Lunarol" 34-43.
        Entity("T1", "problem", (Range(13, 24),), attributes=(("assertion", "present"),)),
        Entity("T2", "treatment", (Range(34, 43),)),
    ),
    (Relation("R1", "TrIP", "T2", "T1"),),
)


def lay(folder: Path, *, apart: bool, **files: str) -> None:
    places = {"txt": "txt", "con": "concept", "rel": "rel", "ast": "ast"}
    contents = {"txt": NOTE, "con": CONCEPTS, "rel": RELATIONS, "ast": ASSERTIONS, **files}
    for ending, content in contents.items():
        file = folder / (places[ending] if apart else ".") / f"n1.{ending}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")


def read(folder: Path) -> tuple[list[Document], list[Problem]]:
    problems: list[Problem] = []
    return list(I2b2Concepts().read(folder, problems=problems.append)), problems


@pytest.mark.parametrize("apart", [True, False])
def test_a_note(tmp_path: Path, apart: bool) -> None:
    lay(tmp_path, apart=apart)
    assert read(tmp_path) == ([EXPECTED], [])


def test_hospitals_in_separate_folders(tmp_path: Path) -> None:
    lay(tmp_path / "north", apart=True)
    lay(tmp_path / "south", apart=True)
    found, problems = read(tmp_path)
    assert not problems
    assert found == [replace(EXPECTED, id="north/n1"), replace(EXPECTED, id="south/n1")]


def test_one_note_by_name(tmp_path: Path) -> None:
    lay(tmp_path, apart=True)
    assert list(I2b2Concepts().read(tmp_path / "txt" / "n1.txt")) == [EXPECTED]


def test_notes_without_annotations_are_read_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "n1.txt").write_text(NOTE)
    found, problems = read(tmp_path)
    assert found == [Document("n1", NOTE)]
    assert [problem.severity for problem in problems] == [Severity.WARNING]


@pytest.mark.parametrize(
    ("ending", "line", "part"),
    [
        ("con", 'c="chest pain" 9:0 9:1||t="problem"', "the note has no such position"),
        ("con", 'c="chest pain" 0:0 0:1||t="problem"', "the note has no such position"),
        ("con", 'c="chest pain" 2:1 2:0||t="problem"', "the note has no such position"),
        ("con", 'c="chest pain" 2:0 2:99||t="problem"', "the note has no such position"),
        ("con", 'c="breast pain" 2:0 2:1||t="problem"', "words in quotes"),
        ("con", 'c="chest pain" 2:0 2:1||t=""', "does not have the form"),
        ("con", "chest pain", "does not have the form"),
        ("ast", 'c="eased" 2:2 2:2||t="problem"||a="absent"', "not a concept of that type"),
        ("ast", 'c="eased" 2:2 2:2||t="problem"', "does not have the form"),
        ("rel", 'c="eased" 2:2 2:2||r="TrIP"||c="chest pain" 2:0 2:1', "not a concept"),
        ("rel", 'c="eased" 2:2 2:2||r="TrIP"||c="chest pain" 2:0 7:1', "the note has no such position"),
        ("rel", 'c="eased" 2:2 2:2', "does not have the form"),
    ],
)
def test_a_faulty_line_is_reported_and_left_out(tmp_path: Path, ending: str, line: str, part: str) -> None:
    good = {"con": CONCEPTS, "rel": RELATIONS, "ast": ASSERTIONS}[ending]
    lay(tmp_path, apart=False, **{ending: f"\n{line}\n{good}"})
    found, problems = read(tmp_path)
    assert found == [EXPECTED]
    assert [(problem.path, problem.line) for problem in problems] == [(tmp_path / f"n1.{ending}", 2)]
    assert part in problems[0].message


def test_a_mention_across_two_lines_is_read(tmp_path: Path) -> None:
    lay(tmp_path, apart=False, con='c=". chest" 1:1 2:0||t="problem"\n', rel="", ast="")
    found, problems = read(tmp_path)
    assert not problems
    assert found[0].entities == (Entity("T1", "problem", (Range(9, 18),)),)


ONE = Document("1", "a pain\nb", (Entity("T1", "problem", (Range(2, 6),)),))
SAME = (*ONE.entities, Entity("T2", "test", (Range(2, 6),)))


@pytest.mark.parametrize(
    ("document", "part"),
    [
        (ONE.with_entities([Entity("T1", "P", (Range(2, 5),))]), "inside a word"),
        (ONE.with_entities([Entity("T1", "P", (Range(1, 6),))]), "inside a word"),
        (ONE.with_entities([Entity("T1", "P", (Range(0, 1), Range(2, 6)))]), "discontinuous"),
        (ONE.with_entities([Entity("T1", "P", (Range(2, 8),))]), "end of a line"),
        (ONE.with_entities([Entity("T1", 'P"', (Range(2, 6),))]), "quotation mark"),
        (ONE.with_entities([Entity("T1", "P", (Range(2, 6),), attributes=(("assertion", "\n"),))]), "line end"),
        (replace(ONE, entities=SAME, relations=(Relation("R1", "is", "T1", "T2"),)), "same words"),
        (
            Document(
                "1", "a", (Entity("T1", "P", (Range(0, 1),), ("D",)),), (Relation("R", "is", "D", "D", Level.CONCEPT),)
            ),
            "relates concepts",
        ),
        (replace(ONE, id="../1"), "be a file name"),
    ],
)
def test_the_writer_refuses_what_the_format_cannot_hold(tmp_path: Path, document: Document, part: str) -> None:
    with pytest.raises(CorpusError) as caught:
        I2b2Concepts().write([document], tmp_path)
    assert part in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_old_files_are_replaced(tmp_path: Path) -> None:
    I2b2Concepts().write([EXPECTED], tmp_path)
    assert list(I2b2Concepts().read(tmp_path)) == [EXPECTED]
    bare = Document("n1", NOTE)
    I2b2Concepts().write([bare], tmp_path)
    assert list(I2b2Concepts().read(tmp_path)) == [bare]


@st.composite
def held(draw: st.DrawFn) -> Document:
    """Draw lines of words, and mentions that begin and end with a word of one line, no two at the same position."""
    word = st.text(WORD_CHARACTERS, min_size=1, max_size=5)
    gap = st.sampled_from([" ", "  ", "\t", "\x0b", "\u2028", "\r"])
    text, lines = "", []
    for _ in range(draw(st.integers(0, 4))):
        words = []
        for content in draw(st.lists(word, max_size=5)):
            text += draw(gap)
            words.append(Range(len(text), len(text) + len(content)))
            text += content
        lines.append(words)
        text += "\n"
    mentions = st.sampled_from([words for words in lines if words]).flatmap(_mention) if any(lines) else st.nothing()
    ranges = draw(st.lists(mentions, max_size=4, unique=True)) if any(lines) else []
    entities = tuple(_entity(draw, number, found) for number, found in enumerate(ranges, start=1))
    return Document("d", text, entities, _relations(draw, entities))


def _mention(words: list[Range]) -> st.SearchStrategy[Range]:
    pairs = st.tuples(st.sampled_from(words), st.sampled_from(words)).map(sorted)
    return pairs.map(lambda pair: Range(pair[0].start, pair[1].end))


def _entity(draw: st.DrawFn, number: int, found: Range) -> Entity:
    assertion = draw(st.sampled_from([(), (("assertion", "absent"),)]))
    return Entity(f"T{number}", draw(st.sampled_from(["problem", "test", "a b"])), (found,), attributes=assertion)


def _relations(draw: st.DrawFn, entities: tuple[Entity, ...]) -> tuple[Relation, ...]:
    ends = st.sampled_from([entity.id for entity in entities]) if entities else st.nothing()
    pairs = draw(st.lists(st.tuples(ends, ends), max_size=3)) if entities else []
    return tuple(Relation(f"R{number}", "TrIP", *pair) for number, pair in enumerate(pairs, start=1))


@BRIEF
@given(corpora(held(), minimum=1))
def test_round_trip(found: list[Document]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        I2b2Concepts().write(found, Path(folder))
        assert list(I2b2Concepts().read(Path(folder))) == found


def test_the_format_can_be_written() -> None:
    assert I2b2Concepts().can_write
