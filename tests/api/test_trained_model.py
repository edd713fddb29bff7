from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.models.tiny import notes

import wardround
from wardround import Document, Entity, Model
from wardround.evaluation.calibration import Calibration, calibration_error, judge
from wardround.text.document import Range

TEXTS = [note.text for note in notes(20, seed=9)]


def scored(note: Document) -> list[tuple[Any, ...]]:
    return [(entity.type, entity.ranges, entity.score) for entity in note.entities]


@pytest.fixture(scope="module")
def model(workspace: Path) -> Model:
    return wardround.load(workspace / "model")


def test_a_text_becomes_a_document_with_scored_entities(model: Model) -> None:
    found = model(TEXTS[0])
    assert (found.id, found.text) == ("1", TEXTS[0])
    assert {entity.type for entity in found.entities} <= {"ADE", "Drug"}
    assert found.entities
    assert all(entity.score is not None and 0 < entity.score < 1 for entity in found.entities)


def test_annotation_of_a_document_is_replaced(model: Model) -> None:
    given = Document("n1", TEXTS[0], (Entity("X1", "Finding", (Range(0, 4),)),), attributes=(("ward", "3"),))
    found = model(given)
    assert (found.id, found.text, found.attributes) == (given.id, given.text, given.attributes)
    assert "Finding" not in {entity.type for entity in found.entities}


def test_an_empty_text_has_no_entities(model: Model) -> None:
    assert model("").entities == ()
    assert list(model.pipe([])) == []


def test_the_stream_is_in_order_whatever_the_batch_size(model: Model) -> None:
    one = [model(text) for text in TEXTS]
    for size in (1, 3, 64):
        several = list(model.pipe(TEXTS, batch_size=size))
        assert [note.id for note in several] == [str(number) for number in range(1, len(TEXTS) + 1)]
        for left, right in zip(one, several, strict=True):
            assert [item[:2] for item in scored(left)] == [item[:2] for item in scored(right)]
            assert [item[2] for item in scored(left)] == pytest.approx([item[2] for item in scored(right)], abs=1e-5)


def test_the_stream_reads_no_more_than_a_batch_ahead(model: Model) -> None:
    read: list[str] = []

    def texts() -> Any:
        for text in TEXTS:
            read.append(text)
            yield text

    next(model.pipe(texts(), batch_size=4))
    assert len(read) == 4


def test_wrong_use_of_a_model_is_refused_at_once(model: Model) -> None:
    with pytest.raises(wardround.UsageError, match="batch_size is 0; it must be above zero"):
        model.pipe(TEXTS, batch_size=0)
    with pytest.raises(wardround.UsageError, match="pipe reads several texts: pass a list"):
        model.pipe("The patient took aspirin.")
    with pytest.raises(wardround.UsageError, match=r"a note is a text or a wardround\.Document, not int"):
        model(3)  # type: ignore[arg-type]
    with pytest.raises(wardround.UsageError, match=r"a note is a text or .*, not bytes"):
        list(model.pipe([b"Aspirin."]))  # type: ignore[list-item]


def test_a_saved_model_predicts_the_same_with_the_same_scores(model: Model, tmp_path: Path) -> None:
    saved = model.save(tmp_path / "copy")
    assert saved == tmp_path / "copy"
    again = wardround.load(saved)
    assert [scored(note) for note in again.pipe(TEXTS)] == [scored(note) for note in model.pipe(TEXTS)]
    assert again.types == model.types
    assert again.is_calibrated == model.is_calibrated
    third = wardround.load(again.save(tmp_path / "copy-of-copy"))
    assert third.card == again.card


def test_scores_are_calibrated_with_what_the_card_says(model: Model, workspace: Path) -> None:
    assert model.is_calibrated
    card = json.loads((workspace / "model" / "wardround.json").read_text(encoding="utf-8"))
    noted = card["notes"]["calibration"]["entities"]
    assert noted["predictions"] >= 20
    raw = Model(model.task)
    assert not raw.is_calibrated
    pairs = [
        (mine.score, own.score)
        for left, right in zip(model.pipe(TEXTS), raw.pipe(TEXTS), strict=True)
        for mine, own in zip(left.entities, right.entities, strict=True)
    ]
    assert pairs
    calibration = Calibration(noted["slope"], noted["intercept"])
    assert [mine for mine, _ in pairs] == pytest.approx([calibration(own) for _, own in pairs])


