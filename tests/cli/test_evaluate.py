from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.running import DEV, TEST, TRAIN, Run, related_notes, write_site
from tests.models.tiny import TINY
from wardround.corpora.jsonl import Jsonl
from wardround.evaluation.counts import SpanCounts
from wardround.evaluation.entity_scores import CorpusScore
from wardround.evaluation.significance import Measure, intervals
from wardround.models.saved import load_model, save_model
from wardround.models.word_tagger import WordTagger
from wardround.tasks import ner
from wardround.tasks.task_table import task_of
from wardround.text.document import Document, Entity, Range, Relation
from wardround.text.tag_sets import TagSet

OURS = {"Drug": "PATIENT", "ADE": "DATE"}

# A model that has learned the notes is right too often to prove anything; these it has never seen.
STRANGE = Document("strange", "Aspirin for the rash. Ibuprofen gave her nausea and joint pain.")


@pytest.fixture
def strange(tmp_path: Path) -> Path:
    """Notes that the model gets partly wrong, and what they are."""
    return write_site(tmp_path, notes=(*TRAIN[:3], STRANGE)) / "notes"


def score_of(trained: Path, *documents: Document) -> CorpusScore:
    return ner.score(load_model(trained / "model"), documents)


def three(counts: SpanCounts) -> list[str]:
    return [f"{value:.3f}" for value in (counts.precision, counts.recall, counts.f1)]


def test_the_table_holds_the_scores(run: Run, trained: Path, strange: Path) -> None:
    score = score_of(trained, *TRAIN[:3], STRANGE)
    assert 0 < score.strict.micro.f1 < 1, "else the test proves nothing"
    ran = run("evaluate", trained / "model", strange, "--format", "brat", "--device", "cpu")
    assert (ran.code, ran.err) == (0, "")
    for name, strict, relaxed in (
        ("ADE", score.strict["ADE"], score.relaxed["ADE"]),
        ("Drug", score.strict["Drug"], score.relaxed["Drug"]),
        ("micro", score.strict.micro, score.relaxed.micro),
    ):
        assert ran.row(name) == [*three(strict), *three(relaxed), str(strict.gold)]
    assert ran.row("macro")[2] == f"{(score.strict['ADE'].f1 + score.strict['Drug'].f1) / 2:.3f}"
    interval = intervals(score.strict_by_document, [Measure()])[0]
    said = f"Strict micro-F1 {interval.estimate:.3f} (95% interval {interval.low:.3f}–{interval.high:.3f})"
    assert f"{said}; documents: 4." in ran.out
    assert "model on notes" in ran.out
    assert "MUC" not in ran.out


def test_of_a_split_corpus_the_test_part_is_scored(run: Run, trained: Path, site: Path) -> None:
    ran = run("evaluate", trained / "model", site, "--format", "brat")
    score = score_of(trained, *TEST)
    assert ran.row("micro") == [*three(score.strict.micro), *three(score.relaxed.micro), "8"]
    assert "documents: 4." in ran.out


def test_a_split_corpus_without_a_test_part(run: Run, trained: Path, tmp_path: Path) -> None:
    write_site(tmp_path / "ward", train=TRAIN, dev=DEV)
    ran = run("evaluate", trained / "model", tmp_path / "ward", "--format", "brat")
    assert (ran.code, ran.err) == (2, "wardround: ward has parts called train, dev but none called test\n")


def test_the_table_as_csv(run: Run, trained: Path, strange: Path, tmp_path: Path) -> None:
    target = tmp_path / "new" / "scores.csv"
    ran = run("evaluate", trained / "model", strange, "--format", "brat", "--csv", target)
    assert ran.code == 0
    with target.open(newline="") as stream:
        rows = {row["type"]: row for row in csv.DictReader(stream)}
    assert list(rows) == ["ADE", "Drug", "micro", "macro"]
    micro = score_of(trained, *TRAIN[:3], STRANGE).strict.micro
    assert float(rows["micro"]["strict P"]) == micro.precision
    assert float(rows["micro"]["strict F1"]) == micro.f1
    assert int(rows["micro"]["gold"]) == micro.gold == 6
    assert [path.name for path in target.parent.iterdir()] == ["scores.csv"]


def test_details_add_muc_and_confusions(run: Run, trained: Path, strange: Path) -> None:
    ran = run("evaluate", trained / "model", strange, "--format", "brat", "--details")
    assert ran.code == 0
    score = score_of(trained, *TRAIN[:3], STRANGE)
    strict = score.muc.overall.strict
    counts = (strict.correct, strict.incorrect, strict.partial, strict.missed, strict.spurious)
    assert ran.row("all types")[:6] == ["strict", *map(str, counts)]
    spurious = score.confusion.rows()[-1][:-1]
    assert sum(spurious) > 0, "else the test proves nothing"
    assert ran.row("spurious") == [*map(str, spurious), ""]


def test_another_format_scores_the_same(run: Run, trained: Path, strange: Path, tmp_path: Path) -> None:
    Jsonl().write((*TRAIN[:3], STRANGE), tmp_path / "notes.jsonl")
    words = ("evaluate", trained / "model", tmp_path / "notes.jsonl", "--format", "jsonl")
    other = run("evaluate", trained / "model", strange, "--format", "brat")
    ran = run(*words, "--option", "shape=wardround")
    assert ran.row("micro") == other.row("micro")


def test_a_type_the_model_does_not_know_is_left_out(run: Run, trained: Path, tmp_path: Path) -> None:
    entity = TEST[0].entities[0]
    renamed = TEST[0].with_entities([replace(entity, type="Dosage")])
    ran = run("evaluate", trained / "model", write_site(tmp_path, notes=[renamed]), "--format", "brat")
    assert ran.row("micro")[-1] == "0"
    assert "Dosage" not in ran.out


