from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.models.tiny import write_encoder
from torch import Tensor

from wardround.errors import ModelError, TextError, TrainingError
from wardround.evaluation.counts import SpanCounts
from wardround.models.relation_classifier import (
    RelationClassifier,
    RelationClassifierConfig,
    RelationInputs,
)
from wardround.tasks.relation_instances import LabelledInstance, RelationCounts, instances_of, labelled_instances
from wardround.tasks.relations import (
    RelationTask,
    batch_loss,
    encode,
    logits,
    predict,
    rules_of,
    score,
)
from wardround.tasks.task import head_scores
from wardround.text.document import Document, Entity, Level, Range, Relation
from wardround.text.relation_sets import RelationSet, RelationType

CAUSES = RelationType("causes", (("Drug", "ADE"),))
DOSE = RelationType("dose-of", (("Dose", "Drug"),))
BINARY = RelationSet((CAUSES,))
ASPIRIN = (Entity("T1", "Drug", (Range(0, 7),)), Entity("T2", "ADE", (Range(13, 17),)))
GAVE = Document(
    "n1",
    "Aspirin gave rash and nausea.",
    (*ASPIRIN, Entity("T3", "ADE", (Range(22, 28),))),
    (Relation("R1", "causes", "T1", "T2"),),
)
APART = Document(
    "n2",
    "Took aspirin. Rash came.",
    (Entity("T1", "Drug", (Range(5, 12),)), Entity("T2", "ADE", (Range(14, 18),))),
    (Relation("R1", "causes", "T1", "T2"),),
)
FAR = Document(
    "n3",
    f"Aspirin gave {'very ' * 10}bad rash.",
    (Entity("T1", "Drug", (Range(0, 7),)), Entity("T2", "ADE", (Range(67, 71),))),
    (Relation("R1", "causes", "T1", "T2"),),
)
EMPTY = Document("empty", "")


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("encoders") / "tiny")


class Rule(RelationClassifier):
    """Scores by the words it sees: of each class, how many of its words are there."""

    words: tuple[str, ...] = ("", "gave")

    def logits(self, inputs: RelationInputs) -> Tensor:
        pieces = [self.tokenizer.tokenizer.convert_tokens_to_ids(word) for word in self.words]
        return torch.stack([(inputs.ids == piece).sum(1).float() for piece in pieces], dim=-1)


def config(encoder: Path, **changes: Any) -> RelationClassifierConfig:
    return RelationClassifierConfig(encoder=str(encoder), **changes)


def learner(encoder: Path, relations: RelationSet = BINARY, **changes: Any) -> RelationClassifier:
    torch.manual_seed(0)
    return RelationClassifier(config(encoder, **changes), relations)


def found(document: Document) -> list[tuple[str, str, str, str]]:
    return [(relation.id, relation.type, relation.head, relation.tail) for relation in document.relations]


# Encoding and loss.


def test_documents_become_labelled_pairs(encoder: Path) -> None:
    examples = encode([GAVE, APART, EMPTY], learner(encoder))
    assert [(e.instance.head, e.instance.tail, e.label) for e in examples.instances] == [
        ("T1", "T2", "causes"),
        ("T1", "T3", "none"),
    ]
    assert examples.counts == RelationCounts(kept=1, out_of_window=1, negatives=1)


def test_window_and_blinding_are_those_of_the_model(encoder: Path) -> None:
    model = learner(encoder, window=2, blinding=False)
    examples = encode([APART], model)
    assert [part.words for part in examples.instances[0].instance.text.parts][1::2] == ["aspirin", "Rash"]
    assert examples.counts == RelationCounts(kept=1)


def test_pairs_that_are_too_long_are_counted(encoder: Path) -> None:
    both = replace(
        FAR, entities=(*FAR.entities, Entity("T3", "ADE", (Range(13, 17),)), Entity("T4", "Drug", (Range(8, 12),)))
    )
    examples = encode([both, GAVE], learner(encoder, limit=16))
    # Of FAR the pairs T1–T3, T4–T3 fit; T1–T2, annotated, and T4–T2 do not.
    assert examples.counts == RelationCounts(kept=1, too_long=1, negatives=3, negatives_too_long=1)
    assert examples.counts.relations == 2
    assert len(examples.instances) == 4


def test_documents_with_equal_ids_are_counted_separately(encoder: Path) -> None:
    model = learner(encoder, limit=16)
    assert encode([replace(FAR, id="n"), replace(GAVE, id="n")], model).counts.too_long == 1


def test_negatives_are_drawn(encoder: Path) -> None:
    examples = encode([GAVE] * 4, learner(encoder), negatives=0.5, seed=1)
    assert examples.counts == RelationCounts(kept=4, negatives=2, negatives_not_drawn=2)


