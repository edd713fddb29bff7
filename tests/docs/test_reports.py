from __future__ import annotations

from tests.docs.pages import rows, section
from tests.reports.pages import a_score
from tests.reports.run_records import a_run

from wardround.reports.cost_tables import PHASES
from wardround.reports.run_page import run_sections
from wardround.reports.training_page import ErrorCounts

PAGE = "reports.md"


def test_every_section_of_the_page_has_a_line() -> None:
    said = [row["section"] for row in rows(section(PAGE, "## What is on the page")) if "section" in row]
    record = a_run(no_excerpts="None.", errors=ErrorCounts.of(a_score(found=2)))
    shown = [found.heading for found in run_sections(record)]
    assert said == [heading for heading in shown if not heading.startswith("Site ")]


def test_every_phase_has_a_line() -> None:
    said = [row["phase"] for row in rows(section(PAGE, "### Seconds by phase"))]
    assert said == list(PHASES)
