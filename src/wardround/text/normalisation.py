"""Normalisation of unusual characters, so that disguised text is recognised.

Invisible characters are removed; unusual digits, letters, blanks and signs become plain ones. The resulting `View`
maps offsets back to the original. Text of plain characters does not change.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace
from functools import lru_cache

from wardround.text.look_alikes import BLANKS, DIGIT_LOOK_ALIKES, FOREIGN_LOOK_ALIKES, LOOK_ALIKES, SIGNS
from wardround.text.views import Change, View, edited

__all__ = ["normalise", "normalise_mention", "skeleton"]

_UNUSUAL = re.compile(r"[^\t\n\r -~]")
# A soft hyphen before a line break only marks the break.
_LINE_BREAKS = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
_UNUSUAL_OR_HYPHENATED = re.compile(rf"\u00ad[ \t]*+(?:\r\n|[\r\n{_LINE_BREAKS}])[ \t]*+|[^\t\n\r -~]")


def skeleton(text: str) -> View:
    """Return the text with everything that looks like ASCII turned into ASCII, for pattern matching.

    Accents and other marks are removed. Compatibility forms and look-alike letters become the letters they look like,
    any digit becomes 0 to 9, any dash a hyphen, any blank a space, and any line break a line feed.
    """
    changes: list[Change] = []
    digit_like: list[int] = []  # indexes into `changes`
    for match in _UNUSUAL_OR_HYPHENATED.finditer(text):
        (start, end), plain = match.span(), _plain_form(match[0][0])
        if plain is None:
            # Attach the mark to the character before it, so that hiding that character also hides the mark.
            if changes and changes[-1][1] == start:
                changes[-1] = (changes[-1][0], start + 1, changes[-1][2])
            elif start:
                changes.append((start - 1, start + 1, text[start - 1]))
            else:
                changes.append((0, 1, ""))
            continue
        if match[0] in DIGIT_LOOK_ALIKES:
            digit_like.append(len(changes))
        elif plain == match[0]:
            continue
        changes.append((start, end, plain))
    view = edited(text, changes)
    return _with_digits(view, text, digit_like) if digit_like else view


@lru_cache(maxsize=4096)
def _plain_form(character: str) -> str | None:
    """Return the plain form of a character: "" if it is invisible, None if it marks the character before it."""
    category = unicodedata.category(character)
    if category[0] == "M":
        return None
    if character in _LINE_BREAKS:
        return "\n"
    if character.isspace() or character in BLANKS:
        return " "
    if category in ("Cc", "Cf", "Cs"):
        return ""
    digit = unicodedata.digit(character, None)
    if digit is not None:
        return str(digit)
    if character in "ªº":
        return character  # 38º is a temperature, 1ª an ordinal number
    if character in SIGNS or character in LOOK_ALIKES:
        return SIGNS.get(character) or LOOK_ALIKES[character]
    parts = unicodedata.normalize("NFKD", character)
    if category == "No":
        # ⑩ is 10; ½ cannot be written in plain digits.
        return character if "\u2044" in parts else "".join(filter(str.isdigit, parts)) or character
    if category == "Pd":
        return "-"
    bare = unicodedata.normalize("NFC", "".join(part for part in parts if unicodedata.category(part)[0] != "M"))
    return "".join(SIGNS.get(part, LOOK_ALIKES.get(part, part)) for part in bare)


def _with_digits(view: View, text: str, digit_like: list[int]) -> View:
    """Turn letters that look like digits into digits if a digit is next to them."""
    shown = list(view.text)
    # Forwards, then backwards: a letter that became a digit counts as a digit for its neighbours.
    for step, numbers in ((-1, digit_like), (1, digit_like[::-1])):
        for number in numbers:
            at = view.shown_starts[number]
            if 0 <= at + step < len(shown) and shown[at + step] in "0123456789":
                shown[at] = DIGIT_LOOK_ALIKES[text[view.source_starts[number]]]
    return replace(view, text="".join(shown))


_LATIN = r"0-9A-Za-z\u00c0-\u024f\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d6a5\U0001d7ce-\U0001d7ff"
_HIDDEN = (
    r"\x00-\x08\x0e-\x1b\x7f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0001"
    r"\U000e0020-\U000e007f"
)
_MARKS = r"\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f\U000e0100-\U000e01ef"
# Each match starts at the start of its run and is possessive, so that a page of invisible characters takes linear time.
# An invisible character at the start of a text stays: it is the byte order mark of the file.
_DISGUISED = re.compile(
    rf"(?P<hidden>(?<=[!-~{_LATIN}])[{_HIDDEN}]++|(?!\A)(?<![{_HIDDEN}])[{_HIDDEN}]++(?=[!-~{_LATIN}]))"
    rf"|(?P<marked>[{_LATIN}][{_MARKS}]++)"
    r"|[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d6a5\U0001d7ce-\U0001d7ff\ufb00-\ufb06]"
    r"|(?P<enclosed>[\u24b6-\u24e9\U0001f130-\U0001f149\U0001f150-\U0001f169\U0001f170-\U0001f189\U0001f1e6-\U0001f1ff])"
    r"|(?![0-9])\d"
)
# Marks that do not change the spelling: lines over, under and through letters, enclosures, variation selectors.
_DECORATIONS = re.compile(
    r"[\u0305\u0332\u0333\u0335-\u0338\u033f\u034f\u20d0-\u20ff\ufe00-\ufe0f\U000e0100-\U000e01ef]+"
)
_ANY_HIDDEN = re.compile(f"[{_HIDDEN}]+")
_LETTERS = re.compile(r"[^\W\d_]")
_LATIN_LETTERS = re.compile(rf"(?![0-9])[{_LATIN}]")
_FOREIGN = re.compile(f"[{''.join(FOREIGN_LOOK_ALIKES)}]")
_WORD = re.compile(r"[^\W\d_]+")
_TO_LATIN = str.maketrans(FOREIGN_LOOK_ALIKES)
_MOST_MARKS = 4  # composed with one letter; normalising a page of marks would take quadratic time


def normalise(text: str) -> View:
    """Return the text with unusual characters replaced, as input for a model; ordinary text stays unchanged.

    Only forms that do not occur in ordinary notes in Latin letters are changed: invisible characters, full-width,
    mathematical and enclosed letters, ligatures, digits of other scripts, accents that are separate characters, and
    letters of another script in an otherwise Latin word. Text that is mostly in another script stays as it is.
    """
    if not _UNUSUAL.search(text) or not (_DISGUISED.search(text) or _FOREIGN.search(text)):
        return View(text)
    mostly_latin = 2 * len(_LATIN_LETTERS.findall(text)) >= len(_LETTERS.findall(text))
    if not mostly_latin:
        return View(text)
    view = edited(text, ((*match.span(), _replacement(match)) for match in _DISGUISED.finditer(text)))
    if not _FOREIGN.search(view.text):
        return view
    # One letter for one letter, so that offsets stay valid.
    return replace(view, text=_WORD.sub(_in_one_script, view.text))


def normalise_mention(text: str) -> str:
    """Return a mention with unusual characters replaced and all invisible characters removed."""
    return normalise(_ANY_HIDDEN.sub("", text) or text).text


def _replacement(match: re.Match[str]) -> str:
    if match["hidden"]:
        return ""
    if match["enclosed"]:
        return skeleton(match[0]).text
    if not match["marked"]:
        digit = unicodedata.decimal(match[0], None)
        return unicodedata.normalize("NFKC", match[0]) if digit is None else str(digit)
    base, marks = unicodedata.normalize("NFKC", match[0][0]), _DECORATIONS.sub("", match[0][1:])
    if base.isdigit():
        return base
    return unicodedata.normalize("NFC", base + marks[:_MOST_MARKS]) + marks[_MOST_MARKS:]


def _in_one_script(match: re.Match[str]) -> str:
    """Return the word in Latin letters if some are Latin already and all others look Latin."""
    word = match[0]
    latin = word.translate(_TO_LATIN)
    mixed = latin != word and _LATIN_LETTERS.search(word)
    return latin if mixed and not _LETTERS.search(_LATIN_LETTERS.sub("", latin)) else word
