from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from wardround.errors import ModelError
from wardround.models.word_vectors import load_word_vectors

GLOVE = "aspirin 1 -2.5\nrash 0.25 1e-2\n"
EXPECTED = np.array([[1, -2.5], [0.25, 0.01]], dtype=np.float32)


def write(path: Path, content: str | bytes) -> Path:
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [("glove.txt", GLOVE), ("word2vec.vec", "2 2\n" + GLOVE), ("glove.txt.gz", GLOVE), ("w2v.gz", "2 2\n" + GLOVE)],
)
def test_text(tmp_path: Path, name: str, content: str) -> None:
    loaded = load_word_vectors(write(tmp_path / name, content))
    assert loaded.words == ("aspirin", "rash")
    assert loaded.vectors.dtype == np.float32
    np.testing.assert_array_equal(loaded.vectors, EXPECTED)


def test_words_of_any_alphabet(tmp_path: Path) -> None:
    loaded = load_word_vectors(write(tmp_path / "v.txt", "fièvre 1\n中 2\n\u00a0 3\n"))
    assert loaded.words == ("fièvre", "中", "\u00a0")


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_archive(tmp_path: Path, kind: type) -> None:
    np.savez_compressed(tmp_path / "v.npz", words=np.array(["aspirin", "rash"]), vectors=EXPECTED.astype(kind))
    loaded = load_word_vectors(tmp_path / "v.npz")
    assert loaded.words == ("aspirin", "rash")
    assert loaded.vectors.dtype == np.float32
    np.testing.assert_allclose(loaded.vectors, EXPECTED, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.txt", "", "v.txt contains no vectors"),
        ("v.txt", "2 2\n", "v.txt contains no vectors"),
        ("v.txt", "a 1 2\nb 1\n", "v.txt:2: 1 numbers where the first line has 2"),
        ("v.txt", "2 2\na 1 2\nb 1\n", "v.txt:3: 1 numbers where the first line has 2"),
        ("v.txt", "a 1 two\n", "v.txt is not a text file of word vectors"),
        ("v.txt", "a\n", "v.txt is not a text file of word vectors"),
        ("v.txt", b"\xff\xfe 1\n", "v.txt is not a text file of word vectors"),
        ("v.txt", "a 1 nan\n", "v.txt: a vector contains a value that is not finite"),
        ("v.txt", "a 1 inf\n", "v.txt: a vector contains a value that is not finite"),
        ("v.npz", b"", "v.npz is not a numpy archive"),
        ("v.npz", b"junk", "v.npz is not a numpy archive"),
        ("v.npz", b"PK\x03\x04 and then nothing", "v.npz is not a numpy archive"),
    ],
)
def test_damage(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    with pytest.raises(ModelError, match=f"^{message}"):
        load_word_vectors(write(tmp_path / name, content))


def test_a_packed_text_that_breaks_off(tmp_path: Path) -> None:
    whole = gzip.compress((GLOVE * 500).encode())
    for content in (whole[:-20], whole[:30] + b"\0" * 30 + whole[60:], b"not packed"):
        (tmp_path / "v.gz").write_bytes(content)
        with pytest.raises(ModelError, match=r"^v\.gz is not a text file of word vectors"):
            load_word_vectors(tmp_path / "v.gz")


def test_an_archive_that_breaks_off_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "v.npz"
    np.savez_compressed(path, words=np.array(["aspirin"] * 50), vectors=np.random.default_rng(0).random((50, 4)))
    whole = path.read_bytes()
    for size in range(0, len(whole) - 1, 97):
        path.write_bytes(whole[:size])
        with pytest.raises(ModelError):
            load_word_vectors(path)
    for place in range(30, len(whole), 41):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            load_word_vectors(path)
        except ModelError:
            pass  # refused, or a flipped bit nobody reads; never another error


def test_an_archive_that_would_run_code_is_refused(tmp_path: Path) -> None:
    words = np.array(["aspirin", {"a": "pickled object"}], dtype=object)
    np.savez(tmp_path / "v.npz", words=words, vectors=EXPECTED)
    with pytest.raises(ModelError, match="plain arrays 'words' and 'vectors'"):
        load_word_vectors(tmp_path / "v.npz")


@pytest.mark.parametrize(
    "arrays",
    [
        {"words": np.array(["a"])},
        {"vectors": EXPECTED},
        {"words": np.array(["a"]), "vectors": EXPECTED},
        {"words": np.array([["a", "b"]]), "vectors": EXPECTED},
        {"words": np.array("a"), "vectors": EXPECTED},
        {"words": np.array(["a", "b"]), "vectors": EXPECTED[0]},
        {"words": np.array(["a", "b"]), "vectors": np.array([["x"], ["y"]])},
    ],
)
def test_an_archive_of_other_arrays(tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    np.savez(tmp_path / "v.npz", **arrays)  # type: ignore[arg-type]
    shapes = r": words of shape .* do not fit vectors of shape "
    with pytest.raises(ModelError, match=rf"^v\.npz( is not a numpy archive with plain arrays|{shapes})"):
        load_word_vectors(tmp_path / "v.npz")


def test_a_single_array_is_no_archive(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", EXPECTED)
    (tmp_path / "v.npy").rename(tmp_path / "v.npz")
    with pytest.raises(ModelError, match="is not a numpy archive"):
        load_word_vectors(tmp_path / "v.npz")


def test_messages_name_the_file_but_not_its_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"^there is no word-vector file 'missing\.txt'$"):
        load_word_vectors(tmp_path / "missing.txt")
    with pytest.raises(ModelError):
        load_word_vectors(tmp_path)
