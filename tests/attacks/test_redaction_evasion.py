"""Identifiers written in odd Unicode forms, or broken over a line, against `wardround redact`.

Every form reads as an ordinary identifier to a person. A form survives if any character of it is left in the output.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import date, datetime
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.running import exit_code

from wardround.redaction.finders import pattern_finder
from wardround.redaction.patterns import Language, Patterns
from wardround.redaction.redaction_run import Naming, Redaction
from wardround.redaction.replacing import How, Replacer
from wardround.redaction.secret_key import SecretKey
from wardround.text.document import Document


class Form(NamedTuple):
    """An identifier in an unusual form, and the surrounding words, which stay."""

    written: str
    before: str = "Note "
    after: str = ", as said."


FORMS = {
    # Characters that nobody sees.
    "zero-width space in a phone number": Form("201-5\u200b55-0110"),
    "zero-width joiner in a record number": Form("MR12\u200d3456"),
    "zero-width non-joiner in a mail address": Form("ann.carr@ward.exa\u200cmple.org"),
    "word joiner in a social security number": Form("123-4\u20605-6789"),
    "byte order mark in a date": Form("03/\ufeff14/2061"),
    "soft hyphen in a number": Form("123\u00ad4567"),
    "soft hyphen in a month": Form("Sep\u00adtem\u00adber 14, 2061"),
    "bidi override in a phone number": Form("201-\u202e555\u202c-0110"),
    "bidi isolate in a date": Form("03/\u206614\u2069/2061"),
    "left-to-right mark in a number": Form("123\u200e4567"),
    "Arabic letter mark in a number": Form("1234\u061c567"),
    "variation selectors": Form("1\ufe0f2\ufe0f3\ufe0f4\ufe0f5\ufe0f6\ufe0f7\ufe0f"),
    "tag characters": Form("1234\U000e0041567"),
    "invisible separator in an address": Form("192.16\u20638.0.12"),
    "combining grapheme joiner": Form("1234\u034f567"),
    "control character in a number": Form("1234\x07567"),
    "Mongolian vowel separator": Form("1234\u180e567"),
    "Hangul filler before a number": Form("1234567", before="Note \u3164"),
    # Other digits.
    "full-width digits in a date": Form("０３/１４/２０６１"),
    "Arabic-Indic digits in a date": Form("٠٣/١٤/٢٠٦١"),
    "extended Arabic-Indic digits": Form("۲۰۶۱-۰۳-۱۴"),
    "Devanagari digits": Form("१४.०३.२०६१"),
    "mathematical bold digits in a phone number": Form("𝟐𝟎𝟏-𝟓𝟓𝟓-𝟎𝟏𝟏𝟎"),
    "mathematical monospace digits in a date": Form("𝟶𝟹/𝟷𝟺/𝟸𝟶𝟼𝟷"),
    "superscript digits": Form("¹²³⁴⁵⁶⁷"),
    "subscript digits": Form("₂₀₁-₅₅₅-₀₁₁₀"),
    "circled digits": Form("①②③④⑤⑥⑦"),
    "negative circled digits": Form("❶❷❸❹❺❻❼"),
    "keycap digits": Form("".join(f"{digit}\ufe0f\u20e3" for digit in "1234567")),
    "underlined digits": Form("1\u03322\u03323\u03324\u03325\u03326\u03327\u0332"),
    "struck digits in a date": Form("0\u03363\u0336/1\u03364\u0336/2\u03360\u03366\u03361\u0336"),
    "Cyrillic letters as digits": Form("2О1-555-О11О"),
    "full-width age": Form("９４", before="a ", after="-year-old man"),
    # Other letters.
    "full-width record number": Form("ＭＲ１２３４５６"),
    "mathematical month": Form("𝐌𝐚𝐫𝐜𝐡 𝟏𝟒, 𝟐𝟎𝟔𝟏"),
    "Cyrillic letter in a month": Form("Mаrch 14, 2061"),
    "Cyrillic letters for a whole month": Form("Мау 14, 2061"),
    "Greek letter in a month": Form("Μarch 14, 2061"),
    "small capitals in a month": Form("ᴍᴀʀᴄʜ 14, 2061"),
    "Cyrillic letters in a record number": Form("МR123456"),
    "Cyrillic letters in a mail address": Form("ann.carr@ward.ехаmple.org"),
    "Cyrillic letters in the word before": Form("3/14", before="Seen оn "),
    "Cherokee letters in a record number": Form("ᎷᎡ123456"),
    "ligature in a web address": Form("www.oﬃce.example.org"),
    "dotless i in a mail address": Form("ann@clınıc.example.org"),
    "accent over a month": Form("Ma\u0301rch 14, 2061"),
    "accented letter in a month": Form("Märch 14, 2061"),
    "combining letters in a mail address": Form("ann@wa\u0323rd.example.org"),
    "squared letters": Form("🄼🅁123456"),
    "Kelvin sign": Form("\u212a1234567"),
    "Roman numeral letters": Form("Ⅿay 14, 2061"),
    # Other signs.
    "full-width phone number": Form("２０１－５５５－０１１０"),
    "full-width parentheses": Form("（201） 555-0110"),
    "full-width at sign": Form("ann.carr＠ward.example.org"),
    "small at sign": Form("ann.carr﹫ward.example.org"),
    "full-width plus": Form("＋44 7700 900123"),
    "en dashes in a phone number": Form("201–555–0110"),
    "non-breaking hyphens in a social security number": Form("123\u201145\u20116789"),
    "figure dashes": Form("201‒555‒0110"),
    "minus signs in a date": Form("2061−03−14"),
    "em dashes in a date": Form("03—14—2061"),
    "hyphen bullets": Form("123⁃45⁃6789"),
    "fraction slashes in a date": Form("03⁄14⁄2061"),
    "division slashes in a date": Form("03∕14∕2061"),
    "full-width stops in an address": Form("192．168．0．12"),
    "one dot leaders in an address": Form("192․168․0․12"),
    "ideographic stops in a host": Form("www。example。org"),
    "curly apostrophe before a year": Form("march ’61"),
    "full-width colon after a word": Form("AB/12", before="MRN： "),
    # Other blanks.
    "no-break spaces in an account": Form("GB56\u00a08816\u00a07774\u00a06561"),
    "narrow no-break spaces": Form("28\u202f12345678\u202f90"),
    "figure spaces": Form("28\u200712345678\u200790"),
    "ideographic spaces": Form("28\u300012345678\u300090"),
    "Braille blanks in a date": Form("14\u2800March\u28002061"),
    "Hangul fillers in a date": Form("14\u3164March\u31642061"),
    # Broken over a line.
    "date broken after a slash": Form("03/14/\n2061"),
    "date broken before a slash": Form("03/14\n/2061"),
    "date broken in its year": Form("03/14/20\n61"),
    "date broken and indented": Form("2061-03-\n    14"),
    "phone number broken after a hyphen": Form("201-555-\n0110"),
    "phone number broken in a group": Form("201-555-01\n10"),
    "phone number broken by a carriage return": Form("201-555-\r\n0110"),
    "phone number broken by a line separator": Form("201-555-\u20280110"),
    "phone number broken by a next line": Form("201-\x85555-0110"),
    "phone number broken twice": Form("201-\n555-\n0110"),
    "month hyphenated": Form("Septem-\nber 14, 2061"),
    "month cut": Form("Septem\nber 14, 2061"),
    "social security number broken": Form("123-45-\n6789"),
    "record number broken": Form("1234\n567", before="MRN: "),
    "number broken after a soft hyphen": Form("12\u00ad\n34567"),
    "number broken in the middle": Form("1234\n567"),
    "mail address broken at its sign": Form("ann.carr@\nward.example.org"),
    "mail address broken in its host": Form("ann.carr@ward.\nexample.org"),
    "web address broken": Form("https://ward.example.org/\nnotes?id=3"),
    "address of a machine broken": Form("192.168.\n0.12"),
    "account broken at a blank": Form("GB56 8816\n7774 6561"),
    # Several at once.
    "full-width digits, en dashes and a broken line": Form("２０１–５５５–\n０１１０"),
    "zero-width spaces and look-alikes": Form("M\u200bа\u200br\u200bс\u200bh 1\u200b4, 2\u200b0\u200b6\u200b1"),
    "Arabic-Indic digits under a bidi override": Form("٠٣/\u202e١٤\u202c/٢٠٦١"),
}


@pytest.fixture(scope="session")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the redacted forms, each from its own note, after one run of the command."""
    folder = tmp_path_factory.mktemp("evasion")
    (folder / "notes").mkdir()
    for number, form in enumerate(FORMS.values()):
        (folder / "notes" / f"{number:03}.txt").write_bytes("".join((form.before, form.written, form.after)).encode())
    assert exit_code("redact", folder / "notes", "--out", folder / "out", "--how", "tag") == 0
    return [path.read_bytes().decode() for path in sorted((folder / "out" / "notes").iterdir())]


