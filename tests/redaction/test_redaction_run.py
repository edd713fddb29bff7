from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wardround.corpora.formats import open_format
from wardround.corpora.synthetic.notes import SyntheticSite
from wardround.errors import CorpusError
from wardround.redaction import finders, redaction_run
from wardround.redaction.finders import model_finder, pattern_finder
from wardround.redaction.findings import Finding, merge_findings
from wardround.redaction.outputs import FilePerNote, Output, output_for
from wardround.redaction.patterns import Patterns
from wardround.redaction.private_files import GrowingFile
from wardround.redaction.redaction_run import Naming, RedactedNote, Redaction, redact_into
from wardround.redaction.replacing import How, Replacer
from wardround.redaction.secret_key import SecretKey
from wardround.tasks.task import Task
from wardround.text.document import Document, Range

TEXTS = (
    "Seen on 03/14/2061, call 201-555-0110.",
    "Nothing here.",
    "",
    "Mail a.b@example.org since 2061-03-20.",
    "MR123456 again, MR123456.",
    "due March 14",
)
NOTES = tuple(Document(f"ward/n{number}", text) for number, text in enumerate(TEXTS))
OWN = Naming(lambda document: document.id, lambda document: document.id)
PATTERNS = Redaction(pattern_finder(Patterns("en")), Replacer(How.SURROGATE, "en", SecretKey(b"k" * 32)), OWN)


class Interrupted(Exception):
    """Somebody pulled the plug."""


def redact(
    folder: Path,
    notes: tuple[Document, ...] = NOTES,
    redaction: Redaction = PATTERNS,
    *,
    name: str = "text",
    resume: bool = False,
    review: bool = True,
) -> Iterator[RedactedNote]:
    def output(keep: int) -> Output:
        return output_for(name, open_format(name), folder, keep=keep)

    page = folder / "review.html" if review else None
    return redact_into(folder, notes, redaction, output=output, settings={"x": 1}, resume=resume, review=page)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def audit(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]


def test_every_note_is_there_once(tmp_path: Path) -> None:
    assert [note.document.id for note in redact(tmp_path)] == [note.id for note in NOTES]
    notes = {f"notes/{note.id}.txt" for note in NOTES}
    assert contents(tmp_path).keys() == notes | {"audit.jsonl", "journal.jsonl", "review.html"}
    assert [line["note"] for line in audit(tmp_path)] == [note.id for note in NOTES]


def test_the_audit_points_into_the_output(tmp_path: Path) -> None:
    tagged = Redaction(PATTERNS.find, Replacer(How.TAG, "en", SecretKey(b"k" * 32)), OWN)
    list(redact(tmp_path, redaction=tagged))
    pointed = []
    for line in audit(tmp_path):
        text = (tmp_path / "notes" / f"{line['note']}.txt").read_text()
        for mark in line["marks"]:
            assert text[mark["start"] : mark["end"]] == f"[{mark['type']}]"
            pointed.append((mark["type"], mark["found"]))
    found = ["DATE", "PHONE", "EMAIL", "DATE", "IDNUM", "IDNUM", "DATE"]
    assert pointed == [(type_, ["pattern"]) for type_ in found]


# Notes of any characters, and of each where something was found, which may overlap.
SPANS = st.lists(st.tuples(st.integers(0, 25), st.integers(1, 12), st.sampled_from(["PATIENT", "DATE", "ID", "CITY"])))
FOUND = st.lists(st.tuples(st.text(min_size=40, max_size=50), SPANS), min_size=1, max_size=4)


def hiding(found: list[tuple[str, list[tuple[int, int, str]]]], how: How) -> tuple[tuple[Document, ...], Redaction]:
    """The notes, and a redaction that finds in each what was drawn for it."""
    notes = tuple(Document(f"n{number}", text) for number, (text, _) in enumerate(found))
    findings = {
        note.id: [Finding(Range(start, start + length), kind, "model") for start, length, kind in spans]
        for note, (_, spans) in zip(notes, found, strict=True)
    }

    def find(documents: Iterable[Document]) -> Iterator[tuple[Document, list[Finding]]]:
        return ((document, findings[document.id]) for document in documents)

    return notes, Redaction(find, Replacer(how, "en", SecretKey(b"k" * 32)), OWN)


