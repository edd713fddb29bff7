from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModel

from tests.models.tiny import SENTENCES, TYPES, write_encoder
from wardround.errors import ModelError
from wardround.models.encoder_tagger import EncoderTagger, EncoderTaggerConfig
from wardround.models.encoders import PieceTokenizer, encoder_source

MINILM_GROUPS = ("embeddings", *(f"layer_{number}" for number in range(6)), "output")


def tagger(encoder: Path | str, **changes: Any) -> EncoderTagger:
    torch.manual_seed(0)
    return EncoderTagger(EncoderTaggerConfig(encoder=str(encoder), **changes), TYPES)


def adapted(encoder: Path | str, adapter: str, **changes: Any) -> EncoderTagger:
    """One whose adapter and output are far enough from their start to matter."""
    model = tagger(encoder, adapter=adapter, **changes)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter, std=1.0 if "classifier" in name else 0.5)
    return model.eval()


def test_every_layer_is_a_group(minilm: EncoderTagger) -> None:
    assert minilm.groups == MINILM_GROUPS
    assert minilm.group_of("network.bert.encoder.layer.3.attention.self.query.weight") == "layer_3"
    assert minilm.group_of("network.bert.embeddings.LayerNorm.bias") == "embeddings"
    assert minilm.group_of("network.classifier.weight") == "output"
    assert minilm.group_of("crf.step") == "crf"


def test_all_groups_but_the_output_are_shared_by_default(minilm: EncoderTagger) -> None:
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
def test_a_limit_above_the_length_changes_nothing(minilm: EncoderTagger, limit: int, overlap: int) -> None:
    inputs = minilm.prepare(SENTENCES)
    small = PieceTokenizer(encoder_source("minilm"), limit=limit, overlap=overlap).encode(SENTENCES)
    with torch.inference_mode():
        expected, found = (minilm.emissions(replace(inputs, pieces=pieces)) for pieces in (inputs.pieces, small))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_the_limit_reaches_the_tokenizer(tiny_encoder: Path) -> None:
    model = tagger(tiny_encoder, limit=12, overlap=3)
    assert (model.tokenizer.limit, model.tokenizer.overlap) == (10, 3)
    assert model.prepare([SENTENCES[1] * 4]).pieces.ids.shape[1] <= 12  # type: ignore[union-attr]


def test_a_long_sentence_is_read_completely(minilm: EncoderTagger) -> None:
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


def test_the_dropout_is_that_of_the_configuration(tiny_encoder: Path) -> None:
    model = tagger(tiny_encoder, dropout=0.5)
    assert model.dropout.p == 0.5


def test_settings_are_the_configuration_as_plain_values(tiny_encoder: Path) -> None:
    model = tagger(tiny_encoder, limit=32)
    assert EncoderTaggerConfig(**model.settings()) == model.config


def test_invalid_configurations_are_refused(tiny_encoder: Path, tmp_path: Path) -> None:
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


# Adapters.


@pytest.mark.parametrize("adapter", ["prompt", "lora"])
def test_with_an_adapter_the_encoder_is_frozen(tiny_encoder: Path, adapter: str) -> None:
    model = tagger(tiny_encoder, decoder="crf", adapter=adapter)
    assert model.groups == ("embeddings", "layer_0", "layer_1", adapter, "output", "crf")
    assert model.split.shared == (adapter,)
    assert model.split.private == ("embeddings", "layer_0", "layer_1", "output", "crf")
    trained = {model.group_of(name) for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert trained == {adapter, "output", "crf"}
    assert {model.group_of(name) for name in model.shared_parameters()} == {adapter}
    assert {model.group_of(name) for name in model.private_parameters()} == {"output", "crf"}
    assert tagger(tiny_encoder, adapter=adapter, shared=("output",)).split.shared == ("output",)


@pytest.mark.parametrize("adapter", ["prompt", "lora"])
def test_a_step_changes_only_trainable_parameters(tiny_encoder: Path, adapter: str) -> None:
    model = adapted(tiny_encoder, adapter)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    inputs = model.prepare(SENTENCES)
    model.loss(inputs, torch.ones(inputs.mask.shape, dtype=torch.long)).backward()  # type: ignore[no-untyped-call]
    torch.optim.SGD(model.parameters(), lr=1.0).step()
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name]) != parameter.requires_grad, name


def test_trained_share_of_minilm() -> None:
    """At most 2% of it, so that no more is sent."""
    encoder = (30_522 + 512 + 2 + 2) * 384  # words, positions, segments, layer norm
    encoder += 6 * (4 * (384 * 384 + 384) + (2 * 384 * 1536 + 1536 + 384) + 2 * 2 * 384)
    output = 5 * 384 + 5
    prompt = 10 * 384 + 6 * (384 * 48 + 48 * 2 * 384)  # q; W_1 and W_2 of every layer
    lora = 6 * 2 * (384 * 8 + 8 * 384)  # A and B on queries and values
    assert tagger("minilm").trainable_share == 1.0
    for adapter, size in (("prompt", prompt), ("lora", lora)):
        model = tagger("minilm", adapter=adapter)
        assert sum(parameter.numel() for parameter in model.shared_parameters().values()) == size
        assert model.trainable_share == (size + output) / (encoder + size + output)
        assert model.trainable_share <= 0.02


