from __future__ import annotations

import json

from wardround.corpora.tag_set_table import Overlap, SiteTypes, TagSetTable
from wardround.text.document import Document, Entity, Range
from wardround.text.tag_sets import TagSet

TYPES = ("Drug", "ADE", "Disease", "Dose")
EAST = SiteTypes(("Drug", "ADE"), TYPES, {"Drug": 1200, "drugs": 7, "Disease": 5}, {"Drug": 3, "ADE": 2, "drugs": 1})
WEST = SiteTypes(("Drug", "Disease"), ("Drug", "Disease"), {"Drug": 4, "Disease": 6}, {"Drug": 1})
NORTH = SiteTypes(("Dose",), ("Dose",))  # not counted
TABLE = TagSetTable(TYPES, {"east": EAST, "west": WEST, "north": NORTH})


def note(*types: str) -> Document:
    entities = (Entity(f"T{n}", kind, (Range(n, n + 1),)) for n, kind in enumerate(types))
    return Document("n", "x" * len(types), tuple(entities))


def test_mentions_of_all_names_are_counted() -> None:
    train, test = [note("Drug", "drugs"), note("Drug")], [note("ADE")]
    found = SiteTypes.counted(TagSet(("Drug",)), TagSet(("Drug", "ADE")), train=train, test=test)
    assert found == SiteTypes(("Drug",), ("Drug", "ADE"), {"Drug": 2, "drugs": 1}, {"ADE": 1})


def test_the_table_by_hand() -> None:
    assert TABLE.rows() == (
        ("Drug", "1,200 / 3", "4 / 1", "·"),
        ("ADE", "0 / 2", "·", "·"),  # listed as annotated, but without a training mention
        ("Disease", "· / 0", "6 / 0", "·"),
        ("Dose", "· / 0", "·", "✓ / ✓"),
    )


def test_types_of_one_site() -> None:
    assert TABLE.types_of_one_site() == {"east": ("ADE",), "west": ("Disease",), "north": ("Dose",)}


def test_overlaps_of_two_sites() -> None:
    assert TABLE.overlaps() == (
        Overlap(("east", "west"), ("Drug",), 3),
        Overlap(("east", "north"), (), 3),
        Overlap(("west", "north"), (), 3),
    )


def test_types_without_training_mentions() -> None:
    # A site without counts may have mentions; only one site annotates ADE, and it has none.
    assert TABLE.types_without_mentions() == ("ADE",)


def test_unknown_names_and_unlisted_types() -> None:
    assert TABLE.unknown_names() == {"east": {"drugs": 8}}
    assert TABLE.unlisted_types() == {"east": {"Disease": 5}}


def test_sentences_describe_the_table() -> None:
    assert list(TABLE.sentences()) == [
        "Only east annotates ADE.",
        "Only west annotates Disease.",
        "Only north annotates Dose.",
        "east and west share 1 of 3 types: Drug.",
        "east and north share no type.",
        "west and north share no type.",
        "No training note has a mention of ADE, so no site teaches it.",
        "east: 8 mentions of 'drugs', which is not a type of the study – did you mean 'Drug'?; map the name.",
        "east: its training notes have types that it does not list and does not learn: Disease 5.",
    ]
    two = TagSetTable(("Drug",), {"east": EAST, "west": WEST})
    assert next(two.sentences()) == "Every type is annotated at two sites or more."
    alone = SiteTypes(("Drug",), ("Drug",), {"Drug": 1, "Bed": 1}, {})
    assert list(TagSetTable(("Drug",), {"east": alone}).sentences()) == [
        "Only east annotates Drug.",
        "east: 1 mention of 'Bed', which is not a type of the study; map the name.",
    ]


def test_pairs_of_many_sites_are_only_counted() -> None:
    def many(count: int) -> list[str]:
        kinds = [("Drug",) if number else ("ADE",) for number in range(count)]
        sites = {f"h{number}": SiteTypes(types, types) for number, types in enumerate(kinds)}
        return [said for said in TagSetTable(("Drug", "ADE"), sites).sentences() if "share" in said]

    assert len(many(10)) == 45
    assert many(11) == ["10 of 55 pairs of sites share no type."]


def test_the_table_as_plain_values() -> None:
    found = json.loads(json.dumps(TABLE.as_json()))
    assert found["types"]["Disease"] == {
        "east": {"annotated": False, "scored": True, "train": None, "test": 0},
        "west": {"annotated": True, "scored": True, "train": 6, "test": 0},
        "north": {"annotated": False, "scored": False, "train": None, "test": None},
    }
    assert found["types"]["Dose"]["north"] == {"annotated": True, "scored": True, "train": None, "test": None}
    assert found["only_one_site"] == {"east": ["ADE"], "west": ["Disease"], "north": ["Dose"]}
    assert found["overlaps"][0] == {"sites": ["east", "west"], "types": ["Drug"], "together": 3}
    assert found["untaught"] == ["ADE"]
    assert found["unknown_names"] == {"east": {"drugs": 8}}
    assert found["left_out"] == {"east": {"Disease": 5}}
