from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from wardround.models.decoders import IndependentWords, LinearChainCrf, mention_probabilities
from wardround.serving.onnx_decoding import Transitions, decode, marginals
from wardround.text.tag_schemes import SCHEMES

TYPES = ("Drug", "ADE")


@given(
    scheme=st.sampled_from(sorted(SCHEMES)),
    with_crf=st.booleans(),
    seed=st.integers(0, 10_000),
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=4),
    scale=st.sampled_from([1.0, 6.0, 60.0]),  # with the last, messages are kept as logarithms
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_tags_and_probabilities_are_those_of_pytorch(
    scheme: str, with_crf: bool, seed: int, lengths: list[int], scale: float
) -> None:
    torch.manual_seed(seed)
    tags = SCHEMES[scheme].tags(TYPES)
    decoder = LinearChainCrf(tags, SCHEMES[scheme]) if with_crf else IndependentWords(tags, SCHEMES[scheme])
    for parameter in decoder.parameters():
        torch.nn.init.normal_(parameter)
    emissions = scale * torch.randn(len(lengths), max(lengths), len(tags))
    mask = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
    best = decoder.best(emissions, mask)
    right = mention_probabilities(decoder, emissions, mask, best=best, tags=tags, scheme=SCHEMES[scheme])
    if isinstance(decoder, LinearChainCrf):
        tables = [getattr(decoder, name).detach().numpy() for name in ("start", "step", "end")]
        transitions = Transitions(*tables).limited(tags, SCHEMES[scheme])
    else:
        transitions = Transitions.legal(tags, SCHEMES[scheme])
    options = {"tags": tags, "scheme": SCHEMES[scheme]}
    found = decode(emissions.numpy(), mask.numpy(), transitions, **options, scored=True)
    assert [one.tags for one in found] == [
        [tags[row] for row in rows[:length]] for rows, length in zip(best.tolist(), lengths, strict=True)
    ]
    for one, probabilities in zip(found, right, strict=True):
        assert one.probabilities == pytest.approx(probabilities, abs=1e-6 * scale + 1e-5)  # PyTorch's are float32
    ours, theirs = marginals(emissions.numpy(), mask.numpy(), transitions), decoder.marginals(emissions, mask)
    assert ours == pytest.approx(theirs.detach().numpy(), abs=1e-6 * scale + 1e-5)
    unscored = decode(emissions.numpy(), mask.numpy(), transitions, **options, scored=False)
    assert [one.tags for one in unscored] == [one.tags for one in found]
    assert all(one.probabilities is None for one in unscored)


def test_a_probability_worked_out_by_hand() -> None:
    """Two words of one type, all scores 0: of O, B and I, the legal paths are OO, OB, BO, BB and BI."""
    tags = SCHEMES["BIO"].tags(("Drug",))
    zeros = [np.zeros(shape, dtype=np.float32) for shape in (3, (3, 3), 3)]
    transitions = Transitions(*zeros).limited(tags, SCHEMES["BIO"])
    emissions = np.zeros((1, 2, 3), dtype=np.float32)
    emissions[0, 0, 1] = np.log(2)  # B at the first word counts twice: 1 + 1 + 2 + 2 + 2 = 8
    emissions[0, 1, 0] = np.log(3)  # and O at the second three times: 3 + 1 + 6 + 2 + 2 = 14
    mask = np.ones((1, 2), dtype=np.bool_)
    (found,) = decode(emissions, mask, transitions, tags=tags, scheme=SCHEMES["BIO"], scored=True)
    assert found.tags == ["B-Drug", "O"]
    assert found.probabilities == pytest.approx([(6 + 2) / 14])  # alone, or beside a mention of its own
