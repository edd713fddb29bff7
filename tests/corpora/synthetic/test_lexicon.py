from __future__ import annotations

import re

import pytest

from wardround.corpora.synthetic.formal_styles import LETTERS, REPORTS
from wardround.corpora.synthetic.informal_styles import JOTTINGS, POSTS
from wardround.corpora.synthetic.lexicon import (
    Lexicon,
    Term,
    WordLists,
    clinical_lexicon,
    divide,
    invented_names,
    person,
    phi_lexicon,
    terms,
)
from wardround.corpora.synthetic.notes import Style
from wardround.corpora.synthetic.phi_notes import NURSING, SUMMARIES
from wardround.corpora.synthetic.stream import Stream
from wardround.corpora.synthetic.templates import Grammar
from wardround.errors import TextError

LEXICON = {"long": terms(f"word{n}" for n in range(1000)), "same": terms(f"word{n}" for n in range(500))}


def lists_for(split: str, *, site: str = "here", share: float = 0.25, withheld_rate: float = 0.5) -> WordLists:
    return WordLists(
        divide(LEXICON, 0.6, seed=1), split, names=(1, "site", site), share=share, withheld_rate=withheld_rate
    )


def drawn(lists: WordLists, name: str = "long", times: int = 4000) -> set[str]:
    stream = Stream("draws")
    return {lists.draw(name, stream).text for _ in range(times)}


def test_missing_form_of_a_term_is_its_text() -> None:
    term = Term("hypertension", forms=(("short", "htn"),))
    assert (term.form("short"), term.form("lay")) == ("htn", "hypertension")


def test_each_term_is_in_the_same_split_in_every_list() -> None:
    parts = divide(LEXICON, 0.6, seed=1)
    sizes = {split: len(entries) for split, entries in parts["long"].items()}
    assert sum(sizes.values()) == 1000
    assert 550 < sizes["train"] < 650  # 600 are expected, with a standard deviation of 15.5
    assert 150 < sizes["dev"] < 250
    for split in ("train", "dev", "test"):
        assert set(parts["same"][split]) == set(parts["long"][split]) & set(LEXICON["same"])


def test_training_uses_its_share_and_no_withheld_term() -> None:
    trained = {term.text for term in divide(LEXICON, 0.6, seed=1)["long"]["train"]}
    seen = drawn(lists_for("train"))
    assert seen <= trained
    assert len(seen) == round(0.25 * len(trained))


def test_hospitals_overlap_without_being_equal() -> None:
    here, there = drawn(lists_for("train")), drawn(lists_for("train", site="there"))
    assert here & there
    assert here - there


def test_withheld_terms_follow_their_rate() -> None:
    parts = divide(LEXICON, 0.6, seed=1)["long"]
    withheld = {term.text for term in parts["test"]}
    assert drawn(lists_for("test", withheld_rate=1.0)) <= withheld
    assert not drawn(lists_for("test", withheld_rate=0.0)) & withheld
    assert not drawn(lists_for("test")) & {term.text for term in parts["dev"]}


def test_a_short_list_keeps_six_terms() -> None:
    lexicon = {"short": terms("abcdefghij")}
    lists = WordLists(divide(lexicon, 1.0, seed=0), "train", names=("x",), share=0.1, withheld_rate=0.0)
    assert len(drawn(lists, "short")) == 6


def test_unknown_list_is_refused() -> None:
    with pytest.raises(TextError, match="'lost' is neither a rule nor a word list"):
        lists_for("train").draw("lost", Stream(0))


def texts(lexicon: Lexicon, name: str) -> set[str]:
    return {term.text for term in lexicon[name]}


def test_each_type_has_hundreds_of_terms() -> None:
    lexicon = clinical_lexicon()
    for name in ("Drug", "Disease", "Symptom", "ADE", "Finding", "lay"):
        assert len(texts(lexicon, name)) >= 150, name
    assert len(texts(lexicon, "Drug")) >= 800


def test_no_term_has_extra_white_space() -> None:
    for lexicon in (clinical_lexicon(), phi_lexicon()):
        for entries in lexicon.values():
            assert all(term.text == " ".join(term.text.split()) != "" for term in entries)


def test_complaints_serve_symptoms_effects_and_findings() -> None:
    lexicon = clinical_lexicon()
    assert texts(lexicon, "Symptom") <= texts(lexicon, "ADE")
    assert "ankle swelling" in texts(lexicon, "Symptom") & texts(lexicon, "Finding")
    assert "hyperkalaemia" in texts(lexicon, "ADE") & texts(lexicon, "Finding")


def test_some_disease_names_contain_a_drug() -> None:
    assert {"insulin", "penicillin"} <= {re.split(r"[ -]", text)[0] for text in texts(clinical_lexicon(), "nested")}


def test_lookalikes_share_no_term_with_mentions() -> None:
    lexicon = clinical_lexicon()
    mentions = set().union(*(texts(lexicon, name) for name in ("Drug", "Disease", "Symptom", "ADE", "Finding", "lay")))
    for name in ("gadget", "firm", "town", "procedure", "benign", "normal_image", "worry", "past_event"):
        assert not texts(lexicon, name) & mentions, name


def test_invented_names_are_pronounceable_and_differ_by_purpose() -> None:
    names = invented_names("test", 50, endings=["olol", "pril"])
    assert len(set(names)) == 50
    assert not any(re.search(r"[aeiou]{3}", name) for name in names)
    assert names != invented_names("other", 50, endings=["olol", "pril"])


def test_forms_of_a_person() -> None:
    someone = person("Ada", "Page")
    assert someone.text == "Ada Page"
    assert [someone.form(name) for name in ("first", "last", "reversed", "capitals", "initial", "initials")] == [
        "Ada",
        "Page",
        "Page, Ada",
        "PAGE, ADA",
        "A. Page",
        "AP",
    ]


@pytest.mark.parametrize("style", [LETTERS, REPORTS, POSTS, JOTTINGS], ids=lambda style: style.name)
def test_no_clinical_rule_has_the_name_of_a_word_list(style: Style) -> None:
    grammar = Grammar.parse(style.rules)
    assert not set(grammar.patterns) & set(clinical_lexicon())
    assert {section.rule for section in style.sections} <= set(grammar.patterns)


@pytest.mark.parametrize("style", [SUMMARIES, NURSING], ids=lambda style: style.name)
def test_no_phi_rule_has_the_name_of_a_word_list(style: Style) -> None:
    grammar = Grammar.parse(style.rules)
    assert not set(grammar.patterns) & set(phi_lexicon())
    assert {section.rule for section in style.sections} <= set(grammar.patterns)
