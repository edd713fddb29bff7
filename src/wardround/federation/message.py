"""A message of named arrays, plain values and bytes, and the one codec that every engine uses.

    4 bytes  b"WRM1"             the version is part of it
    4 bytes  length of the header, little-endian
    header   JSON: {"values": {…}, "arrays": [[name, dtype, shape], …], "blobs": [[name, length], …]}
    rest     the arrays, little-endian, then the blobs, in the header's order, with nothing between or after

Decoding executes nothing and refuses what it does not know. Arrays are views of the received bytes; only the blobs and
the header, which is at most a million bytes long, take further memory, whatever sizes a message claims.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from wardround.errors import MessageError
from wardround.parsing import is_integer

__all__ = ["Array", "Data", "Message", "MessageBuffer", "Value", "content_digest", "decode", "encode", "grouped"]

Array = npt.NDArray[Any]
Value = None | bool | int | float | str | list["Value"] | dict[str, "Value"]
Data = bytes | memoryview  # an encoded message
Kind = TypeVar("Kind")

_MARK = b"WRM1"
_LENGTH = struct.Struct("<I")
_START = len(_MARK) + _LENGTH.size
_PARTS = ("values", "arrays", "blobs")
_LARGEST_HEADER = 1_000_000  # bytes; as Python objects a forged header takes some thirty times as much
_DEEPEST_VALUE = 32  # nested lists and dictionaries
_MOST_AXES = 8
_LONGEST_AXIS = 2**40
_DTYPES = frozenset({"<f8", "<f4", "<f2", "<i8", "<i4", "<i2", "|i1", "<u8", "<u4", "<u2", "|u1", "|b1"})


@dataclass(frozen=True, eq=False)
class Message:
    """What the coordinator and a site send to each other."""

    values: Mapping[str, Value] = field(default_factory=dict)
    arrays: Mapping[str, Array] = field(default_factory=dict)
    blobs: Mapping[str, bytes] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        """Compare names, values, bytes and numbers; byte order in memory does not matter, and NaN equals NaN."""
        if not isinstance(other, Message):
            return NotImplemented
        return (
            self.values == other.values
            and self.blobs == other.blobs
            and self.arrays.keys() == other.arrays.keys()
            and all(_same(array, other.arrays[name]) for name, array in self.arrays.items())
        )

    def __repr__(self) -> str:
        """Show names and sizes only, so that a log never shows the content of a message."""
        shapes = {name: array.shape for name, array in self.arrays.items()}
        lengths = {name: len(blob) for name, blob in self.blobs.items()}
        return f"Message(values={list(self.values)}, arrays={shapes}, blobs={lengths})"

    def value(self, name: str, kind: type[Kind]) -> Kind:
        """Return a value; raise a `MessageError` if it is missing or not of `kind`. True does not count as a number."""
        value = self.values.get(name)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise MessageError("value-missing", f"{name} as {kind.__name__}")
        return value

    def group(self, prefix: str) -> dict[str, Array]:
        """Return the arrays called `prefix/…`, without the prefix."""
        start = prefix + "/"
        return {name[len(start) :]: array for name, array in self.arrays.items() if name.startswith(start)}


def grouped(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return arrays with a prefix, as `Message.group` finds them."""
    return {f"{prefix}/{name}": array for name, array in arrays.items()}


def encode(message: Message) -> bytes:
    """Return the message as bytes; raise a `MessageError` for what `decode` would refuse."""
    # Arrays are joined through their buffers, so encoding copies each body once.
    return b"".join(_encoded_parts(message))


