"""docs/console.md against the command, the list of events and the files."""

from __future__ import annotations

import inspect

import pytest
from tests.docs.pages import codes, plain_commands, rows, section, text_of

from wardround.cli import console
from wardround.console.access import Access
from wardround.tracking.feeding import TRACKERS

PAGE = "console.md"


def test_every_option_has_a_row() -> None:
    named = [code for row in rows(section(PAGE, "## Start")) for code in codes(row["option"])]
    parameters = inspect.signature(console.command).parameters
    options = {"--" + name.replace("_", "-") for name in parameters if name != "folder"}
    assert set(named) == options
    assert f"{Access.port} unless you say otherwise" in section(PAGE, "## Start")
    assert f"`{Access.host}` unless you say otherwise" in section(PAGE, "## Start")


def test_commands_are_as_they_would_be_given() -> None:
    assert plain_commands(PAGE) == [
        "wardround console runs",
        "wardround console kit --site",
        "wardround console runs --host 0.0.0.0 --certificate chain.pem --key key.pem",
        "wardround run study.toml --out runs/study --track tensorboard,mlflow",
    ]


@pytest.mark.parametrize("name", TRACKERS)
def test_every_tracker_is_described(name: str) -> None:
    assert name in text_of(PAGE).split("## TensorBoard and MLflow")[1]


def test_the_curves_are_those_that_are_drawn() -> None:
    from wardround.tracking.tracker import points_of

    numbers = ("loss", "seconds", "up", "down", "answered", "clipped")
    event = {"event": "round", "round": 1, "absent": [], **dict.fromkeys(numbers, 1)}
    points = points_of(event)
    assert points is not None
    first = next(rows(section(PAGE, "## TensorBoard and MLflow")))
    assert set(codes(first["curve"])) == set(points.values)
