from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from papers.tagsets.bart_from_bert import bart_from_bert, only_the_decoder_learns, spread
from tests.models.tiny import write_encoder
from transformers import AutoTokenizer, BartConfig, BartModel, BertModel, PreTrainedModel

from wardround.errors import ModelError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("berts") / "tiny")


@pytest.fixture
def bert(folder: Path) -> Any:
    """With weights that are far from where they start, so that every one of them matters."""
    found = BertModel.from_pretrained(folder, add_pooling_layer=False).eval()
    torch.manual_seed(0)
    for parameter in found.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return found


@pytest.fixture
def tokenizer(folder: Path) -> Any:
    return AutoTokenizer.from_pretrained(folder)


def test_its_encoder_reads_as_the_bert_does(bert: Any, tokenizer: Any) -> None:
    made = bart_from_bert(bert, tokenizer, decoder_layers=1, length=32).eval()  # type: ignore[no-untyped-call]
    read = tokenizer(["Took aspirin daily.", "Rash"], padding=True, return_tensors="pt")
    ids, attention = read["input_ids"], read["attention_mask"]
    with torch.no_grad():
        theirs = bert(input_ids=ids, attention_mask=attention).last_hidden_state
        ours = made.model.encoder(input_ids=ids, attention_mask=attention).last_hidden_state
    # The two add another small number to a variance before they divide by its root.
    torch.testing.assert_close(ours[attention.bool()], theirs[attention.bool()], atol=1e-3, rtol=1e-3)


def test_its_decoder_has_copies_of_the_highest_layer(bert: Any, tokenizer: Any) -> None:
    made = bart_from_bert(bert, tokenizer, decoder_layers=1, length=32)
    layer, theirs = made.model.decoder.layers[0], bert.encoder.layer[1]
    for attention in (layer.self_attn, layer.encoder_attn):
        assert torch.equal(attention.q_proj.weight, theirs.attention.self.query.weight)
        assert torch.equal(attention.out_proj.bias, theirs.attention.output.dense.bias)
    assert torch.equal(layer.fc2.weight, theirs.output.dense.weight)
    assert torch.equal(layer.encoder_attn_layer_norm.weight, theirs.attention.output.LayerNorm.weight)
    assert torch.equal(layer.final_layer_norm.bias, theirs.output.LayerNorm.bias)


def test_what_is_written_are_the_embeddings_that_are_read(bert: Any, tokenizer: Any) -> None:
    made = bart_from_bert(bert, tokenizer, decoder_layers=2, length=32)
    assert torch.equal(made.lm_head.weight, bert.embeddings.word_embeddings.weight)
    assert made.lm_head.weight is made.model.shared.weight
    sizes = made.config
    told = (sizes.bos_token_id, sizes.pad_token_id, sizes.eos_token_id, sizes.decoder_start_token_id)
    assert told == (tokenizer.cls_token_id, tokenizer.pad_token_id, tokenizer.sep_token_id, tokenizer.sep_token_id)


def test_only_the_decoder_learns(bert: Any, tokenizer: Any) -> None:
    made = bart_from_bert(bert, tokenizer, decoder_layers=2, length=32)
    only_the_decoder_learns(made)
    learning = {name for name, parameter in made.named_parameters() if parameter.requires_grad}
    assert learning == {
        name
        for name, _ in made.named_parameters()
        if name.startswith("model.decoder.") and not name.endswith("embed_tokens.weight")
    }
    assert "model.decoder.layers.1.encoder_attn.k_proj.weight" in learning


def test_layers_are_spread(bert: Any) -> None:
    assert (spread(3, 6), spread(1, 6), spread(6, 6), spread(4, 6)) == (
        [1, 3, 5],
        [5],
        [0, 1, 2, 3, 4, 5],
        [1, 2, 3, 5],
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decoder_layers": 3}, "the encoder has 2 layers; 3 of them are requested"),
        ({"decoder_layers": 0}, "the encoder has 2 layers; 0 of them are requested"),
        ({"length": 65}, "the encoder reads at most 64 word pieces; 65 are requested"),
    ],
)
def test_impossible_sizes_are_refused(bert: Any, tokenizer: Any, changes: dict[str, int], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        bart_from_bert(bert, tokenizer, **({"decoder_layers": 1, "length": 32} | changes))


def test_another_kind_of_encoder_is_refused(tokenizer: Any) -> None:
    other: PreTrainedModel = BartModel(BartConfig(vocab_size=8, d_model=16, encoder_layers=1, decoder_layers=1))
    with pytest.raises(ModelError, match="the encoder has model type 'bart'; a BART can only be made from a BERT"):
        bart_from_bert(other, tokenizer, decoder_layers=1, length=8)
