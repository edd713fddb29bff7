from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from rich.console import Console
from tests.reports.pages import Figures

from wardround.reports import progress as progress_module
from wardround.reports.progress import StudyProgress, TrainingProgress


class Stop(Exception):
    """Raised in place of an interrupt."""


def console(*, terminal: bool = False) -> tuple[Console, io.StringIO]:
    stream = io.StringIO()
    return Console(file=stream, force_terminal=terminal, width=120, color_system=None), stream


def lines(stream: io.StringIO) -> list[str]:
    return [line for line in stream.getvalue().splitlines() if line.strip()]


def test_a_training_without_a_terminal_prints_one_line() -> None:
    shown, stream = console()
    with TrainingProgress("harbour", 2, console=shown) as progress:
        for epoch, (f1, best) in enumerate([(0.5, True), (0.25, False)], start=1):
            for step in (1, 2, 3):
                progress.on_step(epoch, step=step, steps=3, loss=9.0)
            progress.on_epoch(Figures(epoch, 1.5 / epoch, f1, best))
    (line,) = lines(stream)
    assert line.startswith("harbour ")
    assert " 6/6 loss 0.750  F1 0.250  best 0.500 " in line
    assert "\x1b" not in stream.getvalue()


def test_the_bar_counts_the_steps_of_all_epochs() -> None:
    shown, stream = console()
    with TrainingProgress("harbour", 10, console=shown) as progress:
        progress.on_step(3, step=2, steps=7, loss=4.0)
    # Two epochs of seven steps and two more, of ten times seven.
    assert " 16/70 loss 4.000 " in lines(stream)[0]


def test_before_the_first_step_no_figure_is_invented() -> None:
    shown, stream = console()
    with TrainingProgress("harbour", 10, console=shown):
        pass
    assert not [word for word in ("nan", "loss", "F1", "best") if word in stream.getvalue()]


def test_a_resumed_training_does_not_call_a_worse_epoch_its_best() -> None:
    shown, stream = console()
    with TrainingProgress("harbour", 10, console=shown) as progress:
        progress.on_step(5, step=1, steps=1, loss=2.0)
        progress.on_epoch(Figures(5, 2.0, 0.4, best=False))
    assert "F1 0.400" in lines(stream)[0]
    assert "best" not in lines(stream)[0]


def test_a_name_is_not_markup() -> None:
    shown, stream = console()
    with TrainingProgress("[bold]run", 1, console=shown):
        pass
    assert lines(stream)[0].startswith("[bold]run ")


def test_the_cursor_is_restored_after_a_failure() -> None:
    shown, stream = console(terminal=True)
    with pytest.raises(Stop), TrainingProgress("harbour", 1, console=shown) as progress:
        progress.on_step(1, step=1, steps=2, loss=1.0)
        raise Stop
    hide, show = "\x1b[?25l", "\x1b[?25h"
    assert stream.getvalue().count(hide) == stream.getvalue().count(show) == 1
    assert stream.getvalue().rindex(show) > stream.getvalue().rindex(hide)


def test_it_writes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with TrainingProgress("harbour", 1) as progress:
        progress.on_step(1, step=1, steps=1, loss=1.0)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "harbour" in captured.err


SITES = ("harbour", "hillside")


@dataclass(frozen=True)
class Bytes:
    up: int = 2_000_000
    down: int = 3_500_000


@dataclass(frozen=True)
class Absent:
    site: str
    code: str


@dataclass(frozen=True)
class RoundFigures:
    number: int
    loss: float = 1.25
    figures: Mapping[str, float] = field(default_factory=dict)
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
    monkeypatch.setattr(progress_module, "time", clock)
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
    Console(file=stream, width=120, color_system=None).print(progress._render())
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def test_one_line_per_scoring_without_a_terminal(clock: Clock) -> None:
    progress, stream = shown()
    with progress:
        progress.on_start(0)
        for number in (1, 2):
            clock.now += 3
            progress.on_round(RoundFigures(number))
        progress.on_scores(2, {"harbour": 0.5, "hillside": 0.25})
        progress.on_round(RoundFigures(3))
    # Two of ten rounds took six seconds: eight more take 24. Two rounds of 2 and 3.5 MB.
    head = "tiny  round 2/10  loss 1.250  up 4.0 MB  down 7.0 MB  left 0:24"
    assert stream.getvalue() == f"{head}  F1 harbour 0.500  hillside 0.250\n"


def test_under_differential_privacy_the_spent_epsilon_stands_where_the_loss_would(clock: Clock) -> None:
    progress, stream = shown(sites=["harbour"])
    with progress:
        progress.on_start(0)
        clock.now += 3
        progress.on_round(RoundFigures(1, loss=float("nan"), figures={"epsilon": 1.234}))
        progress.on_scores(1, {"harbour": 0.5})
    assert "  ε 1.23  up" in stream.getvalue() and "nan" not in stream.getvalue()


