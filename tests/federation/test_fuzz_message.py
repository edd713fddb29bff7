"""Damaged or forged bytes: `decode` returns a message or raises a `MessageError`, within bounded memory."""

from __future__ import annotations

import json
import struct
import tracemalloc
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wardround.errors import MessageError
from wardround.federation.message import Message, decode, encode

CODES = {"mark", "version", "length", "header", "array", "blob", "value-kind"}
SMALL = encode(
    Message(
        {"round": 3, "names": ["é", None, True, 0.5]},
        {"w": np.array([[1.0, -2.0]], "<f4"), "mask": np.array([True, False])},
        {"key": b"\x00\xff"},
    )
)


def refusal(data: bytes) -> str:
    """Return the code with which `data` is refused; empty if it is a message."""
    try:
        message = decode(data)
    except MessageError as error:
        assert error.code in CODES
        return error.code
    assert decode(encode(message)) == message
    return ""


def forged(header: Any, rest: bytes = b"") -> bytes:
    """Return a message with this header: bytes as they are, everything else as JSON."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return b"WRM1" + struct.pack("<I", len(text)) + text + rest


def with_arrays(*items: Any, rest: bytes = b"") -> bytes:
    return forged({"values": {}, "arrays": list(items), "blobs": []}, rest)


def with_blobs(*items: Any, rest: bytes = b"") -> bytes:
    return forged({"values": {}, "arrays": [], "blobs": list(items)}, rest)


def with_values(text: str) -> bytes:
    return forged(f'{{"values":{text},"arrays":[],"blobs":[]}}'.encode())


def test_cut_short_at_every_byte() -> None:
    assert refusal(SMALL) == ""
    codes = [refusal(SMALL[:length]) for length in range(len(SMALL))]
    assert codes == ["mark"] * 8 + ["length"] * (len(SMALL) - 8)


def test_one_byte_too_many() -> None:
    assert refusal(SMALL + b"\x00") == "length"


def test_every_single_bit_flipped() -> None:
    found = set()
    for place in range(len(SMALL) * 8):
        damaged = bytearray(SMALL)
        damaged[place // 8] ^= 1 << place % 8
        found.add(refusal(bytes(damaged)))
    assert {"", "mark", "version", "length", "header", "array"} <= found


def test_another_version_says_so() -> None:
    for version in (b"0", b"2", b"9", b"\xff"):
        assert refusal(b"WRM" + version + SMALL[4:]) == "version"
        assert refusal(b"WRM" + version) == "version"
    assert refusal(b"WRM") == "mark"
    assert refusal(b"PK\x03\x04" + SMALL[4:]) == "mark"


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
@example(b"")
@example(b"\x80\x04\x95")
def test_random_bytes(data: bytes) -> None:
    assert refusal(data)
    refusal(b"WRM1" + data)
    assert refusal(forged(data)) in ("header", "value-kind")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "a", "<f4", "|b1", "|O", "a\ud800"]),
    lambda part: st.lists(part, max_size=4) | st.dictionaries(st.sampled_from(["", "a", "b"]), part, max_size=2),
    max_leaves=8,
)
sizes = st.integers(-1, 3) | st.integers(0, 2**70) | st.booleans()
items = st.tuples(
    st.sampled_from(["a", "b"]), st.sampled_from(["<f4", "|i1", "|b1", ">f4"]), st.lists(sizes, max_size=3)
)
parts = st.fixed_dictionaries(
    {
        "values": st.dictionaries(st.text(max_size=2), json_values, max_size=2) | json_values,
        "arrays": st.lists(items.map(list) | json_values, max_size=3) | json_values,
        "blobs": st.lists(st.tuples(st.sampled_from(["a", "b"]), sizes).map(list) | json_values, max_size=3)
        | json_values,
    }
)


@settings(max_examples=500, deadline=None)
@given(parts, st.binary(max_size=40))
def test_almost_valid_headers_are_refused(header: Any, rest: bytes) -> None:
    refusal(forged(header, rest))


HUGE = 2**40 - 1
ARRAYS = {
    "more than there is": (["a", "<f4", [3]], "length"),
    "far more than there is": (["a", "<f4", [HUGE]], "length"),
    "a product beyond 64 bits": (["a", "<f8", [HUGE, HUGE, HUGE]], "length"),
    "a product that wraps round to zero in 64 bits": (["a", "<f8", [2**32, 2**32]], "length"),
    "empty beyond what numpy can index": (["a", "<f8", [0, HUGE, HUGE]], "array"),
    "an axis beyond 40 bits": (["a", "<f8", [2**40]], "array"),
    "an axis of 400 digits": (["a", "<f8", [10**400]], "array"),
    "negative": (["a", "<f4", [-1]], "array"),
    "two negatives": (["a", "<f4", [-2, -1]], "array"),
    "a fraction": (["a", "<f4", [2.0]], "array"),
    "a truth value": (["a", "<f4", [True]], "array"),
    "no shape": (["a", "<f4", None], "array"),
    "a number for a shape": (["a", "<f4", 2], "array"),
    "text for a shape": (["a", "<f4", "12"], "array"),
    "a dictionary for a shape": (["a", "<f4", {"1": 1}], "array"),
    "a list within a shape": (["a", "<f4", [[1]]], "array"),
    "nine axes": (["a", "<f4", [1] * 9], "array"),
    "objects": (["a", "|O", [1]], "array"),
    "objects, bare": (["a", "O", [1]], "array"),
    "text": (["a", "<U4", [1]], "array"),
    "void": (["a", "|V8", [1]], "array"),
    "a date": (["a", "<M8[s]", [1]], "array"),
    "big-endian": (["a", ">f4", [2]], "array"),
    "the name of a type": (["a", "float32", [2]], "array"),
    "fields": (["a", "f4,f4", [1]], "array"),
    "a list for a type": (["a", ["<f4"], [2]], "array"),
    "a number for a name": ([1, "<f4", [2]], "array"),
    "a list for a name": ([["a"], "<f4", [2]], "array"),
    "two parts": (["a", "<f4"], "header"),
    "four parts": (["a", "<f4", [2], 0], "header"),
    "three letters": ("abc", "header"),
    "a dictionary of three": ({"a": 1, "<f4": 2, "c": 3}, "header"),
}


@pytest.mark.parametrize(("item", "code"), ARRAYS.values(), ids=ARRAYS)
def test_forged_arrays(item: Any, code: str) -> None:
    assert refusal(with_arrays(item, rest=bytes(8))) == code
    assert refusal(with_arrays(["first", "<f4", []], item, rest=bytes(12))) == code


BLOBS = {
    "more than there is": (["a", 9], "length"),
    "far more": (["a", HUGE], "length"),
    "beyond 40 bits": (["a", 2**64], "blob"),
    "negative": (["a", -1], "blob"),
    "a truth value": (["a", True], "blob"),
    "a fraction": (["a", 8.0], "blob"),
    "text": (["a", "8"], "blob"),
    "nothing": (["a", None], "blob"),
    "a number for a name": ([1, 8], "blob"),
    "one part": (["a"], "header"),
    "two letters": ("ab", "header"),
}


@pytest.mark.parametrize(("item", "code"), BLOBS.values(), ids=BLOBS)
def test_forged_blobs(item: Any, code: str) -> None:
    assert refusal(with_blobs(item, rest=bytes(8))) == code


def test_the_same_name_twice() -> None:
    assert refusal(with_arrays(["a", "<f4", [1]], ["b", "<f4", [1]], rest=bytes(8))) == ""
    assert refusal(with_arrays(["a", "<f4", [1]], ["a", "<f4", [1]], rest=bytes(8))) == "array"
    assert refusal(with_blobs(["a", 4], ["a", 4], rest=bytes(8))) == "blob"
    assert refusal(with_values('{"a":1,"a":2}')) == "header"
    assert refusal(with_values('{"deep":{"a":1,"a":2}}')) == "header"
    assert refusal(forged(b'{"values":{},"values":{},"arrays":[],"blobs":[]}')) == "header"


def test_a_truth_value_is_zero_or_one() -> None:
    assert refusal(with_arrays(["a", "|b1", [2]], rest=b"\x00\x01")) == ""
    assert refusal(with_arrays(["a", "|b1", [2]], rest=b"\x00\x02")) == "array"


HEADERS = {
    "nothing": b"",
    "no JSON": b"{",
    "a list": b"[]",
    "a number": b"7",
    "nothing in it": b"{}",
    "a part missing": b'{"values":{},"arrays":[]}',
    "a part too many": b'{"values":{},"arrays":[],"blobs":[],"code":"import os"}',
    "values are a list": b'{"values":[],"arrays":[],"blobs":[]}',
    "arrays are text": b'{"values":{},"arrays":"","blobs":[]}',
    "arrays are a dictionary": b'{"values":{},"arrays":{},"blobs":[]}',
    "blobs are nothing": b'{"values":{},"arrays":[],"blobs":null}',
    "something after it": b'{"values":{},"arrays":[],"blobs":[]} {}',
    "a byte order mark": b'\xef\xbb\xbf{"values":{},"arrays":[],"blobs":[]}',
    "UTF-16": '{"values":{},"arrays":[],"blobs":[]}'.encode("utf-16-le"),
    "Latin-1": '{"values":{"é":1},"arrays":[],"blobs":[]}'.encode("latin-1"),
    "half a surrogate pair": b'{"values":{"\xed\xa0\x80":1},"arrays":[],"blobs":[]}',
    "nested without end": b'{"values":' + b"[" * 500_000,
    "dictionaries without end": b'{"a":' * 100_000,
    "a number of 5,000 digits": b'{"values":{"a":' + b"9" * 5000 + b'},"arrays":[],"blobs":[]}',
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_forged_headers(header: bytes) -> None:
    assert refusal(forged(header)) == "header"


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "[0,[NaN]]", str(2**64)])
def test_nan_and_infinity_in_headers_are_refused(text: str) -> None:
    assert refusal(with_values(f'{{"a":{text}}}')) == "value-kind"


def test_values_nested_too_deep() -> None:
    assert refusal(with_values('{"a":' + "[" * 31 + "0" + "]" * 31 + "}")) == ""
    assert refusal(with_values('{"a":' + "[" * 32 + "0" + "]" * 32 + "}")) == "value-kind"


@pytest.mark.parametrize("length", [1_000_001, 2**31, 2**32 - 1])
def test_headers_that_say_they_are_huge(length: int) -> None:
    assert refusal(b"WRM1" + struct.pack("<I", length) + b"{}") == "header"


def test_a_header_longer_than_the_message() -> None:
    assert refusal(b"WRM1" + struct.pack("<I", 1_000_000) + b"{}") == "length"


CONSTANT = 100_000  # bytes: what a refusal itself costs


def peak_of(data: bytes) -> int:
    tracemalloc.start()
    try:
        with suppress(MessageError):
            decode(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "data",
    [
        with_arrays(["a", "<f8", [10**9]], rest=bytes(8)),
        with_arrays(["a", "<f8", [HUGE, HUGE]], rest=bytes(8)),
        with_arrays(["a", "|b1", [HUGE]], rest=bytes(8)),
        with_arrays(["a", "<f8", [0, HUGE, HUGE]], rest=bytes(8)),
        with_arrays(["a", "<f8", [0, 2**30]]),
        with_blobs(["a", 10**11], rest=bytes(8)),
        b"WRM1" + struct.pack("<I", 2**32 - 1) + bytes(8),
    ],
    ids=["array", "overflow", "truth values", "impossible", "empty", "blob", "header"],
)
def test_claimed_sizes_are_never_allocated(data: bytes) -> None:
    assert len(data) < 200
    assert peak_of(data) < len(data) + CONSTANT


def test_the_worst_header_takes_a_bounded_amount_of_memory() -> None:
    worst = with_values('{"a":[' + '{"":0},' * 142_800 + "0]}")
    assert 999_000 < len(worst) < 1_000_008
    assert peak_of(worst) < 64_000_000


def test_refused_content_is_not_quoted() -> None:
    for data in (forged(b'{"Mrs Marker": '), with_arrays(["Mrs Marker", "O", [1]]), with_blobs(["Mrs Marker", -1])):
        with pytest.raises(MessageError) as caught:
            decode(data)
        assert "Marker" not in str(caught.value)
        assert caught.value.__cause__ is None
