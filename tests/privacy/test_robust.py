from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.federation.test_coordinator import Noting

from wardround.errors import FederationError, StudyError
from wardround.federation.coordinator import RoundsConfig
from wardround.federation.federation import Quorum, Replies, Reply, Traffic
from wardround.federation.message import Array, Message, Value
from wardround.privacy import robust
from wardround.privacy.robust import (
    CentredClipping,
    Median,
    MultiKrum,
    Robust,
    RobustAggregation,
    RobustRule,
    RobustServer,
    TrimmedMean,
    VisibleUpdates,
    check_memory,
)
from wardround.secure_aggregation.mechanisms import Plain
from wardround.secure_aggregation.plain import PlainServer, PlainUpdates
from wardround.training.training_config import RoundTrainingConfig

RULES: tuple[RobustRule, ...] = (Median(), TrimmedMean(1), MultiKrum(1), CentredClipping(0.0, 3))


def updates(rows: Mapping[str, list[float]], weight: float = 1.0) -> VisibleUpdates:
    sent = {site: PlainUpdates().seal({"w": np.array(row, np.float32)}, weight=weight) for site, row in rows.items()}
    return VisibleUpdates(sent, {"w": np.zeros(len(next(iter(rows.values()))), np.float32)})


def combined(rule: RobustRule, *numbers: float) -> tuple[float, list[float]]:
    result, used = rule.combine(updates({f"h{place}": [number] for place, number in enumerate(numbers)}))
    return float(result["w"][0]), used.tolist()


def test_the_median_by_hand() -> None:
    assert combined(Median(), 3.0, -50.0, 1.0, 2.0, 900.0) == (2.0, [0.0, 0.0, 0.0, 1.0, 0.0])
    assert combined(Median(), 3.0, -50.0, 1.0, 2.0)[0] == 1.5


def test_the_trimmed_mean_by_hand() -> None:
    # -50 and 900 are left out: (3 + 1 + 2) / 3.
    assert combined(TrimmedMean(1), 3.0, -50.0, 1.0, 2.0, 900.0) == (2.0, [1.0, 0.0, 1.0, 1.0, 0.0])
    # Two at each end of five: the median.
    assert combined(TrimmedMean(2), 3.0, -50.0, 1.0, 2.5, 900.0)[0] == 2.5
    # With fewer updates than expected at least one remains.
    assert combined(TrimmedMean(2), 1.0, 2.0, 9.0)[0] == 2.0


def test_multi_krum_by_hand() -> None:
    # n = 5, f = 1: the 2 nearest neighbours. Scores: 0: 1 + 4; 1: 1 + 1; 2: 1 + 1 (to 1 and 3); 3: 1 + 4; 90: large.
    assert combined(MultiKrum(1), 0.0, 1.0, 2.0, 3.0, 90.0) == (1.5, [1.0, 1.0, 1.0, 1.0, 0.0])
    assert combined(MultiKrum(1, selected=2), 0.0, 1.0, 2.0, 3.0, 90.0) == (1.5, [0.0, 1.0, 1.0, 0.0, 0.0])
    # Krum itself selects one, the first of equal scores.
    assert combined(MultiKrum(1, selected=1), 0.0, 1.0, 2.0, 3.0, 90.0)[0] == 1.0


def test_centred_clipping_by_hand() -> None:
    # The median is 2, the distances 2, 1, 0, 1, 8, and the radius 1: 2 + (-1 - 1 + 0 + 1 + 1) / 5 = 2.
    value, used = combined(CentredClipping(1.0, 1), 0.0, 1.0, 2.0, 3.0, 10.0)
    assert value == pytest.approx(2.0)
    assert used == pytest.approx([0.5, 1.0, 1.0, 1.0, 0.125])
    # The median distance is 1 as well.
    assert combined(CentredClipping(0.0, 1), 0.0, 1.0, 2.0, 3.0, 10.0) == (value, used)
    # The median of 0, 0, 6 is 0. A step moves the centre by (0 + 0 + 3) / 3, a second one by (-1 - 1 + 3) / 3.
    assert combined(CentredClipping(3.0, 1), 0.0, 0.0, 6.0)[0] == pytest.approx(1.0)
    assert combined(CentredClipping(3.0, 2), 0.0, 0.0, 6.0)[0] == pytest.approx(1.0 + (-1 - 1 + 3) / 3)


