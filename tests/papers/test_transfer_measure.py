from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import tomli_w
from tests.papers.modules import fixture_of

from wardround.corpora.jsonl import Jsonl
from wardround.corpora.synthetic import PhiConfig, phi_hospitals
from wardround.models.transfer import load_source
from wardround.text.document import Document
from wardround.text.tag_sets import TagSet

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path("/work/sources")
TINY = PhiConfig(source_notes=(8, 2, 2), target_notes=(10, 2, 3))


make_sites, studies = fixture_of("transfer.make_sites"), fixture_of("transfer.studies")
one_run = fixture_of("transfer.one_run")


def described() -> dict[str, Any]:
    """800 sentences for training at each site, 100 to stop by, 200 to test on."""
    parts = {"train": {"sentences": 800}, "dev": {"sentences": 100}, "test": {"sentences": 200}}
    site = {"types": ["PATIENT"], **parts}
    return {
        "meddocan": {name: site for name in ("source", "target", "official")},
        "synthetic": {name: site for name in ("source", "target")},
        "presidio": {"target": site},
    }


@pytest.fixture
def sites(make_sites: ModuleType, tmp_path: Path) -> Any:
    return make_sites.TransferSites(tmp_path, described())


def studies_of(studies: ModuleType, sites: Any, **changes: Any) -> dict[str, Any]:
    sweep = studies.Transfer(studies.Settings(**changes), sites, sources=SOURCES)
    return {name: sweep.study(variation, 3) for name, variation in studies.VARIATIONS.items()}


# Variations.


def test_every_point_of_the_figures_is_there(studies: ModuleType) -> None:
    counted = {
        table: sum(v.seeds for v in studies.VARIATIONS.values() if table in v.tables)
        for table in ("sources", "official", "experiment1", "experiment2-meddocan", "experiment2-synthetic")
    }
    # 6 sizes x with and without x (2 x 5 + 3 seeds); (none and all x 5 seeds, 5 layers between x 3) x 3 and 5 sizes.
    assert counted == {
        **{"sources": 2, "official": 2, "experiment1": 156},
        **{"experiment2-meddocan": 3 * 25, "experiment2-synthetic": 5 * 25},
    }


def test_trainings_with_and_without_transfer_differ_in_nothing_else(studies: ModuleType, sites: Any) -> None:
    made = studies_of(studies, sites)
    fresh, lower, full = (made[f"synthetic-010-{layer}"] for layer in ("none", "token-lstm", "all"))
    model = str(SOURCES / "source-synthetic-seed-0" / "model")
    assert fresh["transfer"] == {"source": "", "up_to": ""}
    assert lower["transfer"] == {"source": model, "up_to": "dense"}
    assert full["transfer"] == {"source": model, "up_to": "crf"}
    same = {json.dumps({**study, "study": {}, "transfer": {}}) for study in (fresh, lower, full)}
    assert len(same) == 1 and fresh["site"]["fraction"] == 0.1


def test_presidio_starts_from_the_source_of_the_hospitals(studies: ModuleType, sites: Any) -> None:
    made = studies_of(studies, sites)
    assert made["presidio-100-all"]["transfer"] == made["synthetic-100-all"]["transfer"]
    assert made["presidio-100-all"]["model"]["vectors"] == str(sites.path / "english.npz")
    assert made["meddocan-100-all"]["model"]["vectors"] == ""


def test_only_models_that_somebody_needs_are_kept(studies: ModuleType, sites: Any) -> None:
    kept = {name for name, study in studies_of(studies, sites).items() if study["keep_model"]}
    assert kept == {"source-meddocan", "source-synthetic", "official-sgd", "official-adam"}


def test_recipes(studies: ModuleType, sites: Any) -> None:
    made = studies_of(studies, sites, epochs=9, official_epochs=7)
    paper = {"optimizer": "sgd", "schedule": "constant", "batch_size": 8, "learning_rate": 0.1}
    rest = {"patience": 10, "least": 400}
    assert made["meddocan-005-all"]["training"] == {**paper, **rest, "epochs": 9}
    assert made["official-sgd"]["training"] == {**paper, **rest, "epochs": 7}
    adam = {"optimizer": "adam", "schedule": "linear", "batch_size": 32, "learning_rate": 0.002}
    assert made["official-adam"]["training"] == {**adam, **rest, "epochs": 7}


def test_the_guess_by_hand(studies: ModuleType, sites: Any) -> None:
    sweep = studies.Transfer(studies.Settings(epochs=10), sites, sources=SOURCES)
    guess = {
        name: sweep.estimate(studies.VARIATIONS[f"synthetic-{name}"], 0) for name in ("005-none", "100-none", "100-all")
    }
    # 6 epochs of 10, or 3.5; of 40 sentences 400 are made, 50 steps of 14 ms; of 800, 100 steps; 0.8 ms for each read.
    assert guess["005-none"] == pytest.approx(8 + 6 * (50 * 0.014 + 0.08) + 0.16)
    assert guess["100-none"] == pytest.approx(8 + 6 * (100 * 0.014 + 0.08) + 0.16)
    assert guess["100-all"] == pytest.approx(8 + 3.5 * (100 * 0.014 + 0.08) + 0.16)


# Runs.


def test_seeds_are_those_of_each_training(studies: ModuleType, sites: Any) -> None:
    wanted = ["meddocan-005-none", "meddocan-005-character-lstm", "official"]
    sweep = studies.Transfer(studies.Settings(), sites, sources=SOURCES)
    runs = sweep.runs(wanted)
    assert [(run.variation, run.seed) for run in runs] == [
        *(("meddocan-005-none", seed) for seed in range(5)),
        *(("meddocan-005-character-lstm", seed) for seed in range(3)),
        *(("official-sgd", 0), ("official-adam", 0)),
    ]
    assert [run.seed for run in sweep.runs(wanted, [0, 4])] == [0, 4, 0, 0, 0]


