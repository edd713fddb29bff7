from __future__ import annotations

from datetime import date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.redaction.dates import Calendar, date_shift, is_weekday, match_case
from wardround.redaction.patterns import Language
from wardround.redaction.secret_key import SecretKey

SHIFT = 400  # days: 4 March 2061 becomes 8 April 2062


def unchanged(text: str) -> str:
    return text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("03/04/2061", "04/08/2062"),
        ("2061-03-04", "2062-04-08"),
        ("3/4/61", "4/8/62"),
        ("March 4, 2061", "April 8, 2062"),
        ("Mar. 4", "Apr. 8"),
        ("4 MARCH 2061", "8 APRIL 2062"),
        ("the 4th of march", "the 8th of april"),
        ("the 28th of February", "the 4th of April"),
        ("march '61", "april '62"),
        ("4.3", "8.4"),
        ("13/04/61", "18/05/62"),  # no month is the 13th: day first after all
        ("20610304", "20620408"),
        ("2058", "2059"),
        ("Monday", "Tuesday"),
        ("03/2061", "04/2062"),
        ("03/04/2061 - 03/05/2061", "04/08/2062 - 04/09/2062"),
    ],
)
def test_each_way_of_writing_stays(old: str, new: str) -> None:
    assert Calendar(SHIFT, "en", 2061, day_first=False).shift(old, unchanged) == new


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("04/03/2061", "08/04/2062"),
        ("4 de marzo de 2061", "8 de abril de 2062"),
        ("4-marzo-2061", "8-abril-2062"),
        ("12/04 /2011", "16/05 /2012"),
        ("Marzo del 2061", "Abril del 2062"),
        ("lunes", "martes"),
        ("noviembre 06", "diciembre 07"),  # a year, where English would have a day
    ],
)
def test_in_spanish(old: str, new: str) -> None:
    assert Calendar(SHIFT, "es", 2061).shift(old, unchanged) == new


def test_a_day_that_only_leap_years_have() -> None:
    assert Calendar(SHIFT, "en", 2061).shift("29 February", unchanged) == "4 April"


@pytest.mark.parametrize("text", ["99/99/2061", "soon", "31.02.2061", "9999-12-31"])
def test_text_that_is_not_a_date_is_replaced_otherwise(text: str) -> None:
    handed: list[str] = []
    Calendar(SHIFT, "en", 2061).shift(text, lambda rest: handed.append(rest) or "")
    assert handed


@pytest.mark.parametrize(
    ("dates", "language", "year", "day_first"),
    [
        (["03/04/2061"], "en", 2061, False),
        (["03/04/2061"], "es", 2061, True),
        (["03/04/61", "13/04/61"], "en", 2000, True),
        (["13/04/61", "04/13/61"], "en", 2000, False),  # both: as the language has it
        (["13.04.2059"], "en", 2059, False),  # with points the day is always first, and says nothing of strokes
        (["04/13/1999"], "es", 1999, False),
    ],
)
def test_the_notation_of_dates_is_inferred_from_the_note(
    dates: list[str], language: Language, year: int, day_first: bool
) -> None:
    calendar = Calendar.of(dates, days=1, language=language)
    assert (calendar.year, calendar.day_first) == (year, day_first)


@given(st.binary(min_size=32, max_size=32))
def test_shifts_are_whole_weeks_and_change_month_and_year(key: bytes) -> None:
    days = date_shift(SecretKey(key))
    assert 405 <= abs(days) <= 1421
    assert days % 7 == 0
    calendar = Calendar(days, "en")
    for text in ("2050", *("January February March April May June July December").split()):
        assert calendar.shift(text, unchanged) != text
    for text in ("Tuesday", "SUN", "tues", "miércoles"):
        assert calendar.shift(text, unchanged) == text


def test_the_number_of_shifts_is_that_of_the_docs() -> None:
    assert len({date_shift(SecretKey(b"%d" % number)) for number in range(5000)}) == 244


@given(st.dates(date(1900, 1, 1), date(2099, 12, 31)), st.binary(min_size=32, max_size=32))
def test_a_weekday_still_fits_its_date(day: date, key: bytes) -> None:
    calendar = Calendar(date_shift(SecretKey(key)), "en", day.year)
    name, _, moved = calendar.shift(day.strftime("%A, %d.%m.%Y"), unchanged).partition(", ")
    assert datetime.strptime(moved, "%d.%m.%Y").strftime("%A") == name


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2061–03–04", "2062–04–08"),
        ("03⁄04⁄2061", "04⁄08⁄2062"),
        ("4–March–2061", "8–April–2062"),
        ("march ’61", "april ’62"),
        ("03/04/\n2061", "04/08/\n2062"),
        ("3–4 March 2061", "3–8 April 2062"),  # 3 alone is no date
    ],
)
def test_other_characters_keep_their_place(old: str, new: str) -> None:
    assert Calendar(SHIFT, "en", 2061, day_first=False).shift(old, unchanged) == new


@pytest.mark.parametrize(("word", "known"), [("Monday", True), ("thurs", True), ("sábado", True), ("May", False)])
def test_names_of_weekdays(word: str, known: bool) -> None:
    assert is_weekday(word) is known


DAYS = st.dates(date(1900, 1, 1), date(2099, 12, 31))


@given(DAYS, DAYS, st.binary(min_size=32, max_size=32), st.sampled_from(["%d/%m/%Y", "%Y-%m-%d", "%d.%m.%Y"]))
def test_distances_stay(one: date, other: date, key: bytes, form: str) -> None:
    days = date_shift(SecretKey(key))
    calendar = Calendar.of([one.strftime(form), other.strftime(form)], days=days, language="es")
    moved = [calendar.shift(day.strftime(form), unchanged) for day in (one, other)]
    assert moved == [(day + timedelta(days)).strftime(form) for day in (one, other)]


@pytest.mark.parametrize(
    ("model", "word", "expected"),
    [("SMITH", "jones", "JONES"), ("smith", "Jones", "jones"), ("Smith", "jones", "Jones"), ("A", "jones", "Jones")],
)
def test_capitals_are_copied(model: str, word: str, expected: str) -> None:
    assert match_case(model, word) == expected
