from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.models.tiny import notes
from tests.studies.tiny_studies import TABLE, learnable, run, scores_of, tiny

from wardround.corpora.jsonl import Jsonl
from wardround.studies.run_reading import read_run
from wardround.studies.study_file import to_toml
from wardround.sweeps.folders import prepare_folder, read_summary
from wardround.sweeps.one_run import main
from wardround.text.document import Document, Entity, Range


def call(monkeypatch: pytest.MonkeyPatch, *words: str | Path) -> None:
    monkeypatch.setattr(sys, "argv", ["one_run", *map(str, words)])
    main()


def test_a_study_is_run_and_summarised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = tiny(algorithm={"rounds": 2})
    prepare_folder(tmp_path / "mine", to_toml(study))
    call(monkeypatch, tmp_path / "mine", "cpu", "--cell=two, FedNER")
    found = read_summary(tmp_path / "mine")
    assert found is not None and found.keys() == {"cell", "seconds", "device", "wardround"}
    assert (found["cell"], found["device"]) == ("two, FedNER", "cpu")
    run(study, tmp_path / "other")
    assert scores_of(tmp_path / "mine") == scores_of(tmp_path / "other")
    left = {str(path.relative_to(tmp_path / "mine" / "sites")) for path in (tmp_path / "mine").rglob("sites/*/*")}
    assert left == {"harbour/note-counts.json", "hillside/note-counts.json"}
    record = read_run(tmp_path / "mine")
    assert record.name == dict(record.facts)["row of a sweep"] == f"two, FedNER, seed {study.study.seed}"
    assert read_run(tmp_path / "other").name == "other"
    notes = record.notes
    assert notes.keys() == {"harbour", "hillside"} and notes == read_run(tmp_path / "other").notes


def test_kept_files_contain_no_word_and_no_name_of_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = learnable(tmp_path / "data", algorithm={"rounds": 1})
    note = Document("quillfeather", "Took xylozipam.", (Entity("T1", "Drug", (Range(5, 14),)),))
    for part in ("train", "dev", "test"):
        Jsonl().write([note, *notes(3)], tmp_path / "data" / "east" / f"{part}.jsonl")
    prepare_folder(tmp_path / "run", to_toml(study))
    call(monkeypatch, tmp_path / "run", "cpu")
    left = {str(path): path.read_bytes().lower() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert str(tmp_path / "run" / "sites" / "east" / "note-counts.json") in left
    assert [name for name, content in left.items() if b"xylozipam" in content or b"quillfeather" in content] == []


def test_a_run_whose_scores_are_damaged_is_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare_folder(tmp_path, to_toml(tiny(algorithm={"rounds": 1})))
    call(monkeypatch, tmp_path, "cpu")
    before = scores_of(tmp_path)
    (tmp_path / "scores.json").write_text("")
    call(monkeypatch, tmp_path, "cpu")
    assert scores_of(tmp_path) == before


def test_finished_run_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare_folder(tmp_path, "no study at all")
    (tmp_path / "scores.json").write_text(json.dumps({"rounds": 3, "best_round": 2}))
    (tmp_path / "summary.json").write_text(json.dumps({"seconds": 1.0}))
    call(monkeypatch, tmp_path, "cpu")
    assert read_summary(tmp_path) == {"seconds": 1.0}


def test_an_error_is_one_line_without_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sites = {"harbour": {**TABLE["sites"]["harbour"], "built_in": "habour"}}
    prepare_folder(tmp_path, to_toml(tiny(sites=sites)))
    with pytest.raises(SystemExit, match=r"^harbour cannot resume .* – no built-in hospital is called 'habour'"):
        call(monkeypatch, tmp_path, "cpu")
    assert read_summary(tmp_path) is None


def test_unexpected_error_shows_only_class_and_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*words: object, **named: object) -> None:
        raise ValueError("Mrs Quillfeather took aspirin")

    monkeypatch.setattr("wardround.sweeps.one_run.run_requested_study", fail)
    prepare_folder(tmp_path, to_toml(tiny()))
    with pytest.raises(SystemExit) as ended:
        call(monkeypatch, tmp_path, "cpu")
    said = str(ended.value.code)
    assert said.startswith("unexpected ValueError at test_one_run.py:") and "aspirin" not in said
