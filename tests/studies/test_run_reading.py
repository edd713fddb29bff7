from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import pytest
from tests.models.tiny import notes, quick_tagger
from tests.studies.distilled_studies import distilled, related, write_notes
from tests.studies.protected_studies import shielded
from tests.studies.tiny_studies import learnable, of_algorithm, run, tiny

from wardround.errors import UsageError
from wardround.privacy.mechanism_table import MECHANISMS
from wardround.reports.run_record import RunRecord
from wardround.settings import OldNameWarning
from wardround.studies.run_folder import RunFolder
from wardround.studies.run_reading import read_run, run_folder_at, with_examples, write_own_report
from wardround.studies.single_site import SiteData, train_at_one_site
from wardround.studies.study_notes import built_in_hospital
from wardround.tasks.ner import NerTask
from wardround.training.training_config import TrainingConfig


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "tiny-run"
    run(tiny(), path)
    return path


@pytest.fixture(scope="module")
def record(folder: Path) -> RunRecord:
    return read_run(folder)


def test_scores_are_those_of_the_folder(folder: Path, record: RunRecord) -> None:
    written = json.loads((folder / "scores.json").read_text())
    assert list(record.sites) == list(written["sites"]) == ["harbour", "hillside"]
    for name, site in record.sites.items():
        said = written["sites"][name]
        assert site.documents == said["documents"]
        assert site.interval.estimate == said["strict"]["f1"]
        assert [site.interval.low, site.interval.high] == said["strict"]["interval"]
        assert {reading: typed.micro.figures() for reading, typed in site.counts.items()} == {
            reading: {key: value for key, value in said[reading].items() if key != "interval"}
            for reading in ("strict", "relaxed")
        }
        assert {kind: [found.low, found.high] for kind, found in site.type_intervals.items()} == {
            kind: by["strict"]["interval"] for kind, by in said["types"].items() if "strict" in by
        }
        assert site.tag_set is not None
    assert (record.best, record.up) == (written["best_round"], written["traffic"]["up"])


def test_every_byte_is_in_some_exchange(folder: Path, record: RunRecord) -> None:
    written = json.loads((folder / "scores.json").read_text())["traffic"]
    costs = [cost for sites in record.history.costs.values() for cost in sites.values()]
    assert sum(cost.up for cost in costs) == written["up"]
    assert sum(cost.down for cost in costs) == written["down"]
    assert all(0 < cost.worked <= cost.seconds for cost in costs)


def test_what_is_known_of_the_run(record: RunRecord) -> None:
    assert (record.name, record.title, record.seed, record.mode) == ("tiny-run", "Study tiny", 7, "strict")
    assert dict(record.facts)["shared layers"] == "words, word_cnn"
    assert [len(found) for found in record.notes.values()] == [site.documents for site in record.sites.values()]
    assert (record.privacy.mechanism, record.privacy.sends) == (MECHANISMS["plain"], "updates")


def test_ledgers_are_verified(folder: Path, record: RunRecord) -> None:
    assert [ledger.site for ledger in record.privacy.ledgers] == ["harbour", "hillside"]
    for ledger in record.privacy.ledgers:
        head = folder / "sites" / ledger.site / "ledger.jsonl.head"
        assert ledger.head == head.read_text().strip()
        assert ledger.bytes_out == sum(sites[ledger.site].up for sites in record.history.costs.values())


def test_a_ledger_that_was_touched_has_no_head(tmp_path: Path) -> None:
    run(tiny(algorithm={"rounds": 1}), tmp_path)
    ledger = tmp_path / "sites" / "harbour" / "ledger.jsonl"
    ledger.write_text(ledger.read_text().replace('"round":1', '"round":2'))
    assert [found.head == "" for found in read_run(tmp_path).privacy.ledgers] == [True, False]


def test_the_study_names_no_path(tmp_path: Path) -> None:
    study = shielded(tmp_path / "notes", "masked", algorithm={"rounds": 2})
    run(study, tmp_path / "run")
    record = read_run(tmp_path / "run")
    assert str(tmp_path) in (tmp_path / "run" / "study.toml").read_text()
    assert str(tmp_path) not in record.study
    assert (record.privacy.mechanism, record.privacy.minimum_sites) == (MECHANISMS["masked"], 3)
    assert all(found.clipped is not None for found in record.history.rounds)
    assert {"submit", "unmask"} <= record.history.costs.keys()


