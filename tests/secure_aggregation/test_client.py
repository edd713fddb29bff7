from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies
from tests.secure_aggregation.cohort import (
    BOTH,
    BOTH_COMPACT,
    CKKS,
    CLIPS,
    COMPACT,
    EXACT,
    MASKED,
    MEAN,
    RETURNED,
    RETURNED_COMPACT,
    SEALED,
    UPDATES,
    WEIGHTS,
    Cohort,
    Keys,
    bound_of,
    ckks_block,
    code_of,
    named,
    secret_of,
    seeds_of,
    sent,
    update_of,
)

from wardround.errors import MessageError, RefusedSumError
from wardround.federation.aggregation import Reader
from wardround.federation.federation import SiteId
from wardround.federation.message import Array, Message, encode
from wardround.secure_aggregation import bfv, ckks, masks
from wardround.secure_aggregation.bfv import BfvParameters, BfvSum, Ciphertexts, Opener
from wardround.secure_aggregation.client import SealedUpdate, SecureAggregationClient
from wardround.secure_aggregation.codecs import NumberLayout
from wardround.secure_aggregation.exchange import Exchange
from wardround.secure_aggregation.identities import Identity
from wardround.secure_aggregation.mac import add_tags, derive_pad
from wardround.secure_aggregation.mechanisms import AgreedMechanism
from wardround.secure_aggregation.packing import Layout
from wardround.secure_aggregation.transcript import Contribution, Transcript, contribute

EVERY = pytest.mark.parametrize("mechanism", [*EXACT, CKKS], ids=named)
SEALED_ONES = (SEALED, COMPACT, BOTH, BOTH_COMPACT, RETURNED, RETURNED_COMPACT, CKKS)
AUTHENTICATED = pytest.mark.parametrize("mechanism", SEALED_ONES, ids=named)


@EVERY
def test_the_weighted_mean_by_hand_through_the_whole_path(mechanism: AgreedMechanism) -> None:
    cohort = Cohort.of(mechanism)
    exchange = cohort.exchange()
    for name, numbers in cohort.mean().items():
        allowed = 1e-5 if mechanism is CKKS else bound_of(mechanism, exchange, name)
        assert numbers.dtype == np.float32
        assert np.abs(numbers - MEAN[name]).max() <= allowed


def test_the_bound_by_hand() -> None:
    """Three sites and a clip of 4 in 15 bits: 3 · 4 / 32768."""
    exchange = Cohort.of(COMPACT).exchange()
    assert bound_of(COMPACT, exchange, "bias") == 0.0003662109375
    assert bound_of(MASKED, exchange, "words") == 3 / 2**31


cohorts = st.integers(2, 4).flatmap(
    lambda sites: st.tuples(
        numpy_strategies.arrays(np.float32, (sites, 7), elements=st.floats(-1, 1, width=32)),
        st.lists(st.floats(0.5, 1e4), min_size=sites, max_size=sites),
        st.floats(1e-6, 1e6),
    )
)


_COHORTS = {named(mechanism): Cohort.of(mechanism) for mechanism in (*EXACT, CKKS)}  # for all examples alike


def cohort_of(mechanism: AgreedMechanism) -> Cohort:
    return _COHORTS[named(mechanism)]


@pytest.mark.parametrize("mechanism", EXACT, ids=named)
@settings(max_examples=25, deadline=None)
@given(drawn=cohorts)
def test_no_mean_is_off_by_more_than_sites_times_clip_over_two_to_the_width(
    mechanism: AgreedMechanism, drawn: tuple[Array, list[float], float]
) -> None:
    numbers, weights, drawn_clip = drawn
    clip = float(np.float32(drawn_clip))  # otherwise a number could lie above the clip by the rounding of float32
    scaled = (numbers * np.float32(clip)).clip(-clip, clip)
    cohort, names = cohort_of(mechanism), mechanism.sites[: len(weights)]
    updates = {site: update_of(row[:4], row[4:]) for site, row in zip(names, scaled, strict=True)}
    exchange = cohort.exchange(dict(zip(names, weights, strict=True)), clips=dict.fromkeys(CLIPS, clip))
    found = cohort.opened(exchange, cohort.seal(exchange, updates))
    for name, mean in found.items():
        parts = [updates[site][name].astype(np.float64) for site in names]
        plain = np.average(parts, axis=0, weights=weights)
        # The mean is float32 in the end: beside the bound, half of its last digit.
        rounding = np.spacing(np.abs(plain).astype(np.float32)).max()
        assert np.abs(mean - plain).max() <= bound_of(mechanism, exchange, name) + rounding


@settings(max_examples=5, deadline=None)
@given(drawn=cohorts)
def test_no_mean_under_ckks_is_off_by_more_than_a_hundred_thousandth(drawn: tuple[Array, list[float], float]) -> None:
    numbers, weights, _ = drawn
    cohort, names = cohort_of(CKKS), CKKS.sites[: len(weights)]
    updates = {site: update_of(row[:4], row[4:]) for site, row in zip(names, numbers, strict=True)}
    exchange = cohort.exchange(dict(zip(names, weights, strict=True)))
    for name, mean in cohort.opened(exchange, cohort.seal(exchange, updates)).items():
        plain = np.average([updates[site][name].astype(np.float64) for site in names], axis=0, weights=weights)
        assert np.abs(mean - plain).max() <= 1e-5


def test_an_update_of_many_blocks() -> None:
    """9,000 numbers are 4,500 slots, of two ciphertexts."""
    large = replace(BOTH, shapes={"words": (90, 100)}, groups={"words": "embedding"})
    cohort, chance = Cohort.of(large), np.random.default_rng(0)
    updates = {site: {"words": chance.uniform(-1, 1, (90, 100)).astype(np.float32)} for site in WEIGHTS}
    exchange = cohort.exchange(clips={"embedding": 1.0})
    given = cohort.seal(exchange, updates)
    assert len(given["h1"].message.arrays["lengths"]) == 2
    plain = np.average([updates[site]["words"] for site in WEIGHTS], axis=0, weights=list(WEIGHTS.values()))
    assert np.abs(cohort.opened(exchange, given)["words"] - plain).max() <= bound_of(large, exchange, "words") + 1e-7


def test_every_site_opens_the_same_bits() -> None:
    cohort = Cohort.of(BOTH)
    exchange = cohort.exchange()
    given = cohort.seal(exchange)
    opened = [cohort.opened(exchange, given, at=site) for site in ("h1", "h2", "h3", "h4")]  # h4 gave nothing
    assert len({encode(Message({}, mean)) for mean in opened}) == 1


