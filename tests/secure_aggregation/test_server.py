from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.secure_aggregation.authority import Authority
from tests.secure_aggregation.cohort import (
    BOTH,
    CKKS,
    CLIPS,
    COMPACT,
    EXACT,
    MASKED,
    MEAN,
    RETURNED,
    SEALED,
    STUDY,
    UPDATES,
    WEIGHTS,
    Cohort,
    bound_of,
    buffers,
    code_of,
    named,
    secret_of,
    seeds_of,
    sent,
)

from wardround.errors import FederationError, MessageError
from wardround.federation.aggregation import Reader
from wardround.federation.message import Message, encode
from wardround.secure_aggregation import masks
from wardround.secure_aggregation.client import SecureAggregationClient
from wardround.secure_aggregation.exchange import Exchange
from wardround.secure_aggregation.identities import Identity, open_signatures
from wardround.secure_aggregation.keys.material import PublicParameters
from wardround.secure_aggregation.masks import remove_self_masks
from wardround.secure_aggregation.mechanisms import AgreedMechanism
from wardround.secure_aggregation.server import SecureAggregationServer
from wardround.secure_aggregation.transcript import Contribution, Transcript, contribute

EVERY = pytest.mark.parametrize("mechanism", [*EXACT, CKKS], ids=named)


@EVERY
def test_an_exchange_names_the_study_and_the_newest_key(mechanism: AgreedMechanism) -> None:
    exchange = Cohort.of(mechanism).exchange(round_number=4)
    assert (exchange.study, exchange.round, exchange.step) == (STUDY, 4, "train")
    assert (exchange.weights, exchange.clips) == (WEIGHTS, CLIPS)
    key = secret_of(mechanism.key_scheme).id if mechanism.is_sealed else ""
    assert (exchange.epoch, exchange.key) == (int(mechanism.is_sealed), key)


def test_no_two_exchanges_have_the_same_nonce() -> None:
    cohort = Cohort.of(MASKED)
    assert len({cohort.exchange().nonce for _ in range(50)}) == 50


def test_the_server_says_who_reads_the_mean() -> None:
    aggregators = [Cohort.of(mechanism).aggregator for mechanism in (MASKED, SEALED, BOTH)]
    assert [a.reader for a in aggregators] == [Reader.COORDINATOR, Reader.SITE, Reader.SITE]
    assert [a.mechanism.is_masked for a in aggregators] == [True, False, True]
    assert [a.mechanism.needs_every_participant for a in (*aggregators, Cohort.of(RETURNED).aggregator)] == [
        True,
        False,
        True,
        True,
    ]
    fixed = SecureAggregationServer(replace(MASKED, clips={"top": 2.0}))
    assert (fixed.mechanism.layer_groups, fixed.mechanism.clips) == (("embedding", "top"), {"top": 2.0})


def test_a_key_for_another_scheme_stops_the_round_with_a_remedy() -> None:
    aggregator = SecureAggregationServer(SEALED, parameters=lambda: secret_of("bfv-compact").public(STUDY))
    with pytest.raises(FederationError, match="is for bfv-compact, the study needs bfv-standard; issue another"):
        aggregator.exchange(round_number=1, step="train", weights=WEIGHTS, clips=CLIPS)


def test_if_the_key_is_unknown_the_round_may_be_repeated() -> None:
    def away() -> PublicParameters:
        raise MessageError("keys-unreachable", "it is away")

    with pytest.raises(FederationError, match=r"\(keys-unreachable\)$"):
        SecureAggregationServer(SEALED, parameters=away).exchange(
            round_number=1, step="train", weights=WEIGHTS, clips=CLIPS
        )


def test_the_mean_of_masked_updates_by_hand() -> None:
    cohort = Cohort.of(MASKED)
    exchange = cohort.exchange()
    given = cohort.seal(exchange)
    mean = cohort.total(exchange, given).mean(seeds_of(MASKED, given))
    for name, numbers in mean.items():
        assert numbers.dtype == np.float32
        assert np.abs(numbers - MEAN[name]).max() <= bound_of(MASKED, exchange, name)


Alter = Callable[[Message], Message]


def with_array(name: str, change: Callable[[Any], Any]) -> Alter:
    return lambda message: replace(message, arrays={**message.arrays, name: change(message.arrays[name])})


def with_value(name: str, value: Any) -> Alter:
    return lambda message: replace(message, values={**message.values, name: value})


def flipped(place: int, bit: int = 1) -> Alter:
    def flip(array: Any) -> Any:
        changed = array.copy()
        changed[place] ^= bit
        return changed

    return with_array("sealed", flip)


