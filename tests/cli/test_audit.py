"""`wardround audit leakage`, and the floors of a site at `wardround site review`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.running import Run, write_site
from tests.models.tiny import notes
from tests.studies.tiny_studies import text_of
from wardround.studies.run_folder import RunFolder


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(text_of(), encoding="utf-8")
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


class TestSiteReview:
    """The site's own policy."""

    @pytest.fixture(scope="class")
    def made(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        pytest.importorskip("nvflare", reason="kits need wardround[flare]")
        from wardround.provisioning.kits import provision
        from wardround.studies.networked import plan_kits

        folder = tmp_path_factory.mktemp("made")
        (folder / "study.toml").write_text(text_of(), encoding="utf-8")
        return provision(*plan_kits(folder / "study.toml", host="localhost", port=9000, days=2), folder / "kits")[
            "harbour"
        ]

    @pytest.fixture
    def kit(self, made: Path, tmp_path: Path) -> Path:
        return shutil.copytree(made, tmp_path / "harbour")

    def policy(self, kit: Path, text: str) -> None:
        (RunFolder(kit / "site").path / "site_policy.toml").write_text(text, encoding="utf-8")

    def test_a_study_above_the_recall_of_the_policy_is_refused(self, kit: Path, run: Run) -> None:
        self.policy(kit, "[leakage]\nhighest_token_recall = 0.5\n")
        ran = run("site", "review", kit, "--accept")
        assert ran.code == 2
        assert ran.err.startswith(
            "wardround: the study is refused (site_policy.toml, [leakage] highest_token_recall 0.5): From one site's"
        )
        assert not (kit / "site" / "accepted.json").exists()
        assert (kit / "site" / "leakage.html").is_file()  # the owner can read why

    def test_a_policy_that_changed_needs_another_review(self, kit: Path, run: Run) -> None:
        assert run("site", "review", kit, "--accept").code == 0
        self.policy(kit, "[leakage]\nhighest_token_recall = 0.5\n")
        refused = run("site", "start", kit, "--built-in", "harbour-0000")
        assert (refused.code, "the study was not accepted" in refused.err) == (2, True)
        self.policy(kit, "[leakage]\nfewest_tokens = 10\n")
        reviewed = run("site", "review", kit, "--accept")
        assert (reviewed.code, reviewed.out.splitlines()[-1]) == (0, "Accepted.")

    def test_a_study_below_the_tokens_of_the_policy_is_refused(self, kit: Path, run: Run) -> None:
        self.policy(kit, "[leakage]\nfewest_tokens = 5000\n")
        ran = run("site", "review", kit, "--accept")
        assert ran.code == 2
        assert "site_policy.toml requires 5,000 words ([leakage] fewest_tokens); raise" in ran.err_in_one_line

    def test_the_review_shows_the_audit_and_writes_a_page(self, kit: Path, run: Run, tmp_path: Path) -> None:
        ran = run("site", "review", kit, "--audit", "--html", tmp_path / "review.html")
        assert ran.code == 0
        assert "What updates reveal" in ran.out.splitlines()
        page = (tmp_path / "review.html").read_text(encoding="utf-8")
        assert page.index("Who could read what leaves") < page.index("What updates reveal")
        shown = json.loads(run("site", "review", kit, "--audit", "--json").out)
        assert {finding["attack"] for finding in shown["leakage"]["findings"]} >= {"changed rows"}
