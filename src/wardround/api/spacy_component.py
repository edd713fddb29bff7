"""A spaCy component: `nlp.add_pipe("wardround", config={"model": "runs/first"})` sets the entities of documents.

    import spacy

    nlp = spacy.blank("en")
    nlp.add_pipe("wardround", config={"model": "runs/first"})
    doc = nlp("The patient took aspirin.")
    print([(span.text, span.label_, span._.wardround_score) for span in doc.ents])

spaCy finds the component by the entry point `spacy_factories`. A saved pipeline contains the name of the folder only,
so the model must stay there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import filter_spans

from wardround.api.trained_model import Model, load
from wardround.text.document import Document

__all__ = ["SPANS", "Component", "make_component"]

SPANS = "wardround"  # the key of all mentions in `doc.spans`, also of those that overlap others
_SCORE = "wardround_score"


class Component:
    """Finds entities in spaCy documents with a model of Wardround."""

    def __init__(self, model: Model) -> None:
        """Use a model that `wardround.load` returned."""
        self._model = model
        if not Span.has_extension(_SCORE):
            Span.set_extension(_SCORE, default=None)

    def __call__(self, doc: Doc) -> Doc:
        """Set the entities of one document."""
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Doc], batch_size: int = 64) -> Iterator[Doc]:
        """Set the entities of many documents, whose sentences share batches."""
        docs = iter(stream)
        while batch := list(islice(docs, batch_size)):
            texts = [Document(str(number), doc.text) for number, doc in enumerate(batch)]
            for doc, found in zip(batch, self._model.pipe(texts, batch_size=len(batch)), strict=True):
                yield _annotated(doc, found)


def _annotated(doc: Doc, found: Document) -> Doc:
    """Add the mentions to the document; one that begins or ends inside a token of spaCy becomes the whole token."""
    spans = []
    for entity in found.entities:
        span = doc.char_span(entity.start, entity.end, label=entity.type, alignment_mode="expand")
        if span is not None:
            span._.set(_SCORE, entity.score)
            spans.append(span)
    doc.spans[SPANS] = spans
    doc.set_ents(filter_spans(spans), default="outside")
    return doc


@Language.factory("wardround", default_config={"device": "auto"}, assigns=["doc.ents", "doc.spans", f"span._.{_SCORE}"])
def make_component(nlp: Language, name: str, model: str, device: str) -> Component:
    """Return the component for a pipeline of spaCy."""
    return Component(load(model, device=device))
