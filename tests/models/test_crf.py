from __future__ import annotations

import math
from itertools import pairwise, product
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor
from torchcrf import CRF  # type: ignore[import-untyped]

from wardround.models import crf as crf_module
from wardround.models.crf import FORBIDDEN, LinearChainCrf, Posterior, legal_transitions
from wardround.text.tag_schemes import BIO, BIOES, IOB1, TagScheme

Path = tuple[int, ...]
FREE = ("a", "b", "c")
CASES = [
    pytest.param(FREE, None, id="free"),
    pytest.param(BIO.tags(("X",)), BIO, id="BIO"),
    pytest.param(BIO.tags(("X", "Y")), BIO, id="BIO-two-types"),
    pytest.param(BIOES.tags(("X",)), BIOES, id="BIOES"),
    pytest.param(IOB1.tags(("X", "Y")), IOB1, id="IOB1"),
]


def make(tags: tuple[str, ...], scheme: TagScheme | None, *, seed: int = 0, spread: float = 2.0) -> LinearChainCrf:
    torch.manual_seed(seed)
    crf = LinearChainCrf(tags, scheme).double()
    with torch.no_grad():
        for parameter in crf.parameters():
            parameter.normal_(0, spread)
    return crf


def sentences(lengths: tuple[int, ...], tags: int, *, spread: float = 2.0) -> tuple[Tensor, Tensor]:
    """Emissions, with noise at padding too, and the mask."""
    emissions = torch.randn(len(lengths), max(lengths), tags, dtype=torch.double) * spread
    mask = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
    return emissions, mask


def path_scores(
    crf: LinearChainCrf, emissions: Tensor, tags: tuple[str, ...], scheme: TagScheme | None
) -> dict[Path, float]:
    """The score of every legal path of one sentence [words, tags], added up term by term."""
    start, step, end, words = (t.detach().tolist() for t in (crf.start, crf.step, crf.end, emissions))
    found = {}
    for path in product(range(len(tags)), repeat=len(words)):
        if scheme is None or scheme.is_legal([tags[row] for row in path]):
            within = sum(scores[row] for scores, row in zip(words, path, strict=True))
            between = sum(step[left][right] for left, right in pairwise(path))
            found[path] = start[path[0]] + within + between + end[path[-1]]
    return found


def log_sum(scores: list[float]) -> float:
    return float(torch.logsumexp(torch.tensor(scores, dtype=torch.double), 0))


def padded(paths: list[Path]) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(path) for path in paths], batch_first=True)


