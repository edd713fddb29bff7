"""Readable predictions: rows of class scores on a public set, the only thing that sites share in FedED.

    update/HEAD   [rows, classes] in float32 or float16; for top-k the k largest of each row, [rows, k] in float16
    classes/HEAD  for top-k, the classes of these numbers, ascending: uint8, or uint16 for more than 256 classes
    weight        a value of its own, because a prediction times its weight would not fit into float16
    digest        a value: SHA-256 of the arrays and the weight

The coordinator reads every prediction and refuses an impossible one. The digest detects damage, because a damaged row
of top-k would usually still be plausible. The digest does not authenticate the sender.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Literal, get_args

import numpy as np

from wardround.errors import MessageError, TrainingError
from wardround.federation.aggregation import Tensors, check_weight, dense
from wardround.federation.message import Array, Message, grouped

__all__ = ["PlainPredictions", "Precision", "PredictionSum", "check_mean"]

Precision = Literal["float32", "float16", "top-k"]
_Shapes = Mapping[str, tuple[int, ...]]

_MOST_CLASSES = 2**16

# How far the sum of a row of probabilities may be from one.
# A softmax in float32 divides by a sum of C numbers, which is off by C roundings of at most 2^-24: C·2^-24 in all.
# The limit is sixteen times as large, for other ways to compute it.
_SLACK_PER_CLASS = 2.0**-20
# Rounding to float16 changes a number p by at most p·2^-11, or a tiny one by 2^-25, which the limit above covers.
# The numbers add up to one, so this is 2^-11 in all; twice that is allowed.
_FLOAT16_SLACK = 2.0**-10


class PlainPredictions:
    """Readable predictions at an agreed precision; a `PlainCodec`.

    For top-k, the receiver spreads the rest of each row, one minus its k largest numbers, evenly over the other
    classes. A head with at most k classes sends all of them.
    """

    def __init__(
        self, shapes: _Shapes, *, precision: Precision = "float32", top_k: int = 1, normalised: bool = True
    ) -> None:
        """Agree on `shapes`, [rows, classes] by head; `normalised` predictions are probabilities, others are logits."""
        _check_settings(shapes, precision, top_k=top_k, normalised=normalised)
        self.shapes, self.precision, self.normalised = dict(shapes), precision, normalised
        self.top_k = top_k if precision == "top-k" else 0

    def seal(self, update: Tensors, *, weight: float) -> Message:
        """Return the predictions at the agreed precision, with their weight as a value."""
        check_weight(weight)
        if _shapes(update) != self.shapes:
            raise MessageError("shapes", "predictions have other heads, rows or classes than the study's public set")
        arrays: dict[str, Array] = {}
        for head, part in update.items():
            with np.errstate(over="ignore"):  # refused below
                rows = np.array(dense(part), np.float32)
            # Before top-k drops any number.
            _check_rows(head, rows, slack=_slack(rows) if self.normalised else None)
            arrays |= self._pack(head, rows)
        sealed = Message({"weight": float(weight), "digest": _digest(arrays, float(weight))}, arrays)
        self.check(sealed, like=update)
        return sealed

    def check(self, sealed: Message, *, like: Tensors) -> None:
        """Raise a `MessageError` for other heads, shapes or dtypes than agreed, impossible predictions, and damage."""
        if _shapes(like) != self.shapes:
            raise MessageError("shapes", "the expected arrays have other heads, rows or classes than the public set")
        self.unpack(sealed)

    def reweigh(self, sealed: Message, weight: float) -> Message:
        """Return the same predictions with another weight."""
        arrays = {name: array for name, array in sealed.arrays.items() if name.startswith(("update/", "classes/"))}
        values = {**sealed.values, "weight": weight, "digest": _digest(arrays, weight)}
        return Message(values, sealed.arrays, sealed.blobs)

    def sum(self) -> PredictionSum:
        """Return an empty sum."""
        return PredictionSum(self)

    def _pack(self, head: str, rows: Array) -> dict[str, Array]:
        if self.precision == "float32":
            return {f"update/{head}": rows}
        with np.errstate(over="ignore"):  # refused when the message is checked
            halves = rows.astype(np.float16)
        if not self.top_k:
            return {f"update/{head}": halves}
        # Stable: among equally likely classes the first are sent, on every machine.
        largest = np.sort(np.argsort(-rows, axis=1, kind="stable")[:, : self.top_k], axis=1)
        chosen = np.take_along_axis(halves, largest, axis=1)
        return {f"update/{head}": chosen, f"classes/{head}": largest.astype(_class_type(rows.shape[1]))}

    def unpack(self, sealed: Message) -> dict[str, Array]:
        """Check the predictions and return their rows in float64."""
        weight = sealed.value("weight", float)
        check_weight(weight)
        update, classes = sealed.group("update"), sealed.group("classes")
        if update.keys() != self.shapes.keys() or classes.keys() != (self.shapes.keys() if self.top_k else set()):
            raise MessageError("shapes", "predictions have other heads than the study's public set")
        unpacked: dict[str, Array] = {}
        for head, array in update.items():
            if self.top_k:
                unpacked[head] = self._spread(head, array, classes[head])
                continue
            _check_form(head, array, kind=np.dtype(self.precision), shape=self.shapes[head])
            _check_rows(head, array, slack=self.slack(array))
            unpacked[head] = array.astype(np.float64)
        arrays = grouped("update", update) | grouped("classes", classes)
        if sealed.value("digest", str) != _digest(arrays, weight):
            raise MessageError("altered", "predictions differ from their digest; they were damaged on the way")
        return unpacked

    def _spread(self, head: str, chosen: Array, classes: Array) -> Array:
        """Return whole rows from their k largest numbers."""
        count, width = self.shapes[head]
        kept = min(self.top_k, width)
        _check_form(head, chosen, kind=np.dtype(np.float16), shape=(count, kept))
        _check_form(head, classes, kind=_class_type(width), shape=(count, kept))
        if classes.max(initial=0) >= width or not (classes[:, 1:] > classes[:, :-1]).all():
            raise MessageError("classes", f"{head}: classes must be ascending, without repeats, and belong to the head")
        _check_finite(head, chosen)
        largest = chosen.astype(np.float64)
        remainder = 1.0 - largest.sum(axis=1, keepdims=True)
        slack = _FLOAT16_SLACK + _SLACK_PER_CLASS * width
        # A class that was left out is at most as likely as the least likely class that was sent.
        most = (width - kept) * largest.min(axis=1, keepdims=True)
        _check_probabilities(head, largest, 0.0)
        if not ((remainder >= -slack) & (remainder <= most + slack)).all():
            raise MessageError("sum", f"{head}: the {kept} largest numbers of a row cannot belong to one distribution")
        rows = np.repeat(remainder.clip(min=0.0) / max(width - kept, 1), width, axis=1)
        np.put_along_axis(rows, classes.astype(np.int64), largest, axis=1)
        return rows

    def slack(self, rows: Array) -> float | None:
        """Return how far the sum of a row may be from one; None for logits, which need not add up to one."""
        if not self.normalised:
            return None
        return _slack(rows) + (0.0 if self.precision == "float32" else _FLOAT16_SLACK)


class PredictionSum:
    """A weighted sum of predictions in float64; the total is their weighted mean in float32."""

    def __init__(self, codec: PlainPredictions) -> None:
        self._codec = codec
        self._total: dict[str, Array] = {head: np.zeros(shape) for head, shape in codec.shapes.items()}
        self.weight = 0.0
        self.count = 0

    def add(self, message: Message) -> None:
        """Add the predictions of one site."""
        own = message.value("weight", float)
        for head, rows in self._codec.unpack(message).items():
            self._total[head] += own * rows
        self.weight, self.count = self.weight + own, self.count + 1

    def total(self) -> dict[str, Array]:
        """Return the mean; raise a `MessageError` if it cannot be a mean of predictions."""
        if not self.count:
            raise MessageError("empty", "there is no prediction to add")
        with np.errstate(over="ignore"):  # refused below
            mean: dict[str, Array] = {
                head: np.asarray(rows / self.weight, np.float32) for head, rows in self._total.items()
            }
        for head, rows in mean.items():
            _check_rows(head, rows, slack=self._codec.slack(rows))
        return mean


def check_mean(mean: Mapping[str, Array], like: Tensors, *, normalised: bool, tolerance: float) -> None:
    """Raise a `MessageError` unless this can be the mean of predictions with the names and shapes of `like`.

    This is for protected sums, in which single predictions are not visible. Each of n sites rounds each number by up to
    half a unit of its packing. The sum of a row of C probabilities may therefore differ from one by C·n/2 units, and
    `tolerance` must be at least that. A site that submits something else is noticed only if it moves the mean further.
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
    if precision != "top-k":
        return
    if not normalised:
        raise TrainingError(
            "precision is top-k, which cannot restore the logits that it leaves out; exchange probabilities"
        )
    if top_k < 1:
        raise TrainingError(f"top_k is {top_k}; it must be above zero")
    most = max(classes for _, classes in shapes.values())
    if top_k >= most:
        raise TrainingError(
            f"top_k is {top_k}, and no head has more than {most} classes; float16 sends all of them in fewer bytes"
        )