def test_sizes_of_adapters(tiny_encoder: Path) -> None:
    prompt = tagger(tiny_encoder, adapter="prompt", prompt_length=3, prompt_hidden=5).prompt
    assert prompt.q.shape == (3, 8)
    assert [tuple(layer.weight.shape) for layer in prompt.inner] == [(5, 8)] * 2  # type: ignore[arg-type]
    lora = tagger(tiny_encoder, adapter="lora", lora_rank=3, lora_alpha=12).network.bert.encoder.layer[0]
    assert (lora.attention.self.query.r, lora.attention.self.query.scaling) == ({"default": 3}, {"default": 4.0})
    with pytest.raises(ModelError, match="adapter is 'prefix'; it can be none, prompt or lora"):
        EncoderTaggerConfig(adapter="prefix")
    with pytest.raises(ModelError, match="lora_rank is 0; it must be at least 1"):
        EncoderTaggerConfig(lora_rank=0)


def test_an_untrained_lora_does_not_change_the_tags(tiny_encoder: Path) -> None:
    plain, lora = tagger(tiny_encoder).eval(), tagger(tiny_encoder, adapter="lora").eval()
    lora.network.classifier.load_state_dict(plain.network.classifier.state_dict())
    with torch.inference_mode():
        assert torch.equal(plain.emissions(plain.prepare(SENTENCES)), lora.emissions(lora.prepare(SENTENCES)))


def test_a_prompt_changes_the_scores(tiny_encoder: Path) -> None:
    model = adapted(tiny_encoder, "prompt")
    inputs = model.prepare(SENTENCES)
    with torch.inference_mode():
        before = model.emissions(inputs)
        model.prompt.q.mul_(-1)
        assert not torch.allclose(model.emissions(inputs), before, atol=0.01)


@pytest.mark.parametrize("adapter", ["prompt", "lora"])
def test_an_adapted_sentence_gives_the_same_numbers_in_any_batch(tiny_encoder: Path, adapter: str) -> None:
    model = adapted(tiny_encoder, adapter)
    with torch.inference_mode():
        together = model.emissions(model.prepare(SENTENCES))
        for row, sentence in enumerate(SENTENCES):
            alone = model.emissions(model.prepare([sentence]))[0]
            torch.testing.assert_close(together[row, : len(sentence)], alone, atol=1e-5, rtol=1e-4)


# Sentences compared by their gradients.

LONG = (*SENTENCES, SENTENCES[1] * 4)  # the last one takes several windows of 16 pieces


@pytest.mark.parametrize(("adapter", "shape"), [("none", (8,)), ("lora", (8,)), ("prompt", (3, 8))])
def test_a_fresh_probe_changes_nothing(tiny_encoder: Path, adapter: str, shape: tuple[int, ...]) -> None:
    model = adapted(tiny_encoder, adapter, limit=16, overlap=4, prompt_length=3)
    inputs = model.prepare(LONG)
    assert model.probes.leaf_shape == shape
    with torch.inference_mode():
        before = model.emissions(inputs)
        model.probes.leaf = model.probes.fresh_leaves(len(LONG), model.device)
        assert model.probes.leaf.shape == (5, *shape)
        torch.testing.assert_close(model.emissions(inputs), before, atol=1e-6, rtol=1e-6)
        model.probes.leaf = None
        assert torch.equal(model.emissions(inputs), before)


@pytest.mark.parametrize("adapter", ["none", "lora", "prompt"])
def test_one_backward_gives_the_gradient_of_each_sentence(tiny_encoder: Path, adapter: str) -> None:
    model = adapted(tiny_encoder, adapter, limit=16, overlap=4)

    def gradients(sentences: Sequence[Sequence[str]]) -> Tensor:
        inputs = model.prepare(sentences)
        model.probes.leaf = model.probes.fresh_leaves(len(sentences), model.device).requires_grad_()
        tags = inputs.mask.long()
        (-model.decoder.log_likelihood(model.emissions(inputs), inputs.mask, tags)).sum().backward()
        assert model.probes.leaf.grad is not None
        return model.probes.leaf.grad

    assert model.prepare(LONG).pieces.sentence.tolist()[:6] == [0, 1, 2, 3, 4, 4]  # type: ignore[union-attr]
    together = gradients(LONG)
    assert together.flatten(1).norm(dim=1).min() > 1e-3
    for row, sentence in enumerate(LONG):
        torch.testing.assert_close(together[row], gradients([sentence])[0], atol=1e-5, rtol=1e-3)


def test_the_gradient_of_the_prompt_is_that_of_its_copies(tiny_encoder: Path) -> None:
    model = adapted(tiny_encoder, "prompt")
    inputs = model.prepare(SENTENCES)
    model.emissions(inputs).logsumexp(2).sum().backward()  # type: ignore[no-untyped-call]
    model.probes.leaf = model.probes.fresh_leaves(len(SENTENCES), model.device).requires_grad_()
    model.emissions(inputs).logsumexp(2).sum().backward()  # type: ignore[no-untyped-call]
    assert model.probes.leaf.grad is not None and model.prompt.q.grad is not None
    torch.testing.assert_close(model.probes.leaf.grad.sum(0), model.prompt.q.grad, atol=1e-5, rtol=1e-3)