@pytest.mark.parametrize(
    ("form", "said"),
    [("brt", "'brt' is not a format – did you mean 'brat'?"), ("jsonl", "notes: contains no file ending in .jsonl")],
)
def test_what_cannot_be_read_is_refused(run: Run, trained: Path, strange: Path, form: str, said: str) -> None:
    ran = run("evaluate", trained / "model", strange, "--format", form)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"wardround: {said}")


# What redaction would leave readable.


@pytest.fixture
def identifying(tmp_path: Path) -> tuple[Path, Path]:
    """An untrained tagger of names and dates, and notes that call both otherwise."""
    model = WordTagger(TINY, TagSet(("PATIENT", "DATE")))
    save_model(model, tmp_path / "model")
    documents = [TagSet.rename(note, {"Drug": "PERSON", "ADE": "FECHAS"}) for note in TEST]
    return tmp_path / "model", write_site(tmp_path, notes=documents) / "notes"


def test_leakage_is_shown_for_a_model_whose_types_identify_people(run: Run, identifying: tuple[Path, Path]) -> None:
    model, data = identifying
    score = task_of(load_model(model)).score([TagSet.rename(note, OURS) for note in TEST]).leakage
    assert score is not None
    ran = run("evaluate", model, data, "--format", "brat", "--tag-set", "i2b2-2014")
    assert (ran.code, ran.err) == (0, "")
    assert f"{score.exposed_notes} of 4 notes leak a mention" in " ".join(ran.out.split())
    words = score.hiding.words
    assert ran.row("words") == [*three(words), str(words.fn), str(words.gold)]
    assert ran.row("all")[0] == "8"  # a name and a date in each note
    # Without the tag set, nothing in the notes is of the model's types.
    assert run("evaluate", model, data, "--format", "brat").row("all")[0] == "0"
    assert "Leakage" not in run("evaluate", model, data, "--format", "brat", "--no-leakage").out


def test_leakage_is_shown_for_any_tagger_on_request(run: Run, trained: Path, strange: Path) -> None:
    assert "Leakage" not in run("evaluate", trained / "model", strange, "--format", "brat").out
    ran = run("evaluate", trained / "model", strange, "--format", "brat", "--leakage")
    assert ran.row("Drug")[-1] == "3"
    assert "Leakage: mentions by type" in ran.out


def test_an_unknown_tag_set_is_refused(run: Run, trained: Path, strange: Path) -> None:
    ran = run("evaluate", trained / "model", strange, "--format", "brat", "--tag-set", "hippa")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(
        "wardround: 'hippa' is not a tag set of identifying types – did you mean 'hipaa'?; there are hipaa,"
    )


# Relations among entities that are given.

RIGHT = related_notes(2, first=30)
# Annotated with the fever, of which the model knows better: one wrong and one not found.
WRONG = replace(related_notes(1, first=34)[0], relations=(Relation("R1", "causes", "T1", "T2"),))


@pytest.fixture
def disputed(tmp_path: Path) -> Path:
    return write_site(tmp_path, notes=(*RIGHT, WRONG)) / "notes"


def test_the_scores_of_relations(run: Run, related: Path, disputed: Path) -> None:
    assert task_of(load_model(related / "model")).score((*RIGHT, WRONG)).main["causes"] == SpanCounts(2, 1, 1)
    ran = run("evaluate", related / "model", disputed, "--format", "brat", "--device", "cpu")
    assert (ran.code, ran.err) == (0, "")
    assert "model on notes: relations" in ran.out
    assert ran.row("causes") == ran.row("micro") == ["0.667", "0.667", "0.667", "3", "3"]
    # Of three notes drawn with replacement, all may be right or all wrong.
    assert "Relations micro-F1 0.667 (95% interval 0.000–1.000); documents: 3." in " ".join(ran.out.split())
    assert "do not fit" not in ran.out


def test_details_add_nothing_for_relations(run: Run, related: Path, disputed: Path) -> None:
    words = ("evaluate", related / "model", disputed, "--format", "brat")
    assert run(*words, "--details").out == run(*words).out


def test_the_scores_of_relations_as_csv(run: Run, related: Path, disputed: Path, tmp_path: Path) -> None:
    ran = run("evaluate", related / "model", disputed, "--format", "brat", "--csv", tmp_path / "scores.csv")
    assert ran.code == 0
    with (tmp_path / "scores.csv").open(newline="") as stream:
        rows = {row["type"]: row for row in csv.DictReader(stream)}
    assert list(rows) == ["causes", "micro", "macro"]
    assert (rows["micro"]["predicted"], rows["micro"]["support"]) == ("3", "3")
    assert float(rows["micro"]["F1"]) == pytest.approx(2 / 3)


def test_pairs_that_do_not_fit_are_counted_and_said(run: Run, related: Path, tmp_path: Path) -> None:
    """The encoder has 64 places; of a mention 70 words further on it sees nothing."""
    text = f"The aspirin came {'very ' * 70}soon with rash and fever."
    words = (("Drug", "aspirin"), ("Symptom", "rash"), ("Symptom", "fever"))
    entities = tuple(
        Entity(f"T{number}", kind, (Range(text.index(word), text.index(word) + len(word)),))
        for number, (kind, word) in enumerate(words, start=1)
    )
    far = Document("far", text, entities, (Relation("R1", "causes", "T1", "T2"),))
    ran = run("evaluate", related / "model", write_site(tmp_path, notes=(*RIGHT, far)) / "notes", "--format", "brat")
    assert ran.code == 0
    assert "2 pairs do not fit the encoder and count as not related" in ran.out
    assert ran.row("micro") == ["1.000", "0.667", "0.800", "2", "3"]
