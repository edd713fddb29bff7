from __future__ import annotations

import tracemalloc
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies

from wardround.errors import MessageError
from wardround.federation.message import Message, Value, decode, encode
from wardround.secure_aggregation import masks
from wardround.secure_aggregation.exchange import Exchange
from wardround.secure_aggregation.identities import Certifier, Identity
from wardround.secure_aggregation.mac import MacTag
from wardround.secure_aggregation.transcript import (
    Contribution,
    Transcript,
    check_contribution,
    check_seed,
    contribute,
    sealed_digest,
)

STUDY = sha256(b"study").hexdigest()
NONCE = "0123456789abcdef" * 2
GIVEN = {site: sha256(site.encode()).hexdigest() for site in ("h1", "h2", "h3", "h4")}

EXCHANGE = Exchange(
    study=STUDY,
    round=3,
    step="train",
    nonce=NONCE,
    weights={"h1": 1.0, "h2": 2.0, "h3": 5.0},
    clips={"words": 0.5, "lstm": 0.25},
    epoch=2,
    key="ab" * 16,
)


SEED = bytes(range(32))
TAG: MacTag = (5, 2**60 - 1, 0)
COMMITMENT = masks.commitment(SEED, context=EXCHANGE.context, site="h1")


def code_of(call: Any, *arguments: Any) -> str:
    try:
        call(*arguments)
    except MessageError as error:
        return error.code
    return ""


arrays = numpy_strategies.arrays(
    st.sampled_from(["<f4", ">f4", "<u8", "|u1", "|b1", "<f2"]).map(np.dtype),
    numpy_strategies.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
)
messages = st.builds(
    Message,
    st.dictionaries(
        st.text(max_size=4), st.integers(-9, 9) | st.dictionaries(st.text(max_size=3), st.none()), max_size=3
    ),
    st.dictionaries(st.text(max_size=4), arrays, max_size=3),
    st.dictionaries(st.text(max_size=4), st.binary(max_size=9), max_size=3),
)


def turned(values: Mapping[str, Any]) -> dict[str, Any]:
    found = reversed(list(values.items()))
    return {name: turned(part) if isinstance(part, dict) else part for name, part in found}


@settings(max_examples=200, deadline=None)
@given(messages)
def test_a_digest_survives_encoding_and_any_order(message: Message) -> None:
    digest = sealed_digest(message)
    assert sealed_digest(decode(encode(message))) == digest
    assert sealed_digest(Message(turned(message.values), turned(message.arrays), turned(message.blobs))) == digest
    contribution = Contribution("h1", digest, bytes(64), TAG, COMMITMENT)
    both = decode(encode(Message(message.values, message.arrays, {**message.blobs, **contribution.to_blobs()})))
    assert sealed_digest(both) == digest
    assert Contribution.from_message(both) == contribution


def test_every_part_of_a_submission_changes_the_digest() -> None:
    slots = np.array([1, 2, 3, 4], np.uint64)
    given = Message({"clipped": 1, "of": {"a": 1, "b": 2}}, {"words": slots}, {"seal": b"s"})
    others = [
        Message({"clipped": 2, "of": {"a": 1, "b": 2}}, given.arrays, given.blobs),
        Message({"clipped": 1.0, "of": {"a": 1, "b": 2}}, given.arrays, given.blobs),
        Message({"clipped": 1, "of": {"a": 2, "b": 1}}, given.arrays, given.blobs),
        Message({"clipped": 1}, given.arrays, given.blobs),
        Message({**given.values, "contribution": 1}, given.arrays, given.blobs),
        Message(given.values, {"words": slots[::-1]}, given.blobs),
        Message(given.values, {"words": slots.reshape(2, 2)}, given.blobs),
        Message(given.values, {"words": slots.astype(np.int64)}, given.blobs),
        Message(given.values, {"word": slots}, given.blobs),
        Message(given.values, {"words": slots, "contribution": slots}, given.blobs),
        Message(given.values, {}, given.blobs),
        Message(given.values, given.arrays, {"seal": b"t"}),
        Message(given.values, given.arrays, {"seal": b"s", "more": b""}),
        Message(given.values, given.arrays, {}),
    ]
    assert len({sealed_digest(message) for message in (given, *others)}) == 15


def test_a_digest_does_not_copy_the_submission() -> None:
    message = Message({}, {"words": np.zeros(4_000_000, np.uint8)}, {"seal": bytes(4_000_000)})
    tracemalloc.start()
    sealed_digest(message)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


