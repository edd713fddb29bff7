from __future__ import annotations

from pathlib import Path

import pytest
from tests.studies.tiny_studies import run, tiny

from wardround.errors import UsageError
from wardround.studies.run_reports import report_runs


def test_a_run_is_reported_in_its_folder_and_compared_elsewhere(tmp_path: Path) -> None:
    for name in ("one", "two"):
        run(tiny(algorithm={"rounds": 2}), tmp_path / name)
    written = report_runs([tmp_path / "one"], examples=0)
    assert written.page == tmp_path / "one" / "report" / "report.html"
    both = [tmp_path / "one", tmp_path / "two"]
    with pytest.raises(UsageError, match=r"^a comparison belongs to no single run"):
        report_runs(both)
    assert "**two minus one**" in report_runs(both, tmp_path / "both").markdown.read_text()