def without_contribution(message: Message) -> Message:
    return replace(message, blobs={})


@pytest.mark.parametrize(
    ("alter", "code"),
    [
        (flipped(123 + 8 * 2000), "altered"),  # a coefficient
        (flipped(40), "altered"),  # the header
        (flipped(-1), "altered"),  # the seed
        (with_array("sealed", lambda data: data[:-8]), "altered"),
        (with_array("lengths", lambda lengths: lengths - 8), "altered"),
        (with_value("clipped", 7), "altered"),
        (with_value("more", 7), "altered"),
        (without_contribution, "contribution"),
        (lambda message: replace(message, blobs={"contribution": b"word"}), "contribution"),
        (lambda message: replace(message, values={"clipped": 0}), "value-missing"),
    ],
    ids=[
        "coefficient",
        "header",
        "seed",
        "cut",
        "lengths",
        "clipped",
        "more",
        "no contribution",
        "an invalid contribution",
        "no exchange",
    ],
)
def test_a_submission_altered_in_transit_excludes_one_site(alter: Alter, code: str) -> None:
    cohort = Cohort.of(SEALED)
    exchange = cohort.exchange()
    given = cohort.seal(exchange)
    total = cohort.total(exchange, {site: given[site] for site in ("h1", "h2")})
    assert code_of(total.add, "h3", sent(alter(given["h3"].message))) == code
    # The round goes on without it: (1·0.5 + 2·0.5)/3 = 0.5 and (−1 + 2)/3 = 1/3 in the first row.
    mean = cohort.clients["h1"].open(total.message({}), own=given["h1"].digest)
    assert mean["words"][0] == pytest.approx([0.5, 1 / 3], abs=3 / 2**22)
    total.add("h3", given["h3"].message)  # and, sent whole, it still counts
    assert cohort.clients["h1"].open(total.message({}), own=given["h1"].digest)["words"][0, 1] == pytest.approx(0.25)


@EVERY
@pytest.mark.parametrize(
    "changed",
    [
        {"study": "0" * 64},
        {"round": 2},
        {"epoch": 7},
        {"key": "ab" * 16},
        {"clips": {**CLIPS, "top": 3.0}},
        {"weights": {**WEIGHTS, "h3": 6.0}},
        {"weights": {**WEIGHTS, "h4": 1.0}},
        {"nonce": "0" * 32},
    ],
    ids=lambda changed: "-".join(changed),
)
def test_a_submission_sealed_for_another_exchange_is_refused(
    mechanism: AgreedMechanism, changed: dict[str, Any]
) -> None:
    cohort = Cohort.of(mechanism)
    exchange = cohort.exchange()
    # A site that signs what it likes: its client and its key prevent nothing.
    other = replace(exchange, **changed)
    free = replace(mechanism, study=other.study)
    client = SecureAggregationClient(free, cohort.clients["h3"]._identity, secrets=AnyKey(mechanism, other))
    public_keys = {site: cohort.clients[site].public_keys for site in other.weights}
    foreign = client.seal(UPDATES["h3"], exchange=other, public_keys=public_keys).message
    total = cohort.aggregator.total(exchange, cohort.public_keys(exchange))
    assert code_of(total.add, "h3", sent(foreign)) == "exchange"
    # Passed off as one of this exchange, it is not what the site signed.
    relabelled = with_value("exchange", exchange.digest())(foreign)
    assert code_of(total.add, "h3", sent(relabelled)) == "altered"


class AnyKey:
    """Returns the one secret for every requested epoch and id."""

    def __init__(self, mechanism: AgreedMechanism, exchange: Exchange) -> None:
        self._mechanism, self._exchange = mechanism, exchange

    def secret(self, epoch: int) -> Any:
        mechanism, exchange = self._mechanism, self._exchange
        found = secret_of(mechanism.key_scheme) if mechanism.is_sealed else None

        class Claimed:
            epoch, id, scheme = exchange.epoch, exchange.key, mechanism.key_scheme
            secret, group_key = (found.secret, found.group_key) if found else (b"", b"")

        return Claimed()


@EVERY
def test_a_second_submission_of_a_site_is_refused(mechanism: AgreedMechanism) -> None:
    cohort = Cohort.of(mechanism)
    exchange = cohort.exchange()
    given = cohort.seal(exchange)
    total = cohort.total(exchange, given)
    before = encode(total.message(seeds_of(mechanism, given)))
    assert code_of(total.add, "h3", given["h3"].message) == "contribution"
    assert encode(total.message(seeds_of(mechanism, given))) == before


