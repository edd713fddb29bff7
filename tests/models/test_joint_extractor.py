from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import pipeline

from tests.models.tiny import TYPES, word_tagger, write_encoder
from wardround.errors import ModelError
from wardround.models.joint_extractor import JointExtractor, JointExtractorConfig, PairRows, RelationHead, SpanPair
from wardround.models.saved import load_model, model_card, save_model
from wardround.text.document import Level
from wardround.text.relation_sets import RelationSet, RelationType
from wardround.text.tag_schemes import WordSpan
from wardround.text.tag_sets import TagSet

RELATIONS = RelationSet((RelationType("causes", (("Drug", "ADE"),)), RelationType("dose-of")))
GAVE = ("Aspirin", "gave", "her", "joint", "pain", ".")
AFTER = ("Rash", "after", "penicillin")
CAUSED = SpanPair(WordSpan(0, 1, "Drug"), WordSpan(3, 5, "ADE"))
TURNED = SpanPair(WordSpan(2, 3, "Drug"), WordSpan(0, 1, "ADE"))


def extractor(encoder: Path | str, relations: RelationSet = RELATIONS, **changes: Any) -> JointExtractor:
    torch.manual_seed(0)
    return JointExtractor(JointExtractorConfig(encoder=str(encoder), **changes), TYPES, relations)


def rows(model: JointExtractor, *pairs: tuple[int, SpanPair]) -> PairRows:
    return model.pair_rows(pairs, [len(GAVE), len(AFTER)])


def same_weights(left: JointExtractor, right: JointExtractor) -> bool:
    mine, theirs = left.state_dict(), right.state_dict()
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)


# Pairs.


def test_the_words_between_two_mentions() -> None:
    assert CAUSED.between == (1, 3)
    assert TURNED.between == (1, 2)
    assert SpanPair(WordSpan(0, 2, "Drug"), WordSpan(2, 3, "ADE")).between == (2, 2)
    assert SpanPair(WordSpan(4, 6, "Drug"), WordSpan(3, 9, "ADE")).between == (6, 6)  # they share words


def test_pairs_as_numbers(tiny_encoder: Path) -> None:
    found = rows(extractor(tiny_encoder), (0, CAUSED), (1, TURNED))
    assert found.texts.tolist() == [0, 1]
    assert found.words.tolist() == [[[0, 1], [3, 5], [1, 3]], [[2, 3], [0, 1], [1, 2]]]
    assert found.types.tolist() == [[1, 0], [1, 0]]  # the types are ADE, Drug
    assert found.turned.tolist() == [0, 1]


@pytest.mark.parametrize(("start", "end"), [(0, 0), (2, 1), (-1, 1), (2, 4), (3, 4)])
def test_a_span_outside_its_text_is_refused(tiny_encoder: Path, start: int, end: int) -> None:
    """The other text of the batch is longer: padding would be read in place of words."""
    with pytest.raises(ModelError, match="a mention of a pair is empty or lies outside its text"):
        rows(extractor(tiny_encoder), (1, SpanPair(WordSpan(0, 1, "Drug"), WordSpan(start, end, "ADE"))))


def test_an_unknown_type_is_refused(tiny_encoder: Path) -> None:
    with pytest.raises(ModelError, match="no entity type of the model is called 'Gene'; it has ADE, Drug"):
        rows(extractor(tiny_encoder), (0, SpanPair(WordSpan(0, 1, "Gene"), WordSpan(1, 2, "ADE"))))


# The relation head, by hand.


def test_scores_by_hand() -> None:
    """One number a state, and a hidden layer that copies a number of each part."""
    head = RelationHead(1, types=2, classes=6, dropout=0.0)
    head.hidden, head.classes = torch.nn.Linear(3 + 96, 6), torch.nn.Identity()  # as wide as there are parts to see
    with torch.no_grad():
        head.types.weight[:] = torch.tensor([[10.0], [20.0]]).expand(2, 32)
        head.order.weight[:] = torch.tensor([[1.0], [2.0]]).expand(2, 32)
        head.hidden.weight.zero_()
        head.hidden.bias.zero_()
        # Head, tail, between, the first number of either type and of the order.
        for row, column in enumerate((0, 1, 2, 3, 35, 67)):
            head.hidden.weight[row, column] = 1.0
    states = torch.tensor([[[1.0], [2.0], [4.0], [8.0], [16.0]], [[3.0], [5.0], [7.0], [0.0], [0.0]]])
    pairs = PairRows(
        torch.tensor([0, 1]),
        torch.tensor([[[0, 1], [3, 5], [1, 3]], [[2, 3], [0, 1], [1, 1]]]),
        torch.tensor([[0, 1], [1, 1]]),
        torch.tensor([0, 1]),
    )
    expected = [[1.0, (8 + 16) / 2, (2 + 4) / 2, 10.0, 20.0, 1.0], [7.0, 3.0, 0.0, 20.0, 20.0, 2.0]]
    assert head(states, pairs).tolist() == expected


