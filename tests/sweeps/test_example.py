"""The example is whole, and what the page says of the file is true."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from wardround.sweeps.plan import check_plan, plan_runs
from wardround.sweeps.sweep_file import Figure, SweepSection, parse_sweep, read_sweep

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "sweeps" / "hospitals.toml"
PAGE = (ROOT / "docs" / "sweeps.md").read_text(encoding="utf-8")


def test_example_sweep_is_valid() -> None:
    sweep = read_sweep(EXAMPLE)
    runs = plan_runs(sweep)
    check_plan(runs, sweep.figures)
    assert [run.cell.name for run in runs[:4]] == ["two, alone", "two, FedAvg", "three, alone", "three, FedAvg"]
    assert [len(run.study.sites) for run in runs] == [2, 2, 3, 3] * 2


@pytest.mark.parametrize(("number", "runs"), [(1, 36), (2, 63)])
def test_transfer_paper_sweeps_are_valid(number: int, runs: int) -> None:
    sweep = read_sweep(ROOT / "papers" / "transfer" / f"experiment{number}.toml")
    found = plan_runs(sweep)
    assert len(found) == runs
    check_plan([run for run in found if run.study.model.start is None], sweep.figures)  # the others need their source
    assert {run.study.sites["southmere"].fraction for run in found} >= {0.05, 0.2, 0.6}


def test_documented_sweep_file_is_valid() -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    sweep = parse_sweep(text, folder=EXAMPLE.parent)
    assert [run.cell.name for run in plan_runs(sweep)[:3]] == ["two, alone", "three, alone", "three, FedAvg"]


def test_every_setting_is_documented() -> None:
    for section, known in (("[sweep]", SweepSection), ("[report]", Figure)):
        text = PAGE.partition(f"### `{section}`")[2].partition("\n#")[0]
        rows = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
        assert rows == [setting.name for setting in fields(known) if setting.name != "title"]
