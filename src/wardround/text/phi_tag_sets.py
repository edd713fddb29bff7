"""Tag sets of protected health information (PHI), and how their types correspond.

The types of i2b2-2014 are the most specific ones about what a mention looks like, so other tag sets are mapped through
them. HIPAA's categories are those of 45 CFR 164.514(b)(2)(i), in its order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

from wardround.text.tag_sets import TagSet

__all__ = [
    "HIPAA",
    "I2B2_2014",
    "MEDDOCAN",
    "PHI_TAG_SETS",
    "Hipaa",
    "are_phi",
    "closest_type",
    "to_hipaa",
    "to_i2b2",
    "type_in_tag_set",
]


class Hipaa(Enum):
    """The 18 identifiers that HIPAA's Safe Harbor rule requires to be removed from a note."""

    NAMES = "names"
    PLACES = "places smaller than a state"
    DATES = "dates except the year, and ages over 89"
    TELEPHONE = "telephone numbers"
    FAX = "fax numbers"
    EMAIL = "e-mail addresses"
    SOCIAL_SECURITY = "social security numbers"
    MEDICAL_RECORD = "medical record numbers"
    HEALTH_PLAN = "health plan beneficiary numbers"
    ACCOUNT = "account numbers"
    LICENCE = "certificate and licence numbers"
    VEHICLE = "vehicle identifiers and plates"
    DEVICE = "device identifiers and serial numbers"
    URL = "web addresses"
    IP = "IP addresses"
    BIOMETRIC = "biometric identifiers"
    PHOTOGRAPH = "full-face photographs"
    OTHER = "any other unique number, characteristic or code"


# i2b2 type → HIPAA category; None if HIPAA does not require it to be removed.
_HIPAA: dict[str, Hipaa | None] = {
    "PATIENT": Hipaa.NAMES,
    "DOCTOR": None,
    "USERNAME": Hipaa.OTHER,
    "PROFESSION": None,
    "HOSPITAL": None,
    "ORGANIZATION": None,
    "STREET": Hipaa.PLACES,
    "CITY": Hipaa.PLACES,
    "STATE": None,
    "COUNTRY": None,
    "ZIP": Hipaa.PLACES,
    "LOCATION-OTHER": Hipaa.PLACES,
    "AGE": Hipaa.DATES,
    "DATE": Hipaa.DATES,
    "PHONE": Hipaa.TELEPHONE,
    "FAX": Hipaa.FAX,
    "EMAIL": Hipaa.EMAIL,
    "URL": Hipaa.URL,
    "IPADDR": Hipaa.IP,
    "SSN": Hipaa.SOCIAL_SECURITY,
    "MEDICALRECORD": Hipaa.MEDICAL_RECORD,
    "HEALTHPLAN": Hipaa.HEALTH_PLAN,
    "ACCOUNT": Hipaa.ACCOUNT,
    "LICENSE": Hipaa.LICENCE,
    "VEHICLE": Hipaa.VEHICLE,
    "DEVICE": Hipaa.DEVICE,
    "BIOID": Hipaa.BIOMETRIC,
    "IDNUM": Hipaa.OTHER,
}

# MEDDOCAN type → i2b2 type; "" if i2b2 has none.
_MEDDOCAN = {
    "NOMBRE_SUJETO_ASISTENCIA": "PATIENT",
    "NOMBRE_PERSONAL_SANITARIO": "DOCTOR",
    "EDAD_SUJETO_ASISTENCIA": "AGE",
    "SEXO_SUJETO_ASISTENCIA": "",
    "FAMILIARES_SUJETO_ASISTENCIA": "",
    "OTROS_SUJETO_ASISTENCIA": "",
    "FECHAS": "DATE",
    "PROFESION": "PROFESSION",
    "HOSPITAL": "HOSPITAL",
    "CENTRO_SALUD": "HOSPITAL",
    "INSTITUCION": "ORGANIZATION",
    "CALLE": "STREET",
    "TERRITORIO": "LOCATION-OTHER",
    "PAIS": "COUNTRY",
    "NUMERO_TELEFONO": "PHONE",
    "NUMERO_FAX": "FAX",
    "CORREO_ELECTRONICO": "EMAIL",
    "URL_WEB": "URL",
    "DIREC_PROT_INTERNET": "IPADDR",
    "ID_SUJETO_ASISTENCIA": "MEDICALRECORD",
    "ID_CONTACTO_ASISTENCIAL": "IDNUM",
    "ID_ASEGURAMIENTO": "HEALTHPLAN",
    "NUMERO_BENEF_PLAN_SALUD": "HEALTHPLAN",
    "ID_TITULACION_PERSONAL_SANITARIO": "LICENSE",
    "ID_EMPLEO_PERSONAL_SANITARIO": "IDNUM",
    "IDENTIF_VEHICULOS_NRSERIE_PLACAS": "VEHICLE",
    "IDENTIF_DISPOSITIVOS_NRSERIE": "DEVICE",
    "IDENTIF_BIOMETRICOS": "BIOID",
    "OTRO_NUMERO_IDENTIF": "IDNUM",
}

