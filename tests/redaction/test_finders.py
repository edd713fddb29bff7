from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import cast

import pytest
import torch

from tests.models.tiny import notes
from wardround.corpora.synthetic.notes import SyntheticSite
from wardround.errors import UsageError
from wardround.evaluation.leakage import LeakageScore, score_leakage
from wardround.models.tagging_model import MentionModel, TaggingModel
from wardround.redaction.finders import Finder, model_finder, pattern_finder, uncertain_words
from wardround.redaction.findings import merge_findings
from wardround.redaction.patterns import Patterns
from wardround.tasks.relations import RelationTask
from wardround.tasks.task import Task
from wardround.text.alignment import align
from wardround.text.document import Document, Entity, Range
from wardround.text.tag_sets import TagSet

EN = Patterns("en")


def covered(find: Finder, documents: tuple[Document, ...]) -> list[set[int]]:
    return [{at for finding in found for at in range(*finding.range)} for _, found in find(documents)]


def leakage(find: Finder, documents: tuple[Document, ...]) -> LeakageScore:
    pieces = [(document, merge_findings(found)) for document, found in find(documents)]
    predicted = [d.with_entities(Entity(f"T{n}", p.type, (p.range,)) for n, p in enumerate(ps)) for d, ps in pieces]
    return score_leakage(zip(documents, predicted, strict=True))


def test_by_default_the_mentions_of_the_model_are_found(phi_task: Task, hospital: SyntheticSite) -> None:
    expected = [
        [(entity.type, entity.envelope) for entity in document.entities] for document in phi_task.predict(hospital.test)
    ]
    found = [[(f.type, f.range) for f in findings] for _, findings in model_finder(phi_task)(hospital.test)]
    assert found == expected
    assert sum(map(len, found)) > 100


def test_a_lower_threshold_only_adds_findings(phi_task: Task, hospital: SyntheticSite) -> None:
    steps = [covered(model_finder(phi_task, threshold=t), hospital.test) for t in (None, 0.5, 0.1, 0.01)]
    for fewer, more in pairwise(steps):
        assert all(a <= b for a, b in zip(fewer, more, strict=True))
    assert sum(map(len, steps[-1])) > sum(map(len, steps[0]))


def test_uncertain_words_follow_their_probabilities(phi_task: Task, hospital: SyntheticSite) -> None:
    model, document = cast(TaggingModel, phi_task.model), hospital.test[0].with_entities(())
    (found,) = uncertain_words(model, [document], 0.2)
    got = {at for finding in found for at in range(*finding.range) if not document.text[at].isspace()}
    expected = set[int]()
    aligned = align(document)
    for sentence in aligned.sentences:
        with torch.inference_mode():
            outside = model.marginals(model.prepare([aligned.texts(sentence)]))[0, :, 0]
        for word, p in zip(sentence.words, outside.tolist(), strict=True):
            expected |= set(range(*word)) if p < 0.8 else set()
    assert got == expected


def test_pattern_findings_get_the_type_names_of_the_model(phi_task: Task, hospital: SyntheticSite) -> None:
    alone, both = model_finder(phi_task), model_finder(phi_task, patterns=EN)
    merged = zip(covered(alone, hospital.test), covered(pattern_finder(EN), hospital.test), strict=True)
    assert covered(both, hospital.test) == [model | patterns for model, patterns in merged]
    named = {finding.type for _, found in both(hospital.test) for finding in found}
    assert named <= set(phi_task.entity_types)


def test_patterns_and_thresholds_increase_recall(phi_task: Task, hospital: SyntheticSite) -> None:
    ways = [
        model_finder(phi_task),
        model_finder(phi_task, patterns=EN),
        model_finder(phi_task, patterns=EN, threshold=0.05),
    ]
    recalls = [leakage(way, hospital.test).hiding.words.recall for way in ways]
    assert recalls == sorted(recalls)
    assert recalls[1] > 0.9
    assert recalls[2] > recalls[1]


def test_annotation_of_the_notes_is_not_looked_at(phi_task: Task, hospital: SyntheticSite) -> None:
    bare = tuple(document.with_entities(()) for document in hospital.test[:5])
    find = model_finder(phi_task, patterns=EN)
    assert covered(find, bare) == covered(find, hospital.test[:5])


WIDE = str.maketrans({code: code + 0xFEE0 for code in (*range(0x30, 0x3A), *range(0x41, 0x5B), *range(0x61, 0x7B))})


@pytest.mark.parametrize("threshold", [None, 0.1])
def test_a_model_finds_unusual_forms_like_plain_ones(
    phi_task: Task, hospital: SyntheticSite, threshold: float | None
) -> None:
    find = model_finder(phi_task, threshold=threshold)
    plain = tuple(document.with_entities(()) for document in hospital.test)
    wide = tuple(replace(document, text=document.text.translate(WIDE)) for document in plain)
    assert covered(find, wide) == covered(find, plain)
    # An invisible character in every pair of letters moves every offset.
    split = [re.sub(r"(?<=[A-Za-z])(?=[A-Za-z])", "\u200b", document.text) for document in plain]
    hidden = tuple(replace(document, text=text) for document, text in zip(plain, split, strict=True))
    for (document, found), (odd, found_odd) in zip(find(plain), find(hidden), strict=True):
        assert [odd.text[slice(*f.range)].replace("\u200b", "") for f in found_odd] == [
            document.text[slice(*f.range)] for f in found
        ]


def test_words_of_the_corpus_are_recomputed_for_an_edited_note(phi_task: Task) -> None:
    note = Document("a", "Ｊｏｈｎ", words=(Range(0, 2), Range(2, 4)), sentences=(Range(0, 4),))
    ((document, found),) = model_finder(phi_task, threshold=0.001)([note])
    assert document == note
    assert all(finding.range == (0, 4) for finding in found)


@pytest.mark.parametrize("threshold", [0.0, 1.0, -0.1, 7.0])
def test_a_threshold_is_a_probability(phi_task: Task, threshold: float) -> None:
    with pytest.raises(UsageError, match="between 0 and 1"):
        model_finder(phi_task, threshold=threshold)


def test_a_model_without_probabilities_has_no_threshold(phi_task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phi_task, "model", MentionModel(TagSet(phi_task.entity_types), "BIO"))
    with pytest.raises(UsageError, match="remove the threshold"):
        model_finder(phi_task, threshold=0.1)


def test_a_relation_model_is_refused() -> None:
    with pytest.raises(UsageError, match="one that finds entities"):
        model_finder(RelationTask.__new__(RelationTask))


def test_notes_without_words_pass(phi_task: Task) -> None:
    empty = (Document("a", ""), Document("b", " \n"))
    assert [found for _, found in model_finder(phi_task, threshold=0.1, patterns=EN)(empty)] == [[], []]
    assert len(list(pattern_finder(EN)(notes(2)))) == 2
