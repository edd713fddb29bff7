from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel

from tests.models.tiny import word_tagger, write_encoder
from wardround.errors import ModelError, TextError
from wardround.models.encoder_tagger import EncoderTagger, EncoderTaggerConfig
from wardround.models.relation_classifier import (
    CONTEXT,
    FIRST,
    SECOND,
    MarkedText,
    Part,
    RelationClassifier,
    RelationClassifierConfig,
)
from wardround.models.saved import (
    load_model,
    model_card,
    save_model,
)
from wardround.text.document import Document, Entity, Level, Range, Relation
from wardround.text.relation_sets import RelationSet, RelationType

RELATIONS = RelationSet((RelationType("causes", (("Drug", "ADE"),)), RelationType("dose-of")))
VOCABULARY = 30_522
TEXT = MarkedText((Part("Took "), Part("alcohol", FIRST), Part(" and had a "), Part("rash", SECOND), Part(".")))
TURNED = MarkedText((Part("A "), Part("rash", SECOND), Part(" after "), Part("alcohol", FIRST)))


def classifier(encoder: Path | str, relations: RelationSet = RELATIONS, **changes: Any) -> RelationClassifier:
    torch.manual_seed(0)
    return RelationClassifier(RelationClassifierConfig(encoder=str(encoder), **changes), relations)


def spelled(model: RelationClassifier, text: MarkedText) -> list[str]:
    """The pieces as words, the markers by their names."""
    (row,) = model.pieces([text])
    assert row is not None
    markers = dict(enumerate(("<e1>", "</e1>", "<e2>", "</e2>"), start=model.first_marker))
    return [markers.get(piece) or model.tokenizer.tokenizer.convert_ids_to_tokens(piece) for piece in row.ids]


def document(*relations: Relation) -> Document:
    entities = (
        Entity("T1", "Drug", (Range(0, 1),), concepts=("D1",)),
        Entity("T2", "ADE", (Range(1, 2),), concepts=("C1", "C2")),
        Entity("T3", "Gene", (Range(2, 3),), concepts=("C1",)),
    )
    return Document("n", "abc", entities, relations)


# Texts.


def test_a_text_needs_both_mentions() -> None:
    with pytest.raises(TextError, match="needs both of its mentions marked"):
        MarkedText((Part("Took "), Part("alcohol", FIRST)))


def test_repr_contains_no_text(tiny_encoder: Path) -> None:
    assert "alcohol" not in repr(TEXT)
    assert "2" not in repr(classifier(tiny_encoder).pieces([TEXT]))


def test_markers_stand_around_the_mentions(tiny_encoder: Path) -> None:
    model = classifier(tiny_encoder)
    expected = "[CLS] took <e1> alcohol </e1> and had a <e2> rash </e2> . [SEP]"
    assert spelled(model, TEXT) == expected.split()
    assert spelled(model, TURNED) == "[CLS] a <e2> rash </e2> after <e1> alcohol </e1> [SEP]".split()
    (row,) = model.pieces([TEXT])
    assert row is not None
    assert row.owners == (0, 0, 0, FIRST, 0, 0, 0, 0, 0, SECOND, 0, 0, 0)


def test_a_discontinuous_mention_is_marked_range_by_range(tiny_encoder: Path) -> None:
    parts = (Part("joint", FIRST), Part(" and "), Part("muscle", SECOND), Part(" "), Part("pain", FIRST))
    expected = "[CLS] <e1> joint </e1> and <e2> muscle </e2> <e1> pain </e1> [SEP]"
    assert spelled(classifier(tiny_encoder), MarkedText(parts)) == expected.split()


