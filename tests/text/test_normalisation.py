from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wardround.corpora.synthetic.phi_notes import PhiConfig, phi_hospitals
from wardround.text.document import Range
from wardround.text.normalisation import normalise, normalise_mention, skeleton
from wardround.text.views import View

ORDINARY = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E) | st.sampled_from("\t\n\r"))


@given(ORDINARY)
def test_skeleton_of_ordinary_text_is_the_text(text: str) -> None:
    assert skeleton(text) == normalise(text) == View(text)


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffMujer de 54 años, García–López, 38º C, 1ª visita, 10 µg, 5×10⁹/L, ½ comprimido, TNF-α, IFNγ, «así»",
        "naïve Łukasz Søren Weiß, “quoted”, it’s 3 m², 20 °C ™ €5 № 3",
        "تاريخ الميلاد ١٤ مارس ٢٠٦١ في می‌خواهم",
        "Иванов Аня, 14 марта",
        "हिन्दी में १४ मार्च",
        "👩‍⚕️ said ok",
    ],
)
def test_normalise_keeps_ordinary_notes(text: str) -> None:
    assert normalise(text) == View(text)


def test_normalise_keeps_built_in_notes() -> None:
    for site in phi_hospitals(config=PhiConfig(scale=0.1)):
        for note in site.test:
            assert normalise(note.text) == View(note.text)


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("Jo\u200bhn Sm\u00adith", "John Smith"),
        ("seen by \u202eJohn\u202c.", "seen by John."),
        ("Ｊｏｈｎ １２", "John 12"),
        ("𝐉𝐨𝐡𝐧 𝕊𝕞𝕚𝕥𝕙 𝟙𝟚", "John Smith 12"),
        ("Jоhn Ѕmith", "John Smith"),  # Cyrillic о and Ѕ
        ("Jose\u0301 Garci\u0301a", "José García"),
        ("J\u0332o\u0332h\u0332n\u0332 1\u03322\u0301", "John 12"),
        ("Griﬃth", "Griffith"),
        ("Ⓙⓞⓗⓝ 🄹🅂", "John JS"),
        ("Bed ١٢", "Bed 12"),
        ("n\u0304 and e\u0323\u0301", "n\u0304 and ẹ\u0301"),  # no such single character: the accent stays
    ],
)
def test_normalise_replaces_unusual_forms(text: str, typed: str) -> None:
    assert normalise(text).text == typed


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a\u200b\u00adb\x00c\U000e0041d", "abcd"),
        ("٣۳३３𝟛³₃③❸", "333333333"),
        ("⑩ ⒑ ⑽", "10 10 10"),
        ("½ ¾", "½ ¾"),
        ("ＡａＺ 𝕬𝖟 ﬁ Ⅻ K ſ", "AaZ Az fi XII K s"),
        ("Мауо Ρέτρο ᎷᎡ", "Mayo Petpo MR"),
        ("año él Łódź", "ano el Lodz"),
        ("1\u0332\u0301 e\u0301", "1 e"),
        ("‐‑‒–—−－", "-------"),
        ("⁄∕／ ․．。 ＠ ’61", "/// ... @ '61"),
        ("a\u00a0b\u2003c\u3000d\u2800e", "a b c d e"),
        ("a\u2028b\x85c\x0bd", "a\nb\nc\nd"),
        ("12\u00ad\n  34\u00ad\u20285", "12345"),
        ("2О1 ОО7 О", "201 007 O"),
        ("38º 1ª 20°", "38º 1ª 20°"),
    ],
)
def test_skeleton_is_plain_ascii(text: str, plain: str) -> None:
    assert skeleton(text).text == plain


def test_marks_belong_to_the_character_before_them() -> None:
    view = skeleton("a1\u0332\ufe0f.")
    assert (view.text, view.source(Range(1, 2))) == ("a1.", (1, 4))
    assert skeleton("\u03321").text == "1"


def test_normalise_mention_removes_invisible_characters() -> None:
    assert normalise_mention("٠\u200b٣\u200d/\u206014") == "03/14"
    assert normalise_mention("\u200b\u200d") == "\u200b\u200d"


@given(st.text())
def test_views_of_any_text_map_back_to_it(text: str) -> None:
    for view in (skeleton(text), normalise(text)):
        for at in range(len(view.text)):
            start, end = view.source(Range(at, at + 1))
            assert 0 <= start < end <= len(text)
        if view.text:
            assert normalise_mention(view.text)


@pytest.mark.parametrize(
    "unit", ["\u200b", "e\u0301\u0323", "\u0301\u0323", "1\u200b", "а", "１", "О", "\u00ad\n", "ﷺ"]
)
def test_a_page_of_one_character_takes_linear_time(unit: str) -> None:
    # Backtracking at every position would take minutes; benchmarks/traps.py measures it.
    text = unit * (40_000 // len(unit)) + "x"
    assert skeleton(text).text.endswith("x") and normalise(text).text.endswith("x")
