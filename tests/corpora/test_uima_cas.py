"""UIMA CAS as JSON and XMI: annotations by hand, faults by place, round trips, and the letters of GraSCCo."""

from __future__ import annotations

import json
import tarfile
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpora.strategies import ANY_CHARACTERS, BRIEF, corpora, documents
from wardround.corpora.corpus_format import Problem, Severity
from wardround.corpora.skipped_faults import SkippedFaults
from wardround.corpora.uima_cas import UimaCas
from wardround.errors import CorpusError, UsageError
from wardround.text.document import Document, Entity, Range, Relation

TEXT = "😀 Aspirin burns."  # the emoji is one code point and two UTF-16 code units
PHI = "webanno.custom.PHI"


def cas(*structures: dict[str, Any], text: str = TEXT, types: dict[str, Any] | None = None) -> dict[str, Any]:
    sofa = {"%ID": 1, "%TYPE": "uima.cas.Sofa", "sofaID": "_InitialView", "sofaString": text}
    placed = [{"%ID": number, "@sofa": 1, **found} for number, found in enumerate(structures, start=2)]
    return {"%TYPES": types or {}, "%FEATURE_STRUCTURES": [sofa, *placed], "%VIEWS": {}}


def mention(start: int, end: int, kind: str = PHI, **features: Any) -> dict[str, Any]:
    return {"%TYPE": kind, "begin": start, "end": end, **features}


def read(folder: Path, content: Any, form: UimaCas | None = None) -> Document:
    (folder / "n1.json").write_text(json.dumps(content), encoding="utf-8")
    (found,) = (form or UimaCas()).read(folder)
    return found


def test_annotations_are_mentions_in_code_points(tmp_path: Path) -> None:
    found = read(tmp_path, cas(mention(3, 10, kind="Drug") | {"%TYPE": PHI, "kind": "Drug"}))
    assert (found.id, found.text) == ("n1", TEXT)
    assert found.entities == (Entity("T1", "Drug", (Range(2, 9),)),)
    assert found.entities[0].text_in(TEXT) == "Aspirin"
    assert found.words is None and found.sentences is None


def test_layers_of_the_tool_itself_are_not_mentions(tmp_path: Path) -> None:
    dkpro = "de.tudarmstadt.ukp.dkpro.core.api"
    token = mention(3, 10, f"{dkpro}.segmentation.type.Token", form="x")
    title = mention(0, 17, f"{dkpro}.metadata.type.DocumentMetaData", documentTitle="n1.txt")
    named = mention(3, 10, f"{dkpro}.ner.type.NamedEntity", value="Drug", identifier="http://example.org/1")
    found = read(tmp_path, cas(token, title, named))
    assert found.entities == (
        Entity("T1", "Drug", (Range(2, 9),), attributes=(("identifier", "http://example.org/1"),)),
    )
    assert read(tmp_path, cas(token, title, named), UimaCas(words=True)).words == (Range(2, 9),)


def test_relations_have_a_head_a_tail_and_a_label(tmp_path: Path) -> None:
    relation = {
        "%TYPE": "webanno.custom.Rel",
        "begin": 11,
        "end": 16,
        "@Governor": 2,
        "@Dependent": 3,
        "label": "gives",
    }
    drug, effect = mention(3, 10, kind=PHI) | {"kind": "Drug"}, mention(11, 16) | {"kind": "ADE"}
    found = read(tmp_path, cas(drug, effect, relation))
    assert found.relations == (Relation("R1", "gives", "T1", "T2"),)
    del relation["label"]
    assert read(tmp_path, cas(drug, effect, relation)).relations[0].type == "Rel"


def test_the_feature_with_the_type_must_be_named_if_there_are_several(tmp_path: Path) -> None:
    string = {"%RANGE": "uima.cas.String"}
    types = {PHI: {"%NAME": PHI, "kind": string, "certainty": string, "count": {"%RANGE": "uima.cas.Integer"}}}
    content = cas({**mention(3, 10), "kind": "Drug", "certainty": "low"}, types=types)
    with pytest.raises(UsageError, match=rf"the layer {PHI} has several features: certainty, kind; name the one"):
        read(tmp_path, content)
    found = read(tmp_path, content, UimaCas(feature="kind"))
    assert found.entities == (Entity("T1", "Drug", (Range(2, 9),), attributes=(("certainty", "low"),)),)
    assert read(tmp_path, content, UimaCas(layer=("custom.Other",))).entities == ()


