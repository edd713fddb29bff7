from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.cli.running import (
    DEV,
    NOTES,
    QUICK,
    QUICK_PAIRS,
    TEST,
    TINY,
    TINY_PAIRS,
    TRAIN,
    Run,
    related_notes,
    train,
    train_relations,
    write_site,
)
from wardround.corpora.splits import Manifest
from wardround.models.saved import load_model, model_card
from wardround.reports.progress import TrainingProgress
from wardround.studies.run_folder import RunFolder
from wardround.tasks import ner
from wardround.tasks.ner import NerTask, TaggedSentence
from wardround.tasks.task_table import task_of
from wardround.text.document import Document
from wardround.text.tag_sets import TagSet
from wardround.training.loop import EpochRecord

FILES = ["checkpoint.safetensors", "events.jsonl", "model", "note-counts.json", "report.html", "scores.json"]
TAGGED = sorted([*FILES, "error-counts.json"])  # where entities are looked for
MARKER = "Her aunt Quillwort keeps ninetyone zebrafinches at Larkmoor."
RARE = ("quillwort", "ninetyone", "zebrafinch", "larkmoor")


def epochs(folder: Path) -> list[int]:
    return [event["epoch"] for event in RunFolder(folder).events() if event["event"] == "epoch"]


def scores(folder: Path) -> dict[str, Any]:
    """What is written but for the clock."""
    found: dict[str, Any] = json.loads((folder / "scores.json").read_text())
    for epoch in found["epochs"]:
        del epoch["seconds"]
    return found


def weights(folder: Path) -> bytes:
    return (folder / "model" / "model.safetensors").read_bytes()


