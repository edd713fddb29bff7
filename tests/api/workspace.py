"""A folder as a user has one: annotated notes in brat, a trained model, and a study file of two built-in hospitals."""

from __future__ import annotations

from pathlib import Path

from tests.models.tiny import notes

import wardround

TINY = {"word_buckets": 64, "word_dimension": 8, "character_layer": "none", "word_cnn": 8, "lstm": 8}
STUDY = """
[study]
name = "two wards"
[model]
word_buckets = 64
word_dimension = 8
character_layer = "none"
word_cnn = 8
lstm = 8
shared = ["words", "word_cnn"]
[algorithm]
name = "fedner"
rounds = 2
[training]
batch_size = 8
[sites.harbour]
built_in = "harbour-0000"
types = ["Drug"]
[sites.hillside]
built_in = "hillside-0001"
types = ["Drug"]
"""


def make_workspace(folder: Path) -> Path:
    """Write notes, model and study file; return the folder."""
    parts = {"train": notes(40, seed=1), "dev": notes(30, seed=2), "test": notes(12, seed=3)}
    corpus = wardround.Corpus(parts)
    wardround.write(corpus, folder / "notes", "brat")
    result = wardround.train(
        corpus, out=folder / "run", model=TINY, training={"epochs": 6, "learning_rate": 0.02}, progress=False
    )
    result.model.save(folder / "model")
    (folder / "study.toml").write_text(STUDY, encoding="utf-8")
    return folder
