"""De-identification: named entities that identify people, scored besides for what would stay readable of them."""

from __future__ import annotations

from collections.abc import Sequence

from wardround.evaluation.entity_scores import score_corpus
from wardround.evaluation.leakage import score_leakage, score_words
from wardround.tasks.ner import NerTask
from wardround.tasks.task import TaskScore
from wardround.text.document import Document
from wardround.text.segmentation import words_of
from wardround.text.tag_sets import TagSet

__all__ = ["DeidentifyTask"]


class DeidentifyTask(NerTask):
    """Named entities whose types say what identifies people.

    Its readings are those of entities, and `words`: each word by its type. What leaks is counted against all that the
    model finds, also under types that the notes are not annotated with, for redaction hides all of it.
    """

    readings = (*NerTask.readings, "words")

    def _score(self, documents: Sequence[Document], types: TagSet) -> TaskScore:
        hidden = list(self.predict(documents))
        gold, found = ([types.restrict(document) for document in notes] for notes in (documents, hidden))
        entities = score_corpus(zip(gold, found, strict=True))
        words = tuple(score_words(right, guessed, words_of(right)) for right, guessed in zip(gold, found, strict=True))
        return TaskScore(
            {"strict": entities.strict_by_document, "relaxed": entities.relaxed_by_document, "words": words},
            entities=entities,
            leakage=score_leakage(zip(gold, hidden, strict=True)),
        )
