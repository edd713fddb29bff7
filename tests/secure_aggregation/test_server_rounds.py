from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.algorithms.wards import (
    BOTH,
    CKKS,
    EVERY,
    MASKED,
    NAMES,
    SEALED,
    SIZES,
    Consortium,
    Go,
    Meddle,
    asking,
    changing,
    codes,
    without,
)
from tests.secure_aggregation.cohort import named, packing_of, secret_of

from wardround.errors import FederationError, TrainingError
from wardround.federation.federation import SiteId
from wardround.federation.message import Message, Value
from wardround.secure_aggregation import masks
from wardround.secure_aggregation.exchange import Exchange
from wardround.secure_aggregation.identities import Identity
from wardround.secure_aggregation.masks import remove_self_masks
from wardround.secure_aggregation.mechanisms import AgreedMechanism

# CKKS differs in how numbers travel, not in what is asked: twenty times slower, it is looked at where that counts.
ALL = pytest.mark.parametrize("mechanism", [MASKED, SEALED, BOTH], ids=named)
UNDER_MASKS = pytest.mark.parametrize("mechanism", [MASKED, BOTH], ids=named)
AT_SITES = pytest.mark.parametrize("mechanism", [SEALED, BOTH], ids=named)
NEAR = 1e-5


def mean_of(*sites: SiteId) -> float:
    """Σ n_i · 0.1 i / Σ n_i."""
    return sum(SIZES[site] * 0.1 * int(site[1:]) for site in sites) / sum(SIZES[site] for site in sites)


def exchange_in(message: Message) -> Exchange:
    return Exchange.from_values(message.value("exchange", dict))


def steps(consortium: Consortium) -> list[str]:
    """Return the requested steps, each once for all sites."""
    found = [step for step, _, _, _ in consortium.passed]
    return [step for place, step in enumerate(found) if place == 0 or found[place - 1] != step]


@pytest.mark.parametrize("mechanism", EVERY, ids=named)
def test_the_mean_of_a_round_by_hand(mechanism: AgreedMechanism, tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, mechanism)
    (record,) = consortium.run()
    assert mean_of(*NAMES) == pytest.approx(0.325)
    assert consortium.shared() == pytest.approx(0.325, abs=NEAR)
    assert (record.answered, record.absent, record.clipped, record.loss) == (4, (), 0, 1.0)
    expected = ["describe", "train", "submit"] + ["unmask"] * mechanism.is_masked + ["open_sum"] * mechanism.is_sealed
    assert steps(consortium) == expected


@AT_SITES
def test_every_site_opens_the_same_bits_and_reports_their_digest(mechanism: AgreedMechanism, tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, mechanism)
    for record in consortium.run(3):
        assert record.digests.keys() == set(NAMES)
        assert len(set(record.digests.values())) == 1
    assert len({consortium.shared(site) for site in NAMES}) == 1
    assert consortium.shared() == pytest.approx(3 * 0.325, abs=3 * NEAR)
    assert not consortium.coordinator.shared["w"].any()  # the coordinator has learned nothing
    assert consortium.coordinator.number == 3


def test_public_keys_are_sent_to_sites_only_with_masks(tmp_path: Path) -> None:
    shown = {}
    for mechanism in EVERY:
        consortium = Consortium(tmp_path / str(named(mechanism)), mechanism)
        consortium.run()
        shown[named(mechanism)] = set(consortium.questions("submit")[0].blobs)
    public_keys = {f"public_keys/{site}" for site in NAMES}
    assert shown == {named(m): public_keys if m.is_masked else set() for m in EVERY}


@ALL
def test_only_questions_of_masked_studies_contain_the_shared_half(mechanism: AgreedMechanism, tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, mechanism)
    consortium.run(2)
    for question in consortium.questions("train"):
        assert set(question.arrays) == ({"shared/w"} if mechanism is MASKED else set())


# Somebody goes away


@ALL
def test_a_site_that_does_not_train_is_left_out(mechanism: AgreedMechanism, tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, mechanism)
    consortium.meddle = without(("h4", "train"))
    (record,) = consortium.run()
    assert consortium.shared() == pytest.approx(mean_of("h1", "h2", "h3"), abs=NEAR)
    assert (record.answered, codes(record)) == (3, [("h4", "ConnectionError")])
    assert exchange_in(consortium.questions("submit")[0]).weights == {"h1": 1.0, "h2": 2.0, "h3": 5.0}
    assert record.digests.keys() == (set(NAMES) if mechanism.is_sealed else set())  # and still takes


