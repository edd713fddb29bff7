"""Patterns for identifiers with a typical form: dates, telephone numbers, mail, web and IP addresses, record numbers.

Patterns work in any note, whatever a model was trained on. They favour recall: a number that may be a telephone number
is hidden. They do not find names or streets.

A text is also searched as a person reads it: with unusual Unicode characters in their plain form, and with lines joined
that were wrapped inside an identifier. Additional findings contain or touch such a character, or contain a line break;
ordinary text has the same findings with and without this.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, get_args

from wardround.errors import UsageError
from wardround.redaction.broken_lines import JoinedText, joined_texts
from wardround.redaction.findings import Finding
from wardround.redaction.word_lists import MONTH_NAMES
from wardround.text.document import Range
from wardround.text.normalisation import skeleton
from wardround.text.views import View

__all__ = ["Language", "Patterns"]

Language = Literal["en", "es"]

_YEAR = r"(?:1[89]\d\d|20\d\d)"
_DAY, _MONTH = r"(?:0?[1-9]|[12]\d|3[01])", r"(?:0?[1-9]|1[0-2])"
_NOT_IN_A_NUMBER, _NUMBER_ENDS = r"(?<![\w.,/-])", r"(?![\w/-])(?![.,]\d)"
_PART = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"  # of an IP address
_HOST = r"[a-z0-9](?:[a-z0-9-]{0,62}\.)+[a-z]{2,24}"


def _dates_in_words(language: Language) -> list[str]:
    names = sorted({name for name, _ in MONTH_NAMES[language]}, key=len, reverse=True)
    month = rf"(?:{'|'.join(names)})\b\.?"
    if language == "es":
        return [
            rf"\b{_DAY}(?:\s+(?:de\s+)?|[-/]){month}(?:(?:\s+(?:del?\s+)?(?:año\s+)?|[-/])(?:{_YEAR}|\d\d)\b)?",
            rf"\b{month}\s*(?:del?\s+|,\s*|/|-)?(?:año\s+)?(?:{_YEAR}\b|'?\d\d\b(?!\s*(?:años|mg|%)))",
            rf"\b(?P<value>año\s+{_YEAR})\b(?![.,]\d)",
            rf"\b(?:en|desde|hasta|de|del|durante)\s+(?P<value>{_YEAR})\b(?![.,]\d)",
        ]
    ordinal = r"(?:st|nd|rd|th)?"
    whole = [name.capitalize() for name, _ in MONTH_NAMES[language] if len(name) > 4 or name in ("may", "june", "july")]
    return [
        rf"\b(?:the\s+)?{_DAY}{ordinal}\s+(?:of\s+)?{month}(?:,?\s+(?:{_YEAR}|'\d\d)\b)?",
        rf"\b{month}\s+{_DAY}{ordinal}\b(?:,?\s+(?:{_YEAR}|'\d\d)\b)?",
        rf"\b{month},?\s+(?:{_YEAR}|'\d\d)\b",
        rf"\b(?:in|since|during|until|year)\s+(?P<value>{_YEAR})\b(?![.,]\d)",
        # Some months are also names or verbs: alone, a month counts only after one of these words.
        rf"(?-i:\b(?:[Ii]n|[Ss]ince|[Uu]ntil|[Ll]ast|[Nn]ext)\s+(?P<value>{'|'.join(whole)})\b)",
    ]


_DATES = [
    rf"{_NOT_IN_A_NUMBER}{_DAY}([./-]){_DAY}[ ]?\1(?:{_YEAR}|\d\d){_NUMBER_ENDS}",
    rf"{_NOT_IN_A_NUMBER}{_YEAR}([./-]){_MONTH}\1{_DAY}(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?Z?)?{_NUMBER_ENDS}",
    rf"{_NOT_IN_A_NUMBER}{_MONTH}/{_YEAR}{_NUMBER_ENDS}",
    rf"{_NOT_IN_A_NUMBER}(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01]){_NUMBER_ENDS}",
]
_SHORT_DATES = {  # without a year: a fraction looks the same, so one of these words must precede it
    "en": rf"\b(?:on|since|until|from|due|admitted|dated|home)\s+(?P<value>{_DAY}[./]{_DAY}){_NUMBER_ENDS}",
    "es": rf"\b(?:el|día|desde|hasta)\s+(?P<value>{_DAY}/{_MONTH}){_NUMBER_ENDS}",
}
_PHONES = [
    r"(?<![\w+])\+\d{1,3}[\s.-]?(?:\(\d{1,4}\)[\s.-]?)?\d{1,4}(?:[\s.-]?\d{2,4}){2,4}\b",
    rf"(?<!\w)\(\d{{2,5}}\)[\s.-]?\d{{3}}(?:[\s.-]?\d{{2,4}}){{1,2}}{_NUMBER_ENDS}",
    rf"{_NOT_IN_A_NUMBER}\d{{3}}[\s.-]\d{{3}}[\s.-]\d{{3,4}}{_NUMBER_ENDS}",
    rf"{_NOT_IN_A_NUMBER}[5-9]\d\d-\d{{4}}{_NUMBER_ENDS}",
    rf"{_NOT_IN_A_NUMBER}0\d{{3,4}}[\s-]\d{{3}}[\s-]?\d{{3,4}}{_NUMBER_ENDS}",
    rf"{_NOT_IN_A_NUMBER}[6-9]\d{{2}}(?:[\s.-]\d\d){{3}}{_NUMBER_ENDS}",
    rf"{_NOT_IN_A_NUMBER}[6-9]\d[\s.-]\d{{3}}(?:[\s.-]\d\d){{2}}{_NUMBER_ENDS}",
    rf"{_NOT_IN_A_NUMBER}[6789]\d{{2}}[ ]?\d{{6}}{_NUMBER_ENDS}",
    rf"{_NOT_IN_A_NUMBER}0\d(?:[\s.-]\d\d){{4}}{_NUMBER_ENDS}",
]
_IDS = [
    rf"{_NOT_IN_A_NUMBER}\d{{6,}}{_NUMBER_ENDS}",
    rf"(?-i:{_NOT_IN_A_NUMBER}[A-Z]{{1,4}}[-/]?\d{{4,}}[A-Z]?{_NUMBER_ENDS})",
    rf"(?-i:{_NOT_IN_A_NUMBER}\d{{4,}}-?[A-Z]{_NUMBER_ENDS})",
    rf"{_NOT_IN_A_NUMBER}[A-Z]{{2}}\d{{2}}[A-Z]{{0,4}}(?:[ ]?\d{{4}}){{2,7}}\d{{0,3}}{_NUMBER_ENDS}",
    rf"{_NOT_IN_A_NUMBER}[A-Z]{{0,3}}\d{{2,8}}[-/]\d{{2,8}}(?:[-/]\d{{2,8}})?[A-Z]?(?<!\d\d/\d\d)(?<!\d\d\d/\d\d)"
    rf"(?<!\d\d\d/\d\d\d)(?<!\b\d\d-\d\d)(?<!\d\d-\d\d\d){_NUMBER_ENDS}",
    rf"{_NOT_IN_A_NUMBER}\d{{2,3}}[ ]\d{{2,10}}[ ]\d{{2,6}}{_NUMBER_ENDS}",
    # Anything with a digit after a word that announces a number.
    r"\b(?:MRN|NHC|NASS|SSN|DNI|NIE|NIF|CIPA?|record|account|policy|wristband checked, number|ref|unit no|id|"
    r"historia(?: clínica)?|episodio|n[º°]\.?\s*col(?:egiado)?\.?|colegiado|expediente)"
    r"(?:\s*(?:number|no\.?|n[º°]|:|#))*\s*(?P<value>(?=[\w/.-]*\d)[\w/-]+(?:\.[\w/-]+)*)",
]
_SSN = [rf"{_NOT_IN_A_NUMBER}\d{{3}}-\d{{2}}-\d{{4}}{_NUMBER_ENDS}"]
_MAIL = [rf"(?<![\w.+%-])[\w.+%-]+@(?:{_HOST})"]
_PATH_END = r"[^\s<>\"')\].,;:]"  # a full stop or comma after an address belongs to the sentence
_WEB = [rf"\b(?:https?|ftp)://[^\s<>\"')\]]*{_PATH_END}|\bwww\.{_HOST}(?:/[^\s<>\"')\]]*{_PATH_END})?"]
_MACHINES = [rf"(?<![\d.]){_PART}(?:\.{_PART}){{3}}(?![\d.]*\d)", r"(?<![\w:])(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}\b"]
_POSTCODES = {
    "en": [
        rf"{_NOT_IN_A_NUMBER}\d{{5}}(?:-\d{{4}})?{_NUMBER_ENDS}",
        r"(?-i:\b[A-Z]{1,2}\d{1,2}[A-Z]?\s\d[A-Z]{2}\b)",
    ],
    "es": [rf"{_NOT_IN_A_NUMBER}(?:0[1-9]|[1-4]\d|5[0-2])\d{{3}}{_NUMBER_ENDS}"],
}
_OLD = r"(?:9\d|1[0-2]\d)"
_AGES = {
    "en": [
        rf"\b(?P<value>{_OLD})[\s-]*(?:years?|yrs?|y)[\s/-]*(?:old|o)?\b",
        rf"\b(?:age[ds]?:?|turned|is)\s+(?P<value>{_OLD})\b(?!\s*(?:%|mg|ml|kg|mm|cm|bpm|/|\.\d))",
    ],
    "es": [rf"\b(?P<value>{_OLD}\s*años)\b", rf"\bedad:?\s+(?P<value>{_OLD})\b"],
}


_CONTEXT = 2  # characters around a match that also influence it


@dataclass(frozen=True, slots=True)
class _Pattern:
    type: str  # in i2b2-2014
    form: re.Pattern[str]
    plain: re.Pattern[str]  # for text in plain form, without accents

    @classmethod
    def of(cls, type_: str, form: str) -> _Pattern:
        return cls(type_, re.compile(form, re.IGNORECASE), re.compile(skeleton(form).text, re.IGNORECASE))

    def found_in(self, text: str) -> Iterator[Finding]:
        """Yield the matches: the group `value` if the pattern has one, otherwise the whole match."""
        return (Finding(_value(match), self.type, "pattern") for match in self.form.finditer(text))

    def found_in_view(self, view: View) -> Iterator[Finding]:
        """Yield the matches that contain or touch an edited character, in offsets of the original."""
        for match in self.plain.finditer(view.text):
            if view.is_edited(Range(match.start() - _CONTEXT, match.end() + _CONTEXT)):
                yield Finding(view.source(_value(match)), self.type, "pattern")

    def found_across_breaks(self, joined: JoinedText) -> Iterator[Finding]:
        """Yield the matches that a line break divides, in offsets of the text with its breaks."""
        for part in joined.parts:
            for match in self.plain.finditer(joined.view.text, *part):
                if joined.is_one_identifier(Range(*match.span()), self.type):
                    yield Finding(joined.view.source(_value(match)), self.type, "pattern")


def _value(match: re.Match[str]) -> Range:
    return Range(*match.span("value" if "value" in match.re.groupindex else 0))


class Patterns:
    """The patterns of a language; types are those of i2b2-2014."""

    def __init__(self, language: Language = "en") -> None:
        if language not in get_args(Language):
            raise UsageError(f"there are patterns for {' and '.join(get_args(Language))}, but not for {language!r}")
        forms = {
            "DATE": [*_DATES, _SHORT_DATES[language], *_dates_in_words(language)],
            "PHONE": _PHONES,
            "EMAIL": _MAIL,
            "URL": _WEB,
            "IPADDR": _MACHINES,
            "SSN": _SSN,
            "IDNUM": _IDS,
            "ZIP": _POSTCODES[language],
            "AGE": _AGES[language],
        }
        self._patterns = tuple(_Pattern.of(type_, form) for type_, of_type in forms.items() for form in of_type)

    def find(self, text: str) -> list[Finding]:
        """Return all matches, including unusual and divided forms; matches of several patterns may overlap."""
        view = skeleton(text)
        joined = joined_texts(view.text)
        # In the order of the patterns: of equally long findings, the first determines the type.
        found: list[Finding] = []
        for pattern in self._patterns:
            found += pattern.found_in(text)
            if view.has_edits:
                found += pattern.found_in_view(view)
            for page in joined:
                found += (replace(f, range=view.source(f.range)) for f in pattern.found_across_breaks(page))
        return list(dict.fromkeys(found))
