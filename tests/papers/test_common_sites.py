from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

from tests.papers.modules import fixture_of

from wardround.corpora.jsonl import Jsonl
from wardround.text.document import Document, Entity, Range

sites = fixture_of("common.sites")


def test_sentences_become_documents_and_mentions_move_along(sites: ModuleType) -> None:
    document = Document(
        "d", "He took aspirin. It burned.", (Entity("a", "Drug", (Range(8, 15),)), Entity("b", "ADE", (Range(20, 26),)))
    )
    first, second = sites.sentences(document)
    assert (first.id, first.text, second.text) == ("d.1", "He took aspirin.", "It burned.")
    assert [(e.type, e.text_in(second.text)) for e in second.entities] == [("ADE", "burned")]
    assert second.sentences == (Range(0, 10),)


def test_sentences_that_a_mention_runs_across_stay_together(sites: ModuleType) -> None:
    document = Document("d", "Grade A. Rash seen. Gone.", (Entity("a", "ADE", (Range(0, 13),)),))
    assert [s.text for s in sites.sentences(document)] == ["Grade A. Rash seen.", "Gone."]


def test_words_are_written_only_where_others_would_be_found(sites: ModuleType) -> None:
    def kept(text: str, *words: tuple[int, int]) -> object:
        given = tuple(Range(*word) for word in words)
        (sentence,) = sites.sentences(Document("d", text, words=given, sentences=(Range(0, len(text)),)))
        return sentence.words

    assert kept("no rash", (0, 2), (3, 7)) is None
    assert kept("IL2 up", (0, 3), (4, 6)) == (Range(0, 3), Range(4, 6))


def test_what_is_written_is_read_again(sites: ModuleType, tmp_path: Path) -> None:
    note = Document("1", "Aspirin burns", (Entity("T1", "Drug", (Range(0, 7),)),), sentences=(Range(0, 13),))
    site = sites.Site(("Drug", "ADE"), [note, note], [note], [])
    sites.write_groups({"two": {"one": site, "other": site}}, tmp_path)
    assert tuple(Jsonl().read(tmp_path / "two" / "one" / "train.jsonl.gz")) == (note, note)
    said = json.loads((tmp_path / "sites.json").read_text())["two"]["one"]
    assert said["types"] == ["Drug", "ADE"] and said["train"] == {"sentences": 2, "mentions": 2}
    found = sites.Sites.read(tmp_path)
    assert (found.sentences("two", "train"), found.sentences("two", "dev")) == (4, 2)
    assert found.sections("two")["other"] == {
        "data": str(tmp_path.resolve() / "two" / "other"),
        "format": "jsonl",
        "types": ["Drug", "ADE"],
        "scheme": "BIO",
    }


# Cutting to size, without leaks between sites.


def note(name: str, text: str) -> Document:
    return Document(name, text, sentences=(Range(0, len(text)),))


def test_a_sentence_that_shares_eight_words_with_a_test_is_left_out(sites: ModuleType) -> None:
    test = note("t", "one two three four five six seven eight nine")
    leak = note("a", "Zero, two THREE four (five) six seven eight-nine ten")
    near = note("b", "two three four five six seven eight ten")
    short, other = note("c", "one two"), note("e", "one two three")
    seen = sites.runs_of([[test, short]])
    assert sites.unseen([leak, near, short, other], seen) == [near, other]


def test_a_cut_keeps_the_order_and_is_the_same_for_a_seed(sites: ModuleType) -> None:
    notes = [note(str(number), f"word {number}") for number in range(20)]
    once = sites.cut(notes, 5, "seed")
    assert len(once) == 5 and once == sorted(once, key=lambda document: int(document.id))
    assert once == sites.cut(notes, 5, "seed") != sites.cut(notes, 5, "other")
    assert sites.cut(notes, 0, "seed") == sites.cut(notes, 99, "seed") == notes


def test_no_training_sentence_is_in_a_test_of_another_site(sites: ModuleType) -> None:
    tested, other = note("t", "one two three"), note("o", "four five six")
    left, right = sites.Site((), [other], [], [tested]), sites.Site((), [tested, other], [tested], [])
    cut = sites.without_leaks({"left": left, "right": right}, sites.PartSizes(), seed=0)
    assert [list(cut["right"].train), list(cut["right"].dev), list(cut["left"].train)] == [[other], [], [other]]
