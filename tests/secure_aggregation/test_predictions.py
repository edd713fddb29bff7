from __future__ import annotations

import random
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies

from wardround.errors import MessageError, TrainingError
from wardround.federation.aggregation import Reader, SparseRows
from wardround.federation.message import Array, Message, decode, encode, grouped
from wardround.secure_aggregation.plain import PlainCodec, PlainServer
from wardround.secure_aggregation.predictions import PlainPredictions, Precision, PredictionSum, _digest, check_mean

PRECISIONS: tuple[Precision, ...] = ("float32", "float16", "top-k")
SURE = {"relations": np.array([[0.75, 0.15, 0.1], [0.25, 0.25, 0.5]], np.float32)}


def door(like: dict[str, Array], precision: Precision = "float32", **options: Any) -> PlainPredictions:
    return PlainPredictions({head: rows.shape for head, rows in like.items()}, precision=precision, **options)


def random_rows(rows: int, classes: int, *, seed: int = 0) -> Array:
    drawn = np.random.default_rng(seed).dirichlet(np.full(classes, 0.3), rows)
    return np.asarray(drawn / drawn.sum(1, keepdims=True), np.float32)


def summed(plain: PlainPredictions, messages: Iterable[Message]) -> PredictionSum:
    running = plain.sum()
    for message in messages:
        running.add(message)
    return running


def mean(plain: PlainPredictions, *messages: Message) -> dict[str, Array]:
    return summed(plain, messages).total()


def raw(weight: object = 1.0, **arrays: Array) -> Message:
    """Return a message that a site might send without `seal`; `classes_HEAD` are the classes of a head."""
    update = {name: array for name, array in arrays.items() if not name.startswith("classes_")}
    classes = {name.removeprefix("classes_"): a for name, a in arrays.items() if name.startswith("classes_")}
    named = grouped("update", update) | grouped("classes", classes)
    digest = _digest(named, weight) if isinstance(weight, float) else ""
    return Message({"weight": weight, "digest": digest}, named)  # type: ignore[dict-item]


def code_of(call: Callable[..., object], *arguments: object, **options: object) -> str:
    with pytest.raises(MessageError) as caught:
        call(*arguments, **options)
    return caught.value.code


# What is sent, and the mean of it.


def test_it_is_an_aggregator_that_the_coordinator_reads() -> None:
    codec: PlainCodec = door(SURE)
    assert PlainServer(codec).reader is Reader.COORDINATOR


def test_the_weighted_mean_by_hand() -> None:
    plain = door(SURE)
    other = {"relations": np.array([[0.25, 0.5, 0.25], [0.0, 1.0, 0.0]], np.float32)}
    first, second = plain.seal(SURE, weight=3.0), plain.seal(other, weight=1.0)
    assert first.arrays["update/relations"].tolist() == SURE["relations"].tolist()  # not multiplied
    assert first.values["weight"] == 3.0
    combined = summed(plain, [first, second])
    assert (combined.weight, combined.count) == (4.0, 2)
    found = combined.total()["relations"]
    # (3·0.75 + 0.25) / 4, (3·0.15 + 0.5) / 4, (3·0.1 + 0.25) / 4 and (0.75, 0.75 + 1, 1.5) / 4
    np.testing.assert_allclose(found, [[0.625, 0.2375, 0.1375], [0.1875, 0.4375, 0.375]], atol=1e-7)
    assert found.dtype == np.float32


@pytest.mark.parametrize("precision", PRECISIONS)
def test_predictions_with_another_weight(precision: Precision) -> None:
    """(1·SURE + 1·other) / 2 in place of (3·SURE + 1·other) / 4, up to float16."""
    plain = door(SURE, precision, top_k=2)
    other = {"relations": np.array([[0.25, 0.5, 0.25], [0.0, 1.0, 0.0]], np.float32)}
    first, second = plain.seal(SURE, weight=3.0), plain.seal(other, weight=1.0)
    first = replace(first, values={**first.values, "loss": 0.5}, blobs={"more": b"x"})
    before = encode(first)
    again = plain.reweigh(first, 1.0)
    plain.check(again, like=SURE)  # its digest is that of the new weight
    assert (again.values["weight"], again.values["loss"], again.blobs) == (1.0, 0.5, {"more": b"x"})
    assert again.values["digest"] != first.values["digest"]
    assert again.arrays.keys() == first.arrays.keys()
    assert all(again.arrays[name] is array for name, array in first.arrays.items())  # rows are not multiplied
    assert encode(first) == before
    found = summed(plain, [again, second])
    assert (found.weight, found.count) == (2.0, 2)
    np.testing.assert_allclose(found.total()["relations"], [[0.5, 0.325, 0.175], [0.125, 0.625, 0.25]], atol=1e-3)


