"""A BART small enough to train in a test, with a byte-level tokenizer of its own."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer
from transformers import BartConfig, BartForConditionalGeneration, BartTokenizerFast

from tests.models.tiny import notes
from wardround.models.encoders import quiet_transformers

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def write_bart(folder: Path, *, seed: int = 0, positions: int = 64, scaled: bool = False) -> Path:
    """A BART of two layers a side with random weights, as a Hugging Face folder."""
    torch.manual_seed(seed)
    tokenizer = _tokenizer(folder, positions)
    sizes = BartConfig(
        vocab_size=len(tokenizer),
        d_model=16,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=positions,
        scale_embedding=scaled,
        init_std=0.2,
    )
    with quiet_transformers():
        BartForConditionalGeneration(sizes).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folder


def _tokenizer(folder: Path, positions: int) -> BartTokenizerFast:
    learned = Tokenizer(BPE())
    learned.pre_tokenizer = ByteLevel(add_prefix_space=True)
    trainer = BpeTrainer(
        vocab_size=400, special_tokens=SPECIAL, initial_alphabet=ByteLevel.alphabet(), show_progress=False
    )
    learned.train_from_iterator([note.text for note in notes(40)], trainer)
    folder.mkdir(parents=True, exist_ok=True)
    learned.model.save(str(folder))  # vocab.json and merges.txt, which every version of transformers reads
    return BartTokenizerFast.from_pretrained(folder, add_prefix_space=True, model_max_length=positions)
