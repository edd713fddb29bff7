from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.studies.tiny_studies import PUBLIC, of_algorithm, tiny

from wardround.errors import StudyError
from wardround.studies.study_file import parse_study, to_toml
from wardround.studies.study_sections import PublicSection, TaskSection, public_from, task_from
from wardround.text.document import Level
from wardround.text.phi_tag_sets import MEDDOCAN
from wardround.text.relation_sets import RelationSet, RelationType

RELATIONS: dict[str, Any] = {"causes": [["Drug", "ADE"], ["Dose", "ADE"]], "with": []}
ENDS = {"causes": (("Drug", "ADE"), ("Dose", "ADE")), "with": ()}


def refused_task(said: str, table: dict[str, Any]) -> None:
    with pytest.raises(StudyError, match=f"^{re.escape(said)}$"):
        task_from(table)


# What is learned.


def test_entities_are_learned_unless_a_study_says_otherwise() -> None:
    section = task_from({})
    assert section == TaskSection("ner", {}, True, "mention", None, 1.0)
    assert section.entity_types == ()


def test_every_setting_of_a_task() -> None:
    table = {"kind": "relations", "relations": RELATIONS, "directed": False, "level": "concept", "negatives": 3}
    section = task_from(table)
    assert section == TaskSection("relations", ENDS, False, "concept", 3.0, 1.0)
    assert list(section.relations) == ["causes", "with"]  # classes are in the order of the file
    assert isinstance(section.negatives, float)
    joint = task_from({"kind": "joint", "relations": RELATIONS, "level": "concept", "relation_weight": 2})
    assert joint == TaskSection("joint", ENDS, True, "concept", None, 2.0)


def test_the_classes_of_a_pair() -> None:
    section = task_from({"kind": "relations", "relations": RELATIONS, "directed": False, "level": "concept"})
    types = (RelationType("causes", ENDS["causes"]), RelationType("with"))
    assert section.relation_set == RelationSet(types, "none", directed=False, level=Level.CONCEPT)
    assert section.relation_set.names == ("none", "causes", "with")
    assert section.entity_types == ("Drug", "ADE", "Dose")  # each once


def test_the_table_that_was_read_is_left_as_it_was() -> None:
    table = {"kind": "relations", "relations": dict(RELATIONS)}
    task_from(table)
    assert table == {"kind": "relations", "relations": RELATIONS}


@pytest.mark.parametrize("kind", ["relations", "joint"])
def test_relations_belong_to_a_task_that_looks_for_them(kind: str) -> None:
    refused_task("[task] relations are for a task of kind relations or joint", {"relations": RELATIONS})
    said = f"[task] a task of kind {kind} needs its relations: name each type in [task.relations]"
    for table in ({}, {"relations": {}}):
        refused_task(said, {"kind": kind, **table})


@pytest.mark.parametrize("value", [[], ["causes"], "causes", 3])
def test_relations_are_a_section(value: object) -> None:
    said = '[task.relations] must be a section with one line per type, as ADE = [["Drug", "Effect"]]'
    refused_task(said, {"kind": "relations", "relations": value})


@pytest.mark.parametrize(
    "value",
    [
        "Drug",
        3,
        ["Drug", "ADE"],  # one pair, without the list around it
        [["Drug"]],
        [["Drug", "ADE", "Dose"]],
        [["Drug", 3]],
        [["Drug", "ADE"], []],
        [{"head": "Drug", "tail": "ADE"}],
        {"head": "Drug"},
    ],
)
def test_the_ends_of_a_relation_are_pairs_of_types(value: object) -> None:
    said = '[task.relations] causes must be a list of pairs of entity types, as [["Drug", "Effect"]]'
    refused_task(said, {"kind": "relations", "relations": {"with": [], "causes": value}})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"negatives": -0.5}, "negatives is -0.5; it must be zero or above"),
        ({"negatives": float("nan")}, "negatives is nan; it must be zero or above"),
        ({"negatives": "all"}, "negatives is 'all'; it must be a number"),
        ({"negatives": True}, "negatives is True; it must be a number"),
        ({"relation_weight": 0}, "relation_weight is 0.0; it must be above zero"),
        ({"relation_weight": -1}, "relation_weight is -1.0; it must be above zero"),
        ({"relation_weight": float("nan")}, "relation_weight is nan; it must be above zero"),
        ({"directed": "no"}, "directed is 'no'; it must be true or false"),
        ({"level": "concepts"}, "level is 'concepts' – did you mean 'concept'?; it can be mention, concept"),
        (
            {"kind": "relation"},
            "kind is 'relation' – did you mean 'relations'?; it can be ner, relations, joint, deidentify",
        ),
        ({"kind": ["joint"]}, "kind is ['joint']; it must be text"),
        ({"relations": {"none": []}}, "a relation set has a class twice: none, none"),
        ({"relations": {"": []}}, "a relation set has a type without a name"),
    ],
)
def test_invalid_values_are_refused(settings: dict[str, Any], said: str) -> None:
    refused_task(f"[task] {said}", {"kind": "relations", "relations": RELATIONS, **settings})


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(StudyError, match=r"^\[task\] 'negative' is not a setting – did you mean 'negatives'\?; it has"):
        task_from({"kind": "relations", "relations": RELATIONS, "negative": 3})


def test_no_negative_at_all_is_a_choice() -> None:
    assert task_from({"kind": "relations", "relations": RELATIONS, "negatives": 0}).negatives == 0.0


def test_a_task_in_a_study_reads_back() -> None:
    study = tiny(task={"kind": "joint", "relations": RELATIONS, "directed": False, "negatives": 0.5})
    assert study.task.relations == ENDS
    assert parse_study(to_toml(study)) == study


