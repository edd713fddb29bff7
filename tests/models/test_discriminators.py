from __future__ import annotations

from math import log
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.models.tiny import SENTENCES, TYPES, word_tagger
from tests.models.tiny_bart import write_bart
from wardround.models.discriminators import Discriminators, SeparatedHalves, dependence, entropy, scaled_gradient
from wardround.models.encoder_tagger import EncoderTagger, EncoderTaggerConfig
from wardround.models.light_ner import LightNer, LightNerConfig
from wardround.models.parameter_split import ParameterSplit
from wardround.models.probes import Probes, StateRecorder
from wardround.models.saved import load_model, save_model
from wardround.models.tagging_model import Inputs, MentionModel

SITES = ("east", "west")
FAMILIES = ("words", "encoder", "prompt", "lora", "light-ner")
CHARACTERISTIC = log(3)  # of which a softmax beside 0 makes 3/4 and 1/4


@pytest.fixture(scope="module")
def bart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bart(tmp_path_factory.mktemp("barts") / "tiny")


@pytest.fixture(params=FAMILIES)
def model(request: pytest.FixtureRequest, tiny_encoder: Path, bart: Path) -> MentionModel:
    """One of each family, without dropout."""
    torch.manual_seed(0)
    family = request.param
    if family == "words":
        return word_tagger().eval()
    if family == "light-ner":
        return LightNer(LightNerConfig(bart=str(bart), prompt_hidden=8), TYPES).eval()
    adapter = "none" if family == "encoder" else family
    return EncoderTagger(EncoderTaggerConfig(encoder=str(tiny_encoder), adapter=adapter, prompt_hidden=8), TYPES).eval()


def leaf(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, requires_grad=True)


def knowing() -> Discriminators:
    """Of one layer of two numbers: the larger the first, the more it is east."""
    found = Discriminators((2,), SITES)
    with torch.no_grad():
        found.get_parameter("layer_0").copy_(torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
    return found


# Gradients that are turned round.


def test_the_gradient_is_reversed_and_scaled_by_the_strength() -> None:
    states = leaf([1.0, -2.0])
    scaled = scaled_gradient(states, -0.5)
    assert torch.equal(scaled, states)
    (scaled * torch.tensor([2.0, 3.0])).sum().backward()  # type: ignore[no-untyped-call]
    assert states.grad is not None
    assert states.grad.tolist() == [[-1.0, -1.5]]


# One discriminator a layer.


@pytest.mark.parametrize(("site", "loss"), [("east", log(4 / 3)), ("west", log(4))])
def test_the_loss_of_the_discriminators_by_hand(site: str, loss: float) -> None:
    """Scores ln 3 and 0: east with 3/4."""
    assert knowing().loss([leaf([CHARACTERISTIC, 5.0])], site, strength=1.0).item() == pytest.approx(loss)


def test_discriminators_get_the_full_gradient_and_the_network_the_reversed_one() -> None:
    """The loss falls by 1/4 with the score of east, and rises by as much with that of west."""
    found, states = knowing(), leaf([CHARACTERISTIC, 5.0])
    found.loss([states], "east", strength=0.4).backward()  # type: ignore[no-untyped-call]
    weight = found.get_parameter("layer_0").grad
    assert weight is not None and states.grad is not None
    quarter = torch.tensor([CHARACTERISTIC, 5.0]) / 4
    torch.testing.assert_close(weight, torch.stack([-quarter, quarter]))
    # East's row is (1, 0): the gradient is −1/4 in the first number. Reversed, times 0.4, it identifies the site less.
    torch.testing.assert_close(states.grad, torch.tensor([[0.1, 0.0]]))


def test_the_loss_is_the_mean_over_layers_and_sentences() -> None:
    found = Discriminators((2, 1), SITES)
    with torch.no_grad():
        found.get_parameter("layer_0").copy_(torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
    layers = [leaf([CHARACTERISTIC, 0.0], [0.0, 0.0]), leaf([7.0], [8.0])]
    # The first layer tells one sentence with 3/4 and one with 1/2, the second, still at zero, both with 1/2.
    first = (log(4 / 3) + log(2)) / 2
    assert found.loss(layers, "east", strength=1.0).item() == pytest.approx((first + log(2)) / 2)


def test_untrained_discriminators_give_the_network_no_gradient() -> None:
    found, states = Discriminators((2,), ("a", "b", "c")), leaf([3.0, 4.0])
    loss = found.loss([states], "b", strength=1.0)
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == pytest.approx(log(3))
    assert states.grad is not None and not states.grad.any()
    weight = found.get_parameter("layer_0").grad
    assert weight is not None and bool(weight.any())


@pytest.mark.parametrize(("sites", "numbers"), [(6, 72 * 768), (3, 36 * 768)])
def test_parameter_counts_of_the_paper(sites: int, numbers: int) -> None:
    """Appendix A: twelve layers, K × d each."""
    found = Discriminators((768,) * 12, [f"s{number}" for number in range(sites)])
    assert sum(parameter.numel() for parameter in found.parameters()) == numbers


# Separated halves.


def test_a_state_is_split_in_halves_and_an_odd_dimension_is_left_out() -> None:
    task, own = SeparatedHalves(5, 2).split(torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0]]))
    assert (task.tolist(), own.tolist()) == ([[1.0, 2.0]], [[3.0, 4.0]])


