from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.algorithms.clinics import (
    CALM,
    NAMES,
    OWN,
    SHAPES,
    Clinics,
    assert_nothing_is_stepped,
    failing,
    furthest,
    same,
)
from tests.algorithms.wards import Go, Meddle, codes, without

from wardround.algorithms.feded import FedEdConfig
from wardround.errors import MessageError, RefusedSumError
from wardround.federation.message import Array, Message
from wardround.federation.site_runtime import Site
from wardround.secure_aggregation.exchange import Exchange

PROTECTED = pytest.mark.parametrize("kind", ["masked", "sealed", "both", "compact"])
STARTS = pytest.mark.parametrize("config", [CALM, OWN], ids=["central", "own"])


@PROTECTED
@STARTS
def test_a_protected_training_is_nearly_the_plain_one(kind: str, config: FedEdConfig, tmp_path: Path) -> None:
    """Each of four sites rounds by half a unit of 2/2^22 at most; of `compact`, of 2/2^15."""
    plain, clinics = (
        Clinics(tmp_path / "plain", config=config),
        Clinics(tmp_path / "it", kind, config=config, minimum=3),
    )
    unit = 4 * 2.0 ** (-15 if kind == "compact" else -22)
    for _ in range(2):
        plain.run()
        (record,) = clinics.run()
        assert (record.answered, record.absent, record.clipped) == (4, (), 0)
        assert furthest(clinics.mean(), plain.mean()) < 4 * unit
    assert furthest(clinics.central(), plain.central()) < 500 * unit


@pytest.mark.parametrize("kind", ["masked", "sealed", "both"])
def test_protected_logits_learn_their_clip(kind: str, tmp_path: Path) -> None:
    config = replace(CALM, predictions="logits")
    plain, clinics = (
        Clinics(tmp_path / "plain", config=config),
        Clinics(tmp_path / "it", kind, config=config, minimum=3),
    )
    plain.run(2)
    clinics.run(2)
    assert furthest(clinics.mean(), plain.mean()) < 1e-4
    assert furthest(clinics.central(), plain.central()) < 1e-3


def held(clinics: Clinics, site: str) -> dict[str, Array]:
    """What a site predicts, as it lies at the site."""
    kept = clinics.sites[site].aggregation
    assert kept is not None
    return {name.removeprefix("update/"): t.numpy() for name, t in kept.state().items() if name.startswith("update/")}


@PROTECTED
def test_no_array_that_leaves_has_one_sites_predictions(kind: str, tmp_path: Path) -> None:
    clinics = Clinics(tmp_path, kind, minimum=3)
    clinics.run()
    for step_, site, _, answer in clinics.passed:
        predicted = held(clinics, site)
        if step_ == "open_mean":
            assert furthest(answer.group("mean"), predicted) > 0.01
            assert answer.arrays.keys() == {"mean/diseases", "mean/organs"}
        elif step_ == "submit":
            assert not any(array.dtype.kind == "f" for array in answer.arrays.values())
        else:
            assert not answer.arrays
        everything = b"".join([*(array.tobytes() for array in answer.arrays.values()), *answer.blobs.values()])
        assert not any(row.tobytes() in everything for rows in predicted.values() for row in rows)


def test_masked_slots_differ_from_those_of_the_prediction(tmp_path: Path) -> None:
    clinics = Clinics(tmp_path, "masked", minimum=3)
    clinics.run()
    assert clinics.mechanism is not None
    exchange = Exchange.from_values(clinics.questions("submit")[0].value("exchange", dict))
    for site, answer in clinics.answers("submit"):
        bare = clinics.mechanism.layout(exchange).pack(held(clinics, site), share=0.25)
        assert not (answer.arrays["slots"] == bare.slots).any()


@PROTECTED
def test_the_mean_is_over_the_sites_that_submitted(kind: str, tmp_path: Path) -> None:
    clinics = Clinics(tmp_path, kind, minimum=3)
    clinics.meddle = without(("riverside", "submit"))
    (record,) = clinics.run()
    assert codes(record)[0] == ("riverside", "ConnectionError")
    assert {site for site, _ in codes(record)} == {"riverside"}
    assert record.answered == 3
    gave = [held(clinics, name) for name in NAMES if name != "riverside"]
    expected = {head: np.mean([one[head] for one in gave], axis=0) for head in SHAPES}
    assert furthest(clinics.mean(), expected) < (1e-3 if kind == "compact" else 1e-5)
    assert clinics.run()[0].number == 2