def test_no_note_can_spell_a_marker(tiny_encoder: Path) -> None:
    model = classifier(tiny_encoder)
    text = MarkedText((Part("<e1> [SEP] [CLS] \ud800"), Part("<e2>", FIRST), Part(" "), Part("</e1>", SECOND)))
    markers = [piece for piece in spelled(model, text) if piece in ("<e1>", "</e1>", "<e2>", "</e2>")]
    assert markers == ["<e1>", "</e1>", "<e2>", "</e2>"]
    assert [piece for piece in spelled(model, text) if piece in ("[CLS]", "[SEP]")] == ["[CLS]", "[SEP]"]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        # Room is the limit less [CLS] and [SEP]; the mentions and what is between them take seven.
        (9, "<e1> alcohol </e1> c <e2> rash </e2>"),
        (10, "<e1> alcohol </e1> c <e2> rash </e2> x"),
        (11, "b <e1> alcohol </e1> c <e2> rash </e2> x"),
        (12, "b <e1> alcohol </e1> c <e2> rash </e2> x y"),
        (13, "a b <e1> alcohol </e1> c <e2> rash </e2> x y"),
        (14, "a b <e1> alcohol </e1> c <e2> rash </e2> x y z"),  # all there is on the left
        (40, "a b <e1> alcohol </e1> c <e2> rash </e2> x y z w"),
    ],
)
def test_context_is_cut_on_both_sides(tiny_encoder: Path, limit: int, expected: str) -> None:
    parts = (Part("a b "), Part("alcohol", FIRST), Part(" c "), Part("rash", SECOND), Part(" x y z w"))
    model = classifier(tiny_encoder, limit=limit)
    assert spelled(model, MarkedText(parts)) == ["[CLS]", *expected.split(), "[SEP]"]


def test_unused_context_on_one_side_goes_to_the_other(tiny_encoder: Path) -> None:
    parts = (Part("a b c d e "), Part("alcohol", FIRST), Part("rash", SECOND), Part(" x"))
    expected = "[CLS] c d e <e1> alcohol </e1> <e2> rash </e2> x [SEP]"
    assert spelled(classifier(tiny_encoder, limit=12), MarkedText(parts)) == expected.split()


def test_mentions_too_far_apart_are_dropped(tiny_encoder: Path) -> None:
    far = MarkedText((Part("alcohol", FIRST), Part(" a b c "), Part("rash", SECOND)))
    fits, drops = classifier(tiny_encoder, limit=11), classifier(tiny_encoder, limit=10)
    assert fits.pieces([far])[0] is not None
    assert drops.pieces([far]) == [None]
    near = MarkedText((Part("alcohol", FIRST), Part("rash", SECOND)))
    assert [row is None for row in drops.pieces([near, far, near])] == [False, True, False]
    with pytest.raises(ModelError, match="1 of 2 texts do not fit 10 pieces even without their context") as caught:
        drops.prepare([near, far])
    assert "alcohol" not in str(caught.value)


def test_the_limit_is_never_above_what_the_encoder_reads(tiny_encoder: Path) -> None:
    model = classifier(tiny_encoder, limit=5000)  # it has 64 positions
    long = MarkedText((Part("a " * 300), Part("alcohol", FIRST), Part("rash", SECOND), Part(" b" * 300)))
    inputs = model.prepare([long])
    assert inputs.ids.shape == (1, 64)
    assert model.logits(inputs).isfinite().all()


def test_preparing_no_text_is_refused(tiny_encoder: Path) -> None:
    model = classifier(tiny_encoder)
    assert model.pieces([]) == []
    with pytest.raises(ModelError, match="no text to prepare"):
        model.prepare([])


# The network.


def test_every_layer_is_a_group_and_the_output_is_private(tiny_encoder: Path) -> None:
    model = classifier(tiny_encoder)
    assert model.groups == ("embeddings", "layer_0", "layer_1", "output")
    assert model.split.shared == model.groups[:-1]
    assert model.private_parameters().keys() == {"output.weight", "output.bias"}
    assert model.output_names(dict(model.named_parameters())) == ["output.weight", "output.bias"]
    assert model.group_of("network.embeddings.word_embeddings.weight") == "embeddings"
    assert classifier(tiny_encoder, shared=("layer_1", "output")).split.private == ("embeddings", "layer_0")
    with pytest.raises(ModelError, match="no layer group is called crf"):
        classifier(tiny_encoder, shared=("crf",))