def test_a_contribution_signed_by_another_identity_is_refused() -> None:
    cohort, impostor = Cohort.of(SEALED), Cohort.of(SEALED)
    exchange = cohort.exchange()
    total = cohort.aggregator.total(exchange, cohort.public_keys(exchange))
    forged = impostor.seal(exchange)["h3"].message
    assert code_of(total.add, "h3", forged) == "signature"
    # Another site's own slot does not count under this name either.
    assert code_of(total.add, "h3", cohort.seal(exchange)["h2"].message) == "altered"


def test_a_contribution_signed_over_other_bytes_is_refused() -> None:
    cohort = Cohort.of(SEALED)
    exchange = cohort.exchange()
    first, second = cohort.seal(exchange)["h3"].message, cohort.seal(exchange)["h3"].message
    total = cohort.aggregator.total(exchange, cohort.public_keys(exchange))
    assert code_of(total.add, "h3", replace(first, blobs=second.blobs)) == "altered"
    # Nor does the right digest under a signature of another one.
    digest = Contribution.from_message(first).digest
    contribution = replace(Contribution.from_message(second), digest=digest)
    assert code_of(total.add, "h3", replace(first, blobs=contribution.to_blobs())) == "signature"


def resigned(cohort: Cohort, exchange: Exchange, sealed: Message, **changed: Any) -> Message:
    """Return the submission of h3 under another contribution that h3 signed itself."""
    contribution = Contribution.from_message(sealed)
    said = {"tag": contribution.tag, "commitment": contribution.commitment} | changed
    signed = contribute(cohort.clients["h3"]._identity, exchange, contribution.digest, **said)
    return replace(sealed, blobs=signed.to_blobs())


@EVERY
def test_a_contribution_with_a_tag_of_another_scheme_is_refused(mechanism: AgreedMechanism) -> None:
    """A tag that cannot be checked would spoil the sum."""
    cohort = Cohort.of(mechanism)
    exchange = cohort.exchange()
    sealed = cohort.seal(exchange)["h3"].message
    total = cohort.aggregator.total(exchange, cohort.public_keys(exchange))
    for wrong in ((), (1,), (1, 2), (1, 2, 3)):
        if len(wrong) != len(mechanism.codec.moduli):
            forged = resigned(cohort, exchange, sealed, tag=wrong)
            assert code_of(total.add, "h3", sent(forged)) == "contribution"
    total.add("h3", sent(sealed))


@EVERY
def test_a_site_commits_to_a_seed_only_with_masks(mechanism: AgreedMechanism) -> None:
    cohort = Cohort.of(mechanism)
    exchange = cohort.exchange()
    sealed = cohort.seal(exchange)["h3"].message
    total = cohort.aggregator.total(exchange, cohort.public_keys(exchange))
    wrong = resigned(cohort, exchange, sealed, commitment="" if mechanism.needs_every_participant else "0" * 64)
    assert code_of(total.add, "h3", sent(wrong)) == "contribution"
    assert bool(Contribution.from_message(sealed).commitment) == mechanism.needs_every_participant
    total.add("h3", sent(sealed))


@pytest.mark.parametrize("mechanism", [MASKED, BOTH, RETURNED], ids=named)
def test_a_seed_that_a_site_did_not_commit_to_is_refused_before_it_spoils_the_sum(mechanism: AgreedMechanism) -> None:
    cohort = Cohort.of(mechanism)
    exchange = cohort.exchange()
    given = cohort.seal(exchange)
    total = cohort.total(exchange, given)
    for site, one in given.items():
        total.check_seed(site, one.seed)
        for wrong in (masks.new_seed(), one.seed[:-1], b""):
            assert code_of(total.check_seed, site, wrong) == "seed"
    assert code_of(total.check_seed, "h1", given["h2"].seed) == "seed"


@pytest.mark.parametrize(("tag", "commitment"), [(True, False), (False, True)], ids=["tag", "commitment"])
def test_a_changed_contribution_is_refused_by_its_signature(tag: bool, commitment: bool) -> None:
    cohort = Cohort.of(BOTH)
    exchange = cohort.exchange()
    given = cohort.seal(exchange)
    total = cohort.aggregator.total(exchange, cohort.public_keys(exchange))
    contribution, other = (Contribution.from_message(given[site].message) for site in ("h3", "h2"))
    forged = replace(
        contribution,
        tag=other.tag if tag else contribution.tag,
        commitment=other.commitment if commitment else contribution.commitment,
    )
    assert code_of(total.add, "h3", replace(given["h3"].message, blobs=forged.to_blobs())) == "signature"


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("parties")
    files = {name: Authority().party(folder / name, name, number) for number, name in enumerate(("h1", "h2", "h3"), 1)}
    return {
        name: open_signatures(key=one.key, certificate=one.certificate, root=one.root) for name, one in files.items()
    }