def test_the_order_and_the_types_matter(tiny_encoder: Path) -> None:
    model = extractor(tiny_encoder).eval()
    other = SpanPair(WordSpan(0, 1, "ADE"), WordSpan(3, 5, "ADE"))
    with torch.inference_mode():
        states = model.states(model.prepare([GAVE]))
        pairs = [(0, CAUSED), (0, SpanPair(CAUSED.tail, CAUSED.head)), (0, other)]
        found = model.relation_scores(states, model.pair_rows(pairs, [6]))
    assert not torch.allclose(found[0], found[1], atol=1e-3)
    assert not torch.allclose(found[0], found[2], atol=1e-3)


# The network.


def test_one_pass_gives_both_heads_their_states(tiny_encoder: Path) -> None:
    model = extractor(tiny_encoder).eval()
    with torch.inference_mode():
        pieces = model.prepare([GAVE])
        states = model.states(pieces)
        whole = model.network(input_ids=pieces.ids)
        # [CLS] as ##pi ##rin gave her joint pain . [SEP]
        expected = whole.logits[0, [1, 4, 5, 6, 7, 8]]
        torch.testing.assert_close(model.emissions(states)[0], expected, atol=1e-5, rtol=1e-5)
    assert states.shape == (1, 6, 8)


def test_a_text_gives_the_same_numbers_in_any_batch(tiny_encoder: Path) -> None:
    model = extractor(tiny_encoder).eval()
    with torch.inference_mode():
        together = model.states(model.prepare([GAVE, AFTER]))
        scores = model.relation_scores(together, rows(model, (0, CAUSED), (1, TURNED)))
        for number, (text, pair) in enumerate(((GAVE, CAUSED), (AFTER, TURNED))):
            alone = model.states(model.prepare([text]))
            torch.testing.assert_close(together[number, : len(text)], alone[0], atol=1e-5, rtol=1e-5)
            expected = model.relation_scores(alone, model.pair_rows([(0, pair)], [len(text)]))
            torch.testing.assert_close(scores[number : number + 1], expected, atol=1e-5, rtol=1e-5)


def test_a_text_longer_than_the_encoder_reads(tiny_encoder: Path) -> None:
    model = extractor(tiny_encoder, limit=5000, overlap=8).eval()  # it has 64 positions
    long = ("Aspirin", *("very",) * 300, "rash")
    pair = SpanPair(WordSpan(0, 1, "Drug"), WordSpan(301, 302, "ADE"))
    with torch.inference_mode():
        pieces = model.prepare([long, AFTER])
        states = model.states(pieces)
        scores = model.relation_scores(states, model.pair_rows([(0, pair)], [302, 3]))
    assert pieces.ids.shape[1] == 64
    assert states.shape == (2, 302, 8)
    assert scores.isfinite().all()


def test_losses_are_sums(tiny_encoder: Path) -> None:
    model = extractor(tiny_encoder).eval()
    states = model.states(model.prepare([GAVE, AFTER]))
    mask = torch.tensor([[True] * 6, [True] * 3 + [False] * 3])
    tags = torch.zeros(2, 6, dtype=torch.long)
    log = model.emissions(states).log_softmax(-1)[..., 0]
    torch.testing.assert_close(model.tag_loss(model.emissions(states), mask, tags), -log[mask].sum())
    scores = model.relation_scores(states, rows(model, (0, CAUSED), (1, TURNED)))
    expected = -(scores.log_softmax(-1)[0, 1] + scores.log_softmax(-1)[1, 0])
    torch.testing.assert_close(model.relation_loss(scores, torch.tensor([1, 0])), expected)


