from __future__ import annotations

from tests.reports.run_records import EVENTS, a_round

from wardround.reports.cost_tables import bytes_table, megabytes_by_step, phase_of, phase_seconds, phase_table
from wardround.reports.history import Cost, History

SITES = ("harbour", "hillside")


def test_every_exchange_up_and_down_by_site() -> None:
    table = bytes_table(History.of(EVENTS).costs, SITES)
    assert table.columns == ("exchange", "direction", "harbour", "hillside", "all")
    assert table.rows == (
        ("train", "up", 5_000_000, 1_000_000, 6_000_000),
        ("train", "down", 750_000, 750_000, 1_500_000),
        ("finish", "up", 20, 0, 20),
        ("finish", "down", 10, 0, 10),
    )
    assert table.totals == (
        ("all", "up", 5_000_020, 1_000_000, 6_000_020),
        ("all", "down", 750_010, 750_000, 1_500_010),
    )


def test_many_sites_share_one_column() -> None:
    names = [f"h{number}" for number in range(13)]
    table = bytes_table({"train": {name: Cost(1, 2) for name in names}}, names)
    assert table.columns == ("exchange", "direction", "13 sites", "all")
    assert table.rows == (("train", "up", 26, 26), ("train", "down", 13, 13))


def test_megabytes_for_the_chart() -> None:
    assert megabytes_by_step({"train": {"a": Cost(500_000, 2_000_000)}}) == {
        "up, from the sites": {"train": 2.0},
        "down, to the sites": {"train": 0.5},
    }


def test_the_phase_of_a_step() -> None:
    steps = ("gradient", "submit", "unmask", "open_sum", "open_mean", "score", "finish", "describe", "save")
    phases = ["train", "seal", "seal", "open", "open", "score", "score", "keep", "keep"]
    assert [phase_of(step) for step in steps] == phases


def test_seconds_by_phase() -> None:
    seconds = phase_seconds(History.of(EVENTS))
    assert list(seconds) == ["train", "send", "combine", "open", "step", "score", "unanswered"]
    assert seconds["train"] == {"harbour": 4.5, "hillside": 1.5}
    assert seconds["send"] == {"harbour": 1.5, "hillside": 0.5}
    assert seconds["unanswered"] == {"hillside": 2.0}  # a second in each of two rounds
    assert seconds["combine"] == {"coordinator": 0.75}
    assert seconds["score"] == {"harbour": 0.5}


def test_a_site_without_an_answer_counts_as_unanswered() -> None:
    history = History.of([a_round(1, ("hillside", "late", "deadline"))])
    assert phase_seconds(history)["unanswered"] == {"hillside": 1.0}


def test_the_table_of_seconds() -> None:
    table = phase_table(History.of(EVENTS), SITES)
    assert table.columns == ("phase", "harbour", "hillside", "coordinator", "all")
    assert table.rows[0] == ("train", 4.5, 1.5, 0.0, 6.0)
    assert table.rows[2] == ("combine", 0.0, 0.0, 0.75, 0.75)
    # 6 of training, 2 of sending, 2 unanswered, 0.75 + 0.375 + 1.5 at the coordinator, 0.5 of scoring.
    assert table.totals == (("all", 6.5, 4.0, 2.625, 13.125),)
    assert "combine: the coordinator checks and adds the updates" in table.note
