from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.papers.modules import fixture_of

from wardround.errors import UsageError

reproduce, common = fixture_of("reproduce"), fixture_of("common.paper")

MAKE = """
import pathlib, sys
folder = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
folder.mkdir(parents=True)
(folder / "made").write_text(sys.argv[sys.argv.index("--data") + 1])
"""
MEASURE = """
import json, pathlib, sys
assert sys.argv[1] == "toy"
words = sys.argv[2:]
value = lambda name: words[words.index(name) + 1]
if "--dry-run" in words:
    sys.exit(0)
path = pathlib.Path(value("--results"))
path.parent.mkdir(parents=True, exist_ok=True)
told = {name: value(f"--{name}") for name in ("only", "processes", "device", "seeds", "set")}
path.write_text(json.dumps(told))
"""
SUMMARISE = """
import json, pathlib, sys
words = sys.argv[2:]
here = pathlib.Path(__file__).parent / sys.argv[1]
value = lambda name, default: pathlib.Path(words[words.index(name) + 1]) if name in words else default
expected, page = value("--expected", here / "expected.json"), value("--readme", here / "README.md")
if words and words[0].endswith("results.json"):
    results = json.loads(pathlib.Path(words[0]).read_text())
    assert "--expected" in words, "the committed one is not written over"
    found = {"settings": SETTINGS, "devices": ["gpu"], "studies": {results["only"]: {"seed": [0, 1], "f1": [1, 2]}}}
    expected.write_text(json.dumps(found))
found = json.loads(expected.read_text())
text = page.read_text().split("<!-- table1 -->")[0]
page.write_text(f"{text}<!-- table1 -->\\n{json.dumps(found['studies'])}\\n<!-- /table1 -->\\n")
"""


@pytest.fixture
def checkout(reproduce: ModuleType, common: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with one paper, whose commands only write down their arguments."""
    folder = tmp_path / "checkout" / "papers" / "toy"
    folder.mkdir(parents=True)
    for name, text in (("toy/make_sites", MAKE), ("measure", MEASURE), ("summarise", SUMMARISE)):
        (folder.parent / f"{name}.py").write_text(text.replace("SETTINGS", '{"rounds": 3}'))
    (folder.parent / "overview.py").write_text("from pathlib import Path; Path('overview').touch()")
    (folder / "README.md").write_text("# Toy\n\n<!-- table1 -->\n<!-- /table1 -->\n")
    committed = {"settings": {"rounds": 3}, "devices": ["cpu"], "studies": {"old": {"seed": [0], "f1": [9]}}}
    (folder / "expected.json").write_text(json.dumps(committed))
    monkeypatch.setattr(common, "ROOT", tmp_path / "checkout")
    monkeypatch.setattr(reproduce, "ROOT", tmp_path / "checkout")
    return folder


@pytest.fixture
def paper(common: ModuleType) -> Any:
    item = {"name": "table1", "title": "Table 1", "markers": ["table1"], "way": {"only": ["mine"]}}
    return common.Paper("toy", declared={"title": "Toy", "items": [item]})


def request(reproduce: ModuleType, tmp_path: Path, **more: Any) -> Any:
    return reproduce.Request(sites=tmp_path / "sites", out=tmp_path / "work", **{"data": tmp_path / "corpora", **more})


def test_the_page_is_made_from_the_committed_summary(reproduce: ModuleType, checkout: Path, paper: Any) -> None:
    reproduce.rebuild(paper)
    assert reproduce.shown(paper, paper.items[0]) == '{"old": {"seed": [0], "f1": [9]}}'
    assert (checkout.parents[1] / "overview").exists()


def test_new_runs_are_merged_with_the_summary(
    reproduce: ModuleType, checkout: Path, paper: Any, tmp_path: Path
) -> None:
    reproduce.measure_again(paper, paper.items[0], request(reproduce, tmp_path, processes=3, device="cpu", seeds="0,1"))
    assert (tmp_path / "sites" / "made").read_text() == str(tmp_path / "corpora")
    told = json.loads((tmp_path / "work" / "results.json").read_text())
    assert told == {"only": "mine", "processes": "3", "device": "cpu", "seeds": "0,1", "set": "rounds=3"}
    known = json.loads((checkout / "expected.json").read_text())
    assert known["studies"] == {"old": {"seed": [0], "f1": [9]}, "mine": {"seed": [0, 1], "f1": [1, 2]}}
    assert known["devices"] == ["cpu", "gpu"]
    assert json.loads(reproduce.shown(paper, paper.items[0])) == known["studies"]


def test_a_dry_run_writes_nothing(reproduce: ModuleType, checkout: Path, paper: Any, tmp_path: Path) -> None:
    before = (checkout / "README.md").read_bytes()
    reproduce.measure_again(paper, paper.items[0], request(reproduce, tmp_path, dry_run=True))
    assert (checkout / "README.md").read_bytes() == before and not (tmp_path / "work").exists()


def test_missing_sites_without_data_are_refused(
    reproduce: ModuleType, checkout: Path, paper: Any, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"^there are no sites in sites: name the folder of the corpora with --data$"):
        reproduce.measure_again(paper, paper.items[0], request(reproduce, tmp_path, data=None))


def test_a_module_that_fails_is_named(reproduce: ModuleType, checkout: Path, paper: Any) -> None:
    (checkout.parent / "summarise.py").write_text("raise SystemExit(3)")
    with pytest.raises(UsageError, match=r"^papers.summarise ended with status 3; its messages are above$"):
        reproduce.rebuild(paper)


def test_runs_from_elsewhere_are_merged_with_the_summary(
    reproduce: ModuleType, checkout: Path, paper: Any, tmp_path: Path
) -> None:
    results = tmp_path / "results.json"
    results.write_text(json.dumps({"only": "old"}))
    reproduce.add(paper, [results])
    known = json.loads((checkout / "expected.json").read_text())
    assert known["studies"] == {"old": {"seed": [0, 1], "f1": [1, 2]}}
    assert json.loads(reproduce.shown(paper, paper.items[0])) == known["studies"]


def test_missing_results_files_are_refused(reproduce: ModuleType, checkout: Path, paper: Any, tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"^there is no file gone.json: results are the files that papers.measure writes$"
    ):
        reproduce.add(paper, [tmp_path / "gone.json"])
    assert json.loads((checkout / "expected.json").read_text())["studies"] == {"old": {"seed": [0], "f1": [9]}}


def test_nothing_to_measure(reproduce: ModuleType, common: ModuleType, paper: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing is measured for figure1 of toy"):
        reproduce.measure_again(paper, common.Item("figure1", "Figure 1"), request(reproduce, tmp_path))


def test_the_text_between_two_markers(reproduce: ModuleType) -> None:
    page = "a <!-- x -->\n| b |\n<!-- /x --> c"
    assert (reproduce.between(page, "x"), reproduce.between(page, "y")) == ("| b |", "")