@pytest.fixture(scope="module")
def identities() -> dict[str, Identity]:
    return {site: Identity.new(site, None) for site in GIVEN}


@pytest.fixture(scope="module")
def transcript(identities: dict[str, Identity]) -> Transcript:
    return signed(identities, EXCHANGE, "h1", "h2", "h3")


def signed(identities: dict[str, Identity], exchange: Exchange, *sites: str) -> Transcript:
    slots = [
        contribute(
            identities[site],
            exchange,
            GIVEN[site],
            tag=TAG,
            commitment=masks.commitment(SEED, context=exchange.context, site=site),
        )
        for site in sites
    ]
    return Transcript(exchange, {site: identities[site].public_keys for site in sites}, slots)


def refusal(
    transcript: Transcript,
    *,
    minimum: int = 2,
    me: str = "h1",
    own: str | None = GIVEN["h1"],
    study: str = STUDY,
    round: int = 3,
    certifier: Certifier | None = None,
) -> str:
    """Return the reason of a refusal, empty if there is none; check its code, which is always the same."""
    try:
        transcript.check(minimum=minimum, me=me, own=own, study=study, round=round, certifier=certifier)
    except MessageError as error:
        assert error.code == "transcript"
        return str(error).removeprefix("transcript: ")
    return ""


def test_a_contribution_holds_for_its_exchange_and_site(identities: dict[str, Identity]) -> None:
    contribution, keys = contribute(identities["h1"], EXCHANGE, GIVEN["h1"]), identities["h1"].public_keys
    check_contribution(contribution, EXCHANGE, keys)
    repeated = replace(EXCHANGE, nonce=Exchange.new_nonce())
    assert code_of(check_contribution, contribution, repeated, keys) == "signature"
    assert code_of(check_contribution, replace(contribution, digest=GIVEN["h2"]), EXCHANGE, keys) == "signature"
    assert code_of(check_contribution, replace(contribution, signature=bytes(64)), EXCHANGE, keys) == "signature"
    assert code_of(check_contribution, contribution, EXCHANGE, identities["h2"].public_keys) == "contribution"
    # Under another name, by public keys with the same signing key: the name is signed too.
    assert (
        code_of(check_contribution, replace(contribution, site="h2"), EXCHANGE, replace(keys, name="h2")) == "signature"
    )
    without = replace(EXCHANGE, weights={"h2": 1.0})
    assert code_of(check_contribution, contribution, without, keys) == "contribution"


def test_what_a_contribution_signs_by_hand(identities: dict[str, Identity]) -> None:
    """The signature covers context, digest, tag and commitment (each after its length), and the name."""
    digest, keys = bytes.fromhex(GIVEN["h1"]), identities["h1"].public_keys
    key = Ed25519PublicKey.from_public_bytes(keys.signing)
    numbers = b"".join(number.to_bytes(8, "big") for number in TAG)
    for tag, commitment, middle in (
        (TAG, COMMITMENT, b"\x18" + numbers + b"\x20" + bytes.fromhex(COMMITMENT)),
        (TAG[:1], "", b"\x08" + numbers[:8] + b"\x00"),
        ((), COMMITMENT, b"\x00\x20" + bytes.fromhex(COMMITMENT)),
        ((), "", b"\x00\x00"),
    ):
        contribution = contribute(identities["h1"], EXCHANGE, GIVEN["h1"], tag=tag, commitment=commitment)
        key.verify(contribution.signature, b"wardround-contribution-2\x00" + EXCHANGE.context + digest + middle + b"h1")
        check_contribution(contribution, EXCHANGE, keys)


@pytest.mark.parametrize(
    "changed",
    [
        {"tag": (6, 2**60 - 1, 0)},
        {"tag": (5, 2**60 - 1, 1)},
        {"tag": (5, 2**60 - 1)},
        {"tag": (2**60 - 1, 5, 0)},
        {"tag": ()},
        {"commitment": GIVEN["h2"]},
        {"commitment": ""},
        {"digest": GIVEN["h2"]},
        {"tag": (), "commitment": ""},
    ],
    ids=str,
)
def test_tag_and_commitment_are_signed(changed: dict[str, Any], identities: dict[str, Identity]) -> None:
    contribution = contribute(identities["h1"], EXCHANGE, GIVEN["h1"], tag=TAG, commitment=COMMITMENT)
    assert (contribution.tag, contribution.commitment) == (TAG, COMMITMENT)
    check_contribution(contribution, EXCHANGE, identities["h1"].public_keys)
    assert (
        code_of(check_contribution, replace(contribution, **changed), EXCHANGE, identities["h1"].public_keys)
        == "signature"
    )


