from __future__ import annotations

from pathlib import Path

import pytest
from tests.models.tiny import notes

import wardround
from wardround.api.entity_pipeline import EntityPipeline

TEXTS = [note.text for note in notes(6, seed=9)]


def test_the_entities_are_those_of_the_model(workspace: Path) -> None:
    model = wardround.load(workspace / "model")
    find = EntityPipeline(workspace / "model")
    found = find(TEXTS)
    assert [[(one["entity_group"], one["start"], one["end"]) for one in each] for each in found] == [
        [(entity.type, entity.start, entity.end) for entity in model(text).entities] for text in TEXTS
    ]
    assert any(found)
    for text, each in zip(TEXTS, found, strict=True):
        assert [one["word"] for one in each] == [text[one["start"] : one["end"]] for one in each]
        alone = find(text)
        assert [one["score"] for one in alone] == pytest.approx([one["score"] for one in each], abs=1e-5)
