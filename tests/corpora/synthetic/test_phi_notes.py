from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable

import pytest

from wardround.corpora.synthetic import PHI_TYPES, PhiConfig, SyntheticSite, phi_hospitals
from wardround.errors import UsageError
from wardround.text.document import Document

GOLDEN = "a413489e764ef8f4beda36fca639cb12ee5fe4c9f395578cef93cb46e58b77f5"


@pytest.fixture(scope="module")
def pair() -> tuple[SyntheticSite, SyntheticSite]:
    return phi_hospitals(0)


def everything(site: SyntheticSite) -> tuple[Document, ...]:
    return site.train + site.dev + site.test


def mentions(documents: Iterable[Document], kind: str) -> list[str]:
    return [e.text_in(d.text) for d in documents for e in d.entities if e.type == kind]


def test_notes_of_seed_zero_have_a_fixed_digest(pair: tuple[SyntheticSite, SyntheticSite]) -> None:
    notes = [
        (d.id, d.text, [(e.type, e.start, e.end) for e in d.entities], d.sentences)
        for site in pair
        for d in everything(site)
    ]
    assert hashlib.sha256(json.dumps(notes).encode()).hexdigest() == GOLDEN


def test_a_large_source_and_a_small_target(pair: tuple[SyntheticSite, SyntheticSite]) -> None:
    source, target = pair
    assert [len(part) for part in (source.train, source.dev, source.test)] == [600, 60, 140]
    assert [len(part) for part in (target.train, target.dev, target.test)] == [70, 20, 60]
    assert source.style != target.style


def test_scale() -> None:
    source, target = phi_hospitals(0, config=PhiConfig(scale=0.1))
    assert (len(source.train), len(target.train), len(target.dev)) == (60, 7, 2)
    with pytest.raises(UsageError, match="scale"):
        PhiConfig(scale=-1)


def test_every_type_occurs_and_all_are_annotated(pair: tuple[SyntheticSite, SyntheticSite]) -> None:
    for site in pair:
        assert site.types == PHI_TYPES
        assert site.train == site.complete.train
    assert {e.type for d in pair[0].train for e in d.entities} == set(PHI_TYPES)
    assert {e.type for d in everything(pair[1]) for e in d.entities} >= set(PHI_TYPES) - {"STATE"}


def test_mentions_do_not_overlap_and_the_text_is_clean(pair: tuple[SyntheticSite, SyntheticSite]) -> None:
    for document in (document for site in pair for document in everything(site)):
        ends = [0, *(entity.end for entity in document.entities)]
        assert all(entity.start >= end for entity, end in zip(document.entities, ends, strict=False))
        assert not re.search(r"  | [,;]|a\(n\)|[{}\[\]]|\.\.|^\s|\s$", document.text), document.id


def test_contact_details_are_fictitious(pair: tuple[SyntheticSite, SyntheticSite]) -> None:
    """Numbers are in ranges reserved for fiction, domains in those reserved for examples, and dates are far ahead."""
    for site in pair:
        for number in mentions(everything(site), "PHONE"):
            digits = re.sub(r"\D", "", number)
            assert re.search(r"55501\d\d$|^01632960\d{3}$|^0?(44)?7700900\d{3}$", digits)
        assert all(
            re.search(r"@(example\.\w+|\w+\.example)$", mail.lower()) for mail in mentions(everything(site), "EMAIL")
        )
        assert all(dict(document.attributes)["synthetic"] == "true" for document in everything(site))


def test_formats_differ_between_the_two(pair: tuple[SyntheticSite, SyntheticSite]) -> None:
    for kind in ("PHONE", "ID", "ZIP"):
        shapes = [
            {re.sub(r"[A-Za-z]", "A", re.sub(r"\d", "0", text)) for text in mentions(s.train, kind)} for s in pair
        ]
        assert len(shapes[0] & shapes[1]) * 2 <= len(shapes[1]), kind
    assert len({re.sub(r"\d", "0", date) for date in mentions(pair[0].train, "DATE")}) > 10


def test_some_patients_are_older_than_89(pair: tuple[SyntheticSite, SyntheticSite]) -> None:
    ages = [int(age) for age in mentions(pair[0].train, "AGE")]
    assert 0.02 < sum(age > 89 for age in ages) / len(ages) < 0.3
    assert max(ages) <= 104


def test_eponyms_are_not_annotated(pair: tuple[SyntheticSite, SyntheticSite]) -> None:
    eponym = re.compile(r"(Parkinson|Graves|Addison|Cushing|Paget)'s? (disease|syndrome)")
    places = [(d, m) for site in pair for d in everything(site) for m in eponym.finditer(d.text)]
    assert len(places) > 20
    for document, match in places:
        assert all(e.end <= match.start() or e.start >= match.end() for e in document.entities)


def test_some_names_are_ordinary_words_elsewhere(pair: tuple[SyntheticSite, SyntheticSite]) -> None:
    """The same string is a name in one note but not in another, or a name of two types."""
    source = everything(pair[0])
    names = {part for kind in ("PATIENT", "DOCTOR") for text in mentions(source, kind) for part in text.split()}
    assert {"May", "Graves", "Page", "Virginia"} & names
    assert names & set(mentions(source, "STATE"))
    assert set(mentions(source, "DOCTOR")) & set(mentions(source, "PATIENT"))


def test_most_names_in_test_notes_are_new(pair: tuple[SyntheticSite, SyntheticSite]) -> None:
    for site in pair:
        known = set(mentions(site.train, "PATIENT"))
        test = mentions(site.test, "PATIENT")
        assert sum(name not in known for name in test) / len(test) > 0.6
        assert not {d.text for d in site.train} & {d.text for d in site.dev + site.test}
