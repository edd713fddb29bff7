from __future__ import annotations

import pytest

from wardround.corpora.synthetic.stream import Stream
from wardround.corpora.synthetic.terms import Term, WordLists, divided, listed, terms
from wardround.errors import TextError

LEXICON = {"long": terms(f"word{n}" for n in range(1000)), "same": terms(f"word{n}" for n in range(500))}


def lists_for(split: str, *, site: str = "here", share: float = 0.25, withheld_rate: float = 0.5) -> WordLists:
    return WordLists(
        divided(LEXICON, 0.6, seed=1), split, names=(1, "site", site), share=share, withheld_rate=withheld_rate
    )


def drawn(lists: WordLists, name: str = "long", times: int = 4000) -> set[str]:
    stream = Stream("draws")
    return {lists.draw(name, stream).text for _ in range(times)}


def test_a_form_that_a_term_lacks_is_its_text() -> None:
    term = Term("hypertension", forms=(("short", "htn"),))
    assert (term.form("short"), term.form("lay")) == ("htn", "hypertension")


def test_a_list_written_over_lines() -> None:
    assert listed("one; two\n   words; three") == ["one", "two words", "three"]


def test_each_term_goes_to_one_split_whatever_list_it_is_in() -> None:
    parts = divided(LEXICON, 0.6, seed=1)
    sizes = {split: len(entries) for split, entries in parts["long"].items()}
    assert sum(sizes.values()) == 1000
    assert 550 < sizes["train"] < 650  # 600 are expected, with a standard deviation of 15.5
    assert 150 < sizes["dev"] < 250
    for split in ("train", "dev", "test"):
        assert set(parts["same"][split]) == set(parts["long"][split]) & set(LEXICON["same"])


def test_training_meets_its_share_and_nothing_withheld() -> None:
    trained = {term.text for term in divided(LEXICON, 0.6, seed=1)["long"]["train"]}
    seen = drawn(lists_for("train"))
    assert seen <= trained
    assert len(seen) == round(0.25 * len(trained))


def test_hospitals_overlap_without_being_equal() -> None:
    here, there = drawn(lists_for("train")), drawn(lists_for("train", site="there"))
    assert here & there
    assert here - there


def test_withheld_terms_come_at_their_rate() -> None:
    parts = divided(LEXICON, 0.6, seed=1)["long"]
    withheld = {term.text for term in parts["test"]}
    assert drawn(lists_for("test", withheld_rate=1.0)) <= withheld
    assert not drawn(lists_for("test", withheld_rate=0.0)) & withheld
    assert not drawn(lists_for("test")) & {term.text for term in parts["dev"]}


def test_a_short_list_keeps_six_terms() -> None:
    lexicon = {"short": terms("abcdefghij")}
    lists = WordLists(divided(lexicon, 1.0, seed=0), "train", names=("x",), share=0.1, withheld_rate=0.0)
    assert len(drawn(lists, "short")) == 6


def test_an_unknown_list_is_named() -> None:
    with pytest.raises(TextError, match="'lost' is neither a rule nor a word list"):
        lists_for("train").draw("lost", Stream(0))
