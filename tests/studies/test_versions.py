from __future__ import annotations

import platform
from importlib.metadata import version

from wardround.studies import versions as module
from wardround.studies.versions import versions


def test_python_ours_and_those_of_libraries() -> None:
    found = versions()
    assert found["python"] == platform.python_version()
    assert found["wardround"] == version("wardround")
    assert found["torch"] == version("torch")


def test_what_is_not_installed_is_not_told() -> None:
    assert module._version("no-package-of-this-name") == ""
    assert "" not in versions().values()