@pytest.mark.parametrize("mechanism", [SEALED, CKKS], ids=named)
def test_sealed_if_a_site_does_not_submit_the_mean_is_that_of_the_others(
    mechanism: AgreedMechanism, tmp_path: Path
) -> None:
    consortium = Consortium(tmp_path, mechanism)
    consortium.meddle = without(("h4", "submit"))
    (record,) = consortium.run()
    assert consortium.shared() == consortium.shared("h4") == pytest.approx(mean_of("h1", "h2", "h3"), abs=NEAR)
    assert (record.answered, codes(record)) == (3, [("h4", "ConnectionError")])
    assert steps(consortium).count("submit") == 1


@UNDER_MASKS
def test_masked_the_exchange_is_repeated_with_the_remaining_sites(mechanism: AgreedMechanism, tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, mechanism)
    consortium.meddle = without(("h4", "submit"))
    (record,) = consortium.run()
    assert consortium.shared() == pytest.approx(mean_of("h1", "h2", "h3"), abs=NEAR)
    assert (record.answered, codes(record)) == (3, [("h4", "ConnectionError")])
    first, second = (exchange_in(question) for question in consortium.questions("submit"))
    assert first.nonce != second.nonce
    assert (set(first.weights), set(second.weights)) == (set(NAMES), {"h1", "h2", "h3"})
    # Nobody was asked to reveal before all of an exchange had given, and then each once.
    assert [site for site, _ in consortium.answers("unmask")] == ["h1", "h2", "h3"]
    assert {question.value("nonce", str) for question in consortium.questions("unmask")} == {second.nonce}
    if mechanism is BOTH:
        assert consortium.shared("h4") == consortium.shared("h1")


@UNDER_MASKS
def test_masked_several_sites_may_leave_one_after_another(mechanism: AgreedMechanism, tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, replace(mechanism, minimum=2))
    gone: list[SiteId] = ["h4", "h3"]

    def meddle(site: SiteId, step: str, message: Message, go: Go) -> Message:
        if step == "submit" and gone and site == gone[0]:
            gone.pop(0)
            raise ConnectionError
        return go(message)

    consortium.meddle = meddle
    (record,) = consortium.run()
    assert consortium.shared() == pytest.approx(mean_of("h1", "h2"), abs=NEAR)
    assert codes(record) == [("h4", "ConnectionError"), ("h3", "ConnectionError")]


@ALL
def test_too_few_submissions_stop_the_round_and_no_site_unmasks(mechanism: AgreedMechanism, tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, mechanism)
    consortium.meddle = without(("h4", "submit"), ("h3", "submit"))
    with pytest.raises(FederationError, match="2 of 4 sites answered; the study needs at least 3"):
        consortium.run()
    assert not {"unmask", "open_sum"} & set(steps(consortium))
    assert consortium.coordinator.number == 0
    # Put back, they try again, and the round is as if nothing had been.
    consortium.meddle = without()
    consortium.ask("restore", Message({"round": 0}))
    consortium.run()
    assert consortium.shared() == pytest.approx(0.325, abs=NEAR)


@UNDER_MASKS
def test_a_site_that_leaves_before_unmask_makes_the_sum_unopenable(mechanism: AgreedMechanism, tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, mechanism)
    consortium.meddle = without(("h2", "unmask"))
    with pytest.raises(FederationError, match=r"^h2 left after it had submitted; the round's sum cannot be opened$"):
        consortium.run()
    # Without being put back nobody gives again what was revealed.
    again = consortium.questions("submit")[0]
    told = replace(exchange_in(again), nonce=Exchange.new_nonce())
    asked = Message({"round": 1, "exchange": told.to_values()}, {}, again.blobs)
    found = consortium.ask("submit", asked)
    assert {site: found[site] for site in ("h1", "h3", "h4")} == dict.fromkeys(("h1", "h3", "h4"), "spent")
    consortium.meddle = without()
    consortium.ask("restore", Message({"round": 0}))
    consortium.run()
    assert consortium.shared() == pytest.approx(0.325, abs=NEAR)
    assert {site: ward.aggregation.record.redraws for site, ward in consortium.wards.items()} == {
        "h1": 1,
        "h2": 0,  # it revealed nothing, and may give the same again
        "h3": 1,
        "h4": 1,
    }


