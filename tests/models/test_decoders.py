from __future__ import annotations

import math
from itertools import product

import pytest
import torch

from wardround.models.crf import Posterior
from wardround.models.decoders import Decoder, IndependentWords, LinearChainCrf, mention_probabilities
from wardround.text.tag_schemes import BIO, BIOES, IOB1, TagScheme

LENGTHS = (4, 1, 3)
MASK = torch.arange(4)[None] < torch.tensor(LENGTHS)[:, None]
SCHEMES = pytest.mark.parametrize("scheme", [BIO, BIOES, IOB1], ids=lambda scheme: scheme.name)


def decoder(scheme: TagScheme = BIO) -> tuple[IndependentWords, tuple[str, ...], torch.Tensor]:
    torch.manual_seed(0)
    tags = scheme.tags(("X",))
    return IndependentWords(tags, scheme), tags, torch.randn(3, 4, len(tags)) * 3


def test_a_likelihood_by_hand() -> None:
    # Two words of three tags: weights 1:1:2 and 3:1:0 (nearly).
    words = IndependentWords(BIO.tags(("X",)), BIO)
    emissions = torch.tensor([[[1.0, 1.0, 2.0], [3.0, 1.0, 1e-9]]]).log()
    mask = torch.ones(1, 2, dtype=torch.bool)
    assert words.log_likelihood(emissions, mask, torch.tensor([[2, 0]])).exp().item() == pytest.approx(2 / 4 * 3 / 4)
    allowed = torch.tensor([[[True, True, False], [True, True, True]]])
    assert words.partial_log_likelihood(emissions, mask, allowed).exp().item() == pytest.approx(2 / 4)
    expected = torch.tensor([[[0.25, 0.25, 0.5], [0.75, 0.25, 0.0]]])
    torch.testing.assert_close(words.marginals(emissions, mask), expected)
    # I may not begin a sentence, so the best first tag is one of the lesser two.
    assert words.best(emissions, mask).tolist()[0][0] != 2


def test_a_posterior_and_a_cross_entropy_by_hand() -> None:
    # The same two words, the third tag forbidden at the first: 1:1, and 3:1.
    words = IndependentWords(BIO.tags(("X",)), BIO)
    emissions = torch.tensor([[[1.0, 1.0, 2.0], [3.0, 1.0, 1e-9]]]).log()
    mask = torch.ones(1, 2, dtype=torch.bool)
    allowed = torch.tensor([[[True, True, False], [True, True, True]]])
    found = words.posterior(emissions, mask, allowed)
    torch.testing.assert_close(found.words, torch.tensor([[[0.5, 0.5, 0.0], [0.75, 0.25, 0.0]]]))
    assert found.steps.shape == (1, 0, 0)
    certain = Posterior(torch.tensor([[[0.0, 1.0, 0.0], [0.0, 1.0, 0.0]]]), found.steps)
    # −log 1/2 − log 1/4
    assert words.cross_entropy(emissions, mask, certain, allowed).item() == pytest.approx(math.log(8))
    entropy = math.log(2) + 0.75 * math.log(4 / 3) + 0.25 * math.log(4)
    assert words.cross_entropy(emissions, mask, found, allowed).item() == pytest.approx(entropy)


@pytest.mark.parametrize("seed", range(3))
@SCHEMES
def test_every_path_by_enumeration(scheme: TagScheme, seed: int) -> None:
    """Three words, two types: to words on their own every path is possible, legal or not."""
    torch.manual_seed(seed)
    tags = scheme.tags(("X", "Y"))
    words, mask = IndependentWords(tags, scheme), torch.ones(1, 3, dtype=torch.bool)
    emissions, heard = torch.randn(2, 1, 3, len(tags), dtype=torch.double).unbind()
    allowed = torch.rand(1, 3, len(tags)) < 0.5
    allowed[:, :, 0] = True
    paths = [path for path in product(range(len(tags)), repeat=3) if all(allowed[0, range(3), path])]
    p, q = (torch.stack([e.softmax(2)[0, range(3), path].prod() for path in paths]) for e in (emissions, heard))
    found = words.partial_log_likelihood(emissions, mask, allowed)
    assert found.item() == pytest.approx(p.sum().log().item(), abs=1e-12)
    teacher = words.posterior(heard, mask, allowed)
    expected = torch.zeros(3, len(tags), dtype=torch.double)
    for path, weight in zip(paths, q / q.sum(), strict=True):
        expected[range(3), path] += weight
    torch.testing.assert_close(teacher.words[0], expected)
    entropy = -(q / q.sum() * (p / p.sum()).log()).sum().item()
    assert words.cross_entropy(emissions, mask, teacher, allowed).item() == pytest.approx(entropy, abs=1e-12)


