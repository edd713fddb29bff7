from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.algorithms.hospitals import CALM, SHAKEN
from tests.algorithms.protected_hospitals import NAMES, Hospitals, furthest, same
from tests.algorithms.wards import Go, changing, codes, without

from wardround.errors import FederationError
from wardround.federation.federation import SiteId
from wardround.federation.message import Message, grouped
from wardround.secure_aggregation.exchange import Exchange

MECHANISMS = ("masked", "sealed", "sealed+masked")
ALL = pytest.mark.parametrize("mechanism", MECHANISMS)
AT_SITES = pytest.mark.parametrize("mechanism", ["sealed", "sealed+masked"])
UNDER_MASKS = pytest.mark.parametrize("mechanism", ["masked", "sealed+masked"])
OTHERS = NAMES[:1] + NAMES[2:]  # than hillside


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Hospitals, list[float]]:
    """Run four rounds of the same study without protection."""
    hospitals = Hospitals(tmp_path_factory.mktemp("plain"), "plain")
    return hospitals, [record.loss for record in hospitals.run(4)]


def test_a_site_has_only_the_steps_of_its_mechanism(tmp_path: Path) -> None:
    submit_steps, copy_steps = {"submit", "unmask"}, {"open_sum", "share_copy", "load_copy"}
    known = {}
    for mechanism in ("plain", *MECHANISMS):
        hospital = Hospitals(tmp_path / mechanism, mechanism).sites["harbour"]
        known[mechanism] = (submit_steps | copy_steps) & hospital.steps.keys()
    assert known == {
        "plain": set(),
        "masked": submit_steps,
        "sealed": submit_steps | copy_steps,
        "sealed+masked": submit_steps | copy_steps,
    }


@ALL
def test_a_protected_study_learns_as_a_plain_one_does(
    mechanism: str, plain: tuple[Hospitals, list[float]], tmp_path: Path
) -> None:
    hospitals = Hospitals(tmp_path, mechanism)
    records = hospitals.run(4)
    assert [record.absent for record in records] == [()] * 4
    assert [record.loss for record in records] == pytest.approx(plain[1], rel=1e-4)
    # Adam divides by the gradient's size: where that is next to nothing, rounding it changes a step noticeably.
    assert furthest(hospitals.shared(), plain[0].shared()) < 1e-3
    if mechanism != "masked":
        assert all(same(hospitals.shared(name), hospitals.shared()) for name in NAMES)
        assert same(hospitals.coordinator.shared, hospitals.server().shared)  # nothing has come to the coordinator


@AT_SITES
@pytest.mark.parametrize("step", ["gradient", "train", "score"])
def test_a_site_of_a_sealed_study_refuses_a_shared_half_in_a_request(mechanism: str, step: str, tmp_path: Path) -> None:
    hospitals = Hospitals(tmp_path, mechanism)
    hospitals.run()
    number = 1 if step == "score" else 2
    asked = hospitals.train(number, steps=2, keep_moments=True, best_round=0)
    mine = {name: tensor.numpy() for name, tensor in hospitals.shared().items()}  # even where it would be the same
    told = Message(asked.values, grouped("shared", mine))
    before = hospitals.sites["harbour"].round
    assert hospitals.ask(step, told, to=["harbour"]) == {"harbour": "policy"}
    assert hospitals.sites["harbour"].round == before
    assert isinstance(hospitals.ask(step, asked, to=["harbour"])["harbour"], Message)


@ALL
def test_nothing_is_submitted_before_training(mechanism: str, tmp_path: Path) -> None:
    hospitals, seen = Hospitals(tmp_path, mechanism), []

    def before_training(site: SiteId, step: str, message: Message, go: Go) -> Message:
        if step == "submit":
            seen.append(message)
        return go(message)

    hospitals.meddle = before_training
    hospitals.run()
    fresh = Hospitals(tmp_path / "other", mechanism)
    assert set(fresh.ask("submit", seen[0]).values()) == {"round"}
    assert set(hospitals.ask("submit", seen[0]).values()) <= {"replay", "spent"}


# Drawn anew


def trained(hospitals: Hospitals, number: int) -> dict[SiteId, bytes]:
    """Return the updates that the sites hold after training."""
    for answer in hospitals.ask("gradient", hospitals.train(number)).values():
        assert isinstance(answer, Message)
    return {name: hospitals.held(name) for name in NAMES}


