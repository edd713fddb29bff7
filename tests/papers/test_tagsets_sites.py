from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest
from tests.papers.modules import fixture_of

from wardround.corpora.jsonl import Jsonl
from wardround.text.document import Document, Entity, Range

ROOT = Path(__file__).resolve().parents[2]
PAPER = ROOT / "papers" / "tagsets"


make_sites, samplings = fixture_of("tagsets.make_sites"), fixture_of("tagsets.samplings")


def note(text: str, *mentions: tuple[str, str]) -> Document:
    """A sentence with the first occurrence of each (words, type) annotated."""
    found = [(text.index(words), words, kind) for words, kind in mentions]
    entities = [Entity(f"T{n}", kind, (Range(at, at + len(words)),)) for n, (at, words, kind) in enumerate(found, 1)]
    return Document(text, text, tuple(entities), sentences=(Range(0, len(text)),))


# Samplings.

SEVEN = tuple("abcdefg")


def test_every_type_is_at_one_site_and_every_site_has_one(samplings: ModuleType) -> None:
    able = {f"site-{number}": SEVEN for number in range(6)}
    for seed in range(50):
        tag_sets = samplings.disjoint(able, Random(seed))
        assert sorted(kind for types in tag_sets.values() for kind in types) == list(SEVEN)
        assert sorted(map(len, tag_sets.values())) == [1, 1, 1, 1, 1, 2]


def test_a_site_annotates_only_types_with_enough_mentions(samplings: ModuleType) -> None:
    able = {"one": ("a", "b"), "two": ("a", "b", "c", "d"), "three": ("c",)}
    for seed in range(50):
        for sampler in (samplings.disjoint, samplings.overlapping):
            tag_sets = sampler(able, Random(seed))
            assert all(set(types) <= set(able[site]) for site, types in tag_sets.items())
            assert {kind for types in tag_sets.values() for kind in types} == set("abcd")


def test_appendix_d_gives_a_type_of_its_own_to_every_site(samplings: ModuleType) -> None:
    able = {site: SEVEN[:5] for site in ("one", "two", "three")}
    shared = Counter[int]()
    for seed in range(200):
        tag_sets = samplings.overlapping(able, Random(seed))
        counted = Counter(kind for types in tag_sets.values() for kind in types)
        assert all(any(counted[kind] == 1 for kind in types) for types in tag_sets.values())
        assert set(counted) == set(SEVEN[:5]) and max(counted.values()) <= 2
        shared[list(counted.values()).count(2)] += 1
    # Of the two types that are nobody's own each is at two sites with probability 1/2.
    assert shared.keys() == {0, 1, 2} and 80 <= shared[1] <= 120


def test_samplings_differ_and_are_the_same_again(samplings: ModuleType) -> None:
    able = {"one": ("a", "b", "c"), "two": ("a", "b", "c"), "three": ("a", "b", "c")}
    # Three types at three sites, one each: there are six ways.
    found = samplings.drawn(samplings.disjoint, [able] * 6, "x")
    assert len({tuple(tag_sets.items()) for tag_sets in found}) == 6
    assert found == samplings.drawn(samplings.disjoint, [able] * 6, "x")
    assert found != samplings.drawn(samplings.disjoint, [able] * 6, "y")


# Sites.


def test_a_site_may_annotate_a_type_with_forty_mentions(make_sites: ModuleType) -> None:
    many = [note(f"aspirin {number}", ("aspirin", "Drug")) for number in range(40)]
    few = [*many[:39], note("a rash", ("rash", "ADE"))]
    assert make_sites.annotatable({"x": many, "y": few}, ("Drug", "ADE")) == {"x": ("Drug",), "y": ()}
    assert make_sites.mentions(few, ("ADE", "Drug")) == {"ADE": 1, "Drug": 39}


