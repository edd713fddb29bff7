from __future__ import annotations

import re

import pytest

from wardround.corpora.synthetic.grammar import Grammar
from wardround.corpora.synthetic.phi_styles import NURSING, SUMMARIES
from wardround.corpora.synthetic.phi_words import person, phi_lists
from wardround.corpora.synthetic.style import Style
from wardround.corpora.synthetic.style_jottings import JOTTINGS
from wardround.corpora.synthetic.style_letters import LETTERS
from wardround.corpora.synthetic.style_posts import POSTS
from wardround.corpora.synthetic.style_reports import REPORTS
from wardround.corpora.synthetic.terms import Lexicon
from wardround.corpora.synthetic.words_drugs import drug_lists, invented_names
from wardround.corpora.synthetic.words_findings import finding_lists, lookalike_lists
from wardround.corpora.synthetic.words_problems import problem_lists


def clinical() -> Lexicon:
    problems = problem_lists()
    return {**drug_lists(), **problems, **finding_lists(problems), **lookalike_lists()}


def texts(lexicon: Lexicon, name: str) -> set[str]:
    return {term.text for term in lexicon[name]}


def test_each_type_has_hundreds_of_terms() -> None:
    lexicon = clinical()
    for name in ("Drug", "Disease", "Symptom", "ADE", "Finding", "lay"):
        assert len(texts(lexicon, name)) >= 150, name
    assert len(texts(lexicon, "Drug")) >= 800


def test_no_term_has_a_blank_too_many() -> None:
    for lexicon in (clinical(), phi_lists()):
        for entries in lexicon.values():
            assert all(term.text == " ".join(term.text.split()) != "" for term in entries)


def test_complaints_serve_symptoms_effects_and_findings() -> None:
    lexicon = clinical()
    assert texts(lexicon, "Symptom") <= texts(lexicon, "ADE")
    assert "ankle swelling" in texts(lexicon, "Symptom") & texts(lexicon, "Finding")
    assert "hyperkalaemia" in texts(lexicon, "ADE") & texts(lexicon, "Finding")


def test_drugs_hide_in_disease_names() -> None:
    assert {"insulin", "penicillin"} <= {re.split(r"[ -]", text)[0] for text in texts(clinical(), "nested")}


def test_lookalikes_share_no_term_with_mentions() -> None:
    lexicon = clinical()
    mentions = set().union(*(texts(lexicon, name) for name in ("Drug", "Disease", "Symptom", "ADE", "Finding", "lay")))
    for name in ("gadget", "firm", "town", "procedure", "benign", "normal_image", "worry", "past_event"):
        assert not texts(lexicon, name) & mentions, name


def test_invented_names_are_pronounceable_and_differ_by_purpose() -> None:
    names = invented_names("test", 50, endings=["olol", "pril"])
    assert len(set(names)) == 50
    assert not any(re.search(r"[aeiou]{3}", name) for name in names)
    assert names != invented_names("other", 50, endings=["olol", "pril"])


def test_a_person_by_every_form() -> None:
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
def test_no_clinical_rule_hides_a_word_list(style: Style) -> None:
    grammar = Grammar.written(style.rules)
    assert not set(grammar.patterns) & set(clinical())
    assert {section.rule for section in style.sections} <= set(grammar.patterns)


@pytest.mark.parametrize("style", [SUMMARIES, NURSING], ids=lambda style: style.name)
def test_no_phi_rule_hides_a_word_list(style: Style) -> None:
    grammar = Grammar.written(style.rules)
    assert not set(grammar.patterns) & set(phi_lists())
    assert {section.rule for section in style.sections} <= set(grammar.patterns)