@PROTECTED
def test_a_site_that_drops_out_leaves_too_few_sites(kind: str, tmp_path: Path) -> None:
    clinics = Clinics(tmp_path, kind, minimum=4)
    clinics.run()
    clinics.meddle = without(("riverside", "submit"))
    assert_nothing_is_stepped(clinics, r"^3 of 4 sites answered; the study needs at least 4 \(riverside failed")


@PROTECTED
def test_a_sum_stays_closed_if_a_site_drops_out_after_submitting(kind: str, tmp_path: Path) -> None:
    clinics = Clinics(tmp_path, kind, minimum=3)
    clinics.run()
    clinics.meddle = without(("station", "unmask"))
    assert_nothing_is_stepped(clinics, "^station left after it had submitted; the round's sum cannot be opened$")


@pytest.mark.parametrize("kind", ["sealed", "both", "compact"])
def test_a_site_that_does_not_open_the_mean_is_still_part_of_it(kind: str, tmp_path: Path) -> None:
    clinics, honest = (Clinics(tmp_path / name, kind, minimum=3) for name in ("one", "two"))
    clinics.meddle = failing("harbour", "open_mean", "busy")
    (record,) = clinics.run()
    honest.run()
    assert codes(record) == [("harbour", "busy")]
    assert record.answered == 4
    assert same(clinics.mean(), honest.mean())


def saying(*liars: tuple[str, Callable[[Array], Array]]) -> Meddle:
    """Sites that say another mean than they opened."""

    def meddle(site: str, step_: str, message: Message, go: Callable[[Message], Message]) -> Message:
        answer = go(message)
        for name, change in liars:
            if (site, step_) == (name, "open_mean"):
                answer = replace(answer, arrays={key: change(np.array(a)) for key, a in answer.arrays.items()})
        return answer

    return meddle


def shifted(by: float) -> Callable[[Array], Array]:
    return lambda rows: np.asarray(rows + by * np.array([1, -1] + [0] * (rows.shape[1] - 2)), np.float32)


@pytest.mark.parametrize("kind", ["sealed", "both"])
@pytest.mark.parametrize("liar", ["harbour", "station"])
def test_a_site_that_opens_another_mean_is_outvoted(kind: str, liar: str, tmp_path: Path) -> None:
    clinics, honest = (Clinics(tmp_path / name, kind, minimum=3) for name in ("one", "two"))
    clinics.meddle = saying((liar, shifted(0.05)))
    clinics.run()
    honest.run()
    assert same(clinics.mean(), honest.mean())
    assert same(clinics.central(), honest.central())


@pytest.mark.parametrize(
    "liars",
    [
        (("harbour", shifted(0.05)), ("station", shifted(0.05))),  # two against two
        (("harbour", shifted(0.05)), ("hillside", shifted(-0.05)), ("station", shifted(0.1))),
    ],
    ids=["two", "three"],
)
@pytest.mark.parametrize("kind", ["sealed", "both"])
def test_without_a_majority_nothing_is_stepped(kind: str, liars: Any, tmp_path: Path) -> None:
    clinics = Clinics(tmp_path, kind, minimum=3)
    clinics.run()
    clinics.meddle = saying(*liars)
    assert_nothing_is_stepped(clinics, "^the sites do not agree on what they opened$")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda rows: rows[:-1], "shapes"),
        (lambda rows: rows.astype(np.float64), "shapes"),
        (lambda rows: rows * np.float32("nan"), "not-a-number"),
    ],
)
def test_an_impossible_mean_has_no_vote(change: Callable[[Array], Array], code: str, tmp_path: Path) -> None:
    clinics = Clinics(tmp_path, "sealed", minimum=2)
    clinics.meddle = saying(("harbour", change), ("hillside", change))
    (record,) = clinics.run()
    assert codes(record) == [("harbour", code), ("hillside", code)]
    assert record.answered == 4


def lies(site: Site, change: Callable[[Array], Array]) -> None:
    """From now on the site holds something else than its model predicts."""
    plain = site.announce

    def announce(update: Any, *, weight: float, values: Any) -> Message:
        return plain({head: change(np.array(rows)) for head, rows in update.items()}, weight=weight, values=values)

    site.announce = announce  # type: ignore[method-assign]


@PROTECTED
@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda rows: rows * np.float32(0.9), "sum"),  # the mean misses one by a fortieth
        (lambda rows: np.ones_like(rows), "sum"),
        (shifted(-1.0), "range"),
    ],
    ids=["short", "ones", "turned"],
)
def test_a_mean_that_is_not_a_distribution_changes_nothing(
    kind: str, change: Callable[[Array], Array], code: str, tmp_path: Path
) -> None:
    clinics = Clinics(tmp_path, kind, minimum=3)
    clinics.run()
    for name in NAMES if code == "range" else NAMES[:1]:
        lies(clinics.sites[name], change)
    assert_nothing_is_stepped(clinics, rf"^the round's mean prediction cannot be used \({code}\)$")