def test_a_changed_tag_or_commitment_invalidates_a_transcript(transcript: Transcript) -> None:
    one, two, three = transcript.contributions
    for forged in (replace(two, tag=(4, *two.tag[1:])), replace(two, commitment=three.commitment)):
        assert "signature: h2" in refusal(replace(transcript, contributions=[one, forged, three]))
    # Of this site's own too, though its digest is the one it remembers.
    own = replace(one, tag=(4, *one.tag[1:]))
    assert "signature: h1" in refusal(replace(transcript, contributions=[own, two, three]))


def test_a_seed_is_checked_against_the_commitment(identities: dict[str, Identity]) -> None:
    contribution = contribute(identities["h1"], EXCHANGE, GIVEN["h1"], tag=TAG, commitment=COMMITMENT)
    check_seed(contribution, EXCHANGE, SEED)
    other = masks.new_seed()
    for wrong in (other, SEED[:-1], SEED + b"\x00", SEED[::-1], b""):
        with pytest.raises(MessageError, match="h1: sent another seed than it committed to") as refused:
            check_seed(contribution, EXCHANGE, wrong)
        assert refused.value.code == "seed"
        assert not wrong or wrong.hex() not in str(refused.value)
    # Nor in another exchange, nor as another site's, nor where a site committed to nothing.
    assert code_of(check_seed, contribution, replace(EXCHANGE, nonce="0" * 32), SEED) == "seed"
    assert code_of(check_seed, replace(contribution, site="h2"), EXCHANGE, SEED) == "seed"
    assert code_of(check_seed, replace(contribution, commitment=""), EXCHANGE, b"") == "seed"


def test_a_site_outside_the_exchange_cannot_contribute(identities: dict[str, Identity]) -> None:
    assert code_of(contribute, identities["h4"], EXCHANGE, GIVEN["h4"]) == "exchange"


def test_invalid_contributions_are_refused() -> None:
    values: dict[str, Value] = {"site": "h1", "digest": GIVEN["h1"], "commitment": COMMITMENT}
    tag = b"".join(number.to_bytes(8, "big") for number in TAG)
    good = Message(values, {}, {"signature": bytes(64), "tag": tag})
    assert Contribution.from_bytes(encode(good)) == Contribution("h1", GIVEN["h1"], bytes(64), TAG, COMMITMENT)
    bare = Message({**values, "commitment": ""}, {}, {"signature": bytes(64), "tag": b""})
    assert Contribution.from_bytes(encode(bare)) == Contribution("h1", GIVEN["h1"], bytes(64))
    bad = [
        Message({**values, "site": "h/1"}, {}, good.blobs),
        Message({**values, "site": 1}, {}, good.blobs),
        Message({**values, "digest": "0"}, {}, good.blobs),
        Message({**values, "more": 1}, {}, good.blobs),
        Message({"site": "h1", "commitment": ""}, {}, good.blobs),
        Message({"site": "h1", "digest": GIVEN["h1"]}, {}, good.blobs),  # as version 1 had it
        Message({**values, "commitment": "0"}, {}, good.blobs),
        Message({**values, "commitment": COMMITMENT.upper()}, {}, good.blobs),
        Message({**values, "commitment": None}, {}, good.blobs),
        Message(values, {}, {**good.blobs, "signature": bytes(63)}),
        Message(values, {}, {**good.blobs, "tag": bytes(7)}),
        Message(values, {}, {**good.blobs, "tag": bytes(32)}),  # of four numbers
        Message(values, {}, {"signature": bytes(64)}),
        Message(values, {}, {"tag": tag}),
        Message(values, {}, {}),
        Message(values, {}, {**good.blobs, "more": b""}),
        Message(values, {"more": np.zeros(1)}, good.blobs),
    ]
    for data in (b"", b"no message", *map(encode, bad)):
        assert code_of(Contribution.from_bytes, data) == "contribution"
    assert code_of(Contribution.from_message, Message()) == "contribution"
    for numbers in ((-1,), (2**64,), (0, 0, 0, 0)):
        assert code_of(Contribution, "h1", GIVEN["h1"], bytes(64), numbers) == "contribution"