@pytest.mark.slow
def test_calibration_does_not_make_test_scores_worse_at_built_in_hospitals(tmp_path: Path) -> None:
    """Fitted on about fifteen development notes, measured on the test notes."""
    network = {"word_dimension": 50, "word_buckets": 4096, "character_width": 16, "word_cnn": 50, "lstm": 50}
    training = {"epochs": 25, "batch_size": 16, "learning_rate": 0.004}
    before, after = [], []
    for name in ("harbour", "hillside"):
        corpus = wardround.hospitals()[name]
        result = wardround.train(corpus, out=tmp_path / name, model=network, training=training, progress=False)
        assert result.model.is_calibrated
        for model, errors in ((Model(result.model.task), before), (result.model, after)):
            judged = judge(zip(model.pipe(corpus.test), corpus.test, strict=True), corpus.types)["entities"]
            errors.append(calibration_error(judged.probabilities, judged.right))
    assert sum(after) < sum(before)


def test_the_readme_of_a_folder_is_a_model_card(model: Model, tmp_path: Path) -> None:
    readme = (model.save(tmp_path / "my model") / "README.md").read_text(encoding="utf-8")
    found = re.match(r"---\n(.*?)\n---\n", readme, re.DOTALL)
    assert found
    values = {key: json.loads(value) for key, value in (line.split(": ", 1) for line in found[1].split("\n"))}
    assert values["library_name"] == "wardround"
    assert values["pipeline_tag"] == "token-classification"
    assert all(isinstance(tag, str) for tag in values["tags"])
    assert "# my model\n" in readme
    assert "calibration error" in readme


def test_the_program_in_the_readme_runs(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readme = (model.save(tmp_path / "drugs") / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})  # noqa: S102


def test_the_readme_of_a_published_model_does_not_change_what_is_loaded(model: Model, tmp_path: Path) -> None:
    folder = model.save(tmp_path / "copy")
    (folder / "README.md").unlink()
    assert wardround.load(folder).types == model.types


def test_a_folder_with_other_files_is_not_replaced(model: Model, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(wardround.ModelError, match="contains files that are not a model"):
        model.save(tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").exists()


def test_a_run_folder_is_loaded_as_the_model_in_it(workspace: Path) -> None:
    assert wardround.load(workspace / "run").types == ("ADE", "Drug")


def test_a_folder_without_a_model_is_named_with_a_remedy(workspace: Path, tmp_path: Path) -> None:
    with pytest.raises(wardround.ModelError, match=r"^notes holds no model: name the folder that a training wrote"):
        wardround.load(workspace / "notes")


def test_what_is_no_folder_and_cannot_be_downloaded_is_named_with_a_remedy() -> None:
    with pytest.raises(wardround.ModelError, match=r"no folder 'nowhere'.*wardround\.train"):
        wardround.load("nowhere")


def test_a_wrong_device_is_refused(workspace: Path) -> None:
    with pytest.raises(wardround.UsageError, match="'gpu' is not a device; use auto, cpu, cuda or cuda:N"):
        wardround.load(workspace / "model", device="gpu")


@pytest.mark.parametrize("calibration", [3, {"entities": 3}, {"entities": {"slope": -1.0, "intercept": 0.0}}])
def test_a_damaged_calibration_leaves_the_scores_of_the_model(model: Model, tmp_path: Path, calibration: Any) -> None:
    folder = model.save(tmp_path / "copy")
    card = json.loads((folder / "wardround.json").read_text(encoding="utf-8"))
    card["notes"]["calibration"] = calibration
    (folder / "wardround.json").write_text(json.dumps(card), encoding="utf-8")
    damaged = wardround.load(folder)
    assert not damaged.is_calibrated
    assert "calibration error" not in damaged._repr_html_()
    damaged.save(tmp_path / "again")


def test_a_model_describes_itself(model: Model) -> None:
    assert repr(model) == "Model(word-tagger: ADE, Drug)"
    assert "<table>" in model._repr_html_()
    assert model.to("cpu") is model