def test_weights_do_not_count() -> None:
    # The site with ten times the weight sends ten times its update; its update is what counts.
    sent = {
        "h1": PlainUpdates().seal({"w": np.array([1.0], np.float32)}, weight=1.0),
        "h2": PlainUpdates().seal({"w": np.array([2.0], np.float32)}, weight=10.0),
        "h3": PlainUpdates().seal({"w": np.array([6.0], np.float32)}, weight=1000.0),
    }
    found = VisibleUpdates(sent, {"w": np.zeros(1, np.float32)})
    assert Median().combine(found)[0]["w"].tolist() == [2.0]
    assert TrimmedMean(0).combine(found)[0]["w"].tolist() == [3.0]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_one_of_five_cannot_leave_the_range_of_the_others_by_much(rule: RobustRule) -> None:
    random = np.random.default_rng(0)
    honest = random.normal(1.0, 0.1, (4, 50))
    for attack in (-10 * honest.mean(axis=0), np.full(50, 1e30), random.normal(0, 5, 50)):
        rows = {f"h{n}": row.tolist() for n, row in enumerate([*honest[:2], attack, *honest[2:]])}
        result, used = rule.combine(updates(rows))
        assert np.abs(result["w"] - 1.0).max() < 0.5
        assert used[2] < 0.2
    plain = np.mean([*honest, -10 * honest.mean(axis=0)], axis=0)
    assert plain.max() < -1.0  # what the mean would have done


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_equal_updates_are_returned_unchanged(rule: RobustRule) -> None:
    result, used = rule.combine(updates({f"h{n}": [0.5, -2.0, 0.0] for n in range(5)}))
    assert result["w"].tolist() == pytest.approx([0.5, -2.0, 0.0])
    assert used.sum() >= 4


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_chunks_rows_and_scalars_change_nothing(rule: RobustRule, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(1)
    like = {"table": np.zeros((600, 3), np.float32), "one": np.float32(0), "bias": np.zeros(7, np.float32)}
    sent = {}
    for number in range(5):
        table = np.zeros((600, 3), np.float32)
        rows = random.choice(600, 20 if number else 500, replace=False)  # the first site sends its table whole
        table[rows] = random.normal(0, 1, (len(rows), 3))
        arrays = {"table": table, "one": np.array(number, np.float32), "bias": random.normal(0, 1, 7)}
        sent[f"h{number}"] = PlainUpdates().seal(arrays, weight=2.0)
    assert "rows/table" not in sent["h0"].arrays
    assert "rows/table" in sent["h1"].arrays
    shapes = {name: np.asarray(array) for name, array in like.items()}
    whole, used = rule.combine(VisibleUpdates(sent, shapes))
    monkeypatch.setattr(robust, "_SCRATCH", 200)
    held = VisibleUpdates(sent, shapes)
    assert max(numbers.size for _, _, numbers in held.chunks()) <= 200
    again, used_again = rule.combine(held)
    assert {name: array.shape for name, array in whole.items()} == {"table": (600, 3), "one": (), "bias": (7,)}
    for name, array in whole.items():
        np.testing.assert_allclose(again[name], array, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(used_again, used)


@given(st.permutations(range(5)), st.lists(st.floats(-1e3, 1e3, width=32), min_size=5, max_size=5))
@settings(max_examples=30, deadline=None)
def test_the_median_and_the_trimmed_mean_do_not_depend_on_the_order(order: list[int], numbers: list[float]) -> None:
    for rule in (Median(), TrimmedMean(1)):
        moved = combined(rule, *(numbers[place] for place in order))[0]
        assert moved == pytest.approx(combined(rule, *numbers)[0], rel=1e-6, abs=1e-6)


class Sites:
    """Five sites that send 1, 2, 3, 4 and whatever `last` is."""

    sites = ("h0", "h1", "h2", "h3", "h4")

    def __init__(self, last: float, *, backwards: bool = False, absent: tuple[str, ...] = ()) -> None:
        self.last, self.backwards, self.absent = last, backwards, absent

    def ask(self, step: str, message: Message, *, to=None) -> Replies:  # type: ignore[no-untyped-def]
        if step == "describe":
            return iter([Reply(site, Message({"examples": 10}), Traffic()) for site in to])
        replies = [self._answer(site, number) for site, number in zip(self.sites, (1, 2, 3, 4, self.last), strict=True)]
        present = [reply for reply in replies if reply.site not in self.absent]
        return iter(present[::-1] if self.backwards else present)

    def _answer(self, site: str, number: float) -> Reply:
        array = np.array([number], np.float32) * np.float32(10)
        return Reply(site, Message({"weight": 10.0, "loss": 1.0}, {"update/w": array}), Traffic())


class Stepped(Noting):
    """Keeps the last mean."""

    mean = 0.0

    def step(self, mean: Mapping[str, Array], values: Mapping[str, Value]) -> None:
        self.mean = float(mean["w"][0])


def stepped(sites: Sites, minimum: int = 3, rule: RobustRule | None = None) -> tuple[float, Mapping[str, float]]:
    server = Stepped({"w": np.zeros(1, np.float32)}, RoundsConfig(rounds=1), RoundTrainingConfig())
    (record,) = server.rounds(sites, RobustServer(PlainServer(), rule or TrimmedMean(1)), Quorum(minimum))
    return server.mean, record.used


def test_a_round_steps_with_what_the_rule_returns_in_any_order_of_arrival() -> None:
    expected = (3.0, {"h0": 0.0, "h1": 1.0, "h2": 1.0, "h3": 1.0, "h4": 0.0})
    assert stepped(Sites(900.0)) == expected
    assert stepped(Sites(900.0, backwards=True)) == expected
    assert stepped(Sites(900.0), rule=MultiKrum(1)) == stepped(Sites(900.0, backwards=True), rule=MultiKrum(1))


def test_an_update_that_is_not_finite_makes_its_site_absent() -> None:
    # 1, 2, 3, 4 remain, and 1 and 4 are trimmed.
    mean, used = stepped(Sites(np.inf))
    assert (mean, set(used)) == (2.5, {"h0", "h1", "h2", "h3"})
    with pytest.raises(FederationError):
        stepped(Sites(np.inf), minimum=5)


TRIMMED = RobustAggregation("trimmed_mean")


def test_the_fewest_sites_are_those_of_the_papers() -> None:
    assert RobustAggregation("median").fewest_sites == 3
    assert RobustAggregation("trimmed_mean", malicious=2).fewest_sites == 5
    assert RobustAggregation("multi_krum", malicious=1).fewest_sites == 5
    assert RobustAggregation("centred_clipping", malicious=3).fewest_sites == 7


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"malicious": 0}, "malicious is 0"),
        ({"rule": "multi_krum", "selected": -1}, "selected is -1"),
        ({"rule": "centred_clipping", "radius": -1.0}, "radius is -1.0"),
        ({"rule": "centred_clipping", "radius": float("nan")}, "radius is nan"),
        ({"rule": "centred_clipping", "iterations": 0}, "iterations is 0"),
        ({"memory": 0.0}, "memory is 0.0"),
        ({"selected": 2}, "selected belongs to rule multi_krum, not trimmed_mean"),
        ({"radius": 1.0}, "radius belongs to rule centred_clipping"),
        ({"iterations": 5}, "iterations belongs to rule centred_clipping"),
    ],
)
def test_nonsense_is_refused(changes: Mapping[str, object], said: str) -> None:
    with pytest.raises(StudyError, match=said):
        replace(TRIMMED, **changes)  # type: ignore[arg-type]


def test_memory_is_bounded_before_round_1() -> None:
    settings_of_100_mib = replace(TRIMMED, memory=0.1)
    check_memory(settings_of_100_mib, sites=5, numbers=5_000_000)  # 95 MiB
    with pytest.raises(StudyError, match=r"6 sites times 5,000,000 numbers are 0\.11 GiB, and memory allows 0\.1"):
        check_memory(settings_of_100_mib, sites=6, numbers=5_000_000)


@pytest.mark.parametrize("rule", ["median", "trimmed_mean", "multi_krum", "centred_clipping"])
def test_the_declaration_says_what_the_wrapped_one_says_and_what_the_rule_does(rule: str) -> None:
    declared = Robust(Plain(), RobustAggregation(rule))  # type: ignore[arg-type]
    assert declared.name == f"plain with {rule}"
    assert declared.updates_readable_by.startswith(Plain.updates_readable_by)
    assert "Each site counts once" in declared.updates_readable_by
    assert declared.summary.startswith(Plain.summary)
    assert declared.report.startswith(Plain.report)
    assert (declared.protects, declared.coordinator_reads_update) == (False, True)
    assert declared.steps(mean_comes_back=False) == ()
