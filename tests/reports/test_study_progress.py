from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from rich.console import Console

from wardround.reports import study_progress
from wardround.reports.study_progress import StudyProgress

SITES = ("harbour", "hillside")


class Stop(Exception):
    """Somebody stopped the study."""


@dataclass(frozen=True)
class Bytes:
    up: int = 2_000_000
    down: int = 3_500_000


@dataclass(frozen=True)
class Absent:
    site: str
    code: str


@dataclass(frozen=True)
class Figures:
    number: int
    loss: float = 1.25
    absent: Sequence[Absent] = ()
    traffic: Bytes = field(default_factory=Bytes)


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(study_progress, "time", clock)
    return clock


def shown(
    *, terminal: bool = False, sites: Sequence[str] = SITES, name: str = "tiny"
) -> tuple[StudyProgress, io.StringIO]:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=120, color_system=None)
    return StudyProgress(name, sites, 10, console=console), stream


def drawn(progress: StudyProgress) -> list[str]:
    """The table as it would be drawn now, a line each."""
    stream = io.StringIO()
    Console(file=stream, width=120, color_system=None).print(progress._drawn())
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def test_without_a_terminal_a_line_at_every_scoring(clock: Clock) -> None:
    progress, stream = shown()
    with progress:
        progress.on_start(0)
        for number in (1, 2):
            clock.now += 3
            progress.on_round(Figures(number))
        progress.on_scores(2, {"harbour": 0.5, "hillside": 0.25})
        progress.on_round(Figures(3))
    # Two of ten rounds took six seconds: eight more take 24. Two rounds of 2 and 3.5 MB.
    head = "tiny  round 2/10  loss 1.250  up 4.0 MB  down 7.0 MB  left 0:24"
    assert stream.getvalue() == f"{head}  F1 harbour 0.500  hillside 0.250\n"


def test_a_long_line_is_not_broken(clock: Clock) -> None:
    progress, stream = shown(sites=[])
    progress.on_scores(1, {f"hospital-number-{number}": 0.5 for number in range(40)})
    assert stream.getvalue().count("\n") == 1
    assert "hospital-number-11 0.500" in stream.getvalue()
    assert "hospital-number-12" not in stream.getvalue()


def test_a_name_is_not_markup() -> None:
    progress, stream = shown(name="[/bold]tiny")
    progress.on_scores(1, {"harbour": 0.5})
    progress.on_event("[/bold] is said")
    assert [line.split("  ")[0] for line in stream.getvalue().splitlines()] == ["[/bold]tiny", "[/bold] is said"]
    assert drawn(progress)[0].startswith("[/bold]tiny  round 0/10")


@pytest.mark.parametrize(
    ("done", "seconds", "left"),
    [(0, 5.0, "–"), (1, 1.0, "0:09"), (5, 300.0, "5:00"), (4, 5000.0, "125:00"), (10, 60.0, "0:00")],
)
def test_the_time_left_is_that_of_the_rounds_done(done: int, seconds: float, left: str, clock: Clock) -> None:
    progress, _ = shown()
    progress.on_start(0)
    clock.now += seconds
    if done:
        progress.on_round(Figures(done))
    assert drawn(progress)[0].endswith(f"left {left}")


def test_a_study_that_goes_on_counts_only_its_own_rounds(clock: Clock) -> None:
    progress, stream = shown()
    clock.now += 1000
    progress.on_start(6)
    assert stream.getvalue() == "tiny goes on after round 6\n"
    assert drawn(progress)[0].startswith("tiny  round 6/10")
    assert drawn(progress)[0].endswith("left –")
    clock.now += 20
    progress.on_round(Figures(8))
    # Two rounds took twenty seconds; two are left.
    assert drawn(progress)[0].endswith("left 0:20")


def test_a_row_a_site() -> None:
    progress, _ = shown()
    progress.on_round(Figures(1))
    assert [line.split() for line in drawn(progress)[1:]] == [
        ["site", "F1", "best"],
        ["harbour", "–", "–"],
        ["hillside", "–", "–"],
    ]
    progress.on_scores(1, {"harbour": 0.5, "hillside": 0.25})
    progress.on_scores(2, {"harbour": 0.125})
    assert [line.split() for line in drawn(progress)[2:]] == [
        ["harbour", "0.125", "0.500"],
        ["hillside", "0.250", "0.250"],
    ]


def test_who_is_absent_and_why_until_the_next_round() -> None:
    progress, _ = shown()
    progress.on_round(Figures(1, absent=[Absent("hillside", "ValueError")]))
    assert [line.split() for line in drawn(progress)[2:]] == [
        ["harbour", "–", "–"],
        ["hillside", "–", "–", "ValueError"],
    ]
    progress.on_round(Figures(2))
    assert "ValueError" not in "\n".join(drawn(progress))


def test_of_many_sites_the_worst_are_shown() -> None:
    sites = [f"h{number:02}" for number in range(30)]
    progress, _ = shown(sites=sites)
    progress.on_scores(1, {site: 1 - number / 100 for number, site in enumerate(sites)})
    assert [line.split()[0] for line in drawn(progress)[2:]] == [f"h{number}" for number in range(29, 17, -1)]


def test_twelve_sites_are_shown_in_the_order_of_the_study() -> None:
    sites = [f"h{number:02}" for number in range(12)]
    progress, _ = shown(sites=sites)
    progress.on_scores(1, {site: 1 - number / 100 for number, site in enumerate(sites)})
    assert [line.split()[0] for line in drawn(progress)[2:]] == sites


def test_in_a_terminal_there_is_a_table_and_no_lines() -> None:
    progress, stream = shown(terminal=True)
    with progress:
        progress.on_start(0)
        progress.on_round(Figures(1))
        progress.on_scores(1, {"harbour": 0.5, "hillside": 0.25})
        progress.on_event("round 2 is tried again")
    said = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    assert "round 2 is tried again" in said
    assert re.search(r"site +F1 +best", said)
    assert re.search(r"harbour +0\.500 +0\.500", said)
    assert "F1 harbour" not in said


def test_in_a_terminal_the_cursor_comes_back_after_a_failure() -> None:
    progress, stream = shown(terminal=True)
    with pytest.raises(Stop), progress:
        progress.on_round(Figures(1))
        raise Stop
    hide, show = "\x1b[?25l", "\x1b[?25h"
    assert stream.getvalue().count(hide) == stream.getvalue().count(show) == 1
    assert stream.getvalue().rindex(show) > stream.getvalue().rindex(hide)


def test_it_writes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with StudyProgress("tiny", SITES, 2) as progress:
        progress.on_scores(1, {"harbour": 0.5})
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "harbour 0.500" in captured.err
