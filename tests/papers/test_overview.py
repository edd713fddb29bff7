from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.papers.modules import fixture_of, measured_of
from tests.papers.test_tagsets_summarise import GAINS, SITES
from tests.papers.test_transfer_summarise import POINTS

PAPERS = Path(__file__).resolve().parents[2] / "papers"
WANTED = {
    "fedner": {"table2", "figure3", "figure4", "figure5", "figure6"},
    "tagsets": {"table1", "table2", "figure3"},
    "fedhe": {"table2", "table3", "table4", "figure1"},
    "feded": {"table3", "table4", "table6", "table7", "table8", "figure2"},
    "transfer": {"figure2", "figure3"},
    "private_learning": {"curve"},
}
overview, common, sweeps = fixture_of("overview"), fixture_of("common.paper"), fixture_of("common.sweep")
tagsets, transfer = fixture_of("tagsets.paper"), fixture_of("transfer.paper")


def items(overview: ModuleType) -> Iterator[tuple[Any, Any]]:
    for paper in overview.PAPERS.values():
        for item in paper.items:
            yield paper, item


def result(overview: ModuleType, name: str, item: str, expected: dict[str, Any]) -> Any:
    paper = overview.PAPERS[name]
    return paper.result(paper.item(item), expected)


def anchors(page: str) -> set[str]:
    """As GitHub makes them of headings."""
    heads = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


def test_every_paper_and_everything_that_can_be_measured_in_it(overview: ModuleType) -> None:
    for name, wanted in WANTED.items():
        measurable = {item.name for item in overview.PAPERS[name].items if item.way is not None}
        assert wanted <= measurable, name
    assert overview.PAPERS.keys() == WANTED.keys()


def test_each_item_has_its_place_on_the_page(overview: ModuleType) -> None:
    for paper, item in items(overview):
        page = (paper.folder / "README.md").read_text(encoding="utf-8")
        assert not item.anchor or item.anchor in anchors(page), (paper.name, item.name)
        for marker in item.markers:
            assert f"<!-- {marker} -->" in page and f"<!-- /{marker} -->" in page, (paper.name, marker)


def test_what_is_to_be_measured_is_known_to_the_paper(overview: ModuleType, sweeps: ModuleType) -> None:
    for paper, item in items(overview):
        if item.way is not None and not item.way.module:
            known = paper.sweep.variations
            assert item.way.only and set(item.way.only) <= {*sweeps.tables_of(known), *known}


def test_without_a_summary_every_row_is_not_measured(overview: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "expected_of", lambda paper: {})
    rows = overview.overview().splitlines()[2:]
    assert len(rows) == sum(1 for _ in items(overview))
    for row, (_, item) in zip(rows, items(overview), strict=True):
        cells = row.strip("| ").split(" | ")
        assert len(cells) == 7, row
        assert cells[4] == ("not measured" if item.data else "–"), row


def test_a_summary_without_runs_is_none(overview: ModuleType) -> None:
    for paper, item in items(overview):
        assert paper.result(item, {"settings": {}, "sites": {}, "devices": [], "studies": {}}).measured == ""


def counts(f1: int) -> list[int]:
    """Right, wrong and missed, with an F1 of so many percent."""
    return [f1, 100 - f1, 100 - f1]


def fedner_study(*f1: int) -> dict[str, Any]:
    sites = {"ade": {"strict": [counts(score) for score in f1]}, "biored": {"strict": [counts(50) for _ in f1]}}
    return {"seed": list(range(len(f1))), "sites": sites}


def test_figures_and_sentences_come_from_the_summary(overview: ModuleType) -> None:
    studies = {
        "single-elmoner": fedner_study(60, 62),  # with the other site's 50 in the mean 55.5
        "fedner": fedner_study(70, 70, 70),  # 60
        "single-ratio-0.25": fedner_study(50, 50),  # 50
        "fedner-ratio-0.25": fedner_study(54, 54),  # 52
    }
    paper = overview.PAPERS["fedner"]
    table2 = paper.result(paper.item("table2"), {"studies": studies})
    assert table2.measured == "strict F1: ELMoNER alone 55.5, FedNER 60.0"
    assert (table2.seeds, table2.shows) == ([2, 3], "FedNER is above each of the 1 networks that a site trains alone.")
    figure3 = paper.result(paper.item("figure3"), {"studies": studies})
    assert figure3.measured == "FedNER over a site alone, points: 25% +2.0, 100% +4.5"
    assert figure3.shows.startswith("The gain grows with the sentences;")


