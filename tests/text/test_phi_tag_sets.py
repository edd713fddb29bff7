from __future__ import annotations

import pytest

from wardround.corpora.synthetic.phi_notes import PHI_TYPES
from wardround.text.phi_tag_sets import (
    HIPAA,
    I2B2_2014,
    MEDDOCAN,
    PHI_TAG_SETS,
    Hipaa,
    are_phi,
    closest_type,
    to_hipaa,
    to_i2b2,
    type_in_tag_set,
)


def test_sizes_of_the_tag_sets() -> None:
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
def test_to_i2b2(type_: str, expected: str) -> None:
    assert to_i2b2(type_) == expected


def test_every_meddocan_type_maps_to_i2b2_or_to_nothing() -> None:
    assert {to_i2b2(type_) for type_ in MEDDOCAN.types} - {""} <= set(I2B2_2014.types)


def test_the_built_in_hospitals_use_known_types() -> None:
    assert all(to_i2b2(type_) for type_ in PHI_TYPES)


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
def test_to_hipaa(type_: str, expected: Hipaa | None) -> None:
    assert to_hipaa(type_) is expected


def test_every_category_except_photographs_has_a_type() -> None:
    # A text has no photograph.
    assert {to_hipaa(type_) for type_ in I2B2_2014.types} - {None} == set(Hipaa) - {Hipaa.PHOTOGRAPH}


def test_closest_type() -> None:
    assert closest_type("DATE", MEDDOCAN.types) == "FECHAS"
    assert closest_type("ZIP", MEDDOCAN.types) == "TERRITORIO"
    assert closest_type("IDNUM", PHI_TYPES) == "ID"
    assert closest_type("SSN", PHI_TYPES) == "ID"
    assert closest_type("DATE", ("DATE", "DATE_TIME")) == "DATE"
    assert closest_type("URL", ("Drug",)) == "URL"  # nothing similar: it keeps its name


@pytest.mark.parametrize(
    ("tag_set", "type_", "expected"),
    [
        ("hipaa", "PATIENT", "NAMES"),
        ("hipaa", "TERRITORIO", "PLACES"),
        ("hipaa", "EMAIL", "EMAIL"),
        ("hipaa", "DOCTOR", "DOCTOR"),  # not required by HIPAA
        ("i2b2-2014", "FECHAS", "DATE"),
        ("i2b2-2014", "Person", "PATIENT"),
        ("i2b2-2014", "Drug", "Drug"),
        ("meddocan", "DATE", "FECHAS"),
        ("meddocan", "CENTRO_SALUD", "CENTRO_SALUD"),  # although two MEDDOCAN types map to the i2b2 type HOSPITAL
    ],
)
def test_type_in_tag_set(tag_set: str, type_: str, expected: str) -> None:
    assert type_in_tag_set(tag_set, type_) == expected


@pytest.mark.parametrize("tag_set", PHI_TAG_SETS)
def test_type_of_the_tag_set_itself_is_unchanged(tag_set: str) -> None:
    types = PHI_TAG_SETS[tag_set].types
    assert tuple(type_in_tag_set(tag_set, kind) for kind in types) == types
    assert are_phi(types)


def test_are_phi() -> None:
    assert are_phi(PHI_TYPES)
    assert are_phi(["Person", "date_time"])
    assert not are_phi(["PATIENT", "Drug"])
    assert not are_phi([])


def test_every_hipaa_category_maps_to_an_i2b2_type() -> None:
    told = {kind: to_hipaa(kind) for kind in HIPAA.types}
    assert told == {category.name: category for category in Hipaa} | {"PHOTOGRAPH": None}
    assert closest_type("PHONE", HIPAA.types) == "TELEPHONE"
    assert type_in_tag_set("meddocan", "DATES") == "FECHAS"
