from __future__ import annotations

from wardround.corpora.synthetic import Splits, SyntheticSite
from wardround.text.document import Document, Entity, Range, Relation

NOTE = Document(
    "d",
    "aspirin gave him hives",
    entities=(Entity("T1", "Drug", (Range(0, 7),)), Entity("T2", "ADE", (Range(17, 22),))),
    relations=(Relation("R1", "causes", "T1", "T2"),),
)


def test_relations_go_with_their_ends() -> None:
    complete = Splits((NOTE,), (), ())
    assert SyntheticSite.seeing(("Drug", "ADE"), complete, name="s", style="posts").train == (NOTE,)
    (only_drugs,) = SyntheticSite.seeing(("Drug",), complete, name="s", style="posts").train
    assert [entity.id for entity in only_drugs.entities] == ["T1"]
    assert only_drugs.relations == ()
    assert only_drugs.text == NOTE.text


def test_a_site_sees_its_types_in_every_split() -> None:
    site = SyntheticSite.seeing(("ADE",), Splits((NOTE,), (NOTE,), (NOTE,)), name="s", style="posts")
    for documents in (site.train, site.dev, site.test):
        assert [entity.type for entity in documents[0].entities] == ["ADE"]
    assert site.complete.dev == (NOTE,)