@pytest.mark.parametrize("config", [CALM, SHAKEN], ids=["batches", "dropout"])
@pytest.mark.parametrize("restarted", [False, True], ids=["at once", "restarted"])
def test_a_repeated_round_draws_other_sentences_after_its_update_was_unmasked(
    config: Any, restarted: bool, tmp_path: Path
) -> None:
    hospitals = Hospitals(tmp_path, "sealed+masked", config=config)
    hospitals.run(2)
    first = {name: hospitals.held(name) for name in NAMES}
    hospitals.put_back(1)
    if restarted:
        for name in NAMES:
            hospitals.restart(name)
    second = trained(hospitals, 2)
    assert all(first[name] != second[name] for name in NAMES)
    hospitals.put_back(1)
    assert trained(hospitals, 2) == second  # which nobody has seen yet: the same draw will do


def test_a_repeated_round_draws_the_same_sentences_if_its_update_was_not_unmasked(tmp_path: Path) -> None:
    hospitals = Hospitals(tmp_path, "sealed", config=SHAKEN)
    hospitals.run(2)
    first = {name: hospitals.held(name) for name in NAMES}
    hospitals.put_back(1)
    assert trained(hospitals, 2) == first


@UNDER_MASKS
def test_no_order_of_steps_makes_a_site_submit_an_unmasked_update_again(mechanism: str, tmp_path: Path) -> None:
    """The coordinator has revealed rounds 1 and 2. It puts a site back to round 1, whose update is in that state, has
    it begin round 2 in a way that fails, and asks for the update of round 1 once more."""
    hospitals, asked = Hospitals(tmp_path, mechanism), []

    def listen(site: SiteId, step: str, message: Message, go: Go) -> Message:
        if step == "submit":
            asked.append(message)
        return go(message)

    hospitals.meddle = listen
    hospitals.run(2)
    hospitals.put_back(1)
    first = Exchange.from_values(asked[0].value("exchange", dict))
    values = {**first.to_values(), "nonce": Exchange.new_nonce()}
    again = Message({"round": 1, "exchange": values}, {}, asked[0].blobs)
    assert set(hospitals.ask("submit", again).values()) == {"spent"}
    assert set(hospitals.ask("gradient", hospitals.train(2, sizes={})).values()) == {"sizes"}
    assert set(hospitals.ask("submit", again).values()) == {"spent"}
    hospitals.run()
    assert set(hospitals.ask("submit", again).values()) <= {"round", "spent"}


@UNDER_MASKS
def test_a_round_that_failed_at_unmask_succeeds_when_it_is_repeated(mechanism: str, tmp_path: Path) -> None:
    hospitals = Hospitals(tmp_path, mechanism)
    hospitals.run()
    hospitals.meddle = without(("hillside", "unmask"))
    with pytest.raises(FederationError, match="hillside left after it had submitted"):
        hospitals.run()
    hospitals.meddle = without()
    hospitals.put_back(1)
    (record,) = hospitals.run()
    assert (record.number, record.answered, record.absent) == (2, 4, ())
    assert len(set(record.digests.values())) == (0 if mechanism == "masked" else 1)


# Taken


@AT_SITES
def test_a_sum_is_opened_once_and_only_in_its_round(mechanism: str, tmp_path: Path) -> None:
    hospitals, sums = Hospitals(tmp_path, mechanism), []

    def listen(site: SiteId, step: str, message: Message, go: Go) -> Message:
        if (site, step) == ("harbour", "open_sum"):
            sums.append(message)
        return go(message)

    hospitals.meddle = listen
    hospitals.run(2)
    before = hospitals.sites["harbour"].replica.shared_bytes()  # type: ignore[union-attr]
    first, second = sums
    for replayed, code in (
        (first, "round"),
        (second, "round"),
        (Message({**first.values, "round": 3}, first.arrays, first.blobs), "replay"),
        (Message({**second.values, "round": 3}, second.arrays, second.blobs), "replay"),
        (Message({**second.values, "round": 5}, second.arrays, second.blobs), "behind"),
    ):
        assert set(hospitals.ask("open_sum", replayed).values()) == {code}
    assert hospitals.sites["harbour"].replica.shared_bytes() == before  # type: ignore[union-attr]