def test_sizes_from_the_overheads(overview: ModuleType) -> None:
    ways = {"bfv": {"bytes": 8_000_000}, "bfv-compact": {"bytes": 1}, "ckks": {"bytes": 80_000_000}}
    networks = {"bert-tiny": {"parameters": 1_000_000, "ways": ways}}
    found = result(overview, "fedhe", "table2", {"overheads": {"networks": networks}})
    assert found.measured == "BERT-tiny 4.0 MB, sealed BFV 8.0 MB, CKKS 80.0 MB"
    assert found.shows == "A sealed update is with BFV 2.00 times, with CKKS 20.00 times as large as a plain one."


def test_tag_sets_by_hand(overview: ModuleType, tagsets: ModuleType) -> None:
    """At a site that annotates one of three types, micro-F1 is a third of it and two of the others'; and so on."""
    found = result(overview, "tagsets", "table1", measured_of(tagsets, GAINS, sites=SITES).expected)
    scores = "the paper's method 52.0, without weights 51.4, labels as they are 40.4, FedAvg 40.0"
    assert found.measured == f"mean F1, LoRA: {scores}, all notes in one place 60.0"
    assert found.seeds == [5] * 5
    assert found.shows.endswith("the paper's method is +24.0 from FedAvg.")
    assert result(overview, "tagsets", "table2", {"sites": SITES, "studies": {}}).measured == ""


def test_transfer_by_hand(overview: ModuleType, transfer: ModuleType) -> None:
    expected = measured_of(transfer, POINTS).expected
    figure2, figure3 = (result(overview, "transfer", name, expected) for name in ("figure2", "figure3"))
    assert figure2.measured.endswith("synthetic hospitals 5%: +20.0, 10%: +0.0, 20%: +10.0, 100%: -0.4")
    assert (figure2.seeds, figure2.shows) == ([5] * 4, "Transfer has more F1 at 2 of 4 sizes.")
    layers = "none 44.0, token LSTM 60.0, sequence optimisation: all 64.0"
    assert figure3.measured == f"F1 up to each layer, synthetic hospitals, 5%: {layers}"
    assert (figure3.seeds, figure3.shows) == ([5, 3, 5], "Best, synthetic hospitals: sequence optimisation: all.")


def test_races_by_hand(overview: ModuleType) -> None:
    rounds = {"race-fedavg-b2-e1": [9, 7, 8], "race-feded-3-b2-e1": [2, 4, 3]}
    ended = {"seed": [0, 1, 2], "cut_off": [False] * 3}
    studies = {name: {**ended, "reached": found, "rounds": found} for name, found in rounds.items()}
    found = result(overview, "feded", "table8", {"settings": {"gad_rounds": 20}, "studies": studies})
    assert found.measured == "rounds to the target, median: B = 2, E = 1: FedAvg 8 [7, 9], FedED-3 3 [2, 4]"
    assert (found.seeds, found.shows) == ([3, 3], "FedED-3 needs fewer rounds than FedAvg in 1 of 1 settings.")


def test_joint_extraction_by_hand(overview: ModuleType) -> None:
    joint = {"ade": {"single": {"relations": {"0": counts(50), "1": counts(60)}}, "fedavg": {"relations": {}}}}
    found = result(overview, "feded", "joint", {"joint": joint})
    assert (found.measured, found.seeds) == ("strict F1 of relations, ADE: each site alone 55.0", [2])


def test_how_many_seeds(overview: ModuleType, common: ModuleType) -> None:
    paper, item = overview.PAPERS["fedner"], overview.PAPERS["fedner"].item("table2")
    for seeds, said in (([3, 3], "79 (3 seeds)"), ([1], "79 (1 seed)"), ([2, 5], "79 (2 to 5 seeds)"), ([], "79")):
        assert overview._measured(item, common.Found("79", seeds)) == said
    assert paper.item("none") is None


def test_the_page_is_the_one_that_the_summaries_give(overview: ModuleType) -> None:
    page = (PAPERS / "README.md").read_text(encoding="utf-8")
    for line in overview.overview().splitlines():
        assert line in page, f"run `wardround paper overview`: {line[:90]}"
    assert overview.fill(page, "overview", overview.overview()) == page


def test_the_summaries_are_plain_json(overview: ModuleType) -> None:
    for paper in overview.PAPERS.values():
        path = paper.folder / "expected.json"
        if path.is_file():
            assert isinstance(json.loads(path.read_text(encoding="utf-8")), dict)
