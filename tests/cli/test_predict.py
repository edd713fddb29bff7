from __future__ import annotations

import io
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.running import TEST, Run, related_notes, write_site
from wardround.corpora.brat import Brat
from wardround.corpora.conll import Conll
from wardround.corpora.jsonl import Jsonl
from wardround.models.saved import load_model
from wardround.tasks import ner
from wardround.tasks.mentions import predict_mentions
from wardround.tasks.task_table import task_of
from wardround.text.document import Document, Relation

NOTE = "The patient took aspirin 20mg. It gave her nausea."
HOSTILE = "\x1b]0;owned\x07 \x9b2J The patient took aspirin 20mg.\x1b[31m It gave her nausea.\u202e"
MARKER = "Quillwort of Larkmoor"


@pytest.fixture
def model(trained: Path) -> Path:
    return trained / "model"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The test notes as plain text, one of them in a folder below."""
    (tmp_path / "new" / "ward").mkdir(parents=True)
    for document in TEST:
        place = "ward" if document.id == "n35" else "."
        (tmp_path / "new" / place / f"{document.id}.txt").write_text(document.text)
    return tmp_path / "new"


def expected(model: Path) -> dict[str, list[tuple[str, str]]]:
    """Text of each test note, and the mentions the model finds in it."""
    return {document.text: mentions(document) for document in predict_mentions(load_model(model), TEST)}


def mentions(document: Document) -> list[tuple[str, str]]:
    return [(entity.type, entity.text_in(document.text)) for entity in document.entities]


def standard_input(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="ascii"))


def test_a_note_is_shown_with_its_mentions(run: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text(NOTE)
    ran = run("predict", model, tmp_path / "letter.txt", "--device", "cpu")
    assert (ran.code, ran.err) == (0, "")
    rule, shown = ran.out.splitlines()
    assert re.fullmatch("─+ letter ─+", rule)
    assert shown == "The patient took aspirin‹Drug› 20mg. It gave her nausea‹ADE›."


def test_in_a_terminal_mentions_are_coloured(
    run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    (tmp_path / "letter.txt").write_text(NOTE)
    assert re.search("\x1b\\[[0-9;]+maspirin\x1b\\[0m", run("predict", model, tmp_path / "letter.txt").out)


@pytest.mark.parametrize("colour", [True, False])
def test_a_hostile_note_cannot_speak_to_the_terminal(
    run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, colour: bool
) -> None:
    if colour:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm-256color")
    (tmp_path / "\x1b]0;named\x07[red].txt").write_text(HOSTILE)
    ran = run("predict", model, tmp_path)
    assert ran.code == 0
    # What is left are colours of ours and nothing else.
    plain = re.sub(r"\x1b\[[0-9;]*m", "", ran.out) if colour else ran.out
    assert not set(plain) & {"\x1b", "\x07", "\x9b", "\u202e"}
    assert " ␛]0;named␇[red] " in plain
    assert "␛]0;owned␇" in plain
    assert "aspirin‹Drug›" in plain


def test_notes_of_a_folder_as_json_lines(run: Run, model: Path, folder: Path, tmp_path: Path) -> None:
    ran = run("predict", model, folder, "--out", tmp_path / "found.jsonl")
    assert (ran.code, ran.out) == (0, f"{tmp_path / 'found.jsonl'}\n")
    found = list(Jsonl().read(tmp_path / "found.jsonl"))
    assert [document.id for document in found] == ["n34", "n36", "n37", "ward/n35"]
    assert {document.text: mentions(document) for document in found} == expected(model)
    assert sum(len(document.entities) for document in found) > 4


def test_brat_in_and_brat_out(run: Run, model: Path, tmp_path: Path) -> None:
    """What was annotated before is not carried over."""
    write_site(tmp_path, gold=[document.with_entities(()) for document in TEST[:2]], annotated=TEST)
    ran = run("predict", model, tmp_path / "annotated", "--format", "brat", "--out", tmp_path / "found", "--to", "brat")
    assert ran.code == 0
    found = list(Brat().read(tmp_path / "found"))
    assert [document.id for document in found] == [document.id for document in TEST]
    assert {document.text: mentions(document) for document in found} == expected(model)
    plain = run("predict", model, tmp_path / "gold", "--format", "brat", "--out", tmp_path / "again", "--to", "brat")
    assert plain.code == 0
    for name in ("n34.ann", "n35.ann"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "found" / name).read_bytes()


def test_columns_out(run: Run, model: Path, folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "found.tsv"
    ran = run("predict", model, folder, "--out", target, "--to", "conll", "--to-option", "scheme=BIOES")
    assert ran.code == 0
    found = sorted(mentions(document) for document in Conll(scheme="BIOES").read(target))
    assert found == sorted(expected(model).values())


def test_standard_input(run: Run, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    standard_input(monkeypatch, NOTE.encode())
    ran = run("predict", model, "-")
    (line,) = ran.out.splitlines()
    found = json.loads(line)
    assert (found["id"], found["text"]) == ("stdin", NOTE)
    assert ("Drug", [[17, 24]]) in [(entity["type"], entity["ranges"]) for entity in found["entities"]]


def test_lines_of_standard_input_become_lines_of_standard_output(
    run: Run, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [json.dumps({"id": name, "text": NOTE}) for name in ("a", "b")]
    standard_input(monkeypatch, "\n".join(lines).encode())
    ran = run("predict", model, "-", "--format", "jsonl")
    assert (ran.code, ran.err) == (0, "")
    assert [json.loads(line)["id"] for line in ran.out.splitlines()] == ["a", "b"]


def test_standard_input_keeps_its_line_ends(
    run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = f"Café.\r\n{NOTE}\r\n"
    standard_input(monkeypatch, note.encode())
    assert run("predict", model, "-", "--out", tmp_path / "found", "--to", "brat").code == 0
    assert (tmp_path / "found" / "stdin.txt").read_bytes() == note.encode()
    (found,) = Brat().read(tmp_path / "found")
    assert ("Drug", "aspirin") in mentions(found)


def test_standard_input_that_is_not_utf_8(run: Run, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    standard_input(monkeypatch, f"{MARKER} café".encode("latin-1"))
    ran = run("predict", model, "-")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "wardround: standard input is not UTF-8; convert it first, for example with iconv\n"


@pytest.mark.parametrize("out", [("--out", "found.jsonl"), ()])
def test_a_note_that_is_not_utf_8_is_named_and_not_quoted(
    run: Run, model: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, out: tuple[str, ...]
) -> None:
    monkeypatch.chdir(folder.parent)
    (folder / "zoe.txt").write_bytes(f"{MARKER} café".encode("latin-1"))
    ran = run("predict", model, folder, *out)
    assert ran.code == 2
    assert ran.err.splitlines()[-1] == "wardround: zoe.txt: is not UTF-8; convert it first, for example with iconv"
    assert MARKER not in ran.said and str(folder) not in ran.said
    assert [path.name for path in folder.parent.iterdir()] == ["new"], "a file was left that is not complete"


def test_the_output_appears_only_when_it_is_complete(
    run: Run, model: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    predict = ner.predict_mentions

    def watched(*arguments: object, **options: object) -> object:
        for document in predict(*arguments, **options):  # type: ignore[arg-type]
            seen.append((tmp_path / "found.jsonl").exists())
            yield document

    monkeypatch.setattr(ner, "predict_mentions", watched)
    assert run("predict", model, folder, "--out", tmp_path / "found.jsonl").code == 0
    assert seen == [False] * 4
    assert (tmp_path / "found.jsonl").read_text().count("\n") == 4


def test_the_notes_are_never_overwritten(run: Run, model: Path, tmp_path: Path) -> None:
    write_site(tmp_path, notes=TEST)
    before = {path: path.read_bytes() for path in (tmp_path / "notes").iterdir()}
    words = ("predict", model, tmp_path / "notes", "--format", "brat", "--to", "brat")
    ran = run(*words, "--out", tmp_path / "notes")
    assert (ran.code, ran.err) == (2, "wardround: notes exists already; name a new file or folder\n")
    assert {path: path.read_bytes() for path in (tmp_path / "notes").iterdir()} == before


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--format", "txt"), "'txt' is not a format – did you mean 'text'?"),
        (("--to", "jsonll"), "'jsonll' is not a format – did you mean 'jsonl'?"),
        (("--to", "cadec"), "the format cadec can only be read; choose one of bioc, brat, cas"),
        (("--to-option", "shpae=spacy"), "'shpae' is not an option of jsonl – did you mean 'shape'?"),
        (("--device", "gpu"), "'gpu' is not a device"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_invalid_arguments_are_refused(run: Run, model: Path, folder: Path, more: tuple[str, ...], said: str) -> None:
    ran = run("predict", model, folder, "--out", folder.parent / "out", *more)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"wardround: {said}")
    assert not (folder.parent / "out").exists()


def test_missing_notes_are_refused(run: Run, model: Path, tmp_path: Path) -> None:
    assert run("predict", model, tmp_path / "nowhere").err == "wardround: nowhere: does not exist\n"


def test_an_empty_note(run: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("")
    assert run("predict", model, tmp_path / "empty.txt", "--out", tmp_path / "found.jsonl").code == 0
    (found,) = Jsonl().read(tmp_path / "found.jsonl")
    assert (found.id, found.text, found.entities) == ("empty", "", ())


# Relations among the entities of annotated notes.

PLAIN = [replace(document, relations=()) for document in related_notes(3, first=30)]


def relations(document: Document) -> list[tuple[str, str, str]]:
    """Of each relation its type, and the words at both ends."""
    words = {entity.id: entity.text_in(document.text) for entity in document.entities}
    return [(relation.type, words[relation.head], words[relation.tail]) for relation in document.relations]


@pytest.fixture
def annotated(tmp_path: Path) -> Path:
    """Notes whose entities are known and whose relations are not."""
    return write_site(tmp_path, annotated=PLAIN) / "annotated"


def test_a_note_is_shown_with_its_relations_below(run: Run, related: Path, annotated: Path) -> None:
    ran = run("predict", related / "model", annotated, "--format", "brat", "--device", "cpu")
    assert (ran.code, ran.err) == (0, "")
    # Note 30 names the fever before the rash, which is what the drug did.
    first = ran.out.partition(" n31 ")[0].splitlines()
    assert first[1:-1] == [
        "Note 30. The aspirin‹Drug› came with fever‹Symptom› and rash‹Symptom›.",
        "",
        "R1 causes: aspirin (Drug) → rash (Symptom)",
    ]
    assert "R1 causes: aspirin (Drug) → joint pain (Symptom)" in ran.out  # of note 31


@pytest.mark.parametrize("to", ["brat", "jsonl"])
def test_relations_are_written(run: Run, related: Path, annotated: Path, tmp_path: Path, to: str) -> None:
    target = tmp_path / ("found" if to == "brat" else "found.jsonl")
    ran = run("predict", related / "model", annotated, "--format", "brat", "--out", target, "--to", to)
    assert (ran.code, ran.out) == (0, f"{target}\n")
    found = list((Brat() if to == "brat" else Jsonl()).read(target))
    expected = list(task_of(load_model(related / "model")).predict(PLAIN))
    assert [relations(document) for document in found] == [relations(document) for document in expected]
    assert [relations(document) for document in found] == [relations(d) for d in related_notes(3, first=30)]
    assert [mentions(document) for document in found] == [mentions(document) for document in PLAIN]
    assert all(document.text == given.text for document, given in zip(found, PLAIN, strict=True))


def test_existing_relations_are_not_copied_to_the_output(run: Run, related: Path, tmp_path: Path) -> None:
    wrong = [replace(d, relations=(Relation("R9", "treats", "T2", "T1"),)) for d in PLAIN]
    write_site(tmp_path, wrong=wrong)
    words = ("predict", related / "model", tmp_path / "wrong", "--format", "brat", "--out", tmp_path / "found.jsonl")
    assert run(*words).code == 0
    types = [relation.type for document in Jsonl().read(tmp_path / "found.jsonl") for relation in document.relations]
    assert types == ["causes"] * 3


def test_notes_without_entities_have_no_relations(run: Run, related: Path, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text(NOTE)
    (tmp_path / "empty.txt").write_text("")
    assert run("predict", related / "model", tmp_path, "--out", tmp_path / "found.jsonl").code == 0
    found = list(Jsonl().read(tmp_path / "found.jsonl"))
    assert [(document.text, document.entities, document.relations) for document in found] == [
        ("", (), ()),
        (NOTE, (), ()),
    ]


def test_a_hostile_relation_cannot_speak_to_the_terminal(run: Run, related: Path, tmp_path: Path) -> None:
    (given,) = PLAIN[:1]
    evil = replace(given, text=given.text.replace("rash", "ra\x1b\u202e"))
    Jsonl().write([evil], tmp_path / "evil.jsonl")
    ran = run("predict", related / "model", tmp_path / "evil.jsonl", "--format", "jsonl")
    assert ran.code == 0
    assert not set(ran.out) & {"\x1b", "\u202e"}
