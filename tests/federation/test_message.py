from __future__ import annotations

import json
import tracemalloc
from hashlib import sha256
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies

from wardround.errors import MessageError
from wardround.federation.message import Array, Message, MessageBuffer, content_digest, decode, encode, grouped

KINDS = ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "b1")


def array_strategy() -> st.SearchStrategy[Array]:
    dtypes = st.sampled_from([order + kind for kind in KINDS for order in "<>"]).map(np.dtype)
    shapes = numpy_strategies.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
    return numpy_strategies.arrays(dtypes, shapes)


scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    scalars | st.text(max_size=8),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=4), part, max_size=3),
    max_leaves=12,
)
names = st.text(max_size=12)
messages = st.builds(
    Message,
    st.dictionaries(names, values, max_size=4),
    st.dictionaries(names, array_strategy(), max_size=4),
    st.dictionaries(names, st.binary(max_size=40), max_size=3),
)


@settings(max_examples=500, deadline=None)
@given(messages)
def test_a_message_survives_a_round_trip(message: Message) -> None:
    data = encode(message)
    back = decode(data)
    assert back == message
    assert json.dumps(back.values) == json.dumps(message.values)  # == takes True for 1, and 1 for 1.0
    assert list(back.arrays) == list(message.arrays) and list(back.blobs) == list(message.blobs)
    for name, array in message.arrays.items():
        assert back.arrays[name].tobytes() == array.astype(array.dtype.newbyteorder("<")).tobytes()
    assert encode(back) == data


def test_the_bytes_of_version_1_never_change() -> None:
    message = Message({"round": 3}, {"w": np.array([[1.0, -2.0]], "<f4")}, {"key": b"\x00\xff"})
    header = b'{"values":{"round":3},"arrays":[["w","<f4",[1,2]]],"blobs":[["key",2]]}'
    # 1.0 is 0x3f800000 and -2.0 is 0xc0000000, lowest byte first; 71 = 0x47.
    golden = b"WRM1" + b"\x47\x00\x00\x00" + header + b"\x00\x00\x80\x3f" + b"\x00\x00\x00\xc0" + b"\x00\xff"
    assert encode(message) == golden
    assert decode(golden) == message


@pytest.mark.parametrize("kind", KINDS)
def test_big_endian_arrays_are_sent_little_endian(kind: str) -> None:
    array = np.array([[1, 0], [1, 1]]).astype(f">{kind}")
    back = decode(encode(Message({}, {"a": array}))).arrays["a"]
    assert back.dtype == np.dtype(f"<{kind}")
    assert back.tolist() == [[1, 0], [1, 1]]


def test_big_endian_bytes_by_hand() -> None:
    assert encode(Message({}, {"a": np.array([258], ">i2")})).endswith(b"\x02\x01")  # 258 = 0x0102


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0).reshape(3, 4).T,
        np.arange(12)[::-3],
        np.asfortranarray(np.eye(3)),
        np.array(2.5),
        np.zeros((2, 0)),
        np.arange(2.0).reshape((1,) * 7 + (2,)),
    ],
    ids=["transposed", "strided", "column-major", "scalar", "empty", "eight axes"],
)
def test_memory_order_does_not_matter(array: Array) -> None:
    back = decode(encode(Message({}, {"a": array}))).arrays["a"]
    assert back.shape == array.shape
    assert back.tolist() == array.tolist()


def test_decoded_arrays_are_read_only_views_of_the_bytes() -> None:
    data = encode(Message({}, {"a": np.arange(1000.0), "none": np.zeros(0)}))
    arrays = decode(data).arrays
    for array in arrays.values():
        assert not array.flags.writeable and not array.flags.owndata
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 1
    assert np.shares_memory(arrays["a"], np.frombuffer(data, np.uint8))


def peak_of(call: Any, *arguments: Any) -> int:
    """Return the peak of allocated bytes during a call, its result included."""
    tracemalloc.start()
    try:
        result = call(*arguments)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    del result
    return peak