def test_the_gradient_is_zero_if_the_model_equals_the_teacher() -> None:
    words, _, emissions = decoder()
    allowed = torch.rand(emissions.shape) < 0.5
    allowed[:, :, 0] = True
    free = emissions.double().requires_grad_()
    teacher = words.posterior(free, MASK, allowed)
    assert not teacher.words.requires_grad
    (gradient,) = torch.autograd.grad(words.cross_entropy(free, MASK, teacher, allowed).sum(), free)
    torch.testing.assert_close(gradient, torch.zeros_like(gradient), atol=1e-12, rtol=0)


def test_padding_does_not_count() -> None:
    words, _, emissions = decoder()
    gold, allowed = torch.zeros(3, 4, dtype=torch.long), torch.rand(emissions.shape) < 0.5
    allowed[:, :, 0] = True
    allowed[~MASK] = False
    teacher = words.posterior(torch.randn_like(emissions), MASK, allowed)
    assert not teacher.words[~MASK].any()
    for row, n in enumerate(LENGTHS):
        one, mask = emissions[row : row + 1, :n], MASK[row : row + 1, :n]
        pairs = (
            (words.log_likelihood(emissions, MASK, gold), words.log_likelihood(one, mask, gold[:1, :n])),
            (
                words.partial_log_likelihood(emissions, MASK, allowed),
                words.partial_log_likelihood(one, mask, allowed[row : row + 1, :n]),
            ),
            (
                words.cross_entropy(emissions, MASK, teacher, allowed),
                words.cross_entropy(
                    one, mask, Posterior(teacher.words[row : row + 1, :n], teacher.steps), allowed[row : row + 1, :n]
                ),
            ),
        )
        for many, single in pairs:
            torch.testing.assert_close(many[row], single[0])
        torch.testing.assert_close(words.marginals(emissions, MASK)[row, :n], words.marginals(one, mask)[0])
        assert torch.equal(words.best(emissions, MASK)[row, :n], words.best(one, mask)[0])
    assert not words.marginals(emissions, MASK)[~MASK].any()
    assert not words.best(emissions, MASK)[~MASK].any()


@SCHEMES
def test_the_best_path_is_the_best_legal_one(scheme: TagScheme) -> None:
    words, tags, emissions = decoder(scheme)
    best = words.best(emissions, MASK)
    for row, length in enumerate(LENGTHS):
        legal = [p for p in product(range(len(tags)), repeat=length) if scheme.is_legal([tags[t] for t in p])]
        scores = {path: sum(emissions[row, place, tag].item() for place, tag in enumerate(path)) for path in legal}
        assert tuple(best[row, :length].tolist()) == max(scores, key=lambda path: scores[path])


@SCHEMES
def test_illegal_paths_are_never_decoded_whatever_their_scores(scheme: TagScheme) -> None:
    words, tags, _ = decoder(scheme)
    emissions = torch.randn(200, 4, len(tags)) * 1e6
    for row in words.best(emissions, torch.ones(200, 4, dtype=torch.bool)).tolist():
        assert scheme.is_legal([tags[tag] for tag in row])


def test_gradients_are_finite_differences() -> None:
    words, _, emissions = decoder()
    free = emissions.double().requires_grad_()
    gold, allowed = torch.zeros(3, 4, dtype=torch.long), torch.rand(emissions.shape) < 0.5
    allowed[:, :, 0] = True
    assert torch.autograd.gradcheck(lambda e: words.log_likelihood(e, MASK, gold), free)
    assert torch.autograd.gradcheck(lambda e: words.partial_log_likelihood(e, MASK, allowed), free)
    teacher = words.posterior(torch.randn_like(free), MASK, allowed)
    assert torch.autograd.gradcheck(lambda e: words.cross_entropy(e, MASK, teacher, allowed), free)


def test_it_has_no_parameters_and_no_state() -> None:
    words, _, _ = decoder()
    assert not list(words.parameters())
    assert not words.state_dict()


@pytest.mark.parametrize("made", [IndependentWords(("O",), BIO), LinearChainCrf(("O",), BIO)])
def test_a_site_without_types_is_always_outside(made: Decoder) -> None:
    emissions, mask = torch.randn(2, 3, 1), torch.ones(2, 3, dtype=torch.bool)
    assert made.best(emissions, mask).tolist() == [[0, 0, 0]] * 2
    found = made.log_likelihood(emissions, mask, torch.zeros(2, 3, dtype=torch.long))
    torch.testing.assert_close(found, torch.zeros(2), atol=1e-6, rtol=0)


# Probabilities of mentions.


def test_probabilities_of_mentions_by_hand() -> None:
    # Weights of O, B, I: 1:2:1, 1:1:2 and 6:1:1. The best tags are B I O.
    tags = BIO.tags(("X",))
    words, mask = IndependentWords(tags, BIO), torch.ones(1, 3, dtype=torch.bool)
    emissions = torch.tensor([[[1.0, 2.0, 1.0], [1.0, 1.0, 2.0], [6.0, 1.0, 1.0]]]).log()
    best = words.best(emissions, mask)
    assert best.tolist() == [[1, 2, 0]]
    # B is 1/2, I is 1/2, and the third word is O or B: 7/8.
    found = mention_probabilities(words, emissions, mask, best=best, tags=tags, scheme=BIO)
    assert found == [[pytest.approx(1 / 2 * 1 / 2 * 7 / 8)]]