def test_without_pairs_loss_and_gradient_are_zero(tiny_encoder: Path) -> None:
    model = extractor(tiny_encoder)
    scores = model.relation_scores(model.states(model.prepare([GAVE])), rows(model))
    assert scores.shape == (0, 3)
    loss = model.relation_loss(scores, torch.zeros(0, dtype=torch.long))
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == 0.0
    assert all(parameter.grad.abs().sum() == 0 for parameter in model.relation_head.parameters())


@pytest.mark.parametrize("label", [3, -1, -100])
def test_labels_outside_the_relation_set_are_refused(tiny_encoder: Path, label: int) -> None:
    with pytest.raises(ModelError, match="a label lies outside the 3 classes"):
        extractor(tiny_encoder).relation_loss(torch.zeros(2, 3), torch.tensor([0, label]))


@pytest.mark.parametrize("decoder", ["softmax", "crf"])
def test_every_parameter_gets_a_gradient(tiny_encoder: Path, decoder: str) -> None:
    model = extractor(tiny_encoder, decoder=decoder)
    states = model.states(model.prepare([GAVE]))
    loss = model.tag_loss(model.emissions(states), torch.ones(1, 6, dtype=torch.bool), torch.zeros(1, 6).long())
    loss = loss + model.relation_loss(model.relation_scores(states, rows(model, (0, CAUSED))), torch.tensor([1]))
    loss.backward()  # type: ignore[no-untyped-call]
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("decoder", ["softmax", "crf"])
def test_decoded_tags_are_legal(tiny_encoder: Path, decoder: str) -> None:
    model = extractor(tiny_encoder, decoder=decoder, scheme="BIOES")
    mask = torch.tensor([[True] * 6, [True] * 3 + [False] * 3])
    tags = model.decode(torch.randn(2, 6, len(model.tags)) * 5, mask)
    assert [len(found.tags) for found in tags] == [6, 3]
    assert all(model.scheme.is_legal(found.tags) for found in tags)


def test_groups(tiny_encoder: Path) -> None:
    model = extractor(tiny_encoder, decoder="crf")
    assert model.groups == ("embeddings", "layer_0", "layer_1", "output", "crf")
    assert model.split.shared == ("embeddings", "layer_0", "layer_1")
    private = model.private_parameters().keys()
    assert {name.rpartition(".")[0] for name in private} == {
        "network.classifier",
        "relation_head.types",
        "relation_head.order",
        "relation_head.hidden",
        "relation_head.classes",
        "crf",
    }
    assert set(model.output_names(dict(model.named_parameters()))) == set(private)
    assert extractor(tiny_encoder).groups == model.groups[:-1]
    assert extractor(tiny_encoder, shared=("layer_1", "output")).split.private == ("embeddings", "layer_0")
    with pytest.raises(ModelError, match="no layer group is called crf"):
        extractor(tiny_encoder, shared=("crf",))
    assert model.outputs == (*model.tags, "none", "causes", "dose-of", repr(model.relations))


def test_bert_tiny_from_scratch() -> None:
    model = extractor("bert-tiny")
    embeddings = (30_522 + 512 + 2 + 2) * 128  # words, positions, segments, layer norm
    layer = 4 * (128 * 128 + 128) + (2 * 128 * 512 + 512 + 128) + 2 * 2 * 128  # attention, feed-forward, layer norms
    tags = 5 * (128 + 1)
    relations = (2 + 2) * 32 + (3 * 128 + 3 * 32 + 1) * 128 + (128 + 1) * 3
    assert sum(p.numel() for p in model.parameters()) == embeddings + 2 * layer + tags + relations


def test_preparing_no_text_is_refused(tiny_encoder: Path) -> None:
    for texts in ([], [GAVE, ()]):
        with pytest.raises(ModelError, match="there is no word to prepare"):
            extractor(tiny_encoder).prepare(texts)


def test_invalid_configurations_are_refused(tiny_encoder: Path) -> None:
    for changes, complaint in (
        ({"decoder": "beam"}, "decoder is 'beam'; it can be crf or softmax"),
        ({"scheme": "BILOU"}, "scheme is 'BILOU'"),
        ({"dropout": 1.0}, "dropout is 1"),
        ({"limit": 3}, "limit is 3; it must be at least 4"),
        ({"overlap": -1}, "overlap is -1"),
        ({"window": 0}, "window is 0; it must be at least 1"),
    ):
        with pytest.raises(ModelError, match=complaint):
            JointExtractorConfig(**changes)  # type: ignore[arg-type]
    genes = RelationSet((RelationType("binds", (("Drug", "Gene"),)),))
    with pytest.raises(ModelError, match="relation 'binds' may run between entities of type 'Gene', which the tag set"):
        extractor(tiny_encoder, genes)
    with pytest.raises(ModelError, match="the tag set has no entity type"):
        JointExtractor(JointExtractorConfig(encoder=str(tiny_encoder)), TagSet(()), RELATIONS)