def test_encoding_holds_the_message_once_and_decoding_not_at_all() -> None:
    message = Message({}, {"a": np.zeros(500_000)})
    assert peak_of(encode, message) < 4_000_000 + 50_000
    assert peak_of(decode, encode(message)) < 50_000


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("-inf"),
        [1, {"deep": float("inf")}],
        {1: "a key that is no text"},
        (1, 2),
        {"a", "set"},
        b"bytes",
        np.int64(1),
        np.ones(2),
        2**64,
        10**5000,
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_that_json_would_change_are_refused(value: Any) -> None:
    with pytest.raises(MessageError) as caught:
        encode(Message({"secret": value}))
    assert caught.value.code == "value-kind"


def test_names_are_text() -> None:
    numbered: Any = {1: 2}
    for message in (Message(numbered), Message({}, {1: np.ones(1)}), Message({}, {}, {1: b""})):  # type: ignore[dict-item]
        with pytest.raises(MessageError):
            encode(message)


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


def test_nesting_is_limited_when_encoding_and_decoding() -> None:
    message = Message({"a": nested(31)})
    assert decode(encode(message)) == message
    for depth in (32, 100_000):
        with pytest.raises(MessageError, match=r"^value-kind"):
            encode(Message({"a": nested(depth)}))


@pytest.mark.parametrize(
    "array",
    [
        np.array([{"a": 1}], dtype=object),
        np.array(["text"]),
        np.array([b"bytes"]),
        np.array([1j]),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        np.zeros(2, dtype=[("a", "<f4")]),
        np.zeros(1, np.longdouble),
        np.zeros((1,) * 9),
    ],
    ids=["object", "text", "bytes", "complex", "date", "record", "long", "nine axes"],
)
def test_arrays_of_other_kinds_are_refused(array: Array) -> None:
    with pytest.raises(MessageError) as caught:
        encode(Message({}, {"a": array}))
    assert caught.value.code == "array"


@pytest.mark.parametrize("blob", ["text", 5, None, bytearray(b"x")], ids=repr)
def test_blobs_are_bytes(blob: Any) -> None:
    with pytest.raises(MessageError) as caught:
        encode(Message({}, {}, {"a": blob}))
    assert caught.value.code == "blob"


def test_a_header_too_long_to_decode_is_not_encoded() -> None:
    # {"values":{"a":"…"},"arrays":[],"blobs":[]} is 42 characters beside the text.
    assert decode(encode(Message({"a": "x" * (1_000_000 - 42)}))).values["a"] == "x" * (1_000_000 - 42)
    with pytest.raises(MessageError, match=r"^header: .* send a blob"):
        encode(Message({"a": "x" * (1_000_000 - 41)}))


def test_refused_content_is_not_quoted() -> None:
    with pytest.raises(MessageError) as caught:
        encode(Message({"Mrs Marker": ["Mrs Marker", float("nan")]}))
    assert "Marker" not in str(caught.value) and caught.value.__cause__ is None


def test_a_value_must_exist_and_have_its_type() -> None:
    message = Message({"rate": 0.5, "round": 3, "last": True, "types": ["Drug"]})
    assert message.value("rate", float) == 0.5
    assert message.value("round", int) == 3
    assert message.value("last", bool) is True
    assert message.value("types", list) == ["Drug"]
    for name, kind in (("missing", int), ("rate", int), ("round", float), ("last", int), ("round", bool)):
        with pytest.raises(MessageError) as caught:
            message.value(name, kind)
        assert caught.value.code == "value-missing"


def test_groups_of_arrays() -> None:
    one, two = np.ones(1), np.zeros(2)
    message = Message({}, {**grouped("shared", {"a/b": one, "c": two}), **grouped("share", {"d": one}), "shared": two})
    assert message.arrays.keys() == {"shared/a/b", "shared/c", "share/d", "shared"}
    assert message.group("shared").keys() == {"a/b", "c"}
    assert message.group("shared")["a/b"] is one
    assert message.group("none") == {}


def test_messages_with_equal_content_are_equal() -> None:
    def one() -> Message:
        return Message({"a": 1}, {"x": np.array([1.0, np.nan])}, {"b": b"1"})

    assert one() == one()
    others = (
        Message({"a": 2}, one().arrays, one().blobs),
        Message(one().values, {"y": one().arrays["x"]}, one().blobs),
        Message(one().values, {"x": np.array([1.0, 2.0])}, one().blobs),
        Message(one().values, {"x": np.array([1.0, np.nan], "f4")}, one().blobs),
        Message(one().values, {"x": np.array([[1.0, np.nan]])}, one().blobs),
        Message(one().values, one().arrays, {"b": b"2"}),
    )
    assert all(one() != other for other in others)
    assert one() != "a message"