def test_where_no_site_names_its_types_they_are_those_of_the_relations() -> None:
    nameless = {"harbour": {"types": None}, "hillside": {"types": None}}
    task = {"kind": "joint", "relations": RELATIONS}
    assert tiny(task=task, sites=nameless).types == ("Drug", "ADE", "Dose")
    assert tiny(task=task, sites={"hillside": {"types": None}}).types == ("Drug", "Disease", "Dosage")


# What everybody may read.


def test_a_study_without_a_public_set() -> None:
    section = public_from({}, Path("/studies"))
    assert section == PublicSection()
    assert not section.exists
    assert "public" not in to_toml(tiny())


def test_every_setting_of_a_public_set() -> None:
    table = {"data": "p.jsonl", "format": "jsonl", "options": {"column": 3, "strict": True}, "labelled": False}
    section = public_from(table | {"sha256": "5e"}, Path("/studies"))
    assert section == PublicSection(
        Path("/studies/p.jsonl"), "jsonl", {"column": "3", "strict": "true"}, labelled=False, sha256="5e"
    )
    assert section.exists
    assert public_from({"data": "/else/p.jsonl", "format": "jsonl"}, Path("/studies")).data == Path("/else/p.jsonl")
    assert public_from({"built_in": "harbour"}, Path("/studies")).exists
    assert public_from({"built_in": "harbour"}, Path("/studies")).labelled


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (
            {"built_in": "harbour", "data": "p", "format": "jsonl"},
            "names a built-in hospital and data; keep one of them",
        ),
        ({"built_in": "harbour", "format": "jsonl"}, "names a built-in hospital and data; keep one of them"),
        ({"data": "p.jsonl"}, "names data; it needs a format as well"),
        ({"data": "p", "format": "jsonl", "options": 3}, "options must be a table of the format's options"),
        ({"data": "p", "format": "jsonl", "labelled": "no"}, "labelled is 'no'; it must be true or false"),
        ({"data": 3, "format": "jsonl"}, "data is 3; it must be a path"),
        ({"sha256": 3}, "sha256 is 3; it must be text"),
    ],
)
def test_an_invalid_public_set_is_refused(table: dict[str, Any], said: str) -> None:
    with pytest.raises(StudyError, match=rf"^\[public\] {re.escape(said)}$"):
        public_from(table, Path())


def test_an_unknown_setting_of_a_public_set_is_refused() -> None:
    with pytest.raises(StudyError, match=r"^\[public\] 'labeled' is not a setting – did you mean 'labelled'\?; it has"):
        public_from({"labeled": True}, Path())


@pytest.mark.parametrize("name", ["feded", "public"])
def test_an_algorithm_that_needs_a_public_set_is_refused_without_one(name: str) -> None:
    assert of_algorithm(name).public == PublicSection(built_in=PUBLIC["built_in"])
    said = rf"^\[algorithm\] {name} needs notes that all sites may read: name them in \[public\]$"
    for nothing in ({"built_in": None}, {"built_in": None, "labelled": True}):
        with pytest.raises(StudyError, match=said):
            of_algorithm(name, public=nothing)


@pytest.mark.parametrize("name", ["fedner", "fedavg", "single", "pooled"])
def test_a_public_set_without_use_is_refused(name: str) -> None:
    said = rf"^\[public\] is not used by {name}; leave it out$"
    with pytest.raises(StudyError, match=said):
        of_algorithm(name, public=PUBLIC)


# Encoders of their own.


@pytest.mark.parametrize(("name", "settings"), [("feded", {}), ("fedavg", {}), ("single", {})])
def test_sites_that_share_layers_have_one_encoder(name: str, settings: dict[str, Any]) -> None:
    said = (
        "[sites.hillside] encoder: sites with encoders of their own cannot share layers; "
        'use [algorithm] feded with site_models = "own"'
    )
    with pytest.raises(StudyError, match=f"^{re.escape(said)}$"):
        of_algorithm(name, algorithm=settings, sites={"hillside": {"encoder": "minilm"}})


def test_sites_that_keep_their_models_may_have_encoders_of_their_own() -> None:
    study = of_algorithm("feded", algorithm={"site_models": "own"}, sites={"hillside": {"encoder": "minilm"}})
    assert [site.encoder for site in study.sites.values()] == ["", "minilm"]
    assert parse_study(to_toml(study)) == study


# What identifies people.


def test_a_tag_set_says_what_sites_annotate_unless_they_say_less() -> None:
    study = tiny(
        task={"kind": "deidentify", "tag_set": "meddocan"},
        sites={"harbour": {"types": None}, "hillside": {"types": ["FECHAS", "CALLE"]}},
    )
    assert study.sites["harbour"].types == MEDDOCAN.types
    assert study.sites["hillside"].types == ("FECHAS", "CALLE")
    assert parse_study(to_toml(study)) == study
    assert (study.task.family, study.task.only_tags_words) == ("ner", True)


def test_without_a_tag_set_the_types_are_the_sites_own() -> None:
    study = tiny(task={"kind": "deidentify"}, sites={"harbour": {"types": ["Pet"]}, "hillside": {"types": None}})
    assert (study.sites["harbour"].types, study.sites["hillside"].types) == (("Pet",), ())


def test_a_tag_set_is_of_deidentification() -> None:
    refused_task("[task] tag_set is for a task of kind deidentify; leave it out", {"tag_set": "hipaa"})
    refused_task(
        "[task] tag_set is 'hippa' – did you mean 'hipaa'?; it can be hipaa, i2b2-2014, meddocan",
        {"kind": "deidentify", "tag_set": "hippa"},
    )
    refused_task(
        "[task] relations are for a task of kind relations or joint", {"kind": "deidentify", "relations": RELATIONS}
    )
