from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies

from wardround.errors import FederationError, MessageError
from wardround.federation.aggregation import Reader, SparseRows, capped_weights, share_limit
from wardround.federation.federation import Quorum, Reply, Traffic, checked
from wardround.federation.message import Array, Message, decode, encode, grouped
from wardround.secure_aggregation.plain import PlainCodec, PlainServer, PlainUpdates, UpdateSum

PLAIN = PlainUpdates()


def update(*numbers: float) -> dict[str, Array]:
    return {"w": np.array(numbers, np.float32)}


def sealed(*numbers: float, weight: float = 1.0) -> Message:
    return PLAIN.seal(update(*numbers), weight=weight)


def raw(weight: object = 1.0, **arrays: Array) -> Message:
    """Return a message that a site might send without `seal`."""
    return Message({"weight": weight}, grouped("update", arrays))  # type: ignore[dict-item]


def summed(messages: Iterable[Message]) -> UpdateSum:
    running = PLAIN.sum()
    for message in messages:
        running.add(message)
    return running


def mean(*messages: Message) -> dict[str, Array]:
    return summed(messages).total()


def code_of(call: object, *arguments: object, **options: object) -> str:
    assert callable(call)
    with pytest.raises(MessageError) as caught:
        call(*arguments, **options)
    return caught.value.code


def test_it_is_an_aggregator_that_the_coordinator_reads() -> None:
    codec: PlainCodec = PLAIN
    assert PlainServer(codec).reader is Reader.COORDINATOR


def test_the_weighted_mean_by_hand() -> None:
    first = PLAIN.seal({"w": np.array([[1.0, 2.0]]), "b": np.array(10.0)}, weight=1)
    second = PLAIN.seal({"w": np.array([[5.0, -2.0]]), "b": np.array(2.0)}, weight=3)
    assert first.values == {"weight": 1.0}
    assert second.arrays["update/w"].tolist() == [[15.0, -6.0]]  # three times
    combined = summed([first, second])
    assert (combined.weight, combined.count) == (4.0, 2)
    assert mean(first, second)["w"].tolist() == [[4.0, -1.0]]
    found = combined.total()
    assert found["w"].tolist() == [[4.0, -1.0]]  # (1 + 15) / 4, (2 - 6) / 4
    assert found["b"].tolist() == 4.0  # (10 + 6) / 4
    assert {array.dtype for array in found.values()} == {np.dtype(np.float32)}
    assert found["b"].shape == ()


def test_the_mean_of_one_site_is_its_own_update() -> None:
    assert mean(sealed(0.1, -7.5, weight=412.0))["w"] == pytest.approx([0.1, -7.5], rel=1e-6)


def test_a_mean_of_no_sites_is_refused() -> None:
    assert code_of(PLAIN.sum().total) == "empty"
    assert code_of(PLAIN.seal, {}, weight=1.0) == "shapes"


WEIGHTS = [0.0, -0.0, -1.0, float("nan"), float("inf"), float("-inf"), 1e-300, 1e300]


@pytest.mark.parametrize("weight", WEIGHTS)
def test_a_weight_is_a_number_above_zero(weight: float) -> None:
    assert code_of(sealed, 1.0, 0.0, weight=weight) == "weight"
    forged = raw(weight, w=np.ones(1, np.float32))
    assert code_of(summed, [sealed(1.0), forged]) == "weight"
    assert code_of(PLAIN.check, forged, like=update(1.0)) == "weight"


@pytest.mark.parametrize("weight", [1e-9, 1e12])
def test_the_smallest_and_the_largest_weight(weight: float) -> None:
    assert mean(sealed(0.5, -3.0, weight=weight))["w"] == pytest.approx([0.5, -3.0], rel=1e-6)


@pytest.mark.parametrize("weight", [None, "1.0", 1, True, [1.0]])
def test_a_weight_of_another_kind_is_refused(weight: object) -> None:
    assert code_of(summed, [raw(weight, w=np.ones(1, np.float32))]) == "value-missing"


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_nan_and_infinity_are_refused_at_both_ends(number: float) -> None:
    assert code_of(sealed, 1.0, number) == "not-a-number"
    forged = raw(w=np.array([1.0, number], np.float32))
    assert code_of(PLAIN.check, forged, like=update(1.0, 0.0)) == "not-a-number"
    assert code_of(mean, sealed(1.0, 2.0), forged) == "not-a-number"


def test_an_update_that_overflows_when_weighted_is_refused_without_a_warning() -> None:
    assert code_of(sealed, 1e38, weight=10.0) == "not-a-number"
    assert code_of(PLAIN.seal, {"w": np.array([1e300])}, weight=1.0) == "not-a-number"
    # Finite as sent, and beyond float32 once its weight is taken off again.
    beyond = raw(1e-9, w=np.array([1e38], np.float32))
    assert code_of(PLAIN.check, beyond, like=update(1.0)) == "not-a-number"
    assert code_of(mean, beyond) == "not-a-number"