@pytest.mark.parametrize("mechanism", [SEALED, CKKS], ids=named)
def test_without_one_site_the_mean_is_that_of_the_others(mechanism: AgreedMechanism) -> None:
    """(1·h1 + 5·h3) / 6, by hand: (−1 + 1)/6 and (4 + 4)/6."""
    cohort = Cohort.of(mechanism)
    exchange = cohort.exchange()
    given = cohort.seal(exchange)
    mean = cohort.opened(exchange, {site: given[site] for site in ("h1", "h3")})
    assert mean["words"][0, 1] == pytest.approx(0.0, abs=1e-5)
    assert mean["bias"][0] == pytest.approx(8 / 6, abs=1e-5)


def test_numbers_outside_the_clip_are_clipped_and_counted() -> None:
    cohort = Cohort.of(SEALED)
    outside = {**UPDATES, "h3": update_of((1.5, -7.0, 1.0, 0.0), (4.5, 0.0, -4.0))}
    exchange = cohort.exchange()
    given = cohort.seal(exchange, outside)
    assert [given[site].message.value("clipped", int) for site in WEIGHTS] == [0, 0, 3]
    # (1·0.5 + 2·0.5 + 5·1)/8 and (1·(−1) + 2·1 + 5·(−1))/8.
    assert cohort.opened(exchange, given)["words"][0] == pytest.approx([0.8125, -0.5], abs=1e-5)


def test_only_the_site_learns_what_rounding_removed() -> None:
    cohort = Cohort.of(COMPACT)
    exchange = cohort.exchange()
    unit = 1.0 / (2**14 * (5 / 8))  # of h3: clip over scale and share
    small = {**UPDATES, "h3": update_of((unit / 4, unit * 1.25, 0, 0))}
    given = cohort.seal(exchange, small)["h3"]
    assert given.residue["words"].ravel() == pytest.approx([unit / 4, unit / 4, 0, 0], rel=1e-4)
    assert given.message.arrays.keys() == {"sealed", "lengths"}
    assert given.message.values.keys() == {"exchange", "clipped", "vanished"}


def test_a_masked_update_differs_every_time() -> None:
    for mechanism in (MASKED, BOTH, RETURNED):
        cohort = Cohort.of(mechanism)
        exchange = cohort.exchange()
        again = Cohort(mechanism, reopened(cohort, mechanism), cohort.aggregator)
        first, second = cohort.seal(exchange)["h1"], again.seal(exchange)["h1"]
        assert first.seed != second.seed
        assert first.digest != second.digest


def reopened(cohort: Cohort, mechanism: AgreedMechanism) -> dict[SiteId, SecureAggregationClient]:
    """Return the same identities in clients without memory."""
    return {
        site: SecureAggregationClient(mechanism, client._identity, secrets=client._secrets)
        for site, client in cohort.clients.items()
    }


def test_a_single_masked_update_is_noise() -> None:
    """Without the site's own mask, an update is still hidden by its pairwise masks."""
    large = replace(MASKED, shapes={"words": (64, 64)}, groups={"words": "embedding"})
    cohort = Cohort.of(large)
    zero = {site: {"words": np.zeros((64, 64), np.float32)} for site in WEIGHTS}
    exchange = cohort.exchange(clips={"embedding": 1.0})
    given = cohort.seal(exchange, zero)
    slots = given["h1"].message.arrays["slots"].astype(np.uint64)
    own = masks.self_mask(given["h1"].seed, context=exchange.context, slots=4096, modulus=2**32)
    masks.subtract(slots, own, 2**32)
    # Uniform below 2^32: mean 2^31, and as many above as below.
    assert abs(slots.mean() / 2**31 - 1) < 0.1
    assert 0.4 < (slots > 2**31).mean() < 0.6
    assert code_of(large.layout(exchange).unpack, slots, share=0.125, sites=1) == "range"


# One site


def test_the_largest_number_by_layer_group() -> None:
    client = Cohort.of(MASKED).clients["h1"]
    assert client.largest_by_group(update_of((0.5, -2.0, 0, 0), (0, 0.25, 0))) == {"embedding": 2.0, "top": 0.25}
    assert client.reader is Reader.COORDINATOR
    for wrong in (np.nan, np.inf, -np.inf):
        assert code_of(client.largest_by_group, update_of((0, wrong, 0, 0))) == "not-a-number"


@EVERY
@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"study": "0" * 64}, "study"),
        ({"weights": {**WEIGHTS, "stranger": 1.0}}, "cohort"),
        ({"weights": {"h1": 1.0}}, "cohort"),
        ({"clips": {"embedding": 1.0}}, "clip"),
        ({"clips": {**CLIPS, "lstm": 1.0}}, "clip"),
    ],
    ids=["study", "stranger", "too few", "fewer clips", "more clips"],
)
def test_exchanges_that_a_site_must_not_submit_to(
    mechanism: AgreedMechanism, changed: dict[str, Any], code: str
) -> None:
    cohort = Cohort.of(mechanism)
    assert code_of(cohort.clients["h1"].check_exchange, replace(cohort.exchange(), **changed)) == code
    cohort.clients["h1"].check_exchange(cohort.exchange())


@pytest.mark.parametrize("mechanism", [SEALED, BOTH, CKKS], ids=named)
def test_an_exchange_under_another_key_is_refused(mechanism: AgreedMechanism) -> None:
    scheme = mechanism.key_scheme
    first, second = secret_of(scheme), secret_of(scheme, epoch=2)
    client = Cohort.of(mechanism, keys=Keys(first, second)).clients["h1"]
    exchange = Cohort.of(mechanism).exchange()
    client.check_exchange(exchange)
    client.check_exchange(replace(exchange, epoch=2, key=second.id))
    for wrong, code in (
        ({"epoch": 3}, "epoch"),
        ({"epoch": 2}, "key"),  # the id is of epoch 1
        ({"key": second.id}, "key"),
        ({"key": secret_of(scheme, number=1).id}, "key"),
        ({"key": ""}, "key"),
    ):
        assert code_of(client.check_exchange, replace(exchange, **wrong)) == code


def test_a_key_store_that_ignores_epochs_does_not_weaken_the_check() -> None:
    class Careless:
        def secret(self, epoch: int) -> Any:
            return secret_of("bfv-standard")

    client = SecureAggregationClient(SEALED, Identity.new("h1", None), secrets=Careless())
    assert code_of(client.check_exchange, replace(Cohort.of(SEALED).exchange(), epoch=7)) == "key"


def test_a_key_for_another_scheme_is_refused() -> None:
    other = secret_of("bfv-compact")
    client = Cohort.of(SEALED, keys=Keys(other)).clients["h1"]
    assert code_of(client.check_exchange, replace(Cohort.of(SEALED).exchange(), key=other.id)) == "key"