def test_parameter_count_of_the_halves() -> None:
    found = Discriminators((8, 8), ("a", "b", "c"), separated=8)
    # Beside a matrix 3 × 8 for each layer one of 8 × 8, and 3 × 4 that read a half.
    assert sum(parameter.numel() for parameter in found.parameters()) == 2 * 24 + 64 + 12


def test_rows_that_are_not_orthonormal_are_skew() -> None:
    found = SeparatedHalves(2, 2)
    assert found.skew().item() == 0.0
    with torch.no_grad():
        found.turn.copy_(torch.tensor([[2.0, 0.0], [0.0, 1.0]]))
    assert found.skew().item() == pytest.approx(9 / 2)  # (4 − 1)² over two rows
    with torch.no_grad():
        found.turn.copy_(torch.tensor([[1.0, 0.0], [1.0, 0.0]]))
    assert found.skew().item() == pytest.approx(1.0)  # twice 1² beside the diagonal


def test_dependence_is_the_mean_squared_correlation() -> None:
    left = torch.tensor([[1.0], [-1.0], [1.0], [-1.0]])
    same, other = 3 * left + 1, torch.tensor([[1.0], [1.0], [-1.0], [-1.0]])
    assert dependence(left, same).item() == pytest.approx(1.0)
    assert dependence(left, other).item() == pytest.approx(0.0)
    assert dependence(left, torch.cat([-same, other], 1)).item() == pytest.approx(0.5)
    assert dependence(left[:1], same[:1]).item() == 0.0  # of one sentence nothing is known


def test_the_half_of_the_site_predicts_it_without_a_gradient_for_the_network() -> None:
    found, states = SeparatedHalves(2, 2), leaf([5.0, CHARACTERISTIC])
    with torch.no_grad():
        found.discriminator.copy_(torch.tensor([[1.0], [0.0]]))
    loss = found.loss(states, 0, strength=0.4)
    assert loss.item() == pytest.approx(log(4 / 3))  # one sentence does not correlate, and the rows are orthonormal
    loss.backward()  # type: ignore[no-untyped-call]
    assert states.grad is not None and not states.grad.any()
    # −(1 − p) of what is read at the site's row, p = 3/4; W's second row feels it through weights that differ by one.
    torch.testing.assert_close(found.discriminator.grad, torch.tensor([[-1.0], [1.0]]) * CHARACTERISTIC / 4)
    torch.testing.assert_close(found.turn.grad, torch.tensor([[0.0, 0.0], [-5.0 / 4, -CHARACTERISTIC / 4]]))


def test_the_network_learns_to_make_the_halves_independent() -> None:
    found, states = SeparatedHalves(2, 2), leaf([1.0, 1.0], [-1.0, -1.0], [1.0, 0.0])
    found.loss(states, 0, strength=0.4).backward()  # type: ignore[no-untyped-call]
    other = states.detach().clone().requires_grad_()
    dependence(other[:, :1], other[:, 1:]).backward()  # type: ignore[no-untyped-call]
    assert states.grad is not None and other.grad is not None and other.grad.any()
    torch.testing.assert_close(states.grad, 0.4 * other.grad)


def test_a_last_state_is_split_only_on_request() -> None:
    assert Discriminators((2,), SITES).halves is None
    parted = Discriminators((4,), SITES, separated=2)
    assert parted.separation_loss(leaf([1.0, 2.0]), "west", strength=1.0).item() == pytest.approx(log(2))


# How sure a network is.


def test_entropy_by_hand() -> None:
    assert entropy(torch.tensor([[0.5, 0.5], [1.0, 0.0]])).item() == pytest.approx(log(2) / 2)
    assert entropy(torch.zeros(0, 3)).item() == 0.0