def test_the_largest_numbers_have_a_finite_mean() -> None:
    largest = float(np.finfo(np.float32).max)
    assert mean(sealed(largest), sealed(largest), sealed(largest))["w"].tolist() == [largest]


@pytest.mark.parametrize(
    "other",
    [
        {"w": np.zeros(3, np.float32)},
        {"w": np.zeros((2, 1), np.float32)},
        {"w": np.zeros((), np.float32)},
        {"v": np.zeros(2, np.float32)},
        {"w": np.zeros(2, np.float32), "v": np.zeros(1, np.float32)},
        {"w": np.zeros(2, np.float64)},
        {"w": np.zeros(2, np.int32)},
        {"w": np.zeros(2, np.bool_)},
        {},
    ],
    ids=["longer", "two axes", "no axis", "renamed", "one more", "float64", "int32", "bool", "nothing"],
)
def test_other_names_shapes_and_kinds_are_refused(other: dict[str, Array]) -> None:
    good, bad = sealed(1.0, 2.0), raw(**other)
    assert code_of(PLAIN.check, bad, like=update(0.0, 0.0)) == "shapes"
    assert code_of(summed, [good, bad]) == "shapes"
    PLAIN.check(good, like=update(0.0, 0.0))


def table(*touched: int, rows: int = 300) -> dict[str, Array]:
    """Return a table with some rows that are not zero."""
    made = np.zeros((rows, 2), np.float32)
    for number, row in enumerate(touched, start=1):
        made[row] = [0.0, number]
    return {"w": made}


def test_rows_that_are_zero_are_left_out() -> None:
    first, second = PLAIN.seal(table(3, 299), weight=1.0), PLAIN.seal(table(0, 3), weight=3.0)
    assert first.arrays["rows/w"].tolist() == [3, 299]
    assert first.arrays["update/w"].tolist() == [[0, 1], [0, 2]]
    assert first.values == {"weight": 1.0, "lengths": {"w": 300}}
    assert len(encode(first)) < 200
    whole = PLAIN.seal(table(*range(200)), weight=4.0)  # too many rows to be worth it
    assert "rows/w" not in whole.arrays
    for sealed_in_part in (first, second, whole):
        PLAIN.check(sealed_in_part, like=table())
    found = mean(first, second, whole)["w"]
    expected = np.average([table(3, 299)["w"], table(0, 3)["w"], table(*range(200))["w"]], axis=0, weights=[1, 3, 4])
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_table_without_changed_rows() -> None:
    empty = PLAIN.seal(table(), weight=2.0)
    assert empty.arrays["update/w"].shape == (0, 2)
    assert not mean(empty)["w"].any()


@pytest.mark.parametrize(
    ("rows", "length"),
    [
        ([3, 299], 200),
        ([3, 3], 300),
        ([299, 3], 300),
        ([-1, 3], 300),
        ([3, 300], 300),
        ([3], 300),
        ([[3, 299]], 300),
        ([3.0, 299.0], 300),
        ([3, 299], "300"),
        ([3, 299], None),
    ],
)
def test_invalid_rows_are_refused(rows: list[int], length: object) -> None:
    message = PLAIN.seal(table(3, 299), weight=1.0)
    numbers = np.array(rows, np.float32 if isinstance(rows[0], float) else np.int32)
    forged = Message({"weight": 1.0, "lengths": {"w": length}}, {**message.arrays, "rows/w": numbers})  # type: ignore[dict-item]
    assert code_of(PLAIN.check, forged, like=table()) == "shapes"


@pytest.mark.parametrize("lengths", [{}, {"v": 300}, {"w": 300, "v": 300}, 3, None])
def test_lengths_of_other_arrays_are_refused(lengths: object) -> None:
    message = PLAIN.seal(table(3, 299), weight=1.0)
    forged = Message({"weight": 1.0, "lengths": lengths}, message.arrays)  # type: ignore[dict-item]
    assert code_of(PLAIN.check, forged, like=table()) == "shapes"


