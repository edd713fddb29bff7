"""DDI-style XML: discontinuous mentions, true and false pairs, faults by line."""

from __future__ import annotations

from pathlib import Path

import pytest

from wardround.corpora.corpus_format import Problem
from wardround.corpora.ddi import Ddi
from wardround.text.document import Entity, Range, Relation

DOCUMENT = """<document id="DDI.d1">
<sentence id="s0" text="Aspirin and warfarin interact.">
<entity id="e0" charOffset="0-6" type="drug" text="Aspirin"/>
<entity id="e1" charOffset="12-19" type="drug" text="warfarin"/>
<pair id="p0" e1="e0" e2="e1" ddi="true" type="effect"/>
<pair id="p1" e1="e1" e2="e0" ddi="false"/></sentence>
<sentence id="s1" text="Beta or gamma blockers, too.">
<entity id="e2" charOffset="0-3;14-21" type="group" text="Beta blockers"/></sentence>
</document>
"""


def test_a_document_by_hand(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(DOCUMENT)
    (found,) = Ddi().read(tmp_path)
    assert (found.id, found.text) == ("DDI.d1", "Aspirin and warfarin interact.\nBeta or gamma blockers, too.")
    assert found.entities == (
        Entity("e0", "drug", (Range(0, 7),)),
        Entity("e1", "drug", (Range(12, 20),)),
        Entity("e2", "group", (Range(31, 35), Range(45, 53))),
    )
    assert found.relations == (Relation("p0", "effect", "e0", "e1"),)
    assert found.sentences == (Range(0, 30), Range(31, 59))


@pytest.mark.parametrize(
    ("old", "new", "line", "fault"),
    [
        ('"0-6"', '"0-99"', 3, "charOffset does not have the form '0-6' or '0-6;10-14' inside the sentence; left out"),
        ('"0-6"', '"zero"', 3, "charOffset does not have the form '0-6' or '0-6;10-14' inside the sentence; left out"),
        ('text="Aspirin"/', 'text="secret"/', 3, "e0: the attribute text differs from the text of the note at its"),
        ('e2="e1"', 'e2="e9"', 5, "relation p0 has a tail that is not a mention here; it is left out"),
        ('id="DDI.d1"', "", 1, "the document has no id and is left out"),
    ],
)
def test_faults_name_the_line(tmp_path: Path, old: str, new: str, line: int, fault: str) -> None:
    (tmp_path / "a.xml").write_text(DOCUMENT.replace(old, new, 1))
    problems: list[Problem] = []
    list(Ddi().read(tmp_path, problems=problems.append))
    assert (problems[0].line, problems[0].message[: len(fault)]) == (line, fault)
    assert not any("secret" in problem.message for problem in problems)