def test_damaged_predictions_are_found_before_they_are_reweighed() -> None:
    """`reweigh` makes a digest of what it gets: the coordinator checks first."""
    plain = door(SURE)
    sealed = plain.seal(SURE, weight=3.0)
    swapped = np.ascontiguousarray(sealed.arrays["update/relations"][::-1])
    damaged = replace(sealed, arrays={"update/relations": swapped})
    assert code_of(plain.check, damaged, like=SURE) == "altered"


def test_top_1_spreads_the_rest_evenly() -> None:
    plain = door(SURE, "top-k", top_k=1)
    sealed = plain.seal(SURE, weight=1.0)
    assert sealed.arrays["update/relations"].tolist() == [[0.75], [0.5]]
    assert sealed.arrays["classes/relations"].tolist() == [[0], [2]]
    assert sealed.arrays["update/relations"].dtype == np.float16
    assert sealed.arrays["classes/relations"].dtype == np.uint8
    assert mean(plain, sealed)["relations"].tolist() == [[0.75, 0.125, 0.125], [0.25, 0.25, 0.5]]


def test_top_2_of_four_in_the_order_of_the_classes() -> None:
    like = {"tags": np.array([[0.125, 0.5, 0.0, 0.375], [0.25, 0.25, 0.25, 0.25]], np.float32)}
    plain = door(like, "top-k", top_k=2)
    sealed = plain.seal(like, weight=2.0)
    assert sealed.arrays["classes/tags"].tolist() == [[1, 3], [0, 1]]  # of equals, the first
    assert sealed.arrays["update/tags"].tolist() == [[0.5, 0.375], [0.25, 0.25]]
    # 1 − 0.875 over two classes
    assert mean(plain, sealed)["tags"].tolist() == [[0.0625, 0.5, 0.0625, 0.375], [0.25, 0.25, 0.25, 0.25]]


def test_among_equal_classes_the_first_are_sent() -> None:
    twice = np.where(np.arange(300) % 3 == 0, 2.0, 1.0)  # every third class is twice as likely: 400 parts in all
    like = {"tags": np.asarray(twice[None] / 400, np.float32)}
    sealed = door(like, "top-k", top_k=5).seal(like, weight=1.0)
    assert sealed.arrays["classes/tags"].tolist() == [[0, 3, 6, 9, 12]]


def test_a_head_of_no_more_than_k_classes_sends_all() -> None:
    like = {"pairs": np.array([[0.25, 0.75]], np.float32), "tags": np.array([[0.5, 0.25, 0.125, 0.125]], np.float32)}
    plain = door(like, "top-k", top_k=3)
    sealed = plain.seal(like, weight=1.0)
    assert sealed.arrays["classes/pairs"].tolist() == [[0, 1]]
    found = mean(plain, sealed)
    assert {head: rows.tolist() for head, rows in found.items()} == {h: rows.tolist() for h, rows in like.items()}
    short = raw(
        pairs=np.array([[0.25, 0.5]], np.float16),
        classes_pairs=np.array([[0, 1]], np.uint8),
        tags=sealed.arrays["update/tags"],
        classes_tags=sealed.arrays["classes/tags"],
    )
    assert code_of(plain.check, short, like=like) == "sum"  # nobody is left to share the rest


