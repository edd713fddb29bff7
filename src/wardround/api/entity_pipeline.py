"""Predictions in the shape of transformers' token-classification pipeline, with Wardround's own decoding.

    from wardround.api.entity_pipeline import EntityPipeline

    find = EntityPipeline("runs/first/model")
    found = find("The patient took aspirin.")

Then `found` is such as `[{"entity_group": "Drug", "score": 0.98, "word": "aspirin", "start": 17, "end": 24}]`.

`transformers.pipeline` opens the same folder, and differs: it reads a whole text at once, cuts it into word pieces in
its own way, truncates it at the longest length of the encoder, takes the best tag of each piece whether or not it may
follow the one before, and does not know a CRF.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, overload

from wardround.api.trained_model import Model, load
from wardround.text.document import Document

__all__ = ["EntityPipeline"]

Found = list[dict[str, Any]]


class EntityPipeline:
    """A model that is called as `transformers.pipeline(..., aggregation_strategy="simple")` is.

    >>> from wardround.api.entity_pipeline import EntityPipeline
    >>> find = EntityPipeline("model")
    >>> sorted(find("The patient took aspirin.")[0]) if find("The patient took aspirin.") else []
    ['end', 'entity_group', 'score', 'start', 'word']
    """

    def __init__(self, model: Model | str | Path, *, device: str = "auto") -> None:
        """Use a model, or load one from its folder."""
        self.model = load(model, device=device) if isinstance(model, str | Path) else model

    @overload
    def __call__(  # type: ignore[overload-overlap]  # a text is an iterable of texts too
        self, inputs: str, *, batch_size: int = ...
    ) -> Found: ...
    @overload
    def __call__(self, inputs: Iterable[str], *, batch_size: int = ...) -> list[Found]: ...
    def __call__(self, inputs: str | Iterable[str], *, batch_size: int = 64) -> Found | list[Found]:
        """Return the entities of a text, or a list of them for each text."""
        if isinstance(inputs, str):
            return _found(self.model(inputs))
        return [_found(document) for document in self.model.pipe(inputs, batch_size=batch_size)]


def _found(document: Document) -> Found:
    return [
        {
            "entity_group": entity.type,
            "score": entity.score,
            "word": entity.text_in(document.text),
            "start": entity.start,
            "end": entity.end,
        }
        for entity in document.entities
    ]
