from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.studies.tiny_studies import TABLE, run, scores_of, tiny

from wardround.studies.study_file import to_toml
from wardround.sweeps.folders import lay_out, summary_in
from wardround.sweeps.one_run import main


def call(monkeypatch: pytest.MonkeyPatch, *words: str | Path) -> None:
    monkeypatch.setattr(sys, "argv", ["one_run", *map(str, words)])
    main()


def test_a_study_is_run_and_summarised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = tiny(algorithm={"rounds": 2})
    lay_out(tmp_path / "mine", to_toml(study))
    call(monkeypatch, tmp_path / "mine", "cpu")
    found = summary_in(tmp_path / "mine")
    assert found is not None and found.keys() == {"seconds", "device", "wardround"} and found["device"] == "cpu"
    run(study, tmp_path / "other")
    assert scores_of(tmp_path / "mine") == scores_of(tmp_path / "other")
    assert not (tmp_path / "mine" / "sites").exists()


def test_what_is_finished_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out(tmp_path, "no study at all")
    (tmp_path / "summary.json").write_text(json.dumps({"seconds": 1.0}))
    call(monkeypatch, tmp_path, "cpu")
    assert summary_in(tmp_path) == {"seconds": 1.0}


def test_an_error_is_one_line_without_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sites = {"harbour": {**TABLE["sites"]["harbour"], "built_in": "habour"}}
    lay_out(tmp_path, to_toml(tiny(sites=sites)))
    with pytest.raises(SystemExit, match=r"^harbour cannot go on .* – no built-in hospital is called 'habour'"):
        call(monkeypatch, tmp_path, "cpu")
    assert summary_in(tmp_path) is None


def test_of_an_unforeseen_error_class_and_place_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*words: object, **named: object) -> None:
        raise ValueError("Mrs Quillfeather took aspirin")

    monkeypatch.setattr("wardround.sweeps.one_run.run_asked", fail)
    lay_out(tmp_path, to_toml(tiny()))
    with pytest.raises(SystemExit) as ended:
        call(monkeypatch, tmp_path, "cpu")
    said = str(ended.value.code)
    assert said.startswith("unforeseen ValueError at test_one_run.py:") and "aspirin" not in said
