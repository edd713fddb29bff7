from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.reports.pages import Figures, a_score, assert_self_contained, cells, charts

from wardround.errors import UsageError
from wardround.evaluation.counts import SpanCounts, TypedCounts
from wardround.evaluation.significance import Interval
from wardround.reports.score_tables import main_note, score_table, score_tables
from wardround.reports.training_page import (
    ERROR_COUNTS,
    ErrorCounts,
    errors_section,
    read_error_counts,
    write_training_page,
)

EPOCHS = [Figures(1, 2.5, 0.25, True), Figures(2, 1.5, 0.5, True), Figures(3, 1.25, 0.5, False)]
SETTINGS = {"lstm": 200, "shared": ("words", "<b>"), "learning_rate": 0.001}


@pytest.fixture
def page(tmp_path: Path) -> str:
    path = tmp_path / "run" / "report.html"
    score = a_score(found=2)
    write_training_page(
        path,
        "fedner on <ward>",
        scores=(score_table(score, micro_f1=Interval(0.5, 0.4, 0.6)),),
        errors=ErrorCounts.of(score),
        mode="strict",
        epochs=EPOCHS,
        settings=SETTINGS,
    )
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]
    return assert_self_contained(path)


def test_the_parts_of_the_page(page: str) -> None:
    assert re.findall(r"<h2[^>]*>(.*?)</h2>", page) == ["Scores", "Training", "Errors", "Made with"]
    assert "<h1>fedner on &lt;ward&gt;</h1>" in page


def test_the_numbers_are_those_of_the_score(page: str) -> None:
    # Drug: 2 of 4 found and one wrong. ADE: never found. All: 2 right, 1 wrong, 3 missed, so F1 is 4 / 8.
    drug = ["0.667", "0.500", "0.571"]
    assert [*drug, *drug, "4"] in cells(page, "Drug")
    assert [*["0.000"] * 6, "1"] in cells(page, "ADE")
    assert cells(page, "micro") == [["0.667", "0.400", "0.500"] * 2 + ["5"]]
    assert "Strict micro-F1 0.500 (95% interval 0.400–0.600); documents: 1." in page


def test_confused_types_and_muc_categories_are_shown(page: str) -> None:
    # Gold down, predicted across: ADE, Drug, missed.
    assert ["0", "1", "0"] in cells(page, "ADE")
    assert ["0", "2", "2"] in cells(page, "Drug")
    # Correct, incorrect, partial, missed, spurious.
    strict = next(row for row in cells(page, "all types") if row[0] == "strict")
    assert strict[1:6] == ["2", "1", "0", "2", "0"]


def test_curves_and_confusion_map_have_text_alternatives(page: str) -> None:
    assert len(charts(page)) == 3
    assert re.findall(r'<img [^>]*alt="([^"]*)"', page) == [
        "Strict micro-F1 on the development notes after each epoch.",
        "Mean loss per training example in each epoch.",
        "Rows: gold types; columns: predicted types.",
    ]


def test_the_settings(page: str) -> None:
    assert cells(page, "lstm") == [["200"]]
    assert cells(page, "shared") == [["(&#x27;words&#x27;, &#x27;&lt;b&gt;&#x27;)"]]
    assert cells(page, "learning_rate") == [["0.001"]]


def test_a_training_of_relations_has_no_confusion_map(tmp_path: Path) -> None:
    counts = {"relations": TypedCounts({"causes": SpanCounts(1, 1, 2)})}
    tables = score_tables(counts, title="tiny on ward", note=main_note("relations", Interval(0.4, 0.3, 0.5), 7))
    path = tmp_path / "report.html"
    write_training_page(
        path, "tiny on ward", scores=tables, errors=None, mode="relations", epochs=EPOCHS, settings=SETTINGS
    )
    page = assert_self_contained(path)
    assert re.findall(r"<h2[^>]*>(.*?)</h2>", page) == ["Scores", "Training", "Made with"]
    assert cells(page, "causes") == [["0.500", "0.333", "0.400", "2", "3"]]
    assert "Relations micro-F1 0.400 (95% interval 0.300–0.500); documents: 7." in page
    assert re.findall(r'<img [^>]*alt="([^"]*)"', page) == [
        "Relations micro-F1 on the development notes after each epoch.",
        "Mean loss per training example in each epoch.",
    ]


ERRORS = ErrorCounts.of(a_score(found=2))


def test_as_values() -> None:
    # Of four drugs two are found and two missed; the one effect is taken for a drug.
    assert ERRORS.as_json()["confusion"] == [["Drug", "Drug", 2], ["ADE", "Drug", 1], ["Drug", None, 2]]
    # Correct, incorrect, partial, missed, spurious.
    assert ERRORS.as_json()["muc"]["all"]["strict"] == [2, 1, 0, 2, 0]
    assert ERRORS.as_json()["muc"]["types"]["ADE"]["exact"] == [0, 0, 0, 1, 0]


def test_read_again(tmp_path: Path) -> None:
    assert read_error_counts(tmp_path) is None
    (tmp_path / ERROR_COUNTS).write_text(json.dumps(ERRORS.as_json()))
    assert read_error_counts(tmp_path) == ERRORS


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"confusion": [["a", "b"]], "muc": {}}', '{"confusion": [], "muc": 1}']
)
def test_damaged_error_counts_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / ERROR_COUNTS).write_text(text)
    with pytest.raises(UsageError, match=rf"^error-counts.json of {tmp_path.name} is damaged"):
        read_error_counts(tmp_path)


def test_the_chart_of_the_section_is_also_a_file() -> None:
    section = errors_section(ERRORS)
    assert [table.title for table in section.tables] == ["Confused types", "Entities, MUC categories"]
    assert [(chart.name, chart.plot is not None) for chart in section.charts] == [("confusion", True)]