@pytest.mark.parametrize(("tags", "scheme"), CASES)
@pytest.mark.parametrize("seed", range(3))
class TestBruteForce:
    """Every quantity against the enumeration of all paths."""

    lengths = (4, 1, 3)

    def test_log_likelihood(self, tags: tuple[str, ...], scheme: TagScheme | None, seed: int) -> None:
        crf = make(tags, scheme, seed=seed)
        emissions, mask = sentences(self.lengths, len(tags))
        every = [path_scores(crf, e[:n], tags, scheme) for e, n in zip(emissions, self.lengths, strict=True)]
        paths = [list(scores)[seed % len(scores)] for scores in every]
        expected = [scores[path] - log_sum(list(scores.values())) for scores, path in zip(every, paths, strict=True)]
        found = crf.log_likelihood(emissions, mask, padded(paths))
        assert found.tolist() == pytest.approx(expected, abs=1e-9)

    def test_partial_log_likelihood(self, tags: tuple[str, ...], scheme: TagScheme | None, seed: int) -> None:
        crf = make(tags, scheme, seed=seed)
        emissions, mask = sentences(self.lengths, len(tags))
        allowed = torch.rand(emissions.shape) < 0.5
        allowed[:, :, 0] = True  # outside is always a way through
        expected = []
        for row, length in enumerate(self.lengths):
            scores = path_scores(crf, emissions[row, :length], tags, scheme)
            inside = [s for path, s in scores.items() if all(allowed[row, place, t] for place, t in enumerate(path))]
            expected.append(log_sum(inside) - log_sum(list(scores.values())))
        found = crf.partial_log_likelihood(emissions, mask, allowed)
        assert found.tolist() == pytest.approx(expected, abs=1e-9)

    def test_marginals(self, tags: tuple[str, ...], scheme: TagScheme | None, seed: int) -> None:
        crf = make(tags, scheme, seed=seed)
        emissions, mask = sentences(self.lengths, len(tags))
        found = crf.marginals(emissions, mask)
        for row, length in enumerate(self.lengths):
            torch.testing.assert_close(found[row, :length], brute_marginals(crf, emissions[row, :length], tags, scheme))
        assert not found[~mask].any()

    def test_posterior(self, tags: tuple[str, ...], scheme: TagScheme | None, seed: int) -> None:
        crf = make(tags, scheme, seed=seed)
        emissions, mask = sentences(self.lengths, len(tags))
        allowed = some_allowed(emissions)
        found = crf.posterior(emissions, mask, allowed)
        for row, n in enumerate(self.lengths):
            expected = brute_posterior(crf, emissions[row, :n], allowed[row, :n], tags, scheme)
            torch.testing.assert_close(found.words[row, :n], expected.words)
            torch.testing.assert_close(found.steps[row], expected.steps)
        assert not found.words[~mask].any()

    def test_cross_entropy(self, tags: tuple[str, ...], scheme: TagScheme | None, seed: int) -> None:
        """−Σ q log p, path by path; q is another CRF's and does not care what is allowed here."""
        crf, teacher = make(tags, scheme, seed=seed), make(tags, scheme, seed=seed + 10)
        emissions, mask = sentences(self.lengths, len(tags))
        heard, allowed = torch.randn_like(emissions), some_allowed(emissions)
        q = teacher.posterior(heard, mask, allowed)
        expected = []
        for row, n in enumerate(self.lengths):
            log_q, log_p = (
                normalised(inside(path_scores(made, given[row, :n], tags, scheme), allowed[row, :n]))
                for made, given in ((teacher, heard), (crf, emissions))
            )
            assert log_q.keys() == log_p.keys()
            expected.append(-sum(math.exp(log_q[path]) * log_p[path] for path in log_q))
        found = crf.cross_entropy(emissions, mask, q, allowed)
        assert found.tolist() == pytest.approx(expected, abs=1e-9)

    def test_best(self, tags: tuple[str, ...], scheme: TagScheme | None, seed: int) -> None:
        crf = make(tags, scheme, seed=seed)
        emissions, mask = sentences(self.lengths, len(tags))
        found = crf.best(emissions, mask)
        for row, length in enumerate(self.lengths):
            scores = path_scores(crf, emissions[row, :length], tags, scheme)
            assert tuple(found[row, :length].tolist()) == max(scores, key=lambda path: scores[path])
        assert not found[~mask].any()


def brute_marginals(crf: LinearChainCrf, emissions: Tensor, tags: tuple[str, ...], scheme: TagScheme | None) -> Tensor:
    scores = path_scores(crf, emissions, tags, scheme)
    total = log_sum(list(scores.values()))
    expected = torch.zeros_like(emissions)
    for path, score in scores.items():
        probability = torch.tensor(score - total, dtype=torch.double).exp()
        for place, row in enumerate(path):
            expected[place, row] += probability
    return expected


def some_allowed(emissions: Tensor) -> Tensor:
    """Some tags of every word, the first always: outside is a way through."""
    allowed = torch.rand(emissions.shape) < 0.5
    allowed[:, :, 0] = True
    return allowed


def inside(scores: dict[Path, float], allowed: Tensor) -> dict[Path, float]:
    """Of the paths of one sentence those that keep to the allowed tags [words, tags]."""
    return {path: s for path, s in scores.items() if all(allowed[place, tag] for place, tag in enumerate(path))}


def normalised(scores: dict[Path, float]) -> dict[Path, float]:
    """Log p of each path."""
    total = log_sum(list(scores.values()))
    return {path: score - total for path, score in scores.items()}


def brute_posterior(
    crf: LinearChainCrf, emissions: Tensor, allowed: Tensor, tags: tuple[str, ...], scheme: TagScheme | None
) -> Posterior:
    """How often the allowed paths of one sentence, weighted by their probability, have each tag and each step."""
    words, steps = torch.zeros_like(emissions), torch.zeros_like(crf.step)
    for path, log_p in normalised(inside(path_scores(crf, emissions, tags, scheme), allowed)).items():
        for place, row in enumerate(path):
            words[place, row] += math.exp(log_p)
        for left, right in pairwise(path):
            steps[left, right] += math.exp(log_p)
    return Posterior(words, steps.detach())


