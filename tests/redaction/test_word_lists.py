from __future__ import annotations

from collections.abc import Sequence

import pytest

from wardround.redaction.word_lists import FIRST_NAMES, GENERIC, PARTICLES, PLACES, PROFESSIONS, SURNAMES, TITLES

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


def test_no_stand_in_is_a_word_that_stays() -> None:
    kept = GENERIC | PARTICLES | TITLES.keys()
    for names in (*SURNAMES.values(), *PLACES.values(), *(n for by in FIRST_NAMES.values() for n in by.values())):
        assert not {name.casefold() for name in names} & kept
