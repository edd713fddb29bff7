from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace

import pytest

from wardround.corpora.synthetic import (
    CLINICAL_TYPES,
    ClinicalConfig,
    SitePlan,
    SyntheticSite,
    clinical_hospitals,
    many_hospitals,
)
from wardround.errors import UsageError
from wardround.text.document import Document

GOLDEN = "8c9b1625093e1fb1a51f64ed7395d4e6fa88dd8b914ff512ef95a5e199604c60"


@pytest.fixture(scope="module")
def sites() -> tuple[SyntheticSite, ...]:
    return clinical_hospitals(0)


def everything(site: SyntheticSite) -> tuple[Document, ...]:
    return site.complete.train + site.complete.dev + site.complete.test


def as_json(documents: Iterable[Document]) -> str:
    return json.dumps(
        [
            [
                document.id,
                document.text,
                [(e.id, e.type, e.ranges, e.attributes) for e in document.entities],
                [(r.id, r.type, r.head, r.tail) for r in document.relations],
                document.sentences,
            ]
            for document in documents
        ]
    )


def forms(documents: Iterable[Document]) -> list[str]:
    return [entity.text_in(document.text).lower() for document in documents for entity in document.entities]


def sentences(documents: Iterable[Document]) -> int:
    return sum(len(document.sentences or ()) for document in documents)


def test_notes_of_seed_zero_have_a_fixed_digest(sites: tuple[SyntheticSite, ...]) -> None:
    digest = hashlib.sha256("".join(as_json(everything(site)) for site in sites).encode()).hexdigest()
    assert digest == GOLDEN


def test_another_seed_gives_other_notes(sites: tuple[SyntheticSite, ...]) -> None:
    tiny = ClinicalConfig(scale=0.05)
    assert as_json(everything(clinical_hospitals(1, config=tiny)[0])) != as_json(
        everything(clinical_hospitals(0, config=tiny)[0])
    )


def test_a_hospital_does_not_depend_on_the_others(sites: tuple[SyntheticSite, ...]) -> None:
    plans = ClinicalConfig().sites
    (alone,) = clinical_hospitals(0, config=ClinicalConfig(sites=plans[2:3]))
    assert alone == sites[2]


def test_a_larger_hospital_begins_with_the_same_notes(sites: tuple[SyntheticSite, ...]) -> None:
    plan = replace(ClinicalConfig().sites[0], train_sentences=500)
    (larger,) = clinical_hospitals(0, config=ClinicalConfig(sites=(plan,)))
    assert larger.train[: len(sites[0].train)] == sites[0].train


def test_sizes(sites: tuple[SyntheticSite, ...]) -> None:
    for site, plan in zip(sites, ClinicalConfig().sites, strict=True):
        # The last note of a split is completed, which adds at most eleven sentences.
        assert plan.train_sentences <= sentences(site.train) < plan.train_sentences + 12
        assert 120 <= sentences(site.dev) < 132
        assert 300 <= sentences(site.test) < 312
        assert all(4 <= sentences([document]) <= 12 for document in everything(site))


def test_each_site_has_only_its_own_types_of_the_complete_annotation(sites: tuple[SyntheticSite, ...]) -> None:
    for site in sites:
        pairs = zip(site.train + site.dev + site.test, everything(site), strict=True)
        for shown, complete in pairs:
            assert shown.text == complete.text
            assert shown.entities == tuple(e for e in complete.entities if e.type in site.types)
            assert set(shown.relations) <= set(complete.relations)
        assert {entity.type for document in site.train for entity in document.entities} == set(site.types)
        assert {entity.type for document in everything(site) for entity in document.entities} == set(CLINICAL_TYPES)


def test_every_type_is_annotated_at_two_sites_and_no_site_annotates_all(sites: tuple[SyntheticSite, ...]) -> None:
    counts = Counter(kind for site in sites for kind in site.types)
    assert set(counts) == set(CLINICAL_TYPES)
    assert min(counts.values()) >= 2
    assert all(len(site.types) < len(CLINICAL_TYPES) for site in sites)


def test_mentions_are_whole_words_and_do_not_overlap(sites: tuple[SyntheticSite, ...]) -> None:
    for document in (document for site in sites for document in everything(site)):
        end = 0
        for entity in document.entities:
            assert entity.start >= end
            end = entity.end
            around = document.text[max(0, entity.start - 1) : entity.start] + document.text[end : end + 1]
            assert not re.search(r"\w", around), document.id
            assert any(start <= entity.start < end <= stop for start, stop in document.sentences or ())


def test_the_text_is_clean(sites: tuple[SyntheticSite, ...]) -> None:
    trouble = re.compile(r"  | [,;]|a\(n\)|[{}\[\]]|\ba [aeio]|(?<!\.)\.\.(?!\.)|^\s|\s$")
    for document in (document for site in sites for document in everything(site)):
        assert not trouble.search(document.text), document.id