@PROTECTED
def test_predictions_that_are_not_finite_are_not_submitted(kind: str, tmp_path: Path) -> None:
    clinics = Clinics(tmp_path, kind, minimum=3)
    clinics.ask("describe", Message())
    lies(clinics.sites["station"], lambda rows: rows * np.float32("nan"))
    (record,) = clinics.run()
    assert codes(record) == [("station", "not-a-number")]


@PROTECTED
def test_a_site_submits_once_per_exchange(kind: str, tmp_path: Path) -> None:
    clinics = Clinics(tmp_path, kind, minimum=3)
    refusals: list[str] = []

    def again(site: str, step_: str, message: Message, go: Callable[[Message], Message]) -> Message:
        answer = go(message)
        if step_ == "submit":
            with pytest.raises(MessageError) as refused:
                clinics.sites[site].answer("submit", message)
            refusals.append(refused.value.code)
        return answer

    clinics.meddle = again
    clinics.run(2)
    assert refusals == ["replay"] * 8
    first, second = clinics.questions("submit")
    assert set(clinics.ask("submit", first).values()) == {"round"}
    assert set(clinics.ask("submit", second).values()) == {"spent"}


@pytest.mark.parametrize("kind", ["sealed", "both", "compact"])
def test_a_sum_of_an_earlier_round_is_not_opened_as_this_one(kind: str, tmp_path: Path) -> None:
    clinics = Clinics(tmp_path, kind, minimum=3)
    clinics.run(2)
    first, _ = clinics.questions("open_mean")
    later = replace(first, values={**first.values, "round": 2})
    assert set(clinics.ask("open_mean", later).values()) == {"replay"}
    for site in clinics.sites.values():
        site.history._opened.clear()  # what was opened is not all that keeps it shut
    assert set(clinics.ask("open_mean", later).values()) == {"sum"}


@pytest.mark.parametrize("kind", ["sealed", "both", "compact"])
def test_one_sites_prediction_is_not_opened_as_the_mean(kind: str, tmp_path: Path) -> None:
    clinics = Clinics(tmp_path, kind, minimum=3)
    refusals = []

    def first_alone(site: str, step: str, message: Message, go: Go) -> Message:
        if step == "open_mean":
            _, alone = clinics.answers("submit")[0]
            with pytest.raises(RefusedSumError, match="blocks of") as refused:
                go(replace(message, arrays=alone.arrays))
            refusals.append((refused.value.code, refused.value.counts))
        return go(message)

    clinics.meddle = first_alone
    clinics.run()
    assert refusals == [("sum", True)] * 4


# A coordinator that goes its own ways: of two means that differ in one site, it would know that site's prediction.


class Curious:
    """Names whatever exchanges it likes among sites that trained, and has opened what sites will open."""

    def __init__(self, clinics: Clinics) -> None:
        self.clinics, self.aggregator = clinics, clinics.aggregator
        self.public_keys: dict[str, bytes] = {}

    def train(self, number: int = 1) -> None:
        ready = self.clinics.ask("train_and_predict", self.clinics.question(number))
        assert all(isinstance(answer, Message) for answer in ready.values()), ready
        self.public_keys = {site: answer.blobs["public_keys"] for site, answer in ready.items()}

    def given(self, cohort: Sequence[str], number: int = 1) -> tuple[Exchange, dict[str, Any]]:
        aggregator: Any = self.aggregator
        weights = dict.fromkeys(cohort, 1.0)
        exchange: Exchange = aggregator.exchange(
            round_number=number, step="train_and_predict", weights=weights, clips=aggregator.mechanism.clips
        )
        public_keys = {f"public_keys/{site}": self.public_keys[site] for site in cohort}
        question = Message({"round": number, "exchange": exchange.to_values()}, {}, public_keys)
        return exchange, self.clinics.ask("submit", question, to=cohort)

    def seeds(self, exchange: Exchange) -> dict[str, Any]:
        question = Message({"round": exchange.round, "nonce": exchange.nonce})
        told = self.clinics.ask("unmask", question, to=list(exchange.weights))
        return {site: answer if isinstance(answer, str) else answer.blobs["seed"] for site, answer in told.items()}

    def opened(self, exchange: Exchange, given: Mapping[str, Message], seeds: Mapping[str, Any]) -> dict[str, Any]:
        """What each site says to the sum of what some of them gave: a mean, or the code of its refusal."""
        aggregator: Any = self.aggregator
        total = aggregator.total(exchange, self.public_keys)
        for site, sealed in given.items():
            total.add(site, sealed)
        told = {site: seed for site, seed in seeds.items() if isinstance(seed, bytes)}
        said = self.clinics.ask("open_mean", total.message(told))
        return {site: answer if isinstance(answer, str) else answer.group("mean") for site, answer in said.items()}