XMI = """<?xml version="{version}" encoding="UTF-8"?>
<xmi:XMI xmlns:xmi="http://www.omg.org/XMI" xmlns:cas="http:///uima/cas.ecore"
 xmlns:custom="http:///webanno/custom.ecore" xmlns:none="http:///noNamespace.ecore" xmi:version="2.0">
<cas:NULL xmi:id="0"/>
<cas:Sofa xmi:id="1" sofaNum="1" sofaID="_InitialView" mimeType="text" sofaString="&#128512; Aspirin&#10;burns."/>
<custom:PHI xmi:id="2" sofa="1" begin="3" end="10" kind="Drug"/>
<custom:PHI xmi:id="3" sofa="1" begin="11" end="16" kind="ADE"/>
<custom:Rel xmi:id="4" sofa="1" begin="11" end="16" Governor="2" Dependent="3" label="gives"/>
<none:Other xmi:id="5" sofa="1" begin="0" end="1"/>
<cas:View sofa="1" members="2 3 4 5"/></xmi:XMI>
"""


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_xmi_holds_the_same_annotations(tmp_path: Path, version: str) -> None:
    (tmp_path / "n1.xmi").write_text(XMI.format(version=version), encoding="utf-8")
    (found,) = UimaCas().read(tmp_path)
    assert found.text == "😀 Aspirin\nburns."
    assert [(e.type, e.text_in(found.text)) for e in found.entities] == [("Drug", "Aspirin"), ("ADE", "burns")]
    assert found.relations == (Relation("R1", "gives", "T1", "T2"),)


def faults(folder: Path, content: str) -> list[Problem]:
    (folder / "n1.json").write_text(content, encoding="utf-8")
    problems: list[Problem] = []
    list(UimaCas().read(folder, problems=problems.append))
    return problems


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("[1]", "is not CAS JSON: it has no list %FEATURE_STRUCTURES"),
        ('{"_views": {}}', "is the legacy form of CAS JSON; export it as UIMA CAS JSON 0.4"),
        ("[" * 100_000, "is not JSON, or is nested too deeply"),
        ('{"%FEATURE_STRUCTURES": [' + "9" * 5_000 + "]}", "is not JSON, or is nested too deeply"),
        ('{"%FEATURE_STRUCTURES": []}', "has no text of its own (sofaString); left out"),
        (json.dumps(cas(text="x") | {"%FEATURE_STRUCTURES": [3]}), "structure 1: is not an object with a %TYPE"),
        (json.dumps(cas(mention(3, 99) | {"kind": "Drug"})), "structure 2: T1 ends at 99, the text has 16 characters"),
        (json.dumps(cas(mention(-1, 3) | {"kind": "Drug"})), "structure 2: the annotation has no offsets; left out"),
        (json.dumps(cas(mention(3, 10))), "structure 2: the annotation has no type; label it, or skip faulty parts"),
        (json.dumps({"%FEATURE_STRUCTURES": [{"%TYPE": "uima.cas.Sofa", "sofaURI": "file:///etc/passwd"}]}),
         "has no text of its own (sofaString); left out"),
    ],
)  # fmt: skip
def test_faults_name_the_structure(tmp_path: Path, content: str, fault: str) -> None:
    assert fault in [problem.message for problem in faults(tmp_path, content)]


def test_a_mention_without_type_is_skipped_on_request(tmp_path: Path) -> None:
    content = cas(mention(3, 10), mention(11, 16) | {"kind": "ADE"})
    with pytest.raises(CorpusError, match=r"^n1\.json: structure 2: the annotation has no type"):
        read(tmp_path, content)
    skipped = SkippedFaults()
    (found,) = UimaCas().read(tmp_path, problems=skipped)
    assert [entity.type for entity in found.entities] == ["ADE"]
    assert len(skipped.problems) == 1


@BRIEF
@given(corpora(documents(texts=st.text(ANY_CHARACTERS, max_size=60), overlapping=True, relations=True)))
def test_round_trip(found: list[Document]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        UimaCas().write(found, Path(folder))
        if found:
            problems: list[Problem] = []
            assert list(UimaCas().read(Path(folder), problems=problems.append)) == found
            assert not [problem for problem in problems if problem.severity is Severity.ERROR]


def test_words_and_sentences_are_written(tmp_path: Path) -> None:
    note = Document("n", TEXT, words=(Range(2, 9), Range(10, 15)), sentences=(Range(2, 16),))
    UimaCas().write([note], tmp_path)
    assert list(UimaCas(words=True).read(tmp_path)) == [note]


def test_a_discontinuous_mention_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="T1 is discontinuous, which CAS cannot hold"):
        UimaCas().write([Document("n", TEXT, (Entity("T1", "a", (Range(0, 1), Range(2, 3))),))], tmp_path)


@pytest.mark.corpus
def test_letters_of_grascco(shared_data: Path, tmp_path: Path) -> None:
    """The counts are those that dkpro-cassis 0.12 finds: 1,010 annotations, one of them without a type."""
    with tarfile.open(shared_data / "grascco_phi" / "letters_cas_json.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    skipped = SkippedFaults()
    notes = list(UimaCas().read(tmp_path, problems=skipped))
    kinds = Counter(entity.type for note in notes for entity in note.entities)
    assert (len(notes), kinds.total(), kinds["DATE"], kinds["NAME_PATIENT"]) == (42, 1009, 502, 125)
    assert [(p.path.name if p.path else "", p.message[:14]) for p in skipped.problems] == [
        ("Queisser.txt_phi.json", "structure 789:")
    ]