def test_of_synthetic_sites_the_study_says_so(record: RunRecord) -> None:
    assert 'built_in = "harbour-0000"' in record.study


@pytest.mark.parametrize(("name", "given"), [("single", "nothing"), ("pooled", "notes"), ("fedavg", "updates")])
def test_what_left_a_site_by_algorithm(tmp_path: Path, name: str, given: str) -> None:
    run(of_algorithm(name, algorithm={"rounds": 1}), tmp_path)
    assert read_run(tmp_path).privacy.sends == given


def test_a_study_of_predictions(tmp_path: Path) -> None:
    write_notes(tmp_path)
    run(distilled(tmp_path, algorithm={"rounds": 2}), tmp_path / "run")
    record = read_run(tmp_path / "run")
    assert record.privacy.sends == "predictions"
    assert str(tmp_path) not in record.study and 'encoder = "encoder"' in record.study
    assert dict(record.facts)["model"] == "encoder"
    assert record.mode == "relations"
    assert "teacher_accuracy" in {name.rpartition("/")[2] for name in record.history.rounds[0].figures}


def test_a_training_at_one_site(tmp_path: Path) -> None:
    data = SiteData(notes(12), notes(4, seed=1), notes(5, seed=2))
    config = TrainingConfig(epochs=2, batch_size=4, learning_rate=0.02, seed=3)
    outcome = train_at_one_site(NerTask(quick_tagger()), data, config, folder=RunFolder(tmp_path / "alone"))
    record = read_run(tmp_path / "alone")
    assert (record.name, record.seed, record.privacy.sends) == ("alone", 3, "alone")
    assert record.sites["alone"].interval == outcome.f1["strict"]
    assert [epoch.epoch for epoch in record.history.epochs] == [1, 2]
    assert len(record.notes["alone"]) == 5
    assert dict(record.facts) == {"what": "a training at one site", "model": "word-tagger", "types": "ADE, Drug"}
    assert record.no_excerpts


def test_a_run_that_has_not_finished(tmp_path: Path) -> None:
    RunFolder(tmp_path).log("started", {"round": 0})
    assert read_run(tmp_path).sites == {}


def test_a_study_that_has_not_finished_is_read_as_its_task_is(tmp_path: Path) -> None:
    RunFolder(tmp_path).log("started", {"round": 0})
    for task, reading in (
        ("", "strict"),
        ('[task]\nkind = "relations"\nrelations.causes = [["Drug", "ADE"]]\n', "relations"),
    ):
        (tmp_path / "study.toml").write_text(f'[study]\nname = "s"\n{task}[sites.a]\n')
        assert read_run(tmp_path).mode == reading


def test_a_run_folder_given_as_a_dot_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    RunFolder(tmp_path / "alone").log("started", {})
    monkeypatch.chdir(tmp_path / "alone")
    record = read_run(Path())
    assert (record.name, record.title) == ("alone", "Training alone")
    (tmp_path / "alone" / "events.jsonl").unlink()
    with pytest.raises(UsageError, match=r"^alone is not a run folder"):
        read_run(Path())


def test_figures_that_another_version_writes_make_no_report_fail(tmp_path: Path) -> None:
    row = {"event": "round", "round": 1, "loss": None, "exchanges": {"train": {"h": [1, 2, 3.0, 0.5, 9]}}}
    (tmp_path / "events.jsonl").write_text(json.dumps(row) + "\n")
    assert read_run(tmp_path).history.rounds[0].up == 0