@AT_SITES
def test_a_site_that_leaves_before_open_is_behind_and_loads_another_sites_copy(
    mechanism: AgreedMechanism, tmp_path: Path
) -> None:
    consortium = Consortium(tmp_path, mechanism)
    consortium.run()
    consortium.meddle = without(("h2", "open_sum"))
    (record,) = consortium.run()
    assert codes(record) == [("h2", "ConnectionError")]
    consortium.meddle = without()
    (record,) = consortium.run()
    assert codes(record) == [("h2", "behind"), ("h2", "behind")]  # it neither trains nor takes
    assert consortium.shared("h1") == pytest.approx(2 * 0.325 + mean_of("h1", "h3", "h4"), abs=3 * NEAR)
    copy = consortium.ask("share_copy", Message({"round": 3}), to=["h3"])["h3"]
    taken = consortium.ask("load_copy", Message({"round": 3}, {}, copy.blobs), to=["h2"])["h2"]
    assert taken.value("shared", str) == record.digests["h1"]
    assert consortium.shared("h2") == consortium.shared("h1")
    assert not codes(consortium.run()[0])


@AT_SITES
def test_too_few_sites_that_open_the_sum_stop_the_round(mechanism: AgreedMechanism, tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, mechanism)
    consortium.meddle = without(("h2", "open_sum"), ("h3", "open_sum"))
    with pytest.raises(FederationError, match="2 of 4 sites answered"):
        consortium.run()


# Somebody sends what cannot be added


def flip(message: Message) -> Message:
    name = "slots" if "slots" in message.arrays else "sealed"
    data = message.arrays[name].copy()
    data[-1] ^= 1
    return replace(message, arrays={**message.arrays, name: data})


def cut(message: Message) -> Message:
    name = "slots" if "slots" in message.arrays else "sealed"
    return replace(message, arrays={**message.arrays, name: message.arrays[name][:-1]})


BAD: Mapping[str, tuple[Callable[[Message], Message], str]] = {
    "one bit": (flip, "altered"),
    "cut short": (cut, "altered"),
    "no contribution": (lambda message: replace(message, blobs={}), "contribution"),
    "nothing": (lambda message: Message(), "value-missing"),
    "clipped": (lambda message: replace(message, values={**message.values, "clipped": -1}), "value"),
}


@ALL
@pytest.mark.parametrize("bad", BAD)
def test_an_update_altered_in_transit_is_an_absence(mechanism: AgreedMechanism, bad: str, tmp_path: Path) -> None:
    change, code = BAD[bad]
    consortium = Consortium(tmp_path, mechanism)
    consortium.meddle = changing("h4", "submit", change)
    (record,) = consortium.run()
    assert ("h4", code) in codes(record)
    assert record.answered == 3
    assert consortium.shared() == pytest.approx(mean_of("h1", "h2", "h3"), abs=NEAR)


@ALL
def test_an_answer_to_an_earlier_exchange_is_an_absence(mechanism: AgreedMechanism, tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, mechanism)
    consortium.run()
    old = dict(consortium.answers("submit"))["h4"]
    consortium.meddle = changing("h4", "submit", lambda message: old)
    (record,) = consortium.run()
    assert codes(record)[0] == ("h4", "exchange")
    assert consortium.shared() == pytest.approx(0.325 + mean_of("h1", "h2", "h3"), abs=2 * NEAR)


@ALL
def test_a_site_that_answers_for_another_is_an_absence(mechanism: AgreedMechanism, tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, mechanism)
    seen: list[Message] = []

    def meddle(site: SiteId, step: str, message: Message, go: Go) -> Message:
        answer = go(message)
        if step == "submit" and site == "h1":
            seen.append(answer)
        return seen[-1] if (site, step) == ("h4", "submit") else answer

    consortium.meddle = meddle
    (record,) = consortium.run()
    assert codes(record)[0] == ("h4", "altered")
    assert consortium.shared() == pytest.approx(mean_of("h1", "h2", "h3"), abs=NEAR)


