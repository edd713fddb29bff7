from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.redaction.patterns import Language
from wardround.redaction.secret_key import SecretKey
from wardround.redaction.surrogates import Mention, Surrogates
from wardround.redaction.word_lists import PLACES, PROFESSIONS
from wardround.text.phi_tag_sets import HIPAA, I2B2_2014, MEDDOCAN

KEY = SecretKey(b"k" * 32)


def surrogates(*mentions: Mention, key: SecretKey = KEY, language: Language = "en") -> Surrogates:
    return Surrogates(mentions, patient=key, language=language)


def of(type_: str, text: str, language: Language = "en") -> str:
    mention = Mention(type_, text)
    return surrogates(mention, language=language).of(mention)


def shape(text: str) -> str:
    return re.sub(r"[A-Z]", "X", re.sub(r"[a-z]", "x", re.sub(r"\d", "9", text)))


@pytest.mark.parametrize("text", ["(201) 555-0110", "MR123456", "NN123/45", "+44 7700 900123", "12345-678a"])
def test_numbers_keep_their_pattern_and_no_digit(text: str) -> None:
    new = of("IDNUM", text)
    assert shape(new) == shape(text)
    assert all(a != b for a, b in zip(text, new, strict=True) if a.isalnum())


def test_addresses_keep_what_many_share() -> None:
    assert re.fullmatch(r"\d\d [A-Z][a-z]+ Street, Apt \d", of("STREET", "12 Orchard Street, Apt 4"))
    assert re.fullmatch(r"Hospital General de [A-Z]\w+", of("HOSPITAL", "Hospital General de Albacete", "es"))
    assert of("CITY", "Leeds") in PLACES["en"]
    assert re.fullmatch(r"\d{5}", of("TERRITORIO", "31001", "es"))
    assert of("PROFESSION", "bus driver") in PROFESSIONS["en"]


def test_mail_and_web_addresses_get_reserved_domains() -> None:
    assert re.fullmatch(r"\w{3}\.\w{4}@example\.(org|com|net)", of("EMAIL", "ann.carr@ward.nhs.uk"))
    assert re.fullmatch(r"https://www\.example\.(org|com|net)/\w{4}", of("URL", "https://ward.nhs.uk/bed4"))


@pytest.mark.parametrize(("age", "low", "high"), [("54", 51, 57), ("89", 86, 88), ("1", 2, 4), ("94", 90, 98)])
def test_ages_stay_near_and_on_their_side_of_89(age: str, low: int, high: int) -> None:
    assert low <= int(of("AGE", age)) <= high
    assert of("AGE", age) != age


