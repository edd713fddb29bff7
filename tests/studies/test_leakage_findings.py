from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.privacy.audit.attacked import study_of
from tests.reports.pages import assert_self_contained

from wardround.errors import UsageError
from wardround.studies.leakage_findings import BOTH, COORDINATOR, OTHER_SITE, Finding, LeakageFindings, findings_from
from wardround.studies.leakage_page import LEAKAGE, read_findings, section_of, write_findings
from wardround.studies.run_folder import RunFolder

STUDY = study_of("sealed")
ROWS = Finding(OTHER_SITE, "sum less its own", "changed rows", 1, 2, 32, 500, 240, 0.75, 0.9, 0.01)
SPAN = Finding(BOTH, "one update", "span test", 2, 1, 16, 250, 160, 0.25, 0.5, 0.02, whole=3)
FINDINGS = replace(LeakageFindings.of(STUDY, own_notes=True), findings=(ROWS, SPAN), unit="word pieces")


def test_the_worst_finding_is_said_in_a_sentence() -> None:
    assert FINDINGS.recall == 0.75
    assert FINDINGS.whole == 3
    assert FINDINGS.sentence == (
        "From the sum of 2 sites' updates, made of 32 sentences, another site could name 75% of the 240 different word "
        "pieces (90% of its names were right), and an attack recovered 3 sentences word for word; a random guess names "
        "1%. This is the best of the attacks that were run; others may find more."
    )


def test_a_study_passes_below_the_limit_and_without_whole_sentences() -> None:
    assert not FINDINGS.passes()
    only_rows = replace(FINDINGS, findings=(ROWS,))
    assert not only_rows.passes(0.7)
    assert only_rows.passes(0.75)
    assert not FINDINGS.passes(0.75)  # whole sentences
    assert replace(FINDINGS, findings=()).passes(0.0)
    assert not replace(FINDINGS, not_attacked="Unknown").passes()


def test_the_table_has_the_best_round_of_each_attack() -> None:
    better = replace(ROWS, round=2, recall=0.8)
    table = replace(FINDINGS, findings=(ROWS, better, SPAN)).table
    assert table.rows == (
        ("another site", "sum less its own, 2 sites", "changed rows", 240, "0.80", "0.90", "0.01", "–"),
        ("both together", "one update", "span test", 160, "0.25", "0.50", "0.02", "3 of 16"),
        ("coordinator", "ciphertexts", "–", "–", "–", "–", "–", "–"),
    )


def test_lengths_that_were_read_are_noted() -> None:
    assert FINDINGS.table.note == ""
    assert "another site" in replace(FINDINGS, findings=(replace(ROWS, length_found=True),)).table.note


def test_who_reads_nothing_follows_from_the_mechanism() -> None:
    unseeing = {name: LeakageFindings.of(study_of(name), own_notes=False).unseeing for name in ("plain", "masked")}
    assert unseeing == {"plain": (), "masked": ()}
    assert LeakageFindings.of(STUDY, own_notes=False).unseeing == (COORDINATOR,)


def test_findings_survive_the_file_and_belong_to_one_study(tmp_path: Path) -> None:
    assert findings_from(FINDINGS.as_json()) == FINDINGS
    page = write_findings(FINDINGS, RunFolder(tmp_path))
    assert "What updates reveal" in assert_self_contained(page)
    assert read_findings(tmp_path, STUDY) == FINDINGS
    assert read_findings(tmp_path, study_of("plain")) is None
    assert read_findings(tmp_path / "nowhere", STUDY) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"findings": [{}]}', '{"findings": 3}'])
def test_another_file_of_that_name_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / LEAKAGE).write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="was not written by `wardround audit leakage`"):
        read_findings(tmp_path, STUDY)


def test_the_section_says_whose_notes_were_used() -> None:
    assert "from the site's own notes" in section_of(FINDINGS).text
    assert "from built-in notes" in section_of(replace(FINDINGS, own_notes=False)).text
