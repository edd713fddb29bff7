"""Surrogates for identifying text: of the same form, consistent within a note, unpredictable without the key.

All dates of a patient move by the same number of weeks. A name becomes another name of its kind, a number other digits
in the same pattern.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from wardround.redaction.dates import Calendar, date_shift, is_weekday, match_case
from wardround.redaction.names import NamedMention, Roster, pick_free, replace_letter
from wardround.redaction.patterns import Language
from wardround.redaction.secret_key import SecretKey
from wardround.redaction.word_lists import GENERIC, KIN, PARTICLES, PERSONS, PLACES, PROFESSIONS
from wardround.text.phi_tag_sets import to_i2b2

__all__ = ["Mention", "Surrogates"]

_LONGEST = 200  # characters; a longer mention is a mistake of the model, and is replaced letter by letter
_RESERVED_DOMAINS = ("example.org", "example.com", "example.net")  # reserved by RFC 2606: they have no owner
_OLDEST = 89  # HIPAA: a higher age identifies
_WORD_OR_NUMBER = re.compile(r"[^\W\d_]+|\d+")
_ADDRESS = re.compile(r"(?P<scheme>\w+://)?(?P<host>[^/\s]+)(?P<path>.*)", re.DOTALL)
_UNIT_OF_AGE = re.compile(r"\s*\b(?:años|año|meses|mes|días|years?|months?|days?|old|a|y)\b.*$", re.DOTALL | re.I)


class Mention(NamedTuple):
    """A text to replace: its type, the text, and some text before it."""

    type: str
    text: str
    before: str = ""


class Surrogates:
    """The surrogates of one note; `patient` is the key of the patient, whose dates all move by the same amount."""

    def __init__(self, mentions: Sequence[Mention], *, patient: SecretKey, language: Language) -> None:
        self._key, self._language = patient, language
        people = [NamedMention(m.text, m.before) for m in mentions if to_i2b2(m.type) in ("PATIENT", "DOCTOR")]
        self._roster = Roster(people, key=patient, language=language)
        dates = [mention.text for mention in mentions if to_i2b2(mention.type) == "DATE"]
        self._calendar = Calendar.of(dates, days=date_shift(patient.child("dates")), language=language)
        self._chosen: dict[tuple[str, str], str] = {}
        self._taken = {mention.text.casefold() for mention in mentions}
        self._methods: dict[str, Callable[[str], str]] = {
            **dict.fromkeys(("PATIENT", "DOCTOR"), self._roster.rename),
            **dict.fromkeys(("CITY", "STATE", "COUNTRY", "LOCATION-OTHER"), self._place),
            **dict.fromkeys(("STREET", "HOSPITAL", "ORGANIZATION"), self._by_words),
            "DATE": lambda text: self._calendar.shift(text, self._other_words_in_date),
            "AGE": self._age,
            "PROFESSION": lambda text: self._from_list("profession", PROFESSIONS[language], text),
            "EMAIL": self._mail,
            "URL": self._web,
            "SEXO_SUJETO_ASISTENCIA": lambda text: self._from_list("sex", PERSONS[language], text),
            "FAMILIARES_SUJETO_ASISTENCIA": lambda text: self._from_list("kin", KIN[language], text),
        }

    def of(self, mention: Mention) -> str:
        """Return the surrogate of a mention; it differs from the mention if that contains a letter or digit.

        Weekdays are the exception: dates move by whole weeks, so the day of the week stays.
        """
        kind = to_i2b2(mention.type) or mention.type.upper()
        text = mention.text
        if len(text) > _LONGEST:
            return self._scramble(text)
        new = self._methods.get(kind, self._scramble)(text)
        words = _WORD_OR_NUMBER.findall(text) if kind == "DATE" else []
        if any(map(is_weekday, words)) and all(is_weekday(w) or w.casefold() in PARTICLES for w in words):
            return new
        return new if new.casefold() != text.casefold() else self._scramble(text)

    def _scramble(self, text: str) -> str:
        """Replace every letter by another letter and every digit by another digit."""
        text_key = self._key.child("form", text.casefold())
        replaced = []
        for place, character in enumerate(text):
            character_key = text_key.child(str(place))
            if character.isdecimal():
                replaced.append(str((int(character) + 1 + character_key.number(9, "digit")) % 10))
            elif character.isalnum() and not character.isalpha():
                replaced.append("0")
            else:
                replaced.append(replace_letter(character, character_key))
        return "".join(replaced)

    def _from_list(self, name: str, pool: Sequence[str], text: str) -> str:
        original = (name, " ".join(text.casefold().split()))
        if original not in self._chosen:
            self._chosen[original] = pick_free(pool, self._taken, self._key.child(*original))
            self._taken.add(self._chosen[original].casefold())
        return match_case(text, self._chosen[original])

    def _place(self, text: str) -> str:
        """Replace a place by another; a postcode, which some tag sets call a place, by other digits."""
        if any(map(str.isdigit, text)):
            return self._by_words(text)
        return self._from_list("place", PLACES[self._language], text)

    def _by_words(self, text: str) -> str:
        """Replace numbers and proper names in an address; words such as "street" stay."""

        def replacement(match: re.Match[str]) -> str:
            word = match[0]
            if word.casefold() in GENERIC or word.casefold() in PARTICLES:
                return word
            if word.isdigit() or len(word) == 1:
                return self._scramble(word)
            return self._from_list("place", PLACES[self._language], word)

        return _WORD_OR_NUMBER.sub(replacement, text)

    def _other_words_in_date(self, text: str) -> str:
        """Replace words within a date that are not part of it, except for particles."""
        return _WORD_OR_NUMBER.sub(
            lambda match: match[0] if match[0].casefold() in PARTICLES else self._scramble(match[0]), text
        )

    def _age(self, text: str) -> str:
        """Change an age by up to three years; an identifying age becomes another identifying age."""

        def replacement(match: re.Match[str]) -> str:
            age = int(match[0])
            steps = self._key.number(1 << 32, "age", str(age))
            near = range(max(1, age - 3), min(_OLDEST, age + 3) + 1)
            if age > _OLDEST:
                near = range(_OLDEST + 1, _OLDEST + 10)
            others = [other for other in near if other != age]
            return str(others[steps % len(others)])

        if any(map(str.isdecimal, text)):
            return re.sub(r"\d+", replacement, text)
        unit = _UNIT_OF_AGE.search(text)
        return f"{20 + self._key.number(60, 'age', text.casefold())}{unit[0] if unit else ''}"

    def _mail(self, text: str) -> str:
        name, at, _ = text.partition("@")
        return f"{self._scramble(name)}@{self._domain(text)}" if at else self._scramble(text)

    def _web(self, text: str) -> str:
        found = _ADDRESS.fullmatch(text)
        if found is None:
            return self._scramble(text)
        return f"{found['scheme'] or ''}www.{self._domain(found['host'])}{self._scramble(found['path'])}"

    def _domain(self, text: str) -> str:
        return _RESERVED_DOMAINS[self._key.number(len(_RESERVED_DOMAINS), "domain", text.casefold())]
