from __future__ import annotations

import doctest
import inspect
from pathlib import Path

import pytest

import wardround

# Classes of errors, and the version, need no example.
NAMES = [name for name in wardround.__all__ if not name.endswith("Error") and name != "__version__"]


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_of_a_public_name_run(name: str, here: Path) -> None:
    public = getattr(wardround, name)
    found = [test for test in doctest.DocTestFinder(recurse=True).find(public, name, globs={}) if test.examples]
    assert found, f"{name} has no example"
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    for test in found:
        said: list[str] = []
        failed, tried = runner.run(test, out=said.append, clear_globs=False)
        assert not failed, "".join(said)
        assert tried


@pytest.mark.parametrize("name", [name for name in wardround.__all__ if name != "__version__"])
def test_a_public_name_is_documented_with_its_arguments(name: str) -> None:
    public = getattr(wardround, name)
    assert inspect.getdoc(public)
    if inspect.isfunction(public):
        required = [p for p in inspect.signature(public).parameters.values() if p.kind is p.KEYWORD_ONLY]
        if len(required) > 3:
            assert "Args:" in (public.__doc__ or "")
