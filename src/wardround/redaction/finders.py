"""Find identifying text in a stream of notes: a model's mentions, words it is uncertain about, and pattern matches.

A model gives for every word the probability that it is outside of all mentions. With a threshold t, a word is hidden if
it is inside a mention with a probability above t, whatever the most likely tags are: a lower t misses fewer words.

The model reads the normalised text of a note: `normalise` undoes unusual forms, such as full-width letters or invisible
characters within a name. The offsets of findings are those of the original text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby, islice

import numpy as np

from wardround.errors import UsageError
from wardround.redaction.findings import Finding
from wardround.redaction.patterns import Patterns
from wardround.tasks.batching import in_length_order
from wardround.tasks.mentions import Predictor, WordTagger
from wardround.text.alignment import align
from wardround.text.document import Document, Range
from wardround.text.normalisation import normalise
from wardround.text.phi_tag_sets import closest_type

__all__ = ["NOTES_AHEAD", "DocumentFindings", "Finder", "model_finder", "pattern_finder", "uncertain_words"]

DocumentFindings = tuple[Document, list[Finding]]
Finder = Callable[[Iterable[Document]], Iterator[DocumentFindings]]

NOTES_AHEAD = 64  # notes read at once: bounds memory, and lets sentences of similar length share a batch
_BATCH = 64


def pattern_finder(patterns: Patterns) -> Finder:
    """Return a finder that uses patterns only; it does not find names and streets."""
    return lambda documents: ((document, patterns.find(document.text)) for document in documents)


def model_finder(task: Predictor, *, threshold: float | None = None, patterns: Patterns | None = None) -> Finder:
    """Return a finder for the model's mentions, with a threshold also uncertain words, and matches of the patterns.

    Pattern matches get the closest type of the model. Raise `UsageError` before a note is read if the model is unfit.
    """
    if not task.finds_entities:
        raise UsageError("the model finds relations between given entities; redaction needs one that finds entities")
    find_uncertain: Callable[[Sequence[Document]], list[list[Finding]]] | None = None
    if threshold is not None:
        if not 0 < threshold < 1:
            raise UsageError(f"the threshold is {threshold}: it must be a probability between 0 and 1, for example 0.1")
        if not task.model.scores_tags:
            raise UsageError("this model gives no probabilities for words; remove the threshold")
        find_uncertain = partial(uncertain_words, task.model, threshold=threshold)

    def find(documents: Iterable[Document]) -> Iterator[DocumentFindings]:
        bare = (replace(document, entities=(), relations=()) for document in documents)
        while batch := list(islice(bare, NOTES_AHEAD)):
            views = [normalise(document.text) for document in batch]
            normalised = [  # the words and sentences of the original text do not fit an edited one
                document
                if view.text == document.text
                else replace(document, text=view.text, words=None, sentences=None)
                for document, view in zip(batch, views, strict=True)
            ]
            uncertain = [[] for _ in batch] if find_uncertain is None else find_uncertain(normalised)
            predictions = task.predict(normalised)
            for document, view, predicted, more in zip(batch, views, predictions, uncertain, strict=True):
                mentions = [Finding(part, e.type, "model") for e in predicted.entities for part in e.ranges]
                matched = [] if patterns is None else patterns.find(document.text)
                yield (
                    document,
                    [
                        *(replace(f, range=view.source(f.range)) for f in (*mentions, *more)),
                        *(replace(f, type=closest_type(f.type, task.entity_types)) for f in matched),
                    ],
                )

    return find


def uncertain_words(model: WordTagger, documents: Sequence[Document], threshold: float) -> list[list[Finding]]:
    """Return for each document the words that are in a mention with a probability above the threshold.

    Adjacent words of one type are one finding. The type is the most likely one.
    """
    aligned = [align(document) for document in documents]
    sentences = [(note, sentence) for note in aligned for sentence in note.sentences]
    words = [note.texts(sentence) for note, sentence in sentences]
    types: list[list[str]] = [[] for _ in words]
    for batch in in_length_order([len(sentence) for sentence in words], _BATCH):
        for index, found in zip(batch, _likely_types(model, [words[i] for i in batch], threshold), strict=True):
            types[index] = found
    remaining = iter(types)
    findings: list[list[Finding]] = []
    for note in aligned:
        findings.append([])
        for sentence in note.sentences:
            typed = zip(sentence.words, next(remaining), strict=True)
            for type_, run in groupby(typed, key=lambda pair: pair[1]):
                ranges = [range_ for range_, _ in run]
                if type_:
                    findings[-1].append(Finding(Range(ranges[0].start, ranges[-1].end), type_, "model"))
    return findings


def _likely_types(model: WordTagger, sentences: Sequence[Sequence[str]], threshold: float) -> list[list[str]]:
    """Return the type of each word, or "" if it is outside."""
    marginals = model.tag_probabilities(sentences)  # [batch, words, tags]
    types = model.tag_set.types
    of_types = [[row for row, tag in enumerate(model.tags) if tag.partition("-")[2] == type_] for type_ in types]
    best = np.stack([marginals[:, :, rows].sum(2) for rows in of_types], axis=2).argmax(2).tolist()
    inside = (marginals[:, :, 0] < 1 - threshold).tolist()  # the first tag of every scheme is outside
    return [
        [types[best[row][at]] if inside[row][at] else "" for at in range(len(sentence))]
        for row, sentence in enumerate(sentences)
    ]
