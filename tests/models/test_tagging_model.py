from __future__ import annotations

import pytest
import torch

from tests.models.tiny import SENTENCES, TYPES, word_tagger
from wardround.models.tagging_model import Inputs, TaggingModel

GOLD = torch.zeros(4, 8, dtype=torch.long)


@pytest.fixture(params=["crf", "softmax"])
def model(request: pytest.FixtureRequest) -> TaggingModel:
    return word_tagger(decoder=request.param).eval()


def test_tags_and_their_rows() -> None:
    made = word_tagger()
    assert made.tags == ("O", "B-ADE", "I-ADE", "B-Drug", "I-Drug")
    assert made.tag_rows["B-Drug"] == 3
    assert made.tag_set == TYPES


def test_the_loss_is_the_mean_over_sentences(model: TaggingModel) -> None:
    together = model.loss(model.prepare(SENTENCES), GOLD)
    alone = [model.loss(model.prepare([s]), GOLD[:1, : len(s)]) for s in SENTENCES]
    torch.testing.assert_close(together, torch.stack(alone).mean())
    assert together > 0


def test_the_partial_loss_lies_between_nothing_and_everything(model: TaggingModel) -> None:
    inputs = model.prepare(SENTENCES)
    everything = torch.ones(4, 8, len(model.tags), dtype=torch.bool)
    assert model.partial_loss(inputs, everything).item() == pytest.approx(0.0, abs=1e-5)
    only_gold = torch.nn.functional.one_hot(GOLD, len(model.tags)).bool()
    torch.testing.assert_close(model.partial_loss(inputs, only_gold), model.loss(inputs, GOLD))
    wider = only_gold.clone()
    wider[:, :, 1] = True
    assert 0 < model.partial_loss(inputs, wider) < model.loss(inputs, GOLD)


def test_each_sentence_is_decoded_at_its_own_length(model: TaggingModel) -> None:
    decoded = model.decode(model.prepare(SENTENCES))
    assert [len(tags) for tags in decoded] == [4, 8, 1, 4]
    assert {tag for tags in decoded for tag in tags} <= set(model.tags)


def test_marginals_are_probabilities(model: TaggingModel) -> None:
    inputs = model.prepare(SENTENCES)
    found = model.marginals(inputs)
    torch.testing.assert_close(found.sum(2), inputs.mask.float())


def test_inputs_move_whole_and_leave_out_what_is_not_there() -> None:
    inputs = word_tagger(character_layer="none").prepare(SENTENCES)
    moved = inputs.to(torch.device("meta"))
    assert isinstance(moved, Inputs)
    assert moved.mask.device.type == "meta"
    assert moved.words is not None
    assert moved.words.device.type == "meta"
    assert moved.spellings is None


def test_the_device_is_that_of_the_parameters() -> None:
    assert word_tagger().device.type == "cpu"
    assert word_tagger().to("meta").device.type == "meta"
