"""Hugging Face datasets on disk: tags by number and by name, texts with entities, splits, hostile files."""

from __future__ import annotations

import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpora.strategies import ANY_CHARACTERS, BRIEF, corpora, documents
from wardround.api.corpus import read
from wardround.corpora import datasets_folder
from wardround.corpora.corpus_format import Problem
from wardround.corpora.datasets_folder import DatasetsFolder
from wardround.errors import CorpusError, UsageError, WardroundError
from wardround.text.document import Document, Entity, Range

arrow = pytest.importorskip("pyarrow", reason="the extra datasets is not installed")
parquet = pytest.importorskip("pyarrow.parquet")

NAMES = ["O", "B-Drug", "I-Drug"]
ROWS = [
    {"id": "7", "tokens": ["Took", "lunar", "oil", "."], "ner_tags": [0, 1, 2, 0]},
    {"id": "8", "tokens": ["Slept"], "ner_tags": [0]},
]
FOUND = [
    Document(
        "7",
        "Took lunar oil .",
        (Entity("T1", "Drug", (Range(5, 14),)),),
        words=(Range(0, 4), Range(5, 10), Range(11, 14), Range(15, 16)),
    ),
    Document("8", "Slept", words=(Range(0, 5),)),
]


def table(rows: list[dict[str, Any]], names: list[str] | None = None) -> Any:
    """Return a table, with the names of the tags as the library `datasets` stores them."""
    found = arrow.Table.from_pylist(rows)
    if names is None:
        return found
    feature = {"feature": {"names": names, "_type": "ClassLabel"}, "_type": "Sequence"}
    stored = json.dumps({"info": {"features": {"ner_tags": feature}}})
    return found.replace_schema_metadata({"huggingface": stored})


def as_parquet(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(content, path)
    return path


def as_arrow(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with arrow.ipc.new_stream(str(path), content.schema) as writer:
        writer.write_table(content)
    return path


@pytest.mark.parametrize("write", [as_parquet, as_arrow])
def test_words_with_numbered_tags(tmp_path: Path, write: Any) -> None:
    ending = ".parquet" if write is as_parquet else ".arrow"
    write(tmp_path / f"a{ending}", table(ROWS, NAMES))
    write(tmp_path / f"cache-1{ending}", table(ROWS, NAMES))  # left over by an operation of the library
    assert list(DatasetsFolder().read(tmp_path)) == FOUND


def test_tags_as_text_and_other_columns(tmp_path: Path) -> None:
    rows = [{"words": ["Took", "lunar", "oil", "."], "labels": ["O", "B-Drug", "E-Drug", "O"]}]
    path = as_parquet(tmp_path / "a.parquet", table(rows))
    (found,) = DatasetsFolder(tokens="words", tags="labels", scheme="BIOES").read(path)
    assert (found.id, found.entities) == ("a:1", FOUND[0].entities)
    with pytest.raises(
        CorpusError, match="has neither a column 'tokens' nor 'text', but words, labels; --option tokens"
    ):
        list(DatasetsFolder().read(path))


def test_texts_with_entities(tmp_path: Path) -> None:
    entities = [{"start": 0, "end": 7, "label": "Drug"}, {"start": 8, "end": 99, "label": "ADE"}]
    path = as_parquet(tmp_path / "a.parquet", table([{"id": 3, "text": "Aspirin burns", "entities": entities}]))
    problems: list[Problem] = []
    (found,) = DatasetsFolder().read(path, problems=problems.append)
    assert found == Document("3", "Aspirin burns", (Entity("T1", "Drug", (Range(0, 7),)),))
    assert [p.message for p in problems] == ["row 1: T2 ends at 99, the text has 13 characters"]


def test_splits_have_the_names_of_the_hub(tmp_path: Path) -> None:
    for part in ("train", "validation", "test"):
        as_parquet(tmp_path / f"{part}-00000-of-00001.parquet", table(ROWS, NAMES))
        as_arrow(tmp_path / "saved" / part / "data-00000-of-00001.arrow", table(ROWS, NAMES))
    assert list(read(tmp_path / "saved", "datasets").parts) == ["train", "dev", "test"]
    for file in (tmp_path / "saved").rglob("*.arrow"):
        file.unlink()
    assert repr(read(tmp_path, "datasets")) == "Corpus(train 2, dev 2, test 2)"


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ({"tokens": ["secret"], "ner_tags": [7]}, "row 1: the column 'ner_tags' has no BIO tag for each word"),
        ({"tokens": ["secret"], "ner_tags": [0, 0]}, "row 1: the column 'ner_tags' has no BIO tag for each word"),
        ({"tokens": ["secret", ""], "ner_tags": [0, 0]}, "row 1: the column 'tokens' is not a list of words"),
        ({"tokens": "secret", "ner_tags": [0]}, "row 1: the column 'tokens' is not a list of words"),
        ({"tokens": ["secret"], "ner_tags": ["secret"]}, "row 1: the column 'ner_tags' has no BIO tag for each word"),
        ({"text": 3}, "row 1: the column 'text' has no text; left out"),
        ({"text": "secret", "entities": "secret"}, "row 1: the column 'entities' is not a list of entities"),
        ({"text": "secret", "entities": [{"start": 0.5}]}, "row 1: entity 1 has no start, end and label; left out"),
    ],
)
def test_columns_of_wrong_types(tmp_path: Path, row: dict[str, Any], fault: str) -> None:
    problems: list[Problem] = []
    path = as_parquet(tmp_path / "a.parquet", table([row], NAMES))
    list(DatasetsFolder().read(path, problems=problems.append))
    assert problems[0].message.startswith(fault)
    assert not any("secret" in problem.message for problem in problems)


def test_damaged_files_raise_an_error_of_ours(tmp_path: Path) -> None:
    numbers = random.Random(7)
    for write, name in ((as_parquet, "a.parquet"), (as_arrow, "a.arrow")):
        path = write(tmp_path / name, table(ROWS, NAMES))
        whole = path.read_bytes()
        damaged = [whole[:length] for length in range(0, len(whole), 60)] + [b"", b"\x00" * 100]
        damaged += [
            whole[:place] + bytes([numbers.randrange(256)]) + whole[place + 1 :]
            for place in numbers.choices(range(len(whole)), k=60)
        ]
        for content in damaged:
            path.write_bytes(content)
            try:
                list(DatasetsFolder().read(path))
            except WardroundError as error:
                assert "lunar" not in str(error)


def test_a_file_that_grows_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets_folder, "MAXIMUM_FILE", 10)
    path = as_parquet(tmp_path / "a.parquet", table(ROWS))
    with pytest.raises(CorpusError, match="is longer than 10 bytes when decompressed; split it"):
        list(DatasetsFolder().read(path))


@BRIEF
@given(corpora(documents(texts=st.text(ANY_CHARACTERS, max_size=60), overlapping=True)))
def test_round_trip(found: list[Document]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.parquet"
        DatasetsFolder().write(found, path)
        assert list(DatasetsFolder().read(path)) == found


def test_a_discontinuous_entity_is_refused(tmp_path: Path) -> None:
    entity = Entity("T1", "a", (Range(0, 1), Range(2, 3)))
    with pytest.raises(CorpusError, match=r"^a\.parquet: document 'n': T1 is discontinuous"):
        DatasetsFolder().write([Document("n", "abc", (entity,))], tmp_path / "a.parquet")
    assert not list(tmp_path.iterdir())


def test_the_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = as_parquet(tmp_path / "a.parquet", table(ROWS))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"the format datasets needs pyarrow: pip install 'wardround\[parquet\]'"):
        list(DatasetsFolder().read(path))
