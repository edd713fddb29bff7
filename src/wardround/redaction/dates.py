"""Shift dates by a number of days and keep their notation, so that distances between dates stay.

The shift is a whole number of weeks, so that weekdays stay valid, even one beside a date that was not found with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, timedelta

from wardround.redaction.patterns import Language
from wardround.redaction.secret_key import SecretKey
from wardround.redaction.word_lists import MONTH_NAMES, WEEKDAY_NAMES

__all__ = ["Calendar", "date_shift", "is_weekday", "match_case"]

_LEAP_YEAR = 2000  # for dates without a year, if the note has no year at all: it has every day

_NAMES = "|".join(sorted({n for names in MONTH_NAMES.values() for n, _ in names}, key=len, reverse=True))
_DAYS_OF_WEEK = "|".join(sorted({n for names in WEEKDAY_NAMES.values() for n, _ in names}, key=len, reverse=True))
_D, _Y = r"(?<!\d)(?P<d>\d{1,2})", r"(?P<y>\d{4}|\d{2})(?!\d)"
_A, _B = r"(?<!\d)(?P<a>\d{1,2})", r"(?P<b>\d{1,2})(?!\d)"
_NAME = rf"(?<![^\W\d_])(?P<name>{_NAMES})(?![^\W\d_])"
_ORDINAL = r"(?P<o>st|nd|rd|th)?"
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2212\uff0d"
_SLASHES = "\u2044\u2215\uff0f"
_SIGN = rf"[./{_SLASHES}{_DASHES}-]"
_GAP = rf"(?:[.,/\s'’{_SLASHES}{_DASHES}-]|\bdel?\b|\bof\b|\baño\b){{1,6}}"

_NUMERIC = rf"{_A}\s?(?P<s>{_SIGN})\s?(?P<b>\d{{1,2}})\s?(?P=s)\s?{_Y}"
# After the month, English has the day; in Spanish two digits there are the year.
_MONTH_FIRST: dict[Language, tuple[str, ...]] = {
    "en": (rf"{_NAME}{_GAP}(?P<d>\d{{1,2}}){_ORDINAL}{_GAP}{_Y}", rf"{_NAME}{_GAP}(?P<d>\d{{1,2}}){_ORDINAL}(?!\d)"),
    "es": (rf"{_NAME}{_GAP}(?P<y>\d{{2}})(?!\d)",),
}


def _forms(language: Language) -> tuple[re.Pattern[str], ...]:
    """Return the notations of dates, the most complete first; a and b are day and month in the order of the note."""
    forms = (
        rf"(?<!\d)(?P<y>\d{{4}})\s?(?P<s>{_SIGN})\s?(?P<m>\d{{1,2}})\s?(?P=s)\s?(?P<d>\d{{1,2}})(?!\d)",
        _NUMERIC,
        r"(?<!\d)(?P<y>\d{4})(?P<m>\d{2})(?P<d>\d{2})(?!\d)",
        rf"{_D}{_ORDINAL}{_GAP}{_NAME}{_GAP}{_Y}",
        *_MONTH_FIRST[language][:-1],
        rf"{_D}{_ORDINAL}{_GAP}{_NAME}",
        rf"{_NAME}{_GAP}(?P<y>\d{{4}}|(?<=['’])\d{{2}})(?!\d)",
        _MONTH_FIRST[language][-1],
        rf"(?<!\d)(?P<m>\d{{1,2}})[/{_SLASHES}{_DASHES}-](?P<y>\d{{4}})(?!\d)",
        rf"{_A}{_SIGN}{_B}",
        r"(?<!\d)(?P<y>(?:1[89]|2[01])\d\d)(?!\d)",
        _NAME,
        rf"(?<![^\W\d_])(?P<weekday>{_DAYS_OF_WEEK})(?![^\W\d_])",
    )
    return tuple(re.compile(form, re.IGNORECASE) for form in forms)


_FORMS: dict[Language, tuple[re.Pattern[str], ...]] = {"en": _forms("en"), "es": _forms("es")}
_WHOLE_YEAR = re.compile(r"(?<!\d)(?:1[89]|2[01])\d\d(?!\d)")


# One to four years, never near a whole year: every month and every year changes.
_SHIFTS = tuple(days for years in (1, 2, 3) for days in range(365 * years + 40, 365 * years + 326) if days % 7 == 0)


def date_shift(key: SecretKey) -> int:
    """Return a shift in days, back or forward; whole weeks, so that weekdays stay."""
    return _SHIFTS[key.number(len(_SHIFTS), "weeks")] * (1 if key.number(2, "direction") else -1)


def is_weekday(word: str) -> bool:
    """Return whether the word names a day of the week in any of the languages."""
    return any(known == word.lower() for names in WEEKDAY_NAMES.values() for known, _ in names)


def match_case(model: str, word: str) -> str:
    """Return a word in the letter case of another."""
    if model.isupper() and (len(model) > 1 or len(word) == 1):
        return word.upper()
    return word.lower() if model.islower() else word[:1].upper() + word[1:]


@dataclass(frozen=True, slots=True)
class Calendar:
    """The date notation of one note, and its shift in days."""

    days: int
    language: Language
    year: int = _LEAP_YEAR  # for dates without a year; also the century for years of two digits
    day_first: bool = True

    @classmethod
    def of(cls, dates: Iterable[str], *, days: int, language: Language) -> Calendar:
        """Infer the notation from the dates of a note."""
        dates = list(dates)
        years = [int(found[0]) for text in dates if (found := _WHOLE_YEAR.search(text))]
        pairs = [(int(m["a"]), int(m["b"])) for text in dates for m in re.finditer(_NUMERIC, text) if m["s"] != "."]
        american = any(b > 12 for _, b in pairs)
        european = any(a > 12 for a, _ in pairs)
        day_first = european if american != european else language != "en"
        return cls(days, language, years[0] if years else _LEAP_YEAR, day_first)

    def shift(self, text: str, otherwise: Callable[[str], str]) -> str:
        """Shift every date in the text; `otherwise` replaces the rest."""
        for form in _FORMS[self.language]:
            for match in form.finditer(text):
                parts = self._shifted_parts(match)
                if parts is not None:
                    before, after = text[: match.start()], text[match.end() :]
                    return self.shift(before, otherwise) + _filled(match, parts) + self.shift(after, otherwise)
        return otherwise(text)

    def _shifted_parts(self, match: re.Match[str]) -> dict[str, str] | None:
        """Return the new content of the match's groups, or None if it is not a date."""
        found = match.groupdict()
        if found.get("weekday"):
            if self.days % 7 == 0:
                return {"weekday": found["weekday"]}
            tables = self._languages(WEEKDAY_NAMES)
            number = next(n for names in tables for known, n in names if known == found["weekday"].lower())
            return {"weekday": _same_style(found["weekday"], (number - 1 + self.days) % 7 + 1, tables)}
        # The possible orders of day and month in the groups a and b, the more likely first.
        orders = ["dm", "md"] if self.day_first or "." in match[0] else ["md", "dm"]
        for order in orders if "a" in found else [""]:
            month, day = int(found.get("m") or 7), int(found.get("d") or 15)  # July and the 15th if they are missing
            if order:
                day, month = (int(found[group]) for group in ("ab" if order == "dm" else "ba"))
            elif found.get("name"):
                tables = self._languages(MONTH_NAMES)
                month = next(n for names in tables for known, n in names if known == found["name"].lower())
            new = self._shifted(found.get("y"), month, day)
            if new is not None:
                return self._written(found, new, order)
        return None

    def _shifted(self, year: str | None, month: int, day: int) -> date | None:
        years = [self.year, _LEAP_YEAR] if year is None else [int(year)]
        if year is not None and len(year) == 2:
            years = [self.year // 100 * 100 + int(year)]
        for candidate in years:
            try:
                return date(candidate, month, day) + timedelta(self.days)
            except (ValueError, OverflowError):
                continue
        return None

    def _written(self, found: dict[str, str], new: date, order: str) -> dict[str, str]:
        """Return the new date with the widths and words of the old one."""
        numbers = {"d": new.day, "m": new.month, "y": new.year}
        numbers |= {group: numbers[part] for group, part in zip("ab", order, strict=False)}
        parts = {}
        for name, old in found.items():
            if name in numbers and old is not None:
                # Beside the name of a month, two digits are no fixed width unless the first is 0.
                width = 1 if name == "d" and found.get("name") and old[0] != "0" else len(old)
                parts[name] = str(numbers[name] % 100 if len(old) <= 2 else numbers[name]).zfill(width)
        if found.get("name"):
            parts["name"] = _same_style(found["name"], new.month, self._languages(MONTH_NAMES))
        if found.get("o"):
            ordinal = "th" if new.day in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(new.day % 10, "th")
            parts["o"] = match_case(found["o"], ordinal)
        return parts

    def _languages(self, table: dict[str, list[tuple[str, int]]]) -> list[list[tuple[str, int]]]:
        return [table[self.language], *(names for language, names in table.items() if language != self.language)]


def _same_style(old: str, number: int, tables: list[list[tuple[str, int]]]) -> str:
    """Return the name with that number in the language of the old one, abbreviated if that was."""
    table = next(names for names in tables if any(known == old.lower() for known, _ in names))
    full = {n: known for known, n in reversed(table)}
    short = {n: known for known, n in table}
    return match_case(old, (full if old.lower() in full.values() else short)[number])


def _filled(match: re.Match[str], parts: dict[str, str]) -> str:
    """Return the text of the match with new content in its groups."""
    text, end = "", match.start()
    for start, stop, new in sorted((*match.span(name), new) for name, new in parts.items()):
        text += match.string[end:start] + new
        end = stop
    return text + match.string[end : match.end()]