def predicted(spans: list[tuple[int, int, str]]) -> set[int]:
    return {at for start, length, _ in spans for at in range(start, start + length)}


def written(folder: Path) -> dict[str, str]:
    """The redacted texts, character by character as they lie on disk."""
    return {path.stem: path.read_bytes().decode() for path in (folder / "notes").iterdir()}


@given(FOUND)
@settings(max_examples=40, deadline=None)
def test_exactly_the_found_characters_are_replaced(found: list[tuple[str, list[Any]]]) -> None:
    notes, redaction = hiding(found, How.MASK)
    with TemporaryDirectory() as folder:
        list(redact(Path(folder), notes, redaction, review=False))
        texts = written(Path(folder))
    for note, (text, spans) in zip(notes, found, strict=True):
        gone = predicted(spans)
        assert texts[note.id] == "".join("█" if at in gone else letter for at, letter in enumerate(text))


@given(FOUND, st.sampled_from(How))
@settings(max_examples=60, deadline=None)
def test_the_audit_and_the_hidden_text_restore_the_note(found: list[tuple[str, list[Any]]], how: How) -> None:
    """Each offset points at its replacement, and the text between two replacements is that of the note."""
    notes, redaction = hiding(found, how)
    with TemporaryDirectory() as folder:
        list(redact(Path(folder), notes, redaction, review=False))
        texts, lines = written(Path(folder)), audit(Path(folder))
    assert [line["note"] for line in lines] == [note.id for note in notes]
    for line, (text, spans) in zip(lines, found, strict=True):
        output, pieces, end = texts[line["note"]], list[str](), 0
        hidden = merge_findings(Finding(Range(start, start + length), kind, "model") for start, length, kind in spans)
        for mark, piece in zip(line["marks"], hidden, strict=True):
            pieces += [output[end : mark["start"]], text[slice(*piece.range)]]
            end = mark["end"]
        assert "".join((*pieces, output[end:])) == text
        assert {at for piece in hidden for at in range(*piece.range)} == predicted(spans)


def test_no_file_contains_hidden_text(tmp_path: Path) -> None:
    list(redact(tmp_path))
    everything = b"".join(contents(tmp_path).values()).decode()
    for secret in ("03/14/2061", "201-555-0110", "a.b@", "MR123456", "2061-03-20", "March 14"):
        assert secret not in everything


def test_nothing_but_text_and_marks_leaves(tmp_path: Path) -> None:
    note = Document("a", "03/14/2061", attributes=(("patient", "Quillwort"),))
    list(redact(tmp_path, (note,), name="jsonl"))
    (line,) = (tmp_path / "notes.jsonl").read_text().splitlines()
    assert "Quillwort" not in line