def test_a_long_line_is_not_broken(clock: Clock) -> None:
    progress, stream = shown(sites=[])
    progress.on_scores(1, {f"hospital-number-{number}": 0.5 for number in range(40)})
    assert stream.getvalue().count("\n") == 1
    assert "hospital-number-11 0.500" in stream.getvalue()
    assert "hospital-number-12" not in stream.getvalue()


def test_the_name_of_a_study_is_not_markup() -> None:
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
        progress.on_round(RoundFigures(done))
    assert drawn(progress)[0].endswith(f"left {left}")


def test_a_study_that_goes_on_counts_only_its_own_rounds(clock: Clock) -> None:
    progress, stream = shown()
    clock.now += 1000
    progress.on_start(6)
    assert stream.getvalue() == "tiny resumes at round 7\n"
    assert drawn(progress)[0].startswith("tiny  round 6/10")
    assert drawn(progress)[0].endswith("left –")
    clock.now += 20
    progress.on_round(RoundFigures(8))
    # Two rounds took twenty seconds; two are left.
    assert drawn(progress)[0].endswith("left 0:20")


def test_one_row_per_site() -> None:
    progress, _ = shown()
    progress.on_round(RoundFigures(1))
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


def test_absent_sites_are_shown_with_the_code_until_the_next_round() -> None:
    progress, _ = shown()
    progress.on_round(RoundFigures(1, absent=[Absent("hillside", "ValueError")]))
    assert [line.split() for line in drawn(progress)[2:]] == [
        ["harbour", "–", "–"],
        ["hillside", "–", "–", "ValueError"],
    ]
    progress.on_round(RoundFigures(2))
    assert "ValueError" not in "\n".join(drawn(progress))


def test_of_many_sites_the_lowest_scores_are_shown() -> None:
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
        progress.on_round(RoundFigures(1))
        progress.on_scores(1, {"harbour": 0.5, "hillside": 0.25})
        progress.on_event("round 2 is tried again")
    said = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    assert "round 2 is tried again" in said
    assert re.search(r"site +F1 +best", said)
    assert re.search(r"harbour +0\.500 +0\.500", said)
    assert "F1 harbour" not in said


def test_the_cursor_is_restored_after_a_failure_of_a_study() -> None:
    progress, stream = shown(terminal=True)
    with pytest.raises(Stop), progress:
        progress.on_round(RoundFigures(1))
        raise Stop
    hide, show = "\x1b[?25l", "\x1b[?25h"
    assert stream.getvalue().count(hide) == stream.getvalue().count(show) == 1
    assert stream.getvalue().rindex(show) > stream.getvalue().rindex(hide)


def test_a_study_writes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with StudyProgress("tiny", SITES, 2) as progress:
        progress.on_scores(1, {"harbour": 0.5})
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "harbour 0.500" in captured.err


# In a notebook.


class Handle:
    """A display of a notebook that records what it shows."""

    def __init__(self, page: str) -> None:
        self.pages = [page]

    def update(self, page: str) -> None:
        self.pages.append(page)


class Notebook:
    """Stands for `IPython.display`."""

    def __init__(self) -> None:
        self.handles: list[Handle] = []

    def HTML(self, page: str) -> str:
        return page

    def display(self, page: str, *, display_id: bool) -> Handle:
        assert display_id
        self.handles.append(Handle(page))
        return self.handles[-1]


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Notebook:
    shown = Notebook()
    monkeypatch.setattr(progress_module, "import_module", lambda name: shown)
    return shown


def test_a_training_in_a_notebook_is_one_output_that_changes_in_place(notebook: Notebook) -> None:
    stream = io.StringIO()
    with TrainingProgress("<harbour>", 2, console=Console(file=stream, force_jupyter=True)) as progress:
        for step in range(1, 101):
            progress.on_step(1, step=step, steps=100, loss=9.0)
        progress.on_epoch(Figures(1, 1.5, 0.5, True))
    (handle,) = notebook.handles
    assert handle.pages[-1].startswith("<pre")
    assert "&lt;harbour&gt;" in handle.pages[-1]
    assert "loss 1.500  F1 0.500  best 0.500" in re.sub("<[^>]*>", "", handle.pages[-1])
    assert len(handle.pages) < 50, "not more often than a reader can follow"
    assert stream.getvalue() == ""


def test_a_study_in_a_notebook_is_one_output_with_the_sites(notebook: Notebook) -> None:
    with StudyProgress("two wards", ["harbour", "hillside"], 3, console=Console(force_jupyter=True)) as progress:
        progress.on_start(0)
        progress.on_scores(1, {"harbour": 0.25, "hillside": 0.5})
    (handle,) = notebook.handles
    shown = re.sub("<[^>]*>", "", handle.pages[-1])
    assert "two wards  round 0/3" in shown
    assert re.search(r"harbour +0\.250 +0\.250", shown)


def test_the_last_state_stays_after_an_error(notebook: Notebook) -> None:
    with (
        pytest.raises(Stop),
        TrainingProgress("harbour", 2, console=Console(force_jupyter=True)) as progress,
    ):
        progress.on_step(2, step=3, steps=4, loss=2.0)
        raise Stop
    assert "7/8" in re.sub("<[^>]*>", "", notebook.handles[0].pages[-1])