def test_the_markers_are_four_rows_behind_the_vocabulary(tiny_encoder: Path) -> None:
    model = classifier(tiny_encoder)
    original = AutoModel.from_pretrained(tiny_encoder).get_input_embeddings().weight
    table = model.shared_parameters()["network.embeddings.word_embeddings.weight"]
    assert len(original) == VOCABULARY == model.first_marker
    assert table.shape == (VOCABULARY + 4, 8)
    assert torch.equal(table[:VOCABULARY], original)
    markers = table[VOCABULARY:]
    assert len({tuple(row) for row in markers.tolist()}) == 4
    # Within five deviations of the vocabulary's mean, as the rows of words are.
    assert ((markers - original.mean(0)).abs() < 5 * original.std(0)).all()
    again = classifier(tiny_encoder).network.get_input_embeddings().weight
    assert torch.equal(again, table)


def test_logits_by_the_equations(tiny_encoder: Path) -> None:
    """h = h0 ⊕ Σ e1 ⊕ Σ e2, then W h + b, from the network's own public call."""
    model = classifier(tiny_encoder).eval()
    parts = (Part("Took "), Part("high dose alcohol", FIRST), Part(" "), Part("rash", SECOND))
    inputs = model.prepare([MarkedText(parts)])
    with torch.inference_mode():
        states = model.network(input_ids=inputs.ids).last_hidden_state[0]
        # [CLS] took <e1> high dose alcohol </e1> <e2> rash </e2> [SEP]
        whole = torch.cat([states[0], states[3] + states[4] + states[5], states[8]])
        expected = model.output.weight @ whole + model.output.bias
        torch.testing.assert_close(model.logits(inputs)[0], expected, atol=1e-5, rtol=1e-5)


def test_a_text_gives_the_same_numbers_in_any_batch(tiny_encoder: Path) -> None:
    model = classifier(tiny_encoder).eval()
    with torch.inference_mode():
        together = model.logits(model.prepare([TEXT, TURNED]))
        alone = torch.cat([model.logits(model.prepare([text])) for text in (TEXT, TURNED)])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(alone[0], alone[1], atol=1e-3)


def test_the_order_of_the_mentions_matters(tiny_encoder: Path) -> None:
    model = classifier(tiny_encoder).eval()
    swapped = MarkedText(tuple(Part(p.words, {FIRST: SECOND, SECOND: FIRST}.get(p.owner, CONTEXT)) for p in TEXT.parts))
    with torch.inference_mode():
        found = model.logits(model.prepare([TEXT, swapped]))
    assert not torch.allclose(found[0], found[1], atol=1e-3)


def test_the_loss_is_the_mean_cross_entropy(tiny_encoder: Path) -> None:
    model = classifier(tiny_encoder).eval()
    inputs = model.prepare([TEXT, TURNED])
    log = model.logits(inputs).log_softmax(-1)
    torch.testing.assert_close(model.loss(inputs, torch.tensor([2, 0])), -(log[0, 2] + log[1, 0]) / 2)


def test_every_parameter_gets_a_gradient(tiny_encoder: Path) -> None:
    model = classifier(tiny_encoder)
    model.loss(model.prepare([TEXT, TURNED]), torch.tensor([1, 0])).backward()  # type: ignore[no-untyped-call]
    assert all(parameter.grad is not None for parameter in model.parameters())
    markers = model.network.get_input_embeddings().weight.grad[-4:]
    assert (markers.abs().sum(1) > 0).all()


@pytest.mark.parametrize("label", [3, -1, -100])
def test_labels_outside_the_relation_set_are_refused(tiny_encoder: Path, label: int) -> None:
    model = classifier(tiny_encoder)
    with pytest.raises(ModelError, match="a label lies outside the 3 classes"):
        model.loss(model.prepare([TEXT, TURNED]), torch.tensor([0, label]))


def test_bert_tiny_from_scratch() -> None:
    model = classifier("bert-tiny")
    embeddings = (VOCABULARY + 4 + 512 + 2 + 2) * 128  # words and markers, positions, segments, layer norm
    layer = 4 * (128 * 128 + 128) + (2 * 128 * 512 + 512 + 128) + 2 * 2 * 128  # attention, feed-forward, layer norms
    expected = embeddings + 2 * layer + 3 * (3 * 128) + 3
    assert sum(parameter.numel() for parameter in model.parameters()) == expected


