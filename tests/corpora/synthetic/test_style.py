from __future__ import annotations

from wardround.corpora.synthetic.grammar import NoteBuilder, Piece
from wardround.corpora.synthetic.stream import Stream
from wardround.corpora.synthetic.style import Hand, misspelt
from wardround.corpora.synthetic.template import Mention

SENTENCE = [Piece(""), Piece("the "), Piece("paracetamol", Mention("Drug", "Drug")), Piece(" did not help")]


def test_a_mistake_is_small_and_spares_the_first_letter() -> None:
    mistakes = {misspelt("diarrhoea", Stream(n)) for n in range(300)}
    assert len(mistakes) > 20
    assert {"diarhoea", "diarroea", "diarrhea"} & mistakes
    assert all(word[0] == "d" and abs(len(word) - 9) <= 2 for word in mistakes)


def test_a_steady_hand_only_begins_with_a_capital() -> None:
    pieces = Hand().write(SENTENCE, Stream(0), small=False)
    assert "".join(piece.text for piece in pieces) == "The paracetamol did not help"


def test_a_careless_hand_misspells_long_words_and_offsets_follow() -> None:
    builder = NoteBuilder({})
    builder.sentence(Hand(slips=1.0).write(SENTENCE, Stream(4), small=True))
    document = builder.document("d", ())
    (drug,) = document.entities
    assert document.text == f"the {drug.text_in(document.text)} did not help"
    assert drug.text_in(document.text) != "paracetamol"


def test_a_note_in_small_letters_has_no_capital() -> None:
    pieces = Hand().write([Piece("We gave Zentor")], Stream(0), small=True)
    assert pieces[0].text == "we gave zentor"
