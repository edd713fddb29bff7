from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wardround.tasks.batching import in_length_order
from wardround.training.batches import length_buckets, pad_batches, pad_to_tokens

LENGTHS = st.lists(st.integers(1, 50), max_size=200)
SIZES = st.integers(1, 20)


@given(LENGTHS, SIZES)
def test_every_index_is_in_one_batch(lengths: list[int], size: int) -> None:
    for batches in (length_buckets(lengths, size, "0/epoch-1"), list(in_length_order(lengths, size))):
        assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
        assert all(0 < len(batch) <= size for batch in batches)
        assert len(batches) == -(-len(lengths) // size)


@given(LENGTHS, SIZES)
def test_the_same_seed_gives_the_same_batches(lengths: list[int], size: int) -> None:
    assert length_buckets(lengths, size, "a") == length_buckets(lengths, size, "a")


def test_another_seed_gives_another_order() -> None:
    lengths = list(range(1, 200))
    assert length_buckets(lengths, 4, "0/epoch-1") != length_buckets(lengths, 4, "0/epoch-2")
    # With equal lengths, the composition of the batches differs too.
    ones = {frozenset(batch) for batch in length_buckets([1] * 50, 5, "a")}
    assert ones != {frozenset(batch) for batch in length_buckets([1] * 50, 5, "b")}


def test_a_batch_holds_examples_of_adjacent_lengths() -> None:
    # 60 lengths fit one pool, so that sorted batches of ten are exactly 1-10, 11-20, ...
    lengths = [(7 * number) % 60 + 1 for number in range(60)]
    found = sorted(sorted(lengths[index] for index in batch) for batch in length_buckets(lengths, 10, "s"))
    assert found == [list(range(start, start + 10)) for start in range(1, 60, 10)]


def test_batches_are_not_ordered_by_length() -> None:
    lengths = list(range(60))
    firsts = [lengths[batch[0]] for batch in length_buckets(lengths, 10, "s")]
    assert firsts != sorted(firsts)


def test_prediction_batches_are_ordered_by_length() -> None:
    assert list(in_length_order([5, 1, 3, 1], 2)) == [[1, 3], [2, 0]]
    assert list(in_length_order([], 2)) == []


def test_a_short_batch_is_padded_with_the_first_examples_of_the_epoch() -> None:
    batches = [[4, 2, 6], [0], [5, 1, 3]]
    assert pad_batches(batches, 1) == batches
    assert pad_batches(batches, 3) == [[4, 2, 6], [0, 4, 2], [5, 1, 3]]
    assert batches[1] == [0]


def test_padding_repeats_no_sentence_of_the_batch() -> None:
    assert pad_batches([[0, 3], [4, 2, 6], [5, 1, 7]], 3) == [[0, 3, 4], [4, 2, 6], [5, 1, 7]]
    assert pad_batches([[1, 0]], 2) == [[1, 0]]


def test_batches_of_few_tokens_grow_by_further_examples_in_order() -> None:
    tokens = [1, 2, 3, 4, 10]
    assert pad_to_tokens([[0, 1], [2, 3], [4]], tokens, 6) == [[0, 1, 2], [2, 3], [4]]
    # Padded batches overlap; an example is added once.
    assert pad_to_tokens([[0, 1], [1, 0]], tokens, 3) == [[0, 1], [1, 0]]
    # All examples together may have too few.
    assert pad_to_tokens([[0], [1]], tokens, 9) == [[0, 1], [1, 0]]


@given(LENGTHS, SIZES, st.integers(0, 120))
def test_a_batch_has_enough_tokens_or_all_examples(lengths: list[int], size: int, minimum: int) -> None:
    batches = length_buckets(lengths, size, "a")
    for before, batch in zip(batches, pad_to_tokens(batches, lengths, minimum), strict=True):
        assert batch[: len(before)] == before
        assert len(set(batch)) == len(batch)
        assert sum(lengths[index] for index in batch) >= min(minimum, sum(lengths))
