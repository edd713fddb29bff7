"""Surrogate names of a redacted note: each keeps its role, its gender if known, and its capitals."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from wardround.redaction.dates import match_case
from wardround.redaction.patterns import Language
from wardround.redaction.secret_key import SecretKey
from wardround.redaction.word_lists import FIRST_NAMES, PARTICLES, SURNAMES, TITLES

__all__ = ["NamedMention", "Roster", "pick_free", "replace_letter"]

_TOKEN = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_LAST_WORD = re.compile(r"([^\W\d_]+)\.?\s*$")
_SURNAMES_FOLLOW = re.compile(r"\b(?:apellidos?|surnames?|last name|family name)\W*$", re.IGNORECASE)
_ALPHABET = "abcdefghijklmnopqrstuvwxyz"
_GENDERS = {
    name.casefold(): gender
    for languages in FIRST_NAMES.values()
    for gender, names in languages.items()
    if gender
    for name in names
}


class NamedMention(NamedTuple):
    """The mention of a person, and the text before it, which may contain a title."""

    text: str
    before: str


class Roster:
    """The names of one note and their surrogates; different names never get the same surrogate."""

    def __init__(self, mentions: Iterable[NamedMention], *, key: SecretKey, language: Language) -> None:
        self._key = key
        roles: dict[str, Sequence[str]] = {}
        for mention in mentions:
            for token, pool in _roles(mention, language):
                roles.setdefault(token.casefold(), pool)
        taken = set(roles)  # a surrogate must not be a real name in the same note
        self._names: dict[str, str] = {}
        for token, pool in roles.items():
            self._names[token] = pick_free(pool, taken, key.child("name", token))
            taken.add(self._names[token].casefold())

    def rename(self, text: str) -> str:
        """Replace every name in a mention; titles and particles stay."""

        def replacement(match: re.Match[str]) -> str:
            token = match[0]
            if _is_kept(token):
                return token
            if token.casefold() in self._names:
                return match_case(token, self._names[token.casefold()])
            return "".join(replace_letter(letter, self._key.child("initial")) for letter in token)

        return _TOKEN.sub(replacement, text)


def pick_free(pool: Sequence[str], taken: set[str], key: SecretKey) -> str:
    """Return the key's choice from a list, or the next entry that is not taken."""
    start = key.number(len(pool), "place")
    rotated = [*pool[start:], *pool[:start]]
    free = next((name for name in rotated if name.casefold() not in taken), None)
    return free or "".join(_ALPHABET[key.number(26, "letter", str(place))] for place in range(12))


def replace_letter(letter: str, key: SecretKey) -> str:
    """Return another letter of the same case, always the same one for a key; return other characters unchanged."""
    if not letter.isalpha():
        return letter
    place = _ALPHABET.find(letter.lower())
    steps = key.number(25 if place >= 0 else 26, "letter", letter.lower())
    new = _ALPHABET[(place + 1 + steps) % 26]
    return new.upper() if letter.isupper() else new


def _roles(mention: NamedMention, language: Language) -> Iterable[tuple[str, Sequence[str]]]:
    """Yield each name in the mention with the list from which its surrogate comes."""
    tokens = list(_TOKEN.finditer(mention.text))
    found = [
        match
        for match in tokens
        if not _is_kept(match[0])
        and not (len(match[0]) == 1 or (len(match[0]) == 2 and match[0].isupper()))  # initials
    ]
    comma = mention.text.find(",")
    inverted = 0 <= comma and any(match.start() > comma for match in found)
    leads = next((match for match in found if not inverted or match.start() > comma), None)
    if _SURNAMES_FOLLOW.search(mention.before):
        leads = None
    titles = [TITLES.get(match[0].casefold(), "") for match in tokens if len(match[0]) > 1]
    if last := _LAST_WORD.search(mention.before):
        titles.append(TITLES.get(last[1].casefold(), ""))
    gender = next(filter(None, titles), "")
    for match in found:
        known = _GENDERS.get(match[0].casefold())
        if known is not None:
            yield match[0], FIRST_NAMES[language][known]
        elif match is leads and len(found) > 1:
            yield match[0], FIRST_NAMES[language][gender]
        else:
            yield match[0], SURNAMES[language]


def _is_kept(token: str) -> bool:
    return token.casefold() in PARTICLES or (len(token) > 1 and token.casefold() in TITLES)