def test_two_words_by_hand() -> None:
    """Two tags, all scores zero but one: the likelihood is a fraction of four paths."""
    crf = LinearChainCrf(("a", "b")).double()
    with torch.no_grad():
        for parameter in crf.parameters():
            parameter.zero_()
        crf.step[0, 1] = torch.tensor(3.0).log()  # the path a, b weighs three, the others one each: six in all
    emissions, mask = torch.zeros(1, 2, 2, dtype=torch.double), torch.ones(1, 2, dtype=torch.bool)
    likelihood = crf.log_likelihood(emissions, mask, torch.tensor([[0, 1]])).exp()
    assert likelihood.item() == pytest.approx(3 / 6)
    expected = torch.tensor([[4 / 6, 2 / 6], [2 / 6, 4 / 6]], dtype=torch.double)
    torch.testing.assert_close(crf.marginals(emissions, mask)[0], expected)
    assert crf.best(emissions, mask).tolist() == [[0, 1]]


def test_a_posterior_and_a_cross_entropy_by_hand() -> None:
    """The same CRF with b forbidden at the first word: a, a weighs one and a, b three."""
    crf = LinearChainCrf(("a", "b")).double()
    with torch.no_grad():
        for parameter in crf.parameters():
            parameter.zero_()
        crf.step[0, 1] = torch.tensor(3.0).log()
    emissions, mask = torch.zeros(1, 2, 2, dtype=torch.double), torch.ones(1, 2, dtype=torch.bool)
    allowed = torch.tensor([[[True, False], [True, True]]])
    found = crf.posterior(emissions, mask, allowed)
    torch.testing.assert_close(found.words[0], torch.tensor([[1.0, 0.0], [0.25, 0.75]], dtype=torch.double))
    torch.testing.assert_close(found.steps[0], torch.tensor([[0.25, 0.75], [0.0, 0.0]], dtype=torch.double))
    certain = Posterior(  # a, a for sure: −log 1/4
        torch.tensor([[[1.0, 0.0], [1.0, 0.0]]], dtype=torch.double),
        torch.tensor([[[1.0, 0.0], [0.0, 0.0]]], dtype=torch.double),
    )
    assert crf.cross_entropy(emissions, mask, certain, allowed).item() == pytest.approx(math.log(4))
    # Against itself it is its entropy, −¼ log ¼ − ¾ log ¾.
    entropy = 0.25 * math.log(4) + 0.75 * math.log(4 / 3)
    assert crf.cross_entropy(emissions, mask, found, allowed).item() == pytest.approx(entropy)


def test_legal_transitions_of_bio() -> None:
    start, step, end = legal_transitions(("O", "B-X", "I-X"), BIO)
    assert start.tolist() == [True, True, False]
    assert step.tolist() == [[True, True, False], [True, True, True], [True, True, True]]
    assert end.tolist() == [True, True, True]


def test_scores_of_illegal_transitions_stay_forbidden() -> None:
    crf = make(("O", "B-X", "I-X"), BIO)
    start, step, end = crf.scores()
    assert start[2] == FORBIDDEN
    assert step[0, 2] == FORBIDDEN
    assert torch.equal(end, crf.end)
    assert [name for name, _ in crf.named_parameters()] == ["start", "step", "end"]
    assert set(crf.state_dict()) == {"start", "step", "end"}  # the tables follow from the tags


@pytest.mark.parametrize("seed", range(5))
def test_pytorch_crf_agrees(seed: int) -> None:
    """Loss, every gradient and the best path, in the float32 that models train in."""
    torch.manual_seed(seed)
    tags = tuple("abcdefg")
    ours, theirs = LinearChainCrf(tags), CRF(len(tags), batch_first=True)
    copies = (theirs.start_transitions, theirs.transitions, theirs.end_transitions)
    with torch.no_grad():
        for parameter, copy in zip((ours.start, ours.step, ours.end), copies, strict=True):
            copy.copy_(parameter.normal_())
    lengths = (12, 5, 1, 9)
    mine = torch.randn(len(lengths), 12, len(tags), requires_grad=True)
    other = mine.detach().clone().requires_grad_()
    mask = torch.arange(12)[None] < torch.tensor(lengths)[:, None]
    gold = torch.randint(len(tags), (len(lengths), 12))

    losses = -ours.log_likelihood(mine, mask, gold).sum(), -theirs(other, gold, mask, reduction="sum")
    for loss in losses:
        loss.backward()
    torch.testing.assert_close(*losses, atol=1e-4, rtol=0)
    torch.testing.assert_close(mine.grad, other.grad, atol=1e-4, rtol=0)
    for parameter, copy in zip((ours.start, ours.step, ours.end), copies, strict=True):
        torch.testing.assert_close(parameter.grad, copy.grad, atol=1e-4, rtol=0)
    best = ours.best(mine.detach(), mask)
    assert [row[:n].tolist() for row, n in zip(best, lengths, strict=True)] == theirs.decode(mine.detach(), mask)


