from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest

from tests.cli.running import Run
from wardround.corpora.brat import Brat
from wardround.corpora.jsonl import Jsonl
from wardround.errors import CorpusError
from wardround.redaction import redaction_run as running
from wardround.redaction import redaction_settings
from wardround.text.document import Document

TEXT = (
    "On 03/14/2061 and 03/24/2061. The patient took aspirin 20mg. It gave her nausea.\n"
    "Call 201-555-0110 or Quillwort.\n"
)
SECRETS = ("03/14/2061", "201-555-0110")
MARKER = "Quillwort"


@pytest.fixture
def model(trained: Path) -> Path:
    return trained / "model"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three notes, one of them in a folder below."""
    for name in ("a.txt", "b.txt", "ward/c.txt"):
        (tmp_path / "new" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "new" / name).write_text(TEXT)
    return tmp_path / "new"


def standard_input(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="ascii"))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_model_and_patterns_together(run: Run, model: Path, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = run("redact", folder, "--model", model, "--out", out, "--how", "tag", "--device", "cpu")
    assert ran.code == 0
    assert ran.out == "3 notes redacted into out; what was hidden where is in audit.jsonl\n"
    assert MARKER not in ran.said
    expected = "On [DATE] and [DATE]. The patient took [Drug] 20mg. It gave her [ADE].\nCall [PHONE] or Quillwort.\n"
    assert {name: text.decode() for name, text in contents(out / "notes").items()} == dict.fromkeys(
        ("a.txt", "b.txt", "ward/c.txt"), expected
    )
    first = json.loads((out / "audit.jsonl").read_text().splitlines()[0])
    assert [(mark["type"], mark["found"]) for mark in first["marks"]][:3] == [
        ("DATE", ["pattern"]),
        ("DATE", ["pattern"]),
        ("Drug", ["model"]),
    ]


def test_without_patterns_the_model_decides_alone(run: Run, model: Path, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("redact", folder, "--model", model, "--out", out, "--no-patterns", "--device", "cpu").code == 0
    masked = TEXT.replace("aspirin", "███████").replace("nausea", "██████")
    assert (out / "notes" / "a.txt").read_text() == masked


def test_a_threshold_hides_more(run: Run, model: Path, folder: Path, tmp_path: Path) -> None:
    words = ("redact", folder, "--model", model, "--no-patterns", "--device", "cpu")
    assert run(*words, "--out", tmp_path / "few").code == 0
    assert run(*words, "--out", tmp_path / "many", "--threshold", "0.0001").code == 0
    few, many = ((tmp_path / name / "notes" / "a.txt").read_text().count("█") for name in ("few", "many"))
    assert many > few


def test_surrogates_keep_the_distance_of_dates_and_need_the_key_to_repeat(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    words = ("redact", folder, "--how", "surrogate", "--seed-file")
    for out, key in (("one", "key"), ("same", "key"), ("other", "another")):
        assert run(*words, tmp_path / key, "--out", tmp_path / out).code == 0
    one, same, other = (contents(tmp_path / name / "notes") for name in ("one", "same", "other"))
    assert one == same != other
    text = one["a.txt"].decode()
    found = re.search(r"(\d\d)/(\d\d)/(\d{4}) and (\d\d)/(\d\d)/(\d{4})", text)
    assert found is not None
    assert not any(secret in text for secret in SECRETS)
    assert one["a.txt"] != one["b.txt"]  # each note is its own patient


def test_dates_of_one_patient_move_by_the_same_time(run: Run, folder: Path, tmp_path: Path) -> None:
    words = ("redact", folder, "--how", "surrogate", "--patient", "folder", "--out", tmp_path / "out")
    assert run(*words).code == 0
    notes = contents(tmp_path / "out" / "notes")
    assert notes["a.txt"] == notes["b.txt"] != notes["ward/c.txt"]


def test_a_patient_may_be_an_attribute(run: Run, tmp_path: Path) -> None:
    notes = [Document(str(n), "On 03/14/2061.", attributes=(("mrn", str(n % 2)),)) for n in range(3)]
    Jsonl().write(notes, tmp_path / "notes.jsonl")
    (tmp_path / "key").write_text("ab" * 32)  # under another key, two patients may by chance move alike
    key = ("--seed-file", tmp_path / "key")
    words = ("redact", tmp_path / "notes.jsonl", "--format", "jsonl", "--how", "surrogate", *key, "--patient")
    assert run(*words, "mrn", "--out", tmp_path / "out").code == 0
    texts = [document.text for document in Jsonl().read(tmp_path / "out" / "notes.jsonl")]
    assert texts[0] == texts[2] != texts[1]
    ran = run(*words, "nhs", "--out", tmp_path / "refused")
    assert ran.code == 2
    assert "document '0' has no attribute 'nhs'" in ran.err


def test_brat_comes_back_as_brat(run: Run, tmp_path: Path) -> None:
    Brat().write([Document("n1", TEXT)], tmp_path / "in")
    assert run("redact", tmp_path / "in", "--format", "brat", "--how", "block", "--out", tmp_path / "out").code == 0
    (read,) = Brat().read(tmp_path / "out" / "notes")
    assert {entity.text_in(read.text) for entity in read.entities} == {"█████"}
    assert [entity.type for entity in read.entities] == ["DATE", "DATE", "PHONE"]


def test_ids_can_be_hashed(run: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("redact", folder, "--ids", "hash", "--out", out, "--seed-file", tmp_path / "key").code == 0
    names = contents(out / "notes")
    assert len(names) == 3
    assert all(re.fullmatch(r"[0-9a-f]{32}\.txt", name) for name in names)
    assert "ward/c" not in (out / "audit.jsonl").read_text()


def test_standard_input_goes_to_standard_output(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    standard_input(monkeypatch, b"Seen 03/14/2061.\r\n")
    assert run("redact", "-", "--how", "tag").out == "Seen [DATE].\r\n"
    standard_input(monkeypatch, b'{"id": "a", "text": "Seen 03/14/2061."}\n\n{"text": "Well."}\n')
    lines = run("redact", "-", "--how", "tag", "--format", "jsonl").out.splitlines()
    read = [json.loads(line) for line in lines]
    assert [(note["id"], note["text"]) for note in read] == [("a", "Seen [DATE]."), ("stdin:3", "Well.")]


@pytest.mark.parametrize(
    ("content", "format", "said"),
    [
        (b"\xff\xfe Quillwort", "text", "standard input is not UTF-8"),
        (b"Quillwort\n", "jsonl", "stdin:1: is not JSON"),
        (b'\n{"id": "Quillwort"}\n', "jsonl", "stdin:2: "),
    ],
)
def test_faulty_standard_input_is_not_quoted(
    run: Run, monkeypatch: pytest.MonkeyPatch, content: bytes, format: str, said: str
) -> None:
    standard_input(monkeypatch, content)
    ran = run("redact", "-", "--format", format)
    assert ran.code == 2
    assert said in ran.err
    assert MARKER not in ran.said


def test_the_review_page_shows_no_original(run: Run, folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page" / "review.html"
    assert run("redact", folder, "--out", tmp_path / "out", "--how", "tag", "--review", page).code == 0
    shown = page.read_text(encoding="utf-8")
    assert "[DATE]<small> DATE</small>" in shown and "3 notes." in shown
    assert not any(secret in shown for secret in SECRETS)


def test_interrupted_and_resumed(run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("redact", folder, "--how", "surrogate", "--seed-file", tmp_path / "key", "--out")
    assert run(*words, tmp_path / "whole").code == 0
    write, written = running._Files.write, 0

    def full_disk(self: running._Files, note: running.RedactedNote, number: int) -> None:
        nonlocal written
        written += 1
        if written > 2:
            raise CorpusError("cannot be written (No space left on device)", path=Path("/secret/audit.jsonl"))
        write(self, note, number)

    monkeypatch.setattr(running._Files, "write", full_disk)
    ran = run(*words, tmp_path / "out")
    assert ran.code == 2
    assert "audit.jsonl: cannot be written (No space left on device)" in ran.err and "secret" not in ran.said
    monkeypatch.undo()
    refused = run(*words, tmp_path / "out")
    assert (refused.code, "out exists already" in refused.err) == (2, True)
    again = run(*words, tmp_path / "out", "--resume")
    assert again.out.startswith("1 notes redacted")
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert run(*words, tmp_path / "out", "--resume").out.startswith("0 notes redacted")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--how", "tag"), "had a different how"),
        (("--language", "es"), "had a different language"),
    ],
)
def test_a_run_resumes_only_with_the_same_settings(
    run: Run, folder: Path, tmp_path: Path, more: tuple[str, ...], said: str
) -> None:
    assert run("redact", folder, "--out", tmp_path / "out").code == 0
    ran = run("redact", folder, "--out", tmp_path / "out", "--resume", *more)
    assert (ran.code, said in ran.err_in_one_line) == (2, True)


def test_a_run_under_other_rules_is_not_resumed(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redaction_settings, "RULES_VERSION", 1)
    assert run("redact", folder, "--out", tmp_path / "out").code == 0
    monkeypatch.undo()
    ran = run("redact", folder, "--out", tmp_path / "out", "--resume")
    assert (ran.code, "had a different version of the rules" in ran.err_in_one_line) == (2, True)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ((), "give a folder to write to"),
        (("--no-patterns", "--out", "o"), "give a --model"),
        (("--threshold", "0.1", "--out", "o"), "give a --model"),
        (("--language", "de", "--out", "o"), "'de' is not a language"),
        (("--ids", "drop", "--out", "o"), "'drop' is not a way with ids"),
        (("--how", "surrogate", "--resume", "--out", "o"), "give its --seed-file"),
        (("--format", "cadec", "--out", "o"), "cadec can only be read"),
    ],
)
def test_refusals(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run("redact", folder, *more)
    assert ran.code == 2
    assert said in ran.err_in_one_line
    assert str(tmp_path) not in ran.said and MARKER not in ran.said


def test_an_existing_review_page_is_not_overwritten(run: Run, folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "review.html"
    page.write_text("mine")
    assert run("redact", folder, "--out", tmp_path / "out", "--review", page).code == 2
    assert page.read_text() == "mine"


def test_without_a_model_a_message_says_what_is_not_found(run: Run, folder: Path, tmp_path: Path) -> None:
    assert "patterns find no names" in run("redact", folder, "--out", tmp_path / "out").err


def test_help_explains_the_threshold(run: Run) -> None:
    assert "the fewer are missed" in " ".join(re.sub(r"[│╭╮╰╯─]", " ", run("redact", "--help").out).split())
