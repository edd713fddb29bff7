from __future__ import annotations

import pytest

from wardround.corpora.synthetic.phi import PHI_TYPES
from wardround.text.phi import (
    HIPAA,
    I2B2_2014,
    MEDDOCAN,
    PHI_TAG_SETS,
    Hipaa,
    are_phi,
    hipaa_of,
    i2b2_of,
    named_in,
    named_like,
)


def test_the_sets_are_as_large_as_their_sources_say() -> None:
    assert len(HIPAA.types) == 18
    assert len(I2B2_2014.types) == 28
    assert len(MEDDOCAN.types) == 29


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        ("DATE", "DATE"),
        ("FECHAS", "DATE"),
        ("fechas", "DATE"),
        ("DATE_TIME", "DATE"),
        ("ID_ASEGURAMIENTO", "HEALTHPLAN"),
        ("PERSON", "PATIENT"),
        ("SEXO_SUJETO_ASISTENCIA", ""),
        ("Drug", ""),
    ],
)
def test_what_i2b2_calls_it(type_: str, expected: str) -> None:
    assert i2b2_of(type_) == expected


def test_every_type_of_meddocan_leads_into_i2b2_or_nowhere() -> None:
    assert {i2b2_of(type_) for type_ in MEDDOCAN.types} - {""} <= set(I2B2_2014.types)


def test_the_built_in_hospitals_use_known_types() -> None:
    assert all(i2b2_of(type_) for type_ in PHI_TYPES)


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        ("NOMBRE_SUJETO_ASISTENCIA", Hipaa.NAMES),
        ("EDAD_SUJETO_ASISTENCIA", Hipaa.DATES),
        ("ZIP", Hipaa.PLACES),
        ("DOCTOR", None),  # HIPAA protects patients
        ("Drug", None),
    ],
)
def test_what_hipaa_calls_it(type_: str, expected: Hipaa | None) -> None:
    assert hipaa_of(type_) is expected


def test_every_category_but_photographs_has_a_type() -> None:
    # A text holds no photograph.
    assert {hipaa_of(type_) for type_ in I2B2_2014.types} - {None} == set(Hipaa) - {Hipaa.PHOTOGRAPH}


def test_a_type_by_the_name_of_another_tag_set() -> None:
    assert named_like("DATE", MEDDOCAN.types) == "FECHAS"
    assert named_like("ZIP", MEDDOCAN.types) == "TERRITORIO"
    assert named_like("IDNUM", PHI_TYPES) == "ID"
    assert named_like("SSN", PHI_TYPES) == "ID"
    assert named_like("DATE", ("DATE", "DATE_TIME")) == "DATE"
    assert named_like("URL", ("Drug",)) == "URL"  # nothing near: it keeps its name


@pytest.mark.parametrize(
    ("tag_set", "type_", "expected"),
    [
        ("hipaa", "PATIENT", "NAMES"),
        ("hipaa", "TERRITORIO", "PLACES"),
        ("hipaa", "EMAIL", "EMAIL"),
        ("hipaa", "DOCTOR", "DOCTOR"),  # HIPAA has no place for it
        ("i2b2-2014", "FECHAS", "DATE"),
        ("i2b2-2014", "Person", "PATIENT"),
        ("i2b2-2014", "Drug", "Drug"),
        ("meddocan", "DATE", "FECHAS"),
        ("meddocan", "CENTRO_SALUD", "CENTRO_SALUD"),  # though i2b2 calls it a hospital, as it calls another
    ],
)
def test_what_a_tag_set_calls_it(tag_set: str, type_: str, expected: str) -> None:
    assert named_in(tag_set, type_) == expected


@pytest.mark.parametrize("tag_set", PHI_TAG_SETS)
def test_a_tag_set_calls_its_own_types_as_they_are(tag_set: str) -> None:
    types = PHI_TAG_SETS[tag_set].types
    assert tuple(named_in(tag_set, kind) for kind in types) == types
    assert are_phi(types)


def test_whether_types_identify_people() -> None:
    assert are_phi(PHI_TYPES)
    assert are_phi(["Person", "date_time"])
    assert not are_phi(["PATIENT", "Drug"])
    assert not are_phi([])


def test_every_category_of_hipaa_is_told_by_a_type_of_i2b2() -> None:
    told = {kind: hipaa_of(kind) for kind in HIPAA.types}
    assert told == {category.name: category for category in Hipaa} | {"PHOTOGRAPH": None}
    assert named_like("PHONE", HIPAA.types) == "TELEPHONE"
    assert named_in("meddocan", "DATES") == "FECHAS"
