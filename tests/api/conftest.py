"""One workspace for all tests of the public API; a test that changes it takes a copy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.api.workspace import make_workspace


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with notes, a model, the run that it is from, and a study file; read only."""
    return make_workspace(tmp_path_factory.mktemp("workspace"))


@pytest.fixture
def here(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the workspace as the current folder."""
    shutil.copytree(workspace, tmp_path / "workspace")
    monkeypatch.chdir(tmp_path / "workspace")
    return tmp_path / "workspace"
