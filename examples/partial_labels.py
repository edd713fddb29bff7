"""The likelihood of partial labels: a word whose tag is only known to be one of several."""

from __future__ import annotations

import torch

from wardround.models.crf import LinearChainCrf
from wardround.text.tag_schemes import BIO

torch.manual_seed(0)
tags = BIO.tags(["Drug", "Disease"])  # O, B-Drug, I-Drug, B-Disease, I-Disease
crf = LinearChainCrf(tags, BIO)
emissions = torch.randn(1, 3, len(tags))  # one sentence of three words
mask = torch.ones(1, 3, dtype=torch.bool)

# This site annotates only drugs: a word outside a drug can have any tag except those of drugs.
anything_but_drug = [not tag.endswith("Drug") for tag in tags]
allowed = torch.tensor([[[tag == "B-Drug" for tag in tags], anything_but_drug, anything_but_drug]])

known = crf.partial_log_likelihood(emissions, mask, allowed)
anything = crf.partial_log_likelihood(emissions, mask, torch.ones_like(allowed))
print(f"log p(known labels) = {known.item():.4f}")
print(f"log p(any labels)   = {anything.item():.4f}")