def plug(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Whatever writes stops working after so many writes; every other time half of it is written before."""
    written = 0
    append, write = GrowingFile.append, FilePerNote.write

    def counted() -> bool:
        nonlocal written
        written += 1
        return written > after

    def broken_append(self: GrowingFile, content: str) -> None:
        if counted():
            if after % 2:
                append(self, content[: len(content) // 2])
            raise Interrupted
        append(self, content)

    def broken_write(self: FilePerNote, document: Document) -> None:
        if counted():
            if after % 2:
                write(self, document)
            raise Interrupted
        write(self, document)

    monkeypatch.setattr(GrowingFile, "append", broken_append)
    monkeypatch.setattr(FilePerNote, "write", broken_write)


@pytest.mark.parametrize("name", ["text", "jsonl"])
@given(stops=st.lists(st.integers(0, 20), max_size=4), ahead=st.integers(1, 4))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_resumed_run_equals_an_uninterrupted_one(
    tmp_path_factory: pytest.TempPathFactory, name: str, stops: list[int], ahead: int
) -> None:
    whole, resumed = tmp_path_factory.mktemp("whole"), tmp_path_factory.mktemp("resumed")
    list(redact(whole, name=name))
    with pytest.MonkeyPatch.context() as groups:
        groups.setattr(redaction_run, "NOTES_AHEAD", ahead)
        for stop in stops:
            with pytest.MonkeyPatch.context() as patch:
                plug(patch, stop)
                try:
                    list(redact(resumed, name=name, resume=True))
                except Interrupted:
                    pass
            if not (resumed / "journal.jsonl").exists():
                assert not (resumed / "audit.jsonl").exists() and not (resumed / "notes.jsonl").exists()
        list(redact(resumed, name=name, resume=True))
    assert contents(resumed) == contents(whole)


def killed_after(folder: Path, writes: int, name: str) -> int:
    """Redact in a process of its own that is killed at a write, half of which is on disk; how it ended."""
    child = os.fork()
    if not child:
        append, left = GrowingFile.append, [writes]

        def append_or_die(self: GrowingFile, content: str) -> None:
            if not left[0]:
                append(self, content[: len(content) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            append(self, content)

        GrowingFile.append = append_or_die  # type: ignore[method-assign]
        list(redact(folder, name=name, resume=True))
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("name", ["text", "jsonl"])
def test_repeated_kills_neither_skip_nor_repeat_a_note(tmp_path: Path, name: str) -> None:
    list(redact(tmp_path / "whole", name=name))
    ends = [killed_after(tmp_path / "resumed", writes, name) for writes in (0, 1, 3, 5, 4, 2)]
    assert ends[:4] == [-signal.SIGKILL] * 4, "else the test proves nothing"
    list(redact(tmp_path / "resumed", name=name, resume=True))
    assert contents(tmp_path / "resumed") == contents(tmp_path / "whole")
    assert [line["note"] for line in audit(tmp_path / "resumed")] == [note.id for note in NOTES]


@pytest.mark.parametrize("names", [0, 1, 2])
def test_interrupted_while_files_take_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: int) -> None:
    list(redact(tmp_path / "whole", name="jsonl"))
    finish, given_names = GrowingFile.finish, 0

    def broken(self: GrowingFile) -> None:
        nonlocal given_names
        if given_names == names:
            raise Interrupted
        given_names += 1
        finish(self)

    monkeypatch.setattr(GrowingFile, "finish", broken)
    with pytest.raises(Interrupted):  # before the notes, the audit or the journal has its name
        list(redact(tmp_path / "resumed", name="jsonl"))
    monkeypatch.undo()
    list(redact(tmp_path / "resumed", name="jsonl", resume=True))
    assert contents(tmp_path / "resumed") == contents(tmp_path / "whole")


def test_a_finished_run_is_not_repeated(tmp_path: Path) -> None:
    list(redact(tmp_path))
    before = contents(tmp_path)
    assert list(redact(tmp_path, resume=True)) == []
    assert contents(tmp_path) == before


@pytest.mark.parametrize("ahead", [1, 2, 64])
def test_other_notes_are_not_mixed_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: int) -> None:
    monkeypatch.setattr(redaction_run, "NOTES_AHEAD", ahead)
    running = redact(tmp_path)
    next(running), next(running)
    before = contents(tmp_path)
    for others in ((NOTES[1], NOTES[0], *NOTES[2:]), NOTES[:1], ()):
        with pytest.raises(CorpusError, match="differ from those of the interrupted run"):
            list(redact(tmp_path, others, resume=True))
        assert contents(tmp_path) == before


def test_two_notes_of_one_id_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="two notes have the id 'ward/n0'"):
        list(redact(tmp_path, (*NOTES[:2], NOTES[0])))


def test_a_stream_is_read_no_further_than_needed(tmp_path: Path, phi_task: Task) -> None:
    read = 0

    def endless() -> Iterator[Document]:
        nonlocal read
        while True:
            read += 1
            yield Document(f"n{read}", "Seen on 03/14/2061.")

    redaction = Redaction(model_finder(phi_task), PATTERNS.replacer, OWN)
    running = redact_into(
        tmp_path,
        endless(),
        redaction,
        output=lambda keep: output_for("text", open_format("text"), tmp_path, keep=keep),
        settings={},
    )
    next(running)
    assert read == finders.NOTES_AHEAD


def test_a_resumed_run_with_a_model_gives_the_same_result(
    tmp_path: Path, phi_task: Task, hospital: SyntheticSite
) -> None:
    find = model_finder(phi_task, threshold=0.1, patterns=Patterns("en"))
    redaction = Redaction(find, PATTERNS.replacer, OWN)
    list(redact(tmp_path / "whole", hospital.test, redaction))
    running = redact(tmp_path / "resumed", hospital.test, redaction)
    for _ in range(11):
        next(running)
    list(redact(tmp_path / "resumed", hospital.test, redaction, resume=True))
    assert contents(tmp_path / "resumed") == contents(tmp_path / "whole")