@AT_SITES
def test_a_site_that_missed_a_sum_is_behind_until_it_loads_another_sites_copy(mechanism: str, tmp_path: Path) -> None:
    hospitals = Hospitals(tmp_path, mechanism)
    hospitals.run()
    hospitals.meddle = without(("hillside", "open_sum"))
    hospitals.run()
    hospitals.meddle = without()
    (record,) = hospitals.run()
    assert codes(record) == [("hillside", "behind")] * 2
    assert record.answered == 3
    asked = Message({"round": 3})
    assert hospitals.ask("share_copy", asked, to=["hillside"]) == {"hillside": "behind"}
    copy = hospitals.ask("share_copy", asked, to=["station"])["station"]
    taken = hospitals.ask("load_copy", Message({"round": 3}, {}, copy.blobs), to=["hillside"])["hillside"]
    assert taken.value("shared", str) == record.digests["harbour"]
    assert same(hospitals.shared("hillside"), hospitals.shared("harbour"))
    hospitals.restart("hillside")  # it was written before it was answered
    (record,) = hospitals.run()
    assert (record.answered, record.absent) == (4, ())
    assert len(set(record.digests.values())) == 1


@AT_SITES
def test_a_copy_that_differs_is_replaced_permanently(mechanism: str, tmp_path: Path) -> None:
    hospitals = Hospitals(tmp_path, mechanism)
    hospitals.run()
    with_a_twist(hospitals, "hillside")
    (record,) = hospitals.run()
    assert record.digests["hillside"] not in {record.digests[name] for name in OTHERS}
    assert len({record.digests[name] for name in OTHERS}) == 1
    copy = hospitals.ask("share_copy", Message({"round": 2}), to=["harbour"])["harbour"]
    hospitals.ask("load_copy", Message({"round": 2}, {}, copy.blobs), to=["hillside"])
    assert same(hospitals.shared("hillside"), hospitals.shared("harbour"))
    hospitals.restart("hillside")
    assert same(hospitals.shared("hillside"), hospitals.shared("harbour"))


def with_a_twist(hospitals: Hospitals, name: SiteId) -> None:
    """Change the last bits, as another processor might compute them."""
    next(iter(hospitals.shared(name).values())).view(-1)[0] += 1e-6


