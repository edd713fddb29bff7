from __future__ import annotations

import numpy as np
import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given, settings
from hypothesis import strategies as st

from wardround.federation.message import Array
from wardround.privacy.guards import guards
from wardround.privacy.masks import add, stream

KEY, CONTEXT = bytes(range(32)), b"c" * 32
STANDARD, COMPACT = 70368743669761, 281474976694273  # primes of 46 and 48 bits


def key_of(label: bytes, *parts: bytes) -> bytes:
    info = label + b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(KEY)


def by_hand(words: list[int], sites: list[str], payload: int, modulus: int) -> list[int]:
    """In whole numbers of any size."""
    vector = stream(key_of(b"wardround-guard-vector-1\x00", CONTEXT), payload, modulus).tolist()
    blocks = [words[start : start + payload] for start in range(0, len(words), payload)]
    products = [sum(w * r for w, r in zip(block, vector, strict=False)) for block in blocks]
    own = [stream(key_of(b"wardround-guard-1\x00", CONTEXT, s.encode()), len(blocks), modulus).tolist() for s in sites]
    return [(product + sum(column)) % modulus for product, column in zip(products, zip(*own, strict=True), strict=True)]


def made(words: Array, *sites: str, context: bytes = CONTEXT, payload: int = 5, modulus: int = STANDARD) -> Array:
    return guards(KEY, words, context=context, sites=sites, payload=payload, modulus=modulus)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from([STANDARD, COMPACT]), st.integers(1, 7))
def test_guards_are_those_of_whole_numbers(data: st.DataObject, modulus: int, payload: int) -> None:
    word = st.integers(0, modulus - 1) | st.just(modulus - 1)
    words = data.draw(st.lists(word, min_size=1, max_size=30))
    found = made(np.array(words, np.uint64), "h1", "h2", payload=payload, modulus=modulus)
    assert found.dtype == np.uint64
    assert found.tolist() == by_hand(words, ["h1", "h2"], payload, modulus)


@pytest.mark.parametrize("modulus", [STANDARD, COMPACT])
def test_the_largest_words_of_a_whole_block_are_exact(modulus: int) -> None:
    """Over more blocks than are reckoned at once."""
    words = np.full(66 * 4095 - 1, modulus - 1, np.uint64)
    found = made(words, "h1", payload=4095, modulus=modulus)
    assert found.tolist() == by_hand(words.tolist(), ["h1"], 4095, modulus)


def test_guards_of_sites_add_up_to_those_of_their_sum() -> None:
    draw = np.random.default_rng(0).integers
    given_words = {site: draw(0, STANDARD, 23, dtype=np.uint64) for site in ("h1", "h2", "h3")}
    words, total = np.zeros(23, np.uint64), np.zeros(5, np.uint64)
    for site, own in given_words.items():
        add(words, own, STANDARD)
        add(total, made(own, site), STANDARD)
    assert total.tolist() == made(words, *given_words).tolist()
    assert not (total == made(words, "h1", "h2")).any()  # of another set
    words[7] = (words[7] + 1) % STANDARD  # of other words: the guard of its block, and no other
    assert (total == made(words, "h1", "h2", "h3")).tolist() == [True, False, True, True, True]


def test_guards_differ_by_key_exchange_site_and_block() -> None:
    words = np.zeros(15, np.uint64)
    found = [made(words, site, context=context) for context in (CONTEXT, b"d" * 32) for site in ("h1", "1", "h2")]
    found.append(guards(bytes(32), words, context=CONTEXT, sites=["h1"], payload=5, modulus=STANDARD))
    assert len(set(np.concatenate(found).tolist())) == 7 * 3


def test_of_no_words_there_are_no_guards() -> None:
    assert len(made(np.zeros(0, np.uint64), "h1")) == 0
