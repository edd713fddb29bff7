from __future__ import annotations

from pathlib import Path

import pytest
from tests.models.tiny import notes
from tests.studies.tiny_studies import tiny

from wardround.corpora.jsonl import Jsonl
from wardround.corpora.tag_set_table import SiteTypes
from wardround.errors import StudyError
from wardround.studies.study_file import parse_study
from wardround.studies.study_notes import tag_sets_of


@pytest.fixture
def ward(tmp_path: Path) -> Path:
    """Notes with a mention of Drug and of ADE each: four to train on, one to develop on, two to test on."""
    for part, size in (("train", 4), ("dev", 1), ("test", 2)):
        Jsonl().write(notes(size), tmp_path / "ward" / f"{part}.jsonl")
    return tmp_path / "ward"


def test_the_notes_of_sites_are_counted_under_the_names_of_the_study(ward: Path) -> None:
    (ward.parent / "names.toml").write_text('Drug = "Medication"\n')
    place = {"data": str(ward), "format": "jsonl", "built_in": None, "scheme": None}
    study = tiny(
        sites={
            "harbour": {**place, "types": ["Medication"], "names": str(ward.parent / "names.toml")},
            "hillside": {**place, "types": ["ADE"], "scored": ["ADE", "Medication"]},
        }
    )
    table = tag_sets_of(study)
    assert table.types == ("Medication", "ADE")
    assert table.sites == {
        "harbour": SiteTypes(
            ("Medication",), ("Medication",), {"ADE": 4, "Medication": 4}, {"ADE": 2, "Medication": 2}
        ),
        "hillside": SiteTypes(("ADE",), ("ADE", "Medication"), {"ADE": 4, "Drug": 4}, {"ADE": 2, "Drug": 2}),
    }
    assert table.unknown_names() == {"hillside": {"Drug": 6}}
    assert table.unlisted_types() == {"harbour": {"ADE": 4}}


def test_a_site_that_names_no_types_annotates_what_its_notes_hold(ward: Path) -> None:
    study = parse_study(f'[study]\nname = "s"\n[sites.a]\ndata = "{ward}"\nformat = "jsonl"\n')
    table = tag_sets_of(study)
    assert table.types == table.sites["a"].types == table.sites["a"].scored == ("ADE", "Drug")


def test_of_notes_that_are_elsewhere_nothing_is_counted() -> None:
    table = tag_sets_of(parse_study('[study]\nname = "s"\n[sites.a]\ntypes = ["Drug"]\n'))
    assert table.sites == {"a": SiteTypes(("Drug",), ("Drug",))}
    with pytest.raises(StudyError, match=r"^\[sites.a\] does not say where its notes are"):
        tag_sets_of(parse_study('[study]\nname = "s"\n[sites.a]\n'))


def test_built_in_hospitals_are_scored_on_complete_annotation() -> None:
    scored = ["Drug", "Disease", "Dosage", "ADE", "Finding"]
    table = tag_sets_of(tiny(sites={"harbour": {"scored": scored}}))
    harbour, hillside = table.sites.values()
    assert harbour.train is not None and harbour.test is not None and hillside.test is not None
    assert set(harbour.train) <= {"Drug", "Disease", "Dosage"}
    assert {"Drug", "Disease", "Dosage"} < set(harbour.test) <= set(scored)
    assert set(hillside.test) <= {"Drug", "ADE", "Finding"}
    assert table.unknown_names() == {}


def test_where_entities_are_given_there_are_no_tag_sets() -> None:
    text = '[study]\nname = "s"\n[task]\nkind = "relations"\n[task.relations]\nADE = []\n[sites.a]\n'
    with pytest.raises(StudyError, match=r"^\[task\] kind is relations: its entity types are the study's, the same at"):
        tag_sets_of(parse_study(text))
