from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from wardround.errors import StudyError, TrainingError
from wardround.settings import as_text
from wardround.studies.sections import parsed, parsed_over, table_in


@dataclass(frozen=True)
class Ward:
    """A setting of every kind."""

    name: str
    beds: int = 4
    warmth: float = 20.5
    open: bool = True
    folder: Path | None = None
    types: tuple[str, ...] = ()
    shared: tuple[str, ...] | None = None
    style: Literal["", "letters", "notes"] = "notes"
    made: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.beds < 1:
            raise TrainingError(f"beds is {self.beds}; it must be above zero")


def test_every_kind_of_value() -> None:
    table = {
        "name": "east",
        "beds": 7,
        "warmth": 19.5,
        "open": False,
        "folder": "a/b",
        "types": ["Drug", "ADE"],
        "shared": ["words"],
        "style": "letters",
    }
    assert parsed(Ward, table, "ward") == Ward(
        "east", 7, 19.5, False, Path("a/b"), ("Drug", "ADE"), ("words",), "letters"
    )


def test_settings_that_are_left_out_have_their_default() -> None:
    assert parsed(Ward, {"name": "east"}, "ward") == Ward("east")


def test_a_whole_number_is_a_number_too() -> None:
    found = parsed(Ward, {"name": "east", "warmth": 19}, "ward").warmth
    assert (found, type(found)) == (19.0, float)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("name", 3, "name is 3; it must be text"),
        ("name", True, "name is True; it must be text"),
        ("beds", "7", "beds is '7'; it must be a whole number"),
        ("beds", 7.0, "beds is 7.0; it must be a whole number"),
        ("beds", True, "beds is True; it must be a whole number"),
        ("beds", [7], r"beds is \[7\]; it must be a whole number"),
        ("warmth", "mild", "warmth is 'mild'; it must be a number"),
        ("warmth", False, "warmth is False; it must be a number"),
        ("open", 1, "open is 1; it must be true or false"),
        ("open", "yes", "open is 'yes'; it must be true or false"),
        ("folder", 3, "folder is 3; it must be a path"),
        ("types", "Drug", "types must be a list of names"),
        ("types", ["Drug", 3], "types must be a list of names"),
        ("shared", "words", "shared must be a list of names"),
        ("style", "note", r"style is 'note' – did you mean 'notes'\?; it can be letters, notes"),
        ("style", ["notes"], r"style is \['notes'\].*; it can be letters, notes"),
        ("style", 3, "style is 3; it can be letters, notes"),
        ("beds", 0, "beds is 0; it must be above zero"),
    ],
)
def test_invalid_values_are_refused(key: str, value: Any, said: str) -> None:
    with pytest.raises(StudyError, match=rf"^\[ward\.east\] {said}$"):
        parsed(Ward, {"name": "east", key: value}, "ward.east")
    with pytest.raises(StudyError, match=rf"^\[ward\.east\] {said}$"):
        parsed_over(Ward("west"), {key: value}, "ward.east")


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(
        StudyError, match=r"^\[ward\] 'bedz' is not a setting – did you mean 'beds'\?; it has name, beds,"
    ):
        parsed(Ward, {"name": "east", "bedz": 3}, "ward")
    with pytest.raises(StudyError, match=r"^\[ward\] 'qqq' is not a setting; it has name,"):
        parsed_over(Ward("east"), {"qqq": 3}, "ward")


def test_a_setting_without_a_default_is_required() -> None:
    with pytest.raises(StudyError, match=r"^\[ward\] needs a name$"):
        parsed(Ward, {"beds": 3}, "ward")


def test_a_table_over_a_configuration() -> None:
    assert parsed_over(Ward("east", 9, style="letters"), {"beds": 3}, "ward") == Ward("east", 3, style="letters")


def test_a_table_within_another() -> None:
    assert table_in({"a": {"b": 1}}, "a") == {"b": 1}
    assert table_in({}, "a") == {}
    with pytest.raises(StudyError, match=r"^\[a\] must be a section$"):
        table_in({"a": 3}, "a")


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "true"), (False, "false"), (3, "3"), (0.5, "0.5"), ("BIO", "BIO"), (["a", "b"], "a,b"), ([1, 2], "1,2")],
)
def test_options_as_text(value: Any, text: str) -> None:
    assert as_text(value) == text
