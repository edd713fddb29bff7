from __future__ import annotations

import io

import pytest
from rich.console import Console
from tests.reports.pages import Figures

from wardround.reports.progress import TrainingProgress


class Stop(Exception):
    """Somebody stopped the training."""


def console(*, terminal: bool = False) -> tuple[Console, io.StringIO]:
    stream = io.StringIO()
    return Console(file=stream, force_terminal=terminal, width=120, color_system=None), stream


def lines(stream: io.StringIO) -> list[str]:
    return [line for line in stream.getvalue().splitlines() if line.strip()]


def test_a_training_without_a_terminal_leaves_one_line() -> None:
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


def test_in_a_terminal_the_cursor_comes_back_after_a_failure() -> None:
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