def test_documents_without_examples_are_refused(encoder: Path) -> None:
    for documents in ([], [EMPTY], [APART]):
        with pytest.raises(TrainingError, match="the documents contain no pair of entities to train on"):
            encode(documents, learner(encoder))


def test_the_loss_of_a_batch_is_the_mean_of_its_instances(encoder: Path) -> None:
    model = learner(encoder).eval()
    examples = encode([GAVE], model).instances
    alone = [batch_loss(model, [example]) for example in examples]
    torch.testing.assert_close(batch_loss(model, examples), torch.stack(alone).mean())
    assert alone[0] != alone[1]


def test_an_unknown_label_is_refused(encoder: Path) -> None:
    model = learner(encoder)
    (example, *_) = encode([GAVE], model).instances
    with pytest.raises(TrainingError, match="no class of the model is called 'treats'; it has none, causes"):
        batch_loss(model, [example, LabelledInstance(example.instance, "treats", "R1")])


def test_a_batch_with_a_pair_that_does_not_fit_is_refused(encoder: Path) -> None:
    model = learner(encoder, limit=16)
    examples = labelled_instances([FAR], rules_of(model)).instances
    with pytest.raises(ModelError, match="1 of 1 texts do not fit 16 pieces"):
        batch_loss(model, examples)


# Predictions.


