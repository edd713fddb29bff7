from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from tests.papers.modules import fixture_of

from wardround.corpora.jsonl import Jsonl
from wardround.text.document import Document, Entity, Range

make_sites = fixture_of("transfer.make_sites")


def note(name: str, text: str, *kinds: str, template: str = "1") -> Document:
    """A note whose first words are a mention each, of these types."""
    words = text.split()
    starts = [sum(len(word) + 1 for word in words[:place]) for place in range(len(kinds))]
    found = [
        Entity(f"T{n}", kind, (Range(at, at + len(words[n])),))
        for n, (at, kind) in enumerate(zip(starts, kinds, strict=True))
    ]
    return Document(name, text, tuple(found), attributes=(("template_id", template),))


def test_a_note_of_meddocan_is_recognised_by_its_journal(make_sites: ModuleType) -> None:
    names = ("S0004-06142005000500011-1", "S0210-48062009000900013-1", "S0365-66912009000100009-2")
    assert [make_sites.is_urology(note(name, "x")) for name in names] == [True, True, False]


def test_an_abbreviated_street_ends_no_sentence(make_sites: ModuleType) -> None:
    text = "Vive en Avda. Real 3. Acude hoy a C/. Mayor por dolor. Cae en el Km. Cinco. Km.\nFin."
    found = make_sites.with_spanish_sentences(note("n", text))
    assert found.sentences is not None
    assert [text[start:end] for start, end in found.sentences] == [
        *("Vive en Avda. Real 3.", "Acude hoy a C/. Mayor por dolor.", "Cae en el Km. Cinco.", "Km.", "Fin."),
    ]


def test_types_have_the_names_of_i2b2_where_there_is_one(make_sites: ModuleType) -> None:
    found = make_sites.with_names_of_i2b2(note("n", "Ann Mrs Oslo", "PERSON", "TITLE", "GPE"))
    assert [entity.type for entity in found.entities] == ["PATIENT", "TITLE", "CITY"]


def test_texts_of_one_template_are_in_one_part(make_sites: ModuleType) -> None:
    texts = [note(f"n{number}", "x", template=str(number % 20)) for number in range(60)]
    parts = make_sites.split_by_group(texts, make_sites.template_of, seed=0)
    templates = {part: {make_sites.template_of(text) for text in own} for part, own in parts.items()}
    # Of 20 templates 60% and 10%, and the rest; three texts each.
    assert {part: len(own) for part, own in templates.items()} == {"train": 12, "dev": 2, "test": 6}
    assert set.union(*templates.values()) == {str(number) for number in range(20)}
    assert [len(own) for own in parts.values()] == [36, 6, 18]
    assert parts == make_sites.split_by_group(texts, make_sites.template_of, seed=0)
    assert parts != make_sites.split_by_group(texts, make_sites.template_of, seed=1)


def test_sizes_are_counted(make_sites: ModuleType) -> None:
    notes = [note("a", "Ann was here. She left.", "PATIENT"), note("b", "Nobody")]
    # Ann was here . She left . Nobody: eight words.
    assert make_sites.sizes(notes) == {"notes": 2, "sentences": 3, "words": 8, "mentions": 1}


def test_what_is_written_is_read(make_sites: ModuleType, tmp_path: Path) -> None:
    parts = {part: [note(part, "Ann", "PATIENT")] for part in ("train", "dev", "test")}
    make_sites.write_sites({"presidio": {"target": parts}}, tmp_path)
    sites = make_sites.TransferSites.read(tmp_path)
    kept = list(Jsonl().read(sites.data("presidio", "target") / "dev.jsonl.gz"))
    assert [document.entities for document in kept] == [parts["dev"][0].entities]
    assert sites.count("presidio", "target", "train", "mentions") == 1
    assert sites.described["presidio"]["target"]["types"] == ["PATIENT"]
    assert sites.vectors("presidio") == tmp_path / "english.npz" and sites.vectors("meddocan") is None


@pytest.mark.corpus
def test_meddocan_by_journal_is_all_of_it(make_sites: ModuleType, shared_data: Path) -> None:
    sites = make_sites.read_meddocan(shared_data / "meddocan", seed=0)
    assert {part: len(notes) for part, notes in sites["official"].items()} == {"train": 500, "dev": 250, "test": 250}
    sizes = {name: [len(sites[name][part]) for part in ("train", "dev", "test")] for name in ("source", "target")}
    # 51 + 38, and 30 + 27 notes of urology; development parts are cut.
    assert sizes == {"source": [411, 60, 193], "target": [89, 20, 57]}
    texts = {name: {note.text for note in sites[name]["train"]} for name in ("source", "target")}
    assert (
        not texts["source"] & {note.text for note in sites["target"]["test"]} and not texts["source"] & texts["target"]
    )


@pytest.mark.corpus
def test_presidio_keeps_its_mentions(make_sites: ModuleType, shared_data: Path) -> None:
    file = shared_data / "presidio_synth" / "synth_dataset_v2.json"
    parts = make_sites.read_presidio(file, seed=0)["target"]
    assert sum(len(notes) for notes in parts.values()) == 1500
    assert sum(len(note.entities) for notes in parts.values() for note in notes) == 2863
