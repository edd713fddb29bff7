"""Sites that lie about themselves or spoil sums, and a coordinator that requests several updates of a round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.algorithms import wards
from tests.algorithms.hospitals import site as hospital_at
from tests.algorithms.protected_hospitals import NAMES, Hospitals, furthest, same
from tests.algorithms.wards import BOTH, MASKED, Consortium, Go, Meddle, changing
from tests.secure_aggregation.cohort import CKKS, UPDATES, Cohort, seeds_of, sent
from tests.studies.tiny_studies import tiny

from wardround.algorithms.fedavg import FedAvg, FedAvgConfig
from wardround.errors import FederationError, MessageError
from wardround.federation.engines.in_process import InProcessFederation
from wardround.federation.federation import Quorum, SiteId
from wardround.federation.message import Message, grouped
from wardround.federation.worker_process import RequestHandler
from wardround.secure_aggregation.exchange import Exchange
from wardround.secure_aggregation.plain import PlainServer, PlainUpdates
from wardround.secure_aggregation.transcript import Contribution, contribute, sealed_digest
from wardround.studies.site_setup import request_policy_of
from wardround.training.training_config import RoundTrainingConfig

UNDER_MASKS = pytest.mark.parametrize("mechanism", [MASKED, BOTH], ids=["masked", "sealed+masked"])


# Clips


@pytest.mark.parametrize("mechanism", ["masked", "sealed", "sealed+masked"])
def test_one_lie_about_the_size_of_an_update_does_not_end_learning(mechanism: str, tmp_path: Path) -> None:
    """A site claims in round 1 that its largest number is 1e9; at that scale every update rounds to zero."""

    def lying(message: Message) -> Message:
        said = message.value("largest_by_group", dict)
        return replace(message, values={**message.values, "largest_by_group": dict.fromkeys(said, 1e9)})

    hospitals = Hospitals(tmp_path, mechanism)
    hospitals.meddle = changing("station", "gradient", lying)
    hospitals.run(3)
    assert furthest(hospitals.shared(), hospitals.server().shared) > 0.001, "nothing was learned"


@pytest.mark.parametrize("mechanism", ["masked", "sealed+masked"])
@pytest.mark.parametrize("factor", [1e6, 1e-6])
def test_a_site_does_not_submit_under_a_clip_far_from_its_own_update(
    mechanism: str, factor: float, tmp_path: Path
) -> None:
    hospitals = Hospitals(tmp_path, mechanism)

    def scaled(site: SiteId, step: str, message: Message, go: Go) -> Message:
        if step != "submit":
            return go(message)
        exchange = Exchange.from_values(message.value("exchange", dict))
        far = replace(exchange, clips={group: clip * factor for group, clip in exchange.clips.items()})
        return go(Message({**message.values, "exchange": far.to_values()}, {}, message.blobs))

    hospitals.meddle = scaled
    with pytest.raises(FederationError, match=r"harbour failed clip; hillside failed clip"):
        hospitals.run()


# Weights


def heavy(message: Message) -> Message:
    """Return the same update with a weight of 1e11 sentences."""
    factor = np.float32(1e11 / message.value("weight", float))
    arrays = {name: array * factor if name.startswith("update/") else array for name, array in message.arrays.items()}
    return Message({**message.values, "weight": 1e11}, arrays, message.blobs)


@pytest.mark.parametrize("mechanism", ["plain", "masked", "sealed+masked"])
def test_a_weight_that_is_not_the_described_size_is_refused(mechanism: str, tmp_path: Path) -> None:
    hospitals = Hospitals(tmp_path, mechanism)
    hospitals.meddle = changing("station", "gradient", heavy)
    (record,) = hospitals.run()
    assert ("station", "weight") in [(gone.site, gone.code) for gone in record.absent]
    assert record.answered == 3


def test_a_site_that_describes_itself_as_huge_has_no_more_than_the_largest_share(tmp_path: Path) -> None:
    """The site claims 1e11 sentences from the beginning and gets at most half of the mean."""
    consortium = Consortium(tmp_path, MASKED)
    sizes = dict(wards.SIZES)
    consortium.coordinator.largest_share = 0.5
    for ward in consortium.wards.values():
        ward.aggregation._largest_share = 0.5
    try:
        wards.SIZES["h4"] = 10**11
        (record,) = consortium.run()
    finally:
        wards.SIZES.update(sizes)
    exchange = Exchange.from_values(consortium.questions("submit")[0].value("exchange", dict))
    assert exchange.share_of("h4") == pytest.approx(0.5)
    assert record.answered == 4
    # Half of h4's 0.4, and half of the others' mean: (1 · 0.1 + 2 · 0.2 + 5 · 0.3) / 8 = 0.25.
    assert consortium.shared() == pytest.approx(0.2 + 0.25 / 2, abs=1e-6)


def test_a_huge_site_has_no_more_than_the_largest_share_under_plain_either() -> None:
    replies = {name: (size, number) for name, size, number in (("a", 100, 1.0), ("b", 100, 1.0), ("c", 10**11, -1.0))}
    coordinator = FedAvg({"w": np.zeros(1, np.float32)}, FedAvgConfig(rounds=2), RoundTrainingConfig())
    coordinator.largest_share = 0.5

    class Answering:
        def answer(self, step: str, message: Message) -> Message:
            size, number = replies[self.name]
            if step == "describe":
                return Message({"examples": size})
            sealed = PlainUpdates().seal({"w": np.array([number], np.float32)}, weight=float(size))
            return replace(sealed, values={**sealed.values, "loss": 1.0})

        def close(self) -> None: ...

        def __init__(self, name: SiteId) -> None:
            self.name = name

    federation = InProcessFederation(tuple(replies), lambda name: RequestHandler(Answering(name)))
    next(coordinator.rounds(federation, PlainServer(), Quorum(3)))
    assert coordinator.shared["w"].tolist() == pytest.approx([0.0], abs=1e-6)  # half of 1, and half of −1


def test_a_site_does_not_submit_to_a_sum_that_is_mostly_its_own(tmp_path: Path) -> None:
    """The other sites cannot check these weights: the sum would reveal one update to the coordinator."""
    consortium = Consortium(tmp_path, MASKED)
    for ward in consortium.wards.values():
        ward.aggregation._largest_share = 0.5

    def alone(site: SiteId, step: str, message: Message, go: Go) -> Message:
        if step != "submit":
            return go(message)
        exchange = Exchange.from_values(message.value("exchange", dict))
        weights = {name: weight if name == site else 1e-6 for name, weight in exchange.weights.items()}
        return go(
            Message({**message.values, "exchange": replace(exchange, weights=weights).to_values()}, {}, message.blobs)
        )

    consortium.meddle = alone
    with pytest.raises(FederationError, match="h1 failed weight; h2 failed weight; h3 failed weight; h4 failed weight"):
        consortium.run()


# Rounds that are asked again


def drawn_in(monkeypatch: pytest.MonkeyPatch, site: Any) -> list[tuple[int, ...]]:
    rows: list[tuple[int, ...]] = []
    real = site.next_rows

    def noting(*arguments: Any, **named: Any) -> list[int]:
        found: list[int] = real(*arguments, **named)
        rows.append(tuple(found))
        return found

    monkeypatch.setattr(site, "next_rows", noting)
    return rows


@pytest.mark.parametrize("restarted", [False, True], ids=["at once", "restarted"])
def test_a_round_asked_again_with_another_shared_half_draws_other_sentences(
    restarted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under plain, each shared half that the coordinator chooses would reveal more about the same sentences."""
    hospitals = Hospitals(tmp_path, "plain")
    hospitals.run(1)
    shared = {name: tensor.numpy() for name, tensor in hospitals.coordinator.shared.items()}
    drawn, codes = [], []
    for attempt in range(20):
        hospitals.ask("restore", Message({"round": 1}), to=["harbour"])
        if restarted:
            hospitals.restart("harbour")
        rows = drawn_in(monkeypatch, hospitals.sites["harbour"])
        chosen = grouped("shared", {name: array + np.float32(attempt) for name, array in shared.items()})
        question = Message({**hospitals.train(2).values, "total": 72}, chosen)
        answer = hospitals.ask("gradient", question, to=["harbour"])["harbour"]
        codes.append(answer if isinstance(answer, str) else "")
        drawn += rows
    # Two draws of 3 of 18 sentences, of about the same length, may be the same by chance.
    assert len(set(drawn)) >= len(drawn) - 4, f"{len(drawn)} answers about {len(set(drawn))} mini-batches"
    assert codes == [""] * 17 + ["repeats"] * 3  # the first, and 16 more


