from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.reports.pages import a_score, assert_self_contained, cells, charts

from wardround.evaluation.significance import Interval
from wardround.reports.sites_page import SiteScores, sites_table, write_sites_page


def a_site(name: str, *, sentences: int, alone: int, pooled: int) -> SiteScores:
    scores = {"single site": a_score(found=alone), "pooled": a_score(found=pooled)}
    intervals = {
        method: Interval(score.strict.micro.f1, score.strict.micro.f1 - 0.1, score.strict.micro.f1 + 0.1)
        for method, score in scores.items()
    }
    return SiteScores(name, f"letters of {name}", ("ADE", "Drug"), sentences, scores, intervals)


# Found of four drugs, beside one wrong and one effect missed: 2 gives F1 4/8, 1 gives 2/7, 4 gives 8/10, 0 gives 0.
SITES = (
    a_site("harbour", sentences=1200, alone=1, pooled=2),
    a_site("<hill>", sentences=30, alone=0, pooled=4),
)


@pytest.fixture
def page(tmp_path: Path) -> str:
    write_sites_page(tmp_path / "report.html", "All of them", "First.\n\nSecond.", SITES)
    return assert_self_contained(tmp_path / "report.html")


def test_one_row_per_site_and_the_mean() -> None:
    table = sites_table(SITES)
    assert table.columns == ("site", "writes", "sentences", "single site", "pooled")
    assert table.rows == (
        ("harbour", "letters of harbour", 1200, pytest.approx(2 / 7), 0.5),
        ("<hill>", "letters of <hill>", 30, 0.0, 0.8),
    )
    assert table.totals == (("mean", "", 1230, pytest.approx(1 / 7), pytest.approx(0.65)),)


def test_the_table_stands_on_the_page(page: str) -> None:
    assert ["letters of harbour", "1,200", "0.286", "0.500"] in cells(page, "harbour")
    assert ["letters of &lt;hill&gt;", "30", "0.000", "0.800"] in cells(page, "&lt;hill&gt;")
    assert cells(page, "mean") == [["", "1,230", "0.143", "0.650"]]


def test_every_site_has_its_scores_by_type(page: str) -> None:
    assert re.findall(r"<h2[^>]*>(.*?)</h2>", page) == [
        "By site",
        "Harbour (letters of harbour)",
        "&lt;hill&gt; (letters of &lt;hill&gt;)",
    ]
    assert [row[2] for row in cells(page, "micro")] == ["0.286", "0.500", "0.000", "0.800"]
    assert (
        "Annotates ADE, Drug in 1,200 training sentences. Strict micro-F1: "
        "single site 0.286 (95% interval 0.186–0.386); pooled 0.500 (95% interval 0.400–0.600)."
    ) in page


def test_prose_and_bars(page: str) -> None:
    assert "<p>First.</p>\n<p>Second.</p>" in page
    (bars,) = charts(page)
    assert bars.startswith("<svg")


def test_the_same_scores_give_the_same_page(page: str, tmp_path: Path) -> None:
    write_sites_page(tmp_path / "again.html", "All of them", "First.\n\nSecond.", SITES)
    assert (tmp_path / "again.html").read_text() == page
