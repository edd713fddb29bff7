"""Who is called what in a redacted note: every name keeps its place, its gender where that is known, its capitals."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from wardround.redaction.dates import like
from wardround.redaction.keyed import Keyed
from wardround.redaction.patterns import Language
from wardround.redaction.word_lists import FIRST_NAMES, PARTICLES, SURNAMES, TITLES

__all__ = ["NamedMention", "Roster", "moved_letter", "picked"]

_TOKEN = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_LAST_WORD = re.compile(r"([^\W\d_]+)\.?\s*$")
_SURNAMES_FOLLOW = re.compile(r"\b(?:apellidos?|surnames?|last name|family name)\W*$", re.IGNORECASE)
_ALPHABET = "abcdefghijklmnopqrstuvwxyz"


class NamedMention(NamedTuple):
    """The mention of a person, and the words that lead to it, where a title may stand."""

    text: str
    before: str


class Roster:
    """The names of one note and what stands in for each; different names never become the same one."""

    def __init__(self, mentions: Iterable[NamedMention], *, keyed: Keyed, language: Language) -> None:
        self._keyed = keyed
        roles: dict[str, Sequence[str]] = {}
        for mention in mentions:
            for token, pool in _roles(mention, language):
                roles.setdefault(token.casefold(), pool)
        taken = set(roles)  # a stand-in that is somebody's real name in this note would be taken for it
        self._names: dict[str, str] = {}
        for token, pool in roles.items():
            self._names[token] = picked(pool, taken, keyed.child("name", token))
            taken.add(self._names[token].casefold())

    def renamed(self, text: str) -> str:
        """A mention with every name in it replaced; titles and particles stay."""
        return _TOKEN.sub(lambda match: self._token(match[0]), text)

    def _token(self, token: str) -> str:
        if _stays(token):
            return token
        if token.casefold() in self._names:
            return like(token, self._names[token.casefold()])
        return "".join(moved_letter(letter, self._keyed.child("initial")) for letter in token)


def picked(pool: Sequence[str], taken: set[str], keyed: Keyed) -> str:
    """The key's choice from a list, and where that is taken the next one that is not."""
    start = keyed.number(len(pool), "place")
    turned = [*pool[start:], *pool[:start]]
    free = next((name for name in turned if name.casefold() not in taken), None)
    return free or "".join(_ALPHABET[keyed.number(26, "letter", str(place))] for place in range(12))


def moved_letter(letter: str, keyed: Keyed) -> str:
    """Another letter in its place, always the same, as large or small; what is no letter stays."""
    if not letter.isalpha():
        return letter
    place = _ALPHABET.find(letter.lower())
    steps = keyed.number(25 if place >= 0 else 26, "letter", letter.lower())
    new = _ALPHABET[(place + 1 + steps) % 26]
    return new.upper() if letter.isupper() else new


def _roles(mention: NamedMention, language: Language) -> Iterable[tuple[str, Sequence[str]]]:
    """Each name in the mention and the list that its stand-in comes from."""
    found = [match for match in _TOKEN.finditer(mention.text) if not _stays(match[0]) and not _is_initials(match[0])]
    comma = mention.text.find(",")
    inverted = 0 <= comma and any(match.start() > comma for match in found)
    leads = next((match for match in found if not inverted or match.start() > comma), None)
    if _SURNAMES_FOLLOW.search(mention.before):
        leads = None
    gender = _gender_of_title(mention)
    for match in found:
        known = _gender_of_name(match[0])
        if known is not None:
            yield match[0], FIRST_NAMES[language][known]
        elif match is leads and len(found) > 1:
            yield match[0], FIRST_NAMES[language][gender]
        else:
            yield match[0], SURNAMES[language]


def _stays(token: str) -> bool:
    return token.casefold() in PARTICLES or (len(token) > 1 and token.casefold() in TITLES)


def _is_initials(token: str) -> bool:
    return len(token) == 1 or (len(token) == 2 and token.isupper())


def _gender_of_title(mention: NamedMention) -> str:
    inside = (TITLES.get(match[0].casefold()) for match in _TOKEN.finditer(mention.text) if len(match[0]) > 1)
    led = _LAST_WORD.search(mention.before)
    return next((gender for gender in inside if gender), TITLES.get(led[1].casefold(), "") if led else "")


_GENDERS = {
    name.casefold(): gender
    for languages in FIRST_NAMES.values()
    for gender, names in languages.items()
    if gender
    for name in names
}


def _gender_of_name(token: str) -> str | None:
    return _GENDERS.get(token.casefold())
