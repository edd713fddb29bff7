from __future__ import annotations

from pathlib import Path

import pytest

import wardround
from wardround.errors import UsageError


def test_an_audit_has_findings_tables_and_a_page(here: Path) -> None:
    found = wardround.audit.leakage("study.toml", rounds=1)
    assert {finding.attack for finding in found.findings} == {"changed rows", "span test", "crafted layer"}
    assert found.recall == max(finding.recall for finding in found.findings)
    assert found.tables[0].columns[0] == "who"
    assert found.sentence in repr(found)
    assert found.write(here / "out").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert found.passes(1.0)


def test_a_study_and_notes_in_memory(here: Path) -> None:
    study = wardround.Study.from_file("study.toml")
    own = wardround.audit.leakage(study, data=wardround.read("notes/train", "brat"), rounds=1)
    read = wardround.audit.leakage(study, data="notes", format="brat", rounds=1)
    assert own.findings == read.findings


def test_a_path_needs_a_format(here: Path) -> None:
    with pytest.raises(UsageError, match="notes needs a format"):
        wardround.audit.leakage("study.toml", data="notes")
