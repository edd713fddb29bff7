from __future__ import annotations

import math
from itertools import pairwise, product
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.models.tiny import SENTENCES, TYPES, word_tagger
from wardround.models.crf import LinearChainCrf, Posterior
from wardround.models.tagging_model import Inputs, SplitLoss, TaggingModel, allowed_tags

Path = tuple[int, ...]
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


def partial_loss(model: TaggingModel, inputs: Inputs, allowed: Tensor) -> Tensor:
    return -model.decoder.partial_log_likelihood(model.emissions(inputs).float(), inputs.mask, allowed).mean()


def test_the_partial_loss_lies_between_nothing_and_everything(model: TaggingModel) -> None:
    inputs = model.prepare(SENTENCES)
    everything = torch.ones(4, 8, len(model.tags), dtype=torch.bool)
    assert partial_loss(model, inputs, everything).item() == pytest.approx(0.0, abs=1e-5)
    only_gold = torch.nn.functional.one_hot(GOLD, len(model.tags)).bool()
    torch.testing.assert_close(partial_loss(model, inputs, only_gold), model.loss(inputs, GOLD))
    wider = only_gold.clone()
    wider[:, :, 1] = True
    assert 0 < partial_loss(model, inputs, wider) < model.loss(inputs, GOLD)


def test_each_sentence_is_decoded_at_its_own_length(model: TaggingModel) -> None:
    decoded = model.decode(model.prepare(SENTENCES))
    assert [len(tags) for tags in decoded] == [4, 8, 1, 4]
    assert {tag for tags in decoded for tag in tags} <= set(model.tags)


def test_marginals_are_probabilities(model: TaggingModel) -> None:
    inputs = model.prepare(SENTENCES)
    found = model.marginals(inputs)
    torch.testing.assert_close(found.sum(2), inputs.mask.float())


def test_inputs_move_all_parts_that_are_present() -> None:
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


# What a site's annotation leaves open. It annotates ADE and not Drug; the tags are O, B-ADE, I-ADE, B-Drug, I-Drug.

ANNOTATED = torch.tensor([False, True, True, False, False])


