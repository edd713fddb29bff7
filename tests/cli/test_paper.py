from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Run
from wardround.cli import paper as paper_command

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Record the calls of the papers' modules instead of making them: the pages of the checkout stay as they are."""
    papers, reproduce = paper_command._import_papers()
    found: list[tuple[Any, ...]] = []
    monkeypatch.setattr(reproduce, "rebuild", lambda paper: found.append(("rebuild", paper.name)))
    monkeypatch.setattr(
        reproduce,
        "measure_again",
        lambda paper, item, request: found.append(("measure", paper.name, item.name, request)),
    )
    monkeypatch.setattr(reproduce, "add", lambda paper, results: found.append(("add", paper.name, results)))
    monkeypatch.setattr(papers, "main", lambda: found.append(("overview",)))
    return found


def test_all_papers_and_their_tables(run: Run, calls: list[tuple[Any, ...]]) -> None:
    ran = run("paper")
    assert ran.code == 0
    assert [line for line in ran.out.splitlines() if not line.startswith(" ")] == [
        "fedner: FedNER (Ge 2020)",
        "tagsets: Heterogeneous tag sets (Wang 2023)",
        "fedhe: FedHE (Pontes)",
        "feded: FedED (Sui 2020)",
        "transfer: Transfer learning for NER (Lee 2017)",
        "private_learning: Private learning",
    ]
    assert "  table2      Table 2: networks                             measured, 3 seeds\n" in ran.out
    assert calls == []


def test_a_table_is_made_again_and_printed(run: Run, calls: list[tuple[Any, ...]]) -> None:
    ran = run("paper", "fedner", "table2")
    assert (ran.code, calls) == (0, [("rebuild", "fedner")])
    page = (ROOT / "papers" / "fedner" / "README.md").read_text(encoding="utf-8")
    rows = [line for line in ran.out.splitlines() if line.startswith("| FedNER |")]
    assert len(rows) == 2 and all(row in page for row in rows), "measured, and published"
    assert ran.out.endswith(f"page    {ROOT / 'papers' / 'fedner' / 'README.md'}\n")


def test_one_paper_alone(run: Run, calls: list[tuple[Any, ...]]) -> None:
    ran = run("paper", "fedhe")
    assert (ran.code, calls) == (0, [("rebuild", "fedhe")])
    assert ran.out.startswith("fedhe: FedHE (Pontes)\n  table1 ")


def test_the_overview(run: Run, calls: list[tuple[Any, ...]]) -> None:
    ran = run("paper", "overview")
    assert (ran.code, calls) == (0, [("overview",)])
    assert ran.out == f"page    {ROOT / 'papers' / 'README.md'}\n"


def test_the_options_are_passed_to_the_measurement(
    run: Run, calls: list[tuple[Any, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    more = ("--measure", "--data", "corpora", "--processes", "4", "--device", "cpu", "--minutes", "5")
    assert run("paper", "feded", "table8", *more, "--seeds", "1,2", "--dry-run").code == 0
    ((done, name, item, request),) = calls
    assert (done, name, item) == ("measure", "feded", "table8")
    assert (request.sites, request.out) == (tmp_path / "runs/feded/sites", tmp_path / "runs/feded/work")
    assert (request.data, request.processes, request.device) == (tmp_path / "corpora", 4, "cpu")
    assert (request.minutes, request.seeds, request.dry_run) == (5.0, "1,2", True)


def test_results_from_elsewhere(run: Run, calls: list[tuple[Any, ...]]) -> None:
    assert run("paper", "fedhe", "--add", "one.json", "--add", "two.json").code == 0
    assert calls == [("add", "fedhe", [Path("one.json"), Path("two.json")])]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["fedner", "table2", "--measure", "--add", "one.json"],
            "--measure makes runs and --add adds existing ones: give",
        ),
        (
            ["fedmer"],
            "'fedmer' is no paper – did you mean 'fedner'?; there are fedner, tagsets, fedhe,",
        ),
        (["fedner", "tabel2"], "'tabel2' is no table or figure of fedner – did you mean 'table2'?; there are table1,"),
        (["fedner", "--measure"], "'' is no table or figure of fedner; there are table1,"),
    ],
)
def test_unknown_names_are_refused(run: Run, calls: list[tuple[Any, ...]], words: list[str], said: str) -> None:
    ran = run("paper", *words)
    assert (ran.code, calls) == (2, [])
    assert ran.err.startswith(f"wardround: {said}")


def test_without_a_checkout_the_command_is_refused(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper_command, "_CHECKOUT", tmp_path)
    ran = run("paper")
    assert ran.code == 2
    assert ran.err.startswith("wardround: the papers are not part of an installed wardround: run this in a checkout")
