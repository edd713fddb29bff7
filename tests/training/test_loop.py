from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.models.tiny import TYPES, notes, quick_tagger, same_weights, word_tagger, write_encoder

from wardround.errors import TrainingError
from wardround.models.tagging_model import TaggingModel
from wardround.tasks.ner import NerTask, encode, score
from wardround.text.document import Document
from wardround.training.loop import EpochRecord, TrainingLoop
from wardround.training.training_config import TrainingConfig

NOTES = notes(34)
# So many notes and so high a rate that the development F1 rises from epoch to epoch.
QUICK = TrainingConfig(epochs=4, batch_size=4, learning_rate=0.02, patience=9)
RATES = {"adam": 0.02, "adamw": 0.02, "sgd": 0.3}


def training(
    model: TaggingModel, config: TrainingConfig = QUICK, *, dev: Sequence[Document] = NOTES[30:]
) -> TrainingLoop:
    return TrainingLoop(NerTask(model), config, train=encode(NOTES[:30], TYPES, model.scheme).sentences, dev=dev)


def timeless(records: Sequence[EpochRecord]) -> list[EpochRecord]:
    return [replace(record, seconds=0.0) for record in records]


class Watch:
    """Records what it receives."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int, int]] = []
        self.losses: list[float] = []
        self.epochs: list[EpochRecord] = []

    def on_step(self, epoch: int, *, step: int, steps: int, loss: float) -> None:
        self.steps.append((epoch, step, steps))
        self.losses.append(loss)

    def on_epoch(self, record: EpochRecord) -> None:
        self.epochs.append(record)


def test_a_tiny_model_overfits_tiny_notes() -> None:
    model = quick_tagger()
    records = list(training(model, replace(QUICK, epochs=6)).run())
    assert records[0].loss > 10 * records[-1].loss
    assert records[0].dev_f1 < records[-1].dev_f1 == 1.0
    assert score(model, NOTES).strict.micro.f1 == 1.0


def test_records_and_listener_calls_of_a_training() -> None:
    watch = Watch()
    records = list(training(quick_tagger(), replace(QUICK, epochs=2, batch_size=10)).run(watch))
    assert [record.epoch for record in records] == [1, 2]
    assert records[0].best
    assert watch.epochs == records
    # 90 sentences in batches of ten are nine steps.
    assert watch.steps == [(epoch, step, 9) for epoch in (1, 2) for step in range(1, 10)]
    assert records[0].loss == pytest.approx(sum(watch.losses[:9]) / 9)
    assert all(record.seconds > 0 for record in records)


def test_the_weights_of_the_best_epoch_are_restored() -> None:
    model = quick_tagger()
    run = training(model, replace(QUICK, learning_rate=0.1))
    snapshots = []
    for record in run.run():
        snapshots.append((record, {name: tensor.clone() for name, tensor in model.state_dict().items()}))
    best = max(record.dev_f1 for record, _ in snapshots)
    first = next(weights for record, weights in snapshots if record.dev_f1 == best)
    assert all(torch.equal(tensor, first[name]) for name, tensor in model.state_dict().items())
    assert [record.best for record, _ in snapshots] == [
        record.dev_f1 > max((r.dev_f1 for r, _ in snapshots[:place]), default=-1.0)
        for place, (record, _) in enumerate(snapshots)
    ]


def test_training_stops_early_without_improvement() -> None:
    # Notes without annotation score nothing in any epoch, so the first stays the best.
    model = quick_tagger()
    dev = [document.with_entities(()) for document in NOTES[:2]]
    run = training(model, replace(QUICK, epochs=20, patience=3), dev=dev)
    records = run.run()
    next(records)
    first = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert [record.best for record in records] == [False] * 3
    assert all(torch.equal(tensor, first[name]) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
@pytest.mark.parametrize("stop", [1, 3])
def test_a_resumed_training_equals_an_uninterrupted_one_bit_for_bit(optimizer: str, stop: int) -> None:
    config = replace(QUICK, optimizer=optimizer, learning_rate=RATES[optimizer], weight_decay=1e-4, warmup=0.1)
    whole = training(quick_tagger(), config)
    list(whole.run())
    assert whole.records[0].dev_f1 < max(record.dev_f1 for record in whole.records)  # the best is not the first

    broken = training(quick_tagger(), config)
    epochs = broken.run()
    for _ in range(stop):
        next(epochs)
    state = broken.state()
    next(epochs, None)  # what happens after a snapshot must not change it
    resumed = training(quick_tagger(seed=99), config)
    torch.manual_seed(12345)  # nor may the random state of the process
    resumed.restore(state)
    list(resumed.run())
    assert same_weights(resumed.model, whole.model)
    assert timeless(resumed.records) == timeless(whole.records)
    mine, theirs = resumed.state().tensors, whole.state().tensors
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)

    again = training(quick_tagger(seed=98), config)
    again.restore(state)  # a snapshot can be used twice
    list(again.run())
    assert same_weights(again.model, whole.model)


def test_a_network_with_every_kind_of_layer_resumes_bit_for_bit(tmp_path: Path) -> None:
    """Every kind of layer at once: a frozen encoder, characters, CNN, two LSTM layers with dropout, dense, CRF."""
    encoder = str(write_encoder(tmp_path / "encoder"))
    config = replace(QUICK, epochs=2, batch_size=30)

    def network(seed: int) -> TaggingModel:
        return word_tagger(seed=seed, contextual=encoder, lstm_layers=2, dense=8, dropout=0.3, scheme="BIOES")

    whole, broken, resumed = (training(network(seed), config) for seed in (0, 0, 1))
    list(whole.run())
    next(broken.run())
    resumed.restore(broken.state())
    list(resumed.run())
    mine, theirs = resumed.state().tensors, whole.state().tensors
    assert all(torch.equal(mine[name], theirs[name]) for name in theirs)
    assert timeless(resumed.records) == timeless(whole.records)


def test_restoring_a_finished_training_trains_no_further() -> None:
    whole = training(quick_tagger())
    list(whole.run())
    resumed = training(quick_tagger(seed=99))
    resumed.restore(whole.state())
    assert list(resumed.run()) == []
    assert same_weights(resumed.model, whole.model)


def test_the_weights_depend_only_on_the_seed() -> None:
    models: list[TaggingModel] = []
    for seed in (0, 0, 1):
        model = quick_tagger()
        torch.manual_seed(len(models))  # the process's own randomness is left out
        list(training(model, replace(QUICK, epochs=2, seed=seed)).run())
        models.append(model)
    assert same_weights(models[0], models[1])
    assert not same_weights(models[0], models[2])


def test_training_does_not_change_the_random_state_of_the_process() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    run = training(quick_tagger(), replace(QUICK, epochs=1))
    torch.manual_seed(5)
    list(run.run())
    assert torch.equal(torch.rand(3), expected)


def test_a_loss_that_is_not_finite_stops_the_training() -> None:
    model = quick_tagger()
    with torch.no_grad():
        model.output.bias.fill_(torch.nan)
    with pytest.raises(TrainingError, match="the loss of epoch 1 is not a number; lower learning_rate or set clip"):
        list(training(model).run())


def test_a_diverging_learning_rate_stops_the_training() -> None:
    config = replace(QUICK, optimizer="sgd", learning_rate=1e30, clip=0.0)
    with pytest.raises(TrainingError, match="is not a number"):
        list(training(quick_tagger(), config).run())


@pytest.mark.parametrize("change", [{"word_cnn": 6}, {"dense": 4}, {"decoder": "softmax"}])
def test_a_state_of_another_model_is_refused(change: dict[str, Any]) -> None:
    run = training(quick_tagger())
    next(run.run())
    other = training(quick_tagger(**change))
    with pytest.raises(TrainingError, match="the checkpoint belongs to another model; start afresh in a new folder"):
        other.restore(run.state())


def test_frozen_parameters_do_not_change(tmp_path: Path) -> None:
    model = quick_tagger(contextual=str(write_encoder(tmp_path / "encoder")), train_words=False)
    words, encoder = model.words.weight.clone(), model.contextual.fingerprint()
    mix = model.contextual.mix.weights.clone()
    list(training(model, replace(QUICK, epochs=1, weight_decay=0.1)).run())
    assert torch.equal(model.words.weight, words)
    assert model.contextual.fingerprint() == encoder
    assert not torch.equal(model.contextual.mix.weights, mix)


def change_in(model: TaggingModel, before: dict[str, torch.Tensor], groups: Sequence[str]) -> float:
    parts = [(p.detach() - before[name]).flatten() for name, p in model.parameters_in(groups).items()]
    return float(torch.cat(parts).norm())


def one_step(config: TrainingConfig) -> tuple[TaggingModel, dict[str, torch.Tensor]]:
    """A whole training of a single step of plain gradient descent."""
    model = quick_tagger(input_dropout=0.0, dropout=0.0)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    list(training(model, replace(config, optimizer="sgd", epochs=1, batch_size=1000)).run())
    return model, before


def test_gradient_clipping_limits_the_norm_of_a_step() -> None:
    model, before = one_step(replace(QUICK, learning_rate=1.0, clip=0.01))
    assert change_in(model, before, model.groups) == pytest.approx(0.01, rel=1e-3)
    model, before = one_step(replace(QUICK, learning_rate=1.0, clip=0.0))
    assert change_in(model, before, model.groups) > 0.1


def test_output_layers_use_their_own_learning_rate() -> None:
    below = ("words", "characters", "word_cnn")
    model, before = one_step(replace(QUICK, learning_rate=1e-3, clip=0.0))
    plain_below, plain_top = (change_in(model, before, groups) for groups in (below, ("output", "crf")))
    model, before = one_step(replace(QUICK, learning_rate=1e-3, output_learning_rate=1e-1, clip=0.0))
    assert change_in(model, before, below) == pytest.approx(plain_below, rel=1e-3)
    assert change_in(model, before, ("output", "crf")) == pytest.approx(100 * plain_top, rel=1e-3)


def test_mixed_precision_is_ignored_on_a_cpu() -> None:
    plain, mixed = quick_tagger(), quick_tagger()
    for model, wanted in ((plain, False), (mixed, True)):
        list(training(model, replace(QUICK, epochs=1, mixed_precision=wanted)).run())
    assert same_weights(plain, mixed)