def reweighed(weight: float) -> Callable[[Message], Message]:
    def change(message: Message) -> Message:
        exchange = exchange_in(message)
        told = replace(exchange, weights={**exchange.weights, "h4": weight})
        return replace(message, values={**message.values, "exchange": told.to_values()})

    return change


@pytest.mark.parametrize("mechanism", [SEALED, BOTH], ids=named)
def test_a_site_refuses_a_weight_that_is_not_its_own(mechanism: AgreedMechanism, tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, mechanism)
    consortium.meddle = asking("h4", "submit", reweighed(800.0))
    (record,) = consortium.run()
    assert codes(record)[0] == ("h4", "weight")


READY: Mapping[str, tuple[Callable[[Message], Message], str]] = {
    "no weight": (lambda m: replace(m, values={k: v for k, v in m.values.items() if k != "weight"}), "value-missing"),
    "no public keys": (lambda m: replace(m, blobs={}), "value-missing"),
    "a weight of nothing": (lambda m: replace(m, values={**m.values, "weight": 0.0}), "weight"),
    "a weight beyond all": (lambda m: replace(m, values={**m.values, "weight": 1e308}), "weight"),
    "largest_by_group of nothing": (lambda m: replace(m, values={**m.values, "largest_by_group": 3}), "value"),
    "an extent below zero": (lambda m: replace(m, values={**m.values, "largest_by_group": {"layer": -1.0}}), "value"),
    "an extent beyond all": (lambda m: replace(m, values={**m.values, "largest_by_group": {"layer": 1e300}}), "value"),
    "public keys of another site": (
        lambda m: replace(m, blobs={"public_keys": Identity.new("h3", None).public_keys.to_bytes()}),
        "public-keys",
    ),
    "malformed public keys": (lambda m: replace(m, blobs={"public_keys": b"public-keys"}), "public-keys"),
}


@ALL
@pytest.mark.parametrize("bad", READY)
def test_a_site_without_a_usable_update_is_absent_before_the_submit_phase(
    mechanism: AgreedMechanism, bad: str, tmp_path: Path
) -> None:
    """One site must not prevent the others from submitting, nor stop the study."""
    change, code = READY[bad]
    consortium = Consortium(tmp_path, mechanism)
    consortium.meddle = changing("h4", "train", change)
    (record,) = consortium.run()
    assert codes(record) == [("h4", code)]
    assert consortium.shared() == pytest.approx(mean_of("h1", "h2", "h3"), abs=NEAR)


@AT_SITES
@pytest.mark.parametrize("said", [{}, {"shared": 3}])
def test_a_site_that_does_not_report_its_digest_is_absent(
    mechanism: AgreedMechanism, said: dict[str, Value], tmp_path: Path
) -> None:
    consortium = Consortium(tmp_path, mechanism)
    consortium.meddle = changing("h4", "open_sum", lambda message: Message(said))
    (record,) = consortium.run()
    assert codes(record) == [("h4", "value-missing")]
    assert record.digests.keys() == {"h1", "h2", "h3"}


@UNDER_MASKS
@pytest.mark.parametrize("seed", [b"", bytes(31), bytes(33)])
def test_an_invalid_seed_makes_the_sum_unopenable(mechanism: AgreedMechanism, seed: bytes, tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, mechanism)
    consortium.meddle = changing("h2", "unmask", lambda message: Message({}, {}, {"seed": seed}))
    with pytest.raises(FederationError, match="h2 sent another seed than it had committed to"):
        consortium.run()


@UNDER_MASKS
def test_a_wrong_seed_fails_the_round_and_not_the_study(mechanism: AgreedMechanism, tmp_path: Path) -> None:
    """The commitment identifies the site, and the round is tried again without it."""
    consortium = Consortium(tmp_path, mechanism)
    consortium.meddle = changing("h2", "unmask", lambda message: Message({}, {}, {"seed": masks.new_seed()}))
    with pytest.raises(FederationError, match=r"h2 sent another seed.*it is excluded from the study"):
        consortium.run()
    consortium.ask("restore", Message({"round": 0}))
    (record,) = consortium.run()
    assert record.answered == 3
    assert consortium.shared("h1") == pytest.approx(mean_of("h1", "h3", "h4"), abs=NEAR)