def test_every_part_keeps_all_annotation(make_sites: ModuleType, tmp_path: Path) -> None:
    notes = [note("aspirin gave a rash", ("aspirin", "Drug"), ("rash", "ADE"))]
    make_sites.write_group({"x": make_sites.Site((), notes, notes, notes)}, tmp_path)
    for part in ("train", "dev", "test"):
        assert [d.entities for d in Jsonl().read(tmp_path / "x" / f"{part}.jsonl.gz")] == [notes[0].entities]
    found = make_sites.described({"train": notes, "test": notes[:1]}, ("ADE", "Dosage"))
    assert found["scored"] == ["ADE"]
    assert found["train"] == {"sentences": 1, "mentions": {"ADE": 1}}


def sections(make_sites: ModuleType, *, sampling: str, corpus: str = "x", complete: bool = False) -> Any:
    samplings = {"0": {"one": ["a"], "two": ["b"]}, "tune": {"one": ["b"], "two": ["a"]}}
    sites = {"one": {"scored": ["a", "b"]}, "two": {"scored": ["b"]}}
    own = {"samplings": samplings, "sites": sites, "names": {"two": "x/names/two.toml"}}
    return make_sites.TagSites(Path("/made"), {corpus: own}).sections(corpus, sampling, complete=complete)


def test_a_site_sees_its_types_and_is_scored_on_all_of_its_corpus(make_sites: ModuleType) -> None:
    found = sections(make_sites, sampling="0")
    assert found["one"] == {"data": "/made/x/one", "format": "jsonl", "types": ["a"], "scored": ["a", "b"]}
    assert found["two"]["names"] == "/made/x/names/two.toml" and found["two"]["scored"] == ["b"]
    whole = sections(make_sites, sampling="0", complete=True)
    assert [whole[site]["types"] for site in ("one", "two")] == [["a", "b"], ["b"]]
    assert sections(make_sites, sampling="tune")["one"]["data"] == "/made/x-tune/one"


def test_hospitals_with_their_own_types_are_the_built_in_ones(make_sites: ModuleType) -> None:
    own = sections(make_sites, sampling="0", corpus="synthetic")["one"]
    assert own == {"built_in": "one", "types": ["a"], "scored": ["a", "b"]}
    whole = sections(make_sites, sampling="0", corpus="synthetic", complete=True)["one"]
    assert whole["data"] == "/made/synthetic/0/one" and "built_in" not in whole


def test_the_first_sampling_of_hospitals_is_their_own(make_sites: ModuleType) -> None:
    hospitals = make_sites.read_hospitals(["0", "1"])
    found = make_sites.hospital_samplings(hospitals)
    assert found["0"] == {name: hospital.types for name, hospital in hospitals["0"].items()}
    assert found["1"] != found["0"] and {k for types in found["1"].values() for k in types} == set(
        make_sites.CLINICAL_TYPES
    )


@pytest.mark.corpus
def test_seven_types_have_enough_mentions_in_six_genres(make_sites: ModuleType, shared_data: Path) -> None:
    group = make_sites.read_gum(shared_data / "gum", seed=0)
    assert [len(site.train) for site in group.values()] == [616, 1000, 681, 586, 876, 639]
    able = make_sites.annotatable({name: site.train for name, site in group.items()}, make_sites.GUM_TYPES)
    missing = {name: set(make_sites.GUM_TYPES) - set(types) for name, types in able.items()}
    assert {name: types for name, types in missing.items() if types} == {"conversation": {"organization"}}


@pytest.mark.corpus
def test_type_names_of_a_corpus_are_mapped_to_the_study(make_sites: ModuleType, shared_data: Path) -> None:
    folder = shared_data / "mtl_bioinformatics_2016" / "BioNLP13PC-IOB"
    test = make_sites.read_iob(folder).test
    # 3,587 genes, 858 chemicals and 332 cellular components; complexes keep their name and are of no study.
    renamed = make_sites.in_study_names("bionlp13pc", test)
    assert make_sites.mentions(renamed, make_sites.BIO_TYPES) == {
        "Gene": 3587,
        "Chemical": 858,
        "Cellular_component": 332,
    }


def test_every_mapping_file_leads_to_types_of_the_study(make_sites: ModuleType) -> None:
    for path in sorted((PAPER / "names").iterdir()):
        assert set(tomllib.loads(path.read_text(encoding="utf-8")).values()) <= set(make_sites.BIO_TYPES)
