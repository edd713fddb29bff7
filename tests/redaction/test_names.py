from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wardround.redaction.names import NamedMention, Roster, pick_free, replace_letter
from wardround.redaction.secret_key import SecretKey
from wardround.redaction.word_lists import FIRST_NAMES, SURNAMES

KEY = SecretKey(b"k" * 32)
HERS, HIS = FIRST_NAMES["en"]["F"], FIRST_NAMES["en"]["M"]


def roster(*texts: str, before: str = "") -> Roster:
    return Roster([NamedMention(text, before) for text in texts], key=KEY, language="en")


def test_the_same_person_in_every_form() -> None:
    people = roster("Louise Quillwort", "QUILLWORT, LOUISE", "quillwort")
    first, last = people.rename("Louise Quillwort").split()
    assert first in HERS
    assert last in SURNAMES["en"]
    assert people.rename("QUILLWORT, LOUISE") == f"{last.upper()}, {first.upper()}"
    assert people.rename("quillwort") == last.lower()


def test_gender_stays_where_it_is_known() -> None:
    assert roster("Peter").rename("Peter") in HIS
    assert roster("Zorblax Quillwort", before="told Mrs. ").rename("Zorblax") in HERS
    assert roster("Zorblax Quillwort", before="told Mr ").rename("Zorblax") in HIS
    assert roster("Zorblax Quillwort").rename("Zorblax") in FIRST_NAMES["en"][""]
    assert roster("Zorblax Quillwort", before="Apellidos: ").rename("Zorblax") in SURNAMES["en"]
    assert roster("QUILLWORT, ZORBLAX", before="Sr. ").rename("Zorblax") in HIS


def test_titles_and_particles_stay() -> None:
    people = roster("Dr. Ana de la Quillwort")
    words = people.rename("Dr. Ana de la Quillwort").split()
    assert (words[0], words[2:4]) == ("Dr.", ["de", "la"])
    assert not {"Ana", "Quillwort"} & set(words)


def test_initials_become_other_letters() -> None:
    people = roster("J. Quillwort", "JQ")
    new = people.rename("JQ")
    assert new.isupper() and len(new) == 2 and new[0] != "J" and new[1] != "Q"
    assert people.rename("J. Quillwort")[0] == new[0]


def test_no_surrogate_is_a_name_in_the_note() -> None:
    named = roster(*SURNAMES["en"][:60])
    new = [named.rename(name) for name in SURNAMES["en"][:60]]
    assert not set(new) & set(SURNAMES["en"][:60])
    assert len(set(new)) == 60


@given(st.lists(st.text(st.characters(categories=["Lu", "Ll"]), min_size=3, max_size=9), unique_by=str.casefold))
def test_two_names_never_become_one(names: list[str]) -> None:
    people = roster(*names)
    new = [people.rename(name).casefold() for name in names]
    assert len(set(new)) == len(new)


def test_an_exhausted_list_gives_invented_names() -> None:
    assert pick_free(("a", "b"), {"a"}, KEY) == "b"
    made = pick_free(("a", "b"), {"a", "b"}, KEY)
    assert len(made) == 12 and made.isalpha()


def test_letters_become_other_letters() -> None:
    assert all(replace_letter(letter, KEY) != letter for letter in "abcxyzABCéßñ")
    assert replace_letter("a", KEY).upper() == replace_letter("A", KEY)
    assert replace_letter("-", KEY) == "-"