def test_a_run_from_notes_to_report(run: Run, site: Path, tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "first"
    ran = run(*train(site, folder))
    assert ran.code == 0
    assert sorted(path.name for path in folder.iterdir()) == TAGGED
    assert epochs(folder) == [1, 2, 3]

    written = scores(folder)
    assert (written["scored_on"], written["documents"]) == ("test", 4)
    assert written["strict"]["f1"] > 0.8
    assert ran.row("micro")[2] == f"{written['strict']['f1']:.3f}"
    assert ran.row("micro")[-1] == "8"  # a drug and an effect in each of four notes
    assert "fedner on ward, test" in ran.out
    assert ran.out.endswith(f"model   {folder / 'model'}\nreport  {folder / 'report.html'}\n")
    assert f"best {max(epoch['dev_f1'] for epoch in written['epochs']):.3f}" in ran.err
    found = ner.score(load_model(folder / "model"), TEST).strict.micro
    assert (found.tp, found.fp, found.fn) == tuple(written["strict"][name] for name in ("tp", "fp", "fn"))


def test_the_same_command_again_trains_no_further(
    run: Run, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run(*train(site, tmp_path / "run"))
    before = (tmp_path / "run" / "scores.json").read_bytes(), weights(tmp_path / "run")

    def never(self: NerTask, batch: Sequence[TaggedSentence]) -> Tensor:
        raise AssertionError("a finished run was trained further")

    monkeypatch.setattr(NerTask, "batch_loss", never)
    again = run(*train(site, tmp_path / "run"))
    assert (again.code, again.out) == (0, first.out)
    assert ((tmp_path / "run" / "scores.json").read_bytes(), weights(tmp_path / "run")) == before
    assert epochs(tmp_path / "run") == [1, 2, 3]
    assert "nan" not in again.err


def test_a_training_interrupted_in_the_second_epoch_resumes(
    run: Run, site: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: TrainingProgress, record: EpochRecord) -> None:
        if record.epoch == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(TrainingProgress, "on_epoch", interrupted)
        ran = run(*train(site, tmp_path / "run"))
    assert ran.code != 0
    assert "Traceback" not in ran.said
    assert epochs(tmp_path / "run") == [1]
    assert not (tmp_path / "run" / "scores.json").exists()

    assert run(*train(site, tmp_path / "run")).code == 0
    assert epochs(tmp_path / "run") == [1, 2, 3]
    assert scores(tmp_path / "run") == scores(trained)
    assert weights(tmp_path / "run") == weights(trained)


@pytest.mark.parametrize(
    "more",
    [("--seed", "1"), ("--types", "Drug"), ("--training-option", "clip=1"), ("--model-option", "scheme=BIOES")],
    ids=lambda more: more[0],
)
def test_a_folder_of_another_training_is_refused(run: Run, site: Path, trained: Path, more: tuple[str, ...]) -> None:
    ran = run(*train(site, trained, *more))
    assert ran.code == 2
    assert ran.err.endswith(
        "wardround: the run folder holds a training with other settings or data; "
        "name another folder, or remove this one\n"
    )
    assert epochs(trained) == [1, 2, 3]


def test_the_same_seed_gives_the_same_model(run: Run, site: Path, trained: Path, tmp_path: Path) -> None:
    run(*train(site, tmp_path / "same"))
    run(*train(site, tmp_path / "other", "--seed", "1"))
    assert weights(tmp_path / "same") == weights(trained) != weights(tmp_path / "other")


def test_an_unsplit_corpus_warns(run: Run, tmp_path: Path) -> None:
    write_site(tmp_path, notes=NOTES[:20])
    ran = run(*train(tmp_path / "notes", tmp_path / "run", "--training-option", "epochs=1"))
    assert ran.code == 0
    assert ran.err.startswith("wardround: warning: the corpus is not split: it is scored on a development part\n")
    written = scores(tmp_path / "run")
    assert (written["scored_on"], written["documents"]) == ("dev", 2)
    assert "fedner on notes, dev" in ran.out


def test_parts_that_share_a_text_warn(run: Run, tmp_path: Path) -> None:
    write_site(tmp_path / "ward", train=TRAIN, dev=DEV, test=TRAIN[:2])
    ran = run(*train(tmp_path / "ward", tmp_path / "run", "--training-option", "epochs=1"))
    assert ran.code == 0
    assert ran.err.startswith("wardround: warning: train and test share 2 texts;")


def test_an_outdated_split_is_refused(run: Run, tmp_path: Path) -> None:
    write_site(tmp_path / "ward", train=TRAIN, dev=DEV, test=TEST)
    Manifest.of({"train": TRAIN, "dev": DEV, "test": TEST}).write(tmp_path / "ward" / "split.json")
    (tmp_path / "ward" / "train" / "n3.txt").write_text(f"{MARKER} {TRAIN[3].text}")
    (tmp_path / "ward" / "train" / "n3.ann").write_text("")
    ran = run(*train(tmp_path / "ward", tmp_path / "run"))
    assert (ran.code, ran.err) == (
        2,
        "wardround: train has changed since it was split: 1 texts are new, 1 are missing\n",
    )
    assert not (tmp_path / "run").exists()


def test_types_restrict_what_is_learned(run: Run, site: Path, tmp_path: Path) -> None:
    ran = run(*train(site, tmp_path / "run", "--types", " Drug "))
    assert ran.code == 0
    assert "│ ADE " not in ran.out
    assert ran.row("micro")[-1] == "4"
    assert load_model(tmp_path / "run" / "model").tag_set.types == ("Drug",)


REFUSED = {
    ("--preset", "fednr"): "no preset is called 'fednr' – did you mean 'fedner'?; there are fedner, elmoner,",
    ("--model-option", "lst=8"): "'lst' is not an option of the preset 'fedner' – did you mean 'lstm'?; it has",
    ("--model-option", "lstm"): "'lstm' is not a setting: expected NAME=VALUE",
    ("--model-option", "lstm=many"): "option 'lstm' of the preset 'fedner': 'many' is not a whole number",
    ("--model-option", "scheme=BIOS"): "scheme is 'BIOS'; it can be BIO, BIOES, IOB1",
    ("--training-option", "epoch=3"): "'epoch' is not an option of the training – did you mean 'epochs'?; it has",
    ("--family", "word-taggr"): "no model family is called 'word-taggr' – did you mean 'word-tagger'?",
    ("--family", "joint-extractor"): "the model family joint-extractor serves joint, not the task ner",
    ("--training-option", "epochs=0"): "epochs is 0; it must be above zero",
    ("--training-option", "seed=4"): "'seed' is not an option of the training alone: --seed sets it for",
    ("--types", "Durg"): "no training note has the type 'Durg' – did you mean 'Drug'?; there are ADE, Drug",
    ("--option", "scheme=BIO"): "'scheme' is not an option of brat; it has none",
    ("--device", "gpu"): "'gpu' is not a device; use auto, cpu, cuda or cuda:N",
}


@pytest.mark.parametrize(("more", "said"), REFUSED.items(), ids=[" ".join(more) for more in REFUSED])
def test_invalid_arguments_are_refused_in_one_line(
    run: Run, site: Path, tmp_path: Path, more: tuple[str, ...], said: str
) -> None:
    ran = run("train", site, "--format", "brat", "--out", tmp_path / "run", *more)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"wardround: {said}")
    assert ran.err.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_missing_gpu_is_refused(run: Run, site: Path, tmp_path: Path) -> None:
    ran = run("train", site, "--format", "brat", "--out", tmp_path / "run", *TINY, "--device", "cuda")
    assert (ran.code, ran.err) == (2, "wardround: there is no GPU; use --device cpu\n")


def test_parts_without_a_training_part(run: Run, tmp_path: Path) -> None:
    write_site(tmp_path / "ward", dev=DEV, test=TEST)
    ran = run(*train(tmp_path / "ward", tmp_path / "run"))
    assert (ran.code, ran.err) == (2, "wardround: ward has parts called dev, test but no training part\n")


def test_notes_without_annotation(run: Run, site: Path, tmp_path: Path) -> None:
    ran = run("train", site, "--format", "text", "--out", tmp_path / "run", *TINY, *QUICK)
    assert (ran.code, ran.err) == (2, "wardround: the training notes contain no entity to learn from\n")


def test_a_run_folder_that_is_a_file(run: Run, site: Path, tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    ran = run(*train(site, tmp_path / "run"))
    assert ran.code == 2
    assert "is a file" in ran.err_in_one_line


def test_the_report_names_what_the_model_was_made_with(trained: Path) -> None:
    page = (trained / "report.html").read_text()
    rows = dict(re.findall(r'<th scope="row">(\w+)</th><td>([^<]*)</td>', page))
    assert (rows["word_buckets"], rows["epochs"], rows["learning_rate"]) == ("64", "3", "0.02")


# No note, and no word of one, is left behind or said.


def marked(documents: Sequence[Document]) -> list[Document]:
    """The marker stands behind each note, so that no offset moves."""
    return [replace(document, text=f"{document.text} {MARKER}") for document in documents]


@pytest.fixture
def marked_site(tmp_path: Path) -> Path:
    return write_site(tmp_path / "ward", train=marked(TRAIN), dev=marked(DEV), test=marked(TEST))


def quoting(folder: Path) -> list[str]:
    """Names of the files below that hold a rare word of the notes, in whatever case and encoding."""
    wanted = [word.encode(encoding) for word in RARE for encoding in ("utf-8", "utf-16-le", "utf-32-le")]
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return [path.name for path in files if any(word in path.read_bytes().lower() for word in wanted)]


def test_the_search_for_the_marker_can_find_it(marked_site: Path) -> None:
    assert len(quoting(marked_site)) == 38


def test_a_finished_run_quotes_no_note(run: Run, marked_site: Path, tmp_path: Path) -> None:
    ran = run(*train(marked_site, tmp_path / "run"))
    assert ran.code == 0
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == TAGGED
    assert quoting(tmp_path / "run") == []
    assert not [word for word in RARE if word in ran.said.lower()]


def test_a_run_that_fails_in_the_middle_quotes_no_note(
    run: Run, marked_site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[int] = []
    batch_loss = NerTask.batch_loss

    def faulty(self: NerTask, batch: Sequence[TaggedSentence]) -> Tensor:
        if len(steps) == 40:  # the first epoch has 30, each of 4 sentences
            raise ValueError(f"cannot learn {[sentence.words for sentence in batch]} {MARKER}")
        steps.append(len(batch))
        return batch_loss(self, batch)

    monkeypatch.setattr(NerTask, "batch_loss", faulty)
    ran = run(*train(marked_site, tmp_path / "run"))
    assert (ran.code, ran.out) == (3, "")
    assert re.search(r"^wardround: unexpected ValueError at test_train\.py:\d+; set WARDROUND_DEBUG=1", ran.err, re.M)
    assert epochs(tmp_path / "run") == [1]
    assert (tmp_path / "run" / "checkpoint.safetensors").is_file()
    assert quoting(tmp_path / "run") == []
    assert not [word for word in (*RARE, "cannot learn", "patient") if word in ran.said.lower()]


def test_a_faulty_annotation_is_refused_without_a_quote(run: Run, marked_site: Path, tmp_path: Path) -> None:
    (marked_site / "train" / "n3.ann").write_text(f"T1\tDrug 0 9999\t{MARKER}\n")
    ran = run(*train(marked_site, tmp_path / "run"))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("wardround: n3.ann:1: ")
    assert str(tmp_path) not in ran.err
    assert not [word for word in RARE if word in ran.said.lower()]


# Relations among entities that are given.


def test_a_run_of_relations_from_notes_to_report(run: Run, related_site: Path, encoder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    ran = run(*train_relations(related_site, folder, encoder))
    assert ran.code == 0
    assert sorted(path.name for path in folder.iterdir()) == FILES
    assert epochs(folder) == [1, 2, 3, 4]
    started = next(iter(RunFolder(folder).events()))
    # Two pairs a note, of which one is related.
    assert (started["examples"], started["kept"], started["negatives"], started["too_long"]) == (32, 16, 16, 0)

    written = scores(folder)
    assert written.keys() == {"scored_on", "documents", "relations", "types", "epochs"}
    assert (written["scored_on"], written["documents"]) == ("test", 5)
    assert written["relations"]["f1"] > 0.8
    assert ran.row("causes") == ran.row("micro")
    assert ran.row("micro")[2] == f"{written['relations']['f1']:.3f}"
    assert ran.row("micro")[-1] == "5"  # one in each of five notes
    assert "Relations micro-F1 " in ran.out and "documents: 5." in ran.out
    found = task_of(load_model(folder / "model")).score(related_notes(5, first=20)).main.micro
    assert (found.tp, found.fp, found.fn) == tuple(written["relations"][name] for name in ("tp", "fp", "fn"))
    page = (folder / "report.html").read_text()
    assert "Relations micro-F1 on the development notes after each epoch." in page
    assert ">Errors</h2>" not in page


def test_negatives_are_drawn_for_training_alone(run: Run, related_site: Path, encoder: Path, tmp_path: Path) -> None:
    ran = run(*train_relations(related_site, tmp_path / "run", encoder, "--negatives", "0.25"))
    assert ran.code == 0
    started = next(iter(RunFolder(tmp_path / "run").events()))
    assert (started["examples"], started["negatives"], started["negatives_not_drawn"]) == (20, 4, 12)
    assert ran.row("micro")[-1] == "5"


def test_relations_without_a_direction(run: Run, encoder: Path, tmp_path: Path) -> None:
    def turned(document: Document) -> Document:
        (relation,) = document.relations
        return replace(document, relations=(replace(relation, head=relation.tail, tail=relation.head),))

    parts = {"train": related_notes(8), "dev": related_notes(2, first=8), "test": related_notes(2, first=10)}
    for name, part in parts.items():
        write_site(tmp_path / "ward", **{name: [turned(d) if n % 2 else d for n, d in enumerate(part)]})
    ran = run(*train_relations(tmp_path / "ward", tmp_path / "run", encoder, "--undirected"))
    assert ran.code == 0
    started = next(iter(RunFolder(tmp_path / "run").events()))
    # Each pair once, however it was annotated; of the two symptoms no relation was seen.
    assert (started["examples"], started["kept"]) == (16, 8)


@pytest.mark.parametrize(
    "more", [("--negatives", "0.5"), ("--seed", "1"), ("--model-option", "window=2")], ids=lambda more: more[0]
)
def test_a_folder_of_another_training_of_relations_is_refused(
    run: Run, related_site: Path, related: Path, encoder: Path, more: tuple[str, ...]
) -> None:
    ran = run(*train_relations(related_site, related, encoder, *more))
    assert ran.code == 2
    assert ran.err.endswith(
        "wardround: the run folder holds a training with other settings or data; "
        "name another folder, or remove this one\n"
    )
    assert epochs(related) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            ("--task", "relation"),
            "'relation' is not a task – did you mean 'relations'?; there are ner, relations, joint",
        ),
        (("--model-option", "scheme=BIO"), "'scheme' is not an option of the relation classifier; it has encoder,"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_invalid_arguments_about_relations_are_refused_in_one_line(
    run: Run, related_site: Path, encoder: Path, tmp_path: Path, more: tuple[str, ...], said: str
) -> None:
    ran = run(*train_relations(related_site, tmp_path / "run", encoder, *more))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines()[-1].startswith(f"wardround: {said}")
    assert not (tmp_path / "run").exists()


def test_fewer_than_no_negatives(run: Run, related_site: Path, encoder: Path, tmp_path: Path) -> None:
    ran = run(*train_relations(related_site, tmp_path / "run", encoder, "--negatives", "-1"))
    assert ran.code == 2
    assert "Invalid value for '--negatives'" in ran.err_in_one_line
    assert not (tmp_path / "run").exists()


def test_notes_without_relations(run: Run, site: Path, encoder: Path, tmp_path: Path) -> None:
    ran = run(*train_relations(site, tmp_path / "run", encoder))
    assert (ran.code, ran.err) == (2, "wardround: the training notes contain no relation to learn from\n")


def test_relations_always_need_an_encoder(run: Run, related_site: Path, tmp_path: Path) -> None:
    words = ("train", related_site, "--format", "brat", "--out", tmp_path / "run", "--task", "relations")
    ran = run(*words, "--vectors", related_site / "train", *TINY_PAIRS, *QUICK_PAIRS)
    said = "wardround: an encoder has its own embeddings; word vectors can only be used with a preset\n"
    assert (ran.code, ran.err) == (2, said)


def test_a_finished_run_of_relations_quotes_no_note(run: Run, encoder: Path, tmp_path: Path) -> None:
    write_site(tmp_path / "ward", train=marked(related_notes(8)), test=marked(related_notes(4, first=8)))
    ran = run(*train_relations(tmp_path / "ward", tmp_path / "run", encoder))
    assert ran.code == 0
    known = {path.name for path in encoder.iterdir()}  # the encoder's own words are in its vocabulary
    assert set(quoting(tmp_path / "run")) <= known
    assert not [word for word in RARE if word in ran.said.lower()]


def test_entities_and_relations_together(run: Run, related_site: Path, encoder: Path, tmp_path: Path) -> None:
    words = ("train", related_site, "--format", "brat", "--out", tmp_path / "run", "--task", "joint")
    ran = run(*words, "--encoder", encoder, *QUICK_PAIRS)
    assert ran.code == 0
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == TAGGED
    written = scores(tmp_path / "run")
    # In each of five notes a drug, two symptoms, and one relation.
    gold = {reading: written[reading]["tp"] + written[reading]["fn"] for reading in ("relations", "given", "entities")}
    assert gold == {"relations": 5, "given": 5, "entities": 15}
    assert set(written["types"]) == {"causes", "Drug", "Symptom"}
    assert [f"test: {reading}" in " ".join(ran.out.split()) for reading in gold] == [True] * 3
    assert ">Errors</h2>" in (tmp_path / "run" / "report.html").read_text()


def test_a_training_for_deidentification_shows_the_leakage(run: Run, tmp_path: Path) -> None:
    names = {"Drug": "PERSON", "ADE": "FECHAS"}
    parts = {"train": TRAIN, "dev": DEV, "test": TEST}
    site = {name: [TagSet.rename(note, names) for note in part] for name, part in parts.items()}
    data = write_site(tmp_path / "ward", **site)
    more = ("--task", "deidentify", "--tag-set", "hipaa", "--training-option", "epochs=1")
    ran = run(*train(data, tmp_path / "run", *more))
    assert ran.code == 0
    assert model_card(tmp_path / "run" / "model")["types"] == ["DATES", "NAMES"]
    leakage = json.loads((tmp_path / "run" / "scores.json").read_text())["leakage"]
    assert (leakage["notes"], leakage["mentions"]["mentions"]) == (len(TEST), 2 * len(TEST))
    assert "Leakage: mentions by type" in ran.out
    assert "Leakage: mentions by type" in (tmp_path / "run" / "report.html").read_text()
