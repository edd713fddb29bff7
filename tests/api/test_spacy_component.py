from __future__ import annotations

from pathlib import Path

import pytest
from tests.models.tiny import notes

import wardround

spacy = pytest.importorskip("spacy", reason="install wardround[spacy]")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

TEXTS = [note.text for note in notes(8, seed=9)]


@pytest.fixture(scope="module")
def nlp(workspace: Path) -> spacy.language.Language:
    """A blank pipeline; the component is found by its entry point."""
    made = spacy.blank("en")
    made.add_pipe("wardround", config={"model": str(workspace / "model")})
    return made


def test_entities_are_those_of_the_model_with_scores(nlp: spacy.language.Language, workspace: Path) -> None:
    model, found = wardround.load(workspace / "model"), 0
    for text, doc in zip(TEXTS, nlp.pipe(TEXTS, batch_size=3), strict=True):
        right = model(text).entities
        ours = [(span.label_, span.start_char, span.end_char) for span in doc.spans["wardround"]]
        # spaCy keeps "80mg" as one token where Wardround has two words; no mention here ends within it.
        assert ours == [(entity.type, entity.start, entity.end) for entity in right]
        scores = [span._.wardround_score for span in doc.spans["wardround"]]
        assert scores == pytest.approx([entity.score for entity in right], abs=1e-5)
        assert [span.text for span in doc.ents] == [entity.text_in(text) for entity in right]
        found += len(right)
    assert found


def test_a_mention_that_cuts_a_token_becomes_the_token(workspace: Path) -> None:
    from wardround.api.spacy_component import Component

    class Fixed:
        def pipe(self, texts: list[wardround.Document], *, batch_size: int) -> list[wardround.Document]:
            entity = wardround.Entity("T1", "Drug", ((5, 9),), score=0.5)
            return [text.with_entities([entity]) for text in texts]

    doc = Component(Fixed())(spacy.blank("en")("Took aspirin daily."))  # type: ignore[arg-type]
    assert [(span.text, span.label_, span._.wardround_score) for span in doc.ents] == [("aspirin", "Drug", 0.5)]


def test_a_saved_pipeline_names_the_model(nlp: spacy.language.Language, tmp_path: Path) -> None:
    nlp.to_disk(tmp_path / "saved")
    again = spacy.load(tmp_path / "saved")
    assert [str(span) for span in again(TEXTS[0]).ents] == [str(span) for span in nlp(TEXTS[0]).ents]
