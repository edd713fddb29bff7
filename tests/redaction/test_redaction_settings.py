from __future__ import annotations

from pathlib import Path

import pytest

from wardround.errors import CorpusError, UsageError
from wardround.redaction.redaction_settings import RedactionSettings
from wardround.redaction.replacing import How
from wardround.redaction.secret_key import SecretKey
from wardround.text.document import Document

KEY = SecretKey(b"k" * 32)


def test_notes_are_redacted_from_python() -> None:
    redaction = RedactionSettings(How.TAG).redaction(None, KEY)
    (note,) = redaction.notes([Document("a", "Seen 03/14/2061.")])
    assert (note.document.id, note.document.text) == ("a", "Seen [DATE].")


@pytest.mark.parametrize("settings", [RedactionSettings(patterns=False), RedactionSettings(threshold=0.1)])
def test_a_model_is_needed_without_patterns_or_with_a_threshold(settings: RedactionSettings) -> None:
    with pytest.raises(UsageError, match=r"^give a --model"):
        settings.redaction(None, KEY)


@pytest.mark.parametrize(("patient", "expected"), [("note", "ward/a"), ("folder", "ward"), ("mrn", "7")])
def test_the_patient_of_a_note(patient: str, expected: str) -> None:
    document = Document("ward/a", "", attributes=(("mrn", "7"),))
    assert RedactionSettings(patient=patient).patient_of(document) == expected


def test_a_note_without_the_attribute_of_the_patient() -> None:
    with pytest.raises(CorpusError, match=r"^document 'a' has no attribute 'mrn', which should name its patient$"):
        RedactionSettings(patient="mrn").patient_of(Document("a", ""))


@pytest.mark.parametrize("settings", [RedactionSettings(How.SURROGATE), RedactionSettings(ids="hash")])
def test_a_resumed_run_needs_its_own_key(settings: RedactionSettings, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"give its --seed-file$"):
        settings.key(None, resume=True)
    kept = settings.key(tmp_path / "key").digest("x")
    assert settings.key(tmp_path / "key", resume=True).digest("x") == kept


def test_the_journal_recognises_the_model_by_its_files(tmp_path: Path) -> None:
    def recorded() -> object:
        settings = RedactionSettings().for_journal(format="text", model=tmp_path, key=KEY, review=False)
        assert settings["key"] is None  # the output does not depend on it
        return settings["model"]

    (tmp_path / "weights").write_bytes(b"one")
    first = recorded()
    assert recorded() == first
    (tmp_path / "weights").write_bytes(b"two")
    assert recorded() != first