def test_a_training_that_fails_is_counted_and_its_sentences_are_not_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds under masks too: an embedding row of NaN fails the training if its word is in the batch."""
    hospitals = Hospitals(tmp_path, "masked")
    hospitals.run(1)
    rows = drawn_in(monkeypatch, hospitals.sites["harbour"])
    shared = {name: tensor.numpy() for name, tensor in hospitals.coordinator.shared.items()}
    codes = []
    for attempt in range(20):
        chosen = {name: np.full_like(array, np.nan) + np.float32(attempt) for name, array in shared.items()}
        chosen["words.weight"][0] = attempt  # so that no two questions are the same
        question = Message({**hospitals.train(2).values, "total": 72}, grouped("shared", chosen))
        codes.append(hospitals.ask("gradient", question, to=["harbour"])["harbour"])
    assert codes == ["not-a-number"] * 17 + ["repeats"] * 3, codes
    assert len(set(rows)) >= len(rows) - 4, f"{len(rows)} answers about {len(set(rows))} mini-batches"


def test_a_later_round_from_an_old_state_draws_other_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The coordinator skips the number of the round it has seen, so that no round is requested twice."""
    hospitals = Hospitals(tmp_path, "plain")
    hospitals.run(2)
    rows = drawn_in(monkeypatch, hospitals.sites["harbour"])
    shared = grouped("shared", {name: tensor.numpy() + 1 for name, tensor in hospitals.coordinator.shared.items()})
    seen = []
    for number in (3, 4, 5, 6, 7, 8):
        hospitals.ask("restore", Message({"round": 1}), to=["harbour"])
        question = Message({**hospitals.train(number).values, "total": 72}, shared)
        assert isinstance(hospitals.ask("gradient", question, to=["harbour"])["harbour"], Message)
        seen.append(rows[-1])
    assert len(set(seen)) > 2, f"six answers about {len(set(seen))} mini-batches"


