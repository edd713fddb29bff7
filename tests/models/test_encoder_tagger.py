from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel

from tests.models.tiny import SENTENCES, TYPES, write_encoder
from wardround.errors import ModelError
from wardround.models.encoder_tagger import EncoderTagger, EncoderTaggerConfig
from wardround.models.encoders import PieceTokenizer, encoder_source

MINILM_GROUPS = ("embeddings", *(f"layer_{number}" for number in range(6)), "output")


def tagger(encoder: Path | str, **changes: Any) -> EncoderTagger:
    torch.manual_seed(0)
    return EncoderTagger(EncoderTaggerConfig(encoder=str(encoder), **changes), TYPES)


def test_every_layer_is_a_group(minilm: EncoderTagger) -> None:
    assert minilm.groups == MINILM_GROUPS
    assert minilm.group_of("network.bert.encoder.layer.3.attention.self.query.weight") == "layer_3"
    assert minilm.group_of("network.bert.embeddings.LayerNorm.bias") == "embeddings"
    assert minilm.group_of("network.classifier.weight") == "output"
    assert minilm.group_of("crf.step") == "crf"


def test_all_but_the_output_is_shared_unless_the_study_says_otherwise(minilm: EncoderTagger) -> None:
    assert minilm.split.shared == MINILM_GROUPS[:-1]
    assert minilm.split.private == ("output",)
    shared, private = minilm.shared_parameters(), minilm.private_parameters()
    assert private.keys() == {"network.classifier.weight", "network.classifier.bias"}
    assert shared.keys() | private.keys() == {name for name, _ in minilm.named_parameters()}
    assert not shared.keys() & private.keys()


def test_a_crf_and_other_halves(tiny_encoder: Path) -> None:
    model = tagger(tiny_encoder, decoder="crf", shared=("layer_1", "crf"))
    assert model.groups == ("embeddings", "layer_0", "layer_1", "output", "crf")
    assert model.split.shared == ("layer_1", "crf")
    assert model.split.private == ("embeddings", "layer_0", "output")
    assert tagger(tiny_encoder, decoder="crf").split.private == ("output", "crf")
    with pytest.raises(ModelError, match="no layer group is called layer_9; this model has embeddings, layer_0,"):
        tagger(tiny_encoder, shared=("layer_9",))


@pytest.mark.parametrize(("limit", "overlap"), [(16, 8), (24, 0), (40, 20)])
def test_a_limit_that_still_fits_changes_nothing(minilm: EncoderTagger, limit: int, overlap: int) -> None:
    inputs = minilm.prepare(SENTENCES)
    small = PieceTokenizer(encoder_source("minilm"), limit=limit, overlap=overlap).encode(SENTENCES)
    with torch.inference_mode():
        expected, found = (minilm.emissions(replace(inputs, pieces=pieces)) for pieces in (inputs.pieces, small))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_the_limit_reaches_the_tokenizer(tiny_encoder: Path) -> None:
    model = tagger(tiny_encoder, limit=12, overlap=3)
    assert (model.tokenizer.limit, model.tokenizer.overlap) == (10, 3)
    assert model.prepare([SENTENCES[1] * 4]).pieces.ids.shape[1] <= 12  # type: ignore[union-attr]


def test_a_long_sentence_is_read_to_its_end(minilm: EncoderTagger) -> None:
    sentence = tuple(word for _ in range(60) for word in SENTENCES[1])
    with torch.inference_mode():
        found = minilm.emissions(minilm.prepare([sentence]))
        changed = minilm.emissions(minilm.prepare([(*sentence[:-1], "aspirin")]))
    assert found.shape == (1, 480, 5)
    # The last word matters to the last window and to no earlier one.
    assert not torch.allclose(found[0, -1], changed[0, -1], atol=1e-3)
    torch.testing.assert_close(found[0, :200], changed[0, :200], atol=1e-5, rtol=0)


def test_a_sentence_gives_the_same_numbers_in_any_batch(minilm: EncoderTagger) -> None:
    sentences = [*SENTENCES, ("no", "\u200b", "rash")]
    with torch.inference_mode():
        together = minilm.emissions(minilm.prepare(sentences))
        for row, sentence in enumerate(sentences):
            alone = minilm.emissions(minilm.prepare([sentence]))[0]
            torch.testing.assert_close(together[row, : len(sentence)], alone, atol=1e-5, rtol=1e-4)


def test_scores_are_those_of_the_first_piece(minilm: EncoderTagger) -> None:
    """By the tokenizer's and the network's own public calls."""
    words = minilm.tokenizer.tokenizer("Rash after penicillin", return_tensors="pt")
    with torch.inference_mode():
        logits = minilm.network(**words).logits[0]
        found = minilm.emissions(minilm.prepare([("Rash", "after", "penicillin")]))[0]
    firsts = [words.word_ids().index(word) for word in range(3)]
    torch.testing.assert_close(found, logits[firsts], atol=1e-5, rtol=1e-4)


def test_a_pretrained_encoder_comes_with_its_weights(minilm: EncoderTagger) -> None:
    original = AutoModel.from_pretrained(minilm.network.config._name_or_path)
    mine, theirs = minilm.network.base_model.state_dict(), original.state_dict()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_bert_tiny_from_scratch() -> None:
    model = tagger("bert-tiny")
    embeddings = (30_522 + 512 + 2 + 2) * 128  # words, positions, segments, layer norm
    layer = 4 * (128 * 128 + 128) + (2 * 128 * 512 + 512 + 128) + 2 * 2 * 128  # attention, feed-forward, layer norms
    expected = embeddings + 2 * layer + 5 * 128 + 5
    assert sum(parameter.numel() for parameter in model.parameters()) == expected
    assert model.network.config.id2label == dict(enumerate(model.tags))
    assert model.network.config.label2id == model.tag_rows
    inputs = model.prepare(SENTENCES)
    model.loss(inputs, torch.zeros(inputs.mask.shape, dtype=torch.long)).backward()  # type: ignore[no-untyped-call]
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_fresh_weights_follow_the_seed() -> None:
    one, two = tagger("bert-tiny"), tagger("bert-tiny")
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))


def test_dropout_is_ours(tiny_encoder: Path) -> None:
    model = tagger(tiny_encoder, dropout=0.5)
    assert model.dropout.p == 0.5


def test_settings_are_the_configuration_as_plain_values(tiny_encoder: Path) -> None:
    model = tagger(tiny_encoder, limit=32)
    assert EncoderTaggerConfig(**model.settings()) == model.config


def test_a_configuration_that_cannot_be_built(tiny_encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="decoder is 'beam'; it can be crf or softmax"):
        EncoderTaggerConfig(decoder="beam")
    with pytest.raises(ModelError, match="scheme is 'BILOU'"):
        tagger(tiny_encoder, scheme="BILOU")
    folder = write_encoder(tmp_path / "gone")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="no encoder could be loaded from 'gone': name a Hugging Face id") as caught:
        tagger(folder)
    assert str(tmp_path) not in str(caught.value)


def test_an_encoder_fine_tuned_for_other_tags_gets_a_new_output(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "other", labels=9)
    model = tagger(folder)
    assert model.network.classifier.weight.shape == (5, 8)
    original = AutoModel.from_pretrained(folder).state_dict()
    mine = model.network.base_model.state_dict()
    assert all(torch.equal(tensor, original[name]) for name, tensor in mine.items())
