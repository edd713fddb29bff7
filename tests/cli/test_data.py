"""`wardround data` at the command line."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from wardround.cli.data import app
from wardround.cli.main import main
from wardround.corpora.brat import Brat
from wardround.corpora.conll import Conll
from wardround.corpora.formats import FORMATS, open_format
from wardround.corpora.jsonl import Jsonl
from wardround.corpora.splits import MANIFEST, find_splits
from wardround.corpora.synthetic import CLINICAL_TYPES, clinical_hospitals
from wardround.errors import UsageError, WardroundError
from wardround.text.document import Document, Entity, Range, Relation

PLAIN = "Aspirin\tB-Drug\nhelps\tO\n\nNo\tO\nrash\tB-ADE\n"


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def fault(*words: str | Path) -> str:
    error = run(*words).exception
    assert isinstance(error, WardroundError)
    return f"{type(error).__name__}: {error}"


def numbers(result: Result, row: str) -> list[str]:
    """The cells of the table row that begins so."""
    lines = [line for line in result.output.splitlines() if line.startswith(f"│ {row} ")]
    return [cell.strip() for cell in lines[0].strip("│").split("│")][1:]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    for name in ("train", "test"):
        (tmp_path / f"{name}.tsv").write_text(PLAIN.replace("helps", name))
    return tmp_path


def test_check_prints_each_problem_with_its_place_and_fails(corpus: Path) -> None:
    (corpus / "test.tsv").write_text("No\tO\nrash\tI-ADE\nsecret\n")
    result = run("check", corpus, "--format", "conll", "--types", "Drug")
    assert result.exit_code == 1
    assert result.output.splitlines()[:4] == [
        "train.tsv: error: 1 entities have the type 'ADE', which is not expected",
        "test.tsv:3: error: has 1 columns separated by 'tab'; words were expected in column 0, tags in column -1",
        "test.tsv:2: warning: the tags are not legal BIO from here on; they were repaired",
        "test.tsv: warning: document 'test:1': is short, and train has the same text, in document 'train:2'",
    ]
    assert result.output.splitlines()[-1] == "3 errors, 2 warnings"
    assert "secret" not in result.output


def test_check_of_a_sound_corpus_succeeds(corpus: Path) -> None:
    result = run("check", corpus / "train.tsv", "--format", "conll", "--option", "scheme=BIO", "--types", "Drug, ADE")
    assert (result.exit_code, result.output.splitlines()[-1]) == (0, "0 errors, 0 warnings")


def test_places_are_named_below_the_checked_folder(tmp_path: Path) -> None:
    for split in ("train", "test"):
        (tmp_path / split / "ward").mkdir(parents=True)
        (tmp_path / split / "ward" / "n1.txt").write_text(split)
        (tmp_path / split / "ward" / "n1.ann").write_text("x")
    result = run("check", tmp_path, "--format", "brat")
    assert result.output.startswith("train/ward/n1.ann:1: error: ")
    assert str(tmp_path) not in result.output


def test_the_name_of_a_file_cannot_speak_to_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "\x1b]0;owned\x07.tsv").write_text("x\n")
    output = run("check", tmp_path, "--format", "conll").output
    assert output.startswith("␛]0;owned␇.tsv:1: error: ")
    assert "\x1b" not in output


def test_stats_by_split_and_type(corpus: Path) -> None:
    result = run("stats", corpus, "--format", "conll")
    assert result.exit_code == 0
    assert numbers(result, "documents") == ["2", "2"]
    assert numbers(result, "sentences") == ["2", "2"]
    assert numbers(result, "words") == ["4", "4"]
    assert numbers(result, "entities") == ["2", "2"]
    assert numbers(result, "discontinuous") == ["0", "0"]
    assert numbers(result, "relations") == ["0", "0"]
    assert numbers(result, "characters a document") == ["10.0", "9.5"]
    assert numbers(result, "ADE") == ["1", "1"]


def test_what_a_corpus_does_not_give_is_a_dash(tmp_path: Path) -> None:
    entities = (Entity("T1", "Drug", (Range(0, 1), Range(2, 3))),)
    Brat().write([Document("d", "abc", entities, (Relation("R1", "causes", "T1", "T1"),))], tmp_path)
    result = run("stats", tmp_path, "--format", "brat")
    assert numbers(result, "words") == ["–"]
    assert numbers(result, "discontinuous") == ["1"]
    assert numbers(result, "causes") == ["1"]


def test_convert_each_split_and_say_what_was_lost(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run("convert", corpus, out, "--from", "conll", "--to", "brat")
    assert result.output.splitlines() == [
        f"{split}: {rest}"
        for split in ("train", "test")
        for rest in (
            "2 documents",
            "the format brat does not hold 2 sentences",
            "the format brat does not hold 4 words",
        )
    ]
    assert [document.text for document in Brat().read(out / "train")] == ["Aspirin train", "No rash"]


def test_convert_one_file_with_options(corpus: Path, tmp_path: Path) -> None:
    target = tmp_path / "x.jsonl"
    words = ("convert", corpus / "train.tsv", target, "--from", "conll", "--to", "jsonl")
    result = run(*words, "--from-option", "word-column=0", "--to-option", "shape=spacy")
    assert result.exit_code == 0
    assert [document.text for document in Jsonl("spacy").read(target)] == ["Aspirin train", "No rash"]
    assert fault(*words) == "UsageError: x.jsonl exists already; name a new file or folder"


def test_convert_refuses_what_cannot_be_written(corpus: Path, tmp_path: Path) -> None:
    message = fault("convert", corpus, tmp_path / "o", "--from", "conll", "--to", "ade")
    assert message == (
        "UsageError: the format ade can only be read; "
        "choose one of bioc, brat, cas, conll, datasets, docbin, fhir, i2b2-2010, i2b2-2014, jsonl, labelstudio, omop, "
        "pairs, pubannotation, pubtator, smm4h"
    )


def test_split_writes_the_parts_and_their_checksums(tmp_path: Path) -> None:
    lines = "".join(f"word{number}\tO\n\n" for number in range(20))
    (tmp_path / "x.tsv").write_text(lines)
    out = tmp_path / "out"
    result = run("split", tmp_path / "x.tsv", out, "--format", "conll", "--seed", "5", "--dev", "0.2")
    assert (result.exit_code, result.output) == (0, "train 14, dev 4, test 2\n")
    assert sorted(path.name for path in out.iterdir()) == ["dev.tsv", MANIFEST, "test.tsv", "train.tsv"]
    assert len(list(Conll().read(out / "train.tsv"))) == 14
    assert run("check", out, "--format", "conll").exit_code == 0
    (out / "dev.tsv").write_text("other\tO\n")
    assert "split.json: error: dev has changed" in run("check", out, "--format", "conll").output
    assert fault("split", out, tmp_path / "o", "--format", "conll").startswith("UsageError: out is split already")


def test_a_format_that_is_only_read_is_split_into_json_lines(tmp_path: Path) -> None:
    items = ", ".join(f'{{"full_text": "text {number}", "spans": []}}' for number in range(10))
    (tmp_path / "x.json").write_text(f"[{items}]")
    words = ("--format", "jsonl", "--option", "shape=presidio", "--dev", "0")
    assert run("split", tmp_path, tmp_path / "out", *words).output == "train 9, test 1\n"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [MANIFEST, "test.jsonl", "train.jsonl"]


def test_arguments_that_do_not_fit_are_refused(corpus: Path, tmp_path: Path) -> None:
    assert fault("stats", corpus, "--format", "conl").startswith("UsageError: 'conl' is not a format – did you mean")
    assert "expected NAME=VALUE" in fault("stats", corpus, "--format", "conll", "--option", "scheme")
    message = fault("split", corpus, tmp_path / "o", "--format", "conll", "--dev", "0.5", "--test", "0.5")
    assert message == f"{UsageError.__name__}: --dev 0.5 and --test 0.5 leave nothing for training"


def lines(result: Result) -> list[str]:
    assert result.exit_code == 0
    return result.output.splitlines()


def marked(documents: Iterable[Document]) -> list[tuple[str, str, list[tuple[str, tuple[Range, ...]]]]]:
    """What brat keeps of the built-in notes."""
    return [(d.id, d.text, [(entity.type, entity.ranges) for entity in d.entities]) for d in documents]


def test_hospitals_are_written_as_brat_folders(tmp_path: Path) -> None:
    sites = clinical_hospitals(5)
    assert lines(run("hospitals", tmp_path / "own", "--seed", "5")) == [
        f"{s.name}: train {len(s.train)}, dev {len(s.dev)}, test {len(s.test)}; {', '.join(s.types)}" for s in sites
    ]
    for site in sites:
        assert find_splits(tmp_path / "own" / site.name).keys() == {"train", "dev", "test"}
        for split, documents in (("train", site.train), ("dev", site.dev), ("test", site.test)):
            assert marked(Brat().read(tmp_path / "own" / site.name / split)) == marked(documents)
    assert run("check", tmp_path / "own" / sites[0].name, "--format", "brat").exit_code == 0
    message = fault("hospitals", tmp_path / "own")
    assert message == "UsageError: own exists already; name a new file or folder"


def test_hospitals_with_the_complete_annotation(tmp_path: Path) -> None:
    first = clinical_hospitals(5)[0]
    assert lines(run("hospitals", tmp_path / "all", "--seed", "5", "--complete"))[0] == (
        f"{first.name}: train {len(first.train)}, dev {len(first.dev)}, test {len(first.test)}; "
        f"{', '.join(CLINICAL_TYPES)}"
    )
    found = marked(Brat().read(tmp_path / "all" / first.name / "test"))
    assert found == marked(first.complete.test) != marked(first.test)


STUDY = """
[study]
name = "two"
[sites.east]
data = "east"
format = "conll"
types = ["Drug", "Dose"]
scored = ["Drug", "Dose", "ADE"]
[sites.west]
data = "west"
format = "conll"
names = "west.toml"
types = ["ADE"]
"""


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A study of two wards that name things differently."""
    for ward, text in (("east", PLAIN), ("west", PLAIN.replace("B-ADE", "B-harm").replace("B-Drug", "B-drugs"))):
        (tmp_path / ward).mkdir()
        for part in ("train", "test"):
            (tmp_path / ward / f"{part}.tsv").write_text(text.replace("helps", part))
    (tmp_path / "west.toml").write_text('harm = "ADE"\n')
    (tmp_path / "study.toml").write_text(STUDY)
    return tmp_path / "study.toml"


