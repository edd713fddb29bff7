"""WebAnno TSV 3: layers, stacked and joined values, relations, escapes, and faults by line."""

from __future__ import annotations

from pathlib import Path

import pytest

from wardround.corpora.corpus_format import Problem
from wardround.corpora.webanno_tsv import WebannoTsv
from wardround.errors import CorpusError, UsageError
from wardround.text.document import Document, Entity, Range, Relation

HEAD = "#FORMAT=WebAnno TSV 3.3\n#T_SP=webanno.custom.E|kind\n#T_RL=webanno.custom.R|role|BT_webanno.custom.E\n\n\n"
NOTE = (
    "#Text=😀 Aspirin burns badly\n"
    "1-1\t0-2\t😀\t_\t_\t_\t\n"
    "1-2\t3-10\tAspirin\tDrug|Brand\\_name[7]\t_\t_\t\n"
    "1-3\t11-16\tburns\tADE[1]\tcauses\t1-2[0_1]\t\n"
    "1-4\t17-22\tbadly\tADE[1]|Degree[2]\t_\t_\t\n"
    "1-4.1\t17-20\tbad\tPart[3]\t_\t_\t\n"
    "\n"
    "#Text=No fever\n"
    "2-1\t25-27\tNo\t_\t_\t_\t\n"
    "2-2\t28-33\tfever\tSymptom\t_\t_\t\n"
)


def read(folder: Path, content: str, form: WebannoTsv | None = None) -> Document:
    (folder / "n1.tsv").write_text(content, encoding="utf-8")
    (found,) = (form or WebannoTsv()).read(folder)
    return found


def test_a_note_by_hand(tmp_path: Path) -> None:
    found = read(tmp_path, HEAD + NOTE)
    # The second sentence begins three UTF-16 units after the first one, which ends at 22.
    assert found.text == "😀 Aspirin burns badly\n  No fever"
    assert [(e.id, e.type, e.text_in(found.text)) for e in found.entities] == [
        ("T1", "Drug", "Aspirin"),
        ("T2", "Brand_name", "Aspirin"),
        ("T3", "ADE", "burns badly"),
        ("T4", "Degree", "badly"),
        ("T5", "Part", "bad"),
        ("T6", "Symptom", "fever"),
    ]
    assert found.relations == (Relation("R1", "causes", "T1", "T3"),)
    assert found.words is None
    with_words = read(tmp_path, HEAD + NOTE, WebannoTsv(words=True))
    assert with_words.words is not None and len(with_words.words) == 6  # without the part of a token
    assert with_words.sentences == (Range(0, 21), Range(24, 32))


def test_the_feature_with_the_type_must_be_named_if_there_are_several(tmp_path: Path) -> None:
    head = "#FORMAT=WebAnno TSV 3.2\n#T_SP=webanno.custom.Referent|entity|infstat\n\n\n"
    rows = "#Text=HIV disease\n1-1\t0-3\tHIV\tabstract[3]|animal[4]\tnew[3]|old[4]\t\n"
    rows += "1-2\t4-11\tdisease\tabstract[3]\tnew[3]\t\n"
    with pytest.raises(UsageError, match=r"several features: entity, infstat; .* --option feature=entity"):
        read(tmp_path, head + rows)
    assert read(tmp_path, head + rows, WebannoTsv(feature="entity")).entities == (
        Entity("T1", "abstract", (Range(0, 11),), attributes=(("infstat", "new"),)),
        Entity("T2", "animal", (Range(0, 3),), attributes=(("infstat", "old"),)),
    )


def test_a_layer_that_was_not_chosen_still_has_its_columns(tmp_path: Path) -> None:
    head = "#FORMAT=WebAnno TSV 3.3\n#T_SP=de.x.POS|PosValue|coarse\n#T_CH=de.x.Link|a|b\n"
    head += "#T_SP=webanno.custom.E|kind\n\n\n"
    row = "#Text=Aspirin\n1-1\t0-7\tAspirin\tNN\tN\t_\t_\tDrug\t\n"
    assert [e.type for e in read(tmp_path, head + row).entities] == ["Drug"]


def test_several_lines_of_a_sentence_and_escapes(tmp_path: Path) -> None:
    rows = "#Text=one\\ttwo\n#Text=three\n1-1\t0-3\tone\t_\t_\t_\t\n1-2\t4-7\ttwo\tA\\|B\t_\t_\t\n"
    rows += "1-3\t8-13\tthree\t_\t_\t_\t\n"
    found = read(tmp_path, HEAD + rows)
    assert found.text == "one\ttwo\nthree"
    assert found.entities == (Entity("T1", "A|B", (Range(4, 7),)),)


@pytest.mark.parametrize(
    ("rows", "line", "fault"),
    [
        ("1-1\t0-x\tsecret\tDrug\t_\t_\t\n", 7, "is not a token: expected columns such as '1-1', '0-7' and the word"),
        ("secret\n", 7, "is not a token: expected columns such as '1-1', '0-7' and the word"),
        ("1-1\t0-6\tsecrex\tDrug\t_\t_\t\n", 7, "the token differs from the text of the sentence"),
        ("1-1\t0-6\tsecret\t*\t_\t_\t\n", 7, "the annotation has no type; label it, or skip faulty parts"),
        ("1-1\t0-6\tsecret\tDrug\tis\t1-x\t\n", 7, "the head of a relation in the layer"),
        ("1-1\t99999999999-99999999999\tsecret\tDrug\t_\t_\t\n", 7, "the sentence begins at 99999999999, but the text"),
    ],
)  # fmt: skip
def test_faults_name_the_line_and_do_not_quote_it(tmp_path: Path, rows: str, line: int, fault: str) -> None:
    (tmp_path / "n1.tsv").write_text(HEAD + "#Text=secret\n" + rows)
    problems: list[Problem] = []
    list(WebannoTsv().read(tmp_path, problems=problems.append))
    assert (problems[0].line, problems[0].message[: len(fault)]) == (line, fault)
    assert not any("secret" in problem.message for problem in problems)


def test_another_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"n1\.tsv: is not WebAnno TSV 3"):
        read(tmp_path, "Aspirin\tB-Drug\n")