# Saved.


@pytest.mark.parametrize(("encoder", "decoder"), [("tiny", "softmax"), ("tiny", "crf"), ("bert-tiny", "softmax")])
def test_a_loaded_model_is_the_saved_one(encoder: str, decoder: str, tiny_encoder: Path, tmp_path: Path) -> None:
    relations = RelationSet(RELATIONS.types, "nothing", directed=False, level=Level.CONCEPT)
    source = tiny_encoder if encoder == "tiny" else encoder
    model = extractor(source, relations, decoder=decoder, limit=20, overlap=5, window=2, shared=("layer_0",)).eval()
    save_model(model, tmp_path / "model", notes={"f1": 0.5})
    torch.manual_seed(99)
    loaded = load_model(tmp_path / "model")
    assert isinstance(loaded, JointExtractor)
    assert not loaded.training
    assert (loaded.relations, loaded.tag_set, loaded.config) == (relations, TYPES, model.config)
    assert loaded.split == model.split
    assert same_weights(model, loaded)
    with torch.inference_mode():
        states = [one.states(one.prepare([GAVE, AFTER])) for one in (model, loaded)]
        scores = [one.relation_scores(states[0], rows(one, (0, CAUSED))) for one in (model, loaded)]
    assert torch.equal(*states)
    assert torch.equal(*scores)
    card = model_card(tmp_path / "model")
    assert (card["kind"], card["notes"], card["types"]) == ("joint-extractor", {"f1": 0.5}, ["ADE", "Drug"])
    names = {path.name for path in (tmp_path / "model").iterdir()} - {"vocab.txt"}  # transformers 4 writes the latter
    assert {Path(name).suffix for name in names} == {".json", ".safetensors"}


def test_a_model_of_another_kind_is_refused(tiny_encoder: Path, tmp_path: Path) -> None:
    save_model(extractor(tiny_encoder), tmp_path / "joint")
    save_model(word_tagger(), tmp_path / "tagger")
    kinds = [type(load_model(tmp_path / name)).__name__ for name in ("joint", "tagger")]
    assert kinds == ["JointExtractor", "WordTagger"]


def test_a_damaged_relation_set_or_head(tiny_encoder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    save_model(extractor(tiny_encoder), folder)
    card = json.loads((folder / "wardround.json").read_text())
    gene = RelationSet((RelationType("binds", (("Drug", "Gene"),)), RelationType("dose-of")))
    for relations, complaint in (
        (None, "model/wardround.json: not a relation set"),
        (RelationSet(RELATIONS.types[:1]).as_values(), "model: the weights do not fit the model card"),
        (gene.as_values(), "entities of type 'Gene', which the tag set does not have"),
    ):
        (folder / "wardround.json").write_text(json.dumps(card | {"relations": relations}))
        with pytest.raises(ModelError, match=complaint):
            load_model(folder)
    (folder / "wardround.json").write_text(json.dumps(card))
    (folder / "output.safetensors").unlink()
    with pytest.raises(ModelError, match=r"model/output\.safetensors is missing or damaged"):
        load_model(folder)


def test_hugging_face_opens_its_tagger_unchanged(tmp_path: Path) -> None:
    model = extractor(write_encoder(tmp_path / "encoder"))
    with torch.no_grad():
        model.network.classifier.weight.normal_(0, 5)
    model.eval()
    save_model(model, tmp_path / "model")
    opened = pipeline("token-classification", model=str(tmp_path / "model"), device="cpu", ignore_labels=[])
    with torch.inference_mode():
        best = model.emissions(model.states(model.prepare([AFTER])))[0].argmax(1).tolist()
    # "rash after pen ##ici ##llin": the word is tagged by its first piece.
    found = [piece["entity"] for piece in opened(" ".join(AFTER)) if not piece["word"].startswith("##")]
    assert found == [model.tags[row] for row in best]