def test_the_same_question_of_the_same_state_has_the_same_answer(tmp_path: Path) -> None:
    """An interrupted study continues unchanged, and no new information leaves."""
    hospitals = Hospitals(tmp_path, "plain")
    hospitals.run(1)
    shared = grouped("shared", {name: tensor.numpy().copy() for name, tensor in hospitals.coordinator.shared.items()})
    question = Message(hospitals.train(2).values, shared)
    answers = []
    for _ in range(30):
        hospitals.ask("restore", Message({"round": 1}), to=["harbour"])
        answers.append(hospitals.ask("gradient", question, to=["harbour"])["harbour"])
    assert all(answer == answers[0] for answer in answers)


# Sizes


@pytest.mark.parametrize("others", [54, 10**9], ids=["small share", "made up"])
def test_an_update_is_made_of_sixteen_sentences_whatever_sizes_are_announced(
    others: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = tiny(algorithm={"rounds": 4})
    hospital = hospital_at(tmp_path, request_policy=request_policy_of(study))
    rows = drawn_in(monkeypatch, hospital)
    shared = {name: parameter.detach().numpy() for name, parameter in hospital.shared.items()}
    step = {"rate": 0.01, "output_rate": 0.01, "decay": 0.0, "clip": 5.0, "batch_size": 8, "steps": 1}
    sizes = {"harbour": len(hospital.notes.train), "hillside": others}
    values = {**step, "round": 1, "sizes": sizes, "total": sum(sizes.values())}
    hospital.answer("gradient", Message(values, grouped("shared", shared)))
    assert [len(batch) for batch in rows] == [16]


def test_sizes_that_change_between_rounds_are_refused(tmp_path: Path) -> None:
    hospitals = Hospitals(tmp_path, "masked")
    hospitals.run(1)
    sizes = {name: size * (1 if name == "harbour" else 7) for name, size in hospitals.coordinator.sizes.items()}
    shared = grouped("shared", {name: tensor.numpy() for name, tensor in hospitals.coordinator.shared.items()})
    values = {**hospitals.train(2, sizes=sizes).values, "total": sum(sizes.values())}
    assert hospitals.ask("gradient", Message(values, shared), to=["harbour"]) == {"harbour": "sizes"}


# Notes that are scored


def test_a_sites_notes_are_not_scored_without_end(tmp_path: Path) -> None:
    """The counts of a shared half that tags a single word would reveal how often the development notes contain it."""
    hospital = hospital_at(tmp_path, request_policy=request_policy_of(tiny(algorithm={"rounds": 4})))
    shared = grouped("shared", {name: parameter.detach().numpy() for name, parameter in hospital.shared.items()})
    codes = []
    for _ in range(30):
        try:
            hospital.answer("score", Message({"round": 1}, shared))
            codes.append("")
        except MessageError as error:
            codes.append(error.code)
    assert codes == [""] * 24 + ["repeats"] * 6  # 16, and two for each of four rounds


# Sums that a site spoils


def spoiling(consortium: Consortium, culprit: SiteId) -> Meddle:
    """Make the site submit correctly signed random slots, or their ciphertext."""
    client = consortium.wards[culprit].aggregation.client

    def meddle(site: SiteId, step: str, message: Message, go: Go) -> Message:
        answer = go(message)
        if (site, step) != (culprit, "submit"):
            return answer
        exchange = Exchange.from_values(message.value("exchange", dict))
        given = Contribution.from_message(answer)
        random = np.random.default_rng(exchange.round).integers(0, 2**32, wards.WIDTH, np.uint64).astype(np.uint32)
        spoiled = Message(answer.values, {"slots": random})
        named = {"commitment": given.commitment} if hasattr(given, "commitment") else {}
        signed = contribute(client._identity, exchange, sealed_digest(spoiled), **named)  # type: ignore[attr-defined]
        return Message(spoiled.values, spoiled.arrays, signed.to_blobs())

    return meddle


def persist(consortium: Consortium, rounds: int, tries: int) -> list[str]:
    """Run rounds and repeat failed ones as a study does; return the reasons of the failures."""
    failures = []
    for _ in range(tries):
        try:
            consortium.run(rounds - consortium.coordinator.number)
            break
        except FederationError as error:
            failures.append(str(error))
            consortium.ask("restore", Message({"round": consortium.coordinator.number}))
    return failures


def test_a_masked_site_that_submits_noise_is_found_by_exclusion(tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, replace(MASKED, minimum=2))
    consortium.meddle = spoiling(consortium, "h3")
    failures = persist(consortium, rounds=8, tries=12)
    assert consortium.coordinator.number == 8, f"no round after {consortium.coordinator.number}: {failures[-1]}"
    assert consortium.coordinator.search.excluded == ["h3"]
    assert any("h3 spoils it, and is excluded from the study" in failure for failure in failures)


def test_no_site_is_left_out_below_the_minimum_number_of_sites(tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, replace(MASKED, minimum=4))
    consortium.meddle = spoiling(consortium, "h3")
    with pytest.raises(FederationError, match="minimum_sites allows leaving none out"):
        consortium.run()
    assert not consortium.coordinator.search.absent


@UNDER_MASKS
def test_a_masked_site_that_sends_another_seed_is_named(mechanism: Any, tmp_path: Path) -> None:
    consortium = Consortium(tmp_path, mechanism)
    consortium.meddle = changing("h2", "unmask", lambda message: Message({}, {}, {"seed": bytes(32)}))
    failures = persist(consortium, rounds=3, tries=4)
    assert consortium.coordinator.number == 3, failures[-1]
    assert failures == [
        "h2 sent another seed than it had committed to; the round's sum cannot be opened; it is excluded from the study"
    ]


def test_a_spoiled_sum_that_only_sites_see_is_traced_too(tmp_path: Path) -> None:
    """Under sealed+masked the site seals numbers beyond its clip; the opened sum is out of range."""
    consortium = Consortium(tmp_path, replace(BOTH, minimum=2))
    client = consortium.wards["h1"].aggregation.client
    seal: Callable[..., Any] = client.seal

    def beyond(update: Any, **named: Any) -> Any:
        layout_of = client.mechanism.layout  # type: ignore[attr-defined]
        honest = layout_of(named["exchange"])
        packed = honest.pack(update, share=0.25)
        packed.slots[:] = np.uint64(honest.packing.modulus // 3)
        honest.pack = lambda *_, **__: packed
        object.__setattr__(client.mechanism, "layout", lambda exchange: honest)  # type: ignore[attr-defined]
        try:
            return seal(update, **named)
        finally:
            object.__delattr__(client.mechanism, "layout")  # type: ignore[attr-defined]

    client.seal = beyond  # type: ignore[method-assign]
    failures = persist(consortium, rounds=6, tries=12)
    assert consortium.coordinator.number == 6, failures[-1]
    assert consortium.coordinator.search.excluded == ["h1"]


# CKKS


def test_under_ckks_too_a_sum_must_match_its_transcript() -> None:
    """h1 counts twice in a sum that lists it once."""
    cohort = Cohort.of(CKKS)
    exchange = cohort.exchange()
    given = cohort.seal(exchange, UPDATES)
    total = cohort.total(exchange, given)
    total._sum.add(sent(given["h1"].message).arrays)
    message = sent(total.message(seeds_of(CKKS, given)))
    with pytest.raises(MessageError) as refused:
        cohort.clients["h2"].open(message, own=given["h2"].digest)
    assert refused.value.code == "sum"
    honest = cohort.opened(exchange, given, at="h2")
    assert all(torch.tensor(array).isfinite().all() for array in honest.values())


def test_four_honest_sites_learn_the_same_protected_or_not(tmp_path: Path) -> None:
    """The tests above can pass: four honest hospitals learn the same, protected or not."""
    plain, masked = Hospitals(tmp_path / "plain", "plain"), Hospitals(tmp_path / "masked", "masked")
    for hospitals in (plain, masked):
        assert [record.absent for record in hospitals.run(2)] == [(), ()]
    assert furthest(plain.shared(), masked.shared()) < 1e-3
    assert not same(plain.shared(), plain.server().shared)
    assert set(plain.sites) == set(NAMES)
