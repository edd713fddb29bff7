from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.console.records import STUDY, append, round_of, started, write_kit, write_run

from wardround.console.runs import FailedRequest, StudyFacts
from wardround.errors import UsageError
from wardround.federation.ledger import verify
from wardround.privacy.mechanism_table import MECHANISMS
from wardround.studies.watched_runs import CoordinatorRuns, SiteRuns, runs_in


def test_runs_are_found_in_folders_of_folders(tmp_path: Path) -> None:
    for name in ("b", "a/one", "a/two", "kit/run", "1/2/3/4", "1/2/3/4x/5"):
        write_run(tmp_path / name, started())
    assert [run.key for run in CoordinatorRuns(tmp_path).all()] == ["1/2/3/4", "a/one", "a/two", "b", "kit/run"]


def test_folders_inside_a_run_are_not_searched(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", started())
    write_run(run / "sites" / "harbour", started())
    write_run(tmp_path / ".hidden", started())
    assert [found.key for found in CoordinatorRuns(tmp_path).all()] == ["a"]


@pytest.mark.parametrize("name", ["local", "model", "state", "logs", "sites", "startup"])
def test_a_run_may_be_called_as_a_kits_folder_is(tmp_path: Path, name: str) -> None:
    write_run(tmp_path / "runs" / name, started())
    write_run(tmp_path / "runs" / "more" / name / "deep", started())
    assert [found.key for found in CoordinatorRuns(tmp_path / "runs").all()] == sorted([name, f"more/{name}/deep"])
    kit = write_kit(tmp_path / "kit")
    write_run(kit / name, started())
    write_run(kit / "run", started())
    assert [found.key for found in CoordinatorRuns(tmp_path / "kit").all()] == ["run"]


def test_of_a_rehearsal_the_sites_are_not_taken_for_kits(tmp_path: Path) -> None:
    run = write_run(tmp_path / "runs" / "a", started())
    kit = write_kit(tmp_path / "kit", messages=1)
    (run / "sites").mkdir()
    (kit / "site").rename(run / "sites" / "hillside")
    assert SiteRuns(tmp_path / "runs").all() == []


def test_one_run_can_be_watched_by_itself(tmp_path: Path) -> None:
    run = write_run(tmp_path / "mine", started())
    runs = CoordinatorRuns(run)
    assert [found.key for found in runs.all()] == ["mine"]
    found = runs.one("mine")
    assert found is not None
    assert found.record == run / "events.jsonl"
    assert runs.one("other") is None


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside = write_run(tmp_path / "outside" / "run", started())
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "link").symlink_to(outside)
    linked = tmp_path / "runs" / "file"
    linked.mkdir()
    (linked / "events.jsonl").symlink_to(outside / "events.jsonl")
    assert CoordinatorRuns(tmp_path / "runs").all() == []


def test_what_the_study_file_says(tmp_path: Path) -> None:
    write_run(tmp_path / "a", started())
    assert CoordinatorRuns(tmp_path).all()[0].facts == StudyFacts(
        name="adverse-effects",
        task="ner",
        algorithm="fedner",
        rounds=40,
        mechanism="sealed+masked",
        protection=MECHANISMS["sealed+masked"].summary,
        minimum_sites=2,
        sites=("harbour", "hillside", "lakeside"),
        patience=30.0,
    )


def test_a_coordinator_that_waits_for_sites_is_known_by_its_kit(tmp_path: Path) -> None:
    kit = write_kit(tmp_path / "kit")
    (kit / "run").mkdir()
    append(kit / "run", {"time": 1.0, "event": "waiting", "least": 2, "sites": 3})
    assert CoordinatorRuns(kit).all()[0].facts.name == "adverse-effects"
    (kit / "kit.json").unlink()
    assert CoordinatorRuns(kit).all()[0].facts.name == ""


