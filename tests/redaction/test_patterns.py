from __future__ import annotations

from pathlib import Path

import pytest

from wardround.corpora.brat import Brat
from wardround.corpora.synthetic.phi import PhiConfig, phi_hospitals
from wardround.errors import UsageError
from wardround.evaluation.leakage import LeakageScore, score_leakage
from wardround.redaction.findings import united
from wardround.redaction.patterns import Language, Patterns
from wardround.text.document import Document, Entity

EN, ES = Patterns("en"), Patterns("es")


def found(text: str, patterns: Patterns = EN) -> list[tuple[str, str]]:
    return [(hidden.type, text[slice(*hidden.range)]) for hidden in united(patterns.find(text))]


@pytest.mark.parametrize(
    "written",
    [
        "03/14/2061",
        "3/14/61",
        "2061-03-14",
        "14.3.2061",
        "March 14, 2061",
        "Mar. 14",
        "14 March 2061",
        "14th of march",
        "march '61",
        "03/2061",
        "20610314",
        "2061-03-14 11:34:35",
    ],
)
def test_dates_in_english(written: str) -> None:
    assert found(f"Seen, {written} again.") == [("DATE", written)]


@pytest.mark.parametrize(
    "written",
    ["14/03/2061", "14 de marzo de 2061", "marzo de 2061", "14-marzo-2061", "12/04 /2011", "año 2004", "noviembre 06"],
)
def test_dates_in_spanish(written: str) -> None:
    assert found(f"Visto, {written}, otra vez.", ES) == [("DATE", written)]


@pytest.mark.parametrize(
    ("type_", "written"),
    [
        ("PHONE", "(201) 555-0110"),
        ("PHONE", "201-555-0110"),
        ("PHONE", "+44 7700 900123"),
        ("PHONE", "01632 960123"),
        ("EMAIL", "a.b+c@mail.example.org"),
        ("URL", "https://ward.example.org/notes?id=3"),
        ("URL", "www.example.org/a"),
        ("IPADDR", "192.168.0.12"),
        ("SSN", "123-45-6789"),
        ("IDNUM", "MR123456"),
        ("IDNUM", "1234567"),
        ("IDNUM", "GB56HXDO88167774656119"),
        ("ZIP", "12345"),
        ("ZIP", "QX7 4AB"),
    ],
)
def test_numbers_and_addresses(type_: str, written: str) -> None:
    assert found(f"Note {written}, as said.") == [(type_, written)]


@pytest.mark.parametrize(
    ("text", "patterns", "expected"),
    [
        ("a 94-year-old man", EN, ["94"]),
        ("She is 101 and well", EN, ["101"]),
        ("an 89-year-old man", EN, []),
        ("mujer de 92 años", ES, ["92 años"]),
        ("mujer de 89 años", ES, []),
        ("saturation is 96%", EN, []),
    ],
)
def test_only_ages_over_89_identify(text: str, patterns: Patterns, expected: list[str]) -> None:
    assert [written for type_, written in found(text, patterns) if type_ == "AGE"] == expected


@pytest.mark.parametrize(
    "text",
    [
        "BP 120/80, pulse 72, temp 37.2, WBC 4.5",
        "given 40 mg, 01/02 of the usual amount",
        "type 2 diabetes, day 3, bed 14",
        "she may walk; march on",
        "Na 140, K 4.1, creatinine 110 micromol/L",
    ],
)
def test_what_only_looks_like_it_stays(text: str) -> None:
    assert found(text) == []


def test_another_language_is_refused() -> None:
    language: Language = "de"  # type: ignore[assignment]
    with pytest.raises(UsageError, match="en and es, not for 'de'"):
        Patterns(language)


@pytest.mark.parametrize("unit", ["1", "a", "a.", "1 ", "1-", "(1", "a@", "1.1.", "www.a", "+1 ", "march "])
def test_a_page_of_one_thing_is_read_to_its_end(unit: str) -> None:
    # Whoever goes back over it at every place takes minutes; benchmarks/traps.py has the times.
    text = unit * (40_000 // len(unit)) + "\nseen on 12/03/2021"
    assert ("DATE", "12/03/2021") in [(hidden.type, text[slice(*hidden.range)]) for hidden in EN.find(text)]


def leakage(documents: tuple[Document, ...], patterns: Patterns) -> LeakageScore:
    return score_leakage((document, hidden(document, patterns)) for document in documents)


def hidden(document: Document, patterns: Patterns) -> Document:
    pieces = united(patterns.find(document.text))
    return document.with_entities(Entity(f"T{n}", piece.type, (piece.range,)) for n, piece in enumerate(pieces))


def test_on_the_built_in_hospitals() -> None:
    source, target = phi_hospitals(config=PhiConfig(scale=0.2))
    for site, dates in ((source, 0.99), (target, 0.7)):
        score = leakage(site.test, EN)
        assert score.hiding.words.precision > 0.97
        assert score.by_type["DATE"].recall >= dates
        assert min(score.by_type[type_].recall for type_ in ("PHONE", "ID")) > 0.9


def test_on_real_spanish_notes(shared_data: Path) -> None:
    folder = shared_data / "meddocan" / "corpus" / "test" / "brat"
    notes = tuple(Brat().read(folder))[:80]
    score = leakage(notes, ES)
    assert score.hiding.words.precision > 0.97
    wanted = ("FECHAS", "CORREO_ELECTRONICO", "ID_ASEGURAMIENTO", "NUMERO_TELEFONO", "ID_TITULACION_PERSONAL_SANITARIO")
    assert {type_: recall for type_ in wanted if (recall := score.by_type[type_].recall) < 0.9} == {}