@pytest.mark.parametrize("mechanism", [MASKED, BOTH], ids=named)
def test_masks_need_the_public_keys_of_each_site_and_no_other(mechanism: AgreedMechanism) -> None:
    cohort = Cohort.of(mechanism)
    exchange, other = cohort.exchange(), Identity.new("h2", None).public_keys.to_bytes()
    public_keys, client = cohort.public_keys(exchange), cohort.clients["h1"]
    for wrong in (
        {site: public_keys[site] for site in ("h1", "h2")},
        {**public_keys, "h4": cohort.clients["h4"].public_keys},
        {**public_keys, "h3": other},  # made out to h2
        {**public_keys, "h3": b"public-keys"},
        {**public_keys, "h1": Identity.new("h1", None).public_keys.to_bytes()},  # not this site's own
    ):
        assert code_of(client.seal, UPDATES["h1"], exchange=exchange, public_keys=wrong) == "public-keys"


@pytest.mark.parametrize("mechanism", [MASKED, BOTH], ids=named)
def test_an_update_is_sealed_once_for_an_exchange(mechanism: AgreedMechanism) -> None:
    """Otherwise two updates would have the same masks, and both seeds together would reveal their difference."""
    cohort = Cohort.of(mechanism)
    exchange = cohort.exchange()
    cohort.seal(exchange)
    cohort.seal(cohort.exchange())
    assert code_of(cohort.seal, exchange) == "replay"
    cohort.seal(replace(exchange, nonce=Exchange.new_nonce()))


# A coordinator that cheats


@contextmanager
def counting() -> Iterator[Counter[str]]:
    """Count the operations of opening a sum, or of the stand-in."""
    calls: Counter[str] = Counter()

    def count(patch: pytest.MonkeyPatch, owner: Any, name: str, label: str) -> None:
        original = getattr(owner, name)

        def counted(*arguments: Any, **named: Any) -> Any:
            calls[label] += 1
            return original(*arguments, **named)

        patch.setattr(owner, name, counted)

    with pytest.MonkeyPatch.context() as patch:
        for owner in (Opener, ckks):
            count(patch, owner, "open", "open")
            count(patch, owner, "open_stand_in", "stand-in")
        count(patch, Opener, "_decrypted", "decrypt")
        count(patch, ckks._tenseal().CKKSVector, "decrypt", "decrypt")
        count(patch, masks, "self_mask", "own mask")
        for layout in (Layout, NumberLayout):
            count(patch, layout, "unpack", "unpack")
        yield calls


_OWN: Any = object()


def cheated(
    cohort: Cohort, message: Message, given: Mapping[SiteId, SealedUpdate], at: SiteId = "h1", *, own: str | None = _OWN
) -> str:
    """Return why a sum is refused; check that the code is `sum` and that only a stand-in is decrypted."""
    if own is _OWN:
        own = given[at].digest if at in given else None
    with counting() as calls, pytest.raises(MessageError) as refused:
        cohort.clients[at].open(sent(message), own=own)
    error = refused.value
    assert isinstance(error, RefusedSumError) and error.code == "sum"
    assert (calls["open"], calls["stand-in"]) == (0, 1)
    assert calls["unpack"] == 1
    reason = str(error).removeprefix("sum: ")
    # What is wrong with the list or with the seeds anybody can see: only the rest counts against the key.
    assert error.counts != reason.startswith(("transcript: ", "seed: ", "value-missing: "))
    return reason


MAC = "mac: is not the sum of the listed contributions, or was changed"


def summed(mechanism: AgreedMechanism, *parts: SealedUpdate) -> dict[str, Array]:
    running = mechanism.codec.sum(mechanism.layout(Cohort.of(mechanism).exchange()).slots)
    for part in parts:
        running.add(part.message.arrays)
    return running.total()


@AUTHENTICATED
@pytest.mark.parametrize(
    "passed_off",
    [("h1",), ("h2",), ("h1", "h2"), ("h1", "h2", "h3", "h3"), ("h1", "h2", "h2"), ("h2", "h2", "h2")],
    ids=lambda sites: "+".join(sites),
)
def test_a_sum_that_differs_from_its_transcript_is_refused(
    mechanism: AgreedMechanism, passed_off: tuple[SiteId, ...]
) -> None:
    """The sum is one update only, lacks one, or has one twice or in place of another; every site refuses it."""
    cohort = Cohort.of(mechanism)
    exchange = cohort.exchange()
    given = cohort.seal(exchange)
    message = cohort.total(exchange, given).message(seeds_of(mechanism, given))
    forged = replace(message, arrays=summed(mechanism, *(given[site] for site in passed_off)))
    for site in ("h1", "h2", "h4"):
        assert cheated(cohort, forged, given, at=site) == MAC


@AUTHENTICATED
def test_the_fresh_ciphertexts_of_one_site_are_not_a_sum(mechanism: AgreedMechanism) -> None:
    cohort = Cohort.of(mechanism)
    exchange = cohort.exchange()
    given = cohort.seal(exchange)
    message = cohort.total(exchange, given).message(seeds_of(mechanism, given))
    reason = MAC if mechanism is CKKS else "ciphertext: is not 1 blocks of 65,659 bytes"
    assert cheated(cohort, replace(message, arrays=given["h2"].message.arrays), given) == reason


@AUTHENTICATED
def test_the_sum_of_another_exchange_with_a_valid_transcript_is_refused(mechanism: AgreedMechanism) -> None:
    cohort = Cohort.of(mechanism)
    first, second = cohort.exchange(), cohort.exchange()
    earlier, given = cohort.seal(first), cohort.seal(second)
    message = cohort.total(second, given).message(seeds_of(mechanism, given))
    old = cohort.total(first, earlier).message({})
    assert cheated(cohort, replace(message, arrays=old.arrays), given) == MAC


@pytest.mark.parametrize("mechanism", [SEALED, COMPACT, BOTH, BOTH_COMPACT, RETURNED], ids=named)
def test_one_block_of_another_sum_is_enough_to_be_refused(mechanism: AgreedMechanism) -> None:
    """One block of 30,000 numbers, the first, a middle one or the last, is one site's."""
    cohort, _, given, message = large_sum(mechanism, 30_000)
    one = BfvSum(BfvParameters(mechanism.packing))
    sealed = given["h2"].message.arrays
    one.add(Ciphertexts(sealed["sealed"], sealed["lengths"]))
    length, blocks = int(message.arrays["lengths"][0]), len(message.arrays["lengths"])
    for block in (0, 1, blocks - 1):
        whole, place = message.arrays["sealed"].copy(), slice(block * length, (block + 1) * length)
        whole[place] = one.total().data[place]
        assert cheated(cohort, replace(message, arrays={**message.arrays, "sealed": whole}), given) == MAC


def large_sum(mechanism: AgreedMechanism, numbers: int) -> tuple[Cohort, Exchange, dict[SiteId, SealedUpdate], Message]:
    """Return the sum of three updates with this many numbers each."""
    large = replace(mechanism, shapes={"words": (numbers,)}, groups={"words": "embedding"})
    cohort = Cohort.of(large)
    updates = {site: {"words": np.full(numbers, 0.5, np.float32)} for site in WEIGHTS}
    exchange = cohort.exchange(clips={"embedding": 1.0})
    given = cohort.seal(exchange, updates)
    return cohort, exchange, given, cohort.total(exchange, given).message(seeds_of(large, given))


