from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from wardround.errors import UsageError
from wardround.settings import convert_settings, did_you_mean, parse_settings, with_settings


@dataclass(frozen=True)
class Kitchen:
    """A dataclass with a field of every type that a setting can have."""

    burners: int = 4
    heat: float = 0.5
    open: bool = True
    cook: str = ""
    fuel: Literal["gas", "wood"] = "gas"
    pots: tuple[str, ...] = ()
    larder: Path | None = None
    guests: int | None = None
    order: int = field(default=0, init=False)


@dataclass(frozen=True)
class Bare:
    """A dataclass without fields."""


def refusal(**settings: str) -> str:
    with pytest.raises(UsageError) as refused:
        convert_settings(Kitchen, settings, "the kitchen")
    return str(refused.value)


def test_pairs_become_a_mapping() -> None:
    assert parse_settings(["word-column = 3", "word-column=4", "delimiter==", "cook="]) == {
        "word_column": "4",  # what is said last counts
        "delimiter": "=",
        "cook": "",
    }
    assert parse_settings(None) == parse_settings([]) == {}


def test_a_setting_without_a_value_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^'epochs' is not a setting: expected NAME=VALUE$"):
        parse_settings(["epochs"])


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("burners", "6", 6),
        ("burners", " -2 ", -2),
        ("heat", "1e-3", 0.001),
        ("heat", "2", 2.0),
        ("open", "no", False),
        ("open", "True", True),
        ("open", "0", False),
        ("open", "YES", True),
        ("cook", "5", "5"),
        ("cook", "", ""),
        ("fuel", "wood", "wood"),
        ("pots", "a, b,,c ,", ("a", "b", "c")),
        ("pots", "", ()),
        ("larder", "notes/x", Path("notes/x")),
        ("guests", "3", 3),
    ],
)
def test_each_value_gets_the_type_of_its_field(name: str, text: str, value: Any) -> None:
    found = convert_settings(Kitchen, {name: text}, "the kitchen")
    assert found == {name: value}
    assert type(found[name]) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("burners", "many", "option 'burners' of the kitchen: 'many' is not a whole number"),
        ("burners", "1.5", "option 'burners' of the kitchen: '1.5' is not a whole number"),
        ("guests", "", "option 'guests' of the kitchen: '' is not a whole number"),
        ("heat", "hot", "option 'heat' of the kitchen: 'hot' is not a number"),
        ("open", "perhaps", "option 'open' of the kitchen: 'perhaps' is not true or false"),
        ("fuel", "wod", "option 'fuel' of the kitchen: 'wod' is none of gas, wood – did you mean 'wood'?"),
        ("fuel", "coal", "option 'fuel' of the kitchen: 'coal' is none of gas, wood"),
    ],
)
def test_a_value_of_another_type_is_refused(name: str, text: str, said: str) -> None:
    assert refusal(**{name: text}) == said


def test_an_unknown_setting_is_refused() -> None:
    known = "burners, heat, open, cook, fuel, pots, larder, guests"
    assert refusal(burner="3") == (
        f"'burner' is not an option of the kitchen – did you mean 'burners'?; it has {known}"
    )
    assert refusal(zzz="3") == f"'zzz' is not an option of the kitchen; it has {known}"
    assert refusal(order="3").startswith("'order' is not an option")  # it cannot be set from outside
    with pytest.raises(UsageError, match=r"^'x' is not an option of the shed; it has none$"):
        convert_settings(Bare, {"x": "1"}, "the shed")


def test_a_config_with_some_fields_replaced() -> None:
    before = Kitchen(burners=2, cook="Ann")
    after = with_settings(before, {"heat": "0.9", "pots": "big"}, "the kitchen")
    assert after == Kitchen(burners=2, cook="Ann", heat=0.9, pots=("big",))
    assert before == Kitchen(burners=2, cook="Ann")
    assert with_settings(before, {}, "the kitchen") == before


def test_the_nearest_name() -> None:
    assert did_you_mean("fednr", ["fedner", "elmoner"]) == " – did you mean 'fedner'?"
    assert did_you_mean("transformer", ["fedner"]) == ""
    assert did_you_mean("x", []) == ""
