"""The check of a corpus: every fault with its severity, without quoting a note."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from wardround.corpora.brat import Brat
from wardround.corpora.check import LEAK_LENGTH, WHOLE, CheckReport, check
from wardround.corpora.conll import Conll
from wardround.corpora.corpus_format import Content, CorpusFormat, ProblemSink, Severity, fail_on_error
from wardround.corpora.jsonl import Jsonl
from wardround.corpora.splits import MANIFEST, Manifest
from wardround.errors import CorpusError, TextError
from wardround.text.document import Document, Entity, Range

ERROR, WARNING = Severity.ERROR, Severity.WARNING


def said(report: CheckReport) -> list[tuple[Severity, str]]:
    return [(problem.severity, problem.message) for problem in report.problems]


def entity(name: str, *ranges: tuple[int, int], kind: str = "Drug") -> Entity:
    return Entity(name, kind, tuple(Range(*r) for r in ranges))


def written(folder: Path, **splits: list[Document]) -> Path:
    for name, documents in splits.items():
        Jsonl().write(documents, folder / f"{name}.jsonl")
    return folder


def test_a_correct_corpus_has_no_problem(tmp_path: Path) -> None:
    written(tmp_path, train=[Document("a", "one", (entity("T1", (0, 3)),))], test=[Document("b", "two")])
    report = check(tmp_path, Jsonl(), types=["Drug"])
    assert (report.problems, report.errors, report.warnings) == ((), 0, 0)
    assert {name: counts.documents for name, counts in report.counts.items()} == {"train": 1, "test": 1}


def test_overlaps_nesting_and_white_space(tmp_path: Path) -> None:
    entities = (
        entity("T1", (0, 6)),
        entity("T2", (0, 3)),
        entity("T3", (4, 8)),
        entity("T4", (10, 11), (14, 15)),
        entity("T5", (12, 13)),
        entity("T6", (14, 15)),
        entity("T7", (14, 15)),
        entity("T8", (16, 18)),
    )
    written(tmp_path, x=[Document("d", "abcdefghijklmnopq r", entities)])
    report = check(tmp_path / "x.jsonl", Jsonl())
    assert said(report) == [
        (WARNING, f"document 'd': {message}")
        for message in (
            "T8 begins or ends with white space",
            "T2 is inside T1",
            "T3 overlaps T1",
            "T6 is inside T4",
            "T7 is inside T4",
        )
    ]
    assert list(report.counts) == [WHOLE]


def test_two_mentions_of_the_same_characters(tmp_path: Path) -> None:
    written(tmp_path, x=[Document("d", "abc", (entity("T1", (0, 3)), entity("T2", (0, 3), kind="ADE")))])
    assert said(check(tmp_path, Jsonl())) == [(WARNING, "document 'd': T2 marks the same characters as T1")]


def test_duplicates_leaks_and_empty_notes(tmp_path: Path) -> None:
    secret, other = "secret".ljust(LEAK_LENGTH, "!"), "other".ljust(LEAK_LENGTH, "!")
    train = [Document("a", secret), Document("b", secret), Document("c", " \n"), Document("d", "")]
    written(tmp_path, train=train, dev=[Document("e", other)], test=[Document("f", secret), Document("g", other)])
    report = check(tmp_path, Jsonl())
    assert said(report) == [
        (WARNING, "document 'b': has the same text as document 'a'"),
        (WARNING, "document 'c': the note is empty"),
        (WARNING, "document 'd': the note is empty"),
        (ERROR, "document 'f': leak: train has the same text, in document 'a'"),
        (ERROR, "document 'g': leak: dev has the same text, in document 'e'"),
    ]
    assert (report.errors, report.warnings) == (2, 3)


def test_a_short_text_in_two_splits_is_only_a_warning(tmp_path: Path) -> None:
    short = "x" * (LEAK_LENGTH - 1)
    for text in (short, f"  {short}\n"):
        written(tmp_path, train=[Document("a", text)], test=[Document("b", text)])
        expected = [(WARNING, "document 'b': is short, and train has the same text, in document 'a'")]
        assert said(check(tmp_path, Jsonl())) == expected


def test_types_that_are_not_expected(tmp_path: Path) -> None:
    written(tmp_path, x=[Document("d", "abc", (entity("T1", (0, 1)), entity("T2", (1, 2), kind="ADE")))])
    expected = [(ERROR, "1 entities have the type 'ADE', which is not expected")]
    assert said(check(tmp_path, Jsonl(), types=["Drug"])) == expected


def test_problems_of_the_reader_are_collected_and_the_next_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xff")
    (tmp_path / "b.txt").write_text("secret")
    (tmp_path / "b.ann").write_text("T1\tDrug 0 99\tx\nE1\tx:T1\n")
    (tmp_path / "c.txt").write_text("other")
    report = check(tmp_path, Brat())
    assert [(p.path.name if p.path else "", p.line, p.severity) for p in report.problems] == [
        ("a.txt", None, ERROR),
        ("b.ann", 1, ERROR),
        ("b.ann", 2, WARNING),
        ("c.txt", None, WARNING),
    ]
    assert report.counts[WHOLE].documents == 2
    assert not any("secret" in problem.message for problem in report.problems)


def test_the_split_after_an_unreadable_one_is_checked(tmp_path: Path) -> None:
    for name in ("train", "test"):
        (tmp_path / name).mkdir()
    written(tmp_path / "test", x=[Document("d", "abc")])
    report = check(tmp_path, Jsonl())
    assert said(report) == [(ERROR, "contains no file ending in .jsonl")]
    assert {name: counts.documents for name, counts in report.counts.items()} == {"train": 0, "test": 1}


def test_a_text_error_that_escapes_a_reader_is_a_problem(tmp_path: Path) -> None:
    class Careless(CorpusFormat):
        holds = frozenset[Content]()

        def read(self, path: Path, *, problems: ProblemSink = fail_on_error) -> Iterator[Document]:
            yield Document("d", "abc")
            raise TextError("contradicts itself")

    form: CorpusFormat = Careless()
    assert said(check(tmp_path, form)) == [(ERROR, "contradicts itself")]


def test_changes_since_the_corpus_was_split(tmp_path: Path) -> None:
    splits = {"train": [Document("a", "one")], "test": [Document("b", "two")]}
    written(tmp_path, **splits)
    Manifest.of(splits).write(tmp_path / MANIFEST)
    assert check(tmp_path, Jsonl()).problems == ()
    written(tmp_path, test=[Document("b", "three")])
    expected = [(ERROR, "test has changed since it was split: 1 texts are new, 1 are missing")]
    assert said(check(tmp_path, Jsonl())) == expected
    (tmp_path / MANIFEST).write_text("{}")
    assert said(check(tmp_path, Jsonl()))[0][1].startswith("is not a split manifest")


def test_a_corpus_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="does not exist"):
        check(tmp_path / "nowhere", Jsonl())


@pytest.mark.corpus
@pytest.mark.parametrize(("name", "leaks", "duplicates"), [("BC2GM", 17, 150), ("BC5CDR", 3, 43)])
def test_the_only_errors_in_real_sentences_are_sentences_in_two_splits(
    shared_data: Path, name: str, leaks: int, duplicates: int
) -> None:
    # Counted independently, over the sets of joined words: BC2GM repeats 17 sentences of 40 characters or more in a
    # later split, BC5CDR 3. Shorter ones, such as `Case report .`, are warnings: 64 in BC2GM, where 86 more occur
    # twice in a split, 35 and 8 in BC5CDR.
    report = check(shared_data / "mtl_bioinformatics_2016" / f"{name}-IOB", Conll())
    errors = [message for severity, message in said(report) if severity is ERROR]
    assert (len(errors), report.warnings) == (leaks, duplicates)
    assert all(": leak: " in message for message in errors)


@pytest.mark.corpus
def test_meddocan_and_presidio_have_no_errors(shared_data: Path) -> None:
    meddocan = check(shared_data / "meddocan" / "corpus", Brat())
    assert meddocan.problems == ()
    assert [sum(counts.entities.values()) for counts in meddocan.counts.values()] == [11_333, 5_801, 5_661]
    presidio = check(shared_data / "presidio_synth", Jsonl("presidio"))
    assert (presidio.errors, presidio.warnings) == (0, 108)  # 1,500 texts, 1,392 of them different