def test_the_content_digest_by_hand() -> None:
    message = Message({"b": [{"d": 1, "c": 2}], "a": 1}, {"w": np.array([1.0, -2.0], ">f4")}, {"key": b"k"})
    numbers = sha256(b"\x00\x00\x80\x3f" + b"\x00\x00\x00\xc0").hexdigest()
    described = {
        "version": "purpose",
        "values": {"a": 1, "b": [{"c": 2, "d": 1}]},
        "arrays": [["w", "<f4", [2], numbers]],
        "blobs": [["key", sha256(b"k").hexdigest()]],
    }
    assert content_digest(message, purpose="purpose") == sha256(encode(Message(described))).hexdigest()


@settings(max_examples=200, deadline=None)
@given(messages)
def test_a_digest_does_not_depend_on_the_order_of_parts(message: Message) -> None:
    turned = [dict(reversed(list(part.items()))) for part in (message.values, message.arrays, message.blobs)]
    digest = content_digest(message, purpose="p")
    assert content_digest(Message(*turned), purpose="p") == digest
    assert content_digest(decode(encode(message)), purpose="p") == digest
    assert content_digest(message, purpose="q") != digest


def test_a_digest_leaves_out_the_one_blob_that_is_named() -> None:
    bare, signed, other = (Message({"a": 1}, {}, blobs) for blobs in ({}, {"s": b"1"}, {"s": b"2"}))
    assert len({content_digest(one, purpose="p", without="s") for one in (bare, signed, other)}) == 1
    assert len({content_digest(one, purpose="p") for one in (bare, signed, other)}) == 3
    more = Message({"a": 1}, {}, {"s": b"1", "t": b"1"})
    assert content_digest(more, purpose="p", without="s") != content_digest(bare, purpose="p")


def test_a_log_shows_names_and_sizes_only() -> None:
    message = Message({"note": "Mrs Marker"}, {"a": np.full((1, 2), 77.0)}, {"b": b"Mrs Marker"})
    assert repr(message) == "Message(values=['note'], arrays={'a': (1, 2)}, blobs={'b': 10})"


def every_kind() -> Message:
    dtypes = ("<f8", "<f4", "<f2", "<i8", "<i4", "<i2", "|i1", "<u8", "<u4", "<u2", "|u1", "|b1")
    arrays = {dtype: np.arange(2).astype(dtype).reshape(1, 2) for dtype in dtypes}
    arrays |= {"scalar": np.array(3.5), "none": np.zeros((0, 3), np.float32)}
    return Message({"round": 3}, arrays, {"blob": b"\x00\x01", "empty": b""})


def test_a_buffer_encodes_to_the_same_bytes() -> None:
    buffer = MessageBuffer()
    for message in (every_kind(), Message({"round": 4}), every_kind(), Message()):
        data = buffer.encode(message)
        assert bytes(data) == encode(message)
        assert decode(data) == message
        assert data.readonly


def test_a_buffer_reuses_its_memory_once_nobody_reads_the_last_message() -> None:
    buffer = MessageBuffer()
    first = np.frombuffer(buffer.encode(Message({}, {"a": np.zeros(1000, np.float32)})), np.uint8)
    place = first.ctypes.data
    del first
    second = np.frombuffer(buffer.encode(Message({}, {"a": np.ones(1000, np.float32)})), np.uint8)
    assert second.ctypes.data == place


def test_a_buffer_never_overwrites_an_array_that_is_still_read() -> None:
    buffer = MessageBuffer()
    kept = decode(buffer.encode(Message({}, {"a": np.zeros(1000, np.float32)}))).arrays["a"]
    decode(buffer.encode(Message({}, {"a": np.ones(1000, np.float32)})))
    buffer.encode(Message({}, {"a": np.ones(1000, np.float32)}))
    assert not kept.any()
    assert not kept.flags.writeable
