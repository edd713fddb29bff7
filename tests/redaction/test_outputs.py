from __future__ import annotations

import json
from pathlib import Path

import pytest

from wardround.corpora.formats import open_format
from wardround.corpora.i2b2_2014 import I2b2Deid
from wardround.errors import CorpusError, UsageError
from wardround.redaction.outputs import output_for
from wardround.text.document import Document, Entity, Range

NOTE = Document("ward/n1", "Mr [NAME]\r\n", (Entity("T1", "NAME", (Range(3, 9),)),))


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("text", ["notes/ward/n1.txt"]),
        ("brat", ["notes/ward/n1.ann", "notes/ward/n1.txt"]),
        ("i2b2-2014", ["notes/ward/n1.xml"]),
        ("bioc", ["notes/ward/n1.xml"]),
        ("jsonl", ["notes.jsonl"]),
    ],
)
def test_notes_are_written_in_their_original_format(tmp_path: Path, name: str, expected: list[str]) -> None:
    output = output_for(name, open_format(name), tmp_path)
    output.write(NOTE)
    output.finish()
    assert files(tmp_path) == expected


def test_text_is_written_unchanged(tmp_path: Path) -> None:
    output_for("text", open_format("text"), tmp_path).write(NOTE)
    assert (tmp_path / "notes/ward/n1.txt").read_bytes() == b"Mr [NAME]\r\n"


def test_json_lines_have_their_name_only_when_complete(tmp_path: Path) -> None:
    output = output_for("jsonl", open_format("jsonl"), tmp_path)
    output.write(NOTE)
    assert files(tmp_path) == ["notes.jsonl.partial"]
    kept = output.size
    output.write(NOTE)
    again = output_for("jsonl", open_format("jsonl"), tmp_path, keep=kept)
    again.finish()
    (line,) = (tmp_path / "notes.jsonl").read_text().splitlines()
    assert json.loads(line)["text"] == NOTE.text


def test_marks_are_annotated(tmp_path: Path) -> None:
    output_for("i2b2-2014", open_format("i2b2-2014"), tmp_path).write(Document("n1", NOTE.text.strip(), NOTE.entities))
    (read,) = I2b2Deid().read(tmp_path / "notes")
    assert [(entity.type, entity.text_in(read.text)) for entity in read.entities] == [("NAME", "[NAME]")]


@pytest.mark.parametrize(("name", "options"), [("ade", {}), ("jsonl", {"shape": "presidio"})])
def test_a_read_only_format_is_refused(tmp_path: Path, name: str, options: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=f"^{name} can only be read"):
        output_for(name, open_format(name, options), tmp_path)


@pytest.mark.parametrize("id_", ["../n1", "/n1", "a//b", ""])
def test_no_id_leads_out_of_the_folder(tmp_path: Path, id_: str) -> None:
    for name in ("text", "brat", "bioc"):
        with pytest.raises(CorpusError, match="cannot be a file name"):
            output_for(name, open_format(name), tmp_path).write(Document(id_, "text"))
    assert files(tmp_path) == []