def test_a_probability_of_zero_has_no_gradient() -> None:
    scores = torch.tensor([[0.0, log(3), -torch.inf]], requires_grad=True)
    entropy(scores.softmax(1)).backward()  # type: ignore[no-untyped-call]
    # dH/ds = −p (log p + H), H = log 4 − 3/4 log 3, of p = 1/4 and 3/4.
    slope = 3 / 16 * log(3)
    assert scores.grad is not None
    torch.testing.assert_close(scores.grad, torch.tensor([[slope, -slope, 0.0]]))


# What a forward pass leaves.


def tags_of(model: MentionModel, *tagged: tuple[int, int, str]) -> Tensor:
    """Rows of tags for `SENTENCES`, outside but for (sentence, word, tag)."""
    found = torch.zeros(len(SENTENCES), max(map(len, SENTENCES)), dtype=torch.long)
    for sentence, word, tag in tagged:
        found[sentence, word] = model.tag_rows[tag]
    return found


def recorded(model: MentionModel, *, predictions: bool = False) -> tuple[Inputs, StateRecorder]:
    """A pass over sentences of which a drug is annotated, and two effects are taught."""
    inputs = model.prepare(SENTENCES)
    local = tags_of(model, (0, 1, "B-Drug"))
    taught = tags_of(model, (0, 1, "B-Drug"), (1, 0, "B-ADE"), (3, 1, "B-ADE"))
    annotated = torch.tensor([tag.endswith("Drug") for tag in model.tags])
    with model.probes.recording(predictions=predictions) as seen:
        model.split_loss(inputs, local, taught, annotated=annotated)
    assert not model.probes.is_recording
    return inputs, seen


def test_the_mean_is_over_words_and_not_over_padding() -> None:
    probes, mask = Probes(widths=(1,)), torch.tensor([[1, 1, 0], [1, 1, 1]]) > 0
    with probes.recording() as seen:
        probes.encoded(torch.tensor([[[2.0], [4.0], [9.0]], [[1.0], [2.0], [3.0]]]), mask)
        assert seen.last.tolist() == [[3.0], [2.0]]
        probes.decoded(torch.tensor([[[8.0]], [[7.0]]]), torch.tensor([[True], [True]]))
    assert (len(seen.layers), seen.last.tolist()) == (1, [[8.0], [7.0]])


def test_every_family_records_states_of_the_declared_widths(model: MentionModel) -> None:
    _, seen = recorded(model)
    assert [tuple(layer.shape) for layer in seen.layers] == [(4, width) for width in model.probes.widths]
    assert tuple(seen.last.shape) == (4, model.probes.widths[-1])
    assert (seen.decoded is not None) == isinstance(model, LightNer)
    # A sentence's states are its own, however long its neighbours are.
    inputs, annotated = model.prepare(SENTENCES[3:]), torch.zeros(len(model.tags)) > 0
    with model.probes.recording() as alone:
        model.split_loss(inputs, torch.zeros(1, 4, dtype=torch.long), None, annotated=annotated)
    for layer, own in zip(seen.layers, alone.layers, strict=True):
        torch.testing.assert_close(layer[3:], own)


def test_the_layers_of_a_word_tagger() -> None:
    tagger = word_tagger().eval()
    inputs, seen = recorded(tagger)
    assert tagger.probes.widths == (16 + 16, 16, 2 * 16)
    torch.testing.assert_close(seen.layers[0][0], tagger._represent(inputs)[0, :4].mean(0))
    assert word_tagger(lstm=0, character_layer="none").probes.widths == (16, 16)


def test_the_layers_of_an_encoder_come_bottom_to_top(tiny_encoder: Path) -> None:
    tagger = EncoderTagger(EncoderTaggerConfig(encoder=str(tiny_encoder)), TYPES).eval()
    inputs, seen = recorded(tagger)
    assert inputs.pieces is not None
    states = tagger.network.base_model(inputs.pieces.ids, attention_mask=inputs.pieces.attention).last_hidden_state
    torch.testing.assert_close(seen.layers[-1][1], inputs.pieces.gather(states)[1].mean(0))
    assert tagger.probes.widths == (8, 8)


def test_after_a_recording_nothing_is_recorded(model: MentionModel) -> None:
    inputs, seen = recorded(model)
    before = [layer.clone() for layer in seen.layers]
    model.decode(inputs)
    assert len(seen.layers) == len(before) == len(model.probes.widths)


