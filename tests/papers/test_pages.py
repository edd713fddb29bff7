from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest
from tests.papers.modules import fixture_of

PAPERS = Path(__file__).resolve().parents[2] / "papers"
NAMES = ("fedner", "tagsets", "fedhe", "feded", "transfer", "private_learning")
EVERY_PAPER = pytest.mark.parametrize("name", NAMES)
common, summarise, joint = fixture_of("common.paper"), fixture_of("summarise"), fixture_of("feded.joint")


@EVERY_PAPER
def test_a_page_is_made_from_the_committed_summary(common: ModuleType, summarise: ModuleType, name: str) -> None:
    paper = common.load(name)
    page = (PAPERS / name / "README.md").read_text(encoding="utf-8")
    assert summarise.filled(paper, page, common.expected_of(paper)) == page, f"run `wardround paper {name}`"


@EVERY_PAPER
def test_plots_are_made_from_the_committed_summary(common: ModuleType, name: str) -> None:
    paper = common.load(name)
    plots = paper.plots(paper.measured(common.expected_of(paper)))
    assert set(plots) == {path.stem for path in (PAPERS / name).glob("*.svg")}
    for stem, plot in plots.items():
        committed = (PAPERS / name / f"{stem}.svg").read_text(encoding="utf-8")
        assert plot.to_svg() + "\n" == committed, f"run `wardround paper {name}`: {stem}"


@EVERY_PAPER
def test_every_table_of_the_overview_is_declared(common: ModuleType, name: str) -> None:
    paper = common.load(name)
    assert paper.found.keys() <= {item.name for item in paper.items}


def test_the_joint_table_is_made_from_the_committed_counts(joint: ModuleType) -> None:
    page = (PAPERS / "feded" / "README.md").read_text(encoding="utf-8")
    kept = json.loads((PAPERS / "feded" / "joint.json").read_text(encoding="utf-8"))
    assert joint.fill(page, "joint", joint.joint_table(kept)) == page
