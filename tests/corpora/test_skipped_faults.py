"""Faulty parts are left out, counted and listed, and the first one stops a reader without the option."""

from __future__ import annotations

from pathlib import Path

import pytest

import wardround
from tests.cli.running import Run
from wardround.corpora.corpus_format import Problem, Severity
from wardround.corpora.skipped_faults import SkippedFaults
from wardround.errors import CorpusError


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    """Return a brat folder: a correct mention, two faulty ones, and a note that is not UTF-8."""
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.txt").write_text("Aspirin burns secretly.")
    (folder / "a.ann").write_text("T1\tDrug 0 7\tAspirin\nT2\tADE 8 999\tburns\nT3\tADE 8 13\tsecretly\n")
    (folder / "b.txt").write_bytes(b"\xff")
    (folder / "b.ann").write_text("")
    return folder


def test_sentences_count_and_list() -> None:
    faults = SkippedFaults()
    assert list(faults.sentences()) == []
    faults(Problem("fine", severity=Severity.WARNING))
    faults(Problem("wrong", Path("dir/a.ann"), 3))
    assert list(faults.sentences()) == ["1 faulty part was left out", "left out: a.ann:3: wrong"]
    for _ in range(24):
        faults(Problem("wrong", Path("b.ann")))
    found = list(faults.sentences())
    assert (found[0], found[2], found[-1]) == (
        "25 faulty parts were left out",
        "left out: b.ann: wrong",
        "and 5 more; `wardround data check` lists all",
    )
    assert len(found) == 22


def test_the_python_api_lists_what_it_left_out(faulty: Path) -> None:
    with pytest.raises(CorpusError, match=r"^a\.ann:2: T2 ends at 999"):
        wardround.read(faulty, "brat")
    corpus = wardround.read(faulty, "brat", skip_faulty=True)
    assert [entity.id for note in corpus for entity in note.entities] == ["T1"]
    assert [(p.path.name if p.path else "", p.line) for p in corpus.skipped] == [
        ("a.ann", 2),
        ("a.ann", 3),
        ("b.txt", None),
    ]
    assert wardround.read(faulty, "brat", skip_faulty=True) == corpus


@pytest.mark.parametrize("command", ["stats", "split", "convert"])
def test_commands_skip_on_request(run: Run, faulty: Path, tmp_path: Path, command: str) -> None:
    for number in range(8):
        (faulty / f"c{number}.txt").write_text(f"Note {number}.")
        (faulty / f"c{number}.ann").write_text("")
    more = {
        "stats": ("--format", "brat"),
        "split": (tmp_path / "parts", "--format", "brat"),
        "convert": (tmp_path / "out.jsonl", "--from", "brat", "--to", "jsonl"),
    }[command]
    assert run("data", command, faulty, *more).code == 2
    ran = run("data", command, faulty, *more, "--skip-faulty")
    assert ran.code == 0
    assert "wardround: 3 faulty parts were left out" in ran.err
    assert "wardround: left out: a.ann:2: T2 ends at 999, the text has 23 characters" in ran.err
    assert "secret" not in ran.said


def test_what_cannot_be_read_at_all_is_still_an_error(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    ran = run("data", "stats", tmp_path / "empty", "--format", "brat", "--skip-faulty")
    assert ran.code == 2
    assert "contains no file ending in .txt" in ran.err
