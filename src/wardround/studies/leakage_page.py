"""The findings of a leakage audit as a section of a page, and as files in the folder of a run or of a site."""

from __future__ import annotations

from pathlib import Path

from wardround.errors import UsageError
from wardround.parsing import read_json
from wardround.reports.page import Section, write_page
from wardround.studies.leakage_findings import LeakageFindings, findings_from
from wardround.studies.run_folder import RunFolder
from wardround.studies.study_file import Study, digest_of

__all__ = ["LEAKAGE", "read_findings", "section_of", "write_findings"]

LEAKAGE = "leakage.json"


def section_of(findings: LeakageFindings) -> Section:
    """Return the section of a page."""
    notes = "the site's own notes" if findings.own_notes else "built-in notes"
    text = (
        f"{findings.sentence}\n\nReal updates of this study were made from {notes} and attacked as each reader could "
        "attack them. Recall is the share of the different words (or word pieces) that an attack named, with at least "
        "half of its names right; chance is what random names reach under the same rule; whole are sentences recovered "
        "word for word."
    )
    return Section("What updates reveal", text, (findings.table,) if findings.findings or findings.unseeing else ())


def write_findings(findings: LeakageFindings, folder: RunFolder) -> Path:
    """Write the findings as JSON and as a page into a folder, where the report of a run finds them; return the page."""
    folder.write_json(LEAKAGE, findings.as_json())
    page = folder.path / "leakage.html"
    write_page(page, f"Leakage audit of {findings.study}", [section_of(findings)])
    return page


def read_findings(folder: Path, study: Study) -> LeakageFindings | None:
    """Return the findings in a folder, if they are about this study."""
    path = folder / LEAKAGE
    if not path.is_file():
        return None
    try:
        found = findings_from(read_json(path))
        section_of(found)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise UsageError(f"{LEAKAGE} was not written by `wardround audit leakage`; run it again") from None
    return found if found.digest == digest_of(study) else None
