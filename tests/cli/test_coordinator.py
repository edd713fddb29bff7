"""`wardround coordinator start`; how a consortium is opened is in test_provision.py."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.running import Run
from tests.models.tiny import notes
from tests.studies.tiny_studies import ONE_TOP, text_of, tiny

pytest.importorskip("nvflare", reason="kits need wardround[flare]")

from wardround.corpora.jsonl import Jsonl
from wardround.federation.engines.flare import supervisor
from wardround.models.saved import save_model
from wardround.studies.assemble import common_model
from wardround.studies.run_folder import RunFolder
from wardround.studies.run_guard import run_lock
from wardround.studies.study_notes import public_digest


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(text_of(), encoding="utf-8")
    return path


@pytest.fixture
def kits(study: Path, run: Run) -> Path:
    out = study.parent / "kits"
    assert run("provision", study, "--out", out, "--host", "localhost", "--port", "9000").code == 0
    return out


def test_start_supervises_the_work_and_ends_as_it_does(kits: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = []
    monkeypatch.setattr(supervisor, "exec_supervisor", lambda command: commands.append(command) or 7)
    assert run("coordinator", "start", kits / "coordinator").code == 7
    work = ("-m", "wardround.cli.main", "coordinator", "work", str(kits / "coordinator"))
    assert commands == [(sys.executable, *work)]


def test_a_kit_of_a_site_is_refused(kits: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "exec_supervisor", lambda command: pytest.fail("it was started"))
    ran = run("coordinator", "start", kits / "harbour")
    assert ran.code == 2
    assert ran.err == "wardround: harbour is the kit of a site; `wardround site start` takes it\n"


@pytest.mark.parametrize("command", [("provision",), ("coordinator", "open")])
def test_no_kits_for_what_needs_all_notes_in_one_place(command: tuple[str, ...], study: Path, run: Run) -> None:
    study.write_text(text_of(algorithm={"name": "pooled"}, model={"shared": None}), encoding="utf-8")
    ran = run(*command, study, "--out", study.parent / "out", "--host", "localhost")
    assert ran.code == 2
    assert "pooled needs all notes in one place" in ran.err_in_one_line
    assert not (study.parent / "out").exists()


@pytest.mark.parametrize("command", [("provision",), ("coordinator", "open")])
def test_no_kit_has_the_location_of_notes(command: tuple[str, ...], study: Path, run: Run) -> None:
    harbour = {"built_in": None, "data": "lantern-street-notes", "format": "jsonl"}
    study.write_text(text_of(sites={"harbour": harbour}), encoding="utf-8")
    out = study.parent / "out"
    assert run(*command, study, "--out", out, "--host", "localhost").code == 0
    files = [path for path in out.rglob("*") if path.is_file()]
    assert any(path.name == "study.toml" for path in files)
    for word in ("lantern-street-notes", "jsonl", "hillside-0001", str(study.parent)):
        assert not [path.name for path in files if word.encode() in path.read_bytes()]


def test_where_the_coordinator_has_its_vectors_is_told_to_its_own_process(
    study: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = []
    monkeypatch.setattr(supervisor, "exec_supervisor", lambda command: commands.append(command) or 0)
    monkeypatch.chdir(study.parent)
    Path("glove.txt").write_text("aspirin 1 2 3\n", encoding="utf-8")
    study.write_text(text_of(model={"vectors": "glove.txt"}), encoding="utf-8")
    assert run("provision", study, "--out", "kits", "--host", "localhost", "--port", "9000").code == 0
    left_out = run("coordinator", "start", "kits/coordinator")
    assert left_out.code == 2
    assert "uses the word vectors glove.txt; give the path with --vectors" in left_out.err_in_one_line
    assert not commands
    assert run("coordinator", "start", "kits/coordinator", "--vectors", "glove.txt").code == 0
    assert commands == [
        (
            *(sys.executable, "-m", "wardround.cli.main", "coordinator", "work", "kits/coordinator"),
            *("--vectors", str(study.parent / "glove.txt")),
        )
    ]


def test_vectors_that_the_study_does_not_have(kits: Path, study: Path, run: Run) -> None:
    ran = run("coordinator", "start", kits / "coordinator", "--vectors", study)
    assert ran.code == 2
    assert ran.err == "wardround: the study names no word vectors; leave --vectors out\n"


@pytest.fixture
def distilled(study: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The coordinator's kit of a study with a public set, which lies beside the study file."""
    monkeypatch.chdir(study.parent)
    Jsonl().write(notes(3), Path("open.jsonl"))
    public = {"data": "open.jsonl", "format": "jsonl", "sha256": public_digest(notes(3))}
    text = text_of(algorithm={"name": "feded"}, model={"shared": None}, sites=ONE_TOP, public=public)
    study.write_text(text, encoding="utf-8")
    assert run("provision", study, "--out", "kits", "--host", "localhost", "--port", "9000").code == 0
    return Path("kits/coordinator")


