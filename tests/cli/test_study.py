from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.running import Run
from tests.studies.tiny_studies import ONE_TOP, text_of, tiny
from wardround.models.saved import save_model
from wardround.studies.assemble import common_model
from wardround.studies.catalogue import ALGORITHMS
from wardround.studies.study_file import parse_study, read_study
from wardround.studies.study_template import TEMPLATE


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(text_of())
    return path


def test_a_new_study_is_the_template(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    ran = run("study", "new", path)
    assert ran.code == 0
    assert path.read_text() == TEMPLATE
    assert ran.out == f"study   {path}\nrun it: wardround run {path} --out runs/mine\n"


def test_a_new_study_without_a_name(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("study", "new").code == 0
    assert (tmp_path / "study.toml").read_text() == TEMPLATE


def test_an_existing_study_is_not_overwritten(run: Run, study: Path) -> None:
    before = study.read_text()
    ran = run("study", "new", study)
    assert (ran.code, ran.err) == (2, "wardround: tiny.toml exists already; name a new file or folder\n")
    assert study.read_text() == before


def test_show_prints_the_same_study_with_every_default(run: Run, study: Path, tmp_path: Path) -> None:
    ran = run("study", "show", study)
    assert ran.code == 0
    assert parse_study(ran.out) == read_study(study)
    for line in ("local_steps = 1\n", "patience = 0\n", 'schedule = "linear"\n'):
        assert line in ran.out
    (tmp_path / "again.toml").write_text(ran.out)
    assert run("study", "show", tmp_path / "again.toml").out == ran.out


@pytest.mark.parametrize("command", ["show", "check"])
def test_an_invalid_study_is_refused(run: Run, tmp_path: Path, command: str) -> None:
    (tmp_path / "s.toml").write_text(text_of(algorithm={"roudns": 3}))
    ran = run("study", command, tmp_path / "s.toml")
    assert ran.code == 2
    assert ran.err.startswith(
        "wardround: [algorithm] 'roudns' is not a setting – did you mean 'rounds'?; it has rounds,"
    )
    assert run("study", command, tmp_path / "none.toml").code == 2


def test_check_says_what_is_shared(run: Run, study: Path) -> None:
    ran = run("study", "check", study)
    assert ran.code == 0
    # 64 buckets and two rows beside them, of 8 numbers each; 8 filters over 3 words of 8 numbers, and 8 biases.
    assert ran.out.splitlines()[0] == "tiny: 2 sites, 6 rounds"
    assert ran.out.splitlines()[1] == f"fedner: {ALGORITHMS['fedner'].description}"
    assert ran.out.splitlines()[2] == f"shared: 3 arrays, {66 * 8 + 8 * 3 * 8 + 8} numbers, 0.0 MB as float32"
    assert ran.out.splitlines()[3] == "privacy: plain, 1 sites a round at least"


def test_check_finds_errors_that_only_building_shows(run: Run, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(text_of(model={"shared": ["wrods"]}))
    ran = run("study", "check", tmp_path / "s.toml")
    assert ran.code == 2
    assert ran.err.startswith("wardround: [model] shared: no layer group is called 'wrods' – did you mean 'words'?")
    (tmp_path / "s.toml").write_text(text_of(model={"lstn": 3}))
    assert "'lstn' is not an option of the preset 'fedner'" in run("study", "check", tmp_path / "s.toml").err


def test_the_algorithms(run: Run) -> None:
    lines = run("study", "algorithms").out.splitlines()
    assert [line.split()[0] for line in lines] == list(ALGORITHMS)
    assert lines[0] == f"fedner   {ALGORITHMS['fedner'].description}"


def test_check_shows_what_is_copied_from_a_start(run: Run, tmp_path: Path) -> None:
    save_model(common_model(tiny(study={"seed": 8})), tmp_path / "earlier")
    (tmp_path / "study.toml").write_text(text_of(model={"start": "earlier"}), encoding="utf-8")
    ran = run("study", "check", tmp_path / "study.toml")
    assert (ran.code, ran.err) == (0, "")
    assert "Starts from earlier up to crf" in ran.out
    assert ran.row("words")[2] == "copied"
    assert ran.row("lstm")[1:3] == ["0", "fresh"]


def test_check_says_how_much_noise_there_is(run: Run, tmp_path: Path) -> None:
    noise = {"epsilon": 8.0, "delta": 0.005, "sampling_rate": 0.25}
    privacy = {"mechanism": "masked", "minimum_sites": 3, "differential_privacy": noise}
    sites = {"riverside": {"built_in": "riverside-0002", "types": ["Drug"]}, **ONE_TOP}
    text = text_of(model={"shared": ["all"]}, privacy=privacy, sites=sites, training={"batch_size": None})
    (tmp_path / "study.toml").write_text(text, encoding="utf-8")
    ran = run("study", "check", tmp_path / "study.toml")
    said = "carried by 2 sites, in 6 sums over samples with rate 0.25: (ε, δ) = (8, 0.005) for each sentence"
    assert said in " ".join(ran.out.split())
    found = json.loads(run("study", "check", tmp_path / "study.toml", "--json").out)
    assert found["noise"]["releases"] == 6 and 0.3 < found["noise"]["multiplier"] < 3
