from __future__ import annotations

import sys
import unicodedata

import pytest

from wardround.text.plain_text import html_text, neutralise, size_text


def test_escape_codes_become_pictures() -> None:
    assert neutralise("a\x1b[31mb\x07") == "a␛[31mb␇"
    assert neutralise("\x7f\x9b31m\x85") == "␡�31m�"


def test_tabs_line_ends_and_letters_stay() -> None:
    assert neutralise("dose:\t5 µg\nПациент 患者 é") == "dose:\t5 µg\nПациент 患者 é"


def test_windows_line_ends_and_lone_carriage_returns() -> None:
    assert neutralise("a\r\nb\rc") == "a \nb␍c"


def test_text_cannot_be_reordered_and_can_always_be_encoded() -> None:
    assert neutralise("a\u202eb\u2066c\u2028d\ud800") == "a�b�c�d�"


def test_every_character_keeps_its_place_and_none_controls() -> None:
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    shown = neutralise(everything)
    assert len(shown) == len(everything)
    assert {c for c in shown if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")} == {"\t", "\n"}
    shown.encode()


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (4_002, "4.0 KB"),
        (49_999, "50.0 KB"),
        (1_250_000, "1.2 MB"),
        (1_250_000_000, "1.2 GB"),
        (1_234_500_000_000, "1,234.5 GB"),
    ],
)
def test_bytes_in_words(count: int, text: str) -> None:
    assert size_text(count) == text


def test_text_for_html_is_escaped_and_neutralised() -> None:
    assert html_text('<b a="1">\x1b[31m & \u202e') == "&lt;b a=&quot;1&quot;&gt;\u241b[31m &amp; \ufffd"
