from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wardround.errors import MessageError
from wardround.federation.message import Message, Value, decode, encode
from wardround.secure_aggregation.exchange import Exchange

STUDY = sha256(b"study").hexdigest()
NONCE = "0123456789abcdef" * 2

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

positive = st.floats(min_value=0, max_value=1e300, exclude_min=True)
site_names = st.from_regex(r"\Ah[A-Za-z0-9._-]{0,20}\Z")
exchanges = st.builds(
    Exchange,
    study=st.binary(min_size=32, max_size=32).map(bytes.hex),
    round=st.integers(0, 2**63),
    step=st.text(min_size=1, max_size=20),
    nonce=st.binary(min_size=16, max_size=16).map(bytes.hex),
    weights=st.dictionaries(site_names, positive, min_size=1, max_size=5),
    clips=st.dictionaries(st.text(min_size=1, max_size=9), positive, max_size=4),
    epoch=st.integers(0, 2**63),
    key=st.binary(max_size=32).map(bytes.hex),
)


def code_of(call: Any, *arguments: Any) -> str:
    try:
        call(*arguments)
    except MessageError as error:
        return error.code
    return ""


@settings(max_examples=200, deadline=None)
@given(exchanges)
def test_an_exchange_survives_a_round_trip(exchange: Exchange) -> None:
    sent = decode(encode(Message({"exchange": exchange.to_values()})))
    back = Exchange.from_values(sent.value("exchange", dict))
    assert back == exchange
    assert list(back.weights) == list(exchange.weights)
    assert back.digest() == exchange.digest()
    assert back.context == bytes.fromhex(exchange.digest())


def test_a_digest_by_hand() -> None:
    canonical = (
        '{"clips":{"lstm":0.25,"words":0.5},"epoch":2,"key":"abababababababababababababababab","nonce":"'
        + NONCE
        + '","round":3,"step":"train","study":"'
        + STUDY
        + '","version":"wardround-exchange-2","weights":{"h1":1.0,"h2":2.0,"h3":5.0}}'
    )
    assert EXCHANGE.digest() == sha256(canonical.encode()).hexdigest()


@pytest.mark.parametrize(
    "changed",
    [
        {"study": "0" * 64},
        {"round": 4},
        {"step": "submit"},
        {"nonce": "0" * 32},
        {"weights": {"h1": 1.0, "h2": 2.0, "h3": 5.0000000000000009}},
        {"weights": {"h1": 2.0, "h2": 1.0, "h3": 5.0}},
        {"weights": {"h1": 1.0, "h2": 2.0}},
        {"weights": {"h1": 1.0, "h2": 2.0, "h4": 5.0}},
        {"weights": {"h1": 1.0, "h2": 2.0, "h3": 5.0, "h4": 1.0}},
        {"clips": {"words": 0.25, "lstm": 0.5}},
        {"clips": {"words": 0.5, "lstm": 0.25, "crf": 1.0}},
        {"clips": {}},
        {"epoch": 3},
        {"key": "ac" * 16},
        {"key": ""},
    ],
)
def test_every_change_changes_the_digest(changed: dict[str, Any]) -> None:
    assert replace(EXCHANGE, **changed).digest() != EXCHANGE.digest()


def test_the_digest_does_not_depend_on_the_order_of_names_or_the_number_type() -> None:
    same = replace(EXCHANGE, weights={"h3": 5, "h1": 1, "h2": 2}, clips={"lstm": 0.25, "words": 0.5})
    assert same == EXCHANGE
    assert same.digest() == EXCHANGE.digest()
    assert [same.share_of(site) for site in EXCHANGE.weights] == [0.125, 0.25, 0.625]


def test_an_exchange_does_not_change_with_the_mappings_it_was_made_from() -> None:
    weights = {"h1": 1.0, "h2": 1.0}
    exchange = replace(EXCHANGE, weights=weights)
    before = exchange.digest()
    weights["h1"] = 3.0
    assert exchange.share_of("h1") == 0.5
    assert replace(exchange).digest() == before
    with pytest.raises(TypeError):
        exchange.weights["h1"] = 3.0  # type: ignore[index]


def test_shares_are_exactly_rounded_in_any_order() -> None:
    # Added from the left, 1e16 + 1 + 1 is 1e16 in floats of 64 bits; exactly it is 1e16 + 2.
    for names in (("h1", "h2", "h3"), ("h3", "h2", "h1")):
        exchange = replace(EXCHANGE, weights={name: {"h1": 1e16, "h2": 1.0, "h3": 1.0}[name] for name in names})
        assert exchange.share_of("h2") == 1 / 10000000000000002
        assert exchange.share_of(*names) == 1.0


def test_a_site_outside_the_exchange_has_no_share() -> None:
    assert code_of(EXCHANGE.share_of, "h4") == "exchange"
    assert EXCHANGE.share_of("h1", "h2") == 0.375


def test_nonces_are_fresh() -> None:
    found = {Exchange.new_nonce() for _ in range(100)}
    assert len(found) == 100
    for nonce in found:
        replace(EXCHANGE, nonce=nonce)


BAD: list[dict[str, Value]] = [
    {"study": STUDY[:-1]},
    {"study": STUDY.upper()},
    {"study": STUDY + "\n"},
    {"study": None},
    {"round": -1},
    {"round": True},
    {"round": 3.0},
    {"round": "3"},
    {"step": ""},
    {"step": "s" * 101},
    {"step": 1},
    {"nonce": NONCE[:-1]},
    {"nonce": NONCE + "0"},
    {"nonce": "g" * 32},
    {"weights": {}},
    {"weights": []},
    {"weights": {"h1": 0.0}},
    {"weights": {"h1": -1.0}},
    {"weights": {"h1": 1}},
    {"weights": {"h1": True}},
    {"weights": {"h1": "1"}},
    {"weights": {"h1": 1.0, "h2": float("nan")}},
    {"weights": {"h1": 1.0, "h2": float("inf")}},
    {"weights": {"h1": 1e308, "h2": 1e308}},
    {"weights": {"h 1": 1.0}},
    {"weights": {"\ud800": 1.0}},
    {"weights": {"h1": 1.0, "coordinator": 1.0}},
    {"clips": {"words": 0.0}},
    {"clips": {"words": float("inf")}},
    {"clips": {"words": 1}},
    {"clips": {"": 1.0}},
    {"clips": None},
    {"epoch": -1},
    {"epoch": False},
    {"key": "k"},
    {"key": "ab" * 33},
    {"key": None},
    {"more": 1},
]


@pytest.mark.parametrize("changed", BAD, ids=str)
def test_invalid_exchanges_are_refused(changed: dict[str, Value]) -> None:
    assert code_of(Exchange.from_values, EXCHANGE.to_values()) == ""
    assert code_of(Exchange.from_values, EXCHANGE.to_values() | changed) == "exchange"


@pytest.mark.parametrize("missing", list(EXCHANGE.to_values()))
def test_an_exchange_with_a_missing_value_is_refused(missing: str) -> None:
    values = {name: value for name, value in EXCHANGE.to_values().items() if name != missing}
    assert code_of(Exchange.from_values, values) == "exchange"
    assert code_of(Exchange.from_values, list(values)) == "exchange"


def test_an_exchange_can_be_written_as_json() -> None:
    assert json.loads(json.dumps(EXCHANGE.to_values())) == EXCHANGE.to_values()
