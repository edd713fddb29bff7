"""`wardround audit leakage`; the floors of a site at `wardround site review` are in test_site.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.running import Run, write_site
from tests.models.tiny import notes, quick_tagger
from tests.studies.tiny_studies import ONE_TOP, text_of
from wardround.models.saved import save_model

WORDS = {"word_buckets": 8192}  # so many that few words share a row


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(text_of(model=WORDS), encoding="utf-8")
    return path


def test_a_study_that_shares_words_is_a_finding(study: Path, run: Run, tmp_path: Path) -> None:
    ran = run("audit", "leakage", study, "--rounds", "1", "--out", tmp_path / "out")
    assert ran.code == 1
    said = ran.out.splitlines()
    assert any(line.startswith("From one site's update") for line in said)
    assert said[-1] == "Not passed: the limit is a recall of 0.5 and no whole sentence."
    assert "coordinator" in ran.out
    assert "changed rows" in ran.out
    written = json.loads((tmp_path / "out" / "leakage.json").read_text(encoding="utf-8"))
    assert written["mechanism"] == "plain"
    assert (tmp_path / "out" / "leakage.html").is_file()


def test_the_limit_is_an_option(study: Path, run: Run) -> None:
    ran = run("audit", "leakage", study, "--rounds", "1", "--highest-recall", "1", "--json")
    found = json.loads(ran.out)
    assert (ran.code, found["passes"]) == (0, True)
    assert found["recall"] == max(finding["recall"] for finding in found["findings"]) > 0.9


def test_own_notes_leave_figures_only(study: Path, run: Run, tmp_path: Path) -> None:
    ward = write_site(tmp_path / "ward", train=notes(20))
    words = ("--data", ward, "--format", "brat", "--rounds", "1", "--out", tmp_path / "out")
    ran = run("audit", "leakage", study, *words)
    assert ran.code == 1
    page = (tmp_path / "out" / "leakage.html").read_text(encoding="utf-8")
    everything = ran.said + page + (tmp_path / "out" / "leakage.json").read_text(encoding="utf-8")
    assert "the site's own notes" in page.replace("&#x27;", "'")
    assert not any(word in everything for word in ("aspirin", "penicillin", "metformin", "nausea", str(ward)))


def test_notes_need_a_format(study: Path, run: Run, tmp_path: Path) -> None:
    ran = run("audit", "leakage", study, "--data", tmp_path)
    assert (ran.code, ran.err) == (
        2,
        "wardround: name the notes by --data and --format, or leave both out for built-in notes\n",
    )


def test_the_report_of_a_run_shows_the_audit_of_its_study(study: Path, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert run("run", study, "--out", out, "--device", "cpu").code == 0
    assert run("audit", "leakage", study, "--rounds", "1", "--out", out).code == 1
    assert run("report", out).code == 0
    page = (out / "report" / "report.html").read_text(encoding="utf-8")
    assert "What updates reveal" in page
    assert "changed rows" in page


def private(folder: Path, **changes: object) -> Path:
    noise = {"epsilon": 2.0, "delta": 0.005, "sampling_rate": 0.5}
    privacy = {"mechanism": "plain", "minimum_sites": 2, "differential_privacy": noise, **changes}
    path = folder / "private.toml"
    path.write_text(
        text_of(model={**WORDS, "shared": ["all"]}, privacy=privacy, sites=ONE_TOP, training={"batch_size": None})
    )
    return path


def test_the_noise_of_a_study_is_audited(run: Run, tmp_path: Path) -> None:
    ran = run("audit", "noise", private(tmp_path), "--json")
    found = json.loads(ran.out)
    assert ran.code == 0 and found["claimed"] == 2.0
    assert found["guesses"] == 200 and found["right"] > 100
    assert found["measured"] < 2.0 and not found["refuted"]
    assert "The claim is not refuted." in run("audit", "noise", private(tmp_path)).out


def test_a_study_without_noise_has_none_to_audit(study: Path, run: Run) -> None:
    ran = run("audit", "noise", study)
    assert ran.code == 2 and "no section [privacy.differential_privacy]" in ran.err


def test_canaries_are_written_and_a_model_is_audited_with_them(run: Run, tmp_path: Path) -> None:
    ran = run("audit", "canaries", "--out", tmp_path / "canaries", "--types", "Drug", "--count", "12", "--json")
    written = json.loads(ran.out)
    save_model(quick_tagger(), tmp_path / "model")
    options = ("--members", written["planted"], "--others", written["kept"], "--format", "jsonl")
    ran = run("audit", "model", tmp_path / "model", *options)
    assert ran.code == 0 and "Membership inference" in ran.out
    assert "cannot tell its training notes from others" in " ".join(ran.out.split())
    found = json.loads(run("audit", "model", tmp_path / "model", *options, "--json").out)
    assert found["remembers"] is False and found["findings"][0]["members"] == 12
    assert run("audit", "canaries", "--out", tmp_path / "canaries", "--types", "Drug").code == 2  # it exists