def test_a_mention_at_the_end_has_no_next_tag_and_a_sentence_without_mentions_no_probability() -> None:
    tags = BIO.tags(("X",))
    words = IndependentWords(tags, BIO)
    emissions = torch.tensor([[[1.0, 3.0, 1e-9], [1.0, 1.0, 1.0]], [[3.0, 1.0, 1e-9], [3.0, 1.0, 1e-9]]]).log()
    mask = torch.tensor([[True, False], [True, True]])  # the second word of the first sentence is padding
    best = words.best(emissions, mask)
    found = mention_probabilities(words, emissions, mask, best=best, tags=tags, scheme=BIO)
    assert found == [[pytest.approx(3 / 4)], []]


def brute_force(
    weights: dict[tuple[int, ...], float], tags: tuple[str, ...], scheme: TagScheme, path: list[int]
) -> list[float]:
    """The share of paths that have each mention of `path`: its tags, and neighbours that are no part of it."""
    found = []
    for start, end, _ in scheme.spans([tags[row] for row in path]):
        share = 0.0
        for other, weight in weights.items():
            names = [tags[row] for row in other]
            opens = start == 0 or not scheme.continues(names[start - 1], names[start])
            closes = end == len(names) or not scheme.continues(names[end - 1], names[end])
            share += weight * (list(other[start:end]) == path[start:end] and opens and closes)
        found.append(share / sum(weights.values()))
    return found


@pytest.mark.parametrize("seed", range(4))
@SCHEMES
def test_probabilities_of_mentions_by_enumeration_for_independent_words(scheme: TagScheme, seed: int) -> None:
    """To words on their own every path is possible, legal or not."""
    torch.manual_seed(seed)
    tags = scheme.tags(("X", "Y"))
    words, mask = IndependentWords(tags, scheme), torch.ones(1, 4, dtype=torch.bool)
    emissions = torch.randn(1, 4, len(tags), dtype=torch.double) * 2
    likely = emissions.softmax(2)[0]
    weights = {path: likely[range(4), path].prod().item() for path in product(range(len(tags)), repeat=4)}
    best = words.best(emissions, mask)
    found = mention_probabilities(words, emissions, mask, best=best, tags=tags, scheme=scheme)
    assert found[0] == pytest.approx(brute_force(weights, tags, scheme, best[0].tolist()))


@pytest.mark.parametrize("seed", range(4))
@SCHEMES
def test_probabilities_of_mentions_by_enumeration_for_a_crf(scheme: TagScheme, seed: int) -> None:
    torch.manual_seed(seed)
    tags = scheme.tags(("X", "Y"))
    crf = LinearChainCrf(tags, scheme).double()
    with torch.no_grad():
        for parameter in crf.parameters():
            parameter.normal_()
    emissions, mask = torch.randn(1, 4, len(tags), dtype=torch.double), torch.ones(1, 4, dtype=torch.bool)
    legal = [path for path in product(range(len(tags)), repeat=4) if scheme.is_legal([tags[row] for row in path])]
    every = torch.tensor(legal)
    several = (emissions.expand(len(legal), 4, -1), mask.expand(len(legal), 4))
    weights = dict(zip(legal, crf.log_likelihood(*several, every).exp().tolist(), strict=True))
    assert sum(weights.values()) == pytest.approx(1)
    best = crf.best(emissions, mask)
    found = mention_probabilities(crf, emissions, mask, best=best, tags=tags, scheme=scheme)[0]
    assert found == pytest.approx(brute_force(weights, tags, scheme, best[0].tolist()))
    if scheme is not IOB1:  # there, each mention has one way to be written
        mentions = scheme.spans([tags[row] for row in best[0].tolist()])
        assert found == pytest.approx(
            [
                sum(w for path, w in weights.items() if mention in scheme.spans([tags[r] for r in path]))
                for mention in mentions
            ]
        )


def test_many_mentions_are_scored_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    words, tags, emissions = decoder()
    best = words.best(emissions, MASK)
    whole = mention_probabilities(words, emissions, MASK, best=best, tags=tags, scheme=BIO)
    monkeypatch.setattr("wardround.models.decoders._MENTIONS_AT_ONCE", 1)
    assert mention_probabilities(words, emissions, MASK, best=best, tags=tags, scheme=BIO) == whole
    assert [len(found) for found in whole] == [
        len(BIO.spans([tags[row] for row in path[:length]]))
        for path, length in zip(best.tolist(), LENGTHS, strict=True)
    ]