class MessageBuffer:
    """Memory for one encoded message at a time, reused because new memory costs more than the copy into it.

    Arrays that were decoded from a message are views of this memory. While one of them is alive, the next message gets
    new memory, so an array that is still in use is never overwritten.
    """

    def __init__(self) -> None:
        self._memory = bytearray(1)

    def encode(self, message: Message) -> memoryview:
        """Return the message as bytes, like `encode`."""
        parts = [memoryview(part) for part in _encoded_parts(message)]
        length = sum(part.nbytes for part in parts)
        try:
            self._memory.pop()  # raises a BufferError while a view exists; within the allocated memory otherwise
        except BufferError:
            self._memory = bytearray()
        if len(self._memory) < length:
            self._memory.extend(bytes(length - len(self._memory)))
        view, position = memoryview(self._memory), 0
        for part in parts:
            if part.nbytes:  # a view without bytes cannot be cast
                view[position : position + part.nbytes] = part.cast("B")
                position += part.nbytes
        return view[:length].toreadonly()


def _encoded_parts(message: Message) -> list[Any]:
    """Return the header, the arrays and the blobs of an encoded message, without copying."""
    values = dict(message.values)
    _check_value(values)
    arrays = {name: _wire_array(name, array) for name, array in message.arrays.items()}
    for name, blob in message.blobs.items():
        if not isinstance(name, str) or not isinstance(blob, bytes):
            raise MessageError("blob", "a blob is bytes under a name")
    shapes = [[name, array.dtype.str, list(array.shape)] for name, array in arrays.items()]
    lengths = [[name, len(blob)] for name, blob in message.blobs.items()]
    header = json.dumps(dict(zip(_PARTS, (values, shapes, lengths), strict=True)), separators=(",", ":")).encode()
    if len(header) > _LARGEST_HEADER:
        raise MessageError("header", f"values and names take over {_LARGEST_HEADER:,} bytes; send a blob")
    return [_MARK, _LENGTH.pack(len(header)), header, *arrays.values(), *message.blobs.values()]


def content_digest(message: Message, *, purpose: str, without: str = "") -> str:
    """Return the SHA-256 of a message, independent of the order of its parts; the blob `without` is left out.

    Arrays and blobs are hashed one by one, so that the message is not copied.
    """
    values: dict[str, Value] = {
        "version": purpose,
        "values": _ordered(dict(message.values)),
        "arrays": [_described(name, array) for name, array in sorted(message.arrays.items())],
        "blobs": [[n, sha256(b).hexdigest()] for n, b in sorted(message.blobs.items()) if n != without],
    }
    return sha256(encode(Message(values))).hexdigest()


def decode(data: Data) -> Message:
    """Return the message in `data`; its arrays are read-only views that keep `data` alive."""
    if len(data) >= len(_MARK) and data[:3] == _MARK[:3] and data[:4] != _MARK:
        raise MessageError(
            "version", "the other side runs another version of Wardround; install the same version everywhere"
        )
    if len(data) < _START or data[:4] != _MARK:
        raise MessageError("mark", "this is not a message")
    (length,) = _LENGTH.unpack_from(data, len(_MARK))
    if length > _LARGEST_HEADER:
        raise MessageError("header", f"is longer than {_LARGEST_HEADER:,} bytes")
    _check_end(_START + length, data)
    values, shapes, lengths = _header(data[_START : _START + length])
    rest = memoryview(data)[_START + length :]
    arrays, position = _arrays(rest, shapes)
    blobs, position = _blobs(rest, lengths, position)
    if position != len(rest):
        raise MessageError("length", "bytes are left over")
    return Message(values, arrays, blobs)


def _header(text: Data) -> tuple[dict[str, Value], list[Any], list[Any]]:
    try:
        header = json.loads(str(text, "utf-8"), object_pairs_hook=_without_repeats)
        values, shapes, lengths = (header.pop(part) for part in _PARTS)
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError):
        raise MessageError("header", "is not valid JSON of a header") from None
    if header or not (isinstance(values, dict) and isinstance(shapes, list) and isinstance(lengths, list)):
        raise MessageError("header", "has other parts than a header")
    _check_value(values)
    return values, shapes, lengths


