"""The plain door for predictions: rows of class scores on a public set, which are all that sites share in FedED.

    update/HEAD   [rows, classes] in float32 or float16; of top-k the k largest of each row, [rows, k] in float16
    classes/HEAD  of top-k, which classes those are, in order: uint8, or uint16 where there are more than 256
    weight        a value; float16 would not hold a prediction that was multiplied by it
    digest        a value: SHA-256 of the arrays and the weight

The coordinator reads every prediction, and refuses what cannot be one. The digest tells a message that was damaged from
one that was not: most damage to a row of top-k would leave a row that could be. It does not tell who sent it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Literal, get_args

import numpy as np

from wardround.errors import MessageError, TrainingError
from wardround.federation.aggregation import Rows, Tensors, check_weight
from wardround.federation.message import Array, Message, grouped
from wardround.secure_aggregation.plain import Combined

__all__ = ["PlainPredictions", "Precision", "check_mean"]

Precision = Literal["float32", "float16", "top-k"]
_Shapes = Mapping[str, tuple[int, ...]]

_MOST_CLASSES = 2**16

# How far the sum of a row of probabilities may be from one.
# A softmax in float32 divides by a sum of C numbers, which C roundings of at most 2^-24 have made: C·2^-24 in all.
# Other ways to reckon it have sixteen times as much room.
_SLACK_A_CLASS = 2.0**-20
# To float16 each number p is rounded by at most p·2^-11, or, where it is tiny, by 2^-25, for which there is room above.
# As the numbers add up to one, that is 2^-11 in all; twice that is allowed.
_SLACK_OF_HALVES = 2.0**-10


class PlainPredictions:
    """No protection: the coordinator sees every prediction; a `PlainCodec`.

    Of top-k, whatever the k largest leave to one is spread evenly over the other classes of the row when it arrives. A
    head of no more than k classes sends all of them.
    """

    def __init__(
        self, shapes: _Shapes, *, precision: Precision = "float32", top_k: int = 1, normalised: bool = True
    ) -> None:
        """`shapes` are [rows, classes] by head; `normalised` are probabilities, else they are logits."""
        _check_settings(shapes, precision, top_k=top_k, normalised=normalised)
        self.shapes, self.precision, self.normalised = dict(shapes), precision, normalised
        self.top_k = top_k if precision == "top-k" else 0

    def seal(self, update: Tensors, *, weight: float) -> Message:
        """The predictions at the agreed precision, readable, and their weight beside them."""
        check_weight(weight)
        if _shapes(update) != self.shapes:
            raise MessageError("shapes", "predictions have other heads, rows or classes than the study's public set")
        arrays: dict[str, Array] = {}
        for head, part in update.items():
            with np.errstate(over="ignore"):  # refused below
                rows = np.array(part.whole() if isinstance(part, Rows) else part, np.float32)
            # Before anything is left out of it.
            _check_rows(head, rows, slack=_slack(rows) if self.normalised else None)
            arrays |= self._packed(head, rows)
        sealed = Message({"weight": float(weight), "digest": _digest(arrays, float(weight))}, arrays)
        self.check(sealed, like=update)
        return sealed

    def check(self, sealed: Message, *, like: Tensors) -> None:
        """Refuse other heads, shapes or kinds of number than agreed, what is no prediction, and what was damaged."""
        if _shapes(like) != self.shapes:
            raise MessageError("shapes", "what is expected has other heads, rows or classes than the public set")
        self._unpacked(sealed)

    def reweigh(self, sealed: Message, weight: float) -> Message:
        """Put another weight beside the predictions."""
        arrays = {name: array for name, array in sealed.arrays.items() if name.startswith(("update/", "classes/"))}
        values = {**sealed.values, "weight": weight, "digest": _digest(arrays, weight)}
        return Message(values, sealed.arrays, sealed.blobs)

    def combine(self, sealed: Iterable[Message]) -> Combined:
        """Add in float64, in the order of arrival, each times its weight; one message is in memory at a time."""
        total: dict[str, Array] = {head: np.zeros(shape) for head, shape in self.shapes.items()}
        weight, count = 0.0, 0
        for message in sealed:
            own = message.value("weight", float)
            for head, rows in self._unpacked(message).items():
                total[head] += own * rows
            weight, count = weight + own, count + 1
        if not count:
            raise MessageError("empty", "there is no prediction to combine")
        return Combined(Message({}, grouped("update", total)), weight, count)

    def open(self, combined: Combined) -> dict[str, Array]:
        """Sum over weights, as float32."""
        total = combined.sum.group("update")
        if not combined.weight > 0:
            raise MessageError("empty", "there is no prediction to open")
        if _shapes(total) != self.shapes:
            raise MessageError("shapes", "a sum has other heads, rows or classes than the study's public set")
        with np.errstate(over="ignore"):  # refused below
            mean: dict[str, Array] = {h: np.asarray(rows / combined.weight, np.float32) for h, rows in total.items()}
        for head, rows in mean.items():
            _check_rows(head, rows, slack=self._slack(rows))
        return mean

    def _packed(self, head: str, rows: Array) -> dict[str, Array]:
        if self.precision == "float32":
            return {f"update/{head}": rows}
        with np.errstate(over="ignore"):  # refused when the message is checked
            halves = rows.astype(np.float16)
        if not self.top_k:
            return {f"update/{head}": halves}
        # Stable: of classes that are as likely as one another the first are sent, on every machine.
        largest = np.sort(np.argsort(-rows, axis=1, kind="stable")[:, : self.top_k], axis=1)
        chosen = np.take_along_axis(halves, largest, axis=1)
        return {f"update/{head}": chosen, f"classes/{head}": largest.astype(_class_type(rows.shape[1]))}

    def _unpacked(self, sealed: Message) -> dict[str, Array]:
        """The rows in float64, once it is certain that they are what was sealed."""
        weight = sealed.value("weight", float)
        check_weight(weight)
        update, classes = sealed.group("update"), sealed.group("classes")
        if update.keys() != self.shapes.keys() or classes.keys() != (self.shapes.keys() if self.top_k else set()):
            raise MessageError("shapes", "predictions have other heads than the study's public set")
        unpacked = {
            head: self._spread(head, array, classes[head]) if self.top_k else self._whole(head, array)
            for head, array in update.items()
        }
        arrays = grouped("update", update) | grouped("classes", classes)
        if sealed.value("digest", str) != _digest(arrays, weight):
            raise MessageError("altered", "predictions are not what was sealed; they were damaged on the way")
        return unpacked

    def _whole(self, head: str, array: Array) -> Array:
        _check_form(head, array, kind=np.dtype(self.precision), shape=self.shapes[head])
        _check_rows(head, array, slack=self._slack(array))
        return array.astype(np.float64)

    def _spread(self, head: str, chosen: Array, classes: Array) -> Array:
        """Rows of top-k, the other classes alike."""
        count, width = self.shapes[head]
        kept = min(self.top_k, width)
        _check_form(head, chosen, kind=np.dtype(np.float16), shape=(count, kept))
        _check_form(head, classes, kind=_class_type(width), shape=(count, kept))
        if classes.max(initial=0) >= width or not (classes[:, 1:] > classes[:, :-1]).all():
            raise MessageError("classes", f"{head}: classes are told in order, each once, and are those of the head")
        _check_finite(head, chosen)
        largest = chosen.astype(np.float64)
        left = 1.0 - largest.sum(axis=1, keepdims=True)
        slack = _SLACK_OF_HALVES + _SLACK_A_CLASS * width
        # A class that was left out is at most as likely as the least likely that was not.
        most = (width - kept) * largest.min(axis=1, keepdims=True)
        _check_probabilities(head, largest, 0.0)
        if not ((left >= -slack) & (left <= most + slack)).all():
            raise MessageError("sum", f"{head}: the {kept} largest of a row cannot be what they are said to be")
        rows = np.repeat(left.clip(min=0.0) / max(width - kept, 1), width, axis=1)
        np.put_along_axis(rows, classes.astype(np.int64), largest, axis=1)
        return rows

    def _slack(self, rows: Array) -> float | None:
        """Of rows that came at the agreed precision; None where they need not add up to one."""
        if not self.normalised:
            return None
        return _slack(rows) + (0.0 if self.precision == "float32" else _SLACK_OF_HALVES)


def check_mean(mean: Mapping[str, Array], like: Tensors, *, normalised: bool, tolerance: float) -> None:
    """Refuse, with a `MessageError`, what cannot be the mean of predictions named and shaped `like` these.

    It is for sums under masks and seals, of which no single prediction is ever seen. There, each of n sites rounds each
    number by half a unit of its packing: `tolerance`, by which the sum of a row of C probabilities may miss one, is
    C·n/2 units at least. That a site gave something else shows only where it moves the mean further.
    """
    if _shapes(mean) != _shapes(like):
        raise MessageError("shapes", "the mean has other heads, rows or classes than the public set")
    for head, rows in mean.items():
        if rows.dtype.kind != "f" or rows.ndim != 2:
            raise MessageError("shapes", f"{head}: a mean prediction is rows of numbers")
        _check_rows(head, rows, slack=tolerance if normalised else None, outside=tolerance)


def _check_settings(shapes: _Shapes, precision: str, *, top_k: int, normalised: bool) -> None:
    if precision not in get_args(Precision):
        raise TrainingError(f"precision is {precision!r}; it can be {', '.join(get_args(Precision))}")
    for head, shape in shapes.items():
        if len(shape) != 2 or shape[0] < 0 or not 1 <= shape[1] <= _MOST_CLASSES:
            raise TrainingError(f"{head}: predictions are rows of 1 to {_MOST_CLASSES:,} classes")
    if not shapes:
        raise TrainingError("the model has no head whose predictions could be shared")
    if precision == "top-k":
        _check_top_k(top_k, most=max(classes for _, classes in shapes.values()), normalised=normalised)


def _check_top_k(top_k: int, *, most: int, normalised: bool) -> None:
    if not normalised:
        raise TrainingError("precision is top-k, and of logits those left out cannot be told; exchange probabilities")
    if top_k < 1:
        raise TrainingError(f"top_k is {top_k}; it must be above zero")
    if top_k >= most:
        raise TrainingError(f"top_k is {top_k} where no head has more than {most} classes; float16 sends them in less")


def _shapes(arrays: Tensors) -> dict[str, tuple[int, ...]]:
    return {head: part.shape for head, part in arrays.items()}


def _class_type(classes: int) -> np.dtype[np.unsignedinteger]:
    return np.dtype(np.uint8 if classes <= 256 else np.uint16)


def _slack(rows: Array) -> float:
    """Of probabilities in float32."""
    return _SLACK_A_CLASS * float(rows.shape[1])


def _check_form(head: str, array: Array, *, kind: np.dtype, shape: tuple[int, ...]) -> None:
    if array.dtype != kind or array.shape != shape:
        raise MessageError("shapes", f"{head}: is {array.dtype} {array.shape} where {kind} {shape} was agreed")


def _check_rows(head: str, rows: Array, *, slack: float | None, outside: float = 0.0) -> None:
    """Refuse what are no numbers; with a slack, what are no probabilities, and rows that miss one by more than it."""
    _check_finite(head, rows)
    if slack is None:
        return
    _check_probabilities(head, rows, outside)
    if not np.abs(rows.sum(axis=1, dtype=np.float64) - 1.0).max(initial=0.0) <= slack:
        raise MessageError("sum", f"{head}: the probabilities of a row do not add up to one")


def _check_finite(head: str, numbers: Array) -> None:
    if not np.isfinite(numbers).all():
        raise MessageError("not-a-number", f"{head}: holds NaN, infinity, or what its precision cannot hold")


def _check_probabilities(head: str, numbers: Array, outside: float) -> None:
    if not (numbers.min(initial=0.0) >= -outside and numbers.max(initial=1.0) <= 1.0 + outside):
        raise MessageError("range", f"{head}: holds what is no probability")


def _digest(arrays: Mapping[str, Array], weight: float) -> str:
    """Of what is sealed and nothing else: more may travel in the same message."""
    found = sha256(weight.hex().encode())
    for name, array in sorted(arrays.items()):
        wire = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
        found.update(json.dumps([name, wire.dtype.str, wire.shape]).encode())
        found.update(wire.data)
    return found.hexdigest()