def test_allowed_tags_by_hand() -> None:
    # An ADE of two words, then a word without a mention: it is no ADE, and may be anything else.
    found = allowed_tags(torch.tensor([[1, 2, 0]]), ANNOTATED)
    assert found.int().tolist() == [[[0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [1, 0, 0, 1, 1]]]
    everything = torch.tensor([False, True, True, True, True])
    assert allowed_tags(torch.tensor([[1, 2, 0]]), everything)[0, 2].int().tolist() == [1, 0, 0, 0, 0]
    nothing = torch.zeros(5, dtype=torch.bool)
    assert allowed_tags(torch.tensor([[0, 0, 0]]), nothing).all()


class OfThreeWords:
    """A model and one sentence of three words with the log probability of every path, added up term by term."""

    def __init__(self, decoder: str, scheme: str, seed: int) -> None:
        self.model = word_tagger(decoder=decoder, scheme=scheme, seed=seed, lstm=0).eval()
        if isinstance(self.model.decoder, LinearChainCrf):
            with torch.no_grad():
                for parameter in self.model.decoder.parameters():
                    parameter.normal_()
        self.inputs = self.model.prepare([("Aspirin", "gave", "rash")])
        self.annotated = torch.tensor([tag.endswith("-ADE") for tag in self.model.tags])
        with torch.no_grad():
            self.log_p = self._paths(self.model.emissions(self.inputs)[0].double())

    def rows(self, *tags: str) -> Tensor:
        return torch.tensor([[self.model.tag_rows[tag] for tag in tags]])

    def lost(self, *allowed: set[str]) -> float:
        """−log p(each word's tag is one of these)."""
        sets = [{self.model.tag_rows[tag] for tag in tags} for tags in allowed]
        inside = [p for path, p in self.log_p.items() if all(row in tags for row, tags in zip(path, sets, strict=True))]
        return -log_sum(inside)

    def split(self, local: Tensor, taught: Any, outside: float = 0.0) -> SplitLoss:
        if isinstance(taught, Posterior):
            return self.model.posterior_loss(self.inputs, local, taught, annotated=self.annotated, outside=outside)
        return self.model.split_loss(self.inputs, local, taught, annotated=self.annotated, outside=outside)

    def _paths(self, words: Tensor) -> dict[Path, float]:
        crf = self.model.decoder
        scores = {}
        for path in product(range(len(self.model.tags)), repeat=3):
            score = sum(float(words[place, row]) for place, row in enumerate(path))
            if isinstance(crf, LinearChainCrf):
                if not self.model.scheme.is_legal([self.model.tags[row] for row in path]):
                    continue
                steps = sum(float(crf.step[left, right]) for left, right in pairwise(path))
                score += float(crf.start[path[0]]) + steps + float(crf.end[path[-1]])
            scores[path] = score
        total = log_sum(list(scores.values()))
        return {path: score - total for path, score in scores.items()}


def log_sum(scores: list[float]) -> float:
    return float(torch.logsumexp(torch.tensor(scores, dtype=torch.double), 0))


@pytest.fixture(params=["crf-BIO", "crf-BIOES", "softmax-BIO", "softmax-BIOES"])
def three(request: pytest.FixtureRequest) -> OfThreeWords:
    decoder, scheme = request.param.split("-")
    return OfThreeWords(decoder, scheme, seed=len(request.param))


def single(three: OfThreeWords, kind: str) -> str:
    """The tag of a mention of one word."""
    return f"{'S' if three.model.scheme.name == 'BIOES' else 'B'}-{kind}"


def not_ade(three: OfThreeWords) -> set[str]:
    return {tag for tag in three.model.tags if not tag.endswith("-ADE")}


def test_the_parts_of_a_loss_by_enumeration(three: OfThreeWords) -> None:
    """The annotators marked the rash; the teacher adds a drug and finds nothing between them."""
    ade, drug = single(three, "ADE"), single(three, "Drug")
    found = three.split(three.rows("O", "O", ade), three.rows(drug, "O", ade))
    open_, known = not_ade(three), {ade}
    source = three.lost(open_, open_, known)
    mentions, whole = three.lost({drug}, open_, known), three.lost({drug}, {"O"}, known)
    assert found.source.item() == pytest.approx(source, abs=1e-4)
    assert found.target.item() == pytest.approx(mentions - source, abs=1e-4)
    assert found.silence.item() == pytest.approx(whole - mentions, abs=1e-4)
    assert min(source, mentions - source, whole - mentions) > 0.05  # each of them says something
    gold = three.model.loss(three.inputs, three.rows(drug, "O", ade)).item()
    assert sum(found, torch.zeros(1)).item() == pytest.approx(gold, abs=1e-4)
    assert whole == pytest.approx(gold, abs=1e-4)


def test_without_a_teacher_unannotated_types_stay_open(three: OfThreeWords) -> None:
    ade = single(three, "ADE")
    local = three.rows("O", "O", ade)
    found = three.split(local, None)
    assert found.source.item() == pytest.approx(three.lost(not_ade(three), not_ade(three), {ade}), abs=1e-4)
    assert (found.target.item(), found.silence.item()) == (0.0, 0.0)
    assert not found.target.requires_grad  # which says that there is none to ask for
    partial = partial_loss(three.model, three.inputs, allowed_tags(local, three.annotated))
    torch.testing.assert_close(found.source[0], partial)


def test_the_outside_weight_by_enumeration(three: OfThreeWords) -> None:
    ade = single(three, "ADE")
    local, open_ = three.rows("O", "O", ade), not_ade(three)
    silence = three.lost({"O"}, {"O"}, {ade}) - three.lost(open_, open_, {ade})
    soft = three.model.posterior(three.inputs, local, annotated=three.annotated)
    for taught in (None, soft):
        plain, found = three.split(local, taught), three.split(local, taught, 0.25)
        assert found.silence.item() == pytest.approx(0.25 * silence, abs=1e-4)
        assert (found.source.item(), found.target.item()) == (plain.source.item(), plain.target.item())
    hard = three.rows(single(three, "Drug"), "O", ade)
    assert three.split(local, hard, 0.25) == three.split(local, hard)  # mentions say all there is


def test_a_teacher_without_mentions_adds_only_the_silence_loss(three: OfThreeWords) -> None:
    ade = single(three, "ADE")
    local = three.rows("O", "O", ade)
    found = three.split(local, local)
    assert found.target.item() == pytest.approx(0.0, abs=1e-6)
    expected = three.lost({"O"}, {"O"}, {ade}) - three.lost(not_ade(three), not_ade(three), {ade})
    assert found.silence.item() == pytest.approx(expected, abs=1e-4)


def test_the_loss_of_a_taught_distribution_by_enumeration(three: OfThreeWords) -> None:
    """The teacher is another model; every path that the annotation allows counts by what it gives to it."""
    ade, open_ = single(three, "ADE"), not_ade(three)
    local = three.rows("O", "O", ade)
    kind = "crf" if isinstance(three.model.decoder, LinearChainCrf) else "softmax"
    other = OfThreeWords(kind, three.model.scheme.name, seed=99)
    taught = other.model.posterior(other.inputs, local, annotated=other.annotated)
    assert not taught.words.requires_grad
    names = {path: [three.model.tags[row] for row in path] for path in three.log_p}
    inside = [p for p, tags in names.items() if tags[0] in open_ and tags[1] in open_ and tags[2] == ade]
    log_q, log_p = ({path: found.log_p[path] for path in inside} for found in (other, three))
    all_q, all_p = log_sum(list(log_q.values())), log_sum(list(log_p.values()))
    expected = -sum(math.exp(log_q[path] - all_q) * (log_p[path] - all_p) for path in inside)
    found = three.split(local, taught)
    assert found.source.item() == pytest.approx(-all_p, abs=1e-4)
    assert found.target.item() == pytest.approx(expected, abs=1e-4)
    assert found.silence.item() == 0.0


def test_the_models_own_posterior_gives_no_gradient(three: OfThreeWords) -> None:
    local = three.rows("O", "O", single(three, "ADE"))
    taught = three.model.posterior(three.inputs, local, annotated=three.annotated)
    parameters = [parameter for parameter in three.model.parameters() if parameter.requires_grad]
    gradients = torch.autograd.grad(three.split(local, taught).target.sum(), parameters)
    assert max(float(gradient.abs().max()) for gradient in gradients) < 1e-5


def test_tags_of_unannotated_types_do_not_change_the_source_loss(three: OfThreeWords) -> None:
    """Of a word without a local mention it says only that it is no ADE: its gradient is that of this alone."""
    ade = single(three, "ADE")
    emissions = three.model.emissions(three.inputs).detach().requires_grad_()
    allowed = allowed_tags(three.rows("O", "O", ade), three.annotated)
    loss = -three.model.decoder.partial_log_likelihood(emissions, three.inputs.mask, allowed)
    gradient = torch.autograd.grad(loss.sum(), emissions)[0][0]
    pushed_down = [row for row, tag in enumerate(three.model.tags) if tag.endswith("-ADE")]
    assert (gradient[:2, pushed_down] >= 0).all()
    if not isinstance(three.model.decoder, LinearChainCrf):
        others = [row for row, tag in enumerate(three.model.tags) if not tag.endswith("-ADE")]
        assert (gradient[:2, others] <= 0).all()  # what is not ADE gains, whatever it is


# Probes.

# Of the four sentences, an ADE in the second and in the last; the teacher adds a drug to the first two.
LOCAL = torch.tensor([[0] * 8, [1, *[0] * 7], [0] * 8, [0, 1, *[0] * 6]])
TAUGHT = torch.tensor([[0, 3, *[0] * 6], [1, 0, 0, 0, 3, 0, 0, 0], [0] * 8, [0, 1, *[0] * 6]])
PROBED = pytest.mark.parametrize(
    "changes",
    [{}, {"lstm": 0}, {"word_cnn": 0}, {"decoder": "softmax"}, {"character_layer": "none"}],
    ids=["all layers", "no lstm", "no cnn", "softmax", "no characters"],
)


def split(model: TaggingModel, rows: list[int]) -> SplitLoss:
    longest = max(len(SENTENCES[row]) for row in rows)
    local, taught = LOCAL[rows, :longest], TAUGHT[rows, :longest]
    return model.split_loss(model.prepare([SENTENCES[row] for row in rows]), local, taught, annotated=ANNOTATED)


@PROBED
def test_a_fresh_probe_changes_nothing(changes: dict[str, Any]) -> None:
    model = word_tagger(**changes).eval()
    before = model.emissions(model.prepare(SENTENCES))
    model.probes.leaf = model.probes.fresh_leaves(4, model.device)
    assert model.probes.leaf.shape == (4, *model.probes.leaf_shape)
    assert torch.equal(model.emissions(model.prepare(SENTENCES)), before)
    model.probes.leaf = model.probes.leaf + 1.0
    assert not torch.allclose(model.emissions(model.prepare(SENTENCES)), before)


@PROBED
def test_one_backward_gives_each_sentence_its_own_gradient(changes: dict[str, Any]) -> None:
    model = word_tagger(**changes).eval()
    model.probes.leaf = probe = model.probes.fresh_leaves(4, model.device).requires_grad_()
    losses = split(model, [0, 1, 2, 3])
    together = [torch.autograd.grad(part.sum(), probe, retain_graph=True)[0] for part in losses]
    for row in range(4):
        model.probes.leaf = alone = model.probes.fresh_leaves(1, model.device).requires_grad_()
        for part, found in zip(split(model, [row]), together, strict=True):
            expected = torch.autograd.grad(part.sum(), alone, retain_graph=True)[0][0]
            torch.testing.assert_close(found[row], expected, atol=1e-6, rtol=1e-4)
    assert all(bool(row.any()) for row in together[0])  # every sentence says something of ADEs
    small = [float(row.abs().max()) < 1e-5 for row in together[1]]
    assert small == [False, False, True, True]  # and the teacher adds to the first two


def test_a_probe_affects_every_word_of_its_sentence() -> None:
    """Its gradient is the sum of those of the words' representations: by finite differences."""
    model = word_tagger(lstm=0).double().eval()
    width = model.probes.leaf_shape[0]
    assert width == 16 + 16  # of the word, and of its characters
    model.probes.leaf = probe = torch.zeros(2, width, dtype=torch.double, requires_grad=True)
    inputs = model.prepare([SENTENCES[1], SENTENCES[3]])

    def loss() -> Tensor:
        gold = torch.zeros(2, 8, dtype=torch.long)
        return -model.decoder.log_likelihood(model.emissions(inputs), inputs.mask, gold)

    (gradient,) = torch.autograd.grad(loss().sum(), probe)
    for place in (0, width - 1):
        for row in range(2):
            step = torch.zeros_like(probe)
            step[row, place] = 1e-6
            with torch.no_grad():
                model.probes.leaf = step
                more = loss()
                model.probes.leaf = -step
                change = (more - loss()) / 2e-6
            assert change[row].item() == pytest.approx(gradient[row, place].item(), abs=1e-6)
            assert change[1 - row].item() == 0.0  # the other sentence feels nothing