@pytest.mark.parametrize(("classes", "kind"), [(256, np.uint8), (257, np.uint16)])
def test_class_numbers_take_as_many_bytes_as_they_need(classes: int, kind: type[np.generic]) -> None:
    like = {"tags": np.zeros((1, classes), np.float32)}
    like["tags"][0, -1] = 1.0
    plain = door(like, "top-k")
    sealed = plain.seal(like, weight=1.0)
    assert sealed.arrays["classes/tags"].dtype == kind
    assert mean(plain, sealed)["tags"].argmax() == classes - 1


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_logits_are_any_numbers(precision: Precision) -> None:
    like = {"relations": np.array([[-3.5, 12.0], [0.0, -60000.0]], np.float32)}
    plain = door(like, precision, normalised=False)
    first = plain.seal(like, weight=1e12)  # times which float16 would overflow
    assert first.arrays["update/relations"].dtype == np.dtype(precision)
    assert mean(plain, first)["relations"][0].tolist() == [-3.5, 12.0]
    halved = plain.seal({"relations": like["relations"] / 2}, weight=1e12)
    assert mean(plain, first, halved)["relations"][0].tolist() == [-2.625, 9.0]


def test_logits_beyond_float16_are_refused_at_the_site_without_a_warning() -> None:
    like = {"relations": np.array([[70000.0, 0.0]], np.float32)}
    assert code_of(door(like, "float16", normalised=False).seal, like, weight=1.0) == "not-a-number"
    door(like, normalised=False).seal(like, weight=1.0)
    beyond = {"relations": np.array([[1e300, 0.0]])}
    assert code_of(door(like, normalised=False).seal, beyond, weight=1.0) == "not-a-number"


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_head_without_rows(precision: Precision) -> None:
    like = {"relations": np.zeros((0, 3), np.float32), "tags": random_rows(4, 3)}
    plain = door(like, precision)
    sealed = decode(encode(plain.seal(like, weight=1.0)))
    plain.check(sealed, like=like)
    assert mean(plain, sealed)["relations"].shape == (0, 3)


def test_row_updates_are_expanded_to_the_whole_table() -> None:
    like = {"relations": np.array([[0.0, 0.0], [2.5, 1.0]], np.float32)}
    plain = door(like, normalised=False)
    part = SparseRows(np.array([1]), like["relations"][1:], 2)
    assert mean(plain, plain.seal({"relations": part}, weight=1.0))["relations"].tolist() == [[0, 0], [2.5, 1.0]]


def test_combining_holds_one_sum_and_one_message() -> None:
    plain = door(SURE)
    seen: list[weakref.ref[Array]] = []
    most_alive = 0

    def arriving() -> Iterator[Message]:
        nonlocal most_alive
        for _ in range(30):
            message = plain.seal(SURE, weight=2.0)
            seen.append(weakref.ref(message.arrays["update/relations"]))
            most_alive = max(most_alive, sum(one() is not None for one in seen))
            yield message
            del message

    assert summed(plain, arriving()).count == 30
    assert most_alive == 2  # the one that arrives, and the one just added, which `summed` still has a name for


def test_inputs_are_not_changed() -> None:
    plain = door(SURE)
    given_before = SURE["relations"].copy()
    sealed = plain.seal(SURE, weight=1.0)
    sealed.arrays["update/relations"][0] = 9.0
    assert SURE["relations"].tolist() == given_before.tolist()
    message = decode(encode(plain.seal(SURE, weight=1.0)))
    before = encode(message)
    summed(plain, [message, message])
    assert encode(message) == before


def test_a_mean_of_no_sites_is_refused() -> None:
    plain = door(SURE)
    assert code_of(plain.sum().total) == "empty"
    for number in (np.nan, 1e300):
        running = summed(plain, [plain.seal(SURE, weight=1.0)])
        running._total["relations"][:] = number
        assert code_of(running.total) == "not-a-number"


probabilities = st.tuples(st.integers(1, 4), st.integers(2, 12), st.integers(0, 2**32 - 1), st.floats(0.01, 1e5))