def test_among_hospitals_uncertified_public_keys_are_refused(certified: dict[str, Any]) -> None:
    cohort = Cohort.of(replace(SEALED, sites=("h1", "h2", "h3")), certifiers=certified)
    exchange = cohort.exchange()
    given, public_keys = cohort.seal(exchange), cohort.public_keys(exchange)
    assert cohort.opened(exchange, given)["words"][0, 0] == pytest.approx(0.5)
    bare = SecureAggregationClient(
        cohort.mechanism, Identity.new("h3", None), secrets=cohort.clients["h3"]._secrets, certifier=certified["h3"]
    )
    total = cohort.aggregator.total(exchange, {**public_keys, "h3": bare.public_keys})
    sealed = bare.seal(UPDATES["h3"], exchange=exchange, public_keys={**public_keys, "h3": bare.public_keys})
    assert code_of(total.add, "h3", sealed.message) == "certificate"
    # Nor is one that another site's certificate signs.
    borrowed = Identity.new("h3", certified["h2"]).public_keys.to_bytes()
    assert code_of(cohort.aggregator.total(exchange, {**public_keys, "h3": borrowed}).add, "h3", sealed.message) in (
        "certificate",
        "signature",
    )
    total.add("h2", given["h2"].message)


@EVERY
def test_the_message_to_the_sites_has_the_sum_the_list_and_the_seeds(mechanism: AgreedMechanism) -> None:
    cohort = Cohort.of(mechanism)
    exchange = cohort.exchange(round_number=3)
    given = cohort.seal(exchange)
    seeds = seeds_of(mechanism, given)
    message = sent(cohort.total(exchange, given).message(seeds))
    assert message.value("round", int) == 3
    assert Exchange.from_values(message.value("exchange", dict)) == exchange
    transcript = Transcript.from_message(message)
    assert {contribution.site: contribution.digest for contribution in transcript.contributions} == {
        s: g.digest for s, g in given.items()
    }
    assert {name for name in message.blobs if name != "transcript"} == {f"seed/{site}" for site in seeds}


def test_exactly_the_seeds_of_all_sites_are_needed() -> None:
    exchange = Cohort.of(MASKED).exchange()
    seeds = {site: masks.new_seed() for site in WEIGHTS}
    slots = np.zeros(3, np.uint64)
    for wrong in ({}, {"h1": seeds["h1"]}, {**seeds, "h4": seeds["h1"]}, {**seeds, "h3": b"short"}):
        assert code_of(remove_self_masks, slots, exchange, wrong, 2**32) == "seed"
    total = sum(
        masks.self_mask(seeds[s], context=exchange.context, slots=3, modulus=2**32).astype(object) for s in seeds
    )
    summed = np.array([int(slot) % 2**32 for slot in total], np.uint64)  # type: ignore[union-attr]
    remove_self_masks(summed, exchange, seeds, 2**32)
    assert summed.tolist() == [0, 0, 0]


def test_the_server_cannot_open_a_sealed_sum() -> None:
    cohort = Cohort.of(SEALED)
    exchange = cohort.exchange()
    with pytest.raises(MessageError, match=r"^key"):
        cohort.total(exchange, cohort.seal(exchange)).mean({})


@pytest.mark.parametrize("mechanism", [SEALED, COMPACT, BOTH, CKKS], ids=named)
def test_no_object_of_the_server_refers_to_the_secret(mechanism: AgreedMechanism) -> None:
    """The server is built from a file of public parameters, as at a networked coordinator."""
    secret = secret_of(mechanism.key_scheme)
    imported = secret.public(STUDY).to_json()
    aggregator = SecureAggregationServer(mechanism, parameters=partial(PublicParameters.from_json, imported))
    cohort = Cohort.of(mechanism)
    exchange = aggregator.exchange(round_number=1, step="train", weights=WEIGHTS, clips=CLIPS)
    given = cohort.seal(exchange)
    total = aggregator.total(exchange, cohort.public_keys(exchange))
    for site, sealed in given.items():
        total.add(site, sent(sealed.message))
    held = (aggregator, total, total.message(seeds_of(mechanism, given)))
    found = list(buffers(held))
    assert any(secret.id.encode() in part for part in found)  # the search does see what is there
    hidden = secret.secret[200:264]  # of the key's numbers, whatever stands around them
    for needle in (secret.secret, hidden, secret.group_key, secret.group_key.hex().encode()):
        assert not any(needle in part for part in found)
    assert any(hidden in part for part in buffers((aggregator, secret)))  # and would see the secret