@pytest.mark.parametrize("name", FORMS)
def test_no_odd_form_survives(name: str, outputs: list[str]) -> None:
    form = FORMS[name]
    # All of the form goes, with the invisible characters in it, and nothing of what stands around it.
    hidden = rf"{re.escape(form.before)}\[[A-Z]+\]{re.escape(form.after)}"
    assert re.fullmatch(hidden, outputs[list(FORMS).index(name)])


# Ordinary identifiers: {} is any digit.
PLAIN = (
    "2{}{}-555-{}{}{}{}",
    "(2{}{}) 555-{}{}{}{}",
    "+44 7700 {}{}{}{}{}{}",
    "{}{}{}-{}{}-{}{}{}{}",
    "03/14/20{}{}",
    "20{}{}-03-14",
    "1{}.03.20{}{}",
    "March 14, 20{}{}",
    "14 August 20{}{}",
    "MR{}{}{}{}{}{}",
    "{}{}{}{}{}{}{}{}",
    "192.168.2{}.1{}",
)
DIGITS = tuple("٠۰०߀０𝟎𝟘𝟢𝟬𝟶⁰₀")  # each the first of ten, but for the superscripts
SIGNS = {
    "-": "‐‑‒–—−﹣－⁃",
    "/": "⁄∕／⧸",
    ".": "．․﹒",
    ",": "，﹐",
    " ": "\u00a0\u2007\u2009\u202f\u3000\u2800",
    "(": "（﹙",
    ")": "）﹚",
    "+": "＋﹢",
}
LETTERS = str.maketrans("MRAachroeptus", "МᎡАасһгоерτυѕ")
INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u200e\u202a\u2066\u061c\U000e0041\x08"
MARKS = "\u0301\u0332\u0336\ufe0f\u20e3\u034f"