@pytest.mark.parametrize(
    ("mechanism", "predictions", "words"),
    [
        ("plain", False, "the coordinator can read each site's update"),
        ("masked", False, "The coordinator can read the sum of a round's updates, but no single update"),
        ("sealed", False, "can read neither an update nor the sum"),
        ("sealed+masked", False, "masks hide each update in it"),
        ("plain", True, "can read each site's predictions on the public set"),
        ("masked", True, "the mean of a round's predictions"),
        ("sealed", True, "decrypt the mean prediction and send it to the coordinator"),
        ("sealed+masked", True, "masks hide each site's predictions in it"),
        ("folded", False, "This version does not know the mechanism"),
    ],
)
def test_protection_is_described_for_every_mechanism(
    tmp_path: Path, mechanism: str, predictions: bool, words: str
) -> None:
    study = STUDY.replace("sealed+masked", mechanism)
    if predictions:
        study = study.replace("fedner", "feded") + '\n[public]\nbuilt_in = "harbour"\n'
    write_run(tmp_path / "a", started(), study=study)
    assert words in CoordinatorRuns(tmp_path).all()[0].facts.protection


def test_training_at_one_site_sends_nothing(tmp_path: Path) -> None:
    (write_run(tmp_path / "a", started()) / "study.toml").unlink()
    assert "nothing leaves it" in CoordinatorRuns(tmp_path).all()[0].facts.protection


@pytest.mark.parametrize("study", ["", "[study", 'study = 3\n[algorithm]\nrounds = "many"\n', "algorithm = 3\n"])
def test_a_run_with_an_unreadable_study_file_is_still_listed(tmp_path: Path, study: str) -> None:
    write_run(tmp_path / "a", started(), study=study)
    (run,) = CoordinatorRuns(tmp_path).all()
    assert run.facts.sites == ()


def test_a_study_without_a_name_and_without_an_end(tmp_path: Path) -> None:
    study = STUDY.replace('name = "adverse-effects"\n', "").replace("rounds = 40", "rounds = inf")
    write_run(tmp_path / "a", started(), study=study.replace("30.0", "inf"))
    facts = runs_in(tmp_path, site=False).all()[0].facts
    assert (facts.name, facts.rounds, facts.patience) == ("", 0, 600.0)
    assert (facts.algorithm, facts.mechanism, facts.minimum_sites) == ("fedner", "sealed+masked", 2)


def test_a_folder_whose_name_is_not_utf_8_can_be_addressed(tmp_path: Path) -> None:
    write_run(tmp_path / os.fsdecode(b"caf\xe9"), started())
    runs = CoordinatorRuns(tmp_path)
    assert [run.key for run in runs.all()] == ["caf\ufffd"]
    assert runs.one("caf\ufffd") is not None


@pytest.mark.parametrize("site", [False, True])
def test_an_unreadable_folder_does_not_hide_other_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, site: bool
) -> None:
    for name in ("a", "b"):
        write_run(tmp_path / "runs" / name, started())
        write_kit(tmp_path / "kits" / name, messages=1)
    is_file = Path.is_file

    def refuse(path: Path) -> bool:
        if "a" in path.parts[-3:]:
            raise PermissionError(path)
        return is_file(path)

    monkeypatch.setattr(Path, "is_file", refuse)
    found = runs_in(tmp_path / ("kits" if site else "runs"), site=site).all()
    assert [run.facts.name for run in found] == ["", "adverse-effects"]
    assert [run.site is not None for run in found] == [site, site]


