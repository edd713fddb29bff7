from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from tests.api.workspace import TINY
from tests.models.tiny import notes

import wardround
from wardround import Corpus
from wardround.errors import CorpusWarning

CORPUS = Corpus({"train": notes(20, seed=1), "dev": notes(8, seed=2), "test": notes(8, seed=3)})
TRAINING: Any = {"epochs": 2, "learning_rate": 0.02}


def train(out: Path, **changes: Any) -> wardround.TrainingResult:
    settings = {"model": TINY, "training": TRAINING, "progress": False, **changes}
    return wardround.train(settings.pop("data", CORPUS), out=out, **settings)


class Killed(Exception):
    """Stands for the end of a process."""


def test_a_result_has_scores_tables_charts_model_and_report(tmp_path: Path) -> None:
    result = train(tmp_path / "run", training={"epochs": 6, "learning_rate": 0.02})
    strict = result.scores["strict"]
    assert set(strict) == {"precision", "recall", "f1", "low", "high"}
    assert strict["low"] <= strict["f1"] <= strict["high"]
    assert result.scored_on == "test"
    assert result.report().is_file()
    assert result.model.types == ("ADE", "Drug")
    assert [chart.name for chart in result.charts] == ["f1-by-type", "development-f1", "training-loss"]
    shown = result._repr_html_()
    assert shown.count("<table>") == len(result.tables)
    assert shown.count("data:image/svg+xml") == 3
    assert result.warnings == ()


def test_the_scores_are_those_of_the_model_on_the_test_notes(tmp_path: Path) -> None:
    result = train(tmp_path / "run", training={"epochs": 6, "learning_rate": 0.02})
    again = wardround.evaluate(result.model, CORPUS)
    assert again.scores["strict"] == result.scores["strict"]
    assert wardround.evaluate(tmp_path / "run", CORPUS).scores == again.scores
    assert wardround.evaluate(result.model, list(CORPUS.test)).scores == again.scores


def test_the_same_seed_gives_the_same_scores(tmp_path: Path) -> None:
    first, again, other = (train(tmp_path / name, seed=seed) for name, seed in (("a", 1), ("b", 1), ("c", 2)))
    loss = [[record.loss for record in result.outcome.records] for result in (first, again, other)]
    assert loss[0] == loss[1] != loss[2]
    assert first.scores == again.scores


def test_a_finished_training_is_not_trained_again(tmp_path: Path) -> None:
    first = train(tmp_path / "run")
    again = train(tmp_path / "run")
    assert again.scores == first.scores
    assert [record.seconds for record in again.outcome.records] == [record.seconds for record in first.outcome.records]


def test_an_interrupted_training_resumes_to_the_same_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = train(tmp_path / "whole", training={**TRAINING, "epochs": 4})

    def killed(folder: object, kind: str, values: object) -> None:
        if kind == "epoch":
            raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr("wardround.studies.run_folder.RunFolder.log", killed)
        train(tmp_path / "run", training={**TRAINING, "epochs": 4})
    resumed = train(tmp_path / "run", training={**TRAINING, "epochs": 4})
    assert resumed.scores == whole.scores
    assert [record.loss for record in resumed.outcome.records] == [record.loss for record in whole.outcome.records]


def test_another_training_does_not_resume_in_the_same_folder(tmp_path: Path) -> None:
    train(tmp_path / "run")
    with pytest.raises(wardround.TrainingError, match="run"):
        train(tmp_path / "run", seed=1)


def test_data_may_be_a_path_documents_or_a_corpus(tmp_path: Path) -> None:
    path = wardround.write(CORPUS, tmp_path / "notes", "brat")
    by_path = train(tmp_path / "a", data=path, format="brat")
    assert by_path.scores == train(tmp_path / "b").scores
    assert by_path.tables[0].title == "fedner on notes, test"


def test_notes_that_are_not_split_are_scored_on_a_development_part_with_a_warning(tmp_path: Path) -> None:
    with pytest.warns(CorpusWarning, match="the corpus is not split") as caught:
        result = train(tmp_path / "run", data=notes(30), progress=True)
    assert result.scored_on == "dev"
    assert result.warnings == ("the corpus is not split: it is scored on a development part",)
    assert caught[0].filename.endswith("test_one_site.py")