@UNDER_MASKS
def test_a_site_that_withholds_seeds_again_and_again_is_excluded(mechanism: AgreedMechanism, tmp_path: Path) -> None:
    """Two rounds may fail in this way, as with a site that fails; the third one excludes the site."""
    consortium = Consortium(tmp_path, mechanism)
    consortium.meddle = without(("h2", "unmask"))
    left = "h2 left after it had submitted; the round's sum cannot be opened"
    for said in (left, left, f"{left}; h2 has done so 3 times and is excluded from the study"):
        with pytest.raises(FederationError, match=f"^{said}$"):
            consortium.run()
        consortium.ask("restore", Message({"round": 0}))
        # A coordinator that is started again in between has not forgotten.
        consortium.coordinator.save(tmp_path / "checkpoint")
        consortium.coordinator = consortium.server()
        consortium.coordinator.restore(tmp_path / "checkpoint")
    (record,) = consortium.run()
    assert record.answered == 3
    assert consortium.shared("h1") == pytest.approx(mean_of("h1", "h3", "h4"), abs=NEAR)


@UNDER_MASKS
def test_a_site_that_withholds_seeds_is_named_if_it_cannot_be_left_out(
    mechanism: AgreedMechanism, tmp_path: Path
) -> None:
    consortium = Consortium(tmp_path, replace(mechanism, minimum=4))
    consortium.meddle = without(("h2", "unmask"))
    said = r"^h2 left after it had submitted; the round's sum cannot be opened$"
    for _ in range(4):
        with pytest.raises(FederationError, match=said):
            consortium.run()
        consortium.ask("restore", Message({"round": 0}))
    assert not consortium.coordinator.search.excluded


# Clips


@ALL
def test_a_clip_is_learned_in_the_first_round_with_a_margin_and_stays(
    mechanism: AgreedMechanism, tmp_path: Path
) -> None:
    """The largest number of round 1 is 0.4, at h4, so the clip stays twice that in later rounds: 0.8."""
    consortium = Consortium(tmp_path, mechanism, updates=lambda site, number: 0.1 * int(site[1:]) * number)
    records = consortium.run(3)
    learned = [exchange_in(question).clips["layer"] for question in consortium.questions("submit")]
    assert learned == pytest.approx([0.8] * 3)
    assert len(set(learned)) == 1
    # In round 3 h3 and h4 reach 0.9 and 1.2, beyond it: 64 numbers each.
    assert [record.clipped for record in records] == [0, 0, 128]
    clipped = (1 * 0.3 + 2 * 0.6 + 5 * 0.8 + 8 * 0.8) / 16
    assert consortium.shared() == pytest.approx(0.325 + 0.65 + clipped, abs=3 * NEAR)
    told = ["largest_by_group" in answer.values for _, answer in consortium.answers("train")]
    assert told == [True] * 4 + [False] * 8


def test_the_clip_of_layers_that_no_site_changed(tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, MASKED, updates=lambda site, number: 0.0)
    consortium.run()
    assert consortium.coordinator.clips == {"layer": 1e-6}


@ALL
def test_a_clip_of_the_study_is_not_learned(mechanism: AgreedMechanism, tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, mechanism, clips={"layer": 0.25})
    (record,) = consortium.run()
    assert exchange_in(consortium.questions("submit")[0]).clips == {"layer": 0.25}
    assert record.clipped == 2 * 64  # 0.3 and 0.4
    assert consortium.shared() == pytest.approx((0.1 + 2 * 0.2 + 5 * 0.25 + 8 * 0.25) / 16, abs=NEAR)
    assert not any(answer.values.get("largest_by_group") for _, answer in consortium.answers("train"))


def with_clip(clip: float) -> Callable[[Message], Message]:
    def change(message: Message) -> Message:
        told = replace(exchange_in(message), clips={"layer": clip})
        return replace(message, values={**message.values, "exchange": told.to_values()})

    return change


@ALL
def test_another_clip_than_the_studys_is_refused(mechanism: AgreedMechanism, tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, mechanism, clips={"layer": 0.5})
    consortium.meddle = asking("h4", "submit", with_clip(5.0))
    (record,) = consortium.run()
    assert codes(record)[0] == ("h4", "clip")