@pytest.mark.parametrize("mechanism", [SEALED, COMPACT, BOTH, CKKS], ids=named)
def test_transcripts_that_a_site_must_not_open(mechanism: AgreedMechanism) -> None:
    cohort = Cohort.of(mechanism)
    exchange = cohort.exchange()
    given = cohort.seal(exchange)
    seeds = seeds_of(mechanism, given)

    def listed(*sites: SiteId) -> Message:
        return cohort.total(exchange, {site: given[site] for site in sites}).message(seeds)

    assert cheated(cohort, listed("h1"), given) == "transcript: lists 1 sites; the study needs at least 2"
    assert cheated(cohort, listed("h2", "h3"), given) == "transcript: leaves out what h1 submitted"
    lone = listed("h1", "h2", "h3")
    assert cheated(cohort, lone, given, own=None) == "transcript: lists h1, which submitted nothing"
    assert cheated(cohort, lone, given, own="0" * 64) == "transcript: lists h1 with another update than it submitted"
    for blobs in ({}, {"transcript": b""}, {"transcript": lone.blobs["transcript"][:-1]}):
        reason = cheated(cohort, replace(lone, blobs={**seeds_blobs(seeds), **blobs}), given)
        assert reason.startswith("transcript: ")


def seeds_blobs(seeds: Mapping[SiteId, bytes]) -> dict[str, bytes]:
    return {f"seed/{site}": seed for site, seed in seeds.items()}


@pytest.mark.parametrize("mechanism", [SEALED, BOTH], ids=named)
def test_a_sum_is_opened_only_for_its_own_round_and_exchange(mechanism: AgreedMechanism) -> None:
    cohort = Cohort.of(mechanism)
    first, second = cohort.exchange(round_number=1), cohort.exchange(round_number=2)
    earlier, given = cohort.seal(first), cohort.seal(second)
    old = cohort.total(first, earlier).message(seeds_of(mechanism, earlier))
    new = cohort.total(second, given).message(seeds_of(mechanism, given))
    another = "transcript: belongs to another exchange than the sum"
    assert cheated(cohort, replace(old, values={**old.values, "round": 2}), given) == another
    assert cheated(cohort, replace(old, values=new.values), given) == another
    assert cheated(cohort, replace(new, blobs=old.blobs), given) == another
    # Nor by a site that gave to neither, and so has nothing of its own to hold against the list.
    for lied in (replace(old, values={**old.values, "round": 2}), replace(old, values=new.values)):
        assert cheated(cohort, lied, given, at="h4") == another
    # Whole, it is the earlier one: the site, which gave something else last, is told that it gave nothing to it.
    assert cheated(cohort, old, given, own=None) == "transcript: lists h1, which submitted nothing"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"weights": {**WEIGHTS, "h3": 50.0}}, "transcript: signature: h1"),
        ({"weights": {"h1": 1.0, "h2": 2.0}}, "transcript: lists a site outside the cohort"),
        ({"clips": {**CLIPS, "embedding": 100.0}}, "transcript: signature: h1"),
        ({"nonce": "0" * 32}, "transcript: signature: h1"),
    ],
)
def test_an_exchange_that_changes_after_submission_is_refused(changed: dict[str, Any], reason: str) -> None:
    cohort = Cohort.of(SEALED)
    exchange = cohort.exchange()
    given = cohort.seal(exchange)
    total = cohort.total(exchange, given)
    told = replace(exchange, **changed)
    slots = Transcript.from_message(total.message({}))
    lied = Transcript(told, slots.public_keys, slots.contributions)
    message = replace(total.message({}), values={"round": 1, "exchange": told.to_values()}, blobs=lied.to_blobs())
    assert cheated(cohort, message, given).startswith(reason)


def test_a_sum_with_an_unknown_site_is_refused() -> None:
    cohort = Cohort.of(replace(SEALED, sites=("h1", "h2", "h3", "h4", "h5")))
    exchange = cohort.exchange({**WEIGHTS, "h5": 1.0})
    updates = {**UPDATES, "h5": update_of()}
    given = cohort.seal(exchange, updates)
    message = cohort.total(exchange, given).message({})
    narrow = SecureAggregationClient(SEALED, cohort.clients["h1"]._identity, secrets=cohort.clients["h1"]._secrets)
    assert code_of(narrow.open, message, own=given["h1"].digest) == "cohort"


class Lying:
    """Claims the study's key, but has another secret key, another group key, or both."""

    def __init__(self, scheme: str, *, sealing: bool, tagging: bool) -> None:
        true, false = secret_of(scheme), secret_of(scheme, number=1)
        self.epoch, self.id, self.scheme = true.epoch, true.id, true.scheme
        self.secret_key = false.secret if sealing else true.secret
        self.group_key = false.group_key if tagging else true.group_key

    def secret(self, epoch: int) -> Any:
        claimed = self

        class Claimed:
            epoch, id, scheme = claimed.epoch, claimed.id, claimed.scheme
            secret, group_key = claimed.secret_key, claimed.group_key

        return Claimed()


@pytest.mark.parametrize("mechanism", [SEALED, COMPACT, BOTH, CKKS], ids=named)
def test_one_contribution_under_another_secret_spoils_the_sum_and_no_site_uses_it(mechanism: AgreedMechanism) -> None:
    """A site with the group key can tag ciphertexts under another secret key; only the opened sum shows it."""
    cohort = Cohort.of(mechanism)
    lying = Lying(mechanism.key_scheme, sealing=True, tagging=False)
    cohort.clients["h3"] = SecureAggregationClient(mechanism, cohort.clients["h3"]._identity, secrets=lying)
    exchange = cohort.exchange()
    given = cohort.seal(exchange)
    message = cohort.total(exchange, given).message(seeds_of(mechanism, given))
    for site in ("h1", "h2", "h4"):
        with pytest.raises(MessageError, match=r"^sum: (key: was encrypted under another key|range: )") as refused:
            cohort.clients[site].open(sent(message), own=given[site].digest if site in given else None)
        assert isinstance(refused.value, RefusedSumError) and refused.value.code == "sum"
        assert refused.value.counts


@AUTHENTICATED
@pytest.mark.parametrize("sealing", [True, False], ids=["another secret key", "the secret key"])
def test_one_contribution_under_another_group_key_is_never_decrypted(mechanism: AgreedMechanism, sealing: bool) -> None:
    cohort = Cohort.of(mechanism)
    lying = Lying(mechanism.key_scheme, sealing=sealing, tagging=True)
    cohort.clients["h3"] = SecureAggregationClient(mechanism, cohort.clients["h3"]._identity, secrets=lying)
    exchange = cohort.exchange()
    given = cohort.seal(exchange)
    message = cohort.total(exchange, given).message(seeds_of(mechanism, given))
    for site in ("h1", "h2", "h4"):
        assert cheated(cohort, message, given, at=site) == MAC