def test_without_progress_warnings_are_only_in_the_result(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = train(tmp_path / "run", data=notes(30))
    assert len(result.warnings) == 1
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_without_progress_nothing_is_printed_even_by_libraries(tmp_path: Path) -> None:
    code = f"""
import wardround
corpus = wardround.hospitals()["hillside"].first(3)
out = {str(tmp_path / "run")!r}
wardround.train(corpus, out=out, encoder="minilm", training={{"epochs": 1}}, progress=False)
model = wardround.load(out)
model("Aspirin caused a rash.")
wardround.evaluate(model, corpus)
"""
    done = subprocess.run([sys.executable, "-W", "default", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (done.stdout, done.stderr) == ("", "")


def test_progress_is_shown_by_default_on_standard_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    wardround.train(CORPUS, out=tmp_path / "run", model=TINY, training=TRAINING)
    out, err = capfd.readouterr()
    assert out == ""
    assert "run" in err and "F1" in err


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"data": "notes"}, wardround.UsageError, 'notes needs a format: for example format="brat"'),
        ({"data": "nowhere", "format": "brat"}, wardround.CorpusError, "nowhere: does not exist"),
        ({"data": CORPUS[0]}, wardround.UsageError, "put a single one in a list"),
        ({"data": ["Aspirin."]}, wardround.UsageError, "notes are documents, not str"),
        ({"data": []}, wardround.WardroundError, "no entity to learn from"),
        ({"data": Corpus({"test": CORPUS.test})}, wardround.TrainingError, "no training part"),
        ({"task": "nre"}, wardround.UsageError, "'nre'.* – did you mean 'ner'"),
        ({"task": "relations"}, wardround.UsageError, "no relation to learn from"),
        ({"preset": "fednre"}, wardround.ModelError, "did you mean 'fedner'"),
        ({"model": {"lsmt": 8}}, wardround.UsageError, "'lsmt' is not an option of .* – did you mean 'lstm'"),
        ({"model": {"lstm": "many"}}, wardround.UsageError, "lstm"),
        ({"training": {"epoch": 2}}, wardround.UsageError, "'epoch' is not an option of the training – did you mean"),
        ({"training": {"epochs": 0}}, wardround.WardroundError, "epochs is 0"),
        ({"types": ["drug"]}, wardround.UsageError, "no training note has the type 'drug'.* there are ADE, Drug"),
        ({"tag_set": "hippa"}, wardround.UsageError, "hippa"),
        ({"device": "gpu"}, wardround.UsageError, "'gpu' is not a device"),
        ({"track": ["tensorbord"]}, wardround.UsageError, "tensorbord"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_wrong_use_is_refused_before_anything_is_trained(
    tmp_path: Path, changes: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        train(tmp_path / "run", **changes)
    assert not (tmp_path / "run" / "model").exists()


def test_an_unknown_keyword_is_a_type_error(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="epochs"):
        wardround.train(CORPUS, out=tmp_path, epochs=3)  # type: ignore[call-arg]


def test_results_become_data_frames(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    evaluation = wardround.evaluate(train(tmp_path / "run").model, CORPUS)
    frame = evaluation.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame["type"]) == ["ADE", "Drug", "micro", "macro"]
    assert frame.set_index("type").loc["micro", "strict F1"] == evaluation.scores["strict"]["f1"]
    with pytest.raises(wardround.UsageError, match="there is no table 1; there are 1, the first is 0"):
        evaluation.to_frame(1)


def test_without_pandas_the_error_says_what_to_install(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(wardround.UsageError, match=r"to_frame needs pandas: pip install 'wardround\[notebook\]'"):
        wardround.evaluate(workspace / "model", CORPUS).to_frame()


def test_an_evaluation_has_tables_charts_and_a_page(workspace: Path, tmp_path: Path) -> None:
    evaluation = wardround.evaluate(workspace / "model", CORPUS)
    assert [chart.name for chart in evaluation.charts] == ["f1-by-type"]
    assert len(evaluation.details) == 2
    page = evaluation.report(tmp_path / "page.html")
    assert page.read_text(encoding="utf-8").count("<svg") == 0
    assert "data:image/svg+xml" in page.read_text(encoding="utf-8")
    assert repr(evaluation) == "Evaluation(title='model on notes')"


def test_a_corpus_without_a_test_part_is_not_evaluated(workspace: Path) -> None:
    with pytest.raises(wardround.UsageError, match="has parts called train, dev but none called test"):
        wardround.evaluate(workspace / "model", Corpus({"train": CORPUS.train, "dev": CORPUS.dev}))


def test_no_notes_have_no_scores(workspace: Path) -> None:
    evaluation = wardround.evaluate(workspace / "model", [])
    assert evaluation.scores["strict"]["f1"] == 0
    assert "low" not in evaluation.scores["strict"]
    assert evaluation.charts == ()


def test_a_transfer_says_what_happened_to_each_layer(workspace: Path, tmp_path: Path) -> None:
    result = wardround.transfer(workspace / "run", CORPUS, out=tmp_path / "run", training={"epochs": 1}, progress=False)
    assert result.transferred[0].columns[0] == "layer"
    assert result.tables[0].title == "run transferred to notes, test"
    assert wardround.load(tmp_path / "run").card["notes"]["transfer"]
    again = wardround.transfer(workspace / "run", CORPUS, out=tmp_path / "run", training={"epochs": 1}, progress=False)
    assert again.scores == result.scores


def test_a_transfer_names_an_unknown_layer(workspace: Path, tmp_path: Path) -> None:
    with pytest.raises(wardround.WardroundError, match="lsmt"):
        wardround.transfer(workspace / "model", CORPUS, out=tmp_path / "run", up_to="lsmt", progress=False)
