from __future__ import annotations

import platform
from importlib.metadata import version

import pytest

from wardround.studies import run_folder as module
from wardround.studies.run_folder import versions


def test_python_ours_and_those_of_libraries() -> None:
    found = versions()
    assert found["python"] == platform.python_version()
    assert found["wardround"] == version("wardround")
    assert found["torch"] == version("torch")


def test_what_is_not_installed_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PACKAGES", ("torch", "no-package-of-this-name"))
    assert versions().keys() == {"python", "torch"}
