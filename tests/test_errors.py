from __future__ import annotations

from pathlib import Path

import pytest

from wardround import errors
from wardround.errors import CorpusError, MessageError, SplitError, TagError, TextError, WardroundError

DECORATION = "│├└─ "


def drawn() -> dict[str, str | None]:
    """Return each error in the tree at the top of `errors.py` with its parent."""
    found: dict[str, str | None] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        name = line.lstrip(DECORATION).split(" ")[0]
        if name.endswith("Error"):
            depth = (len(line) - len(line.lstrip(DECORATION))) // 4
            above = [*above[:depth], name]
            found[name] = above[-2] if depth else None
    return found


def test_the_error_tree_in_the_docstring_is_correct() -> None:
    assert {"TagError": "TextError", "SplitError": "CorpusError", "WardroundError": None}.items() <= drawn().items()
    for name, parent in drawn().items():
        assert getattr(errors, name).__bases__ == (getattr(errors, parent) if parent else Exception,)


def test_every_error_is_in_the_tree_and_public() -> None:
    assert drawn().keys() | {"CorpusWarning"} == set(errors.__all__)
    defined = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert defined == set(errors.__all__)
    assert issubclass(errors.CorpusWarning, UserWarning)


def test_the_base_class_catches_every_error() -> None:
    more = {
        "SpoiledSumError": {"sites": ("h1",)},
        "WithheldSeedError": {"sites": ("h1",)},
        "RefusedSumError": {"counts": True},
    }
    for name in drawn():
        with pytest.raises(WardroundError, match=r"^(sum: )?no$"):
            raise getattr(errors, name)("no", **more.get(name, {}))
    assert issubclass(TagError, TextError)


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


def test_a_message_error_has_a_code_that_may_cross_the_wire() -> None:
    assert str(MessageError("too-long")) == "too-long"
    error = MessageError("too-long", "9 of 8 bytes")
    assert (error.code, str(error)) == ("too-long", "too-long: 9 of 8 bytes")