# Names of the same types in other corpora and tools.
_OTHER_NAMES = {
    "NAME": "PATIENT",
    "PERSON": "PATIENT",
    "LOCATION": "LOCATION-OTHER",
    "GPE": "CITY",
    "STREET_ADDRESS": "STREET",
    "ZIP_CODE": "ZIP",
    "DATE_TIME": "DATE",
    "PHONE_NUMBER": "PHONE",
    "CONTACT": "PHONE",
    "EMAIL_ADDRESS": "EMAIL",
    "DOMAIN_NAME": "URL",
    "IP_ADDRESS": "IPADDR",
    "US_SSN": "SSN",
    "US_DRIVER_LICENSE": "LICENSE",
    "CREDIT_CARD": "ACCOUNT",
    "IBAN_CODE": "ACCOUNT",
    "MRN": "MEDICALRECORD",
    "ID": "IDNUM",
}

# HIPAA category → most similar i2b2 type, if the names differ; a text has no photograph.
_CATEGORIES = {
    "NAMES": "PATIENT",
    "PLACES": "LOCATION-OTHER",
    "DATES": "DATE",
    "TELEPHONE": "PHONE",
    "SOCIAL_SECURITY": "SSN",
    "MEDICAL_RECORD": "MEDICALRECORD",
    "HEALTH_PLAN": "HEALTHPLAN",
    "LICENCE": "LICENSE",
    "IP": "IPADDR",
    "BIOMETRIC": "BIOID",
    "OTHER": "IDNUM",
}

HIPAA = TagSet(tuple(category.name for category in Hipaa))
I2B2_2014 = TagSet(tuple(_HIPAA))
MEDDOCAN = TagSet(tuple(_MEDDOCAN))
PHI_TAG_SETS: Mapping[str, TagSet] = {"hipaa": HIPAA, "i2b2-2014": I2B2_2014, "meddocan": MEDDOCAN}

# Types to use for a number of this type if a tag set does not have the type itself, best first.
_SIMILAR = {"ZIP": ("LOCATION-OTHER", "STREET"), "SSN": ("IDNUM",), "IPADDR": ("URL", "IDNUM"), "URL": ("EMAIL",)}
_IDS = ("IDNUM", "MEDICALRECORD", "HEALTHPLAN", "ACCOUNT", "LICENSE")


def to_i2b2(type_: str) -> str:
    """Return the i2b2-2014 type for a type of any corpus, or "" if there is none; case is ignored."""
    name = type_.upper()
    return name if name in _HIPAA else (_MEDDOCAN | _OTHER_NAMES | _CATEGORIES).get(name, "")


def to_hipaa(type_: str) -> Hipaa | None:
    """Return the HIPAA category of the type, or None if HIPAA does not require its removal."""
    return _HIPAA.get(to_i2b2(type_))


def closest_type(type_: str, types: Sequence[str]) -> str:
    """Return the one of `types` that fits an i2b2 type best; the i2b2 type itself if none fits."""
    if type_ in types:
        return type_
    candidates = (type_, *_SIMILAR.get(type_, ()), *(_IDS if type_ in _IDS else ()))
    by_i2b2_type = {to_i2b2(own): own for own in reversed(types)}
    return next((by_i2b2_type[name] for name in candidates if name in by_i2b2_type), type_)


def type_in_tag_set(tag_set: str, type_: str) -> str:
    """Convert a type of any corpus to one of `PHI_TAG_SETS`; return it unchanged if the set has no such type."""
    types = PHI_TAG_SETS[tag_set].types
    if type_ in types:
        return type_
    if tag_set == "hipaa":
        category = to_hipaa(type_)
        return type_ if category is None else category.name
    return closest_type(to_i2b2(type_) or type_, types)


def are_phi(types: Iterable[str]) -> bool:
    """Return True if there is at least one type and all of them are known to identify people."""
    known = {kind for tag_set in PHI_TAG_SETS.values() for kind in tag_set.types}
    found = [bool(to_i2b2(kind)) or kind.upper() in known for kind in types]
    return bool(found) and all(found)
