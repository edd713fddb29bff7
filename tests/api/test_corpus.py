from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.models.tiny import notes

import wardround
from wardround import Corpus, Document, Entity

NOTES = notes(10)


def test_a_corpus_is_a_sequence_of_its_notes() -> None:
    corpus = Corpus({"train": NOTES[:6], "dev": NOTES[6:8], "test": NOTES[8:]})
    assert len(corpus) == 10
    assert tuple(corpus) == NOTES
    assert (corpus[0], corpus[-1], corpus[2:4]) == (NOTES[0], NOTES[-1], NOTES[2:4])
    assert list(reversed(corpus)) == list(reversed(NOTES))
    assert NOTES[3] in corpus
    assert (corpus.train, corpus.dev, corpus.test) == (NOTES[:6], NOTES[6:8], NOTES[8:])
    assert corpus.is_split
    assert corpus.types == ("ADE", "Drug")
    assert repr(corpus) == "Corpus(train 6, dev 2, test 2)"


def test_notes_that_are_not_split_are_for_training() -> None:
    corpus = Corpus({"all": NOTES})
    assert not corpus.is_split
    assert (corpus.train, corpus.dev, corpus.test) == (NOTES, (), ())


def test_notes_may_come_from_an_iterator() -> None:
    assert len(Corpus({"all": iter(NOTES)})) == 10  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"training": NOTES}, "'training' is not a part of a corpus; there are train, dev, test, or all alone"),
        ({"all": NOTES, "train": NOTES}, "either parts called train, dev and test, or all its notes under 'all'"),
        ({"train": NOTES[0]}, "put a single one in a list"),
        ({"train": "notes"}, "put a single one in a list"),
        ({"train": ["Aspirin."]}, "notes are documents, not str"),
    ],
)
def test_parts_that_are_no_notes_are_refused(parts: Any, message: str) -> None:
    with pytest.raises(wardround.UsageError, match=message):
        Corpus(parts)


def test_the_first_notes_of_each_part() -> None:
    corpus = Corpus({"train": NOTES[:6], "dev": NOTES[6:8], "test": NOTES[8:]}).first(1)
    assert tuple(corpus) == (NOTES[0], NOTES[6], NOTES[8])
    assert len(corpus.first(0)) == 0


def test_a_split_corpus_is_written_and_read_with_its_parts(tmp_path: Path) -> None:
    corpus = wardround.split(NOTES, dev=0.2, test=0.2, seed=3)
    for format in ("brat", "jsonl"):
        place = wardround.write(corpus, tmp_path / format, format)
        assert wardround.read(place, format) == corpus
        assert tuple(wardround.read(place, format, part="dev")) == corpus.dev
    with pytest.raises(wardround.UsageError, match="has parts called train, dev, test but none called tset"):
        wardround.read(place, "jsonl", part="tset")


def test_options_of_a_format_are_keywords(tmp_path: Path) -> None:
    wardround.write(NOTES, tmp_path / "x.jsonl", "jsonl", shape="prodigy")
    assert wardround.read(tmp_path / "x.jsonl", "jsonl", shape="prodigy")[0].entities == NOTES[0].entities
    with pytest.raises(wardround.UsageError, match=r"'shpe' is not an option of .* did you mean 'shape'"):
        wardround.read(tmp_path / "x.jsonl", "jsonl", shpe="prodigy")


def test_an_unknown_format_is_refused_with_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(wardround.UsageError, match=r"brta.* – did you mean 'brat'"):
        wardround.read(tmp_path, "brta")


def test_what_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(wardround.CorpusError, match=r"^nowhere: does not exist"):
        wardround.read(tmp_path / "nowhere", "brat")
    with pytest.raises(wardround.CorpusError, match=r"^nowhere: does not exist"):
        wardround.check(tmp_path / "nowhere", "brat")


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    wardround.write(NOTES, tmp_path / "x.jsonl")
    with pytest.raises(wardround.WardroundError, match=r"x\.jsonl"):
        wardround.write(NOTES[:1], tmp_path / "x.jsonl")
    assert len(wardround.read(tmp_path / "x.jsonl", "jsonl")) == 10


def test_a_single_note_is_no_corpus(tmp_path: Path) -> None:
    with pytest.raises(wardround.UsageError, match="put a single one in a list"):
        wardround.write(NOTES[0], tmp_path / "x.jsonl")  # type: ignore[arg-type]
    assert not (tmp_path / "x.jsonl").exists()


def test_splits_are_reproducible_and_keep_equal_texts_together() -> None:
    twice = [Document(f"{number}-{copy}", f"Note {number}.") for number in range(20) for copy in "ab"]
    first, again, other = (wardround.split(twice, seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert first != other
    texts = [{note.text for note in part} for part in (first.train, first.dev, first.test)]
    assert not texts[0] & texts[1] | texts[0] & texts[2] | texts[1] & texts[2]


def test_a_split_without_a_part() -> None:
    assert dict(wardround.split(NOTES, dev=0, test=0.2).parts).keys() == {"train", "test"}


def test_wrong_splits_are_refused() -> None:
    with pytest.raises(wardround.UsageError, match=r"dev 0\.5 and test 0\.5 leave nothing for training"):
        wardround.split(NOTES, dev=0.5, test=0.5)
    with pytest.raises(wardround.CorpusError, match="is split already"):
        wardround.split(wardround.split(NOTES))


def test_a_check_counts_and_lists_problems(tmp_path: Path) -> None:
    twice = [Document("1", "Fever.", (Entity("T1", "Sign", ((0, 5),)),)), Document("2", "Fever.")]  # type: ignore[arg-type]
    path = wardround.write(twice, tmp_path / "x.jsonl")
    found = wardround.check(path, "jsonl", types=["Drug"])
    assert (found.errors, found.warnings) == (1, 1)
    assert repr(found) == "CheckResult(1 errors, 1 warnings in 2 notes)"
    shown = found._repr_html_()
    assert "Problems" in shown and "x.jsonl" in shown and "Sign" in shown
    assert "Fever" not in shown
    assert len(found.tables()) == 3
    clean = wardround.check(wardround.write(twice[:1], tmp_path / "y.jsonl"), "jsonl", types=["Sign"])
    assert (repr(clean), clean.tables()[0].title) == ("CheckResult(0 errors, 0 warnings in 1 notes)", "Corpus")


def test_tables_count_notes_by_part_and_entities_by_type() -> None:
    counts, types = Corpus({"train": NOTES[:6], "test": NOTES[6:]}).tables()
    assert dict((row[0], row[1:]) for row in counts.rows)["documents"] == (6, 4)
    assert types.rows == (("ADE", 6, 4), ("Drug", 6, 4))


def test_a_notebook_shows_counts_and_the_first_notes() -> None:
    shown = Corpus({"all": NOTES})._repr_html_()
    assert [f"<small>n{number}</small>" in shown for number in range(5)] == [True, True, True, False, False]
    assert shown.startswith("<table>")


def test_hospitals_are_the_ones_that_studies_use() -> None:
    hospitals = wardround.hospitals()
    assert list(hospitals) == ["harbour", "hillside", "riverside", "lakeside"]
    assert all(corpus.is_split and corpus.test for corpus in hospitals.values())
    assert hospitals["hillside"].types == ("ADE", "Drug", "Finding")
    assert wardround.hospitals(seed=1)["harbour"] != hospitals["harbour"]
    assert wardround.hospitals()["harbour"] == hospitals["harbour"]
    identifying = wardround.hospitals(identifying=True)
    assert list(identifying) == ["northgate", "southmere"]
    assert "PATIENT" in identifying["southmere"].types