def test_who_annotates_what(two: Path, tmp_path: Path) -> None:
    result = run("tagsets", two, "--out", tmp_path / "found.json")
    assert result.exit_code == 0
    assert numbers(result, "Drug") == ["1 / 1", "·"]
    assert numbers(result, "Dose") == ["0 / 0", "·"]
    assert numbers(result, "ADE") == ["· / 1", "1 / 1"]
    assert result.output.splitlines()[-7:] == [
        "In training notes, or · where the type is not annotated; then in test notes, where it is scored.",
        "Only east annotates Drug, Dose.",
        "Only west annotates ADE.",
        "east and west share no type.",
        "No training note has a mention of Dose, so no site teaches it.",
        "west: 2 mentions of 'drugs', which is not a type of the study – did you mean 'Drug'?; map the name.",
        "east: its training notes have types that it does not list and does not learn: ADE 1.",
    ]
    written = json.loads((tmp_path / "found.json").read_text())
    assert written["study"] == "two"
    assert written["types"]["ADE"]["east"] == {"annotated": False, "scored": True, "train": None, "test": 1}
    assert written["unknown_names"] == {"west": {"drugs": 2}}
    for word in ("Aspirin", "rash", str(tmp_path)):
        assert word not in result.output + (tmp_path / "found.json").read_text()


