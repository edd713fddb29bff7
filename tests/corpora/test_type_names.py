"""The mapping file."""

from __future__ import annotations

from pathlib import Path

import pytest

from wardround.corpora.type_names import in_tag_set, nearest_type, read_type_names, renamed
from wardround.errors import CorpusError
from wardround.text.document import Document, Entity, Range

TYPES = ("Drug", "ADE", "Disease")


def written(folder: Path, text: str) -> Path:
    path = folder / "ward-nine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_several_names_may_map_to_one_type(tmp_path: Path) -> None:
    path = written(
        tmp_path, '# ours\nmedication = "Drug"\n"adverse event" = "ADE"\nside-effect = "ADE"\nDrug = "Drug"\n'
    )
    expected = {"medication": "Drug", "adverse event": "ADE", "side-effect": "ADE", "Drug": "Drug"}
    assert read_type_names(path, TYPES) == expected
    assert read_type_names(written(tmp_path, ""), TYPES) == {}


def test_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "names.toml"
    path.write_bytes('\ufeffmedication = "Drug"\r\nArznei = "Drug"\r\n'.encode())
    assert read_type_names(path, TYPES) == {"medication": "Drug", "Arznei": "Drug"}


def test_without_types_of_a_study_any_name_is_valid(tmp_path: Path) -> None:
    assert read_type_names(written(tmp_path, 'a = "Medication"\n')) == {"a": "Medication"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "Mrs Marker took it\n",
            "ward-nine.toml:1: is not TOML; each line maps a name in the notes to a type, for example medication =",
        ),
        ('a = "Drug"\nb = "Drug\n', "ward-nine.toml:2: is not TOML; each line maps"),
        (
            'a = "Drug"\nb = "ADE"\na = "ADE"\n',
            "ward-nine.toml:3: maps a name twice; remove one of the lines: each line maps",
        ),
        ("a = 3\n", "ward-nine.toml: 'a' is not mapped to a name; each line maps"),
        ('a = ["Drug"]\n', "ward-nine.toml: 'a' is not mapped to a name"),
        ('a = ""\n', "ward-nine.toml: 'a' is not mapped to a name"),
        ('[a]\nb = "Drug"\n', "ward-nine.toml: 'a' is a section; each line maps"),
        ('a.b = "Drug"\n', "ward-nine.toml: 'a' is a section; each line maps"),
        (
            'a = "drug"\n',
            "ward-nine.toml: 'a' is mapped to 'drug', which is not a type of the study – did you mean 'Drug'?; "
            "there are Drug, ADE, Disease",
        ),
        ("a = " + "[" * 5000, "ward-nine.toml"),
    ],
)
def test_invalid_mappings_are_refused_with_file_and_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(CorpusError) as refused:
        read_type_names(written(tmp_path, text), TYPES)
    assert str(refused.value).startswith(said)
    assert str(tmp_path) not in str(refused.value)
    assert "Marker" not in str(refused.value)


def test_missing_or_undecodable_file(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"^none.toml: cannot be opened"):
        read_type_names(tmp_path / "none.toml")
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(CorpusError, match=r"^x.toml: is not UTF-8"):
        read_type_names(tmp_path / "x.toml")


def test_renamed_documents() -> None:
    note = Document("n", "a b", (Entity("T1", "medication", (Range(0, 1),)), Entity("T2", "Bed", (Range(2, 3),))))
    (found,) = renamed([note], {"medication": "Drug"})
    assert [(entity.id, entity.type) for entity in found.entities] == [("T1", "Drug"), ("T2", "Bed")]


def test_nearest_type_ignores_case() -> None:
    assert nearest_type("DRUGS", TYPES) == " – did you mean 'Drug'?"
    assert nearest_type("ade", TYPES) == " – did you mean 'ADE'?"
    assert nearest_type("medication", TYPES) == nearest_type("x", ()) == ""


def test_types_of_a_tag_set() -> None:
    entities = tuple(Entity(f"T{n}", kind, (Range(n, n + 1),)) for n, kind in enumerate(("PERSON", "FECHAS", "Drug")))
    note = Document("n", "abc", entities)
    (found,) = in_tag_set([note], "i2b2-2014")
    assert [entity.type for entity in found.entities] == ["PATIENT", "DATE", "Drug"]
    assert in_tag_set([note], "") == (note,)
