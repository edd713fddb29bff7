from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from wardround.parsing import MalformedDataError, is_integer, parse_json, parse_toml, read_json, read_limited, read_toml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2.5, "x", null, true]}', {"a": [1, 2.5, "x", None, True]}),
        (b'"\xc3\xa4"', "ä"),
        ("-12", -12),
        ("[" * 64 + "]" * 64, None),
        ("9" * 100, 10**100 - 1),
        ('"' + "[" * 1000 + '"', "[" * 1000),  # brackets in a text are no nesting
    ],
)
def test_json_within_the_limits(text: str | bytes, value: object) -> None:
    found = parse_json(text)
    assert value is None or found == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 66 + "]" * 66, "is nested too deeply: more than 64"),
        ("[" * 200_000, "is nested too deeply"),
        ('{"a":' * 200_000, "is nested too deeply"),
        ("9" * 101, "a number of too many digits"),
        ("9" * 1_000_000, "a number of too many digits"),
        ("NaN", "holds NaN or an infinite number"),
        ("[-Infinity]", "holds NaN or an infinite number"),
        ("1e999", "holds NaN or an infinite number"),
        (b"\xff", "is no JSON: it is not UTF-8"),
        ("{\n 'a'}", "is no JSON: line 2, column 2: "),
        ("", "is no JSON: line 1, column 1: "),
    ],
)
def test_json_outside_the_limits_is_refused(text: str | bytes, message: str) -> None:
    with pytest.raises(MalformedDataError, match=message):
        parse_json(text)


def test_a_parsing_error_quotes_no_content() -> None:
    for text in ('{"name": "Quillwort', '["Quillwort"', "Quillwort", '{"a": Quillwort}'):
        with pytest.raises(MalformedDataError) as caught:
            parse_json(text)
        assert "Quillwort" not in str(caught.value)


def test_non_finite_numbers_are_read_with_finite_false() -> None:
    assert parse_json("[NaN, Infinity]" + " " * 3, finite=False)[1] == float("inf")
    deep: Any = parse_json('{"loss": NaN, "more": [' + "[]," * 99 + "[]]}", finite=False)
    assert deep["loss"] != deep["loss"]


def test_a_hook_may_refuse() -> None:
    def refuse(pairs: list[tuple[str, Any]]) -> Any:
        raise ValueError("a name is given twice")

    with pytest.raises(MalformedDataError, match="a name is given twice"):
        parse_json("{}", object_pairs_hook=refuse)


def test_toml_within_the_limits() -> None:
    assert parse_toml("a = 1\n[b]\nc = [1.5, true]") == {"a": 1, "b": {"c": [1.5, True]}}
    assert parse_toml(b'a = "\xc3\xa4"') == {"a": "ä"}
    assert parse_toml("a = [" + "0.5, " * 1000 + "]")["a"] == [0.5] * 1000
    assert parse_toml('a = "' + "A sentence. " * 1000 + '"')["a"].startswith("A sentence.")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = " + "[" * 100_000, "is nested too deeply"),
        (".".join("a" * 1000) + " = 1", "is nested too deeply"),
        ("[" + ".".join("a" * 1000) + "]", "is nested too deeply"),
        ("a = {" + ".".join("b" * 1000) + " = 1}", "is nested too deeply"),
        ("x = 1\n  " + " . ".join("a" * 1000) + " = 1", "is nested too deeply"),
        (".".join(['"\\""'] * 1000) + " = 1", "is nested too deeply"),
        (".".join(["'\\'"] * 1000) + " = 1", "is nested too deeply"),
        (".".join(['"a.b\\\\"', "c-d", "'e'"] * 400) + " = 1", "is nested too deeply"),
        ("a = " + "9" * 5000, "a number or date that cannot be read"),
        ("a = " + "9" * 200, "a number of too many digits"),
        ("a = 0x" + "f" * 10_000, "a number of too many digits"),
        ("a = nan", "holds NaN or an infinite number"),
        ("a = [{b = -inf}]", "holds NaN or an infinite number"),
        ("a = 1e999", "holds NaN or an infinite number"),
        ("a =", "is no TOML: "),
        (b"a = '\xff'", "is no TOML: it is not UTF-8"),
        ("a = 2023-02-31", "is no TOML: "),
    ],
)
def test_toml_outside_the_limits_is_refused(text: str | bytes, message: str) -> None:
    with pytest.raises(MalformedDataError, match=message):
        parse_toml(text)


def test_toml_with_an_infinite_number_is_read_with_finite_false() -> None:
    assert parse_toml("a = inf", finite=False) == {"a": float("inf")}


def test_files(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[1]")
    (tmp_path / "a.toml").write_text("a = 1")
    assert read_json(tmp_path / "a.json") == [1]
    assert read_toml(tmp_path / "a.toml") == {"a": 1}
    assert read_limited(tmp_path / "a.json", 3) == b"[1]"
    for read in (read_limited, lambda path, maximum: read_json(path, maximum_bytes=maximum)):
        with pytest.raises(MalformedDataError, match=r"^is larger than 2 bytes$"):
            read(tmp_path / "a.json", 2)
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "b.json")


@pytest.mark.parametrize(("value", "whole"), [(1, True), (0, True), (True, False), (1.0, False), ("1", False)])
def test_a_boolean_is_not_an_integer(value: object, whole: bool) -> None:
    assert is_integer(value) is whole