def test_a_report_is_there_once_it_is_written(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", started())
    assert CoordinatorRuns(tmp_path).all()[0].report is None
    (run / "report.html").write_text("x")
    assert CoordinatorRuns(tmp_path).all()[0].report == run / "report.html"


def test_of_two_reports_the_newer_is_shown(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", started())
    older, newer = run / "report.html", run / "report" / "report.html"
    newer.parent.mkdir()
    for seconds, page in enumerate((older, newer)):
        page.write_text("x")
        os.utime(page, (seconds, seconds))
    assert CoordinatorRuns(tmp_path).all()[0].report == newer
    os.utime(older, (9, 9))
    assert CoordinatorRuns(tmp_path).all()[0].report == older


def test_a_report_that_is_a_link_is_ignored(tmp_path: Path) -> None:
    run, outside = write_run(tmp_path / "a", started()), tmp_path / "outside"
    outside.mkdir()
    (outside / "report.html").write_text("x")
    (run / "report.html").symlink_to(outside / "report.html")
    (run / "report").symlink_to(outside)
    assert CoordinatorRuns(tmp_path).all()[0].report is None


def test_a_site_is_found_with_its_ledger(tmp_path: Path) -> None:
    kit = write_kit(tmp_path / "kit", messages=2)
    (run,) = SiteRuns(tmp_path).all()
    assert (run.key, run.record) == ("kit/site", kit / "site" / "ledger.jsonl")
    assert run.facts.name == "adverse-effects"
    assert run.report is None
    notes = run.site
    assert notes is not None
    verdict = verify(run.record)
    assert (notes.name, notes.accepted, notes.entries) == ("harbour", True, 2)
    assert (notes.bytes_out, notes.head, notes.fault) == (verdict.bytes_out, verdict.head, "")


def test_a_site_from_which_nothing_left_yet(tmp_path: Path) -> None:
    write_kit(tmp_path / "kit")
    notes = SiteRuns(tmp_path).all()[0].site
    assert notes is not None
    assert (notes.entries, notes.head) == (0, "")


def test_a_rehearsal_on_one_machine_has_sites_too(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", started())
    kit = write_kit(tmp_path / "kit", messages=1)
    (run / "sites").mkdir()
    (kit / "site").rename(run / "sites" / "hillside")
    (found,) = SiteRuns(run / "sites").all()
    assert found.facts.name == "adverse-effects"
    assert found.site is not None
    assert (found.site.name, found.site.accepted) == ("hillside", None)


def test_an_altered_ledger_is_reported(tmp_path: Path) -> None:
    ledger = write_kit(tmp_path / "kit", messages=2) / "site" / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes().replace(b'"round":1', b'"round":7'))
    notes = SiteRuns(tmp_path).all()[0].site
    assert notes is not None
    assert notes.fault == "ledger.jsonl:2: does not follow the line before it"


def test_only_two_kinds_of_lines_of_the_engine_log_are_shown(tmp_path: Path) -> None:
    kit = write_kit(tmp_path / "kit", messages=1)
    (kit / "logs").mkdir()
    name = "2026-11-16 03:41:24,123 WARNING wardround.federation.engines.flare.site_session"
    lines = [
        f"{name} a request was refused: not-accepted",
        f"{name} step=submit round=12 failed: worker-died",
        f"{name} step=submit round=12 failed: Mrs Quillfeather was seen",
        "2026-11-16 03:41:24,123 WARNING nvflare.cell Mrs Quillfeather was seen",
        "a request was refused: forged",
    ]
    (kit / "logs" / "engine.log").write_text("\n".join(lines))
    notes = SiteRuns(tmp_path).all()[0].site
    assert notes is not None
    assert notes.troubles == (
        FailedRequest("2026-11-16 03:41:24", "", 0, "not-accepted"),
        FailedRequest("2026-11-16 03:41:24", "submit", 12, "worker-died"),
    )


def test_the_wrong_view_is_refused_with_the_right_one(tmp_path: Path) -> None:
    write_kit(tmp_path / "kit")
    write_run(tmp_path / "runs" / "a", started(), round_of(1))
    with pytest.raises(UsageError, match="kit is the folder of a site; add --site"):
        runs_in(tmp_path / "kit", site=False)
    with pytest.raises(UsageError, match="runs is the folder of a coordinator; leave --site out"):
        runs_in(tmp_path / "runs", site=True)
    assert runs_in(tmp_path / "kit", site=True).role == "site"
    assert runs_in(tmp_path / "runs", site=False).role == "coordinator"


def test_an_empty_folder_can_be_watched_before_the_first_run(tmp_path: Path) -> None:
    assert runs_in(tmp_path, site=False).all() == []