def other_digit(digit: str, first: str) -> str:
    if first in "⁰₀":
        return ("⁰¹²³⁴⁵⁶⁷⁸⁹" if first == "⁰" else "₀₁₂₃₄₅₆₇₈₉")[int(digit)]
    return chr(ord(first) + int(digit))


@st.composite
def odd_forms(draw: st.DrawFn) -> str:
    """Draw an identifier with alternative characters and other characters between them."""
    plain = draw(st.sampled_from(PLAIN))
    plain = plain.format(*draw(st.lists(st.integers(0, 9), min_size=12, max_size=12)))
    written = ""
    for place, character in enumerate(plain):
        inside = place < len(plain) - 1
        if character.isdigit() and draw(st.booleans()):
            character = other_digit(character, draw(st.sampled_from(DIGITS)))
        elif character in SIGNS and draw(st.booleans()):
            character = draw(st.sampled_from(SIGNS[character]))
        elif character.isalpha() and draw(st.booleans()):
            character = draw(st.sampled_from((character.translate(LETTERS), chr(ord(character) + 0xFEE0))))
        if character.isalnum() and draw(st.integers(0, 3)) == 0:
            character += draw(st.sampled_from(MARKS))
        if inside and draw(st.integers(0, 3)) == 0:
            character += draw(st.sampled_from(INVISIBLE))
        if inside and plain[place] in "-/." and draw(st.integers(0, 3)) == 0:
            character += draw(st.sampled_from(("\n", "\r\n", "\n  ", "\u2028")))
        written += character
    return written


