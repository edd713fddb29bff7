"""A message: named arrays, plain values, bytes; and the one codec every engine uses.

    4 bytes  b"WRM1"             the version is part of the mark
    4 bytes  length of the header, little-endian
    header   JSON: {"values": {…}, "arrays": [[name, dtype, shape], …], "blobs": [[name, length], …]}
    rest     the arrays, then the blobs, in the header's order, with nothing between or after

Decoding executes nothing, allocates no more than the message itself holds, and refuses what it does not know.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from wardround.errors import MessageError

__all__ = ["Array", "Message", "Value", "decode", "encode"]

Array = npt.NDArray[Any]
Value = None | bool | int | float | str | list["Value"] | dict[str, "Value"]

_MARK = b"WRM1"
_LENGTH = struct.Struct("<I")
_LARGEST_HEADER = 16_000_000
_DTYPES = frozenset({"<f8", "<f4", "<f2", "<i8", "<i4", "<i2", "|i1", "<u8", "<u4", "<u2", "|u1", "|b1"})


@dataclass(frozen=True)
class Message:
    """What crosses a door."""

    values: Mapping[str, Value] = field(default_factory=dict)
    arrays: Mapping[str, Array] = field(default_factory=dict, repr=False)
    blobs: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    def value(self, name: str, kind: type) -> Any:
        """A value that must be there and be of `kind`."""
        found = self.values.get(name)
        if not isinstance(found, kind) or (isinstance(found, bool) and kind is not bool):
            raise MessageError("value-missing", f"{name} as {kind.__name__}")
        return found

    def group(self, prefix: str) -> dict[str, Array]:
        """The arrays called `prefix/…`, without the prefix."""
        start = prefix + "/"
        return {name[len(start) :]: array for name, array in self.arrays.items() if name.startswith(start)}


def grouped(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Arrays under a prefix, as `Message.group` finds them."""
    return {f"{prefix}/{name}": array for name, array in arrays.items()}


def encode(message: Message) -> bytes:
    """The message as bytes."""
    arrays = {name: np.asarray(array, order="C") for name, array in message.arrays.items()}
    shapes = [[name, _little(array.dtype), list(array.shape)] for name, array in arrays.items()]
    blobs = [[name, len(blob)] for name, blob in message.blobs.items()]
    try:
        header = json.dumps(
            {"values": dict(message.values), "arrays": shapes, "blobs": blobs}, allow_nan=False, separators=(",", ":")
        ).encode()
    except (TypeError, ValueError) as error:
        raise MessageError("value-kind", "values are JSON without NaN") from error
    bodies = (array.astype(_little(array.dtype), copy=False).tobytes() for array in arrays.values())
    return b"".join([_MARK, _LENGTH.pack(len(header)), header, *bodies, *message.blobs.values()])


def decode(data: bytes) -> Message:
    """The message in `data`; its arrays are read-only views of it."""
    header, rest = _header(data)
    try:
        values, shapes, lengths = header["values"], header["arrays"], header["blobs"]
        if not isinstance(values, dict):
            raise TypeError
        arrays, position = _arrays(rest, shapes)
        blobs, position = _blobs(rest, lengths, position)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise MessageError("header") from error
    if position != len(rest):
        raise MessageError("length", "bytes are left over")
    return Message(values, arrays, blobs)


def _header(data: bytes) -> tuple[dict[str, Any], memoryview]:
    if data[:3] == _MARK[:3] and data[:4] != _MARK:
        raise MessageError("version", "the other side speaks another version")
    start = len(_MARK) + _LENGTH.size
    if data[:4] != _MARK or len(data) < start:
        raise MessageError("mark", "this is no message")
    (length,) = _LENGTH.unpack_from(data, len(_MARK))
    if length > _LARGEST_HEADER or start + length > len(data):
        raise MessageError("length", "the message is cut short")
    try:
        header = json.loads(data[start : start + length])
    except (ValueError, RecursionError) as error:
        raise MessageError("header") from error
    if not isinstance(header, dict):
        raise MessageError("header")
    return header, memoryview(data)[start + length :]


def _arrays(rest: memoryview, shapes: list[Any]) -> tuple[dict[str, Array], int]:
    arrays: dict[str, Array] = {}
    position = 0
    for name, dtype, shape in shapes:
        if dtype not in _DTYPES or name in arrays or not _is_shape(shape) or not isinstance(name, str):
            raise MessageError("array")
        count = math.prod(shape)
        size = count * np.dtype(dtype).itemsize
        if position + size > len(rest):
            raise MessageError("length", "the message is cut short")
        arrays[name] = np.frombuffer(rest, dtype=dtype, count=count, offset=position).reshape(shape)
        position += size
    return arrays, position


def _blobs(rest: memoryview, lengths: list[Any], position: int) -> tuple[dict[str, bytes], int]:
    blobs: dict[str, bytes] = {}
    for name, length in lengths:
        if not isinstance(name, str) or name in blobs or not isinstance(length, int) or length < 0:
            raise MessageError("blob")
        if position + length > len(rest):
            raise MessageError("length", "the message is cut short")
        blobs[name] = bytes(rest[position : position + length])
        position += length
    return blobs, position


def _is_shape(shape: Any) -> bool:
    return (
        isinstance(shape, list)
        and len(shape) <= 8
        and all(isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 2**40 for size in shape)
    )


def _little(dtype: np.dtype[Any]) -> str:
    code = dtype.newbyteorder("<").str
    if code not in _DTYPES:
        raise MessageError("array", f"an array of {dtype} cannot be sent")
    return code