def test_minilm_comes_with_its_weights() -> None:
    model = classifier("minilm")
    assert model.groups == ("embeddings", *(f"layer_{number}" for number in range(6)), "output")
    original = AutoModel.from_pretrained(model.network.config._name_or_path).state_dict()
    mine = model.network.state_dict()
    words = "embeddings.word_embeddings.weight"
    assert torch.equal(mine.pop(words)[:VOCABULARY], original[words])
    assert all(torch.equal(tensor, original[name]) for name, tensor in mine.items())


def test_invalid_configurations_are_refused(tiny_encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="limit is 7; it must be at least 8"):
        RelationClassifierConfig(limit=7)
    with pytest.raises(ModelError, match="window is 0"):
        RelationClassifierConfig(window=0)
    with pytest.raises(ModelError, match="dropout is 1"):
        RelationClassifierConfig(dropout=1.0)
    folder = write_encoder(tmp_path / "gone")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="no encoder could be loaded from 'gone'") as caught:
        classifier(folder)
    assert str(tmp_path) not in str(caught.value)


# Saved.


@pytest.mark.parametrize("encoder", ["tiny", "bert-tiny"])
def test_a_loaded_model_is_the_saved_one(encoder: str, tiny_encoder: Path, tmp_path: Path) -> None:
    relations = RelationSet(RELATIONS.types, "nothing", directed=False, level=Level.CONCEPT)
    source = tiny_encoder if encoder == "tiny" else encoder
    model = classifier(source, relations, limit=20, window=2, blinding=False, shared=("layer_0",)).eval()
    save_model(model, tmp_path / "model", notes={"f1": 0.5})
    loaded = load_model(tmp_path / "model")
    assert not loaded.training
    assert (loaded.relations, loaded.config, loaded.split) == (relations, model.config, model.split)
    assert loaded.first_marker == model.first_marker
    mine, theirs = model.state_dict(), loaded.state_dict()
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    assert spelled(loaded, TEXT) == spelled(model, TEXT)
    with torch.inference_mode():
        found = [one.logits(one.prepare([TEXT, TURNED])) for one in (model, loaded)]
    assert torch.equal(*found)
    card = model_card(tmp_path / "model")
    assert (card["notes"], card["types"]) == ({"f1": 0.5}, ["causes", "dose-of"])
    assert not list((tmp_path / "model").glob("*.bin"))


def test_a_model_of_another_kind_is_refused(tiny_encoder: Path, tmp_path: Path) -> None:
    save_model(classifier(tiny_encoder), tmp_path / "relations")
    save_model(word_tagger(), tmp_path / "tagger")
    kinds = [type(load_model(tmp_path / name)).__name__ for name in ("relations", "tagger")]
    assert kinds == ["RelationClassifier", "WordTagger"]


def test_a_damaged_folder(tiny_encoder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    save_model(classifier(tiny_encoder), folder)
    card = json.loads((folder / "wardround.json").read_text())
    for relations, complaint in (
        (None, "model/wardround.json: not a relation set"),
        (RELATIONS.as_values() | {"types": []}, "model/wardround.json: a relation set has no type"),
        (RelationSet(RELATIONS.types[:1]).as_values(), "model: the weights do not fit the model card"),
    ):
        (folder / "wardround.json").write_text(json.dumps(card | {"relations": relations}))
        with pytest.raises(ModelError, match=complaint):
            load_model(folder)
    (folder / "wardround.json").write_text(json.dumps(card))
    (folder / "output.safetensors").write_bytes(b"{}")
    with pytest.raises(ModelError, match=r"model/output\.safetensors is missing or damaged"):
        load_model(folder)


def test_a_saved_classifier_can_be_an_encoder_again(tiny_encoder: Path, tmp_path: Path) -> None:
    save_model(classifier(tiny_encoder), tmp_path / "model")
    assert classifier(tmp_path / "model").first_marker == VOCABULARY + 4
    tagger = EncoderTagger(EncoderTaggerConfig(encoder=str(tmp_path / "model")), tag_set=word_tagger().tag_set)
    assert tagger.groups == ("embeddings", "layer_0", "layer_1", "output")