def test_a_missing_source_model_is_reported(studies: ModuleType, sites: Any, tmp_path: Path) -> None:
    sweep = studies.Transfer(studies.Settings(), sites, sources=tmp_path)
    wanted = sweep.picked(["presidio-005-all", "synthetic-005-none"])
    with pytest.raises(SystemExit, match="no model of source-synthetic: run --only sources"):
        sweep.check_files(wanted)
    (tmp_path / "source-synthetic-seed-0" / "model").mkdir(parents=True)
    sweep.check_files(wanted)


# One run.


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tiny hospitals."""
    folder = tmp_path_factory.mktemp("sites")
    for name, hospital in zip(("source", "target"), phi_hospitals(0, config=TINY), strict=True):
        for part in ("train", "dev", "test"):
            Jsonl().write(getattr(hospital, part), folder / name / f"{part}.jsonl.gz")
    return folder


def request_of(one_run: ModuleType, folder: Path, data: Path, *, source: str = "", fraction: float = 1.0) -> Any:
    told = {
        "study": {"name": "x", "seed": 1},
        "site": {"data": str(data), "fraction": fraction},
        "model": {"preset": "transfer", "vectors": ""},
        "transfer": {"source": source, "up_to": "dense" if source else ""},
        "training": {"epochs": 1, "batch_size": 8, "optimizer": "sgd", "learning_rate": 0.1, "least": 50},
        "keep_model": not source,
    }
    folder.mkdir()
    (folder / "asked.toml").write_text(tomli_w.dumps(told))
    return one_run.TrainingRequest.read(folder / "asked.toml")


def test_a_target_starts_from_the_model_of_a_source(one_run: ModuleType, made: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    found = one_run.run(request_of(one_run, first, made / "source"), first, "cpu")
    assert (found["notes"], found["rounds"], found["best_round"], found["layers"]) == (8, 1, 1, [])
    # A word that the network doubts is hidden beside all that it finds.
    assert found["recall_first"]["words"][0] >= found["leakage"]["words"][0]
    assert sum(found["recall_first"]["words"][::2]) == sum(found["leakage"]["words"][::2])
    source = str(first / "model")
    found = one_run.run(request_of(one_run, second, made / "target", source=source, fraction=0.5), second, "cpu")
    how = {layer["layer"]: layer["how"] for layer in found["layers"]}
    assert how["words"] == how["lstm"] == how["dense"] == "copied" and how["output"] == how["crf"] == "fresh"
    assert found["notes"] == 5 and found["leakage"]["notes"] == 3 and not (second / "model").exists()
    right, wrong, missed = found["strict"]
    assert right + missed == found["leakage"]["mentions"]["mentions"] and wrong >= 0


def test_few_sentences_are_repeated_within_an_epoch(
    one_run: ModuleType, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    class Counting:
        records = ()

        def __init__(self, task: Any, config: Any, *, train: Any, dev: Any) -> None:
            seen.append(len(train))

        def run(self) -> list[None]:
            return []

    monkeypatch.setattr(one_run, "TrainingLoop", Counting)
    request = request_of(one_run, tmp_path / "x", made / "target")
    notes = one_run.load_site(request.data, Jsonl()).data
    task = one_run.NerTask(one_run.network(request, TagSet.of(notes.train))[0])
    one_run.trained(task, notes, replace(request, keep_model=False), tmp_path)
    sentences = len(task.encode(notes.train))
    # As often as it takes to have 50.
    assert seen == [sentences * -(-50 // sentences)] and sentences <= seen[0] < 50 + sentences


def test_a_type_that_no_training_note_had_counts_as_missed(one_run: ModuleType, made: Path, tmp_path: Path) -> None:
    request = request_of(one_run, tmp_path / "x", made / "target")
    network, _ = one_run.network(request, TagSet(("AGE",)))
    notes: list[Document] = list(Jsonl().read(made / "target" / "test.jsonl.gz"))
    found = one_run.scores(one_run.NerTask(network), notes)
    mentions = sum(len(note.entities) for note in notes)
    assert found["strict"][0] + found["strict"][2] == mentions
    assert found["types"]["DOCTOR"][2] == sum(entity.type == "DOCTOR" for note in notes for entity in note.entities)


@pytest.mark.slow
def test_a_tiny_measurement_runs_to_its_results(make_sites: ModuleType, made: Path, tmp_path: Path) -> None:
    sites, out = tmp_path / "sites", tmp_path / "out"
    parts = {
        name: {part: list(Jsonl().read(made / name / f"{part}.jsonl.gz")) for part in ("train", "dev", "test")}
        for name in ("source", "target")
    }
    make_sites.write_sites({"meddocan": {**parts, "official": parts["source"]}}, sites)
    asked = ["--sites", str(sites), "--out", str(out), "--tiny", "--device", "cpu"]
    for only in ("source-meddocan", "meddocan-040-all,meddocan-040-none"):
        command = [sys.executable, "-m", "papers.measure", "transfer", *asked, "--only", only, "--seeds", "0"]
        subprocess.run(command, check=True, cwd=ROOT)
    runs = json.loads((out / "results.json").read_text())["runs"]
    assert [run["variation"] for run in runs] == ["meddocan-040-all", "meddocan-040-none", "source-meddocan"]
    assert runs[0]["notes"] == runs[1]["notes"] == 4 and len(runs[0]["layers"]) == 7
    assert load_source(out / "source-meddocan-seed-0" / "model").tag_set == TagSet.of(parts["source"]["train"])