def test_logits_in_the_order_of_the_instances(encoder: Path) -> None:
    model = learner(encoder, limit=16, window=2).train()
    instances = [i for document in (FAR, GAVE, APART) for i in instances_of(document, rules_of(model))]
    predictions = logits(model, instances, batch_size=2)
    assert predictions.dropped == (0,)
    assert predictions.logits.shape == (4, 2)
    assert predictions.logits[0].tolist() == [0.0, 0.0]
    assert predictions.probabilities[0].tolist() == [0.5, 0.5]
    with torch.inference_mode():
        alone = torch.cat([model.eval().logits(model.prepare([i.text])) for i in instances[1:]])
    torch.testing.assert_close(predictions.logits[1:], alone, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(predictions.probabilities.sum(1), torch.ones(4))
    assert torch.equal(logits(model, instances, batch_size=2).logits, predictions.logits)


def test_logits_of_nothing(encoder: Path) -> None:
    assert logits(learner(encoder), []).logits.shape == (0, 2)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_scores_that_are_not_finite_are_refused(encoder: Path, value: float) -> None:
    model = learner(encoder)
    with torch.no_grad():
        model.output.bias[1] = value
    with pytest.raises(TrainingError, match="scores are not finite"):
        list(predict(model, [GAVE]))
    with pytest.raises(TrainingError, match="scores are not finite"):
        score(model, [GAVE])


def test_predictions_replace_the_annotation(encoder: Path) -> None:
    first, second, third = predict(Rule(config(encoder), BINARY), [GAVE, EMPTY, APART])
    assert found(first) == [("R1", "causes", "T1", "T2"), ("R2", "causes", "T1", "T3")]
    assert (first.entities, first.text) == (GAVE.entities, GAVE.text)
    assert second == EMPTY
    assert found(third) == []


def test_a_pair_that_does_not_fit_is_a_negative(encoder: Path) -> None:
    assert found(next(predict(Rule(config(encoder), BINARY), [FAR]))) == [("R1", "causes", "T1", "T2")]
    assert found(next(predict(Rule(config(encoder, limit=16), BINARY), [FAR]))) == []


def test_a_type_that_the_entities_do_not_allow_is_not_predicted(encoder: Path) -> None:
    model = Rule(config(encoder), RelationSet((CAUSES, DOSE)))
    text = "Aspirin gave rash rash rash."
    document = Document("n", text, ASPIRIN)
    model.words = ("", "gave", ".")
    # "dose-of" scores as high as "causes", but a drug is no dose.
    assert found(next(predict(model, [document]))) == [("R1", "causes", "T1", "T2")]
    model.words = ("gave", "", "rash")
    assert found(next(predict(model, [document]))) == []


def test_an_undirected_relation_is_compared_either_way(encoder: Path) -> None:
    model = Rule(config(encoder), replace(BINARY, directed=False))
    turned = replace(GAVE, relations=(Relation("R1", "causes", "T2", "T1"),))
    assert found(next(predict(model, [turned])))[0] == ("R1", "causes", "T1", "T2")
    assert score(model, [turned]).score.counts["causes"] == SpanCounts(1, 1, 0)
    assert score(Rule(config(encoder), BINARY), [turned]).score.counts["causes"] == SpanCounts(0, 2, 1)


def test_relations_between_concepts_are_predicted_once(encoder: Path) -> None:
    concepts = {"T1": ("A",), "T2": ("R",), "T3": ("R", "N")}
    entities = tuple(replace(entity, concepts=concepts[entity.id]) for entity in GAVE.entities)
    relation = Relation("R1", "causes", "R", "A", Level.CONCEPT)
    document = replace(GAVE, entities=entities, relations=(relation,))
    model = Rule(config(encoder), RelationSet((CAUSES,), directed=False, level=Level.CONCEPT))
    (predicted,) = predict(model, [document])
    assert found(predicted) == [("R1", "causes", "A", "R"), ("R2", "causes", "A", "N")]
    assert all(relation.level is Level.CONCEPT for relation in predicted.relations)
    assert score(model, [document]).score.counts["causes"] == SpanCounts(1, 1, 0)


def test_among_mentions_of_the_same_concepts_the_likeliest_decides(encoder: Path) -> None:
    text = "Aspirin gave rash. A rash cured cured by aspirin."
    places = (("Drug", 0, 7, "A"), ("ADE", 13, 17, "R"), ("ADE", 21, 25, "R"), ("Drug", 41, 48, "A"))
    entities = tuple(
        Entity(f"T{number}", kind, (Range(start, end),), concepts=(concept,))
        for number, (kind, start, end, concept) in enumerate(places, start=1)
    )
    relations = RelationSet((CAUSES, replace(CAUSES, name="heals")), directed=False, level=Level.CONCEPT)
    model = Rule(config(encoder), relations)
    model.words = ("", "gave", "cured")
    # The second sentence names the rash first and says its word twice.
    assert found(next(predict(model, [Document("n", text, entities)]))) == [("R1", "heals", "A", "R")]


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_the_batch_size_changes_nothing(encoder: Path, batch_size: int) -> None:
    model = learner(encoder, window=2)
    with torch.no_grad():
        model.output.weight.mul_(20)
    documents = [GAVE, APART, FAR, EMPTY] * 3
    expected = list(predict(model, documents))
    assert list(predict(model, documents, batch_size=batch_size)) == expected


@pytest.mark.parametrize("document", [GAVE, EMPTY], ids=["notes", "empty"])
def test_an_endless_stream_is_read_lazily(encoder: Path, document: Document) -> None:
    read = []

    def stream() -> Iterator[Document]:
        for number in count():
            read.append(number)
            yield replace(document, id=f"n{number}")

    predicted = predict(Rule(config(encoder), BINARY), stream())
    assert [one.id for one in islice(predicted, 3)] == ["n0", "n1", "n2"]
    assert len(read) <= 1024


# Scores.


def test_a_score_by_hand(encoder: Path) -> None:
    other = replace(APART, relations=(*APART.relations, Relation("R2", "treats", "T1", "T2")))
    scored = score(Rule(config(encoder, limit=16), BINARY), [GAVE, other, FAR, EMPTY])
    # n1: one right, one wrong. n2: out of the window, and "treats" was not looked for. n3: does not fit.
    assert dict(scored.score.counts) == {"causes": SpanCounts(1, 1, 2)}
    assert scored.score.counts.micro.f1 == pytest.approx(2 / 5)
    assert scored.dropped == 1
    assert len(scored.score.by_document) == 4


def test_relations_of_another_level_are_refused(encoder: Path) -> None:
    model = Rule(config(encoder), replace(BINARY, level=Level.CONCEPT))
    with pytest.raises(TextError, match="relation 'R1' is between mentions"):
        score(model, [GAVE])


def test_a_classifier_learns(encoder: Path) -> None:
    words = [("gave", "causes"), ("without", "none")]
    documents = [
        Document(
            f"n{number}",
            f"Aspirin {word} rash number {number}.",
            (Entity("T1", "Drug", (Range(0, 7),)), Entity("T2", "ADE", (Range(9 + len(word), 13 + len(word)),))),
            (Relation("R1", "causes", "T1", "T2"),) if label == "causes" else (),
        )
        for number in range(12)
        for word, label in [words[number % 2]]
    ]
    model = learner(encoder, dropout=0.0)
    examples = encode(documents, model).instances
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    model.train()
    for _ in range(50):
        optimizer.zero_grad()
        batch_loss(model, examples).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert score(model, documents).score.counts.micro == SpanCounts(6, 0, 0)


# The task: a classifier bound to how its pairs are drawn.


def test_entity_types_are_those_that_relations_can_connect(encoder: Path) -> None:
    task = RelationTask(learner(encoder, RelationSet((CAUSES, DOSE, RelationType("with")))))
    assert (task.matching_modes, task.classes(), task.alignment_losses) == (("relations",), {"relations": 4}, {})
    assert task.entity_types == ("Drug", "ADE", "Dose")


def test_a_task_encodes_the_pairs_it_trains_on(encoder: Path) -> None:
    task = RelationTask(learner(encoder), negatives=0.5, seed=1)
    examples = task.encode([GAVE] * 4)
    assert examples == encode([GAVE] * 4, task.model, negatives=0.5, seed=1).instances
    assert task.alignment_losses == asdict(RelationCounts(kept=4, negatives=2, negatives_not_drawn=2))
    assert [task.length(example) for example in examples] == [len(example.instance.text) for example in examples]
    assert len(RelationTask(task.model).encode([GAVE] * 4)) == 8


def test_public_pairs_are_the_same_rows_for_every_encoder(encoder: Path) -> None:
    """What one site cannot read, another may: a pair is a row, whether it fits or not, whatever is drawn to train."""
    documents = [GAVE, FAR, APART, EMPTY]
    short, long = (RelationTask(learner(encoder, limit=limit), negatives=0.0) for limit in (16, 64))
    found = short.public(documents)
    assert [(e.instance.document, e.instance.tail, e.label) for e in found] == [
        ("n1", "T2", "causes"),
        ("n1", "T3", "none"),
        ("n3", "T2", "causes"),
    ]
    assert found == long.public(documents)
    assert short.labels(found)["relations"].tolist() == long.labels(found)["relations"].tolist() == [1, 0, 1]
    assert [e.instance.document for e in short.encode(documents)] == ["n1"]


def test_a_public_set_without_pairs_is_refused(encoder: Path) -> None:
    for documents in ([], [EMPTY], [APART]):
        with pytest.raises(TrainingError, match=r"^the public documents contain no pair of entities; widen the window"):
            RelationTask(learner(encoder)).public(documents)


def test_heads_have_one_row_per_pair(encoder: Path) -> None:
    task = RelationTask(learner(encoder, window=2).eval())
    examples = task.public([GAVE, APART])
    assert task.labels(examples)["relations"].tolist() == [1, 0, 1]
    heads = task.heads(examples)["relations"]
    torch.testing.assert_close(heads, logits(task.model, [e.instance for e in examples]).logits, atol=1e-5, rtol=1e-5)
    assert heads.shape == (3, 2)
    torch.testing.assert_close(task.batch_loss(examples), batch_loss(task.model, examples))


def test_a_pair_that_does_not_fit_gives_zeros_and_no_gradient(encoder: Path) -> None:
    task = RelationTask(learner(encoder, limit=16, dropout=0.0).eval())
    examples = task.public([GAVE, FAR, GAVE])
    heads = task.heads(examples)["relations"]
    assert heads[2].tolist() == [0.0, 0.0]
    assert heads.abs().sum(1).bool().tolist() == [True, True, False, True, True]
    torch.testing.assert_close(heads[:2], heads[3:], atol=1e-5, rtol=1e-5)
    heads[2].sum().backward()  # type: ignore[no-untyped-call]
    assert all(parameter.grad is None or not parameter.grad.any() for parameter in task.model.parameters())
    task.heads(examples)["relations"].sum().backward()  # type: ignore[no-untyped-call]
    # Of four pairs that fit, each has a share of one in the bias of a class.
    assert task.model.output.bias.grad is not None and task.model.output.bias.grad.tolist() == [4.0, 4.0]


@pytest.mark.parametrize("batch_size", [1, 2, 64])
def test_rows_are_in_the_order_of_the_pairs(encoder: Path, batch_size: int) -> None:
    task = RelationTask(learner(encoder, limit=16, window=2))
    examples = task.public([FAR, GAVE, APART])
    found = head_scores(task, examples, batch_size=batch_size)["relations"]
    assert found[0].tolist() == [0.0, 0.0]
    alone = logits(task.model, [example.instance for example in examples]).logits
    torch.testing.assert_close(found, alone, atol=1e-5, rtol=1e-5)


def test_the_score_of_a_task_by_hand(encoder: Path) -> None:
    found = RelationTask(Rule(config(encoder, limit=16), BINARY)).score([GAVE, APART, FAR, EMPTY])
    # n1: one right, one wrong. n2: out of the window. n3: does not fit.
    assert dict(found.main) == {"causes": SpanCounts(1, 1, 2)}
    assert [dict(counts) for counts in found.by_document["relations"]] == [
        {"causes": SpanCounts(1, 1, 0)},
        {"causes": SpanCounts(0, 0, 1)},
        {"causes": SpanCounts(0, 0, 1)},
        {},
    ]
    assert (found.documents, found.dropped, found.entities) == (4, 1, None)


def test_a_task_predicts_as_its_classifier_does(encoder: Path) -> None:
    model = Rule(config(encoder), BINARY)
    assert list(RelationTask(model).predict([GAVE, EMPTY])) == list(predict(model, [GAVE, EMPTY]))