@pytest.mark.parametrize(("tags", "scheme"), CASES)
@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("spread", [1.0, 200.0], ids=["scaled", "log-space"])
def test_gradients_are_finite_differences(
    tags: tuple[str, ...], scheme: TagScheme | None, partial: bool, spread: float
) -> None:
    crf = make(tags, scheme, seed=3, spread=1.0)
    emissions, mask = sentences((3, 1, 2), len(tags), spread=spread)
    target = torch.zeros(mask.shape, dtype=torch.long)
    if partial:
        target = torch.rand(emissions.shape) < 0.6
        target[:, :, 0] = True
    method = crf.partial_log_likelihood if partial else crf.log_likelihood
    # gradcheck moves each of its inputs in place, so the CRF feels a step in its parameters.
    inputs = (emissions.requires_grad_(), *crf.parameters())
    assert torch.autograd.gradcheck(lambda given, *_: method(given, mask, target), inputs, atol=1e-5)


@pytest.mark.parametrize(("tags", "scheme"), CASES)
@pytest.mark.parametrize("spread", [1.0, 200.0], ids=["scaled", "log-space"])
def test_gradients_of_the_cross_entropy_are_finite_differences(
    tags: tuple[str, ...], scheme: TagScheme | None, spread: float
) -> None:
    crf, teacher = make(tags, scheme, seed=3, spread=1.0), make(tags, scheme, seed=4, spread=1.0)
    emissions, mask = sentences((3, 1, 2), len(tags), spread=spread)
    allowed = some_allowed(emissions)
    q = teacher.posterior(torch.randn_like(emissions), mask, allowed)
    inputs = (emissions.requires_grad_(), *crf.parameters())
    assert torch.autograd.gradcheck(lambda given, *_: crf.cross_entropy(given, mask, q, allowed), inputs, atol=1e-5)


@pytest.mark.parametrize(("tags", "scheme"), CASES)
@pytest.mark.parametrize("spread", [2.0, 200.0], ids=["scaled", "log-space"])
def test_the_gradient_is_zero_if_the_model_equals_the_teacher(
    tags: tuple[str, ...], scheme: TagScheme | None, spread: float
) -> None:
    crf = make(tags, scheme)
    emissions, mask = sentences((4, 1, 3), len(tags), spread=spread)
    allowed = some_allowed(emissions)
    q = crf.posterior(emissions, mask, allowed)
    found = crf.cross_entropy(emissions.requires_grad_(), mask, q, allowed)
    for gradient in torch.autograd.grad(found.sum(), (emissions, *crf.parameters())):
        torch.testing.assert_close(gradient, torch.zeros_like(gradient), atol=1e-9, rtol=0)
    moved = torch.autograd.grad(crf.cross_entropy(emissions, mask, q, torch.ones_like(allowed)).sum(), emissions)[0]
    assert moved.abs().max() > 0.01  # where the student may also say what the teacher may not


def test_the_gradient_can_be_differentiated_again() -> None:
    """A gradient inverted for a leakage test needs it."""
    crf = make(BIO.tags(("X",)), BIO, spread=1.0)
    emissions, mask = sentences((3, 2), 3, spread=1.0)
    gold = torch.zeros(mask.shape, dtype=torch.long)
    inputs = (emissions.requires_grad_(), *crf.parameters())
    assert torch.autograd.gradgradcheck(lambda given, *_: crf.log_likelihood(given, mask, gold), inputs, atol=1e-4)
    once, again = (
        torch.autograd.grad(crf.log_likelihood(emissions, mask, gold).sum(), inputs, create_graph=graph)
        for graph in (False, True)
    )
    torch.testing.assert_close(once, again)


