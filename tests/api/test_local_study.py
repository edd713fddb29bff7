from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.api.workspace import TINY

import wardround
from wardround import Study

SITES: Any = {name: {"built_in": name, "types": ["Drug"]} for name in ("harbour-0000", "hillside-0001")}
SETTINGS: Any = {
    "sites": SITES,
    "algorithm": {"name": "fedavg", "rounds": 3},
    "model": TINY,
    "training": {"batch_size": 8, "learning_rate": 0.02},
}


def study(**changes: Any) -> Study:
    return Study("two wards", **{**SETTINGS, **changes})


class Killed(Exception):
    """Stands for the end of a process."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> wardround.StudyResult:
    return wardround.run(study(), out=tmp_path_factory.mktemp("studies") / "run", progress=False)


def test_a_study_in_python_is_the_study_of_its_file(tmp_path: Path) -> None:
    built = study(description="A try", seed=4)
    (tmp_path / "study.toml").write_text(built.to_toml(), encoding="utf-8")
    assert Study.from_file(tmp_path / "study.toml") == built
    assert hash(Study.from_file(tmp_path / "study.toml")) == hash(built)
    assert built != study()
    assert built != "two wards"


def test_a_study_describes_itself() -> None:
    built = study()
    assert repr(built) == "Study('two wards': 2 sites, 3 rounds of fedavg, plain)"
    assert (built.name, built.sites, built.algorithm, built.rounds, built.seed) == (
        "two wards",
        ("harbour-0000", "hillside-0001"),
        "fedavg",
        3,
        0,
    )


def test_short_forms_are_the_main_setting() -> None:
    assert study(algorithm="fedavg") == study(algorithm={"name": "fedavg"})
    assert study(task="ner", privacy="plain") == study(task={"kind": "ner"}, privacy={"mechanism": "plain"})
    types = {name: {**site, "types": ("Drug",)} for name, site in SITES.items()}
    assert study(sites=types) == study()


def test_another_seed_changes_nothing_else() -> None:
    assert study().with_seed(5) == study(seed=5)
    assert study().seed == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": "fedavgg"}, "did you mean 'fedavg'"),
        ({"algorithm": {"name": "fedavg", "round": 3}}, r"\[algorithm\].*'round'.*did you mean 'rounds'"),
        ({"algorithm": {"name": "fedavg", "rounds": "many"}}, r"\[algorithm\] .*rounds"),
        ({"training": {"batchsize": 3}}, r"\[training\].*did you mean 'batch_size'"),
        ({"training": 3}, r"\[training\]"),
        ({"model": {"lsmt": 3}}, r"did you mean 'lstm'"),
        ({"privacy": "maskd"}, "did you mean 'masked'"),
        ({"task": "nre"}, "did you mean 'ner'"),
        ({"sites": {}}, "site"),
        ({"model": {"preset": "fednre"}}, "did you mean 'fedner'"),
        ({"sites": ["harbour"]}, "sites are settings by name"),
        ({"sites": {"harbour": "harbour"}}, "sites are settings by name"),
        ({"sites": {"Harbour!": {"built_in": "harbour"}}}, "Harbour!"),
        ({"seed": "zero"}, "seed"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_wrong_settings_are_refused_by_section(changes: Any, message: str) -> None:
    with pytest.raises(wardround.StudyError, match=message):
        study(**changes)


def test_an_unknown_section_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="algorithms"):
        Study("x", sites=SITES, algorithms="fedavg")  # type: ignore[call-arg]


def test_a_missing_file_is_named_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(wardround.StudyError, match=r"no study file 'study\.toml'; `wardround study new` writes one"):
        wardround.run(tmp_path / "study.toml", out=tmp_path / "run")


def test_paths_are_relative_to_the_folder(tmp_path: Path) -> None:
    wardround.write(wardround.hospitals()["hillside"].first(3), tmp_path / "notes", "jsonl")
    sites: Any = {"here": {"data": "notes", "format": "jsonl", "types": ["Drug"]}}
    settings: Any = {"algorithm": {"name": "single", "rounds": 1}, "folder": tmp_path}
    result = wardround.run(study(sites=sites, **settings), out=tmp_path / "run", progress=False)
    assert list(result.scores) == ["here"]
    missing = study(sites={"here": {**sites["here"], "data": "nowhere"}}, **settings)
    with pytest.raises(wardround.StudyError, match=r"\[sites\.here\] data: nowhere does not exist"):
        wardround.run(missing, out=tmp_path / "other", progress=False)


def test_a_result_has_scores_models_cost_tables_charts_and_report(finished: wardround.StudyResult) -> None:
    assert set(finished.scores) == set(SITES)
    strict = finished.scores["harbour-0000"]["strict"]
    assert set(strict) == {"precision", "recall", "f1", "low", "high"}
    assert finished.cost.rounds == 3
    assert finished.cost.bytes_up > 0 < finished.cost.bytes_down
    assert finished.report().is_file()
    assert finished.tables[0].columns[0] == "site"
    assert {"f1-by-site", "development-f1", "training-loss"} <= {chart.name for chart in finished.charts}
    assert "data:image/svg+xml" in finished._repr_html_()


def test_scores_are_those_in_the_run_folder(finished: wardround.StudyResult) -> None:
    written = json.loads((finished.folder / "scores.json").read_text(encoding="utf-8"))["sites"]
    for site, modes in finished.scores.items():
        assert modes["strict"]["f1"] == written[site]["strict"]["f1"]


def test_the_model_of_a_site_is_loaded_by_its_name(finished: wardround.StudyResult) -> None:
    assert list(finished.models) == list(SITES)
    assert len(finished.models) == 2
    assert finished.models["harbour-0000"].types == ("Drug",)
    assert "harbour-0001" not in finished.models
    with pytest.raises(KeyError):
        finished.models["harbour-0001"]


def test_the_folder_of_a_study_is_not_a_model(finished: wardround.StudyResult) -> None:
    with pytest.raises(wardround.ModelError, match=r"run of a study: name the model .* sites/harbour-0000/model"):
        wardround.load(finished.folder)


def test_the_same_run_again_gives_the_same_scores_without_a_round(finished: wardround.StudyResult) -> None:
    rounds: list[Any] = []
    again = wardround.run(study(), out=finished.folder, progress=False, on_round=rounds.append)
    assert again.scores == finished.scores
    assert rounds == []


def test_a_killed_run_resumes_to_the_same_scores(finished: wardround.StudyResult, tmp_path: Path) -> None:
    def kill(record: Any) -> None:
        if record.number == 2:
            raise Killed

    every = study(federation={"checkpoint_every": 1})
    with pytest.raises(Killed):
        wardround.run(every, out=tmp_path / "run", progress=False, on_round=kill)
    rounds: list[Any] = []
    resumed = wardround.run(every, out=tmp_path / "run", progress=False, on_round=rounds.append)
    assert [record.number for record in rounds] == [2, 3]
    assert resumed.scores == finished.scores


def test_another_study_is_not_run_in_the_same_folder(finished: wardround.StudyResult) -> None:
    with pytest.raises(wardround.StudyError, match="holds another study; name a new one"):
        wardround.run(study(seed=1), out=finished.folder, progress=False)


def test_callbacks_get_every_round_and_every_scoring(tmp_path: Path) -> None:
    rounds: list[int] = []
    scores: list[tuple[int, list[str]]] = []
    wardround.run(
        study(evaluation={"every": 2}),
        out=tmp_path / "run",
        progress=False,
        on_round=lambda record: rounds.append(record.number),
        on_scores=lambda number, f1: scores.append((number, list(f1))),
    )
    assert rounds == [1, 2, 3]
    assert scores == [(2, list(SITES)), (3, list(SITES))]


def test_without_progress_nothing_is_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    wardround.run(study(), out=tmp_path / "run", progress=False)
    assert capfd.readouterr() == ("", "")


def test_progress_is_shown_by_default_on_standard_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    wardround.run(study(), out=tmp_path / "run")
    out, err = capfd.readouterr()
    assert out == ""
    assert "two wards  round 3/3" in err


def test_the_number_of_threads_is_restored(tmp_path: Path) -> None:
    seen: list[int] = []
    before = torch.get_num_threads()
    wardround.run(
        study(),
        out=tmp_path / "run",
        threads=2,
        progress=False,
        on_round=lambda _: seen.append(torch.get_num_threads()),
    )
    assert set(seen) == {2}
    assert torch.get_num_threads() == before
    with pytest.raises(wardround.UsageError, match="threads is 0"):
        wardround.run(study(), out=tmp_path / "other", threads=0)


def test_ledgers_are_written_if_wanted(finished: wardround.StudyResult, tmp_path: Path) -> None:
    result = wardround.run(study(), out=tmp_path / "run", ledgers=True, progress=False)
    assert (tmp_path / "run" / "sites" / "harbour-0000" / "ledger.jsonl").is_file()
    assert result.scores == finished.scores