def test_a_run_folder_of_version_0_1_is_read_without_a_warning(folder: Path, tmp_path: Path) -> None:
    """Version 0.1 wrote `clip`, empty by default, into the study file of every run."""
    old = tmp_path / "old"
    shutil.copytree(folder, old)
    text = (old / "study.toml").read_text(encoding="utf-8")
    assert text.count("[privacy.value_bounds]") == 1
    (old / "study.toml").write_text(text.replace("[privacy.value_bounds]", "[privacy.clip]"), encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("error", OldNameWarning)
        assert read_run(old).study.count("[privacy.clip]") == 1


def test_the_folder_of_a_coordinator_is_in_its_kit(tmp_path: Path) -> None:
    RunFolder(tmp_path / "kit" / "run").log("started", {"round": 0})
    assert run_folder_at(tmp_path / "kit") == tmp_path / "kit" / "run"


def test_a_folder_that_is_not_a_run_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is not a run folder: it contains neither events.jsonl nor scores.json"):
        read_run(tmp_path)
    for text in ("no json", "[]", '{"sites": {"a": {}}}', '{"sites": {"a": {"strict": 3, "types": {}}}}'):
        (tmp_path / "scores.json").write_text(text)
        (tmp_path / "study.toml").write_text('[study]\nname = "s"\n[sites.a]\ntypes = ["Drug"]\n')
        with pytest.raises(UsageError, match=r"scores.json"):
            read_run(tmp_path)
    (tmp_path / "scores.json").write_text("{}")
    for line in ("[1]", '{"event": "round", "round": "x"}', '{"event": "round", "round": 1, "exchanges": {"a": 3}}'):
        (tmp_path / "events.jsonl").write_text(line + "\n")
        with pytest.raises(UsageError, match=r"events.jsonl contains a line that Wardround did not write"):
            read_run(tmp_path)
    (tmp_path / "events.jsonl").unlink()
    (tmp_path / "study.toml").write_text("[study")
    (tmp_path / "scores.json").write_text("{}")
    with pytest.raises(UsageError, match=r"study.toml cannot be read"):
        read_run(tmp_path)


def test_the_report_of_its_own(folder: Path) -> None:
    write_own_report(RunFolder(folder))
    assert "<h1>Study tiny</h1>" in (folder / "report.html").read_text()


# Example predictions.


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "synthetic"
    run(tiny(algorithm={"rounds": 1}), path)
    return path


def shown(path: Path, count: int = 4) -> RunRecord:
    return with_examples(read_run(path), path, count)


def test_notes_of_built_in_hospitals_in_turn(synthetic: Path) -> None:
    record = shown(synthetic)
    assert [found.where.partition(":")[0] for found in record.excerpts] == ["harbour", "hillside"] * 2
    written = {note.text for name in ("harbour-0000", "hillside-0001") for note in built_in_hospital(name, 7).test}
    assert {found.gold.text for found in record.excerpts} <= written
    assert all(found.gold.text == found.predicted.text for found in record.excerpts)
    assert all(found.gold.relations == () for found in record.excerpts)  # nobody looked for any


def test_as_many_as_asked_for(synthetic: Path) -> None:
    assert len(shown(synthetic, 1).excerpts) == 1
    assert shown(synthetic, 0).excerpts == ()


def test_notes_of_a_site_are_never_shown(tmp_path: Path) -> None:
    run(learnable(tmp_path / "notes", algorithm={"rounds": 1}), tmp_path / "run")
    record = shown(tmp_path / "run")
    assert record.excerpts == ()
    assert "notes of a site are never shown" in record.no_excerpts


def test_notes_of_the_public_set_and_no_others(tmp_path: Path) -> None:
    write_notes(tmp_path)
    run(distilled(tmp_path, algorithm={"rounds": 1}), tmp_path / "run")
    record = shown(tmp_path / "run", 20)
    public = {note.text for note in related(8, seed=99)}
    assert record.excerpts and {found.gold.text for found in record.excerpts} <= public
    (tmp_path / "public.jsonl").unlink()
    assert shown(tmp_path / "run").no_excerpts.startswith("None: the folder contains no model")


def test_a_study_without_the_location_of_notes_shows_none(synthetic: Path, tmp_path: Path) -> None:
    """As the coordinator's folder in a networked study: the same files, but a study without paths."""
    text = (synthetic / "study.toml").read_text()
    (synthetic / "study.toml").write_text("\n".join(line for line in text.splitlines() if "built_in" not in line))
    try:
        assert shown(synthetic).excerpts == ()
    finally:
        (synthetic / "study.toml").write_text(text)
