from __future__ import annotations

import argparse
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.papers.modules import fixture_of

from wardround.evaluation.counts import SpanCounts

ROOT = Path(__file__).resolve().parents[2]
PAPER = ROOT / "papers" / "fedner"
PAGES = (PAPER / "README.md", ROOT / "docs" / "measured.md")


study = fixture_of("fedner.bc5cdr_single_site")


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((PAPER / "bc5cdr_single_site.json").read_text())
    return found


@pytest.mark.parametrize("page", PAGES, ids=["paper", "docs"])
def test_the_table_on_the_page_is_made_from_the_runs(study: ModuleType, rows: list[dict[str, Any]], page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    begin, end = f"<!-- {study.MARKER} -->", f"<!-- /{study.MARKER} -->"
    assert text.count(begin) == text.count(end) == 1
    assert text.split(begin)[1].split(end)[0] == f"\n{study.tabulate(rows)}\n"
    assert page in study.PAGES


def test_every_network_ran_with_every_seed(study: ModuleType, rows: list[dict[str, Any]]) -> None:
    assert [(row["network"], row["seed"]) for row in rows] == [
        (name, seed) for name in study.NETWORKS for seed in study.SEEDS
    ]


def counted(said: dict[str, Any]) -> SpanCounts:
    return SpanCounts(said["tp"], said["fp"], said["fn"])


def test_the_scores_of_each_run_follow_from_its_counts(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        test = row["test"]
        assert (test["scored_on"], test["documents"]) == ("test", 4797)
        for reading in ("strict", "relaxed"):
            said, counts = test[reading], counted(test[reading])
            assert said["f1"] == pytest.approx(counts.f1)
            assert said["interval"][0] < said["f1"] < said["interval"][1]
            parts = [counted(kind[reading]) for kind in test["types"].values()]
            assert sum(parts, SpanCounts()) == counts


def test_a_table_by_hand(study: ModuleType) -> None:
    def run(network: str, strict: float, relaxed: float, dev: float) -> dict[str, Any]:
        return {"network": network, "dev_f1": dev, "test": {"strict": {"f1": strict}, "relaxed": {"f1": relaxed}}}

    table = study.tabulate([run("B", 0.5, 0.6, 0.7), run("A", 0.1, 0.2, 0.3), run("B", 0.7, 0.8, 0.8)])
    assert table.splitlines()[2:] == [
        "| B | **0.6000** | 0.5000, 0.7000 | 0.7000 | 0.7500 |",
        "| A | **0.1000** | 0.1000 | 0.2000 | 0.3000 |",
    ]


def test_only_text_between_the_markers_is_replaced(study: ModuleType) -> None:
    page = "before\n<!-- bc5cdr -->\nold\n<!-- /bc5cdr -->\nafter\n"
    for _ in range(2):
        page = study.fill(page, study.MARKER, "new")
        assert page == "before\n<!-- bc5cdr -->\nnew\n<!-- /bc5cdr -->\nafter\n"
    with pytest.raises(SystemExit, match="the page has no markers <!-- bc5cdr --> and <!-- /bc5cdr -->"):
        study.fill("no markers", study.MARKER, "new")


def test_the_commands_of_the_trainings(study: ModuleType) -> None:
    asked = argparse.Namespace(data=Path("BC5CDR-IOB"), vectors=Path("glove.npz"), encoder="minilm", work=Path("runs"))
    _, words, encoder = (study.command(asked, options, 2, Path("runs/x")) for options in study.NETWORKS.values())
    assert words[1:5] == ["-m", "wardround.cli.main", "train", "BC5CDR-IOB"]
    assert words[-6:] == ["--vectors", "glove.npz", "--seed", "2", "--out", "runs/x"]
    assert encoder[encoder.index("--encoder") + 1] == "minilm"
    assert "--vectors" not in encoder