OPENED_BY_SITES = pytest.mark.parametrize("kind", ["sealed", "both", "compact"])


@OPENED_BY_SITES
def test_of_two_sums_of_one_round_the_later_is_opened_and_the_earlier_never(kind: str, tmp_path: Path) -> None:
    clinics = Clinics(tmp_path, kind, minimum=2)
    curious = Curious(clinics)
    curious.train()
    (first, all_four), (second, three) = curious.given(NAMES), curious.given(NAMES[:3])
    seeds = curious.seeds(first)
    assert [seeds[site] for site in NAMES[:3]] == ["nonce"] * 3
    assert set(curious.opened(first, all_four, seeds).values()) == {"sum"}
    means = curious.opened(second, three, curious.seeds(second))
    expected = {head: np.mean([held(clinics, site)[head] for site in NAMES[:3]], axis=0) for head in SHAPES}
    assert all(furthest(mean, expected) < 1e-3 for mean in means.values())
    assert set(curious.opened(first, all_four, curious.seeds(first)).values()) == {"sum"}


@OPENED_BY_SITES
def test_a_submission_of_an_opened_sum_is_used_in_no_other_sum(kind: str, tmp_path: Path) -> None:
    curious = Curious(Clinics(tmp_path, kind, minimum=2))
    curious.train()
    first, all_four = curious.given(NAMES)
    assert all(isinstance(mean, dict) for mean in curious.opened(first, all_four, curious.seeds(first)).values())
    _, three = curious.given(NAMES[:3])
    assert set(three.values()) == {"spent"}


@OPENED_BY_SITES
def test_a_part_of_a_sum_is_not_opened(kind: str, tmp_path: Path) -> None:
    """All have given to one exchange and told their seeds; the coordinator leaves one out when it adds."""
    curious = Curious(Clinics(tmp_path, kind, minimum=2))
    curious.train()
    exchange, given = curious.given(NAMES)
    seeds = curious.seeds(exchange)
    for left_out in NAMES:
        part = {site: sealed for site, sealed in given.items() if site != left_out}
        assert set(curious.opened(exchange, part, seeds).values()) == {"sum"}
    assert all(isinstance(mean, dict) for mean in curious.opened(exchange, given, seeds).values())


@OPENED_BY_SITES
@pytest.mark.parametrize(
    ("number", "dropout", "batch_size", "sites"),
    [(1, 0.3, 64, NAMES), (2, 0.3, 64, NAMES), (2, 0.0, 4, ["riverside"])],
    ids=["again", "the next at once", "the next without dropout"],
)
def test_a_restored_site_predicts_again(
    kind: str, number: int, dropout: float, batch_size: int, sites: Sequence[str], tmp_path: Path
) -> None:
    """The model it starts from is the same, and so would be its batches and what is dropped."""
    clinics = Clinics(tmp_path, kind, minimum=2, dropout=dropout, batch_size=batch_size)
    curious = Curious(clinics)
    curious.train()
    first, all_four = curious.given(NAMES)
    mean = curious.opened(first, all_four, curious.seeds(first))["station"]
    before = {site: held(clinics, site) for site in NAMES}
    clinics.ask("restore", Message({"round": 0}))
    curious.train(number)
    assert min(furthest(before[site], held(clinics, site)) for site in sites) > 1e-3
    second, three = curious.given(NAMES[:3], number)
    other = curious.opened(second, three, curious.seeds(second))["harbour"]
    found = {head: 4 * mean[head] - 3 * other[head] for head in SHAPES}
    assert furthest(found, before["station"]) > 1e-3


@OPENED_BY_SITES
def test_a_round_that_was_never_opened_draws_the_same_sentences_again(kind: str, tmp_path: Path) -> None:
    clinics = Clinics(tmp_path, kind, minimum=2, dropout=0.3)
    curious = Curious(clinics)
    curious.train()
    curious.given(NAMES)
    before = {site: held(clinics, site) for site in NAMES}
    clinics.ask("restore", Message({"round": 0}))
    curious.train()
    assert all(same(before[site], held(clinics, site)) for site in NAMES)
