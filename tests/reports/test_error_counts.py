from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.reports.pages import a_score

from wardround.errors import UsageError
from wardround.reports.error_counts import ERROR_COUNTS, ErrorCounts, errors_section, read_error_counts

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
def test_what_is_damaged_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / ERROR_COUNTS).write_text(text)
    with pytest.raises(UsageError, match=rf"^error-counts.json of {tmp_path.name} is damaged"):
        read_error_counts(tmp_path)


def test_the_section_has_its_chart_as_a_file_too() -> None:
    section = errors_section(ERRORS)
    assert [table.title for table in section.tables] == ["Confused types", "Entities, MUC categories"]
    assert [(drawing.name, drawing.plot is not None) for drawing in section.drawings] == [("confusion", True)]
