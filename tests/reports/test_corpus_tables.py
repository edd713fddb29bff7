from __future__ import annotations

from wardround.corpora.stats import count
from wardround.reports.corpus_tables import corpus_tables
from wardround.text.document import Document, Entity, Range, Relation

ENTITIES = (Entity("T1", "Drug", (Range(0, 3), Range(4, 5))), Entity("T2", "ADE", (Range(6, 8),)))
WITH_WORDS = Document("1", "abc d ef.", ENTITIES, (Relation("R1", "causes", "T1", "T2"),), words=(Range(0, 3),))
PLAIN = Document("2", "ab", (Entity("T1", "Drug", (Range(0, 2),)),))


def test_each_part_has_a_column_and_each_type_a_row() -> None:
    counts, entities, relations = corpus_tables({"train": count([WITH_WORDS]), "dev": count([PLAIN, PLAIN])})
    assert counts.columns == ("", "train", "dev")
    assert counts.rows == (
        ("documents", 1, 2),
        ("words", 1, None),
        ("entities", 2, 2),
        ("discontinuous", 1, 0),
        ("relations", 1, 0),
        ("characters per document", 9, 2),
    )
    assert entities.rows == (("ADE", 1, 0), ("Drug", 1, 2))
    assert relations.rows == (("causes", 1, 0),)


def test_what_no_part_has_is_left_out() -> None:
    (counts,) = corpus_tables({"all": count([Document("1", "")])}, title="Empty")
    assert counts.title == "Empty"
    assert [row[0] for row in counts.rows if row[0] in ("words", "sentences")] == []
