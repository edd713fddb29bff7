"""Characters that look like a plain letter, digit or sign but have no Unicode decomposition to it.

Unicode's own list of confusable characters (UTS #39) serves another purpose: it decides whether two identifiers look
alike, and therefore maps 1 to l, 0 to O and m to rn. Here letters stay letters and digits stay digits. Rare scripts of
that list are left out.
"""

from __future__ import annotations

__all__ = ["BLANKS", "DIGIT_LOOK_ALIKES", "FOREIGN_LOOK_ALIKES", "LOOK_ALIKES", "SIGNS"]


def _by_character(table: dict[str, str]) -> dict[str, str]:
    return {character: plain for plain, characters in table.items() for character in characters}


# Letters of Greek, Cyrillic, Armenian, Cherokee, Coptic, Lisu and Canadian syllabics: out of place in a Latin word.
FOREIGN_LOOK_ALIKES = _by_character(
    {
        "A": "ΑАᎪꓮᗅ",
        "B": "ΒВᏴꓐᗷ",
        "C": "ϹСᏟⲤꓚ",
        "D": "Ꭰꓓᗞᗪ",
        "E": "ΕЕᎬꓰ",
        "F": "Ϝꓝᖴ",
        "G": "ԌᏀᏳꓖ",
        "H": "ΗНᎻⲎꓧᕼ",
        "I": "ΙІӀⲒꓲ",
        "J": "ͿЈᎫꓙᒍ",
        "K": "ΚКᏦⲔꓗ",
        "L": "ᏞⳐꓡᒪ",
        "M": "ΜϺМᎷⲘꓟᗰ",
        "N": "ΝⲚꓠ",
        "O": "ΟОՕⲞꓳ",
        "P": "ΡРᏢⲢꓑᑭ",
        "Q": "Ԛ",
        "R": "ᎡᏒꓣᖇ",
        "S": "ЅՏᏚꓢᏕ",
        "T": "ΤТᎢⲦꓔ",
        "U": "Սꓴᑌ",
        "V": "ѴᏙꓦᐯ",
        "W": "ԜᎳᏔꓪ",
        "X": "ΧХⲬꓫ",
        "Y": "ΥҮУᎩⲨꓬᎽ",
        "Z": "ΖᏃꓜ",
        "a": "а",
        "b": "ЬЪвьᏏᑲ",
        "c": "ϲсⲥ",
        "d": "ԁᏧᑯ",
        "e": "еҽє",
        "f": "ք",
        "g": "ց",
        "h": "һհнᏂ",
        "i": "іӏᎥ",
        "j": "ϳј",
        "k": "к",
        "m": "м",
        "n": "ոռ",
        "o": "οоօⲟ",
        "p": "рⲣ",
        "q": "ԛգզ",
        "r": "гⲅ",
        "s": "ѕ",
        "t": "т",
        "u": "ս",
        "v": "ѵ",
        "w": "ѡԝա",
        "x": "хᕁ",
        "y": "уүұ",
    }
)
# In addition, letters that also occur in ordinary notes: Greek small letters, other Latin letters, small capitals.
LOOK_ALIKES = FOREIGN_LOOK_ALIKES | _by_character(
    {
        "a": "ɑαᴀ",
        "b": "βɓʙƀ",
        "c": "ᴄƈȼ",
        "d": "đɖɗᴅð",
        "e": "ɇεᴇ℮",
        "f": "ƒꜰ",
        "g": "ɡɠǥɢ",
        "h": "ħɦʜ",
        "i": "ıɨɩιɪ",
        "j": "ȷɉᴊ",
        "k": "κƙᴋ",
        "l": "łƚɫʟ",
        "m": "ɱᴍ",
        "n": "ɲƞηɴ",
        "o": "øσɵᴏ",
        "p": "ρƥᴘ",
        "q": "ɋ",
        "r": "ɍɾʀ",
        "s": "ʂꜱ",
        "t": "ŧƭτᴛ",
        "u": "ʉυʋᴜ",
        "v": "νᴠ",
        "w": "ωɯᴡ",
        "x": "χ",
        "y": "γɣɏƴʏ",
        "z": "ƶʐᴢ",
        "A": "Ⱥ",
        "B": "Ƀ",
        "C": "ȻƇ",
        "D": "ĐƊÐ",
        "F": "Ƒ",
        "G": "Ǥ",
        "H": "Ħ",
        "I": "Ɨ",
        "L": "ŁȽ",
        "N": "Ɲ",
        "O": "Ø",
        "P": "Ƥ",
        "R": "ƦɌ",
        "T": "ŦƬ",
        "U": "Ʉ",
        "X": "Ꭓ",
        "Y": "Ɏ",
        "Z": "Ƶ",
    }
)
for _first in (0x1F150, 0x1F170, 0x1F1E6):  # negative circled, negative squared, regional indicators: A to Z each
    LOOK_ALIKES |= {chr(_first + place): chr(ord("A") + place) for place in range(26)}

# Next to a digit, these letters are read as digits.
DIGIT_LOOK_ALIKES = _by_character(
    {"0": "ОоΟοՕօⲞⲟꓳ", "1": "ІіӀӏΙιⲒꓲı", "2": "Ƨ", "3": "ЗзӠӡƷȜ", "4": "Ч", "5": "Ƽ", "6": "бᏮ", "8": "Ȣ"}
)

SIGNS = _by_character(
    {
        "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2043\u2212\u02d7\u2500\u2796\u2e3a\u2e3b\u1806\u058a\u05be\u30fc",
        "/": "\u2044\u2215\u29f8\u2571\u060d\u27cb",
        ".": "\u00b7\u0387\u066b\u06d4\u2022\u2027\u2219\u22c5\u30fb\u3002\ua4f8",
        ",": "\u066c\u060c\u3001\u201a\ua4f9",
        ":": "\u02d0\u02f8\u0589\u2236\ua789\ua4fd",
        "+": "\u2795",
        "'": "\u2018\u2019\u201b\u2032\u2035\u02b9\u02bb\u02bc\u02bd\u00b4\u02ca\u02cb\ua78c",
        "(": "\u2768\u3014",
        ")": "\u2769\u3015",
    }
)
# These look empty although Unicode classifies them as letters or symbols.
BLANKS = frozenset("\u115f\u1160\u2800\u3164\uffa0")
