"""The generated notes never change: results measured on them stay comparable between versions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence

import pytest

from wardround.corpora.synthetic import (
    ClinicalConfig,
    PhiConfig,
    SyntheticSite,
    clinical_hospitals,
    many_hospitals,
    phi_hospitals,
)

UNUSUAL = {"trained_share": 0.4, "site_share": 0.6, "withheld_rate": 0.9, "phrasing_share": 0.2}


def digest(sites: Sequence[SyntheticSite]) -> str:
    """Return a digest over every text, annotation, sentence and attribute of the sites."""
    found = hashlib.sha256()
    for site in sites:
        found.update(json.dumps([site.name, site.style, site.types]).encode())
        parts = (site.train, site.dev, site.test, site.complete.train, site.complete.dev, site.complete.test)
        for document in (document for part in parts for document in part):
            entities = [(e.id, e.type, e.ranges, e.concepts, e.attributes, e.note) for e in document.entities]
            relations = [(r.id, r.type, r.head, r.tail, r.level.value, r.attributes) for r in document.relations]
            rest = [document.words, document.sentences, document.attributes]
            found.update(json.dumps([document.id, document.text, entities, relations, rest]).encode())
    return found.hexdigest()[:16]


@pytest.mark.parametrize(
    ("sites", "expected"),
    [
        pytest.param(
            lambda: clinical_hospitals(1, config=ClinicalConfig(scale=0.3)), "0a2a557ab3b79439", id="clinical"
        ),
        pytest.param(
            lambda: clinical_hospitals(3, config=ClinicalConfig(scale=0.2, lookalike_rate=0.9, slips=4.0, **UNUSUAL)),
            "a46bec5879cb1179",
            id="clinical, unusual settings",
        ),
        pytest.param(lambda: many_hospitals(24, seed=5), "214b27bcd9115f81", id="many hospitals"),
        pytest.param(lambda: phi_hospitals(1, config=PhiConfig(scale=0.2)), "0d1fd251b45d5e5e", id="phi"),
        pytest.param(
            lambda: phi_hospitals(3, config=PhiConfig(scale=0.2, **UNUSUAL)),
            "c754fbe28b10d36b",
            id="phi, unusual settings",
        ),
    ],
)
def test_generated_notes_have_a_fixed_digest(sites: Callable[[], Sequence[SyntheticSite]], expected: str) -> None:
    assert digest(sites()) == expected