def redacted(text: str, how: How = How.TAG, *, key: bytes = b"k" * 32, language: Language = "en") -> str:
    """Return the note as the command writes it with patterns only."""
    naming = Naming(lambda document: document.id, lambda document: document.id)
    redaction = Redaction(pattern_finder(Patterns(language)), Replacer(how, language, SecretKey(key)), naming)
    (note,) = redaction.notes([Document("n", text)])
    return note.document.text


@given(odd_forms())
def test_no_digit_of_an_odd_form_survives(written: str) -> None:
    text = redacted(f"Note {written} as said.")
    assert not [character for character in text if unicodedata.digit(character, None) is not None]
    assert re.sub(r"\[[A-Z]+\]", "", text).isascii()


@given(odd_forms())
def test_no_odd_character_is_left_in_a_surrogate(written: str) -> None:
    text = redacted(f"Note {written} as said.", How.SURROGATE)
    assert not set(text) & set(INVISIBLE)
    assert not [c for c in text if not c.isascii() and (c.isalnum() or unicodedata.digit(c, None) is not None)]


@pytest.mark.parametrize(
    ("odd", "plain"),
    [
        ("０３/１４/２０６１", "03/14/2061"),
        ("٠٣/١٤/٢٠٦١", "03/14/2061"),
        ("𝟐𝟎𝟔𝟏-𝟎𝟑-𝟏𝟒", "2061-03-14"),
        ("0\u03323\u0332/14/20\u200b61", "03/14/2061"),
        ("2061–03–14", "2061-03-14"),
        ("03⁄14⁄2061", "03/14/2061"),
        ("03/14/\n2061", "03/14/2061"),
        ("Ｍａｒｃｈ 14, 2061", "March 14, 2061"),
        ("Mаrсh 14, 2061", "March 14, 2061"),
        ("14\u00a0March\u202f2061", "14 March 2061"),
        ("Sep\u00adtember 14, 2061", "September 14, 2061"),
        ("march ’61", "march '61"),
    ],
)
def test_an_odd_date_moves_as_the_plain_one_does(odd: str, plain: str) -> None:
    texts = [redacted(f"Note {written}, as said.", How.SURROGATE) for written in (odd, plain)]
    signs = str.maketrans("–⁄’\u00a0\u202f", "-/'  ")
    assert texts[0].replace("\n", "").translate(signs) == texts[1]


WEEKDAYS: dict[Language, str] = {
    "en": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "es": "lunes martes miércoles jueves viernes sábado domingo",
}


@given(
    st.dates(date(1950, 1, 1), date(2060, 12, 31)),
    st.sampled_from([("en", "%Y-%m-%d"), ("en", "%B %d, %Y"), ("en", "%d %B %Y"), ("es", "%d/%m/%Y")]),
    st.binary(min_size=32, max_size=32),
)
def test_a_weekday_beside_a_date_fits_the_moved_date(day: date, form: tuple[Language, str], key: bytes) -> None:
    language, written = form
    names = WEEKDAYS[language].split()
    note = f"{names[day.weekday()]}, {day.strftime(written)}."
    name, moved = redacted(note, How.SURROGATE, key=key, language=language).removesuffix(".").split(", ", 1)
    new = datetime.strptime(moved, written).date()
    assert new != day
    assert name == names[new.weekday()]


@given(
    st.lists(st.dates(date(1950, 1, 1), date(2060, 12, 31)), min_size=2, max_size=5, unique=True),
    st.binary(min_size=32, max_size=32),
)
def test_distances_between_the_notes_of_a_patient_stay(days: list[date], key: bytes) -> None:
    moved = [date.fromisoformat(redacted(day.isoformat(), How.SURROGATE, key=key)) for day in days]
    assert len({new - old for new, old in zip(moved, days, strict=True)}) == 1