@AT_SITES
def test_only_a_copy_made_by_a_site_is_loaded(mechanism: str, tmp_path: Path) -> None:
    hospitals = Hospitals(tmp_path, mechanism)
    hospitals.run(2)
    mine = hospitals.sites["hillside"].replica
    assert mine is not None
    before = mine.shared_bytes()
    copy = hospitals.ask("share_copy", Message({"round": 2}), to=["harbour"])["harbour"].blobs["copy"]
    altered = copy[:-1] + bytes([copy[-1] ^ 1])
    for number, wrong, code in (
        (2, altered, "lock"),
        (2, copy[: len(copy) // 2], "lock"),
        (3, copy, "lock"),  # of another round than it says
        (1, copy, "round"),  # this site is further
        (2, mine.to_bytes(), "epoch"),  # not locked at all
        (2, b"", "epoch"),
    ):
        found = hospitals.ask("load_copy", Message({"round": number}, {}, {"copy": wrong}), to=["hillside"])
        assert found == {"hillside": code}
    assert mine.shared_bytes() == before
    assert mine.to_bytes()[:64] not in copy  # nobody on the way reads it


# Restarted in mid-round


def restarting(hospitals: Hospitals, name: SiteId, before: str) -> Callable[[SiteId, str, Message, Go], Message]:
    """Restart the site's process once, before a given step."""
    left = [True]

    def meddle(site: SiteId, step: str, message: Message, go: Go) -> Message:
        if left and (site, step) == (name, before):
            left.clear()
            hospitals.restart(name)
        return go(message)

    return meddle


@ALL
@pytest.mark.parametrize("before", ["gradient", "submit", "unmask", "open_sum"])
def test_a_site_that_restarts_within_a_round_does_not_stop_the_round(
    mechanism: str, before: str, tmp_path: Path
) -> None:
    hospitals = Hospitals(tmp_path, mechanism)
    hospitals.run()
    hospitals.meddle = restarting(hospitals, "hillside", before)
    (record,) = hospitals.run()
    left_out = before == "submit"  # its public keys belonged to the process that died
    assert record.answered == (3 if left_out else 4)
    assert codes(record)[:1] == (
        [("hillside", "signature" if mechanism == "sealed" else "public-keys")] if left_out else []
    )
    if mechanism == "sealed" and left_out:
        copy = hospitals.ask("share_copy", Message({"round": 2}), to=["harbour"])["harbour"]
        hospitals.ask("load_copy", Message({"round": 2}, {}, copy.blobs), to=["hillside"])
    (record,) = hospitals.run()
    assert (record.answered, record.absent) == (4, ())
    if mechanism != "masked":
        assert all(same(hospitals.shared(name), hospitals.shared()) for name in NAMES)


@ALL
def test_a_site_that_restarts_after_a_round_has_lost_nothing(mechanism: str, tmp_path: Path) -> None:
    """Neither the clips nor the residue are lost: both belong to the finished round."""
    hospitals = Hospitals(tmp_path, mechanism)
    hospitals.run()
    before = {name: tensor.clone() for name, tensor in hospitals.sites["hillside"].state().items()}
    assert {"aggregation/clip/words"} <= before.keys()
    assert any(name.startswith("aggregation/residue/") for name in before)
    hospitals.restart("hillside")
    after = hospitals.sites["hillside"].state()
    assert same(before, after)


@AT_SITES
def test_the_shared_half_of_the_best_round_survives_a_restart(mechanism: str, tmp_path: Path) -> None:
    """This holds even if the site's own score did not improve."""
    hospitals = Hospitals(tmp_path, mechanism)
    hospitals.run()
    for name in NAMES:
        hospitals.sites[name]._kept_f1 = 1.0  # nothing is better than that
    hospitals.ask("score", Message({"round": 1, "best_round": 0}))
    hospitals.restart("hillside")
    replica = hospitals.sites["hillside"].replica
    assert replica is not None
    kept = replica.best(1)
    assert all(np.array_equal(kept[name], tensor.numpy()) for name, tensor in hospitals.shared("hillside").items())


@AT_SITES
def test_a_sum_that_does_not_match_its_transcript_leaves_the_site_unchanged(mechanism: str, tmp_path: Path) -> None:
    hospitals = Hospitals(tmp_path, mechanism)
    hospitals.run()
    state = {name: tensor.clone() for name, tensor in hospitals.sites["hillside"].state().items()}

    def spoil(site: SiteId, step: str, message: Message, go: Go) -> Message:
        if step != "open_sum":
            return go(message)
        state.update({name: tensor.clone() for name, tensor in hospitals.sites["hillside"].state().items()})
        data = message.arrays["sealed"].copy()
        data[123 + 8 * 5 + 6] ^= 0x40  # far above the noise
        return go(Message(message.values, {**message.arrays, "sealed": data}, message.blobs))

    hospitals.meddle = spoil
    with pytest.raises(FederationError, match=r"0 of 4 sites answered.*\(harbour failed (sum|key)"):
        hospitals.run()
    assert same(hospitals.sites["hillside"].state(), state)
    assert hospitals.coordinator.number == 1


@ALL
def test_fedavg_runs_under_protection_without_any_change(mechanism: str, tmp_path: Path) -> None:
    bare = Hospitals(tmp_path / "plain", "plain", algorithm="fedavg")
    hospitals = Hospitals(tmp_path / "protected", mechanism, algorithm="fedavg")
    losses = [record.loss for record in bare.run(3)]
    assert [record.loss for record in hospitals.run(3)] == pytest.approx(losses, rel=1e-4)
    assert furthest(hospitals.shared(), bare.shared()) < 1e-5


@ALL
def test_an_update_that_is_altered_in_transit_excludes_its_site_for_one_round(mechanism: str, tmp_path: Path) -> None:
    hospitals = Hospitals(tmp_path, mechanism)
    hospitals.meddle = changing("hillside", "submit", lambda message: Message(message.values, {}, message.blobs))
    (record,) = hospitals.run()
    assert codes(record)[0] == ("hillside", "altered")
    assert record.answered == 3
