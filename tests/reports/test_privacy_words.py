from __future__ import annotations

from typing import get_args

import pytest
from tests.reports.run_records import a_round

from wardround.reports.history import History
from wardround.reports.page import Section
from wardround.reports.privacy_words import privacy_section
from wardround.reports.run_record import Given, LedgerHead, PrivacyFacts
from wardround.reports.tables import Table

MECHANISMS = ("plain", "masked", "sealed", "sealed+masked")


def table(section: Section, title: str) -> Table:
    (found,) = [table for table in section.tables if table.title == title]
    return found


def readers(mechanism: str, given: Given = "updates") -> list[object]:
    section = privacy_section(PrivacyFacts(mechanism, given), ())
    return [row[-1] for row in table(section, "Who could read what").rows]


@pytest.mark.parametrize(
    ("mechanism", "expected"),
    [
        # One update, the sum here, the sum elsewhere, with one site, with all, figures, a note.
        ("plain", ["yes", "yes", "yes", "yes", "yes", "yes", "no"]),
        ("masked", ["no", "yes", "yes", "no", "yes", "yes", "no"]),
        ("sealed", ["no", "no", "yes", "yes", "yes", "yes", "no"]),
        ("sealed+masked", ["no", "no", "yes", "no", "yes", "yes", "no"]),
    ],
)
def test_who_could_read_what(mechanism: str, expected: list[str]) -> None:
    assert readers(mechanism) == expected


def test_sites_open_the_mean_of_predictions_for_the_coordinator() -> None:
    assert readers("sealed", "predictions")[1] == "yes"
    assert readers("sealed", "updates")[1] == "no"


@pytest.mark.parametrize("given", get_args(Given))
def test_words_for_everything_that_can_leave_a_site(given: Given) -> None:
    section = privacy_section(PrivacyFacts("plain", given), ())
    assert section.prose
    shared = given in ("updates", "predictions")
    assert ("AgreedMechanism: plain." in section.prose) == ("Budget spent: none" in section.prose) == shared


def test_limits_and_carrier() -> None:
    facts = PrivacyFacts("sealed", "updates", 2, 8, "BFV, packing compact", shared=("words", "word_cnn"))
    prose = privacy_section(facts, ()).prose
    assert "A sum was of 2 sites at least, and an update of 8 examples at least." in prose
    assert "Sealed by BFV, packing compact." in prose
    assert "Shared layers: words, word_cnn. All others never left their site." in prose


def test_numbers_that_were_clipped() -> None:
    rounds = History.of([a_round(number) | {"clipped": count} for number, count in enumerate((0, 5, 2), 1)]).rounds
    found = table(privacy_section(PrivacyFacts("sealed", "updates"), rounds), "Numbers of updates that were clipped")
    assert found.rows == ((7, 2, 3, 5),)
    assert found.note == "Clips were learned in the first round, and stayed."
    fixed = privacy_section(PrivacyFacts("sealed", "updates", clips={"words": 0.05}), rounds)
    assert table(fixed, "Numbers of updates that were clipped").note == "Clips by layer group: words 0.05."


def test_heads_of_ledgers_that_lie_here() -> None:
    heads = (LedgerHead("harbour", 3, 400, "a" * 64), LedgerHead("hillside", 0, 0, ""))
    section = privacy_section(PrivacyFacts("plain", "updates", ledgers=heads), ())
    assert table(section, "Ledgers of what left each site").rows == (
        ("harbour", 3, 400, "a" * 64),
        ("hillside", 0, 0, "does not hold together"),
    )
    assert "Ledgers: none" not in section.prose


def test_where_ledgers_are_elsewhere_it_says_where() -> None:
    assert "Among hospitals each site keeps its own" in privacy_section(PrivacyFacts("plain", "updates"), ()).prose
    assert "Ledgers" not in privacy_section(PrivacyFacts("plain", "alone"), ()).prose


def test_every_mechanism_has_words() -> None:
    said = {privacy_section(PrivacyFacts(mechanism, "updates"), ()).prose for mechanism in MECHANISMS}
    assert len(said) == len(MECHANISMS)