def test_one_bad_update_excludes_one_site() -> None:
    """A coordinator checks each reply, counts the bad one as absent, and adds the others."""
    shared = update(0.0, 0.0)
    messages = {
        "h1": sealed(1.0, 2.0),
        "h2": raw(w=np.array([np.nan, 0], np.float32)),
        "h3": raw(w=np.zeros(7, np.float32)),
        "h4": sealed(3.0, 6.0, weight=3.0),
        "h5": Message({"weight": 1.0}),
    }

    def usable() -> Iterator[Reply]:
        replies = (Reply(site, message, Traffic()) for site, message in messages.items())
        return checked(replies, partial(PLAIN.check, like=shared))

    combined = summed(message for _, message in Quorum(2).present(usable()))
    assert (combined.count, combined.weight) == (2, 4.0)
    assert combined.total()["w"].tolist() == [2.5, 5.0]  # (1 + 9) / 4, (2 + 18) / 4
    with pytest.raises(FederationError, match=r"h2 failed not-a-number; h3 failed shapes; h5 failed shapes"):
        summed(message for _, message in Quorum(3).present(usable()))


def test_too_few_sites_stop_the_sum() -> None:
    with pytest.raises(FederationError):
        summed(message for _, message in Quorum(1).present([]))


def test_combining_holds_one_sum_and_one_update() -> None:
    seen: list[weakref.ref[Array]] = []
    most_alive = 0

    def arriving() -> Iterator[Message]:
        nonlocal most_alive
        for number in range(50):
            message = sealed(float(number), weight=2.0)
            seen.append(weakref.ref(message.arrays["update/w"]))
            most_alive = max(most_alive, sum(one() is not None for one in seen))
            yield message
            del message

    combined = summed(arriving())
    assert combined.total()["w"].tolist() == [24.5]  # the mean of 0 … 49
    assert most_alive == 2  # the one that arrives, and the one just added, which `summed` still has a name for
    assert not any(one() is not None for one in seen)


def test_combining_does_not_change_its_inputs() -> None:
    messages = [decode(encode(sealed(1.0, 2.0))), sealed(3.0, 4.0)]
    before = [encode(message) for message in messages]
    summed(messages)
    assert [encode(message) for message in messages] == before


def test_sealing_does_not_change_its_inputs() -> None:
    given = {"w": np.array([1.0, 2.0], np.float32)}
    message = PLAIN.seal(given, weight=1.0)
    message.arrays["update/w"][0] = 9.0
    assert given["w"].tolist() == [1.0, 2.0]


def test_a_message_may_contain_more_than_the_update() -> None:
    message = sealed(1.0, 2.0)
    PLAIN.check(replace(message, values={**message.values, "loss": 0.5}), like=update(0.0, 0.0))


def test_many_small_updates_do_not_vanish_in_a_large_sum() -> None:
    # In float32, 2**24 + 1 is 2**24: a running sum in float32 would stay where the first site put it.
    messages = [sealed(float(2**24)), *(sealed(1.0) for _ in range(1000))]
    assert summed(messages).tables["w"].numbers.tolist() == [2**24 + 1000]


# Another weight


def test_an_update_with_another_weight_by_hand() -> None:
    first = PLAIN.seal({"w": np.array([1.0, -2.0]), "b": np.array(10.0)}, weight=8.0)
    again = PLAIN.reweigh(first, 2.0)
    assert again.values == {"weight": 2.0}
    assert again.arrays["update/w"].tolist() == [2.0, -4.0]
    assert again.arrays["update/b"].shape == ()
    assert {array.dtype for array in again.arrays.values()} == {np.dtype(np.float32)}
    PLAIN.check(again, like={"w": np.zeros(2), "b": np.array(0.0)})
    other = PLAIN.seal({"w": np.array([5.0, 2.0]), "b": np.array(2.0)}, weight=2.0)
    # (2·1 + 2·5) / 4, (2·(−2) + 2·2) / 4, (2·10 + 2·2) / 4
    found = mean(again, other)
    assert (found["w"].tolist(), found["b"].tolist()) == ([3.0, 0.0], 6.0)


def test_another_weight_changes_nothing_else_and_not_its_input() -> None:
    message = decode(encode(replace(sealed(1.0, 2.0, weight=4.0), blobs={"more": b"x"})))
    message = replace(message, values={**message.values, "loss": 0.5})
    before = encode(message)
    again = PLAIN.reweigh(message, 1.0)
    assert again.values == {"weight": 1.0, "loss": 0.5}
    assert again.blobs == {"more": b"x"}
    assert encode(message) == before
    assert mean(again)["w"].tolist() == mean(message)["w"].tolist()  # alone, it weighs all the same


def test_rows_of_a_table_with_another_weight() -> None:
    table = {"words": SparseRows(np.array([3, 700]), np.array([[1.0], [2.0]], np.float32), 1000)}
    again = PLAIN.reweigh(PLAIN.seal(table, weight=6.0), 3.0)
    assert again.arrays["rows/words"].tolist() == [3, 700]
    assert again.arrays["update/words"].tolist() == [[3.0], [6.0]]
    found = mean(again)["words"]
    assert (found.shape, found[3, 0], found[700, 0], found.sum()) == ((1000, 1), 1.0, 2.0, 3.0)


