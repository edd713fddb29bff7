from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest
import torch
from transformers import AutoModel

from tests.models.tiny import SENTENCES, write_encoder
from wardround.errors import ModelError
from wardround.models.contextual import ContextualEmbedding


@pytest.fixture
def embedding(tiny_encoder: Path) -> ContextualEmbedding:
    return ContextualEmbedding(str(tiny_encoder))


def test_only_the_scalar_mix_is_trained_and_saved(embedding: ContextualEmbedding) -> None:
    assert {name for name, _ in embedding.named_parameters()} == {"mix.weights", "mix.scale"}
    assert set(embedding.state_dict()) == {"mix.weights", "mix.scale"}
    assert embedding.mix.weights.shape == (3,)  # two layers and the embeddings below them
    assert embedding.width == 8


def test_it_starts_as_the_mean_of_the_encoder_layers(embedding: ContextualEmbedding, tiny_encoder: Path) -> None:
    pieces = embedding.tokenizer.encode([("Took", "aspirin", "daily")])
    encoder = AutoModel.from_pretrained(tiny_encoder).eval()
    words = embedding.tokenizer.tokenizer("Took aspirin daily", return_tensors="pt")
    with torch.no_grad():
        layers = encoder(**words, output_hidden_states=True).hidden_states
    at = words.word_ids()
    firsts = [at.index(word) for word in range(3)]
    expected = torch.stack([layer[0, firsts] for layer in layers]).mean(0)
    torch.testing.assert_close(embedding(pieces)[0], expected, atol=1e-6, rtol=1e-5)


def test_training_does_not_change_the_encoder(embedding: ContextualEmbedding) -> None:
    pieces = embedding.tokenizer.encode(SENTENCES)
    before = embedding.fingerprint()
    embedding.train()
    first = embedding(pieces)
    assert torch.equal(first, embedding(pieces))  # its dropout sleeps
    first.sum().backward()
    assert all(p.grad is None and not p.requires_grad for p in embedding._frozen[0].parameters())
    assert embedding.mix.weights.grad is not None
    assert embedding.fingerprint() == before


def test_the_encoder_moves_with_the_model(embedding: ContextualEmbedding) -> None:
    embedding.double()
    assert next(embedding._frozen[0].parameters()).dtype == torch.float64
    assert embedding.mix.scale.dtype == torch.float64


def test_the_fingerprint_depends_on_the_weights(tiny_encoder: Path, tmp_path: Path) -> None:
    """The folder has no pooler, so each loading draws one; nobody reads it and the fingerprint must not either."""
    one, same = ContextualEmbedding(str(tiny_encoder)), ContextualEmbedding(str(tiny_encoder))
    assert one.fingerprint() == same.fingerprint()
    other = ContextualEmbedding(str(write_encoder(tmp_path / "other", seed=1)))
    assert one.fingerprint() != other.fingerprint()
    moved = deepcopy(one)
    next(moved._frozen[0].parameters()).data[0, 0] += 1
    assert moved.fingerprint() != one.fingerprint()


def test_a_missing_encoder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"contains no config\.json"):
        ContextualEmbedding(str(tmp_path))
    with pytest.raises(ModelError, match="no encoder or tokenizer could be loaded from 'nowhere'"):
        ContextualEmbedding(str(tmp_path / "nowhere"))


def test_an_encoder_without_weights_is_refused(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "gone")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="the contextual encoder could not be loaded"):
        ContextualEmbedding(str(folder))


def test_pickled_weights_are_not_loaded(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "pickled")
    weights = AutoModel.from_pretrained(folder).state_dict()
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="the contextual encoder could not be loaded"):
        ContextualEmbedding(str(folder))