def test_relations_start_at_a_drug(sites: tuple[SyntheticSite, ...]) -> None:
    tails = {"causes": {"ADE"}, "treats": {"Disease", "Symptom"}, "has_dosage": {"Dosage"}}
    seen: Counter[str] = Counter()
    for document in (document for site in sites for document in everything(site)):
        types = {entity.id: entity.type for entity in document.entities}
        for relation in document.relations:
            assert types[relation.head] == "Drug"
            assert types[relation.tail] in tails[relation.type]
            seen[relation.type] += 1
    assert all(seen[kind] >= 100 for kind in tails)


def test_most_test_mentions_are_new_to_the_hospital_but_fewer_to_all(sites: tuple[SyntheticSite, ...]) -> None:
    pooled = {form for site in sites for form in forms(site.complete.train)}
    for site in sites:
        own, test = set(forms(site.train)), forms(site.test)
        unseen = sum(form not in own for form in test) / len(test)
        unseen_pooled = sum(form not in pooled for form in test) / len(test)
        assert 0.6 <= unseen <= 0.95
        assert unseen_pooled <= unseen - 0.1


def test_negation_and_speculation_are_marked(sites: tuple[SyntheticSite, ...]) -> None:
    for site in sites:
        marks = Counter(a for d in everything(site) for e in d.entities for a in e.attributes)
        assert marks["negated", "true"] >= 20
        assert marks["speculated", "true"] >= 5


def test_one_word_has_two_types_in_one_hospital(sites: tuple[SyntheticSite, ...]) -> None:
    for site in sites:
        types: dict[str, set[str]] = defaultdict(set)
        for document in everything(site):
            for entity in document.entities:
                types[entity.text_in(document.text).lower()].add(entity.type)
        assert sum(len(kinds) > 1 for kinds in types.values()) >= 5, site.name
        assert any({"ADE", "Symptom"} <= kinds for kinds in types.values()), site.name


def test_a_drug_word_is_not_always_a_mention(sites: tuple[SyntheticSite, ...]) -> None:
    letters = everything(sites[0])
    iron = sum(len(re.findall(r"\biron\b", document.text)) for document in letters)
    annotated = sum(e.text_in(d.text) == "iron" for d in letters for e in d.entities)
    assert 0 < annotated < iron


def test_no_text_is_in_two_splits(sites: tuple[SyntheticSite, ...]) -> None:
    texts = [document.text for site in sites for document in everything(site)]
    assert len(texts) == len(set(texts))


def test_documents_say_that_they_are_synthetic(sites: tuple[SyntheticSite, ...]) -> None:
    for site in sites:
        assert all(dict(d.attributes) == {"synthetic": "true", "style": site.style} for d in everything(site))


def test_slips_change_only_letters(sites: tuple[SyntheticSite, ...]) -> None:
    careful = clinical_hospitals(0, config=ClinicalConfig(slips=0.0))
    rates = {}
    for sloppy, clean in zip(sites, careful, strict=True):
        pairs = [
            (written, meant)
            for one, other in zip(everything(sloppy), everything(clean), strict=True)
            for written, meant in zip(one.text.split(), other.text.split(), strict=True)
        ]
        rates[sloppy.name] = sum(written != meant for written, meant in pairs) / len(pairs)
    assert rates["riverside"] > 0.01 > rates["hillside"] > 0


def test_scale_multiplies_the_sentences() -> None:
    (site,) = clinical_hospitals(0, config=ClinicalConfig(sites=ClinicalConfig().sites[:1], scale=3.0))
    assert 1260 <= sentences(site.train) < 1272


def test_many_hospitals_are_generated_one_by_one() -> None:
    thousand = many_hospitals(1000, seed=3)
    assert len(thousand) == 1000
    assert thousand[998].name == "riverside-0998"
    assert thousand[-1] == many_hospitals(2000, seed=3)[999]
    assert [site.style for site in thousand[:5]] == [site.style for site in (*clinical_hospitals(0), thousand[0])]
    assert all(site.train and site.dev and site.test for site in thousand[4:8])
    with pytest.raises(IndexError):
        thousand[1000]


def test_unknown_style_is_refused() -> None:
    plan = SitePlan("north", "sonnets", ("Drug",), 10)
    with pytest.raises(UsageError, match="hospital 'north': 'sonnets' is not a style; choose from discharge letters"):
        clinical_hospitals(0, config=ClinicalConfig(sites=(plan,)))


@pytest.mark.parametrize("setting", [{"scale": 0.0}, {"site_share": 1.5}, {"lookalike_rate": -0.1}])
def test_setting_out_of_range_is_refused(setting: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(setting))):
        replace(ClinicalConfig(), **setting)  # type: ignore[arg-type]
