from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from wardround.errors import CorpusError, UsageError
from wardround.redaction.journal import Journal, Progress, extend_chain

SETTINGS = {"how": "mask", "threshold": None}
ONE, TWO = (
    Progress(1, extend_chain("", "a"), {"audit": 7}),
    Progress(2, extend_chain(extend_chain("", "a"), "b"), {"audit": 9}),
)


def written(folder: Path) -> Path:
    journal = Journal(folder, SETTINGS, resume=False)
    journal.record(ONE)
    journal.record(TWO)
    return folder / "journal.jsonl.partial"


def test_a_chain_is_a_digest_of_digests() -> None:
    first = sha256(b"\na").hexdigest()
    assert extend_chain(extend_chain("", "a"), "b") == sha256(f"{first}\nb".encode()).hexdigest()


def test_a_run_resumes_where_it_stopped(tmp_path: Path) -> None:
    written(tmp_path)
    again = Journal(tmp_path, SETTINGS, resume=True)
    assert again.progress == TWO
    again.finish()
    assert Journal(tmp_path, SETTINGS, resume=True).is_finished


@pytest.mark.parametrize("cut", [1, 10, 60])
def test_an_incomplete_line_does_not_count(tmp_path: Path, cut: int) -> None:
    path = written(tmp_path)
    path.write_bytes(path.read_bytes()[:-cut])
    again = Journal(tmp_path, SETTINGS, resume=True)
    assert again.progress == ONE
    again.record(TWO)
    assert Journal(tmp_path, SETTINGS, resume=True).progress == TWO


def test_without_a_journal_a_resumed_run_starts_anew(tmp_path: Path) -> None:
    assert Journal(tmp_path, SETTINGS, resume=True).progress == Progress()


def test_other_settings_are_named_and_refused(tmp_path: Path) -> None:
    written(tmp_path)
    with pytest.raises(UsageError, match="had a different how, threshold; use the same options"):
        Journal(tmp_path, {"how": "tag", "threshold": 0.1}, resume=True)


@pytest.mark.parametrize("content", ["no json\n", "[1]\n", "{}\n"])
def test_an_invalid_journal_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "journal.jsonl.partial").write_text(content)
    with pytest.raises(CorpusError, match="is not a journal of a redaction"):
        Journal(tmp_path, SETTINGS, resume=True)


def test_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl.partial").write_text('{"version": 2, "settings": {}}\n')
    with pytest.raises(UsageError, match="another version"):
        Journal(tmp_path, SETTINGS, resume=True)