@ALL
def test_another_clip_than_in_the_rounds_before_is_refused(mechanism: AgreedMechanism, tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, mechanism)
    consortium.run()
    consortium.meddle = asking("h4", "submit", with_clip(5.0))
    (record,) = consortium.run()
    assert codes(record)[0] == ("h4", "clip")


def test_clips_survive_a_restart_of_the_coordinator(tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, MASKED)
    consortium.run()
    consortium.coordinator.save(tmp_path / "checkpoint")
    again = consortium.server()
    again.restore(tmp_path / "checkpoint")
    assert again.clips == consortium.coordinator.clips == {"layer": pytest.approx(0.8)}


# What rounding takes


@pytest.mark.parametrize("mechanism", [MASKED, SEALED, BOTH], ids=named)
@pytest.mark.parametrize("feedback", [False, True])
def test_error_feedback_restores_what_rounding_removed(
    mechanism: AgreedMechanism, feedback: bool, tmp_path: Path
) -> None:
    """In 15 or 22 bits 0.3 of a unit is nothing, every round again; carried on, it is a unit after four rounds."""
    sealed = replace(mechanism, packing="compact") if mechanism in (SEALED, BOTH) else mechanism
    scale = packing_of(sealed).scale
    # A unit of h1's fields is clip / (scale · share); all give 0.3 of the smallest site's own unit.
    tiny = 0.3 / (scale * (1 / 16))
    consortium = Consortium(
        tmp_path,
        sealed,
        updates=lambda site, number: tiny if site == "h1" else 0.0,
        clips={"layer": 1.0},
        feedback=feedback,
    )
    if not feedback:
        with pytest.raises(TrainingError, match="updates of h1 rounded to zero in 3 rounds in a row"):
            consortium.run(20)
        assert consortium.shared() == 0.0
        return
    consortium.run(20)
    true = 20 * tiny / 16
    assert abs(consortium.shared() - true) <= 1.0 / scale  # a unit at most, however many rounds


# Two attempts


@UNDER_MASKS
def test_an_abandoned_attempt_cannot_be_opened_with_the_seeds_of_the_next_one(
    mechanism: AgreedMechanism, tmp_path: Path
) -> None:
    """A coordinator that only pretends that h4 is missing has all uploads of both attempts, and the seeds of one."""
    consortium = Consortium(tmp_path, mechanism)
    kept: list[tuple[SiteId, Message]] = []

    def pretend(site: SiteId, step: str, message: Message, go: Go) -> Message:
        answer = go(message)
        if step == "submit":
            kept.append((site, answer))
            if site == "h4":
                raise ConnectionError
        return answer

    consortium.meddle = pretend
    consortium.run()
    assert consortium.shared() == pytest.approx(mean_of("h1", "h2", "h3"), abs=NEAR)
    first, second = (exchange_in(question) for question in consortium.questions("submit"))
    uploads = dict(kept[:4])
    seeds = {site: answer.blobs["seed"] for site, answer in consortium.answers("unmask")}
    # Nobody tells the seeds of the first attempt any more, h4 apart, which took part in no other.
    revealed = consortium.ask("unmask", Message({"round": 1, "nonce": first.nonce}))
    assert [revealed[site] for site in ("h1", "h2", "h3")] == ["nonce"] * 3
    seeds |= {"h4": revealed["h4"].blobs["seed"]}
    opened = opened_by_force(mechanism, first, uploads, seeds)
    assert_noise(opened, mechanism)
    # Nor does the difference of the two sums, which would be h4's update, say anything.
    other = opened_by_force(mechanism, second, dict(kept[4:]), {s: seeds[s] for s in second.weights})
    difference = opened.astype(np.uint64).copy()
    masks.subtract(difference, other.astype(np.uint64), mechanism.codec.ring)
    assert_noise(difference, mechanism)


def opened_by_force(
    mechanism: AgreedMechanism, exchange: Exchange, uploads: Mapping[SiteId, Message], seeds: Mapping[SiteId, bytes]
) -> Any:
    """The slots of a sum, its ciphertexts opened where it is sealed, with masks of these seeds taken off."""
    layout = mechanism.layout(exchange)
    running = mechanism.codec.sum(layout.slots)
    for message in uploads.values():
        running.add(message.arrays)
    secret = secret_of(mechanism.key_scheme).secret if mechanism.is_sealed else b""
    slots = mechanism.codec.open(running.total(), layout.slots, secret)
    remove_self_masks(slots, exchange, seeds, mechanism.codec.ring)
    return slots