def _arrays(rest: memoryview, shapes: list[Any]) -> tuple[dict[str, Array], int]:
    arrays: dict[str, Array] = {}
    position = 0
    for name, dtype, shape in _items(shapes, 3):
        if not isinstance(name, str) or name in arrays or not isinstance(dtype, str) or dtype not in _DTYPES:
            raise MessageError("array", "has no unique name, or a dtype that is not supported")
        _check_shape(shape)
        end = position + math.prod(shape) * np.dtype(dtype).itemsize
        _check_end(end, rest)
        arrays[name] = _view(rest[position:end], dtype, shape)
        position = end
    return arrays, position


def _view(body: memoryview, dtype: str, shape: list[int]) -> Array:
    if dtype == "|b1" and np.frombuffer(body, "|u1").max(initial=0) > 1:
        raise MessageError("array", "a boolean must be a byte 0 or 1")
    try:
        return np.frombuffer(body, dtype).reshape(shape)
    except ValueError:  # an empty array whose other axes exceed what numpy can index
        raise MessageError("array", "has an impossible shape") from None


def _blobs(rest: memoryview, lengths: list[Any], position: int) -> tuple[dict[str, bytes], int]:
    blobs: dict[str, bytes] = {}
    for name, length in _items(lengths, 2):
        if not isinstance(name, str) or name in blobs or not _is_size(length):
            raise MessageError("blob", "has no unique name, or no length")
        _check_end(position + length, rest)
        blobs[name] = bytes(rest[position : position + length])
        position += length
    return blobs, position


def _items(listed: list[Any], length: int) -> Iterator[Any]:
    for item in listed:
        if not isinstance(item, list) or len(item) != length:
            raise MessageError("header", "has an entry of another form")
        yield item


def _check_end(end: int, data: Data) -> None:
    if end > len(data):
        raise MessageError("length", "the message is cut short")


def _check_shape(shape: Any) -> None:
    if not isinstance(shape, list | tuple) or len(shape) > _MOST_AXES or not all(map(_is_size, shape)):
        raise MessageError("array", f"a shape has at most {_MOST_AXES} whole numbers")


def _is_size(size: Any) -> bool:
    return is_integer(size) and 0 <= size < _LONGEST_AXIS


def _check_value(value: Any, depth: int = 0) -> None:
    """Raise for what JSON would change or lose: NaN, keys that are not text, tuples, and deep nesting."""
    if depth > _DEEPEST_VALUE:
        raise MessageError("value-kind", f"values are nested more than {_DEEPEST_VALUE} deep")
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            _check_value(part, depth + 1)
    elif not _is_scalar(value):
        raise MessageError("value-kind", "values are JSON: text, finite numbers, lists, dictionaries with text as keys")


def _is_scalar(value: Any) -> bool:
    if isinstance(value, int):
        return value.bit_length() <= 64
    return value is None or isinstance(value, str) or (isinstance(value, float) and math.isfinite(value))


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _wire_array(name: str, array: Array) -> Array:
    """Return the array as it is sent, contiguous and little-endian; it is copied only if necessary."""
    if not isinstance(name, str):
        raise MessageError("array", "an array's name is text")
    dtype = np.asarray(array).dtype.newbyteorder("<")
    if dtype.str not in _DTYPES:
        raise MessageError("array", f"an array of {dtype} cannot be sent")
    _check_shape(np.shape(array))
    return np.asarray(array, dtype=dtype, order="C")


def _ordered(value: Value) -> Value:
    if isinstance(value, dict):
        return {name: _ordered(part) for name, part in sorted(value.items())}
    return [_ordered(part) for part in value] if isinstance(value, list) else value


def _described(name: str, array: Array) -> list[Value]:
    wire = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
    return [name, wire.dtype.str, list(wire.shape), sha256(wire.data).hexdigest()]


def _same(left: Array, right: Array) -> bool:
    same_kind = left.dtype.newbyteorder("<") == right.dtype.newbyteorder("<")
    return same_kind and np.array_equal(left, right, equal_nan=left.dtype.kind == "f")