def test_a_valid_transcript_is_accepted(transcript: Transcript) -> None:
    assert refusal(transcript) == ""
    assert refusal(transcript, minimum=3) == ""
    assert refusal(transcript, me="h4", own=None) == ""
    assert transcript.sites == ("h1", "h2", "h3")
    assert transcript.share == 1.0


def test_a_transcript_of_some_of_the_cohort(identities: dict[str, Identity]) -> None:
    some = signed(identities, EXCHANGE, "h3", "h1")
    assert refusal(some) == ""
    assert refusal(some, me="h2", own=None) == ""
    assert some.share == 0.75  # (5 + 1) / 8


def test_a_transcript_survives_a_round_trip(transcript: Transcript, identities: dict[str, Identity]) -> None:
    more = replace(transcript, public_keys={**transcript.public_keys, "h4": identities["h4"].public_keys})
    for sent in (transcript, more):
        message = decode(encode(Message({"round": 3}, {}, {"sum": b"sum", **sent.to_blobs()})))
        back = Transcript.from_message(message)
        assert back.exchange == transcript.exchange
        assert back.public_keys == transcript.public_keys
        assert list(back.contributions) == list(transcript.contributions)
        assert refusal(back) == ""


def test_a_transcript_of_too_few_sites_is_refused(transcript: Transcript, identities: dict[str, Identity]) -> None:
    assert "lists 3 sites; the study needs at least 4" in refusal(transcript, minimum=4)
    assert "lists 1 sites" in refusal(signed(identities, EXCHANGE, "h1"))
    assert "lists 0 sites" in refusal(signed(identities, EXCHANGE), own=None)


def test_a_transcript_that_lists_a_site_twice_is_refused(
    transcript: Transcript, identities: dict[str, Identity]
) -> None:
    assert "twice" in refusal(signed(identities, EXCHANGE, "h1", "h2", "h2"))
    again = contribute(identities["h2"], EXCHANGE, GIVEN["h3"])
    assert "twice" in refusal(replace(transcript, contributions=[*transcript.contributions, again]))


def test_a_transcript_with_a_site_outside_the_cohort_is_refused(
    transcript: Transcript, identities: dict[str, Identity]
) -> None:
    wider = replace(EXCHANGE, weights={**EXCHANGE.weights, "h4": 1.0})
    stranger = contribute(identities["h4"], wider, GIVEN["h4"])
    public_keys = {site: identity.public_keys for site, identity in identities.items()}
    listed = Transcript(EXCHANGE, public_keys, [*transcript.contributions, stranger])
    assert "outside the cohort" in refusal(listed)


def test_a_transcript_without_the_sites_own_submission_is_refused(identities: dict[str, Identity]) -> None:
    assert "leaves out what h1 submitted" in refusal(signed(identities, EXCHANGE, "h2", "h3"))


def test_a_transcript_with_another_submission_of_the_site_is_refused(transcript: Transcript) -> None:
    assert "another update" in refusal(transcript, own=GIVEN["h2"])


def test_a_transcript_that_lists_a_site_without_submission_is_refused(transcript: Transcript) -> None:
    assert "lists h1, which submitted nothing" in refusal(transcript, own=None)


def test_a_transcript_of_another_study_or_round_is_refused(transcript: Transcript) -> None:
    assert "another study" in refusal(transcript, study="0" * 64)
    assert "another round" in refusal(transcript, round=2)
    assert "another round" in refusal(transcript, round=4)


def test_contributions_to_another_exchange_are_refused(transcript: Transcript) -> None:
    for changed in (
        replace(EXCHANGE, nonce="0" * 32),
        replace(EXCHANGE, weights={"h1": 1.0, "h2": 2.0, "h3": 4.0}),
        replace(EXCHANGE, clips={"words": 0.5}),
        replace(EXCHANGE, epoch=1),
    ):
        assert "signature" in refusal(replace(transcript, exchange=changed))


def test_contributions_signed_by_others_are_refused(transcript: Transcript, identities: dict[str, Identity]) -> None:
    one, two, three = transcript.contributions
    for forged in (
        replace(two, digest=GIVEN["h4"]),
        replace(two, signature=three.signature),
        replace(two, signature=bytes(64)),
        replace(contribute(identities["h3"], EXCHANGE, GIVEN["h2"]), site="h2"),
    ):
        assert "signature: h2" in refusal(replace(transcript, contributions=[one, forged, three]))