def _shapes(arrays: Tensors) -> dict[str, tuple[int, ...]]:
    return {head: part.shape for head, part in arrays.items()}


def _class_type(classes: int) -> np.dtype[np.unsignedinteger]:
    return np.dtype(np.uint8 if classes <= 256 else np.uint16)


def _slack(rows: Array) -> float:
    """Return how far the sum of a row of float32 probabilities may be from one."""
    return _SLACK_PER_CLASS * float(rows.shape[1])


def _check_form(head: str, array: Array, *, kind: np.dtype, shape: tuple[int, ...]) -> None:
    if array.dtype != kind or array.shape != shape:
        raise MessageError("shapes", f"{head}: is {array.dtype} {array.shape}, not {kind} {shape} as agreed")


def _check_rows(head: str, rows: Array, *, slack: float | None, outside: float = 0.0) -> None:
    """Raise for numbers that are not finite and, with a slack, for rows that are not probabilities within the slack."""
    _check_finite(head, rows)
    if slack is None:
        return
    _check_probabilities(head, rows, outside)
    if not np.abs(rows.sum(axis=1, dtype=np.float64) - 1.0).max(initial=0.0) <= slack:
        raise MessageError("sum", f"{head}: the probabilities of a row do not add up to one")


def _check_finite(head: str, numbers: Array) -> None:
    if not np.isfinite(numbers).all():
        raise MessageError("not-a-number", f"{head}: holds NaN, infinity, or a number that its precision cannot hold")


def _check_probabilities(head: str, numbers: Array, outside: float) -> None:
    if not (numbers.min(initial=0.0) >= -outside and numbers.max(initial=1.0) <= 1.0 + outside):
        raise MessageError("range", f"{head}: holds a number that is not a probability")


def _digest(arrays: Mapping[str, Array], weight: float) -> str:
    """Return the digest of the predictions only; the message may hold more."""
    found = sha256(weight.hex().encode())
    for name, array in sorted(arrays.items()):
        wire = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
        found.update(json.dumps([name, wire.dtype.str, wire.shape]).encode())
        found.update(wire.data)
    return found.hexdigest()