@settings(max_examples=100, deadline=None)
@given(probabilities, st.integers(1, 5))
def test_it_is_numpys_average_to_its_precision(drawn: tuple[int, int, int, float], sites: int) -> None:
    rows, classes, seed, weight = drawn
    parts = [{"h": random_rows(rows, classes, seed=seed + site)} for site in range(sites)]
    weights = [weight * (1 + site) for site in range(sites)]
    expected = np.average([part["h"].astype(np.float64) for part in parts], axis=0, weights=weights)
    for precision, error in (("float32", 1e-6), ("float16", 2.0**-12 + 1e-6)):
        plain = door(parts[0], precision)  # type: ignore[arg-type]
        sealed = [plain.seal(part, weight=w) for part, w in zip(parts, weights, strict=True)]
        assert np.abs(mean(plain, *sealed)["h"] - expected).max() <= error


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n - 1))), st.integers(0, 2**32 - 1))
def test_top_k_keeps_the_largest_and_the_sum(sizes: tuple[int, int], seed: int) -> None:
    classes, top_k = sizes
    like = {"h": random_rows(5, classes, seed=seed)}
    plain = door(like, "top-k", top_k=top_k)
    found = mean(plain, plain.seal(like, weight=7.0))["h"]
    assert np.abs(found.sum(1) - 1).max() <= 2.0**-11 + 1e-6
    largest = np.argsort(-like["h"], axis=1, kind="stable")[:, :top_k]
    kept = np.take_along_axis(like["h"], largest, 1)
    assert np.abs(np.take_along_axis(found, largest, 1) - kept).max() <= 2.0**-12 + 1e-6


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 300).flatmap(
        lambda classes: numpy_strategies.arrays(np.float32, (3, classes), elements=st.floats(-80, 80, width=32))
    )
)
def test_every_softmax_passes(logits: Array) -> None:
    like = {"h": torch.from_numpy(logits).softmax(-1).numpy()}
    for precision in PRECISIONS if logits.shape[1] > 1 else PRECISIONS[:2]:
        plain = door(like, precision)
        plain.check(plain.seal(like, weight=1.0), like=like)


# What cannot be a prediction.


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf"), 1e-300, 1e300])
def test_a_weight_is_a_number_above_zero(weight: float) -> None:
    plain = door(SURE)
    assert code_of(plain.seal, SURE, weight=weight) == "weight"
    forged = raw(weight, **SURE)
    assert code_of(plain.check, forged, like=SURE) == "weight"
    assert code_of(summed, plain, [forged]) == "weight"


@pytest.mark.parametrize("weight", [None, "1.0", 1, True, [1.0]])
def test_a_weight_of_another_kind_is_refused(weight: object) -> None:
    assert code_of(door(SURE).check, raw(weight, **SURE), like=SURE) == "value-missing"


@pytest.mark.parametrize(
    "other",
    [
        {"relations": np.full((3, 3), 1 / 3, np.float32)},
        {"relations": np.full((2, 2), 0.5, np.float32)},
        {"relations": np.full((3, 2), 0.5, np.float32)},
        {"relations": np.full(6, 1.0, np.float32)},
        {"relations": np.float32(1.0).reshape(())},
        {"tags": SURE["relations"]},
        {**SURE, "tags": SURE["relations"]},
        {**SURE, "classes_relations": np.zeros((2, 1), np.uint8)},
        {"relations": SURE["relations"].astype(np.float64)},
        {"relations": SURE["relations"].astype(np.float16)},
        {"relations": np.array([[1, 0, 0], [0, 1, 0]])},
        {},
    ],
    ids=[
        "rows",
        "classes",
        "turned",
        "flat",
        "no axis",
        "renamed",
        "one more",
        "classes of top-k",
        "float64",
        "float16",
        "whole numbers",
        "nothing",
    ],
)
def test_other_heads_shapes_and_kinds_are_refused(other: dict[str, Array]) -> None:
    plain = door(SURE)
    good, bad = plain.seal(SURE, weight=1.0), raw(**other)
    assert code_of(plain.check, bad, like=SURE) == "shapes"
    assert code_of(summed, plain, [bad]) == "shapes"
    assert code_of(summed, plain, [good, bad]) == "shapes"


