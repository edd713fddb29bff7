"""ADE Corpus V2: positions worked out by hand, faults, and the published totals."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import pytest

from wardround.corpora.ade import Ade
from wardround.corpora.corpus_format import Problem, Severity
from wardround.errors import CorpusError
from wardround.text.document import Document, Entity, Range, Relation

SENTENCE = "Rash, then more rash, on lunarol."  # rash occurs only at 16; the first word is "Rash"
TWICE = "No rash on lunarol but rash on lunarol B."


def read(folder: Path, **files: str) -> tuple[list[Document], list[Problem]]:
    names = {"effects": "DRUG-AE.rel", "doses": "DRUG-DOSE.rel", "negative": "ADE-NEG.txt"}
    for key, text in files.items():
        (folder / names[key]).write_text(text, encoding="utf-8")
    problems: list[Problem] = []
    return list(Ade().read(folder, problems=problems.append)), problems


def test_a_sentence_with_an_effect_and_a_dose_is_one_document(tmp_path: Path) -> None:
    effects = (
        f"11|{SENTENCE}|rash|116|120|lunarol|125|132\n12|Other sentence with fever on xol.|fever|21|26|xol|30|33\n"
    )
    doses = f"11|{SENTENCE}|more|111|115|lunarol|125|132\n"
    found, problems = read(tmp_path, effects=effects, doses=doses, negative="13 NEG She slept. NEG \n13 NEG Well.\n")
    assert not problems
    assert found == [
        Document(
            "11.1",
            SENTENCE,
            (
                Entity("T1", "Dosage", (Range(11, 15),)),
                Entity("T2", "Adverse-Effect", (Range(16, 20),)),
                Entity("T3", "Drug", (Range(25, 32),)),
            ),
            (Relation("R1", "drug-effect", "T3", "T2"), Relation("R2", "drug-dose", "T3", "T1")),
            attributes=(("source", "11"),),
        ),
        Document(
            "12.1",
            "Other sentence with fever on xol.",
            (Entity("T1", "Adverse-Effect", (Range(20, 25),)), Entity("T2", "Drug", (Range(29, 32),))),
            (Relation("R1", "drug-effect", "T2", "T1"),),
            attributes=(("source", "12"),),
        ),
        Document("13.neg1", "She slept. NEG ", attributes=(("source", "13"),)),
        Document("13.neg2", "Well.", attributes=(("source", "13"),)),
    ]


def test_offsets_distinguish_equal_words(tmp_path: Path) -> None:
    # The sentence begins at 500: one line means the second rash and the first lunarol, the other line both second.
    found, problems = read(
        tmp_path,
        effects=f"1|{TWICE}|rash|523|527|lunarol|511|518\n1|{TWICE}|rash|523|527|lunarol B|531|540\n",
    )
    assert not problems
    assert [(e.type, e.envelope) for e in found[0].entities] == [
        ("Drug", Range(11, 18)),
        ("Adverse-Effect", Range(23, 27)),
        ("Drug", Range(31, 40)),
    ]
    assert [(r.head, r.tail) for r in found[0].relations] == [("T1", "T2"), ("T3", "T2")]


def test_lines_of_a_sentence_need_not_be_adjacent(tmp_path: Path) -> None:
    line = f"1|{TWICE}|rash|523|527|lunarol|511|518\n"
    found, _ = read(tmp_path, effects=line + "2|Fever on xol.|Fever|9|14|xol|18|21\n" + line)
    assert [(document.id, len(document.entities), len(document.relations)) for document in found] == [
        ("1.1", 2, 2),
        ("2.1", 2, 1),
    ]


def test_equal_sentences_of_two_abstracts_are_two_documents(tmp_path: Path) -> None:
    found, _ = read(tmp_path, effects="".join(f"{n}|Fever on xol.|Fever|9|14|xol|18|21\n" for n in (1, 2, 1)))
    assert [document.id for document in found] == ["1.1", "2.1"]


def test_inconsistent_offsets_give_a_warning(tmp_path: Path) -> None:
    # 3 characters too far apart, as if a line break in the abstract became one space in the sentence.
    found, problems = read(tmp_path, effects="1|Fever on xol.|Fever|9|14|xol|21|24\n")
    assert [entity.envelope for entity in found[0].entities] == [Range(0, 5), Range(9, 12)]
    assert {problem.severity for problem in problems} == {Severity.WARNING}
    assert len(list(Ade().read(tmp_path))) == 1


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("1|Fever on xol.|Fever|9|14|xol|18", "has 7 columns"),
        ("1|Fever on xol.|Fever|9|15|xol|18|21", "do not fit its length"),
        ("1|Fever on xol.|Fever|x|14|xol|18|21", "do not fit its length"),
        ("1|Fever on xol.||9|9|xol|18|21", "do not fit its length"),
        ("1|Fever on xol.|Chill|9|14|xol|18|21", "does not occur in the sentence"),
    ],
)
def test_a_faulty_line_is_reported_and_left_out(tmp_path: Path, line: str, part: str) -> None:
    found, problems = read(tmp_path, effects=f"\n{line}\n1|Fever on xol.|Fever|9|14|xol|18|21\n")
    assert [(problem.path, problem.line) for problem in problems] == [(tmp_path / "DRUG-AE.rel", 2)]
    assert part in problems[0].message
    assert [(len(document.entities), len(document.relations)) for document in found] == [(2, 1)]


def test_negative_lines_without_the_marker_are_reported(tmp_path: Path) -> None:
    found, problems = read(tmp_path, negative="1 POS Well.\n\n2 NEG Fine.\n")
    assert [document.id for document in found] == ["2.neg1"]
    assert [problem.line for problem in problems] == [1]


def test_files_are_found_by_name_and_may_be_compressed(tmp_path: Path) -> None:
    (tmp_path / "README.txt").write_text("nothing")
    with pytest.raises(CorpusError, match="rename the file"):
        list(Ade().read(tmp_path))
    with pytest.raises(CorpusError, match=r"^README\.txt: "):
        list(Ade().read(tmp_path / "README.txt"))
    with pytest.raises(CorpusError, match=r"^ADE-NEG\.txt: cannot be opened"):
        list(Ade().read(tmp_path / "ADE-NEG.txt"))
    (tmp_path / "DRUG-AE.rel.gz").write_bytes(gzip.compress(b"1|Fever on xol.|Fever|9|14|xol|18|21\n"))
    assert len(list(Ade().read(tmp_path))) == 1


def test_the_format_can_only_be_read() -> None:
    assert not Ade().can_write


@pytest.mark.corpus
def test_the_published_totals(shared_data: Path) -> None:
    problems: list[Problem] = []
    found = list(Ade().read(shared_data / "ade_corpus_v2" / "DRUG-AE.rel", problems=problems.append))
    assert not problems
    assert len(found) == len({document.id for document in found}) == 4_272
    assert len({document.text for document in found}) == 4_271
    assert Counter(entity.type for document in found for entity in document.entities) == {
        "Adverse-Effect": 5_776,
        "Drug": 5_063,
    }
    assert Counter(r.type for document in found for r in document.relations) == {"drug-effect": 6_821}


@pytest.mark.corpus
def test_offsets_of_each_sentence_are_consistent(shared_data: Path) -> None:
    """In each sentence, all abstract offsets differ from the found positions by the same distance."""
    file = shared_data / "ade_corpus_v2" / "DRUG-AE.rel"
    places = {(d.attributes[0][1], d.text): {e.envelope for e in d.entities} for d in Ade().read(file)}
    offsets: dict[tuple[str, str], set[Range]] = {}
    for line in file.read_text().splitlines():
        source, sentence, _, *effect, _, begin, end = line.split("|")
        spans = {Range(*map(int, effect)), Range(int(begin), int(end))}
        offsets.setdefault((source, sentence), set()).update(spans)
    assert offsets.keys() == places.keys()
    for key, spans in offsets.items():
        distance = min(spans).start - min(places[key]).start
        assert {Range(start - distance, end - distance) for start, end in spans} == places[key]


@pytest.mark.corpus
def test_doses_negatives_and_the_folder(shared_data: Path) -> None:
    folder = shared_data / "ade_corpus_v2"
    doses = list(Ade().read(folder / "DRUG-DOSE.rel"))
    assert (len(doses), sum(len(document.relations) for document in doses)) == (213, 279)
    negatives = list(Ade().read(folder / "ADE-NEG.txt"))
    assert (len(negatives), len({document.id for document in negatives})) == (16_695, 16_695)
    whole = list(Ade().read(folder))
    assert len(whole) == len({document.id for document in whole}) == 4_272 + 16_695  # no sentence has only doses
    assert Counter(r.type for document in whole for r in document.relations) == {"drug-effect": 6_821, "drug-dose": 279}