def test_where_the_coordinator_has_the_public_set_is_told_to_its_own_process(
    distilled: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = []
    monkeypatch.setattr(supervisor, "exec_supervisor", lambda command: commands.append(command) or 0)
    left_out = run("coordinator", "start", distilled)
    assert (left_out.code, commands) == (2, [])
    assert left_out.err == "wardround: the study uses the public set open.jsonl; give the path with --public\n"
    assert run("coordinator", "start", distilled, "--public", "open.jsonl").code == 0
    work = (sys.executable, "-m", "wardround.cli.main", "coordinator", "work", str(distilled))
    assert commands == [(*work, "--public", str(Path("open.jsonl").resolve()))]


def test_a_public_set_that_is_not_the_studys_is_refused_at_once(
    distilled: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "exec_supervisor", lambda command: pytest.fail("it was started"))
    Jsonl().write(notes(3), Path("other.jsonl"))
    renamed = run("coordinator", "start", distilled, "--public", "other.jsonl")
    assert renamed.code == 2
    assert renamed.err == "wardround: --public names other.jsonl; the study calls its public set open.jsonl\n"
    Jsonl().write(notes(4), Path("elsewhere/open.jsonl"))
    changed = run("coordinator", "start", distilled, "--public", "elsewhere/open.jsonl")
    assert changed.code == 2
    assert "[public] holds other documents than the study was made with (sha256 differs)" in changed.err_in_one_line


def test_a_public_set_that_the_study_does_not_have(kits: Path, study: Path, run: Run) -> None:
    ran = run("coordinator", "start", kits / "coordinator", "--public", study)
    assert ran.code == 2
    assert ran.err == "wardround: the study names no public set; leave --public out\n"


@pytest.fixture
def begun(study: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The coordinator's kit of a study that begins from a model, which lies beside the study file."""
    monkeypatch.chdir(study.parent)
    save_model(common_model(tiny(study={"seed": 8})), Path("earlier"))
    study.write_text(text_of(model={"start": "earlier"}), encoding="utf-8")
    assert run("provision", study, "--out", "kits", "--host", "localhost", "--port", "9000").code == 0
    return Path("kits/coordinator")


def test_the_coordinator_says_where_the_model_is_that_its_study_begins_from(
    begun: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = []
    monkeypatch.setattr(supervisor, "exec_supervisor", lambda command: commands.append(command) or 0)
    left_out = run("coordinator", "start", begun)
    assert (left_out.code, commands) == (2, [])
    assert left_out.err == "wardround: the study starts from a saved model; give its path with --start\n"
    assert run("coordinator", "start", begun, "--start", "earlier").code == 0
    work = (sys.executable, "-m", "wardround.cli.main", "coordinator", "work", str(begun))
    assert commands == [(*work, "--start", str(Path("earlier").resolve()))]


def test_another_model_than_the_study_was_made_with_is_refused_at_once(
    begun: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "exec_supervisor", lambda command: pytest.fail("it was started"))
    save_model(common_model(tiny(study={"seed": 9})), Path("other"))
    ran = run("coordinator", "start", begun, "--start", "other")
    assert ran.code == 2
    assert "[model] start: other is not the model that the study was made with (sha256 differs)" in ran.err_in_one_line


def test_a_start_that_the_study_does_not_have(kits: Path, study: Path, run: Run) -> None:
    ran = run("coordinator", "start", kits / "coordinator", "--start", study.parent)
    assert ran.code == 2
    assert ran.err == "wardround: the study does not start from a saved model; leave --start out\n"


def test_trackers_are_passed_to_the_working_process(kits: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboard", reason="tracking needs wardround[tracking]")
    commands = []
    monkeypatch.setattr(supervisor, "exec_supervisor", lambda command: commands.append(command) or 0)
    assert run("coordinator", "start", kits / "coordinator", "--track", "tensorboard").code == 0
    assert commands[0][-2:] == ("--track", "tensorboard")
    unknown = run("coordinator", "start", kits / "coordinator", "--track", "wandb")
    assert unknown.code == 2
    assert "'wandb' is not a tracker; there are tensorboard, mlflow" in unknown.err_in_one_line
    assert len(commands) == 1


def test_status_follows_the_study(kits: Path, run: Run) -> None:
    kit = kits / "coordinator"

    def status() -> dict[str, object]:
        found: dict[str, object] = json.loads(run("coordinator", "status", kit, "--json").out)
        return found

    assert (status()["state"], status()["process"]) == ("not started", "none")
    folder = RunFolder(kit / "run")
    folder.log("waiting", {"least": 1, "sites": 2})
    assert status()["state"] == "waiting for 1 of 2 sites"
    folder.log("started", {"round": 0})
    folder.log("round", {"round": 2, "absent": [["hillside", "late", ""]]})
    folder.log("scored", {"round": 2, "mean_f1": 0.25})
    assert status()["state"] == "stopped after round 2 of 6; `wardround coordinator start` resumes it"
    with run_lock(kit):
        assert status()["state"] == "round 3 of 6"
    assert status()["absent"] == "hillside (late)"
    assert status()["development_F1"] == "0.250 after round 2"
    assert run("coordinator", "status", kits / "harbour").code == 2


def test_a_finished_study_does_not_wait_for_sites(kits: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "exec_supervisor", lambda command: 7)
    folder = RunFolder(kits / "coordinator" / "run")
    folder.log("finished", {"rounds": 6})
    folder.write_json("scores.json", {})
    ran = run("coordinator", "start", kits / "coordinator")
    assert ran.code == 0
    assert ran.out.startswith("the study has finished; report ")
    assert run("coordinator", "start", kits / "coordinator", "--again").code == 7
    status = json.loads(run("coordinator", "status", kits / "coordinator", "--json").out)
    assert status["state"] == "finished after 6 rounds"
