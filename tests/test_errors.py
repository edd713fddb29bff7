from __future__ import annotations

from pathlib import Path

import pytest

from wardround import errors
from wardround.errors import (
    CorpusError,
    ModelError,
    SplitError,
    TagError,
    TextError,
    TrainingError,
    UsageError,
    WardroundError,
)

TREE = {
    TextError: WardroundError,
    TagError: TextError,
    CorpusError: WardroundError,
    SplitError: CorpusError,
    ModelError: WardroundError,
    TrainingError: WardroundError,
    UsageError: WardroundError,
}


def test_the_tree_is_as_drawn() -> None:
    assert WardroundError.__bases__ == (Exception,)
    for error, parent in TREE.items():
        assert error.__bases__ == (parent,)
    assert {error.__name__ for error in TREE} | {"WardroundError"} == set(errors.__all__)


def test_every_error_is_in_the_drawing_under_its_parent() -> None:
    lines = (errors.__doc__ or "").splitlines()
    depth = {}
    for line in lines:
        for error in (WardroundError, *TREE):
            if line.lstrip("│├└─ ").split(" ")[0] == error.__name__:
                depth[error] = (len(line) - len(line.lstrip("│├└─ "))) // 4
    assert depth == {error: len(error.__mro__) - len(WardroundError.__mro__) for error in (WardroundError, *TREE)}


@pytest.mark.parametrize("kind", [CorpusError, SplitError])
@pytest.mark.parametrize(
    ("path", "line", "message"),
    [
        (Path("/hospital/ward 3/note.ann"), 7, "note.ann:7: T3 ends at 412"),
        (Path("/hospital/ward 3/note.ann"), None, "note.ann: T3 ends at 412"),
        ("relative/note.ann", 1, "note.ann:1: T3 ends at 412"),
        (None, None, "T3 ends at 412"),
        (None, 7, "T3 ends at 412"),
    ],
)
def test_a_corpus_error_names_the_file_and_never_the_folder(
    kind: type[CorpusError], path: Path | str | None, line: int | None, message: str
) -> None:
    error = kind("T3 ends at 412", path=path, line=line)
    assert str(error) == message
    assert "hospital" not in repr(error)
    assert (error.reason, error.line) == ("T3 ends at 412", line)
    assert error.path == (None if path is None else Path(path))


def test_the_root_catches_everything() -> None:
    for error in TREE:
        with pytest.raises(WardroundError):
            raise error("no")