def test_a_table_of_tag_sets_is_written_once(two: Path, tmp_path: Path) -> None:
    (tmp_path / "found.json").write_text("mine")
    said = fault("tagsets", two, "--out", tmp_path / "found.json")
    assert said == "UsageError: found.json exists already; name a new file or folder"
    assert fault("tagsets", two, "--out", tmp_path / "found.json") == said
    assert (tmp_path / "found.json").read_text() == "mine"


def test_of_many_sites_each_has_a_row(tmp_path: Path) -> None:
    sites = "".join(f'[sites.h{number}]\ntypes = ["Drug"]\n' for number in range(13))
    (tmp_path / "study.toml").write_text(f'[study]\nname = "many"\n{sites}')
    assert numbers(run("tagsets", tmp_path / "study.toml"), "h12") == ["✓ / ✓"]


def test_the_name_of_a_type_cannot_speak_to_the_terminal(two: Path) -> None:
    (two.parent / "east" / "train.tsv").write_text("Aspirin\tB-\x1b]0;owned\x07\n")
    output = run("tagsets", two).output
    assert "owned" in output
    assert "\x1b" not in output


PAGE = Path(__file__).resolve().parents[2] / "docs" / "formats.md"


def test_the_page_shows_what_the_commands_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    blocks = re.findall(r"^```console\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 5
    for block in blocks:
        printed = ""
        for command in (line for line in block.splitlines() if line.startswith("$ ")):
            with pytest.raises(SystemExit):
                main(shlex.split(command)[2:])
            captured = capsys.readouterr()
            printed += f"{command}\n{captured.out}{captured.err}"
        assert block == printed


def test_the_page_names_every_format_and_option_with_its_default() -> None:
    rows = re.findall(r"^\| `([a-z0-9-]+)` \|(.*)\|$", PAGE.read_text(), re.MULTILINE)
    assert [name for name, _ in rows] == list(FORMATS)
    for name, row in rows:
        reads, writes, options, *_ = (cell.strip() for cell in row.split(" | "))
        assert reads == FORMATS[name].description
        assert (writes == "–") == (not open_format(name).can_write)
        said = dict(re.findall(r"`(\w+)` \(`?([^`)]+)[`)]", options))
        defaults = {field.name: str(field.default).lower() for field in fields(FORMATS[name])}
        assert {option: default.lower() for option, default in said.items()} == defaults


@pytest.mark.corpus
def test_check_of_meddocan(shared_data: Path) -> None:
    result = run("check", shared_data / "meddocan" / "corpus", "--format", "brat")
    assert result.exit_code == 0
    assert numbers(result, "entities") == ["11,333", "5,801", "5,661"]