@pytest.mark.parametrize("mechanism", [SEALED, COMPACT, BOTH], ids=named)
def test_a_sum_that_was_shifted_without_a_key_is_refused(mechanism: AgreedMechanism) -> None:
    """Anyone can add to the content of a ciphertext; without the group key nobody can compute the matching tag."""
    cohort = Cohort.of(mechanism)
    exchange = cohort.exchange()
    given = cohort.seal(exchange)
    message = cohort.total(exchange, given).message(seeds_of(mechanism, given))
    parameters, seal = bfv.BfvParameters(mechanism.packing), bfv._seal()
    cipher, plain = seal.Ciphertext(), seal.Plaintext()
    slots = [0, parameters.packing.scale // 4, *[0] * 4094]
    seal.BatchEncoder(parameters.context).encode(slots, plain)
    data = message.arrays["sealed"].copy()
    with bfv._loading(parameters, parameters.summed) as load, bfv._memory_file() as file:
        load(next(bfv._rows(data, parameters.summed.length)), cipher)
        seal.Evaluator(parameters.context).add_plain_inplace(cipher, plain)
        assert file.save_into(cipher, next(bfv._rows(data, parameters.summed.length)))
    shifted = replace(message, arrays={**message.arrays, "sealed": data})
    assert cheated(cohort, shifted, given, at="h1") == MAC
    cohort.clients["h1"].open(message, own=given["h1"].digest)


@pytest.mark.parametrize("mechanism", [SEALED, COMPACT, BOTH], ids=named)
@pytest.mark.parametrize("place", [17, 4096 + 17], ids=["c0", "c1"])
def test_every_bit_of_a_coefficient_counts(mechanism: AgreedMechanism, place: int) -> None:
    """This includes bits below the noise; an answer that depended on the decryption would reveal the key."""
    cohort = Cohort.of(mechanism)
    exchange = cohort.exchange()
    given = cohort.seal(exchange)
    message = cohort.total(exchange, given).message(seeds_of(mechanism, given))
    for bit in range(64):
        value = coefficient(message, 0, place) ^ 1 << bit
        inside = value < BfvParameters(mechanism.packing).coefficient_modulus
        reason = MAC if inside else "ciphertext: a block holds numbers outside its ring"
        assert cheated(cohort, changed_at(message, 0, place, value), given) == reason
    cohort.clients["h1"].open(message, own=given["h1"].digest)


@pytest.mark.parametrize("mechanism", [BOTH, BOTH_COMPACT, RETURNED, RETURNED_COMPACT], ids=named)
def test_without_the_right_seeds_a_masked_sum_is_not_opened(mechanism: AgreedMechanism) -> None:
    large = replace(mechanism, shapes={"words": (400,)}, groups={"words": "embedding"})
    cohort = Cohort.of(large)
    updates = {site: {"words": np.full(400, 0.5, np.float32)} for site in WEIGHTS}
    exchange = cohort.exchange(clips={"embedding": 1.0})
    given = cohort.seal(exchange, updates)
    total, seeds = cohort.total(exchange, given), seeds_of(large, given)
    needed = "seed: a seed is needed from each site of the exchange"
    assert cheated(cohort, total.message({}), given) == needed
    assert cheated(cohort, total.message({site: seeds[site] for site in ("h1", "h2")}), given) == needed
    assert cheated(cohort, total.message({**seeds, "h4": masks.new_seed()}), given) == needed
    for wrong in (masks.new_seed(), seeds["h2"], seeds["h3"][:-1], b""):
        reason = cheated(cohort, total.message({**seeds, "h3": wrong}), given)
        assert reason == "seed: h3: sent another seed than it committed to"
    turned = {**seeds, "h2": seeds["h3"], "h3": seeds["h2"]}
    assert cheated(cohort, total.message(turned), given) == "seed: h2: sent another seed than it committed to"


@pytest.mark.parametrize("mechanism", [BOTH, BOTH_COMPACT, RETURNED, RETURNED_COMPACT], ids=named)
def test_a_masked_sum_whose_transcript_lacks_a_site_is_refused(mechanism: AgreedMechanism) -> None:
    """The transcript is checked too: with few slots, noise may lie within the range."""
    cohort = Cohort.of(mechanism)
    exchange = cohort.exchange()
    given = cohort.seal(exchange)
    for _ in range(5):
        part = cohort.total(exchange, {site: given[site] for site in ("h1", "h2")})
        reason = cheated(cohort, part.message(seeds_of(mechanism, given)), given)
        assert reason == "transcript: lacks a site of the exchange; an incomplete sum is not opened"


def test_if_means_come_back_submitting_needs_no_public_keys() -> None:
    """Sites have their own masks and no pairwise masks."""
    cohort = Cohort.of(RETURNED)
    exchange = cohort.exchange()
    given = {s: cohort.clients[s].seal(UPDATES[s], exchange=exchange, public_keys={}) for s in exchange.weights}
    assert len({sealed.seed for sealed in given.values()}) == 3
    mean = cohort.opened(exchange, given)
    assert mean["words"] == pytest.approx(MEAN["words"], abs=1e-5)
    assert code_of(cohort.clients["h1"].seal, UPDATES["h1"], exchange=exchange, public_keys={}) == "replay"


def heedless(monkeypatch: pytest.MonkeyPatch, ignored: str) -> None:
    """Make sites submit their update without their share, or without clipping it."""
    if ignored == "weight":
        monkeypatch.setattr(Exchange, "share_of", lambda self, *sites: 1.0)
    else:
        monkeypatch.setattr("wardround.secure_aggregation.packing._clip", lambda numbers, clip, name: 0)


@pytest.mark.parametrize("mechanism", EXACT, ids=named)
@pytest.mark.parametrize(("ignored", "factor"), [("weight", 1.0), ("clip", 3.0)])
def test_a_site_that_ignores_its_clip_or_its_weight_shows_in_the_sum(
    mechanism: AgreedMechanism, ignored: str, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others submit 3/8 of the clip; h3 submits all of it instead of 5/8, or three times its limit."""
    cohort = Cohort.of(mechanism)
    exchange = cohort.exchange()
    full = update_of((1, 1, 1, 1), (4, 4, 4))
    public_keys = cohort.public_keys(exchange)
    given = {s: cohort.clients[s].seal(full, exchange=exchange, public_keys=public_keys) for s in ("h1", "h2")}
    with monkeypatch.context() as patch:
        heedless(patch, ignored)
        greedy = {name: array * np.float32(factor) for name, array in full.items()}
        given["h3"] = cohort.clients["h3"].seal(greedy, exchange=exchange, public_keys=public_keys)
    with pytest.raises(MessageError, match="range: a sum exceeds its clip") as refused:
        cohort.opened(exchange, given)
    assert refused.value.code == ("sum" if mechanism.is_sealed else "range")


# Every way to spoil a sum


def with_arrays(message: Message, **arrays: Array) -> Message:
    return replace(message, arrays={**message.arrays, **arrays})


def coefficient(message: Message, block: int, place: int) -> int:
    at = block * 65_659 + 123 + 8 * place
    return int(message.arrays["sealed"][at : at + 8].view("<u8")[0])


def changed_at(message: Message, block: int, place: int, value: int) -> Message:
    """Return the sum with one changed coefficient of a block: in c0 for a place below 4096, otherwise in c1."""
    data, at = message.arrays["sealed"].copy(), block * 65_659 + 123 + 8 * place
    data[at : at + 8] = np.frombuffer(value.to_bytes(8, "little"), np.uint8)
    return with_arrays(message, sealed=data)


@pytest.mark.parametrize("mechanism", [SEALED, BOTH, RETURNED], ids=named)
def test_a_change_of_any_coefficient_of_any_block_is_refused(mechanism: AgreedMechanism) -> None:
    """Change coefficients in c0 and c1 by one, to zero, and to the largest value."""
    cohort, _, given, message = large_sum(mechanism, 20_000)
    modulus = BfvParameters("standard").coefficient_modulus
    assert len(message.arrays["lengths"]) == 3
    for block, place in product(range(3), (0, 4095, 4096, 8191)):
        before = coefficient(message, block, place)
        for value in ((before + 1) % modulus, (before - 1) % modulus, 0, modulus - 1):
            assert cheated(cohort, changed_at(message, block, place, value), given) == MAC
    cohort.clients["h1"].open(message, own=given["h1"].digest)


@settings(max_examples=25, deadline=None)
@given(
    changes=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 8191), st.integers(1, 2**59)), min_size=1, max_size=4, unique=True
    )
)
def test_a_change_of_several_coefficients_is_refused(changes: list[tuple[int, int, int]]) -> None:
    cohort, _, given, message = _LARGE
    modulus, spoiled = BfvParameters("standard").coefficient_modulus, message
    for block, place, by in changes:
        spoiled = changed_at(spoiled, block, place, (coefficient(spoiled, block, place) + by) % modulus)
    assert np.array_equal(spoiled.arrays["sealed"], message.arrays["sealed"]) or (
        cheated(cohort, spoiled, given) == MAC
    )


_LARGE = large_sum(SEALED, 20_000)


@pytest.mark.parametrize("first", [0, 1])
def test_swapping_two_blocks_of_a_sum_is_refused(first: int) -> None:
    cohort, _, given, message = _LARGE
    rows = message.arrays["sealed"].reshape(3, -1).copy()
    rows[[first, first + 1]] = rows[[first + 1, first]]
    assert cheated(cohort, with_arrays(message, sealed=rows.reshape(-1)), given) == MAC


def test_swapping_both_polynomials_of_a_block_is_refused() -> None:
    cohort, _, given, message = _LARGE
    data = message.arrays["sealed"].copy()
    first, second = slice(123, 123 + 8 * 4096), slice(123 + 8 * 4096, 123 + 8 * 8192)
    data[first], data[second] = data[second].copy(), data[first].copy()
    assert cheated(cohort, with_arrays(message, sealed=data), given) == MAC


@AUTHENTICATED
def test_replacing_a_contribution_by_another_of_the_same_site_is_refused(mechanism: AgreedMechanism) -> None:
    """The site submitted twice to one exchange, as after a restart: its first submission is not in the list."""
    cohort = Cohort.of(mechanism)
    exchange = cohort.exchange()
    given = cohort.seal(exchange)
    again = Cohort(mechanism, reopened(cohort, mechanism), cohort.aggregator).seal(exchange)
    message = cohort.total(exchange, given).message(seeds_of(mechanism, given))
    swapped = summed(mechanism, given["h1"], again["h2"], given["h3"])
    assert cheated(cohort, replace(message, arrays=swapped), given) == MAC
    # Nor does the list of one go with the tag of the other: it is not what the site signed.
    transcript = Transcript.from_message(message)
    one, two, three = transcript.contributions
    other = Contribution.from_message(again["h2"].message)
    for forged in (replace(two, tag=other.tag), replace(two, digest=other.digest), replace(other, digest=two.digest)):
        lied = replace(transcript, contributions=(one, forged, three))
        spoiled = replace(message, arrays=swapped, blobs={**message.blobs, **lied.to_blobs()})
        assert cheated(cohort, spoiled, given).startswith("transcript: signature: h2")


@AUTHENTICATED
def test_a_replaced_tag_is_refused_by_its_signature(mechanism: AgreedMechanism) -> None:
    cohort = Cohort.of(mechanism)
    exchange = cohort.exchange()
    given = cohort.seal(exchange)
    message = cohort.total(exchange, given).message(seeds_of(mechanism, given))
    transcript = Transcript.from_message(message)
    one, two, three = transcript.contributions
    changed = [
        (one, replace(two, tag=tuple((number + 1) % 2**40 for number in two.tag)), three),
        (one, replace(two, tag=three.tag), replace(three, tag=two.tag)),  # they add up to the same
        (one, replace(two, tag=()), three),
        (one, replace(two, tag=(*two.tag, 0)[:3] if mechanism is not CKKS else two.tag[:2]), three),
        (replace(one, tag=two.tag), replace(two, tag=one.tag), three),  # this site's own, too
    ]
    for contributions in changed:
        lied = replace(transcript, contributions=contributions)
        reason = cheated(cohort, replace(message, blobs={**message.blobs, **lied.to_blobs()}), given)
        assert reason.startswith("transcript: signature: h")


@AUTHENTICATED
def test_a_coordinator_that_signs_as_a_site_still_lacks_its_pad(mechanism: AgreedMechanism) -> None:
    """On one machine public keys are not certified, so the coordinator may invent h3; it must still guess a tag."""
    cohort = Cohort.of(mechanism)
    exchange = cohort.exchange()
    given = cohort.seal(exchange)
    message = cohort.total(exchange, given).message(seeds_of(mechanism, given))
    transcript = Transcript.from_message(message)
    impostor = Identity.new("h3", None)
    *others, last = transcript.contributions
    for tag in (last.tag, (0,) * len(last.tag), (1,) * len(last.tag)):
        forged = contribute(impostor, exchange, "0" * 64, tag=tag, commitment=last.commitment)
        lied = Transcript(exchange, {**transcript.public_keys, "h3": impostor.public_keys}, (*others, forged))
        assert cheated(cohort, replace(message, blobs={**message.blobs, **lied.to_blobs()}), given) == MAC
    # With another number of tags it is none of the scheme.
    forged = contribute(impostor, exchange, last.digest, tag=(), commitment=last.commitment)
    lied = Transcript(exchange, {**transcript.public_keys, "h3": impostor.public_keys}, (*others, forged))
    reason = cheated(cohort, replace(message, blobs={**message.blobs, **lied.to_blobs()}), given)
    assert reason == "mac: a contribution has a tag of another scheme"


Spoil = Callable[[Message], Message]
CUT: dict[str, tuple[Spoil, str]] = {
    "no arrays": (lambda message: replace(message, arrays={}), "shapes: "),
    "no lengths": (lambda m: replace(m, arrays={"sealed": m.arrays["sealed"]}), "shapes: "),
    "one byte less": (lambda m: with_arrays(m, sealed=m.arrays["sealed"][:-1]), "ciphertext: "),
    "half": (lambda m: with_arrays(m, sealed=m.arrays["sealed"][: len(m.arrays["sealed"]) // 2]), "ciphertext: "),
    "nothing": (lambda m: with_arrays(m, sealed=m.arrays["sealed"][:0], lengths=m.arrays["lengths"][:0]), "ciphertext"),
    "one block less": (
        lambda m: with_arrays(
            m, sealed=m.arrays["sealed"][: -int(m.arrays["lengths"][-1])], lengths=m.arrays["lengths"][:-1]
        ),
        "ciphertext: ",
    ),
    "one block more": (
        lambda m: with_arrays(
            m,
            sealed=np.concatenate([m.arrays["sealed"], m.arrays["sealed"][-int(m.arrays["lengths"][-1]) :]]),
            lengths=np.concatenate([m.arrays["lengths"], m.arrays["lengths"][-1:]]),
        ),
        "ciphertext: ",
    ),
    "another kind": (lambda m: with_arrays(m, sealed=m.arrays["sealed"].view(np.int8)), "shapes: "),
    "another shape": (lambda m: with_arrays(m, sealed=m.arrays["sealed"].reshape(1, -1)), "shapes: "),
    "other lengths": (lambda m: with_arrays(m, lengths=m.arrays["lengths"] - 1), "ciphertext: "),
    "zeros": (lambda m: with_arrays(m, sealed=np.zeros_like(m.arrays["sealed"])), "ciphertext: "),
    "no round": (lambda m: replace(m, values={"exchange": m.values["exchange"]}), "value-missing: "),
}


@AUTHENTICATED
@pytest.mark.parametrize(("spoil", "reason"), CUT.values(), ids=CUT)
def test_a_truncated_or_malformed_sum_is_refused(mechanism: AgreedMechanism, spoil: Spoil, reason: str) -> None:
    cohort, given, message = _SUMS[named(mechanism)]
    assert cheated(cohort, spoil(message), given).startswith(reason)


def _sum_of(mechanism: AgreedMechanism) -> tuple[Cohort, dict[SiteId, SealedUpdate], Message]:
    cohort = _COHORTS[named(mechanism)]
    exchange = cohort.exchange()
    given = cohort.seal(exchange)
    return cohort, given, cohort.total(exchange, given).message(seeds_of(mechanism, given))


_SUMS = {named(mechanism): _sum_of(mechanism) for mechanism in SEALED_ONES}


def test_a_ckks_sum_that_is_not_in_ntt_form_is_refused_with_the_same_code() -> None:
    """SEAL would raise its own error when it multiplies the block."""
    cohort, given, message = _SUMS[named(CKKS)]
    context = ckks._with_secret(secret_of("ckks").secret)
    (cipher,) = ckks._tenseal().ckks_vector_from(context, message.arrays["sealed"].tobytes()).ciphertext()
    good, bad = (np.frombuffer(ckks_block(cipher, 7, ntt=ntt), np.uint8) for ntt in (True, False))
    length = np.array([len(good)], np.int32)
    cohort.clients["h1"].open(with_arrays(message, sealed=good, lengths=length), own=given["h1"].digest)
    reason = cheated(cohort, with_arrays(message, sealed=bad, lengths=length), given)
    assert reason == "ciphertext: a block has another size, level, form or scale than a fresh one"


@AUTHENTICATED
def test_refusing_a_sum_takes_the_same_work_as_opening_one(mechanism: AgreedMechanism) -> None:
    """The counts of decryptions, masks and unpackings are equal, whether the list, the form or the tag is wrong."""
    cohort, _, given, message = large_sum(mechanism, 9_000)
    with counting() as good:
        cohort.clients["h1"].open(message, own=given["h1"].digest)
    assert good["open"] == good["unpack"] == 1
    assert good["decrypt"] == len(message.arrays["lengths"]) > 1 or mechanism.packing == "compact"
    assert good["own mask"] == (3 if mechanism.needs_every_participant else 0)
    other = _SUMS[named(mechanism)][2]
    for spoiled in (
        replace(message, blobs={}),
        replace(message, arrays={}),
        replace(message, arrays=other.arrays),
        replace(message, arrays=summed_large(cohort, given, "h1", "h2")),
    ):
        with counting() as refused, pytest.raises(MessageError) as error:
            cohort.clients["h1"].open(spoiled, own=given["h1"].digest)
        assert error.value.code == "sum"
        assert refused["open"] == 0
        assert {**refused, "open": 1, "stand-in": 0} == {**good, "stand-in": 0}


def summed_large(cohort: Cohort, given: Mapping[SiteId, SealedUpdate], *sites: SiteId) -> dict[str, Array]:
    running = cohort.mechanism.codec.sum(cohort.mechanism.layout(cohort.exchange(clips={"embedding": 1.0})).slots)
    for site in sites:
        running.add(given[site].message.arrays)
    return running.total()


@AUTHENTICATED
def test_after_a_refusal_the_valid_sum_still_opens(mechanism: AgreedMechanism) -> None:
    cohort, _, message = _SUMS[named(mechanism)]
    other = with_arrays(message, sealed=message.arrays["sealed"][:-1])
    fresh = SecureAggregationClient(mechanism, cohort.clients["h4"]._identity, secrets=cohort.clients["h4"]._secrets)
    assert code_of(fresh.open, other, own=None) == "sum"
    assert code_of(fresh.encrypt_for_sites, b"x", purpose="copy/1") == "behind"  # what is refused leaves no trace
    mean = fresh.open(sent(message), own=None)
    assert mean["words"] == pytest.approx(MEAN["words"], abs=1e-3)
    fresh.encrypt_for_sites(b"x", purpose="copy/1")


# What a contribution says


@AUTHENTICATED
def test_a_tag_is_the_hash_of_the_ciphertexts_and_the_pad_of_their_digest(mechanism: AgreedMechanism) -> None:
    _, given, message = _SUMS[named(mechanism)]
    exchange, codec = Transcript.from_message(message).exchange, mechanism.codec
    secret, slots = secret_of(mechanism.key_scheme), mechanism.layout(exchange).slots
    key = codec.hash_key(secret.group_key, exchange.context, slots)
    for site, one in given.items():
        contribution = Contribution.from_message(one.message)
        alone = codec.hash(summed(mechanism, one), slots, secret.secret, key)
        pad = derive_pad(secret.group_key, context=exchange.context, site=site, digest=one.digest, moduli=codec.moduli)
        assert contribution.tag == add_tags([alone, pad], codec.moduli)
        assert contribution.digest == one.digest
        expected = masks.commitment(one.seed, context=exchange.context, site=site) if one.seed else ""
        assert (contribution.commitment, bool(one.seed)) == (expected, mechanism.needs_every_participant)


def test_without_encryption_there_is_a_commitment_and_no_tag() -> None:
    cohort = Cohort.of(MASKED)
    exchange = cohort.exchange()
    for site, one in cohort.seal(exchange).items():
        contribution = Contribution.from_message(one.message)
        assert contribution.tag == ()
        assert contribution.commitment == masks.commitment(one.seed, context=exchange.context, site=site)


@pytest.mark.parametrize("mechanism", [SEALED, CKKS], ids=named)
def test_no_two_contributions_have_the_same_tag(mechanism: AgreedMechanism) -> None:
    """This holds for the same update in the same exchange, and for two sites."""
    cohort = Cohort.of(mechanism)
    exchange = cohort.exchange()
    zero = dict.fromkeys(WEIGHTS, update_of())
    contributions = [
        Contribution.from_message(one.message) for _ in range(3) for one in cohort.seal(exchange, zero).values()
    ]
    for place in range(len(contributions[0].tag)):
        assert len({contribution.tag[place] for contribution in contributions}) == 9


def vanished(mechanism: AgreedMechanism, update: dict[str, Array], *, feedback: bool = False) -> int:
    """Return how many layer groups h1, whose share is one eighth, reports as rounded to zero."""
    cohort = _COHORTS[named(mechanism)]
    exchange, old = cohort.exchange(), cohort.clients["h1"]
    client = SecureAggregationClient(mechanism, old._identity, secrets=old._secrets, feedback=feedback)
    given = client.seal(update, exchange=exchange, public_keys=cohort.public_keys(exchange))
    return given.message.value("vanished", int)


def test_layer_groups_that_round_to_zero_are_counted() -> None:
    """In 15 bits, an eighth of a number up to 1/4096 of its clip rounds to zero; the clips are 1 and 4."""
    assert vanished(COMPACT, update_of()) == 0  # nothing was there to vanish
    assert vanished(COMPACT, UPDATES["h1"]) == 0
    assert vanished(COMPACT, update_of((0, 1 / 5000, 0, 0), (1, 0, 0))) == 1
    assert vanished(COMPACT, update_of((0, -1 / 5000, 0, 0), (1 / 1300, 0, 0))) == 2
    assert vanished(COMPACT, update_of((0, 1 / 5000, 0.5, 0), (1 / 1300, 0, 0))) == 1
    assert vanished(COMPACT, update_of((1 / 4096, 0, 0, 0))) == 1
    assert vanished(COMPACT, update_of((0, 0, 0, 0), (1 / 900, 0, 0))) == 0


def test_with_feedback_only_groups_that_stay_zero_for_many_rounds_have_vanished() -> None:
    """Feedback restores a lost number within sixteen rounds, unless it is at most 1/32768 of its clip."""
    assert vanished(COMPACT, update_of((0, 1 / 5000, 0, 0), (1 / 1300, 0, 0)), feedback=True) == 0
    assert vanished(COMPACT, update_of((0, 1 / 32000, 0, 0), (1 / 1300, 0, 0)), feedback=True) == 0
    assert vanished(COMPACT, update_of((0, 1 / 33000, 0, 0), (1 / 1300, 0, 0)), feedback=True) == 1
    assert vanished(COMPACT, update_of(), feedback=True) == 0


@pytest.mark.parametrize("feedback", [True, False])
def test_under_ckks_nothing_is_rounded_away(feedback: bool) -> None:
    assert vanished(CKKS, update_of((0, 1e-9, 0, 0)), feedback=feedback) == 0


# What sites keep from everybody else


def test_locked_data_opens_only_at_sites_and_for_its_purpose() -> None:
    cohort = Cohort.of(SEALED)
    h1, h2 = cohort.clients["h1"], cohort.clients["h2"]
    assert code_of(h1.encrypt_for_sites, b"shared half", purpose="copy/1") == "behind"  # it knows of no epoch yet
    cohort.seal(cohort.exchange())
    locked = h1.encrypt_for_sites(b"shared half", purpose="copy/1")
    assert b"shared half" not in locked
    assert locked != h1.encrypt_for_sites(b"shared half", purpose="copy/1")
    assert h2.decrypt_from_site(locked, purpose="copy/1") == b"shared half"
    for wrong in (locked[:-1], locked[:10], b"", locked[:-1] + bytes([locked[-1] ^ 1])):
        assert code_of(h2.decrypt_from_site, wrong, purpose="copy/1") in ("lock", "epoch")
    assert code_of(h2.decrypt_from_site, locked, purpose="copy/2") == "lock"
    elsewhere = SecureAggregationClient(replace(SEALED, study="0" * 64), Identity.new("h2", None), secrets=h2._secrets)
    assert code_of(elsewhere.decrypt_from_site, locked, purpose="copy/1") == "lock"
    stranger = Cohort.of(SEALED, keys=Keys(secret_of("bfv-standard", number=1))).clients["h2"]
    assert code_of(stranger.decrypt_from_site, locked, purpose="copy/1") == "lock"


def test_a_restarted_site_can_fingerprint_what_it_unlocked() -> None:
    """The site has submitted and opened nothing yet; its epoch is that of the data it decrypted."""
    cohort = Cohort.of(SEALED)
    cohort.seal(cohort.exchange())
    locked = cohort.clients["h1"].encrypt_for_sites(b"shared half", purpose="copy/1")
    fresh = SecureAggregationClient(SEALED, Identity.new("h2", None), secrets=Keys(secret_of("bfv-standard")))
    fresh.decrypt_from_site(locked, purpose="copy/1")
    assert fresh.fingerprint(b"shared half") == cohort.clients["h1"].fingerprint(b"shared half")
    fresh.encrypt_for_sites(b"shared half", purpose="copy/1")


def test_fingerprints_agree_among_sites_and_reveal_nothing_to_others() -> None:
    cohort = Cohort.of(SEALED)
    cohort.seal(cohort.exchange())
    found = {cohort.clients[site].fingerprint(b"shared half") for site in WEIGHTS}
    assert len(found) == 1
    other = Cohort.of(SEALED, keys=Keys(secret_of("bfv-standard", number=1)))
    other.clients["h1"]._epoch = 1
    assert other.clients["h1"].fingerprint(b"shared half") not in found
    assert cohort.clients["h1"].fingerprint(b"shared hal") not in found