@pytest.mark.parametrize("decoder", ["crf", "softmax"])
def test_predictions_are_recorded_for_taught_words_only(decoder: str) -> None:
    tagger = word_tagger(decoder=decoder).eval()
    inputs, seen = recorded(tagger, predictions=True)
    assert seen.predicted is not None
    # Of "Rash" in the second sentence and "rash" in the last; the drug is the annotators' own.
    torch.testing.assert_close(seen.predicted, tagger.marginals(inputs)[[1, 3], [0, 1]], atol=1e-5, rtol=1e-4)
    assert recorded(tagger)[1].predicted is None


@pytest.mark.parametrize("decoder", ["crf", "softmax"])
def test_the_gradient_of_the_entropy_is_a_finite_difference(decoder: str) -> None:
    tagger = word_tagger(decoder=decoder).eval()

    def doubt() -> Tensor:
        predicted = recorded(tagger, predictions=True)[1].predicted
        assert predicted is not None
        return entropy(predicted)

    doubt().backward()  # type: ignore[no-untyped-call]
    bias = tagger.output.bias
    assert bias.grad is not None and bias.grad.abs().max() > 0.01
    for place in range(2):
        step = 0.01 * torch.nn.functional.one_hot(torch.tensor(place), len(tagger.tags))
        bias.data += step
        above = doubt().item()
        bias.data -= 2 * step
        below = doubt().item()
        bias.data += step
        assert bias.grad[place].item() == pytest.approx((above - below) / 0.02, abs=1e-3)


def test_a_generating_model_records_predictions_of_taught_outputs(bart: Path) -> None:
    tagger = LightNer(LightNerConfig(bart=str(bart), prompt_hidden=8), TYPES).eval()
    predicted = recorded(tagger, predictions=True)[1].predicted
    assert predicted is not None
    assert len(predicted) == 2 * 3  # start, end and type of two mentions
    torch.testing.assert_close(predicted.sum(1), torch.ones(6))


# Beside a model, and no part of it.


def attached(model: MentionModel) -> MentionModel:
    model.split = ParameterSplit.sharing(model.groups, model.groups)
    model.attach("discriminators", Discriminators(model.probes.widths, SITES, separated=model.probes.widths[-1]))
    return model


def test_discriminators_are_a_shared_group(model: MentionModel) -> None:
    groups, before = model.groups, model.parameters_in(model.groups)
    attached(model)
    assert model.groups == (*groups, "discriminators")
    assert model.split.shared == model.groups
    added = model.parameters_in(("discriminators",))
    assert model.shared_parameters().keys() == before.keys() | added.keys()
    widths = model.probes.widths
    # K × d for each layer, d × d, and K × d/2, all of them even here.
    assert sum(p.numel() for p in added.values()) == 2 * sum(widths) + widths[-1] ** 2 + widths[-1]


def test_discriminators_and_network_train_against_each_other(model: MentionModel) -> None:
    found = attached(model).discriminators
    assert found is not None
    with torch.no_grad():
        for name, parameter in found.named_parameters():
            if name.startswith("layer_"):
                parameter.normal_(std=0.5)
    for parameter in model.parameters():
        parameter.grad = None
    seen = recorded(model)[1]
    found.loss(seen.layers, "east", strength=1.0).backward()  # type: ignore[no-untyped-call]
    trained = model.shared_parameters()
    moved = {model.group_of(name) for name, p in trained.items() if p.grad is not None and bool(p.grad.any())}
    assert "discriminators" in moved
    assert moved - {"discriminators"}
    assert not moved & {"output", "crf"}


def test_a_saved_model_has_no_discriminators(model: MentionModel, tmp_path: Path) -> None:
    plain = set(model.state_dict())
    attached(model)
    assert set(model.state_dict()) == plain
    save_model(model, tmp_path / "model")
    found = load_model(tmp_path / "model")
    assert isinstance(found, MentionModel)
    assert found.training_only == () and "discriminators" not in found.groups
    inputs = model.prepare(SENTENCES)
    assert found.decode(inputs) == model.decode(inputs)


def test_loading_a_state_does_not_change_discriminators() -> None:
    tagger = attached(word_tagger())
    found = tagger.discriminators
    assert found is not None
    with torch.no_grad():
        found.get_parameter("layer_0").fill_(3.0)
    tagger.load_state_dict(word_tagger(seed=1).state_dict())
    assert bool((found.get_parameter("layer_0") == 3.0).all())
