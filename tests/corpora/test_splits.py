"""Splits: found by name, made by hash, verified by checksum, refused if they leak."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpora.strategies import BRIEF
from wardround.corpora.splits import MANIFEST, Manifest, find_splits, shares, split_documents, verify
from wardround.errors import SplitError
from wardround.text.document import Document

THIRDS = {"train": 0.8, "dev": 0.1, "test": 0.1}


def notes(*texts: str) -> list[Document]:
    return [Document(f"n{number}", text) for number, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["train.tsv", "devel.tsv", "test.tsv"], {"train": "train.tsv", "dev": "devel.tsv", "test": "test.tsv"}),
        (["Train.PubTator", "Dev.PubTator"], {"train": "Train.PubTator", "dev": "Dev.PubTator"}),
        (["test/", "train/", "validation/"], {"train": "train", "dev": "validation", "test": "test"}),
        (["train.jsonl.gz", "valid.jsonl.gz"], {"train": "train.jsonl.gz", "dev": "valid.jsonl.gz"}),
        (["training/", "development/"], {"train": "training", "dev": "development"}),
        (["test.txt", "other.txt"], {}),
        (["train_dev.tsv", "test2.tsv", "README.txt"], {}),
    ],
)
def test_splits_are_found_by_name(tmp_path: Path, names: list[str], expected: dict[str, str]) -> None:
    for name in names:
        (tmp_path / name).mkdir() if name.endswith("/") else (tmp_path / name).touch()
    found = find_splits(tmp_path)
    assert {name: path.name for name, path in found.items()} == expected
    assert list(found) == [name for name in ("train", "dev", "test") if name in expected]


def test_a_file_is_not_split_and_two_candidates_are_refused(tmp_path: Path) -> None:
    for name in ("train.tsv", "dev.tsv", "devel.tsv"):
        (tmp_path / name).touch()
    assert find_splits(tmp_path / "train.tsv") == {}
    with pytest.raises(SplitError, match=r"dev\.tsv and devel\.tsv both look like the dev split"):
        find_splits(tmp_path)


def test_sizes_are_the_fractions_and_the_order_is_kept() -> None:
    documents = notes(*(f"text {number}" for number in range(20)))
    parts = split_documents(documents, THIRDS, seed=1)
    assert {name: len(part) for name, part in parts.items()} == {"train": 16, "dev": 2, "test": 2}
    for part in parts.values():
        assert part == sorted(part, key=documents.index)


def test_the_split_depends_on_the_seed_and_not_on_the_order() -> None:
    documents = notes(*(f"text {number}" for number in range(50)))
    first = split_documents(documents, THIRDS, seed=1)
    again = split_documents(reversed(documents), THIRDS, seed=1)
    other = split_documents(documents, THIRDS, seed=2)
    as_sets = [{name: {d.id for d in part} for name, part in parts.items()} for parts in (first, again, other)]
    assert as_sets[0] == as_sets[1] != as_sets[2]


@BRIEF
@given(st.lists(st.sampled_from("abcdefghij"), min_size=10, max_size=60), st.integers(0, 9))
def test_duplicates_stay_together_and_every_note_is_used_once(texts: list[str], seed: int) -> None:
    documents = notes(*texts)
    try:
        parts = split_documents(documents, {"train": 0.6, "dev": 0.2, "test": 0.2}, seed)
    except SplitError:
        assert len(set(texts)) < 4
        return
    assert sorted(d.id for part in parts.values() for d in part) == sorted(d.id for d in documents)
    homes = [{d.text for d in part} for part in parts.values()]
    assert sum(map(len, homes)) == len(set(texts))


def test_too_few_texts_are_refused() -> None:
    with pytest.raises(SplitError, match="1 different texts are too few to split: nothing is left for dev, test"):
        split_documents(notes("same", "same", "same"), THIRDS, seed=0)


def test_shares_by_largest_remainder() -> None:
    assert shares(10, {"a": 0.7, "b": 0.1 + 0.2}) == {"a": 7, "b": 3}
    assert shares(10, {"a": 0.34, "b": 0.33, "c": 0.33}) == {"a": 4, "b": 3, "c": 3}
    assert shares(0, {"a": 1.0}) == {"a": 0}
    for faulty in ({"a": 0.5}, {"a": 1.5, "b": -0.5}, {}):
        with pytest.raises(SplitError, match="add up to 1"):
            shares(10, faulty)


def test_a_manifest_survives_a_round_trip_and_contains_no_text(tmp_path: Path) -> None:
    splits = {"train": notes("secret", "secret"), "test": notes("other")}
    manifest = Manifest.of(splits)
    manifest.write(tmp_path / MANIFEST)
    assert Manifest.read(tmp_path / MANIFEST) == manifest
    content = json.loads((tmp_path / MANIFEST).read_text())
    assert "secret" not in (tmp_path / MANIFEST).read_text()
    assert {name: len(found) for name, found in content["splits"].items()} == {"train": 2, "test": 1}
    verify(Manifest.read(tmp_path / MANIFEST), splits)


def test_the_checksum_is_keyed_by_the_salt() -> None:
    # printf secret | openssl dgst -sha256 -hmac salt
    expected = "98e5340f0f4f96d2b80c2a90da0d03cf46c35e9492918cc7af73d9a39efa5981"
    assert Manifest({}, "salt").checksum("secret") == expected
    assert Manifest.of({"a": notes("x")}).checksums != Manifest.of({"a": notes("x")}).checksums


def test_changes_and_overlap_are_refused() -> None:
    manifest = Manifest.of({"train": notes("a", "a", "b"), "test": notes("c")})
    with pytest.raises(SplitError, match=r"^train has changed since it was split: 1 texts are new, 2 are missing$"):
        verify(manifest, {"train": notes("a", "d"), "test": notes("c")})
    with pytest.raises(SplitError, match="test has changed since it was split: 0 texts are new, 1 are missing"):
        verify(manifest, {"train": notes("a", "a", "b")})
    with pytest.raises(SplitError, match=r"^train and test share 1 texts; test has changed"):
        verify(manifest, {"train": notes("b", "a", "a"), "test": notes("c", "b")})


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"version": 1, "salt": "x"}',
        '{"version": 1, "salt": "x", "splits": {"train": 3}}',
        "[" * 99_999,
    ],
    ids=range(6),
)
def test_invalid_manifests_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / MANIFEST).write_text(content)
    with pytest.raises(SplitError, match="is not a split manifest"):
        Manifest.read(tmp_path / MANIFEST)


def test_a_manifest_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text('{"version": 2, "salt": "x", "splits": {}}')
    with pytest.raises(SplitError, match="version 1"):
        Manifest.read(tmp_path / MANIFEST)
