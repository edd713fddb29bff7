from __future__ import annotations

from wardround.corpora.synthetic import Splits, SyntheticSite
from wardround.corpora.synthetic.notes import Typing, misspelt
from wardround.corpora.synthetic.stream import Stream
from wardround.corpora.synthetic.templates import Mention, NoteBuilder, Piece
from wardround.text.document import Document, Entity, Range, Relation

SENTENCE = [Piece(""), Piece("the "), Piece("paracetamol", Mention("Drug", "Drug")), Piece(" did not help")]


def test_a_mistake_is_small_and_keeps_the_first_letter() -> None:
    mistakes = {misspelt("diarrhoea", Stream(n)) for n in range(300)}
    assert len(mistakes) > 20
    assert {"diarhoea", "diarroea", "diarrhea"} & mistakes
    assert all(word[0] == "d" and abs(len(word) - 9) <= 2 for word in mistakes)


def test_careful_typing_only_adds_a_capital() -> None:
    pieces = Typing().write(SENTENCE, Stream(0), small=False)
    assert "".join(piece.text for piece in pieces) == "The paracetamol did not help"


def test_careless_typing_misspells_long_words_with_correct_offsets() -> None:
    builder = NoteBuilder({})
    builder.sentence(Typing(slips=1.0).write(SENTENCE, Stream(4), small=True))
    document = builder.document("d", ())
    (drug,) = document.entities
    assert document.text == f"the {drug.text_in(document.text)} did not help"
    assert drug.text_in(document.text) != "paracetamol"


def test_a_note_in_small_letters_has_no_capital() -> None:
    pieces = Typing().write([Piece("We gave Zentor")], Stream(0), small=True)
    assert pieces[0].text == "we gave zentor"


NOTE = Document(
    "d",
    "aspirin gave him hives",
    entities=(Entity("T1", "Drug", (Range(0, 7),)), Entity("T2", "ADE", (Range(17, 22),))),
    relations=(Relation("R1", "causes", "T1", "T2"),),
)


def test_relations_are_removed_with_their_ends() -> None:
    complete = Splits((NOTE,), (), ())
    assert SyntheticSite.annotating(("Drug", "ADE"), complete, name="s", style="posts").train == (NOTE,)
    (only_drugs,) = SyntheticSite.annotating(("Drug",), complete, name="s", style="posts").train
    assert [entity.id for entity in only_drugs.entities] == ["T1"]
    assert only_drugs.relations == ()
    assert only_drugs.text == NOTE.text


def test_a_site_has_its_types_in_every_split() -> None:
    site = SyntheticSite.annotating(("ADE",), Splits((NOTE,), (NOTE,), (NOTE,)), name="s", style="posts")
    for documents in (site.train, site.dev, site.test):
        assert [entity.type for entity in documents[0].entities] == ["ADE"]
    assert site.complete.dev == (NOTE,)
