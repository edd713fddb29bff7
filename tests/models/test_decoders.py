from __future__ import annotations

from itertools import product

import pytest
import torch

from wardround.models.decoders import Decoder, IndependentWords, LinearChainCrf
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


def test_padding_counts_for_nothing() -> None:
    words, _, emissions = decoder()
    gold, allowed = torch.zeros(3, 4, dtype=torch.long), torch.rand(emissions.shape) < 0.5
    allowed[:, :, 0] = True
    allowed[~MASK] = False
    for row, n in enumerate(LENGTHS):
        one, mask = emissions[row : row + 1, :n], MASK[row : row + 1, :n]
        pairs = (
            (words.log_likelihood(emissions, MASK, gold), words.log_likelihood(one, mask, gold[:1, :n])),
            (
                words.partial_log_likelihood(emissions, MASK, allowed),
                words.partial_log_likelihood(one, mask, allowed[row : row + 1, :n]),
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
def test_no_score_is_high_enough_for_an_illegal_path(scheme: TagScheme) -> None:
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


def test_there_is_nothing_to_learn_and_nothing_to_save() -> None:
    words, _, _ = decoder()
    assert not list(words.parameters())
    assert not words.state_dict()


@pytest.mark.parametrize("made", [IndependentWords(("O",), BIO), LinearChainCrf(("O",), BIO)])
def test_a_site_without_types_is_always_outside(made: Decoder) -> None:
    emissions, mask = torch.randn(2, 3, 1), torch.ones(2, 3, dtype=torch.bool)
    assert made.best(emissions, mask).tolist() == [[0, 0, 0]] * 2
    found = made.log_likelihood(emissions, mask, torch.zeros(2, 3, dtype=torch.long))
    torch.testing.assert_close(found, torch.zeros(2), atol=1e-6, rtol=0)