def test_missing_public_keys_or_those_of_another_site_are_refused(
    transcript: Transcript, identities: dict[str, Identity]
) -> None:
    public_keys = dict(transcript.public_keys)
    other = Identity.new("h2", None).public_keys
    assert "signature: h2" in refusal(replace(transcript, public_keys=public_keys | {"h2": other}))
    assert "another site" in refusal(replace(transcript, public_keys=public_keys | {"h2": public_keys["h3"]}))
    assert "missing" in refusal(replace(transcript, public_keys={site: public_keys[site] for site in ("h1", "h3")}))
    certified = replace(public_keys["h2"], signature=b"s", certificate=b"c")
    assert "signed by a certificate" in refusal(replace(transcript, public_keys=public_keys | {"h2": certified}))


class Vouching:
    """A certifier with one secret, in place of a root of trust."""

    def __init__(self, name: str, secret: bytes = b"root") -> None:
        self.certificate = name.encode()
        self.secret = secret

    def sign(self, data: bytes) -> bytes:
        return sha256(self.secret + self.certificate + data).digest()

    def check(self, data: bytes, signature: bytes, *, certificate: bytes, name: str | None) -> None:
        if name is None or certificate != name.encode():
            raise MessageError("certificate")
        if signature != sha256(self.secret + certificate + data).digest():
            raise MessageError("signature", "by another")


VOUCHING = Vouching("h1")


@pytest.fixture(scope="module")
def vouched() -> dict[str, Identity]:
    return {site: Identity.new(site, Vouching(site)) for site in GIVEN}


@pytest.fixture(scope="module")
def certified(vouched: dict[str, Identity]) -> Transcript:
    return signed(vouched, EXCHANGE, "h1", "h2", "h3")


def test_public_keys_are_checked_against_their_certificates(
    transcript: Transcript, certified: Transcript, vouched: dict[str, Identity]
) -> None:
    assert refusal(certified, certifier=VOUCHING) == ""
    assert "certificate" in refusal(transcript, certifier=VOUCHING)
    # The coordinator makes up a site: it can sign as that site, but nobody vouches for it.
    made_up = vouched | {"h3": Identity.new("h3", Vouching("h3", b"another root"))}
    assert "signature: by another" in refusal(signed(made_up, EXCHANGE, "h1", "h2", "h3"), certifier=VOUCHING)
    # A site lends its certificate to another name.
    lent = vouched | {"h3": Identity.new("h3", Vouching("h2"))}
    assert "certificate" in refusal(signed(lent, EXCHANGE, "h1", "h2", "h3"), certifier=VOUCHING)


def test_invalid_transcripts_are_refused(transcript: Transcript) -> None:
    good = decode(transcript.to_blobs()["transcript"])
    values, blobs = dict(good.values), dict(good.blobs)
    bad = [
        Message({}, {}, blobs),
        Message({"exchange": 1}, {}, blobs),
        Message({"exchange": {}}, {}, blobs),
        Message({**values, "more": 1}, {}, blobs),
        Message(values, {"more": np.zeros(1)}, blobs),
        Message(values, {}, {**blobs, "more": b""}),
        Message(values, {}, {name: blob for name, blob in blobs.items() if name != "public_keys/0"}),
        Message(values, {}, {name: blob for name, blob in blobs.items() if not name.endswith("/0")}),
        Message(values, {}, blobs | {"public_keys/1": b""}),
        Message(values, {}, blobs | {"contribution/1": blobs["public_keys/1"]}),
    ]
    for data in (b"", b"no message", transcript.to_blobs()["transcript"][:-1], *map(encode, bad)):
        assert code_of(Transcript.from_message, Message({}, {}, {"transcript": data})) == "transcript"
    assert code_of(Transcript.from_message, Message()) == "transcript"


@settings(max_examples=300, deadline=None)
@given(share=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_one_changed_bit_is_refused(certified: Transcript, share: float, bit: int) -> None:
    """The flipped bit may be in the exchange, the public keys, a digest or a signature."""
    blob = bytearray(certified.to_blobs()["transcript"])
    blob[int(share * len(blob))] ^= 1 << bit
    try:
        back = Transcript.from_message(Message({}, {}, {"transcript": bytes(blob)}))
    except MessageError as error:
        assert error.code == "transcript"
    else:
        assert refusal(back, certifier=VOUCHING)