def test_the_result_has_the_dtype_of_the_emissions() -> None:
    crf = LinearChainCrf(FREE)
    emissions, mask = sentences((3, 2), 3)
    tags = torch.zeros(2, 3, dtype=torch.long)
    for kind in (torch.float32, torch.float64):
        assert crf.log_likelihood(emissions.to(kind), mask, tags).dtype == kind
        assert crf.marginals(emissions.to(kind), mask).dtype == kind
        q = crf.posterior(emissions.to(kind), mask, torch.ones(2, 3, 3, dtype=torch.bool))
        assert {q.words.dtype, q.steps.dtype} == {kind}
        assert crf.cross_entropy(emissions.to(kind), mask, q, torch.ones(2, 3, 3, dtype=torch.bool)).dtype == kind


@pytest.mark.parametrize(("tags", "scheme"), CASES)
def test_a_sentence_gives_the_same_numbers_in_any_batch(tags: tuple[str, ...], scheme: TagScheme | None) -> None:
    crf = make(tags, scheme)
    lengths = (5, 2, 1)
    emissions, mask = sentences(lengths, len(tags))
    emissions[~mask] = 1e3  # what stands in the padding must not matter
    gold = torch.zeros(mask.shape, dtype=torch.long)
    allowed = torch.ones_like(emissions, dtype=torch.bool)
    allowed[:, :, -1] = False
    q = crf.posterior(emissions, mask, allowed)
    together = (
        crf.log_likelihood(emissions, mask, gold),
        crf.partial_log_likelihood(emissions, mask, allowed),
        crf.cross_entropy(emissions, mask, q, allowed),
        crf.marginals(emissions, mask),
        crf.best(emissions, mask),
        q.words,
    )
    for row, n in enumerate(lengths):
        one, words = emissions[row : row + 1, :n], mask[row : row + 1, :n]
        own = allowed[row : row + 1, :n]
        expected = crf.posterior(one, words, own)
        alone = (
            crf.log_likelihood(one, words, gold[row : row + 1, :n]),
            crf.partial_log_likelihood(one, words, own),
            crf.cross_entropy(one, words, expected, own),
            crf.marginals(one, words),
            crf.best(one, words),
            expected.words,
        )
        torch.testing.assert_close(q.steps[row], expected.steps[0])
        for many, single in zip(together, alone, strict=True):
            torch.testing.assert_close(many[row : row + 1, :n] if many.dim() > 1 else many[row : row + 1], single)