@pytest.mark.parametrize(
    ("sites", "largest", "limit"),
    [(1, 0.5, 1.0), (2, 0.5, 1.0), (3, 0.5, 0.5), (3, 0.2, 1 / 3), (4, 0.25, 0.25), (10, 0.05, 0.1), (5, 1.0, 1.0)],
)
def test_the_largest_share_by_number_of_sites(sites: int, largest: float, limit: float) -> None:
    """There is no limit for one or two sites, and no limit below an equal share."""
    assert share_limit(sites, largest) == limit


@pytest.mark.parametrize(
    ("weights", "largest", "expected"),
    [
        ([], 0.5, []),
        ([7.0], 0.5, [7.0]),
        ([1000.0, 1.0], 0.5, [1000.0, 1.0]),  # of two sites there is no limit
        ([1000.0, 100.0, 100.0], 0.5, [200.0, 100.0, 100.0]),
        ([100.0, 100.0, 1000.0], 0.5, [100.0, 100.0, 200.0]),
        ([200.0, 100.0, 100.0], 0.5, [200.0, 100.0, 100.0]),  # just that share
        ([3.0, 2.0, 1.0], 1.0, [3.0, 2.0, 1.0]),
        # 20 = 0.4 of 50, so that both heavy ones have 15, which is 0.3 of it.
        ([1000.0, 500.0, 10.0, 10.0], 0.3, [15.0, 15.0, 10.0, 10.0]),
        # 7 and 5 are more than a third of all, and then 2 is half of what is left: all weigh as the lightest.
        ([7.0, 5.0, 2.0], 0.1, [2.0, 2.0, 2.0]),
    ],
)
def test_capped_weights_by_hand(weights: list[float], largest: float, expected: list[float]) -> None:
    names = [f"h{number}" for number in range(len(weights))]
    found = capped_weights(dict(zip(names, weights, strict=True)), largest)
    assert list(found) == names
    assert list(found.values()) == pytest.approx(expected, rel=1e-12)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.floats(1e-3, 1e9) | st.sampled_from([1.0, 1e6]), min_size=3, max_size=40),
    st.floats(0.01, 1.0) | st.sampled_from([0.5, 0.25, 0.1]),
)
def test_no_share_exceeds_the_limit_and_no_lighter_site_is_touched(weights: list[float], largest: float) -> None:
    before = {f"h{number}": weight for number, weight in enumerate(weights)}
    found = capped_weights(before, largest)
    limit, whole = share_limit(len(before), largest), sum(found.values())
    assert max(found.values()) <= limit * whole * (1 + 1e-9)
    lowered = {site for site in before if found[site] != before[site]}
    assert all(found[site] < before[site] for site in lowered)
    assert all(found[site] == pytest.approx(limit * whole, rel=1e-9) for site in lowered)  # to just that share
    # Nobody is lowered who was within the limit, and the order of the sites is kept.
    assert lowered or max(before.values()) <= limit * sum(before.values()) * (1 + 1e-9)
    assert all(before[site] >= before[other] for site in lowered for other in before if other not in lowered)
    again = capped_weights(found, largest)
    assert list(again.values()) == pytest.approx(list(found.values()), rel=1e-9)


def test_if_rounding_finds_no_share_all_sites_get_the_smallest_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    """This happens with very many sites if the limit is exactly an equal share."""
    monkeypatch.setattr("wardround.federation.aggregation._TINY_SHARE", -1e-3)
    assert capped_weights({"h1": 100.0, "h2": 3.0, "h3": 1.0}, 0.1) == {"h1": 1.0, "h2": 1.0, "h3": 1.0}


numbers = st.floats(-1e6, 1e6, width=32)
updates = st.integers(1, 6).flatmap(
    lambda sites: st.tuples(
        numpy_strategies.arrays(np.float32, (sites, 2, 3), elements=numbers),
        st.lists(st.floats(0.01, 1e5), min_size=sites, max_size=sites),
        st.permutations(range(sites)),
    )
)


@settings(max_examples=150, deadline=None)
@given(updates)
def test_it_is_numpys_average_in_any_order(drawn: tuple[Array, list[float], list[int]]) -> None:
    arrays, weights, order = drawn
    messages = [PLAIN.seal({"w": array}, weight=weight) for array, weight in zip(arrays, weights, strict=True)]
    found = mean(*messages)["w"]
    expected = np.average(arrays.astype(np.float64), axis=0, weights=weights)
    tolerance = 1e-6 * float(np.abs(arrays).max()) + 1e-30
    assert np.abs(found - expected).max() <= tolerance
    again = mean(*(messages[place] for place in order))["w"]
    assert np.abs(again - found).max() <= tolerance
