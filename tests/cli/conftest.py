from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import DEV, TEST, TRAIN, Ran, Run, exit_code, train, write_site


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Call `wardround` with these words."""
    monkeypatch.setenv("COLUMNS", "120")

    def called(*words: str | Path) -> Ran:
        capsys.readouterr()
        code = exit_code(*words)
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return called


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A split corpus in brat; a test must leave it as it is."""
    return write_site(tmp_path_factory.mktemp("corpora") / "ward", train=TRAIN, dev=DEV, test=TEST)


@pytest.fixture(scope="session")
def trained(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run; a test must leave it as it is."""
    folder = tmp_path_factory.mktemp("runs") / "first"
    assert exit_code(*train(site, folder)) == 0
    return folder
