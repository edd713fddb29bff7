"""Stand-ins for what identifies: of the same form, the same for the same within a note, told by nobody without the key.

Dates of a patient move by one number of weeks. A name becomes another of its kind, a number other digits in its
pattern.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from wardround.redaction.dates import Calendar, days_to_move, is_weekday, like
from wardround.redaction.keyed import Keyed
from wardround.redaction.names import NamedMention, Roster, moved_letter, picked
from wardround.redaction.patterns import Language
from wardround.redaction.word_lists import GENERIC, KIN, PARTICLES, PERSONS, PLACES, PROFESSIONS
from wardround.text.phi_tag_sets import to_i2b2

__all__ = ["Mention", "Surrogates"]

_LONGEST = 200  # characters; a longer mention is a mistake of whoever found it, and loses its form letter by letter
_RESERVED_DOMAINS = ("example.org", "example.com", "example.net")  # nobody can own them (RFC 2606)
_OLDEST = 89  # HIPAA: above it an age identifies
_WORD_OR_NUMBER = re.compile(r"[^\W\d_]+|\d+")
_ADDRESS = re.compile(r"(?P<scheme>\w+://)?(?P<host>[^/\s]+)(?P<path>.*)", re.DOTALL)
_UNIT_OF_AGE = re.compile(r"\s*\b(?:años|año|meses|mes|días|years?|months?|days?|old|a|y)\b.*$", re.DOTALL | re.I)


class Mention(NamedTuple):
    """What is replaced: its type, its words, and some of what stands before them."""

    type: str
    text: str
    before: str = ""


class Surrogates:
    """The stand-ins of one note; `patient` is the key of the patient, whose dates all move alike."""

    def __init__(self, mentions: Sequence[Mention], *, patient: Keyed, language: Language) -> None:
        self._keyed, self._language = patient, language
        people = [NamedMention(m.text, m.before) for m in mentions if to_i2b2(m.type) in ("PATIENT", "DOCTOR")]
        self._roster = Roster(people, keyed=patient, language=language)
        dates = [mention.text for mention in mentions if to_i2b2(mention.type) == "DATE"]
        self._calendar = Calendar.of(dates, days=days_to_move(patient.child("dates")), language=language)
        self._chosen: dict[tuple[str, str], str] = {}
        self._taken = {mention.text.casefold() for mention in mentions}
        self._ways: dict[str, Callable[[str], str]] = {
            **dict.fromkeys(("PATIENT", "DOCTOR"), self._roster.renamed),
            **dict.fromkeys(("CITY", "STATE", "COUNTRY", "LOCATION-OTHER"), self._place),
            **dict.fromkeys(("STREET", "HOSPITAL", "ORGANIZATION"), self._by_words),
            "DATE": lambda text: self._calendar.moved(text, self._beside_a_date),
            "AGE": self._age,
            "PROFESSION": lambda text: self._from_list("profession", PROFESSIONS[language], text),
            "EMAIL": self._mail,
            "URL": self._web,
            "SEXO_SUJETO_ASISTENCIA": lambda text: self._from_list("sex", PERSONS[language], text),
            "FAMILIARES_SUJETO_ASISTENCIA": lambda text: self._from_list("kin", KIN[language], text),
        }

    def of(self, mention: Mention) -> str:
        """What stands in for a mention; never what it was, where that holds a letter or a digit.

        A weekday is the exception: dates move by whole weeks, and the day of the week stays with them.
        """
        kind = to_i2b2(mention.type) or mention.type.upper()
        text = mention.text
        if len(text) > _LONGEST:
            return self._scrambled(text)
        new = self._ways.get(kind, self._scrambled)(text)
        if kind == "DATE" and _names_weekdays(text):
            return new
        return new if new.casefold() != text.casefold() else self._scrambled(text)

    def _scrambled(self, text: str) -> str:
        """Every letter another letter, every digit another digit."""
        keyed = self._keyed.child("form", text.casefold())
        return "".join(_moved(character, keyed.child(str(place))) for place, character in enumerate(text))

    def _from_list(self, name: str, pool: Sequence[str], text: str) -> str:
        key = (name, " ".join(text.casefold().split()))
        if key not in self._chosen:
            self._chosen[key] = picked(pool, self._taken, self._keyed.child(*key))
            self._taken.add(self._chosen[key].casefold())
        return like(text, self._chosen[key])

    def _place(self, text: str) -> str:
        """One place for another; a postcode, which some tag sets call a place, as other digits."""
        if any(map(str.isdigit, text)):
            return self._by_words(text)
        return self._from_list("place", PLACES[self._language], text)

    def _by_words(self, text: str) -> str:
        return _WORD_OR_NUMBER.sub(lambda match: self._word(match[0]), text)

    def _word(self, word: str) -> str:
        if word.isdigit():
            return self._scrambled(word)
        if word.casefold() in GENERIC or word.casefold() in PARTICLES:
            return word
        return self._from_list("place", PLACES[self._language], word) if len(word) > 1 else self._scrambled(word)

    def _beside_a_date(self, text: str) -> str:
        """What stands in a date and is no part of it: words that join stay."""
        return _WORD_OR_NUMBER.sub(
            lambda match: match[0] if match[0].casefold() in PARTICLES else self._scrambled(match[0]), text
        )

    def _age(self, text: str) -> str:
        if any(map(str.isdecimal, text)):
            return re.sub(r"\d+", lambda match: str(self._other_age(int(match[0]))), text)
        unit = _UNIT_OF_AGE.search(text)
        return f"{20 + self._keyed.number(60, 'age', text.casefold())}{unit[0] if unit else ''}"

    def _other_age(self, age: int) -> int:
        """Up to three years more or less; an age that identifies becomes another of those, and nothing else."""
        steps = self._keyed.number(1 << 32, "age", str(age))
        near = range(_OLDEST + 1, _OLDEST + 10) if age > _OLDEST else range(max(1, age - 3), min(_OLDEST, age + 3) + 1)
        others = [other for other in near if other != age]
        return others[steps % len(others)]

    def _mail(self, text: str) -> str:
        name, at, _ = text.partition("@")
        return f"{self._scrambled(name)}@{self._domain(text)}" if at else self._scrambled(text)

    def _web(self, text: str) -> str:
        found = _ADDRESS.fullmatch(text)
        if found is None:
            return self._scrambled(text)
        return f"{found['scheme'] or ''}www.{self._domain(found['host'])}{self._scrambled(found['path'])}"

    def _domain(self, text: str) -> str:
        return _RESERVED_DOMAINS[self._keyed.number(len(_RESERVED_DOMAINS), "domain", text.casefold())]


def _names_weekdays(text: str) -> bool:
    words = _WORD_OR_NUMBER.findall(text)
    return any(map(is_weekday, words)) and all(is_weekday(word) or word.casefold() in PARTICLES for word in words)


def _moved(character: str, keyed: Keyed) -> str:
    if character.isdecimal():
        return str((int(character) + 1 + keyed.number(9, "digit")) % 10)
    if character.isalnum() and not character.isalpha():
        return "0"
    return moved_letter(character, keyed)