def test_a_site_does_not_seal_unexpected_predictions() -> None:
    plain = door(SURE)
    assert code_of(plain.seal, {"relations": SURE["relations"][:1]}, weight=1.0) == "shapes"
    assert code_of(plain.seal, {}, weight=1.0) == "shapes"
    good = plain.seal(SURE, weight=1.0)
    assert code_of(plain.check, good, like={"relations": SURE["relations"][:1]}) == "shapes"


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_nan_and_infinity_are_refused_at_both_ends(precision: Precision, number: float) -> None:
    plain = door(SURE, precision)
    wrong = {"relations": SURE["relations"].copy()}
    wrong["relations"][1, 1] = number  # not among the largest: top-k would leave NaN out
    assert code_of(plain.seal, wrong, weight=1.0) == "not-a-number"
    arrays = {
        f"{k.replace('update/', '').replace('/', '_')}": a for k, a in plain.seal(SURE, weight=1.0).arrays.items()
    }
    arrays["relations"] = arrays["relations"].copy()
    arrays["relations"][0, 0] = number
    assert code_of(plain.check, raw(**arrays), like=SURE) == "not-a-number"


@pytest.mark.parametrize("precision", ["float32", "float16"])
@pytest.mark.parametrize(
    ("row", "code"),
    [
        ([0.5, 0.5, 0.01], "sum"),
        ([0.5, 0.49, 0.0], "sum"),
        ([0.0, 0.0, 0.0], "sum"),
        ([1.0, 1.0, 1.0], "sum"),
        ([1.5, -0.5, 0.0], "range"),
        ([1.001, -0.001, 0.0], "range"),
    ],
)
def test_rows_that_are_not_a_distribution_are_refused(precision: Precision, row: list[float], code: str) -> None:
    plain = door(SURE, precision)
    wrong = np.array([[0.75, 0.15, 0.1], row], np.float32)
    assert code_of(plain.seal, {"relations": wrong}, weight=1.0) == code
    assert code_of(plain.check, raw(relations=wrong.astype(precision)), like=SURE) == code


def test_the_slack_of_a_sum_depends_on_the_precision() -> None:
    # 3·2^-20 in float32; in float16 2^-10 more, and a step of float16 below one is 2^-11.
    for precision, allowed, refused in (("float32", 2.0**-19, 2.0**-18), ("float16", 2.0**-10, 2.0**-9)):
        plain = door(SURE, precision)  # type: ignore[arg-type]
        for off, passes in ((allowed, True), (refused, False)):
            message = raw(relations=np.array([[1 - off, 0, 0], [0, 0, 1]], precision))
            if passes:
                plain.check(message, like=SURE)
            else:
                assert code_of(plain.check, message, like=SURE) == "sum"


@pytest.mark.parametrize(
    ("largest", "classes", "code"),
    [
        ([[0.75], [0.5]], [[0], [3]], "classes"),  # there are three
        ([[0.75], [0.5]], [[255], [0]], "classes"),
        ([[0.75], [0.25]], [[0], [0]], "sum"),  # then another class has more than 0.25
        ([[0.75], [0.0]], [[0], [0]], "sum"),
        ([[0.75], [1.01]], [[0], [0]], "range"),
        ([[0.75], [-0.5]], [[0], [0]], "range"),
        ([[0.75, 0.25], [0.5, 0.25]], [[0, 1], [0, 1]], "shapes"),  # k is one
        ([0.75, 0.5], [0, 1], "shapes"),
    ],
)
def test_impossible_top_1_rows_are_refused(largest: Any, classes: Any, code: str) -> None:
    plain = door(SURE, "top-k", top_k=1)
    message = raw(relations=np.array(largest, np.float16), classes_relations=np.array(classes, np.uint8))
    assert code_of(plain.check, message, like=SURE) == code
    assert code_of(summed, plain, [message]) == code


@pytest.mark.parametrize(
    ("largest", "classes", "code"),
    [
        ([0.5, 0.25], [1, 1], "classes"),
        ([0.5, 0.25], [2, 1], "classes"),
        ([0.75, 0.5], [0, 1], "sum"),
        ([0.5, 0.125], [0, 1], "sum"),  # 0.375 is left for one class, which would be larger than the second
    ],
)
def test_impossible_top_2_rows_are_refused(largest: Any, classes: Any, code: str) -> None:
    like = {"h": np.array([[0.5, 0.25, 0.25]], np.float32)}
    message = raw(h=np.array([largest], np.float16), classes_h=np.array([classes], np.uint8))
    assert code_of(door(like, "top-k", top_k=2).check, message, like=like) == code