@pytest.mark.parametrize(("tags", "scheme"), CASES)
@pytest.mark.parametrize("seed", range(3))
def test_scores_too_far_apart_for_float64_use_log_space(
    tags: tuple[str, ...], scheme: TagScheme | None, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_log_space = Mock(wraps=crf_module._log_partition_in_log_space)
    monkeypatch.setattr(crf_module, "_log_partition_in_log_space", in_log_space)
    crf = make(tags, scheme, seed=seed)
    emissions = torch.where(torch.rand(1, 4, len(tags)) < 0.5, 5000.0, -5000.0).double().requires_grad_()
    mask = torch.ones(1, 4, dtype=torch.bool)
    scores = path_scores(crf, emissions.detach()[0], tags, scheme)
    path = next(iter(scores))
    found = crf.log_likelihood(emissions, mask, torch.tensor([path]))
    in_log_space.assert_called_once()
    assert found.item() == pytest.approx(scores[path] - log_sum(list(scores.values())), abs=1e-6)
    (gradient,) = torch.autograd.grad(found.sum(), emissions)
    assert torch.isfinite(gradient).all()
    expected = brute_marginals(crf, emissions.detach()[0], tags, scheme)
    torch.testing.assert_close(crf.marginals(emissions.detach(), mask)[0], expected, atol=1e-6, rtol=0)
    assert tuple(crf.best(emissions.detach(), mask)[0].tolist()) == max(scores, key=lambda p: scores[p])


@pytest.mark.parametrize(("tags", "scheme"), CASES)
@pytest.mark.parametrize("seed", range(3))
def test_posteriors_and_cross_entropies_too_far_apart_use_log_space(
    tags: tuple[str, ...], scheme: TagScheme | None, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_log_space = Mock(wraps=crf_module._posterior_in_log_space)
    monkeypatch.setattr(crf_module, "_posterior_in_log_space", in_log_space)
    crf = make(tags, scheme, seed=seed)
    emissions = torch.where(torch.rand(2, 4, len(tags)) < 0.5, 5000.0, -5000.0).double()
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    allowed = some_allowed(emissions)
    found = crf.posterior(emissions, mask, allowed)
    in_log_space.assert_called_once()
    entropy = crf.cross_entropy(emissions, mask, found, allowed)
    for row, n in enumerate((4, 2)):
        expected = brute_posterior(crf, emissions[row, :n], allowed[row, :n], tags, scheme)
        torch.testing.assert_close(found.words[row, :n], expected.words, atol=1e-6, rtol=0)
        torch.testing.assert_close(found.steps[row], expected.steps, atol=1e-6, rtol=0)
        log_p = normalised(inside(path_scores(crf, emissions[row, :n], tags, scheme), allowed[row, :n]))
        assert entropy[row].item() == pytest.approx(-sum(math.exp(p) * p for p in log_p.values()), abs=1e-6)
    assert not found.words[~mask].any()


def test_rescaling_never_loses_the_best_path() -> None:
    """Both tags on the way are exp(-900) at one word or the other; rescaled messages alone would keep the wrong one."""
    crf = make(("a", "b"), None)
    with torch.no_grad():
        for parameter in crf.parameters():
            parameter.zero_()
        crf.step.copy_(torch.tensor([[0.0, -600.0], [-600.0, 0.0]]))
    emissions = torch.tensor([[[0.0, -900.0], [-1000.0, 0.0]]], dtype=torch.double)
    mask = torch.ones(1, 2, dtype=torch.bool)
    # a,b: -600; b,b: -900; a,a: -1000; b,a: far below.
    assert crf.log_likelihood(emissions, mask, torch.tensor([[0, 1]])).item() == pytest.approx(0.0, abs=1e-9)
    assert crf.log_likelihood(emissions, mask, torch.tensor([[1, 1]])).item() == pytest.approx(-300.0)


def test_marginals_are_found_in_inference_mode_too() -> None:
    crf = make(("O", "B-X", "I-X"), BIO)
    mask = torch.ones(1, 2, dtype=torch.bool)
    with torch.inference_mode():
        emissions = torch.tensor([[[0.0, -3000.0, -3000.0], [-3000.0, -3000.0, 0.0]]])
        found = crf.marginals(emissions, mask)
        allowed = torch.ones_like(emissions, dtype=torch.bool)
        posteriors = [crf.posterior(scores, mask, allowed) for scores in (emissions, emissions / 3000)]
    torch.testing.assert_close(found.sum(2), torch.ones(1, 2))
    for posterior in posteriors:
        torch.testing.assert_close(posterior.words.sum(2), torch.ones(1, 2))
        torch.testing.assert_close(posterior.steps.sum((1, 2)), torch.ones(1))


def test_allowed_tags_that_leave_no_legal_path_are_very_unlikely_and_finite() -> None:
    crf = make(("O", "B-X", "I-X"), BIO)
    emissions, mask = sentences((2,), 3)
    emissions.requires_grad_()
    allowed = torch.tensor([[[True, False, False], [False, False, True]]])  # O, then I
    found = crf.partial_log_likelihood(emissions, mask, allowed)
    assert FORBIDDEN * 1.1 < found.item() < FORBIDDEN * 0.9
    (gradient,) = torch.autograd.grad(found.sum(), emissions)
    assert torch.isfinite(gradient).all()
    expected = crf.posterior(emissions.detach(), mask, allowed)
    torch.testing.assert_close(expected.words.sum(2), torch.ones(1, 2, dtype=torch.double))
    assert torch.isfinite(crf.cross_entropy(emissions, mask, expected, allowed)).all()


@pytest.mark.parametrize("scheme", [BIO, BIOES, IOB1], ids=lambda scheme: scheme.name)
@pytest.mark.parametrize("spread", [3.0, 1e8])
def test_an_illegal_path_is_never_decoded(scheme: TagScheme, spread: float) -> None:
    tags = scheme.tags(("X", "Y"))
    crf = make(tags, scheme)
    emissions, mask = sentences((9,) * 200, len(tags), spread=spread)
    for row in crf.best(emissions.float(), mask).tolist():
        assert scheme.is_legal([tags[tag] for tag in row])


def test_marginals_of_single_words_whose_scores_are_far_apart() -> None:
    crf = LinearChainCrf(("O", "B-Drug", "I-Drug"), BIO)
    emissions = torch.tensor([[[0.0, 400.0, 0.0]]])  # too far apart for messages in probability space
    found = crf.marginals(emissions, torch.ones(1, 1, dtype=torch.bool))
    assert found.tolist() == [[[0.0, 1.0, 0.0]]]
