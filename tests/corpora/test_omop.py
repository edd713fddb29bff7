from __future__ import annotations

import csv
from pathlib import Path

import pytest

from wardround.corpora.omop import COLUMNS, Omop
from wardround.errors import CorpusError, UsageError
from wardround.text.document import Document, Entity

TEXT = 'Denies "rash", and\nfever. Mother had asthma after lunarol.'
NOTE = Document(
    "4711",
    TEXT,
    (
        Entity("T1", "ADE", ((8, 12),), attributes=(("negated", "true"),), score=0.91234),
        Entity("T2", "Finding", ((19, 24),), attributes=(("negated", "false"), ("historical", "true"))),
        Entity("T3", "Disease", ((37, 43),), attributes=(("assertion", "associated_with_someone_else"),)),
        Entity("T4", "Drug", ((50, 57),), concepts=("D1,D2",)),
        Entity("T5", "Disease", ((8, 12), (19, 24))),
    ),
)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_a_row_for_each_mention(tmp_path: Path) -> None:
    Omop("2025-03-31").write([NOTE, Document("4712", "No drug."), NOTE], tmp_path / "note_nlp.csv")
    found = rows(tmp_path / "note_nlp.csv")
    assert list(found[0]) == list(COLUMNS)
    assert [row["note_nlp_id"] for row in found] == [str(number) for number in range(1, 11)]
    assert {row["note_id"] for row in found} == {"4711"}
    assert [row["lexical_variant"] for row in found[:5]] == ["rash", "fever", "asthma", "lunarol", "rash fever"]
    assert [row["offset"] for row in found[:5]] == ["8", "19", "37", "50", "8"]
    assert [row["term_exists"] for row in found[:5]] == ["N", "Y", "N", "", ""]
    assert [row["term_temporal"] for row in found[:5]] == ["", "past", "", "", ""]
    assert found[0]["term_modifiers"] == "type=ADE,score=0.9123,negated=true"
    assert found[3]["term_modifiers"] == "type=Drug,concept=D1;D2"
    assert found[0]["snippet"] == TEXT  # shorter than 60 characters on both sides
    assert {row["nlp_date"] for row in found} == {"2025-03-31"}


def test_parquet_has_the_same_rows(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="install wardround[parquet]")
    for name in ("a.csv", "a.parquet"):
        Omop("2025-03-31").write([NOTE], tmp_path / name)
    table = parquet.read_table(tmp_path / "a.parquet")
    as_text = [{k: "" if v is None else str(v) for k, v in row.items()} for row in table.to_pylist()]
    assert as_text == rows(tmp_path / "a.csv")
    assert str(table.schema.field("note_id").type) == "int64"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "a.parquet"]


def test_a_snippet_is_cut_around_the_mention(tmp_path: Path) -> None:
    text = "a" * 100 + " rash " + "b" * 400
    Omop().write([Document("1", text, (Entity("T1", "ADE", ((101, 105),)),))], tmp_path / "a.csv")
    (row,) = rows(tmp_path / "a.csv")
    assert row["snippet"] == "a" * 59 + " rash " + "b" * 59


def test_ids_must_be_numbers_and_days_days(tmp_path: Path) -> None:
    note = Document("ward/n1", "Rash", (Entity("T1", "ADE", ((0, 4),)),))
    with pytest.raises(CorpusError, match="a note has an id that is not a number; OMOP needs the note_id"):
        Omop().write([note], tmp_path / "a.csv")
    assert not list(tmp_path.iterdir())
    with pytest.raises(UsageError, match="'spring' is not a day such as 2025-03-31"):
        Omop("spring")
    with pytest.raises(UsageError, match="can only be written"):
        Omop().read(tmp_path)