@pytest.mark.parametrize("kind", [np.uint16, np.int8, np.int64, np.float16, np.bool_])
def test_classes_of_another_kind_are_refused(kind: type[np.generic]) -> None:
    plain = door(SURE, "top-k")
    message = raw(relations=np.array([[0.75], [0.5]], np.float16), classes_relations=np.array([[0], [1]], kind))
    assert code_of(plain.check, message, like=SURE) == "shapes"
    without = raw(relations=np.array([[0.75], [0.5]], np.float16))
    assert code_of(plain.check, without, like=SURE) == "shapes"


@pytest.mark.parametrize(
    ("shapes", "options", "reason"),
    [
        ({"h": (2, 3)}, {"precision": "float8"}, "precision is 'float8'"),
        ({"h": (2, 3)}, {"precision": "top-k", "normalised": False}, "exchange probabilities"),
        ({"h": (2, 3)}, {"precision": "top-k", "top_k": 0}, "top_k is 0"),
        ({"h": (2, 3)}, {"precision": "top-k", "top_k": 3}, "no head has more than 3 classes"),
        ({"h": (2, 70000)}, {}, "h: predictions are rows of 1 to 65,536 classes"),
        ({"h": (2, 0)}, {}, "h: predictions are rows"),
        ({"h": (2,)}, {}, "h: predictions are rows"),
        ({}, {}, "no head"),
    ],
)
def test_invalid_settings_are_refused(shapes: Any, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(TrainingError, match=reason):
        PlainPredictions(shapes, **options)


# Damage.


def two_heads() -> dict[str, Array]:
    return {"relations": random_rows(3, 2, seed=1), "tags": random_rows(2, 5, seed=2)}


def arrived(plain: PlainPredictions, data: bytes, like: dict[str, Array]) -> dict[str, Array] | None:
    """Return the numbers that a coordinator reads from these bytes, or None if it refuses them."""
    try:
        message = decode(data)
        plain.check(message, like=like)
    except MessageError:
        return None
    return mean(plain, message)


def same(left: dict[str, Array], right: dict[str, Array]) -> bool:
    return left.keys() == right.keys() and all(np.array_equal(left[head], right[head]) for head in left)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("weight", [1.0, 37.0])
def test_every_bit_that_flips_is_refused_or_changes_no_number(precision: Precision, weight: float) -> None:
    like = two_heads()
    plain = door(like, precision)
    data = encode(plain.seal(like, weight=weight))
    # Beside another site's, so that a weight that changed would show.
    other = plain.seal({head: np.roll(rows, 1, 1) for head, rows in like.items()}, weight=5.0)
    expected = mean(plain, other, decode(data))
    refused = 0
    for place in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[place] ^= 1 << bit
            if arrived(plain, bytes(damaged), like) is None:
                refused += 1
            else:
                assert same(mean(plain, other, decode(bytes(damaged))), expected), (place, bit)
    assert refused > 0.95 * 8 * len(data)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_damaged_byte_ranges_are_refused_or_change_no_number(precision: Precision) -> None:
    like = two_heads()
    plain = door(like, precision)
    data = encode(plain.seal(like, weight=2.0))
    expected, chance = mean(plain, decode(data)), random.Random(5)
    for _ in range(3000):
        start = chance.randrange(len(data))
        stop = min(len(data), start + chance.randint(1, 40))
        new = chance.choice(
            [bytes(stop - start), chance.randbytes(stop - start), b"", data[:16], data[start:stop][::-1], b"\xff" * 4]
        )
        found = arrived(plain, data[:start] + new + data[stop:], like)
        assert found is None or same(found, expected)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_swapped_or_reordered_arrays_are_refused(precision: Precision) -> None:
    like = {"a": random_rows(4, 3, seed=1), "b": random_rows(4, 3, seed=2)}
    plain = door(like, precision)
    sealed = plain.seal(like, weight=1.0)
    swapped = {f"{n[:-1]}{'b' if n.endswith('a') else 'a'}": array for n, array in sealed.arrays.items()}
    for arrays in (
        swapped,
        {name: array[::-1] for name, array in sealed.arrays.items()},
        {name: np.zeros_like(array) + array[:1] for name, array in sealed.arrays.items()},
    ):
        assert code_of(plain.check, replace(sealed, arrays=arrays), like=like) == "altered"
    assert code_of(plain.check, replace(sealed, values={**sealed.values, "weight": 2.0}), like=like) == "altered"
    assert code_of(plain.check, replace(sealed, values={"weight": 1.0}), like=like) == "value-missing"
    reordered = replace(sealed, arrays=dict(reversed(sealed.arrays.items())))
    assert same(mean(plain, reordered), mean(plain, sealed))


def test_a_message_may_contain_more_than_the_predictions() -> None:
    plain = door(SURE)
    sealed = plain.seal(SURE, weight=1.0)
    plain.check(replace(sealed, values={**sealed.values, "loss": 0.5}), like=SURE)


def test_logits_are_not_taken_for_probabilities() -> None:
    like = {"h": np.array([[2.0, -1.0]], np.float32)}
    sealed = door(like, normalised=False).seal(like, weight=1.0)
    assert code_of(door(like).check, sealed, like=like) == "range"


@pytest.mark.parametrize(("precision", "largest"), [("float32", 25_000), ("float16", 6_000), ("top-k", 6_000)])
def test_the_upload_of_gads_public_set(precision: Precision, largest: int) -> None:
    like = {"relations": random_rows(959, 2)}  # a fifth of GAD's 4,797 training pairs
    size = len(encode(door(like, precision).seal(like, weight=1.0)))
    print(f"{precision}: {size:,} bytes")
    assert {"float32": 4, "float16": 2, "top-k": 1.5}[precision] * 2 * 959 < size <= largest


# The mean of sums under masks and seals.


def test_a_mean_within_its_tolerance_passes() -> None:
    rounded = {"relations": np.array([[0.7501, 0.15, 0.1], [1.0001, -0.0001, 0.0]], np.float32)}
    check_mean(rounded, SURE, normalised=True, tolerance=2e-4)
    check_mean({"relations": np.array([[5.0, -7.0, 0.0]] * 2)}, SURE, normalised=False, tolerance=0.0)
    check_mean({"h": np.zeros((0, 2), np.float32)}, {"h": np.zeros((0, 2))}, normalised=True, tolerance=0.0)


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([[0.7504, 0.15, 0.1], [0.0, 0.0, 1.0]], "sum"),
        ([[0.5, 0.25, 0.2], [0.0, 0.0, 1.0]], "sum"),
        ([[1.0003, -0.0003, 0.0], [0.0, 0.0, 1.0]], "range"),
        ([[1.2, -0.2, 0.0], [0.0, 0.0, 1.0]], "range"),
        ([[float("nan"), 0.5, 0.5], [0.0, 0.0, 1.0]], "not-a-number"),
        ([[0.5, 0.5, 0.0]], "shapes"),
        ([0.5, 0.5, 0.0], "shapes"),
        ([["1", "0", "0"], ["0", "0", "1"]], "shapes"),
    ],
)
def test_an_impossible_mean_is_refused(rows: Any, code: str) -> None:
    assert code_of(check_mean, {"relations": np.array(rows)}, SURE, normalised=True, tolerance=2e-4) == code
    if code in ("not-a-number", "shapes"):
        assert code_of(check_mean, {"relations": np.array(rows)}, SURE, normalised=False, tolerance=2e-4) == code


def test_a_mean_of_other_heads_or_without_a_tolerance_is_refused() -> None:
    assert code_of(check_mean, {"tags": SURE["relations"]}, SURE, normalised=True, tolerance=1e-3) == "shapes"
    assert code_of(check_mean, SURE, SURE, normalised=True, tolerance=float("nan")) in ("range", "sum")
