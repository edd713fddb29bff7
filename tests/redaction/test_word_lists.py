from __future__ import annotations

from collections.abc import Sequence

import pytest

from wardround.redaction.word_lists import (
    FIRST_NAMES,
    GENERIC,
    MONTH_NAMES,
    PARTICLES,
    PLACES,
    PROFESSIONS,
    SURNAMES,
    TITLES,
    WEEKDAY_NAMES,
)

LISTS = [
    *((f"{language} {gender}", names) for language, by in FIRST_NAMES.items() for gender, names in by.items()),
    *((f"{kind} {language}", words) for kind, by in (("s", SURNAMES), ("p", PLACES)) for language, words in by.items()),
    *PROFESSIONS.items(),
]


@pytest.mark.parametrize("words", [words for _, words in LISTS], ids=[name for name, _ in LISTS])
def test_a_list_names_nothing_twice_and_nothing_empty(words: Sequence[str]) -> None:
    assert len({word.casefold() for word in words}) == len(words) >= 20
    assert all(word == word.strip() and word for word in words)


@pytest.mark.parametrize("language", ["en", "es"])
def test_a_first_name_has_one_gender(language: str) -> None:
    hers, his, either = (set(FIRST_NAMES[language][gender]) for gender in ("F", "M", ""))
    assert not hers & his
    assert not (hers | his) & either


def test_no_surrogate_is_a_word_that_is_kept() -> None:
    kept = GENERIC | PARTICLES | TITLES.keys()
    for names in (*SURNAMES.values(), *PLACES.values(), *(n for by in FIRST_NAMES.values() for n in by.values())):
        assert not {name.casefold() for name in names} & kept


@pytest.mark.parametrize(("table", "count"), [(MONTH_NAMES, 12), (WEEKDAY_NAMES, 7)])
def test_every_number_has_a_name_in_every_language(table: dict[str, list[tuple[str, int]]], count: int) -> None:
    for names in table.values():
        assert {number for _, number in names} == set(range(1, count + 1))
        assert len({name for name, _ in names}) == len(names)


def test_the_first_name_is_the_whole_one() -> None:
    assert MONTH_NAMES["en"][:2] == [("january", 1), ("jan", 1)]
    assert ("septiembre", 9) in MONTH_NAMES["es"] and ("miércoles", 3) in WEEKDAY_NAMES["es"]