def test_categories_of_hipaa_keep_their_form_as_types_do() -> None:
    assert of("NAMES", "Peter Moss") == of("PATIENT", "Peter Moss")
    assert of("PLACES", "Leeds") in PLACES["en"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", of("DATES", "2061-03-04"))


def test_an_age_in_words_becomes_a_number() -> None:
    assert re.fullmatch(r"\d\d años", of("EDAD_SUJETO_ASISTENCIA", "diecisiete años", "es"))


def test_sex_and_kin_become_neutral_words() -> None:
    assert of("SEXO_SUJETO_ASISTENCIA", "Mujer", "es") in ("Persona", "Individuo")
    assert of("FAMILIARES_SUJETO_ASISTENCIA", "madre", "es") in ("familiar", "pariente")


def test_the_same_text_has_the_same_surrogate_in_another_place() -> None:
    city, person = Mention("CITY", "Leeds"), Mention("PATIENT", "Ann Quillwort")
    one = surrogates(city, person, Mention("CITY", "LEEDS"))
    assert one.of(Mention("CITY", "LEEDS")) == one.of(city).upper()
    assert one.of(person) == one.of(person)
    assert one.of(Mention("PATIENT", "Quillwort")) == one.of(person).split()[1]


def test_different_places_stay_different() -> None:
    mentions = [Mention("CITY", f"Town{letter}") for letter in "abcdefghijklmnopqrstuvwxyz"]
    one = surrogates(*mentions)
    assert len({one.of(mention) for mention in mentions}) == 26


def test_another_key_gives_another_surrogate() -> None:
    mention = Mention("IDNUM", "123456789")
    assert surrogates(mention).of(mention) != surrogates(mention, key=SecretKey(b"j" * 32)).of(mention)


def test_dates_of_a_patient_shift_equally_in_two_notes() -> None:
    first, second = Mention("DATE", "2061-03-01"), Mention("DATE", "2061-03-11")
    days = [surrogates(mention).of(mention) for mention in (first, second)]
    assert len({day[:4] for day in days}) == 1 and "2061" not in days[0]


@pytest.mark.parametrize("text", ["Monday", "MON", "el lunes", "Saturday and Sunday"])
def test_a_weekday_stays_for_dates_move_by_whole_weeks(text: str) -> None:
    assert of("DATE", text) == text


@pytest.mark.parametrize("text", ["Monday 12", "Mondayish", "the", "Easter Monday"])
def test_text_beyond_a_weekday_is_replaced(text: str) -> None:
    assert of("DATE", text) != text
    assert of("PATIENT", "Monday") != "Monday"


def test_every_letter_of_a_very_long_mention_is_replaced() -> None:
    text = "2061-03-01 and then " * 40
    assert all(a != b for a, b in zip(text, of("DATE", text), strict=True) if a.isalnum())


TYPES = (*I2B2_2014.types, *MEDDOCAN.types, *HIPAA.types, "Unheard")


@given(st.sampled_from(TYPES), st.text(min_size=1, max_size=30), st.sampled_from(["en", "es"]))
def test_no_surrogate_equals_its_original(type_: str, text: str, language: Language) -> None:
    new = of(type_, text, language)
    assert new
    assert new == of(type_, text, language)
    assert new.casefold() != text.casefold() or not any(map(str.isalnum, text))


POOLS = {
    "PATIENT": ["Ann Carr", "ann carr", "Carr", "Peter Moss", "Moss", "Zorblax"],
    "DOCTOR": ["Dr. Carr", "Moss", "Lee Wu"],
    "CITY": ["Leeds", "LEEDS", "York"],
    "IDNUM": ["MR123456", "mr123456", "42-7"],
    "EMAIL": ["ann@ward.nhs.uk", "ANN@ward.nhs.uk"],
    "DATE": ["2061-03-01", "1 March 2061", "2061-03-11"],
    "AGE": ["54", "94"],
}
DRAWN = st.lists(
    st.sampled_from(sorted(POOLS)).flatmap(lambda kind: st.tuples(st.just(kind), st.sampled_from(POOLS[kind]))),
    min_size=1,
    max_size=12,
)


@given(DRAWN, st.binary(min_size=32, max_size=32))
def test_surrogates_are_consistent_and_distinct_within_a_note(drawn: list[tuple[str, str]], key: bytes) -> None:
    mentions = [Mention(*mention) for mention in drawn]
    one = surrogates(*mentions, key=SecretKey(key))
    new = {mention: one.of(mention) for mention in mentions}
    assert new == {mention: one.of(mention) for mention in reversed(mentions)}  # whatever was asked before
    for kind in POOLS:
        by_text = {(mention.text.casefold(), said.casefold()) for mention, said in new.items() if mention.type == kind}
        assert len(by_text) == len({old for old, _ in by_text})  # capitals do not matter
        if kind in ("PATIENT", "DOCTOR", "CITY"):
            assert len(by_text) == len({said for _, said in by_text})
    people = [mention for mention in mentions if mention.type in ("PATIENT", "DOCTOR")]
    old_names = {word.casefold() for mention in people for word in re.findall(r"[A-Za-z]+", mention.text)}
    for mention, said in new.items():
        if mention.type == "PATIENT":
            assert not old_names & {word.casefold() for word in re.findall(r"[A-Za-z]+", said)}