def assert_noise(slots: Any, mechanism: AgreedMechanism) -> None:
    """Check that the numbers are spread over the whole ring, not within the clip."""
    assert len(np.unique(slots)) == len(slots)  # all numbers of an update were alike
    modulus = mechanism.codec.ring
    halves = np.histogram(slots.astype(np.float64), bins=2, range=(0, modulus))[0]
    assert halves.min() > 0


@UNDER_MASKS
def test_the_complete_sum_is_not_noise(mechanism: AgreedMechanism, tmp_path: Path) -> None:
    """The test above can fail."""
    consortium = Consortium(tmp_path, mechanism)
    consortium.run()
    (exchange,) = (exchange_in(question) for question in consortium.questions("submit"))
    seeds = {site: answer.blobs["seed"] for site, answer in consortium.answers("unmask")}
    slots = opened_by_force(mechanism, exchange, dict(consortium.answers("submit")), seeds)
    assert len(np.unique(slots)) == 1


# Restarted in mid-round


def restarting(consortium: Consortium, site: SiteId, before: str) -> Meddle:
    """Restart the site's process once, before a given step."""
    left = [True]

    def meddle(asked: SiteId, step: str, message: Message, go: Go) -> Message:
        if left and (asked, step) == (site, before):
            left.clear()
            consortium.restart(site)
            return consortium.wards[site].answer(step, message)
        return go(message)

    return meddle


@ALL
def test_a_site_that_restarts_between_train_and_submit_is_left_out(mechanism: AgreedMechanism, tmp_path: Path) -> None:
    """The announced public keys belonged to the process that ended; no other site knows the new ones."""
    consortium = Consortium(tmp_path, mechanism)
    consortium.run()
    consortium.meddle = restarting(consortium, "h2", "submit")
    (record,) = consortium.run()
    assert codes(record)[0] == ("h2", "public-keys" if mechanism.is_masked else "signature")
    assert record.answered == 3
    assert consortium.shared() == pytest.approx(0.325 + mean_of("h1", "h3", "h4"), abs=2 * NEAR)
    if mechanism.is_sealed and not mechanism.is_masked:
        # It did give, and a sum that leaves out what it gave it does not take: it catches up by a copy.
        assert codes(record)[1:] == [("h2", "sum")]
        copy = consortium.ask("share_copy", Message({"round": 2}), to=["h3"])["h3"]
        consortium.ask("load_copy", Message({"round": 2}, {}, copy.blobs), to=["h2"])
    (record,) = consortium.run()
    assert (record.answered, codes(record)) == (4, [])


@UNDER_MASKS
def test_a_site_that_restarts_between_submit_and_unmask_still_has_its_seed(
    mechanism: AgreedMechanism, tmp_path: Path
) -> None:
    consortium = Consortium(tmp_path, mechanism)
    consortium.meddle = restarting(consortium, "h2", "unmask")
    records = consortium.run(2)
    assert [codes(record) for record in records] == [[], []]
    assert consortium.shared() == pytest.approx(2 * 0.325, abs=2 * NEAR)


@AT_SITES
def test_a_site_that_restarts_between_submit_and_open_still_knows_its_submission(
    mechanism: AgreedMechanism, tmp_path: Path
) -> None:
    consortium = Consortium(tmp_path, mechanism)
    consortium.meddle = restarting(consortium, "h2", "open_sum")
    records = consortium.run(2)
    assert [codes(record) for record in records] == [[], []]
    assert consortium.shared("h2") == consortium.shared("h1") == pytest.approx(2 * 0.325, abs=2 * NEAR)


def test_an_error_that_is_not_a_refusal_is_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A programming error is not a failed round."""
    consortium = Consortium(tmp_path, MASKED)

    def broken(*slots: Any, **named: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr("wardround.secure_aggregation.server.ExchangeSum.mean", broken)
    with pytest.raises(ZeroDivisionError):
        consortium.run()
