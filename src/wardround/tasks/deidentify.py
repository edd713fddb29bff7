"""De-identification: named entities that identify people, with a score of the text that would stay readable."""

from __future__ import annotations

from collections.abc import Sequence

from wardround.evaluation.entity_scores import score_corpus
from wardround.evaluation.leakage import score_leakage, score_words
from wardround.tasks.ner import NerTask
from wardround.tasks.task import TaskKind, TaskScore
from wardround.text.document import Document
from wardround.text.segmentation import words_of
from wardround.text.tag_sets import TagSet

__all__ = ["DEIDENTIFY", "DeidentifyTask"]


class DeidentifyTask(NerTask):
    """Named entities whose types identify people.

    Its matching modes are those of entities, and `words`: each word by its type. Leakage is counted against everything
    that the model finds, including types that the notes are not annotated with, because redaction hides all of it.
    """

    matching_modes = (*NerTask.matching_modes, "words")

    def score_types(self, documents: Sequence[Document], types: TagSet) -> TaskScore:
        """Score on these types; leakage counts everything that the model finds."""
        hidden = list(self.predict(documents))
        gold, found = ([types.restrict(document) for document in notes] for notes in (documents, hidden))
        entities = score_corpus(zip(gold, found, strict=True))
        words = tuple(score_words(right, guessed, words_of(right)) for right, guessed in zip(gold, found, strict=True))
        return TaskScore(
            {"strict": entities.strict_by_document, "relaxed": entities.relaxed_by_document, "words": words},
            entities=entities,
            leakage=score_leakage(zip(gold, hidden, strict=True)),
        )


DEIDENTIFY = TaskKind(
    name="deidentify",
    bind=lambda model, settings: DeidentifyTask(model, settings.types, settings.scored),
    matching_modes=DeidentifyTask.matching_modes,
    finds_entities=DeidentifyTask.finds_entities,
    finds_relations=DeidentifyTask.finds_relations,
    examples="sentences",
    reports_leakage=True,
    variant_of="ner",
)
