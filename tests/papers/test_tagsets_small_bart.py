from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from papers.tagsets import small_bart
from papers.tagsets.small_bart import Budget, Marks, Passage, Plan
from tests.models.tiny import TYPES, notes, write_encoder
from transformers import AutoTokenizer, BertModel

from wardround.models.light_ner import LightNer, LightNerConfig

MARKS = Marks(begin=0, pad=1, end=2, mask=4)
MASK = MARKS.mask
TINY = Plan(layers=1, width=16, vocabulary=330, length=48, batch=8, steps=30, rate=0.01, warmup=5)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "notes.txt"
    path.write_text("\n".join(note.text for note in notes(60)) + "\n\n", encoding="utf-8")
    return path


def pieces(*ids: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(ids, dtype=np.int64)


def test_each_span_becomes_one_mask() -> None:
    """Of 10 11 12 13 14 15 two spans: 11 12 behind one piece that stays, 15 behind three."""
    found = small_bart.infilled(pieces(10, 11, 12, 13, 14, 15), pieces(2, 1), pieces(1, 3), mask=MASK)
    assert found.tolist() == [10, MASK, 13, 14, MASK]


def test_a_span_without_pieces_is_a_mask_between_two() -> None:
    assert small_bart.infilled(pieces(10, 11), pieces(0), pieces(1), mask=MASK).tolist() == [10, MASK, 11]
    assert small_bart.infilled(pieces(10, 11), pieces(0, 1), pieces(0, 1), mask=MASK).tolist() == [MASK, 10, MASK]
    assert small_bart.infilled(pieces(10, 11), pieces(), pieces(), mask=MASK).tolist() == [10, 11]


def test_three_pieces_in_ten_are_masked_in_spans_of_three() -> None:
    random = np.random.default_rng(0)
    drawn = [small_bart.span_lengths(200, random) for _ in range(500)]
    assert {int(lengths.sum()) for lengths in drawn} == {60}
    # All but the last of each, which is cut to fit, are Poisson(3).
    whole = np.concatenate([lengths[:-1] for lengths in drawn])
    assert abs(whole.mean() - 3) < 0.1
    assert abs((whole == 0).mean() - np.exp(-3)) < 0.01
    assert small_bart.span_lengths(1, random).tolist() == []  # 0.3 of a piece is none


def test_what_is_not_masked_stays_sentence_by_sentence() -> None:
    passage: Passage = (np.arange(100, 140), np.arange(200, 230), np.arange(300, 330))
    random = np.random.default_rng(1)
    orders = set()
    for _ in range(20):
        found = small_bart.corrupted(passage, random, mask=MASK)
        kept = found[found != MASK]
        assert len(kept) == 70
        orders.add(tuple(dict.fromkeys((kept // 100).tolist())))
        for hundred in (1, 2, 3):
            sentence = kept[kept // 100 == hundred]
            assert (np.diff(sentence) > 0).all()
    assert len(orders) > 3


def test_the_original_is_what_is_written() -> None:
    passages: list[Passage] = [(pieces(10, 11), pieces(12, 13, 14)), (pieces(20),)]
    batch = small_bart.batch_of(passages, np.random.default_rng(0), length=16, marks=MARKS)
    assert batch["labels"].tolist() == [[0, 10, 11, 12, 13, 14, 2, *[-100] * 9], [0, 20, 2, *[-100] * 13]]
    assert batch["input_ids"][1].tolist() == [0, 20, 2, *[1] * 13]
    assert batch["attention_mask"].sum(1).tolist() == [(batch["input_ids"][0] != 1).sum().item(), 3]


@pytest.mark.parametrize(("pieces_in_it", "padded"), [(10, 64), (62, 64), (63, 128), (195, 200)])
def test_batches_have_few_lengths(pieces_in_it: int, padded: int) -> None:
    passages: list[Passage] = [(np.arange(10, 10 + pieces_in_it),)]
    batch = small_bart.batch_of(passages, np.random.default_rng(0), length=200, marks=MARKS)
    assert batch["labels"].shape == (1, padded)
    assert batch["input_ids"].shape == batch["attention_mask"].shape


def test_documents_are_read_as_words(tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("Took 10mg aspirin. No rash.\n\n  \nWell.\n", encoding="utf-8")
    assert small_bart.read_documents([path]) == [["Took 10 mg aspirin .", "No rash ."], ["Well ."]]


def test_one_document_in_fifty_is_held_out() -> None:
    documents = [[f"document {number}"] for number in range(100)]
    training, judged = small_bart.held_out(documents, seed=3)
    assert (len(training), len(judged)) == (98, 2)
    assert sorted(training + judged) == sorted(documents)
    assert small_bart.held_out(documents, seed=3) == (training, judged)
    assert small_bart.held_out(documents, seed=4) != (training, judged)


def test_passages_are_whole_sentences_that_fit() -> None:
    documents = [["a b c", "d e", "f"], ["g h i j k l m"]]

    def spelled(sentences: list[str], *, add_special_tokens: bool, verbose: bool) -> dict[str, list[list[int]]]:
        return {"input_ids": [[ord(letter) for letter in sentence.split()] for sentence in sentences]}

    found = small_bart.passages_of(documents, spelled, length=7)  # five pieces between <s> and </s>
    texts = [["".join(map(chr, sentence)) for sentence in passage] for passage in found]
    assert texts == [["abc", "de"], ["f"], ["ghijk"]]


def test_the_rate_rises_and_falls_to_zero() -> None:
    plan = Plan(rate=1.0, warmup=4)
    assert [small_bart.rate_at(step, plan, 12) for step in (0, 1, 3, 4, 8, 11)] == [0.25, 0.5, 1.0, 1.0, 0.5, 0.125]
    assert [small_bart.rate_at(step, plan, 1000) for step in (0, 1, 3)] == [0.25, 0.5, 1.0]


def test_as_many_steps_as_fit_in_the_minutes() -> None:
    """At half a second a step, 19 of 20 minutes hold 2,280."""
    budget = Budget(Plan(steps=20_000, minutes=20))
    assert [budget.at(step, 7.0 + 0.5 * step) for step in range(110)] == [20_000] * 110
    assert budget.at(110, 7.0 + 55) == 2280
    assert Budget(Plan(steps=500)).at(110, 1e6) == 500
    short = Budget(Plan(steps=20_000, minutes=0.01))
    assert [short.at(step, float(step)) for step in (10, 110)] == [20_000, 110]
    few = Budget(Plan(steps=150, minutes=20))
    assert [few.at(step, float(step)) for step in (10, 110)] == [150, 150]


def test_a_trained_folder_is_a_bart_that_learned(
    texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = small_bart.make([texts], tmp_path / "bart", TINY)
    assert found["steps"] == 30
    assert found["untrained_loss"] == pytest.approx(np.log(330), abs=0.2)
    assert found["held_out_loss"] < 0.8 * found["untrained_loss"]
    assert json.loads((tmp_path / "bart" / "small_bart.json").read_text()) == found
    assert found["plan"] == asdict(TINY)
    assert "step 30 of 30: loss" in capsys.readouterr().out
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "bart", add_prefix_space=True)
    assert tokenizer("aspirin")["input_ids"] == tokenizer(" aspirin")["input_ids"]
    assert (tokenizer.pad_token_id, tokenizer.mask_token_id, tokenizer.model_max_length) == (1, 4, 48)
    assert tokenizer.decode(tokenizer("No rash")["input_ids"]) == "<s> No rash</s>"
    model = LightNer(LightNerConfig(bart=str(tmp_path / "bart"), prompt_hidden=8), TYPES)
    assert model.network.shared.num_embeddings == len(tokenizer) == 330


def test_the_same_seed_makes_the_same_model(texts: Path, tmp_path: Path) -> None:
    plan = Plan(**{**asdict(TINY), "steps": 4})
    for name in ("one", "two"):
        small_bart.make([texts], tmp_path / name, plan)
        torch.manual_seed(99)
    one, two = (tmp_path / name / "model.safetensors" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


def test_over_a_bert_only_the_decoder_learns_to_write(texts: Path, tmp_path: Path) -> None:
    encoder = write_encoder(tmp_path / "bert")
    plan = replace(TINY, encoder=str(encoder), steps=20)
    found = small_bart.make([texts], tmp_path / "bart", plan)
    assert found["held_out_loss"] < found["untrained_loss"]
    model = LightNer(LightNerConfig(bart=str(tmp_path / "bart"), prompt_hidden=8), TYPES)
    assert (model.network.config.encoder_layers, model.network.config.decoder_layers) == (2, 1)
    before = BertModel.from_pretrained(encoder, add_pooling_layer=False).embeddings.word_embeddings.weight
    assert torch.equal(model.network.shared.weight, before)
    assert model.decode(model.prepare([["No", "rash", "now", "."]]))
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "bart")
    assert (tokenizer.model_max_length, Marks.of(tokenizer)) == (48, Marks(begin=101, pad=0, end=102, mask=103))


def test_one_document_is_not_enough(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("Only one.\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="at least two documents, one per line, are needed"):
        small_bart.make([tmp_path / "texts.txt"], tmp_path / "bart", TINY)
